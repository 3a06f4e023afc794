//! Keywords of `defaults`, `frontend`, `backend` and `listen`.

use super::facts::{Facts, Role, SectionPart};
use super::global::{log, value};
use super::rows::{BIND_VALUES, OPTIONS, PROXY, TIMEOUTS};
use super::{Part, VERSION, WATCHER, row, split_address, table};
use crate::apply::{How, apply, push, set, set_other};
use crate::draft::{Draft, Table, Term};
use crate::finding::Outcome;

pub(super) fn setting(
    words: &[String],
    at: usize,
    part: SectionPart,
    facts: &Facts,
    draft: &mut Draft,
) -> Outcome {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    match word(0) {
        "mode" => Outcome::NoMeaning("Weir speaks PostgreSQL's protocol only"),
        "log" if word(1) != "global" => log(words, draft),
        "log" => Outcome::NoMeaning("the log of the section global"),
        "no" if word(1) == "log" => Outcome::NoMeaning("see log_connections"),
        "no" => Outcome::NoMeaning("the option is off"),
        "maxconn" => match part {
            SectionPart::Other => Outcome::NoMeaning("clients of all sections count together"),
            _ => Outcome::Mapped("max_client_conn, the smallest of the sections".to_owned()),
        },
        "backlog" => apply(
            How::Number("listen_backlog"),
            &value(word(1)),
            Table::Global,
            draft,
        ),
        "timeout" => timeout(words, at, part, facts, draft),
        "option" => option(words, facts, draft),
        "http-check" => check(facts),
        "balance" => balance(word(1), facts, draft),
        "clitcpka-idle" => apply(
            How::Seconds("tcp_keepidle"),
            &value(word(1)),
            Table::Global,
            draft,
        ),
        "clitcpka-cnt" => apply(
            How::Number("tcp_keepcnt"),
            &value(word(1)),
            Table::Global,
            draft,
        ),
        "clitcpka-intvl" => apply(
            How::Seconds("tcp_keepintvl"),
            &value(word(1)),
            Table::Global,
            draft,
        ),
        "srvtcpka-idle" | "srvtcpka-cnt" | "srvtcpka-intvl" => {
            Outcome::NoMeaning("servers have the keepalive of clients")
        }
        "disabled" => Outcome::NoMeaning("the section is off"),
        keyword => row(PROXY, keyword).unwrap_or(Outcome::Unknown(VERSION)),
    }
}

fn timeout(
    words: &[String],
    at: usize,
    part: SectionPart,
    facts: &Facts,
    draft: &mut Draft,
) -> Outcome {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    if part == SectionPart::Other {
        return Outcome::NoMeaning("the section with the primary decides");
    }
    let time = value(word(2));
    let copy = |name: &'static str, draft: &mut Draft| {
        apply(How::Millis(name), &time, Table::Global, draft)
    };
    // Defaults hold only where a section says nothing.
    let is_default = facts
        .section(at)
        .is_some_and(|section| section.kind == "defaults");
    let is_known = |name: &str| {
        facts.path().into_iter().any(|at| {
            let own = facts
                .section(at)
                .map(|section| section.lines.as_slice())
                .unwrap_or_default();
            own.iter()
                .any(|line| line.word(0) == "timeout" && line.word(1) == name)
        })
    };
    match word(1) {
        name if is_default && is_known(name) => {
            Outcome::NoMeaning("the section has a value of its own")
        }
        "connect" => {
            let waits = facts
                .path()
                .into_iter()
                .flat_map(|at| facts.effective(at, "timeout"));
            let has_queue = waits.into_iter().any(|line| line.word(1) == "queue");
            if !has_queue {
                copy("query_wait_timeout", draft);
            }
            copy("server_connect_timeout", draft)
        }
        "queue" => copy("query_wait_timeout", draft),
        "client" => copy("client_idle_timeout", draft),
        "server" => Outcome::NoMeaning(
            "idle servers are closed after server_idle_timeout; long statements go on unless query_timeout is set",
        ),
        name if TIMEOUTS.contains(&name) => {
            Outcome::NoMeaning("see probe_timeout and drain_timeout")
        }
        _ => Outcome::Unknown(VERSION),
    }
}

fn option(words: &[String], facts: &Facts, draft: &mut Draft) -> Outcome {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    match word(1) {
        "httpchk" => check(facts),
        "pgsql-check" => match facts.has_roles() {
            true => {
                let user = facts.check_user().unwrap_or_else(|| WATCHER.to_owned());
                let why = "the user must be able to log in, not only to begin to";
                set_other(draft, table(), "watch_user", Term::Text(user), why)
            }
            false => Outcome::NoMeaning("hosts without roles are tried when a server is opened"),
        },
        "clitcpka" | "srvtcpka" | "tcpka" => {
            set(draft, Table::Global, "tcp_keepalive", Term::Flag(true))
        }
        name => row(OPTIONS, name).unwrap_or(Outcome::Unknown(VERSION)),
    }
}

