//! Pools: this worker's shards, and the actions that they request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_config::{PoolMode, PoolSettings, Settings, StateCheck};
use weir_pool::{Action, Scope, Shard, Transfer, WaitError};
use weir_session::fault::Fault;
use weir_session::relay::Rules;
use weir_wire::encode::{ErrorReport, Severity};
use weir_wire::sqlstate::SqlState;

use super::ids::{ClientId, PoolId, ServerId, Waiter};
use super::looking;
use super::slots::{Departure, Pool, Server, Stage};
use super::state;
use super::{Missing, Worker};
use crate::driver::{Driver, Owner};
use crate::global::{GlobalPool, Purpose, lock};
use crate::mailbox::Message;
use crate::moved::MovedServer;
use crate::socket::Stream;

/// Maximum time for which a server waits for the driver to give its connection back.
const DETACH_MAX: Duration = Duration::from_secs(5);

impl<D: Driver> Worker<D> {
    /// Returns this worker's part of a pool; creates it for the first client.
    pub(super) fn pool_slot(&mut self, global: &Arc<GlobalPool>) -> PoolId {
        if let Some(id) = self.find_pool(global) {
            return id;
        }
        let settled = self.global.settled();
        let group = &global.group;
        let settings = group.settings();
        let shared = Arc::clone(&global.shared);
        let seed = self.global.next_id();
        let rules = rules(&settings, &settled.settings);
        let every = settled.settings.global.catalogue_refresh;
        let mut pool = Pool {
            counted: None,
            shard: Shard::new(shared, group.policy(&settled.settings), self.number, seed),
            rules,
            judge: state::judge(&settings),
            checks: state::checks(&settings),
            looks: looking::interval(every, rules.state, group.key.purpose),
            draw: seed,
            pins: BTreeMap::new(),
            reset_always: settled.settings.global.server_reset_query_always,
            has_timeouts: has_timeouts(&settings),
            settings,
            counters: Default::default(),
            timing: None,
            period: Default::default(),
            clients: 0,
            reported: Vec::new(),
            tick: None,
            unused_since: None,
            is_removed: false,
            global: Arc::clone(global),
        };
        pool.settle_sizing(self.number);
        self.has_checks |= pool.checks != StateCheck::Off;
        group.workers.fetch_add(1, Ordering::Relaxed);
        let id = self.pools.insert(pool);
        self.pool_index.insert(group.key.clone(), id);
        id
    }

    /// Carries out the actions of a shard; call it after each command to the shard.
    pub(super) fn pump(&mut self, id: PoolId) {
        while let Some(action) = self
            .pools
            .must_get_mut(id)
            .and_then(|pool| pool.shard.poll(self.now))
        {
            match action {
                Action::Assign {
                    client,
                    server,
                    check,
                } => {
                    let waiter = self.waiter(id, client);
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
                    let waiter = self.waiter(id, client);
                    self.wait_failed(waiter, error);
                }
                Action::Notify { client } => {
                    let waiter = self.waiter(id, client);
                    self.notify_waiter(waiter);
                }
                Action::Evict { scope } => self.evict(id, scope),
                Action::Reclaim { server } => self.reclaim(id, server.into()),
                Action::WakeOthers => self.global.wake_all(),
            }
        }
        self.arm_pool(id);
    }

    /// Reads the number of a waiter of this pool.
    pub(super) fn waiter(&self, pool_id: PoolId, number: weir_pool::ClientId) -> Waiter {
        let is_listener = |pool: &Pool| pool.global.group.key.purpose == Purpose::Listener;
        Waiter::new(
            number,
            self.pools.must_get(pool_id).is_some_and(is_listener),
        )
    }

    /// Arms the timer for the shard's next tick.
    pub(super) fn arm_pool(&mut self, id: PoolId) {
        let Some(pool) = self.pools.must_get_mut(id) else {
            return;
        };
        let Some(next) = pool.shard.next_tick() else {
            return;
        };
        // A tick that comes too early only checks and arms again. A timer is replaced only by an earlier one.
        if pool.tick.is_none_or(|armed| next < armed) {
            if let Some(armed) = pool.tick.replace(next) {
                self.timers.disarm(armed, super::timers::Timer::Pool(id));
            }
            self.timers.arm(next, super::timers::Timer::Pool(id));
        }
    }

    /// Makes shards with waiters try again, after a place was released on any worker.
    pub(super) fn retry_pools(&mut self) {
        let waiting: Vec<_> = self
            .pools
            .iter()
            .filter(|(_, pool)| pool.shard.waiting() > 0)
            .map(|(id, _)| id)
            .collect();
        for id in waiting {
            if let Some(pool) = self.pools.must_get_mut(id) {
                pool.shard.retry(self.now);
            }
            self.pump(id);
        }
    }

