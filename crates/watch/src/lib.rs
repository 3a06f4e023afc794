//! Watches the hosts of a database: which one is the primary, which are up, and how fresh each of them is.
//!
//! Pure: probes are orders to the caller, answers and the time are arguments. No socket, clock or thread is in here.
//!
//! A [`Watch`] belongs to one database. The caller runs [`probe_query`] on each host that [`Watch::poll_probe`] names,
//! and reports each [`Answer`] or [`Failure`]. [`Watch::snapshot`] is what workers read, [`Watch::poll_event`] what the
//! log gets.
//!
//! ```text
//!    answers, failures                                   snapshot, events
//!          |                                                    ^
//!   +------v-------+    +----------+    +-----------+    +------|------+
//!   | health facts | -> | identity | -> | election  | -> | lag, pace   |
//!   | (per host)   |    | (all)    |    | (all)     |    | (per host)  |
//!   +--------------+    +----------+    +-----|-----+    +------^------+
//!                                             `--> samples of --'
//!                                                  the primary
//! ```
//!
//! - **No host is promoted or demoted by silence.** A primary that does not answer makes writes wait. Only a host with a
//!   higher timeline, and a witness for it, takes its place (`election`).
//! - **A replica is as fresh as it has proved** ([`HostView::fresh_to`]): it has replayed the WAL position of a probe of
//!   the primary, so it has every commit that was acknowledged before that probe was sent (`samples`, `facts`).
//! - **Every wait is bounded:** a host gets at most one probe at a time and at most 50 per second.
//!
//! ```
//! use std::time::Duration;
//! use weir_pool::{HostId, Moment};
//! use weir_watch::*;
//!
//! let host = |id, name: &str| Host {
//!     id: HostId(id),
//!     name: name.into(),
//!     az: "".into(),
//!     role: Configured::Auto,
//!     weight: 100,
//!     reads: true,
//! };
//! let hosts = vec![host(0, "a:5432"), host(1, "b:5432")];
//! let mut watch = Watch::new(Rules::default(), hosts, Moment(0));
//!
//! // Each host is probed, and answers with a row of text columns.
//! let primary = "f|0/5000|0/5000|000000010000000000000003||||||1|7/1|off";
//! let standby = "t||||0/5000|0/5000|f|1|streaming|2|7/1|off";
//! let mut now = Moment(1);
//! for _ in 0..4 {
//!     while let Some(index) = watch.poll_probe(now) {
//!         let line = [primary, standby][index];
//!         let columns: Vec<&str> = line.split('|').collect();
//!         let row: Vec<_> = columns.iter().map(|it| Some(it.as_bytes()).filter(|it| !it.is_empty())).collect();
//!         let answer = Answer::parse(&row).unwrap();
//!         watch.handle_answer(now.plus(Duration::from_millis(1)), index, now, &answer);
//!     }
//!     now = watch.next_probe();
//! }
//! let snapshot = watch.snapshot();
//! assert_eq!(snapshot.writes, Writes::To(HostId(0)));
//! assert!(snapshot.hosts[1].takes_reads);
//! assert!(snapshot.hosts[1].fresh_to > Moment(0));
//! let line = watch.poll_event().unwrap().to_string();
//! assert_eq!(line, "host a:5432 is not in recovery (timeline 1)");
//! ```

mod answer;
mod election;
mod event;
mod facts;
mod failure;
mod health;
mod identity;
mod member;
mod pace;
mod position;
mod query;
mod rules;
mod samples;
mod snapshot;
mod watch;

pub use answer::{Answer, BadAnswer, Lsn, Position, Receiver};
pub use event::{Barred, Event, Evidence, Lost};
pub use failure::{Failure, FailureKind};
pub use position::{Positions, TimelinePosition};
pub use query::{COLUMNS, PROBE_SETTINGS, probe_query, sample_query};
pub use rules::{
    Configured, DIRTY_INTERVAL, FAST_INTERVAL, Host, LEADER_FOR, Rules, SUSPECT_FOR, SplitBrain,
};
pub use snapshot::{Generation, Held, HostView, Role, Snapshot, State, Writes};
pub use watch::Watch;
