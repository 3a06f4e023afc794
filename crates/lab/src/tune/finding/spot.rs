//! Measurements at one number of connections, over all repetitions.

use serde::{Deserialize, Serialize};
use weir_advisor::analysis::Point;
use weir_advisor::analysis::waits::{Class, Profile};

use crate::collector::WEIR;
use crate::collector::database::{CellRow, Database, Processor};
use crate::error::Result;
use crate::record::{Latency, Outcome};
use crate::statistics::{self, float};

/// Mean, smallest and largest value of the repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Mean.
    pub mean: f64,
    /// Smallest.
    pub low: f64,
    /// Largest.
    pub high: f64,
}

impl Range {
    /// Computes the range of values; `None` without any.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        Some(Self {
            mean: statistics::mean(values)?,
            low: values.iter().copied().reduce(f64::min)?,
            high: values.iter().copied().reduce(f64::max)?,
        })
    }
}

/// Latencies in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyMs {
    /// Mean of all transactions.
    pub mean: f64,
    /// Standard deviation over all transactions.
    pub stddev: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Smallest and largest p99 of the repetitions.
    pub p99_span: (f64, f64),
    /// True if percentiles are over all repetitions' transactions. Otherwise they are medians of the repetitions'
    /// percentiles, each from a sample.
    pub merged: bool,
}

/// Wait event of sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// Class, as named by [`class_name`].
    pub class: String,
    /// Event in PostgreSQL's words, such as `LWLock:WALWrite`.
    pub event: String,
    /// Mean number of sessions over all snapshots.
    pub average: f64,
    /// Standard error of the mean.
    pub error: f64,
    /// Mean number of sessions over the snapshots that have the event: the published formula.
    pub when_present: f64,
}

/// Mean numbers of clients, computed exactly from a pooler's sums of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolTimes {
    /// Clients that waited for a server.
    pub queue: f64,
    /// Clients whose server waited for them.
    pub client: f64,
    /// Clients whose server worked.
    pub server: f64,
}

/// Measurements at one number of connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spot {
    /// Number of connections to the server.
    pub connections: u32,
    /// Number of clients of the load.
    pub clients: u32,
    /// Transactions per second.
    pub tps: Range,
    /// Transactions per second of each repetition.
    pub tps_each: Vec<f64>,
    /// Latencies of the transactions.
    pub latency: Option<LatencyMs>,
    /// Number of failed transactions.
    pub errors: u64,
    /// Number of snapshots of `pg_stat_activity`.
    pub snapshots: u64,
    /// Mean number of sessions that were busy in the server.
    pub active: f64,
    /// Mean number of sessions by class, in the order of [`CLASSES`].
    pub classes: Vec<(String, f64)>,
    /// All wait events, the largest first.
    pub waits: Vec<Wait>,
    /// Mean number of sessions without a wait that had no core.
    pub without_core: Option<f64>,
    /// Use of the machine's CPUs.
    pub processor: Option<Processor>,
    /// CPU time of the server per transaction, in milliseconds.
    pub server_cpu_ms: Option<f64>,
    /// Share of the machine's CPU time that the generator used.
    pub generator_share: Option<f64>,
    /// Times that a Weir reports.
    pub pool: Option<PoolTimes>,
}

/// Classes of a report, in stacking order.
pub const CLASSES: [Class; 7] = [
    Class::Cpu,
    Class::Io,
    Class::LwLock,
    Class::Lock,
    Class::Other,
    Class::ClientInTransaction,
    Class::Race,
];

/// Returns the name of a class for display.
#[must_use]
pub const fn class_name(class: Class) -> &'static str {
    match class {
        Class::Cpu => "CPU",
        Class::Io => "I/O",
        Class::LwLock => "lightweight locks",
        Class::Lock => "locks",
        Class::Other => "other",
        Class::ClientInTransaction => "client, in transaction",
        Class::Idle => "idle",
        Class::Race => "between two looks",
    }
}

impl Spot {
    /// Converts the measurements for the analysis; `None` without a latency.
    pub(super) fn point(&self) -> Option<Point> {
        let latency = self.latency?;
        Some(Point {
            latency_stddev_s: Some(latency.stddev / 1000.0),
            p99_s: (latency.p99 > 0.0).then_some(latency.p99 / 1000.0),
            repetitions: self.tps_each.clone(),
            ..Point::new(self.connections, self.tps.mean, latency.mean / 1000.0)
        })
    }

