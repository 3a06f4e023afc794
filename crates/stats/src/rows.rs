//! What one worker, or all of them, look like at one moment.

use std::collections::{BTreeMap, BTreeSet};

use crate::counters::Counters;
use crate::histogram::{Percentiles, Times};

/// One end of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// An IP address, or `unix`.
    pub address: String,
    /// The port; of a unix socket the one in its name.
    pub port: u16,
}

/// What a client is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientState {
    /// It has a server.
    Active,
    /// It has brought a cancel request, which is on its way.
    ActiveCancelRequest,
    /// It has none and wants none.
    Idle,
    /// It logs in.
    Login,
    /// It waits for a server.
    Waiting,
    /// It has brought a cancel request, for which a connection is being made.
    WaitingCancelRequest,
}

/// What a server connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerState {
    /// It works for a client.
    Active,
    /// It carries a cancel request.
    ActiveCancel,
    /// It waits until a cancel request sent to it is over.
    BeingCanceled,
    /// It waits for a client.
    Idle,
    /// It logs in.
    Login,
    /// It is checked or cleaned.
    Tested,
    /// Idle for longer than `server_check_delay`.
    Used,
}

/// One client connection. Times are Unix seconds unless named otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRow {
    /// Number in the process, shared with servers.
    pub id: u64,
    /// The role it logged in as.
    pub user: String,
    /// The database it named.
    pub database: String,
    /// What it does.
    pub state: ClientState,
    /// Its end.
    pub remote: Endpoint,
    /// Our end.
    pub local: Endpoint,
    /// When it connected.
    pub connect_time: u64,
    /// When its last request came.
    pub request_time: u64,
    /// How long it has been waiting, in microseconds.
    pub wait_us: u64,
    /// The id of its server.
    pub link: Option<u64>,
    /// The process id of a client on a unix socket, else 0.
    pub remote_pid: u32,
    /// Protocol and cipher such as `TLSv1.3/TLS_AES_128_GCM_SHA256`, or empty without TLS.
    pub tls: String,
    /// Its application_name.
    pub application_name: String,
    /// Statement names it has.
    pub prepared_statements: u64,
    /// Why it keeps its server beyond its transaction, in words, several by comma; empty if it does not.
    pub pin: String,
    /// Seconds since it first had a reason to; 0 without one.
    pub pin_age_seconds: u64,
    /// What is held of its connection.
    pub buffers: Buffers,
    /// The worker it lives on.
    pub worker: usize,
}

/// One server connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRow {
    /// Number in the process, shared with clients.
    pub id: u64,
    /// The role it is logged in as.
    pub user: String,
    /// The database as clients know it.
    pub database: String,
    /// What it does.
    pub state: ServerState,
    /// The server's end.
    pub remote: Endpoint,
    /// Our end.
    pub local: Endpoint,
    /// When it was opened.
    pub connect_time: u64,
    /// When the last request went to it.
    pub request_time: u64,
    /// It is closed on release.
    pub close_needed: bool,
    /// The id of its client.
    pub link: Option<u64>,
    /// The backend's process id.
    pub remote_pid: u32,
    /// Protocol and cipher such as `TLSv1.3/TLS_AES_128_GCM_SHA256`, or empty without TLS.
    pub tls: String,
    /// application_name as last reported.
    pub application_name: String,
    /// Statements it holds.
    pub prepared_statements: u64,
    /// What is held of its connection.
    pub buffers: Buffers,
    /// The worker it lives on.
    pub worker: usize,
}

/// Bytes that are held of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Buffers {
    /// They came from it, and nobody could take them yet.
    pub received: u64,
    /// They are still to be sent to it.
    pub unsent: u64,
}

/// How many clients and servers of a pool are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// Clients with a server, or idle.
    pub cl_active: u64,
    /// Clients that wait.
    pub cl_waiting: u64,
    /// Clients whose cancel request is on its way.
    pub cl_active_cancel_req: u64,
    /// Clients whose cancel request waits.
    pub cl_waiting_cancel_req: u64,
    /// Servers with a client.
    pub sv_active: u64,
    /// Connections that carry a cancel request.
    pub sv_active_cancel: u64,
    /// Servers that wait for a cancel request to be over.
    pub sv_being_canceled: u64,
    /// Servers ready for use.
    pub sv_idle: u64,
    /// Servers idle for so long that they are checked before use.
    pub sv_used: u64,
    /// Servers being checked or cleaned.
    pub sv_tested: u64,
    /// Servers logging in.
    pub sv_login: u64,
}

