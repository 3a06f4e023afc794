//! Derives one answer from many criteria, with its reason, its price and its doubts.

use std::fmt;

use crate::analysis::criteria::Criterion;
use crate::analysis::sweep::{LittleCheck, Point, Sweep};
use crate::analysis::usl::Banded;
use crate::controller::Goal;

/// Elasticity at the last step above which the knee is not in sight: growth of throughput in per cent per per cent of
/// connections.
const STILL_RISING: f64 = 0.5;
/// Share of the highest throughput below which the goal `balanced` never goes.
const BALANCED_MIN: f64 = 0.9;
/// Elasticity above which the curve is not yet flat.
const NOT_FLAT: f64 = 0.15;
const POINTS_MIN: usize = 3;
const POINTS_GOOD: usize = 5;
const REPETITIONS_GOOD: usize = 3;
/// Largest factor above the best latency that still counts as equally good.
const TAIL: f64 = 1.1;
const RESIDUAL_GOOD: f64 = 0.1;
const BAND_GOOD: f64 = 2.0;
const SPREAD_GOOD: f64 = 3.0;

/// Recommended number of connections.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Nothing can be recommended without guessing.
    Refused(Refusal),
    /// A number can be recommended.
    Recommended(Recommendation),
}

/// Reason for which there is no recommendation, and the measurement that is missing.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Refusal {
    /// Throughput still grew between the last two points.
    StillRising {
        /// The last two numbers of connections.
        between: (u32, u32),
        /// Growth in per cent of throughput per per cent of connections.
        elasticity: f64,
    },
    /// Fewer than three points, in which a knee cannot be seen.
    TooFew(usize),
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StillRising {
                between: (from, to),
                elasticity,
            } => write!(
                formatter,
                "throughput still rose from {from} to {to} connections, by {elasticity:.2} % for each per cent more of them: \
                 measure {} connections as well",
                to.saturating_mul(2)
            ),
            Self::TooFew(points) => write!(
                formatter,
                "{points} points show no knee: measure at five numbers of connections at least"
            ),
        }
    }
}

/// Reliability of a recommendation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Three doubts or more.
    Low,
    /// At most two doubts.
    Medium,
    /// No doubts.
    High,
}

impl Confidence {
    /// Word for reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// A recommended number of connections, which was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// Number of connections.
    pub connections: u32,
    /// Reason, one sentence without a full stop.
    pub reason: String,
    /// Cost compared with the highest throughput, one sentence without a full stop.
    pub price: String,
    /// Reliability of the recommendation.
    pub confidence: Confidence,
    /// Doubts about it, each one sentence without a full stop.
    pub doubts: Vec<String>,
}

pub(super) fn answer(
    sweep: &Sweep,
    criteria: &[Criterion],
    usl: Option<&Banded>,
    goal: Goal,
) -> Answer {
    let points = sweep.points();
    if points.len() < POINTS_MIN {
        return Answer::Refused(Refusal::TooFew(points.len()));
    }
    let last = sweep.elasticities().last().copied();
    if let Some((from, to, elasticity)) = last
        && elasticity > STILL_RISING
    {
        return Answer::Refused(Refusal::StillRising {
            between: (from, to),
            elasticity,
        });
    }
    let Some((point, reason)) = choose(sweep, criteria, goal) else {
        return Answer::Refused(Refusal::TooFew(points.len()));
    };
    let doubts = doubts(sweep, criteria, usl, point);
    Answer::Recommended(Recommendation {
        connections: point.connections,
        reason,
        price: price(sweep, point),
        confidence: match doubts.len() {
            0 => Confidence::High,
            1 | 2 => Confidence::Medium,
            _ => Confidence::Low,
        },
        doubts,
    })
}

fn choose<'a>(sweep: &'a Sweep, criteria: &[Criterion], goal: Goal) -> Option<(&'a Point, String)> {
    let measured = || {
        criteria
            .iter()
            .filter(|criterion| criterion.kind.is_measured())
    };
    let mut figures: Vec<f64> = measured()
        .filter_map(|criterion| criterion.connections)
        .collect();
    figures.sort_by(f64::total_cmp);
    match goal {
        Goal::Throughput => {
            let point = fewest(sweep, 0.98, f64::INFINITY)?;
            Some((
                point,
                "the fewest connections with 98 % of the highest throughput".to_owned(),
            ))
        }
        Goal::Latency => {
            let lowest = *figures.first()?;
            let point = nearest(sweep, lowest)?;
            Some((
                point,
                format!("the measured number nearest to the lowest criterion, {lowest:.1}"),
            ))
        }
        Goal::Balanced => {
            let best = sweep
                .points()
                .iter()
                .map(|point| point.p99_s)
                .try_fold(f64::INFINITY, |best, p99| Some(best.min(p99?)));
            if let Some(point) = best.and_then(|best| fewest(sweep, 0.95, best * TAIL)) {
                let reason = "the fewest connections with 95 % of the highest throughput and a 99th percentile within 10 % of the best";
                return Some((point, reason.to_owned()));
            }
            let (point, reason) = middle(sweep, &figures)?;
            if point.tps >= BALANCED_MIN * sweep.tps_max() {
                return Some((point, reason));
            }
            let enough = fewest(sweep, BALANCED_MIN, f64::INFINITY)?;
            let reason = format!(
                "the fewest connections with {:.0} % of the highest throughput; the middle of the criteria, {}, has {:.0} %",
                100.0 * BALANCED_MIN,
                point.connections,
                100.0 * point.tps / sweep.tps_max()
            );
            Some((enough, reason))
        }
    }
}

