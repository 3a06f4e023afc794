//! The comparison's tables: medians with their range, and ratios taken inside each round.

use weir_lab::certificates::KIND;

use super::compare::{Cell, Record};
use super::figures::{self, NONE, Series, milliseconds};
use super::{Common, Hop};
use crate::lab::pgbench::Outcome;
use crate::lab::table::{Table, thousands};
use crate::lab::target::Target;

const MARK: &str = " †";

type Metric = fn(&Outcome) -> Option<f64>;
type Format = fn(f64) -> String;

/// A line for one finished run.
pub(super) fn progress(record: &Record, rounds: u32) -> String {
    let Record {
        round,
        cell,
        target,
        outcome,
    } = record;
    let head = format!(
        "round {round}/{rounds}  {:<20}  {:<9}",
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
pub(super) fn render(records: &[Record], common: &Common, seed: u64) -> String {
    let base = common.base();
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
        for &target in &common.targets {
            table.row(row(records, cell, target, base));
        }
    }
    let rounds = records
        .iter()
        .map(|record| record.round)
        .max()
        .unwrap_or_default();
    let mut text = table.markdown();
    text.push('\n');
    text.push_str(&figures::method(rounds, seed));
    text.push_str(" CPU is that of all threads of the pooler, from schedstat.\n");
    if cells
        .iter()
        .any(|cell| cell.is_changed_for(Target::PgBouncer))
    {
        text.push_str(
            "† PgBouncer before 1.21 has no prepared statements in transaction mode: it ran the \
             same queries as `extended`, which costs PostgreSQL a parse and a plan each time.\n",
        );
    }
    text
}

/// Which TLS each target has on each hop; `openssl` is what pgbench brings along.
pub(super) fn hops(hops: &[Hop], openssl: &str) -> String {
    let mut table = Table::new(&[
        "target",
        "client hop",
        "server hop",
        "SHOW CLIENTS",
        "SHOW SERVERS",
    ]);
    for hop in hops {
        let mut cells = vec![hop.target.to_string()];
        match &hop.outcome {
            Ok(found) => {
                let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| NONE.to_owned());
                cells.extend([found.client.clone(), found.server.clone()]);
                cells.extend([shown(&found.clients_shown), shown(&found.servers_shown)]);
            }
            Err(error) => {
                let words: Vec<&str> = error.split_whitespace().collect();
                cells.push(format!("failed: {}", words.join(" ")));
                cells.extend([NONE, NONE, NONE].map(str::to_owned));
            }
        }
        table.row(cells);
    }
    format!(
        "TLS on both hops, {KIND}; pgbench's side: {openssl}. Client hop as the openssl program \
         negotiates it, server hop as PostgreSQL's pg_stat_ssl shows it, and what the pooler's \
         own console says:\n\n{}",
        table.markdown()
    )
}

fn row(records: &[Record], cell: Cell, target: Target, base: Option<Target>) -> Vec<String> {
    let mark = if cell.is_changed_for(target) {
        MARK
    } else {
        ""
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
    for (metric, format) in metrics {
        let ours = series(records, cell, target, metric);
        let theirs = base
            .filter(|&base| base != target)
            .map_or_else(Series::new, |base| series(records, cell, base, metric));
        cells.push(figures::middle(&ours, format));
        cells.push(figures::ratio(&ours, &theirs));
    }
    cells
}

fn series(records: &[Record], cell: Cell, target: Target, metric: Metric) -> Series {
    records
        .iter()
        .filter(|record| record.cell == cell && record.target == target)
        .filter_map(|record| Some((record.round, metric(record.outcome.as_ref().ok()?)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_lab::environment::negotiated::Negotiated;

    #[test]
    fn a_target_that_cannot_be_looked_at_keeps_its_row() {
        let good = Negotiated {
            client: "TLSv1.3/A/X25519".to_owned(),
            server: "TLSv1.3/B".to_owned(),
            clients_shown: Some("TLSv1.3/A".to_owned()),
            servers_shown: None,
        };
        let hops = [
            Hop {
                target: Target::PgBouncer,
                outcome: Ok(good),
            },
            Hop {
                target: Target::Weir { workers: 1 },
                outcome: Err("no TLS\nmore".to_owned()),
            },
        ];
        let text = super::hops(&hops, "OpenSSL 3");
        let words = |line: &str| -> Vec<String> {
            line.split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        let table = text.lines().filter(|line| line.starts_with('|'));
        let rows: Vec<Vec<String>> = table.skip(2).map(words).collect();
        assert_eq!(
            rows[0][1..4],
            ["pgbouncer", "TLSv1.3/A/X25519", "TLSv1.3/B"]
        );
        assert_eq!(rows[1][1..4], ["weir1", "failed: no TLS more", NONE]);
    }
}
