//! Rows of the table, in the order in which `SHOW HELP` and the reference page list them.

use weir_proxy::console::{Order, Role, Shutdown};

use super::{Action, Entry, Takes};
use crate::show::{
    CONFIG, STATE, Show, VERSION, applications, connections, databases, diagnosis, dns, faults,
    hosts, limits, lists, memory, mirrors, peers, pins, pools, routes, rules, sizing, statements,
    stats, tls, users, waits,
};

/// Name of the command that pauses writes. `PAUSE writes` alone pauses a database with this name.
pub(crate) const PAUSE_WRITES: &str = "PAUSE WRITES";

/// Words in front of a statement, which is not split into words.
pub(crate) const EXPLAIN_ROUTE: &str = "EXPLAIN ROUTE";

/// Word in front of orders about query rules.
pub(crate) const RULE: &str = "RULE";

/// Words in front of arguments that are not split into words.
pub(crate) const SHOW_DIGESTS: &str = "SHOW DIGESTS";

/// All commands.
pub(crate) static COMMANDS: &[Entry] = &[
    entry(
        "SHOW HELP",
        Role::Stats,
        Action::Help,
        "Lists the commands, as a notice.",
    ),
    show(
        "SHOW ACTIVE_SOCKETS",
        &connections::ACTIVE_SOCKETS,
        "As SHOW SOCKETS, only for clients that have a server and servers that have a client.",
    ),
    show(
        "SHOW APPLICATIONS",
        &applications::APPLICATIONS,
        "Clients by pool and `application_name`, those that have kept servers busy for longest first; `share` is their part of that time in percent. Each worker has 200 names; others count as `(other)`.",
    ),
    show(
        "SHOW CLIENTS",
        &connections::CLIENTS,
        "One row per client connection.",
    ),
    show(
        "SHOW CONFIG",
        &CONFIG,
        "Settings in force, their defaults, and whether a reload can change them.",
    ),
    show(
        "SHOW DATABASES",
        &databases::DATABASES,
        "Databases with host and port, limits, and current use.",
    ),
    show(
        "SHOW DIAGNOSIS",
        &diagnosis::DIAGNOSIS,
        "Conditions that need attention now, the worst first: since when, the figures that show it, and what to do.",
    ),
    entry(
        SHOW_DIGESTS,
        Role::Stats,
        Action::Digests,
        "Statements that differ in literals only, with their figures, those that take the most time first; `server_us_error` is what may be missing. Without LIMIT 100 rows, with LIMIT 0 all.",
    ),
    show(
        "SHOW DNS_HOSTS",
        &dns::DNS_HOSTS,
        "Host names in the resolver's cache, and the seconds until each expires.",
    ),
    show(
        "SHOW DNS_ZONES",
        &dns::DNS_ZONES,
        "Always empty: Weir does not poll DNS zones.",
    ),
    show(
        "SHOW ERRORS",
        &faults::ERRORS,
        "Errors sent to clients by origin (server or pooler) and SQLSTATE, the most frequent first.",
    ),
    show(
        "SHOW EVENTS",
        &diagnosis::EVENTS,
        "Last 500 events, the newest first: reloads, orders, failovers, certificates, rules, and conditions that began or ended.",
    ),
    show(
        "SHOW EXTENDED POOLS",
        &pools::EXTENDED_POOLS,
        "As SHOW POOLS, with the reasons of pins, and percentiles in microseconds of waits, transactions and queries in the last `stats_period`.",
    ),
    show(
        "SHOW HOLDERS",
        &applications::HOLDERS,
        "Clients that have a server which nobody else can use, those that have done the same for longest first.",
    ),
    show(
        "SHOW HOSTS",
        &hosts::HOSTS,
        "Hosts of databases with `replicas`: role and state by the host's own answer, lag, and what they take.",
    ),
    show(
        "SHOW LIMITS",
        &limits::LIMITS,
        "Limits in force with their current use, the fullest first, and the highest use since the start and in the last hour, looked at once a second.",
    ),
    entry(
        "SHOW LISTED_STATEMENTS",
        Role::Admin,
        Action::ShowOf(&statements::LISTED_STATEMENTS),
        "Statements in the lists of users with `statement_policy`, and others that they have sent: `learnt`, `warned` or `refused`. `form` is the key in the list's file; `whole` texts have their literals.",
    ),
    show(
        "SHOW LISTS",
        &lists::LISTS,
        "Numbers of databases, users, pools and connections.",
    ),
    show(
        "SHOW LOGINS",
        &applications::LOGINS,
        "Logins at servers by host, with the reason of the last failure in the host's own words.",
    ),
    show(
        "SHOW MEM",
        &memory::MEM,
        "Memory of clients, servers and pools, without the contents of buffers.",
    ),
    show(
        "SHOW MIRRORS",
        &mirrors::MIRRORS,
        "Rules with `action = \"mirror\"`: what waits for the other database, and how its answers compare with those of clients.",
    ),
    show(
        "SHOW MIRROR_STATEMENTS",
        &mirrors::STATEMENTS,
        "Mirrored statements, those with the most differences first: results, and the times of both sides.",
    ),
    show(
        "SHOW PEERS",
        &peers::PEERS,
        "Other poolers to which cancel requests are forwarded.",
    ),
    show(
        "SHOW PEER_POOLS",
        &peers::PEER_POOLS,
        "Connections to peers that carry cancel requests.",
    ),
    show(
        "SHOW PINS",
        &pins::PINS,
        "Pinned clients, the oldest first: reason, age in seconds, and process id of the server.",
    ),
    show(
        "SHOW PINS_TOTALS",
        &pins::PINS_TOTALS,
        "Number of pins since the start, by database and reason.",
    ),
    show(
        "SHOW POOLS",
        &pools::POOLS,
        "Pools by database and user: clients and servers by state, and the longest wait.",
    ),
    show(
        "SHOW POOL_SIZE",
        &sizing::POOL_SIZE,
        "Pools with `pool_size = auto`: state, limit on assigned servers, the range of sizes in which the knee lies, and the last decision with its reason.",
    ),
    show(
        "SHOW POOL_SIZE_DECISIONS",
        &sizing::DECISIONS,
        "The last decisions about the size of each such pool, up to 50, the newest first: the size before and after, and the reason.",
    ),
    show(
        "SHOW ROUTES",
        &routes::ROUTES,
        "Statements on databases with `replicas`, the most frequent first: where they ran, why, and how often. Literals are shown as `?`.",
    ),
    show(
        "SHOW RULES",
        &rules::RULES,
        "Query rules in the order of the file: what they do, whether they are in force, how many statements have met them, and when the last did.",
    ),
    show(
        "SHOW SERVERS",
        &connections::SERVERS,
        "One row per server connection.",
    ),
    show(
        "SHOW SOCKETS",
        &connections::SOCKETS,
        "Clients and servers with their buffers: `recv_pos` and `pkt_avail` count bytes received and not yet processed, `send_remain` and `send_avail` bytes that the peer has not yet accepted.",
    ),
    show(
        "SHOW STATE",
        &STATE,
        "Whether the pooler is active, paused or suspended, Weir's version, the interface to the kernel that workers use (`io`), and why.",
    ),
    show(
        "SHOW STATEMENT_LISTS",
        &statements::STATEMENT_LISTS,
        "Users with `statement_policy`: statements in the list, other statements that were recorded or found no room, and how often such statements ran or were refused. `unread` counts statements that were too long to be looked up, and calls of functions by the protocol.",
    ),
    show(
        "SHOW STATS",
        &stats::STATS,
        "Totals, and averages over the last `stats_period`, by database; times in microseconds.",
    ),
    show(
        "SHOW STATS_AVERAGES",
        &stats::STATS_AVERAGES,
        "Averages only: rates per second, times per transaction, query and wait.",
    ),
    show("SHOW STATS_TOTALS", &stats::STATS_TOTALS, "Totals only."),
    show(
        "SHOW TLS",
        &tls::TLS,
        "Certificates in use on each side, and the time until which each is valid.",
    ),
    show(
        "SHOW TOTALS",
        &stats::TOTALS,
        "Totals and averages over all databases, one row each.",
    ),
    show(
        "SHOW USERS",
        &users::USERS,
        "Users of the configuration, of `auth_file`, and of clients and servers, with limits and current use.",
    ),
    show(
        "SHOW VERSION",
        &VERSION,
        "Version of PgBouncer whose console Weir shows (`pgbouncer_compat`); `SHOW STATE` has Weir's own.",
    ),
    show(
        "SHOW WAITS",
        &waits::WAITS,
        "What clients wait for, by pool and reason, the longest wait first; its client has number `oldest_id` in SHOW CLIENTS.",
    ),
    entry(
        EXPLAIN_ROUTE,
        Role::Stats,
        Action::Explain,
        "Tells where a statement would run now and why, with a line about each host. Without FOR, the only database with `replicas` is meant.",
    ),
    perform(
        "RESET DIGESTS",
        Takes::Nothing(|| Order::ResetDigests),
        "Forgets the figures of all statements.",
    ),
    entry(
        RULE,
        Role::Admin,
        Action::Rule,
        "Changes the query rules until the process ends: adds one in front of the others, with the keys of `[[rules]]` between `$$`; drops one; lets one only count, or puts it in force. Reloads keep the changes.",
    ),
    perform(
        "PAUSE",
        Takes::OptionalDatabase(Order::Pause),
        "Stops assigning servers, and returns when no server is in use. Ctrl-C or the end of the connection before that resumes.",
    ),
    perform(
        PAUSE_WRITES,
        Takes::Database(Order::PauseWrites),
        "Lets writes of the database wait until another host takes them: for a planned switchover. Returns when no server of the host that takes them now is in use; reads on replicas go on. Ends by itself when another host takes writes, or by RESUME.",
    ),
    perform(
        "RESUME",
        Takes::OptionalDatabase(Order::Resume),
        "Ends PAUSE, KILL and SUSPEND.",
    ),
    perform(
        "DISABLE",
        Takes::Database(Order::Disable),
        "Refuses new clients of the database.",
    ),
    perform(
        "ENABLE",
        Takes::Database(Order::Enable),
        "Accepts new clients of the database again.",
    ),
    perform(
        "KILL",
        Takes::OptionalDatabase(Order::Kill),
        "Closes all clients and servers at once, and pauses until RESUME.",
    ),
    perform(
        "KILL_CLIENT",
        Takes::Client(Order::KillClient),
        "Disconnects one client, named by the column `id` or `ptr` of SHOW CLIENTS.",
    ),
    perform(
        "PRIMARY",
        Takes::Host(|database, host| Order::Primary { database, host }),
        "Has all hosts of the database probed at once, because this host is said to be the primary. A hint: only the answers of the hosts decide.",
    ),
    perform(
        "RECONNECT",
        Takes::OptionalDatabase(Order::Reconnect),
        "Closes every existing server connection as soon as its client releases it.",
    ),
    perform(
        "WAIT_CLOSE",
        Takes::OptionalDatabase(Order::WaitClose),
        "Returns when all servers that RECONNECT or a reload has marked for closing are closed.",
    ),
    perform(
        "SUSPEND",
        Takes::Nothing(|| Order::Suspend),
        "Flushes all buffers, then reads and sends nothing until RESUME or the end of the connection.",
    ),
    perform(
        "RELOAD",
        Takes::Nothing(|| Order::Reload),
        "Reads the configuration again, with users, rules, certificates and keys. The log lists each change, or each mistake.",
    ),
    perform(
        "SET",
        Takes::Setting(|key, value| Order::Set { key, value }),
        "Changes a setting until the next reload.",
    ),
    shutdown("SHUTDOWN", Shutdown::Now, "Stops at once."),
    shutdown(
        "SHUTDOWN WAIT_FOR_SERVERS",
        Shutdown::WaitForServers,
        "Accepts no more clients, lets running transactions end within `drain_timeout`, then stops.",
    ),
    shutdown(
        "SHUTDOWN WAIT_FOR_CLIENTS",
        Shutdown::WaitForClients,
        "Accepts no more clients, and stops when all clients have left or after `drain_timeout`.",
    ),
    entry(
        "SHOW FDS",
        Role::Admin,
        Action::Gone(
            "SHOW FDS is not supported: a restart that hands over connections is `weir upgrade`",
        ),
        "File descriptors for PgBouncer's `-R`, which PgBouncer 1.26 drops; see `weir upgrade`.",
    ),
    constant("SHOW CLIENT_ENCODING", "client_encoding", "UTF-8"),
    constant("SHOW DATESTYLE", "datestyle", "ISO"),
    constant(
        "SHOW DEFAULT_TRANSACTION_ISOLATION",
        "default_transaction_isolation",
        "read committed",
    ),
    constant(
        "SHOW STANDARD_CONFORMING_STRINGS",
        "standard_conforming_strings",
        "on",
    ),
    constant("SHOW TIMEZONE", "timezone", "GMT"),
    constant("SHOW TRANSACTION_READ_ONLY", "transaction_read_only", "off"),
    ignored("SET APPLICATION_NAME"),
    ignored("SET CLIENT_ENCODING"),
    ignored("SET DATESTYLE"),
    ignored("SET DEFAULT_TRANSACTION_ISOLATION"),
    ignored("SET EXTRA_FLOAT_DIGITS"),
    ignored("SET STANDARD_CONFORMING_STRINGS"),
    ignored("SET TIMEZONE"),
];

const fn entry(name: &'static str, role: Role, action: Action, doc: &'static str) -> Entry {
    Entry {
        name,
        role,
        action,
        doc,
    }
}

const fn show(name: &'static str, show: &'static Show, doc: &'static str) -> Entry {
    entry(name, Role::Stats, Action::Show(show), doc)
}

const fn perform(name: &'static str, takes: Takes, doc: &'static str) -> Entry {
    entry(name, Role::Admin, Action::Perform(takes), doc)
}

const fn shutdown(name: &'static str, how: Shutdown, doc: &'static str) -> Entry {
    entry(name, Role::Admin, Action::Shutdown(how), doc)
}

const fn constant(name: &'static str, column: &'static str, value: &'static str) -> Entry {
    entry(
        name,
        Role::Stats,
        Action::Constant { column, value },
        "A fixed value, for drivers that ask on connecting.",
    )
}

const fn ignored(name: &'static str) -> Entry {
    entry(
        name,
        Role::Stats,
        Action::Ignore,
        "Accepted and ignored, for drivers that set it on connecting.",
    )
}
