//! Counters per database, and their averages over the last full period.

use std::ops::{AddAssign, Sub};

/// Running totals since the process began. Times in microseconds, sizes in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Leases: how many times a client was given a server.
    pub server_assignments: u64,
    /// Transactions that ended.
    pub transactions: u64,
    /// Answered requests: a Query, or the messages up to a Sync.
    pub queries: u64,
    /// Bytes from clients.
    pub bytes_received: u64,
    /// Bytes to clients.
    pub bytes_sent: u64,
    /// Time that servers spent in transactions of clients.
    pub transaction_us: u64,
    /// Time that servers spent on requests.
    pub query_us: u64,
    /// Time that clients spent waiting for a server.
    pub wait_us: u64,
    /// Parse messages of clients for named statements.
    pub client_parses: u64,
    /// Parse messages sent to servers for named statements of clients.
    pub server_parses: u64,
    /// Bind messages of clients.
    pub binds: u64,
    /// Successful logins of clients.
    pub client_logins: u64,
    /// Errors sent to clients, from servers and from Weir itself.
    pub errors: u64,
    /// Notifications sent to clients, received on the connections that listen for them.
    pub notifications: u64,
    /// Clients disconnected because their backlog of notifications exceeded its limit.
    pub listen_overflows: u64,
    /// Pins: how many times a client began to keep its server beyond the transaction.
    pub pins: u64,
    /// Queries to servers about session state, for any reason.
    pub state_questions: u64,
    /// Session state that only `session_state_check` found: no statement had indicated it.
    pub state_misses: u64,
    /// Statements that servers had to forget to make room (`max_prepared_statements`).
    pub statement_evictions: u64,
    /// Clients whose wait for a server has ended with `query_wait_timeout`.
    pub wait_timeouts: u64,
    /// Server connections that were opened.
    pub server_logins: u64,
    /// Server connections that ended without Weir having closed them.
    pub servers_lost: u64,
}

impl Counters {
    fn combine(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            server_assignments: f(self.server_assignments, other.server_assignments),
            transactions: f(self.transactions, other.transactions),
            queries: f(self.queries, other.queries),
            bytes_received: f(self.bytes_received, other.bytes_received),
            bytes_sent: f(self.bytes_sent, other.bytes_sent),
            transaction_us: f(self.transaction_us, other.transaction_us),
            query_us: f(self.query_us, other.query_us),
            wait_us: f(self.wait_us, other.wait_us),
            client_parses: f(self.client_parses, other.client_parses),
            server_parses: f(self.server_parses, other.server_parses),
            binds: f(self.binds, other.binds),
            client_logins: f(self.client_logins, other.client_logins),
            errors: f(self.errors, other.errors),
            notifications: f(self.notifications, other.notifications),
            listen_overflows: f(self.listen_overflows, other.listen_overflows),
            pins: f(self.pins, other.pins),
            state_questions: f(self.state_questions, other.state_questions),
            state_misses: f(self.state_misses, other.state_misses),
            statement_evictions: f(self.statement_evictions, other.statement_evictions),
            wait_timeouts: f(self.wait_timeouts, other.wait_timeouts),
            server_logins: f(self.server_logins, other.server_logins),
            servers_lost: f(self.servers_lost, other.servers_lost),
        }
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        *self = self.combine(other, u64::wrapping_add);
    }
}

impl Sub for Counters {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        self.combine(earlier, u64::saturating_sub)
    }
}

/// Averages of the last full period, as PgBouncer shows them: counts and bytes per second, times per transaction,
/// query or wait in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Averages {
    /// Leases per second.
    pub server_assignments: u64,
    /// Transactions per second.
    pub transactions: u64,
    /// Queries per second.
    pub queries: u64,
    /// Bytes from clients per second.
    pub bytes_received: u64,
    /// Bytes to clients per second.
    pub bytes_sent: u64,
    /// Microseconds per transaction.
    pub transaction_us: u64,
    /// Microseconds per query.
    pub query_us: u64,
    /// Microseconds waited per lease.
    pub wait_us: u64,
    /// Named Parse messages of clients per second.
    pub client_parses: u64,
    /// Parse messages to servers per second.
    pub server_parses: u64,
    /// Bind messages per second.
    pub binds: u64,
    /// Logins per second.
    pub client_logins: u64,
}

impl Averages {
    /// Averages of `counted` over a period of `period_us` microseconds; all zero for an empty period.
    pub fn of(counted: &Counters, period_us: u64) -> Self {
        let per_second = |count: u64| {
            let scaled = u128::from(count) * 1_000_000 / u128::from(period_us.max(1));
            if period_us == 0 {
                0
            } else {
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
        };
        let per = |total: u64, count: u64| total.checked_div(count).unwrap_or(0);
        Self {
            server_assignments: per_second(counted.server_assignments),
            transactions: per_second(counted.transactions),
            queries: per_second(counted.queries),
            bytes_received: per_second(counted.bytes_received),
            bytes_sent: per_second(counted.bytes_sent),
            transaction_us: per(counted.transaction_us, counted.transactions),
            query_us: per(counted.query_us, counted.queries),
            wait_us: per(counted.wait_us, counted.server_assignments),
            client_parses: per_second(counted.client_parses),
            server_parses: per_second(counted.server_parses),
            binds: per_second(counted.binds),
            client_logins: per_second(counted.client_logins),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_per_second_and_times_per_event() {
        let counted = Counters {
            transactions: 120,
            queries: 240,
            transaction_us: 1200,
            bytes_sent: 6000,
            ..Counters::default()
        };
        let averages = Averages::of(&counted, 60_000_000);
        assert_eq!((averages.transactions, averages.queries), (2, 4));
        assert_eq!((averages.transaction_us, averages.bytes_sent), (10, 100));
        assert_eq!(averages.wait_us, 0);
    }

    #[test]
    fn an_empty_period_has_no_averages() {
        let counted = Counters {
            queries: 5,
            ..Counters::default()
        };
        assert_eq!(Averages::of(&counted, 0).queries, 0);
    }
}
