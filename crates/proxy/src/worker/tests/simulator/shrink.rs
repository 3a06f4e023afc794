//! Shrinks a failure: finds a smaller plan that fails as well, and tells its story.
//!
//! Clients go first, for each that stays multiplies the orders in which things can happen. Then operations, in ever smaller
//! pieces; then bytes: everything moves at once, connections have room, options and topics go.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use super::Simulation;
use super::plan::{Op, Plan, SETTLE, What};
use super::run::Tally;

/// What a failure may do without altogether.
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
/// Simulations that each way of shrinking may cost.
const ATTEMPTS: usize = 4000;
/// Operations that are few enough to leave out any two of them.
const PAIRS_MAX: usize = 48;
/// Room in which no connection fills.
const ROOMY: usize = 1 << 20;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a simulation; what went wrong.
pub(super) fn attempt(plan: &Plan) -> Result<Tally, String> {
    let (outcome, tally) = run(plan);
    outcome.map(|()| tally)
}

/// Runs a simulation; what went wrong, and the operations that were begun until then.
fn run(plan: &Plan) -> (Result<(), String>, Tally) {
    let mut simulation = match quietly(|| Simulation::new(plan)) {
        Ok(simulation) => simulation,
        Err(failure) => return (Err(failure), Tally::default()),
    };
    let outcome = quietly(|| simulation.run(&plan.ops));
    (outcome, simulation.tally)
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
    /// True if what comes behind a failure goes as soon as it is seen, and everybody moves where one of them moved.
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

    /// The shorter of two ways. The bold one is quick where orders matter, but may settle on a failure that takes more.
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

    /// Takes away in rounds, until a round changes nothing: what went last may be what something else was needed for.
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

    /// The operations that were begun, if the plan fails as it should.
    fn fails(&mut self, plan: &Plan) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let (outcome, tally) = run(plan);
        let fails = outcome.is_err_and(|other| kind(&other) == self.kind);
        fails.then(|| usize::try_from(tally.ops).expect("a list has this length"))
    }

    /// Keeps the change if the plan fails with it; what comes behind the failure may go at once.
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

    /// Keeps one client alone, two of them, or as few as possible.
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

    /// No operation of some kind, and no order of moves that matters, or only of moves of everybody.
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

    /// Leaves out ever smaller pieces, until none of one operation can go.
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

    /// Leaves a piece out, or puts less in its place; where the next one begins then.
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

    /// Leaves out two operations at a time of which one undoes the other.
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

/// Everybody moves where somebody moved, in the order of the first moves between two other things.
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
