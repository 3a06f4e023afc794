//! Odyssey: `odyssey.conf`, its includes and its HBA file. A route, that is a database and a user, has all its settings;
//! Weir has tables of databases and of users, so that routes which disagree cannot always be mapped.

mod access;
mod facts;
mod read;
mod route;
mod rows;
mod storage;

use self::facts::Facts;
use self::rows::{BLOCKS, DEFAULTS, GLOBAL, OTHERS, ROUTE_DEFAULTS};
use crate::apply::{How, apply, by_groups, push, set, set_other};
use crate::cursor::SyntaxError;
use crate::draft::{Draft, Table, Term};
use crate::finding::{Finding, Outcome};
use crate::leaf::{Leaf, Scalar, add_defaults};

const VERSION: &str = "Odyssey 1.5.3";
/// First part of the path of lines of the HBA file.
const HBA: &str = "hba";

/// Reads a file; one with `hba` in its name is an HBA file.
pub(crate) fn read(file: &str, text: &str) -> Result<Vec<Leaf>, SyntaxError> {
    let name = file.rsplit('/').next().unwrap_or_default();
    match name.contains("hba") {
        true => Ok(crate::pgpool::read_lines(file, text, HBA)),
        false => read::read(file, text),
    }
}

/// Maps all settings.
pub(crate) fn map(mut leaves: Vec<Leaf>, draft: &mut Draft) -> Vec<Finding> {
    add_defaults(&mut leaves, DEFAULTS);
    add_block_defaults(&mut leaves);
    let facts = Facts::gather(&leaves);
    access::write(&facts, draft);
    notes(&facts, draft);
    let fate = |leaf: &Leaf| Finding::new(leaf, setting(leaf, &facts, draft));
    let mut findings: Vec<Finding> = leaves.iter().map(fate).collect();
    // Routes have the same defaults: one line is enough for each.
    let mut told: Vec<(String, Outcome)> = Vec::new();
    findings.retain(|finding| {
        let name = finding
            .key
            .rsplit('.')
            .next()
            .unwrap_or_default()
            .to_owned();
        let fact = (name, finding.outcome.clone());
        // Where a default cannot be written, another route has a value, and its finding tells.
        let is_default = finding.line == 0;
        let is_news = !is_default || !finding.blocks() && !told.contains(&fact);
        told.push(fact);
        is_news
    });
    findings
}

/// Appends the defaults of routes, storages and listeners.
fn add_block_defaults(leaves: &mut Vec<Leaf>) {
    let facts = Facts::gather(leaves);
    let mut add = |file: &str, path: &[String], name: &str, value: &str| {
        let mut path = path.to_vec();
        path.push(name.to_owned());
        let value = match value {
            "true" => Scalar::Flag(true),
            "false" => Scalar::Flag(false),
            _ => value
                .parse()
                .map_or_else(|_| Scalar::Text(value.to_owned()), Scalar::Number),
        };
        leaves.push(Leaf {
            path,
            value,
            file: file.to_owned(),
            line: 0,
        });
    };
    let is_served = |route: &facts::Route| !route.is_console && !route.is_blocked();
    for ((file, path), route) in facts.routes.iter().filter(|(_, route)| is_served(route)) {
        let missing = ROUTE_DEFAULTS.iter().filter(|(name, _)| !route.has(name));
        for (name, value) in missing.filter(|(_, value)| !value.is_empty()) {
            add(file, path, name, value);
        }
    }
    for ((file, path), _) in facts
        .storages
        .iter()
        .filter(|(_, storage)| !storage.has_tls)
    {
        add(file, path, "tls", "disable");
    }
    // Without a host, an address of Odyssey is the socket.
    if facts.listens.contains_key("host") && !facts.global.contains_key("unix_socket_dir") {
        add("default", &[], "unix_socket_dir", "");
    }
    if !facts.listens.contains_key("client_login_timeout") {
        let path = ["listen".to_owned(), "0".to_owned()];
        add("default", &path, "client_login_timeout", "15000");
    }
}

fn notes(facts: &Facts, draft: &mut Draft) {
    let limited = facts
        .served()
        .filter(|route| route.value("pool_size") != "0");
    let sizes = limited.filter_map(|route| {
        let storage = facts.storage(&route.value("storage"))?;
        let hosts = i64::try_from(storage.endpoints("").len()).ok()?;
        let size: i64 = route.value("pool_size").parse().ok()?;
        Some(size.saturating_mul(hosts))
    });
    let sum = sizes.fold(0_i64, i64::saturating_add);
    let unlimited = facts
        .served()
        .filter(|route| route.value("pool_size") == "0")
        .count();
    draft.note(format!(
        "servers at most: Odyssey {sum} in routes with a pool_size, {unlimited} routes without a limit; Weir has a pool of the \
         same size for each pair of database and user, on each host"
    ));
    draft.note("applications may send SET odyssey.*, which means nothing to Weir; see docs/guide/replicas.md for SET weir.*");
}

fn setting(leaf: &Leaf, facts: &Facts, draft: &mut Draft) -> Outcome {
    match *leaf.parts().as_slice() {
        [HBA, _] => access::hba_line(&leaf.text(), facts, draft),
        [name] => global(leaf, name, facts, draft),
        ["listen", _, name] => listen(leaf, name, facts, draft),
        ["storage", _, ref rest @ ..] => storage::setting(leaf, rest, facts, draft),
        ["shared_pool", _, "name" | "pool_size"] => {
            Outcome::NoMeaning("part of shared_pool in its routes")
        }
        ["database", _, "name" | "default"] => database(leaf, facts),
        ["database", _, "user" | "group", _, ref rest @ ..] => match facts.route(leaf) {
            Some(route) => route::setting(leaf, rest, route, facts, draft),
            None => Outcome::Unknown(VERSION),
        },
        [block, ..] => match by_groups(BLOCKS, block) {
            Some(how) => apply(how, leaf, Table::Global, draft),
            None => Outcome::Unknown(VERSION),
        },
        _ => Outcome::Unknown(VERSION),
    }
}

