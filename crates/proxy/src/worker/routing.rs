//! Routing: the host on which a client's next transaction runs, if its database has several.
//!
//! The router is asked when a client without a server begins a request. Its verdict names a lane: one of a host, or the
//! waiting room of the group if no host qualifies now. A replica gets one batch at a time, so that the next one can go
//! elsewhere. A batch that only reads has a net below it: if the replica refuses it, it runs on the primary.

use std::sync::Arc;
use std::time::Duration;

use weir_config::PoolSettings;
use weir_pool::{HostId, Moment};
use weir_route::{Ask, Load, Ready, RouteState, Router, Split, Target, Verdict, Why};
use weir_session::client::Client as Session;
use weir_session::fault::Fault;
use weir_session::relay::{self, Batch, Destination};
use weir_session::settings::Reported;
use weir_sql::Judge;
use weir_watch::{HostView, Snapshot, State};

use super::Worker;
use super::again::NET_MAX;
use super::ids::{ClientId, GroupId, LaneId, ServerId, Slots};
use super::keeping::Kept;
use super::slots::{Client, Group, Lane, Lanes, Phase, Server};
use super::tables::Tables;
use super::timers::Timer;
use crate::driver::{self, Driver};
use crate::global::{Cluster, Global, GlobalGroup, cluster_name, lock};

mod blocks;
mod counted;
mod explain;
mod hint;
mod learnt;
mod reading;
mod route;
mod rules;
mod silent;
mod token;
mod trace;
mod waiting;

use blocks::{default_isolation, destination};
use counted::Counted;
pub use explain::explain_route_offline;
pub(super) use hint::wrong_hint;
use hint::{Hinted, by_rule, hinted};
use learnt::Learnt;
use reading::{Fixed, Reading, unread};
use route::Block;
pub(super) use route::Route;
use token::Foreign;

/// Interval at which the router is asked again for a client in the waiting room, even without news of its hosts.
const HOLD_AGAIN: Duration = Duration::from_secs(1);

/// Likewise for a client that waits for a share of the primary's pool.
const SHARE_AGAIN: Duration = Duration::from_millis(100);

/// Router of a group, and what it knows of the hosts.
pub(super) struct Routing {
    router: Router,
    pub(super) cluster: Arc<Cluster>,
    hosts: Arc<Snapshot>,
    /// Readers among these hosts.
    ready: Ready,
    /// Number of that snapshot.
    number: u64,
    /// Number of the snapshot for which the waiters were routed last.
    waiters_number: u64,
    /// Host that took writes then.
    waiters_primary: Option<HostId>,
    /// Number of workers, which share each pool.
    workers: u32,
    /// State of the random generator of choices between hosts.
    dice: u64,
    /// Texts that replicas have refused: they run on the primary.
    learnt: Learnt,
    /// Counts of what was decided.
    counted: Counted,
    /// Verdicts that need no look at a text.
    fixed: Fixed,
    /// `min_time_between_holds`.
    between_holds: Duration,
}

impl<D: Driver> Worker<D> {
    /// Chooses a host for a client, then asks its pool for a server. True if the client has one now.
    #[inline]
    pub(super) fn check_out_for(&mut self, id: ClientId, batch: Option<&Batch<'_>>) -> bool {
        self.route(id, batch) && self.check_out(id)
    }

    /// Chooses the lane for a client's next transaction; `batch` begins it, or none before the client is logged in. False
    /// if the client was ended. In a group without a router, the lane stays.
    #[inline]
    fn route(&mut self, id: ClientId, batch: Option<&Batch<'_>>) -> bool {
        let Some(client) = self.tables.clients.must_get(id) else {
            return false;
        };
        let group_id = client.group;
        let group = self.tables.groups.must_get(group_id);
        if group.is_none_or(|group| group.routing.is_none()) {
            return true;
        }
        self.choose_host(id, group_id, batch)
    }

