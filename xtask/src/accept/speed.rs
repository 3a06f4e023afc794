//! How fast the machine was meanwhile. Other guests of a host share its cores, its caches and its memory, so a processor
//! does more in one minute than in the next, by a tenth and more on a busy host. A small fixed piece of work, timed
//! again and again beside the load, tells.
//!
//! It must not depend on the load that it is beside, or what a pool does itself would be taken for the machine's doing:
//! only the time on the processor counts, not the wait for it; the memory it walks through is far larger than what a
//! core keeps between two times; and of the times of a while the middle one is taken, for an interrupt may come in some.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use fastrand::Rng;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use weir_lab::clock;
use weir_lab::statistics::{mean, median};

/// Between two pieces of work. One takes about 0.3 ms, so all of it is less than a per cent of each processor.
const TICK: Duration = Duration::from_millis(40);
/// Steps of arithmetic in one piece, each of which waits for the one before.
const SUMS: u64 = 20_000;
/// Steps through memory, too.
const STEPS: u32 = 600;
/// 16 MiB: more than a core has for itself.
const CELLS: usize = 4 << 20;

/// When a piece of work ended, since the epoch, and what it took in microseconds.
type Piece = (Duration, f64);

/// Works on every processor until it is asked what it saw.
pub(super) struct Probe {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Vec<Piece>>>>,
}

impl Probe {
    /// On all processors that this process may use.
    pub(super) fn start() -> Result<Self> {
        let usable = sched_getaffinity(None).context("cannot tell the processors")?;
        let ring: Arc<[u32]> = ring(CELLS).into();
        let mut probe = Self {
            is_over: Arc::default(),
            threads: Vec::new(),
        };
        for core in (0..CpuSet::MAX_CPU).filter(|core| usable.is_set(*core)) {
            let (ring, is_over) = (Arc::clone(&ring), Arc::clone(&probe.is_over));
            let thread = thread::Builder::new().name(format!("speed {core}"));
            let thread = thread.spawn(move || watch(core, &ring, &is_over))?;
            probe.threads.push(thread);
        }
        Ok(probe)
    }

    /// At least one piece of work of each processor, however soon it is.
    ///
    /// # Errors
    /// A processor that could not be watched.
    pub(super) fn end(mut self) -> Result<Speed> {
        self.stop();
        let threads = self.threads.drain(..);
        let processors = threads.map(|thread| {
            let pieces = thread.join();
            pieces.map_err(|_| anyhow!("the probe of the machine's speed panicked"))?
        });
        Ok(Speed {
            processors: processors.collect::<Result<_>>()?,
        })
    }

    fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in &self.threads {
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
    processors: Vec<Vec<Piece>>,
}

impl Speed {
    /// How slow the machine was from `from` to `to`, both since the epoch: the logarithm of the microseconds that a
    /// piece of work took, in the mean of the processors. Only differences mean anything. Nothing if a processor was not
    /// looked at in that time.
    pub(super) fn slowness(&self, from: Duration, to: Duration) -> Option<f64> {
        let logs = self.processors.iter().map(|pieces| {
            let pieces = pieces.iter().filter(|(at, _)| (from..=to).contains(at));
            let times: Vec<f64> = pieces.map(|(_, micros)| *micros).collect();
            median(&times).map(f64::ln)
        });
        mean(&logs.collect::<Option<Vec<f64>>>()?)
    }
}

fn watch(core: usize, ring: &[u32], is_over: &AtomicBool) -> Result<Vec<Piece>> {
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only).with_context(|| format!("cannot run on processor {core}"))?;
    let mut pieces = Vec::new();
    loop {
        let begun = used();
        work(ring);
        let took = used().saturating_sub(begun);
        pieces.push((clock::since_epoch(), took.as_secs_f64() * 1e6));
        if is_over.load(Ordering::Relaxed) {
            return Ok(pieces);
        }
        clock::pause(TICK);
    }
}

/// Of the processor, by this thread.
fn used() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(used).unwrap_or_default()
}

/// Always the same: nothing of it can begin before what is before it has ended.
fn work(ring: &[u32]) {
    let mut sum = black_box(1_u64);
    for step in 0..SUMS {
        sum = sum
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(step);
        sum ^= sum >> 29;
    }
    let mut at = u32::try_from(sum % 2).unwrap_or_default();
    for _ in 0..STEPS {
        at = ring.get(at as usize).copied().unwrap_or_default();
    }
    black_box(at);
}

/// One walk through all cells that nothing can foresee: Sattolo's shuffle, each cell names the next.
fn ring(cells: usize) -> Vec<u32> {
    let mut rng = Rng::with_seed(1);
    let mut ring: Vec<u32> = (0..).take(cells).collect();
    for last in (1..cells).rev() {
        ring.swap(last, rng.usize(..last));
    }
    ring
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_comes_through_every_cell() {
        let ring = ring(1000);
        let mut at = 0;
        for _ in 1..1000 {
            at = ring[at] as usize;
            assert_ne!(at, 0);
        }
        assert_eq!(ring[at], 0);
    }

    #[test]
    fn slowness_is_of_the_middle_piece_and_of_all_processors() {
        let at = Duration::from_secs;
        let speed = Speed {
            processors: vec![
                vec![(at(1), 9.0), (at(2), 1.0), (at(3), 100.0), (at(4), 2.0)],
                vec![(at(3), 8.0), (at(9), 50.0)],
            ],
        };
        let found = speed.slowness(at(2), at(4)).unwrap();
        assert!((found - 16.0_f64.ln() / 2.0).abs() < 1e-12, "{found}");
        assert_eq!(speed.slowness(at(5), at(9)), None);
        assert_eq!(Speed::default().slowness(at(2), at(4)), None);
    }

    #[test]
    fn every_processor_is_looked_at() {
        let from = clock::since_epoch();
        let speed = Probe::start().unwrap().end().unwrap();
        let found = speed.slowness(from, clock::since_epoch());
        assert!(found.is_some_and(|log| log > 0.0), "{speed:?}");
        let usable = sched_getaffinity(None).unwrap().count();
        assert_eq!(u32::try_from(speed.processors.len()), Ok(usable));
    }
}
