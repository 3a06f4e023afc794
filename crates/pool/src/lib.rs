//! Assigns servers to clients: queue, limits, lifetimes. Pure: no socket, clock, thread or source of randomness. Time
//! and a seed are arguments; workers share nothing but atomics.
//!
//! A pool is the set of servers that one user may use of one database at one host, or at the hosts of one list
//! ([`Alternatives`]). Each worker that has clients of the pool holds one [`Shard`]: its lane. All shards of a pool share
//! one [`Shared`].
//!
//! ```text
//!     worker 0              worker 1              worker 2
//!   +-----------+         +-----------+         +-----------+
//!   | Shard     |   Ask   | Shard     |         | Shard     |     plain data, one owner each
//!   |  queue 3  | ------> |  queue 0  |         |  queue 1  |
//!   |  idle  0  | <------ |  idle  2  |         |  idle  0  |
//!   +-----|-----+ Transfer+-----|-----+         +-----|-----+
//!         |                     |                     |
//!   ======v=====================v=====================v======
//!    Shared: per lane [ oldest waiters | coldest offer ]       atomics
//!            places of the pool, logins failing, ...
//!        |                 |                   |
//!     Quota database    Quota user         HostGate            shared with other pools
//! ```
//!
//! - **Assigned servers** can be limited apart from open ones ([`Shared::set_limit`]). Beyond the limit clients wait
//!   even beside idle servers; a lower limit takes no server away. Idle servers beyond [`Shared::set_enough`] are
//!   closed sooner than others.
//! - **Limits are exact.** A server exists only with a [`Permit`], which holds a place in the pool, the database and
//!   the user limit. The places are taken by compare-and-swap, all or none. The permit travels with the server.
//! - **The longest waiter is served first.** Within a lane the queue ensures it. Across lanes, a free server goes to
//!   another lane's waiter if that waiter is older by more than [`FAIRNESS_GRACE`].
//! - **A login counts at the host that it tries.** A pool may have several hosts ([`Alternatives`]); a failed login goes
//!   on to the next one ([`Shard::next_host`]).
//! - **A client may want a fresh server** ([`Want::Fresh`]). If the limits leave no room for one, the first used server
//!   that is free when it is such a client's turn is closed in its place.
//! - **A client may keep a free server** while no client waits on any lane ([`Shard::keep`]). [`Action::Reclaim`] takes
//!   it back.
//! - **No wakeup is lost.** Every "announce, then look" pair is ordered by SeqCst. `shared.rs` and [`Quota`] give the
//!   argument; the simulator in `tests/` tests it.
//! - **The hot path** is a check-out with an idle server in the same lane, and the check-in after it. It costs one hash
//!   lookup, a push or pop, and one atomic load per other lane; no lock, no allocation.
//!
//! The engine calls a command, acts on its answer, and drains [`Shard::poll`]:
//!
//! ```
//! use std::sync::Arc;
//! use weir_pool::*;
//!
//! let policy = Arc::new(Policy { size: 1, ..Policy::default() });
//! let (database, user) = (Arc::new(Quota::new(0)), Arc::new(Quota::new(0)));
//! let hosts = Alternatives::in_order([Arc::new(HostGate::new(HostId(0), 8))]);
//! let shared = Arc::new(Shared::new(&policy, 1, database, user, hosts));
//! let mut shard = Shard::new(shared, policy, 0, 42);
//! let now = Moment(1);
//!
//! // No server yet: the client waits, and we are told to open a connection.
//! assert!(matches!(shard.checkout(now, ClientId(1), Want::Any), Checkout::Queued(_)));
//! let Some(Action::Connect(token)) = shard.poll(now) else { panic!("a place is free") };
//! shard.connect_started(token, ServerId(7), Serial(1));
//! assert_eq!(shard.connected(now, ServerId(7)), Checkin::Assigned(ClientId(1)));
//!
//! // The pool is full: the next client waits for the first to finish.
//! assert!(matches!(shard.checkout(now, ClientId(2), Want::Any), Checkout::Queued(_)));
//! assert!(shard.poll(now).is_none());
//! assert_eq!(shard.checkin(now, ServerId(7)), Checkin::Assigned(ClientId(2)));
//! assert_eq!(shard.checkin(now, ServerId(7)), Checkin::Idle);
//! ```
//!
//! Duties of the engine: perform every action; deliver every message between lanes or return it (`lost`,
//! `connect_abandoned`); call `closed` for each server before its shard is dropped; after raising a limit, call `retry`
//! on every shard.

mod action;
mod alternatives;
mod atomic;
mod gate;
mod line;
mod moment;
mod offer;
mod policy;
mod queue;
mod quota;
mod random;
mod shard;
mod shared;
mod transfer;
mod want;

pub use action::Action;
pub use action::Checkin;
pub use action::Checkout;
pub use action::CloseReason;
pub use action::FailureKind;
pub use action::HoldNews;
pub use action::Scope;
pub use action::Ticket;
pub use action::WaitError;
pub use alternatives::Alternatives;
pub use gate::HostGate;
pub use gate::LOGIN_BACKOFF_MIN;
pub use gate::PROBES_MAX;
pub use moment::ClientId;
pub use moment::HostId;
pub use moment::Moment;
pub use moment::ServerId;
pub use policy::Policy;
pub use quota::Entered;
pub use quota::Quota;
pub use shard::ASK_PATIENCE;
pub use shard::Counts;
pub use shard::EVICT_RETRY;
pub use shard::IDLE_SPREAD;
pub use shard::LIFETIME_SPREAD;
pub use shard::LOCAL_FAILURE_PAUSE;
pub use shard::MIN_SIZE_RETRY;
pub use shard::Obstacle;
pub use shard::SURPLUS_IDLE;
pub use shard::SURPLUS_SPACING;
pub use shard::Shard;
pub use shard::TRANSFERS_PER_LOGIN;
pub use shard::TRANSFERS_PERIOD;
pub use shard::Usage;
pub use shard::Violation;
pub use shared::ConnectToken;
pub use shared::FAIRNESS_GRACE;
pub use shared::HANDOVER_IDLE;
pub use shared::HEADS_PUBLISHED;
pub use shared::Permit;
pub use shared::Shared;
pub use shared::Transfer;
pub use want::Serial;
pub use want::Want;
