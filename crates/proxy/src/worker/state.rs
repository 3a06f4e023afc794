//! Session state at the end of a transaction: asking the server, and pinning clients.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_config::{PoolMode, PoolSettings, SequenceValues, SessionState, StateCheck};
use weir_pool::Moment;
use weir_session::fault::Fault;
use weir_session::relay::{SequencePolicy, StatePolicy};
use weir_sql::{Functions, Judge};

use super::Worker;
use super::ids::{ClientId, ServerId};
use super::slots::Pool;
use crate::driver::Driver;
use crate::global::GlobalPool;

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
    pub(super) fn settle_state(&mut self, id: ClientId, server_id: ServerId) -> bool {
        !self.is_behind(id)
            && !self.asks_state(id, server_id)
            && self.settle_pin(id, server_id)
            && !self.keeps(id, server_id)
    }

    /// Whether a client keeps its server until it has heard everything.
    fn is_behind(&self, id: ClientId) -> bool {
        let client = self.clients.must_get(id);
        client.is_some_and(|client| client.session.is_behind())
    }

    /// Whether a server that is free has to answer a question about its client's session before it goes to anybody else.
    fn asks_state(&mut self, id: ClientId, server_id: ServerId) -> bool {
        let (Some(client), Some(server)) = (
            self.clients.must_get(id),
            self.servers.must_get_mut(server_id),
        ) else {
            return false;
        };
        let Some(pool) = self.pools.must_get_mut(client.pool) else {
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
        if !server
            .session
            .ask_state(&pool.global.database_state.names, &mut message)
        {
            return false;
        }
        pool.counters.state_questions += 1;
        self.driver.send(server.key, &message);
        true
    }

    /// The pins of a client whose server is free, as they are now. False if the client was ended: it had no place.
    fn settle_pin(&mut self, id: ClientId, server_id: ServerId) -> bool {
        let (Some(client), Some(server)) = (
            self.clients.must_get_mut(id),
            self.servers.must_get_mut(server_id),
        ) else {
            return false;
        };
        let pin = client.session.pin();
        if pin.is_none() && client.pinned.is_none() && !server.session.has_found() {
            return true;
        }
        let Some(pool) = self.pools.must_get_mut(client.pool) else {
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
                        self.fail_client(id, &Fault::TooManyPins(reason));
                        false
                    }
                }
            }
        }
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

/// What a pool's setting means for values that sequences gave.
pub(super) const fn sequences(pool: &PoolSettings) -> SequencePolicy {
    match pool.sequence_values {
        SequenceValues::Learn => SequencePolicy::Learn,
        SequenceValues::Pin => SequencePolicy::Pin,
        SequenceValues::Refuse => SequencePolicy::Refuse,
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
