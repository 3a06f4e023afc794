//! State of a world that a test examines: what must hold after every turn, and at the end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_pool::Shard;

use super::World;
use crate::driver::Driver;
use crate::driver::memory::MemoryDriver;
use crate::global::{Global, Purpose};
use crate::worker::slots::Stage;
use crate::worker::{GroupId, Worker};

impl World {
    /// Number of server connections as PostgreSQL counts them, including those that it has not answered.
    pub(in super::super) fn live_servers(&self) -> usize {
        let waiting = self.unanswered.iter().filter(|peer| !peer.is_closed());
        let open = self
            .servers
            .iter()
            .filter(|server| server.is_alive() && !server.peer.is_closed() && server.pid != 0);
        open.count() + waiting.count()
    }

    /// Number of connections that listen for clients, or did: they are outside of the clients' pool.
    pub(in super::super) fn listening_servers(&self) -> usize {
        let listens = |worker: &Worker<MemoryDriver>, group: GroupId| {
            let group = worker.tables.groups.get(group);
            group.is_some_and(|group| group.global.key.purpose == Purpose::Listener)
        };
        let of_worker = |worker: &Worker<MemoryDriver>| {
            let servers = worker.tables.servers.iter();
            servers
                .filter(|(_, server)| listens(worker, server.group))
                .count()
        };
        self.workers.iter().map(of_worker).sum()
    }

    /// Checks the invariants that hold after every turn.
    #[track_caller]
    pub(in super::super) fn check(&self) {
        Self::check_records();
        for worker in &self.workers {
            for (_, lane) in &worker.tables.lanes {
                lane.shard.check_invariant().unwrap();
            }
            for (_, server) in &worker.tables.servers {
                if matches!(server.stage, Stage::Idle) {
                    assert!(server.session.is_free(), "I-04: an idle server is free");
                    assert!(server.input.is_empty() && server.lease.is_none(), "I-04");
                    let unsent = worker.driver.undelivered(server.key);
                    assert_eq!(unsent, 0, "I-04: bytes to an idle server are unsent");
                    self.check_idle(server.facts.pid);
                }
            }
        }
        let pools = self.pools();
        for shards in &pools {
            let shared = shards[0].shared();
            let annexes = pools.iter().filter(|other| {
                let other = other[0].shared();
                other.is_annex() && other.shares_size_with(shared)
            });
            let annexed = annexes.flatten().map(|shard| shard.servers()).sum();
            shared.check_with(shards, annexed).unwrap();
        }
    }

    /// Checks I-04 for an idle server against the model, in which the server may have ended since.
    fn check_idle(&self, pid: u32) {
        let server = self.servers.iter().find(|server| server.pid == pid);
        if let Some(server) = server.filter(|server| server.is_alive()) {
            assert!(server.is_at_rest(), "I-04: {server:?}");
        }
    }

    /// Returns the lanes of each pool.
    fn pools(&self) -> Vec<Vec<&Shard>> {
        let mut pools: Vec<Vec<&Shard>> = Vec::new();
        let lanes = self
            .workers
            .iter()
            .flat_map(|worker| worker.tables.lanes.iter());
        for (_, lane) in lanes {
            let shared = lane.shard.shared();
            match pools
                .iter_mut()
                .find(|known| Arc::ptr_eq(known[0].shared(), shared))
            {
                Some(known) => known.push(&lane.shard),
                None => pools.push(vec![&lane.shard]),
            }
        }
        pools
    }

    /// Checks that, with nothing in flight, no client waits beside a server that could serve it (I-12).
    #[track_caller]
    pub(super) fn check_quiet(&self) {
        for shards in self.pools() {
            let waiting: usize = shards.iter().map(|shard| shard.waiting()).sum();
            let idle: usize = shards.iter().map(|shard| shard.idle()).sum();
            assert!(
                waiting == 0 || idle == 0,
                "I-12: {waiting} wait, {idle} idle"
            );
        }
    }

    /// Checks, after all clients have left, that nothing of them is left (I-14).
    #[track_caller]
    pub(in super::super) fn check_empty(&self) {
        let Global {
            limits, workers, ..
        } = &*self.global;
        self.check_predecessor_empty();
        let used = (limits.clients.used(), limits.greeters.used());
        assert_eq!(used, (0, 0), "client limits");
        assert_eq!(self.global.cancellables(), 0, "cancel keys");
        for (worker, load) in self.workers.iter().zip(&workers.loads) {
            assert_eq!(load.load(Ordering::Relaxed), 0, "load");
            assert!(worker.tables.clients.is_empty() && worker.tables.cancellers.is_empty());
            assert_eq!(
                worker.driver.open(),
                worker.tables.servers.len(),
                "connections"
            );
            for (_, group) in &worker.tables.groups {
                assert_eq!((group.clients, group.away), (0, 0));
            }
            for (_, lane) in &worker.tables.lanes {
                assert_eq!(lane.shard.waiting(), 0);
            }
            for (_, server) in &worker.tables.servers {
                assert!(matches!(server.stage, Stage::Idle), "all servers are idle");
            }
        }
    }

    /// Returns the state of the workers' clients and servers, a line for each.
    pub(in super::super) fn holdings(&self) -> String {
        let mut lines = String::new();
        for worker in &self.workers {
            for (index, client) in &worker.tables.clients {
                let pin = client.session.pin();
                lines += &format!(
                    "\n  client {index:?}: lease {:?}, ticket {:?}, stalled {}, stopped {:?}, input {}, pin {pin:?}",
                    client.lease,
                    client.ticket,
                    client.stalled,
                    worker.driver.reasons(client.key),
                    client.input.len()
                );
            }
            for (index, server) in &worker.tables.servers {
                let session = &server.session;
                lines += &format!(
                    "\n  server {index:?} ({}): leased {}, to {:?}, free {}, untouched {}, awaits {}, repeats {}, input {}, doomed {:?}",
                    server.facts.pid,
                    matches!(server.stage, Stage::Leased),
                    server.lease,
                    session.is_free(),
                    session.is_untouched(),
                    session.awaits_required(),
                    session.has_to_repeat(),
                    server.input.len(),
                    server.doomed
                );
            }
        }
        lines
    }

    /// Largest number of bytes that a worker buffers for one client or server.
    pub(in super::super) fn buffered_max(&self) -> usize {
        let of_worker = |worker: &Worker<MemoryDriver>| {
            let clients = worker
                .tables
                .clients
                .iter()
                .map(|(_, client)| client.input.len());
            let servers = worker
                .tables
                .servers
                .iter()
                .map(|(_, server)| server.input.len());
            let inputs = clients.chain(servers).max().unwrap_or(0);
            inputs.max(worker.driver.backlog_max())
        };
        self.workers.iter().map(of_worker).max().unwrap_or(0)
    }
}
