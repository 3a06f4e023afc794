//! Counters and snapshots as plain structs: workers fill them, the console and the metrics page show them.
//!
//! This crate has no output format and no clock. Each worker counts in its own [`Counters`] and describes itself
//! in a [`Snapshot`]; [`Snapshot::merge`] combines the snapshots of several workers.
//!
//! ```
//! use weir_stats::{Counters, Snapshot};
//!
//! let mut one = Snapshot::default();
//! one.databases.entry("app".to_owned()).or_default().totals.queries = 3;
//! let mut two = Snapshot::default();
//! two.databases.entry("app".to_owned()).or_default().totals.queries = 4;
//! one.merge(two);
//! assert_eq!(one.databases["app"].totals.queries, 7);
//! ```

mod activity;
mod counters;
mod digests;
mod driver;
mod histogram;
mod mirrors;
mod routed;
mod rows;
mod statements;

pub use activity::{
    Activity, ApplicationKey, ApplicationRow, ClientCounters, ConditionRow, Draining, EventKind,
    EventRow, FailedReload, HolderRow, HostLogins, PoolActivity, Severity, WaitReason,
};
pub use counters::{Averages, Counters};
pub use digests::{
    Digest, DigestFigures, DigestKey, DigestName, DigestRow, DigestRows, Digests, Ended,
};
pub use driver::{DriverInUse, DriverName};
pub use histogram::{Histogram, Percentiles, Times};
pub use mirrors::{MirrorCounts, MirrorRow, MirrorStatementRow};
pub use routed::{HostCounters, RouteCounts, RouteKey, RuleCounts, RuleRow};
pub use rows::{
    Blame, Buffers, ClientRow, ClientState, DatabaseHostRow, Endpoint, Halts, HostRow, LimitRow,
    MemoryRow, PausedWrites, Peak, PeerRow, PoolCounts, PoolPercentiles, PoolRow, ProcessRow,
    ServerRow, ServerState, SizingDecision, SizingRow, Snapshot, TlsRow, Totals, WorkerRow,
};
pub use statements::{StatementCounts, StatementRow};
