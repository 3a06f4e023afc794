//! Replication connections: a server for one client, opened for it and closed with it, and a relay that changes nothing
//! ([decision](../../../../docs/internals/decisions/replication.md)).
//!
//! ```text
//!  SeekingWalsender ──server logged in──► Replicating ──client leaves──► gone
//!        │ a lane of its own, beside the one of its pool       │
//!        ▼                                                     ▼
//!   told in the server's words if it refuses             server: Parting ──it ends, or time is over──► closed
//! ```
//!
//! Nothing else of this crate looks at what passes: the client is in no phase, and the server in no stage, that another
//! part handles.

use std::sync::Arc;
use std::time::Duration;

use weir_pool::{FailureKind, Shard};
use weir_session::client::{Client as Session, Pin};
use weir_session::fault::Fault;
use weir_session::hello::Replication;
use weir_session::relay::ServerFault;
use weir_session::settings::Settings as Asked;
use weir_session::walsender::{Answered, Walsender};
use weir_stats::{Blame, ClientCounters};
use weir_wire::encode;

use super::client::Leaving;
use super::ids::{ClientId, GroupId, LaneId, ServerId};
use super::slots::{Client, Lane, Owner, Phase, Stage};
use super::tables::Tables;
use super::timers::Timer;
use super::{Missing, Worker};
use crate::driver::{Driver, Flow, Why};
use crate::global::{GlobalPool, LastError};

/// Reason for closing the server of a client that has left, in PgBouncer's words.
pub(super) const PARTED: &str = "replication client was closed";

/// Reason for closing a server whose place a replication client needs, in PgBouncer's word.
const EVICTED: &str = "evicted";

/// Time that PostgreSQL has to take the last bytes of a client that has left, and to end the session. The server counts
/// in its limits until then.
const PARTING_MAX: Duration = Duration::from_secs(1);

/// Interval at which a lane is looked at that no client needs any more.
const LOOK: Duration = Duration::from_millis(100);

/// Interval at which a client is routed again that waits for a primary.
const SEEK_AGAIN: Duration = Duration::from_secs(1);

/// Client that waits for its replication connection.
pub(super) struct Seeking {
    pub(super) kind: Replication,
    /// Parameters for the server's start-up packet.
    startup: Vec<(String, String)>,
}

/// Client with a replication connection.
pub(super) struct Replicating {
    pub(super) kind: Replication,
    walsender: Walsender,
}

impl Seeking {
    /// Returns a client that asks for replication with these settings, and with `options` as PostgreSQL reads them.
    pub(super) fn new(kind: Replication, asked: &Asked, options: Option<String>) -> Self {
        let settings = asked.iter();
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let options = options.map(|options| ("options".to_owned(), options));
        let replication = kind.parameter();
        let replication = replication.map(|value| ("replication".to_owned(), value.to_owned()));
        Self {
            kind,
            startup: settings.chain(options).chain(replication).collect(),
        }
    }
}

impl<D: Driver> Worker<D> {
    // --- before ---

    /// Adds an authenticated client to its group, and looks for a server for it.
    pub(super) fn seek_walsender_first(
        &mut self,
        id: ClientId,
        (group_id, lane_id): (GroupId, LaneId),
        seeking: Box<Seeking>,
    ) {
        let (Some(client), Some(group)) = (
            self.tables.clients.must_get_mut(id),
            self.tables.groups.must_get_mut(group_id),
        ) else {
            return;
        };
        (client.group, client.lane) = (group_id, lane_id);
        client.phase = Phase::SeekingWalsender(seeking);
        group.clients += 1;
        self.tables.count_clients(self.now, group_id);
        self.seek_walsender(id);
    }

    /// Queues a client for a server of its own: at the primary, if its database has several hosts.
    pub(super) fn seek_walsender(&mut self, id: ClientId) {
        let Some(client) = self.tables.clients.must_get(id) else {
            return;
        };
        let (group_id, before) = (client.group, client.lane);
        let group = self.tables.groups.must_get(group_id);
        let beside = match group.is_some_and(|group| group.routing.is_some()) {
            true => self.lane_at_primary(group_id),
            false => group.and_then(|group| group.lanes.at(None)),
        };
        self.leave_owned_lane(before);
        let Some(pool) = beside
            .and_then(|lane| self.tables.lanes.must_get(lane))
            .map(|lane| Arc::clone(&lane.global))
        else {
            return self.global.broken.report(Missing::Lane);
        };
        let lane = match pool.is_waiting_room() {
            true => {
                // News of the hosts come sooner, as a rule.
                let at = self.now.plus(SEEK_AGAIN);
                self.timers.arm(at, Timer::Hold(id));
                beside
            }
            false => self.own_lane(id, group_id, &pool),
        };
        if let (Some(lane), Some(client)) = (lane, self.tables.clients.must_get_mut(id)) {
            client.lane = lane;
            self.check_out(id);
        }
    }

