//! Free servers that stay with their clients, because a client may ask there for a value that a sequence gave it. A
//! client keeps its server until another client waits on any worker (`weir_pool::Shard::keep`), or a moment longer on
//! trial.

use std::time::Duration;

use weir_pool::Moment;
use weir_session::relay::StatePolicy;

use super::Worker;
use super::ids::{ClientId, LaneId, ServerId};
use super::slots::{Client, Stage};
use super::tables::{Link, Tables};
use crate::driver::Driver;
use crate::global::lock;

/// Maximum time for which a client keeps a server without using it.
pub(super) const KEPT_MAX: Duration = Duration::from_secs(1);

/// Reason why a free server is with a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// The server is not kept: in use, or without a client.
    No,
    /// The client keeps the server on trial since this moment, though others wait. Its next request shows whether it
    /// needs the server.
    OnTrial(Moment),
    /// The client keeps the server while no client waits.
    Unneeded,
}

impl<D: Driver> Worker<D> {
    /// True if a client keeps its free server for now.
    pub(super) fn keeps(&mut self, id: ClientId, server_id: ServerId) -> bool {
        let Some(Link {
            client,
            server,
            group,
            lanes,
            ..
        }) = self.tables.link(id, server_id)
        else {
            return false;
        };
        // A client of a replica may need the primary next. A look at the catalogue decides on hosts, and needs a server
        // that goes back to its pool.
        let is_looked_at = || group.global.database_state.wants_look(self.now);
        let route = client.route.as_ref();
        let is_elsewhere = route.is_some_and(|route| route.is_on_replica() || is_looked_at());
        let keeps =
            client.session.keeps_if_unwanted() && client.session.pin().is_none() && !is_elsewhere;
        if !keeps || group.rules.state != StatePolicy::Track {
            return false;
        }
        let is_on_trial = client.session.is_on_trial();
        let Some(lane) = lanes.must_get_mut(server.lane) else {
            return false;
        };
        if lane.shard.keep(self.now, server_id.into()) {
            server.kept = Kept::Unneeded;
            let longest = if is_on_trial { TRIAL_MAX } else { KEPT_MAX };
            self.arm_server(server_id, Some(longest));
            return true;
        }
        is_on_trial && self.tries(server_id)
    }

    /// Lets a client keep its server for a moment though others wait. False if the longest waiter was delayed by a
    /// trial already, the pool's time for trials is used up, or the pool is paused.
    fn tries(&mut self, server_id: ServerId) -> bool {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return false;
        };
        let Some(lane) = self.tables.lanes.must_get(server.lane) else {
            return false;
        };
        let oldest = lane.shard.oldest_waiter();
        let Some(oldest) = oldest.filter(|_| !lane.global.shared.is_paused()) else {
            return false;
        };
        let Some(granted) = lock(&lane.global.group.trials).grant(self.now, oldest) else {
            return false;
        };
        server.kept = Kept::OnTrial(self.now);
        self.arm_server(server_id, Some(granted));
        true
    }

    /// Takes a kept server back for a waiter, unless its client gets a trial or already needs the server again.
    pub(super) fn reclaim(&mut self, lane_id: LaneId, server_id: ServerId) {
        let stays = self.tables.is_tried_now(server_id) && self.tries(server_id)
            || !self.release_kept(server_id);
        if stays && let Some(lane) = self.tables.lanes.must_get_mut(lane_id) {
            lane.shard.reclaim_refused(self.now);
        }
    }

    /// Closes a kept server whose place a client of another pool needs, if its client can do without it.
    pub(super) fn evict_kept(&mut self, server_id: ServerId) {
        if self.release_kept(server_id)
            && let Some(server) = self.tables.servers.must_get_mut(server_id)
        {
            server.doomed = Some("evicted");
        }
    }

    /// Releases a server that its client only keeps; false if the client needs it by now.
    pub(super) fn release_kept(&mut self, server_id: ServerId) -> bool {
        let server = self.tables.servers.must_get(server_id);
        if server.is_none_or(|server| server.kept == Kept::No) {
            return false;
        }
        self.tables.unkeep(self.now, server_id);
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return false;
        };
        let is_free = matches!(server.stage, Stage::Leased)
            && server.session.is_free()
            && !server.session.is_uncertain()
            && self.driver.is_drained(server.key);
        let client = server.lease.and_then(|id| self.tables.clients.must_get(id));
        // Input that waits is for this server: it may wait for the end of a cancel there.
        if !is_free || !client.is_some_and(|client| may_let_go(client) && !client.stalled) {
            return false;
        }
        if let Some(id) = server.lease.take() {
            self.tables.end_lease(id);
        }
        self.arm_server(server_id, None);
        self.release_later(server_id);
        true
    }
}

