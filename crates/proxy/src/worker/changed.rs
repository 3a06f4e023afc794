//! A reload: its effects on present pools, servers and clients. Requests in flight are not dropped.

use std::sync::Arc;

use weir_config::{ClusterHost, PoolMode, PoolSettings, Settings, StateCheck};
use weir_session::fault::Fault;

use super::Worker;
use super::ids::{ClientId, GroupId, LaneId, ServerId};
use super::looking;
use super::pooling::{has_timeouts, keeps_clients, repeats, rules};
use super::routing::Routing;
use super::slots::{Group, Stage};
use super::state;
use crate::driver::Driver;
use crate::global::{finds_size, lock};
use crate::socket::TcpOptions;

/// Reason for closing a session's server before the session ends (`server_fast_close`).
pub(super) const HURRIED: &str = "database configuration changed";

impl<D: Driver> Worker<D> {
    /// Gives every group its new rules after a reload.
    pub(super) fn settle_groups(&mut self) {
        let settled = self.global.settled();
        self.has_removed = false;
        self.driver
            .set_options(TcpOptions::new(&settled.settings.global));
        self.driver.set_spin(settled.settings.global.spin);
        self.settle_digests(&settled.settings.global);
        self.settle_rules();
        self.fill_forced();
        let ids: Vec<_> = self.tables.groups.iter().map(|(id, _)| id).collect();
        for id in ids {
            let Some(group) = self.tables.groups.must_get_mut(id) else {
                continue;
            };
            let settings = group.global.settings();
            let (database, user) = (&group.global.key.database, &group.global.key.user);
            group.is_removed = settled.settings.pool(database, user).is_none();
            let is_removed = group.is_removed;
            let is_obsolete = is_elsewhere(&group.settings, &settings) || is_removed;
            let is_rerouted = group.settings.cluster != settings.cluster;
            group.settle(settings, &settled.settings);
            if is_rerouted {
                group.routing = Routing::new(&group.global, &self.global, group.draw);
            }
            self.has_checks |= group.checks != StateCheck::Off;
            if is_obsolete {
                lock(&group.global.welcomes).clear();
                group.global.proven.clear();
                group.global.database_state.forget();
            }
            let lanes = group.lanes.clone();
            for lane in lanes.ids() {
                self.settle_lane(lane, is_obsolete);
            }
            if is_removed {
                self.remove_database(id);
            }
            for lane in lanes.ids() {
                self.pump(lane);
                self.arm_sizing(lane);
            }
        }
    }

    /// Gives a lane the policy of its group's settings. Obsolete servers are closed when they are free.
    fn settle_lane(&mut self, id: LaneId, is_obsolete: bool) {
        let Some(lane) = self.tables.lanes.must_get_mut(id) else {
            return;
        };
        let policy = lane.global.policy(&self.global.settled().settings);
        lane.settle_sizing(self.number);
        lane.shard.set_policy(self.now, policy);
        if is_obsolete {
            lane.shard.recycle(self.now);
            self.close_listener_of(id);
            self.hurry(id);
        }
    }

    /// Closes the obsolete servers of sessions in a pool if `server_fast_close` is set: at once, or after their
    /// transaction.
    pub(super) fn hurry(&mut self, lane_id: LaneId) {
        let is_wanted = self.global.settled().settings.global.server_fast_close;
        let lane = self.tables.lanes.must_get(lane_id);
        let mode = lane.map(|lane| lane.global.group.settings().pool_mode);
        if !is_wanted || mode != Some(PoolMode::Session) {
            return;
        }
        let mut leased = Vec::new();
        for (id, server) in &mut self.tables.servers {
            if server.lane == lane_id && matches!(server.stage, Stage::Leased) {
                server.doomed = Some(HURRIED);
                leased.extend(server.lease.map(|client| (client, id)));
            }
        }
        for (client, server) in leased {
            // The end of one client may end others.
            let leased = self
                .tables
                .servers
                .get(server)
                .and_then(|server| server.lease);
            if leased == Some(client) {
                self.after_replies(client, server);
            }
        }
    }

