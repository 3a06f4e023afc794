//! Mirrors on this worker: transactions on their way there, and their clients.

use std::sync::Arc;

use weir_session::mirrored::{Mirrored, Request};
use weir_session::watched::{MirrorEvent, Undone};
use weir_stats::Endpoint;

use super::Worker;
use super::ids::{ClientId, ServerId};
use super::tables::Tables;
use crate::driver::Driver;
use crate::global::lock;
use crate::listen::Accepted;
use crate::mirrors::{Newcomer, Transaction};

/// Maximum number of requests of one transaction that are kept for mirrors, and of their bytes. A longer transaction is dropped.
const REQUESTS_MAX: usize = 256;
const BYTES_MAX: usize = 256 * 1024;

/// Address of a mirror's clients.
const ADDRESS: &str = "mirror";

/// Mirrored requests of a transaction that goes on.
#[derive(Debug, Default)]
pub(super) struct Collected {
    /// Server of the transaction.
    server: ServerId,
    requests: Vec<Mirrored>,
    bytes: usize,
    is_too_long: bool,
}

impl Collected {
    fn add(&mut self, request: Mirrored) {
        let len = request.request.as_ref().map_or(0, Request::len);
        self.is_too_long |= self.requests.len() >= REQUESTS_MAX || self.bytes + len > BYTES_MAX;
        if !self.is_too_long {
            self.bytes += len;
            self.requests.push(request);
        }
    }
}

impl Tables {
    /// True if a client is a lane of a mirror.
    pub(super) fn is_mirror(&self, id: ClientId) -> bool {
        self.clients.get(id).is_some_and(|client| client.is_mirror)
    }
}

impl<D: Driver> Worker<D> {
    /// Collects the mirrored requests of a client, and offers those of transactions that are over.
    #[cold]
    pub(super) fn follow_mirrored(
        &mut self,
        id: ClientId,
        server: ServerId,
        events: Vec<MirrorEvent>,
    ) {
        for event in events {
            let Some(client) = self.tables.clients.get_mut(id) else {
                return;
            };
            let Some(rules) = &mut client.rules else {
                return;
            };
            let collected = &mut rules.mirrored;
            if collected.server != server {
                // Another server was lost in the middle of its transaction.
                *collected = Collected {
                    server,
                    ..Collected::default()
                };
            }
            match event {
                MirrorEvent::Request(request) => collected.add(request),
                MirrorEvent::End(undone) => {
                    let collected = std::mem::take(collected);
                    self.offer_mirrored(id, collected, undone);
                }
            }
        }
    }

    fn offer_mirrored(&self, id: ClientId, collected: Collected, undone: Undone) {
        let mut requests = collected.requests;
        let Some(client) = self.tables.clients.must_get(id) else {
            return;
        };
        let Some(group) = self.tables.groups.must_get(client.group) else {
            return;
        };
        while let Some(first) = requests.first() {
            let rule = Arc::clone(&first.wish.rule);
            let (of_rule, rest) = requests
                .into_iter()
                .partition(|request| request.wish.rule == rule);
            requests = rest;
            // A rule that has just been dropped has no mirror.
            let Some(mirror) = self.mirrors.iter().find(|mirror| mirror.name == rule) else {
                continue;
            };
            if collected.is_too_long || mirror.is_quiet(self.now) {
                mirror.drop_one();
                continue;
            }
            let transaction = Transaction {
                client: client.id,
                group: Arc::clone(&group.global),
                settings: Arc::clone(client.session.settings()),
                requests: of_rule,
                undone,
            };
            mirror.offer((&self.global, self.now), transaction);
        }
    }

    /// Takes a client of a mirror, which has no login of its own; it is already counted in the load.
    pub(super) fn mirror_arrived(&mut self, newcomer: Newcomer) {
        let endpoint = || Endpoint {
            address: ADDRESS.to_owned(),
            port: 0,
        };
        let added = self.welcome_socket(Accepted {
            stream: newcomer.stream,
            remote: endpoint(),
            local: endpoint(),
            is_loopback: true,
            remote_pid: 0,
            remote_uid: None,
        });
        let Some(id) = added.filter(|id| self.tables.clients.contains(*id)) else {
            return;
        };
        let settled = self.global.settled();
        let user = &newcomer.group.key.user;
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        client.identity.user = Arc::clone(user);
        client.identity.database = Arc::clone(&newcomer.database);
        client.is_mirror = true;
        client.identity.guards.greeter = None;
        let Some(settings) = settled.settings.pool(&newcomer.database, user) else {
            let fault = weir_session::fault::Fault::NoDatabase(newcomer.database.to_string());
            return self.fail_client(id, &fault);
        };
        match self.global.pool(settings) {
            Ok(pool) => {
                let of_client = &newcomer.group;
                let pass_through = lock(&of_client.pass_through).clone();
                let learnt = lock(&of_client.learnt).clone();
                pool.group.take_proofs(pass_through, learnt);
                let place = self.lane_of(&pool);
                self.greet(id, place, newcomer.settings);
            }
            Err(_) => {
                let fault = weir_session::fault::Fault::TooManyClients("max_pools");
                self.fail_client(id, &fault);
            }
        }
    }

    /// Puts the mirrors of the rules in force.
    pub(super) fn settle_mirrors(&mut self) {
        self.mirrors = self.global.settle_mirrors();
    }
}
