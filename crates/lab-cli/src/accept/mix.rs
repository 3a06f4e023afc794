//! Loads with different best pool sizes, as scripts of pgbench on its own tables. Each load stands for one reason why
//! counting cores does not give the size of a pool.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Scale factor of pgbench, 100,000 accounts each. Small, because the data is restored before each run that writes.
pub(super) const SCALE: u32 = 4;

const CHATTY: &str = "\
BEGIN;
\\sleep 1 ms
UPDATE pgbench_accounts SET abalance = abalance - :amount WHERE aid = :low;
\\sleep 1 ms
UPDATE pgbench_accounts SET abalance = abalance + :amount WHERE aid = :high;
\\sleep 1 ms
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, :low, :amount, now());
\\sleep 1 ms
COMMIT;
";

const LANES: &str = "\
\\set lane random(1, 8)
BEGIN;
SELECT pg_advisory_xact_lock(:lane);
SELECT pg_sleep(0.002);
COMMIT;
";

/// A load.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Mix {
    /// Reads one row by its key: all work, no waits
    ReadOnly,
    /// A transfer between two accounts, with 1 ms of the client's own time before each statement
    Chatty,
    /// Transfer in one pipeline
    Pipelined,
    /// Takes one of eight advisory locks, held for 2 ms: no sharp best size
    LaneBound,
    /// A transfer, half of them from the same account
    LockBound,
}

impl Mix {
    pub(super) const ALL: [Self; 5] = [
        Self::ReadOnly,
        Self::Chatty,
        Self::Pipelined,
        Self::LaneBound,
        Self::LockBound,
    ];

    /// Name on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Chatty => "chatty",
            Self::Pipelined => "pipelined",
            Self::LaneBound => "lane-bound",
            Self::LockBound => "lock-bound",
        }
    }

    /// Description for the report.
    pub(super) const fn about(self) -> &'static str {
        match self {
            Self::ReadOnly => "one row of pgbench_accounts by its key",
            Self::Chatty => "a transfer in five round trips, 1 ms of the client's time between two",
            Self::Pipelined => "the same transfer in one pipeline",
            Self::LaneBound => "one of 8 advisory locks, held for 2 ms",
            Self::LockBound => "the transfer without pauses, half of them from the same account",
        }
    }

    /// pgbench's `--protocol`.
    pub(super) const fn protocol(self) -> &'static str {
        match self {
            Self::ReadOnly | Self::LaneBound => "simple",
            Self::Chatty | Self::Pipelined | Self::LockBound => "prepared",
        }
    }

    /// True if the data must be restored before the next run.
    pub(super) const fn writes(self) -> bool {
        !matches!(self, Self::ReadOnly | Self::LaneBound)
    }

    /// Share of transactions that is logged: logging each of a great many would be a load of its own.
    pub(super) const fn logged(self) -> f64 {
        match self {
            Self::ReadOnly => 0.25,
            _ => 1.0,
        }
    }

    pub(super) fn script(self) -> String {
        let rows = SCALE * 100_000;
        match self {
            Self::ReadOnly => format!(
                "\\set aid random(1, {rows})\n\
                 SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
            ),
            Self::Chatty => format!("{}{CHATTY}", transfer(&format!("random(1, {rows})"))),
            Self::Pipelined => format!(
                "{}\\startpipeline\n{}\\endpipeline\n",
                transfer(&format!("random(1, {rows})")),
                without_pauses()
            ),
            Self::LaneBound => LANES.to_owned(),
            Self::LockBound => {
                let from = format!("case when random(1, 2) = 1 then 1 else random(2, {rows}) end");
                format!("{}{}", transfer(&from), without_pauses())
            }
        }
    }
}

/// Script of a transfer. The lower account comes first, which rules out deadlocks.
fn transfer(from: &str) -> String {
    let rows = SCALE * 100_000;
    format!(
        "\\set from {from}\n\
         \\set to random(2, {rows})\n\
         \\set low least(:from, :to)\n\
         \\set high greatest(:from, :to)\n\
         \\set amount random(1, 1000)\n"
    )
}

fn without_pauses() -> String {
    CHATTY
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("\\sleep"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chatty_and_pipelined_do_the_same() {
        let statements = |mix: Mix| -> Vec<String> {
            let script = mix.script();
            let lines = script.lines().filter(|line| !line.starts_with('\\'));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(statements(Mix::Chatty), statements(Mix::Pipelined));
        assert_eq!(statements(Mix::Chatty), statements(Mix::LockBound));
        assert_eq!(statements(Mix::Chatty).len(), 5);
    }

    #[test]
    fn only_the_chatty_client_takes_its_time() {
        for mix in Mix::ALL {
            assert_eq!(
                mix.script().contains("\\sleep"),
                mix == Mix::Chatty,
                "{mix:?}"
            );
            assert_eq!(mix.writes(), mix.script().contains("UPDATE"), "{mix:?}");
        }
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for mix in Mix::ALL {
            assert_eq!(Mix::from_str(mix.name(), false), Ok(mix));
        }
    }
}
