//! PgCat: `pgcat.toml`. PgCat ignores what it does not know, so that a typo in its file has had no effect so far.

use std::collections::{BTreeMap, BTreeSet};

use crate::apply::{How, apply, by_table, replica, secret, set};
use crate::draft::{Draft, Table, Term};
use crate::finding::{Finding, Outcome};
use crate::hba;
use crate::leaf::{Leaf, add_defaults};

const VERSION: &str = "PgCat 1.3.0";

/// Defaults of PgCat's code, which differ from those of its documentation.
const DEFAULTS: &str = r#"
[general]
host = "0.0.0.0"
port = 5432
worker_threads = 4
connect_timeout = 1000
idle_timeout = 600000
server_lifetime = 3600000
server_round_robin = true
shutdown_timeout = 60000
tcp_keepalives_idle = 5
tcp_keepalives_count = 5
tcp_keepalives_interval = 5
tcp_user_timeout = 10000
log_client_connections = false
log_client_disconnections = false
healthcheck_delay = 30000
"#;

const NO_SHARDS: &str = "Weir does not shard";

const GENERAL: &[(&str, How)] = &[
    ("host", How::List("listen_addr")),
    ("port", How::Copy("listen_port")),
    ("worker_threads", How::Copy("workers")),
    ("idle_timeout", How::Millis("server_idle_timeout")),
    ("server_lifetime", How::Millis("server_lifetime")),
    ("server_round_robin", How::Copy("server_round_robin")),
    (
        "idle_client_in_transaction_timeout",
        How::Millis("idle_transaction_timeout"),
    ),
    ("healthcheck_delay", How::Millis("server_check_delay")),
    (
        "healthcheck_timeout",
        How::Nothing("hosts are watched all the time; see probe_timeout"),
    ),
    (
        "ban_time",
        How::Nothing("a host that answers again is used again"),
    ),
    ("shutdown_timeout", How::Millis("drain_timeout")),
    (
        "autoreload",
        How::Not(
            "false",
            "Weir reads its files again at SIGHUP or RELOAD only",
        ),
    ),
    ("tcp_keepalives_idle", How::Seconds("tcp_keepidle")),
    ("tcp_keepalives_count", How::Copy("tcp_keepcnt")),
    ("tcp_keepalives_interval", How::Seconds("tcp_keepintvl")),
    ("tcp_user_timeout", How::Millis("tcp_user_timeout")),
    ("log_client_connections", How::Copy("log_connections")),
    ("log_client_disconnections", How::Copy("log_disconnections")),
    (
        "dns_cache_enabled",
        How::Nothing("Weir keeps addresses for dns_max_ttl"),
    ),
    ("dns_max_ttl", How::Seconds("dns_max_ttl")),
    ("tls_private_key", How::Copy("client_tls_key_file")),
    (
        "admin_auth_type",
        How::Nothing("the console has the logins of all clients"),
    ),
    ("auth_query", How::Copy("auth_query")),
    ("auth_query_user", How::Copy("auth_user")),
    (
        "validate_config",
        How::Nothing("every configuration is checked"),
    ),
    (
        "prepared_statements",
        How::Nothing("see max_prepared_statements"),
    ),
    (
        "verify_server_certificate",
        How::Nothing("decides the value for server_tls"),
    ),
    (
        "log_client_parameter_status_changes",
        How::Nothing("settings follow the client"),
    ),
];

