//! One target under one load: the cells of all blocks.

use std::collections::BTreeMap;

use super::Metric;
use crate::record::{Cell, FlagKind, Latency};
use crate::statistics::{Sample, histogram};

/// The cells of one target at one place, by block.
#[derive(Debug, Default)]
pub(crate) struct Point<'a> {
    /// Measured or failed, at most one per block.
    pub(crate) cells: BTreeMap<u32, &'a Cell>,
}

impl<'a> Point<'a> {
    pub(super) fn new(cells: impl Iterator<Item = &'a Cell>) -> Self {
        Self {
            cells: cells.map(|cell| (cell.block, cell)).collect(),
        }
    }

    /// The values of the blocks, described.
    pub(crate) fn sample(&self, metric: Metric) -> Option<Sample> {
        let values: Vec<f64> = self
            .cells
            .values()
            .filter_map(|cell| metric.of(cell))
            .collect();
        Sample::of(&values)
    }

    /// What a chart shows. Percentiles come from the merged distribution of all blocks where each block has its own;
    /// otherwise, and for everything else, it is the mean.
    pub(crate) fn center(&self, metric: Metric) -> Option<f64> {
        let merged = match metric {
            Metric::P50 => self.quantile(0.50),
            Metric::P99 => self.quantile(0.99),
            _ => None,
        };
        merged.or_else(|| self.sample(metric).map(|sample| sample.mean))
    }

    /// Of the merged distribution, in microseconds; `None` unless every measured block has one.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let measured = self.cells.values().filter_map(|cell| cell.outcome.as_ref());
        let parts: Option<Vec<&[(u64, u64)]>> = measured
            .map(|outcome| outcome.latency.as_ref()?.histogram.as_deref())
            .collect();
        let merged = histogram::merge(parts?);
        // Microseconds stay below 2^52.
        #[expect(clippy::cast_precision_loss, reason = "see above")]
        histogram::quantile(&merged, share).map(|bound| bound as f64)
    }

    /// In microseconds: of the merged distribution, or the mean of the blocks' where one block has none.
    pub(crate) fn percentile(&self, share: f64) -> Option<f64> {
        let of_block = |latency: &Latency| match share {
            0.5 => latency.p50,
            0.9 => latency.p90,
            0.99 => latency.p99,
            _ => latency.p999,
        };
        self.quantile(share).or_else(|| self.mean_of(of_block))
    }

    /// Mean of the blocks' mean latencies in microseconds.
    pub(crate) fn mean_latency(&self) -> Option<f64> {
        self.mean_of(|latency| latency.mean)
    }

    fn mean_of(&self, read: impl Fn(&Latency) -> f64) -> Option<f64> {
        let latency = |cell: &&Cell| Some(read(cell.outcome.as_ref()?.latency.as_ref()?));
        let values: Vec<f64> = self.cells.values().filter_map(latency).collect();
        crate::statistics::mean(&values)
    }

    /// Values of this and another point from the same blocks.
    pub(crate) fn pairs(&self, base: &Self, metric: Metric) -> Vec<(f64, f64)> {
        let pair = |(block, cell): (&u32, &&Cell)| {
            Some((metric.of(cell)?, metric.of(base.cells.get(block)?)?))
        };
        self.cells.iter().filter_map(pair).collect()
    }

    /// How many cells have an outcome.
    pub(crate) fn measured(&self) -> usize {
        self.cells
            .values()
            .filter(|cell| cell.outcome.is_some())
            .count()
    }

    /// What speaks against it, each kind with the number of blocks and an example.
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

    /// Why it could not be run, where no block could.
    pub(crate) fn failure(&self) -> Option<&'a str> {
        if self.measured() > 0 {
            return None;
        }
        self.cells.values().find_map(|cell| cell.failed.as_deref())
    }
}
