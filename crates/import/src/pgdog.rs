//! PgDog: `pgdog.toml` and `users.toml`. The largest integer means "off" there.

use std::collections::BTreeMap;

use crate::apply::{How, apply, by_table, replica, secret, set};
use crate::draft::{Draft, Table, Term};
use crate::finding::{Finding, Outcome};
use crate::hba;
use crate::leaf::{Leaf, add_defaults};

const VERSION: &str = "PgDog 0.1.54";

/// Defaults of PgDog that clients notice.
const DEFAULTS: &str = r#"
[general]
host = "0.0.0.0"
port = 6432
workers = 2
default_pool_size = 10
min_pool_size = 1
pooler_mode = "transaction"
checkout_timeout = 5000
connect_timeout = 5000
idle_timeout = 60000
server_lifetime = 86400000
client_login_timeout = 60000
shutdown_timeout = 60000
auth_type = "scram"
stats_period = 15000
tls_verify = "prefer"
"#;

const WATCHED: &str = "hosts are watched all the time; see probe_interval";
const PARSER: &str = "statements are judged without this choice";
const NO_SHARDS: &str = "Weir does not shard";
const MODES: &[(&str, &str)] = &[
    ("transaction", "transaction"),
    ("session", "session"),
    ("statement", "statement"),
];

const GENERAL: &[(&str, How)] = &[
    ("host", How::List("listen_addr")),
    ("port", How::Copy("listen_port")),
    ("workers", How::Copy("workers")),
    ("default_pool_size", How::Copy("default_pool_size")),
    ("min_pool_size", How::Copy("min_pool_size")),
    ("pooler_mode", How::Word("pool_mode", MODES)),
    ("checkout_timeout", How::Millis("query_wait_timeout")),
    ("connect_timeout", How::Millis("server_connect_timeout")),
    (
        "connect_attempts",
        How::Nothing("Weir tries again while the client waits"),
    ),
    (
        "connect_attempt_delay",
        How::Nothing("see server_login_retry"),
    ),
    ("idle_timeout", How::Millis("server_idle_timeout")),
    ("server_lifetime", How::Millis("server_lifetime")),
    (
        "server_lifetime_jitter",
        How::Millis("server_lifetime_jitter"),
    ),
    ("query_timeout", How::Millis("query_timeout")),
    ("client_idle_timeout", How::Millis("client_idle_timeout")),
    (
        "client_idle_in_transaction_timeout",
        How::Millis("idle_transaction_timeout"),
    ),
    ("client_login_timeout", How::Millis("client_login_timeout")),
    ("shutdown_timeout", How::Millis("drain_timeout")),
    (
        "shutdown_termination_timeout",
        How::Nothing("drain_timeout ends servers too"),
    ),
    (
        "rollback_timeout",
        How::Nothing("servers of abandoned transactions are closed"),
    ),
    (
        "connection_recovery",
        How::Nothing("servers of abandoned transactions are closed"),
    ),
    (
        "client_connection_recovery",
        How::Nothing("see keep_client"),
    ),
    (
        "auth_type",
        How::Word(
            "auth_type",
            &[
                ("scram", "scram-sha-256"),
                ("md5", "md5"),
                ("trust", "trust"),
                ("plain", "plain"),
            ],
        ),
    ),
    (
        "passthrough_auth",
        How::Not(
            "disabled",
            "clients' passwords are checked by Weir: use auth_query",
        ),
    ),
    ("tls_private_key", How::Copy("client_tls_key_file")),
    ("tls_client_ca_certificate", How::Copy("client_tls_ca_file")),
    (
        "tls_verify",
        How::Word(
            "server_tls_sslmode",
            &[
                ("prefer", "prefer"),
                ("disabled", "disable"),
                ("verify_ca", "verify-ca"),
                ("verify_full", "verify-full"),
            ],
        ),
    ),
    ("tls_server_ca_certificate", How::Copy("server_tls_ca_file")),
    ("tls_server_certificate", How::Copy("server_tls_cert_file")),
    ("tls_server_private_key", How::Copy("server_tls_key_file")),
    (
        "prepared_statements_ttl",
        How::Not("0", "prepared statements are kept by number, not by age"),
    ),
    ("healthcheck_interval", How::Millis("server_check_delay")),
    ("healthcheck_timeout", How::Nothing(WATCHED)),
    ("idle_healthcheck_interval", How::Nothing(WATCHED)),
    ("idle_healthcheck_delay", How::Nothing(WATCHED)),
    (
        "ban_timeout",
        How::Nothing("a host that answers again is used again"),
    ),
    (
        "load_balancing_strategy",
        How::Not("random", "replicas share reads by weight"),
    ),
    ("read_write_split", How::Nothing("see read_fallback")),
    (
        "read_write_strategy",
        How::Word(
            "split_begin",
            &[
                ("conservative", "conservative"),
                ("aggressive", "until-write"),
            ],
        ),
    ),
    ("query_parser", How::Nothing(PARSER)),
    ("query_parser_enabled", How::Nothing(PARSER)),
    ("query_parser_engine", How::Nothing(PARSER)),
    ("query_cache_limit", How::Nothing(PARSER)),
    ("regex_parser_limit", How::Nothing(PARSER)),
    ("log_connections", How::Copy("log_connections")),
    ("log_disconnections", How::Copy("log_disconnections")),
    (
        "log_format",
        How::Word("log_format", &[("text", "text"), ("json", "json")]),
    ),
    (
        "log_level",
        How::Nothing("see verbose, and the variable WEIR_LOG"),
    ),
    (
        "log_dedup_window",
        How::Nothing("repeated lines are counted"),
    ),
    (
        "log_dedup_threshold",
        How::Nothing("repeated lines are counted"),
    ),
    (
        "query_log",
        How::Not("", "use a query rule with log, see docs/guide/rules.md"),
    ),
    (
        "openmetrics_namespace",
        How::Not("", "the metrics have fixed names"),
    ),
    ("openmetrics_host", How::Nothing("part of openmetrics_port")),
    ("dns_ttl", How::Millis("dns_max_ttl")),
    ("stats_period", How::Millis("stats_period")),
    ("pub_sub_channel_size", How::Copy("listen_queue_size")),
    ("mirror_queue", How::Nothing("part of mirroring")),
    ("mirror_exposure", How::Nothing("part of mirroring")),
    ("dry_run", How::Not("false", NO_SHARDS)),
    ("two_phase_commit", How::Not("false", NO_SHARDS)),
    ("cross_shard_disabled", How::Nothing(NO_SHARDS)),
    (
        "broadcast_address",
        How::Nothing("each Weir works for itself"),
    ),
    ("broadcast_port", How::Nothing("each Weir works for itself")),
];