const POOL: &[(&str, How)] = &[
    ("pool_mode", How::Copy("pool_mode")),
    ("server_lifetime", How::Millis("server_lifetime")),
    ("connect_timeout", How::Millis("query_wait_timeout")),
    ("idle_timeout", How::Millis("server_idle_timeout")),
    (
        "load_balancing_mode",
        How::Not(
            "random",
            "replicas share reads by weight; reads have no choice by open connections",
        ),
    ),
    (
        "query_parser_max_length",
        How::Nothing("statements of any length are judged"),
    ),
    ("primary_reads_enabled", How::Nothing("see read_fallback")),
    ("sharding_function", How::Nothing(NO_SHARDS)),
    ("automatic_sharding_key", How::Not("", NO_SHARDS)),
    ("sharding_key_regex", How::Not("", NO_SHARDS)),
    ("shard_id_regex", How::Not("", NO_SHARDS)),
    ("regex_search_limit", How::Nothing(NO_SHARDS)),
    ("default_shard", How::Nothing(NO_SHARDS)),
    ("auth_query", How::Copy("auth_query")),
    ("auth_query_user", How::Copy("auth_user")),
    (
        "prepared_statements_cache_size",
        How::Nothing("see max_prepared_statements"),
    ),
    (
        "cleanup_server_connections",
        How::Not("true", "Weir always restores session state"),
    ),
    (
        "log_client_parameter_status_changes",
        How::Nothing("settings follow the client"),
    ),
    (
        "checkout_failure_limit",
        How::Not(
            "0",
            "Weir does not end clients that waited in vain several times",
        ),
    ),
    (
        "db_activity_based_routing",
        How::Not("false", "see read_consistency, which is exact"),
    ),
    (
        "db_activity_init_delay",
        How::Nothing("see read_consistency"),
    ),
    ("db_activity_ttl", How::Nothing("see read_consistency")),
    (
        "table_mutation_cache_ms_ttl",
        How::Nothing("see read_consistency"),
    ),
];

/// Facts that several settings decide together.
#[derive(Default)]
struct Facts {
    /// Hosts of each pool: (host, port, role).
    hosts: BTreeMap<String, BTreeMap<usize, [String; 3]>>,
    /// Names of the users by pool and position.
    users: BTreeMap<(String, String), String>,
    /// Pool and `pool_size` of each user.
    user_sizes: Vec<(String, i64)>,
    user_auth_types: Vec<String>,
    /// Methods of the users that have one, by pool and position.
    methods: BTreeMap<(String, String), String>,
    has_auth_query: bool,
    splits: Vec<String>,
    parses: Vec<String>,
    auth_query_user: String,
    admin: String,
    metrics_port: String,
    listen: String,
    verifies: bool,
}

impl Facts {
    fn gather(leaves: &[Leaf]) -> Self {
        let mut facts = Self::default();
        for leaf in leaves {
            let text = leaf.text();
            match *leaf.parts().as_slice() {
                ["general", "host"] => facts.listen = text,
                ["general", "admin_username"] => facts.admin = text,
                ["general", "auth_query_user"] => facts.auth_query_user = text,
                ["general", "prometheus_exporter_port"] => facts.metrics_port = text,
                ["general", "verify_server_certificate"] => facts.verifies = text == "true",
                ["pools", pool, "query_parser_read_write_splitting"] if text == "true" => {
                    facts.splits.push(pool.to_owned());
                }
                ["pools", pool, "query_parser_enabled"] if text == "true" => {
                    facts.parses.push(pool.to_owned());
                }
                ["pools", pool, "shards", "0", "servers", host, part] => {
                    let hosts = facts.hosts.entry(pool.to_owned()).or_default();
                    let host = hosts.entry(host.parse().unwrap_or_default()).or_default();
                    if let Some(slot) = part.parse().ok().and_then(|at: usize| host.get_mut(at)) {
                        *slot = text;
                    }
                }
                ["pools", pool, "users", user, "username"] => {
                    facts.users.insert((pool.to_owned(), user.to_owned()), text);
                }
                ["pools", pool, "users", _, "pool_size"] => {
                    let own = leaf.number().unwrap_or_default().max(0);
                    facts.user_sizes.push((pool.to_owned(), own));
                }
                ["pools", pool, "users", at, "auth_type"] => {
                    facts
                        .methods
                        .insert((pool.to_owned(), at.to_owned()), text.clone());
                    facts.user_auth_types.push(text);
                }
                ["general", "auth_query"] | ["pools", _, "auth_query"] => {
                    facts.has_auth_query = true
                }
                _ => {}
            }
        }
        facts
    }

