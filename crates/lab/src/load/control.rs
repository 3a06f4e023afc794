//! State that worker threads and the thread that waits for them share.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::load::tally::Window;

/// Orders to all worker threads. The caller wakes them after a change.
#[derive(Debug, Default)]
pub(super) struct Control {
    window: OnceLock<Window>,
    stop: AtomicBool,
}

impl Control {
    /// Allows transactions to begin.
    pub(super) fn start(&self, window: Window) {
        // The window is set only once.
        let _ = self.window.set(window);
    }

    pub(super) fn window(&self) -> Option<Window> {
        self.window.get().copied()
    }

    /// Orders all threads to end at once.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// Progress of one thread, updated once per turn of its loop.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    connected: AtomicU32,
    transactions: AtomicU64,
    errors: AtomicU64,
}

impl Gauges {
    pub(super) fn set(&self, connected: u32, transactions: u64, errors: u64) {
        self.connected.store(connected, Ordering::Relaxed);
        self.transactions.store(transactions, Ordering::Relaxed);
        self.errors.store(errors, Ordering::Relaxed);
    }

    /// Returns connections, transactions and failures.
    pub(super) fn read(&self) -> (u32, u64, u64) {
        (
            self.connected.load(Ordering::Relaxed),
            self.transactions.load(Ordering::Relaxed),
            self.errors.load(Ordering::Relaxed),
        )
    }
}
