//! Finds the right number of connections for a database: by a series of connection counts under load, or by
//! watching a live system.
//!
//! [`run()`] and [`watch()`] measure into a directory, [`Finding::read`] has [`weir_advisor::analysis`] evaluate
//! it, and [`write()`] makes the report. The module never extrapolates, and never alters data that it did not
//! create.

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
