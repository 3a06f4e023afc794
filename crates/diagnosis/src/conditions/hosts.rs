//! Conditions of hosts: logins at them, their names, and which of several is the primary.

use std::collections::BTreeMap;

use weir_stats::{DatabaseHostRow, HostLogins, Severity, WaitReason};

use crate::conditions::{Condition, Finding, first};
use crate::facts::Facts;
use crate::text;
use crate::windows::{LoginFigure, Span};

/// Age of a replica's data from which on it lags: the default of max_staleness.
const LAG_US: u64 = 10_000_000;
/// Bytes that a lagging replica lacks: the default of max_lag.
const LAG_BYTES: u64 = 16_777_216;

/// Kind of failure of a login at a host. Each has a condition of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// No connection: refused, no route, no answer in time.
    Unreachable,
    /// PostgreSQL starts, stops or recovers.
    NotReady,
    /// PostgreSQL has no free connection.
    Exhausted,
    /// PostgreSQL refuses the login, or Weir refuses the host.
    Refused,
}

impl Failure {
    fn of(logins: &HostLogins) -> Self {
        let reason = logins.reason.to_lowercase();
        let is_about = |words: &[&str]| words.iter().any(|word| reason.contains(word));
        match logins.code.as_str() {
            "53300" => Self::Exhausted,
            "57P01" | "57P02" | "57P03" => Self::NotReady,
            "" if is_about(&["tls", "certificate", "handshake"]) => Self::Refused,
            "" if is_about(&["password", "scram", "sasl", "channel binding", "protocol"]) => {
                Self::Refused
            }
            "" => Self::Unreachable,
            _ => Self::Refused,
        }
    }
}

/// Failed logins at a host within the last minute, none of which was followed by a success.
struct Failing<'a> {
    host: &'a String,
    logins: &'a HostLogins,
    failed: u64,
    succeeded: u64,
    /// Last answer, with its code.
    answer: String,
}

impl Failing<'_> {
    fn evidence(&self) -> String {
        format!(
            "{} failed and {} succeeded within a minute, {} since the last success; last: {}",
            text::count(self.failed, "login"),
            self.succeeded,
            self.logins.failed_since,
            self.answer
        )
    }

    fn severity(&self) -> Severity {
        match self.succeeded {
            0 => Severity::Critical,
            _ => Severity::Warning,
        }
    }
}

fn failing<'a>(facts: &Facts<'a>, failure: Failure) -> impl Iterator<Item = Failing<'a>> {
    let windows = facts.windows;
    let logins = facts.now.logins.iter();
    let logins = logins.filter(|(_, row)| row.failed_since > 0);
    logins.filter_map(move |(host, logins)| {
        let count = |figure| text::whole(windows.logins(host, figure, Span::Long));
        let failed = count(LoginFigure::Failed);
        if failed == 0 || Failure::of(logins) != failure {
            return None;
        }
        let reason = match logins.reason.as_str() {
            "" => "no reason known",
            reason => reason,
        };
        let answer = match logins.code.as_str() {
            "" => reason.to_owned(),
            code => format!("{reason} (SQLSTATE {code})"),
        };
        Some(Failing {
            host,
            logins,
            failed,
            succeeded: count(LoginFigure::Succeeded),
            answer,
        })
    })
}

/// Clients of all pools that wait because no server could be opened.
fn blocked(facts: &Facts<'_>) -> String {
    let pools = facts.pools.iter().map(|pool| {
        pool.waits(WaitReason::LoginsFail)
            .saturating_add(pool.waits(WaitReason::Connecting))
    });
    text::count_verb(text::total(pools), "client", "waits", "wait")
}

/// operator-ui.md 4, no. 7.
pub(super) const LOGINS_FAIL: Condition = Condition {
    name: "server_logins_fail",
    severities: &[Severity::Warning, Severity::Critical],
    meaning: "A host refuses the logins of Weir, or Weir refuses the host.",
    evidence: "Logins at the host have failed within a minute, and none has succeeded since. \
               Critical if none succeeded within the minute.",
    advice: "PostgreSQL's own text, and what it means: password, database, pg_hba.conf or TLS.",
    sustain: 2,
    explains: &[],
    find: logins_fail,
};

fn logins_fail(facts: &Facts<'_>) -> Vec<Finding> {
    first(failing(facts, Failure::Refused).map(|failing| {
        Finding::new(failing.severity(), failing.host)
            .evidence(failing.evidence())
            .advice(format!(
                "{} answers: {}. {} {} for a server; the next attempt follows within \
                 server_login_retry.",
                failing.host,
                failing.answer,
                meaning(failing.logins),
                blocked(facts),
            ))
            .command("RELOAD")
    }))
}

