//! Lines `server` and `default-server`: the address of a host, and options, each of which is a setting.

use super::facts::{Facts, Role, Server};
use super::global::value;
use super::rows::{SERVER_FLAGS, SERVER_VALUES};
use super::{Part, VERSION, WATCHER, split_address, table};
use crate::apply::{How, apply, point, push, replica, set, set_other, shares};
use crate::draft::{Draft, Table, Term};
use crate::finding::Outcome;

const WATCHED: &str =
    "hosts are watched all the time; see probe_interval, probe_timeout, probe_fall";

/// Maps all settings of a line.
pub(super) fn settings(words: &[String], at: usize, facts: &Facts, draft: &mut Draft) -> Vec<Part> {
    let is_default = words.first().is_some_and(|word| word == "default-server");
    let mut settings = Vec::new();
    let (name, front) = match is_default {
        true => ("default-server".to_owned(), 1),
        false => {
            let name = format!("server {}", words.get(1).map_or("", String::as_str));
            (name, 3)
        }
    };
    let options = words.get(front..).unwrap_or_default();
    let is_off = options.iter().any(|option| option == "disabled");
    let address = words.get(2).map_or("", String::as_str);
    let (host, port) = split_address(address);
    let server = Server {
        host,
        port,
        options: options.to_vec(),
    };
    if !is_default {
        let outcome = match is_off {
            true => Outcome::NoMeaning("the server is disabled"),
            false => host_of(&server, address, facts, draft),
        };
        settings.push((vec![name.clone()], address.to_owned(), outcome));
    }
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        let has_value = SERVER_VALUES.contains(&option.as_str());
        let given = if has_value {
            rest.next().cloned().unwrap_or_default()
        } else {
            String::new()
        };
        let outcome = match has_value || SERVER_FLAGS.contains(&option.as_str()) {
            false => Outcome::Unknown(VERSION),
            true if is_off => Outcome::NoMeaning("the server is disabled"),
            true => self::option(option, &given, &server, at, facts, draft),
        };
        settings.push((vec![name.clone(), option.clone()], given, outcome));
    }
    settings
}

/// Writes a host. With roles it is one of several; without, an alternative of the one host.
fn host_of(server: &Server, address: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    if address.contains('$') {
        return Outcome::NotMapped(
            "the address depends on a variable: set host and port".to_owned(),
        );
    }
    let hosts = facts.hosts();
    let Some(first) = hosts.first() else {
        return Outcome::Unknown(VERSION);
    };
    let port: i64 = server.port.parse().unwrap_or(5432);
    if first.address() == server.address() {
        draft.set(table(), "port", Term::Number(port));
        return match facts.has_roles() || hosts.len() == 1 {
            true => set(draft, table(), "host", Term::text(&server.host)),
            false => push(draft, table(), "host", server.host.clone()),
        };
    }
    if facts.has_roles() {
        let watcher = facts.check_user().unwrap_or_else(|| WATCHER.to_owned());
        return replica(
            point(&server.host, &server.port),
            Some(&watcher),
            table(),
            draft,
        );
    }
    match first.port == server.port {
        true => push(draft, table(), "host", server.host.clone()),
        false => {
            Outcome::NotMapped("alternatives of one host have one port; see replicas".to_owned())
        }
    }
}

fn option(
    name: &str,
    given: &str,
    server: &Server,
    at: usize,
    facts: &Facts,
    draft: &mut Draft,
) -> Outcome {
    let probe = |how: How, draft: &mut Draft| match facts.has_roles() {
        true => apply(how, &value(given), Table::Global, draft),
        false => Outcome::NoMeaning("hosts without roles are not watched"),
    };
    match name {
        "check" | "no-check" | "check-send-proxy" | "check-ssl" | "no-check-ssl" | "fastinter"
        | "downinter" | "addr" => Outcome::NoMeaning(WATCHED),
        "inter" => probe(How::Millis("probe_interval"), draft),
        "fall" => probe(How::Number("probe_fall"), draft),
        "rise" => probe(How::Number("probe_rise"), draft),
        "port" => patroni(given, at, facts, draft),
        "maxconn" => {
            let why = "each pair of database and user has so many on a host, HAProxy counts them together";
            let size = value(given).number().unwrap_or_default();
            set_other(
                draft,
                Table::Global,
                "default_pool_size",
                Term::Number(size),
                why,
            )
        }
        "weight" => weight(server, at, facts, draft),
        "backup" if facts.has_roles() => Outcome::NoMeaning("the roles decide which host is used"),
        "backup" => {
            let why = "hosts are tried in their order, the first one always first";
            set_other(
                draft,
                table(),
                "load_balance_hosts",
                Term::text("disable"),
                why,
            )
        }
        "on-marked-down" | "on-marked-up" | "on-error" | "observe" | "error-limit" => {
            Outcome::NoMeaning(
                "sessions on a host that is down, or no longer the primary, are ended",
            )
        }
        "maxqueue" => Outcome::NotMapped(
            "waiting clients are limited by query_wait_timeout, not by number".to_owned(),
        ),
        "minconn" => Outcome::NoMeaning("see default_pool_size"),
        "slowstart" if facts.has_roles() => apply(
            How::Millis("replica_slow_start"),
            &value(given),
            Table::Global,
            draft,
        ),
        "slowstart" => Outcome::NoMeaning("hosts without roles are used at once"),
        "send-proxy" | "send-proxy-v2" | "send-proxy-v2-ssl" | "send-proxy-v2-ssl-cn" => {
            Outcome::NotMapped(
                "Weir sends servers no PROXY header; application_name_add_host shows clients"
                    .to_owned(),
            )
        }
        _ => rare(name, given, server, draft),
    }
}

