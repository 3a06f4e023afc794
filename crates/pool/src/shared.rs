//! State that all lanes of one pool share: atomics, and the tokens that stand for what they count.
//!
//! # Why no wakeup is lost
//!
//! A lane that gets a free server first announces it (`announce_idle`), then looks for waiters (`deliver_to_oldest`). A
//! lane that gets a waiter first announces it (`announce_wait`), then looks for idle servers (`coldest_lane`). All four
//! use SeqCst, so in every interleaving at least one of the two sees the other: the server is handed over, or it is
//! asked for. A lane may skip a waiter only if as many servers are reserved for that waiter's lane (`Delivery`) as it has
//! waiters. A reservation ends with the server's arrival or with `WakeOthers`, and both make the lane look again.
//!
//! A server that its client keeps while no client waits (`Shard::keep`) is announced in the same word and order.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::RwLock;
use std::time::Duration;

use crate::alternatives::Alternatives;
use crate::atomic::AtomicBool;
use crate::atomic::AtomicIsize;
use crate::atomic::AtomicU64;
use crate::atomic::AtomicUsize;
use crate::atomic::Ordering::Relaxed;
use crate::atomic::Ordering::SeqCst;
use crate::moment::Moment;
use crate::offer::Offer;
use crate::policy::Policy;
use crate::quota::Quota;
pub use crate::transfer::ConnectToken;
pub use crate::transfer::Transfer;

mod hold;
mod logins;
mod queues;

pub(crate) use hold::HOLD_PAUSE_MAX;
pub(crate) use hold::Hold;
use hold::Holding;
pub(crate) use logins::surplus;

/// Minimum time by which another lane's waiter must be older to be served first: about one turn of an event loop. Below it,
/// moving the server costs more than the order is worth.
pub const FAIRNESS_GRACE: Duration = Duration::from_millis(1);

/// Moment before which another lane's waiter must have queued to get a free server, if the longest here queued at `head`.
pub(crate) fn older_than(head: Moment) -> Moment {
    let grace = u64::try_from(FAIRNESS_GRACE.as_micros()).unwrap_or(u64::MAX);
    Moment(head.0.saturating_sub(grace))
}

/// Idle time after which a server is surplus in its lane; other lanes ask for it before they open their own.
pub const HANDOVER_IDLE: Duration = Duration::from_millis(5);

/// Number of its longest waiters that a lane publishes. Others hand over only servers that they do not need beyond these.
pub const HEADS_PUBLISHED: usize = 8;

/// Two cache lines, as processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded<T>(T);

/// Written when the lane's queue changes; read by every check-in of the other lanes.
#[derive(Debug)]
struct Waiting {
    count: AtomicUsize,
    /// Number of servers on their way to this lane, or about to be.
    deliveries: AtomicUsize,
    /// As in [`Line`], with NEVER for none.
    unmet_since: AtomicU64,
    balance: AtomicIsize,
    relying: AtomicUsize,
    /// Moments since which the longest waiters wait, longest first; NEVER = none.
    heads: [AtomicU64; HEADS_PUBLISHED],
}

#[derive(Debug)]
struct Lane {
    waiting: Padded<Waiting>,
    /// The lane's [`Offer`].
    offer: Padded<AtomicU64>,
}

/// State of one pool (database, user) across all workers.
#[derive(Debug)]
pub struct Shared {
    lanes: Box<[Lane]>,
    /// All server connections of the pool, including those logging in and in transit. An annex counts here, too.
    places: Arc<Quota>,
    /// True if the places are those of another pool ([`Shared::beside`]).
    is_annex: bool,
    /// Number of annexes with a client that waits for a place of the pool. The pool itself takes no place while only as
    /// many are free.
    claims: Arc<AtomicUsize>,
    database: Arc<Quota>,
    user: Arc<Quota>,
    /// Assigned servers, in pools that limit them.
    seats: Quota,
    /// Number of servers above which the rest are surplus; 0 = none is.
    enough: AtomicUsize,
    /// Hosts of the pool. A lane uses the list that it last read, with its policy.
    hosts: RwLock<Arc<Alternatives>>,
    /// Servers whose login is complete.
    connected: AtomicUsize,
    /// Servers between two lanes.
    in_transit: AtomicUsize,
    /// Servers that are not being closed.
    staying: AtomicUsize,
    /// Clients connected, all lanes.
    pub(crate) clients: AtomicUsize,
    /// New clients fail fast until then, if no server is connected.
    failing_until: AtomicU64,
    /// When the host could not be reached, if clients fail for that reason; 0 otherwise.
    unreachable_at: AtomicU64,
    /// No login of this pool starts until then, because one was rejected.
    rejected_until: AtomicU64,
    /// Time for which clients wait for a host that is gone.
    holding: Holding,
    /// Servers whose login began before this are closed on release.
    obsolete_before: AtomicU64,
    /// No server is assigned, and a server that is not in use is closed.
    is_paused: AtomicBool,
    /// Number of servers by the moment their login began. Only logins and closes touch it.
    ages: Mutex<BTreeMap<Moment, usize>>,
    /// A lane left a free place to an older waiter and wants a wakeup when that waiter is served.
    deferred: AtomicBool,
}

