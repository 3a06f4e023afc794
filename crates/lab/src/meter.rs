//! Measures the cost of a load: CPU time, memory and context switches of groups of processes, and the use of the
//! machine. The meter reads the kernel's figures at intervals, and interpolates between them for any window of
//! time.

pub mod cpu;
mod machine;
pub mod memory;
mod tree;

use std::time::{Duration, Instant};

use self::machine::Times;
use self::tree::{Reading, Tree};
use crate::clock;
use crate::error::{Error, Result};
use crate::record::{Costs, Machine, Usage};

/// Groups of processes that are measured separately. Each entry is the root of a process tree; descendants count
/// with it.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// Processes of the target.
    pub pooler: Vec<u32>,
    /// Processes of PostgreSQL.
    pub server: Vec<u32>,
    /// Processes of the load generator.
    pub generator: Vec<u32>,
    /// Processes of the lab that belong to none of these, such as what stands in front of the poolers.
    pub others: Vec<u32>,
}

/// Measured time; both ends are since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Start of the measured time.
    pub begin: Duration,
    /// End of the measured time.
    pub end: Duration,
}

impl Window {
    /// Returns the length in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.end.saturating_sub(self.begin).as_secs_f64()
    }
}

/// Minimum time between readings, however cheap they are.
const INTERVAL: Duration = Duration::from_millis(200);
/// Minimum pause after a reading, as a multiple of its cost. Reading a thousand processes takes dozens of
/// milliseconds of a CPU that others need.
const LEISURE: u32 = 30;

/// Reads resource figures while a load runs.
#[derive(Debug)]
pub struct Meter {
    pooler: Tree,
    server: Tree,
    generator: Tree,
    others: Tree,
    ourselves: Tree,
    has_pooler: bool,
    has_server: bool,
    has_generator: bool,
    samples: Vec<Sample>,
    due: Instant,
}

/// Figures at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Duration,
    pooler: Reading,
    server: Reading,
    generator: Reading,
    others: Duration,
    machine: Times,
}

impl Meter {
    /// Takes the first reading.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn start(groups: &Groups) -> Result<Self> {
        let mut meter = Self {
            pooler: Tree::of(&groups.pooler).with_memory(),
            server: Tree::of(&groups.server),
            generator: Tree::of(&groups.generator),
            others: Tree::of(&groups.others),
            ourselves: Tree::of(&[std::process::id()]).alone(),
            has_pooler: !groups.pooler.is_empty(),
            has_server: !groups.server.is_empty(),
            has_generator: !groups.generator.is_empty(),
            samples: Vec::new(),
            due: clock::now(),
        };
        meter.look()?;
        Ok(meter)
    }

    /// Takes a reading if one is due; call it often.
    ///
    /// # Errors
    /// `/proc` cannot be read any more.
    pub fn tick(&mut self) -> Result<()> {
        if clock::now() < self.due {
            return Ok(());
        }
        self.look()
    }

    /// Takes a reading now.
    ///
    /// # Errors
    /// As [`Meter::tick`].
    pub fn look(&mut self) -> Result<()> {
        let begun = clock::now();
        let at = clock::since_epoch();
        let others = self.others.read().cpu + self.ourselves.read().cpu;
        self.samples.push(Sample {
            at,
            pooler: self.pooler.read(),
            server: self.server.read(),
            generator: self.generator.read(),
            others,
            machine: machine::read()?,
        });
        let cost = clock::now().saturating_duration_since(begun);
        self.due = clock::now() + INTERVAL.max(cost * LEISURE);
        Ok(())
    }

    /// Returns the costs in `window`, interpolated between the readings around its ends.
    ///
    /// # Errors
    /// There are no readings around the window.
    pub fn costs(&self, window: Window) -> Result<Costs> {
        let between = Between::of(&self.samples, window).ok_or_else(|| Error::Unexpected {
            what: "the time of the measurement".to_owned(),
            text: format!("{:.3} s, {} looks", window.seconds(), self.samples.len()),
        })?;
        let pooler = between.usage(|sample| sample.pooler);
        let server = between.usage(|sample| sample.server);
        let generator = between.usage(|sample| sample.generator);
        let others = between.cpu_us(|sample| sample.others);
        let groups = [
            (self.has_pooler, pooler),
            (self.has_server, server),
            (self.has_generator, generator),
        ];
        let mut ours = Some(others);
        for (_, usage) in groups.iter().filter(|(is_there, _)| *is_there) {
            ours = ours.zip(*usage).map(|(sum, usage)| sum + usage.cpu_us);
        }
        Ok(Costs {
            pooler,
            server,
            generator,
            machine: Some(between.machine(ours)),
        })
    }
}

