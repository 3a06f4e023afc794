//! Counters and snapshots as plain structs: what workers count, and what a console or a metrics page shows.
//!
//! No output format and no clock in here. Each worker counts for itself in [`Counters`] and describes itself in a
//! [`Snapshot`]; [`Snapshot::merge`] makes one of several.
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

mod counters;
mod histogram;
mod rows;

pub use counters::{Averages, Counters};
pub use histogram::{Histogram, Percentiles, Times};
pub use rows::{
    Blame, Buffers, ClientRow, ClientState, Endpoint, Halts, HostRow, LimitRow, MemoryRow, PeerRow,
    PoolCounts, PoolPercentiles, PoolRow, ProcessRow, ServerRow, ServerState, SizingRow, Snapshot,
    TlsRow, Totals, WorkerRow,
};
