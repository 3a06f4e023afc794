//! Conditions of limits that are nearly or fully used.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use weir_stats::{Blame, LimitRow, Severity};

use crate::conditions::{Condition, Finding, first};
use crate::facts::Facts;
use crate::text;
use crate::windows::{PoolFigure, Span};

/// operator-ui.md 4, no. 20.
pub(super) const CLIENTS: Condition = Condition {
    name: "client_limit_near",
    severities: &[Severity::Warning, Severity::Critical],
    meaning: "A limit on clients is nearly reached; once it is, further clients are refused.",
    evidence: "More than 90 % of max_client_conn, max_db_client_connections or \
               max_user_client_connections is used; critical once all of it is.",
    advice: "Usage, peak with its time, and the application with the most clients.",
    sustain: 5,
    explains: &[],
    find: clients,
};

fn clients(facts: &Facts<'_>) -> Vec<Finding> {
    let names = [
        "max_client_conn",
        "max_db_client_connections",
        "max_user_client_connections",
    ];
    let near = facts
        .now
        .limits
        .iter()
        .filter(|limit| names.contains(&limit.name) && is_near(limit.used, limit.max, 90));
    first(near.map(|limit| {
        let LimitRow {
            name,
            scope,
            used,
            max,
            ..
        } = limit;
        let severity = if used >= max {
            Severity::Critical
        } else {
            Severity::Warning
        };
        let of = if scope.is_empty() {
            String::new()
        } else {
            format!(" of {scope}")
        };
        let command = match scope.as_str() {
            "" => "SET ",
            _ => "",
        };
        let refused = refused(facts);
        let refused = match refused {
            0 => String::new(),
            refused => format!("; {refused} refused within a minute"),
        };
        Finding::new(severity, object(limit))
            .evidence(format!("{name}{of}: {used} of {max}{refused}"))
            .advice(format!(
                "{name}{of} is {used} of {max}{}. {} A matter of the application if its pools are \
                 larger than it needs; else raise the limit, and LimitNOFILE with it.",
                peak(facts, limit),
                largest(facts, limit),
            ))
            .command(format!("{command}{name} = {}", max.saturating_mul(2)))
    }))
}

/// Object that a limit on clients applies to. A user may bear the name of a database.
fn object(limit: &LimitRow) -> String {
    match limit.name {
        "max_user_client_connections" => format!("user {}", limit.scope),
        _ => limit.scope.clone(),
    }
}

/// Clients that were refused within a minute: errors with the code of a full limit, without those of waits.
fn refused(facts: &Facts<'_>) -> u64 {
    let errors = facts.windows.errors((Blame::Pooler, "53300"), Span::Long);
    let pools = facts.pools.iter();
    let waits: f64 = pools
        .map(|pool| pool.change(PoolFigure::WaitTimeouts, Span::Long))
        .sum();
    text::whole(errors - waits)
}

fn peak(facts: &Facts<'_>, limit: &LimitRow) -> String {
    let Some(pair) = facts.peaks.limit(limit.name, &limit.scope) else {
        return String::new();
    };
    let (ever, hour) = (pair.ever, pair.hour);
    let highest = format!(", peak {} at {}", ever.used, text::time(ever.at));
    match ever == hour {
        true => highest,
        false => format!(
            "{highest} of {}, {} at {} within the last hour",
            text::date(ever.at),
            hour.used,
            text::time(hour.at)
        ),
    }
}

