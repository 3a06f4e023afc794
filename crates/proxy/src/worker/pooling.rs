//! Pools: this worker's shards, and the actions that they request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_config::{FALLBACK, PoolMode, PoolSettings, Settings, StateCheck};
use weir_pool::{Action, HoldNews, Moment, Scope, Shard, Transfer, WaitError};
use weir_session::counted::DigestGroup;
use weir_session::fault::Fault;
use weir_session::relay::Rules;
use weir_wire::encode::{ErrorReport, Severity};
use weir_wire::sqlstate::SqlState;

use super::ids::{ClientId, GroupId, LaneId, ServerId, Waiter};
use super::looking;
use super::routing::Routing;
use super::ruling::{may_rewrite, query_rules};
use super::slots::{Departure, Group, Lane, Lanes, Server, Stage};
use super::state;
use super::tables::Tables;
use super::timers::Timer;
use super::{Missing, Worker};
use crate::driver::{Driver, Owner};
use crate::global::{GlobalGroup, GlobalPool, GroupKey, LastError, Purpose, finds_size, lock};
use crate::mailbox::Message;
use crate::moved::MovedServer;
use crate::socket::Stream;

/// Maximum time for which a server waits for the driver to give its connection back.
const DETACH_MAX: Duration = Duration::from_secs(5);

/// Bounds of the time between two rounds of [`Worker::keep_house`], which comes this many times within the shortest
/// timeout of unused pools.
const HOUSE_MIN: Duration = Duration::from_millis(250);
const HOUSE_MAX: Duration = Duration::from_secs(60);
const HOUSE_PARTS: u32 = 8;

impl<D: Driver> Worker<D> {
    /// Returns this worker's lane of a pool; creates it, and the group, for the first client.
    pub(super) fn lane_of(&mut self, global: &Arc<GlobalPool>) -> (GroupId, LaneId) {
        if let Some(found) = self.tables.find_lane(global) {
            return found;
        }
        let group_id = self.group_of(&global.group);
        let settled = self.global.settled();
        let policy = global.policy(&settled.settings);
        let shared = Arc::clone(&global.shared);
        let seed = self.global.next_id();
        let mut lane = Lane {
            global: Arc::clone(global),
            group: group_id,
            shard: Shard::new(shared, policy, self.number, seed),
            owner: None,
            counted: None,
            tick: None,
        };
        lane.settle_sizing(self.number);
        let id = self.tables.lanes.insert(lane);
        if let Some(group) = self.tables.groups.must_get_mut(group_id) {
            group.lanes.push(global.host, id);
        }
        (group_id, id)
    }

    /// Returns this worker's part of a group; creates it without a lane.
    fn group_of(&mut self, global: &Arc<GlobalGroup>) -> GroupId {
        if let Some(id) = self.tables.group_index.get(&global.key) {
            return *id;
        }
        let settled = self.global.settled();
        let settings = global.settings();
        let rules = rules(&settings, &settled.settings);
        let every = settled.settings.global.catalogue_refresh;
        let group = Group {
            global: Arc::clone(global),
            lanes: Lanes::default(),
            rules,
            judge: state::judge(&settings),
            digests: DigestGroup::new(&global.key.database, &global.key.user),
            query_rules: query_rules(&self.global, global, None, settings.comment_hints),
            routing: Routing::new(global, &self.global, self.global.next_id()),
            checks: state::checks(&settings),
            looks: looking::interval(every, rules.state, global.key.purpose),
            draw: self.global.next_id(),
            pins: BTreeMap::new(),
            reset_always: settled.settings.global.server_reset_query_always,
            finds_size: finds_size(&settings),
            keeps_clients: keeps_clients(&settings),
            repeats: repeats(&settings),
            has_timeouts: has_timeouts(&settings),
            settings,
            counters: Default::default(),
            timing: None,
            period: Default::default(),
            clients: 0,
            away: 0,
            reported: Vec::new(),
            unused_since: None,
            is_removed: false,
        };
        self.has_checks |= group.checks != StateCheck::Off;
        self.has_rules |= group.query_rules.is_some();
        self.has_rewrites |= may_rewrite(group.query_rules.as_deref());
        if self.has_rules {
            self.settle_bulkheads();
            self.settle_mirrors();
        }
        global.workers.fetch_add(1, Ordering::Relaxed);
        let id = self.tables.groups.insert(group);
        self.tables.group_index.insert(global.key.clone(), id);
        id
    }

