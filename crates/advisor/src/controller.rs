//! Controller of a pool that finds its own size: it A/B-tests the limit on assigned servers, within rails.
//!
//! ```text
//!            ramp, ratio 2                    direction changes
//!   start -----------------> [ experiment ] -------------------> [ experiment ], finer ratio
//!                              ^        |                          ^        |
//!     load shifts, or a queue  |        | moves                    | due    | knee found,
//!     where there was none     |        v                          |        v  or cannot tell
//!                            [ hold 0 s ]                         [ hold 4 to 20 s ]
//!
//!   experiment: pairs of blocks low, high, high, low, ...   block: settle, then measure
//!   rails, at every tick and above all of this: stall valve, cut on errors, freeze, bounds
//! ```
//!
//! The controller moves the number of servers that may be **assigned**, not the number that are open. A smaller limit
//! takes no server away, it only assigns none, so trying it costs no connection and no transaction.
//! `docs/internals/pool-size.md` has the details, and a table of the results in simulation.

mod block;
mod decide;
mod estimate;
mod experiment;
mod hold;
mod journal;
mod obey;
mod observation;
mod pace;
mod rails;
mod settings;
mod side;
mod turns;

use std::time::Duration;

use crate::random::Random;
use experiment::Experiment;
use hold::Hold;
use pace::Pace;
use rails::{Budget, Ceiling, Freeze, StallValve};

pub use estimate::Elasticity;
pub use journal::{Cause, Entry, Journal};
pub use observation::{CLASSES, ClassTotals, Errors, Holds, Observation, Stillness, Totals};
pub use settings::{Goal, Mode, Settings};
pub use turns::{PoolId, Turns};

/// Instructions to the pool until the next tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// Maximum number of assigned servers, including pinned ones. If fewer than now: assign no more, but never take one
    /// away.
    pub limit: u32,
    /// A transaction that has its server for longer than this counts as pinned.
    pub pin_after: Duration,
    /// Expected gain while the controller tries other sizes or wants to, for [`Turns::ask`].
    pub wants_turn: Option<f64>,
    /// Number of journal entries added by this tick; they are the last ones.
    pub entries: u32,
}

impl Decision {
    /// Returns the decision of a pool without a controller.
    pub const fn still(limit: u32) -> Self {
        Self {
            limit,
            pin_after: Duration::MAX,
            wants_turn: None,
            entries: 0,
        }
    }
}

/// Activity of the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Keeps the size, for the reason in [`Status::frozen`].
    Frozen,
    /// Keeps the size until the next experiment.
    Holding,
    /// Mode off.
    Off,
    /// Compares sizes near the knee.
    Probing,
    /// Is on its way to the knee.
    Ramping,
}

/// State of the controller, for `SHOW POOL_SIZE`.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Activity of the controller.
    pub phase: Phase,
    /// Reason for which it is frozen.
    pub frozen: Option<&'static str>,
    /// Size that the controller holds, or recommends in mode advise.
    pub size: u32,
    /// The limit in force, which an experiment may have moved, with room for pinned servers.
    pub limit: u32,
    /// Sizes between which the knee lies, as far as experiments have shown: growing still paid at the first and did not
    /// at the second.
    pub knee: Option<(u32, u32)>,
    /// Result of the last experiment.
    pub elasticity: Option<Elasticity>,
    /// Counts of rails and other events.
    pub counts: Counts,
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Pairs of blocks.
    pub pairs: u64,
    /// Experiments that ended with another size.
    pub moves: u64,
    /// Openings of the stall valve.
    pub stalls: u64,
    /// Cuts after hard errors.
    pub cuts: u64,
    /// Number of times that the controller froze.
    pub freezes: u64,
    /// Number of load changes noticed.
    pub shifts: u64,
    /// Holds that lasted longer because the probe budget was spent.
    pub overspent: u64,
}

#[derive(Debug, Clone)]
enum Stage {
    Experiment(Box<Experiment>),
    Hold(Hold),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Down,
    Up,
}

/// State of the search: distance and direction.
#[derive(Debug, Clone, Copy)]
struct Search {
    /// The tried limits are the size divided by and multiplied by this.
    ratio: f64,
    is_ramping: bool,
    last: Option<Direction>,
    /// The last experiment favoured a size beyond the bounds.
    is_at_bound: bool,
    /// Length of the next hold.
    hold_s: f64,
}

impl Search {
    const RATIO_MAX: f64 = 2.0;
    const RATIO_MIN: f64 = 1.15;
    /// At this ratio a change of direction means that the knee is found.
    const RATIO_FINE: f64 = 1.3;
    const HOLD_MIN_S: f64 = 4.0;
    const HOLD_MAX_S: f64 = 20.0;

    const fn ramp() -> Self {
        Self {
            ratio: Self::RATIO_MAX,
            is_ramping: true,
            last: None,
            is_at_bound: false,
            hold_s: Self::HOLD_MIN_S,
        }
    }
}

/// The state machine of one pool.
#[derive(Debug, Clone)]
pub struct Controller {
    settings: Settings,
    random: Random,
    began: Option<Duration>,
    /// Seconds of the previous observation, since `began`.
    now_s: f64,
    totals: Box<Totals>,
    size: u32,
    limit: u32,
    /// Servers allowed beside the limit, for pinned ones.
    room: u32,
    stage: Stage,
    search: Search,
    estimator: estimate::Estimator,
    usual: hold::Usual,
    pace: Pace,
    valve: StallValve,
    ceiling: Ceiling,
    freeze: Freeze,
    budget: Budget,
    journal: Journal,
    entries: u32,
    counts: Counts,
    elasticity: Option<Elasticity>,
    /// The last size that an experiment chose; 0 if none did.
    proven: u32,
    /// When the load last changed.
    shifted_s: f64,
    /// Share of the held time of long transactions in the last pair.
    long_share: f64,
    /// Few transactions held most of the servers in the last pair.
    is_heavy_tailed: bool,
    /// Size at which growing paid lately; `pays_not_at` is the one at which it did not.
    pays_at: Option<u32>,
    pays_not_at: Option<u32>,
}

