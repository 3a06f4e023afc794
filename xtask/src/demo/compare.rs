//! Load that runs direct and through each pooler, in rounds, and the summary of the results.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;
use weir_lab::clock;
use weir_lab::postgres::Cluster;
use weir_lab::statistics::ratio::Ratio;
use weir_lab::statistics::{Sample, median};
use weir_lab::table::{Table, bar, thousands};
use weir_lab::weir::Weir;

use super::Stage;
use super::load::{Load, Outcome, Work};
use crate::pgbouncer::PgBouncer;

/// Long enough for the first query of each of a hundred new backends, which takes some milliseconds of a processor.
const WARM_UP: Duration = Duration::from_millis(1500);
const BAR_WIDTH: u32 = 24;

type Metric = fn(&Run) -> f64;
type Format = fn(f64) -> String;

/// Result of one run, and the number of connections that PostgreSQL served meanwhile.
struct Run {
    outcome: Outcome,
    connections: u32,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Direct,
    PgBouncer,
    Weir,
    /// Weir with one event loop, as PgBouncer has.
    WeirWithOneWorker,
}

/// A way to PostgreSQL, and the results of its runs, one per round.
pub(super) struct Side {
    kind: Kind,
    address: SocketAddr,
    /// Process whose CPU time is measured, if there is a pooler.
    pooler: Option<u32>,
    runs: Vec<Run>,
}

impl Side {
    pub(super) fn direct(cluster: &Cluster) -> Self {
        Self::new(Kind::Direct, cluster.address(), None)
    }

    pub(super) fn pgbouncer(pgbouncer: &PgBouncer) -> Self {
        Self::new(Kind::PgBouncer, pgbouncer.address(), Some(pgbouncer.pid()))
    }

    pub(super) fn weir(weir: &Weir) -> Self {
        Self::new(Kind::Weir, weir.address(), Some(weir.pid()))
    }

    pub(super) fn weir_with_one_worker(weir: &Weir) -> Self {
        Self::new(Kind::WeirWithOneWorker, weir.address(), Some(weir.pid()))
    }

    fn new(kind: Kind, address: SocketAddr, pooler: Option<u32>) -> Self {
        Self {
            kind,
            address,
            pooler,
            runs: Vec::new(),
        }
    }

    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Direct => "direct",
            Kind::PgBouncer => "PgBouncer",
            Kind::Weir => "Weir",
            Kind::WeirWithOneWorker => "Weir, 1 worker",
        }
    }

    fn values(&self, value: Metric) -> Vec<f64> {
        self.runs.iter().map(value).collect()
    }
}

/// Runs each side once per round, in random order.
pub(super) fn measure(stage: &Stage<'_>, sides: &mut [Side]) -> Result<()> {
    let flags = stage.flags;
    let pgbench = stage.cluster.programs().path("pgbench")?;
    let mut rng = Rng::with_seed(clock::since_epoch().as_secs());
    for round in 1..=flags.rounds {
        let load = Load {
            work: Work::Read,
            clients: flags.clients,
            warm_up: WARM_UP,
            measured: Duration::from_secs(flags.seconds),
            seed: rng.u64(1..u64::from(u32::MAX)),
        };
        let mut order: Vec<&mut Side> = sides.iter_mut().collect();
        rng.shuffle(&mut order);
        for side in order {
            let mut connections = 0;
            let (address, pooler) = (side.address, side.pooler);
            let outcome = load.run(&pgbench, address, pooler, stage.interrupt, || {
                connections = served(stage.cluster).unwrap_or_default();
            })?;
            println!(
                "  round {round}/{}  {:<14}  {}",
                flags.rounds,
                side.name(),
                brief(&outcome)
            );
            side.runs.push(Run {
                outcome,
                connections,
            });
        }
    }
    Ok(())
}

/// Returns the number of connections on which PostgreSQL has had work in the last second. Poolers also have idle ones.
fn served(cluster: &Cluster) -> Result<u32> {
    let sql = "SELECT count(*) FROM pg_stat_activity \
               WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() \
               AND state_change > clock_timestamp() - interval '1 s'";
    Ok(cluster.query("postgres", sql)?.parse()?)
}

fn brief(outcome: &Outcome) -> String {
    let rate = thousands(outcome.per_second);
    let failures = match outcome.failures {
        0 => String::new(),
        count => format!(", {count} FAILED"),
    };
    format!(
        "{rate:>8} transactions/s, p99 {:>6.2} ms{failures}",
        milliseconds(outcome.p99_us)
    )
}

/// Bars for throughput and p99, then the table with medians and spread, then the ratios in words.
pub(super) fn summary(sides: &[Side], clients: u32) -> String {
    let mut text = String::new();
    for (title, unit, value) in [
        ("Throughput", "transactions/s", per_second as Metric),
        ("p99 of a transaction's time", "ms", p99),
    ] {
        text.push_str(&format!("{title}\n{}", bars(sides, unit, value)));
    }
    text.push_str(&format!("\n{}\n", table(sides)));
    text.push_str(&format!(
        "A transaction's time is from a client's answer before to its own, so that mean x throughput is the\n\
         number of clients, {clients} (Little's law). The latency that pgbench reports is shorter: it leaves out the\n\
         time in which a client has its answer and pgbench works for other clients.\n\n"
    ));
    for (one, other) in [
        (Kind::WeirWithOneWorker, Kind::PgBouncer),
        (Kind::Weir, Kind::PgBouncer),
        (Kind::Weir, Kind::Direct),
    ] {
        let side = |kind| sides.iter().find(|side| side.kind == kind);
        if let (Some(one), Some(other)) = (side(one), side(other)) {
            text.push_str(&against(one, other));
        }
    }
    text
}

