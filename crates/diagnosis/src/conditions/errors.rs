//! Conditions of errors that clients receive, by origin and SQLSTATE.

use weir_stats::{Blame, Severity};

use crate::conditions::{Condition, Finding, first};
use crate::facts::{Facts, is_one};
use crate::text;
use crate::windows::{ApplicationFigure, Span};

/// Codes that other conditions watch: failovers, full limits, retries; class 28 too.
const WATCHED: &[&str] = &[
    "25006", "40001", "40P01", "53300", "57P01", "57P02", "57P03",
];

/// operator-ui.md 4, no. 28.
pub(super) const READ_ONLY: Condition = Condition {
    name: "read_only_errors",
    severities: &[Severity::Critical],
    meaning: "Servers refuse writes because they are read-only.",
    evidence: "Errors 25006 of servers within a minute.",
    advice: "Number of errors, and the hosts that take the writes.",
    sustain: 1,
    explains: &[],
    find: read_only,
};

fn read_only(facts: &Facts<'_>) -> Vec<Finding> {
    let count = text::whole(facts.windows.errors((Blame::Server, "25006"), Span::Long));
    if count == 0 {
        return Vec::new();
    }
    let writers = facts
        .now
        .database_hosts
        .iter()
        .filter(|row| row.takes_writes);
    let writers: Vec<_> = writers
        .take(5)
        .map(|row| format!("{} for {} (role {})", row.host, row.database, row.role))
        .collect();
    let hosts = match writers.is_empty() {
        true => "Databases with a single host are not asked for their role: their host may have \
                 become a replica."
            .to_owned(),
        false => format!("Hosts that take writes: {}.", writers.join(", ")),
    };
    let finding = Finding::new(Severity::Critical, "")
        .evidence(format!(
            "{} 25006 of servers within a minute",
            text::count(count, "error")
        ))
        .advice(format!(
            "{count} statements were refused because the server is read-only: writes reach a \
             replica. {hosts} A matter of the database if there was a failover, of the \
             application if it opens read-only transactions.",
        ))
        .command("SHOW HOSTS");
    vec![finding]
}

/// operator-ui.md 4, no. 36.
pub(super) const STORM: Condition = Condition {
    name: "error_storm",
    severities: &[Severity::Warning],
    meaning: "Clients get far more errors of a kind than usual.",
    evidence: "More than one error a second of an SQLSTATE within the last minute, and more than \
               five times as many as in the median minute of the last hour. Codes with a \
               condition of their own are left out.",
    advice: "Code, origin, number, and the application with the most errors.",
    sustain: 3,
    explains: &[],
    find: storm,
};

fn storm(facts: &Facts<'_>) -> Vec<Finding> {
    let keys = facts.now.errors.keys();
    let keys = keys.filter(|(_, code)| !WATCHED.contains(code) && !code.starts_with("28"));
    first(keys.filter_map(|key| {
        let errors = facts.windows.errors(*key, Span::Long);
        let usual = f64::from(facts.windows.errors_usual(*key)?);
        let (blame, code) = *key;
        if facts.windows.rate(errors, Span::Long) <= 1.0 || errors <= usual * 5.0 {
            return None;
        }
        let origin = match blame {
            Blame::Pooler => "Weir",
            Blame::Server => "the database",
        };
        let (errors, usual) = (text::whole(errors), text::whole(usual));
        let finding = Finding::new(Severity::Warning, format!("SQLSTATE {code} of {origin}"))
            .evidence(format!(
                "{errors} errors within a minute, {usual} in the median minute of the last hour"
            ))
            .advice(format!(
                "{errors} errors {code} of {origin} within a minute, usually {usual}. {} A matter \
                 of the application if it was changed (a deployment, a migration); SHOW DIGESTS \
                 has the statements that fail.",
                noisiest(facts),
            ))
            .command("SHOW ERRORS");
        Some(finding)
    }))
}

/// Application with the most errors of the last minute, of any code.
fn noisiest(facts: &Facts<'_>) -> String {
    let keys = facts.now.applications.keys().filter(|key| is_one(key));
    let counts = keys.map(|key| {
        let errors = facts
            .windows
            .application(key, ApplicationFigure::Errors, Span::Long);
        (errors, key)
    });
    let most = counts.max_by(|(a, _), (b, _)| a.total_cmp(b));
    match most {
        Some((errors, (database, user, name))) if errors > 0.0 => format!(
            "Most errors have clients of {} ({database}/{user}): {}.",
            text::named(name),
            text::whole(errors)
        ),
        _ => "No application stands out.".to_owned(),
    }
}

/// operator-ui.md 4, no. 38.
pub(super) const SERIALIZATION: Condition = Condition {
    name: "serialization_errors",
    severities: &[Severity::Info],
    meaning: "Transactions fail because they collide with others.",
    evidence: "A deadlock (40P01), or ten serialization failures (40001) of servers within a \
               minute.",
    advice: "Numbers; a matter of the application, which has to repeat the transactions.",
    sustain: 1,
    explains: &[],
    find: serialization,
};

fn serialization(facts: &Facts<'_>) -> Vec<Finding> {
    let count = |code| text::whole(facts.windows.errors((Blame::Server, code), Span::Long));
    let (deadlocks, failures) = (count("40P01"), count("40001"));
    if deadlocks == 0 && failures < 10 {
        return Vec::new();
    }
    let counts = format!(
        "{} and {}",
        text::count(deadlocks, "deadlock"),
        text::count(failures, "serialization failure")
    );
    let finding = Finding::new(Severity::Info, "")
        .evidence(format!("{counts} within a minute"))
        .advice(format!(
            "{counts} within a minute. Not the pooler's matter: the application has to repeat \
             such transactions, and take locks in the same order everywhere. PostgreSQL's log \
             names both sides of a deadlock.",
        ))
        .command("SHOW ERRORS");
    vec![finding]
}