/// Picks the point nearest to the median of the criteria, and moves on from there while more connections still pay. A
/// median of rules is no reason to leave half of the throughput unused.
fn middle<'a>(sweep: &'a Sweep, figures: &[f64]) -> Option<(&'a Point, String)> {
    let middle = *figures.get(figures.len() / 2)?;
    let (low, high) = (figures.first()?, figures.last()?);
    let begin = nearest(sweep, middle)?;
    let count = figures.len();
    let reason = format!(
        "the measured number nearest to the middle of {count} criteria, which say {low:.1} to {high:.1}"
    );
    let steps = sweep.elasticities();
    let steps = steps
        .iter()
        .skip_while(|(from, ..)| *from < begin.connections);
    let reached = steps
        .take_while(|(.., elasticity)| *elasticity > NOT_FLAT)
        .last();
    let Some((_, reached, _)) = reached else {
        return Some((begin, reason));
    };
    let mut points = sweep.points().iter();
    let point = points.find(|point| point.connections == *reached)?;
    let reason = format!(
        "{count} criteria say {low:.1} to {high:.1}; {} is nearest to their middle, but throughput still rose by more than \
         {NOT_FLAT} % per cent of connections up to {reached}",
        begin.connections
    );
    Some((point, reason))
}

fn fewest(sweep: &Sweep, part: f64, p99_s: f64) -> Option<&Point> {
    let least = part * sweep.tps_max();
    sweep
        .points()
        .iter()
        .find(|point| point.tps >= least && point.p99_s.unwrap_or(0.0) <= p99_s)
}

/// Returns the point nearest by ratio: 8 is as far from 16 as 32 is.
fn nearest(sweep: &Sweep, connections: f64) -> Option<&Point> {
    let distance = |point: &Point| (f64::from(point.connections) / connections).ln().abs();
    sweep
        .points()
        .iter()
        .min_by(|one, other| distance(one).total_cmp(&distance(other)))
}

fn price(sweep: &Sweep, point: &Point) -> String {
    let best = sweep
        .points()
        .iter()
        .max_by(|one, other| one.tps.total_cmp(&other.tps))
        .unwrap_or(point);
    if best.connections == point.connections {
        return "none: this is the highest throughput that was measured".to_owned();
    }
    let part = |of: f64, whole: f64| 100.0 * of / whole;
    let mut price = format!(
        "{:.0} % of the throughput of {} connections at {:.0} % of its latency",
        part(point.tps, best.tps),
        best.connections,
        part(point.latency_s, best.latency_s),
    );
    if let (Some(p99), Some(best)) = (point.p99_s, best.p99_s) {
        price += &format!(" and {:.0} % of its 99th percentile", part(p99, best));
    }
    price
}

fn doubts(
    sweep: &Sweep,
    criteria: &[Criterion],
    usl: Option<&Banded>,
    point: &Point,
) -> Vec<String> {
    let mut doubts = Vec::new();
    let points = sweep.points();
    if points.len() < POINTS_GOOD {
        doubts.push(format!("there are only {} points", points.len()));
    }
    if points
        .iter()
        .any(|point| point.repetitions.len() < REPETITIONS_GOOD)
    {
        doubts.push(format!(
            "not every point was measured {REPETITIONS_GOOD} times"
        ));
    }
    for check in sweep
        .little()
        .iter()
        .filter(|check| check.off() > LittleCheck::OFF_MAX)
    {
        doubts.push(format!(
            "at {} connections throughput times latency is {:.1}, which is not the {:.0} clients there were",
            check.connections, check.reckoned, check.clients
        ));
    }
    match usl {
        None => doubts.push("the scalability law does not fit these points".to_owned()),
        Some(usl) if usl.fit.residual_max > RESIDUAL_GOOD => doubts.push(format!(
            "a point is {:.0} % off the scalability law",
            100.0 * usl.fit.residual_max
        )),
        Some(usl) => {
            if let Some(band) = usl
                .near_peak
                .filter(|band| band.high > BAND_GOOD * band.low)
            {
                doubts.push(format!(
                    "the scalability law leaves anything from {:.0} to {:.0} open",
                    band.low, band.high
                ));
            }
        }
    }
    doubts.extend(disagreement(criteria));
    let last = sweep
        .elasticities()
        .last()
        .map_or(0.0, |(.., elasticity)| *elasticity);
    if point.connections == sweep.connections_max() && last > NOT_FLAT {
        doubts.push("it is the most that was measured, and throughput was not yet flat".to_owned());
    }
    doubts
}

fn disagreement(criteria: &[Criterion]) -> Option<String> {
    let figures = || {
        criteria
            .iter()
            .filter(|criterion| criterion.kind.is_measured())
            .filter_map(|criterion| criterion.connections)
    };
    let (low, high) = (figures().reduce(f64::min)?, figures().reduce(f64::max)?);
    (high > SPREAD_GOOD * low).then(|| format!("the criteria disagree: {low:.1} to {high:.1}"))
}