    // --- between workers ---

    fn ask(&mut self, id: PoolId, worker: usize) {
        let Some(pool) = self.pools.must_get(id) else {
            return;
        };
        let message = Message::Ask {
            pool: Arc::clone(&pool.global),
            from: self.number,
        };
        if self.post(worker, message).is_err() {
            self.ask_answered(id, false);
        }
    }

    pub(super) fn ask_answered(&mut self, id: PoolId, got: bool) {
        if let Some(pool) = self.pools.must_get_mut(id) {
            pool.shard.ask_answered(self.now, got);
        }
        self.pump(id);
    }

    /// Answers another worker, whose waiter could use an idle server of this one.
    pub(super) fn asked(&mut self, pool: &Arc<GlobalPool>, from: usize) {
        let id = self.find_pool(pool);
        let slot = id.and_then(|id| self.pools.must_get_mut(id));
        let server = slot.and_then(|pool| pool.shard.asked(self.now, from));
        if server.is_none()
            && let Some(id) = id
        {
            // A server that a client here can do without goes to the asker, before the asker is told that none is idle.
            self.pump(id);
            self.run_later();
        }
        match server {
            Some(server) => self.hand_over(server.into(), from, true),
            None => {
                let refused = Message::AskRefused {
                    pool: Arc::clone(pool),
                };
                // The asker waits for the answer. If its mailbox is full, the next wakeup tells it.
                if self.post(from, refused).is_err() {
                    self.global.wake_all();
                }
            }
        }
    }

    pub(super) fn find_pool(&self, pool: &GlobalPool) -> Option<PoolId> {
        self.pool_index.get(&pool.group.key).copied()
    }

