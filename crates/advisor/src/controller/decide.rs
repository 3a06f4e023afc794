//! Decisions of the controller, from experiments and from observations between them.

use crate::controller::block::{QUEUE_MIN, Timing};
use crate::controller::estimate::{Elasticity, weather};
use crate::controller::experiment::{Experiment, PairReport};
use crate::controller::hold::{Hold, Sight};
use crate::controller::journal::{Cause, Entry};
use crate::controller::observation::Observation;
use crate::controller::settings::Mode;
use crate::controller::{Controller, Direction, Search, Stage};
use crate::rounding::servers;

/// Number of standard errors that count as certain.
const SURE: f64 = 1.3;
/// Typical distance of elasticities from the goal. A pair with a larger error must show more, because such a large
/// difference is more often chance than not.
const OFF_GOAL: f64 = 0.15;
/// After this many pairs the value alone decides, with this margin.
const PAIRS_MAX: usize = 6;
const SPARE: f64 = 0.05;
/// Limits that differ by at most this many servers cannot be brought closer together.
const FINEST: u32 = 2;
/// In mode advise, sizes are tried within a quarter.
pub(super) const ADVISE_RATIO: f64 = 1.25;
/// A limit that no client waits for is lowered to the demand plus this margin ...
const UNUSED_FACTOR: f64 = 1.25;
const UNUSED_SPARE: f64 = 2.0;
/// ... and compared with smaller ones from this many servers in use on, if the number of cores is unknown.
const PROBE_FLOOR: f64 = 12.0;
/// Pause before an unused pool is observed again.
const UNUSED_HOLD_S: f64 = 5.0;
/// Minimum time between two searches caused by load changes.
const SHIFT_PAUSE_S: f64 = 30.0;
/// Two limits closer than this cannot be told apart.
const RATIO_LEAST: f64 = 1.1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Down,
    More,
    Stay,
    Up,
}

impl Controller {
    // === stages ===

    pub(super) fn advance(&mut self, seen: &Observation) {
        let now_s = self.now_s;
        match &mut self.stage {
            Stage::Experiment(experiment) => {
                if let Some(report) = experiment.tick(now_s, seen, &self.pace, &mut self.usual) {
                    self.counts.pairs += 1;
                    self.conclude(report);
                }
            }
            Stage::Hold(hold) => {
                match hold.tick(now_s, seen, &self.pace, self.limit, &mut self.usual) {
                    Sight::Same => {}
                    Sight::Queue => self.search_again("clients wait where none did"),
                    Sight::Shift => self.note_shift(),
                    Sight::Unsaturated => self.follow_demand(),
                }
            }
        }
        self.begin_experiment(seen);
    }

    /// Learns from a frozen pool how much its throughput varies by itself.
    pub(super) fn watch(&mut self, seen: &Observation) {
        if let Stage::Hold(hold) = &mut self.stage {
            hold.tick(self.now_s, seen, &self.pace, self.limit, &mut self.usual);
        }
    }

    fn begin_experiment(&mut self, seen: &Observation) {
        if !self.is_due() || !seen.has_turn {
            return;
        }
        if !self.search.is_ramping && !self.budget.has_any() {
            self.counts.overspent += 1;
            self.hold(1.0);
            return;
        }
        let Some(limits) = self.limits() else {
            self.long_share = 0.0;
            self.hold(Search::HOLD_MAX_S);
            return;
        };
        let timing = if self.is_heavy_tailed {
            Timing::TAIL
        } else if self.search.is_ramping {
            Timing::RAMP
        } else {
            Timing::PROBE
        };
        let low_first = self.random.next() & 1 == 0;
        self.stage = Stage::Experiment(Box::new(Experiment::new(
            limits, low_first, timing, self.now_s, seen,
        )));
    }

    /// True if an experiment is due that may teach something.
    pub(super) fn is_due(&self) -> bool {
        let Stage::Hold(hold) = &self.stage else {
            return false;
        };
        self.now_s >= hold.until_s
            && (self.pace.waiting() >= QUEUE_MIN || self.is_worth_probing(self.pace.in_use()))
    }

    /// True if fewer servers might do better although no client waits: the pool uses many servers. Other pools without
    /// waiters are left alone.
    fn is_worth_probing(&self, in_use: f64) -> bool {
        let floor = self
            .settings
            .cores
            .map_or(PROBE_FLOOR, |cores| 4.0 * f64::from(cores));
        in_use > floor
    }

    /// Returns the two limits to compare; `None` if the bounds do not leave two.
    fn limits(&self) -> Option<(u32, u32)> {
        let (least, most) = (self.size_least(), self.size_most());
        let (size, ratio) = match self.settings.mode {
            Mode::Advise => (self.settings.size, ADVISE_RATIO),
            Mode::Off | Mode::On => (self.size, self.search.ratio),
        };
        let size_f = f64::from(size);
        let low = servers(size_f / ratio).min(size.saturating_sub(1));
        let high = servers(size_f * ratio).max(size + 1);
        let low = low.max(least).max(self.variability_floor().min(size));
        let high = high.min(most);
        (f64::from(high) >= RATIO_LEAST * f64::from(low)).then_some((low, high))
    }

