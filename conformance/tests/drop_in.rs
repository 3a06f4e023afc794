//! Weir in PgBouncer's place: behaviour that users of PgBouncer would miss. Debian's PgBouncer 1.18 is asked as well where
//! it has the feature; PostgreSQL is asked where Weir says what PostgreSQL says.

#[path = "drop_in/compat.rs"]
mod compat;
#[path = "drop_in/files.rs"]
mod files;
#[path = "drop_in/limits.rs"]
mod limits;
#[path = "drop_in/log.rs"]
mod log;
#[path = "drop_in/logins.rs"]
mod logins;
#[path = "drop_in/pools.rs"]
mod pools;
#[path = "drop_in/probes.rs"]
mod probes;
#[path = "drop_in/processes.rs"]
mod processes;
#[path = "drop_in/support.rs"]
mod support;
#[path = "drop_in/unreachable.rs"]
mod unreachable;
