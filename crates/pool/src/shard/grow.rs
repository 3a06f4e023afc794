//! New servers: which lane may open one, and the effects of a login's success or failure.

use std::sync::Arc;

use crate::action::Action;
use crate::action::Checkin;
use crate::action::FailureKind;
use crate::action::HoldNews;
use crate::action::Scope;
use crate::action::WaitError;
use crate::gate::GateShut;
use crate::gate::HostGate;
use crate::gate::PROBES_MAX;
use crate::moment::HostId;
use crate::moment::Moment;
use crate::moment::ServerId;
use crate::shard::EVICT_RETRY;
use crate::shard::Entry;
use crate::shard::LIFETIME_SPREAD;
use crate::shard::LOCAL_FAILURE_PAUSE;
use crate::shard::MIN_SIZE_RETRY;
use crate::shard::Shard;
use crate::shard::State;
use crate::shared::ConnectToken;
use crate::shared::HANDOVER_IDLE;
use crate::shared::HOLD_PAUSE_MAX;
use crate::shared::Hold;
use crate::shared::Permit;
use crate::shared::Refusal;
use crate::shared::older_than;
use crate::want::Serial;
use crate::want::Users;

/// The smallest step of time.
const INSTANT: std::time::Duration = std::time::Duration::from_micros(1);

/// Reason for which the shard does not grow now.
enum Block {
    /// The place goes to an older waiter of another lane; a wakeup follows when that waiter is served.
    Deferred,
    /// The gate is full; a wakeup follows when a login ends.
    Gate,
    Limit(Refusal),
    Until(Moment),
}

/// Host at which a login was tried last, and since when.
struct Tried {
    gate: Arc<HostGate>,
    since: Moment,
}

impl Shard {
    /// Answers [`Action::Connect`]: the login began, and the server is called `server`. `serial` tells it from clients
    /// that came before and after it.
    pub fn connect_started(&mut self, token: ConnectToken, server: ServerId, serial: Serial) {
        debug_assert!(self.tokens > 0, "a token that this shard gave");
        self.tokens = self.tokens.saturating_sub(1);
        self.connecting += 1;
        let ConnectToken {
            permit,
            login,
            started,
        } = token;
        let state = State::Connecting(login);
        let expires = self.expiry(started);
        let entry = Entry {
            state,
            permit,
            alive: None,
            seat: None,
            started,
            expires,
            used_at: started,
            serial,
            users: Users::None,
        };
        self.insert(server, entry);
    }

    /// Answers [`Action::Connect`]: the login cannot be started.
    pub fn connect_abandoned(&mut self, now: Moment, token: ConnectToken, kind: FailureKind) {
        self.see(now);
        self.tokens = self.tokens.saturating_sub(1);
        let ConnectToken {
            permit,
            login,
            started,
        } = token;
        let tried = Tried {
            gate: Arc::clone(login.gate()),
            since: login.since,
        };
        self.wake |= login.release();
        self.after_failure(Some(tried), started, now, kind, permit);
    }

    /// Completes a login; the server is then placed as by a check-in.
    pub fn connected(&mut self, now: Moment, server: ServerId) -> Checkin {
        self.see(now);
        let tried = self.end_login(server);
        if let Some(entry) = self.servers.get_mut(&server) {
            let (alive, pause_ended) = self.shared.login_succeeded(entry.started);
            if let Some(began) = self.shared.end_hold(now) {
                let lasted = now.since(began);
                self.actions
                    .push_back(Action::Hold(HoldNews::Ended(lasted)));
            }
            self.wake |= pause_ended;
            if let Some(Tried { gate, .. }) = tried {
                self.wake |= gate.succeeded();
                gate.answered(now);
            }
            entry.alive = Some(alive);
            entry.used_at = now;
            self.next_expiry = self.next_expiry.min(entry.expires);
        }
        let answer = self.place(now, server);
        self.serve_queue(now);
        answer
    }