    /// Takes over the evaluation of the samples.
    pub(in crate::tune) fn profiled(&mut self, profile: &Profile) {
        self.snapshots = profile.snapshots();
        self.active = profile.active();
        self.classes = CLASSES
            .iter()
            .map(|class| (class_name(*class).to_owned(), profile.class(*class)))
            .collect();
        let loads = profile.loads();
        let shown = loads
            .into_iter()
            .filter(|((class, _), _)| *class != Class::Idle);
        self.waits = shown
            .map(|((class, event), load)| Wait {
                class: class_name(class).to_owned(),
                event,
                average: load.average,
                error: load.error,
                when_present: load.when_present,
            })
            .collect();
    }
}

/// Combines cells with the same workload and number of connections; `None` if none has figures.
pub(super) fn of(database: &Database, cells: &[&CellRow]) -> Result<Option<Spot>> {
    let Some(first) = cells.first() else {
        return Ok(None);
    };
    let outcomes: Vec<&Outcome> = cells
        .iter()
        .filter_map(|cell| cell.outcome.as_ref())
        .collect();
    let tps_each: Vec<f64> = outcomes.iter().map(|outcome| outcome.tps).collect();
    let Some(tps) = Range::of(&tps_each) else {
        return Ok(None);
    };
    let mut profile = Profile::default();
    let mut processors = Vec::new();
    let mut pools = Vec::new();
    for cell in cells {
        database.add_profile(cell.id, &mut profile)?;
        processors.extend(database.processor(cell.id)?);
        pools.extend(pool_times(database, cell.id)?);
    }
    let mut spot = Spot {
        connections: first.connections,
        clients: first.clients,
        tps,
        tps_each,
        latency: latency(&outcomes),
        errors: outcomes.iter().map(|outcome| outcome.errors).sum(),
        processor: processor(&processors),
        pool: pool(&pools),
        ..Spot::default()
    };
    spot.profiled(&profile);
    costs(&mut spot, cells, &profile);
    Ok(Some(spot))
}

fn costs(spot: &mut Spot, cells: &[&CellRow], profile: &Profile) {
    let (mut server_us, mut generator_us, mut seconds, mut transactions) = (0.0, 0.0, 0.0, 0.0);
    let mut machine_us = 0.0;
    let (mut near, mut is_known) = (true, true);
    for cell in cells {
        let (Some(outcome), Some(costs)) = (&cell.outcome, &cell.costs) else {
            continue;
        };
        seconds += outcome.seconds;
        transactions += outcome.tps * outcome.seconds;
        is_known &= costs.generator.is_some();
        generator_us += costs.generator.map_or(0.0, |usage| usage.cpu_us);
        let cpus = costs.machine.map_or(0.0, |machine| f64::from(machine.cpus));
        machine_us += cpus * outcome.seconds * 1e6;
        match costs.server {
            Some(usage) => server_us += usage.cpu_us,
            None => near = false,
        }
    }
    if near && seconds > 0.0 && transactions > 0.0 {
        spot.server_cpu_ms = Some(server_us / 1000.0 / transactions);
        spot.without_core = Some(profile.waiting_for_cpu(server_us / 1e6 / seconds));
    }
    spot.generator_share = (is_known && machine_us > 0.0).then_some(generator_us / machine_us);
}

fn latency(outcomes: &[&Outcome]) -> Option<LatencyMs> {
    let all: Vec<(&Latency, f64)> = outcomes
        .iter()
        .filter_map(|outcome| Some((outcome.latency.as_ref()?, outcome.tps * outcome.seconds)))
        .collect();
    let count: f64 = all.iter().map(|(_, count)| count).sum();
    if all.is_empty() || count <= 0.0 {
        return None;
    }
    let mean = all.iter().map(|(one, n)| one.mean * n).sum::<f64>() / count;
    let squares = all
        .iter()
        .map(|(one, n)| (one.stddev.powi(2) + one.mean.powi(2)) * n);
    let stddev = (squares.sum::<f64>() / count - mean.powi(2))
        .max(0.0)
        .sqrt();
    let histograms: Option<Vec<_>> = all.iter().map(|(one, _)| one.histogram.clone()).collect();
    let merged = histograms.map(|all| {
        let mut buckets: Vec<(u64, u64)> = all.into_iter().flatten().collect();
        buckets.sort_unstable();
        buckets
    });
    let at = |part: f64, of: fn(&Latency) -> f64| match &merged {
        Some(buckets) => quantile(buckets, part),
        None => {
            let each: Vec<f64> = all.iter().map(|(one, _)| of(one)).collect();
            statistics::median(&each)
        }
    };
    let p99: Vec<f64> = all.iter().map(|(one, _)| one.p99 / 1000.0).collect();
    let span = Range::of(&p99)?;
    Some(LatencyMs {
        mean: mean / 1000.0,
        stddev: stddev / 1000.0,
        p50: at(0.5, |one| one.p50)? / 1000.0,
        p90: at(0.9, |one| one.p90)? / 1000.0,
        p99: at(0.99, |one| one.p99)? / 1000.0,
        p999: at(0.999, |one| one.p999)? / 1000.0,
        p99_span: (span.low, span.high),
        merged: merged.is_some(),
    })
}