    fn choose_host(&mut self, id: ClientId, group_id: GroupId, batch: Option<&Batch<'_>>) -> bool {
        self.follow_hosts_of(group_id);
        let Some(verdict) = self.tables.ask_router(self.now, id, batch) else {
            return true;
        };
        let lane = match verdict {
            Verdict::Go { host, .. } => self.lane_at(group_id, host),
            Verdict::Hold { until, why } => {
                // The load of a host changes without a snapshot.
                let again = match why {
                    Why::Share => SHARE_AGAIN,
                    _ => HOLD_AGAIN,
                };
                let at = until.min(self.now.plus(again));
                self.timers.arm(at, Timer::Hold(id));
                self.tables.hold(id, why)
            }
            Verdict::Refuse(why) => {
                self.fail_client(id, &Fault::NoHost(why.to_string()));
                return false;
            }
        };
        if let (Some(lane), Some(client)) = (lane, self.tables.clients.must_get_mut(id)) {
            client.lane = lane;
        }
        true
    }

    /// Returns the lane of a group at a host; creates it on first use.
    fn lane_at(&mut self, group_id: GroupId, host: HostId) -> Option<LaneId> {
        let group = self.tables.groups.must_get(group_id)?;
        let found = group.lanes.at(Some(host));
        if found.is_some() {
            return found;
        }
        let clients = group.clients;
        let pool = self.global.pool_at(&group.global, host);
        let (_, lane_id) = self.lane_of(&pool);
        if let Some(lane) = self.tables.lanes.must_get_mut(lane_id) {
            lane.shard.clients(self.now, clients);
        }
        self.arm_sizing(lane_id);
        self.pump(lane_id);
        Some(lane_id)
    }

    /// Returns the lane of a group at the primary, or its waiting room while no host is the primary.
    pub(super) fn lane_at_primary(&mut self, group_id: GroupId) -> Option<LaneId> {
        self.follow_hosts_of(group_id);
        let group = self.tables.groups.must_get(group_id)?;
        let primary = |routing: &Routing| routing.hosts.primary().map(|primary| primary.host);
        match group.routing.as_deref().and_then(primary) {
            Some(host) => self.lane_at(group_id, host),
            None => group.lanes.at(None),
        }
    }

    /// Lets all groups follow their hosts, after the watching thread has published news.
    pub(super) fn follow_hosts(&mut self) {
        let routed = self.tables.groups.iter();
        let routed = routed.filter(|(_, group)| group.routing.is_some());
        for id in routed.map(|(id, _)| id).collect::<Vec<_>>() {
            self.follow_hosts_of(id);
            // A request may have taken the snapshot over before.
            self.follow_paused_writes(id);
            if self.tables.has_news_for_waiters(id) {
                self.give_up_silent_hosts(id);
                self.route_waiters(id);
            }
        }
        self.move_listeners();
    }

    /// Takes over a new snapshot of a group's hosts. Servers of an earlier life of their host are closed when they are
    /// free.
    #[inline]
    fn follow_hosts_of(&mut self, group_id: GroupId) {
        let group = self.tables.groups.must_get_mut(group_id);
        let Some(routing) = group.and_then(|group| group.routing.as_mut()) else {
            return;
        };
        let number = routing.cluster.number();
        if number == routing.number {
            return;
        }
        routing.number = number;
        let hosts = routing.cluster.snapshot();
        routing.ready = Ready::of(&hosts);
        let before = std::mem::replace(&mut routing.hosts, Arc::clone(&hosts));
        for host in &hosts.hosts {
            let old = before.host(host.host);
            if old.is_some_and(|old| !is_same_life(old, host)) {
                self.recycle_host(group_id, host.host);
            }
        }
    }

    #[cold]
    fn recycle_host(&mut self, group_id: GroupId, host: HostId) {
        let group = self.tables.groups.must_get(group_id);
        let lane = group.and_then(|group| group.lanes.at(Some(host)));
        if let Some(id) = lane
            && let Some(lane) = self.tables.lanes.must_get_mut(id)
        {
            lane.shard.recycle(self.now);
            self.close_listener_of(id);
            self.pump(id);
        }
    }