    /// Records that the login failed and the server is gone, also if it was closed during its login.
    pub fn connect_failed(&mut self, now: Moment, server: ServerId, kind: FailureKind) {
        self.see(now);
        let tried = self.end_login(server);
        if let Some(entry) = self.servers.remove(&server) {
            self.after_failure(tried, entry.started, now, kind, entry.permit);
        }
    }

    /// Goes on to the pool's next host, because the login failed at the one before. Returns the host to connect to;
    /// None if no host is left that may behave differently and admits a login: then call `connect_failed`.
    pub fn next_host(
        &mut self,
        now: Moment,
        server: ServerId,
        kind: FailureKind,
    ) -> Option<HostId> {
        self.see(now);
        if matches!(kind, FailureKind::Local | FailureKind::Rejected) {
            return None;
        }
        let State::Connecting(login) = &mut self.servers.get_mut(&server)?.state else {
            return None;
        };
        let before = login.advance(now)?;
        let next = login.gate().host();
        self.host_failed(before.gate(), before.since, now, kind);
        self.wake |= before.release();
        Some(next)
    }

    /// Records that the server connection is gone, in whatever state it was.
    pub fn closed(&mut self, now: Moment, server: ServerId) {
        self.see(now);
        self.end_login(server);
        self.remove_idle(server);
        self.unkeep(server);
        self.unseat(server);
        let Some(entry) = self.servers.remove(&server) else {
            return;
        };
        let Entry {
            state,
            permit,
            alive,
            ..
        } = entry;
        drop(alive);
        if let State::Leaving(delivery) = state {
            // The lane that expected this server must look again.
            drop(delivery);
            self.wake = true;
        }
        self.wake |= permit.release();
        self.serve_queue(now);
    }

    /// Looks again after another shard released a place that this shard was refused.
    pub fn retry(&mut self, now: Moment) {
        self.see(now);
        self.evict_at = now;
        self.serve_queue(now);
    }

    /// Does all that is possible for the waiters now: asks a lane with a surplus server, opens connections, asks any
    /// lane with an idle server. The waiters stay in the queue, and whichever server comes first serves the longest
    /// waiter.
    pub(super) fn serve_queue(&mut self, now: Moment) {
        self.serve_queue_after(now, false);
    }

    /// As `serve_queue`. `was_refused`: the lane with an idle server has just said that it has none any more.
    pub(super) fn serve_queue_after(&mut self, now: Moment, was_refused: bool) {
        self.served_at = now;
        self.grow_at = Moment::NEVER;
        self.refusal = None;
        if self.queue.is_empty() || self.shared.is_paused() {
            self.relying = 0;
            self.settle_claim();
            return self.announce_wait();
        }
        if self.shared.is_failing(now) {
            return self.fail_waiters();
        }
        self.fail_held();
        // Announce waiters before looking for idle servers, see `shared`.
        self.announce_wait();
        let looks_for_seats = self.policy.limits_assigned || !self.idle.is_empty();
        let has_turn = !looks_for_seats || self.seat_waiters(now);
        let unmet = self.unmet();
        if unmet > 0 && self.reclaim(unmet) == unmet {
            // Kept servers come back at once, sooner than any other.
            return;
        }
        if !has_turn {
            return self.ask_for_kept();
        }
        let surplus = now.0.saturating_sub(micros(HANDOVER_IDLE));
        self.ask(|since| since.0 <= surplus);
        if !was_refused {
            self.ask_before_login(now);
        }
        self.rely_on_others();
        while self.unmet() > 0 {
            if let Err(block) = self.grow(now) {
                self.blocked(&block);
                break;
            }
        }
        if self.queue.choosy() > 0 {
            self.make_room();
            self.announce_wait();
        }
        if self.unmet() > 0 {
            self.ask(|_| true);
        }
        self.settle_claim();
        self.evict_elsewhere(now);
        self.announce_wait();
        self.await_others();
    }