/// Number of limits that a new server connection needs a place in.
const LIMITS: usize = 3;

/// Limit that refuses a new server connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Pool,
    Database,
    User,
}

impl Shared {
    /// A pool over `lanes` workers (one shard each), within the limits of its database and user.
    #[must_use]
    pub fn new(
        policy: &Policy,
        lanes: usize,
        database: Arc<Quota>,
        user: Arc<Quota>,
        hosts: Alternatives,
    ) -> Self {
        let places = Arc::new(Quota::new(policy.size));
        Self::of(lanes, (places, database, user), hosts, None)
    }

    /// An annex of a pool: servers that serve one client and nobody else, within the limits of the pool. The annex has
    /// queues, failures and pauses of its own, and one shard.
    #[must_use]
    pub fn beside(pool: &Self, hosts: Alternatives) -> Self {
        let limits = [&pool.places, &pool.database, &pool.user].map(Arc::clone);
        let [places, database, user] = limits;
        let claims = Arc::clone(&pool.claims);
        Self::of(pool.lanes(), (places, database, user), hosts, Some(claims))
    }

    fn of(
        lanes: usize,
        (places, database, user): (Arc<Quota>, Arc<Quota>, Arc<Quota>),
        hosts: Alternatives,
        claims_of_pool: Option<Arc<AtomicUsize>>,
    ) -> Self {
        Self {
            lanes: (0..lanes).map(|_| Lane::new()).collect(),
            places,
            is_annex: claims_of_pool.is_some(),
            claims: claims_of_pool.unwrap_or_default(),
            database,
            user,
            seats: Quota::new(0),
            enough: AtomicUsize::new(0),
            hosts: RwLock::new(Arc::new(hosts)),
            connected: AtomicUsize::new(0),
            in_transit: AtomicUsize::new(0),
            staying: AtomicUsize::new(0),
            clients: AtomicUsize::new(0),
            failing_until: AtomicU64::new(0),
            unreachable_at: AtomicU64::new(0),
            rejected_until: AtomicU64::new(0),
            holding: Holding::new(),
            obsolete_before: AtomicU64::new(0),
            is_paused: AtomicBool::new(false),
            ages: Mutex::default(),
            deferred: AtomicBool::new(false),
        }
    }

    /// True if the servers count in the size of another pool.
    #[must_use]
    pub const fn is_annex(&self) -> bool {
        self.is_annex
    }

