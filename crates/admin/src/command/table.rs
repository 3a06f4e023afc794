//! Rows of the table, in the order in which `SHOW HELP` and the reference page list them.

use weir_proxy::console::{Order, Role, Shutdown};

use super::{Action, Entry, Takes};
use crate::show::{
    CONFIG, STATE, Show, VERSION, connections, databases, dns, faults, limits, lists, memory,
    peers, pins, pools, sizing, stats, tls, users,
};

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
        "As SHOW SOCKETS, only clients with a server, and servers with a client.",
    ),
    show(
        "SHOW CLIENTS",
        &connections::CLIENTS,
        "One row per client connection.",
    ),
    show(
        "SHOW CONFIG",
        &CONFIG,
        "The settings in force, their defaults, and whether a reload changes them.",
    ),
    show(
        "SHOW DATABASES",
        &databases::DATABASES,
        "Where each database leads, its limits and its use.",
    ),
    show(
        "SHOW DNS_HOSTS",
        &dns::DNS_HOSTS,
        "Host names in the cache of the resolver, and the seconds for which they are kept.",
    ),
    show(
        "SHOW DNS_ZONES",
        &dns::DNS_ZONES,
        "Always empty: zones are not watched.",
    ),
    show(
        "SHOW ERRORS",
        &faults::ERRORS,
        "Errors that clients got, by who made them and SQLSTATE, the most frequent first.",
    ),
    show(
        "SHOW EXTENDED POOLS",
        &pools::EXTENDED_POOLS,
        "As SHOW POOLS, with why servers are kept, and how long waits, transactions and queries took in the last `stats_period`: percentiles in microseconds.",
    ),
    show(
        "SHOW LIMITS",
        &limits::LIMITS,
        "Limits in force with their use, the fullest first.",
    ),
    show(
        "SHOW LISTS",
        &lists::LISTS,
        "How many databases, users, pools and connections there are.",
    ),
    show(
        "SHOW MEM",
        &memory::MEM,
        "Memory for clients, servers and pools, without what is in buffers.",
    ),
    show(
        "SHOW PEERS",
        &peers::PEERS,
        "Other poolers to which cancel requests are forwarded.",
    ),
    show(
        "SHOW PEER_POOLS",
        &peers::PEER_POOLS,
        "What is on its way to them.",
    ),
    show(
        "SHOW PINS",
        &pins::PINS,
        "Clients that keep their server beyond their transaction, the oldest first: why, for how many seconds, and the process of the server.",
    ),
    show(
        "SHOW PINS_TOTALS",
        &pins::PINS_TOTALS,
        "How often clients began to, by database and reason.",
    ),
    show(
        "SHOW POOLS",
        &pools::POOLS,
        "Per database and user: clients and servers by state, and the longest wait.",
    ),
    show(
        "SHOW POOL_SIZE",
        &sizing::POOL_SIZE,
        "Pools that find their own size: what they do, the limit on assigned servers, between which sizes the knee lies, and the last decisions with their reasons.",
    ),
    show(
        "SHOW SERVERS",
        &connections::SERVERS,
        "One row per server connection.",
    ),
    show(
        "SHOW SOCKETS",
        &connections::SOCKETS,
        "Clients and servers with what is held of their connections: `recv_pos` and `pkt_avail` bytes that nobody took yet, `send_remain` and `send_avail` bytes that the other side did not take.",
    ),
    show(
        "SHOW STATE",
        &STATE,
        "Whether the pooler is active, paused or suspended.",
    ),
    show(
        "SHOW STATS",
        &stats::STATS,
        "Totals, and averages of the last `stats_period`, by database; times in microseconds.",
    ),
    show(
        "SHOW STATS_AVERAGES",
        &stats::STATS_AVERAGES,
        "Only the averages: per second, times per transaction, query and wait.",
    ),
    show(
        "SHOW STATS_TOTALS",
        &stats::STATS_TOTALS,
        "Only the totals.",
    ),
    show(
        "SHOW TLS",
        &tls::TLS,
        "The certificates in use on each side, and until when they are valid.",
    ),
    show(
        "SHOW TOTALS",
        &stats::TOTALS,
        "Totals and averages over all databases, one row each.",
    ),
    show(
        "SHOW USERS",
        &users::USERS,
        "Users that are known, with their limits and their use.",
    ),
    show(
        "SHOW VERSION",
        &VERSION,
        "The version of PgBouncer whose console this is, and Weir's own.",
    ),
    perform(
        "PAUSE",
        Takes::OptionalDatabase(Order::Pause),
        "Gives out no more servers, and returns when none is in use. Ctrl-C or the end of the connection takes it back.",
    ),
    perform(
        "RESUME",
        Takes::OptionalDatabase(Order::Resume),
        "Ends PAUSE, KILL and SUSPEND.",
    ),
    perform(
        "DISABLE",
        Takes::Database(Order::Disable),
        "Refuses new clients of a database.",
    ),
    perform(
        "ENABLE",
        Takes::Database(Order::Enable),
        "Admits them again.",
    ),
    perform(
        "KILL",
        Takes::OptionalDatabase(Order::Kill),
        "Ends all clients and servers at once and stays paused until RESUME.",
    ),
    perform(
        "KILL_CLIENT",
        Takes::Client(Order::KillClient),
        "Ends one client: the number in the column `id` of SHOW CLIENTS, or `ptr`.",
    ),
    perform(
        "RECONNECT",
        Takes::OptionalDatabase(Order::Reconnect),
        "Closes each server of now when it is released.",
    ),
    perform(
        "WAIT_CLOSE",
        Takes::OptionalDatabase(Order::WaitClose),
        "Returns when the servers that RECONNECT or a reload wants closed are gone.",
    ),
    perform(
        "SUSPEND",
        Takes::Nothing(|| Order::Suspend),
        "Sends what is to be sent, then moves nothing more until RESUME or the end of the connection.",
    ),
    perform(
        "RELOAD",
        Takes::Nothing(|| Order::Reload),
        "Reads the configuration again, with users, rules, certificates and keys; the log tells what changed or what is wrong.",
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
        "Accepts nobody, lets running transactions end within `drain_timeout`, then stops.",
    ),
    shutdown(
        "SHUTDOWN WAIT_FOR_CLIENTS",
        Shutdown::WaitForClients,
        "Accepts nobody and stops when all clients have left, or after `drain_timeout`.",
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