    /// Claims the next free place of the pool while the client of an annex waits for one, and ends the claim afterwards. The
    /// pool's own waiters look again then.
    pub(super) fn settle_claim(&mut self) {
        if !self.shared.is_annex() {
            return;
        }
        let waits = !self.queue.is_empty() && self.refusal == Some(Refusal::Pool);
        if waits && self.claim.is_none() {
            self.claim = Some(self.shared.claim());
        } else if !waits && self.claim.take().is_some() {
            self.wake |= self.shared.take_starved();
        }
    }

    /// Starts one login although no client waits. Clients fail fast meanwhile, so this login finds out when the server
    /// is back. The gate limits the rate.
    pub(super) fn probe(&mut self, now: Moment) {
        if self.tokens + self.connecting < PROBES_MAX && self.may_log_in(now).is_ok() {
            let _ = self.open(now, usize::MAX);
        }
    }

    /// Opens a connection that no client waits for, if fewer than `ceiling` exist.
    pub(super) fn open(&mut self, now: Moment, ceiling: usize) -> bool {
        if self.may_log_in(now).is_err() {
            return false;
        }
        let shared = Arc::clone(&self.shared);
        match shared.reserve_spare(ceiling, &mut self.wake) {
            Ok(permit) => self.connect(now, permit).is_ok(),
            Err(_) => false,
        }
    }

    pub(super) fn wants_ask(&self) -> bool {
        !self.asking && self.attracting() > self.shared.deliveries(self.lane)
    }

    fn ask(&mut self, is_cold: impl Fn(Moment) -> bool) {
        if !self.wants_ask() {
            return;
        }
        if let Some((lane, since)) = self.shared.coldest_lane(self.lane)
            && is_cold(since)
        {
            self.begin_asking(lane);
        }
    }

    /// Asks another lane for a kept server. Without a free seat an idle server is of no use, but a kept server brings
    /// its seat.
    fn ask_for_kept(&mut self) {
        if self.wants_ask()
            && self.is_out_of_seats()
            && let Some((lane, _)) = self.shared.keeping_lane(self.lane)
        {
            self.begin_asking(lane);
        }
    }

    /// True if the limits allow no further server.
    pub(super) fn is_full(&self, now: Moment) -> bool {
        let has_enough = self.policy.limits_assigned && self.shared.has_enough();
        has_enough || self.shared.look(self.usable_reserve(now)).is_err()
    }

    fn grow(&mut self, now: Moment) -> Result<(), Block> {
        if self.policy.limits_assigned && self.shared.has_enough() {
            return Err(Block::Limit(Refusal::Pool));
        }
        self.may_log_in(now)?;
        let extra = self.usable_reserve(now);
        self.shared.look(extra).map_err(Block::Limit)?;
        self.yield_to_older()?;
        let shared = Arc::clone(&self.shared);
        let permit = shared
            .reserve(extra, &mut self.wake)
            .map_err(Block::Limit)?;
        self.connect(now, permit)
    }

    fn may_log_in(&self, now: Moment) -> Result<(), Block> {
        let pause = self.local_pause.max(self.shared.rejected_until());
        if now < pause {
            return Err(Block::Until(pause));
        }
        self.hosts.look(now).map_err(Block::from)
    }

    fn connect(&mut self, now: Moment, permit: Permit) -> Result<(), Block> {
        match self.hosts.enter(now) {
            Ok(login) => {
                self.tokens += 1;
                let token = ConnectToken {
                    permit,
                    login,
                    // A login that begins within the microsecond of a `recycle` must not count as older than it.
                    started: now.max(self.shared.obsolete_before().plus(INSTANT)),
                };
                self.actions.push_back(Action::Connect(token));
                Ok(())
            }
            Err(shut) => {
                self.wake |= permit.release();
                Err(Block::from(shut))
            }
        }
    }