    /// True if the servers of both count in the size of one pool.
    #[must_use]
    pub fn shares_size_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.places, &other.places)
    }

    /// Number of server connections of the pool: every state, all lanes, in transit, and those of its annexes.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.places.used()
    }

    /// Number of servers whose login is complete, all lanes.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.connected.load(SeqCst)
    }

    /// Number of servers between two lanes.
    #[must_use]
    pub fn in_transit(&self) -> usize {
        self.in_transit.load(SeqCst)
    }

    /// Number of servers that are not being closed.
    pub(crate) fn staying(&self) -> usize {
        self.staying.load(SeqCst)
    }

    // === the administrator's hand ===

    /// Pauses or resumes the pool (PAUSE, RESUME). While it is paused, no server is assigned and none is opened. Call
    /// [`settle`] on every shard afterwards, to close idle servers or to serve waiters. Resuming clears earlier
    /// failures of logins, because the administrator knows that the host is back.
    ///
    /// [`settle`]: crate::Shard::settle
    pub fn set_paused(&self, is_paused: bool) {
        if !is_paused && self.is_paused() {
            self.forget_hold();
            self.forgive();
        }
        self.is_paused.store(is_paused, SeqCst);
    }

    /// True if the pool is paused: no server is assigned.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Relaxed)
    }

    /// True if a server is left that [`recycle`](crate::Shard::recycle) made obsolete.
    #[must_use]
    pub fn has_obsolete(&self) -> bool {
        let before = self.obsolete_before();
        let ages = self.ages();
        before != Moment(0)
            && ages
                .first_key_value()
                .is_some_and(|(age, _)| *age <= before)
    }

    /// True if a server is connected that serves others when it is free. An obsolete one is closed then.
    pub(crate) fn has_lasting(&self) -> bool {
        if self.connected() == 0 {
            return false;
        }
        let before = self.obsolete_before();
        let is_lasting = |age: &Moment| before == Moment(0) || *age > before;
        let ages = self.ages();
        ages.last_key_value()
            .is_some_and(|(age, _)| is_lasting(age))
    }

    fn ages(&self) -> MutexGuard<'_, BTreeMap<Moment, usize>> {
        self.ages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of lanes.
    #[must_use]
    pub const fn lanes(&self) -> usize {
        self.lanes.len()
    }

    // === the limit on assigned servers ===

    /// Sets the maximum number of assigned servers, in pools with [`Policy::limits_assigned`]; 0 = no limit. A lower
    /// limit takes no server away, but none is assigned until enough have come back. Returns true if the limit rose:
    /// call `retry` on every shard then.
    ///
    /// [`Policy::limits_assigned`]: crate::Policy::limits_assigned
    pub fn set_limit(&self, limit: usize) -> bool {
        let before = self.seats.max();
        self.seats.set_max(limit);
        before != 0 && (limit == 0 || limit > before)
    }

    /// Sets the number of servers above which idle ones are surplus, in a pool that limits assigned servers; 0 = never.
    /// Surplus servers are closed after [`SURPLUS_IDLE`](crate::SURPLUS_IDLE) instead of `server_idle_timeout`, because
    /// each costs the host memory and time that the others could use.
    pub fn set_enough(&self, servers: usize) {
        self.enough.store(servers, SeqCst);
    }

    /// True if the pool has surplus servers.
    pub(crate) fn has_surplus(&self) -> bool {
        let enough = self.enough();
        enough > 0 && self.staying() > enough
    }

    /// Number of servers above which the rest are surplus; 0 = none is.
    pub(crate) fn enough(&self) -> usize {
        self.enough.load(SeqCst)
    }

    /// The limit on assigned servers; 0 = none.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.seats.max()
    }

    /// Number of assigned servers of all lanes, including those on their way to a waiter. 0 in pools that do not limit
    /// them.
    #[must_use]
    pub fn assigned(&self) -> usize {
        self.seats.used()
    }

    /// Takes a seat, that is, the right to assign one more server. A refused shard gets a wakeup when the next seat is
    /// returned.
    pub(crate) fn take_seat(self: &Arc<Self>) -> Option<Seat> {
        if !self.seats.try_take(0) {
            self.seats.starve();
            if !self.seats.try_take(0) {
                return None;
            }
        }
        Some(Seat(Some(Arc::clone(self))))
    }

    /// Takes a seat for a server that is assigned already.
    pub(crate) fn take_seat_anyway(self: &Arc<Self>) -> Seat {
        self.seats.take_anyway();
        Seat(Some(Arc::clone(self)))
    }

    /// True if a seat is free. A refused shard gets a wakeup when the next seat is returned.
    pub(crate) fn look_for_seat(&self) -> bool {
        self.has_seat() || {
            self.seats.starve();
            self.has_seat()
        }
    }

    pub(crate) fn has_seat(&self) -> bool {
        self.seats.has_room(0)
    }

    /// True if as many servers exist as may be assigned, so that more would only be idle. A refused shard gets a wakeup
    /// when the next server is closed.
    pub(crate) fn has_enough(&self) -> bool {
        let enough = || self.seats.max() != 0 && self.staying() >= self.seats.max();
        if !enough() {
            return false;
        }
        self.seats.starve();
        enough()
    }

    pub(crate) fn set_size(&self, size: usize) {
        self.places.set_max(size);
    }

    // === places ===

    /// Takes a place in all three limits, or in none. Sets `wake` if a shard waits for a place that was returned on the
    /// way.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        extra: usize,
        wake: &mut bool,
    ) -> Result<Permit, Refusal> {
        loop {
            self.look(extra)?;
            let taken = self.places.try_take(extra);
            // Another lane may have been faster since the look. Only a new look sets the mark that reports its release.
            if let Ok(permit) = self.complete(taken, wake) {
                return Ok(permit);
            }
        }
    }

    /// As `reserve`, for servers that no client waits for: below `ceiling`, and sets no mark.
    pub(crate) fn reserve_spare(
        self: &Arc<Self>,
        ceiling: usize,
        wake: &mut bool,
    ) -> Result<Permit, Refusal> {
        self.peek(0)?;
        let taken = self.places.try_take_below(ceiling);
        self.complete(taken, wake)
    }

    /// Checks that the limits have room. A limit that refuses is marked and asked once more (see [`Quota`]), so that
    /// the release of a place cannot be missed.
    pub(crate) fn look(&self, extra: usize) -> Result<(), Refusal> {
        let Err(mut refusal) = self.peek(extra) else {
            return Ok(());
        };
        for _ in 0..LIMITS {
            self.quota(refusal).starve();
            match self.peek(extra) {
                Ok(()) => return Ok(()),
                Err(next) if next == refusal => break,
                Err(next) => refusal = next,
            }
        }
        Err(refusal)
    }

    /// As `look`, and sets no mark.
    pub(crate) fn peek(&self, extra: usize) -> Result<(), Refusal> {
        let claimed = match self.is_annex {
            true => 0,
            false => self.claims.load(SeqCst),
        };
        if !self.places.has_room_beside(extra, claimed) {
            Err(Refusal::Pool)
        } else if !self.database.has_room(0) {
            Err(Refusal::Database)
        } else if !self.user.has_room(0) {
            Err(Refusal::User)
        } else {
            Ok(())
        }
    }

    fn complete(self: &Arc<Self>, in_pool: bool, wake: &mut bool) -> Result<Permit, Refusal> {
        if !in_pool {
            return Err(Refusal::Pool);
        }
        if !self.database.try_take(0) {
            *wake |= self.places.give_back();
            return Err(Refusal::Database);
        }
        if !self.user.try_take(0) {
            *wake |= self.places.give_back();
            *wake |= self.database.give_back();
            return Err(Refusal::User);
        }
        let size = self.places.max();
        let reserve = size != 0 && self.places.used() > size;
        self.staying.fetch_add(1, SeqCst);
        Ok(Permit {
            shared: Some(Arc::clone(self)),
            reserve,
            stays: true,
        })
    }

    fn quota(&self, refusal: Refusal) -> &Quota {
        match refusal {
            Refusal::Pool => &self.places,
            Refusal::Database => &self.database,
            Refusal::User => &self.user,
        }
    }

    /// Claims the next free place of the pool for an annex.
    pub(crate) fn claim(&self) -> Claim {
        self.claims.fetch_add(1, SeqCst);
        Claim(Arc::clone(&self.claims))
    }

    /// Clears the request for a wakeup at the release of a place. True if there was one.
    pub(crate) fn take_starved(&self) -> bool {
        self.places.take_starved()
    }

    pub(crate) fn announce_idle(&self, lane: usize, offer: Offer) {
        if let Some(lane) = self.lanes.get(lane) {
            lane.offer.0.store(offer.word(), SeqCst);
        }
    }

    fn others(&self, own: usize) -> impl Iterator<Item = (usize, &Lane)> {
        let lanes = self.lanes.iter().enumerate();
        lanes.filter(move |(lane, _)| *lane != own)
    }

    /// The other lane with the longest-idle or longest-kept server, and since when that server is free.
    pub(crate) fn coldest_lane(&self, own: usize) -> Option<(usize, Moment)> {
        self.coldest_offer(own, |offer| offer.since())
    }

    /// The other lane on which a client keeps a server that it can do without, and since when that lane has one to
    /// give.
    pub(crate) fn keeping_lane(&self, own: usize) -> Option<(usize, Moment)> {
        self.coldest_offer(own, |offer| offer.since().filter(|_| offer.keeps()))
    }

    fn coldest_offer(
        &self,
        own: usize,
        since: impl Fn(Offer) -> Option<Moment>,
    ) -> Option<(usize, Moment)> {
        let others = self.others(own);
        others
            .filter_map(|(number, lane)| {
                let offer = Offer::from_word(lane.offer.0.load(SeqCst));
                Some((number, since(offer)?))
            })
            .min_by_key(|(_, since)| *since)
    }

    /// Reserves a server for the other lane whose longest waiter is older than `before`.
    pub(crate) fn deliver_to_oldest(
        self: &Arc<Self>,
        own: usize,
        before: Moment,
    ) -> Option<Delivery> {
        // Each failed attempt means that a rival reserved one; as many tries as lanes are enough.
        for _ in 0..self.lanes.len() {
            let others = self.others(own);
            let oldest = others
                .filter_map(|(number, lane)| Some((lane.waiting.0.undelivered()?, number)))
                .filter(|(since, _)| *since < before || before == Moment::NEVER)
                .min()?;
            if let Some(delivery) = self.deliver_to(oldest.1) {
                return Some(delivery);
            }
        }
        None
    }

    /// Reserves a server for `lane`, if that lane has a waiter without one.
    pub(crate) fn deliver_to(self: &Arc<Self>, lane: usize) -> Option<Delivery> {
        let waiting = &self.lanes.get(lane)?.waiting.0;
        let wanted =
            |deliveries: usize| (deliveries < waiting.count.load(SeqCst)).then(|| deliveries + 1);
        waiting
            .deliveries
            .fetch_update(SeqCst, SeqCst, wanted)
            .ok()?;
        Some(Delivery {
            shared: Arc::clone(self),
            lane,
        })
    }

    pub(crate) fn deliveries(&self, lane: usize) -> usize {
        self.lanes
            .get(lane)
            .map_or(0, |lane| lane.waiting.0.deliveries.load(SeqCst))
    }

    /// True if another lane's first waiter that needs a place of its own is older than `before`.
    pub(crate) fn has_older_unmet(&self, own: usize, before: Moment) -> bool {
        let older = |waiting: &Waiting| waiting.unmet_since.load(SeqCst) < before.0;
        let mut others = self.others(own);
        others.any(|(_, lane)| older(&lane.waiting.0))
    }

    /// True if another lane's first waiter without a server on its way is older than `before`.
    pub(crate) fn has_older_waiter(&self, own: usize, before: Moment) -> bool {
        let older = |waiting: &Waiting| waiting.undelivered().is_some_and(|since| since < before);
        let mut others = self.others(own);
        others.any(|(_, lane)| older(&lane.waiting.0))
    }

    /// True if another lane has a waiter without a server on its way.
    pub(crate) fn has_waiter_elsewhere(&self, own: usize) -> bool {
        self.oldest_elsewhere(own).is_some()
    }

    /// Moment since which the longest waiter of the other lanes waits without a server on its way. NEVER if the lane
    /// has such a waiter but does not publish its moment.
    pub(crate) fn oldest_elsewhere(&self, own: usize) -> Option<Moment> {
        let others = self.others(own);
        others
            .filter_map(|(_, lane)| lane.waiting.0.undelivered())
            .min()
    }

    pub(crate) fn defer(&self) {
        self.deferred.store(true, SeqCst);
    }

    pub(crate) fn take_deferred(&self) -> bool {
        self.deferred.load(SeqCst) && self.deferred.swap(false, SeqCst)
    }

    pub(crate) fn depart(self: &Arc<Self>) -> Transit {
        self.in_transit.fetch_add(1, SeqCst);
        Transit {
            shared: Arc::clone(self),
        }
    }
}

