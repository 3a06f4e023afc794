//! Pool sizing: from observations to a recommendation and its reasons.
//!
//! Pure: time, randomness and figures are arguments. The crate must never read a clock or a socket.
//!
//! There are two halves. [`analysis`] takes measurements of a lab (throughput and latency at several numbers of
//! connections, and wait events) and gives one answer: [`Analysis::of`](analysis::Analysis::of). [`controller`] runs in
//! a working pool, tries sizes and keeps the best: [`Controller::tick`](controller::Controller::tick).
//!
//! ```
//! use weir_advisor::analysis::{Analysis, Answer, Kind, Machine, Point, Sweep};
//! use weir_advisor::controller::Goal;
//!
//! // Connections, transactions per second, mean latency in seconds.
//! let rows = [
//!     (2, 356.81, 0.005605),
//!     (4, 676.74, 0.005908),
//!     (8, 1357.28, 0.005891),
//!     (16, 2204.81, 0.007248),
//!     (32, 2421.58, 0.013197),
//! ];
//! let points = rows.map(|(connections, tps, latency_s)| Point::new(connections, tps, latency_s));
//! let sweep = Sweep::new(Kind::Connections, points.to_vec())?;
//! let machine = Machine { cores: 2, spindles: 0 };
//! let analysis = Analysis::of(&sweep, machine, Goal::Balanced, 42);
//! match analysis.answer {
//!     Answer::Recommended(recommended) => assert_eq!(recommended.connections, 16),
//!     Answer::Refused(refusal) => panic!("{refusal}"),
//! }
//! # Ok::<(), weir_advisor::analysis::SweepError>(())
//! ```
//!
//! The controller gets totals and gauges every 50 ms and returns the limit that is now in force:
//!
//! ```
//! use std::time::Duration;
//! use weir_advisor::controller::{Controller, Observation, Settings};
//!
//! let mut controller = Controller::new(Settings { size: 8, ..Settings::default() }, 42);
//! let mut seen = Observation { has_turn: true, in_use: 8, waiting: 30, ..Observation::default() };
//! for _ in 0..20 {
//!     seen.now += Duration::from_millis(50);
//!     seen.totals.record(0, Duration::from_millis(3));
//!     seen.totals.in_use_s += 8.0 * 0.05;
//!     seen.totals.waiting_s += 30.0 * 0.05;
//!     let decision = controller.tick(&seen);
//!     assert_eq!(decision.limit, 8, "nothing is tried in the first five seconds");
//! }
//! let last = controller.journal().last().map(ToString::to_string);
//! assert_eq!(last.as_deref(), Some("stays 8: keeps still: the pool has just started"));
//! ```

pub mod analysis;
pub mod controller;
pub mod random;
mod rounding;