    /// Leaves a free place to the oldest waiter that needs one. That waiter's lane is awake: the release woke it, or it
    /// is looking now. If it does not take the place after all, its claim shrinks, and the mark makes it wake this
    /// lane.
    fn yield_to_older(&self) -> Result<(), Block> {
        let head = self.first_unmet().unwrap_or(Moment::NEVER);
        let before = older_than(head);
        if !self.shared.has_older_unmet(self.lane, before) {
            return Ok(());
        }
        self.shared.defer();
        if self.shared.has_older_unmet(self.lane, before) {
            Err(Block::Deferred)
        } else {
            Ok(())
        }
    }

    /// Number of servers above its size that the pool may open for the first waiter without a server on its way.
    fn usable_reserve(&self, now: Moment) -> usize {
        let due = self.reserve_due().is_some_and(|due| now >= due);
        if due { self.policy.usable_reserve() } else { 0 }
    }

    /// Moment from which the first waiter without a server on its way may use the reserve.
    pub(super) fn reserve_due(&self) -> Option<Moment> {
        if self.policy.usable_reserve() == 0 {
            return None;
        }
        self.first_unmet()
            .map(|since| since.plus(self.policy.reserve_timeout))
    }

    pub(super) fn first_unmet(&self) -> Option<Moment> {
        self.queue
            .since_at(self.queue.len().saturating_sub(self.unmet()))
    }

    const fn blocked(&mut self, block: &Block) {
        match block {
            Block::Deferred | Block::Gate => {}
            Block::Until(moment) => self.grow_at = *moment,
            Block::Limit(refusal) => self.refusal = Some(*refusal),
        }
    }

    /// Asks for an eviction if the database or user limit refuses a server and no lane of this pool has one to give.
    /// Another pool's idle server may then have to go, as in PgBouncer. An annex may need the place of an idle server of
    /// its pool.
    fn evict_elsewhere(&mut self, now: Moment) {
        let scope = match self.refusal {
            Some(Refusal::Database) => Scope::Database,
            Some(Refusal::User) => Scope::User,
            Some(Refusal::Pool) if self.shared.is_annex() => Scope::Pool,
            Some(Refusal::Pool) | None => return,
        };
        if !self.asking && now >= self.evict_at {
            self.evict_at = now.plus(EVICT_RETRY);
            self.actions.push_back(Action::Evict { scope });
        }
    }

    /// Ends the login of a server that was connecting; does nothing for others. Returns the host that was tried.
    fn end_login(&mut self, server: ServerId) -> Option<Tried> {
        let entry = self.servers.get_mut(&server)?;
        if !matches!(entry.state, State::Connecting(_)) {
            return None;
        }
        let State::Connecting(login) = std::mem::replace(&mut entry.state, State::Active) else {
            return None;
        };
        let tried = Tried {
            gate: Arc::clone(login.gate()),
            since: login.since,
        };
        self.wake |= login.release();
        self.connecting -= 1;
        Some(tried)
    }

    /// Records a login's failure at its host.
    fn host_failed(&mut self, gate: &HostGate, since: Moment, now: Moment, kind: FailureKind) {
        let retry = match self.shared.held_until() {
            Some(until) if now < until => self.policy.login_retry.min(HOLD_PAUSE_MAX),
            Some(_) | None => self.policy.login_retry,
        };
        if matches!(
            kind,
            FailureKind::Refused | FailureKind::Temporary | FailureKind::Timeout
        ) {
            gate.failed(since, now, retry, &mut self.random);
        }
        match kind {
            FailureKind::Local | FailureKind::Refused | FailureKind::Timeout => {}
            FailureKind::Rejected => gate.answered(now),
            FailureKind::Temporary => self.shared.host_is_back(gate, now),
        }
    }

