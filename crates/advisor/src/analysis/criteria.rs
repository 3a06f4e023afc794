//! Rules for the number of connections. No single rule is right; a report shows them all.

use crate::analysis::Machine;
use crate::analysis::sweep::{Point, Sweep};
use crate::analysis::usl::Banded;

/// Elasticity of the fit at which [`CriterionKind::Elasticity`] stops.
pub const ELASTICITY: f64 = 0.15;

/// Name of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CriterionKind {
    /// Highest throughput times lowest hold time: the transactions that the database can process at once.
    BandwidthDelay,
    /// The last number at which the fitted curve still grows by 0.15 % per cent of connections.
    Elasticity,
    /// Twice the cores plus spindles, the usual rule of thumb. Shown for comparison only.
    Heuristic,
    /// The point farthest above the straight line between the first and the last.
    Kneedle,
    /// The point with the most throughput per hold time.
    Power,
    /// The fewest connections with 95 % of the height of the fitted curve.
    Scalability,
}

/// A rule and its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Criterion {
    /// The rule.
    pub kind: CriterionKind,
    /// Number of connections; `None` if the rule cannot tell without extrapolating.
    pub connections: Option<f64>,
    /// Share of the best throughput at that number, 0 to 1; interpolated between measured points.
    pub part_of_best: Option<f64>,
}

impl CriterionKind {
    /// Name for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BandwidthDelay => "bandwidth-delay knee",
            Self::Elasticity => "elasticity",
            Self::Heuristic => "rule of thumb",
            Self::Kneedle => "Kneedle",
            Self::Power => "power",
            Self::Scalability => "scalability law",
        }
    }

    /// Formula for reports.
    pub const fn formula(self) -> &'static str {
        match self {
            Self::BandwidthDelay => "highest throughput x lowest hold time",
            Self::Elasticity => {
                "last N at which 1 % more connections bring 0.15 % more throughput (fit)"
            }
            Self::Heuristic => "2 x cores + spindles",
            Self::Kneedle => "measured point farthest above the line from first to last",
            Self::Power => "measured point with the most throughput / hold time",
            Self::Scalability => "fewest N with 95 % of the fitted maximum",
        }
    }

    /// True if the rule uses measurements.
    pub const fn is_measured(self) -> bool {
        !matches!(self, Self::Heuristic)
    }
}

pub(super) fn all(sweep: &Sweep, machine: Machine, usl: Option<&Banded>) -> Vec<Criterion> {
    use CriterionKind as Is;
    let fit = usl.map(|usl| usl.fit);
    let heuristic = f64::from(2 * machine.cores + machine.spindles);
    [
        (Is::Heuristic, Some(heuristic)),
        (Is::BandwidthDelay, bandwidth_delay(sweep)),
        (Is::Power, power(sweep)),
        (Is::Kneedle, kneedle(sweep)),
        (Is::Scalability, fit.and_then(|fit| fit.part_of_peak(0.95))),
        (
            Is::Elasticity,
            fit.and_then(|fit| fit.last_elastic(ELASTICITY)),
        ),
    ]
    .into_iter()
    .map(|(kind, connections)| Criterion {
        kind,
        connections,
        part_of_best: connections
            .and_then(|connections| Some(tps_at(sweep, connections)? / sweep.tps_max())),
    })
    .collect()
}

/// X_max · R_min: number of connections that keep the database busy if no transaction ever waited.
pub fn bandwidth_delay(sweep: &Sweep) -> Option<f64> {
    let shortest = sweep
        .points()
        .iter()
        .map(|point| sweep.hold_s(point))
        .reduce(f64::min)?;
    Some(sweep.tps_max() * shortest)
}

/// The point at which throughput over hold time is highest (Kleinrock's power).
pub fn power(sweep: &Sweep) -> Option<f64> {
    best(sweep, |point| point.tps / sweep.hold_s(point))
}

/// The point farthest above the straight line between the first and the last, both axes scaled to 1.
pub fn kneedle(sweep: &Sweep) -> Option<f64> {
    let (first, last) = (sweep.points().first()?, sweep.points().last()?);
    let width = f64::from(last.connections) - f64::from(first.connections);
    let height = last.tps - first.tps;
    if height <= 0.0 {
        return None;
    }
    best(sweep, |point| {
        (point.tps - first.tps) / height
            - (f64::from(point.connections) - f64::from(first.connections)) / width
    })
}

fn best(sweep: &Sweep, value: impl Fn(&Point) -> f64) -> Option<f64> {
    sweep
        .points()
        .iter()
        .max_by(|one, other| value(one).total_cmp(&value(other)))
        .map(|point| f64::from(point.connections))
}

/// Throughput at `connections`, interpolated between the neighbouring points; `None` beyond the ends.
pub fn tps_at(sweep: &Sweep, connections: f64) -> Option<f64> {
    let points = sweep.points();
    points
        .iter()
        .zip(points.iter().skip(1))
        .find_map(|(from, to)| {
            let (low, high) = (f64::from(from.connections), f64::from(to.connections));
            let part = (connections - low) / (high - low);
            (0.0..=1.0)
                .contains(&part)
                .then_some(from.tps + part * (to.tps - from.tps))
        })
}
