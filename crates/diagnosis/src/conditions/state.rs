//! Conditions of the process as a whole: orders that were forgotten, reloads, shutdowns, certificates.

use std::collections::BTreeMap;

use weir_stats::Severity;

use crate::conditions::{Condition, Finding, first};
use crate::facts::Facts;
use crate::text;

/// Days before its end from which on a certificate is reported, and from which on that is critical.
const DAYS: (i64, i64) = (14, 3);
/// Samples for which a halt may last before it counts as forgotten.
const HALT_SAMPLES: u32 = 300;

/// operator-ui.md 4, no. 34.
pub(super) const RELOAD_FAILED: Condition = Condition {
    name: "reload_failed",
    severities: &[Severity::Warning],
    meaning: "The last reload failed, so that files and running settings may differ.",
    evidence: "The last reload ended with an error.",
    advice: "File, line and text of the mistake.",
    sustain: 1,
    explains: &[],
    find: reload_failed,
};

fn reload_failed(facts: &Facts<'_>) -> Vec<Finding> {
    let failed = facts.now.failed_reload.iter();
    let findings = failed.map(|failed| {
        let ago = text::seconds(text::elapsed(failed.at, facts.now.unix));
        Finding::new(Severity::Warning, "")
            .evidence(format!("reload failed {ago} ago: {}", failed.error))
            .advice(format!(
                "The configuration in force is the one before: none of the changed files is used \
                 until a reload succeeds. Correct the mistake, check the files with `weir check`, \
                 then reload. {}",
                failed.error
            ))
            .command("RELOAD")
    });
    findings.collect()
}

/// operator-ui.md 4, no. 29.
pub(super) const CERTIFICATE: Condition = Condition {
    name: "certificate_ends",
    severities: &[Severity::Warning, Severity::Critical],
    meaning: "A certificate ends soon, or has ended.",
    evidence: "Less than 14 days are left; critical with less than 3 days.",
    advice: "File, subject and day; a reload reads the new file.",
    sustain: 2,
    explains: &[],
    find: certificate,
};

fn certificate(facts: &Facts<'_>) -> Vec<Finding> {
    let ending = facts.now.tls.iter().filter(|row| row.days_left < DAYS.0);
    first(ending.map(|row| {
        let severity = if row.days_left < DAYS.1 {
            Severity::Critical
        } else {
            Severity::Warning
        };
        let until = text::date(row.not_after);
        let ends = match row.days_left {
            ..0 => format!("ended on {until}"),
            0 => "ends today".to_owned(),
            days => {
                let left = text::count(days.unsigned_abs(), "day");
                format!("ends in {left}, on {until}")
            }
        };
        let refuse = match row.side.as_str() {
            "client" => "clients that verify it refuse to connect",
            _ => "servers that verify it refuse the logins of Weir",
        };
        Finding::new(severity, row.file.clone())
            .evidence(format!("{} ({} side) {ends}", row.file, row.side))
            .advice(format!(
                "The certificate in {} ({} side, subject {}) {ends}; from then on {refuse}. A \
                 matter of the configuration: replace the file, then reload. Connections that are \
                 open stay.",
                row.file, row.side, row.subject
            ))
            .command("RELOAD")
    }))
}

/// operator-ui.md 4, no. 32.
pub(super) const CANCELS: Condition = Condition {
    name: "cancels_pile_up",
    severities: &[Severity::Warning],
    meaning: "Cancel requests of clients wait and are not forwarded.",
    evidence: "Cancel requests wait in two samples in a row.",
    advice: "Numbers by pool and peer, and the limit on their wait.",
    sustain: 2,
    explains: &[],
    find: cancels,
};

fn cancels(facts: &Facts<'_>) -> Vec<Finding> {
    let pools = facts.pools.iter();
    let pools = pools.filter(|pool| pool.row.counts.cl_waiting_cancel_req > 0);
    let pools = pools.map(|pool| (pool.scope(), pool.row.counts.cl_waiting_cancel_req));
    let peers = facts.now.peers.iter().filter(|(_, row)| row.waiting > 0);
    let peers = peers.map(|(id, row)| (format!("peer {id}"), row.waiting));
    let waiting: Vec<_> = pools.chain(peers).collect();
    if waiting.is_empty() {
        return Vec::new();
    }
    let total = text::total(waiting.iter().map(|(_, count)| *count));
    let requests = text::count_verb(total, "cancel request", "waits", "wait");
    let names = waiting.iter().take(5);
    let names: Vec<_> = names
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    let names = names.join(", ");
    let finding = Finding::new(Severity::Warning, "")
        .evidence(format!("{requests} ({names})"))
        .advice(format!(
            "{requests} for a connection to their server: {names}. A matter of the database or \
             the network if connects are slow, of the application if it cancels in large numbers. \
             After cancel_wait_timeout a request is dropped.",
        ))
        .command("SHOW POOLS");
    vec![finding]
}

