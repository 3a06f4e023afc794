//! An exact limit shared by all workers. Atomics only; nothing here waits.

use std::sync::Arc;

use crate::atomic::AtomicBool;
use crate::atomic::AtomicUsize;
use crate::atomic::Ordering::SeqCst;

/// A limit (pool, database, user, clients, logins) and how much of it is used.
///
/// **Invariant:** a place is taken by compare-and-swap against the limit. `used` exceeds `max` only by the reserve, by
/// places taken whatever the limit, or after `max` was lowered; then no place is given until enough have come back.
#[derive(Debug)]
pub struct Quota {
    max: AtomicUsize,
    used: AtomicUsize,
    /// A shard was refused and wants to be told of the next release.
    starved: AtomicBool,
}

impl Quota {
    /// A limit of `max` places; 0 = unlimited.
    #[must_use]
    pub const fn new(max: usize) -> Self {
        let starved = AtomicBool::new(false);
        Self {
            max: AtomicUsize::new(max),
            used: AtomicUsize::new(0),
            starved,
        }
    }

    /// Takes one place for as long as the guard lives, or none if the limit is reached.
    #[must_use]
    pub fn try_enter(self: &Arc<Self>) -> Option<Entered> {
        self.try_take(0).then(|| Entered {
            quota: Arc::clone(self),
        })
    }

    /// Changes the limit (reload); 0 = unlimited. After raising it call `retry` on shards that wait.
    pub fn set_max(&self, max: usize) {
        self.max.store(max, SeqCst);
    }

    /// The limit; 0 = unlimited.
    #[must_use]
    pub fn max(&self) -> usize {
        self.max.load(SeqCst)
    }

    /// Places taken now.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(SeqCst)
    }

    /// Takes a place if fewer than `max + extra` are taken.
    pub(crate) fn try_take(&self, extra: usize) -> bool {
        let max = self.max();
        self.take_while(|used| max == 0 || used < max.saturating_add(extra))
    }

    /// Takes a place if fewer than `max` and fewer than `ceiling` are taken.
    pub(crate) fn try_take_below(&self, ceiling: usize) -> bool {
        let max = self.max();
        self.take_while(|used| used < ceiling && (max == 0 || used < max))
    }

    pub(crate) fn has_room(&self, extra: usize) -> bool {
        let max = self.max();
        max == 0 || self.used() < max.saturating_add(extra)
    }

    /// True if there is room, should this number of free places be kept for others.
    pub(crate) fn has_room_beside(&self, extra: usize, claimed: usize) -> bool {
        let max = self.max();
        max == 0 || self.used().saturating_add(claimed) < max.saturating_add(extra)
    }

    /// Asks for a wakeup at the next release. Look again afterwards: either the second look sees the released place, or
    /// the releaser sees the mark. Both use SeqCst, so one of the two holds.
    pub(crate) fn starve(&self) {
        self.starved.store(true, SeqCst);
    }

    /// Returns a place. True if a shard asked for a wakeup.
    #[must_use]
    pub(crate) fn give_back(&self) -> bool {
        self.give_back_silently();
        self.take_starved()
    }

    /// Clears the request for a wakeup. True if there was one.
    #[must_use]
    pub(crate) fn take_starved(&self) -> bool {
        self.starved.load(SeqCst) && self.starved.swap(false, SeqCst)
    }

    /// Takes a place whatever the limit, for an object that exists already.
    pub(crate) fn take_anyway(&self) {
        self.used.fetch_add(1, SeqCst);
    }

    /// Returns a place if more are taken than the limit allows; true if it did. Concurrent calls return the surplus
    /// exactly.
    pub(crate) fn give_back_surplus(&self) -> bool {
        let max = self.max();
        let fewer = |used: usize| (max != 0 && used > max).then(|| used - 1);
        self.used.fetch_update(SeqCst, SeqCst, fewer).is_ok()
    }

    /// Returns a place where no shard can be told. The mark stays, so that the next release wakes the waiters.
    pub(crate) fn give_back_silently(&self) {
        let before = self.used.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "a place is returned that was never taken");
    }

    fn take_while(&self, allowed: impl Fn(usize) -> bool) -> bool {
        self.used
            .fetch_update(SeqCst, SeqCst, |used| allowed(used).then(|| used + 1))
            .is_ok()
    }
}

/// A place in a [`Quota`], returned on drop. For limits without a queue (client limits).
#[derive(Debug)]
#[must_use]
pub struct Entered {
    quota: Arc<Quota>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.quota.give_back_silently();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_exact_and_a_lowered_one_lets_nobody_in_until_enough_have_left() {
        let quota = Arc::new(Quota::new(2));
        let guards = [quota.try_enter().unwrap(), quota.try_enter().unwrap()];
        assert!(quota.try_enter().is_none());
        quota.set_max(1);
        let [first, second] = guards;
        drop(first);
        assert!(quota.try_enter().is_none());
        drop(second);
        assert!(quota.try_enter().is_some());
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn zero_is_unlimited_and_still_counted() {
        let quota = Arc::new(Quota::new(0));
        let guards: Vec<_> = (0..100).map(|_| quota.try_enter().unwrap()).collect();
        assert_eq!(quota.used(), guards.len());
    }

    #[test]
    fn who_was_refused_is_told_once_of_the_next_release() {
        let quota = Quota::new(1);
        assert!(quota.try_take(0) && !quota.try_take(0));
        quota.starve();
        assert!(quota.give_back());
        assert!(quota.try_take(0));
        assert!(!quota.give_back());
    }

    #[test]
    fn threads_never_get_more_than_the_limit() {
        const MAX: usize = 3;
        let quota = Arc::new(Quota::new(MAX));
        let inside = Arc::new(AtomicUsize::new(0));
        let worker = || {
            let (quota, inside) = (Arc::clone(&quota), Arc::clone(&inside));
            std::thread::spawn(move || {
                for _ in 0..20_000 {
                    let Some(place) = quota.try_enter() else {
                        continue;
                    };
                    assert!(inside.fetch_add(1, SeqCst) < MAX);
                    inside.fetch_sub(1, SeqCst);
                    drop(place);
                }
            })
        };
        let workers: Vec<_> = (0..4).map(|_| worker()).collect();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        assert_eq!(quota.used(), 0);
    }
}
