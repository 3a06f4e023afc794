//! Building blocks for measuring: throw-away servers, a load, CPU accounting, statistics, tables.
//! They know nothing of the demo or of a particular bench, and never print on their own.

pub(crate) mod access;
pub(crate) mod certificates;
pub(crate) mod client;
pub(crate) mod clock;
pub(crate) mod cpu;
pub(crate) mod environment;
pub(crate) mod interrupt;
pub(crate) mod memory;
pub(crate) mod negotiated;
pub(crate) mod pgbench;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod scram;
pub(crate) mod statistics;
pub(crate) mod table;
pub(crate) mod target;
