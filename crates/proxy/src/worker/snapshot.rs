//! Snapshots of this worker: rows for the console, and the line of statistics in the log.

use std::collections::BTreeMap;

use weir_session::hello::Replication;
use weir_stats::{
    Averages, Buffers, ClientRow, ClientState, Counters, MemoryRow, PoolCounts, PoolRow, ServerRow,
    ServerState, Snapshot, Totals,
};

use super::Worker;
use super::console::Purpose as Gathered;
use super::ids::ServerId;
use super::measure::{Tally, Visits, micros};
use super::slots::{Client, Group, Identity, Lane, Phase, Server, Stage};
use super::tables::Tables;
use crate::driver::{Driver, Key};
use crate::global::{Purpose, balance_name, mode_name};
use crate::moved::Facts;

mod activity;
mod cancels;

impl<D: Driver> Worker<D> {
    /// Describes this worker, with or without digests.
    pub(super) fn describe(&self, digests: bool) -> Snapshot {
        let clients = self.tables.clients.iter();
        let clients = clients.filter_map(|(_, client)| {
            let state = self.client_state(client)?;
            Some(self.client_row(client, state))
        });
        let askers = self.tables.cancellers.iter();
        let askers = askers.filter_map(|(_, canceller)| self.asker_row(canceller));
        let servers = self.tables.servers.iter();
        let servers = servers.map(|(id, server)| self.server_row(id, server));
        let cancels = self.tables.cancellers.iter();
        let cancels = cancels.filter_map(|(_, canceller)| self.canceller_row(canceller));
        let mut snapshot = Snapshot {
            clients: clients.chain(askers).collect(),
            servers: servers.chain(cancels).collect(),
            memory: self.tables.memory(),
            digests: self.digests(digests),
            ..self.describe_pools(Visits::AllClients)
        };
        let routings = self.tables.groups.iter();
        let routings = routings.filter_map(|(_, group)| group.routing.as_ref());
        routings.for_each(|routing| routing.show_routes(&mut snapshot));
        snapshot
    }

    /// Returns a snapshot without a row for each client and server.
    pub(super) fn describe_pools(&self, visits: Visits) -> Snapshot {
        let mut snapshot = Snapshot {
            broken_lookups: self.global.broken.count(),
            cancels: self.tables.cancellers.len() as u64,
            errors: self.errors.clone(),
            workers: vec![self.load(visits)],
            holders: self.holders(),
            dns_names: self.global.resolver.len() as u64,
            ..Snapshot::default()
        };
        if visits == Visits::AllClients {
            let clients = self.tables.clients.iter();
            let beginning = clients.filter(|(_, client)| is_logging_in(client));
            snapshot.login_clients = beginning.count() as u64;
        }
        self.tables.applications.show(&mut snapshot.applications);
        snapshot.tls = self.global.settled().transport.rows();
        snapshot.dns_pending = self
            .tables
            .servers
            .iter()
            .filter(|(_, server)| matches!(server.stage, Stage::Resolving(..)))
            .count() as u64;
        let period_us = u64::try_from(
            self.global
                .settled()
                .settings
                .global
                .stats_period
                .as_micros(),
        );
        snapshot.console = self.console.totals(period_us.unwrap_or(u64::MAX));
        let mut listeners = Vec::new();
        let tallies = self.tables.tallies(self.now);
        for (_, group) in &self.tables.groups {
            let key = &group.global.key;
            let name = (key.database.to_string(), key.user.to_string());
            let mut row = self.group_row(group);
            if let Some(routing) = &group.routing {
                routing.show_hosts(&mut snapshot);
            }
            let totals = snapshot.databases.entry(name.0.clone()).or_default();
            add_totals(totals, group, period_us.unwrap_or(u64::MAX));
            for id in group.lanes.ids() {
                let Some(lane) = self.tables.lanes.must_get(id) else {
                    continue;
                };
                totals.current_connections += lane.shard.servers() as u64;
                self.add_lane(&mut row, lane, tallies.get(id).copied().unwrap_or_default());
                let waiting = lane.shard.waiting() as u64;
                if waiting > 0 {
                    *row.activity.waits.entry(self.wait_reason(id)).or_default() += waiting;
                }
            }
            row.activity.rest_of(row.clients);
            if key.purpose == Purpose::Listener {
                listeners.push((name, row));
            } else {
                // The group for auth_query may have the same name as a group of clients.
                snapshot.pools.entry(name).or_default().merge(row);
            }
        }
        for (name, row) in listeners {
            add_listener(&mut snapshot, name, row);
        }
        self.tables.show_cancels(&mut snapshot);
        self.tables.show_rules(&mut snapshot);
        // Figures that no worker has any more are reported once.
        if self.number == 0 {
            self.global.show_retired_totals(&mut snapshot);
        }
        snapshot
    }

