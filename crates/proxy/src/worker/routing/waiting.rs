//! Clients that wait for a host: which of them are asked about again, and when.

use weir_route::{Token, Why};
use weir_watch::State;

use super::super::Worker;
use super::super::ids::{ClientId, GroupId, LaneId};
use super::super::tables::Tables;
use crate::driver::Driver;
use crate::orders::Task;

impl<D: Driver> Worker<D> {
    /// Ends a pause of writes once another host takes them.
    pub(super) fn follow_paused_writes(&mut self, group_id: GroupId) {
        let group = self.tables.groups.must_get(group_id);
        let is_over = group.is_some_and(|group| {
            let database = &group.global.key.database;
            let routing = group.routing.as_ref();
            routing.is_some_and(|it| self.global.follow_paused_writes(database, &it.hosts))
        });
        if is_over {
            self.tell_all(&Task::Settle);
        }
    }

    /// Asks the router again for clients that wait: in the waiting room, or at a host that does not suit them any more.
    pub(super) fn route_waiters(&mut self, group_id: GroupId) {
        let has_new_primary = self.tables.has_new_primary(group_id);
        for id in self.tables.waiters_to_route(group_id, has_new_primary) {
            self.route_waiter(id);
        }
    }

    /// Asks the router again for a client that waits. The client keeps its place by the time of its request.
    pub(in super::super) fn route_waiter(&mut self, id: ClientId) {
        // The client may have been served or ended meanwhile.
        let Some(client) = self.tables.clients.get_mut(id) else {
            return;
        };
        let Some(ticket) = client.ticket.take() else {
            return;
        };
        let before = client.lane;
        if let Some(lane) = self.tables.lanes.must_get_mut(before) {
            lane.shard.forget(ticket);
        }
        self.send_elsewhere(id);
        self.pump(before);
    }

    /// Asks the router again for a client whose time in the waiting room is over, if it still waits there.
    pub(in super::super) fn route_waiter_again(&mut self, id: ClientId) {
        // The client may be gone.
        let client = self.tables.clients.get(id);
        let lane = client.and_then(|client| self.tables.lanes.get(client.lane));
        if lane.is_some_and(|lane| lane.global.is_waiting_room()) {
            self.route_waiter(id);
        } else {
            self.look_for_lsn(id);
        }
    }
}

impl Tables {
    /// True if the hosts of a group have changed since its waiters were routed.
    pub(super) fn has_news_for_waiters(&mut self, group_id: GroupId) -> bool {
        let group = self.groups.must_get_mut(group_id);
        let Some(routing) = group.and_then(|group| group.routing.as_mut()) else {
            return false;
        };
        std::mem::replace(&mut routing.waiters_number, routing.number) != routing.number
    }

    /// True if another host takes writes than when the waiters were routed last. A host that takes only reads now may have
    /// waiters that write.
    fn has_new_primary(&mut self, group_id: GroupId) -> bool {
        let group = self.groups.must_get_mut(group_id);
        let Some(routing) = group.and_then(|group| group.routing.as_mut()) else {
            return false;
        };
        let Some(primary) = routing.hosts.primary().map(|primary| primary.host) else {
            return false;
        };
        let before = routing.waiters_primary.replace(primary);
        before.is_some_and(|before| before != primary)
    }

    /// Returns the waiting room for a client that no host takes now.
    pub(super) fn hold(&mut self, id: ClientId, why: Why) -> Option<LaneId> {
        let (client, routing) = self.routed(id)?;
        if let Some(route) = &mut client.route
            && matches!(why, Why::Position | Why::TooFresh)
        {
            route.waiter = Some(routing.cluster.wait_for_freshness());
            if route.state.token == Token::None {
                // Another process may have reported the commit.
                routing.cluster.wrote(route.state.last_write);
            } else {
                // Commits of other processes hasten no probe.
                routing.cluster.suspect();
            }
        }
        let group_id = client.group;
        let group = self.groups.must_get(group_id)?;
        group.lanes.at(None)
    }

    /// Returns the waiting clients of a group that a change of its hosts concerns, longest wait first: all of them if
    /// another host takes writes now.
    fn waiters_to_route(&self, group_id: GroupId, has_new_primary: bool) -> Vec<ClientId> {
        let Some(group) = self.groups.must_get(group_id) else {
            return Vec::new();
        };
        let Some(routing) = &group.routing else {
            return Vec::new();
        };
        let is_left = |id: &LaneId| {
            let Some(lane) = self
                .lanes
                .must_get(*id)
                .filter(|lane| lane.shard.waiting() > 0)
            else {
                return false;
            };
            if has_new_primary {
                return true;
            }
            let host = lane.global.host.map(|host| routing.hosts.host(host));
            host.is_none_or(|host| host.is_none_or(|host| host.state != State::Up))
                || lane.global.host.is_some_and(|host| !routing.is_still(host))
        };
        let left: Vec<_> = group.lanes.ids().filter(is_left).collect();
        if left.is_empty() {
            return Vec::new();
        }
        let waits = self.clients.iter().filter_map(|(id, client)| {
            let ticket = client.ticket.filter(|_| left.contains(&client.lane))?;
            Some((ticket.since(), id))
        });
        let mut waits: Vec<_> = waits.collect();
        waits.sort_unstable();
        waits.into_iter().map(|(_, id)| id).collect()
    }
}
