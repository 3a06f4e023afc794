//! Session state at the end of a transaction: asking the server, pinning clients, and giving up servers that clients
//! would only rather keep.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_config::{PoolMode, PoolSettings, SessionState, StateCheck};
use weir_pool::Moment;
use weir_session::fault::Fault;
use weir_session::relay::StatePolicy;
use weir_sql::{Functions, Judge};

use super::Worker;
use super::slots::{Pool, Stage};
use crate::driver::Driver;
use crate::global::GlobalPool;

/// How long a client may keep a server that nobody waits for, because it may ask there what a sequence gave it.
const RELUCTANT_MAX: Duration = Duration::from_secs(1);

/// A pinned client's place among those of its pool (`max_pinned`).
pub(super) struct Pinned {
    /// Since when it is.
    pub(super) since: Moment,
    pool: Arc<GlobalPool>,
}

impl Pinned {
    /// None if there is no place left.
    fn new(pool: &Arc<GlobalPool>, max: u32, now: Moment) -> Option<Self> {
        let has_room = |count: u32| (max == 0 || count < max).then(|| count + 1);
        let order = Ordering::Relaxed;
        pool.pinned.fetch_update(order, order, has_room).ok()?;
        Some(Self {
            since: now,
            pool: Arc::clone(pool),
        })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.pool.pinned.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<D: Driver> Worker<D> {
    /// Whether a client lets go of its free server as far as its session's state goes. Most have none, and do not get here.
    pub(super) fn settle_state(&mut self, index: usize, server_index: usize) -> bool {
        !self.is_behind(index)
            && !self.asks_state(index, server_index)
            && self.settle_pin(index, server_index)
            && !self.stays_reluctantly(index, server_index)
    }

    /// Whether a client keeps its server until it has heard everything.
    fn is_behind(&self, index: usize) -> bool {
        let client = self.clients.get(index);
        client.is_some_and(|client| client.session.is_behind())
    }

    /// Whether a server that is free has to answer a question about its client's session before it goes to anybody else.
    fn asks_state(&mut self, index: usize, server_index: usize) -> bool {
        let (Some(client), Some(server)) =
            (self.clients.get(index), self.servers.get_mut(server_index))
        else {
            return false;
        };
        let Some(pool) = self.pools.get_mut(client.pool) else {
            return false;
        };
        if !server.session.is_uncertain() {
            // What was just asked is not asked again.
            let was_checked = std::mem::take(&mut server.is_checked);
            if pool.checks == StateCheck::Off || was_checked || !pool.is_check_due() {
                return false;
            }
            server.session.suspect();
            server.is_checked = true;
        }
        let mut message = Vec::new();
        if !server.session.ask_state(&mut message) {
            return false;
        }
        pool.counters.state_questions += 1;
        self.driver.send(server.key, &message);
        true
    }

    /// The pins of a client whose server is free, as they are now. False if the client was ended: it had no place.
    fn settle_pin(&mut self, index: usize, server_index: usize) -> bool {
        let (Some(client), Some(server)) = (
            self.clients.get_mut(index),
            self.servers.get_mut(server_index),
        ) else {
            return false;
        };
        let pin = client.session.pin();
        if pin.is_none() && client.pinned.is_none() && !server.session.has_found() {
            return true;
        }
        let Some(pool) = self.pools.get_mut(client.pool) else {
            return false;
        };
        if server.session.take_found() {
            pool.counters.state_misses += 1;
            tracing::warn!(
                "{client} session state that no statement showed was found by session_state_check"
            );
        }
        if pool.settings.pool_mode == PoolMode::Session {
            return true;
        }
        match pin {
            None => {
                if client.pinned.take().is_some() {
                    tracing::debug!("{client} not pinned to its server any more");
                }
                true
            }
            Some(_) if client.pinned.is_some() => true,
            Some(pin) => {
                let max = pool.settings.max_pinned;
                let reason = pin.reason();
                match Pinned::new(&pool.global, max, self.now) {
                    Some(place) => {
                        pool.counters.pins += 1;
                        *pool.pins.entry(reason).or_default() += 1;
                        tracing::info!("{client} pinned to its server: {reason}");
                        client.pinned = Some(Box::new(place));
                        true
                    }
                    None => {
                        self.fail_client(index, &Fault::TooManyPins(reason));
                        false
                    }
                }
            }
        }
    }

    // --- servers that clients would rather keep ---

    /// Whether a client keeps a free server as long as nobody else needs it.
    fn stays_reluctantly(&mut self, index: usize, server_index: usize) -> bool {
        let (Some(client), Some(server)) =
            (self.clients.get(index), self.servers.get_mut(server_index))
        else {
            return false;
        };
        if !client.session.is_reluctant() {
            return false;
        }
        let Some(pool) = self.pools.get_mut(client.pool) else {
            return false;
        };
        if pool.rules.state != StatePolicy::Track {
            return false;
        }
        let mut longest = if client.session.is_on_trial() {
            TRIAL_MAX
        } else {
            RELUCTANT_MAX
        };
        if pool.shard.waiting() > 0 {
            let is_on_trial = client.session.is_on_trial();
            match pool.trials.grant(self.now).filter(|_| is_on_trial) {
                None => return false,
                Some(granted) => {
                    server.trial = Some(self.now);
                    longest = granted;
                }
            }
        } else if !server.is_reluctant {
            pool.reluctant.push_back(server_index);
        }
        server.is_reluctant = true;
        self.arm_server(server_index, Some(longest));
        true
    }

    /// Somebody needs a server: the one that was kept longest without need goes back. True if there was one.
    pub(super) fn give_up_reluctant(&mut self, pool_index: usize) -> bool {
        while let Some(server_index) = self
            .pools
            .get_mut(pool_index)
            .and_then(|pool| pool.reluctant.pop_front())
        {
            if !self.tries(pool_index, server_index) && self.release_reluctant(server_index) {
                return true;
            }
        }
        false
    }

    /// Whether a client keeps its server for a moment though somebody waits for one by now.
    fn tries(&mut self, pool_index: usize, server_index: usize) -> bool {
        let (Some(pool), Some(server)) = (
            self.pools.get_mut(pool_index),
            self.servers.get_mut(server_index),
        ) else {
            return false;
        };
        let client = server.lease.and_then(|index| self.clients.get(index));
        let is_on_trial = client.is_some_and(|client| client.session.is_on_trial());
        let keeps = is_on_trial && server.is_reluctant && server.session.is_free();
        let granted = pool.trials.grant(self.now).filter(|_| keeps);
        if granted.is_some() {
            server.trial = Some(self.now);
            self.arm_server(server_index, granted);
        }
        granted.is_some()
    }

    /// What was kept on trial is not any more.
    pub(super) fn end_trial(&mut self, server_index: usize) {
        if let Some(server) = self.servers.get_mut(server_index)
            && let Some(since) = server.trial.take()
        {
            server.is_reluctant = false;
            if let Some(pool) = self.pools.get_mut(server.pool) {
                pool.trials.spend(self.now.since(since));
            }
        }
    }

    /// Releases a server that its client only would rather keep; false if it has a better reason by now.
    pub(super) fn release_reluctant(&mut self, server_index: usize) -> bool {
        let Some(server) = self.servers.get_mut(server_index) else {
            return false;
        };
        if !std::mem::take(&mut server.is_reluctant) {
            return false;
        }
        self.end_trial(server_index);
        let Some(server) = self.servers.get_mut(server_index) else {
            return false;
        };
        let is_free = matches!(server.stage, Stage::Leased)
            && server.session.is_free()
            && !server.session.is_uncertain()
            && self.driver.backlog(server.key) == 0;
        let client = server.lease.and_then(|index| self.clients.get(index));
        let lets_go = client.is_some_and(|client| {
            client.session.pin().is_none()
                && !client.session.is_sending_to_server()
                && !client.session.is_behind()
        });
        if !is_free || !lets_go {
            return false;
        }
        if let Some(server) = self.servers.get_mut(server_index)
            && let Some(index) = server.lease.take()
            && let Some(client) = self.clients.get_mut(index)
        {
            client.lease = None;
            client.session.end_trial();
        }
        self.arm_server(server_index, None);
        self.release_later(server_index);
        true
    }
}

// === Trials ===

/// The longest that one client keeps others waiting.
const TRIAL_MAX: Duration = Duration::from_millis(250);

/// The most that all of them do, if none did for a while.
const TRIALS_MAX: Duration = Duration::from_secs(2);

/// Of the time, clients may keep others waiting for one part in so many.
const TRIALS_SHARE: u32 = 100;

/// How long clients may keep a server that others wait for, to see by their next request whether they need what a
/// sequence gave them there (see `weir_session::client::Client::is_on_trial`).
pub(super) struct Trials {
    left: Duration,
    at: Moment,
}

impl Trials {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            left: TRIALS_MAX,
            at: now,
        }
    }

