//! Speed of the machine during a run. Other guests of a host share its cores, caches and memory. So the speed of a
//! processor differs from minute to minute, by a tenth and more on a busy host. The probe measures it: a small fixed
//! piece of work, timed repeatedly beside the load.
//!
//! The measurement must not depend on the load beside it; otherwise effects of the pool would be attributed to the
//! machine. So only time on the processor counts, not the wait for it, and the work needs no memory, whose caches the
//! load uses. The kernel's accounts show the time that the host gave to other guests while a process here wanted to
//! run ("steal"). A processor that works at full speed for half of the time counts as half as fast.
//!
//! A second guest on the same core takes up to half of the throughput of independent operations, but little from sums
//! that depend on each other. A slower clock takes from both alike. So there are two kinds of work with equal weight.
//! Memory accesses, far and near, were tried: they explain less of the loads' variation, and add nothing to these
//! two.

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

/// Pause between two rounds of work. A round takes about 0.04 ms, so the probe uses less than half a per cent of each
/// processor.
const TICK: Duration = Duration::from_millis(10);
/// Number of sums that each depend on the previous one.
const CHAIN: u64 = 12_000;
/// Rounds of sums that are independent of each other.
const WIDE: u64 = 8_000;

/// Rounds between two reads of the kernel's accounts: a second. The accounts are kept in hundredths of a second.
const LOOK: usize = 100;

/// End of a round since the epoch, and the time of each kind of work in it, in microseconds.
type Round = (Duration, [f64; 2]);

/// Measurements of one processor.
#[derive(Debug, Default)]
struct Processor {
    rounds: Vec<Round>,
    /// Times of the reads since the epoch, each with the time stolen from the processor since boot.
    stolen: Vec<(Duration, Duration)>,
}

/// Runs work on every processor until the results are collected.
pub(super) struct Probe {
    is_over: Arc<AtomicBool>,
    threads: Vec<(usize, JoinHandle<Result<Processor>>)>,
}

impl Probe {
    /// Starts a thread on each processor that this process may use.
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

    /// Stops and returns the measurements: at least one round of each processor, even after a very short time.
    ///
    /// # Errors
    /// If a processor could not be measured.
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
    /// Stops the threads, so that a failed run leaves none behind.
    fn drop(&mut self) {
        self.stop();
    }
}

/// Measurements of a [`Probe`].
#[derive(Debug, Default)]
pub(super) struct Speed {
    /// Processors by number.
    processors: Vec<(usize, Processor)>,
}

impl Speed {
    /// Slowness of the processors from `from` to `to`, both since the epoch: the logarithm of the mean time that a
    /// piece of work takes. The time per piece is the inverse of the mean rate, lengthened by stolen time; logarithms
    /// are averaged over kinds of work and over processors.
    ///
    /// Returns one value for the processors up to `last` and one for the others, if there are any; without `last` one
    /// value for all. Only differences are meaningful. Empty if a processor was not measured in that time.
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

/// Maximum share of stolen time. Below 1, because work was done, or there would be no measurement.
const TAKEN_MAX: f64 = 0.99;

/// Share of one processor's time that the host took, between the first and the last read within `from` to `to`.
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

/// Slowness of one processor while it worked.
fn slowness(rounds: &[Round], from: Duration, to: Duration) -> Option<f64> {
    let rounds = rounds.iter().filter(|(at, _)| (from..=to).contains(at));
    // A round without measurable time is an error of the clock.
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

/// Time stolen from one processor since boot: `cpu0 user nice system idle iowait irq softirq steal ...`
/// (proc_stat(5)). None if the kernel does not account for it.
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

/// Processor time that this thread has used.
fn used() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(used).unwrap_or_default()
}

/// Sums of which each depends on the previous one.
fn chain() {
    let mut sum = black_box(1_u64);
    for step in 0..CHAIN {
        sum = sum
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(step);
        // Without this, several steps could be done as one.
        sum ^= sum >> 29;
    }
    black_box(sum);
}

/// Six sums that do not depend on each other.
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
                // Within the time: 1 and 3 microseconds, so the mean rate is two thirds of a piece per microsecond.
                (
                    0,
                    processor(
                        vec![(at(1), [9.0; 2]), (at(2), [1.0; 2]), (at(3), [3.0; 2])],
                        vec![],
                    ),
                ),
                // Both kinds of work have the same weight. A quarter of the time from 2 to 4 was stolen.
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
