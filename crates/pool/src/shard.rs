//! A lane of a pool: the servers and waiters of one worker. See the crate page for a picture.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::hash::BuildHasherDefault;
use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use crate::action::Action;
use crate::alternatives::Alternatives;
use crate::alternatives::Login;
use crate::line::Line;
use crate::moment::Moment;
use crate::moment::ServerId;
use crate::offer::Offer;
use crate::policy::Policy;
use crate::queue::Queue;
use crate::random::Random;
use crate::shared::Claim;
use crate::shared::Connected;
use crate::shared::Delivery;
use crate::shared::Permit;
use crate::shared::Refusal;
use crate::shared::Seat;
use crate::shared::Shared;
use crate::want::Serial;
use crate::want::Users;

mod closing;
mod count;
mod demand;
mod grow;
mod keep;
mod obstacle;
mod seats;
mod serve;
mod upkeep;
mod wants;

#[cfg(test)]
mod tests;

pub use count::Counts;
pub use count::Violation;
pub use obstacle::Obstacle;
pub use seats::Usage;

/// Interval at which a shard that the database or user limit refuses asks for an eviction again.
pub const EVICT_RETRY: Duration = Duration::from_millis(100);

/// Pause after a login that failed for lack of local resources.
pub const LOCAL_FAILURE_PAUSE: Duration = Duration::from_millis(100);

/// Interval at which filling up to `min_pool_size` is tried again after a refusal.
pub const MIN_SIZE_RETRY: Duration = Duration::from_millis(333);

/// A server's lifetime exceeds the configured one by up to 1/10, so that closes are spread out.
pub const LIFETIME_SPREAD: u32 = 10;

/// Servers that became idle together are closed over the following 1/10 of `server_idle_timeout`.
pub const IDLE_SPREAD: u32 = 10;

/// Idle time after which a server beyond [enough](Shared::set_enough) is closed, in a pool that limits assigned
/// servers. A shorter `server_idle_timeout` wins. The delay is there because the load may rise again.
pub const SURPLUS_IDLE: Duration = Duration::from_secs(5);

/// Number of idle servers that a lane asks others for within [`TRANSFERS_PERIOD`] before it opens one of its own. That many
/// transfers take about as much time as a login, so that a lane never spends more than twice what was necessary.
pub const TRANSFERS_PER_LOGIN: u32 = 64;

/// Time after which a lane no longer counts on the answer to [`Action::Ask`]: the other worker may be busy. Workers answer
/// within a millisecond where they have a processor; a machine that lets them wait for one is not helped by more servers.
pub const ASK_PATIENCE: Duration = Duration::from_millis(50);

/// See [`TRANSFERS_PER_LOGIN`].
pub const TRANSFERS_PERIOD: Duration = Duration::from_secs(1);

/// Interval at which a worker closes surplus servers. The end of a backend that maps much of shared_buffers takes some
/// milliseconds of a processor of the host, and no client waits for it. At 4 ms each, that is 1 % of one processor.
pub const SURPLUS_SPACING: Duration = Duration::from_millis(500);

/// Part of a pool that belongs to one worker.
///
/// Commands (`checkout`, `checkin`, …) come from the engine; after each one, drain [`Shard::poll`]
/// until it returns None. Call [`Shard::tick`] at [`Shard::next_tick`], which any command can change.
///
/// ```text
///              connect_started        connected            checkout
///  Connect ------> Connecting --------> Idle <-----------------------> Active
///                      |                 |  \  checkin, test_passed   /  |
///                      | connect_failed  |   `------> Testing -------'   |
///                      v                 v                               v
///                    gone <--- closed -- Closing                 Leaving --- detach ---> Transfer
/// ```
///
/// **Invariant:** a shard never has both an idle server and a waiter that may use it, unless the limit on assigned
/// servers keeps them apart.
#[derive(Debug)]
pub struct Shard {
    shared: Arc<Shared>,
    policy: Arc<Policy>,
    /// Hosts for new servers, read with the policy.
    hosts: Arc<Alternatives>,
    lane: usize,
    random: Random,
    servers: HashMap<ServerId, Entry, BuildHasherDefault<IdHasher>>,
    /// Idle servers with the moment they became idle, longest idle first.
    idle: VecDeque<(ServerId, Moment)>,
    /// Kept servers with the moment they became kept, longest kept first.
    kept: VecDeque<(ServerId, Moment)>,
    queue: Queue,
    actions: VecDeque<Action>,
    /// A place was released that another shard waits for.
    wake: bool,
    /// State of the queue as published to the other lanes.
    announced: Line,
    announced_idle: Offer,
    /// Connect tokens that the engine has not answered or not yet polled.
    tokens: usize,
    /// Servers in state `Connecting`.
    connecting: usize,
    /// An `Action::Ask` has not been answered yet.
    asking: bool,
    asked: demand::Asked,
    /// When that action was given.
    asked_at: Moment,
    /// Number of waiters that servers which come to other lanes will serve.
    relying: usize,
    clients: usize,
    /// The latest moment seen; commands without a time use it.
    last: Moment,
    /// No login of this lane starts before this moment, for lack of local resources.
    local_pause: Moment,
    /// When the queue was last served.
    served_at: Moment,
    /// When to try again to grow; NEVER = wait for a call of `retry`.
    grow_at: Moment,
    /// The limit that refused the last attempt to grow.
    refusal: Option<Refusal>,
    /// End of the last hold whose waiters were failed.
    gave_up: Moment,
    /// Claim to a place of the pool, while the client of an annex waits for one.
    claim: Option<Claim>,
    evict_at: Moment,
    min_at: Moment,
    /// The earliest end of a lifetime that has not been acted upon.
    next_expiry: Moment,
    /// No server is closed for being idle before this moment.
    unused_after: Moment,
    /// Number of servers with a seat; counted only if assigned servers are limited.
    seated: usize,
    usage: Usage,
}