    /// Sends a free server to another worker, as soon as the driver gives its connection back.
    pub(super) fn hand_over(&mut self, server_id: ServerId, worker: usize, asked: bool) {
        let Some(server) = self.servers.must_get_mut(server_id) else {
            return;
        };
        if !server.input.is_empty() || !server.session.is_free() {
            return self.close_server(server_id, "cannot be handed over");
        }
        let Some(pool) = self.pools.must_get_mut(server.pool) else {
            return;
        };
        let Some(transfer) = pool.shard.detach(server_id.into()) else {
            self.global.broken.report(Missing::State);
            return self.close_server(server_id, "cannot be handed over");
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
        let Some(server) = self.servers.must_remove(server_id) else {
            return;
        };
        let pool_id = server.pool;
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
        let Some(pool) = self.pools.must_get_mut(pool_id) else {
            return;
        };
        let moved = Box::new(MovedServer {
            stream,
            session,
            facts: *facts,
        });
        let pool = Arc::clone(&pool.global);
        let message = Message::Transfer {
            pool,
            transfer: Box::new(transfer),
            server: moved,
            asked,
        };
        let lost = self.post(worker, message).err();
        if let (Some(Message::Transfer { transfer, .. }), Some(pool)) =
            (lost, self.pools.must_get_mut(pool_id))
        {
            pool.shard.lost(self.now, *transfer);
        }
        self.pump(pool_id);
    }

    /// Adopts a server that arrives from another worker.
    pub(super) fn adopt(
        &mut self,
        pool: &Arc<GlobalPool>,
        transfer: Transfer,
        moved: MovedServer,
        asked: bool,
    ) {
        let pool_id = self.pool_slot(pool);
        let MovedServer {
            stream,
            mut session,
            facts,
        } = moved;
        self.share_reported(pool_id, &mut session);
        let now = self.now;
        let added = self.servers.try_insert(|id| {
            let added = self.driver.add(stream, Owner::Server(id));
            added.map(|key| Server::new(key, pool_id, session, facts, now))
        });
        match added {
            Ok(server_id) => {
                if let Some(pool) = self.pools.must_get_mut(pool_id) {
                    let verdict = pool.shard.adopt(self.now, server_id.into(), transfer);
                    self.place(server_id, verdict);
                }
            }
            Err(_) => {
                if let Some(pool) = self.pools.must_get_mut(pool_id) {
                    pool.shard.lost(self.now, transfer);
                }
            }
        }
        if asked {
            self.ask_answered(pool_id, true);
        }
        self.pump(pool_id);
    }

    /// Makes room in a full limit of the database or user: closes the server that was idle longest in another of its
    /// pools.
    fn evict(&mut self, id: PoolId, scope: Scope) {
        let Some(pool) = self.pools.must_get(id) else {
            return;
        };
        let pool = Arc::clone(&pool.global);
        self.evict_for(scope, &pool, 0);
    }

    /// Looks for an idle server here, then on each next worker, until all were asked. A second round looks for a server
    /// that its client only keeps. The shard asks again if neither round finds one.
    pub(super) fn evict_for(&mut self, scope: Scope, pool: &Arc<GlobalPool>, asked: usize) {
        let workers = self.global.worker_count();
        for asked in asked..2 * workers {
            if self.evict_here(scope, pool, asked < workers) {
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
        let fits = |other: &Pool| {
            !Arc::ptr_eq(&other.global, pool)
                && match scope {
                    Scope::Database => other.global.group.key.database == pool.group.key.database,
                    Scope::User => other.global.group.key.user == pool.group.key.user,
                }
        };
        let coldest = |shard: &Shard| match idle {
            true => shard.coldest_idle(),
            false => shard.coldest_kept(),
        };
        let others = self.pools.iter().filter(|(_, other)| fits(other));
        let found = others
            .filter_map(|(id, other)| coldest(&other.shard).map(|found| (id, found)))
            .min_by_key(|(_, (_, since))| *since);
        let Some((id, (server, _))) = found else {
            return false;
        };
        if idle && let Some(pool) = self.pools.must_get_mut(id) {
            pool.shard.evict(self.now, server);
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
            .clients
            .must_get_mut(id)
            .is_some_and(|client| client.ticket.take().is_some())
        {
            self.count_wait(id);
        }
        if error == WaitError::Timeout {
            let client = self.clients.must_get(id);
            let pool = client.and_then(|client| self.pools.must_get_mut(client.pool));
            if let Some(pool) = pool {
                pool.count_queue_timeout();
            }
        }
        match error {
            WaitError::ServerDown => self.fail_for_server(id),
            _ => {
                let fault = self.late(id);
                self.fail_client(id, &fault);
            }
        }
    }

    fn late(&self, id: ClientId) -> Fault {
        let client = self.clients.must_get(id);
        let pool = client.and_then(|client| Some((client, self.pools.must_get(client.pool)?)));
        pool.map_or(Fault::QueryWaitTimeout, |(client, pool)| {
            pool.global.late(client.wait_since, self.now)
        })
    }

    /// Ends a client that cannot get a server. The error is the server's own if the server sent one.
    pub(super) fn fail_for_server(&mut self, id: ClientId) {
        let Some(client) = self.clients.must_get(id) else {
            return;
        };
        let Some(pool) = self.pools.must_get(client.pool) else {
            return;
        };
        let last = lock(&pool.global.last_error).clone();
        if matches!(client.phase, super::slots::Phase::Authenticating(_)) {
            let why = last.map_or_else(|| "no server connection".to_owned(), |last| last.text);
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

    fn notify_waiter(&mut self, waiter: Waiter) {
        let Waiter::Client(client) = waiter else {
            return;
        };
        let Some(client) = self.clients.must_get(client) else {
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

    /// Removes pools that have long been unused (`pool_idle_timeout`, for databases by `*` also `autodb_idle_timeout`).
    /// Their counters stay with the global pool.
    pub(super) fn drop_unused_pools(&mut self) {
        let settled = self.global.settled();
        let global = &settled.settings.global;
        let mut unused = Vec::new();
        for (id, pool) in &mut self.pools {
            let auto = global.autodb_idle_timeout.filter(|_| pool.settings.is_auto);
            let is_moving = || self.servers.iter().any(|(_, server)| server.pool == id);
            let used = pool.clients > 0 || pool.shard.servers() > 0 || pool.shard.waiting() > 0;
            let used = used || is_moving();
            if used {
                pool.unused_since = None;
                continue;
            }
            let since = *pool.unused_since.get_or_insert(self.now);
            let removed = pool.is_removed.then_some(Duration::ZERO);
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
            let Some(mut pool) = self.pools.must_remove(id) else {
                continue;
            };
            let group = Arc::clone(&pool.global.group);
            // The last worker that had the pool logs its removal.
            if group.workers.fetch_sub(1, Ordering::Relaxed) == 1 {
                tracing::info!(
                    "cleaning up idle pool for user {} on db {} because: {reason} (age= {}s)",
                    group.key.user,
                    group.key.database,
                    age.as_secs()
                );
            }
            lock(&group.retired).add(&mut pool);
            if let Some(tick) = pool.tick {
                self.timers.disarm(tick, super::timers::Timer::Pool(id));
            }
            self.pool_index.remove(&group.key);
        }
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