    /// Makes a lane for one client, beside the one of this pool.
    fn own_lane(
        &mut self,
        id: ClientId,
        group_id: GroupId,
        beside: &Arc<GlobalPool>,
    ) -> Option<LaneId> {
        let client = self.tables.clients.must_get(id)?;
        let kind = client.replication();
        let global = self.global.annex(beside);
        let policy = global.policy(&self.global.settled().settings);
        let shared = Arc::clone(&global.shared);
        let seed = self.global.next_id();
        let lane = self.tables.lanes.insert(Lane {
            global,
            group: group_id,
            shard: Shard::new(shared, policy, self.number, seed),
            owner: Some(Owner { client: id, kind }),
            counted: None,
            tick: None,
        });
        let group = self.tables.groups.must_get_mut(group_id)?;
        group.lanes.push_owned(lane);
        Some(lane)
    }

    /// Lets a client talk to the server that was opened for it, which has just logged in.
    pub(super) fn enter_replication(&mut self, id: ClientId, server_id: ServerId) {
        let (Some(client), Some(server)) = (
            self.tables.clients.must_get_mut(id),
            self.tables.servers.must_get_mut(server_id),
        ) else {
            return;
        };
        let Some(group) = self.tables.groups.must_get_mut(client.group) else {
            return;
        };
        group.counters.client_logins += 1;
        let kind = client.replication();
        let walsender = Walsender::new(group.rules.message_max);
        client.phase = Phase::Replicating(Box::new(Replicating { kind, walsender }));
        server.stage = Stage::Replicating;
        let reported = Arc::clone(server.session.reported());
        client.session = Session::new(Arc::default(), reported);
        client.session.set_number(client.id);
        client.session.set_pin(Pin::Session);
        (client.request_at, client.replied_at) = (self.now, self.now);
        self.tables.applications.name(client);
        let Ok(message) = self.greeting(id, None) else {
            return self.fail_client(id, &Fault::NoRandom);
        };
        if let Some(client) = self.tables.clients.must_get(id) {
            self.driver.send(client.key, &message);
        }
        self.arm_client(id, None);
        if self.ending.has_begun() {
            self.close_if_idle(id);
        }
        // The client may have been ended.
        if self.tables.clients.contains(id) {
            self.take_input(id);
        }
    }

    // --- while it lasts ---

