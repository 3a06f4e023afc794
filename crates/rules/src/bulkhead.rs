//! Bulkheads: at most so many statements of a rule run at once, on all workers together.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A client that waits for a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter {
    /// Number of the client's worker.
    pub worker: usize,
    /// Number of the client on that worker.
    pub client: u64,
}

/// The bulkhead of a rule is full, and so is its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// Answer of a bulkhead to a client.
#[derive(Debug)]
pub enum Entry {
    /// The statement may run.
    Permit(Permit),
    /// The client waits for its turn ([`Bulkhead::grant`]).
    Waits,
}

/// Figures of a bulkhead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Number of statements that run.
    pub running: u32,
    /// Number of clients that wait.
    pub waiting: u32,
    /// Number of statements that were refused because the queue was full, or that did not get their turn in time.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct State {
    max: u32,
    queue_max: u32,
    running: u32,
    waiters: VecDeque<Waiter>,
    refused: u64,
}

/// Limit on the statements of a rule that run at once, and the queue in front of it. Shared by all workers; only statements that
/// the rule meets touch its lock.
#[derive(Debug, Default)]
pub struct Bulkhead(Mutex<State>);

impl Bulkhead {
    /// Creates a bulkhead for `max` statements at once, with room for `queue_max` clients that wait.
    #[must_use]
    pub fn new(max: u32, queue_max: u32) -> Arc<Self> {
        let bulkhead = Self::default();
        bulkhead.resize(max, queue_max);
        Arc::new(bulkhead)
    }

    /// Changes the limits. Statements that run go on, and clients that wait keep their places.
    pub fn resize(&self, max: u32, queue_max: u32) {
        let mut state = self.state();
        (state.max, state.queue_max) = (max, queue_max);
    }

    /// Lets a statement run if there is room and nobody waits.
    #[must_use]
    pub fn try_enter(self: &Arc<Self>) -> Option<Permit> {
        let mut state = self.state();
        let is_free = state.running < state.max && state.waiters.is_empty();
        if !is_free {
            state.refused += 1;
            return None;
        }
        state.running += 1;
        Some(Permit(Arc::clone(self)))
    }

    /// Lets a statement run, or its client wait.
    ///
    /// # Errors
    /// The queue is full.
    pub fn enter(self: &Arc<Self>, waiter: Waiter) -> Result<Entry, Full> {
        let mut state = self.state();
        if state.running < state.max && state.waiters.is_empty() {
            state.running += 1;
            return Ok(Entry::Permit(Permit(Arc::clone(self))));
        }
        if state.waiters.len() >= state.queue_max as usize {
            state.refused += 1;
            return Err(Full);
        }
        state.waiters.push_back(waiter);
        Ok(Entry::Waits)
    }

    /// Returns the permit for the client that has waited longest, if there is room.
    #[must_use]
    pub fn grant(self: &Arc<Self>) -> Option<(Waiter, Permit)> {
        let mut state = self.state();
        if state.running >= state.max {
            return None;
        }
        let waiter = state.waiters.pop_front()?;
        state.running += 1;
        Some((waiter, Permit(Arc::clone(self))))
    }

    /// Ends the wait of a client. `is_refused` is true if the client is told so. False if the client does not wait: its permit
    /// may be on the way.
    pub fn leave(&self, waiter: Waiter, is_refused: bool) -> bool {
        let mut state = self.state();
        let place = state.waiters.iter().position(|other| *other == waiter);
        state.refused += u64::from(is_refused);
        place.is_some_and(|place| state.waiters.remove(place).is_some())
    }

    /// Returns the figures of the bulkhead.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        let state = self.state();
        Occupancy {
            running: state.running,
            waiting: u32::try_from(state.waiters.len()).unwrap_or(u32::MAX),
            refused: state.refused,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in this module panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permission of a statement to run. Given back when dropped; [`Bulkhead::grant`] then has room for the next client.
#[derive(Debug)]
pub struct Permit(Arc<Bulkhead>);

impl Permit {
    /// True if the permit is one of this bulkhead.
    #[must_use]
    pub fn is_of(&self, bulkhead: &Arc<Bulkhead>) -> bool {
        Arc::ptr_eq(&self.0, bulkhead)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.running = state.running.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(client: u64) -> Waiter {
        Waiter { worker: 0, client }
    }

    fn permit(bulkhead: &Arc<Bulkhead>, client: u64) -> Option<Permit> {
        match bulkhead.enter(waiter(client)) {
            Ok(Entry::Permit(permit)) => Some(permit),
            Ok(Entry::Waits) | Err(Full) => None,
        }
    }

    #[test]
    fn clients_wait_in_their_order_and_no_more_than_fit() {
        let bulkhead = Bulkhead::new(2, 2);
        let (first, second) = (permit(&bulkhead, 1), permit(&bulkhead, 2));
        assert!(first.is_some() && second.is_some());
        assert!(permit(&bulkhead, 3).is_none() && permit(&bulkhead, 4).is_none());
        assert_eq!(bulkhead.enter(waiter(5)).unwrap_err(), Full);
        let figures = bulkhead.occupancy();
        assert_eq!(
            (figures.running, figures.waiting, figures.refused),
            (2, 2, 1)
        );
        assert!(bulkhead.grant().is_none());
        drop(first);
        assert!(bulkhead.try_enter().is_none(), "others wait");
        let (next, third) = bulkhead.grant().unwrap();
        assert_eq!(next, waiter(3));
        assert!(bulkhead.leave(waiter(4), false) && !bulkhead.leave(waiter(4), false));
        drop((second, third));
        assert!(bulkhead.grant().is_none(), "nobody waits");
        assert!(bulkhead.try_enter().is_some());
        assert_eq!(bulkhead.occupancy().running, 0);
    }

    #[test]
    fn limits_may_change_while_statements_run() {
        let bulkhead = Bulkhead::new(1, 5);
        let first = permit(&bulkhead, 1);
        assert!(permit(&bulkhead, 2).is_none());
        bulkhead.resize(2, 5);
        let second = bulkhead.grant();
        assert!(second.is_some());
        bulkhead.resize(1, 5);
        drop(first);
        assert!(bulkhead.try_enter().is_none());
        drop(second);
        assert!(bulkhead.try_enter().is_some());
    }
}
