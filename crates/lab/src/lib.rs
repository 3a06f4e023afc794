//! The benchmark lab: workloads, load generator, competitor runners, statistics and report.
//!
//! What the crate must never do: report a figure that was not measured, or hide one that was.

pub mod compare;
pub mod load;
pub mod null;
pub mod record;
pub mod report;
pub mod statistics;
