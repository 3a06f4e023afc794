//! ProxySQL: the sections of `proxysql.cnf` about PostgreSQL. Host groups have no counterpart: the group in which users
//! begin, and its readers, become the hosts of the one entry that stands for all databases.

mod facts;
mod read;
mod rows;
mod rules;
mod servers;

use std::collections::BTreeMap;

use self::facts::{Facts, Key, column, is_active, key};
pub(crate) use self::read::read;
use self::rows::{ADMIN, ADMIN_PARTS, COPIED, DEFAULTS, TABLES, TOP, VARIABLES};
use crate::apply::{How, apply, by_groups, push, secret, secret_text, set, set_other};
use crate::draft::{Draft, Table, Term};
use crate::finding::{Finding, Outcome};
use crate::hba;
use crate::leaf::{Leaf, add_defaults};

const VERSION: &str = "ProxySQL 3.0";

/// Entry for all databases.
fn table() -> Table {
    Table::Database(weir_config::FALLBACK.to_owned())
}

/// Maps all settings.
pub(crate) fn map(mut leaves: Vec<Leaf>, draft: &mut Draft) -> Vec<Finding> {
    for leaf in &mut leaves {
        if let [section, name] = leaf.path.as_mut_slice() {
            let prefix = section.replace("_variables", "-");
            if let Some(rest) = name.strip_prefix(&prefix) {
                *name = rest.to_owned();
            }
        }
    }
    add_defaults(&mut leaves, DEFAULTS);
    servers::add_defaults(&mut leaves);
    let facts = Facts::gather(&leaves);
    logins(&facts, draft);
    notes(&facts, draft);
    let rules = rules(&facts, draft);
    let fate = |leaf: &Leaf| Finding::new(leaf, setting(leaf, &facts, &rules, draft));
    leaves.iter().map(fate).collect()
}

/// Maps the rules in the order of their ids.
fn rules(facts: &Facts, draft: &mut Draft) -> BTreeMap<Key, Outcome> {
    let id = |key: &Key| {
        facts
            .rules
            .get(key)
            .and_then(|rule| column(rule, "rule_id", "0").parse::<i64>().ok())
    };
    let mut keys: Vec<&Key> = facts.rules.keys().collect();
    keys.sort_by_key(|key| id(key));
    let mut outcomes = BTreeMap::new();
    for key in keys {
        if let Some(rule) = facts.rules.get(key) {
            outcomes.insert(key.clone(), rules::map(rule, facts, draft));
        }
    }
    outcomes
}

/// Writes the method of all clients, and an HBA file if users must have TLS.
fn logins(facts: &Facts, draft: &mut Draft) {
    let (auth_type, method) = match facts.variable("authentication_method", "3").as_str() {
        "1" => ("plain", "password"),
        "2" => ("md5", "md5"),
        _ => ("scram-sha-256", "scram-sha-256"),
    };
    let users = facts.users.values().filter(|user| is_active(user));
    let secured: Vec<String> = users
        .filter(|user| column(user, "use_ssl", "0") == "1")
        .map(|user| column(user, "username", ""))
        .collect();
    if secured.is_empty() {
        draft.set(Table::Global, "auth_type", Term::text(auth_type));
        return;
    }
    hba::begin(draft);
    for user in secured {
        hba::add(
            format!("hostnossl all {} all reject", hba::quoted(&user)),
            draft,
        );
    }
    hba::pair("all", "all", method, draft);
}

fn notes(facts: &Facts, draft: &mut Draft) {
    draft.note(
        "after its first start ProxySQL reads its database and not this file: compare with SELECT * FROM runtime_pgsql_servers, \
         runtime_pgsql_users and runtime_pgsql_query_rules",
    );
    if !facts.variables.contains_key("have_ssl") {
        draft.note(
            "ProxySQL offers TLS to clients with a certificate that it made itself; for the same set client_tls_sslmode = \
             \"prefer\", client_tls_cert_file and client_tls_key_file",
        );
    }
    let each: Vec<i64> = facts
        .used()
        .iter()
        .filter_map(|server| column(server, "max_connections", "1000").parse().ok())
        .collect();
    let sum = each.iter().copied().fold(0_i64, i64::saturating_add);
    draft.note(format!(
        "servers at most: ProxySQL {sum} on {} hosts for all databases and users; Weir {sum} for each database \
         (max_db_connections)",
        each.len()
    ));
    draft.note("tables of the admin interface are SHOW commands of the console, and metrics have other names; see docs/guide/rules-examples.md");
}

