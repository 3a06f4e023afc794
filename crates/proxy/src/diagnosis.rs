//! Types of the diagnosis, for whoever notes events or asks for the history.

pub use weir_diagnosis::Series;
pub use weir_stats::EventKind;
