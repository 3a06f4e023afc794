//! Tests of the stall valve: a pool in which every server waits for a client in the queue goes on within a second.

use std::time::Duration;

use weir_advisor::controller::{Cause, Controller, Mode, Observation, Settings};

/// Requests that take one server, hold it, and need a second one to go on: half a millisecond with both.
struct Nested {
    limit: u32,
    /// Requests that hold a first server and wait for a second.
    holding: u32,
    /// Requests that wait for their first server.
    fresh: u32,
    /// Requests that wait for their second server.
    second: u32,
    seen: Observation,
    /// True if the observation includes sampled lock waits.
    is_sampled: bool,
    /// Number of holding requests that wait for a lock of another one instead of for a server.
    locked: u32,
}

impl Nested {
    /// A pool full of requests that all wait for their second server.
    fn wedged(limit: u32, locked: u32, is_sampled: bool) -> Self {
        Self {
            limit,
            holding: limit,
            fresh: 50,
            second: limit - locked,
            seen: Observation {
                has_turn: true,
                ..Observation::default()
            },
            is_sampled,
            locked,
        }
    }

    /// Advances by one tick; returns the number of requests completed in it.
    fn tick(&mut self, controller: &mut Controller) -> u32 {
        let mut done = 0;
        // Each server above those held serves the second halves one after the other.
        let free = self.limit.saturating_sub(self.holding);
        for _ in 0..free * 100 {
            if self.second > 0 {
                self.second -= 1;
                done += 1;
                self.holding -= 1;
                if self.locked > 0 {
                    // Its locks are free: a request that waited for them asks for its second server.
                    self.locked -= 1;
                    self.second += 1;
                }
                self.seen.totals.record(0, Duration::from_micros(500));
            }
        }
        self.seen.now += Duration::from_millis(50);
        self.seen.in_use = self.holding;
        self.seen.waiting = self.second + self.fresh;
        self.seen.idle_in_transaction = self.holding - self.locked;
        self.seen.lock_waits = self.is_sampled.then_some(self.locked);
        self.seen.totals.in_use_s += 0.05 * f64::from(self.holding);
        self.seen.totals.waiting_s += 0.05 * f64::from(self.seen.waiting);
        self.limit = controller.tick(&self.seen).limit;
        done
    }

    /// Milliseconds until the first request is completed; `None` if none is within five seconds.
    fn progress_ms(&mut self, controller: &mut Controller) -> Option<u32> {
        (1..=100)
            .find(|_| self.tick(controller) > 0)
            .map(|ticks| ticks * 50)
    }
}

fn check(limit: u32, locked: u32, is_sampled: bool) -> Controller {
    let settings = Settings {
        size: limit,
        ..Settings::default()
    };
    let mut controller = Controller::new(settings, 1);
    let mut pool = Nested::wedged(limit, locked, is_sampled);
    let progress = pool.progress_ms(&mut controller);
    assert!(
        progress.is_some_and(|ms| ms <= 1000),
        "{progress:?} of {limit}, {locked} locked"
    );
    controller
}

#[test]
fn a_pool_full_of_transactions_that_wait_for_the_queue_goes_on_within_a_second() {
    for limit in [1, 2, 4, 20, 100] {
        let controller = check(limit, 0, false);
        let entry = controller
            .journal()
            .iter()
            .find(|entry| entry.cause == Cause::Stall)
            .unwrap();
        assert!(
            entry.to > entry.from && entry.reason.starts_with("stall: "),
            "{entry}"
        );
        assert_eq!(controller.status().counts.stalls, 1);
    }
}

#[test]
fn locks_held_by_clients_in_the_queue_are_a_stall_too() {
    check(10, 9, true);
    // Locks are not sampled, so these servers look busy.
    check(10, 9, false);
}

#[test]
fn servers_that_work_are_no_stall() {
    let settings = Settings {
        size: 4,
        ..Settings::default()
    };
    let mut controller = Controller::new(settings, 1);
    let mut seen = Observation {
        in_use: 4,
        waiting: 9,
        lock_waits: Some(2),
        has_turn: true,
        ..Observation::default()
    };
    for _ in 0..200 {
        seen.now += Duration::from_millis(50);
        assert!(controller.tick(&seen).limit <= 4);
    }
    assert_eq!(controller.status().counts.stalls, 0);
}

#[test]
fn a_stall_in_mode_advise_or_at_the_greatest_size_is_said_once() {
    for (mode, size_max) in [(Mode::Advise, 100), (Mode::On, 4)] {
        let settings = Settings {
            mode,
            size: 4,
            size_max,
            ..Settings::default()
        };
        let mut controller = Controller::new(settings, 1);
        let mut pool = Nested::wedged(4, 0, false);
        assert_eq!(pool.progress_ms(&mut controller), None);
        let stalls = controller
            .journal()
            .iter()
            .filter(|entry| entry.cause == Cause::Stall);
        assert_eq!(stalls.count(), 1);
        assert_eq!(controller.status().counts.stalls, 1);
    }
}
