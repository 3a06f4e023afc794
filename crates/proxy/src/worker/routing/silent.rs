//! Hosts that do not answer any more, while connections to them stay open.

use std::time::Duration;

use weir_watch::State;

use super::super::Worker;
use super::super::again::may_run_again;
use super::super::ids::{ClientId, GroupId, LaneId, ServerId};
use super::super::slots::Server;
use super::super::tables::Tables;
use crate::driver::Driver;

impl<D: Driver> Worker<D> {
    /// Lets reads that wait for a replica which does not answer any more run elsewhere: nothing of their reply has gone to
    /// the clients. A former primary that does not answer loses all its clients. Others keep their connections, as long
    /// as these last.
    pub(super) fn give_up_silent_hosts(&mut self, group_id: GroupId) {
        for id in self.tables.servers_of_silent_hosts(group_id) {
            // Another one's end may have closed it.
            if self.tables.servers.get(id).is_some() {
                self.close_server(id, "host does not answer");
            }
        }
    }
}

impl Tables {
    /// Returns the servers of hosts that are down, as far as their clients may go elsewhere.
    fn servers_of_silent_hosts(&mut self, group_id: GroupId) -> Vec<ServerId> {
        let Some(group) = self.groups.must_get(group_id) else {
            return Vec::new();
        };
        let Some(routing) = &group.routing else {
            return Vec::new();
        };
        let is_down = |lane: LaneId| {
            let host = self.lanes.must_get(lane).and_then(|lane| lane.global.host);
            let host = host.and_then(|host| routing.hosts.host(host));
            host.is_some_and(|host| host.state == State::Down)
        };
        let down: Vec<_> = group.lanes.ids().filter(|id| is_down(*id)).collect();
        if down.is_empty() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (id, server) in &self.servers {
            let client = server.lease.filter(|_| down.contains(&server.lane));
            let Some((client_id, client)) =
                client.and_then(|id| Some((id, self.clients.must_get(id)?)))
            else {
                continue;
            };
            let group = self.groups.must_get_mut(group_id);
            let is_free =
                group.is_some_and(|group| may_run_again(client, server, group, Duration::ZERO));
            if is_free || self.is_superseded(client_id, server) {
                found.push(id);
            }
        }
        found
    }

    /// True if a server was its client's primary, and another host takes writes on a higher timeline.
    fn is_superseded(&self, id: ClientId, server: &Server) -> bool {
        let group = self.groups.must_get(server.group);
        let routing = group.and_then(|group| group.routing.as_ref());
        let lane = self.lanes.must_get(server.lane);
        let host = lane.and_then(|lane| routing?.hosts.host(lane.global.host?));
        let primary = routing.and_then(|routing| routing.hosts.primary());
        let client = self.clients.must_get(id);
        let route = client.and_then(|client| client.route.as_ref());
        let is_walsender = client.is_some_and(|client| client.is_replicating());
        (is_walsender || route.is_some_and(|route| !route.is_on_replica()))
            && host.zip(primary).is_some_and(|(host, primary)| {
                host.timeline != 0 && host.timeline < primary.timeline
            })
    }
}