const TCP: &[(&str, How)] = &[
    ("keepalive", How::Copy("tcp_keepalive")),
    ("time", How::Millis("tcp_keepidle")),
    ("interval", How::Millis("tcp_keepintvl")),
    ("retries", How::Copy("tcp_keepcnt")),
    ("user_timeout", How::Millis("tcp_user_timeout")),
    (
        "congestion_control",
        How::Not("", "set it for the machine, by sysctl"),
    ),
];

const DATABASE: &[(&str, How)] = &[
    ("database_name", How::Copy("dbname")),
    ("pool_size", How::Copy("pool_size")),
    ("min_pool_size", How::Copy("min_pool_size")),
    ("pooler_mode", How::Word("pool_mode", MODES)),
    ("server_lifetime", How::Millis("server_lifetime")),
    (
        "server_lifetime_jitter",
        How::Millis("server_lifetime_jitter"),
    ),
    ("idle_timeout", How::Millis("server_idle_timeout")),
    (
        "statement_timeout",
        How::Not("", "use ALTER ROLE ... SET statement_timeout on the server"),
    ),
    (
        "lock_timeout",
        How::Not("", "use ALTER ROLE ... SET lock_timeout on the server"),
    ),
    (
        "read_only",
        How::Not(
            "false",
            "use ALTER ROLE ... SET default_transaction_read_only",
        ),
    ),
];

