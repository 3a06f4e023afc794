//! The rows of the table, in the order in which `SHOW HELP` and the reference page list them.

use weir_proxy::console::{Role, Shutdown};

use super::{Action, Arguments, Entry};
use crate::show::{
    CONFIG, STATE, Show, VERSION, connections, databases, lists, pins, pools, stats, tls, users,
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
        "SHOW LISTS",
        &lists::LISTS,
        "How many databases, users, pools and connections there are.",
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
        "SHOW SERVERS",
        &connections::SERVERS,
        "One row per server connection.",
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
        "The certificates in use on each hop, and until when they are valid.",
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
    later(
        "SHOW ACTIVE_SOCKETS",
        Arguments::None,
        "Connections with what is in their buffers, active ones only.",
    ),
    later(
        "SHOW DNS_HOSTS",
        Arguments::None,
        "Host names in the cache of the resolver.",
    ),
    later(
        "SHOW DNS_ZONES",
        Arguments::None,
        "DNS zones in the cache of the resolver.",
    ),
    later("SHOW MEM", Arguments::None, "Memory by kind of object."),
    later(
        "SHOW PEERS",
        Arguments::None,
        "Other poolers that share cancel requests.",
    ),
    later("SHOW PEER_POOLS", Arguments::None, "Connections to them."),
    later(
        "SHOW SOCKETS",
        Arguments::None,
        "Connections with what is in their buffers.",
    ),
    later(
        "SHOW FDS",
        Arguments::None,
        "File descriptors, for an online restart.",
    )
    .admin(),
    admin(
        "RELOAD",
        Action::Reload,
        "Reads the configuration again, with users, rules, certificates and keys; the log tells what changed or what is wrong.",
    ),
    admin(
        "SHUTDOWN",
        Action::Shutdown(Shutdown::Now),
        "Stops at once.",
    ),
    admin(
        "SHUTDOWN WAIT_FOR_SERVERS",
        Action::Shutdown(Shutdown::WaitForServers),
        "Accepts nobody, lets running transactions end within `drain_timeout`, then stops.",
    ),
    admin(
        "SHUTDOWN WAIT_FOR_CLIENTS",
        Action::Shutdown(Shutdown::WaitForClients),
        "Accepts nobody and stops when all clients have left, or after `drain_timeout`.",
    ),
    later(
        "DISABLE",
        Arguments::Database,
        "Refuses new clients of a database.",
    )
    .admin(),
    later("ENABLE", Arguments::Database, "Admits them again.").admin(),
    later(
        "KILL",
        Arguments::OptionalDatabase,
        "Drops all clients and servers at once and stays paused.",
    )
    .admin(),
    later("KILL_CLIENT", Arguments::Id, "Drops one client.").admin(),
    later(
        "PAUSE",
        Arguments::OptionalDatabase,
        "Waits until no server is in use and gives out none.",
    )
    .admin(),
    later(
        "RECONNECT",
        Arguments::OptionalDatabase,
        "Closes each server when it is released.",
    )
    .admin(),
    later(
        "RESUME",
        Arguments::OptionalDatabase,
        "Ends PAUSE, KILL and SUSPEND.",
    )
    .admin(),
    later(
        "SET",
        Arguments::Setting,
        "Changes a setting until the next reload.",
    )
    .admin(),
    later("SUSPEND", Arguments::None, "Empties all buffers and stops.").admin(),
    later(
        "WAIT_CLOSE",
        Arguments::OptionalDatabase,
        "Returns when the servers that RECONNECT marked are gone.",
    )
    .admin(),
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
    ignored("SET CLIENT_ENCODING"),
    ignored("SET DATESTYLE"),
    ignored("SET DEFAULT_TRANSACTION_ISOLATION"),
    ignored("SET STANDARD_CONFORMING_STRINGS"),
    ignored("SET TIMEZONE"),
];

const fn entry(name: &'static str, role: Role, action: Action, doc: &'static str) -> Entry {
    let arguments = Arguments::None;
    Entry {
        name,
        arguments,
        role,
        action,
        doc,
    }
}

const fn show(name: &'static str, show: &'static Show, doc: &'static str) -> Entry {
    entry(name, Role::Stats, Action::Show(show), doc)
}

const fn admin(name: &'static str, action: Action, doc: &'static str) -> Entry {
    entry(name, Role::Admin, action, doc)
}

const fn later(name: &'static str, arguments: Arguments, doc: &'static str) -> Entry {
    let mut entry = entry(name, Role::Stats, Action::Later, doc);
    entry.arguments = arguments;
    entry
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
    let mut entry = entry(
        name,
        Role::Stats,
        Action::Ignore,
        "Accepted and ignored, for drivers that set it on connecting.",
    );
    entry.arguments = Arguments::Value;
    entry
}

impl Entry {
    const fn admin(mut self) -> Self {
        self.role = Role::Admin;
        self
    }
}
