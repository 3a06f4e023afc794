//! Connections of a mirror's lanes: as long as the other database has not answered, one lane tries, and the others wait for what
//! it finds. A database that does not answer costs one attempt, however many lanes there are.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::global::lock;

/// Time after which the next lane tries too: a statement may be slow where the database is well.
const PATIENCE: Duration = Duration::from_secs(1);

/// Knowledge of the other database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// There was no answer, or none the last time.
    #[default]
    Closed,
    /// A lane begins, which will try it.
    Called,
    /// A lane tries it: so many attempts before.
    Tried(u64),
    /// The last attempt was answered.
    Open,
    /// The mirror has ended.
    Ended,
}

/// Door that the lanes of a mirror pass before they connect.
#[derive(Debug, Default)]
pub(super) struct Door {
    state: Mutex<State>,
    changed: Condvar,
}

impl Door {
    /// True if a lane's thread has to begin: the database answers, or it is the first lane that tries it.
    pub(super) fn calls(&self) -> bool {
        let mut state = lock(&self.state);
        let calls = *state == State::Closed;
        if calls {
            *state = State::Called;
        }
        calls || *state == State::Open
    }

    /// Waits while another lane tries. Returns `None` if this lane must not connect; `is_quiet` tells if nobody may try now.
    pub(super) fn enter(&self, is_quiet: impl Fn() -> bool) -> Option<Pass<'_>> {
        let mut state = lock(&self.state);
        loop {
            match *state {
                State::Open => return Some(Pass { tried: None }),
                State::Ended => return None,
                State::Closed | State::Called if is_quiet() => {
                    *state = State::Closed;
                    return None;
                }
                State::Closed | State::Called => return Some(self.begin(&mut state, 0)),
                State::Tried(before) => {
                    let wait = self.changed.wait_timeout(state, PATIENCE);
                    let (now, timeout) = wait.unwrap_or_else(PoisonError::into_inner);
                    state = now;
                    if timeout.timed_out() && *state == State::Tried(before) {
                        return Some(self.begin(&mut state, before.wrapping_add(1)));
                    }
                }
            }
        }
    }

    fn begin(&self, state: &mut State, before: u64) -> Pass<'_> {
        *state = State::Tried(before);
        Pass {
            tried: Some((self, before)),
        }
    }

    /// Notes if the other database has answered. Returns true if that is news.
    pub(super) fn answered(&self, has_answered: bool) -> bool {
        let to = match has_answered {
            true => State::Open,
            false => State::Closed,
        };
        self.turn(to, |_| true)
    }

    /// Ends all waits, for good.
    pub(super) fn end(&self) {
        self.turn(State::Ended, |_| true);
    }

    fn turn(&self, to: State, from: impl Fn(State) -> bool) -> bool {
        let mut state = lock(&self.state);
        let turns = *state != State::Ended && *state != to && from(*state);
        if turns {
            *state = to;
            self.changed.notify_all();
        }
        turns
    }
}

/// Leave to connect. A lane that has it and tries nothing leaves it to the next.
#[derive(Debug)]
pub(super) struct Pass<'d> {
    tried: Option<(&'d Door, u64)>,
}

impl Pass<'_> {
    /// Ends the pass of a lane that tells the door itself: [`Door::answered`].
    pub(super) fn end(mut self) {
        self.tried = None;
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if let Some((door, before)) = self.tried {
            door.turn(State::Closed, |state| state == State::Tried(before));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn one_lane_tries_and_the_others_wait_for_what_it_finds() {
        let (door, quiet) = (Door::default(), AtomicBool::new(false));
        let enters = || door.enter(|| quiet.load(Ordering::SeqCst)).is_some();
        std::thread::scope(|scope| {
            for has_answered in [false, true] {
                quiet.store(false, Ordering::SeqCst);
                let scout = door.enter(|| false);
                assert!(scout.is_some());
                quiet.store(true, Ordering::SeqCst);
                let others = [(); 3].map(|()| scope.spawn(enters));
                assert!(others.iter().all(|other| !other.is_finished()));
                door.answered(has_answered);
                for other in others {
                    assert_eq!(other.join().ok(), Some(has_answered));
                }
            }
        });
        assert!(enters());
        door.answered(false);
        assert!(!enters());
    }

    #[test]
    fn one_lane_begins_before_there_is_an_answer() {
        let door = Door::default();
        assert_eq!([door.calls(), door.calls()], [true, false]);
        let pass = door.enter(|| false);
        assert!(!door.calls());
        drop(pass);
        assert!(door.calls());
        assert!(door.enter(|| true).is_none());
        assert!(door.calls());
        assert!(door.answered(true) && !door.answered(true));
        assert_eq!([door.calls(), door.calls()], [true, true]);
    }

    #[test]
    fn a_slow_answer_does_not_hold_the_other_lanes() {
        let door = Door::default();
        let first = door.enter(|| false);
        let second = door.enter(|| false);
        assert!(first.is_some() && second.is_some());
        drop(first);
        assert_eq!(*lock(&door.state), State::Tried(1));
        drop(second);
        assert_eq!(*lock(&door.state), State::Closed);
    }

    #[test]
    fn the_end_of_an_attempt_does_not_end_the_next_one() {
        let door = Door::default();
        let first = door.enter(|| false);
        if let Some(first) = first {
            first.end();
        }
        assert_eq!(*lock(&door.state), State::Tried(0));
        door.answered(false);
        let second = door.enter(|| false);
        assert!(second.is_some());
        assert_eq!(*lock(&door.state), State::Tried(0));
    }

    #[test]
    fn a_lane_that_tries_nothing_leaves_it_to_the_next() {
        let door = Door::default();
        drop(door.enter(|| false));
        std::thread::scope(|scope| {
            let first = door.enter(|| false);
            let waiting = scope.spawn(|| door.enter(|| false).is_some());
            drop(first);
            assert_eq!(waiting.join().ok(), Some(true));
        });
    }

    #[test]
    fn the_end_of_a_mirror_ends_the_waits() {
        let door = Door::default();
        std::thread::scope(|scope| {
            let first = door.enter(|| false);
            let waiting = scope.spawn(|| door.enter(|| false).is_some());
            door.end();
            assert_eq!(waiting.join().ok(), Some(false));
            drop(first);
        });
        door.answered(true);
        assert!(door.enter(|| false).is_none());
    }
}