    /// Returns a client's state; none if its connection is for a cancel request.
    fn client_state(&self, client: &Client) -> Option<ClientState> {
        Some(match client.phase {
            Phase::AwaitingHeader
            | Phase::Opening(_)
            | Phase::Securing(_)
            | Phase::Authenticating(_) => ClientState::Login,
            Phase::Cancelling => return None,
            _ if client.lease.is_some() => ClientState::Active,
            _ if client.ticket.is_some() => ClientState::Waiting,
            Phase::SeekingWalsender(_) | Phase::Welcome => ClientState::Login,
            Phase::Console(_) | Phase::Ready | Phase::Replicating(_) => ClientState::Idle,
        })
    }

    fn client_row(&self, client: &Client, state: ClientState) -> ClientRow {
        let identity = &client.identity;
        let server = client.lease.and_then(|id| self.tables.servers.must_get(id));
        let waited = client.ticket.map(|ticket| self.now.since(ticket.since()));
        let name = client.session.reported().get("application_name");
        let activity = self.activity(client);
        ClientRow {
            id: client.id,
            user: identity.user.to_string(),
            database: identity.database.to_string(),
            replication: client.replication().name(),
            state,
            remote: identity.remote.clone(),
            local: identity.local.clone(),
            connect_time: self.unix(identity.connected_at),
            request_time: self.unix(client.request_at),
            wait_us: waited.map_or(0, |waited| {
                u64::try_from(waited.as_micros()).unwrap_or(u64::MAX)
            }),
            activity: activity.map(|(activity, _)| activity),
            activity_us: activity.map_or(0, |(_, lasts)| micros(lasts)),
            link: server.map(|server| server.facts.id),
            remote_pid: identity.remote_pid,
            tls: identity
                .tls
                .as_ref()
                .map_or_else(String::new, |tls| tls.protection.to_string()),
            application_name: name.unwrap_or_default().to_owned(),
            prepared_statements: client.session.statement_count() as u64,
            pin: client.session.pin_words(),
            pin_age_seconds: client
                .pinned
                .as_ref()
                .map_or(0, |pinned| self.now.since(pinned.since).as_secs()),
            counters: client.work.counters,
            buffers: self.buffers(client.key, &client.input),
            worker: self.number,
        }
    }

    fn buffers(&self, key: Key, received: &[u8]) -> Buffers {
        Buffers {
            received: received.len() as u64,
            unsent: self.driver.unsent(key) as u64,
        }
    }

