//! What to do about a failure: find fewer operations that fail as well, and tell their story.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use super::Simulation;
use super::plan::{Op, Plan, What};

/// What a failure may do without altogether.
const LUXURIES: [What; 7] = [
    What::AskCancel,
    What::Cancel,
    What::Deafen,
    What::Fault,
    What::Leap,
    What::Pass,
    What::Vanish,
];
/// Simulations that shrinking may cost.
const ATTEMPTS: usize = 60;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a simulation; what went wrong.
pub(super) fn attempt(plan: &Plan, ops: &[Op]) -> Result<(), String> {
    quietly(|| Simulation::new(plan).run(ops))
}

/// What a panic says; it is not printed.
fn quietly(run: impl FnOnce()) -> Result<(), String> {
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
    let ops = shrunk(plan, failure);
    let mut simulation = Simulation::new(plan);
    simulation.story = Some(Vec::new());
    let last = quietly(|| simulation.run(&ops)).err().unwrap_or_default();
    let story = simulation.story.unwrap_or_default().join("\n  ");
    let servers = simulation.world.servers.iter();
    let asked = servers.map(|server| format!("server {}: {:?}", server.pid, server.asked));
    format!(
        "{last}\n\nWEIR_SIM_SEED={}: {}\n{} of {} operations:\n  {story}\nstill there:\n  {}",
        plan.seed,
        plan.summary(),
        ops.len(),
        plan.ops.len(),
        asked.collect::<Vec<_>>().join("\n  ")
    )
}

/// Leaves operations out as long as the same kind of failure stays.
fn shrunk(plan: &Plan, failure: &str) -> Vec<Op> {
    let mut left = ATTEMPTS;
    let mut fails = |ops: &[Op]| {
        left = left.saturating_sub(1);
        left > 0 && attempt(plan, ops).is_err_and(|other| kind(&other) == kind(failure))
    };
    let mut ops = plan.ops.clone();
    for what in LUXURIES {
        let fewer: Vec<_> = ops.iter().filter(|op| op.what != what).copied().collect();
        if fails(&fewer) {
            ops = fewer;
        }
    }
    for who in 0..plan.people.len() {
        let without = |op: &&Op| op.who != who || !is_personal(op.what);
        let fewer: Vec<_> = ops.iter().filter(without).copied().collect();
        if fewer.len() < ops.len() && fails(&fewer) {
            ops = fewer;
        }
    }
    let settled = settled(&ops);
    if fails(&settled) {
        ops = settled;
    }
    let mut size = ops.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < ops.len() {
            let end = (at + size).min(ops.len());
            let mut fewer = ops.clone();
            fewer.drain(at..end);
            if fails(&fewer) {
                ops = fewer;
                continue;
            }
            fewer.insert(at, SETTLE);
            if size > 1 && fails(&fewer) {
                ops = fewer;
            }
            at += size;
        }
        size /= 2;
    }
    ops
}

const SETTLE: Op = Op {
    what: What::Settle,
    who: 0,
    seed: 0,
};

/// Everything that can happen happens after each thing that somebody does.
fn settled(ops: &[Op]) -> Vec<Op> {
    let moves = [What::Client, What::Server, What::Turn];
    let done = ops.iter().filter(|op| !moves.contains(&op.what));
    done.flat_map(|op| [*op, SETTLE]).collect()
}

fn is_personal(what: What) -> bool {
    matches!(
        what,
        What::Act | What::AskCancel | What::Deafen | What::Vanish
    )
}

/// The name of the invariant, or the beginning of what else it says.
fn kind(failure: &str) -> &str {
    let name = failure.split(':').next().unwrap_or_default();
    name.get(..40).unwrap_or(name)
}

mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_without_being_printed() {
        assert_eq!(quietly(|| panic!("I-01: so")), Err("I-01: so".to_owned()));
        assert_eq!(quietly(|| ()), Ok(()));
        assert_eq!(kind("I-01: so"), "I-01");
    }
}