/// True if a client that keeps its free server can do without it.
fn may_let_go(client: &Client) -> bool {
    let session = &client.session;
    session.pin().is_none() && !session.is_sending_to_server() && !session.is_behind()
}

impl Tables {
    /// True if the client of a kept server is on trial and has not used it again.
    fn is_tried_now(&self, server_id: ServerId) -> bool {
        self.servers.must_get(server_id).is_some_and(|server| {
            let client = server.lease.and_then(|id| self.clients.must_get(id));
            server.kept == Kept::Unneeded
                && server.session.is_free()
                && client.is_some_and(|client| client.session.is_on_trial())
        })
    }

    /// Ends the keeping of a server that is lost. True if its client has sent nothing since, and can do without it.
    pub(super) fn lose_kept(&mut self, now: Moment, server_id: ServerId) -> bool {
        let is_only_kept = self.is_only_kept(server_id);
        self.unkeep(now, server_id);
        is_only_kept
    }

    fn is_only_kept(&self, server_id: ServerId) -> bool {
        let server = self.servers.must_get(server_id);
        let server = server.filter(|server| {
            server.kept != Kept::No
                && matches!(server.stage, Stage::Leased)
                && server.session.is_free()
                && server.session.is_settled()
        });
        let client = server.and_then(|server| self.clients.must_get(server.lease?));
        client.is_some_and(may_let_go)
    }

    /// Ends the keeping of a server that is in use again, or about to go back.
    pub(super) fn unkeep(&mut self, now: Moment, server_id: ServerId) {
        let Some(server) = self.servers.must_get_mut(server_id) else {
            return;
        };
        let Some(lane) = self.lanes.must_get_mut(server.lane) else {
            return;
        };
        match std::mem::replace(&mut server.kept, Kept::No) {
            Kept::No => {}
            Kept::OnTrial(since) => lock(&lane.global.group.trials).spend(now.since(since)),
            Kept::Unneeded => lane.shard.unkeep(server_id.into()),
        }
    }
}

// === Trials ===

/// Maximum time for which one client keeps others waiting.
const TRIAL_MAX: Duration = Duration::from_millis(250);

/// Maximum time for which all clients of a pool keep others waiting, if none did for a while.
const TRIALS_MAX: Duration = Duration::from_secs(2);

/// Share of the time for which clients of a pool may keep others waiting: 1 / 100.
const TRIALS_SHARE: u32 = 100;

/// Time for which clients of a pool may keep servers that others wait for. Their next request shows whether they need
/// what a sequence gave them there (see `weir_session::client::Client::is_on_trial`). At most one trial delays a
/// waiter, on whichever workers they are.
#[derive(Debug)]
pub(crate) struct Trials {
    left: Duration,
    at: Moment,
    /// Time of the last grant. Waiters from before it have been delayed already.
    granted_at: Moment,
}

impl Default for Trials {
    fn default() -> Self {
        Self {
            left: TRIALS_MAX,
            at: Moment(0),
            granted_at: Moment(0),
        }
    }
}

impl Trials {
    /// Returns the time for which a client may keep others waiting now, if any. `oldest` is the start of the longest
    /// wait.
    fn grant(&mut self, now: Moment, oldest: Moment) -> Option<Duration> {
        let more = now.since(self.at) / TRIALS_SHARE;
        self.left = self.left.saturating_add(more).min(TRIALS_MAX);
        self.at = self.at.max(now);
        let may = self.left >= TRIAL_MAX && oldest > self.granted_at;
        may.then(|| {
            self.granted_at = now;
            TRIAL_MAX
        })
    }

    fn spend(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time.min(TRIAL_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment(millis * 1000)
    }

    #[test]
    fn a_waiter_is_kept_waiting_by_one_trial() {
        let mut trials = Trials::default();
        assert_eq!(trials.grant(at(10), at(5)), Some(TRIAL_MAX));
        assert_eq!(trials.grant(at(20), at(5)), None);
        assert_eq!(trials.grant(at(20), at(10)), None, "it waited then already");
        assert_eq!(trials.grant(at(20), at(15)), Some(TRIAL_MAX));
    }

    #[test]
    fn trials_take_a_share_of_the_time_and_no_more() {
        let mut trials = Trials::default();
        let mut granted = 0;
        for round in 1..100 {
            let now = at(round * 10);
            if trials.grant(now, now).is_some() {
                trials.spend(TRIAL_MAX);
                granted += 1;
            }
        }
        assert_eq!(granted, 8);
        assert_eq!(trials.grant(at(20_000), at(20_000)), None);
        assert!(trials.grant(at(30_000), at(30_000)).is_some());
    }
}
