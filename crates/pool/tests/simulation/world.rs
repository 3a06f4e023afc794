//! Pools, lanes, clients and servers of one run, and the operations on them.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use weir_pool::Action;
use weir_pool::Alternatives;
use weir_pool::Checkin;
use weir_pool::Checkout;
use weir_pool::ClientId;
use weir_pool::FailureKind;
use weir_pool::HostGate;
use weir_pool::HostId;
use weir_pool::Moment;
use weir_pool::Policy;
use weir_pool::Quota;
use weir_pool::Scope;
use weir_pool::Serial;
use weir_pool::ServerId;
use weir_pool::Shard;
use weir_pool::Shared;
use weir_pool::Ticket;
use weir_pool::Transfer;
use weir_pool::Want;

pub(crate) const CLIENTS: u64 = 24;

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub pools: usize,
    pub lanes: usize,
    pub policy: Policy,
    pub database_max: usize,
    pub user_max: usize,
    pub logins_max: usize,
    /// Every message arrives at once and in order.
    pub immediate: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Advance(u64),
    /// Turns the limit on assigned servers on or off.
    Bound(bool),
    Checkout(u64),
    /// A client wants a fresh server.
    CheckoutFresh(u64),
    Deliver(u64),
    DieBusy(u64),
    DieIdle(u64),
    Faults(Option<FailureKind>),
    Finish(u64),
    /// A client that keeps its server uses it again.
    GoOn(u64),
    Keep(u64),
    Leave(u64),
    /// Pool (by remainder), paused or not.
    Pause(usize, bool),
    Recycle,
    Resize(usize),
    /// Clients that are asked for kept servers use them again instead, or stop doing so.
    Refuse(bool),
    /// Pool (by remainder) and the number of servers it may assign; 0 = no limit.
    SetLimit(usize, usize),
    Tick(u64),
}

/// Pool and lane.
pub(crate) type Place = (usize, usize);

#[derive(Debug)]
pub(crate) enum Message {
    Ask {
        to: Place,
        by: usize,
    },
    Answer {
        to: Place,
        transfer: Option<(Transfer, Past)>,
    },
    Closed {
        at: Place,
        server: ServerId,
    },
    Evict {
        at: Place,
        server: ServerId,
    },
    Login {
        at: Place,
        server: ServerId,
    },
    Move {
        to: Place,
        transfer: Transfer,
        past: Past,
    },
    Retry {
        at: Place,
    },
    Settle {
        at: Place,
    },
}

/// Clients that have used a server, and its serial number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    users: BTreeSet<u64>,
    serial: u64,
    /// The server has come from another lane since it was used.
    has_moved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Client {
    Away,
    Holding(ServerId),
    Keeping(ServerId),
    Waiting(Ticket),
}

