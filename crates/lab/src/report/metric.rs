//! Metrics that can be derived from a cell.

use super::format::Style;
use crate::record::{Cell, Measure};

/// Metric of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Metric {
    /// Payload per second.
    Bandwidth,
    /// CPU time of the pooler per megabyte of payload.
    CpuPerMegabyte,
    /// CPU time of the pooler per transaction.
    CpuPerTransaction,
    /// 99th percentile of the delay behind the intended start.
    LagP99,
    /// Logins per second.
    Logins,
    /// Resident memory of the pooler.
    Memory,
    /// Resident memory of the pooler over clients.
    MemoryPerClient,
    /// Share of the transactions that replicas have run.
    OnReplicas,
    /// Median latency.
    P50,
    /// 99th percentile of the latency.
    P99,
    /// Transactions per second.
    Tps,
}

impl Metric {
    /// Returns the main metric of an experiment.
    pub(crate) fn main(measure: Measure) -> Self {
        match measure {
            Measure::Bandwidth => Self::Bandwidth,
            Measure::Latency => Self::P99,
            Measure::Logins => Self::Logins,
            Measure::Memory => Self::MemoryPerClient,
            Measure::Throughput => Self::Tps,
        }
    }

    /// Returns all metrics by which an experiment is judged, the main one first. The others show
    /// its cost.
    pub(crate) fn judged(measure: Measure) -> Vec<Self> {
        match measure {
            Measure::Bandwidth => vec![Self::Bandwidth, Self::CpuPerMegabyte],
            Measure::Latency => vec![Self::P99, Self::P50, Self::CpuPerTransaction],
            Measure::Logins => vec![Self::Logins, Self::P99, Self::CpuPerTransaction],
            Measure::Memory => vec![Self::MemoryPerClient],
            Measure::Throughput => vec![Self::Tps, Self::P99, Self::CpuPerTransaction],
        }
    }

    /// Returns the metrics that the charts of an experiment show, if they were measured.
    pub(crate) fn charted(measure: Measure) -> Vec<Self> {
        match measure {
            Measure::Bandwidth => vec![Self::Bandwidth, Self::CpuPerMegabyte, Self::Memory],
            Measure::Latency => vec![Self::P50, Self::P99, Self::CpuPerTransaction, Self::Memory],
            Measure::Memory => vec![Self::MemoryPerClient, Self::Memory],
            Measure::Logins | Measure::Throughput => {
                let first = Self::main(measure);
                vec![
                    first,
                    Self::P50,
                    Self::P99,
                    Self::CpuPerTransaction,
                    Self::Memory,
                ]
            }
        }
    }

    /// Returns the value for a cell, if it was measured and is finite.
    pub(crate) fn of(self, cell: &Cell) -> Option<f64> {
        let outcome = cell.outcome.as_ref()?;
        let latency = outcome.latency.as_ref();
        let cpu = cell.costs.pooler.map(|usage| usage.cpu_us);
        let memory = cell
            .costs
            .pooler
            .and_then(|usage| usage.rss_bytes)
            .map(float);
        let value = match self {
            Self::Bandwidth => outcome.bytes_per_s?,
            Self::CpuPerMegabyte => cpu? / (outcome.bytes_per_s? * outcome.seconds / 1e6),
            Self::CpuPerTransaction => cpu? / float(outcome.transactions),
            Self::LagP99 => outcome.lag_us_p99?,
            Self::Logins | Self::Tps => outcome.tps,
            Self::Memory => memory?,
            Self::MemoryPerClient => memory? / cell.factors.get("clients")?.parse::<f64>().ok()?,
            Self::OnReplicas => cell.on_replicas?,
            Self::P50 => latency?.p50,
            Self::P99 => latency?.p99,
        };
        value.is_finite().then_some(value)
    }

    /// True if more is better.
    pub(crate) fn more_is_better(self) -> bool {
        matches!(
            self,
            Self::Bandwidth | Self::Logins | Self::OnReplicas | Self::Tps
        )
    }

    /// Returns the title for the head of a table.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Bandwidth => "Bandwidth",
            Self::CpuPerMegabyte => "Pooler CPU per MB",
            Self::CpuPerTransaction => "Pooler CPU per transaction",
            Self::LagP99 => "Late start p99",
            Self::Logins => "Logins per second",
            Self::Memory => "Pooler memory",
            Self::MemoryPerClient => "Pooler memory per client",
            Self::OnReplicas => "Transactions on replicas",
            Self::P50 => "Latency p50",
            Self::P99 => "Latency p99",
            Self::Tps => "Throughput",
        }
    }

    /// Returns the name for a sentence.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Bandwidth => "bandwidth",
            Self::CpuPerMegabyte => "CPU per MB",
            Self::CpuPerTransaction => "CPU per transaction",
            Self::LagP99 => "late start p99",
            Self::Logins => "logins per second",
            Self::Memory => "memory",
            Self::MemoryPerClient => "memory per client",
            Self::OnReplicas => "transactions on replicas",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Tps => "throughput",
        }
    }

    /// Returns the format of its values.
    pub(crate) fn style(self) -> Style {
        match self {
            Self::Bandwidth => Style::BytesPerSecond,
            Self::CpuPerMegabyte
            | Self::CpuPerTransaction
            | Self::LagP99
            | Self::P50
            | Self::P99 => Style::Micros,
            Self::Logins | Self::Tps => Style::Rate,
            Self::Memory | Self::MemoryPerClient => Style::Bytes,
            Self::OnReplicas => Style::Percent,
        }
    }

    /// Returns the unit of a chart whose largest value is `max`: its size and its name.
    pub(crate) fn unit(self, max: f64) -> (f64, &'static str) {
        let steps: &[(f64, &'static str)] = match self.style() {
            Style::Bytes => &[
                (1_073_741_824.0, "GiB"),
                (1_048_576.0, "MiB"),
                (1024.0, "KiB"),
                (1.0, "B"),
            ],
            Style::BytesPerSecond => &[(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")],
            Style::Percent => &[(0.01, "%")],
            Style::Micros => &[(1e6, "s"), (1e3, "ms"), (1.0, "µs")],
            _ => &[(10_000.0, "thousand/s"), (1.0, "per second")],
        };
        let found = steps.iter().find(|(size, _)| max >= *size);
        match found.or_else(|| steps.last()) {
            Some((10_000.0, name)) => (1000.0, name),
            Some(unit) => *unit,
            None => (1.0, ""),
        }
    }
}

/// Converts a count. Bytes and transactions stay below 2^52.
#[expect(clippy::cast_precision_loss, reason = "see above")]
fn float(count: u64) -> f64 {
    count as f64
}