/// The samples around both ends of a window.
struct Between<'a> {
    begin: Point<'a>,
    end: Point<'a>,
    last: &'a Sample,
    /// Samples from the middle of the window on.
    late: &'a [Sample],
}

/// Moment between two samples; `share` is the way from one to the other, 0 to 1.
struct Point<'a> {
    before: &'a Sample,
    after: &'a Sample,
    share: f64,
}

impl<'a> Point<'a> {
    fn at(samples: &'a [Sample], time: Duration) -> Option<Self> {
        let later = samples.partition_point(|sample| sample.at < time);
        let before = samples.get(later.saturating_sub(1))?;
        let after = samples.get(later).or_else(|| samples.last())?;
        let span = after.at.saturating_sub(before.at).as_secs_f64();
        let way = time.saturating_sub(before.at).as_secs_f64();
        // After the last sample, its values are the best guess.
        let share = if span > 0.0 {
            (way / span).min(1.0)
        } else {
            0.0
        };
        Some(Self {
            before,
            after,
            share,
        })
    }

    fn value(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        let (low, high) = (of(self.before), of(self.after));
        low + (high - low) * self.share
    }
}

impl<'a> Between<'a> {
    fn of(samples: &'a [Sample], window: Window) -> Option<Self> {
        let last = samples
            .iter()
            .rev()
            .find(|sample| sample.at <= window.end)
            .or_else(|| samples.first())?;
        let half = window.end.saturating_sub(window.begin) / 2;
        let middle = samples.partition_point(|sample| sample.at < window.begin + half);
        let found = Self {
            begin: Point::at(samples, window.begin)?,
            end: Point::at(samples, window.end)?,
            last,
            late: samples.get(middle..).unwrap_or_default(),
        };
        (samples.len() > 1 && window.end > window.begin).then_some(found)
    }

    fn more(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        (self.end.value(&of) - self.begin.value(&of)).max(0.0)
    }

    fn cpu_us(&self, of: impl Fn(&Sample) -> Duration) -> f64 {
        self.more(|sample| of(sample).as_secs_f64() * 1e6)
    }

    /// Returns the use of a group of processes. The result is unknown if no sample from the middle of the window on
    /// saw the whole group. On a busy machine there may be samples only before a process works and after its end,
    /// and its CPU time is then lost.
    fn usage(&self, of: impl Fn(&Sample) -> Reading + Copy) -> Option<Usage> {
        if !self.late.iter().any(|sample| of(sample).is_whole) {
            return None;
        }
        let switches = |pick: fn(tree::Switches) -> u64| {
            of(self.begin.before).switches?;
            of(self.end.after).switches?;
            let count = self.more(|sample| of(sample).switches.map_or(0.0, |s| figure(pick(s))));
            Some(whole(count))
        };
        Some(Usage {
            cpu_us: self.cpu_us(|sample| of(sample).cpu),
            rss_bytes: of(self.last).rss_bytes,
            switches_voluntary: switches(|switches| switches.voluntary),
            switches_involuntary: switches(|switches| switches.involuntary),
        })
    }