    /// True if users differ in their method, or may use some pools only. With auth_query, users are not listed.
    fn needs_hba(&self) -> bool {
        let mut pools: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for ((pool, _), user) in &self.users {
            pools.entry(pool).or_default().insert(user);
        }
        let mut sets = pools.values();
        let first = sets.next();
        let differ = sets.any(|set| Some(set) != first);
        let methods: BTreeSet<&str> = self.users.keys().map(|user| self.method(user)).collect();
        !self.has_auth_query && (differ || methods.len() > 1)
    }

    fn method(&self, user: &(String, String)) -> &str {
        self.methods.get(user).map_or("md5", String::as_str)
    }

    fn splits(&self, pool: &str) -> bool {
        let holds = |list: &[String]| list.iter().any(|name| name == pool);
        holds(&self.parses) && holds(&self.splits) && self.has_replicas(pool)
    }

    /// True if all users of a pool have the same size.
    fn sizes_agree(&self, pool: &str) -> bool {
        let mut sizes = self.user_sizes.iter().filter(|(of, _)| of == pool);
        let first = sizes.next();
        sizes.all(|size| Some(size) == first)
    }

    fn has_replicas(&self, pool: &str) -> bool {
        self.hosts.get(pool).is_some_and(|hosts| hosts.len() > 1)
    }
}

/// Maps all settings.
pub(crate) fn map(mut leaves: Vec<Leaf>, draft: &mut Draft) -> Vec<Finding> {
    add_defaults(&mut leaves, DEFAULTS);
    let facts = Facts::gather(&leaves);
    draft.set(Table::Global, "pool_mode", Term::text("transaction"));
    let trusts = !facts.user_auth_types.is_empty()
        && facts.user_auth_types.iter().all(|method| method == "trust");
    let auth_type = if trusts { "trust" } else { "md5" };
    draft.set(Table::Global, "auth_type", Term::text(auth_type));
    if facts.needs_hba() {
        hba::begin(draft);
        for (key, user) in &facts.users {
            let (pool, user) = (hba::quoted(&key.0), hba::quoted(user));
            hba::pair(&pool, &user, facts.method(key), draft);
        }
        hba::pair(hba::CONSOLE, &hba::quoted(&facts.admin), "md5", draft);
    }
    notes(&facts, draft);
    for pool in facts.hosts.keys() {
        draft.touch(Table::Database(pool.clone()));
    }
    let fate = |leaf: &Leaf| Finding::new(leaf, setting(leaf, &facts, draft));
    leaves.iter().map(fate).collect()
}

/// Compares the numbers of servers, and says what the files cannot tell.
fn notes(facts: &Facts, draft: &mut Draft) {
    draft.no_client_limit("PgCat");
    let mut most = 0_i64;
    for (pool, size) in &facts.user_sizes {
        let hosts = facts.hosts.get(pool).map_or(1, BTreeMap::len);
        let hosts = i64::try_from(hosts).unwrap_or(i64::MAX);
        most = most.saturating_add(size.saturating_mul(hosts));
    }
    draft.note(format!(
        "servers at most, for the users of the files: PgCat {most}, Weir {most}"
    ));
    draft.note(
        "applications may send SET SHARD TO, SET SERVER ROLE TO and the like, which mean nothing to Weir; see \
         docs/guide/replicas.md for SET weir.role",
    );
}

fn setting(leaf: &Leaf, facts: &Facts, draft: &mut Draft) -> Outcome {
    match *leaf.parts().as_slice() {
        ["general", key] => general(leaf, key, facts, draft),
        ["pools", name, key] => pool(leaf, name, key, facts, draft),
        ["pools", name, "users", at, key] => {
            let key_of_user = (name.to_owned(), at.to_owned());
            match facts.users.get(&key_of_user) {
                Some(user) => of_user(leaf, name, user, key, facts, draft),
                None => Outcome::NotMapped("the user has no username".to_owned()),
            }
        }
        ["pools", name, "shards", "0", ref rest @ ..] => shard(leaf, name, rest, facts, draft),
        ["pools", _, "shards", ..] => Outcome::NotMapped(NO_SHARDS.to_owned()),
        ["pools", _, "plugins", ..] | ["plugins", ..] => plugin(leaf),
        _ => Outcome::Unknown(VERSION),
    }
}

