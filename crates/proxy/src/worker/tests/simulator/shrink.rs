//! Shrinks a failure: finds a smaller plan that fails as well, and prints its story.
//!
//! Clients are left out first, since each remaining client multiplies the orders of events. Operations follow, in ever
//! smaller pieces. Then bytes: everything moves at once, connections have room, and options and topics are left out.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use super::Simulation;
use super::plan::{Op, Plan, SETTLE, What};
use super::run::Tally;

/// Kinds of operations that a failure may not need at all.
const LUXURIES: [What; 15] = [
    What::AskCancel,
    What::Cancel,
    What::Change,
    What::Deafen,
    What::Decree,
    What::Fault,
    What::Hit,
    What::Leap,
    What::Order,
    What::Pass,
    What::Reload,
    What::Shortage,
    What::Type,
    What::Upgrade,
    What::Vanish,
];
/// Maximum number of simulations for each way of shrinking.
const ATTEMPTS: usize = 4000;
/// Number of operations up to which every pair is tried.
const PAIRS_MAX: usize = 48;
/// Capacity at which no connection fills, in bytes.
const ROOMY: usize = 1 << 20;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a simulation. Fails with the text of what went wrong.
pub(super) fn attempt(plan: &Plan) -> Result<Tally, String> {
    let (outcome, tally) = run(plan);
    outcome.map(|()| tally)
}

/// Runs a simulation. Returns its outcome, and counts of the operations that were begun.
fn run(plan: &Plan) -> (Result<(), String>, Tally) {
    let mut simulation = match quietly(|| Simulation::new(plan)) {
        Ok(simulation) => simulation,
        Err(failure) => return (Err(failure), Tally::default()),
    };
    let outcome = quietly(|| simulation.run(&plan.ops));
    (outcome, simulation.tally)
}