/// Cause and remedy of a refused login.
fn meaning(logins: &HostLogins) -> &'static str {
    let reason = logins.reason.to_lowercase();
    match logins.code.as_str() {
        "28P01" => {
            "A matter of the configuration: the password in auth_file, of the entry in \
             [databases] or from auth_query is not the role's."
        }
        "28000" => {
            "A matter of the database: its pg_hba.conf has no line for this role and address, or \
             the role may not log in."
        }
        "3D000" => {
            "A matter of the configuration: dbname of the entry in [databases] names no database \
             of this server."
        }
        _ if reason.contains("tls") || reason.contains("certificate") => {
            "A matter of TLS: compare server_tls_sslmode and server_tls_ca_file with the \
             certificate of the server."
        }
        _ if reason.contains("password") || reason.contains("scram") => {
            "A matter of the configuration: Weir has no secret of this role that suits the method \
             of the server."
        }
        _ => "The text is PostgreSQL's own.",
    }
}

/// operator-ui.md 4, no. 8.
pub(super) const EXHAUSTED: Condition = Condition {
    name: "server_connections_exhausted",
    severities: &[Severity::Warning, Severity::Critical],
    meaning: "PostgreSQL has no free connection for Weir.",
    evidence: "Logins at the host have failed with 53300 within a minute, and none has succeeded \
               since. Critical if none succeeded within the minute.",
    advice: "Number of Weir's own servers; a lower pool_size or a higher max_connections.",
    sustain: 2,
    explains: &[],
    find: exhausted,
};

fn exhausted(facts: &Facts<'_>) -> Vec<Finding> {
    first(failing(facts, Failure::Exhausted).map(|failing| {
        let open = text::total(facts.pools.iter().map(|pool| pool.row.servers));
        let sizes = text::total(facts.pools.iter().map(|pool| pool.row.size));
        let hosts = facts.now.database_hosts.iter();
        let hosts = hosts.filter(|row| row.host == *failing.host);
        let on_host = text::total(hosts.map(|row| row.servers));
        let ours = match on_host {
            1.. => format!("Weir has {on_host} of its connections"),
            0 => format!(
                "Weir has {open} servers open in {}, whose sizes add up to {sizes}",
                text::count(facts.pools.len() as u64, "pool")
            ),
        };
        Finding::new(failing.severity(), failing.host)
            .evidence(failing.evidence())
            .advice(format!(
                "{} has no free connection: {}. {ours}. {} for a server. A matter of both sides: \
                 lower pool_size or set max_db_connections, or raise max_connections of \
                 PostgreSQL, of which superuser_reserved_connections are not for Weir.",
                failing.host,
                failing.answer,
                blocked(facts),
            ))
            .command(
                "SELECT usename, application_name, count(*) FROM pg_stat_activity GROUP BY 1, 2 \
                 ORDER BY 3 DESC",
            )
    }))
}

/// operator-ui.md 4, no. 9.
pub(super) const NOT_READY: Condition = Condition {
    name: "server_not_ready",
    severities: &[Severity::Warning],
    meaning: "PostgreSQL starts, stops or recovers, and takes no logins yet.",
    evidence: "Logins at the host have failed with 57P01, 57P02 or 57P03 within a minute, and \
               none has succeeded since.",
    advice: "Clients keep their place until query_wait_timeout; a matter of the database.",
    sustain: 2,
    explains: &[],
    find: not_ready,
};

fn not_ready(facts: &Facts<'_>) -> Vec<Finding> {
    first(failing(facts, Failure::NotReady).map(|failing| {
        Finding::new(Severity::Warning, failing.host)
            .evidence(failing.evidence())
            .advice(format!(
                "{} answers: {}. The database's matter: it starts, stops or recovers. {}; clients \
                 keep their place until query_wait_timeout; PostgreSQL's log tells how far the \
                 recovery is.",
                failing.host,
                failing.answer,
                blocked(facts),
            ))
            .command(ready_command(failing.host))
    }))
}

/// operator-ui.md 4, no. 10.
pub(super) const UNREACHABLE: Condition = Condition {
    name: "host_unreachable",
    severities: &[Severity::Warning, Severity::Critical],
    meaning: "No connection to a host can be opened.",
    evidence: "Connects to the host have failed without an answer of PostgreSQL within a minute, \
               and none has succeeded since. Critical if none succeeded within the minute.",
    advice: "The system's own text, and the time of the last success; a matter of the database or \
             the network.",
    sustain: 2,
    explains: &[],
    find: unreachable,
};

