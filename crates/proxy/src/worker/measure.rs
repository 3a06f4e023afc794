//! Figures that a worker keeps for others to read: durations, errors of clients, its own load.
//!
//! A worker changes only its own counters and takes no lock for a count. A reader of figures sends a message and gets a
//! copy ([`Worker::measure`]).

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use slotmap::SecondaryMap;
use slotmap::secondary::Entry;
use weir_pool::Moment;
use weir_session::relay::{Replied, StatementCounts};
use weir_stats::{Activity, Blame, ClientCounters, Counters, PoolRow, Snapshot, Times, WorkerRow};
use weir_wire::backend::ErrorFields;
use weir_wire::frame::HEADER_LEN;
use weir_wire::sqlstate::SqlState;

use super::Worker;
use super::ids::{ClientId, LaneId, ServerId};
use super::login_failure::refusal_code;
use super::slots::{Client, Group, Server, Stage};
use super::tables::{Link, Tables};
use crate::driver::Driver;
use crate::global::{LastError, host_name};
use crate::inspect::Detail;

/// Errors by source and SQLSTATE.
pub(super) type Errors = BTreeMap<(Blame, &'static str), u64>;

/// Code that came with PostgreSQL 17, after the release that the table of codes was made from.
const TRANSACTION_TIMEOUT: &str = "25P04";

/// Durations in a pool on one worker. Made at the first measurement: many pools never serve a client on most workers.
#[derive(Debug, Default)]
pub(super) struct Timing {
    /// Durations since the process began.
    pub(super) all: Times,
    /// Durations at the start of the current and of the last period.
    period: [Times; 2],
    /// True if a period has begun since.
    has_period: bool,
}

impl Timing {
    pub(super) fn begin_period(&mut self) {
        let [current, last] = &mut self.period;
        std::mem::swap(current, last);
        current.clone_from(&self.all);
        self.has_period = true;
    }

    /// Returns the durations of the last full period, or all until a period is over.
    fn recent(&self) -> Times {
        let [current, last] = &self.period;
        match self.has_period {
            true => current - last,
            false => self.all.clone(),
        }
    }
}

/// Counts of workers that have forgotten the pool since; kept so that no total ever falls.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    counters: Counters,
    times: Option<Box<Times>>,
    pins: BTreeMap<&'static str, u64>,
}

impl Retired {
    pub(super) fn add(&mut self, group: &mut Group) {
        self.counters += group.counters;
        for (reason, count) in &group.pins {
            *self.pins.entry(reason).or_default() += count;
        }
        if let Some(timing) = group.timing.take() {
            **self.times.get_or_insert_default() += &timing.all;
        }
    }

    /// Adds the counts to those of their database.
    pub(crate) fn show_totals(&self, snapshot: &mut Snapshot, database: &str) {
        if self.counters == Counters::default() {
            return;
        }
        let totals = snapshot.databases.entry(database.to_owned()).or_default();
        totals.totals += self.counters;
        for (reason, count) in &self.pins {
            *totals.pins.entry(reason).or_default() += count;
        }
    }

    /// Adds the counts to the row of their pool, which has this size.
    pub(crate) fn show_row(&self, snapshot: &mut Snapshot, name: (&str, &str), size: u32) {
        if self.counters == Counters::default() {
            return;
        }
        let name = (name.0.to_owned(), name.1.to_owned());
        snapshot.pools.entry(name).or_default().merge(PoolRow {
            totals: self.counters,
            times: self.times.clone(),
            size: u64::from(size),
            ..PoolRow::default()
        });
    }
}

impl Group {
    /// Returns the histograms in which durations are recorded.
    #[inline]
    pub(super) fn times(&mut self) -> &mut Times {
        &mut self.timing.get_or_insert_default().all
    }

    /// Counts messages about prepared statements.
    #[inline]
    pub(super) fn count_statements(&mut self, counts: StatementCounts) {
        self.counters.client_parses += u64::from(counts.client_parses);
        self.counters.server_parses += u64::from(counts.server_parses);
        self.counters.binds += u64::from(counts.binds);
        self.counters.statement_evictions += u64::from(counts.evictions);
    }

    /// Adds the measured durations to the pool's row.
    pub(super) fn show_times(&self, row: &mut PoolRow) {
        row.totals = self.counters;
        row.times = self.timing.as_ref().map(|timing| timing.all.clone().into());
        row.recent = self.timing.as_ref().map(|timing| timing.recent().into());
    }
}