/// The entry is written with its routes, unless these lead to the console.
fn database(leaf: &Leaf, facts: &Facts) -> Outcome {
    let is_named = leaf.path.last().is_some_and(|name| name == "name");
    match (facts.is_console(leaf), is_named) {
        (true, _) => Outcome::Differs(
            "the console".to_owned(),
            "its database is weir or pgbouncer".to_owned(),
        ),
        (false, true) => Outcome::Mapped(format!("databases.{}", leaf.text())),
        (false, false) => Outcome::Mapped("databases.*".to_owned()),
    }
}

fn global(leaf: &Leaf, name: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    let text = leaf.text();
    match name {
        "include" => match facts
            .files
            .iter()
            .any(|file| *file != leaf.file && is_file(file, &text))
        {
            true => Outcome::NoMeaning("the file is read too"),
            false => Outcome::NotMapped("give this file as a further one".to_owned()),
        },
        "hba_file" => match facts.has_hba_file {
            true => Outcome::Mapped("auth_hba_file".to_owned()),
            false => Outcome::NotMapped(
                "give this file as a further one, with hba in its name".to_owned(),
            ),
        },
        "workers" if text == "auto" => Outcome::Differs(
            "workers, by default".to_owned(),
            "Weir has a worker per core, Odyssey half as many".to_owned(),
        ),
        "workers" => apply(How::Number("workers"), leaf, Table::Global, draft),
        "keepalive" if text == "0" => set(draft, Table::Global, "tcp_keepalive", Term::Flag(false)),
        "keepalive" => apply(How::Seconds("tcp_keepidle"), leaf, Table::Global, draft),
        "log_session" => {
            let flag = Term::Flag(leaf.flag().unwrap_or(true));
            draft.set(Table::Global, "log_disconnections", flag.clone());
            set(draft, Table::Global, "log_connections", flag)
        }
        "log_format" if text == "json" => {
            set(draft, Table::Global, "log_format", Term::text("json"))
        }
        "log_format" => Outcome::NoMeaning("log lines have a fixed form"),
        "promhttp_server_port" => {
            let address = Term::List(vec![format!("0.0.0.0:{text}")]);
            let why = "the metrics have other names; use the board of docs/guide/monitoring.md";
            set_other(draft, Table::Global, "metrics_listen", address, why)
        }
        _ => match GLOBAL.iter().find(|(known, _)| *known == name) {
            Some((_, how)) => apply(*how, leaf, Table::Global, draft),
            None => match by_groups(OTHERS, name) {
                Some(how) => apply(how, leaf, Table::Global, draft),
                None => Outcome::Unknown(VERSION),
            },
        },
    }
}

/// True if an include means this file; a star stands for any text.
fn is_file(file: &str, include: &str) -> bool {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let (file, include) = (name(file), name(include));
    match include.split_once('*') {
        Some((front, back)) => {
            let rest = file.strip_prefix(front);
            rest.is_some_and(|rest| rest.ends_with(back))
        }
        None => file == include,
    }
}

fn listen(leaf: &Leaf, name: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    const MODES: &[(&str, &str)] = &[
        ("disable", "disable"),
        ("allow", "allow"),
        ("prefer", "prefer"),
        ("require", "require"),
        ("verify_ca", "verify-ca"),
        ("verify_full", "verify-full"),
    ];
    let table = Table::Global;
    if name == "host" {
        return push(draft, table, "listen_addr", leaf.text());
    }
    if !facts.listens_agree(name) {
        return Outcome::NotMapped(
            "all addresses of Weir have one port and one set of options".to_owned(),
        );
    }
    match name {
        "port" => apply(How::Number("listen_port"), leaf, table, draft),
        "backlog" => apply(How::Number("listen_backlog"), leaf, table, draft),
        "client_login_timeout" => apply(How::Millis("client_login_timeout"), leaf, table, draft),
        "tls" => apply(How::Word("client_tls_sslmode", MODES), leaf, table, draft),
        "tls_ca_file" => apply(How::Copy("client_tls_ca_file"), leaf, table, draft),
        "tls_cert_file" => apply(How::Copy("client_tls_cert_file"), leaf, table, draft),
        "tls_key_file" => apply(How::Copy("client_tls_key_file"), leaf, table, draft),
        "tls_protocols" => protocols(leaf, table, "client_tls_protocols", draft),
        "target_session_attrs" => Outcome::NotMapped(
            "Weir has one port: give reads an entry of their own, with target".to_owned(),
        ),
        "catchup_timeout" => {
            Outcome::NoMeaning("see max_staleness, which replicas must meet for reads")
        }
        "compression" | "catchup_checks" => Outcome::NoMeaning("Odyssey ignores it too"),
        _ => Outcome::Unknown(VERSION),
    }
}

/// Copies a list of TLS versions, separated by anything.
fn protocols(leaf: &Leaf, table: Table, name: &'static str, draft: &mut Draft) -> Outcome {
    let text = leaf.text().to_lowercase();
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, ',' | ':' | ';'));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    match words.is_empty() {
        true => Outcome::NoMeaning("not set"),
        false => set(draft, table, name, Term::Text(words.join(","))),
    }
}
