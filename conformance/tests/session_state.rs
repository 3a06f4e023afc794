//! Session state in transaction mode: what a client has set up is its own, stays its own, and is seen by nobody else.
//!
//! Each script (`session_state/kinds`) is played by clients A and B first at PostgreSQL, with connections of their own,
//! then at the target, with one server for both where the state follows its client and two where it pins; in the simple
//! protocol, with unnamed and with named statements; and once more with every server replaced before each step (in one of
//! the protocols; `SESSION_STATE_ALL=1` in all of them). Every answer, every reported setting and every SQLSTATE has to be
//! the same, and no server may keep anything.
//!
//! `SESSION_STATE_ONLY=text` plays only the scripts whose name holds it. `SESSION_STATE_SEED` repeats a run of the random
//! programs, `SESSION_STATE_SECONDS` (default 15) says how long the crowd is at work: 120 for the whole test.

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