/// Options that few lines have.
fn rare(name: &str, given: &str, server: &Server, draft: &mut Draft) -> Outcome {
    match name {
        "agent-check" | "agent-port" | "agent-addr" | "agent-inter" | "agent-send" | "track" => {
            Outcome::NotMapped(
                "Weir asks each host itself; see docs/guide/high-availability.md".to_owned(),
            )
        }
        "source" | "namespace" | "socks4" => {
            Outcome::NotMapped("Weir chooses its own addresses".to_owned())
        }
        "init-addr" | "init-state" | "resolvers" | "resolve-prefer" | "resolve-net"
        | "resolve-opts" => Outcome::NoMeaning("names are resolved again after dns_max_ttl"),
        "tcp-ut" => apply(
            How::Millis("tcp_user_timeout"),
            &value(given),
            Table::Global,
            draft,
        ),
        _ => tls(name, given, server, draft),
    }
}

/// The port of a check by HTTP is Patroni's, which tells of failovers.
fn patroni(port: &str, at: usize, facts: &Facts, draft: &mut Draft) -> Outcome {
    if !facts.has_roles() || !facts.has_option(at, "httpchk") {
        return Outcome::NoMeaning("each host is asked by PostgreSQL's protocol");
    }
    let mut outcome = Outcome::NoMeaning("the hosts have it");
    for host in facts
        .hosts()
        .iter()
        .filter(|host| host.option("port") == Some(port))
    {
        let scheme = if host.has("check-ssl") {
            "https"
        } else {
            "http"
        };
        let place = format!("patroni:{scheme}://{}", point(&host.host, port));
        outcome = push(draft, table(), "failover_hints", place);
    }
    outcome
}

/// Writes the shares of all hosts of a section, relative to the largest. A check for the primary leaves one host.
fn weight(server: &Server, at: usize, facts: &Facts, draft: &mut Draft) -> Outcome {
    let weight = |server: &Server| {
        server
            .option("weight")
            .and_then(|weight| weight.parse().ok())
            .unwrap_or(1)
    };
    let hosts = facts.servers(at);
    let largest = hosts.iter().map(weight).max().unwrap_or(1);
    if hosts.iter().all(|host| weight(host) == largest) {
        return Outcome::NoMeaning("all hosts have the same weight");
    }
    if !facts.has_roles() {
        return Outcome::NotMapped("hosts without roles have no weights".to_owned());
    }
    if facts.role(at) != Role::Replica {
        return Outcome::NoMeaning("the section leads to one host, the primary");
    }
    let places = hosts
        .iter()
        .map(|host| (point(&host.host, &host.port), weight(host)));
    let own = (!server.host.is_empty()).then(|| point(&server.host, &server.port));
    shares(places, own.as_deref(), draft)
}

/// TLS towards servers begins at once in HAProxy.
fn tls(name: &str, given: &str, server: &Server, draft: &mut Draft) -> Outcome {
    match name {
        "ssl" => {
            let is_verified =
                server.option("verify") != Some("none") && server.option("ca-file").is_some();
            let mode = if is_verified { "verify-ca" } else { "require" };
            draft.set(
                Table::Global,
                "server_tls_sslnegotiation",
                Term::text("direct"),
            );
            let why = "TLS begins at once, which PostgreSQL 17 and later understand (server_tls_sslnegotiation)";
            set_other(
                draft,
                Table::Global,
                "server_tls_sslmode",
                Term::text(mode),
                why,
            )
        }
        "ca-file" if server.has("ssl") => set(
            draft,
            Table::Global,
            "server_tls_ca_file",
            Term::text(given),
        ),
        "crl-file" if server.has("ssl") => set(
            draft,
            Table::Global,
            "server_tls_crl_file",
            Term::text(given),
        ),
        "crt" if server.has("ssl") => {
            draft.set(Table::Global, "server_tls_key_file", Term::text(given));
            let why = "the private key must be in a file of its own, server_tls_key_file";
            set_other(
                draft,
                Table::Global,
                "server_tls_cert_file",
                Term::text(given),
                why,
            )
        }
        "verify" => Outcome::NoMeaning("decides the value for ssl"),
        _ => Outcome::NoMeaning("clients and servers notice nothing"),
    }
}
