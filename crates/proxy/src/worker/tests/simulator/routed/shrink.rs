//! Shrinks a failing plan with several hosts, and prints its story. The order of [`super::super::shrink`] in short:
//! clients, kinds of operations, operations in ever smaller pieces, the configuration.

use super::super::run::Tally;
use super::super::shrink::quietly;
use super::Simulation;
use super::plan::{Op, Plan, SETTLE, What};

/// Maximum number of simulations for a failure.
const ATTEMPTS: usize = 3000;
/// Number of operations up to which every pair is tried.
const PAIRS_MAX: usize = 40;
/// Kinds of operations that a failure may not need at all.
const LUXURIES: [What; 13] = [
    What::CatchUp,
    What::Crash,
    What::Kill,
    What::Leap,
    What::Lose,
    What::Pause,
    What::Promote,
    What::Receiver,
    What::Start,
    What::Vanish,
    What::Replicate,
    What::Pass,
    What::Settle,
];

/// Runs a simulation. Fails with the text of what went wrong.
pub(super) fn attempt(plan: &Plan) -> Result<Tally, String> {
    let (outcome, tally) = run(plan);
    outcome.map(|()| tally)
}

fn run(plan: &Plan) -> (Result<(), String>, Tally) {
    let mut simulation = match quietly(|| Simulation::new(plan)) {
        Ok(simulation) => simulation,
        Err(failure) => return (Err(failure), Tally::default()),
    };
    let outcome = quietly(|| simulation.run(&plan.ops));
    (outcome, simulation.tally)
}

/// Shrinks a failing plan. Returns the failure, the story of the shrunk plan, and its source.
pub(super) fn explain(plan: &Plan, failure: &str) -> String {
    let mut shrinker = Shrinker {
        kind: kind(failure),
        left: ATTEMPTS,
    };
    let least = shrinker.shrunk(plan);
    let mut simulation = Simulation::new(&least);
    simulation.story = Some(Vec::new());
    let last = quietly(|| simulation.run(&least.ops)).err();
    let last = last.unwrap_or_else(|| failure.to_owned());
    let story = simulation.story.take().unwrap_or_default().join("\n  ");
    format!(
        "{last}\n\nseed {}, to be had again with `cargo xtask sim --hosts --seeds {}`\n{} of {} operations, {:?}:\n  \
         {story}\nclients heard:\n  {}\nplan:\n{}",
        plan.seed,
        plan.seed,
        least.ops.len(),
        plan.ops.len(),
        least.lines(),
        heard(&mut simulation),
        least.source(),
    )
}

/// Returns an outline of the last messages of each client.
fn heard(simulation: &mut Simulation) -> String {
    let callers = simulation.world.callers.iter_mut();
    let lines = callers.map(|caller| {
        caller.hear_again();
        let line = caller.heard();
        let greeting = line.find("Z(").unwrap_or_default();
        line[greeting..].to_owned()
    });
    lines.collect::<Vec<_>>().join("\n  ")
}

struct Shrinker {
    kind: String,
    /// Number of simulations that may still be run.
    left: usize,
}

impl Shrinker {
    fn shrunk(&mut self, plan: &Plan) -> Plan {
        let mut least = plan.clone();
        if let Some(begun) = self.fails(&least) {
            least.ops.truncate(begun);
        }
        loop {
            let before = least.clone();
            self.clients(&mut least);
            self.kinds(&mut least);
            self.pieces(&mut least);
            self.configuration(&mut least);
            if least.ops.len() <= PAIRS_MAX {
                self.pairs(&mut least);
            }
            if least == before || self.left == 0 {
                return least;
            }
        }
    }

    /// Returns the number of operations begun, if the plan fails in the same way.
    fn fails(&mut self, plan: &Plan) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let (outcome, tally) = run(plan);
        let fails = outcome.is_err_and(|other| kind(&other) == self.kind);
        fails.then(|| usize::try_from(tally.ops).expect("a list has this length"))
    }

    /// Keeps a change if the plan still fails with it.
    fn keep_if(&mut self, least: &mut Plan, change: impl FnOnce(&mut Plan)) -> bool {
        let mut smaller = least.clone();
        change(&mut smaller);
        if smaller == *least {
            return false;
        }
        let Some(begun) = self.fails(&smaller) else {
            return false;
        };
        smaller.ops.truncate(begun);
        *least = smaller;
        true
    }

    fn clients(&mut self, least: &mut Plan) {
        for gone in 0..least.people {
            let is_gone = |op: &Op| op.what.is_personal() && op.who == gone;
            self.keep_if(least, |plan| plan.ops.retain(|op| !is_gone(op)));
        }
    }

    /// Removes kinds of operations, or lets everything happen after each operation that remains.
    fn kinds(&mut self, least: &mut Plan) {
        for luxury in LUXURIES {
            self.keep_if(least, |plan| plan.ops.retain(|op| op.what != luxury));
        }
        self.keep_if(least, |plan| {
            let others = plan.ops.iter().filter(|op| !op.what.is_done_by_settling());
            plan.ops = others.flat_map(|op| [*op, SETTLE]).collect();
        });
    }

    /// Leaves out ever smaller pieces, or lets everything happen instead.
    fn pieces(&mut self, least: &mut Plan) {
        let mut size = least.ops.len().div_ceil(2);
        while size > 0 {
            let mut went = false;
            let mut at = 0;
            while at < least.ops.len() {
                let end = (at + size).min(least.ops.len());
                if self.keep_if(least, |plan| drop(plan.ops.drain(at..end))) {
                    went = true;
                } else if size > 1
                    && self.keep_if(least, |plan| drop(plan.ops.splice(at..end, [SETTLE])))
                {
                    went = true;
                    at += 1;
                } else {
                    at = end;
                }
            }
            if size > 1 || !went || self.left == 0 {
                size /= 2;
            }
        }
    }

    fn configuration(&mut self, least: &mut Plan) {
        self.keep_if(least, |plan| plan.workers = 1);
        for hosts in 2..least.hosts {
            self.keep_if(least, |plan| plan.hosts = hosts);
        }
        for option in least.options.clone() {
            self.keep_if(least, |plan| plan.options.retain(|known| *known != option));
        }
    }

    /// Leaves out pairs of operations of which one undoes the other.
    fn pairs(&mut self, least: &mut Plan) {
        let mut at = 0;
        while at < least.ops.len() {
            let goes = (at + 1..least.ops.len()).any(|other| {
                self.keep_if(least, |plan| {
                    plan.ops.remove(other);
                    plan.ops.remove(at);
                })
            });
            at += usize::from(!goes);
        }
    }
}

/// Returns the name of the violated invariant, or the beginning of another failure.
fn kind(failure: &str) -> String {
    let at = ["I-", "R-0"].iter().filter_map(|name| failure.find(name));
    let told = at.min().map_or(failure, |at| &failure[at..]);
    let name = told.split(':').next().unwrap_or_default();
    name.chars().take(40).collect()
}
