//! Settings of one pool. A reload replaces the whole policy; nothing mutates one.

use std::time::Duration;

/// The settings of one pool, as PgBouncer names them. A snapshot: share it as `Arc<Policy>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// `pool_size`: server connections; 0 = unlimited.
    pub size: usize,
    /// `min_pool_size`: number of servers to keep open while the pool has clients.
    pub min: usize,
    /// `reserve_pool_size`: more places for clients that waited `reserve_timeout`; 0 = none.
    pub reserve: usize,
    /// `reserve_pool_timeout`; zero switches the reserve off.
    pub reserve_timeout: Duration,
    /// `server_lifetime`: an unused server older than this is closed. Zero: after every use. None: never.
    pub lifetime: Option<Duration>,
    /// `server_lifetime_jitter`: lifetimes differ from `lifetime` by this at most. None: they are up to a tenth longer.
    pub lifetime_jitter: Option<Duration>,
    /// `server_idle_timeout`: a server unused for this long is closed. None: never.
    pub idle_timeout: Option<Duration>,
    /// `server_check_delay`: a server unused for this long is checked before reuse. Zero: always.
    pub check_delay: Duration,
    /// `query_wait_timeout`: a client waiting for this long is failed. None: never.
    pub wait_timeout: Option<Duration>,
    /// `query_wait_notify`: a client waiting for this long gets one notice. None: never.
    pub wait_notify: Option<Duration>,
    /// `server_login_retry`: time for which new clients fail fast after a failed login, and the longest pause between
    /// login attempts.
    pub login_retry: Duration,
    /// `failover_hold`: time after which clients fail that have waited for a host that had served before and cannot be
    /// reached now. They wait for any other host up to `wait_timeout`. Zero: they fail at once, whatever the host.
    pub hold: Duration,
    /// `min_time_between_holds`: an outage that begins sooner after the one before has no hold.
    pub between_holds: Duration,
    /// `server_round_robin`: use the server that was unused longest instead of the warmest.
    pub round_robin: bool,
    /// Counts assigned servers against [`Shared::set_limit`](crate::Shared::set_limit).
    pub limits_assigned: bool,
    /// Keeps `min` servers even without clients (a database with a forced user).
    pub keep_min_without_clients: bool,
}

impl Policy {
    /// Maximum number of servers that this policy ever allows: size plus reserve; `usize::MAX` when unlimited.
    #[must_use]
    pub fn ceiling(&self) -> usize {
        if self.size == 0 {
            usize::MAX
        } else {
            self.size.saturating_add(self.usable_reserve())
        }
    }

    /// The reserve that can be used: 0 if its timeout is zero.
    pub(crate) fn usable_reserve(&self) -> usize {
        if self.reserve_timeout.is_zero() {
            0
        } else {
            self.reserve
        }
    }
}

impl Default for Policy {
    /// PgBouncer's defaults.
    fn default() -> Self {
        Self {
            size: 20,
            min: 0,
            reserve: 0,
            reserve_timeout: Duration::from_secs(5),
            lifetime: Some(Duration::from_secs(3600)),
            lifetime_jitter: None,
            idle_timeout: Some(Duration::from_secs(600)),
            check_delay: Duration::from_secs(30),
            wait_timeout: Some(Duration::from_secs(120)),
            wait_notify: Some(Duration::from_secs(5)),
            login_retry: Duration::from_secs(15),
            hold: Duration::ZERO,
            between_holds: Duration::from_secs(60),
            round_robin: false,
            limits_assigned: false,
            keep_min_without_clients: false,
        }
    }
}
