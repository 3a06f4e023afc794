//! Weir in operation, with two workers, against real PostgreSQL: addresses, limits, time limits, pool modes, settings
//! that follow a client, reload, stop, console, fairness.
//!
//! The subject is always Weir's binary. Events on the server are read from `pg_stat_activity`, where each test has a
//! database of its own.

#[path = "operation/console.rs"]
mod console;
#[path = "operation/errors.rs"]
mod errors;
#[path = "operation/fairness.rs"]
mod fairness;
#[path = "operation/haproxy.rs"]
mod haproxy;
#[path = "operation/hosts.rs"]
mod hosts;
#[path = "operation/killed.rs"]
mod killed;
#[path = "operation/lifetimes.rs"]
mod lifetimes;
#[path = "operation/limits.rs"]
mod limits;
#[path = "operation/listen.rs"]
mod listen;
#[path = "operation/listeners.rs"]
mod listeners;
#[path = "operation/logging.rs"]
mod logging;
#[path = "operation/modes.rs"]
mod modes;
#[path = "operation/outliving.rs"]
mod outliving;
#[path = "operation/peers.rs"]
mod peers;
#[path = "operation/pools.rs"]
mod pools;
#[path = "operation/reload.rs"]
mod reload;
#[path = "operation/reload_random.rs"]
mod reload_random;
#[path = "operation/restart.rs"]
mod restart;
#[path = "operation/roles.rs"]
mod roles;
#[path = "operation/sequences.rs"]
mod sequences;
#[path = "operation/settings.rs"]
mod settings;
#[path = "operation/sizing.rs"]
mod sizing;
#[path = "operation/stopping.rs"]
mod stopping;
#[path = "operation/support.rs"]
mod support;
#[path = "operation/timeouts.rs"]
mod timeouts;
#[path = "operation/upgrade.rs"]
mod upgrade;
#[path = "operation/upgrade_orders.rs"]
mod upgrade_orders;
#[path = "operation/upgrade_stay.rs"]
mod upgrade_stay;
