//! Rows that describe one worker, or all of them, at one moment.

use std::collections::{BTreeMap, BTreeSet};

use crate::activity::{
    Activity, ApplicationKey, ApplicationRow, ClientCounters, ConditionRow, Draining, EventRow,
    FailedReload, HolderRow, HostLogins, PoolActivity,
};
use crate::counters::Counters;
use crate::digests::DigestRows;
use crate::driver::DriverInUse;
use crate::histogram::{Percentiles, Times};
use crate::mirrors::MirrorRow;
use crate::routed::{HostCounters, RouteCounts, RouteKey, RuleCounts, RuleRow};
use crate::statements::{StatementCounts, StatementRow};

/// End of a connection: address and port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// An IP address, or `unix`.
    pub address: String,
    /// The port; for a unix socket, the port in its name.
    pub port: u16,
}

/// State of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientState {
    /// Has a server.
    Active,
    /// Sent a cancel request, which is being forwarded.
    ActiveCancelRequest,
    /// Has no server and needs none.
    Idle,
    /// Is logging in.
    Login,
    /// Waits for a server.
    Waiting,
    /// Sent a cancel request, for which a connection is being opened.
    WaitingCancelRequest,
}

/// State of a server connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerState {
    /// Works for a client.
    Active,
    /// Carries a cancel request.
    ActiveCancel,
    /// Waits for the end of a cancel request that was sent to it.
    BeingCanceled,
    /// Waits for a client.
    Idle,
    /// Is logging in.
    Login,
    /// Is being checked or cleaned.
    Tested,
    /// Idle for longer than `server_check_delay`.
    Used,
}

/// Client connection. Times are Unix seconds unless stated otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRow {
    /// Number in the process; clients and servers share one sequence.
    pub id: u64,
    /// Role that the client logged in as.
    pub user: String,
    /// Database that the client named.
    pub database: String,
    /// Replication that the client asked for, in PgBouncer's word: `logical`, `none` or `physical`.
    pub replication: &'static str,
    /// State of the client.
    pub state: ClientState,
    /// Client's end of the connection.
    pub remote: Endpoint,
    /// Weir's end of the connection.
    pub local: Endpoint,
    /// Time of the connect.
    pub connect_time: u64,
    /// Time at which the last request arrived.
    pub request_time: u64,
    /// Duration of the current wait, in microseconds.
    pub wait_us: u64,
    /// Activity of a client that has logged in; none for the console's, and for cancel requests.
    pub activity: Option<Activity>,
    /// Duration of that activity, in microseconds.
    pub activity_us: u64,
    /// Id of the client's server.
    pub link: Option<u64>,
    /// The process id of a client on a unix socket, else 0.
    pub remote_pid: u32,
    /// Protocol and cipher such as `TLSv1.3/TLS_AES_128_GCM_SHA256`, or empty without TLS.
    pub tls: String,
    /// The client's application_name.
    pub application_name: String,
    /// Number of names of prepared statements that the client has.
    pub prepared_statements: u64,
    /// Reasons why the client keeps its server beyond its transaction, in words, separated by commas; empty without a
    /// pin.
    pub pin: String,
    /// Seconds since the first of these reasons arose; 0 without one.
    pub pin_age_seconds: u64,
    /// Counters since the client has logged in.
    pub counters: ClientCounters,
    /// Bytes buffered for this connection.
    pub buffers: Buffers,
    /// Worker that owns the connection.
    pub worker: usize,
}

/// Server connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRow {
    /// Number in the process; clients and servers share one sequence.
    pub id: u64,
    /// Role that the connection is logged in as.
    pub user: String,
    /// The database as clients know it.
    pub database: String,
    /// Replication that the connection is for, in PgBouncer's word.
    pub replication: &'static str,
    /// State of the server.
    pub state: ServerState,
    /// The server's end.
    pub remote: Endpoint,
    /// Weir's end of the connection.
    pub local: Endpoint,
    /// Time at which the connection was opened.
    pub connect_time: u64,
    /// Time at which the last request was sent.
    pub request_time: u64,
    /// True if the connection is closed on release.
    pub close_needed: bool,
    /// Id of the client that uses this server.
    pub link: Option<u64>,
    /// The backend's process id.
    pub remote_pid: u32,
    /// Protocol and cipher such as `TLSv1.3/TLS_AES_128_GCM_SHA256`, or empty without TLS.
    pub tls: String,
    /// application_name as last reported by the server.
    pub application_name: String,
    /// Number of prepared statements on the server.
    pub prepared_statements: u64,
    /// Bytes buffered for this connection.
    pub buffers: Buffers,
    /// Worker that owns the connection.
    pub worker: usize,
}

