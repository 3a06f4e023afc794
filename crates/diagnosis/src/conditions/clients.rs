//! Conditions that clients cause: they come too often, read too slowly, or cannot log in.

use weir_stats::{Blame, HolderRow, Severity};

use crate::conditions::held::Held;
use crate::conditions::{Condition, Finding, first};
use crate::facts::Facts;
use crate::text;
use crate::windows::{ApplicationFigure, PoolFigure, Span};

/// Bytes that a client has not read from which on it counts as slow.
const UNSENT: u64 = 1 << 20;

/// operator-ui.md 4, no. 15.
pub(super) const CHURN: Condition = Condition {
    name: "client_churn",
    severities: &[Severity::Warning],
    meaning: "Clients connect anew for every few transactions.",
    evidence: "More than ten logins a second, and more than one for five transactions, over 10 \
               seconds.",
    advice: "Rates, and the application with the most logins; a matter of the application.",
    sustain: 10,
    explains: &[],
    find: churn,
};

fn churn(facts: &Facts<'_>) -> Vec<Finding> {
    first(facts.pools.iter().filter_map(|pool| {
        let logins = pool.rate(PoolFigure::ClientLogins, Span::Short);
        let transactions = pool.rate(PoolFigure::Transactions, Span::Short);
        if logins <= 10.0 || logins <= transactions * 0.2 {
            return None;
        }
        let names = facts.applications(pool).map(|(key, _)| {
            let change = facts
                .windows
                .application(key, ApplicationFigure::Logins, Span::Short);
            (change, key.2.as_str())
        });
        let name = names.max_by(|(a, _), (b, _)| a.total_cmp(b));
        let name = name.filter(|(change, _)| *change > 0.0);
        let name = name.map_or("The application", |(_, name)| text::named(name));
        let rates = format!(
            "{} for {}",
            text::rate(logins, "logins"),
            text::rate(transactions, "transactions")
        );
        let finding = Finding::new(Severity::Warning, pool.scope())
            .evidence(format!("{rates} over 10 s"))
            .advice(format!(
                "{name} connects for every few transactions: {rates}. The application's matter: \
                 keep connections in a pool of the application. Each login costs a handshake of \
                 TLS and SCRAM on both sides.",
            ))
            .command("SHOW CLIENTS");
        Some(finding)
    }))
}

/// operator-ui.md 4, no. 23.
pub(super) const SLOW_READER: Condition = Condition {
    name: "slow_reader",
    severities: &[Severity::Info, Severity::Warning],
    meaning: "A client does not read its answers, and so keeps its server.",
    evidence: "More than 1 MiB is unsent to a client, in five samples. A warning if clients of \
               the pool wait.",
    advice: "The client with its bytes, and its server; a matter of the application or the \
             network.",
    sustain: 5,
    explains: &[],
    find: slow_reader,
};

fn slow_reader(facts: &Facts<'_>) -> Vec<Finding> {
    first(facts.pools.iter().filter_map(|pool| {
        let slow = Held::all(&pool.holders, |row| row.unsent > UNSENT, |row| row.unsent)?;
        let HolderRow {
            client,
            server,
            application,
            unsent,
            ..
        } = slow.oldest;
        let waiting = pool.row.counts.cl_waiting;
        let severity = if waiting > 0 {
            Severity::Warning
        } else {
            Severity::Info
        };
        let finding = Finding::new(severity, pool.scope())
            .evidence(format!(
                "{} with more than 1 MiB unread, client {client} with {}; {} waiting",
                text::count(slow.count, "client"),
                text::bytes(*unsent),
                text::count(waiting, "client"),
            ))
            .advice(format!(
                "Client {client} of {} does not read: {} wait for it, and it keeps server \
                 {server}. A matter of the application or the network: fetch large results in \
                 parts (a cursor, the row limit of the driver).",
                text::named(application),
                text::bytes(*unsent),
            ))
            .command(format!("KILL_CLIENT {client}"));
        Some(finding)
    }))
}

/// operator-ui.md 4, no. 30.
pub(super) const LOGINS_FAIL: Condition = Condition {
    name: "client_logins_fail",
    severities: &[Severity::Warning],
    meaning: "Weir refuses the logins of clients.",
    evidence: "Five logins or more were refused within a minute (codes of class 28).",
    advice: "Codes with their numbers, and where the log has the address and the reason.",
    sustain: 1,
    explains: &[],
    find: logins_fail,
};

fn logins_fail(facts: &Facts<'_>) -> Vec<Finding> {
    let keys = facts.now.errors.keys();
    let keys = keys.filter(|(blame, code)| *blame == Blame::Pooler && code.starts_with("28"));
    let counts = keys.map(|key| (key.1, text::whole(facts.windows.errors(*key, Span::Long))));
    let counts: Vec<_> = counts.filter(|(_, count)| *count > 0).collect();
    let total = text::total(counts.iter().map(|(_, count)| *count));
    if total < 5 {
        return Vec::new();
    }
    let codes: Vec<_> = counts
        .iter()
        .map(|(code, count)| format!("{code}: {count}"))
        .collect();
    let codes = codes.join(", ");
    let finding = Finding::new(Severity::Warning, "")
        .evidence(format!("{total} logins refused within a minute ({codes})"))
        .advice(format!(
            "Weir refused {total} logins of clients within a minute ({codes}). A matter of the \
             client or of the configuration: the log line `pooler error` has user, database, \
             address and reason of each. 28P01 is a password, 28000 the rules of \
             auth_hba_file. Beyond auth_failures_per_minute an address has to wait.",
        ))
        .command("SHOW ERRORS");
    vec![finding]
}

/// operator-ui.md 4, no. 37.
pub(super) const LISTEN_OVERFLOW: Condition = Condition {
    name: "listen_overflow",
    severities: &[Severity::Warning],
    meaning: "Clients listen for notifications and do not read them.",
    evidence: "Clients that were ended within a minute because their notifications exceeded \
               listen_queue_bytes or listen_queue_size.",
    advice: "Number of clients; a matter of the application.",
    sustain: 1,
    explains: &[],
    find: listen_overflow,
};

fn listen_overflow(facts: &Facts<'_>) -> Vec<Finding> {
    first(facts.pools.iter().filter_map(|pool| {
        let ended = text::whole(pool.change(PoolFigure::ListenOverflows, Span::Long));
        if ended == 0 {
            return None;
        }
        let ended = text::count_verb(ended, "client", "was", "were");
        let finding = Finding::new(Severity::Warning, pool.scope())
            .evidence(format!(
                "{ended} ended within a minute with a full queue of notifications"
            ))
            .advice(format!(
                "{ended} ended: notifications arrive faster than the client reads. The \
                 application's matter: read notifications in a thread of their own, or UNLISTEN. \
                 listen_queue_bytes and listen_queue_size are the limits.",
            ))
            .command("SHOW CLIENTS");
        Some(finding)
    }))
}