fn bars(sides: &[Side], unit: &str, value: Metric) -> String {
    let middles: Vec<f64> = sides
        .iter()
        .map(|side| median(&side.values(value)).unwrap_or(f64::NAN))
        .collect();
    let full = middles.iter().copied().fold(0.0, f64::max);
    let width = BAR_WIDTH as usize;
    let mut text = String::new();
    for (side, middle) in sides.iter().zip(middles) {
        let shown = if unit == "ms" {
            format!("{middle:.2}")
        } else {
            thousands(middle)
        };
        let bar = bar(middle, full, BAR_WIDTH);
        text.push_str(&format!(
            "  {:<14} {bar:<width$} {shown} {unit}\n",
            side.name()
        ));
    }
    text
}

fn table(sides: &[Side]) -> String {
    let mut header = vec!["median (min–max)"];
    header.extend(sides.iter().map(Side::name));
    let mut table = Table::new(&header);
    let two: Format = |value| format!("{value:.2}");
    let one: Format = |value| format!("{value:.1}");
    let rows: [(&str, Metric, Format); 6] = [
        ("transactions per second", per_second, thousands),
        ("mean time of a transaction, ms", mean, two),
        ("p99 of this time, ms", p99, two),
        (
            "mean x throughput, clients",
            |run| mean(run) / 1000.0 * per_second(run),
            one,
        ),
        (
            "connections PostgreSQL serves",
            |run| f64::from(run.connections),
            thousands,
        ),
        ("pooler's CPU per transaction, µs", cpu, one),
    ];
    for (name, value, format) in rows {
        let cells = sides.iter().map(|side| spread(&side.values(value), format));
        table.row([name.to_owned()].into_iter().chain(cells).collect());
    }
    table.markdown()
}

/// Ratios of a side to another one, with what they say.
fn against(one: &Side, other: &Side) -> String {
    let ratio = |value: Metric| {
        let pairs: Vec<(f64, f64)> = one
            .values(value)
            .into_iter()
            .zip(other.values(value))
            .collect();
        Ratio::of(&pairs)
    };
    let mut lines = vec![
        ("throughput", ratio(per_second), true),
        ("p99", ratio(p99), false),
    ];
    if other.pooler.is_some() {
        lines.push(("CPU", ratio(cpu), false));
    }
    let mut text = format!("{} / {}, by rounds (95 %):\n", one.name(), other.name());
    for (name, ratio, is_more_better) in lines {
        let words = ratio.map_or_else(
            || "not known".to_owned(),
            |ratio| words(&ratio, is_more_better),
        );
        text.push_str(&format!("  {name:<11} {words}\n"));
    }
    text
}

/// Tells a ratio, and if it is more than noise.
pub(super) fn words(ratio: &Ratio, is_more_better: bool) -> String {
    let Some(interval) = ratio.interval else {
        return format!("{:.2}, from a single round", ratio.mean);
    };
    let verdict = if interval.contains(1.0) {
        "no difference beyond the noise"
    } else if (ratio.mean > 1.0) == is_more_better {
        "better"
    } else {
        "worse"
    };
    format!(
        "{:.2} ({:.2}–{:.2}): {verdict}",
        ratio.mean, interval.low, interval.high
    )
}

fn per_second(run: &Run) -> f64 {
    run.outcome.per_second
}

fn mean(run: &Run) -> f64 {
    run.outcome.mean_us / 1000.0
}

fn p99(run: &Run) -> f64 {
    milliseconds(run.outcome.p99_us)
}

fn cpu(run: &Run) -> f64 {
    run.outcome.cpu_us.unwrap_or(f64::NAN)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "latencies stay far below 2^52 microseconds"
)]
fn milliseconds(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

fn spread(values: &[f64], format: Format) -> String {
    // A side that was never run, or whose CPU time is unknown.
    let Some(sample) = Sample::of(values) else {
        return "–".to_owned();
    };
    format!(
        "{} ({}–{})",
        format(sample.median),
        format(sample.min),
        format(sample.max)
    )
}

#[cfg(test)]
mod tests {
    use weir_lab::statistics::Interval;

    use super::*;

    #[test]
    fn a_ratio_within_the_noise_is_no_difference() {
        let ratio = |mean, low, high| Ratio {
            pairs: 5,
            mean,
            min: low,
            max: high,
            interval: Some(Interval { low, high }),
        };
        let near = words(&ratio(1.02, 0.97, 1.07), true);
        assert_eq!(near, "1.02 (0.97–1.07): no difference beyond the noise");
        assert!(words(&ratio(1.1, 1.05, 1.15), true).ends_with("better"));
        assert!(words(&ratio(1.1, 1.05, 1.15), false).ends_with("worse"));
        assert!(words(&ratio(0.9, 0.85, 0.95), false).ends_with("better"));
    }
}
