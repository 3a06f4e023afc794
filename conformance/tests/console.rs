//! Console of Weir's binary, with two workers, against real PostgreSQL: effects of commands on clients, roles,
//! queries of monitoring tools, and use by every driver.

#[path = "console/access.rs"]
mod access;
#[path = "console/commands.rs"]
mod commands;
#[path = "console/diagnosis.rs"]
mod diagnosis;
#[path = "console/drivers.rs"]
mod drivers;
#[path = "console/monitoring.rs"]
mod monitoring;
#[path = "console/support.rs"]
mod support;
#[path = "console/transcript.rs"]
mod transcript;
#[path = "console/waits.rs"]
mod waits;
