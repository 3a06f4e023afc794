//! How fast the machine was meanwhile. Other guests of a host share its cores, its caches and its memory, so a processor
//! does more in one minute than in the next, by a tenth and more on a busy host. A small fixed piece of work, timed
//! again and again beside the load, tells.
//!
//! It must not depend on the load that it is beside, or what a pool does itself would be taken for the machine's doing:
//! only the time on the processor counts, not the wait for it, and it needs no memory, which the load has in the caches.
//!
//! A second guest on the same core takes up to half of what could be done at once, but little from sums that wait for each
//! other; a slower clock takes from both alike. So there are two kinds of work, and each counts alike. Steps through
//! memory were tried, far ones and near ones: they explain less of what loads do, and beside these nothing more.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use weir_lab::clock;
use weir_lab::statistics::mean;

/// Between two rounds of work. One takes about 0.04 ms, so all of it is less than half a per cent of each processor.
const TICK: Duration = Duration::from_millis(10);
/// Sums, each of which waits for the one before.
const CHAIN: u64 = 12_000;
/// Rounds of sums that can all be done at once.
const WIDE: u64 = 8_000;

/// When a round ended, since the epoch, and what each kind of work took in it, in microseconds.
type Round = (Duration, [f64; 2]);

/// Works on every processor until it is asked what it saw.
pub(super) struct Probe {
    is_over: Arc<AtomicBool>,
    threads: Vec<(usize, JoinHandle<Result<Vec<Round>>>)>,
}

impl Probe {
    /// On all processors that this process may use.
    pub(super) fn start() -> Result<Self> {
        let usable = sched_getaffinity(None).context("cannot tell the processors")?;
        let mut probe = Self {
            is_over: Arc::default(),
            threads: Vec::new(),
        };
        for core in (0..CpuSet::MAX_CPU).filter(|core| usable.is_set(*core)) {
            let is_over = Arc::clone(&probe.is_over);
            let thread = thread::Builder::new().name(format!("speed {core}"));
            let thread = thread.spawn(move || watch(core, &is_over))?;
            probe.threads.push((core, thread));
        }
        Ok(probe)
    }

    /// At least one round of each processor, however soon it is.
    ///
    /// # Errors
    /// A processor that could not be watched.
    pub(super) fn end(mut self) -> Result<Speed> {
        self.stop();
        let threads = self.threads.drain(..);
        let processors = threads.map(|(core, thread)| {
            let rounds = thread.join();
            let rounds =
                rounds.map_err(|_| anyhow!("the probe of the machine's speed panicked"))?;
            Ok((core, rounds?))
        });
        Ok(Speed {
            processors: processors.collect::<Result<_>>()?,
        })
    }

    fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        for (_, thread) in &self.threads {
            thread.thread().unpark();
        }
    }
}

impl Drop for Probe {
    /// A run that failed leaves nothing behind that works on.
    fn drop(&mut self) {
        self.stop();
    }
}

/// What a [`Probe`] saw.
#[derive(Debug, Default)]
pub(super) struct Speed {
    /// By number.
    processors: Vec<(usize, Vec<Round>)>,
}

impl Speed {
    /// How slow processors were from `from` to `to`, both since the epoch: the logarithm of what a kind of work takes, at
    /// the mean of how much of it is done in a second, in the mean of the kinds and of the processors. Of those up to
    /// `last`, and of the others, if there are any; of all without `last`. Only differences mean anything. Nothing if a
    /// processor was not looked at in that time.
    pub(super) fn slowness(&self, from: Duration, to: Duration, last: Option<usize>) -> Vec<f64> {
        let of = |is_asked: &dyn Fn(usize) -> bool| {
            let asked = self.processors.iter().filter(|(core, _)| is_asked(*core));
            let each = asked.map(|(_, rounds)| slowness(rounds, from, to));
            mean(&each.collect::<Option<Vec<f64>>>()?)
        };
        let parts = match last {
            None => vec![of(&|_| true)],
            Some(last) => vec![of(&|core| core <= last), of(&|core| core > last)],
        };
        let parts: Option<Vec<f64>> = parts.into_iter().collect();
        parts.unwrap_or_default()
    }
}