    /// Passes bytes of a client to its server. Returns the number of bytes handled.
    pub(super) fn walsender_input(&mut self, id: ClientId, input: &[u8]) -> usize {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return input.len();
        };
        let (Phase::Replicating(replicating), Some(server_id)) = (&mut client.phase, client.lease)
        else {
            self.global.broken.report(Missing::State);
            return input.len();
        };
        let begins = !replicating.walsender.is_busy();
        let sent = match replicating.walsender.from_client(input) {
            Ok(sent) => sent,
            Err(fault) => {
                self.fail_client(id, &Fault::Protocol(fault));
                return input.len();
            }
        };
        client.request_at = self.now;
        if begins {
            client.transaction_at = self.now;
        }
        let work = ClientCounters {
            bytes_received: input.len() as u64,
            ..ClientCounters::default()
        };
        self.tables.applications.count(client, work);
        let key = client.key;
        if let Some(server) = self.tables.servers.must_get_mut(server_id) {
            server.request_at = self.now;
            let bytes = input.get(..sent.len).unwrap_or(input);
            if self.driver.send(server.key, bytes) == Flow::Full {
                self.driver.stop(key, Why::Partner);
            }
        }
        if sent.terminates {
            self.remove_client(id, Leaving::Orderly, "client close request");
        }
        input.len()
    }

    /// Passes bytes of a server to its client. Returns the number of bytes handled.
    pub(super) fn walsender_replied(
        &mut self,
        server_id: ServerId,
        id: ClientId,
        input: &[u8],
    ) -> usize {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return input.len();
        };
        let Phase::Replicating(replicating) = &mut client.phase else {
            self.global.broken.report(Missing::State);
            return input.len();
        };
        let answered = match replicating.walsender.from_server(input) {
            Ok(answered) => answered,
            Err(fault) => {
                self.walsender_fault(server_id, &fault);
                return input.len();
            }
        };
        if answered.queries > 0 {
            client.replied_at = self.now;
        }
        let key = client.key;
        self.count_walsender(id, input.len(), answered);
        if self.driver.send(key, input) == Flow::Full
            && let Some(server) = self.tables.servers.must_get(server_id)
        {
            self.driver.stop(server.key, Why::Partner);
        }
        if answered.queries > 0 && (self.ending.has_begun() || self.has_removed) {
            self.close_if_idle(id);
        }
        input.len()
    }

    fn count_walsender(&mut self, id: ClientId, bytes: usize, answered: Answered) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let work = ClientCounters {
            bytes_sent: bytes as u64,
            queries: u64::from(answered.queries),
            transactions: u64::from(answered.transactions),
            errors: u64::from(answered.errors),
            ..ClientCounters::default()
        };
        self.tables.applications.count(client, work);
        if let Some(group) = self.tables.groups.must_get_mut(client.group) {
            // A stream is one query: its duration would say nothing.
            group.counters.bytes_sent += work.bytes_sent;
            group.counters.queries += work.queries;
            group.counters.transactions += work.transactions;
            group.counters.errors += work.errors;
        }
        for _ in 0..answered.errors {
            self.count_error(Blame::Server, None);
        }
    }

    /// Handles a server that has sent something impossible.
    fn walsender_fault(&mut self, server_id: ServerId, fault: &ServerFault) {
        self.close_server(server_id, &fault.to_string());
    }

    /// Ends a client whose server has closed the connection. As without a pooler, the server's words were the last.
    pub(super) fn walsender_lost(&mut self, id: ClientId) {
        self.tables.end_lease(id);
        self.remove_client(id, Leaving::Lost, "server closed");
    }

    // --- after ---

    /// Lets the server of a client that has left take the client's last bytes, such as the position up to which it has
    /// received, and end the session. What the server still sends is dropped.
    pub(super) fn part(&mut self, server_id: ServerId, replicating: &Replicating) {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return;
        };
        server.lease = None;
        server.stage = Stage::Parting;
        self.driver.clear_reasons(server.key);
        let walsender = &replicating.walsender;
        if walsender.is_mid_request() {
            let reason = "client disconnect before everything was sent to the server";
            return self.close_server(server_id, reason);
        }
        if !walsender.is_terminated() {
            let mut message = Vec::new();
            // Five bytes fit.
            let _ = encode::terminate(&mut message);
            self.driver.send(server.key, &message);
        }
        if walsender.is_busy() && !walsender.is_streaming() {
            // PostgreSQL does not read a Terminate before the request is over.
            self.cancel_server(server_id, None);
        }
        self.arm_server(server_id, Some(PARTING_MAX));
    }

    /// Leaves a lane, if it belongs to one client, which does not need it any more. The servers in it are closed.
    pub(super) fn leave_owned_lane(&mut self, lane_id: LaneId) {
        // A client that logs in has no lane yet.
        let lane = self.tables.lanes.get(lane_id);
        if lane.is_none_or(|lane| lane.owner.is_none()) {
            return;
        }
        let servers = self.tables.servers.iter();
        let servers = servers.filter(|(_, server)| server.lane == lane_id);
        let servers = servers.filter(|(_, server)| !matches!(server.stage, Stage::Parting));
        let servers: Vec<_> = servers.map(|(id, _)| id).collect();
        for server in servers {
            if self.tables.servers.contains(server) {
                self.close_server(server, "replication client disconnected");
            }
        }
        self.timers.arm(self.now, Timer::OwnedLane(lane_id));
    }

    /// Removes a lane that its client does not need any more, once its servers are gone.
    pub(super) fn drop_owned_lane(&mut self, lane_id: LaneId) {
        // The lane may be gone: its client may have left it twice.
        let Some(lane) = self.tables.lanes.get(lane_id) else {
            return;
        };
        if lane.shard.servers() > 0 {
            return (self.timers).arm(self.now.plus(LOOK), Timer::OwnedLane(lane_id));
        }
        let Some(lane) = self.tables.lanes.must_remove(lane_id) else {
            return;
        };
        if let Some(tick) = lane.tick {
            self.timers.disarm(tick, Timer::Lane(lane_id));
        }
        if let Some(group) = self.tables.groups.must_get_mut(lane.group) {
            group.lanes.remove_owned(lane_id);
        }
    }
}

