//! PostgreSQL's own load generator.

pub mod log;
