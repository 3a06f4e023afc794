//! Conditions of pools that need no waiting client: their size, their books, the life of their servers.

use weir_stats::{Activity, Severity};

use crate::conditions::held::Held;
use crate::conditions::{Condition, Finding, first};
use crate::facts::Facts;
use crate::text;
use crate::windows::{PoolFigure, SHORT, Span};

/// Age from which on a transaction counts as long.
const LONG_TRANSACTION_US: u64 = 300_000_000;

/// operator-ui.md 4, no. 4.
pub(super) const TOO_LARGE: Condition = Condition {
    name: "pool_too_large",
    severities: &[Severity::Info],
    meaning: "Fewer servers would give the same throughput.",
    evidence: "A pool with `pool_size = auto` and `pool_size_mode = advise` has found its knee at \
               80 % of its limit or less, and no client waits.",
    advice: "The recommended size; a matter of the pooler's configuration.",
    sustain: 10,
    explains: &[],
    find: too_large,
};

fn too_large(facts: &Facts<'_>) -> Vec<Finding> {
    let advised = facts.now.sizings.iter().filter(|sizing| {
        sizing.mode == "advise"
            && sizing.size > 0
            && sizing.size.saturating_mul(10) <= sizing.limit.saturating_mul(8)
    });
    first(advised.filter_map(|sizing| {
        let (low, high) = sizing.knee?;
        let key = (sizing.database.clone(), sizing.user.clone());
        let waits = facts.now.pools.get(&key).map(|row| row.counts.cl_waiting);
        if waits.is_some_and(|waiting| waiting > 0) {
            return None;
        }
        let (size, limit) = (sizing.size, sizing.limit);
        let finding = Finding::new(Severity::Info, format!("{}/{}", key.0, key.1))
            .evidence(format!(
                "limit {limit}; the knee lies between {low} and {high} servers; no client waits"
            ))
            .advice(format!(
                "{limit} servers are beyond the knee: {size} give the same throughput, with less \
                 load on the database. A matter of the pooler's configuration: set pool_size = \
                 {size}, or pool_size_mode = on.",
            ))
            .command(format!("pool_size = {size}"));
        Some(finding)
    }))
}

/// operator-ui.md 4, no. 5.
pub(super) const VIOLATION: Condition = Condition {
    name: "pool_violation",
    severities: &[Severity::Critical],
    meaning: "The books of a pool contradict each other. This is a defect of Weir.",
    evidence: "The check of a pool's invariants fails in two samples.",
    advice: "Report the text with the rows of SHOW POOLS; RECONNECT opens the servers anew.",
    sustain: 2,
    explains: &[],
    find: violation,
};

fn violation(facts: &Facts<'_>) -> Vec<Finding> {
    let broken = facts
        .pools
        .iter()
        .filter(|pool| !pool.row.violation.is_empty());
    first(broken.map(|pool| {
        let counts = &pool.row.counts;
        Finding::new(Severity::Critical, pool.scope())
            .evidence(format!(
                "{}; {} waiting, {} idle",
                pool.row.violation,
                text::count(counts.cl_waiting, "client"),
                text::count(counts.sv_idle, "server"),
            ))
            .advice(
                "The pooler's matter: a defect of Weir. Report this text with the output of SHOW \
                 POOLS and SHOW SERVERS. If clients wait although servers are idle, RECONNECT \
                 replaces the servers.",
            )
            .command(format!("RECONNECT {}", text::quoted(&pool.key.0)))
    }))
}

/// operator-ui.md 4, no. 13.
pub(super) const SESSION_IDLE: Condition = Condition {
    name: "session_pooling_idle",
    severities: &[Severity::Info],
    meaning: "In session pooling, clients hold servers that hardly work.",
    evidence: "Over a full minute, five servers or more are assigned on average, and less than 10 \
               % of them are in a query.",
    advice: "Number of servers that transaction pooling would need; a matter of the pooler's \
             configuration.",
    sustain: 10,
    explains: &[],
    find: session_idle,
};