    /// Asks the router again for a client whose request has not begun, and queues the client there.
    pub(super) fn send_elsewhere(&mut self, id: ClientId) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        if matches!(client.phase, Phase::SeekingWalsender(_)) {
            return self.seek_walsender(id);
        }
        let input = std::mem::take(&mut client.input);
        let batch = matches!(client.phase, Phase::Ready).then(|| Batch::scan(&input));
        let is_there = self.route(id, batch.as_ref());
        if let Some(client) = self.tables.clients.get_mut(id) {
            client.input = input;
        }
        if is_there {
            self.wait_again(id);
        }
    }

    /// A client's wait at a host has failed. True if it waits elsewhere now, because its database has other hosts.
    pub(super) fn waits_elsewhere(&mut self, id: ClientId) -> bool {
        let client = self.tables.clients.must_get(id);
        let client = client.filter(|client| !matches!(client.phase, Phase::SeekingWalsender(_)));
        let group = client.and_then(|client| self.tables.groups.must_get(client.group));
        let Some(routing) = group.and_then(|group| group.routing.as_ref()) else {
            return false;
        };
        routing.cluster.suspect();
        if let Some(client) = client
            && let Some(lane) = self.tables.lanes.must_get(client.lane)
            && lane.global.is_waiting_room()
        {
            return false;
        }
        // The server has refused the login itself: waiting does not help, and its words are for the client.
        let lane = client.and_then(|client| self.tables.lanes.must_get(client.lane));
        let last = lane.and_then(|lane| lock(&lane.global.last_error).clone());
        if last.is_some_and(|last| last.body.is_some()) {
            return false;
        }
        // The watching thread finds out what is wrong; the client leaves the waiting room with its next news.
        self.timers.arm(self.now.plus(HOLD_AGAIN), Timer::Hold(id));
        let home = self.tables.hold(id, Why::NoPrimary);
        if let (Some(home), Some(client)) = (home, self.tables.clients.must_get_mut(id)) {
            client.lane = home;
        }
        self.wait_again(id);
        true
    }

    /// True if a client's next request goes on without the server that the client keeps, which is released then. Either
    /// the request reads: it shows that the client does not ask there for what a sequence gave it. Or the server's host
    /// does not take writes any more.
    #[inline]
    pub(super) fn lets_go_to_read(
        &mut self,
        id: ClientId,
        server_id: ServerId,
        input: &[u8],
    ) -> bool {
        let server = self.tables.servers.must_get(server_id);
        let is_kept =
            server.is_some_and(|server| server.kept != Kept::No && server.lease == Some(id));
        is_kept
            && (self.is_left_by_writes(server_id) || self.tables.reads_next(id, input))
            && self.release_kept(server_id)
    }

    /// True if a server's host does not take the writes of its database, as far as its hosts are known now.
    #[cold]
    fn is_left_by_writes(&mut self, server_id: ServerId) -> bool {
        let server = self.tables.servers.must_get(server_id);
        let Some((group_id, lane)) = server.map(|server| (server.group, server.lane)) else {
            return false;
        };
        self.follow_hosts_of(group_id);
        let group = self.tables.groups.must_get(group_id);
        let Some(routing) = group.and_then(|group| group.routing.as_ref()) else {
            return false;
        };
        let lane = self.tables.lanes.must_get(lane);
        let primary = routing.hosts.primary().map(|primary| primary.host);
        lane.is_some_and(|lane| lane.global.host != primary)
    }

    // --- after the replies ---

    /// Follows a client's transaction after replies: reports commits, and gives a batch that a replica has refused to the
    /// primary. True if it did the latter.
    pub(super) fn routed_replied(
        &mut self,
        id: ClientId,
        server_id: ServerId,
        replied: relay::Replied,
    ) -> bool {
        if replied.transactions > 0 {
            let server = self.tables.servers.get(server_id);
            let is_on_primary = server.is_some_and(|server| server.session.is_on_primary());
            self.mark_write(id, is_on_primary);
        }
        if replied.altered_objects {
            // Read after the reply, as for a commit.
            self.tables.expire_catalogue(id, self.global.clock.now());
        }
        if replied.was_refused_late {
            self.tables.learn_late(self.now, id, server_id);
        }
        if replied.is_refused {
            self.turn_back(id, server_id, replied.is_refused_by_text);
        }
        replied.is_refused
    }

    /// Notes that a client's commit may have been done or acknowledged just now. Reads that are to see it need hosts that
    /// show the commit. `is_on_primary` is true if the server has said that it is no standby: if the client was sent there as
    /// to a replica, all that it has sent may have written.
    pub(super) fn mark_write(&mut self, id: ClientId, is_on_primary: bool) {
        let client = self.tables.clients.must_get(id);
        let route = client.and_then(|client| client.route.as_ref());
        let may_write = |route: &Route| route.writes() || is_on_primary && route.is_on_replica();
        if !route.is_some_and(|route| may_write(route)) {
            return;
        }
        if let Some((client, routing)) = self.tables.routed(id)
            && let Some(route) = &mut client.route
        {
            // Read after the reply, not before: a sample that was taken in between does not show the commit.
            let now = self.global.clock.now();
            route.state.last_write = now;
            if route.may_commit_async {
                route.state.last_async_write = now;
            }
            routing.cluster.wrote(now);
        }
    }

    /// Gives a batch that a replica has refused to the primary. The client has got nothing of the reply. `by_text` is true
    /// if replicas will refuse the text again.
    fn turn_back(&mut self, id: ClientId, server_id: ServerId, by_text: bool) {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return;
        };
        let batch = std::mem::take(&mut server.kept_batch);
        let connected_at = server.facts.connected_at;
        server.lease = None;
        if by_text
            && let Some((client, routing)) = self.tables.routed(id)
            && let Some(text) = relay::first_text(&Batch::scan(&batch), &client.session)
        {
            routing.learnt.add(text, self.now);
        }
        self.run_elsewhere(id, &batch, connected_at);
        if let Some(server) = self.tables.servers.get_mut(server_id) {
            // The buffer serves the next batch.
            server.kept_batch = batch;
            server.kept_batch.clear();
            self.end_block(server_id);
        }
    }

    /// Lets a client's batch, of whose reply the client has got nothing, run again: on the primary, if it knows several hosts.
    /// `connected_at` is the time at which the server was connected that had the batch.
    pub(super) fn run_elsewhere(&mut self, id: ClientId, batch: &[u8], connected_at: Moment) {
        let host = self.tables.host_of(id);
        if let Some((client, routing)) = self.tables.routed(id)
            && let Some(host) = host
        {
            let text = relay::first_text(&Batch::scan(batch), &client.session);
            routing.counted.retried(host, text);
        }
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        client.lease = None;
        client.stalled = false;
        self.driver.go(client.key, driver::Why::Partner);
        // The rest of the batch is still in the client's input.
        let unsent = client.route.as_ref().map_or(0, |route| route.unsent());
        let sent = batch.len().saturating_sub(unsent);
        let sent = batch.get(..sent).unwrap_or(batch);
        client.session.undo_batch(sent);
        client.input.splice(..0, sent.iter().copied());
        match &mut client.route {
            Some(route) => {
                route.repeat(self.now, connected_at);
                if route.is_in_block() {
                    client.session.reopen_block();
                }
            }
            None => (client.repeats.get_or_insert_default()).add(self.now, connected_at),
        }
        tracing::debug!("{client}: a batch of which nothing was answered runs again");
        self.send_elsewhere(id);
    }
}

