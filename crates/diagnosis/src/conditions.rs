//! Table of conditions. Each has a name, texts for people, and a function that finds it in the facts of a sample.

use weir_stats::Severity;

use crate::facts::Facts;
use crate::text;
use crate::watch::FINDINGS_MAX;

mod clients;
mod errors;
mod held;
mod hosts;
mod limits;
mod pools;
mod state;
#[cfg(test)]
mod tests;
mod waits;
mod workers;

/// Bytes of evidence, advice and command that are kept of a finding: parts of them come from outside.
const TEXT_MAX: usize = 1024;

/// Entry of the table of conditions.
#[derive(Debug)]
pub struct Condition {
    /// Name, which never changes: metrics have it as a label.
    pub name: &'static str,
    /// Severities that the condition may have.
    pub severities: &'static [Severity],
    /// Meaning, in a sentence.
    pub meaning: &'static str,
    /// Evidence that makes the condition appear.
    pub evidence: &'static str,
    /// Shape of the advice.
    pub advice: &'static str,
    /// Samples in a row, a second apart, after which the condition begins.
    pub sustain: u32,
    /// Names of the conditions that this one explains: on the same object, they are not shown beside it.
    pub explains: &'static [&'static str],
    pub(crate) find: fn(&Facts<'_>) -> Vec<Finding>,
}

/// Condition that is found in a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// Object: `database/user` of a pool, `host:port`, `worker N`, the name of another object; empty for the process.
    pub(crate) scope: String,
    pub(crate) evidence: String,
    pub(crate) advice: String,
    pub(crate) command: String,
}

impl Finding {
    fn new(severity: Severity, scope: impl Into<String>) -> Self {
        Self {
            severity,
            scope: scope.into(),
            evidence: String::new(),
            advice: String::new(),
            command: String::new(),
        }
    }

    fn evidence(self, evidence: impl Into<String>) -> Self {
        let evidence = cut(evidence);
        Self { evidence, ..self }
    }

    fn advice(self, advice: impl Into<String>) -> Self {
        let advice = cut(advice);
        Self { advice, ..self }
    }

    fn command(self, command: impl Into<String>) -> Self {
        let command = cut(command);
        Self { command, ..self }
    }
}

fn cut(text: impl Into<String>) -> String {
    let mut text = text.into();
    text::cut(&mut text, TEXT_MAX);
    text
}

/// Returns the first findings, as many as are kept of a condition.
fn first(findings: impl Iterator<Item = Finding>) -> Vec<Finding> {
    findings.take(FINDINGS_MAX).collect()
}

/// All conditions, in the order of the reference page.
pub static CONDITIONS: &[Condition] = &[
    waits::IDLE_TRANSACTIONS,
    waits::LONG_QUERIES,
    waits::SLOW_QUERIES,
    waits::TOO_SMALL,
    waits::LIMIT_FULL,
    waits::PINS,
    waits::HOG,
    waits::WAIT_TIMEOUTS,
    pools::TOO_LARGE,
    pools::VIOLATION,
    pools::SESSION_IDLE,
    pools::LONG_TRANSACTION,
    pools::SERVER_CHURN,
    pools::STATEMENT_THRASH,
    pools::SERVERS_LOST,
    hosts::LOGINS_FAIL,
    hosts::EXHAUSTED,
    hosts::NOT_READY,
    hosts::UNREACHABLE,
    hosts::DNS,
    hosts::REPLICA_LAG,
    hosts::TWO_PRIMARIES,
    hosts::NO_WRITER,
    clients::CHURN,
    clients::SLOW_READER,
    clients::LOGINS_FAIL,
    clients::LISTEN_OVERFLOW,
    limits::CLIENTS,
    limits::POOLS,
    limits::FILES,
    limits::MEMORY,
    errors::READ_ONLY,
    errors::STORM,
    errors::SERIALIZATION,
    workers::WORKER_FULL,
    workers::WORKERS_FULL,
    workers::STALL,
    workers::THROTTLE,
    workers::LOOKUPS,
    state::CERTIFICATE,
    state::CANCELS,
    state::FORGOTTEN,
    state::RELOAD_FAILED,
    state::DRAINING,
];