fn general(leaf: &Leaf, key: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    let text = leaf.text();
    match key {
        "connect_timeout" => {
            apply(
                How::Millis("server_connect_timeout"),
                leaf,
                Table::Global,
                draft,
            );
            apply(
                How::Millis("query_wait_timeout"),
                leaf,
                Table::Global,
                draft,
            );
            let to = "server_connect_timeout and query_wait_timeout";
            Outcome::Mapped(to.to_owned())
        }
        "admin_username" => set(draft, Table::Global, "admin_users", Term::List(vec![text])),
        "admin_password" => secret(leaf, &facts.admin, draft),
        "auth_query_password" => secret(leaf, &facts.auth_query_user, draft),
        "tls_certificate" => {
            draft.set(Table::Global, "client_tls_sslmode", Term::text("prefer"));
            apply(
                How::Copy("client_tls_cert_file"),
                leaf,
                Table::Global,
                draft,
            )
        }
        "server_tls" if text != "true" => set(
            draft,
            Table::Global,
            "server_tls_sslmode",
            Term::text("disable"),
        ),
        "server_tls" if facts.verifies => {
            draft.set(Table::Global, "server_tls_ca_file", Term::text("system"));
            set(
                draft,
                Table::Global,
                "server_tls_sslmode",
                Term::text("verify-full"),
            )
        }
        "server_tls" => set(
            draft,
            Table::Global,
            "server_tls_sslmode",
            Term::text("require"),
        ),
        "enable_prometheus_exporter" if text == "true" => {
            let port = match facts.metrics_port.as_str() {
                "" => "9930",
                port => port,
            };
            let address = Term::List(vec![format!("{}:{port}", facts.listen)]);
            set(draft, Table::Global, "metrics_listen", address);
            let why = "the metrics have other names; use the board of docs/guide/monitoring.md";
            Outcome::Differs("metrics_listen".to_owned(), why.to_owned())
        }
        "enable_prometheus_exporter" => Outcome::NoMeaning("Weir serves no metrics by default"),
        "prometheus_exporter_port" => Outcome::NoMeaning("part of enable_prometheus_exporter"),
        "prepared_statements_cache_size" => statements(leaf, draft),
        _ => by_table(GENERAL, leaf, key, &Table::Global, draft, VERSION),
    }
}

fn pool(leaf: &Leaf, name: &str, key: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    let text = leaf.text();
    let table = Table::Database(name.to_owned());
    match key {
        "auth_query_password" => secret(leaf, &facts.auth_query_user, draft),
        "prepared_statements_cache_size" => statements(leaf, draft),
        "query_parser_enabled" | "query_parser_read_write_splitting" => {
            if facts.splits(name) {
                return set(draft, table, "read_write_split", Term::text("auto"));
            }
            Outcome::NoMeaning("no statement is sent to a replica")
        }
        "default_role" if facts.splits(name) || !facts.has_replicas(name) => {
            Outcome::NoMeaning("statements find their host by what they do")
        }
        "default_role" => match text.as_str() {
            "any" => set(draft, table, "target", Term::text("any")),
            "replica" => set(draft, table, "target", Term::text("standby")),
            "primary" => Outcome::Default(format!("databases.{name}.target")),
            _ => Outcome::Unknown(VERSION),
        },
        _ => by_table(POOL, leaf, key, &table, draft, VERSION),
    }
}