    /// Closes a session whose server is obsolete and whose transaction is over. The client gets PgBouncer's error.
    pub(super) fn close_hurried(&mut self, id: ClientId, server_id: ServerId) {
        if let Some(server) = self.tables.servers.must_get_mut(server_id) {
            server.lease = None;
        }
        if let Some(client) = self.tables.clients.must_get_mut(id) {
            client.lease = None;
        }
        self.fail_client(id, &Fault::DatabaseChanged);
        // A worker that stops closes its servers with its last client.
        if self.tables.servers.contains(server_id) {
            self.close_server(server_id, HURRIED);
        }
    }

    /// Closes the clients of a database that is no longer configured. Busy clients are closed when they have finished.
    fn remove_database(&mut self, group_id: GroupId) {
        self.has_removed = true;
        let clients: Vec<_> = self
            .tables
            .clients
            .iter()
            .filter(|(_, client)| client.group == group_id)
            .map(|(id, _)| id)
            .collect();
        for id in clients {
            self.close_if_idle(id);
        }
    }
}

impl Group {
    /// Takes over new settings.
    fn settle(&mut self, pool: Arc<PoolSettings>, settings: &Settings) {
        self.rules = rules(&pool, settings);
        self.finds_size = finds_size(&pool);
        self.keeps_clients = keeps_clients(&pool);
        self.repeats = repeats(&pool);
        self.has_timeouts = has_timeouts(&pool);
        if state::needs_another_judge(&self.settings, &pool) {
            self.judge = state::judge(&pool);
            self.refresh_judge();
        }
        let every = settings.global.catalogue_refresh;
        self.looks = looking::interval(every, self.rules.state, self.global.key.purpose);
        self.checks = state::checks(&pool);
        self.reset_always = settings.global.server_reset_query_always;
        self.settings = pool;
    }
}

/// True if existing servers do not match the new settings.
fn is_elsewhere(old: &PoolSettings, new: &PoolSettings) -> bool {
    old.dbname != new.dbname
        || old.hosts != new.hosts
        || hosts_with_roles(old) != hosts_with_roles(new)
        || old.port != new.port
        || old.connect_query != new.connect_query
        || old.load_balance_hosts != new.load_balance_hosts
        || old.password != new.password
        || old.startup != new.startup
        || old.tls != new.tls
}

fn hosts_with_roles(pool: &PoolSettings) -> Option<&[ClusterHost]> {
    let cluster = pool.cluster.as_ref()?;
    Some(&cluster.hosts)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn rules_follow_the_options() {
        let rules_of = |lines: &str| {
            let text = format!("[databases]\na = host=h\n[pgbouncer]\nauth_type=any\n{lines}\n");
            let mut read = |_: &Path| Ok(text.clone());
            let loaded = weir_config::load(Path::new("a.ini"), &mut read, std::iter::empty());
            let settings = loaded.unwrap().settings;
            rules(&settings.pool("a", "u").unwrap(), &settings)
        };
        let plain = rules_of("pool_mode = transaction");
        assert_eq!((plain.max_prepared, plain.prepare_unnamed), (200, 0));
        assert!(plain.tracks_unnamed && !plain.refuse_simple_query);
        let other = rules_of(
            "pool_mode = transaction\nmax_prepared_statements = 7\nprepare_unnamed_after = 3\n\
             disable_pqexec = 1\nmax_packet_size = 5000",
        );
        assert_eq!((other.max_prepared, other.prepare_unnamed), (7, 3));
        assert!(other.refuse_simple_query);
        assert_eq!(other.message_max, 5000);
        let session = rules_of("pool_mode = session");
        assert_eq!((session.max_prepared, session.tracks_unnamed), (0, false));
    }
}