/// Runs a function without printing panics. A panic becomes an error with its text.
pub(super) fn quietly<T>(run: impl FnOnce() -> T) -> Result<T, String> {
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

/// Shrinks a failing plan. Returns the failure, the story of the shrunk plan, and its source.
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

/// Shrinker: removes from a plan everything that the failure does not need.
struct Shrinker {
    kind: String,
    /// Number of simulations that may still be run.
    left: usize,
    /// True if operations after the failure are dropped as soon as it is seen, and moves of one client become moves of
    /// all.
    is_bold: bool,
}

impl Shrinker {
    fn new(failure: &str) -> Self {
        Self {
            kind: kind(failure).to_owned(),
            left: ATTEMPTS,
            is_bold: true,
        }
    }

    /// Returns the shorter result of two ways. The bold way is quick where orders matter, but may end with a failure
    /// that needs more.
    fn shrunk(&mut self, plan: &Plan) -> Plan {
        let ways = [true, false].map(|is_bold| {
            self.is_bold = is_bold;
            self.left = ATTEMPTS;
            self.in_rounds(plan)
        });
        let [first, second] = ways;
        if second.ops.len() < first.ops.len() {
            second
        } else {
            first
        }
    }

    /// Shrinks in rounds until a round changes nothing: an early part may be needed only for a part that is removed
    /// later.
    fn in_rounds(&mut self, plan: &Plan) -> Plan {
        let mut least = plan.clone();
        if let Some(begun) = self.fails(&least).filter(|_| self.is_bold) {
            least.ops.truncate(begun);
        }
        loop {
            let before = least.clone();
            self.clients(&mut least);
            self.kinds(&mut least);
            self.operations(&mut least);
            self.bytes(&mut least);
            if least.ops.len() <= PAIRS_MAX {
                self.pairs(&mut least);
            }
            if least == before || self.left == 0 {
                break;
            }
        }
        let begun = self.fails(&least).unwrap_or(least.ops.len());
        least.ops.truncate(begun);
        least
    }

    /// Returns the number of operations begun, if the plan fails in the same way.
    fn fails(&mut self, plan: &Plan) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let (outcome, tally) = run(plan);
        let fails = outcome.is_err_and(|other| kind(&other) == self.kind);
        fails.then(|| usize::try_from(tally.ops).expect("a list has this length"))
    }

    /// Keeps a change if the plan still fails with it. Operations after the failure may be dropped at once.
    fn keep_if(&mut self, least: &mut Plan, change: impl FnOnce(&mut Plan)) -> bool {
        let mut smaller = least.clone();
        change(&mut smaller);
        if smaller == *least {
            return false;
        }
        let Some(begun) = self.fails(&smaller) else {
            return false;
        };
        if self.is_bold {
            smaller.ops.truncate(begun);
        }
        *least = smaller;
        true
    }

    /// Keeps a single client, two of them, or as few as possible.
    fn clients(&mut self, least: &mut Plan) {
        let many = least.people.len();
        let says = |who: &usize| {
            let mut ops = least.ops.iter();
            ops.any(|op| op.what.is_personal() && op.who == *who)
        };
        let there: Vec<_> = (0..many).filter(says).collect();
        let alone = there.iter().map(|one| vec![*one]);
        let pairs = there.iter().enumerate();
        let pairs = pairs.flat_map(|(at, one)| there[..at].iter().map(|other| vec![*one, *other]));
        let fewer = alone.chain(pairs).filter(|few| few.len() < there.len());
        for few in fewer.collect::<Vec<_>>() {
            if self.keep_if(least, |plan| keep_people(plan, |who| few.contains(&who))) {
                return;
            }
        }
        for gone in there {
            self.keep_if(least, |plan| keep_people(plan, |who| who != gone));
        }
    }

    /// Removes kinds of operations, and makes the order of moves irrelevant, or moves all at once.
    fn kinds(&mut self, least: &mut Plan) {
        for luxury in LUXURIES {
            self.keep_if(least, |plan| plan.ops.retain(|op| op.what != luxury));
        }
        let moves = |plan: &Plan| plan.ops.iter().any(|op| op.what.is_done_by_settling());
        let settles = moves(least) && self.keep_if(least, |plan| plan.ops = settled(&plan.ops));
        if self.is_bold && moves(least) && !settles {
            self.keep_if(least, |plan| plan.ops = at_once(&plan.ops));
        }
    }

    /// Leaves out ever smaller pieces, until no single operation can be left out.
    fn operations(&mut self, least: &mut Plan) {
        let mut size = least.ops.len().div_ceil(2);
        while size > 0 {
            let mut went = false;
            let mut at = 0;
            while at < least.ops.len() {
                let end = (at + size).min(least.ops.len());
                let fewer = self.fewer(least, at, end);
                went |= fewer.is_some();
                at = fewer.unwrap_or(end);
            }
            if size > 1 || !went || self.left == 0 {
                size /= 2;
            }
        }
    }

    /// Leaves a piece out, or replaces it by less. Returns the start of the next piece.
    fn fewer(&mut self, least: &mut Plan, at: usize, end: usize) -> Option<usize> {
        if self.keep_if(least, |plan| drop(plan.ops.drain(at..end))) {
            return Some(at);
        }
        let piece = least.ops.get(at..end)?;
        if piece.len() == 1 {
            return None;
        }
        let mut less = vec![vec![SETTLE]];
        less.extend(self.is_bold.then(|| at_once(piece)));
        for instead in less {
            let len = instead.len();
            let is_less = len < end - at;
            if is_less && self.keep_if(least, |plan| drop(plan.ops.splice(at..end, instead))) {
                return Some(at + len);
            }
        }
        None
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

    fn bytes(&mut self, least: &mut Plan) {
        self.keep_if(least, |plan| plan.room = ROOMY);
        self.keep_if(least, |plan| plan.workers = 1);
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
        let mut at = 0;
        while at < least.ops.len() {
            let op = least.ops[at];
            if let Some(what) = op.what.at_once() {
                let settles = self.keep_if(least, |plan| plan.ops[at] = SETTLE);
                let moves = Op { what, ..SETTLE };
                let _ = settles || self.keep_if(least, |plan| plan.ops[at] = moves);
            }
            at += 1;
        }
    }
}

/// Leaves out all operations of the other clients.
fn keep_people(plan: &mut Plan, stays: impl Fn(usize) -> bool) {
    plan.ops
        .retain(|op| !op.what.is_personal() || stays(op.who));
}

/// Lets everything happen that can happen after each operation of a client or fault.
fn settled(ops: &[Op]) -> Vec<Op> {
    let done = ops.iter().filter(|op| !op.what.is_done_by_settling());
    done.flat_map(|op| [*op, SETTLE]).collect()
}

/// Replaces moves of one by moves of all, in the order of the first moves between two other operations.
fn at_once(ops: &[Op]) -> Vec<Op> {
    let mut fewer: Vec<Op> = Vec::new();
    let mut since = 0;
    for op in ops {
        let Some(what) = op.what.at_once() else {
            fewer.push(*op);
            since = fewer.len();
            continue;
        };
        if !fewer[since..].iter().any(|before| before.what == what) {
            fewer.push(Op { what, ..SETTLE });
        }
    }
    fewer
}

/// Returns the name of the violated invariant, or the beginning of another failure.
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
