//! Emulation of a session that moves between servers: state that follows its client, and state that keeps it on one.

pub mod channels;
pub mod custom;
pub(crate) mod inserted;
pub mod own_settings;
pub mod portable;
pub(crate) mod rarities;
pub(crate) mod sequences;
pub mod settings;
pub mod state;
