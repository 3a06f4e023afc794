//! The administration console of Weir's binary, with two workers, against real PostgreSQL: what commands do to clients,
//! who may use it, what monitoring reads, and that every driver can.

#[path = "console/access.rs"]
mod access;
#[path = "console/commands.rs"]
mod commands;
#[path = "console/drivers.rs"]
mod drivers;
#[path = "console/monitoring.rs"]
mod monitoring;
#[path = "console/support.rs"]
mod support;
#[path = "console/transcript.rs"]
mod transcript;