impl Tables {
    /// Returns the owner of a lane that belongs to one client.
    pub(super) fn owner_of(&self, lane_id: LaneId) -> Option<Owner> {
        self.lanes.must_get(lane_id)?.owner
    }

    /// True if a server was opened for one client.
    pub(super) fn is_owned(&self, server_id: ServerId) -> bool {
        let server = self.servers.must_get(server_id);
        server.is_some_and(|server| self.owner_of(server.lane).is_some())
    }

    /// Lets one server of a full pool be closed when it is free, for a client that needs its place (`pool` is its own). True
    /// if one is, or was before.
    pub(super) fn doom_for(&mut self, pool: &GlobalPool) -> bool {
        let is_of_pool = |lane_id: LaneId| {
            let lane = self.lanes.must_get(lane_id);
            let lane = lane.filter(|lane| lane.owner.is_none());
            lane.is_some_and(|lane| lane.global.shared.shares_size_with(&pool.shared))
        };
        let here = self.servers.iter();
        let here = here.filter(|(_, server)| is_of_pool(server.lane));
        let here: Vec<_> = here.map(|(id, server)| (id, server.doomed)).collect();
        if here.iter().any(|(_, doomed)| *doomed == Some(EVICTED)) {
            return true;
        }
        let is_unpinned = |id: ServerId| {
            let server = self.servers.must_get(id);
            let server = server.filter(|server| matches!(server.stage, Stage::Leased));
            let client = server.and_then(|server| self.clients.must_get(server.lease?));
            client.is_some_and(|client| client.session.pin().is_none())
        };
        let mut busy = here.iter().map(|(id, _)| *id);
        let Some(id) = busy.find(|id| is_unpinned(*id)) else {
            return false;
        };
        if let Some(server) = self.servers.must_get_mut(id) {
            server.doomed.get_or_insert(EVICTED);
        }
        true
    }

    /// Returns the parameters of a start-up packet for a lane: those of its database and, above them, its owner's.
    pub(super) fn startup_of<'p>(
        &self,
        lane_id: LaneId,
        common: impl Iterator<Item = (&'p str, &'p str)>,
    ) -> Vec<(String, String)> {
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let owner = self.owner_of(lane_id);
        let owner = owner.and_then(|owner| self.clients.get(owner.client));
        let Some(Phase::SeekingWalsender(seeking)) = owner.map(|client| &client.phase) else {
            return common.map(own).collect();
        };
        let is_asked = |name: &str| {
            let mut asked = seeking.startup.iter();
            asked.any(|(known, _)| known.eq_ignore_ascii_case(name))
        };
        let common = common.filter(|(name, _)| !is_asked(name)).map(own);
        common.chain(seeking.startup.iter().cloned()).collect()
    }

    /// Returns the kind of a failed login. A refusal ends the login of a client with a replication connection, whatever the
    /// reason: the client learns it in the server's words, as without a pooler.
    pub(super) fn kind_for_owner(
        &self,
        server_id: ServerId,
        error: &LastError,
        kind: FailureKind,
    ) -> FailureKind {
        match error.body.is_some() && self.is_owned(server_id) {
            true => FailureKind::Rejected,
            false => kind,
        }
    }
}

impl Client {
    /// Returns the replication that the client asked for.
    pub(super) fn replication(&self) -> Replication {
        match &self.phase {
            Phase::Authenticating(login) => login.hello.replication,
            Phase::Replicating(replicating) => replicating.kind,
            Phase::SeekingWalsender(seeking) => seeking.kind,
            _ => Replication::None,
        }
    }

    /// True if the client has a replication connection.
    pub(super) fn is_replicating(&self) -> bool {
        matches!(self.phase, Phase::Replicating(_))
    }

    /// True if a request of the client's replication connection is under way, or a transaction is open there.
    pub(super) fn is_in_request(&self) -> bool {
        match &self.phase {
            Phase::Replicating(replicating) => !replicating.walsender.is_idle(),
            _ => false,
        }
    }

    /// True if a message of the client's replication connection has begun and not ended.
    pub(super) fn is_mid_stream(&self) -> bool {
        match &self.phase {
            Phase::Replicating(replicating) => replicating.walsender.is_mid_reply(),
            _ => false,
        }
    }
}