fn session_idle(facts: &Facts<'_>) -> Vec<Finding> {
    let samples = facts.windows.samples();
    if samples < crate::windows::LONG {
        return Vec::new();
    }
    let mean = |sum: f64| sum / text::float(samples as u64);
    let session = facts
        .pools
        .iter()
        .filter(|pool| pool.row.pool_mode == "session");
    first(session.filter_map(|pool| {
        let leased = mean(pool.change(PoolFigure::Leased, Span::Long));
        let in_query = mean(pool.change(PoolFigure::InQuery, Span::Long));
        if leased < 5.0 || in_query >= leased / 10.0 {
            return None;
        }
        let in_transaction = mean(pool.change(PoolFigure::InTransaction, Span::Long));
        // Arrivals are random: half as many again, and one, keep waits rare.
        let needed = text::whole(((in_query + in_transaction) * 1.5).ceil()) + 1;
        let leased_now = text::whole(leased);
        let finding = Finding::new(Severity::Info, pool.scope())
            .evidence(format!(
                "over a minute {leased:.1} servers assigned, {in_query:.1} in a query and \
                 {in_transaction:.1} idle in a transaction"
            ))
            .advice(format!(
                "{leased_now} servers are held, and {in_query:.1} work. Transaction pooling would \
                 need about {needed} instead of {leased_now}. A matter of the pooler's \
                 configuration: set pool_mode = transaction; session state follows the clients \
                 (session_state = track), SHOW PINS shows what cannot.",
            ))
            .command("pool_mode = transaction");
        Some(finding)
    }))
}

/// operator-ui.md 4, no. 14.
pub(super) const LONG_TRANSACTION: Condition = Condition {
    name: "long_transaction",
    severities: &[Severity::Warning],
    meaning: "A transaction has been open for more than five minutes.",
    evidence: "The age of the oldest transaction of the pool.",
    advice: "Client, application and age; a matter of the application. Vacuum cannot remove rows \
             that the transaction may see.",
    sustain: 2,
    explains: &[],
    find: long_transaction,
};

fn long_transaction(facts: &Facts<'_>) -> Vec<Finding> {
    first(facts.pools.iter().filter_map(|pool| {
        let is_long = |row: &weir_stats::HolderRow| row.transaction_us > LONG_TRANSACTION_US;
        let long = Held::all(&pool.holders, is_long, |row| row.transaction_us)?;
        let (row, age) = (long.oldest, text::micros(long.oldest.transaction_us));
        let name = text::named(&row.application);
        let idle = match row.activity {
            Activity::InTransaction => format!("idle for {}", text::micros(row.activity_us)),
            _ => row.activity.name().to_owned(),
        };
        let finding = Finding::new(Severity::Warning, pool.scope())
            .evidence(format!(
                "{} older than 5 min, the oldest {age}, {idle}",
                text::count(long.count, "transaction"),
            ))
            .advice(format!(
                "Client {} of {name} has had a transaction open for {age} ({idle}, backend {}). \
                 The application's matter: vacuum cannot clean up behind it, and its locks stay. \
                 transaction_timeout and idle_transaction_timeout bound transactions.",
                row.client, row.backend_pid,
            ))
            .command(format!("KILL_CLIENT {}", row.client));
        Some(finding)
    }))
}

/// operator-ui.md 4, no. 16.
pub(super) const SERVER_CHURN: Condition = Condition {
    name: "server_churn",
    severities: &[Severity::Warning],
    meaning: "Servers are opened anew all the time.",
    evidence: "More server logins in ten seconds than the pool has servers, and at least six.",
    advice: "Mean life of a server, and the options that end servers; a matter of the pooler's \
             configuration.",
    sustain: 10,
    explains: &[],
    find: server_churn,
};