/// Returns the upper bound of the bucket that reaches the share `part`; buckets rise.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts and microseconds below 2^52"
)]
fn quantile(buckets: &[(u64, u64)], part: f64) -> Option<f64> {
    let all: u64 = buckets.iter().map(|(_, count)| count).sum();
    let mut seen = 0;
    for (bound, count) in buckets {
        seen += count;
        if seen as f64 >= part * all as f64 {
            return Some(*bound as f64);
        }
    }
    None
}

fn pool_times(database: &Database, cell: i64) -> Result<Option<PoolTimes>> {
    // The growth rate of a sum of microseconds is a number of sessions.
    let sessions = |name: &str| {
        let rate = database.rate(cell, WEIR, name)?;
        Ok(rate.map(|rate| rate / 1e6))
    };
    let (queue, whole, server) = (
        sessions("wait_time")?,
        sessions("xact_time")?,
        sessions("query_time")?,
    );
    Ok(queue
        .zip(whole)
        .zip(server)
        .map(|((queue, whole), server)| PoolTimes {
            queue,
            client: (whole - server).max(0.0),
            server,
        }))
}

fn pool(all: &[PoolTimes]) -> Option<PoolTimes> {
    let mean =
        |of: fn(&PoolTimes) -> f64| statistics::mean(&all.iter().map(of).collect::<Vec<_>>());
    Some(PoolTimes {
        queue: mean(|one| one.queue)?,
        client: mean(|one| one.client)?,
        server: mean(|one| one.server)?,
    })
}

fn processor(all: &[Processor]) -> Option<Processor> {
    if all.is_empty() {
        return None;
    }
    let mean = |of: fn(&Processor) -> f64| all.iter().map(of).sum::<f64>() / float(all.len());
    let pressures: Vec<f64> = all.iter().filter_map(|one| one.pressure).collect();
    Some(Processor {
        cpus: mean(|one| one.cpus),
        user: mean(|one| one.user),
        nice: mean(|one| one.nice),
        system: mean(|one| one.system),
        iowait: mean(|one| one.iowait),
        steal: mean(|one| one.steal),
        switches_per_s: mean(|one| one.switches_per_s),
        load: mean(|one| one.load),
        pressure: statistics::mean(&pressures),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(latencies: &[(u64, u64)], complete: bool) -> Outcome {
        let count: u64 = latencies.iter().map(|(_, count)| count).sum();
        let mean = latencies.iter().map(|(at, count)| at * count).sum::<u64>() / count;
        Outcome {
            tps: f64::from(u32::try_from(count).unwrap()),
            seconds: 1.0,
            latency: Some(Latency {
                mean: f64::from(u32::try_from(mean).unwrap()),
                p99: 3000.0,
                histogram: complete.then(|| latencies.to_vec()),
                ..Latency::default()
            }),
            ..Outcome::default()
        }
    }

    #[test]
    fn whole_distributions_are_merged_and_not_averaged() {
        let (one, other) = (outcome(&[(1000, 99)], true), outcome(&[(9000, 1)], true));
        let found = latency(&[&one, &other]).unwrap();
        assert!(found.merged);
        assert_eq!((found.p50, found.p99, found.p999), (1.0, 1.0, 9.0));
        assert!((found.mean - 1.08).abs() < 1e-9);
        // Both repetitions are constant: all of the spread is between them.
        assert!((found.stddev - 0.796).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn of_samples_the_median_repetition_is_taken_and_said() {
        let (one, other) = (outcome(&[(1000, 9)], true), outcome(&[(1000, 9)], false));
        let found = latency(&[&one, &other]).unwrap();
        assert!(!found.merged);
        assert_eq!(found.p99, 3.0);
    }
}