    /// Carries out the actions of a shard; call it after each command to the shard.
    pub(super) fn pump(&mut self, id: LaneId) {
        while let Some(action) = self
            .tables
            .lanes
            .must_get_mut(id)
            .and_then(|lane| lane.shard.poll(self.now))
        {
            match action {
                Action::Assign {
                    client,
                    server,
                    check,
                } => {
                    let waiter = self.tables.waiter(id, client);
                    match check {
                        true => self.check_before_use(waiter, server.into()),
                        false => self.start_idle(waiter, server.into()),
                    }
                }
                Action::Connect(token) => self.connect(id, token),
                Action::Close { server, reason } => {
                    self.close_server(server.into(), &reason.to_string());
                }
                Action::Ask { lane: worker } => self.ask(id, worker),
                Action::Fail { client, error } => {
                    let waiter = self.tables.waiter(id, client);
                    self.wait_failed(waiter, error);
                }
                Action::Notify { client } => {
                    let waiter = self.tables.waiter(id, client);
                    self.notify_waiter(waiter);
                }
                Action::Hold(news) => self.tell_hold(id, news),
                Action::Evict { scope } => self.evict(id, scope),
                Action::Reclaim { server } => self.reclaim(id, server.into()),
                Action::WakeOthers => self.global.wake_all(),
            }
        }
        self.arm_lane(id);
    }

    /// Arms the timer for the shard's next tick.
    pub(super) fn arm_lane(&mut self, id: LaneId) {
        let Some(lane) = self.tables.lanes.must_get_mut(id) else {
            return;
        };
        let Some(next) = lane.shard.next_tick() else {
            return;
        };
        // A tick that comes too early only checks and arms again. A timer is replaced only by an earlier one.
        if lane.tick.is_none_or(|armed| next < armed) {
            if let Some(armed) = lane.tick.replace(next) {
                self.timers.disarm(armed, Timer::Lane(id));
            }
            self.timers.arm(next, Timer::Lane(id));
        }
    }

    /// Makes shards with waiters try again, after a place was released on any worker.
    pub(super) fn retry_lanes(&mut self) {
        let waiting: Vec<_> = self
            .tables
            .lanes
            .iter()
            .filter(|(_, lane)| lane.shard.waiting() > 0)
            .map(|(id, _)| id)
            .collect();
        for id in waiting {
            if let Some(lane) = self.tables.lanes.must_get_mut(id) {
                lane.shard.retry(self.now);
            }
            self.pump(id);
        }
    }

    // --- between workers ---

    fn ask(&mut self, id: LaneId, worker: usize) {
        let Some(lane) = self.tables.lanes.must_get(id) else {
            return;
        };
        let message = Message::Ask {
            pool: Arc::clone(&lane.global),
            from: self.number,
        };
        if self.post(worker, message).is_err() {
            self.ask_answered(id, false);
        }
    }

    pub(super) fn ask_answered(&mut self, id: LaneId, got: bool) {
        if let Some(lane) = self.tables.lanes.must_get_mut(id) {
            lane.shard.ask_answered(self.now, got);
        }
        self.pump(id);
    }

    /// Answers another worker, whose waiter could use an idle server of this one.
    pub(super) fn asked(&mut self, pool: &Arc<GlobalPool>, from: usize) {
        let id = self.tables.find_lane(pool).map(|(_, id)| id);
        let lane = id.and_then(|id| self.tables.lanes.must_get_mut(id));
        let server = lane.and_then(|lane| lane.shard.asked(self.now, from));
        if server.is_none()
            && let Some(id) = id
        {
            // A server that a client here can do without goes to the asker, before the asker is told that none is idle.
            self.pump(id);
            self.run_later();
        }
        match server {
            Some(server) => self.hand_over(server.into(), from, true),
            None => self.refuse(pool, from),
        }
    }

    /// Tells a worker that it gets no server. Its lane asks nobody else until it has an answer, so this must arrive.
    fn refuse(&mut self, pool: &Arc<GlobalPool>, asker: usize) {
        let pool = Arc::clone(pool);
        self.mail(asker, Message::AskRefused { pool });
    }