impl Tables {
    /// Makes a look at the catalogue due at once: a client has changed objects, which decide on hosts.
    #[cold]
    fn expire_catalogue(&self, id: ClientId, now: Moment) {
        let client = self.clients.must_get(id);
        let group = client.and_then(|client| self.groups.must_get(client.group));
        if let Some(group) = group {
            group.global.database_state.expire(now);
        }
    }

    /// Learns a text that writes, and whose error has gone to the client.
    #[cold]
    fn learn_late(&mut self, now: Moment, id: ClientId, server_id: ServerId) {
        let Some(server) = self.servers.must_get_mut(server_id) else {
            return;
        };
        let batch = std::mem::take(&mut server.kept_batch);
        if let Some((client, routing)) = self.routed(id)
            && let Some(text) = relay::first_text(&Batch::scan(&batch), &client.session)
        {
            routing.learnt.add(text, now);
        }
        if let Some(server) = self.servers.must_get_mut(server_id) {
            server.kept_batch = batch;
        }
    }

    /// True if a server shows the changes of objects that clients have made. A replica that is behind would bring old
    /// definitions back.
    pub(super) fn shows_catalogue(&self, server: &Server, group: &Group) -> bool {
        let Some(routing) = &group.routing else {
            return true;
        };
        let lane = self.lanes.must_get(server.lane);
        let host = lane.and_then(|lane| routing.hosts.host(lane.global.host?));
        host.is_some_and(|host| host.fresh_to > group.global.database_state.expired_at())
    }

