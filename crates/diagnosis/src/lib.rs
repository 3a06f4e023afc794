//! Diagnosis: snapshots in; conditions with advice, events, peaks and history out.
//!
//! A [`Watch`] is given one [`Snapshot`](weir_stats::Snapshot) a second and tells which conditions hold: evidence in
//! figures, the cause, and a command that helps. [`CONDITIONS`] is the table of all conditions, and
//! [`reference_markdown`] the page that is made from it. There is no input or output here, no clock and no thread.
//!
//! ```
//! use weir_diagnosis::{Change, Watch};
//! use weir_stats::{FailedReload, Severity, Snapshot};
//!
//! let mut watch = Watch::new();
//! let error = "weir.toml:7: unknown option `pool_sise`".to_owned();
//! let snapshot = Snapshot {
//!     unix: 1_795_000_000,
//!     failed_reload: Some(FailedReload { at: 1_794_999_999, error }),
//!     ..Snapshot::default()
//! };
//! let changes = watch.observe(&snapshot);
//! let [Change::Began(row)] = changes.as_slice() else { panic!("{changes:?}") };
//! assert_eq!(row.condition, "reload_failed");
//! assert_eq!(watch.worst(), Some(Severity::Warning));
//! ```
//!
//! # Time
//!
//! The only time is `Snapshot::unix`. Conditions count samples; rates know the seconds that their samples cover. A gap
//! of more than ten seconds, or a clock that was set back, empties the windows and lets rows of samples begin anew;
//! conditions that hold go on.
//!
//! # Memory
//!
//! | part | bound | bytes, at most |
//! |---|---|---|
//! | windows | 1024 pools, 512 applications, 256 hosts, 1024 codes, 1024 workers | 7 MB |
//! | conditions | 100 objects each | 6 MB, in practice some KB |
//! | events | 500, texts of 1 KiB | 0.6 MB |
//! | peaks | 256 limits | 0.3 MB |
//! | history | the process and 50 pools | 15.9 MB |
//!
//! Pools beyond the bound of the windows are judged by their present figures only: conditions that need a rate do not
//! see them. If a condition is found on more than a hundred objects, the first by name are kept.
//!
//! # Cost
//!
//! On one core of a small virtual machine, an observation takes 0.08 ms with 200 calm pools, 0.31 ms if 50 of them have a
//! condition (medians of `cargo run --release -p weir-diagnosis --example observe_cost`).
//!
//! # Missing conditions
//!
//! There is no condition for a slow or failing `auth_query`, for lack of data. Its pool is judged as any other.
//! Several know less than the plan wants: failed logins of clients have no addresses, errors no host, cancel requests no
//! host, and servers that were lost no reason, because snapshots have none.

mod conditions;
mod events;
mod facts;
#[cfg(test)]
mod fixture;
mod history;
mod pace;
mod peaks;
mod reference;
mod text;
mod watch;
mod windows;

pub use conditions::{CONDITIONS, Condition};
pub use history::{Line, Series};
pub use peaks::{Peak, PeakPair, Peaks};
pub use reference::reference_markdown;
pub use watch::{Change, Watch};