    /// Sends a free server to another worker, as soon as the driver gives its connection back.
    pub(super) fn hand_over(&mut self, server_id: ServerId, worker: usize, asked: bool) {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return;
        };
        let is_free = server.input.is_empty() && server.session.is_free();
        let Some(lane) = self.tables.lanes.must_get_mut(server.lane) else {
            return;
        };
        let transfer = match is_free {
            true => lane.shard.detach(server_id.into()),
            false => None,
        };
        let Some(transfer) = transfer else {
            let pool = Arc::clone(&lane.global);
            if is_free {
                self.global.broken.report(Missing::State);
            }
            self.close_server(server_id, "cannot be handed over");
            if asked {
                self.refuse(&pool, worker);
            }
            return;
        };
        server.stage = Stage::Moving(Box::new(Departure {
            worker,
            asked,
            transfer,
        }));
        self.driver.begin_detach(server.key);
        self.arm_server(server_id, Some(DETACH_MAX));
    }

    /// Sends a server that is out of the driver to its new worker.
    pub(super) fn server_detached(&mut self, server_id: ServerId, stream: Stream) {
        self.arm_server(server_id, None);
        let Some(server) = self.tables.servers.must_remove(server_id) else {
            return;
        };
        let lane_id = server.lane;
        let Server {
            stage,
            session,
            facts,
            ..
        } = server;
        let Stage::Moving(departure) = stage else {
            return self.global.broken.report(Missing::State);
        };
        let Departure {
            worker,
            asked,
            transfer,
        } = *departure;
        let Some(lane) = self.tables.lanes.must_get(lane_id) else {
            return;
        };
        let moved = Box::new(MovedServer {
            stream,
            session,
            facts: *facts,
        });
        let pool = Arc::clone(&lane.global);
        let message = Message::Transfer {
            pool,
            transfer: Box::new(transfer),
            server: moved,
            asked,
        };
        if let Err(Message::Transfer { transfer, .. }) = self.post(worker, message) {
            let departure = Departure {
                worker,
                asked,
                transfer: *transfer,
            };
            self.hand_over_failed(lane_id, departure);
        }
        self.pump(lane_id);
    }

    /// Gives up the transfer of a server that is lost on its way. A worker that has asked for the server is told.
    pub(super) fn hand_over_failed(&mut self, lane_id: LaneId, departure: Departure) {
        let Some(lane) = self.tables.lanes.must_get_mut(lane_id) else {
            return;
        };
        lane.shard.lost(self.now, departure.transfer);
        if departure.asked {
            let pool = Arc::clone(&lane.global);
            self.refuse(&pool, departure.worker);
        }
    }

    /// Adopts a server that arrives from another worker.
    pub(super) fn adopt(
        &mut self,
        pool: &Arc<GlobalPool>,
        transfer: Transfer,
        moved: MovedServer,
        asked: bool,
    ) {
        let (group_id, lane_id) = self.lane_of(pool);
        let MovedServer {
            stream,
            mut session,
            facts,
        } = moved;
        self.tables.share_reported(group_id, &mut session);
        let now = self.now;
        let added = self.tables.servers.try_insert(|id| {
            let added = self.driver.add(stream, Owner::Server(id));
            added.map(|key| Server::new(key, (group_id, lane_id), session, facts, now))
        });
        match added {
            Ok(server_id) => {
                if let Some(lane) = self.tables.lanes.must_get_mut(lane_id) {
                    let verdict = lane.shard.adopt(self.now, server_id.into(), transfer);
                    self.place(server_id, verdict);
                }
                if self.ending.is_over() && self.tables.servers.contains(server_id) {
                    self.close_server(server_id, "pooler is shutting down");
                }
            }
            Err(_) => {
                if let Some(lane) = self.tables.lanes.must_get_mut(lane_id) {
                    lane.shard.lost(self.now, transfer);
                }
            }
        }
        if asked {
            self.ask_answered(lane_id, true);
        }
        self.pump(lane_id);
    }

    /// Makes room in a full limit of the database or user: closes the server that was idle longest in another of its
    /// pools.
    fn evict(&mut self, id: LaneId, scope: Scope) {
        let Some(lane) = self.tables.lanes.must_get(id) else {
            return;
        };
        let pool = Arc::clone(&lane.global);
        self.evict_for(scope, &pool, 0);
    }

    /// Looks for an idle server here, then on each next worker, until all were asked. A second round looks for a server
    /// that its client only keeps. A third one, for a replication connection, lets a server in use be closed when it is
    /// free. The shard asks again if no round finds one.
    pub(super) fn evict_for(&mut self, scope: Scope, pool: &Arc<GlobalPool>, asked: usize) {
        let workers = self.global.worker_count();
        let rounds = if scope == Scope::Pool { 3 } else { 2 };
        for asked in asked..rounds * workers {
            let is_found = match asked / workers {
                round @ (0 | 1) => self.evict_here(scope, pool, round == 0),
                _ => self.tables.doom_for(pool),
            };
            if is_found {
                return;
            }
            let next = (self.number + 1) % workers;
            if next != self.number {
                let (pool, asked) = (Arc::clone(pool), asked + 1);
                return drop(self.post(next, Message::Evict { scope, pool, asked }));
            }
        }
    }

    /// Closes the longest idle or longest kept server of another pool in this scope. True if there was one.
    fn evict_here(&mut self, scope: Scope, pool: &Arc<GlobalPool>, idle: bool) -> bool {
        let fits = |other: &Lane| {
            !Arc::ptr_eq(&other.global, pool)
                && match scope {
                    Scope::Database => other.global.group.key.database == pool.group.key.database,
                    Scope::Pool => other.global.shared.shares_size_with(&pool.shared),
                    Scope::User => other.global.group.key.user == pool.group.key.user,
                }
        };
        let coldest = |shard: &Shard| match idle {
            true => shard.coldest_idle(),
            false => shard.coldest_kept(),
        };
        let others = self.tables.lanes.iter().filter(|(_, other)| fits(other));
        let found = others
            .filter_map(|(id, other)| coldest(&other.shard).map(|found| (id, found)))
            .min_by_key(|(_, (_, since))| *since);
        let Some((id, (server, _))) = found else {
            return false;
        };
        if idle && let Some(lane) = self.tables.lanes.must_get_mut(id) {
            lane.shard.evict(self.now, server);
            self.pump(id);
        } else {
            self.evict_kept(server.into());
        }
        true
    }

    // --- waiting clients ---

    fn wait_failed(&mut self, waiter: Waiter, error: WaitError) {
        let id = match waiter {
            Waiter::Client(client) => client,
            Waiter::Listener(listener) => return self.listener_not_served(listener, error),
        };
        if self
            .tables
            .clients
            .must_get_mut(id)
            .is_some_and(|client| client.ticket.take().is_some())
        {
            self.tables.count_wait(self.now, id);
        }
        if error == WaitError::Timeout {
            let client = self.tables.clients.must_get(id);
            let lane = client.and_then(|client| self.tables.lanes.must_get_mut(client.lane));
            if let Some(lane) = lane {
                lane.count_queue_timeout();
            }
        }
        match error {
            WaitError::ServerDown if self.waits_elsewhere(id) => {}
            WaitError::ServerDown => self.fail_for_server(id),
            _ => {
                let fault = self.tables.late(self.now, id);
                self.fail_client(id, &fault);
            }
        }
    }

    /// Ends a client that cannot get a server. The error is the server's own if the server sent one.
    pub(super) fn fail_for_server(&mut self, id: ClientId) {
        let Some(client) = self.tables.clients.must_get(id) else {
            return;
        };
        let Some(lane) = self.tables.lanes.must_get(client.lane) else {
            return;
        };
        let last = lock(&lane.global.last_error).clone();
        if matches!(client.phase, super::slots::Phase::Authenticating(_)) {
            let lacks_database = lane.global.group.settings().is_auto
                && last.as_ref().is_some_and(LastError::is_about_the_database);
            let why = last.map_or_else(|| "no server connection".to_owned(), |last| last.text);
            if lacks_database {
                return self.inquiry_without_database(id, &why);
            }
            return self.inquiry_failed(id, &why);
        }
        let text = last
            .as_ref()
            .map_or("no server connection", |last| last.text.as_str())
            .to_owned();
        match last.and_then(|last| last.body) {
            Some(body) => {
                if self.global.settled().settings.global.log_pooler_errors {
                    tracing::warn!("{client} pooler error: {text}");
                }
                let message = super::welcome::as_fatal(&body);
                self.end_client(id, &message, &text);
            }
            None => self.fail_client(id, &Fault::ServerUnavailable(text)),
        }
    }

    /// Logs that clients wait for a host that is gone, or that it is back.
    #[cold]
    fn tell_hold(&self, id: LaneId, news: HoldNews) {
        let Some(lane) = self.tables.lanes.must_get(id) else {
            return;
        };
        let GroupKey { database, user, .. } = &lane.global.group.key;
        match news {
            HoldNews::Began(until) => {
                let left = until.since(self.now).as_secs();
                let last = lock(&lane.global.last_error).clone();
                let why = last.map_or_else(String::new, |last| format!(" ({})", last.text));
                tracing::warn!(
                    "pool {database}/{user}: no server can be reached{why}; clients wait for {left} s at most \
                     (failover_hold)"
                );
            }
            HoldNews::Ended(lasted) => {
                let seconds = lasted.as_secs_f64();
                tracing::info!(
                    "pool {database}/{user}: a server can be reached again after {seconds:.1} s"
                );
            }
        }
    }

    fn notify_waiter(&mut self, waiter: Waiter) {
        let Waiter::Client(client) = waiter else {
            return;
        };
        let Some(client) = self.tables.clients.must_get(client) else {
            return;
        };
        let mut message = Vec::new();
        let text = "No server connection available in postgres backend, client being queued";
        let report = ErrorReport::new(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, text);
        // A constant text fits.
        let _ = report.encode_notice(&mut message);
        if matches!(client.phase, super::slots::Phase::Ready) {
            self.driver.send(client.key, &message);
        }
    }

    // --- keeping house ---

    pub(super) fn arm_house(&mut self, after: Duration) {
        self.timers.arm(self.now.plus(after), Timer::House);
    }

    /// Removes unused groups, and opens what `min_pool_size` asks for.
    pub(super) fn keep_house(&mut self) {
        self.drop_unused_groups();
        self.fill_forced();
        let settled = self.global.settled();
        let global = &settled.settings.global;
        let timeouts = [global.pool_idle_timeout, global.autodb_idle_timeout];
        let shortest = timeouts.into_iter().flatten().min();
        let often = shortest.map_or(HOUSE_MAX, |timeout| timeout / HOUSE_PARTS);
        self.arm_house(often.clamp(HOUSE_MIN, HOUSE_MAX));
    }

    /// Creates the pools that keep servers open although no client has come: those with `min_pool_size` and a user that
    /// the database forces. The first worker does it for all.
    pub(super) fn fill_forced(&mut self) {
        if self.number != 0 || self.ending.has_begun() {
            return;
        }
        let settled = self.global.settled();
        for name in settled.settings.databases.keys() {
            // No user has an empty name: the settings of the forced user apply.
            let forced = settled.settings.pool(name, "").filter(|pool| {
                // Hosts of a database that has several get their servers as transactions are routed to them.
                pool.is_user_forced && pool.min_pool_size > 0 && pool.cluster.is_none()
            });
            let Some(forced) = forced.filter(|_| name != FALLBACK) else {
                continue;
            };
            // `max_pools` may be reached. The next round tries again.
            if let Ok(pool) = self.global.pool(forced) {
                let (_, lane_id) = self.lane_of(&pool);
                if let Some(lane) = self.tables.lanes.must_get_mut(lane_id) {
                    lane.shard.tick(self.now);
                }
                self.pump(lane_id);
            }
        }
    }

    /// Removes groups that have long been unused (`pool_idle_timeout`, for databases by `*` also `autodb_idle_timeout`).
    /// Their counters stay with the global group.
    pub(super) fn drop_unused_groups(&mut self) {
        let settled = self.global.settled();
        let global = &settled.settings.global;
        let mut unused = Vec::new();
        for (id, group) in &mut self.tables.groups {
            let auto = global
                .autodb_idle_timeout
                .filter(|_| group.settings.is_auto);
            let is_moving = || {
                self.tables
                    .servers
                    .iter()
                    .any(|(_, server)| server.group == id)
            };
            let is_lane_used = |id: LaneId| {
                let lane = self.tables.lanes.must_get(id);
                lane.is_some_and(|lane| lane.shard.servers() > 0 || lane.shard.waiting() > 0)
            };
            let has_lanes = group.lanes.has_owned() || group.lanes.ids().any(is_lane_used);
            let used = group.clients > 0 || has_lanes;
            if used || is_moving() {
                group.unused_since = None;
                continue;
            }
            let since = *group.unused_since.get_or_insert(self.now);
            let removed = group.is_removed.then_some(Duration::ZERO);
            let age = self.now.since(since);
            let reasons = [
                ("database removed", removed),
                ("pool idle timeout", global.pool_idle_timeout),
                ("autodb idle timeout", auto),
            ];
            let over = reasons
                .into_iter()
                .find(|(_, timeout)| timeout.is_some_and(|timeout| age >= timeout));
            if let Some((reason, _)) = over {
                unused.push((id, reason, age));
            }
        }
        for (id, reason, age) in unused {
            let Some(mut group) = self.tables.groups.must_remove(id) else {
                continue;
            };
            for lane_id in group.lanes.ids() {
                let lane = self.tables.lanes.must_remove(lane_id);
                if let Some(tick) = lane.and_then(|lane| lane.tick) {
                    self.timers.disarm(tick, Timer::Lane(lane_id));
                }
            }
            let global = Arc::clone(&group.global);
            // The last worker that had the group logs its removal.
            if global.workers.fetch_sub(1, Ordering::Relaxed) == 1 {
                tracing::info!(
                    "cleaning up idle pool for user {} on db {} because: {reason} (age= {}s)",
                    global.key.user,
                    global.key.database,
                    age.as_secs()
                );
            }
            lock(&global.retired).add(&mut group);
            self.tables.group_index.remove(&global.key);
        }
    }
}