pub(crate) struct World {
    pub setup: Setup,
    pub now: Moment,
    pub pools: Vec<Arc<Shared>>,
    pub shards: BTreeMap<Place, Shard>,
    pub database: Arc<Quota>,
    pub user: Arc<Quota>,
    pub gate: Arc<HostGate>,
    pub mail: Vec<Message>,
    pub clients: BTreeMap<u64, Client>,
    /// Servers that exist at their lane and the client that holds each.
    pub servers: BTreeMap<(Place, ServerId), Option<u64>>,
    pub pasts: BTreeMap<(Place, ServerId), Past>,
    /// Serial number of each client, and what it wants.
    pub wants: BTreeMap<u64, (u64, Want)>,
    pub next_server: u64,
    /// Assigned servers per pool after the last step: a lowered limit does not take them away.
    pub assigned: Vec<usize>,
    /// True after the limit on seats was switched: lanes learn of it one after the other, and meanwhile serve their own
    /// waiters.
    pub is_loose: bool,
    pub faults: Option<FailureKind>,
    /// Clients use kept servers again when others want them.
    pub refuses: bool,
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let database = Arc::new(Quota::new(setup.database_max));
        let user = Arc::new(Quota::new(setup.user_max));
        let gate = Arc::new(HostGate::new(HostId(1), setup.logins_max));
        let new_pool = |_| {
            let (database, user) = (Arc::clone(&database), Arc::clone(&user));
            Arc::new(Shared::new(
                &setup.policy,
                setup.lanes,
                database,
                user,
                Alternatives::in_order([Arc::clone(&gate)]),
            ))
        };
        let pools: Vec<_> = (0..setup.pools).map(new_pool).collect();
        let policy = Arc::new(setup.policy.clone());
        let mut shards = BTreeMap::new();
        for (number, shared) in pools.iter().enumerate() {
            for lane in 0..setup.lanes {
                let mut shard = Shard::new(Arc::clone(shared), Arc::clone(&policy), lane, 7);
                shard.clients(Moment(1), 1);
                shards.insert((number, lane), shard);
            }
        }
        let clients = (0..CLIENTS).map(|client| (client, Client::Away)).collect();
        let assigned = vec![0; setup.pools];
        let mut world = Self {
            setup,
            now: Moment(1),
            pools,
            shards,
            database,
            user,
            gate,
            mail: Vec::new(),
            clients,
            servers: BTreeMap::new(),
            pasts: BTreeMap::new(),
            wants: (0..CLIENTS)
                .map(|client| (client, (0, Want::Any)))
                .collect(),
            next_server: 0,
            assigned,
            is_loose: false,
            faults: None,
            refuses: false,
        };
        world.after_step();
        world
    }

    pub(crate) fn home(&self, client: u64) -> Place {
        let client = usize::try_from(client).unwrap();
        (
            client % self.setup.pools,
            (client / self.setup.pools) % self.setup.lanes,
        )
    }

    fn shard(&mut self, place: Place) -> &mut Shard {
        self.shards.get_mut(&place).unwrap()
    }

    fn name_server(&mut self) -> ServerId {
        self.next_server += 1;
        ServerId(self.next_server)
    }

    // === operations ===

    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Advance(micros) => self.now = Moment(self.now.0 + micros),
            Op::Bound(is_bound) => {
                self.is_loose = true;
                self.bound(*is_bound);
            }
            Op::Checkout(client) => self.checkout(*client, Want::Any),
            Op::CheckoutFresh(client) => {
                let want = Want::Fresh(Serial(self.wants[client].0));
                self.checkout(*client, want);
            }
            Op::Deliver(pick) => self.deliver(*pick),
            Op::DieBusy(pick) => self.die(*pick, true),
            Op::DieIdle(pick) => self.die(*pick, false),
            Op::Faults(kind) => self.faults = *kind,
            Op::Finish(client) => self.finish(*client),
            Op::GoOn(client) => self.go_on(*client),
            Op::Keep(client) => self.keep(*client),
            Op::Leave(client) => self.leave(*client),
            Op::Pause(pool, is_paused) => self.pause(pool % self.setup.pools, *is_paused),
            Op::Recycle => {
                let now = self.now;
                self.shards
                    .values_mut()
                    .for_each(|shard| shard.recycle(now));
            }
            Op::Resize(size) => {
                let now = self.now;
                let policy = Arc::new(Policy {
                    size: *size,
                    ..self.setup.policy.clone()
                });
                let shards = self.shards.values_mut();
                shards.for_each(|shard| shard.set_policy(now, Arc::clone(&policy)));
            }
            Op::Refuse(refuses) => self.refuses = *refuses,
            Op::SetLimit(pool, limit) => self.set_limit(pool % self.setup.pools, *limit),
            Op::Tick(pick) => {
                let places: Vec<_> = self.shards.keys().copied().collect();
                self.tick(places[usize::try_from(*pick).unwrap() % places.len()]);
            }
        }
        self.after_step();
        self.is_loose = false;
    }

    fn bound(&mut self, is_bound: bool) {
        self.setup.policy.limits_assigned = is_bound;
        let (now, policy) = (self.now, Arc::new(self.setup.policy.clone()));
        let shards = self.shards.values_mut();
        shards.for_each(|shard| shard.set_policy(now, Arc::clone(&policy)));
        for (pool, shared) in self.pools.iter().enumerate() {
            // Servers that were assigned without being counted stay.
            self.assigned[pool] = shared.assigned();
        }
    }

    fn set_limit(&mut self, pool: usize, limit: usize) {
        self.pools[pool].set_enough(2 * limit);
        if self.pools[pool].set_limit(limit) {
            let lanes = self.shards.keys().filter(|place| place.0 == pool);
            self.mail.extend(lanes.map(|at| Message::Retry { at: *at }));
        }
    }

    /// Messages to the lanes about the pause are delayed.
    fn pause(&mut self, pool: usize, is_paused: bool) {
        self.pools[pool].set_paused(is_paused);
        let lanes = self.shards.keys().filter(|place| place.0 == pool);
        self.mail
            .extend(lanes.map(|at| Message::Settle { at: *at }));
    }

    fn checkout(&mut self, client: u64, want: Want) {
        if self.clients[&client] != Client::Away {
            return;
        }
        self.wants.get_mut(&client).unwrap().1 = want;
        let (home, now) = (self.home(client), self.now);
        match self.shard(home).checkout(now, ClientId(client), want) {
            Checkout::Granted(server) => self.hold(home, server, client),
            Checkout::Check(server) => {
                self.shard(home).test_passed(server);
                self.hold(home, server, client);
            }
            Checkout::Queued(ticket) => {
                self.clients.insert(client, Client::Waiting(ticket));
            }
            Checkout::FailFast => {}
        }
    }

    fn keep(&mut self, client: u64) {
        let Client::Holding(server) = self.clients[&client] else {
            return;
        };
        let (home, now) = (self.home(client), self.now);
        if self.shard(home).keep(now, server) {
            self.clients.insert(client, Client::Keeping(server));
        } else {
            self.finish(client);
        }
    }

    fn go_on(&mut self, client: u64) {
        if let Client::Keeping(server) = self.clients[&client] {
            let home = self.home(client);
            self.shard(home).unkeep(server);
            self.clients.insert(client, Client::Holding(server));
        }
    }

    /// Asks a client for the server that it keeps.
    fn reclaim(&mut self, place: Place, server: ServerId) {
        let client = self.servers[&(place, server)].unwrap();
        assert_eq!(self.clients[&client], Client::Keeping(server));
        if self.refuses && !self.pools[place.0].is_paused() {
            let now = self.now;
            self.clients.insert(client, Client::Holding(server));
            self.shard(place).reclaim_refused(now);
        } else {
            self.finish(client);
        }
    }

    fn finish(&mut self, client: u64) {
        let (Client::Holding(server) | Client::Keeping(server)) = self.clients[&client] else {
            return;
        };
        let (home, now) = (self.home(client), self.now);
        self.clients.insert(client, Client::Away);
        self.servers.insert((home, server), None);
        let answer = self.shard(home).checkin(now, server);
        self.placed(home, server, answer);
    }

    /// The client leaves. When it comes again, it is later than all servers.
    fn leave(&mut self, client: u64) {
        self.next_server += 1;
        self.wants.get_mut(&client).unwrap().0 = self.next_server;
        match self.clients[&client] {
            Client::Away => {}
            Client::Waiting(ticket) => {
                let home = self.home(client);
                assert!(self.shard(home).forget(ticket), "a waiter is in the queue");
                self.clients.insert(client, Client::Away);
            }
            Client::Holding(server) | Client::Keeping(server) => {
                self.clients.insert(client, Client::Away);
                self.close(self.home(client), server);
            }
        }
    }

    fn die(&mut self, pick: u64, busy: bool) {
        let candidates: Vec<_> = self
            .servers
            .iter()
            .filter(|(_, by)| by.is_some() == busy)
            .collect();
        if candidates.is_empty() {
            return;
        }
        let (&(place, server), holder) =
            candidates[usize::try_from(pick).unwrap() % candidates.len()];
        if let Some(client) = *holder {
            self.clients.insert(client, Client::Away);
        }
        self.close(place, server);
    }

    fn close(&mut self, place: Place, server: ServerId) {
        let now = self.now;
        self.servers.remove(&(place, server));
        self.shard(place).closed(now, server);
    }

    fn tick(&mut self, place: Place) {
        let now = self.now;
        self.shard(place).tick(now);
        self.drain(place);
        let next = self.shard(place).next_tick();
        assert!(
            next.is_none_or(|next| next > now),
            "a tick leaves no work: {next:?} {now:?}"
        );
    }

    // === the engine ===

    fn hold(&mut self, place: Place, server: ServerId, client: u64) {
        assert!(!self.pools[place.0].is_paused(), "assigned while paused");
        let before = self.servers.insert((place, server), Some(client));
        assert_eq!(before, Some(None), "the server exists here and is free");
        let past = self.pasts.entry((place, server)).or_default();
        if let Want::Fresh(Serial(since)) = self.wants[&client].1 {
            let is_new = past.users.is_empty() && past.serial > since;
            let is_own = past.users.iter().eq([&client]) && !past.has_moved;
            assert!(is_new || is_own, "{past:?} is no fresh server of {client}");
        }
        past.users.insert(client);
        self.clients.insert(client, Client::Holding(server));
    }

    fn placed(&mut self, place: Place, server: ServerId, answer: Checkin) {
        match answer {
            Checkin::Idle => {}
            Checkin::Assigned(client) => self.assign(place, server, client.0),
            Checkin::AssignedCheck(client) => {
                self.shard(place).test_passed(server);
                self.assign(place, server, client.0);
            }
            Checkin::Close(_) => self.mail.push(Message::Closed { at: place, server }),
            Checkin::HandOver { lane } => {
                assert_ne!(lane, place.1);
                let transfer = self.shard(place).detach(server).unwrap();
                self.servers.remove(&(place, server));
                let past = self.past_of(place, server);
                self.mail.push(Message::Move {
                    to: (place.0, lane),
                    transfer,
                    past,
                });
            }
        }
    }

    fn assign(&mut self, place: Place, server: ServerId, client: u64) {
        let Client::Waiting(ticket) = self.clients[&client] else {
            panic!("client {client} does not wait");
        };
        assert_eq!(self.home(client), place);
        self.check_order(place, ticket);
        self.hold(place, server, client);
    }

    fn drain(&mut self, place: Place) {
        let now = self.now;
        while let Some(action) = self.shard(place).poll(now) {
            match action {
                Action::Assign {
                    client,
                    server,
                    check,
                } => {
                    if check {
                        self.shard(place).test_passed(server);
                    }
                    self.assign(place, server, client.0);
                }
                Action::Ask { lane } => {
                    self.mail.push(Message::Ask {
                        to: (place.0, lane),
                        by: place.1,
                    });
                }
                Action::Close { server, .. } => {
                    self.mail.push(Message::Closed { at: place, server })
                }
                Action::Connect(token) => {
                    if self.faults == Some(FailureKind::Local) {
                        self.shard(place)
                            .connect_abandoned(now, token, FailureKind::Local);
                        continue;
                    }
                    let server = self.name_server();
                    let serial = server.0;
                    self.shard(place)
                        .connect_started(token, server, Serial(serial));
                    let past = Past {
                        serial,
                        ..Past::default()
                    };
                    self.pasts.insert((place, server), past);
                    self.mail.push(Message::Login { at: place, server });
                }
                Action::Evict { scope } => {
                    assert!(matches!(scope, Scope::Database | Scope::User));
                    self.evict(place.0);
                }
                Action::Fail { client, .. } => {
                    let before = self.clients.insert(client.0, Client::Away);
                    assert!(matches!(before, Some(Client::Waiting(_))));
                }
                Action::Hold(_) => {}
                Action::Notify { client } => {
                    assert!(matches!(self.clients[&client.0], Client::Waiting(_)));
                }
                Action::Reclaim { server } => self.reclaim(place, server),
                Action::WakeOthers => {
                    self.mail
                        .extend(self.shards.keys().map(|at| Message::Retry { at: *at }));
                }
            }
        }
    }

    fn evict(&mut self, by_pool: usize) {
        let others = self.shards.iter().filter(|(place, _)| place.0 != by_pool);
        let idle = others.filter_map(|(at, shard)| Some((shard.coldest_idle()?, *at)));
        if let Some(((server, _), at)) = idle.min_by_key(|((_, since), _)| *since) {
            self.mail.push(Message::Evict { at, server });
        }
    }

    fn deliver(&mut self, pick: u64) {
        if self.mail.is_empty() {
            return;
        }
        let pick = usize::try_from(pick).unwrap() % self.mail.len();
        let message = self.mail.remove(pick);
        let now = self.now;
        match message {
            Message::Ask { to, by } => {
                let given = self.shard(to).asked(now, by);
                let transfer = given.map(|server| {
                    self.servers.remove(&(to, server));
                    let past = self.past_of(to, server);
                    (self.shard(to).detach(server).unwrap(), past)
                });
                self.mail.push(Message::Answer {
                    to: (to.0, by),
                    transfer,
                });
            }
            Message::Answer { to, transfer } => {
                let got = transfer.is_some();
                if let Some((transfer, past)) = transfer {
                    self.arrive(to, transfer, past);
                }
                self.shard(to).ask_answered(now, got);
            }
            Message::Closed { at, server } => self.close(at, server),
            Message::Evict { at, server } => {
                self.shard(at).evict(now, server);
            }
            Message::Login { at, server } => self.log_in(at, server),
            Message::Move { to, transfer, past } => self.arrive(to, transfer, past),
            Message::Retry { at } => self.shard(at).retry(now),
            Message::Settle { at } => self.shard(at).settle(now),
        }
    }

    fn log_in(&mut self, at: Place, server: ServerId) {
        let now = self.now;
        if let Some(kind) = self.faults {
            self.shard(at).connect_failed(now, server, kind);
            return;
        }
        self.servers.insert((at, server), None);
        let answer = self.shard(at).connected(now, server);
        self.placed(at, server, answer);
    }

    fn past_of(&mut self, place: Place, server: ServerId) -> Past {
        let mut past = self.pasts.remove(&(place, server)).unwrap();
        past.has_moved |= !past.users.is_empty();
        past
    }

    fn arrive(&mut self, to: Place, transfer: Transfer, past: Past) {
        let now = self.now;
        if self.faults == Some(FailureKind::Local) {
            self.shard(to).lost(now, transfer);
            return;
        }
        let server = self.name_server();
        self.servers.insert((to, server), None);
        self.pasts.insert((to, server), past);
        let answer = self.shard(to).adopt(now, server, transfer);
        self.placed(to, server, answer);
    }

    fn after_step(&mut self) {
        self.drain_all();
        let mut budget = 3_000;
        while self.setup.immediate && !self.mail.is_empty() {
            budget -= 1;
            assert!(budget > 0, "messages never end: {:?}", self.mail);
            self.deliver(0);
            self.drain_all();
        }
        self.check();
        self.check_assigned();
    }

    fn drain_all(&mut self) {
        let places: Vec<_> = self.shards.keys().copied().collect();
        places.into_iter().for_each(|place| self.drain(place));
    }

    fn deliver_all(&mut self) {
        for _ in 0..3_000 {
            if self.mail.is_empty() {
                return;
            }
            self.deliver(0);
            self.after_step();
        }
        panic!("messages never end");
    }

    /// Delivers everything and advances time up to `span`, until nothing moves.
    fn settle(&mut self, span: Duration) {
        let end = self.now.plus(span);
        for step in 0.. {
            assert!(step < 3_000, "time does not pass");
            self.deliver_all();
            let next = self
                .shards
                .iter()
                .filter_map(|(place, s)| Some((s.next_tick()?, *place)));
            let Some((moment, place)) = next.min() else {
                break;
            };
            if moment > end {
                break;
            }
            self.now = self.now.max(moment);
            self.tick(place);
            self.after_step();
        }
        self.now = self.now.max(end);
    }

    pub(crate) fn finish_everything(&mut self) {
        self.faults = None;
        self.refuses = false;
        self.deliver_all();
        self.check_paused();
        (0..self.setup.pools).for_each(|pool| self.pause(pool, false));
        self.deliver_all();
        self.settle(Duration::from_secs(2));
        self.check_nothing_unused();
        for _ in 0..=CLIENTS {
            for client in 0..CLIENTS {
                self.finish(client);
                self.after_step();
            }
            self.settle(Duration::from_millis(500));
        }
        let waiting = self
            .clients
            .values()
            .filter(|state| **state != Client::Away)
            .count();
        assert_eq!(waiting, 0, "everybody has been served: {:?}", self.clients);
        self.go_home();
    }

    fn go_home(&mut self) {
        let policy = Arc::new(Policy {
            min: 0,
            ..self.setup.policy.clone()
        });
        let now = self.now;
        for shard in self.shards.values_mut() {
            shard.clients(now, 0);
            shard.set_policy(now, Arc::clone(&policy));
        }
        self.deliver_all();
        self.apply(&Op::Recycle);
        self.deliver_all();
        assert_eq!(self.database.used(), 0);
        assert_eq!(self.user.used(), 0);
        assert_eq!(self.gate.logins(), 0);
        for shared in &self.pools {
            assert_eq!(
                (shared.servers(), shared.in_transit(), shared.connected()),
                (0, 0, 0)
            );
        }
    }
}