    fn after_failure(
        &mut self,
        tried: Option<Tried>,
        started: Moment,
        now: Moment,
        kind: FailureKind,
        permit: Permit,
    ) {
        let retry = self.policy.login_retry;
        // No client waits for a server of the minimum, so the next attempt is delayed.
        self.min_at = now.plus(MIN_SIZE_RETRY);
        if kind == FailureKind::Local {
            self.local_pause = now.plus(LOCAL_FAILURE_PAUSE);
        }
        if kind == FailureKind::Rejected {
            self.shared.set_rejected(now.plus(retry));
        }
        let has_servers = self.shared.has_lasting();
        // Before the pause until the next login is chosen: a hold makes it short.
        let is_held = !has_servers && self.holds(now, kind);
        if let Some(Tried { gate, since }) = tried {
            self.host_failed(&gate, since, now, kind);
        }
        self.wake |= permit.release();
        if !has_servers && !is_held && self.is_hopeless(started, kind) {
            match kind {
                FailureKind::Rejected => self.shared.set_failing(now.plus(retry)),
                // Clients wait in the queue, for `query_wait_timeout` at most.
                _ if !self.policy.hold.is_zero() => return self.serve_queue(now),
                _ => self.shared.set_unreachable(now, now.plus(retry)),
            }
            // The other lanes fail their waiters when `retry` is called on them.
            self.wake = true;
            if !self.shared.is_paused() {
                return self.fail_waiters();
            }
        }
        self.serve_queue(now);
    }

    /// True if clients wait on although a login failed, because the host has served before and may come back soon.
    fn holds(&mut self, now: Moment, kind: FailureKind) -> bool {
        if matches!(kind, FailureKind::Local | FailureKind::Rejected) {
            return false;
        }
        match self.shared.hold(now, &self.policy) {
            Hold::Began(until) => {
                let news = HoldNews::Began(until);
                self.actions.push_back(Action::Hold(news));
                true
            }
            Hold::Goes => true,
            Hold::Ended => {
                // The other lanes fail theirs when `retry` is called on them.
                self.wake = true;
                false
            }
            Hold::No => false,
        }
    }

    /// True if waiting does not help, since every host fails. A login that began before a host last answered reflects
    /// the host's earlier state: while PostgreSQL restarts, older connections are still reset when new ones learn
    /// already that it is starting up.
    fn is_hopeless(&self, started: Moment, kind: FailureKind) -> bool {
        match kind {
            FailureKind::Local | FailureKind::Temporary => false,
            FailureKind::Refused | FailureKind::Timeout => {
                let fails =
                    |gate: &Arc<HostGate>| gate.is_failing() && !gate.has_answered_since(started);
                self.hosts.gates().iter().all(fails)
            }
            FailureKind::Rejected => true,
        }
    }

    /// Fails the clients that have waited through a hold.
    fn fail_held(&mut self) {
        let gave_up = self.shared.gave_up();
        if gave_up <= self.gave_up {
            return;
        }
        self.gave_up = gave_up;
        while self.queue.head_since().is_some_and(|since| since < gave_up)
            && let Some(client) = self.queue.pop()
        {
            self.actions.push_back(Action::Fail {
                client,
                error: WaitError::ServerDown,
            });
        }
        self.announce_wait();
    }

    fn fail_waiters(&mut self) {
        while let Some(client) = self.queue.pop() {
            self.actions.push_back(Action::Fail {
                client,
                error: WaitError::ServerDown,
            });
        }
        self.settle_claim();
        self.announce_wait();
    }

    fn expiry(&mut self, started: Moment) -> Moment {
        match self.policy.lifetime {
            Some(life) if life.is_zero() => Moment::NEVER,
            None => Moment::NEVER,
            Some(life) => {
                let (shortest, spread) = match self.policy.lifetime_jitter {
                    None => (life, life / LIFETIME_SPREAD),
                    // No server is closed before its first use.
                    Some(jitter) => {
                        let jitter = jitter.min(life);
                        (life - jitter, jitter * 2)
                    }
                };
                started.plus(shortest).plus(self.random.up_to(spread))
            }
        }
    }
}

impl From<GateShut> for Block {
    fn from(shut: GateShut) -> Self {
        match shut {
            GateShut::Busy => Self::Gate,
            GateShut::Until(moment) => Self::Until(moment),
        }
    }
}

fn micros(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