impl Tables {
    /// Tells all lanes of a group how many clients it has here.
    pub(super) fn count_clients(&mut self, now: Moment, group_id: GroupId) {
        let Some(group) = self.groups.must_get(group_id) else {
            return;
        };
        for id in group.lanes.ids() {
            if let Some(lane) = self.lanes.must_get_mut(id) {
                lane.shard.clients(now, group.clients);
            }
        }
    }

    /// Takes a client that leaves off the clients of a group.
    pub(super) fn count_leaver(&mut self, group_id: GroupId) {
        if let Some(group) = self.groups.must_get_mut(group_id) {
            group.clients -= 1;
        }
    }

    /// Reads the number of a waiter of this pool.
    pub(super) fn waiter(&self, lane_id: LaneId, number: weir_pool::ClientId) -> Waiter {
        let is_listener = |lane: &Lane| lane.global.group.key.purpose == Purpose::Listener;
        Waiter::new(
            number,
            self.lanes.must_get(lane_id).is_some_and(is_listener),
        )
    }

    /// Returns this worker's lane of a pool, and its group.
    pub(super) fn find_lane(&self, pool: &GlobalPool) -> Option<(GroupId, LaneId)> {
        let group = *self.group_index.get(&pool.group.key)?;
        let mut lanes = self.groups.must_get(group)?.lanes.ids();
        let is_it = |id: &LaneId| {
            let lane = self.lanes.must_get(*id);
            lane.is_some_and(|lane| std::ptr::eq(&raw const *lane.global, pool))
        };
        Some((group, lanes.find(is_it)?))
    }