/// One pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolRow {
    /// Clients and servers by state.
    pub counts: PoolCounts,
    /// How long the longest waiter has been waiting, in microseconds.
    pub maxwait_us: u64,
    /// `session`, `transaction` or `statement`.
    pub pool_mode: &'static str,
    /// `round-robin` or `disable`; empty if there is one host.
    pub load_balance_hosts: &'static str,
    /// `pool_size` in force; 0 = unlimited.
    pub size: u64,
    /// Servers that count against the limit, over all workers.
    pub servers: u64,
    /// Clients that keep their server beyond their transaction.
    pub pinned: u64,
    /// A broken invariant of the pool's books, or empty.
    pub violation: String,
    /// Clients that have a server.
    pub leased: u64,
    /// Clients of this pool, whatever they do.
    pub clients: u64,
    /// What was counted since the process began.
    pub totals: Counters,
    /// How long things took since the process began; none if nothing was measured yet.
    pub times: Option<Box<Times>>,
    /// The same of the last full period, or of the time since the beginning while none is over: what percentiles are
    /// taken of.
    pub recent: Option<Box<Times>>,
}

/// Who made an error that a client got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blame {
    /// We did.
    Pooler,
    /// PostgreSQL did.
    Server,
}

/// One worker's load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerRow {
    /// Its number.
    pub worker: usize,
    /// Clients that live on it, whatever they do.
    pub clients: u64,
    /// Server connections on it.
    pub servers: u64,
    /// Clients on it that listen to channels.
    pub listening: u64,
    /// Turns of its loop since the process began.
    pub turns: u64,
    /// Processor time that its thread has used, in microseconds.
    pub cpu_us: u64,
    /// Letters from other threads that it has not read.
    pub letters: u64,
}

/// The process as the system sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessRow {
    /// Processor time of all threads, in microseconds.
    pub cpu_us: u64,
    /// Memory in use.
    pub resident_bytes: u64,
    /// Open file descriptors.
    pub open_files: u64,
    /// As many as may be open.
    pub open_files_max: u64,
    /// When the process began, in Unix seconds.
    pub started_at: u64,
}

/// One limit and how much of it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitRow {
    /// The option that sets it.
    pub name: &'static str,
    /// The database or user that it is for; empty for one of the whole process.
    pub scope: String,
    /// Places taken.
    pub used: u64,
    /// Places there are; 0 = no limit.
    pub max: u64,
}

/// Connections to one peer, another pooler that cancel requests are forwarded to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerRow {
    /// Cancel requests on their way, each by a connection of its own.
    pub active: u64,
    /// Cancel requests for which a connection is being made.
    pub waiting: u64,
}

/// One host name in the cache of the resolver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostRow {
    /// The name.
    pub name: String,
    /// Seconds until it is looked up anew; 0 if it would be at once.
    pub ttl_seconds: u64,
    /// Its addresses; none if it has none, or the resolver failed.
    pub addresses: Vec<String>,
}

/// Memory for one kind of object. Strings and maps inside of them are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryRow {
    /// Bytes of one.
    pub size: u64,
    /// Places taken.
    pub used: u64,
    /// Places that are free.
    pub free: u64,
}

/// One certificate in use. Times are Unix seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsRow {
    /// `client` or `server`.
    pub hop: String,
    /// The database with TLS settings of its own; empty for those that hold elsewhere.
    pub database: String,
    /// `sslmode` of the hop, as configured.
    pub sslmode: String,
    /// The file it came from.
    pub file: String,
    /// Whose it is.
    pub subject: String,
    /// Who signed it.
    pub issuer: String,
    /// Valid from.
    pub not_before: i64,
    /// Valid until.
    pub not_after: i64,
    /// Whole days from now until then; negative once it has expired.
    pub days_left: i64,
    /// TLS versions offered, as configured.
    pub protocols: String,
}