    fn server_row(&self, id: ServerId, server: &Server) -> ServerRow {
        let lane = self.tables.lanes.must_get(server.lane);
        let name = |f: fn(&Lane) -> &str| lane.map(f).unwrap_or_default().to_owned();
        let state = match server.stage {
            Stage::BeingCancelled => ServerState::BeingCanceled,
            Stage::Cleaning | Stage::Parting | Stage::Testing(_) => ServerState::Tested,
            Stage::Idle if self.tables.is_long_idle(self.now, id, server) => ServerState::Used,
            Stage::Idle | Stage::Moving(_) => ServerState::Idle,
            Stage::Leased | Stage::Listening(_) | Stage::Replicating => ServerState::Active,
            Stage::Connecting
            | Stage::Login(_)
            | Stage::Negotiating(_)
            | Stage::Resolving(..)
            | Stage::Securing(_) => ServerState::Login,
        };
        let client = server.lease.and_then(|id| self.tables.clients.must_get(id));
        let remote = server.facts.target.endpoint();
        ServerRow {
            id: server.facts.id,
            user: name(|lane| &lane.global.group.key.user),
            database: name(|lane| &lane.global.group.key.database),
            replication: (self.tables.owner_of(server.lane))
                .map_or(Replication::None, |owner| owner.kind)
                .name(),
            state,
            remote,
            local: server.facts.local.clone(),
            connect_time: self.unix(server.facts.connected_at),
            request_time: self.unix(server.request_at),
            close_needed: server.doomed.is_some()
                || lane.is_some_and(|lane| lane.shard.is_obsolete(id.into())),
            link: client.map(|client| client.id),
            remote_pid: server.facts.pid,
            tls: server
                .facts
                .tls
                .as_ref()
                .map_or_else(String::new, |tls| tls.protection.to_string()),
            application_name: server
                .session
                .reported()
                .get("application_name")
                .unwrap_or_default()
                .to_owned(),
            prepared_statements: server.session.prepared_count() as u64,
            buffers: self.buffers(server.key, &server.input),
            worker: self.number,
        }
    }

    /// Returns the pool mode of clients that no listener gives another one. They share the row of those that have one.
    fn usual_mode(&self, group: &Group) -> &'static str {
        let key = &group.global.key;
        let Purpose::ClientsIn(_) = key.purpose else {
            return mode_name(group.settings.pool_mode);
        };
        let settled = self.global.settled();
        let usual = settled.settings.pool(&key.database, &key.user);
        mode_name(usual.map_or(group.settings.pool_mode, |usual| usual.pool_mode))
    }

    /// Returns the size of the clients' pool.
    fn pool_size(&self, group: &Group) -> u32 {
        let key = &group.global.key;
        let clients = || {
            let settled = self.global.settled();
            settled.settings.pool(&key.database, &key.user)
        };
        let is_listener = key.purpose == Purpose::Listener;
        let clients = is_listener.then(clients).flatten();
        clients.map_or(group.settings.pool_size, |clients| clients.pool_size)
    }

    /// Returns the row of a group, without its servers.
    fn group_row(&self, group: &Group) -> PoolRow {
        let mut row = PoolRow {
            counts: PoolCounts {
                cl_active: group.present() as u64,
                ..PoolCounts::default()
            },
            pool_mode: self.usual_mode(group),
            load_balance_hosts: balance_name(&group.settings),
            size: u64::from(self.pool_size(group)),
            clients: group.present() as u64,
            ..PoolRow::default()
        };
        group.show_times(&mut row);
        row
    }

    /// Adds the servers and waiting clients of a lane to the row of its group.
    fn add_lane(&self, row: &mut PoolRow, lane: &Lane, tally: Tally) {
        let shard = &lane.shard;
        let waiting = shard.waiting() as u64;
        let counts = &mut row.counts;
        counts.cl_active = counts.cl_active.saturating_sub(waiting);
        counts.cl_waiting += waiting;
        counts.sv_active += tally.active;
        counts.sv_being_canceled += tally.being_cancelled;
        counts.sv_idle += tally.idle;
        counts.sv_used += tally.used;
        counts.sv_login += tally.login;
        counts.sv_tested += tally.tested;
        let wait = shard.longest_wait(self.now).as_micros();
        row.maxwait_us = row.maxwait_us.max(u64::try_from(wait).unwrap_or(u64::MAX));
        if !shard.shared().is_annex() {
            row.servers += shard.shared().servers() as u64;
        }
        row.pinned += tally.pinned;
        row.activity.in_query += tally.in_query;
        row.activity.in_transaction += tally.in_transaction;
        row.activity.pinned += tally.kept;
        row.leased += tally.leased;
        if let Err(violation) = shard.check_invariant() {
            row.violation = violation.to_string();
        }
    }

    /// Requests PgBouncer's line of statistics for all workers together. The first worker asks the others.
    pub(super) fn log_stats(&mut self) {
        let settled = self.global.settled();
        let global = &settled.settings.global;
        if !global.log_stats || self.number != 0 {
            return;
        }
        let period_us = u64::try_from(global.stats_period.as_micros()).unwrap_or(u64::MAX);
        self.gather(Gathered::Log(period_us), false);
    }
}