    fn late(&self, now: Moment, id: ClientId) -> Fault {
        let client = self.clients.must_get(id);
        let lane = client.and_then(|client| Some((client, self.lanes.must_get(client.lane)?)));
        lane.map_or(Fault::QueryWaitTimeout, |(client, lane)| {
            lane.global.late(client.wait_since, now)
        })
    }
}

pub(super) fn rules(pool: &PoolSettings, settings: &Settings) -> Rules {
    let global = &settings.global;
    let max = usize::try_from(global.max_prepared_statements).unwrap_or(usize::MAX);
    Rules {
        max_prepared: if pool.pool_mode == PoolMode::Session {
            0
        } else {
            max
        },
        prepare_unnamed: pool.prepare_unnamed_after,
        refuse_simple_query: global.disable_pqexec,
        tracks_unnamed: pool.pool_mode != PoolMode::Session,
        state: state::policy(pool),
        sequences: state::sequences(pool),
        message_max: u32::try_from(global.max_packet_size).unwrap_or(u32::MAX),
    }
}

/// True if clients of a pool may outlive their servers in a transaction. In session pooling nobody knows what a client has
/// on its server.
pub(super) fn keeps_clients(pool: &PoolSettings) -> bool {
    pool.keep_client && pool.pool_mode == PoolMode::Transaction
}

/// True if clients of a pool wait while their host restarts. In session pooling, nobody knows what a server has.
pub(super) fn repeats(pool: &PoolSettings) -> bool {
    !pool.failover_hold.is_zero() && pool.pool_mode != PoolMode::Session
}

pub(super) fn has_timeouts(pool: &PoolSettings) -> bool {
    [
        pool.query_timeout,
        pool.transaction_timeout,
        pool.idle_transaction_timeout,
        pool.client_idle_timeout,
    ]
    .iter()
    .any(Option::is_some)
}
