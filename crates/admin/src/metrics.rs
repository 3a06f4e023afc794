//! The page `/metrics`. One table of metrics produces the page and its reference ([`metrics_markdown`]); the dashboard
//! ([`grafana_board_json`]) and the alert rules ([`alert_rules_yaml`]) name metrics of the table only, and all of them.
//!
//! `prometheus-client` writes the text. It holds no figures: the workers count, and a page is made from one
//! [`Snapshot`]. The library writes OpenMetrics, where the name of a counter's family lacks `_total`. Older readers
//! of the text format 0.0.4 do not understand that, so families have the names of their samples here, which both
//! formats accept.

mod alerts;
mod board;
mod figures;
mod promql;
mod reference;
mod table;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;
use weir_proxy::monitor::{Checked, Pages};
use weir_stats::{Counters, Histogram, PoolRow, Snapshot, Times};

use self::figures::{Figures, Named};
use crate::check;
use crate::digests::Known;

pub use self::alerts::alert_rules_yaml;
pub use self::board::grafana_board_json;
pub use self::reference::metrics_markdown;

/// Exponents of the buckets' bounds: powers of two in microseconds, from 128 us to 67 s.
const EXPONENTS: std::ops::RangeInclusive<u32> = 7..=26;
/// Labels of a pool's metrics.
const OF_POOL: &[&str] = &["database", "user"];

/// Creates the page. `version` is Weir's own, such as `0.1.0`.
pub fn metrics(version: &str) -> impl Pages + use<> {
    Exposition {
        version: version.to_owned(),
        named: Mutex::default(),
        digests: Known::default(),
    }
}

struct Exposition {
    version: String,
    /// Pools with rows of their own.
    named: Mutex<Named>,
    /// Fingerprints that were computed before.
    digests: Known,
}

impl Pages for Exposition {
    fn checked(&self, checked: &Checked) -> String {
        check::json(checked)
    }

    fn metrics(&self, snapshot: Snapshot) -> String {
        let named = &mut self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let figures = Figures::new(snapshot, &self.version, named, &self.digests);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(figures));
        let mut page = String::new();
        // Writing to a String cannot fail.
        let _ = encode_registry(&mut page, &registry);
        page
    }
}

/// Type of a metric in Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }

    fn family(self) -> MetricType {
        match self {
            Self::Counter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
            Self::Histogram => MetricType::Histogram,
        }
    }
}

/// A metric.
struct Metric {
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    /// Sentence for the page and its reference.
    help: &'static str,
    source: Source,
}

/// Origin of a metric's samples.
enum Source {
    /// Counter of each pool.
    PoolCount(fn(&Counters) -> u64),
    /// Value of each pool.
    PoolValue(fn(&PoolRow) -> f64),
    /// Values of each pool by state.
    PoolStates(fn(&PoolRow) -> Vec<(&'static str, u64)>),
    /// Latencies of each pool.
    PoolTimes(fn(&Times) -> &Histogram),
    /// Any other samples.
    Samples(fn(&Figures, &mut Out<'_, '_>) -> fmt::Result),
}

/// Writer for the samples of one metric.
struct Out<'o, 'e> {
    encoder: &'o mut MetricEncoder<'e>,
    labels: &'static [&'static str],
}

impl Out<'_, '_> {
    /// Writes one sample; `values` are the values of the labels in the order of their names.
    fn value(&mut self, values: &[&str], value: f64) -> fmt::Result {
        debug_assert_eq!(self.labels.len(), values.len(), "a value for each label");
        if values.is_empty() {
            return self.encoder.encode_gauge(&value);
        }
        let labels = zip(self.labels, values);
        self.encoder.encode_family(&labels)?.encode_gauge(&value)
    }

    /// Writes one sample that is a whole number.
    fn count(&mut self, values: &[&str], value: u64) -> fmt::Result {
        debug_assert_eq!(self.labels.len(), values.len(), "a value for each label");
        if values.is_empty() {
            return self.encoder.encode_gauge(&value);
        }
        let labels = zip(self.labels, values);
        self.encoder.encode_family(&labels)?.encode_gauge(&value)
    }

    fn histogram(&mut self, values: &[&str], times: &Histogram) -> fmt::Result {
        let mut buckets = Vec::new();
        let mut before = 0;
        for exponent in EXPONENTS {
            let below = times.below(exponent);
            // Times were truncated to whole microseconds, so all values counted below a bound are at most the bound.
            let bound = seconds(1 << exponent);
            buckets.push((bound, below - before));
            before = below;
        }
        let count = times.count();
        buckets.push((f64::INFINITY, count - before));
        let exemplars = None::<&HashMap<usize, Exemplar<NoLabelSet, f64>>>;
        let labels = zip(self.labels, values);
        let mut family = self.encoder.encode_family(&labels)?;
        family.encode_histogram(seconds(times.sum_us()), count, &buckets, exemplars)
    }
}

fn zip<'a>(names: &'a [&'a str], values: &'a [&'a str]) -> Vec<(&'a str, &'a str)> {
    names.iter().copied().zip(values.iter().copied()).collect()
}

/// Microseconds converted to seconds, Prometheus' unit.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact for the first 285 years, and near enough then"
)]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in table::metrics() {
            let (name, help) = (metric.name, metric.help);
            let kind = metric.kind.family();
            let mut encoder = encoder.encode_descriptor(name, help, None, kind)?;
            let mut out = Out {
                encoder: &mut encoder,
                labels: metric.labels,
            };
            metric.source.write(self, &mut out)?;
        }
        Ok(())
    }
}

impl Source {
    fn write(&self, figures: &Figures, out: &mut Out<'_, '_>) -> fmt::Result {
        if let Self::Samples(write) = self {
            return write(figures, out);
        }
        for ((database, user), row) in &figures.pools {
            let labels = [database.as_str(), user.as_str()];
            match self {
                Self::PoolCount(count) => out.count(&labels, count(&row.totals))?,
                Self::PoolValue(value) => out.value(&labels, value(row))?,
                Self::PoolStates(states) => {
                    for (state, count) in states(row) {
                        let [database, user] = labels;
                        out.count(&[database, user, state], count)?;
                    }
                }
                Self::PoolTimes(times) => {
                    let nothing = Times::default();
                    out.histogram(&labels, times(row.times.as_deref().unwrap_or(&nothing)))?;
                }
                Self::Samples(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