fn setting(
    leaf: &Leaf,
    facts: &Facts,
    rules: &BTreeMap<Key, Outcome>,
    draft: &mut Draft,
) -> Outcome {
    match *leaf.parts().as_slice() {
        ["@include"] => include(leaf, facts),
        ["errorlog"] => set(draft, Table::Global, "logfile", Term::Text(leaf.text())),
        ["pgsql_variables", name] => variable(leaf, name, facts, draft),
        ["admin_variables", name] => admin(leaf, name, draft),
        ["pgsql_servers", _, name] => servers::setting(leaf, name, facts, draft),
        ["pgsql_users", _, name] => user(leaf, name, facts, draft),
        ["pgsql_query_rules", ..] => {
            let outcome = key(leaf).and_then(|key| rules.get(&key).cloned());
            outcome.unwrap_or(Outcome::Unknown(VERSION))
        }
        ["pgsql_replication_hostgroups", _, name] => match name {
            "writer_hostgroup" | "reader_hostgroup" => {
                Outcome::Mapped("databases.*.replicas".to_owned())
            }
            "check_type" | "comment" => Outcome::NoMeaning("Weir asks each host for its role"),
            _ => Outcome::Unknown(VERSION),
        },
        [name, ..] if name.starts_with("mysql_") => {
            Outcome::NoMeaning("about another protocol, MySQL's")
        }
        [name] => match by_groups(TOP, name) {
            Some(how) => apply(how, leaf, Table::Global, draft),
            None => Outcome::Unknown(VERSION),
        },
        [section, ..] => match by_groups(TABLES, section) {
            Some(how) => apply(how, leaf, Table::Global, draft),
            None => Outcome::Unknown(VERSION),
        },
        [] => Outcome::Unknown(VERSION),
    }
}

fn include(leaf: &Leaf, facts: &Facts) -> Outcome {
    let name = leaf.text();
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    match facts
        .files
        .iter()
        .any(|file| *file != leaf.file && last(file) == last(&name))
    {
        true => Outcome::NoMeaning("the file is read too"),
        false => Outcome::NotMapped("give this file as a further one".to_owned()),
    }
}

fn variable(leaf: &Leaf, name: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    let text = leaf.text();
    match name {
        "interfaces" => interfaces(&text, draft),
        "multiplexing" => {
            let mode = if leaf.flag() == Some(false) { "session" } else { "transaction" };
            set(draft, Table::Global, "pool_mode", Term::text(mode))
        }
        "authentication_method" => match draft.get(&Table::Global, "auth_type") {
            _ if !matches!(text.as_str(), "1" | "2" | "3") => Outcome::Unknown(VERSION),
            Some(term) => Outcome::Mapped(format!("auth_type = {}", term.toml())),
            None => Outcome::Default("auth_type".to_owned()),
        },
        "connection_max_age_ms" if text == "0" => {
            Outcome::NoMeaning("servers are closed after server_lifetime, when nobody uses them")
        }
        "connection_max_age_ms" => apply(How::Millis("server_lifetime"), leaf, Table::Global, draft),
        "max_stmts_per_connection" => match leaf.number() {
            Some(number) if number > 200 => {
                apply(How::Number("max_prepared_statements"), leaf, Table::Global, draft)
            }
            _ => Outcome::NoMeaning("a server keeps max_prepared_statements of them, 200 by default"),
        },
        "init_connect" if !text.is_empty() => set(draft, table(), "connect_query", Term::Text(text)),
        "init_connect" => Outcome::NoMeaning("not set"),
        "have_ssl" if leaf.flag() == Some(true) => Outcome::NotMapped(
            "set client_tls_sslmode = \"prefer\", client_tls_cert_file and client_tls_key_file; ProxySQL's own files are \
             proxysql-cert.pem and proxysql-key.pem in its datadir"
                .to_owned(),
        ),
        "have_ssl" => Outcome::Default("client_tls_sslmode".to_owned()),
        _ if name.starts_with("monitor_") => servers::monitor(leaf, name, facts, draft),
        _ if name.starts_with("ssl_p2s_") && text.is_empty() => Outcome::NoMeaning("not set"),
        _ => match COPIED.iter().find(|(known, _)| *known == name) {
            Some((_, how)) => apply(*how, leaf, Table::Global, draft),
            None => match by_groups(VARIABLES, name) {
                Some(how) => apply(how, leaf, Table::Global, draft),
                None => Outcome::Unknown(VERSION),
            },
        },
    }
}