    /// Returns the host of a client's lane.
    fn host_of(&self, id: ClientId) -> Option<HostId> {
        let client = self.clients.must_get(id);
        let lane = client.and_then(|client| self.lanes.must_get(client.lane));
        lane.and_then(|lane| lane.global.host)
    }

    /// Returns a client and the router of its group.
    fn routed(&mut self, id: ClientId) -> Option<(&mut Client, &mut Routing)> {
        let client = self.clients.must_get_mut(id)?;
        let group = self.groups.must_get_mut(client.group)?;
        Some((client, group.routing.as_deref_mut()?))
    }

    /// True if the host of a new server counts as the primary and says that it is a standby: it has restarted, and the
    /// next probe tells what becomes of it. Clients wait meanwhile.
    pub(super) fn is_demoted(&self, lane_id: LaneId, reported: &Reported) -> bool {
        if reported.get("in_hot_standby") != Some("on") {
            return false;
        }
        let lane = self.lanes.must_get(lane_id);
        let group = lane.and_then(|lane| Some((lane, self.groups.must_get(lane.group)?)));
        let routing = group.and_then(|(lane, group)| Some((lane, group.routing.as_ref()?)));
        routing.is_some_and(|(lane, routing)| {
            let primary = routing.hosts.primary().map(|primary| primary.host);
            let is_demoted = primary.is_some() && primary == lane.global.host;
            if is_demoted {
                routing.cluster.suspect();
            }
            is_demoted
        })
    }

    /// Gives a server's reports the values that all hosts of its database have for clients. False if the database has one
    /// host.
    pub(super) fn unify_host_facts(&self, lane_id: LaneId, reported: &mut Reported) -> bool {
        let lane = self.lanes.must_get(lane_id);
        let group = lane.and_then(|lane| Some((lane, self.groups.must_get(lane.group)?)));
        let Some((lane, group)) = group else {
            return false;
        };
        let Some(routing) = &group.routing else {
            return false;
        };
        let is_primary = routing.hosts.primary().map(|primary| primary.host) == lane.global.host;
        let version = reported.get("server_version").map(Box::from);
        let shown = group.global.shown_version(version, is_primary);
        let standby = match routing.router.rules().target {
            Target::Any | Target::Primary | Target::ReadWrite => "off",
            Target::PreferStandby | Target::ReadOnly | Target::Standby => "on",
        };
        let facts = [
            ("server_version", shown.as_deref()),
            ("in_hot_standby", Some(standby)),
        ];
        for (name, value) in facts {
            if let Some(value) = value
                && reported.get(name).is_some()
            {
                // Cannot fail: the name is known.
                let _ = reported.set(name, value);
            }
        }
        true
    }

    /// True if a client's next batch reads, and the client keeps its server on trial only.
    #[cold]
    fn reads_next(&mut self, id: ClientId, input: &[u8]) -> bool {
        let Some(client) = self.clients.must_get(id) else {
            return false;
        };
        let group = self.groups.must_get_mut(client.group);
        let Some(group) = group.filter(|group| group.routing.is_some()) else {
            return false;
        };
        let batch = Batch::scan(input);
        let found = relay::destination(&batch, &client.session, &mut group.judge);
        client.session.is_only_on_trial() && found.is_complete && found.access.is_read()
    }