/// operator-ui.md 4, no. 33.
pub(super) const FORGOTTEN: Condition = Condition {
    name: "halt_forgotten",
    severities: &[Severity::Warning],
    meaning: "Something has been paused, suspended or disabled for five minutes.",
    evidence: "The state of SHOW STATE and SHOW DATABASES.",
    advice: "The command that ends it; an administrator's matter.",
    sustain: HALT_SAMPLES,
    explains: &[],
    find: forgotten,
};

fn forgotten(facts: &Facts<'_>) -> Vec<Finding> {
    let halts = &facts.now.halts;
    // An object may be paused and disabled. The first state has the command.
    let mut objects: BTreeMap<&str, Vec<(&str, String)>> = BTreeMap::new();
    let mut add = |object, state, command| {
        let states: &mut Vec<_> = objects.entry(object).or_default();
        states.push((state, command));
    };
    if halts.suspended {
        add("", "suspended", "RESUME".to_owned());
    }
    if halts.all {
        add("", "paused", "RESUME".to_owned());
    }
    let command = |word, database: &String| format!("{word} {}", text::quoted(database));
    for database in &halts.paused {
        add(database, "paused", command("RESUME", database));
    }
    for database in halts.writes.keys() {
        add(database, "paused for writes", command("RESUME", database));
    }
    for database in &halts.disabled {
        add(database, "disabled", command("ENABLE", database));
    }
    let waiting = |object: &str| -> u64 {
        let pools = facts.pools.iter();
        let pools = pools.filter(|pool| object.is_empty() || pool.key.0 == object);
        text::total(pools.map(|pool| pool.waits(weir_stats::WaitReason::Paused)))
    };
    first(objects.into_iter().filter_map(|(object, states)| {
        let (_, command) = states.first()?;
        let words: Vec<_> = states.iter().map(|(state, _)| *state).collect();
        let words = words.join(" and ");
        let name = if object.is_empty() { "Weir" } else { object };
        let waits = text::count_verb(waiting(object), "client", "waits", "wait");
        let finding = Finding::new(Severity::Warning, object)
            .evidence(format!("{name} is {words}; {waits}"))
            .advice(format!(
                "{name} has been {words} for more than 5 min, and {waits}. An administrator's \
                 matter: the events tell who gave the order. End it with {command}.",
            ))
            .command(command.clone());
        Some(finding)
    }))
}

/// operator-ui.md 4, no. 39.
pub(super) const DRAINING: Condition = Condition {
    name: "draining",
    severities: &[Severity::Info],
    meaning: "After an upgrade or a shutdown, the process still has clients.",
    evidence: "More than half of drain_timeout has passed.",
    advice: "Number of clients that are left, and the time at which they are ended.",
    sustain: 1,
    explains: &[],
    find: draining,
};

fn draining(facts: &Facts<'_>) -> Vec<Finding> {
    let now = facts.now.unix;
    let draining = facts.now.draining.iter();
    let late = draining.filter(|drain| {
        let half = drain.until.saturating_sub(drain.since) / 2;
        now >= drain.since.saturating_add(half)
    });
    let findings = late.map(|drain| {
        let clients = text::total(facts.pools.iter().map(|pool| pool.row.clients));
        let stay = text::count_verb(clients, "client", "stays", "stay");
        let left = text::seconds(text::elapsed(now, drain.until));
        Finding::new(Severity::Info, "")
            .evidence(format!("{stay}; they are ended in {left}"))
            .advice(format!(
                "{stay} with this process, which ends in {left} ({}): clients in transactions, \
                 pinned ones, and those with TLS. The application's matter: they may reconnect \
                 now. drain_timeout is the limit.",
                text::time(drain.until)
            ))
            .command("SHOW CLIENTS")
    });
    findings.collect()
}