impl Lane {
    fn new() -> Self {
        let never = || AtomicU64::new(Moment::NEVER.0);
        let waiting = Waiting {
            count: AtomicUsize::new(0),
            deliveries: AtomicUsize::new(0),
            unmet_since: never(),
            balance: AtomicIsize::new(0),
            relying: AtomicUsize::new(0),
            heads: std::array::from_fn(|_| never()),
        };
        Self {
            waiting: Padded(waiting),
            offer: Padded(AtomicU64::new(Offer::NONE.word())),
        }
    }
}

impl Waiting {
    /// Moment since which the longest waiter without a server on its way waits. A racy read may be off by one waiter;
    /// it affects the order only, never whether a waiter is served.
    fn undelivered(&self) -> Option<Moment> {
        let count = self.count.load(SeqCst);
        if count == 0 {
            return None;
        }
        let deliveries = self.deliveries.load(SeqCst);
        let head = || {
            self.heads
                .get(deliveries)
                .map_or(Moment::NEVER.0, |head| head.load(Relaxed))
        };
        (deliveries < count).then(|| Moment(head()))
    }
}

/// Place of one server connection in the limits of pool, database and user. Travels with the server.
///
/// Dropping it returns the places; shards that wait for them are woken at the next regular release.
#[derive(Debug)]
#[must_use]
pub struct Permit {
    /// None only while being released.
    shared: Option<Arc<Shared>>,
    reserve: bool,
    /// The server is not being closed.
    stays: bool,
}