/// Activity of one pool's connections on this worker, found in one pass over all of them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) being_cancelled: u64,
    pub(super) tested: u64,
    pub(super) idle: u64,
    /// Servers idle for longer than `server_check_delay`.
    pub(super) used: u64,
    pub(super) active: u64,
    pub(super) login: u64,
    pub(super) pinned: u64,
    /// Servers that have a client.
    pub(super) leased: u64,
    /// Servers that work on a request of a client.
    pub(super) in_query: u64,
    /// Servers that wait in a transaction of a client.
    pub(super) in_transaction: u64,
    /// Servers that a reason keeps with a client that rests.
    pub(super) kept: u64,
}

/// Connections that are visited for a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visits {
    /// All clients and all servers.
    AllClients,
    /// Servers, which are few, and the clients that use them.
    ServersOnly,
}

impl<D: Driver> Worker<D> {
    /// Returns the load of this worker. To count the clients that listen, all are visited.
    pub(super) fn load(&self, visits: Visits) -> WorkerRow {
        let is_subscriber = |(_, client): &(ClientId, &Client)| client.subscriber.is_some();
        let clients = self.tables.clients.iter();
        let visited = match visits {
            Visits::AllClients => usize::MAX,
            Visits::ServersOnly => 0,
        };
        WorkerRow {
            worker: self.number,
            clients: self.tables.clients.len() as u64,
            servers: self.tables.servers.len() as u64,
            listening: clients.take(visited).filter(is_subscriber).count() as u64,
            turns: self.turns,
            cpu_us: cpu_us(),
            messages: self.inbox.waiting() as u64,
            turn_max_us: self.stalls.longest_us(),
            statements: self.tables.registry.len() as u64,
        }
    }

    /// Returns figures of this worker for another thread.
    pub(super) fn measure(&self, detail: Detail) -> Snapshot {
        match detail {
            Detail::Digests => self.describe(true),
            Detail::Metrics => self.measure_page(),
            Detail::Rows => self.describe(false),
            Detail::Watch => self.describe_pools(Visits::ServersOnly),
        }
    }

    /// Returns the figures of this worker without a row for each connection.
    fn measure_page(&self) -> Snapshot {
        let mut snapshot = self.describe_pools(Visits::AllClients);
        let on_page = self.global.settled().settings.global.digest_metrics;
        snapshot.digests = self.digests(on_page > 0);
        if let Some(digests) = &mut snapshot.digests {
            digests.on_page = on_page;
        }
        if self.number == 0 {
            self.global.show_retired_rows(&mut snapshot);
        }
        for (_, client) in &self.tables.clients {
            if let Some(tls) = &client.identity.tls {
                let protection = tls.protection.to_string();
                *snapshot.protected.entry(protection).or_default() += 1;
            }
        }
        snapshot
    }

    /// Counts an error that a client got.
    pub(super) fn count_error(&mut self, blame: Blame, code: Option<SqlState>) {
        let code = match code {
            Some(code) if code.as_str() == TRANSACTION_TIMEOUT => TRANSACTION_TIMEOUT,
            code => code.and_then(SqlState::known).unwrap_or("other"),
        };
        *self.errors.entry((blame, code)).or_default() += 1;
    }

    /// Keeps the reason of a failed login for whoever asks why clients wait.
    pub(super) fn count_failed_login(&self, id: ServerId, error: &LastError) {
        let Some(server) = self.tables.servers.must_get(id) else {
            return;
        };
        let host = match &server.stage {
            // The port is known from the start, and a success has both.
            Stage::Resolving(name) => {
                format!("{name}:{}", server.facts.target.endpoint().port)
            }
            _ => host_name(&server.facts.target),
        };
        let code = error.body.as_deref().and_then(refusal_code);
        let code = code.as_ref().map_or("", |code| code.as_str());
        let unix = i64::try_from(self.unix(self.now)).unwrap_or(i64::MAX);
        self.global.logins.failed(host, unix, code, &error.text);
    }

    /// Counts errors of a server that were passed on.
    #[cold]
    pub(super) fn count_errors(&mut self, server_id: ServerId, count: u32) {
        let server = self.tables.servers.must_get_mut(server_id);
        let lane = server.as_ref().map(|server| server.lane);
        let codes = server.map_or_else(Vec::new, |server| server.session.take_errors());
        if let Some(lane) = lane.and_then(|lane| self.tables.lanes.must_get_mut(lane)) {
            codes.iter().for_each(|code| lane.count_refusal(*code));
        }
        self.doubt_role(server_id, &codes);
        // No client gets the errors of a mirror.
        let server = self.tables.servers.get(server_id);
        if server
            .and_then(|server| server.lease)
            .is_some_and(|id| self.tables.is_mirror(id))
        {
            return;
        }
        let unread = (count as usize).saturating_sub(codes.len());
        let all = codes.into_iter().chain(std::iter::repeat_n(None, unread));
        for code in all {
            self.count_error(Blame::Server, code);
        }
    }
}