/// Health checks by HTTP are those of Patroni.
fn check(facts: &Facts) -> Outcome {
    match facts.has_roles() {
        true => Outcome::Differs(
            "failover_hints".to_owned(),
            "Weir asks each host itself, and Patroni for news of failovers".to_owned(),
        ),
        false => Outcome::NoMeaning("hosts without roles are tried when a server is opened"),
    }
}

fn balance(word: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    if facts.has_roles() {
        return Outcome::NoMeaning(
            "sessions run on the primary, and replicas share reads by weight",
        );
    }
    let hosts = facts.hosts();
    match (
        word,
        hosts.iter().filter(|host| !host.has("backup")).count(),
    ) {
        (_, 0 | 1) => Outcome::NoMeaning("one host is used at a time"),
        ("roundrobin" | "static-rr" | "random", _) => {
            Outcome::Default("load_balance_hosts".to_owned())
        }
        ("first", _) => set(draft, table(), "load_balance_hosts", Term::text("disable")),
        _ => Outcome::NotMapped(
            "new connections take the hosts in turn; see load_balance_hosts".to_owned(),
        ),
    }
}

/// Maps the addresses of a line `bind` and their options.
pub(super) fn bind(
    words: &[String],
    at: usize,
    part: SectionPart,
    facts: &Facts,
    draft: &mut Draft,
) -> Vec<Part> {
    let addresses = words.get(1).map_or("", String::as_str);
    let name = "bind".to_owned();
    if part == SectionPart::Other {
        let why = format!(
            "Weir has one port: give these clients an entry of their own with target = {:?} under another name of the \
             database; see docs/guide/replicas.md",
            target(facts.role_of(at))
        );
        return vec![(vec![name], addresses.to_owned(), Outcome::NotMapped(why))];
    }
    let mut settings = Vec::new();
    for address in addresses.split(',') {
        settings.push((
            vec![name.clone()],
            address.to_owned(),
            listen(address, draft),
        ));
    }
    let mut rest = words.iter().skip(2);
    while let Some(option) = rest.next() {
        let has_value = BIND_VALUES.contains(&option.as_str());
        let value = if has_value {
            rest.next().cloned().unwrap_or_default()
        } else {
            String::new()
        };
        let outcome = bind_option(option, &value, draft);
        settings.push((vec![name.clone(), option.clone()], value, outcome));
    }
    settings
}

fn listen(text: &str, draft: &mut Draft) -> Outcome {
    let (host, port) = split_address(text);
    if text.contains('$') {
        return Outcome::NotMapped(
            "the address depends on a variable: set listen_addr and listen_port".to_owned(),
        );
    }
    if host.starts_with('/') {
        return set(draft, Table::Global, "unix_socket_dir", Term::Text(host));
    }
    let Ok(port) = port.parse() else {
        return Outcome::NotMapped("Weir has one port, and no ranges".to_owned());
    };
    let known = draft.get(&Table::Global, "listen_addr").is_some();
    if known && draft.get(&Table::Global, "listen_port") != Some(&Term::Number(port)) {
        return Outcome::NotMapped("all addresses of Weir have one port".to_owned());
    }
    draft.set(Table::Global, "listen_port", Term::Number(port));
    let host = if host.is_empty() {
        "*".to_owned()
    } else {
        host
    };
    match push(draft, Table::Global, "listen_addr", host) {
        Outcome::Mapped(to) => Outcome::Mapped(format!("{to}, and listen_port")),
        other => other,
    }
}

fn bind_option(option: &str, value: &str, draft: &mut Draft) -> Outcome {
    match option {
        "ssl" => {
            let why =
                "clients begin TLS at once for HAProxy; for Weir they may, or ask PostgreSQL's way";
            set_other(
                draft,
                Table::Global,
                "client_tls_sslmode",
                Term::text("require"),
                why,
            )
        }
        "crt" => {
            draft.set(Table::Global, "client_tls_key_file", Term::text(value));
            let why = "the private key must be in a file of its own, client_tls_key_file";
            set_other(
                draft,
                Table::Global,
                "client_tls_cert_file",
                Term::text(value),
                why,
            )
        }
        "ca-file" => set(
            draft,
            Table::Global,
            "client_tls_ca_file",
            Term::text(value),
        ),
        "crl-file" => set(
            draft,
            Table::Global,
            "client_tls_crl_file",
            Term::text(value),
        ),
        "accept-proxy" => Outcome::NotMapped("list the proxies in proxy_protocol_from".to_owned()),
        "verify" if value == "required" => set(
            draft,
            Table::Global,
            "client_tls_sslmode",
            Term::text("verify-ca"),
        ),
        "maxconn" => {
            Outcome::NoMeaning("clients of all addresses count together; see max_client_conn")
        }
        "backlog" => Outcome::NoMeaning("see listen_backlog"),
        "interface" | "namespace" | "crt-list" => {
            Outcome::NotMapped("Weir has no counterpart".to_owned())
        }
        _ => Outcome::NoMeaning("of the socket alone; clients notice nothing"),
    }
}

/// Returns the target that an entry for clients of a section would need.
fn target(role: Role) -> &'static str {
    match role {
        Role::Primary => "primary",
        Role::Replica => "standby",
        Role::Any => "any",
    }
}
