//! Router of a database with several hosts: decides on which host a client's transaction runs, and why.
//!
//! Pure: the time, random numbers and the load of each host are arguments.
//!
//! [`Rules`] come from the configuration, [`Ask`] is the question of a client that begins a transaction, and [`Verdict`]
//! is the decision. [`Router::ask`] decides in two steps. The text and the session give the hosts that are allowed: the
//! primary, or readers. Their state in the watcher's snapshot gives the one host. [`Router::explain`] takes the same steps
//! and puts them into words.
//!
//! ```
//! use std::time::Duration;
//! use weir_pool::{HostId, Moment};
//! use weir_route::*;
//! use weir_sql::{Access, Names, access};
//! use weir_watch::{HostView, Role, Snapshot, State, Writes};
//!
//! # let view = |number, role, fresh_to| HostView {
//! #     host: HostId(number),
//! #     name: format!("10.0.0.{number}:5432").into(),
//! #     az: "".into(),
//! #     role,
//! #     state: State::Up,
//! #     since: Moment(0),
//! #     generation: Default::default(),
//! #     timeline: 1,
//! #     fresh_to,
//! #     fresh_to_async: fresh_to,
//! #     replayed: None,
//! #     lag_bytes: Some(0),
//! #     lag: Some(Duration::ZERO),
//! #     takes_reads: true,
//! #     weight: 100,
//! #     probe_time: None,
//! #     last_error: None,
//! # };
//! let router = Router::new(Rules { split: Split::Auto, ..Rules::default() });
//! // The replica shows every commit that was acknowledged before second 7.
//! let hosts = Snapshot {
//!     writes: Writes::To(HostId(1)),
//!     hosts: vec![
//!         view(1, Role::Primary, Moment::NEVER),
//!         view(2, Role::Replica, Moment(7_000_000)),
//!     ],
//!     ..Snapshot::default()
//! };
//! let ready = Ready::of(&hosts);
//! let text = access(b"SELECT a FROM t", &Names::default());
//! let mut session = RouteState::default();
//! let host_for = |session: &RouteState| {
//!     let now = Moment(9_000_000);
//!     let ask = Ask {
//!         access: &text,
//!         session,
//!         hosts: &hosts,
//!         ready: &ready,
//!         last_write_of_all: Moment(0),
//!         last_async_write_of_all: Moment(0),
//!         since: now,
//!         now,
//!         may_guard: false,
//!         dice: 42,
//!     };
//!     match router.ask(&ask, &|_| Load::default()) {
//!         Verdict::Go { host, .. } => Some(host),
//!         Verdict::Hold { .. } | Verdict::Refuse(_) => None,
//!     }
//! };
//! assert_eq!(host_for(&session), Some(HostId(2)));
//! // A session reads from the primary until a replica shows what the session has written.
//! session.last_write = Moment(8_000_000);
//! assert_eq!(host_for(&session), Some(HostId(1)));
//! ```
//!
//! Duties of the caller: find the [`Ready`] hosts of each new snapshot; ask again whenever a request is held and the snapshot changes, or `until` comes; bound the wait
//! by `query_wait_timeout`; record the time of each acknowledged commit in [`RouteState`].

mod ask;
mod candidates;
mod choice;
mod course;
mod explain;
#[cfg(test)]
mod fixture;
mod ready;
mod router;
mod rules;
#[cfg(test)]
mod tests;
mod verdict;

pub use ask::Ask;
pub use ask::Load;
pub use ask::RouteState;
pub use ask::Token;
pub use ask::Wanted;
pub use explain::Explanation;
pub use ready::Ready;
pub use router::Router;
pub use rules::Consistency;
pub use rules::Fallback;
pub use rules::Rules;
pub use rules::Split;
pub use rules::Target;
pub use verdict::Verdict;
pub use verdict::Why;