    fn conclude(&mut self, report: PairReport) {
        let Stage::Experiment(experiment) = &self.stage else {
            return;
        };
        self.long_share = report.long_share;
        self.is_heavy_tailed = report.is_heavy_tailed;
        if !self.search.is_ramping {
            self.budget.spend(report.cost_s);
        }
        if report.is_unsaturated {
            self.conclude_unused(report.in_use);
            return;
        }
        let pairs = &experiment.pairs;
        let weather = weather(self.usual.difference(), (experiment.low, experiment.high));
        if let [.., earlier, later] = pairs.as_slice() {
            self.estimator.learn(earlier, later, weather);
        }
        // If a few long transactions decide, the estimate by counting is the biased one.
        if !report.is_heavy_tailed
            && let Some(newest) = pairs.last()
        {
            self.estimator.note(newest);
        }
        let (low, high, count) = (experiment.low, experiment.high, pairs.len());
        let Some(elasticity) = self.estimator.elasticity(pairs, report.is_heavy_tailed) else {
            return;
        };
        let elasticity = elasticity.in_weather(weather, count);
        self.elasticity = Some(elasticity);
        let words = words(
            elasticity,
            self.settings.elasticity,
            count,
            experiment.completions(),
        );
        let goals = goals(self.settings.elasticity, (low, high));
        match judge(elasticity, count, goals) {
            Verdict::More => {}
            Verdict::Stay => self.settle((low, high), words),
            Verdict::Up => self.go(Direction::Up, (low, high), words),
            Verdict::Down => self.go(Direction::Down, (low, high), words),
        }
    }

    fn go(&mut self, direction: Direction, (low, high): (u32, u32), words: String) {
        let to = match direction {
            Direction::Down => low,
            Direction::Up => high,
        };
        match direction {
            Direction::Down => self.pays_not_at = Some(high),
            Direction::Up => self.pays_at = Some(low),
        }
        if to == self.size && self.settings.mode != Mode::Advise {
            self.stop_at_bound(direction, words);
            return;
        }
        self.search.is_at_bound = false;
        let has_flipped = self.search.last.is_some_and(|last| last != direction);
        let is_repeated = self.search.last == Some(direction);
        let was_fine = self.search.ratio <= Search::RATIO_FINE;
        self.search.last = Some(direction);
        if has_flipped {
            self.search.ratio = (1.0 + (self.search.ratio - 1.0) * 0.6).max(Search::RATIO_MIN);
            self.search.is_ramping = false;
        } else if is_repeated {
            self.search.ratio = (1.0 + (self.search.ratio - 1.0) * 1.5).min(Search::RATIO_MAX);
        }
        let reason = match direction {
            Direction::Down => format!("fewer servers do as well: {words}"),
            Direction::Up => format!("more servers still pay: {words}"),
        };
        if self.settings.mode == Mode::Advise {
            self.advise(to, &reason);
            return;
        }
        self.counts.moves += 1;
        self.hold(0.0);
        self.move_to(to, Cause::Experiment, reason);
        if has_flipped && was_fine {
            self.rest();
        }
    }

    /// Records advice, once per size.
    fn advise(&mut self, to: u32, reason: &str) {
        if to != self.size {
            self.note(to, Cause::Experiment, format!("advice: {reason}"));
            self.size = to;
        }
        self.rest();
    }

    /// Handles an experiment that favours a size beyond a bound. A ramp tries once more before it gives up, because the
    /// first pair may have seen a pool that was still filling.
    fn stop_at_bound(&mut self, direction: Direction, words: String) {
        if self.search.is_ramping && !self.search.is_at_bound {
            self.search.is_at_bound = true;
            let wish = match direction {
                Direction::Down => "fewer servers would do as well, but this is the least allowed",
                Direction::Up => "more servers would pay, but this is the most allowed",
            };
            self.note(self.size, Cause::Experiment, format!("{wish}: {words}"));
            self.rest();
            return;
        }
        self.hold_at(self.size, &words);
    }

    /// Keeps a size that is as good as can be told: the knee is between the two limits. If a bound left the size at one
    /// end of them, their middle is the better guess.
    fn settle(&mut self, (low, high): (u32, u32), words: String) {
        let is_end = self.size == low || self.size == high;
        let middle = servers((f64::from(low) * f64::from(high)).sqrt());
        self.hold_at(if is_end { middle } else { self.size }, &words);
    }

    fn hold_at(&mut self, size: u32, words: &str) {
        let reason = format!("neither more nor fewer servers are better: {words}");
        if self.settings.mode == Mode::Advise {
            self.advise(self.settings.size, &reason);
            return;
        }
        self.move_to(size, Cause::Experiment, reason);
        self.search.is_ramping = false;
        self.search.ratio = (1.0 + (self.search.ratio - 1.0) * 0.6).max(Search::RATIO_MIN);
        self.rest();
    }

