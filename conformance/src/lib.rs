//! Helpers that start real PostgreSQL servers, Weir and clients for the suites in `tests/`.
//!
//! Every suite runs the same steps against a [`Target`]: PostgreSQL itself (`CONFORMANCE_TARGET=direct`, which
//! validates the suite), Debian's PgBouncer (`pgbouncer`, for comparison) or Weir (`weir`, the default). A missing
//! tool is a failure that names its Debian package; no test is skipped silently.

#![allow(
    clippy::print_stderr,
    reason = "test output: a failing suite has to show the logs of the processes it started"
)]

pub mod answer;
pub mod auto_failover;
pub mod browser;
pub mod child;
pub mod clock;
pub mod cluster;
pub mod drill;
pub mod drivers;
pub mod faulty;
pub mod frontend;
pub mod hosts;
pub mod http;
pub mod ini;
pub mod login;
pub mod names;
pub mod nameserver;
mod orphans;
pub mod pam;
pub mod patroni;
pub mod postgres;
pub mod postgres18;
mod postmaster;
pub mod process;
pub mod psql;
pub mod random;
pub mod raw;
pub mod repmgr;
pub mod scripted;
pub mod slapd;
pub mod target;
pub mod tempdir;
pub mod tls;
pub mod tmux;
pub mod tools;
pub mod weir;

pub use auto_failover::AutoFailover;
pub use clock::SOON;
pub use clock::wait_until;
pub use cluster::Cluster;
pub use faulty::Fault;
pub use faulty::Faulty;
pub use hosts::Hosts;
pub use ini::PoolOptions;
pub use names::Names;
pub use patroni::Patroni;
pub use postgres::Postgres;
pub use postgres18::Postgres18;
pub use raw::Raw;
pub use repmgr::Repmgr;
pub use target::Kind;
pub use target::Target;
pub use target::weir_bin;
pub use tempdir::TempDir;
pub use weir::Config;
pub use weir::Weir;