/// Of one processor.
fn slowness(rounds: &[Round], from: Duration, to: Duration) -> Option<f64> {
    let rounds = rounds.iter().filter(|(at, _)| (from..=to).contains(at));
    // No clock is so exact that a round in no time is not an error of its own.
    let rounds = rounds.filter(|(_, micros)| micros.iter().all(|micros| *micros > 0.0));
    let speeds: Vec<[f64; 2]> = rounds.map(|(_, micros)| micros.map(f64::recip)).collect();
    let kinds = (0..2).map(|kind| {
        let speeds: Vec<f64> = speeds
            .iter()
            .filter_map(|of| of.get(kind))
            .copied()
            .collect();
        mean(&speeds).map(|speed| -speed.ln())
    });
    mean(&kinds.collect::<Option<Vec<f64>>>()?)
}

fn watch(core: usize, is_over: &AtomicBool) -> Result<Vec<Round>> {
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only).with_context(|| format!("cannot run on processor {core}"))?;
    let mut rounds = Vec::new();
    loop {
        let took = [chain as fn(), wide].map(|work| {
            let begun = used();
            work();
            used().saturating_sub(begun).as_secs_f64() * 1e6
        });
        rounds.push((clock::since_epoch(), took));
        if is_over.load(Ordering::Relaxed) {
            return Ok(rounds);
        }
        clock::pause(TICK);
    }
}

/// Of the processor, by this thread.
fn used() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(used).unwrap_or_default()
}

/// Nothing of it can begin before what is before it has ended.
fn chain() {
    let mut sum = black_box(1_u64);
    for step in 0..CHAIN {
        sum = sum
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(step);
        // Else several steps could be done as one.
        sum ^= sum >> 29;
    }
    black_box(sum);
}

/// Six sums that do not wait for each other.
fn wide() {
    let mut sums = black_box([1_u64, 2, 3, 4, 5, 6]);
    for step in 0..WIDE {
        for sum in &mut sums {
            *sum = sum.wrapping_add(step) ^ (*sum >> 7);
        }
    }
    black_box(sums);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowness_is_of_all_that_was_done_in_the_time_and_by_processors() {
        let at = Duration::from_secs;
        let speed = Speed {
            processors: vec![
                // In the time: 1 and 3 microseconds, so two thirds of a piece are done in one.
                (
                    0,
                    vec![(at(1), [9.0; 2]), (at(2), [1.0; 2]), (at(3), [3.0; 2])],
                ),
                // Each kind of work counts alike.
                (
                    1,
                    vec![(at(3), [1.0, 4.0]), (at(4), [0.0, 4.0]), (at(9), [50.0; 2])],
                ),
            ],
        };
        let near = |found: Vec<f64>, expected: &[f64]| {
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected.ln()).abs() < 1e-12, "{found} {expected}");
            }
        };
        near(speed.slowness(at(2), at(4), Some(0)), &[1.5, 2.0]);
        near(speed.slowness(at(2), at(4), None), &[3.0_f64.sqrt()]);
        assert!(speed.slowness(at(5), at(9), Some(0)).is_empty());
        assert!(Speed::default().slowness(at(2), at(4), None).is_empty());
    }

    #[test]
    fn every_processor_is_looked_at() {
        let from = clock::since_epoch();
        let speed = Probe::start().unwrap().end().unwrap();
        let found = speed.slowness(from, clock::since_epoch(), None);
        assert!(found.first().is_some_and(|log| *log > 0.0), "{speed:?}");
        let usable = sched_getaffinity(None).unwrap().count();
        assert_eq!(u32::try_from(speed.processors.len()), Ok(usable));
    }
}
