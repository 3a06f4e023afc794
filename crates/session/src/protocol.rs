//! The protocol: how both sides begin, what passes between them, whose a reply is, and what an error says.

pub mod client;
pub mod counted;
pub mod expected;
pub mod fault;
#[cfg(test)]
pub(crate) mod fixture;
pub mod hello;
pub mod login;
pub mod mirrored;
pub mod relay;
pub(crate) mod repeat;
pub mod ruled;
pub mod server;
pub mod splice;
pub mod walsender;
pub mod watched;
