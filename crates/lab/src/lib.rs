//! The benchmark lab: workloads, load generator, competitor runners, statistics and report.
//!
//! The crate never reports a figure that was not measured, and never hides one that was.

pub mod access;
pub mod certificates;
pub mod clock;
pub mod collector;
pub mod compare;
pub mod environment;
pub mod error;
pub mod experiment;
pub mod generator;
pub mod interrupt;
pub mod load;
pub mod load_process;
pub mod meter;
pub mod null;
pub mod pgbench;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod record;
pub mod report;
pub mod run;
pub mod scram;
pub mod statistics;
pub mod table;
pub mod target;
pub mod template;
pub mod tune;
pub mod wallet;
pub mod weir;