/// Bytes buffered for one connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Bytes received from this peer that the other side has not taken yet.
    pub received: u64,
    /// Bytes not sent to this peer yet.
    pub unsent: u64,
}

/// Number of clients and servers of a pool in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// Clients that have a server, or are idle.
    pub cl_active: u64,
    /// Clients that wait for a server.
    pub cl_waiting: u64,
    /// Clients whose cancel request is being forwarded.
    pub cl_active_cancel_req: u64,
    /// Clients whose cancel request waits.
    pub cl_waiting_cancel_req: u64,
    /// Servers that have a client.
    pub sv_active: u64,
    /// Connections that carry a cancel request.
    pub sv_active_cancel: u64,
    /// Servers that wait for the end of a cancel request.
    pub sv_being_canceled: u64,
    /// Servers that are ready for use.
    pub sv_idle: u64,
    /// Servers idle for so long that they are checked before use.
    pub sv_used: u64,
    /// Servers being checked or cleaned.
    pub sv_tested: u64,
    /// Servers logging in.
    pub sv_login: u64,
}

/// State of one pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolRow {
    /// Clients and servers by state.
    pub counts: PoolCounts,
    /// Longest current wait of a client, in microseconds.
    pub maxwait_us: u64,
    /// `session`, `transaction` or `statement`.
    pub pool_mode: &'static str,
    /// `round-robin` or `disable`; empty for a single host.
    pub load_balance_hosts: &'static str,
    /// `pool_size` in force; 0 = unlimited.
    pub size: u64,
    /// Servers that count against the limit, over all workers.
    pub servers: u64,
    /// Clients that keep their server beyond their transaction.
    pub pinned: u64,
    /// Broken invariant of the pool's books; empty if there is none.
    pub violation: String,
    /// Clients that have a server.
    pub leased: u64,
    /// Clients of this pool, in any state.
    pub clients: u64,
    /// Clients by activity.
    pub activity: PoolActivity,
    /// Counters since the process began.
    pub totals: Counters,
    /// Latencies since the process began; none if nothing was measured yet.
    pub times: Option<Box<Times>>,
    /// Latencies of the last full period, or since the beginning until the first period is over. Percentiles are
    /// taken from these.
    pub recent: Option<Box<Times>>,
}

/// Origin of an error that a client received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blame {
    /// Weir raised the error.
    Pooler,
    /// PostgreSQL raised the error.
    Server,
}

/// Load of one worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerRow {
    /// Number of the worker.
    pub worker: usize,
    /// Clients of this worker, in any state.
    pub clients: u64,
    /// Server connections of this worker.
    pub servers: u64,
    /// Clients of this worker that listen to channels.
    pub listening: u64,
    /// Turns of the event loop since the process began.
    pub turns: u64,
    /// Processor time used by the worker's thread, in microseconds.
    pub cpu_us: u64,
    /// Messages from other threads that the worker has not read yet.
    pub messages: u64,
    /// Longest turn of the event loop in this and the last period of the statistics, in microseconds, without its waiting
    /// for events.
    pub turn_max_us: u64,
    /// Distinct statements that clients of this worker have prepared.
    pub statements: u64,
}

/// The process as the operating system sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessRow {
    /// Processor time of all threads, in microseconds.
    pub cpu_us: u64,
    /// Resident memory.
    pub resident_bytes: u64,
    /// Open file descriptors.
    pub open_files: u64,
    /// Limit on open file descriptors.
    pub open_files_max: u64,
    /// Start of the process, in Unix seconds.
    pub started_at: u64,
    /// Limit of the control group on memory; 0 if there is none or it cannot be read.
    pub memory_max: u64,
    /// Periods in which the control group took the processor away.
    pub throttled: u64,
}