impl Tables {
    /// Returns memory rows by PgBouncer's names. An object's size includes the parts that it always points to.
    fn memory(&self) -> BTreeMap<&'static str, MemoryRow> {
        let row = |size: usize, used: usize, capacity: usize| MemoryRow {
            size: size as u64,
            used: used as u64,
            free: capacity.saturating_sub(used) as u64,
        };
        let (clients, servers) = (&self.clients, &self.servers);
        let client = size_of::<Client>() + size_of::<Identity>();
        let server = size_of::<Server>() + size_of::<Facts>();
        [
            (
                "client_cache",
                row(client, clients.len(), clients.capacity()),
            ),
            (
                "server_cache",
                row(server, servers.len(), servers.capacity()),
            ),
            (
                "pool_cache",
                row(
                    size_of::<Group>() + size_of::<Lane>(),
                    self.groups.len(),
                    self.groups.capacity(),
                ),
            ),
        ]
        .into()
    }
}

pub(super) fn log_line(snapshot: &Snapshot, period_us: u64) {
    let mut all = Counters::default();
    for totals in snapshot.databases.values().chain([&snapshot.console]) {
        all += totals.period;
    }
    let a = Averages::of(&all, period_us);
    tracing::info!(
        "stats: {} xacts/s, {} queries/s, {} client parses/s, {} server parses/s, {} binds/s, {} client logins/s, \
         in {} B/s, out {} B/s, xact {} us, query {} us, wait {} us",
        a.transactions,
        a.queries,
        a.client_parses,
        a.server_parses,
        a.binds,
        a.client_logins,
        a.bytes_received,
        a.bytes_sent,
        a.transaction_us,
        a.query_us,
        a.wait_us
    );
}

fn is_logging_in(client: &Client) -> bool {
    matches!(
        client.phase,
        Phase::AwaitingHeader
            | Phase::Opening(_)
            | Phase::Securing(_)
            | Phase::Authenticating(_)
            | Phase::SeekingWalsender(_)
            | Phase::Welcome
    )
}

/// Adds a listening connection to the row of its user's clients' pool. It does not count in the size of that pool.
fn add_listener(snapshot: &mut Snapshot, name: (String, String), row: PoolRow) {
    let Some(pool) = snapshot.pools.get_mut(&name) else {
        // The clients' pool is on other workers.
        snapshot.pools.insert(name, PoolRow { servers: 0, ..row });
        return;
    };
    pool.counts.sv_active += row.counts.sv_active;
    pool.counts.sv_idle += row.counts.sv_idle;
    pool.counts.sv_login += row.counts.sv_login;
    pool.counts.sv_tested += row.counts.sv_tested;
    // The listener's work for its clients was counted in its own pool.
    pool.totals += row.totals;
}

fn add_totals(totals: &mut Totals, group: &Group, period_us: u64) {
    let [begin, before] = group.period;
    totals.totals += group.counters;
    totals.period += begin - before;
    totals.period_us = if begin == Counters::default() {
        totals.period_us
    } else {
        period_us
    };
    totals.current_client_connections += group.present() as u64;
    for (reason, count) in &group.pins {
        *totals.pins.entry(reason).or_default() += count;
    }
}
