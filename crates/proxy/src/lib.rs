//! The only crate with sockets: workers, listeners, timers, the event loop.

pub mod console;