fn unreachable(facts: &Facts<'_>) -> Vec<Finding> {
    first(failing(facts, Failure::Unreachable).map(|failing| {
        let logins = failing.logins;
        let last = match logins.last_success {
            0 => "there has been no connection since the start".to_owned(),
            last => format!(
                "the last connection was opened {} ago",
                text::seconds(text::elapsed(last, facts.now.unix))
            ),
        };
        Finding::new(failing.severity(), failing.host)
            .evidence(failing.evidence())
            .advice(format!(
                "No connection to {}: {}; {last}. {} for a server. A matter of the database or \
                 the network: is PostgreSQL running there, does it listen on this address \
                 (listen_addresses), does a firewall stand between?",
                failing.host,
                failing.answer,
                blocked(facts),
            ))
            .command(ready_command(failing.host))
    }))
}

fn ready_command(host: &str) -> String {
    match host.rsplit_once(':') {
        Some((host, port)) => {
            let host = host.trim_matches(['[', ']']);
            format!("pg_isready -h {host} -p {port}")
        }
        None => format!("pg_isready -h {host}"),
    }
}

/// operator-ui.md 4, no. 11.
pub(super) const DNS: Condition = Condition {
    name: "dns_fails",
    severities: &[Severity::Warning],
    meaning: "The name of a host does not resolve, or resolving takes seconds.",
    evidence: "A name has no addresses, or names are being resolved in three samples in a row.",
    advice: "The name, and the time of the next attempt; a matter of the network.",
    sustain: 3,
    explains: &[],
    find: dns,
};

fn dns(facts: &Facts<'_>) -> Vec<Finding> {
    let lost = facts.now.hosts.iter();
    let lost = lost.filter(|row| row.addresses.is_empty() && row.ttl_seconds > 0);
    let lost = lost.map(|row| {
        Finding::new(Severity::Warning, row.name.clone())
            .evidence(format!(
                "no address of {}, next attempt in {} s",
                row.name, row.ttl_seconds
            ))
            .advice(format!(
                "{} does not resolve: no new server can be opened there. The network's matter: \
                 check the name, and the resolver in /etc/resolv.conf.",
                row.name
            ))
            .command(format!("getent ahosts {}", row.name))
    });
    let pending = facts.now.dns_pending;
    let slow = (pending > 0).then(|| {
        Finding::new(Severity::Warning, "")
            .evidence(format!(
                "{} resolved for seconds",
                text::count_verb(pending, "name", "is being", "are being")
            ))
            .advice(format!(
                "The resolver answers slowly: {pending} of {} in its cache. The network's matter: \
                 servers that need one of them wait. Names that were resolved before stay in use \
                 until dns_max_ttl.",
                text::count(facts.now.dns_names, "name")
            ))
            .command("SHOW DNS_HOSTS")
    });
    first(lost.chain(slow))
}

/// operator-ui.md 4, no. 26.
pub(super) const REPLICA_LAG: Condition = Condition {
    name: "replica_lag",
    severities: &[Severity::Warning],
    meaning: "A replica is far behind its primary.",
    evidence: "The data of a replica is older than 10 seconds, or it lacks more than 16 MiB of \
               WAL: the defaults of max_staleness and max_lag.",
    advice: "Lag, and whether it grows; a matter of the database.",
    sustain: 10,
    explains: &[],
    find: replica_lag,
};

fn replica_lag(facts: &Facts<'_>) -> Vec<Finding> {
    let replicas = facts.now.database_hosts.iter();
    let replicas = replicas.filter(|row| row.role == "replica" && row.state == "up");
    let late = replicas.filter(|row| {
        let (bytes, us) = (row.lag_bytes, row.lag_us.unwrap_or(0));
        bytes.unwrap_or(0) > LAG_BYTES || (us > LAG_US && bytes != Some(0))
    });
    first(late.map(|row| {
        let age = row
            .lag_us
            .map_or_else(|| "unknown".to_owned(), text::micros);
        let bytes = row
            .lag_bytes
            .map_or_else(|| "unknown".to_owned(), text::bytes);
        let growth = facts.windows.lag_growth(&row.database, &row.host);
        let trend = match growth {
            Some(growth) if growth > 0.0 => "grows",
            Some(growth) if growth < 0.0 => "shrinks",
            Some(_) => "stays",
            None => "is new",
        };
        let reads = if row.takes_reads {
            "still takes reads"
        } else {
            "takes no reads now"
        };
        Finding::new(Severity::Warning, row.host.clone())
            .evidence(format!("lag {age}, {bytes}; it {trend}"))
            .advice(format!(
                "Replica {} of {} is {age} and {bytes} behind, and the lag {trend}. The \
                 database's matter: look for long queries on the replica, its disk and the \
                 network. The replica {reads}; max_staleness and max_lag decide.",
                row.host, row.database
            ))
            .command(
                "SELECT application_name, state, sent_lsn, replay_lsn, replay_lag FROM \
                      pg_stat_replication",
            )
    }))
}