/// Splits addresses from paths of sockets. All addresses have one port in Weir.
fn interfaces(text: &str, draft: &mut Draft) -> Outcome {
    let mut port: Option<&str> = None;
    for part in text
        .split(';')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        if let Some((directory, _)) = part.strip_prefix('/').and_then(|_| part.rsplit_once('/')) {
            draft.set(Table::Global, "unix_socket_dir", Term::text(directory));
            continue;
        }
        let Some((address, own)) = part.rsplit_once(':') else {
            return Outcome::NotMapped("an interface has no port".to_owned());
        };
        if port.is_some_and(|port| port != own) {
            return Outcome::NotMapped("all addresses of Weir have one port".to_owned());
        }
        port = Some(own);
        push(draft, Table::Global, "listen_addr", address.to_owned());
    }
    if let Some(port) = port.and_then(|port| port.parse().ok()) {
        draft.set(Table::Global, "listen_port", Term::Number(port));
    }
    Outcome::Mapped("listen_addr, listen_port, unix_socket_dir".to_owned())
}

fn admin(leaf: &Leaf, name: &str, draft: &mut Draft) -> Outcome {
    let option = match name {
        "admin_credentials" => "admin_users",
        "stats_credentials" => "stats_users",
        _ if name == "cluster_username" || name == "cluster_password" => {
            return Outcome::NotMapped("each Weir reads its own files; see [peers]".to_owned());
        }
        _ if ADMIN_PARTS.iter().any(|part| name.starts_with(part)) => {
            return Outcome::NoMeaning("each Weir reads its own files, and counts for itself");
        }
        _ => {
            return match by_groups(ADMIN, name) {
                Some(how) => apply(how, leaf, Table::Global, draft),
                None => Outcome::Unknown(VERSION),
            };
        }
    };
    let mut outcome = Outcome::NoMeaning("nobody is named");
    for login in leaf
        .text()
        .split(';')
        .map(str::trim)
        .filter(|login| !login.is_empty())
    {
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        outcome = push(draft, Table::Global, option, user.to_owned());
        if let refused @ Outcome::NotMapped(_) = secret_text(password, user, draft) {
            return refused;
        }
    }
    outcome
}

fn user(leaf: &Leaf, name: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    let Some(row) = key(leaf).and_then(|key| facts.users.get(&key)) else {
        return Outcome::Unknown(VERSION);
    };
    if !is_active(row) {
        return Outcome::NoMeaning("the user is not active");
    }
    let user = column(row, "username", "");
    let own = Table::User(user.clone());
    match name {
        "username" => Outcome::Mapped("auth_file".to_owned()),
        "password" if leaf.text().is_empty() => {
            Outcome::NotMapped("a user without a password cannot log in; see auth_query".to_owned())
        }
        "password" => secret(leaf, &user, draft),
        "active" => Outcome::NoMeaning("the user is in auth_file"),
        "default_hostgroup" if leaf.text() == facts.writer => {
            Outcome::Mapped("databases.*".to_owned())
        }
        "default_hostgroup" => Outcome::NotMapped(
            "another host group than that of most users: give its databases entries of their own"
                .to_owned(),
        ),
        "max_connections" => apply(How::Number("max_user_client_connections"), leaf, own, draft),
        "transaction_persistent" => Outcome::NoMeaning("a transaction always stays on its server"),
        "fast_forward" if leaf.flag() == Some(true) => {
            let why = "messages are read nevertheless";
            set_other(draft, own, "pool_mode", Term::text("session"), why)
        }
        "fast_forward" => Outcome::NoMeaning("Weir does the same"),
        "use_ssl" if leaf.flag() == Some(true) => Outcome::Mapped("auth_hba_file".to_owned()),
        "use_ssl" => Outcome::NoMeaning("Weir does the same"),
        "frontend" | "backend" => apply(
            How::Not("1", "a user has one password, towards clients and servers"),
            leaf,
            own,
            draft,
        ),
        "attributes" => apply(How::Not("", "Weir has no counterpart"), leaf, own, draft),
        "comment" => Outcome::NoMeaning("a comment"),
        _ => Outcome::Unknown(VERSION),
    }
}
