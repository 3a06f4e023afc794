//! HAProxy in front of PostgreSQL: the sections in `mode tcp` whose servers or health checks are PostgreSQL's. HAProxy passes
//! connections on; Weir logs in clients itself, and has one port.

mod facts;
mod global;
mod proxy;
mod read;
mod rows;
mod server;

use self::facts::{Facts, SectionPart};
pub(crate) use self::read::read;
use crate::draft::{Draft, Table, Term};
use crate::finding::{Finding, Outcome};
use crate::leaf::{Leaf, Scalar};

const VERSION: &str = "HAProxy 3.4";
/// User that watches hosts if no check names one.
const WATCHER: &str = "weir";
/// Clients that Weir lets in by default.
const CLIENTS: i64 = 100;

/// Entry for all databases, whose names HAProxy does not know.
fn table() -> Table {
    Table::Database(weir_config::FALLBACK.to_owned())
}

/// Maps all lines.
pub(crate) fn map(leaves: Vec<Leaf>, draft: &mut Draft) -> Vec<Finding> {
    let facts = Facts::gather(&leaves);
    sizes(&facts, draft);
    notes(&facts, draft);
    leaves
        .iter()
        .flat_map(|leaf| line(leaf, &facts, draft))
        .collect()
}

/// Writes the limits that HAProxy has by default: a server for each client.
fn sizes(facts: &Facts, draft: &mut Draft) {
    if facts.main.is_none() {
        return;
    }
    let limits = facts
        .path()
        .into_iter()
        .flat_map(|at| facts.effective(at, "maxconn"));
    let limit = limits
        .filter_map(|line| line.word(1).parse::<i64>().ok())
        .min();
    let global = facts
        .global("maxconn")
        .and_then(|line| line.word(1).parse().ok());
    let clients = limit.or(global).unwrap_or(CLIENTS);
    if limit.or(global).is_some() {
        draft.set(Table::Global, "max_client_conn", Term::Number(clients));
    }
    let of_servers = facts
        .hosts()
        .iter()
        .filter_map(|server| server.option("maxconn")?.parse::<i64>().ok())
        .max();
    let size = of_servers.filter(|size| *size > 0).unwrap_or(clients);
    draft.set(Table::Global, "default_pool_size", Term::Number(size));
    draft.note(format!(
        "servers on each host at most: HAProxy {size}, one for each client; Weir {size} for each pair of database and user \
         (default_pool_size). With pool_mode = \"transaction\" far fewer are needed: as many as have a transaction at once"
    ));
}

fn notes(facts: &Facts, draft: &mut Draft) {
    if facts.main.is_none() {
        draft.note(
            "no section leads to PostgreSQL: a listen or backend in mode tcp whose servers have the port 5432, 5433 or 6432, \
             option pgsql-check, or option httpchk with port 8008",
        );
        return;
    }
    draft.note(
        "HAProxy passes logins on to PostgreSQL; Weir checks them itself, so each user needs a line in auth_file, or set \
         auth_user for auth_query",
    );
    if facts.hosts().iter().any(|server| server.port == "6432") {
        draft.note("servers with the port 6432 are poolers: Weir replaces them too, so set the port of PostgreSQL");
    }
    if facts.has_roles() && facts.check_user().is_none() {
        draft.note(format!(
            "create the role {WATCHER} with LOGIN and pg_monitor, which asks hosts for their roles, and give it a line in \
             auth_file; see docs/guide/replicas.md"
        ));
    }
}

/// Setting inside of a line: the parts of its name, its value and its fate.
type Part = (Vec<String>, String, Outcome);

/// Maps a line; servers and addresses have several settings in one.
fn line(leaf: &Leaf, facts: &Facts, draft: &mut Draft) -> Vec<Finding> {
    let section = leaf.path.get(..2).unwrap_or_default().join(" ");
    let section = match section.trim_end() {
        "defaults from" => "defaults",
        name => name,
    };
    let keyword = leaf.path.get(3).map_or("", String::as_str);
    let is_hidden = is_hidden(keyword, &leaf.text());
    let mut findings = Vec::new();
    for (parts, value, outcome) in parts(leaf, facts, draft) {
        let own = Leaf {
            path: std::iter::once(section.to_owned()).chain(parts).collect(),
            value: Scalar::Text(value),
            file: leaf.file.clone(),
            line: leaf.line,
        };
        let mut finding = Finding::new(&own, outcome);
        if is_hidden {
            "***".clone_into(&mut finding.value);
        }
        findings.push(finding);
    }
    findings
}