    /// Asks the router for a host. None if the group has no router.
    fn ask_router(
        &mut self,
        now: Moment,
        id: ClientId,
        batch: Option<&Batch<'_>>,
    ) -> Option<Verdict> {
        let client = self.clients.must_get_mut(id)?;
        let group = self.groups.must_get_mut(client.group)?;
        let (routing, judge) = (group.routing.as_deref_mut()?, &mut group.judge);
        let route = client.route.get_or_insert_with(|| Box::new(Route::new()));
        route.follow_settings(&client.session);
        client.session.check_own_settings();
        if judge.generation() != group.global.database_state.generation() {
            let (catalogue, generation) = group.global.database_state.catalogue();
            judge.set_catalogue(&catalogue, generation);
        }
        let Reading {
            destination,
            hints,
            is_read,
        } = match batch {
            None => Reading::of(&routing.fixed.anywhere),
            Some(batch) => routing.read(route, &client.session, judge, batch, now),
        };
        route.is_judged = is_read;
        let since = *route.since.get_or_insert(now);
        if let Some(batch) = batch {
            route.knows_lsn |= routing.cluster.knows_lsn();
            let until = since.plus(routing.router.rules().failover_hold);
            let session = &mut client.session;
            let held = route.give_lsn(session, &routing.hosts, batch, (now, until));
            if route.knows_lsn {
                routing.cluster.note_lsn();
            }
            if held.is_some() {
                return held;
            }
        }
        let ask = Ask {
            access: &destination.access,
            session: hints.as_ref().map_or(&route.state, |hinted| &hinted.state),
            hosts: &routing.hosts,
            ready: &routing.ready,
            last_write_of_all: routing.cluster.last_write(),
            last_async_write_of_all: routing.cluster.last_write(),
            since,
            now,
            may_guard: may_guard(&destination),
            dice: next_dice(&mut routing.dice),
        };
        let load = loads(&self.lanes, &group.lanes, routing.share(&group.settings));
        let verdict = routing.limit_hold(routing.router.ask(&ask, &load), now);
        let foreign = Foreign::of(&ask);
        let is_guarded = matches!(verdict, Verdict::Go { why, .. } if why == Why::Guarded);
        route.guard = is_guarded.then(|| routing.router.guard(&ask)).flatten();
        let wrong = hints.and_then(|hinted: Hinted| hinted.wrong);
        let wrong = wrong.filter(|_| !std::mem::replace(&mut route.told_hint, true));
        routing.note(route, verdict, &destination, batch.is_some());
        if let Some(batch) = batch.filter(|_| is_read) {
            let text = || relay::first_text(batch, &client.session);
            (routing.counted).decided(text, verdict, route.course, &destination);
        }
        let is_foreign = route.tells_foreign_token(&foreign);
        if let Some(wrong) = wrong {
            tracing::warn!("{client}: {wrong}");
        }
        if is_foreign {
            // The watcher may not know the newest timeline yet.
            routing.cluster.suspect();
            tracing::info!("{client}: {}; reads go to the primary", Why::Token);
        }
        Some(verdict)
    }
}

impl Routing {
    /// Reads the demands of a batch, as far as they decide.
    fn read(
        &mut self,
        route: &mut Route,
        session: &Session,
        judge: &mut Judge,
        batch: &Batch<'_>,
        now: Moment,
    ) -> Reading {
        route.note_commit_mode(batch.input);
        let wish = session
            .wishes_before_lease()
            .and_then(|wishes| wishes.route.as_ref());
        if wish.is_none() && !self.reads_texts(&route.state) {
            return Reading::of(&self.fixed.unread);
        }
        self.cluster.follow_writes();
        let rules = self.router.rules();
        if rules.until_write {
            route.follow_isolation(judge);
        }
        let text = || relay::first_text(batch, session).unwrap_or_default();
        let hints = (rules.comment_hints)
            .then(|| hinted(text(), &route.state))
            .flatten();
        Reading {
            hints: match wish {
                Some(wish) => Some(by_rule(&wish.value, hints, &route.state, &self.hosts)),
                None => hints,
            },
            destination: match route.needs_primary || self.learnt.has(text, now) {
                true => unread(&self.fixed.refused),
                false => destination(batch, session, judge, rules),
            },
            is_read: true,
        }
    }

    /// Ends the wait for a new primary `failover_hold` after the loss of the one before, whenever the client came. Which of
    /// two primaries is the right one is decided after the same time, and waited for longer.
    #[inline]
    fn limit_hold(&self, verdict: Verdict, now: Moment) -> Verdict {
        let Verdict::Hold {
            until,
            why: why @ Why::NoPrimary,
        } = verdict
        else {
            return verdict;
        };
        let hold = self.router.rules().failover_hold;
        match self.cluster.hold_end(hold, self.between_holds) {
            Some(end) if end <= now => Verdict::Refuse(why),
            Some(end) => Verdict::Hold {
                until: until.min(end),
                why,
            },
            None => verdict,
        }
    }

