//! Terminal display of a pooler's console, as `top(1)`: eight views of Weir, or of PgBouncer with fewer columns.
//!
//! [`run`] draws until the user quits, and [`once`] returns the text of one view or the JSON of several. Both ask the
//! console by its own protocol, through a [`Connect`] of the caller.
//!
//! `state` is the pure core: events in, effects out, no clock and no terminal. `screen` draws a state. `source` asks
//! the console on a thread of its own, `terminal` owns the terminal, and `session` connects these parts.
//!
//! ```
//! use weir_proxy::blocking::Table;
//! use weir_top::{Ask, Connect, Lost, Once, View, once};
//!
//! /// A console that knows one command.
//! struct Played;
//!
//! impl Connect for Played {
//!     fn connect(&self) -> Result<Box<dyn Ask>, Lost> {
//!         Ok(Box::new(Self))
//!     }
//! }
//!
//! impl Ask for Played {
//!     fn ask(&mut self, sql: &str) -> Result<Result<Table, String>, Lost> {
//!         if sql != "SHOW PINS" {
//!             return Ok(Err(format!("invalid command '{sql}'")));
//!         }
//!         let texts = |texts: [&str; 2]| texts.map(str::to_owned).to_vec();
//!         let row = texts(["7", "advisory lock"]).into_iter().map(Some);
//!         let table = Table {
//!             columns: texts(["id", "reason"]),
//!             rows: vec![row.collect()],
//!             ..Table::default()
//!         };
//!         Ok(Ok(table))
//!     }
//! }
//!
//! let text = once(&Played, &Once::Table(View::Pins)).unwrap();
//! assert_eq!(text, "id  reason\n 7  advisory lock\n");
//! ```
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
