//! Prepared statements: their identity across clients and servers, the unnamed one, and texts that drop them.

pub(crate) mod sql;
pub mod statement;
pub(crate) mod unnamed;