/// Hosts by database.
fn by_database<'a>(facts: &Facts<'a>) -> BTreeMap<&'a str, Vec<&'a DatabaseHostRow>> {
    let mut databases: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for row in &facts.now.database_hosts {
        databases
            .entry(row.database.as_str())
            .or_default()
            .push(row);
    }
    databases
}

/// operator-ui.md 4, no. 27.
pub(super) const TWO_PRIMARIES: Condition = Condition {
    name: "two_primaries",
    severities: &[Severity::Critical],
    meaning: "Two hosts of a database accept writes.",
    evidence: "More than one host that answers is a primary by its own word, in two samples.",
    advice: "The hosts with their timelines, and the one that takes the writes; a matter of the \
             database.",
    sustain: 2,
    explains: &[],
    find: two_primaries,
};

fn two_primaries(facts: &Facts<'_>) -> Vec<Finding> {
    let databases = by_database(facts).into_iter();
    first(databases.filter_map(|(database, hosts)| {
        let is_primary = |row: &&&DatabaseHostRow| {
            row.role == "primary" && !matches!(row.state, "down" | "unknown")
        };
        let primaries: Vec<_> = hosts.iter().filter(is_primary).collect();
        if primaries.len() < 2 {
            return None;
        }
        let names = primaries
            .iter()
            .map(|row| format!("{} (timeline {}, {})", row.host, row.timeline, row.state));
        let names: Vec<_> = names.collect();
        let writer = primaries.iter().find(|row| row.takes_writes);
        let writer = writer.map_or_else(
            || "none of them takes the writes".to_owned(),
            |row| format!("{} takes the writes", row.host),
        );
        let finding = Finding::new(Severity::Critical, database)
            .evidence(format!(
                "{} primaries: {}",
                primaries.len(),
                names.join(", ")
            ))
            .advice(format!(
                "{} hosts of {database} say that they are primaries; {writer} (split_brain, \
                 fence). The database's matter: stop the one on the lower timeline before clients \
                 that do not use Weir write there, then rebuild it as a replica.",
                primaries.len()
            ))
            .command("SHOW HOSTS");
        Some(finding)
    }))
}

/// operator-ui.md 4, no. 27.
pub(super) const NO_WRITER: Condition = Condition {
    name: "no_writer",
    severities: &[Severity::Warning, Severity::Critical],
    meaning: "No host takes the writes of a database.",
    evidence: "None of the hosts of the database takes writes, in three samples. Critical if \
               clients wait for one.",
    advice: "State of each host, and the time for which clients are held; a matter of the \
             database.",
    sustain: 3,
    explains: &[],
    find: no_writer,
};

fn no_writer(facts: &Facts<'_>) -> Vec<Finding> {
    let databases = by_database(facts).into_iter();
    let databases = databases.filter(|(_, hosts)| hosts.iter().all(|row| !row.takes_writes));
    first(databases.map(|(database, hosts)| {
        let pools = facts.pools.iter().filter(|pool| pool.key.0 == database);
        let waiting = text::total(pools.map(|pool| pool.waits(WaitReason::NoHost)));
        let severity = match waiting {
            0 => Severity::Warning,
            _ => Severity::Critical,
        };
        let states = hosts.iter().take(5).map(|row| {
            let error = match row.last_error.as_str() {
                "" => String::new(),
                error => format!(": {error}"),
            };
            format!("{} {} {}{error}", row.host, row.role, row.state)
        });
        let states: Vec<_> = states.collect();
        Finding::new(severity, database)
            .evidence(format!(
                "none of {} takes writes; {} waiting for a host",
                text::count(hosts.len() as u64, "host"),
                text::count(waiting, "client")
            ))
            .advice(format!(
                "No host of {database} takes writes: {}. The database's matter: a failover is in \
                 progress or has not begun. Clients wait for up to failover_hold, and Weir uses a \
                 new primary as soon as the host says so.",
                states.join("; ")
            ))
            .command("SHOW HOSTS")
    }))
}
