//! Session state in transaction mode: the state that a client has set up stays, and no other client sees it.
//!
//! Clients A and B run each script (`session_state/kinds`) first on PostgreSQL, with connections of their own, then
//! on the target. There they have one server if the state follows its client, and two if it pins. Each script runs in
//! the simple protocol, with unnamed and with named statements. It runs once more with every server replaced before
//! each step, in one of the protocols (`SESSION_STATE_ALL=1`: in all of them). Every answer, every reported setting
//! and every SQLSTATE must be equal, and no server may keep any state.
//!
//! `SESSION_STATE_ONLY=text` runs only the scripts whose name contains the text. `SESSION_STATE_SEED` repeats a run
//! of the random programs, `SESSION_STATE_SECONDS` (default 15) sets the duration of the crowd test: 120 for the
//! whole test.

#[path = "session_state/crowd.rs"]
mod crowd;
#[path = "session_state/kinds/cursors.rs"]
mod cursors;
#[path = "session_state/kinds/discard.rs"]
mod discard;
#[path = "session_state/kinds/functions.rs"]
mod functions;
#[path = "session_state/kinds/hidden.rs"]
mod hidden;
#[path = "session_state/kinds/listed.rs"]
mod listed;
#[path = "session_state/kinds/locks.rs"]
mod locks;
#[path = "session_state/member.rs"]
mod member;
#[path = "session_state/kinds/notifications.rs"]
mod notifications;
#[path = "session_state/pins.rs"]
mod pins;
#[path = "session_state/kinds/planning.rs"]
mod planning;
#[path = "session_state/program.rs"]
mod program;
#[path = "session_state/programs.rs"]
mod programs;
#[path = "session_state/kinds/roles.rs"]
mod roles;
#[path = "session_state/script.rs"]
mod script;
#[path = "session_state/session.rs"]
mod session;
#[path = "session_state/kinds/settings.rs"]
mod settings;
#[path = "session_state/kinds/startup.rs"]
mod startup;
#[path = "session_state/kinds/statements.rs"]
mod statements;
#[path = "session_state/kinds/temporary.rs"]
mod temporary;
#[path = "session_state/kinds/tenants.rs"]
mod tenants;
#[path = "session_state/kinds/transactions.rs"]
mod transactions;
#[path = "session_state/world.rs"]
mod world;