fn of_user(
    leaf: &Leaf,
    pool: &str,
    user: &str,
    key: &str,
    facts: &Facts,
    draft: &mut Draft,
) -> Outcome {
    let table = Table::Pool(pool.to_owned(), user.to_owned());
    match key {
        "username" => Outcome::Mapped("auth_file".to_owned()),
        "password" => secret(leaf, user, draft),
        "auth_type" if facts.needs_hba() => Outcome::Mapped("auth_hba_file".to_owned()),
        "auth_type"
            if facts
                .user_auth_types
                .iter()
                .any(|other| *other != leaf.text()) =>
        {
            let why = "users differ in their method: use auth_type = \"hba\" with a line for each";
            Outcome::NotMapped(why.to_owned())
        }
        "auth_type" => Outcome::Mapped("auth_type".to_owned()),
        "pool_size" => {
            let table = match facts.sizes_agree(pool) {
                true => Table::Database(pool.to_owned()),
                false => table,
            };
            apply(How::Copy("pool_size"), leaf, table, draft)
        }
        "min_pool_size" => apply(How::Copy("min_pool_size"), leaf, table, draft),
        // A user's mode goes with its read/write split.
        "pool_mode" => {
            let table = Table::User(user.to_owned());
            apply(How::Copy("pool_mode"), leaf, table, draft)
        }
        "statement_timeout" => apply(How::Millis("query_timeout"), leaf, table, draft),
        "connect_timeout" => apply(How::Millis("query_wait_timeout"), leaf, table, draft),
        "server_lifetime" => apply(How::Millis("server_lifetime"), leaf, table, draft),
        "idle_timeout" => apply(How::Millis("server_idle_timeout"), leaf, table, draft),
        "server_username" | "server_password" => Outcome::NotMapped(
            "servers are logged in to as the client's user; a database may force one by user"
                .to_owned(),
        ),
        _ => Outcome::Unknown(VERSION),
    }
}

fn shard(leaf: &Leaf, pool: &str, rest: &[&str], facts: &Facts, draft: &mut Draft) -> Outcome {
    let table = Table::Database(pool.to_owned());
    match *rest {
        ["database"] => apply(How::Copy("dbname"), leaf, table, draft),
        ["servers", at, _] => {
            let hosts = facts.hosts.get(pool);
            let mut users = facts.users.iter().filter(|((of, _), _)| of == pool);
            let watcher = users.next().map(|(_, user)| user);
            let position = at.parse().unwrap_or_default();
            let Some(host) = hosts.and_then(|hosts| hosts.get(&position)) else {
                return Outcome::Unknown(VERSION);
            };
            server(
                host,
                hosts.into_iter().flat_map(BTreeMap::values),
                watcher,
                table,
                draft,
            )
        }
        ["mirrors", ..] => {
            Outcome::NotMapped("mirror by a query rule, see docs/guide/rules.md".to_owned())
        }
        _ => Outcome::Unknown(VERSION),
    }
}

/// Writes one host: the first primary as the database's host, others as replicas, whose roles Weir finds out.
fn server<'a>(
    host: &[String; 3],
    mut all: impl Iterator<Item = &'a [String; 3]> + Clone,
    watcher: Option<&String>,
    table: Table,
    draft: &mut Draft,
) -> Outcome {
    let is_primary = |host: &&'a [String; 3]| host[2] == "primary";
    let first = all.clone().find(is_primary).or_else(|| all.next());
    if first.is_some_and(|first| first == host) {
        let port = host[1].parse().unwrap_or(5432);
        draft.set(table.clone(), "port", Term::Number(port));
        return set(draft, table, "host", Term::text(&host[0]));
    }
    let point = format!("{}:{}", host[0], host[1]);
    replica(point, watcher, table, draft)
}

fn plugin(leaf: &Leaf) -> Outcome {
    let why = match leaf.path.iter().any(|part| part == "prewarmer") {
        true => "use connect_query, which is one statement",
        false => "use a query rule, see docs/guide/rules.md",
    };
    match leaf.path.last().is_some_and(|last| last == "enabled") && leaf.text() == "false" {
        true => Outcome::NoMeaning("the plugin is off"),
        false => Outcome::NotMapped(why.to_owned()),
    }
}

fn statements(leaf: &Leaf, draft: &mut Draft) -> Outcome {
    match leaf.number() {
        Some(0) => Outcome::NoMeaning("clients without prepared statements notice nothing"),
        _ => apply(
            How::Copy("max_prepared_statements"),
            leaf,
            Table::Global,
            draft,
        ),
    }
}