/// A limit and its usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitRow {
    /// Option that sets the limit.
    pub name: &'static str,
    /// Database or user that the limit applies to; empty if it applies to the whole process.
    pub scope: String,
    /// Places taken.
    pub used: u64,
    /// Limit; 0 = unlimited.
    pub max: u64,
    /// Most places that were taken at once; none if that is not known yet.
    pub peak: Option<Peak>,
}

/// Highest usage of a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peak {
    /// Most places taken at once since the process began.
    pub used: u64,
    /// Time of that in Unix seconds.
    pub at: i64,
    /// Most places taken at once in the last hour.
    pub used_in_hour: u64,
}

/// Connections to one peer, another pooler that cancel requests are forwarded to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerRow {
    /// Cancel requests being forwarded, each on a connection of its own.
    pub active: u64,
    /// Cancel requests for which a connection is being opened.
    pub waiting: u64,
}

/// A host name in the resolver's cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostRow {
    /// The name.
    pub name: String,
    /// Seconds until the name is looked up again; 0 if the next use looks it up.
    pub ttl_seconds: u64,
    /// Addresses of the host; empty if it has none or the lookup failed.
    pub addresses: Vec<String>,
}

/// Memory for one kind of object, without the strings and maps inside the objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryRow {
    /// Bytes per object.
    pub size: u64,
    /// Places taken.
    pub used: u64,
    /// Free places.
    pub free: u64,
}

/// A certificate in use. Times are Unix seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsRow {
    /// `client` or `server`.
    pub side: String,
    /// Database that has TLS settings of its own; empty for the global settings.
    pub database: String,
    /// `sslmode` of this side, as configured.
    pub sslmode: String,
    /// File that holds the certificate.
    pub file: String,
    /// Subject of the certificate.
    pub subject: String,
    /// Issuer of the certificate.
    pub issuer: String,
    /// Valid from.
    pub not_before: i64,
    /// Valid until.
    pub not_after: i64,
    /// Whole days until the certificate expires; negative once it has expired.
    pub days_left: i64,
    /// TLS versions offered, as configured.
    pub protocols: String,
}

/// A pool that determines its own size.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SizingRow {
    /// The database as clients know it.
    pub database: String,
    /// The role on the server.
    pub user: String,
    /// `off`, `advise` or `on`.
    pub mode: &'static str,
    /// State in one or a few words.
    pub state: String,
    /// Current size or, in mode `advise`, the recommended size.
    pub size: u64,
    /// Maximum of servers that may be assigned now; an experiment may have changed it.
    pub limit: u64,
    /// Servers assigned.
    pub assigned: u64,
    /// Servers open.
    pub servers: u64,
    /// Bounds of the size.
    pub bounds: (u64, u64),
    /// Sizes between which the knee lies: growing still paid off at the first, and no longer at the second.
    pub knee: Option<(u64, u64)>,
    /// Result of the last comparison, and its standard error.
    pub elasticity: Option<(f64, f64)>,
    /// Comparisons of two sizes since the pool began.
    pub pairs: u64,
    /// Times the size was changed by one.
    pub moves: u64,
    /// Times the limit was raised because nothing moved.
    pub stalls: u64,
    /// Times the size was reduced because of errors of the host.
    pub cuts: u64,
    /// Last decisions, newest first.
    pub decisions: Vec<SizingDecision>,
}

/// Decision about the size of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SizingDecision {
    /// Time since the decision, in seconds.
    pub age_seconds: u64,
    /// Size before.
    pub from: u64,
    /// Size after; equal to `from` if the decision was to stay.
    pub to: u64,
    /// Reason: one sentence without a full stop.
    pub reason: String,
}

impl std::fmt::Display for SizingDecision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            age_seconds,
            from,
            to,
            reason,
        } = self;
        write!(f, "{age_seconds} s ago ")?;
        if from == to {
            write!(f, "stays {to}: {reason}")
        } else {
            write!(f, "{from} -> {to}: {reason}")
        }
    }
}

