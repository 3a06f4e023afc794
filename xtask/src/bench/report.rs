//! The bench's table: medians with their range, and ratios taken inside each round.

use std::fmt::Write as _;

use crate::bench::{Cell, Record};
use crate::lab::environment::Environment;
use crate::lab::pgbench::Outcome;
use crate::lab::statistics::{geometric_mean, median, range};
use crate::lab::table::{Table, thousands};
use crate::lab::target::Target;

const NONE: &str = "–";
const MARK: &str = " †";

type Metric = fn(&Outcome) -> Option<f64>;
type Format = fn(f64) -> String;

/// A line for one finished run.
pub(super) fn progress(
    round: u32,
    rounds: u32,
    cell: Cell,
    target: Target,
    outcome: &Result<Outcome, String>,
) -> String {
    let head = format!(
        "round {round}/{rounds}  {:<18}  {:<9}",
        cell.name(),
        target.to_string()
    );
    match outcome {
        Ok(outcome) => {
            let cpu = outcome
                .cpu_us
                .map_or_else(|| NONE.to_owned(), |cpu| format!("{cpu:.1}"));
            let failures = match outcome.failures {
                0 => String::new(),
                count => format!("  {count} FAILED"),
            };
            format!(
                "{head}  {:>8} tps  p99 {:>7.2} ms  cpu {cpu:>5} us{failures}",
                thousands(outcome.per_second),
                milliseconds(outcome.p99_us),
            )
        }
        Err(error) => format!("{head}  failed: {error}"),
    }
}

/// The whole result as markdown.
pub(super) fn render(
    records: &[Record],
    targets: &[Target],
    environment: &Environment,
    seed: u64,
) -> String {
    let base = if targets.contains(&Target::PgBouncer) {
        Some(Target::PgBouncer)
    } else {
        targets.first().copied()
    };
    let base_name = base.map_or_else(String::new, |target| target.to_string());
    let ratio = format!("/ {base_name}");
    let mut table = Table::new(&[
        "workload",
        "clients",
        "target",
        "CPU us/txn",
        &ratio,
        "TPS",
        &ratio,
        "p99 ms",
        &ratio,
    ]);
    let mut cells: Vec<Cell> = records.iter().map(|record| record.cell).collect();
    cells.sort_unstable();
    cells.dedup();
    for &cell in &cells {
        for &target in targets {
            table.row(row(records, cell, target, base));
        }
    }
    let rounds = records
        .iter()
        .map(|record| record.round)
        .max()
        .unwrap_or_default();
    let mut text = table.markdown();
    let _ = write!(
        text,
        "\nMedian (min–max) of {rounds} rounds; ratios are taken inside each round, then geometric \
         mean (min–max). CPU is that of all threads of the pooler, from schedstat. Order shuffled \
         with seed {seed}.\n"
    );
    if cells
        .iter()
        .any(|cell| cell.protocol_for(Target::PgBouncer) != cell.protocol)
    {
        text.push_str(
            "† PgBouncer before 1.21 has no prepared statements in transaction mode: it ran the \
             same queries as `extended`, which costs PostgreSQL a parse and a plan each time.\n",
        );
    }
    let _ = write!(text, "\n{}\n", environment.line());
    text
}

fn row(records: &[Record], cell: Cell, target: Target, base: Option<Target>) -> Vec<String> {
    let ours = outcomes(records, cell, target);
    let theirs = base.map_or_else(Vec::new, |base| outcomes(records, cell, base));
    let compared = base.is_some_and(|base| base != target);
    let mark = if cell.protocol_for(target) == cell.protocol {
        ""
    } else {
        MARK
    };
    let mut cells = vec![
        cell.workload(),
        cell.clients.to_string(),
        format!("{target}{mark}"),
    ];
    let metrics: [(Metric, Format); 3] = [
        (|outcome| outcome.cpu_us, |value| format!("{value:.1}")),
        (|outcome| Some(outcome.per_second), thousands),
        (
            |outcome| Some(milliseconds(outcome.p99_us)),
            |value| format!("{value:.2}"),
        ),
    ];
    for (value, format) in metrics {
        let values: Vec<f64> = ours
            .iter()
            .filter_map(|(_, outcome)| value(outcome))
            .collect();
        cells.push(spread(&values, median, format));
        let ratios = if compared {
            ratios(&ours, &theirs, value)
        } else {
            Vec::new()
        };
        cells.push(spread(&ratios, geometric_mean, |ratio| {
            format!("{ratio:.2}")
        }));
    }
    cells
}

fn outcomes(records: &[Record], cell: Cell, target: Target) -> Vec<(u32, &Outcome)> {
    records
        .iter()
        .filter(|record| record.cell == cell && record.target == target)
        .filter_map(|record| Some((record.round, record.outcome.as_ref().ok()?)))
        .collect()
}

/// Ours over theirs for every round in which both ran.
fn ratios(ours: &[(u32, &Outcome)], theirs: &[(u32, &Outcome)], value: Metric) -> Vec<f64> {
    ours.iter()
        .filter_map(|(round, outcome)| {
            let (_, other) = theirs.iter().find(|(other, _)| other == round)?;
            Some(value(outcome)? / value(other)?)
        })
        .collect()
}

fn spread(values: &[f64], middle: fn(&[f64]) -> f64, format: impl Fn(f64) -> String) -> String {
    if values.is_empty() {
        return NONE.to_owned();
    }
    let (low, high) = range(values);
    format!(
        "{} ({}–{})",
        format(middle(values)),
        format(low),
        format(high)
    )
}

#[expect(
    clippy::cast_precision_loss,
    reason = "latencies stay far below 2^52 microseconds"
)]
fn milliseconds(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(per_second: f64, cpu_us: f64) -> Outcome {
        Outcome {
            transactions: 10,
            failures: 0,
            seconds: 1.0,
            per_second,
            mean_us: 1.0,
            p50_us: 1,
            p99_us: 2000,
            max_us: 3000,
            cpu_us: Some(cpu_us),
        }
    }

    #[test]
    fn ratios_pair_runs_of_the_same_round() {
        let (slow, fast, twice) = (
            outcome(100.0, 20.0),
            outcome(200.0, 10.0),
            outcome(400.0, 5.0),
        );
        let ours = [(1, &fast), (2, &twice), (3, &fast)];
        let theirs = [(2, &fast), (1, &slow)];
        let found = ratios(&ours, &theirs, |outcome| Some(outcome.per_second));
        assert_eq!(found, vec![2.0, 2.0]);
    }

    #[test]
    fn spread_shows_middle_and_ends() {
        let text = spread(&[1.0, 3.0, 2.0], median, |value| format!("{value:.1}"));
        assert_eq!(text, "2.0 (1.0–3.0)");
        assert_eq!(spread(&[], median, thousands), NONE);
    }
}