fn server_churn(facts: &Facts<'_>) -> Vec<Finding> {
    first(facts.pools.iter().filter_map(|pool| {
        let rate = pool.rate(PoolFigure::ServerLogins, Span::Short);
        let size = text::float(pool.size().max(5));
        if rate <= size / text::float(SHORT as u64) {
            return None;
        }
        let life = text::micros(text::whole(text::float(pool.row.servers) / rate * 1e6));
        let finding = Finding::new(Severity::Warning, pool.scope())
            .evidence(format!(
                "{} over 10 s, {} open",
                text::rate(rate, "server logins"),
                text::count(pool.row.servers, "server"),
            ))
            .advice(format!(
                "Servers live for {life} on average. A matter of the pooler's configuration: \
                 server_lifetime or server_idle_timeout is too short, server_round_robin or \
                 session pooling uses up servers, or server_reset_query fails. The log line \
                 `closing because` has the reason.",
            ))
            .command("SHOW CONFIG");
        Some(finding)
    }))
}

/// operator-ui.md 4, no. 17.
pub(super) const STATEMENT_THRASH: Condition = Condition {
    name: "prepared_statement_thrash",
    severities: &[Severity::Warning],
    meaning: "Servers have to parse prepared statements again and again.",
    evidence: "For 40 seconds, servers get a Parse for more than 10 % of all Binds, at ten Binds \
               a second or more.",
    advice: "Share of such requests; a larger max_prepared_statements, or fewer distinct \
             statements in the application.",
    sustain: 30,
    explains: &[],
    find: statement_thrash,
};

fn statement_thrash(facts: &Facts<'_>) -> Vec<Finding> {
    first(facts.pools.iter().filter_map(|pool| {
        let binds = pool.rate(PoolFigure::Binds, Span::Short);
        let parses = pool.rate(PoolFigure::ServerParses, Span::Short);
        if binds < 10.0 || parses * 10.0 <= binds {
            return None;
        }
        let share = text::whole(parses * 100.0 / binds);
        let evictions = pool.rate(PoolFigure::Evictions, Span::Short);
        let distinct: u64 = facts.now.workers.iter().map(|row| row.statements).sum();
        let finding = Finding::new(Severity::Warning, pool.scope())
            .evidence(format!(
                "{} to servers for {} over 10 s: {share} %; servers forget {} to make room; {} in the process",
                text::rate(parses, "Parse"),
                text::rate(binds, "Bind"),
                text::rate(evictions, "statements"),
                text::count(distinct, "distinct statement"),
            ))
            .advice(format!(
                "{share} % of the requests with prepared statements make a server parse first: \
                 there are more distinct statements than max_prepared_statements keeps per \
                 server. Raise it, or let the application use parameters instead of literals in \
                 its SQL (SHOW DIGESTS shows statements that differ in literals only).",
            ))
            .command("SET max_prepared_statements = 1000");
        Some(finding)
    }))
}

/// operator-ui.md 4, no. 35.
pub(super) const SERVERS_LOST: Condition = Condition {
    name: "servers_lost",
    severities: &[Severity::Warning],
    meaning: "Server connections end without Weir having closed them.",
    evidence: "Three servers or more of a pool within a minute.",
    advice: "Causes outside of the pooler, and the timeout to set below theirs; a matter of the \
             database or the network.",
    sustain: 1,
    explains: &["server_churn"],
    find: servers_lost,
};

fn servers_lost(facts: &Facts<'_>) -> Vec<Finding> {
    first(facts.pools.iter().filter_map(|pool| {
        let lost = text::whole(pool.change(PoolFigure::ServersLost, Span::Long));
        if lost < 3 {
            return None;
        }
        let finding = Finding::new(Severity::Warning, pool.scope())
            .evidence(format!(
                "{} lost within a minute, {} open",
                text::count(lost, "server"),
                pool.row.servers
            ))
            .advice(format!(
                "{lost} servers ended within a minute, and Weir did not close them. A matter of \
                 the database or the network: PostgreSQL has restarted or ended them \
                 (pg_terminate_backend, idle_session_timeout), or a firewall drops \
                 idle connections. In the last case set server_idle_timeout below its limit, or tcp_keepidle. The log line \
                 `closing because` has the text.",
            ))
            .command("SET server_idle_timeout = 240");
        Some(finding)
    }))
}