/// Host of a database that has several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatabaseHostRow {
    /// The database as clients know it.
    pub database: String,
    /// Address and port, as configured.
    pub host: String,
    /// `primary`, `replica` or `unknown`, as the host itself answers.
    pub role: &'static str,
    /// State in one word; `up` if the host answers.
    pub state: &'static str,
    /// True if the host takes the writes of the database.
    pub takes_writes: bool,
    /// True if the host may take reads.
    pub takes_reads: bool,
    /// Age of the role and state, in seconds.
    pub since_seconds: u64,
    /// Timeline; 0 if unknown.
    pub timeline: u32,
    /// Number of the host's present life; it grows with each restart and change of role.
    pub generation: u32,
    /// WAL that the host has not replayed, in bytes.
    pub lag_bytes: Option<u64>,
    /// Age of the host's data, in microseconds.
    pub lag_us: Option<u64>,
    /// Weight for reads.
    pub weight: u32,
    /// Availability zone; empty if none is configured.
    pub az: String,
    /// Open server connections of all pools.
    pub servers: u64,
    /// Duration of the last answered probe, in microseconds.
    pub probe_us: Option<u64>,
    /// Last error of a probe; empty if there was none.
    pub last_error: String,
    /// Requests sent to the host.
    pub counters: HostCounters,
}

/// Counters of one database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Counters since the process began.
    pub totals: Counters,
    /// Counters of the last full period.
    pub period: Counters,
    /// Length of that period in microseconds; 0 if none is over yet.
    pub period_us: u64,
    /// Pins since the process began, by reason.
    pub pins: BTreeMap<&'static str, u64>,
    /// Servers in use or idle, over all pools of the database.
    pub current_connections: u64,
    /// Client connections.
    pub current_client_connections: u64,
}

/// State of one worker, or of all, at one moment.
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
    /// Counters of the console's clients.
    pub console: Totals,
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
    /// Certificates in use; every worker reports the same list.
    pub tls: Vec<TlsRow>,
    /// Clients that use TLS, by protocol and cipher.
    pub protected: BTreeMap<String, u64>,
    /// Errors that clients received since the process began, by origin and SQLSTATE. A code that is missing from
    /// PostgreSQL's table counts as `other`, so that statements cannot create an unbounded number of codes.
    pub errors: BTreeMap<(Blame, &'static str), u64>,
    /// Servers that clients have held for long.
    pub holders: Vec<HolderRow>,
    /// Clients by database, user and application_name.
    pub applications: BTreeMap<ApplicationKey, ApplicationRow>,
    /// Load of each worker.
    pub workers: Vec<WorkerRow>,
    /// Limits in force. The collector of the workers' snapshots fills this in.
    pub limits: Vec<LimitRow>,
    /// Pools that determine their own size. Filled in by the collector.
    pub sizings: Vec<SizingRow>,
    /// The process. Filled in by the collector.
    pub process: ProcessRow,
    /// Stops that the administrator has ordered. Filled in by the collector.
    pub halts: Halts,
    /// Peers to which cancel requests are being forwarded, by id.
    pub peers: BTreeMap<u32, PeerRow>,
    /// Cache of the resolver. Filled in by the collector.
    pub hosts: Vec<HostRow>,
    /// Counts of routers, by the entry in `[databases]` and the number of the host.
    pub routed: BTreeMap<(String, u32), HostCounters>,
    /// Statements and their routes.
    pub routes: BTreeMap<RouteKey, RouteCounts>,
    /// Counts of query rules by name.
    pub rule_counts: BTreeMap<String, RuleCounts>,
    /// Query rules in the order in which they are asked. Filled in by the collector.
    pub rules: Vec<RuleRow>,
    /// Mirrors, in the order of their names. The process has them once.
    pub mirrors: Vec<MirrorRow>,
    /// Counts of the lists of statements by user. Filled in by the collector.
    pub statement_counts: Vec<StatementCounts>,
    /// Statements of these lists, and others that their users have sent. Filled in by the collector.
    pub statements: Vec<StatementRow>,
    /// Digests, if they were asked for and statements are counted.
    pub digests: Option<Box<DigestRows>>,
    /// Hosts of databases that have several. Filled in by the collector.
    pub database_hosts: Vec<DatabaseHostRow>,
    /// Logins at servers, by host and port. Filled in by the collector.
    pub logins: BTreeMap<String, HostLogins>,
    /// Conditions that hold. Filled in by the collector.
    pub conditions: Vec<ConditionRow>,
    /// Events, newest first. Filled in by the collector.
    pub events: Vec<EventRow>,
    /// Last reload, if it failed. Filled in by the collector.
    pub failed_reload: Option<FailedReload>,
    /// Driver of the workers. Filled in by the collector.
    pub driver: Option<DriverInUse>,
    /// Shutdown or upgrade in progress. Filled in by the collector.
    pub draining: Option<Draining>,
    /// Unix time in seconds of the snapshot. Filled in by the collector.
    pub unix: i64,
    /// Memory by kind of object.
    pub memory: BTreeMap<&'static str, MemoryRow>,
}