    /// How long a client may wait now, if at all.
    fn grant(&mut self, now: Moment) -> Option<Duration> {
        let more = now.since(self.at) / TRIALS_SHARE;
        self.left = self.left.saturating_add(more).min(TRIALS_MAX);
        self.at = now;
        (self.left >= TRIAL_MAX).then_some(TRIAL_MAX)
    }

    fn spend(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time.min(TRIAL_MAX));
    }
}

/// What a pool's setting means for its relay.
pub(super) fn policy(pool: &PoolSettings) -> StatePolicy {
    match pool.session_state {
        SessionState::Off => StatePolicy::Off,
        _ if pool.pool_mode == PoolMode::Session => StatePolicy::Session,
        SessionState::Pin => StatePolicy::Pin,
        SessionState::Refuse => StatePolicy::Refuse,
        SessionState::Track => StatePolicy::Track,
    }
}

/// How often to look for what no statement shows.
pub(super) fn checks(pool: &PoolSettings) -> StateCheck {
    match policy(pool) {
        StatePolicy::Track | StatePolicy::Refuse => pool.session_state_check,
        StatePolicy::Off | StatePolicy::Pin | StatePolicy::Session => StateCheck::Off,
    }
}

/// Judges texts by the pool's list of functions.
pub(super) fn judge(pool: &PoolSettings) -> Judge {
    let names = pool.session_state_functions.iter();
    Judge::new(Functions::new(names.map(ToString::to_string)))
}

impl Pool {
    /// Whether the next release is one to check.
    fn is_check_due(&mut self) -> bool {
        // Evenly spread is enough (Knuth's linear congruential generator, by its upper half): nothing secret hangs on it.
        self.draw = self
            .draw
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let upper = self.draw.to_be_bytes();
        let random = upper
            .first_chunk()
            .map_or(0, |bytes| u32::from_be_bytes(*bytes));
        self.checks.is_due(random)
    }
}
