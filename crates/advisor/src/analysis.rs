//! From measurements to an answer: how many connections, why, at which price, and how sure that is.
//!
//! [`waits`] profiles what sessions wait for. A [`Sweep`] holds throughput and latency at several numbers of
//! connections; [`Analysis::of`] applies every criterion to it, each with its figure, and gives one
//! [`Answer`]. [`round_trips`] says what chattiness costs. Nothing here measures, and nothing extrapolates.

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

/// The database host, as far as criteria ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Cores that PostgreSQL may use.
    pub cores: u32,
    /// Disks that seek; none for flash.
    pub spindles: u32,
}

/// Everything that one sweep says.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// Every criterion with its figure, in the order of a report.
    pub criteria: Vec<Criterion>,
    /// The Universal Scalability Law with its bands, if the points allow a fit.
    pub usl: Option<Banded>,
    /// Elasticity of throughput between neighbouring points: from, to, value.
    pub elasticities: Vec<(u32, u32, f64)>,
    /// Little's law at each point: where it does not hold, a measurement is wrong.
    pub little: Vec<LittleCheck>,
    /// The answer, or why there is none.
    pub answer: Answer,
}

impl Analysis {
    /// Applies every criterion to `sweep`. The seed decides the bootstrap, so that a report can be had again.
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

/// Servers that a load needs, by Little's law: arrivals per second times the seconds that each holds one.
pub fn servers_needed(arrivals_per_s: f64, hold_s: f64) -> f64 {
    arrivals_per_s * hold_s
}

/// What a load needs beside what the database has, in words; nothing if it is enough.
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