/// A pool that finds its own size.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SizingRow {
    /// The database as clients know it.
    pub database: String,
    /// The role on the server.
    pub user: String,
    /// `off`, `advise` or `on`.
    pub mode: &'static str,
    /// What it is doing, in a word or a few.
    pub state: String,
    /// The size it holds or, in mode `advise`, recommends.
    pub size: u64,
    /// How many servers may be assigned now; an experiment may have moved it.
    pub limit: u64,
    /// Servers assigned.
    pub assigned: u64,
    /// Servers open.
    pub servers: u64,
    /// Bounds of the size.
    pub bounds: (u64, u64),
    /// Sizes between which the knee lies: growing paid at the first and not at the second.
    pub knee: Option<(u64, u64)>,
    /// What the last comparison showed, and its standard error.
    pub elasticity: Option<(f64, f64)>,
    /// Comparisons of two sizes since the pool began.
    pub pairs: u64,
    /// Times the size was changed by one.
    pub moves: u64,
    /// Times the limit was raised because nothing moved.
    pub stalls: u64,
    /// Times the size was cut for errors of the host.
    pub cuts: u64,
    /// The last decisions with their reasons, newest first: how many seconds ago, and what.
    pub decisions: Vec<(u64, String)>,
}

/// One database's counters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Since the process began.
    pub totals: Counters,
    /// In the last full period.
    pub period: Counters,
    /// Length of that period in microseconds; 0 if none is over yet.
    pub period_us: u64,
    /// Pins since the process began, by reason.
    pub pins: BTreeMap<&'static str, u64>,
    /// Servers in use or idle, over all pools of the database.
    pub current_connections: u64,
    /// Clients.
    pub current_client_connections: u64,
}

/// Everything at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Client connections.
    pub clients: Vec<ClientRow>,
    /// Server connections.
    pub servers: Vec<ServerRow>,
    /// Pools by (database, user).
    pub pools: BTreeMap<(String, String), PoolRow>,
    /// Counters by database.
    pub databases: BTreeMap<String, Totals>,
    /// Clients that have not finished their login.
    pub login_clients: u64,
    /// Connections that carry cancel requests.
    pub cancels: u64,
    /// Look-ups of all workers that found nothing where something had to be; every worker tells the same.
    pub broken_lookups: u64,
    /// Host names in the cache of the resolver.
    pub dns_names: u64,
    /// Host names being resolved.
    pub dns_pending: u64,
    /// Certificates in use; every worker tells the same.
    pub tls: Vec<TlsRow>,
    /// Clients in TLS, by protocol and cipher.
    pub protected: BTreeMap<String, u64>,
    /// Errors that clients got since the process began, by who made them and by SQLSTATE; a code that PostgreSQL's table
    /// does not have is under `other`, so that no statement can make up codes without end.
    pub errors: BTreeMap<(Blame, &'static str), u64>,
    /// The workers, one each.
    pub workers: Vec<WorkerRow>,
    /// The limits in force, filled in by whoever collects the workers' parts.
    pub limits: Vec<LimitRow>,
    /// Pools that find their own size, likewise.
    pub sizings: Vec<SizingRow>,
    /// The process, likewise.
    pub process: ProcessRow,
    /// What the administrator has stopped, likewise.
    pub halts: Halts,
    /// Peers to which something is on its way, by id.
    pub peers: BTreeMap<u32, PeerRow>,
    /// The cache of the resolver, filled in by whoever collects the workers' parts.
    pub hosts: Vec<HostRow>,
    /// Memory by kind of object.
    pub memory: BTreeMap<&'static str, MemoryRow>,
}

/// What the administrator has stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Halts {
    /// `PAUSE` or `KILL` of everything.
    pub all: bool,
    /// Databases that are paused by name.
    pub paused: BTreeSet<String>,
    /// Databases that take no new clients.
    pub disabled: BTreeSet<String>,
    /// `SUSPEND`.
    pub suspended: bool,
}

