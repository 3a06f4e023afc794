//! Runs conversations through the session against a model of PostgreSQL. A client must get through Weir, byte for byte,
//! what it would get directly.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that panics has failed, which is what it is for"
)]

#[path = "session/abandon.rs"]
mod abandon;
#[path = "session/changes.rs"]
mod changes;
#[path = "session/conversations.rs"]
mod conversations;
#[path = "session/fence.rs"]
mod fence;
#[path = "session/hostile.rs"]
mod hostile;
#[path = "session/pooler.rs"]
mod pooler;
#[path = "session/prepared.rs"]
mod prepared;
#[path = "session/properties.rs"]
mod properties;
#[path = "session/returns.rs"]
mod returns;
#[path = "session/streamed.rs"]
mod streamed;
#[path = "session/types.rs"]
mod types;