    fn rest(&mut self) {
        let spread = 0.9 + 0.2 * self.random.fraction();
        self.hold(self.search.hold_s * spread);
        self.search.hold_s = (self.search.hold_s * 1.5).min(Search::HOLD_MAX_S);
    }

    /// Handles a pair in which no client waited at either limit, so it taught nothing about them.
    fn conclude_unused(&mut self, in_use: f64) {
        self.hold(UNUSED_HOLD_S);
        if self.settings.mode == Mode::Advise {
            return;
        }
        if self.is_worth_probing(in_use) {
            // The next pair is centred on the servers in use, so that its lower limit binds.
            let to = servers(in_use).max(self.size / 2).max(1).min(self.size);
            self.hold(0.0);
            self.move_to(
                to,
                Cause::Unused,
                format!("nobody waits: {in_use:.0} servers are in use"),
            );
        } else {
            self.follow_demand();
        }
    }

    /// Keeps the limit of a pool without waiters near the demand, or near the size that experiments have found good. A
    /// limit that is not known to be good must not let a burst overrun the database.
    fn follow_demand(&mut self) {
        let peak = self.pace.peak();
        let enough = servers(UNUSED_FACTOR * (peak + UNUSED_SPARE))
            .max(self.size / 2)
            .max(self.proven);
        if enough < self.size && self.settings.mode == Mode::On {
            let reason = format!("nobody waits: at most {peak:.0} clients wanted a server lately");
            self.move_to(enough, Cause::Unused, reason);
        }
    }

    /// Handles a load change. Pauses between searches keep an unsteady load from holding the search at its coarsest.
    fn note_shift(&mut self) {
        if self.now_s - self.shifted_s >= SHIFT_PAUSE_S {
            self.shifted_s = self.now_s;
            self.search_again("the load has changed");
        } else {
            self.hold(Search::HOLD_MIN_S);
        }
    }

    fn search_again(&mut self, why: &str) {
        self.counts.shifts += 1;
        self.note(self.size, Cause::Shift, format!("{why}: searching again"));
        self.search = Search::ramp();
        self.hold(0.0);
    }

    // === small steps ===

    /// Starts a hold of this length.
    pub(super) fn hold(&mut self, seconds: f64) {
        self.stage = Stage::Hold(Hold::until(self.now_s + seconds));
    }

    /// Discards the experiment in progress.
    pub(super) fn abandon(&mut self) {
        self.hold(0.0);
    }

    pub(super) fn move_to(&mut self, size: u32, cause: Cause, reason: String) {
        let floor = self.variability_floor().min(self.size);
        let least = if cause == Cause::Experiment { floor } else { 0 };
        let size = size
            .max(least)
            .clamp(self.settings.size_min, self.settings.size_max);
        self.note(size, cause, reason);
        self.size = size;
        if cause == Cause::Experiment {
            self.proven = size;
        }
    }

    pub(super) fn note(&mut self, to: u32, cause: Cause, reason: String) {
        let at = self.began.unwrap_or_default() + std::time::Duration::from_secs_f64(self.now_s);
        self.entries += 1;
        self.journal.push(Entry {
            at,
            from: self.size,
            to,
            cause,
            reason,
        });
    }
}

/// Returns the elasticity above which more servers pay, and the one below which fewer do.
///
/// Fewer servers must not cost more throughput than the finest step of the search would, even if whole numbers of
/// servers make steps coarse.
fn goals(goal: f64, (low, high): (u32, u32)) -> (f64, f64) {
    let spread = (f64::from(high) / f64::from(low)).ln();
    let fine = 2.0 * Search::RATIO_MIN.ln();
    let is_finest = high - low <= FINEST;
    let fewer = if is_finest {
        goal * (fine / spread).min(1.0)
    } else {
        goal
    };
    (goal, fewer)
}

fn judge(elasticity: Elasticity, pairs: usize, (more, fewer): (f64, f64)) -> Verdict {
    let Elasticity { value, error } = elasticity;
    let sure = SURE * error * (error / OFF_GOAL).hypot(1.0);
    if value - sure > more {
        Verdict::Up
    } else if value + sure < fewer {
        Verdict::Down
    } else if pairs < PAIRS_MAX {
        Verdict::More
    } else if value > more + SPARE.max(error) {
        Verdict::Up
    } else if value < fewer - SPARE.max(error) {
        Verdict::Down
    } else {
        Verdict::Stay
    }
}

fn words(elasticity: Elasticity, goal: f64, pairs: usize, completions: u64) -> String {
    let Elasticity { value, error } = elasticity;
    let noun = if pairs == 1 { "pair" } else { "pairs" };
    format!(
        "elasticity {value:.2} ± {error:.2} (goal {goal:.2}) over {pairs} {noun}, {completions} transactions"
    )
}
