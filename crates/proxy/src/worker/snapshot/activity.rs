//! Activity of clients, and the reasons why they wait.

use std::time::Duration;

use weir_pool::Obstacle;
use weir_stats::{Activity, WaitReason};

use crate::driver::Driver;
use crate::worker::Worker;
use crate::worker::ids::LaneId;
use crate::worker::slots::{Client, Phase};

impl<D: Driver> Worker<D> {
    /// Returns the activity of a client that has logged in, and its duration.
    pub(super) fn activity(&self, client: &Client) -> Option<(Activity, Duration)> {
        if !matches!(client.phase, Phase::Ready | Phase::Welcome) {
            return None;
        }
        let (activity, since) = if let Some(ticket) = client.ticket {
            let reason = self.wait_reason(client.lane);
            (Activity::Waiting(reason), ticket.since())
        } else if client.is_throttled() {
            (Activity::Waiting(WaitReason::Rule), client.request_at)
        } else if matches!(client.phase, Phase::Welcome) {
            return None;
        } else {
            let rests_since = client.replied_at;
            let server = client.lease.and_then(|id| self.tables.servers.must_get(id));
            match server.map(|server| &server.session) {
                None => (Activity::Idle, rests_since),
                Some(session) if session.is_free() && client.session.pin().is_some() => {
                    (Activity::Pinned, rests_since)
                }
                // The server only stays until somebody else wants it.
                Some(session) if session.is_free() => (Activity::Idle, rests_since),
                Some(session) if session.is_quiet_and_synced() => {
                    (Activity::InTransaction, rests_since)
                }
                Some(_) => (Activity::InQuery, client.request_at),
            }
        };
        Some((activity, self.now.since(since)))
    }

    /// Returns what the clients in the queue of a lane wait for.
    fn wait_reason(&self, id: LaneId) -> WaitReason {
        let Some(lane) = self.tables.lanes.must_get(id) else {
            return WaitReason::Server;
        };
        let group = self.tables.groups.must_get(lane.group);
        // Of several hosts, none may take the transaction now: the queue is that of the waiting room.
        let has_host =
            group.is_none_or(|group| group.routing.is_none() || group.lanes.at(None) != Some(id));
        match lane.shard.obstacle(self.now) {
            Obstacle::Paused => WaitReason::Paused,
            _ if !has_host => WaitReason::NoHost,
            Obstacle::LoginsFail => WaitReason::LoginsFail,
            Obstacle::PoolFull => WaitReason::PoolFull,
            Obstacle::DatabaseLimit => WaitReason::DatabaseLimit,
            Obstacle::UserLimit => WaitReason::UserLimit,
            Obstacle::SizeLimit => WaitReason::SizeLimit,
            Obstacle::Connecting => WaitReason::Connecting,
            Obstacle::None => WaitReason::Server,
        }
    }
}