impl Permit {
    /// True if the pool was above its size when this place was taken.
    #[must_use]
    pub const fn is_reserve(&self) -> bool {
        self.reserve
    }

    /// Counts the server as being closed, though it holds its places until it is gone. Returns false and changes
    /// nothing if no more than `floor` servers stay. This is one atomic step, so that lanes that look at the same
    /// moment do not all close the surplus server.
    pub(crate) fn retire(&mut self, floor: usize) -> bool {
        let Some(shared) = self.shared.as_ref().filter(|_| self.stays) else {
            return false;
        };
        let fewer = |staying: usize| (staying > floor).then(|| staying - 1);
        let retired = shared.staying.fetch_update(SeqCst, SeqCst, fewer).is_ok();
        self.stays = !retired;
        retired
    }

    /// Returns the places. True if a shard waits for one.
    pub(crate) fn release(mut self) -> bool {
        // Before the places, so that there are never fewer of these than servers counted as staying.
        self.retire(0);
        self.shared.take().is_some_and(|shared| {
            let user = shared.user.give_back();
            let database = shared.database.give_back();
            let pool = shared.places.give_back();
            let seat = shared.seats.take_starved();
            user || database || pool || seat
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.retire(0);
        if let Some(shared) = &self.shared {
            shared.user.give_back_silently();
            shared.database.give_back_silently();
            shared.places.give_back_silently();
        }
    }
}

/// Claim of an annex to the next free place of its pool.
#[derive(Debug)]
pub(crate) struct Claim(Arc<AtomicUsize>);

impl Drop for Claim {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "a claim ends that was never made");
    }
}

