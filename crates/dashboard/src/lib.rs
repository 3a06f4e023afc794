//! The dashboard: pages over HTTP that show the console's tables, kept fresh by one stream a tab.
//!
//! [`start`] serves listening sockets on a thread of its own. All that it knows of the pooler comes from a [`Source`]:
//! tables by the names of `SHOW`, a history, a few actions, and logins. Pages are HTML tables made here ([`maud`] escapes
//! every text); a script keeps them fresh and draws charts. `docs/guide/dashboard.md` has the rules of security.
//!
//! The crate must never change anything on a GET, answer a request with a foreign Host, or load from elsewhere.
//!
//! ```no_run
//! use std::net::TcpListener;
//! use std::sync::Arc;
//!
//! fn serve(source: Arc<dyn weir_dashboard::Source>) -> std::io::Result<()> {
//!     let listener = TcpListener::bind("127.0.0.1:9128")?;
//!     let dashboard = weir_dashboard::start(vec![listener], source)?;
//!     dashboard.stop();
//!     Ok(())
//! }
//! ```

mod acting;
mod app;
mod assets;
mod desk;
mod format;
mod guard;
mod help;
mod json;
mod model;
mod pages;
mod serve;
mod session;
mod shown;
mod source;
mod stream;
mod view;
mod visitor;

pub use serve::{CONNECTIONS_MAX, Dashboard, HEAD_MAX, start};
pub use source::{
    Action, Column, Denied, Kind, Line, Missing, Options, Role, Scope, Series, Source, Table, Who,
};

#[cfg(test)]
mod tests;