#[derive(Debug)]
struct Entry {
    state: State,
    permit: Permit,
    /// Set once the login is complete.
    alive: Option<Connected>,
    /// Held while the server is assigned, if assigned servers are limited.
    seat: Option<Seat>,
    /// When the server's login began.
    started: Moment,
    /// The end of the server's lifetime; NEVER = none.
    expires: Moment,
    /// When a client last released the server: since then nothing has shown that it is alive.
    used_at: Moment,
    serial: Serial,
    users: Users,
}

#[derive(Debug)]
enum State {
    Active,
    Closing,
    Connecting(Box<Login>),
    Idle,
    /// Free, but left with its client while no client waits.
    Kept,
    Leaving(Delivery),
    Testing,
}

impl Shard {
    /// Creates the shard of `lane` (`0..shared.lanes()`); one shard per lane at a time. The seed spreads lifetimes and
    /// back-off.
    #[must_use]
    pub fn new(shared: Arc<Shared>, policy: Arc<Policy>, lane: usize, seed: u64) -> Self {
        debug_assert!(lane < shared.lanes(), "the lane exists");
        Self {
            hosts: shared.hosts(),
            shared,
            policy,
            lane,
            random: Random::new(seed),
            servers: HashMap::default(),
            idle: VecDeque::new(),
            kept: VecDeque::new(),
            queue: Queue::default(),
            actions: VecDeque::new(),
            wake: false,
            announced: Line::EMPTY,
            announced_idle: Offer::NONE,
            tokens: 0,
            connecting: 0,
            asking: false,
            asked: demand::Asked::default(),
            asked_at: Moment(0),
            relying: 0,
            clients: 0,
            last: Moment(0),
            local_pause: Moment(0),
            served_at: Moment(0),
            grow_at: Moment::NEVER,
            refusal: None,
            gave_up: Moment(0),
            claim: None,
            evict_at: Moment(0),
            min_at: Moment(0),
            next_expiry: Moment::NEVER,
            unused_after: Moment(0),
            seated: 0,
            usage: Usage::default(),
        }
    }

    /// Returns the next action; None if there is nothing left. Drain after each command.
    pub fn poll(&mut self, now: Moment) -> Option<Action> {
        self.see(now);
        if std::mem::take(&mut self.wake) {
            return Some(Action::WakeOthers);
        }
        self.actions.pop_front()
    }

    /// The pool that this shard is a part of.
    #[must_use]
    pub const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The policy in force.
    #[must_use]
    pub const fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// The lane of this shard.
    #[must_use]
    pub const fn lane(&self) -> usize {
        self.lane
    }

    fn see(&mut self, now: Moment) {
        if self.policy.limits_assigned {
            self.integrate(now);
        }
        self.last = self.last.max(now);
    }

    /// Publishes the queue if it changed. If its claim shrank, wakes the lanes that deferred to it.
    fn announce_wait(&mut self) {
        if self.shared.lanes() == 1 {
            // There is no other lane to read it or to defer to this one.
            return;
        }
        let logins = self.tokens + self.connecting;
        if self.queue.is_empty() && logins == 0 && self.announced == Line::EMPTY {
            return;
        }
        let line = self.line();
        if line == self.announced {
            return;
        }
        let shrank = line.head() > self.announced.head()
            || line.unmet < self.announced.unmet
            || self.has_less_to_spare(&line);
        self.announced = line;
        self.shared.announce_wait(self.lane, &line);
        if shrank && self.shared.take_deferred() {
            self.wake = true;
        }
    }

    fn announce_idle(&mut self) {
        let since = |list: &VecDeque<(_, Moment)>| list.front().map(|(_, since)| *since);
        let offer = Offer::new(since(&self.idle), since(&self.kept));
        if offer != self.announced_idle {
            self.announced_idle = offer;
            self.shared.announce_idle(self.lane, offer);
        }
    }

    fn is_obsolete_entry(&self, entry: &Entry) -> bool {
        let obsolete_before = self.shared.obsolete_before();
        entry.started <= obsolete_before && obsolete_before != Moment(0)
    }
}

impl Drop for Shard {
    /// Publishes that this lane has neither waiters nor servers to give.
    fn drop(&mut self) {
        self.shared.announce_wait(self.lane, &Line::EMPTY);
        self.shared.announce_idle(self.lane, Offer::NONE);
        self.shared
            .clients
            .fetch_sub(self.clients, crate::atomic::Ordering::SeqCst);
    }
}

/// Server numbers come from Weir's own counters, so no peer can choose colliding ones. One multiplication spreads them
/// well enough and is far cheaper than SipHash.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