/// Right to assign one server. Stays with the server from client to client.
#[derive(Debug)]
pub(crate) struct Seat(Option<Arc<Shared>>);

impl Seat {
    /// Ends the assignment. True if a shard waits for that.
    pub(crate) fn release(mut self) -> bool {
        self.0.take().is_some_and(|shared| shared.seats.give_back())
    }

    /// Returns the seat again, unless the limit has fallen below the number of assigned servers.
    pub(crate) fn renewed(mut self) -> Option<Self> {
        let is_surplus = |shared: &mut Arc<Shared>| shared.seats.give_back_surplus();
        if self.0.take_if(is_surplus).is_some() {
            return None;
        }
        Some(self)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.seats.give_back_silently();
        }
    }
}

/// Reservation of a server for a lane: the server is on its way there or about to be.
#[derive(Debug)]
pub(crate) struct Delivery {
    shared: Arc<Shared>,
    pub(crate) lane: usize,
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(lane) = self.shared.lanes.get(self.lane) {
            let before = lane.waiting.0.deliveries.fetch_sub(1, SeqCst);
            debug_assert!(before > 0, "a delivery ends that was never made");
        }
    }
}

/// Stands for a server whose login is complete.
#[derive(Debug)]
pub(crate) struct Connected {
    shared: Arc<Shared>,
    started: Moment,
}

impl Drop for Connected {
    fn drop(&mut self) {
        if let Entry::Occupied(mut same) = self.shared.ages().entry(self.started) {
            *same.get_mut() -= 1;
            if *same.get() == 0 {
                same.remove();
            }
        }
        self.shared.connected.fetch_sub(1, SeqCst);
    }
}

/// Stands for a server between two lanes.
#[derive(Debug)]
pub(crate) struct Transit {
    shared: Arc<Shared>,
}

impl Drop for Transit {
    fn drop(&mut self) {
        self.shared.in_transit.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests;
