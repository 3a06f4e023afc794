//! Cells of one target under one load, over all blocks.

use std::collections::{BTreeMap, BTreeSet};

use super::Metric;
use crate::record::{Cell, FlagKind, Latency};
use crate::statistics::histogram::{self, Parts};
use crate::statistics::{self, Interval, Sample, bootstrap};

/// Number of bootstrap rounds. With as many, the seed moves the ends of an interval by at most a tenth of its
/// width.
const ROUNDS: usize = 1000;
/// Fixed seed, so that the same data give the same report.
const SEED: u64 = 1;

/// The cells of one target at one place, by block.
#[derive(Debug, Default)]
pub(crate) struct Point<'a> {
    /// Cells that were measured or failed, at most one per block.
    pub(crate) cells: BTreeMap<u32, &'a Cell>,
}

impl<'a> Point<'a> {
    pub(super) fn new(cells: impl Iterator<Item = &'a Cell>) -> Self {
        Self {
            cells: cells.map(|cell| (cell.block, cell)).collect(),
        }
    }

    /// Returns the statistics of the blocks' values.
    pub(crate) fn sample(&self, metric: Metric) -> Option<Sample> {
        let values: Vec<f64> = self
            .cells
            .values()
            .filter_map(|cell| metric.of(cell))
            .collect();
        Sample::of(&values)
    }

    /// Returns the value for a chart. A percentile is that of the merged distribution if every block has one; all
    /// other values are means.
    pub(crate) fn center(&self, metric: Metric) -> Option<f64> {
        let merged = match metric {
            Metric::P50 => self.quantile(0.50),
            Metric::P99 => self.quantile(0.99),
            _ => None,
        };
        merged.or_else(|| self.sample(metric).map(|sample| sample.mean))
    }

    /// Returns a quantile of the merged distribution, in microseconds; `None` unless every measured block has a
    /// distribution.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let merged = histogram::merge(self.distributions()?);
        histogram::quantile(&merged, share).map(micros)
    }

    /// Returns a percentile in microseconds: that of the merged distribution, or the mean of the blocks' if one has
    /// none.
    pub(crate) fn percentile(&self, share: f64) -> Option<f64> {
        self.quantile(share)
            .or_else(|| statistics::mean(&self.latencies(percentile_of(share))))
    }

    /// Returns the 95 % interval of [`Self::percentile`] by the bootstrap. Blocks are drawn and not transactions,
    /// because the transactions of one block are not independent. `None` for fewer than 2 blocks.
    pub(crate) fn percentile_interval(&self, share: f64) -> Option<Interval> {
        let Some(distributions) = self.distributions() else {
            let values = self.latencies(percentile_of(share));
            return bootstrap::interval(&values, statistics::mean, ROUNDS, SEED);
        };
        let parts = Parts::new(&distributions);
        let blocks: Vec<usize> = (0..distributions.len()).collect();
        let quantile = |drawn: &[usize]| {
            let mut weights = vec![0; distributions.len()];
            for block in drawn {
                *weights.get_mut(*block)? += 1;
            }
            parts.quantile(&weights, share).map(micros)
        };
        bootstrap::interval(&blocks, quantile, ROUNDS, SEED)
    }

    /// Returns the mean of the blocks' mean latencies in microseconds.
    pub(crate) fn mean_latency(&self) -> Option<f64> {
        statistics::mean(&self.latencies(|latency| latency.mean))
    }

    fn latencies(&self, read: impl Fn(&Latency) -> f64) -> Vec<f64> {
        let latency = |cell: &&Cell| Some(read(cell.outcome.as_ref()?.latency.as_ref()?));
        self.cells.values().filter_map(latency).collect()
    }

    /// Returns one distribution per measured block, if each has one.
    fn distributions(&self) -> Option<Vec<&'a [(u64, u64)]>> {
        let measured = self.cells.values().filter_map(|cell| cell.outcome.as_ref());
        measured
            .map(|outcome| outcome.latency.as_ref()?.histogram.as_deref())
            .collect()
    }

    /// Returns the values of this and another point from the same blocks.
    pub(crate) fn pairs(&self, base: &Self, metric: Metric) -> Vec<(f64, f64)> {
        let pair = |(block, cell): (&u32, &&Cell)| {
            Some((metric.of(cell)?, metric.of(base.cells.get(block)?)?))
        };
        self.cells.iter().filter_map(pair).collect()
    }

    /// Returns the logarithms of the ratios to another point, by block.
    pub(crate) fn logs_by_block(&self, base: &Self, metric: Metric) -> BTreeMap<u32, f64> {
        let log = |(block, cell): (&u32, &&Cell)| {
            let ratio = metric.of(cell)? / metric.of(base.cells.get(block)?)?;
            let is_positive = ratio.is_finite() && ratio > 0.0;
            is_positive.then(|| (*block, ratio.ln()))
        };
        self.cells.iter().filter_map(log).collect()
    }

    /// Returns the descriptions of other work that the target did instead of what was asked for.
    pub(crate) fn other_work(&self) -> BTreeSet<&'a str> {
        let flags = self.cells.values().flat_map(|cell| &cell.flags);
        flags
            .filter(|flag| flag.kind == FlagKind::Substituted)
            .map(|flag| flag.detail.as_str())
            .collect()
    }

    /// Returns the number of cells with an outcome.
    pub(crate) fn measured(&self) -> usize {
        self.cells
            .values()
            .filter(|cell| cell.outcome.is_some())
            .count()
    }

    /// Returns the flags, each kind with the number of flags and an example.
    pub(crate) fn flags(&self) -> BTreeMap<FlagKind, (usize, &'a str)> {
        let mut flags = BTreeMap::new();
        for flag in self.cells.values().flat_map(|cell| &cell.flags) {
            flags
                .entry(flag.kind)
                .or_insert((0, flag.detail.as_str()))
                .0 += 1;
        }
        flags
    }

    /// Returns the reason of a failure if no block could be run.
    pub(crate) fn failure(&self) -> Option<&'a str> {
        if self.measured() > 0 {
            return None;
        }
        self.cells.values().find_map(|cell| cell.failed.as_deref())
    }
}

fn percentile_of(share: f64) -> impl Fn(&Latency) -> f64 {
    move |latency| match share {
        0.5 => latency.p50,
        0.9 => latency.p90,
        0.99 => latency.p99,
        _ => latency.p999,
    }
}

/// Converts a time. Microseconds stay below 2^52.
#[expect(clippy::cast_precision_loss, reason = "see above")]
fn micros(bound: u64) -> f64 {
    bound as f64
}