const USER: &[(&str, How)] = &[
    ("pool_size", How::Copy("pool_size")),
    ("pooler_mode", How::Word("pool_mode", MODES)),
    (
        "all_databases",
        How::Not(
            "true",
            "every user may use every database, unless databases of the user are listed",
        ),
    ),
    (
        "statement_timeout",
        How::Not("", "use ALTER ROLE ... SET statement_timeout on the server"),
    ),
    (
        "replication_mode",
        How::Not("false", "see the limits of replication connections"),
    ),
    ("schema_admin", How::Nothing(NO_SHARDS)),
    (
        "min_pool_size",
        How::Not("0", "set it in [pools.DATABASE.USER] for each database"),
    ),
    (
        "server_user",
        How::Not(
            "",
            "servers are logged in to as the client's user, or as user of the database",
        ),
    ),
    (
        "server_password",
        How::Not("", "the server's password is that of the user list"),
    ),
    (
        "server_auth",
        How::Not("password", "Weir has no logins by a cloud's tokens"),
    ),
];

/// Entry of `[[databases]]`.
#[derive(Clone, Default)]
struct Entry {
    name: String,
    host: String,
    port: Option<String>,
    role: String,
    shard: String,
    user: String,
}

#[derive(Default)]
struct Facts {
    entries: BTreeMap<String, Entry>,
    users: BTreeMap<String, String>,
    /// Databases of the users that may not use all, by position.
    databases: BTreeMap<String, Vec<String>>,
    /// Sizes of the pools of users and databases, by position.
    sizes: BTreeMap<(bool, String), i64>,
    default_size: i64,
    auth_type: String,
    admin: String,
    listen: String,
    requires_tls: bool,
    verifies_clients: bool,
}