/// Applications with the most clients among those that the limit applies to.
fn largest(facts: &Facts<'_>, limit: &LimitRow) -> String {
    let counts_for = |database: &str, user: &str| match limit.name {
        "max_db_client_connections" => database == limit.scope,
        "max_user_client_connections" => user == limit.scope,
        _ => true,
    };
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for ((database, user, name), row) in &facts.now.applications {
        if counts_for(database, user) && row.clients > 0 {
            *counts.entry(name).or_default() += row.clients;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    let names = counts.iter().take(2);
    let names: Vec<_> = names
        .map(|(name, count)| format!("{} {count}", text::named(name)))
        .collect();
    let pools = facts
        .pools
        .iter()
        .filter(|pool| counts_for(&pool.key.0, &pool.key.1));
    let idle = text::total(pools.map(|pool| pool.row.activity.idle));
    match names.is_empty() {
        true => format!("{idle} clients are idle."),
        false => format!(
            "Most clients: {}; {idle} clients are idle.",
            names.join(", ")
        ),
    }
}

/// operator-ui.md 4, no. 20 for pools.
pub(super) const POOLS: Condition = Condition {
    name: "pool_limit_near",
    severities: &[Severity::Warning, Severity::Critical],
    meaning: "There are nearly as many pools as max_pools allows.",
    evidence: "More than 90 % of max_pools is used; critical once all of it is.",
    advice: "Usage and peak; a matter of the configuration.",
    sustain: 5,
    explains: &[],
    find: pools,
};

fn pools(facts: &Facts<'_>) -> Vec<Finding> {
    let limits = facts.now.limits.iter();
    let near = limits.filter(|row| row.name == "max_pools" && is_near(row.used, row.max, 90));
    first(near.map(|limit| {
        let (used, max) = (limit.used, limit.max);
        let severity = if used >= max {
            Severity::Critical
        } else {
            Severity::Warning
        };
        Finding::new(severity, "")
            .evidence(format!("max_pools: {used} of {max}"))
            .advice(format!(
                "There are {used} pairs of database and user of {max}{}; clients of further ones \
                 are refused. A matter of the configuration: let pools go with pool_idle_timeout \
                 and autodb_idle_timeout, share them by a forced user, or raise max_pools.",
                peak(facts, limit),
            ))
            .command("SET pool_idle_timeout = 600")
    }))
}

/// operator-ui.md 4, no. 21.
pub(super) const FILES: Condition = Condition {
    name: "file_descriptors_near",
    severities: &[Severity::Warning, Severity::Critical],
    meaning: "The process has nearly as many open files as the system allows.",
    evidence: "More than 80 % of the limit on open files is used; critical from 95 % on.",
    advice: "Usage, and the value for LimitNOFILE; a matter of the service's configuration.",
    sustain: 5,
    explains: &[],
    find: files,
};

fn files(facts: &Facts<'_>) -> Vec<Finding> {
    let (open, max) = (
        facts.now.process.open_files,
        facts.now.process.open_files_max,
    );
    if !is_near(open, max, 80) {
        return Vec::new();
    }
    let severity = if is_near(open, max, 95) {
        Severity::Critical
    } else {
        Severity::Warning
    };
    let pools = facts.pools.iter();
    let clients = text::total(pools.clone().map(|pool| pool.row.clients));
    let servers = text::total(pools.map(|pool| pool.row.servers));
    let mut limits = facts.now.limits.iter();
    let clients_max = limits
        .find(|row| row.name == "max_client_conn")
        .map(|row| row.max);
    let needed = [
        clients_max.unwrap_or(clients).max(clients),
        servers,
        servers,
        200,
    ];
    let enough = text::total(needed.into_iter()).max(open.saturating_mul(2));
    let finding = Finding::new(severity, "")
        .evidence(format!(
            "{open} of {max} open files ({} %), {clients} clients and {servers} servers",
            text::percent(open, max)
        ))
        .advice(format!(
            "{open} of {max} file descriptors are in use. At the limit no client is accepted and \
             no server opened. A matter of the service's configuration: set LimitNOFILE to at \
             least {enough} (clients, servers, and some room), then restart.",
        ))
        .command(format!("LimitNOFILE={enough}"));
    vec![finding]
}

/// operator-ui.md 4, no. 22.
pub(super) const MEMORY: Condition = Condition {
    name: "memory_near_limit",
    severities: &[Severity::Critical],
    meaning: "The process is about to exceed the memory of its control group, and to be killed.",
    evidence: "More than 85 % of memory.max is resident.",
    advice: "Usage, and the clients with the largest unread answers.",
    sustain: 5,
    explains: &[],
    find: memory,
};

fn memory(facts: &Facts<'_>) -> Vec<Finding> {
    let (used, max) = (
        facts.now.process.resident_bytes,
        facts.now.process.memory_max,
    );
    if !is_near(used, max, 85) {
        return Vec::new();
    }
    let mut slow: Vec<_> = facts
        .now
        .holders
        .iter()
        .filter(|row| row.unsent > 0)
        .collect();
    slow.sort_by_key(|row| Reverse(row.unsent));
    let unsent = text::total(slow.iter().map(|row| row.unsent));
    let ids: Vec<_> = slow
        .iter()
        .take(3)
        .map(|row| row.client.to_string())
        .collect();
    let readers = match ids.is_empty() {
        true => "No client is slow to read.".to_owned(),
        false => format!(
            "{} wait in the buffers of slow readers, most of it for client {}.",
            text::bytes(unsent),
            ids.join(" and client ")
        ),
    };
    let command = slow
        .first()
        .map(|row| format!("KILL_CLIENT {}", row.client));
    let finding = Finding::new(Severity::Critical, "")
        .evidence(format!(
            "{} of {} resident ({} %)",
            text::bytes(used),
            text::bytes(max),
            text::percent(used, max)
        ))
        .advice(format!(
            "{} of {} are used; beyond it the system kills the process. {readers} Else raise the \
             limit (MemoryMax), or lower max_client_conn and max_prepared_statements.",
            text::bytes(used),
            text::bytes(max),
        ))
        .command(command.unwrap_or_else(|| "SHOW MEM".to_owned()));
    vec![finding]
}

/// True if more than `percent` of a limit is used; false without a limit.
fn is_near(used: u64, max: u64, percent: u64) -> bool {
    max > 0 && used.saturating_mul(100) > max.saturating_mul(percent)
}