    /// Lets a route follow a verdict, and counts the request, unless the client is not logged in yet.
    fn note(
        &mut self,
        route: &mut Route,
        verdict: Verdict,
        destination: &Destination,
        is_request: bool,
    ) {
        if let Verdict::Go { host, has_net, why } = verdict {
            let block = match why {
                Why::UntilWrite => Block::Begins,
                _ => Block::Stays,
            };
            route.take_course(&self.hosts, host, has_net, block, destination);
            if is_request {
                let reads = destination.is_plain || route.is_on_replica();
                self.counted.sent(host, reads);
                let access = &destination.access;
                let is_traced = route.is_traced;
                let notice = || trace::notice(&self.hosts, host, why, access).into();
                route.notice = is_traced.then(notice);
            }
        }
    }

    /// Makes the router of a group, for a database with several hosts; none for others.
    pub(super) fn new(group: &GlobalGroup, global: &Global, seed: u64) -> Option<Box<Self>> {
        Self::of(&group.settings(), global, seed)
    }

    /// Likewise by the settings of a pool alone.
    fn of(settings: &PoolSettings, global: &Global, seed: u64) -> Option<Box<Self>> {
        let configured = settings.cluster.as_ref()?;
        let cluster = global.clusters.of(cluster_name(settings));
        let az = &global.settled().settings.global.az;
        let hosts = cluster.snapshot();
        Some(Box::new(Self {
            router: Router::new(rules::rules(configured, az, settings.comment_hints)),
            ready: Ready::of(&hosts),
            hosts,
            number: 0,
            waiters_number: 0,
            waiters_primary: None,
            workers: u32::try_from(global.worker_count()).unwrap_or(u32::MAX),
            counted: Counted::new(Arc::clone(&cluster), cluster_name(settings)),
            cluster,
            dice: seed,
            learnt: Learnt::default(),
            fixed: Fixed::default(),
            between_holds: settings.min_time_between_holds,
        }))
    }

    /// Notes the last commit of a client that has arrived from another process.
    pub(super) fn note_earlier_write(&self, route: &Route) {
        if route.state.last_write != Moment(0) {
            self.cluster.wrote(route.state.last_write);
        }
    }

    /// Returns this worker's share of a pool's size.
    fn share(&self, settings: &PoolSettings) -> u32 {
        settings.pool_size.div_ceil(self.workers.max(1))
    }

    /// True if texts decide on the hosts of a session's requests. They do not if the split is off.
    fn reads_texts(&self, session: &RouteState) -> bool {
        let rules = self.router.rules();
        let split = session.split.unwrap_or(rules.split);
        match rules.target {
            Target::Primary => false,
            Target::ReadWrite => split != Split::Off || rules.comment_hints,
            Target::Any | Target::PreferStandby | Target::ReadOnly | Target::Standby => true,
        }
    }

    /// True if this host's role is the one for which clients wait there: the primary of the snapshot, or a replica.
    fn is_still(&self, host: HostId) -> bool {
        match self.hosts.primary() {
            Some(primary) => {
                primary.host == host || self.hosts.host(host).is_some_and(|host| host.takes_reads)
            }
            None => self.hosts.host(host).is_some_and(|host| host.takes_reads),
        }
    }
}

/// True if a batch will be kept when it is sent, so that it can run elsewhere if a guard in front of it fails.
fn may_guard(destination: &Destination) -> bool {
    destination.is_complete && destination.is_plain && destination.len <= NET_MAX
}

/// Returns the load of a group's pool at each host; `share` is this worker's share of its size.
fn loads<'l>(
    lanes: &'l Slots<LaneId, Lane>,
    ids: &'l Lanes,
    share: u32,
) -> impl Fn(HostId) -> Load + 'l {
    move |host| {
        let lane = ids.at(Some(host)).and_then(|id| lanes.must_get(id));
        lane.map_or_else(Load::default, |lane| lane.load(share))
    }
}

/// True if the pooled servers of a host are those of its present life.
fn is_same_life(old: &HostView, new: &HostView) -> bool {
    old.generation == new.generation && (old.role == new.role || new.state != State::Up)
}

/// Returns the next number of a random generator (splitmix64). No secret depends on it.
fn next_dice(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