impl Facts {
    fn gather(leaves: &[Leaf]) -> Self {
        let mut facts = Self {
            admin: "admin".to_owned(),
            ..Self::default()
        };
        for leaf in leaves {
            let text = leaf.text();
            match *leaf.parts().as_slice() {
                ["general", "host"] => facts.listen = text,
                ["general", "tls_client_required"] => facts.requires_tls = text == "true",
                ["general", "tls_client_ca_certificate"] => facts.verifies_clients = true,
                ["admin", "user"] => facts.admin = text,
                ["general", "auth_type"] => facts.auth_type = text,
                ["general", "default_pool_size"] => {
                    facts.default_size = leaf.number().unwrap_or_default()
                }
                ["users", at, "database"] | ["users", at, "databases", _] => {
                    facts.databases.entry(at.to_owned()).or_default().push(text);
                }
                ["users", at, "pool_size"] => {
                    facts
                        .sizes
                        .insert((true, at.to_owned()), leaf.number().unwrap_or_default());
                }
                ["databases", at, "pool_size"] => {
                    facts
                        .sizes
                        .insert((false, at.to_owned()), leaf.number().unwrap_or_default());
                }
                ["users", at, "name"] => {
                    facts.users.insert(at.to_owned(), text);
                }
                ["databases", at, key] => {
                    let entry = facts.entries.entry(at.to_owned()).or_default();
                    match key {
                        "name" => entry.name = text,
                        "host" => entry.host = text,
                        "port" => entry.port = Some(text),
                        "role" => entry.role = text,
                        "shard" => entry.shard = text,
                        "user" => entry.user = text,
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        facts
    }

    /// Writes who may use which databases, if some users may not use all.
    fn write_hba(&self, draft: &mut Draft) {
        if self.databases.is_empty() {
            return;
        }
        let method = match self.auth_type.as_str() {
            "md5" => "md5",
            "trust" => "trust",
            "plain" => "password",
            _ => "scram-sha-256",
        };
        hba::begin(draft);
        for (at, user) in &self.users {
            let databases = match self.databases.get(at) {
                Some(names) => names
                    .iter()
                    .map(|name| hba::quoted(name))
                    .collect::<Vec<_>>()
                    .join(","),
                None => "all".to_owned(),
            };
            hba::pair(&databases, &hba::quoted(user), method, draft);
        }
        hba::pair(hba::CONSOLE, &hba::quoted(&self.admin), method, draft);
    }

    /// Sums up the sizes of all pools that the files tell of. `of` says how large the pool of a database and a user is.
    fn sum(&self, of: impl Fn(&str, &str) -> i64) -> i64 {
        let mut sum = 0_i64;
        for (database, entry) in &self.entries {
            for user in self.users.keys() {
                let names = self.databases.get(user);
                if names.is_none_or(|names| names.contains(&entry.name)) {
                    sum = sum.saturating_add(of(database, user).max(0));
                }
            }
        }
        sum
    }

    fn size(&self, is_user: bool, at: &str) -> Option<i64> {
        self.sizes.get(&(is_user, at.to_owned())).copied()
    }

    /// Compares the numbers of servers, and says what the files cannot tell.
    fn notes(&self, draft: &mut Draft) {
        draft.no_client_limit("PgDog");
        let sizes = |database: &str, user: &str| {
            self.size(true, user)
                .or_else(|| self.size(false, database))
                .unwrap_or(self.default_size)
        };
        let sum = self.sum(sizes);
        draft.note(format!(
            "servers at most, for the users of the files: PgDog {sum}, Weir {sum}"
        ));
        draft.note(
            "applications may send SET pgdog.role, /* pgdog_role: ... */ and the like, which mean nothing to Weir; see \
             docs/guide/replicas.md for SET weir.role and comment_hints",
        );
    }

    /// True for an entry that describes a further host of a database.
    fn is_replica(&self, at: &str) -> bool {
        let Some(entry) = self.entries.get(at) else {
            return false;
        };
        let same = || {
            self.entries
                .iter()
                .filter(|(_, other)| other.name == entry.name)
        };
        let primary = same()
            .find(|(_, other)| other.role != "replica")
            .or_else(|| same().next());
        primary.is_some_and(|(first, _)| first != at)
    }
}

/// Maps all settings.
pub(crate) fn map(mut leaves: Vec<Leaf>, draft: &mut Draft) -> Vec<Finding> {
    add_defaults(&mut leaves, DEFAULTS);
    let facts = Facts::gather(&leaves);
    let fate = |leaf: &Leaf| Finding::new(leaf, setting(leaf, &facts, draft));
    let findings = leaves.iter().map(fate).collect();
    facts.write_hba(draft);
    facts.notes(draft);
    findings
}

fn setting(leaf: &Leaf, facts: &Facts, draft: &mut Draft) -> Outcome {
    match *leaf.parts().as_slice() {
        ["general", key] => general(leaf, key, facts, draft),
        ["tcp", key] => by_table(TCP, leaf, key, &Table::Global, draft, VERSION),
        ["admin", "name"] => Outcome::Differs(
            "the console".to_owned(),
            "its database is weir or pgbouncer".to_owned(),
        ),
        ["admin", "user"] => set(
            draft,
            Table::Global,
            "admin_users",
            Term::List(vec![leaf.text()]),
        ),
        ["admin", "password"] => {
            let users = Term::List(vec![facts.admin.clone()]);
            draft.set(Table::Global, "admin_users", users);
            secret(leaf, &facts.admin, draft)
        }
        ["databases", at, key] => database(leaf, at, key, facts, draft),
        ["users", at, ref rest @ ..] => match facts.users.get(at) {
            Some(user) => of_user(leaf, user, rest, draft),
            None => Outcome::NotMapped("the user has no name".to_owned()),
        },
        [
            "sharded_tables" | "sharded_schemas" | "sharded_mappings" | "omnisharded_tables",
            ..,
        ] => Outcome::NotMapped(NO_SHARDS.to_owned()),
        ["mirroring", ..] => {
            Outcome::NotMapped("mirror by a query rule, see docs/guide/rules.md".to_owned())
        }
        [
            "plugins" | "multi_tenant" | "replication" | "rewrite" | "otel",
            ..,
        ] => Outcome::NotMapped("Weir has no counterpart".to_owned()),
        ["memory", ..] => Outcome::NoMeaning("buffers have fixed limits"),
        _ => Outcome::Unknown(VERSION),
    }
}

fn general(leaf: &Leaf, key: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    let text = leaf.text();
    match key {
        "tls_certificate" => {
            let mode = match (facts.requires_tls, facts.verifies_clients) {
                (_, true) => "verify-ca",
                (true, false) => "require",
                (false, false) => "prefer",
            };
            draft.set(Table::Global, "client_tls_sslmode", Term::text(mode));
            apply(
                How::Copy("client_tls_cert_file"),
                leaf,
                Table::Global,
                draft,
            )
        }
        "auth_type" if !facts.databases.is_empty() => Outcome::Mapped("auth_hba_file".to_owned()),
        "tls_client_required" => Outcome::Mapped("client_tls_sslmode".to_owned()),
        "prepared_statements" => match text.as_str() {
            "disabled" => set(
                draft,
                Table::Global,
                "max_prepared_statements",
                Term::Number(0),
            ),
            _ => Outcome::NoMeaning("Weir supports prepared statements of both kinds"),
        },
        "prepared_statements_limit" if leaf.number() == Some(i64::MAX) => {
            Outcome::NoMeaning("see max_prepared_statements")
        }
        "prepared_statements_limit" => apply(
            How::Copy("max_prepared_statements"),
            leaf,
            Table::Global,
            draft,
        ),
        "openmetrics_port" | "healthcheck_port" => {
            let address = format!("{}:{text}", facts.listen);
            let mut all = match draft.get(&Table::Global, "metrics_listen") {
                Some(Term::List(all)) => all.clone(),
                _ => Vec::new(),
            };
            all.push(address);
            draft.set(Table::Global, "metrics_listen", Term::List(all));
            let why = "metrics have other names, and health checks ask for /readyz";
            Outcome::Differs("metrics_listen".to_owned(), why.to_owned())
        }
        _ => by_table(GENERAL, leaf, key, &Table::Global, draft, VERSION),
    }
}

fn database(leaf: &Leaf, at: &str, key: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    let Some(entry) = facts.entries.get(at).filter(|entry| !entry.name.is_empty()) else {
        return Outcome::NotMapped("the database has no name".to_owned());
    };
    if !entry.shard.is_empty() && entry.shard != "0" {
        return Outcome::NotMapped(NO_SHARDS.to_owned());
    }
    let table = Table::Database(entry.name.clone());
    let is_replica = facts.is_replica(at);
    match key {
        "name" => {
            draft.touch(table);
            Outcome::Mapped(format!("databases.{}", entry.name))
        }
        "shard" => Outcome::NoMeaning("the only shard"),
        "role" => Outcome::NoMeaning("Weir asks each host for its role"),
        "host" | "port" if is_replica => further(entry, facts, table, draft),
        "host" => set(draft, table, "host", Term::text(leaf.text())),
        "port" => apply(How::Copy("port"), leaf, table, draft),
        "user" if !is_replica => apply(How::Copy("user"), leaf, table, draft),
        "password" if !is_replica => secret(leaf, &entry.user, draft),
        "lb_weight" => Outcome::NotMapped(format!(
            "set weight in [databases.{}.hosts.\"HOST:PORT\"]",
            entry.name
        )),
        "resharding_only" => apply(How::Not("false", NO_SHARDS), leaf, table, draft),
        _ if is_replica => Outcome::NoMeaning("the entry of the primary counts for all hosts"),
        _ => by_table(DATABASE, leaf, key, &table, draft, VERSION),
    }
}

/// Adds a host. Statements are split as PgDog does with a replica.
fn further(entry: &Entry, facts: &Facts, table: Table, draft: &mut Draft) -> Outcome {
    let point = format!("{}:{}", entry.host, entry.port.as_deref().unwrap_or("5432"));
    let outcome = replica(point, facts.users.values().next(), table.clone(), draft);
    if matches!(outcome, Outcome::Differs(..)) {
        draft.set(table, "read_write_split", Term::text("auto"));
    }
    outcome
}

fn of_user(leaf: &Leaf, user: &str, rest: &[&str], draft: &mut Draft) -> Outcome {
    match *rest {
        ["name"] => Outcome::Mapped("auth_file".to_owned()),
        ["password" | "password_hash"] | ["passwords", "0"] => secret(leaf, user, draft),
        ["passwords", _] => Outcome::NotMapped("a user has one secret in Weir".to_owned()),
        ["database"] | ["databases", _] => Outcome::Mapped("auth_hba_file".to_owned()),
        [key] => by_table(
            USER,
            leaf,
            key,
            &Table::User(user.to_owned()),
            draft,
            VERSION,
        ),
        _ => Outcome::Unknown(VERSION),
    }
}