    fn machine(&self, ours_us: Option<f64>) -> Machine {
        let share = |of: fn(&Times) -> f64| self.more(|sample| of(&sample.machine));
        let all = share(Times::all_us).max(1.0);
        Machine {
            cpus: self.last.machine.cpus,
            idle: share(|times| times.idle_us) / all,
            steal: share(|times| times.steal_us) / all,
            iowait: share(|times| times.iowait_us) / all,
            foreign_cpu_us: ours_us.map(|ours| (share(|times| times.busy_us) - ours).max(0.0)),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn figure(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a difference of counts, never below zero"
)]
fn whole(count: f64) -> u64 {
    count.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ms: u64, cpu_ms: u64) -> Sample {
        let reading = |cpu_ms: u64| Reading {
            cpu: Duration::from_millis(cpu_ms),
            switches: Some(tree::Switches {
                voluntary: cpu_ms * 10,
                involuntary: 1,
            }),
            rss_bytes: Some(ms),
            is_whole: true,
        };
        let us = |ms: u64| figure(ms) * 1000.0;
        Sample {
            at: Duration::from_millis(ms),
            pooler: reading(cpu_ms),
            server: reading(2 * cpu_ms),
            generator: reading(0),
            others: Duration::ZERO,
            machine: Times {
                cpus: 2,
                busy_us: us(4 * cpu_ms),
                idle_us: us(2 * ms - 4 * cpu_ms),
                iowait_us: 0.0,
                steal_us: 0.0,
            },
        }
    }

    fn window(begin: u64, end: u64) -> Window {
        Window {
            begin: Duration::from_millis(begin),
            end: Duration::from_millis(end),
        }
    }

    #[test]
    fn a_window_between_looks_is_interpolated() {
        let samples = [sample(1000, 0), sample(2000, 100), sample(3000, 300)];
        let between = Between::of(&samples, window(1500, 2500)).unwrap();
        let usage = between.usage(|sample| sample.pooler).unwrap();
        // Half of 100 ms before the middle sample, half of 200 ms after it.
        assert!((usage.cpu_us - 150_000.0).abs() < 1e-6, "{usage:?}");
        assert_eq!(usage.switches_voluntary, Some(1500));
        assert_eq!(usage.rss_bytes, Some(2000));
    }

    #[test]
    fn what_nobody_of_ours_used_is_foreign() {
        let samples = [sample(1000, 0), sample(2000, 100)];
        let between = Between::of(&samples, window(1000, 2000)).unwrap();
        let machine = between.machine(Some(300_000.0));
        // Of 2 s, 400 ms were busy, 300 ms of them by the lab's processes.
        assert!((machine.foreign_cpu_us.unwrap() - 100_000.0).abs() < 1e-6);
        assert!((machine.idle - 0.8).abs() < 1e-9, "{machine:?}");
    }

    #[test]
    fn what_was_gone_at_the_first_look_after_its_work_is_unknown() {
        let mut samples = [sample(1000, 0), sample(2000, 0), sample(3000, 0)];
        samples[1].generator.is_whole = false;
        samples[2].generator.is_whole = false;
        // Windows in which the generator was seen in the first half only, or not at all.
        for window in [window(900, 1500), window(1100, 2100), window(1100, 2900)] {
            let between = Between::of(&samples, window).unwrap();
            let generator = between.usage(|sample| sample.generator);
            assert_eq!(generator, None, "{window:?}");
            assert!(between.usage(|sample| sample.server).is_some());
        }
        assert_eq!(
            Between::of(&samples, window(1100, 2900))
                .unwrap()
                .machine(None)
                .foreign_cpu_us,
            None
        );
    }

    #[test]
    fn an_empty_window_or_a_single_look_say_nothing() {
        let samples = [sample(1000, 0), sample(2000, 100)];
        assert!(Between::of(&samples, window(1500, 1500)).is_none());
        assert!(Between::of(&samples[..1], window(900, 1500)).is_none());
    }

    #[test]
    fn beyond_the_last_look_the_last_one_counts() {
        let samples = [sample(1000, 0), sample(2000, 100)];
        let between = Between::of(&samples, window(1000, 2200)).unwrap();
        let usage = between.usage(|sample| sample.pooler).unwrap();
        assert!((usage.cpu_us - 100_000.0).abs() < 1e-6);
    }

    #[test]
    fn our_own_work_is_neither_foreign_nor_a_poolers() {
        let mut meter = Meter::start(&Groups::default()).unwrap();
        let begin = clock::since_epoch();
        let first = meter.samples[0].others;
        let mut sum = 0_u64;
        while meter.samples.last().unwrap().others < first + Duration::from_millis(20) {
            sum = (0..10_000_u64).fold(sum, u64::wrapping_add);
            meter.look().unwrap();
        }
        let end = clock::since_epoch();
        let costs = meter.costs(Window { begin, end }).unwrap();
        assert!(costs.pooler.is_none() && costs.server.is_none(), "{sum}");
        assert!(costs.machine.unwrap().cpus >= 1);
    }
}
