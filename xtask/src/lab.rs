//! Building blocks for the benches here that the lab (`weir-lab`) does not have. They know nothing of the demo or of a
//! particular bench, and never print on their own.

pub(crate) mod client;
pub(crate) mod environment;
pub(crate) mod pgbench;
pub(crate) mod statistics;
pub(crate) mod table;
pub(crate) mod target;
