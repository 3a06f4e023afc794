//! How fast the machine was meanwhile. Other guests of a host share its cores, its caches and its memory, so a processor
//! does more in one minute than in the next, by a tenth and more on a busy host. A small fixed piece of work, timed
//! again and again beside the load, tells.
//!
//! It must not depend on the load that it is beside, or what a pool does itself would be taken for the machine's doing:
//! only the time on the processor counts, not the wait for it, and it needs no memory, which the load has in the caches.
//! What the host gives to others while somebody here wants to work is in the kernel's books, as time stolen: a processor
//! that does its work at full speed in half of the time is half as fast.
//!
//! A second guest on the same core takes up to half of what could be done at once, but little from sums that wait for each
//! other; a slower clock takes from both alike. So there are two kinds of work, and each counts alike. Steps through
//! memory were tried, far ones and near ones: they explain less of what loads do, and beside these nothing more.

use std::fs;
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

/// Between two looks into the kernel's books, in rounds: a second. They are kept in hundredths of one.
const LOOK: usize = 100;

/// When a round ended, since the epoch, and what each kind of work took in it, in microseconds.
type Round = (Duration, [f64; 2]);

/// What one processor showed.
#[derive(Debug, Default)]
struct Processor {
    rounds: Vec<Round>,
    /// When it was looked at, since the epoch, and the time that the host had taken of it until then, since the start.
    stolen: Vec<(Duration, Duration)>,
}

/// Works on every processor until it is asked what it saw.
pub(super) struct Probe {
    is_over: Arc<AtomicBool>,
    threads: Vec<(usize, JoinHandle<Result<Processor>>)>,
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
            let seen = thread.join();
            let seen = seen.map_err(|_| anyhow!("the probe of the machine's speed panicked"))?;
            Ok((core, seen?))
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
    processors: Vec<(usize, Processor)>,
}

impl Speed {
    /// How slow processors were from `from` to `to`, both since the epoch: the logarithm of what a kind of work takes, at
    /// the mean of how much of it is done in a second, in the mean of the kinds and of the processors, with what the host
    /// took of that second. Of those up to `last`, and of the others, if there are any; of all without `last`. Only
    /// differences mean anything. Nothing if a processor was not looked at in that time.
    pub(super) fn slowness(&self, from: Duration, to: Duration, last: Option<usize>) -> Vec<f64> {
        let of = |is_asked: &dyn Fn(usize) -> bool| {
            let asked = self.processors.iter().filter(|(core, _)| is_asked(*core));
            let each = asked.map(|(_, seen)| {
                let left = 1.0 - taken(&seen.stolen, from, to);
                Some(slowness(&seen.rounds, from, to)? - left.ln())
            });
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

/// Less than all of it, whatever the books say: something was done, or there would be nothing to tell.
const TAKEN_MAX: f64 = 0.99;

/// The part of one processor's time that the host took, from `from` to `to` as exactly as it was looked at.
fn taken(stolen: &[(Duration, Duration)], from: Duration, to: Duration) -> f64 {
    let looks = || stolen.iter().filter(|(at, _)| (from..=to).contains(at));
    let (Some((begin, before)), Some((end, after))) = (looks().next(), looks().next_back()) else {
        return 0.0;
    };
    let time = end.saturating_sub(*begin).as_secs_f64();
    match time > 0.0 {
        true => (after.saturating_sub(*before).as_secs_f64() / time).min(TAKEN_MAX),
        false => 0.0,
    }
}

/// How slow one processor was while it worked.
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

fn watch(core: usize, is_over: &AtomicBool) -> Result<Processor> {
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only).with_context(|| format!("cannot run on processor {core}"))?;
    let mut seen = Processor::default();
    loop {
        if seen.rounds.len() % LOOK == 0 {
            let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
            let now = clock::since_epoch();
            seen.stolen
                .extend(stolen(&text, core).map(|time| (now, time)));
        }
        let took = [chain as fn(), wide].map(|work| {
            let begun = used();
            work();
            used().saturating_sub(begun).as_secs_f64() * 1e6
        });
        seen.rounds.push((clock::since_epoch(), took));
        if is_over.load(Ordering::Relaxed) {
            return Ok(seen);
        }
        clock::pause(TICK);
    }
}

/// Of one processor, since the start: `cpu0 user nice system idle iowait irq softirq steal ...` (proc_stat(5)). Nothing
/// where the kernel keeps no such book.
fn stolen(text: &str, core: usize) -> Option<Duration> {
    let name = format!("cpu{core}");
    let mut fields = text
        .lines()
        .map(str::split_whitespace)
        .find_map(|mut fields| (fields.next() == Some(&name)).then_some(fields))?;
    let ticks: u64 = fields.nth(7)?.parse().ok()?;
    let micros = ticks.saturating_mul(1_000_000) / rustix::param::clock_ticks_per_second().max(1);
    Some(Duration::from_micros(micros))
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
        let processor = |rounds, stolen| Processor { rounds, stolen };
        let speed = Speed {
            processors: vec![
                // In the time: 1 and 3 microseconds, so two thirds of a piece are done in one.
                (
                    0,
                    processor(
                        vec![(at(1), [9.0; 2]), (at(2), [1.0; 2]), (at(3), [3.0; 2])],
                        vec![],
                    ),
                ),
                // Each kind of work counts alike. A quarter of the time is not this machine's, looked at from 2 to 4.
                (
                    1,
                    processor(
                        vec![(at(3), [1.0, 4.0]), (at(4), [0.0, 4.0]), (at(9), [50.0; 2])],
                        vec![
                            (at(1), at(0)),
                            (at(2), at(5)),
                            (at(4), Duration::from_millis(5500)),
                            (at(5), at(6)),
                        ],
                    ),
                ),
            ],
        };
        let near = |found: Vec<f64>, expected: &[f64]| {
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected.ln()).abs() < 1e-12, "{found} {expected}");
            }
        };
        let second = 2.0 / 0.75;
        near(speed.slowness(at(2), at(4), Some(0)), &[1.5, second]);
        near(speed.slowness(at(2), at(4), None), &[(1.5 * second).sqrt()]);
        assert!(speed.slowness(at(5), at(9), Some(0)).is_empty());
        assert!(Speed::default().slowness(at(2), at(4), None).is_empty());
    }

    #[test]
    fn the_time_that_the_host_took_is_read_for_each_processor() {
        let text = "cpu  9 9 9 9 9 9 9 900 0 0\ncpu1 1 2 3 4 5 6 7 250 0 0\ncpu10 1 2 3 4 5 6 7 800 0 0\nintr 5\n";
        let ticks = rustix::param::clock_ticks_per_second();
        let found = |core| stolen(text, core).map(|time| time.as_micros());
        assert_eq!(found(1), Some(u128::from(250_000_000 / ticks)));
        assert_eq!(found(10), Some(u128::from(800_000_000 / ticks)));
        assert_eq!((found(0), stolen("cpu0 1 2 3\n", 0)), (None, None));
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
