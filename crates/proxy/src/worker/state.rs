//! Session state at the end of a transaction: asks the server for it, and pins clients.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_config::{
    FunctionPattern, NamePattern, PoolMode, PoolSettings, SequenceValues, SessionState, StateCheck,
};
use weir_pool::Moment;
use weir_session::fault::Fault;
use weir_session::relay::{SequencePolicy, StatePolicy};
use weir_sql::{Functions, Judge, Names, Pattern};

use super::Worker;
use super::ids::{ClientId, ServerId};
use super::slots::Group;
use super::tables::{Link, Tables};
use super::timers::Timer;
use crate::driver::Driver;
use crate::global::GlobalGroup;

/// Time for which a client may be pinned although `max_pinned = auto` others are.
const SHORT: Duration = Duration::from_secs(60);
/// Interval for looking again if such a client, whose time is over, has ended its transaction.
const AGAIN: Duration = Duration::from_secs(1);

/// Place of a pinned client among those of its group (`max_pinned`).
pub(super) struct Pinned {
    /// Time since which the client is pinned.
    pub(super) since: Moment,
    /// True if the place was one too many, and is to be short.
    is_over: bool,
    group: Arc<GlobalGroup>,
}

impl Pinned {
    /// Takes a place. None if no place is left, not even for a short time.
    fn new(group: &Arc<GlobalGroup>, pool: &PoolSettings, now: Moment) -> Option<Self> {
        let max = pool.max_pinned;
        let has_room = |count: u32| max == 0 || count < max;
        let take = |count: u32| (has_room(count) || pool.has_short_pins).then(|| count + 1);
        let order = Ordering::Relaxed;
        let before = group.pinned.fetch_update(order, order, take).ok()?;
        Some(Self {
            since: now,
            is_over: !has_room(before),
            group: Arc::clone(group),
        })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.group.pinned.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<D: Driver> Worker<D> {
    /// True if nothing in the session's state makes a client keep its free server. Most clients have no such state and
    /// do not get here.
    pub(super) fn settle_state(&mut self, id: ClientId, server_id: ServerId) -> bool {
        !self.tables.is_behind(id)
            && !self.asks_state(id, server_id)
            && self.settle_pin(id, server_id)
            && !self.keeps(id, server_id)
    }

    /// Asks a free server about its client's session, if that must be known before another client uses the server. True
    /// if the server was asked.
    fn asks_state(&mut self, id: ClientId, server_id: ServerId) -> bool {
        let Some(Link { server, group, .. }) = self.tables.link(id, server_id) else {
            return false;
        };
        if !server.session.is_uncertain() {
            // A question that was just asked is not repeated.
            let was_checked = std::mem::take(&mut server.is_checked);
            if group.checks == StateCheck::Off || was_checked || !group.is_check_due() {
                return false;
            }
            server.session.suspect();
            server.is_checked = true;
        }
        let mut message = Vec::new();
        if !server
            .session
            .ask_state(&group.global.database_state.names, &mut message)
        {
            return false;
        }
        group.counters.state_questions += 1;
        self.driver.send(server.key, &message);
        true
    }

    /// Updates the pin of a client whose server is free. False if the client was ended because the pool had no place
    /// left.
    fn settle_pin(&mut self, id: ClientId, server_id: ServerId) -> bool {
        let Some(Link {
            client,
            server,
            group,
            ..
        }) = self.tables.link(id, server_id)
        else {
            return false;
        };
        let pin = client.session.pin();
        if pin.is_none() && client.pinned.is_none() && !server.session.has_found() {
            return true;
        }
        if server.session.take_found() {
            group.counters.state_misses += 1;
            tracing::warn!(
                "{client} session_state_check found session state that no statement had shown"
            );
        }
        if group.settings.pool_mode == PoolMode::Session {
            return true;
        }
        match pin {
            None => {
                if client.pinned.take().is_some() {
                    tracing::debug!("{client} no longer pinned to its server");
                }
                true
            }
            Some(_) if client.pinned.is_some() => true,
            Some(pin) => {
                let reason = pin.reason();
                match Pinned::new(&group.global, &group.settings, self.now) {
                    Some(place) => {
                        if place.is_over {
                            self.timers.arm(self.now.plus(SHORT), Timer::Pin(id));
                        }
                        group.counters.pins += 1;
                        *group.pins.entry(reason).or_default() += 1;
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

impl<D: Driver> Worker<D> {
    /// Ends a client that is pinned beyond `max_pinned = auto` for long, once it has nothing running.
    pub(super) fn pin_timer(&mut self, id: ClientId) {
        // This timer is never disarmed: the client may be gone, or pinned anew.
        let Some(client) = self.tables.clients.get(id) else {
            return;
        };
        let place = client.pinned.as_deref();
        let is_long = |place: &&Pinned| place.is_over && self.now.since(place.since) >= SHORT;
        let (Some(place), Some(pin)) = (place.filter(is_long), client.session.pin()) else {
            return;
        };
        let group = self.tables.groups.must_get(client.group);
        let max = group.map_or(0, |group| group.settings.max_pinned);
        if max == 0 || place.group.pinned.load(Ordering::Relaxed) <= max {
            return;
        }
        let server = client.lease.and_then(|id| self.tables.servers.get(id));
        if server.is_some_and(|server| !server.session.is_free()) {
            return self.timers.arm(self.now.plus(AGAIN), Timer::Pin(id));
        }
        self.fail_client(id, &Fault::TooManyPins(pin.reason()));
    }
}

impl Tables {
    /// True if a client keeps its server until it has received all earlier notifications.
    fn is_behind(&self, id: ClientId) -> bool {
        let client = self.clients.must_get(id);
        client.is_some_and(|client| client.session.is_behind())
    }
}

/// Returns the relay's policy for a pool's `session_state` setting.
pub(super) fn policy(pool: &PoolSettings) -> StatePolicy {
    match pool.session_state {
        SessionState::Off => StatePolicy::Off,
        _ if pool.pool_mode == PoolMode::Session => StatePolicy::Session,
        SessionState::Pin => StatePolicy::Pin,
        SessionState::Refuse => StatePolicy::Refuse,
        SessionState::Track => StatePolicy::Track,
    }
}

/// Returns the policy for a pool's `sequence_values` setting.
pub(super) const fn sequences(pool: &PoolSettings) -> SequencePolicy {
    match pool.sequence_values {
        SequenceValues::Learn => SequencePolicy::Learn,
        SequenceValues::Pin => SequencePolicy::Pin,
        SequenceValues::Refuse => SequencePolicy::Refuse,
    }
}

/// Returns how often a pool's servers are checked for session state that no statement shows.
pub(super) fn checks(pool: &PoolSettings) -> StateCheck {
    match policy(pool) {
        StatePolicy::Track | StatePolicy::Refuse => pool.session_state_check,
        StatePolicy::Off | StatePolicy::Pin | StatePolicy::Session => StateCheck::Off,
    }
}

/// Returns a judge of statements with the pool's list of functions.
pub(super) fn judge(pool: &PoolSettings) -> Judge {
    let names = pool.session_state_functions.iter();
    let mut judge = Judge::new(Functions::new(names.map(ToString::to_string)));
    if pool.cluster.is_some() {
        judge.set_names(routing_names(pool));
    }
    judge
}

/// Returns the functions of which the configuration says where they run.
pub(crate) fn routing_names(pool: &PoolSettings) -> Names {
    let Some(cluster) = &pool.cluster else {
        return Names::default();
    };
    let [primary, read] =
        [&cluster.primary_functions, &cluster.read_functions].map(|list| patterns(list));
    Names::new(primary, read)
}

fn patterns(list: &[FunctionPattern]) -> Vec<Pattern> {
    let patterns = list.iter().map(|pattern| {
        let (name, is_open) = match &pattern.name {
            NamePattern::Exact(name) => (name, false),
            NamePattern::Prefix(name) => (name, true),
        };
        Pattern::new(pattern.schema.as_deref(), name, is_open)
    });
    patterns.collect()
}

/// True if the judge of a pool with the old settings does not suit the new ones.
pub(super) fn needs_another_judge(old: &PoolSettings, new: &PoolSettings) -> bool {
    let lists = |pool: &PoolSettings| {
        let cluster = pool.cluster.as_ref();
        cluster.map(|it| (it.primary_functions.clone(), it.read_functions.clone()))
    };
    old.session_state_functions != new.session_state_functions || lists(old) != lists(new)
}

impl Group {
    /// True if the next release is to be checked.
    fn is_check_due(&mut self) -> bool {
        // An even spread suffices (Knuth's linear congruential generator, upper half): no secret depends on it.
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