impl Link<'_> {
    /// Counts bytes to the client, and what these replies have ended.
    pub(super) fn count(&mut self, now: Moment, bytes: usize, replied: Option<&Replied>) {
        let mut work = ClientCounters {
            bytes_sent: bytes as u64,
            ..ClientCounters::default()
        };
        self.group.counters.bytes_sent += bytes as u64;
        if let Some(replied) = replied {
            self.count_ended(now, replied, &mut work);
        }
        self.applications.count(self.client, work);
    }

    /// Counts what these replies have ended, for the pool and as work of the client.
    #[inline]
    fn count_ended(&mut self, now: Moment, replied: &Replied, work: &mut ClientCounters) {
        let (client, group) = (&mut *self.client, &mut *self.group);
        let times = &mut group.timing.get_or_insert_default().all;
        let counters = &mut group.counters;
        if replied.queries > 0 {
            client.replied_at = now;
            counters.queries += u64::from(replied.queries);
            work.queries = u64::from(replied.queries);
            let took = micros(now.since(self.server.request_at));
            counters.query_us += took;
            times.query.record_many(took, u64::from(replied.queries));
        }
        if replied.transactions > 0 {
            counters.transactions += u64::from(replied.transactions);
            let took = micros(now.since(client.transaction_at));
            counters.transaction_us += took;
            work.transactions = u64::from(replied.transactions);
            work.transaction_us = took;
            times
                .transaction
                .record_many(took, u64::from(replied.transactions));
            if group.finds_size
                && client.session.pin().is_none()
                && let Some(lane) = self.lanes.must_get_mut(client.lane)
                && let Some(counted) = &mut lane.counted
            {
                counted.record(client.class, now.since(client.transaction_at));
            }
            client.transaction_at = now;
        }
        counters.errors += u64::from(replied.errors);
        work.errors = u64::from(replied.errors);
    }
}

impl Tables {
    /// Counts the connections of each pool that has any.
    pub(super) fn tallies(&self, now: Moment) -> SecondaryMap<LaneId, Tally> {
        let mut tallies: SecondaryMap<_, Tally> = SecondaryMap::new();
        for (id, server) in &self.servers {
            let Some(tally) = tallies.entry(server.lane).map(Entry::or_default) else {
                continue;
            };
            *match server.stage {
                Stage::BeingCancelled => &mut tally.being_cancelled,
                Stage::Cleaning | Stage::Parting | Stage::Testing(_) => &mut tally.tested,
                Stage::Idle if self.is_long_idle(now, id, server) => &mut tally.used,
                Stage::Idle | Stage::Moving(_) => &mut tally.idle,
                Stage::Leased | Stage::Listening(_) | Stage::Replicating => &mut tally.active,
                _ => &mut tally.login,
            } += 1;
            let client = server.lease.and_then(|id| self.clients.must_get(id));
            tally.pinned += u64::from(client.is_some_and(|client| client.session.pin().is_some()));
            tally.leased += u64::from(client.is_some());
            if let Some(client) = client.filter(|client| client.is_replicating()) {
                match client.is_in_request() {
                    true => tally.in_query += 1,
                    false => tally.kept += 1,
                }
            }
            if let Some(client) = client.filter(|_| matches!(server.stage, Stage::Leased)) {
                match client.with_server(&server.session) {
                    Activity::InQuery => tally.in_query += 1,
                    Activity::InTransaction => tally.in_transaction += 1,
                    Activity::Pinned => tally.kept += 1,
                    Activity::Idle | Activity::Waiting(_) => {}
                }
            }
        }
        tallies
    }

    /// True if an idle server would be checked before its next use.
    pub(super) fn is_long_idle(&self, now: Moment, id: ServerId, server: &Server) -> bool {
        let lane = self.lanes.must_get(server.lane);
        lane.is_some_and(|lane| lane.shard.is_long_idle(id.into(), now))
    }

    /// Counts a client's wait for a server, successful or not.
    pub(super) fn count_wait(&mut self, now: Moment, id: ClientId) {
        let Some(client) = self.clients.must_get(id) else {
            return;
        };
        let waited = micros(now.since(client.wait_since));
        if let Some(group) = self.groups.must_get_mut(client.group) {
            group.times().wait.record(waited);
        }
    }
}

/// Returns the code in a whole ErrorResponse.
pub(super) fn code_of(message: &[u8]) -> Option<SqlState> {
    let body = message.get(HEADER_LEN..).unwrap_or_default();
    ErrorFields::parse(body).ok()?.sqlstate()
}

/// Returns whole microseconds.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the processor time of this thread. The rule about clocks does not apply: no decision depends on this value.
fn cpu_us() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(used.tv_sec).unwrap_or_default();
    seconds * 1_000_000 + u64::try_from(used.tv_nsec).unwrap_or_default() / 1_000
}
