//! State that the null backend's threads share with its owner.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Orders to all threads, and the counters of each.
#[derive(Debug, Default)]
pub(super) struct Control {
    stop: AtomicBool,
    /// Copy of `paused` that can be read without the lock.
    is_paused: AtomicBool,
    paused: Mutex<bool>,
    resumed: Condvar,
    gauges: Vec<Gauges>,
    nothing: Gauges,
}

/// Counters of one thread, updated once per turn of its loop.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    pub(super) connected: AtomicU64,
    pub(super) logins: AtomicU64,
    pub(super) statements: AtomicU64,
    pub(super) transactions: AtomicU64,
    pub(super) copied_in: AtomicU64,
}

impl Control {
    pub(super) fn new(threads: usize) -> Self {
        Self {
            gauges: (0..threads).map(|_| Gauges::default()).collect(),
            ..Self::default()
        }
    }

    pub(super) fn gauges(&self, thread: usize) -> &Gauges {
        self.gauges.get(thread).unwrap_or(&self.nothing)
    }

    /// Returns the sum of a counter over all threads.
    pub(super) fn sum(&self, of: impl Fn(&Gauges) -> &AtomicU64) -> u64 {
        let counts = self
            .gauges
            .iter()
            .map(|one| of(one).load(Ordering::Relaxed));
        counts.sum()
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.pause(false);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(super) fn pause(&self, is_paused: bool) {
        *self.paused.lock().unwrap_or_else(PoisonError::into_inner) = is_paused;
        self.is_paused.store(is_paused, Ordering::Release);
        self.resumed.notify_all();
    }

    /// Waits until there is no pause.
    pub(super) fn pass(&self) {
        if !self.is_paused.load(Ordering::Acquire) {
            return;
        }
        let mut paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        while *paused {
            let woken = self.resumed.wait(paused);
            paused = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}
