//! Activity of clients, and the reasons why they wait.

use std::time::Duration;

use weir_pool::Obstacle;
use weir_session::server::Server as Session;
use weir_stats::{Activity, HolderRow, WaitReason};

use crate::driver::Driver;
use crate::worker::Worker;
use crate::worker::ids::LaneId;
use crate::worker::measure::micros;
use crate::worker::slots::{Client, Phase, Server, Stage};

/// Duration from which a client that has a server has a row.
const LONG: Duration = Duration::from_secs(1);
/// Unread bytes from which it has one.
const MANY_UNSENT: u64 = 1024 * 1024;

impl Client {
    /// Returns the activity of a client that has this server.
    pub(in crate::worker) fn with_server(&self, session: &Session) -> Activity {
        match session.is_free() {
            true if self.session.pin().is_some() => Activity::Pinned,
            // The server only stays until somebody else wants it.
            true => Activity::Idle,
            false if session.is_quiet_and_synced() => Activity::InTransaction,
            false => Activity::InQuery,
        }
    }
}

impl<D: Driver> Worker<D> {
    /// Returns the activity of a client that has logged in, and its duration.
    pub(super) fn activity(&self, client: &Client) -> Option<(Activity, Duration)> {
        if !client.phase.has_group() {
            return None;
        }
        let (activity, since) = if let Some(ticket) = client.ticket {
            let reason = self.wait_reason(client.lane);
            (Activity::Waiting(reason), ticket.since())
        } else if client.is_throttled() {
            (Activity::Waiting(WaitReason::Rule), client.request_at)
        } else if matches!(client.phase, Phase::SeekingWalsender(_) | Phase::Welcome) {
            return None;
        } else if client.is_replicating() {
            match client.is_in_request() {
                true => (Activity::InQuery, client.transaction_at),
                false => (Activity::Pinned, client.replied_at),
            }
        } else {
            let rests_since = client.replied_at;
            let server = client.lease.and_then(|id| self.tables.servers.must_get(id));
            let activity =
                server.map_or(Activity::Idle, |server| client.with_server(&server.session));
            match activity {
                Activity::InQuery => (activity, client.request_at),
                _ => (activity, rests_since),
            }
        };
        Some((activity, self.now.since(since)))
    }

    /// Returns the servers that clients have held for long.
    pub(super) fn holders(&self) -> Vec<HolderRow> {
        let servers = self.tables.servers.iter();
        let leased = servers.filter(|(_, server)| matches!(server.stage, Stage::Leased));
        leased
            .filter_map(|(_, server)| {
                let client = self.tables.clients.get(server.lease?)?;
                self.holder(client, server)
            })
            .collect()
    }

    fn holder(&self, client: &Client, server: &Server) -> Option<HolderRow> {
        let (activity, lasts) = self.activity(client)?;
        let transaction = match activity {
            Activity::InQuery | Activity::InTransaction => self.now.since(client.transaction_at),
            _ => Duration::ZERO,
        };
        let unsent = self.driver.unsent(client.key) as u64;
        let is_long = activity != Activity::Idle && lasts >= LONG;
        if !is_long && transaction < LONG && unsent < MANY_UNSENT {
            return None;
        }
        let key = &self.tables.groups.must_get(server.group)?.global.key;
        let name = client.session.reported().get("application_name");
        Some(HolderRow {
            client: client.id,
            server: server.facts.id,
            backend_pid: server.facts.pid,
            database: key.database.to_string(),
            user: key.user.to_string(),
            application: name.unwrap_or_default().to_owned(),
            activity,
            activity_us: micros(lasts),
            transaction_us: micros(transaction),
            pin: client.session.pin_words(),
            unsent,
        })
    }

    /// Returns what the clients in the queue of a lane wait for.
    pub(super) fn wait_reason(&self, id: LaneId) -> WaitReason {
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
