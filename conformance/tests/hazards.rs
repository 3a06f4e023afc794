//! Known hazards of poolers, one test each: hostile input, hostile servers, and failures between the two.
//!
//! Tests are named by the hazard's number. `SEC` hazards are attacks, `COR` hazards happen to honest users. The
//! subject is always Weir's binary. Limits on time, processor time and memory are generous, because the machine may
//! be busy and the binary may be a debug build.

#[path = "hazards/abandoned.rs"]
mod abandoned;
#[path = "hazards/cancel.rs"]
mod cancel;
#[path = "hazards/console.rs"]
mod console;
#[path = "hazards/framing.rs"]
mod framing;
#[path = "hazards/goodbye.rs"]
mod goodbye;
#[path = "hazards/hostile_server.rs"]
mod hostile_server;
#[path = "hazards/lengths.rs"]
mod lengths;
#[path = "hazards/login.rs"]
mod login;
#[path = "hazards/resources.rs"]
mod resources;
#[path = "hazards/server_loss.rs"]
mod server_loss;
#[path = "hazards/startup.rs"]
mod startup;
#[path = "hazards/support.rs"]
mod support;
#[path = "hazards/unbelieved.rs"]
mod unbelieved;
#[path = "hazards/waiting.rs"]
mod waiting;
