//! Shrinks a failure: finds a smaller plan that fails as well, and tells its story.
//!
//! Clients go first, for each that stays multiplies the orders in which things can happen. Then operations, in ever smaller
//! pieces; then bytes: everything moves at once, connections have room, options and topics go.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use super::Simulation;
use super::plan::{Op, Plan, What};
use super::run::Tally;

/// What a failure may do without altogether.
const LUXURIES: [What; 12] = [
    What::AskCancel,
    What::Cancel,
    What::Deafen,
    What::Decree,
    What::Fault,
    What::Hit,
    What::Leap,
    What::Order,
    What::Pass,
    What::Reload,
    What::Shortage,
    What::Vanish,
];
/// Simulations that shrinking may cost.
const ATTEMPTS: usize = 3000;
/// Room in which no connection fills.
const ROOMY: usize = 1 << 20;

const SETTLE: Op = Op {
    what: What::Settle,
    who: 0,
    seed: 0,
};

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a simulation; what went wrong.
pub(super) fn attempt(plan: &Plan) -> Result<Tally, String> {
    quietly(|| {
        let mut simulation = Simulation::new(plan);
        simulation.run(&plan.ops);
        simulation.tally
    })
}

/// What a panic says; it is not printed.
fn quietly<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if !QUIET.get() {
                before(info);
            }
        }));
    });
    QUIET.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(run));
    QUIET.set(false);
    outcome.map_err(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic
            .downcast_ref::<&str>()
            .map_or_else(|| "a panic".to_owned(), |text| (*text).to_owned()),
    })
}

/// The failure with as little as it takes, and how it came.
pub(super) fn explain(plan: &Plan, failure: &str) -> String {
    let least = Shrinker::new(failure).shrunk(plan);
    let mut simulation = Simulation::new(&least);
    simulation.story = Some(Vec::new());
    let last = quietly(|| simulation.run(&least.ops)).err();
    let last = last.unwrap_or_else(|| failure.to_owned());
    let story = simulation.story.unwrap_or_default().join("\n  ");
    let servers = simulation.world.servers.iter();
    let asked = servers.map(|server| format!("server {}: {:?}", server.pid, server.asked));
    format!(
        "{last}\n\nseed {seed}, to be had again with `cargo xtask sim --seeds {seed}`\n{} of {} operations:\n  {story}\nstill there:\n  {}\nfor found.rs:\n{}",
        least.ops.len(),
        plan.ops.len(),
        asked.collect::<Vec<_>>().join("\n  "),
        least.source(),
        seed = plan.seed,
    )
}

/// Takes away from a plan whatever it can fail without.
struct Shrinker {
    kind: String,
    /// Simulations that may still be run.
    left: usize,
}

impl Shrinker {
    fn new(failure: &str) -> Self {
        Self {
            kind: kind(failure).to_owned(),
            left: ATTEMPTS,
        }
    }

    fn shrunk(&mut self, plan: &Plan) -> Plan {
        let mut least = plan.clone();
        self.clients(&mut least);
        self.kinds(&mut least);
        self.operations(&mut least);
        self.bytes(&mut least);
        self.operations(&mut least);
        least
    }

    fn fails(&mut self, plan: &Plan) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0 && attempt(plan).is_err_and(|other| kind(&other) == self.kind)
    }

    /// Keeps the change if the plan fails with it.
    fn keep_if(&mut self, least: &mut Plan, change: impl FnOnce(&mut Plan)) -> bool {
        let mut smaller = least.clone();
        change(&mut smaller);
        let fails = self.fails(&smaller);
        if fails {
            *least = smaller;
        }
        fails
    }

    /// Keeps one client alone, two of them, or as few as possible.
    fn clients(&mut self, least: &mut Plan) {
        let many = least.people.len();
        let alone = (0..many).map(|one| vec![one]);
        let pairs = (0..many).flat_map(|one| (0..one).map(move |other| vec![one, other]));
        for few in alone.chain(pairs) {
            if self.keep_if(least, |plan| keep_people(plan, |who| few.contains(&who))) {
                return;
            }
        }
        for gone in 0..many {
            self.keep_if(least, |plan| keep_people(plan, |who| who != gone));
        }
    }

    /// No operation of some kind, and no order of moves that matters.
    fn kinds(&mut self, least: &mut Plan) {
        for luxury in LUXURIES {
            self.keep_if(least, |plan| plan.ops.retain(|op| op.what != luxury));
        }
        self.keep_if(least, |plan| plan.ops = settled(&plan.ops));
    }

    /// Leaves out ever smaller pieces, until none of one operation can go.
    fn operations(&mut self, least: &mut Plan) {
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
                    at += size;
                }
            }
            if size > 1 || !went || self.left == 0 {
                size /= 2;
            }
        }
    }

    fn bytes(&mut self, least: &mut Plan) {
        self.keep_if(least, |plan| plan.room = ROOMY);
        self.keep_if(least, |plan| plan.lanes = 1);
        self.keep_if(least, |plan| plan.places = 1);
        for at in 0..least.people.len() {
            self.keep_if(least, |plan| plan.people[at].large = 0);
            for topic in least.people[at].topics.clone() {
                self.keep_if(least, |plan| {
                    plan.people[at].topics.retain(|known| *known != topic);
                });
            }
        }
        for option in least.options.clone() {
            self.keep_if(least, |plan| plan.options.retain(|known| *known != option));
        }
        while let Some(last) = least.people.len().checked_sub(1) {
            let is_silent = |op: &Op| !op.what.is_personal() || op.who < last;
            if last == 0 || !least.ops.iter().all(is_silent) {
                break;
            }
            least.people.pop();
        }
        for at in 0..least.ops.len() {
            if least.ops[at].what.is_done_by_settling() {
                self.keep_if(least, |plan| plan.ops[at] = SETTLE);
            }
        }
    }
}

/// Leaves out everything that the other clients do.
fn keep_people(plan: &mut Plan, stays: impl Fn(usize) -> bool) {
    plan.ops
        .retain(|op| !op.what.is_personal() || stays(op.who));
}

/// Everything that can happen happens after each thing that somebody does.
fn settled(ops: &[Op]) -> Vec<Op> {
    let done = ops.iter().filter(|op| !op.what.is_done_by_settling());
    done.flat_map(|op| [*op, SETTLE]).collect()
}

/// The name of the invariant, or the beginning of what else it says.
fn kind(failure: &str) -> &str {
    let at = ["I-", "COR-"]
        .iter()
        .filter_map(|name| failure.find(name))
        .min();
    let told = at.map_or(failure, |at| &failure[at..]);
    let name = told.split(':').next().unwrap_or_default();
    name.get(..40).unwrap_or(name)
}

mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_without_being_printed() {
        let failed: Result<(), _> = quietly(|| panic!("I-01: so"));
        assert_eq!(failed, Err("I-01: so".to_owned()));
        assert_eq!(quietly(|| ()), Ok(()));
        assert_eq!(kind("I-01: so"), "I-01");
        assert_eq!(kind("assertion `left == right` failed: I-08: so"), "I-08");
        assert_eq!(kind("index out of bounds: so"), "index out of bounds");
    }
}
