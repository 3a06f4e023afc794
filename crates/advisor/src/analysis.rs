//! Recommends a number of connections from measurements, with the reason, the price and the confidence.
//!
//! [`waits`] profiles the wait events of sessions. A [`Sweep`] holds throughput and latency at several numbers of
//! connections; [`Analysis::of`] applies every criterion to it, each with its figure, and gives one [`Answer`].
//! [`round_trips`] computes the cost of a chatty client. Nothing here measures, and nothing extrapolates.

pub mod criteria;
pub mod round_trips;
pub mod usl;
pub mod waits;

mod answer;
mod sweep;

pub use answer::{Answer, Confidence, Recommendation, Refusal};
pub use sweep::{Kind, LittleCheck, Point, Sweep, SweepError};

use crate::controller::Goal;
use criteria::Criterion;
use usl::Banded;

/// The database host, as far as criteria need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Cores that PostgreSQL may use.
    pub cores: u32,
    /// Disks that seek; none for flash.
    pub spindles: u32,
}

/// Results of one sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// Every criterion with its figure, in the order of a report.
    pub criteria: Vec<Criterion>,
    /// The Universal Scalability Law with its bands, if the points allow a fit.
    pub usl: Option<Banded>,
    /// Elasticity of throughput between neighbouring points: from, to, value.
    pub elasticities: Vec<(u32, u32, f64)>,
    /// Little's law at each point; a measurement is wrong where the law does not hold.
    pub little: Vec<LittleCheck>,
    /// The answer, or the reason for which there is none.
    pub answer: Answer,
}

impl Analysis {
    /// Applies every criterion to `sweep`. The seed determines the bootstrap, so that a report can be repeated.
    pub fn of(sweep: &Sweep, machine: Machine, goal: Goal, seed: u64) -> Self {
        let usl = usl::Fit::of(sweep).ok().map(|fit| fit.banded(sweep, seed));
        let criteria = criteria::all(sweep, machine, usl.as_ref());
        let elasticities = sweep.elasticities();
        let answer = answer::answer(sweep, &criteria, usl.as_ref(), goal);
        Self {
            criteria,
            usl,
            elasticities,
            little: sweep.little(),
            answer,
        }
    }
}

/// Returns the number of servers that a load needs, by Little's law: arrivals per second times the seconds that each
/// holds a server.
pub fn servers_needed(arrivals_per_s: f64, hold_s: f64) -> f64 {
    arrivals_per_s * hold_s
}

/// Describes by how much a load exceeds the database's capacity; `None` if it does not.
pub fn shortage(needed: f64, knee: u32) -> Option<String> {
    (needed > f64::from(knee)).then(|| {
        format!(
            "the load needs {needed:.0} servers and the database does no more work beyond {knee}: \
             shorten transactions, or add replicas or cores"
        )
    })
}

#[cfg(test)]
mod tests;