impl Snapshot {
    /// Adds another worker's.
    pub fn merge(&mut self, other: Self) {
        self.clients.extend(other.clients);
        self.servers.extend(other.servers);
        for (key, row) in other.pools {
            self.pools.entry(key).or_default().merge(row);
        }
        for (name, totals) in other.databases {
            self.databases.entry(name).or_default().merge(totals);
        }
        self.login_clients += other.login_clients;
        self.cancels += other.cancels;
        self.broken_lookups = self.broken_lookups.max(other.broken_lookups);
        self.dns_names = self.dns_names.max(other.dns_names);
        self.dns_pending = self.dns_pending.max(other.dns_pending);
        if self.tls.is_empty() {
            self.tls = other.tls;
        }
        for (protection, count) in other.protected {
            *self.protected.entry(protection).or_default() += count;
        }
        for (key, count) in other.errors {
            *self.errors.entry(key).or_default() += count;
        }
        self.workers.extend(other.workers);
        self.workers.sort_unstable_by_key(|row| row.worker);
        self.limits.extend(other.limits);
        self.sizings.extend(other.sizings);
        for (id, theirs) in other.peers {
            let mine = self.peers.entry(id).or_default();
            mine.active += theirs.active;
            mine.waiting += theirs.waiting;
        }
        self.hosts.extend(other.hosts);
        for (kind, theirs) in other.memory {
            let mine = self.memory.entry(kind).or_default();
            mine.size = theirs.size;
            mine.used += theirs.used;
            mine.free += theirs.free;
        }
    }
}

/// What clients of a pool felt lately.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolPercentiles {
    /// Waits for a server.
    pub wait: Percentiles,
    /// Transactions.
    pub transaction: Percentiles,
    /// Queries.
    pub query: Percentiles,
}

impl PoolRow {
    /// Percentiles of the last full period, or of the time since the beginning while none is over; zero where nothing
    /// was measured.
    #[must_use]
    pub fn percentiles(&self) -> PoolPercentiles {
        let of = |times: &Times| PoolPercentiles {
            wait: (&times.wait).into(),
            transaction: (&times.transaction).into(),
            query: (&times.query).into(),
        };
        self.recent.as_deref().map(of).unwrap_or_default()
    }

    /// Adds another worker's part of the same pool.
    pub fn merge(&mut self, other: Self) {
        let (mine, theirs) = (&mut self.counts, other.counts);
        mine.cl_active += theirs.cl_active;
        mine.cl_waiting += theirs.cl_waiting;
        mine.cl_active_cancel_req += theirs.cl_active_cancel_req;
        mine.cl_waiting_cancel_req += theirs.cl_waiting_cancel_req;
        mine.sv_active += theirs.sv_active;
        mine.sv_active_cancel += theirs.sv_active_cancel;
        mine.sv_being_canceled += theirs.sv_being_canceled;
        mine.sv_idle += theirs.sv_idle;
        mine.sv_used += theirs.sv_used;
        mine.sv_tested += theirs.sv_tested;
        mine.sv_login += theirs.sv_login;
        self.maxwait_us = self.maxwait_us.max(other.maxwait_us);
        self.pool_mode = other.pool_mode;
        self.load_balance_hosts = other.load_balance_hosts;
        self.size = other.size;
        self.servers = self.servers.max(other.servers);
        self.pinned += other.pinned;
        if self.violation.is_empty() {
            self.violation = other.violation;
        }
        self.leased += other.leased;
        self.clients += other.clients;
        self.totals += other.totals;
        add_times(&mut self.times, other.times);
        add_times(&mut self.recent, other.recent);
    }
}

fn add_times(mine: &mut Option<Box<Times>>, theirs: Option<Box<Times>>) {
    match (mine, theirs) {
        (Some(mine), Some(theirs)) => **mine += &theirs,
        (mine @ None, theirs) => *mine = theirs,
        (Some(_), None) => {}
    }
}

impl Totals {
    fn merge(&mut self, other: Self) {
        self.totals += other.totals;
        self.period += other.period;
        self.period_us = self.period_us.max(other.period_us);
        for (reason, count) in other.pins {
            *self.pins.entry(reason).or_default() += count;
        }
        self.current_connections += other.current_connections;
        self.current_client_connections += other.current_client_connections;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_all_workers_and_of_late() {
        let part = |us: u64, count: u64| {
            let mut recent = Times::default();
            recent.wait.record_many(us, count);
            PoolRow {
                recent: Some(recent.into()),
                ..PoolRow::default()
            }
        };
        let mut pool = PoolRow::default();
        assert_eq!(pool.percentiles(), PoolPercentiles::default());
        pool.merge(part(3, 94));
        pool.merge(part(1_000_000, 6));
        let PoolPercentiles { wait, query, .. } = pool.percentiles();
        assert_eq!((wait.p50_us, query.p99_us), (3, 0));
        assert!(wait.p95_us > 800_000, "{wait:?}");
    }
}
