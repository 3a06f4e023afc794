//! How many connections a database is worth: a series of connection counts under load, or a look at a live system, and
//! what comes out of it.
//!
//! [`run()`] and [`watch()`] measure into a directory, [`Finding::read`] asks [`weir_advisor::analysis`] what that
//! means, [`write()`] makes the report. What it must never do: extrapolate, or alter data that it did not make.

pub mod finding;
mod ground;
pub mod load;
mod options;
mod plan;
mod report;
mod run;
mod site;
mod watch;

pub use weir_advisor::controller::Goal;

pub use self::finding::Finding;
pub use self::options::{Options, Path, Preset, Profile, Workload};
pub use self::report::{Files, rendered, write};
pub use self::run::{Finished, run};
pub use self::watch::{Look, watch};
