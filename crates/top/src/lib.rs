//! Terminal display of a pooler's console, as `top(1)`: eight views of Weir, or of PgBouncer with fewer columns.
//!
//! [`run`] draws until the user quits, and [`once`] returns the text of one view or the JSON of several. Both ask the
//! console by its own protocol, through a [`Connect`] of the caller.
//!
//! `state` is the pure core: events in, effects out, no clock and no terminal. `screen` draws a state. `source` asks
//! the console on a thread of its own, `terminal` owns the terminal, and `session` connects these parts.
//!
//! **Invariants:** text of the console reaches the terminal through `text::clean` only. Columns are found by name. The
//! terminal is restored however [`run`] ends.

mod arrange;
mod cell;
mod clock;
mod columns;
mod console;
mod data;
mod findings;
mod format;
mod grid;
mod once;
mod question;
mod rates;
mod screen;
mod session;
mod source;
mod state;
mod summary;
mod terminal;
mod text;
mod view;

#[cfg(test)]
mod fixture;

pub use crate::console::{Ask, Connect, Lost};
pub use crate::once::{Once, OnceError, once};
pub use crate::session::{TopError, run};
pub use crate::state::{INTERVAL_MAX, INTERVAL_MIN, Settings};
pub use crate::view::View;