fn parts(leaf: &Leaf, facts: &Facts, draft: &mut Draft) -> Vec<Part> {
    let words = leaf.path.get(3..).unwrap_or_default();
    let keyword = words.first().cloned().unwrap_or_default();
    let whole = |outcome: Outcome| vec![(vec![keyword.clone()], leaf.text(), outcome)];
    let Some(at) = facts.find(leaf) else {
        let why = "files of Weir have no conditions: import the branch that holds";
        return whole(Outcome::NotMapped(why.to_owned()));
    };
    let role = facts.part(at);
    match role {
        SectionPart::Skipped => {
            return whole(Outcome::NoMeaning("the section is not about PostgreSQL"));
        }
        SectionPart::Foreign => {
            let why = "another cluster: give its databases entries of their own in [databases]";
            return whole(Outcome::NotMapped(why.to_owned()));
        }
        SectionPart::Common | SectionPart::Main | SectionPart::Other => {}
    }
    let is_global = facts
        .section(at)
        .is_some_and(|section| section.kind == "global");
    match keyword.as_str() {
        read::HEAD => whole(Outcome::NoMeaning("its lines are read")),
        "server" | "default-server" => server::settings(words, at, facts, draft),
        "bind" => proxy::bind(words, at, role, facts, draft),
        _ if is_global => whole(global::setting(words, facts, draft)),
        _ => whole(proxy::setting(words, at, role, facts, draft)),
    }
}

/// True if a line holds a password, wherever it stands there.
fn is_hidden(keyword: &str, text: &str) -> bool {
    let text = text.to_lowercase();
    let words = ["password", "passwd", "secret", "authorization", "token"];
    keyword == "stats" && text.starts_with("auth ") || words.iter().any(|word| text.contains(word))
}

/// Splits an address and its port: `[ipv4@]HOST:PORT`, `[::1]:PORT`, `:PORT`, or a path.
fn split_address(text: &str) -> (String, String) {
    let text = match text.split_once('@') {
        Some(("ipv4" | "ipv6" | "tcp" | "tcp4" | "tcp6" | "unix" | "uxst", rest)) => rest,
        _ => text,
    };
    if text.starts_with('/') {
        let directory = text
            .rsplit_once('/')
            .map_or(text, |(directory, _)| directory);
        let port = text
            .rsplit_once(".s.PGSQL.")
            .map_or("5432", |(_, port)| port);
        return (directory.to_owned(), port.to_owned());
    }
    match text.rsplit_once(':') {
        Some((host, port)) => {
            let host = host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'))
                .unwrap_or(host);
            (host.to_owned(), port.to_owned())
        }
        None => (text.to_owned(), "5432".to_owned()),
    }
}

/// Finds the row of a word. A name that ends in a dot or hyphen stands for all that begin so.
fn row(rows: &[(rows::Fate, &[&str])], word: &str) -> Option<Outcome> {
    let fits = |name: &&str| *name == word || name.ends_with(['.', '-']) && word.starts_with(*name);
    let mut all = rows.iter();
    let (fate, _) = all.find(|(_, names)| names.iter().any(fits))?;
    Some(match fate {
        rows::Fate::Nothing(why) => Outcome::NoMeaning(why),
        rows::Fate::Not(why) => Outcome::NotMapped((*why).to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::split_address;

    #[test]
    fn addresses_have_hosts_and_ports() {
        let check = |text: &str, host: &str, port: &str| {
            assert_eq!(
                split_address(text),
                (host.to_owned(), port.to_owned()),
                "{text}"
            );
        };
        check("10.0.0.1:5433", "10.0.0.1", "5433");
        check("ipv6@[::1]:5432", "::1", "5432");
        check("*:5000", "*", "5000");
        check(":5000", "", "5000");
        check("/run/.s.PGSQL.5434", "/run", "5434");
    }
}
