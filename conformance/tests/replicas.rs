//! Replicas: a real primary with streaming replicas and their faults, and Weir in front of them.

#[path = "replicas/checks.rs"]
mod checks;
#[path = "replicas/conflicts.rs"]
mod conflicts;
#[path = "replicas/consistency.rs"]
mod consistency;
#[path = "replicas/drivers.rs"]
mod drivers;
#[path = "replicas/failover.rs"]
mod failover;
#[path = "replicas/fixture.rs"]
mod fixture;
#[path = "replicas/functions.rs"]
mod functions;
#[path = "replicas/guard.rs"]
mod guard;
#[path = "replicas/health.rs"]
mod health;
#[path = "replicas/hints.rs"]
mod hints;
#[path = "replicas/latency.rs"]
mod latency;
#[path = "replicas/lost.rs"]
mod lost;
#[path = "replicas/names.rs"]
mod names;
#[path = "replicas/seeing.rs"]
mod seeing;
#[path = "replicas/session.rs"]
mod session;
#[path = "replicas/support.rs"]
mod support;
#[path = "replicas/targets.rs"]
mod targets;
#[path = "replicas/tokens.rs"]
mod tokens;
#[path = "replicas/transactions.rs"]
mod transactions;
#[path = "replicas/two_primaries.rs"]
mod two_primaries;
#[path = "replicas/until_write.rs"]
mod until_write;