impl Controller {
    /// Creates a controller that begins at `settings.size`. The seed determines the order of limits in a pair, and
    /// spreads the experiments of many pools.
    pub fn new(settings: Settings, seed: u64) -> Self {
        let settings = settings.in_range();
        Self {
            settings,
            random: Random::new(seed),
            began: None,
            now_s: 0.0,
            totals: Box::default(),
            size: settings.size,
            limit: settings.size,
            room: 0,
            stage: Stage::Hold(Hold::until(0.0)),
            search: Search::ramp(),
            estimator: estimate::Estimator::default(),
            usual: hold::Usual::default(),
            pace: Pace::default(),
            valve: StallValve::default(),
            ceiling: Ceiling::default(),
            freeze: Freeze::default(),
            budget: Budget::default(),
            journal: Journal::default(),
            entries: 0,
            counts: Counts::default(),
            elasticity: None,
            proven: 0,
            shifted_s: f64::NEG_INFINITY,
            long_share: 0.0,
            is_heavy_tailed: false,
            pays_at: None,
            pays_not_at: None,
        }
    }

    // === commands ===

    /// Applies other bounds, goal or mode. Keeps the size found as far as they allow it.
    pub fn configure(&mut self, settings: Settings) {
        let settings = settings.in_range();
        let is_restart = settings.mode != self.settings.mode || settings.size != self.settings.size;
        if self.settings.mode == Mode::Off {
            // Counts of the meantime were not observed.
            self.began = None;
            self.now_s = 0.0;
            self.shifted_s = f64::NEG_INFINITY;
        }
        self.settings = settings;
        let size = if is_restart { settings.size } else { self.size };
        self.abandon();
        self.move_to(size, Cause::Settings, "the settings changed".to_owned());
        self.search = Search::ramp();
    }

    /// Processes one observation of the pool, every 50 ms.
    pub fn tick(&mut self, seen: &Observation) -> Decision {
        self.entries = 0;
        if self.settings.mode == Mode::Off {
            self.limit = self.settings.size;
            return Decision {
                entries: self.entries,
                ..Decision::still(self.limit)
            };
        }
        let Some(began) = self.began else {
            self.begin(seen);
            return self.decision(seen);
        };
        let now_s = seen.now.saturating_sub(began).as_secs_f64();
        let passed_s = (now_s - self.now_s).max(0.0);
        self.now_s = now_s;
        let demand = f64::from(seen.in_use.saturating_sub(seen.pinned)) + f64::from(seen.waiting);
        self.pace.note(passed_s, &self.totals, &seen.totals, demand);
        self.budget.refill(passed_s);
        let has_completed = seen.totals.completions > self.totals.completions;
        self.totals.as_mut().clone_from(&seen.totals);
        self.obey_rails(passed_s, seen, has_completed);
        if self.freeze.reason.is_none() {
            self.advance(seen);
        } else if seen.stillness.is_none() {
            self.watch(seen);
        }
        self.decision(seen)
    }

    // === getters ===

    /// Returns the last decisions with their reasons.
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the state of the controller.
    pub fn status(&self) -> Status {
        let phase = match &self.stage {
            _ if self.settings.mode == Mode::Off => Phase::Off,
            _ if self.freeze.reason.is_some() => Phase::Frozen,
            Stage::Hold(_) => Phase::Holding,
            Stage::Experiment(_) if self.search.is_ramping => Phase::Ramping,
            Stage::Experiment(_) => Phase::Probing,
        };
        let knee = self.pays_at.zip(self.pays_not_at);
        Status {
            phase,
            frozen: self.freeze.reason,
            size: self.size,
            limit: self.limit,
            knee: knee.map(|(low, high)| (low.min(high), high.max(low))),
            elasticity: self.elasticity,
            counts: self.counts,
        }
    }

    /// The settings in force, brought into their range.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    // === private ===

    fn begin(&mut self, seen: &Observation) {
        self.began = Some(seen.now);
        self.totals.as_mut().clone_from(&seen.totals);
        self.ceiling = Ceiling::since(seen.totals.errors);
        self.freeze = Freeze::since(seen.totals.queue_timeouts);
    }

    fn decision(&mut self, seen: &Observation) -> Decision {
        let limit = match &self.stage {
            Stage::Experiment(experiment) => experiment.limit(),
            Stage::Hold(_) if self.settings.mode == Mode::Advise => self.settings.size,
            Stage::Hold(_) => self.size,
        };
        self.room = seen.pinned.min(self.settings.size_max / 4);
        let (least, most) = self.limits_allowed();
        self.limit = limit
            .clamp(least, most)
            .saturating_add(self.room)
            .clamp(self.settings.size_min, self.settings.size_max);
        Decision {
            limit: self.limit,
            pin_after: self.pace.pin_after(),
            wants_turn: self.wants_turn(),
            entries: self.entries,
        }
    }

    fn wants_turn(&self) -> Option<f64> {
        let worth = self
            .elasticity
            .map_or(1.0, |elasticity| elasticity.value.abs());
        match &self.stage {
            _ if self.freeze.reason.is_some() => None,
            Stage::Experiment(_) => Some(worth),
            Stage::Hold(_) => self.is_due().then_some(worth),
        }
    }
}