/// Stops that the administrator has ordered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Halts {
    /// True after `PAUSE` or `KILL` without a database.
    pub all: bool,
    /// Databases that are paused by name.
    pub paused: BTreeSet<String>,
    /// Databases whose writes are paused until another host takes them.
    pub writes: BTreeMap<String, PausedWrites>,
    /// Databases that take no new clients.
    pub disabled: BTreeSet<String>,
    /// True after `SUSPEND`.
    pub suspended: bool,
}

/// Host whose clients wait, because the administrator is about to make another one the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PausedWrites {
    /// Number of the host that took the writes.
    pub host: u32,
    /// Timeline of that host.
    pub timeline: u32,
}

impl Snapshot {
    /// Adds the snapshot of another worker.
    pub fn merge(&mut self, other: Self) {
        self.clients.extend(other.clients);
        self.servers.extend(other.servers);
        for (key, row) in other.pools {
            self.pools.entry(key).or_default().merge(row);
        }
        for (name, totals) in other.databases {
            self.databases.entry(name).or_default().merge(totals);
        }
        self.console.merge(other.console);
        self.login_clients += other.login_clients;
        self.cancels += other.cancels;
        self.broken_lookups = self.broken_lookups.max(other.broken_lookups);
        self.dns_names = self.dns_names.max(other.dns_names);
        self.dns_pending += other.dns_pending;
        if self.tls.is_empty() {
            self.tls = other.tls;
        }
        for (protection, count) in other.protected {
            *self.protected.entry(protection).or_default() += count;
        }
        for (key, count) in other.errors {
            *self.errors.entry(key).or_default() += count;
        }
        self.holders.extend(other.holders);
        for (key, row) in other.applications {
            *self.applications.entry(key).or_default() += row;
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
        for (route, counts) in other.routes {
            *self.routes.entry(route).or_default() += counts;
        }
        for (name, counts) in other.rule_counts {
            *self.rule_counts.entry(name).or_default() += counts;
        }
        if let Some(theirs) = other.digests {
            self.digests.get_or_insert_default().merge(*theirs);
        }
        for (host, counters) in other.routed {
            *self.routed.entry(host).or_default() += counters;
        }
        self.database_hosts.extend(other.database_hosts);
        for (kind, theirs) in other.memory {
            let mine = self.memory.entry(kind).or_default();
            mine.size = theirs.size;
            mine.used += theirs.used;
            mine.free += theirs.free;
        }
    }
}

/// Recent latencies of a pool, as percentiles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolPercentiles {
    /// Percentiles of waits for a server.
    pub wait: Percentiles,
    /// Percentiles of transactions.
    pub transaction: Percentiles,
    /// Percentiles of queries.
    pub query: Percentiles,
}

impl PoolRow {
    /// Percentiles of the last full period, or since the beginning until the first period is over; zero if nothing
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
        self.activity += other.activity;
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
    fn names_being_resolved_are_those_of_all_workers() {
        let part = || Snapshot {
            dns_pending: 2,
            ..Snapshot::default()
        };
        let mut all = part();
        all.merge(part());
        assert_eq!(all.dns_pending, 4);
    }

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
