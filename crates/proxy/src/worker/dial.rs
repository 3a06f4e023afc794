//! Connections to hosts: the look-up of a name, and the attempts at its addresses.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use slotmap::Key as _;
use weir_config::HostAddr;
use weir_pool::{ConnectToken, FailureKind, Serial};
use weir_session::server::Server as Session;
use weir_stats::Endpoint;

use super::Worker;
use super::ids::{LaneId, ServerId};
use super::login_failure::is_local;
use super::slots::{Server, Stage, tcp_targets};
use crate::driver::{Driver, Key, Owner};
use crate::global::LastError;
use crate::hosts::HostId;
use crate::moved::Facts;
use crate::resolve::{LATE, Resolved, Ttls, lateness, resolve};
use crate::socket::Target;

impl<D: Driver> Worker<D> {
    /// Starts one more server connection for a pool.
    pub(super) fn connect(&mut self, lane_id: LaneId, token: ConnectToken) {
        let Some(lane) = self.tables.lanes.must_get_mut(lane_id) else {
            return;
        };
        let host = token.host();
        let settings = lane.global.group.settings();
        let address = self.global.hosts.address_of(&settings, host);
        let port = address.map_or(settings.port, |(_, port)| port);
        let facts = Facts {
            id: self.global.next_id(),
            target: Target::Unix(std::path::PathBuf::new(), port),
            local: Endpoint::default(),
            pid: 0,
            key: Box::default(),
            connected_at: self.now,
            tls: None,
        };
        let serial = Serial(facts.id);
        let session = Session::new(Arc::default());
        let mut server = Server::new(Key::null(), (lane.group, lane_id), session, facts, self.now);
        server.stage = Stage::Connecting;
        let id = self.tables.servers.insert(server);
        lane.shard.connect_started(token, id.into(), serial);
        if lane.shard.is_reserve(id.into()) {
            let name = self.tables.server_name(id);
            tracing::warn!("{name} taking connection from reserve_pool");
        }
        let timeout = self.global.settled().settings.global.server_connect_timeout;
        self.arm_server(id, timeout);
        self.dial(id, host);
    }

    /// Connects to a host, after a look-up of its name if it has one. A watched host is reached at the address that its role
    /// is known for.
    pub(super) fn dial(&mut self, id: ServerId, host: HostId) {
        let server = self.tables.servers.must_get(id);
        let Some(group) = server.and_then(|server| self.tables.groups.must_get(server.group))
        else {
            return;
        };
        let settings = Arc::clone(&group.settings);
        let target = match self.global.hosts.address_of(&settings, host) {
            Some((HostAddr::Name(name), port)) => {
                let routing = group.routing.as_ref();
                return match routing.and_then(|routing| routing.cluster.address(host)) {
                    Some(address) => self.try_addresses(id, name, port, Ok(vec![address])),
                    None => self.resolve_host(id, name, port),
                };
            }
            Some((HostAddr::Ip(ip), port)) => Target::Tcp((*ip, port).into(), None),
            Some((HostAddr::UnixDir(directory), port)) => {
                Target::Unix(directory.join(format!(".s.PGSQL.{port}")), port)
            }
            Some((HostAddr::Abstract(name), port)) => {
                Target::Abstract(format!("{name}/.s.PGSQL.{port}"), port)
            }
            None if settings.hosts.is_empty() => return self.try_targets(id, Vec::new()),
            None => {
                // A second reload came before this worker has seen the first. The next attempt knows the new host.
                let text = "the host is no longer configured".to_owned();
                return self.login_failed(id, LastError { text, body: None }, FailureKind::Local);
            }
        };
        self.try_targets(id, vec![target]);
    }

    /// Connects to a host whose name has to be looked up.
    fn resolve_host(&mut self, id: ServerId, name: &str, port: u16) {
        if let Some(addresses) = self.global.resolver.cached(name, self.now) {
            return self.try_addresses(id, name, port, addresses);
        }
        let Some(server) = self.tables.servers.must_get_mut(id) else {
            return;
        };
        server.stage = Stage::Resolving(name.to_owned());
        let is_asked = resolve(&self.global, name.to_owned(), self.number, id);
        if self.global.resolver.remembers(name, self.now) {
            let limit = self.global.settled().settings.global.server_connect_timeout;
            let wait = if is_asked { LATE } else { Duration::ZERO };
            self.arm_server(id, Some(limit.map_or(wait, |limit| limit.min(wait))));
        } else if !is_asked {
            let text = "too many name look-ups at once".to_owned();
            self.login_failed(id, LastError { text, body: None }, FailureKind::Local);
        }
    }

    pub(super) fn resolved(&mut self, resolved: Resolved) {
        let id = resolved.server;
        // The server may have been given up meanwhile, or be at another host.
        let server = self.tables.servers.get(id);
        let is_awaited = |server: &Server| matches!(&server.stage, Stage::Resolving(name) if *name == resolved.name);
        if server.is_some_and(is_awaited) {
            self.found_addresses(id, &resolved.name, resolved.addresses);
        }
    }

    /// Goes on without the result of a look-up that is late, if the name has last addresses. False if it has none.
    pub(super) fn look_up_is_late(&mut self, id: ServerId) -> bool {
        let server = self.tables.servers.must_get(id);
        let Some(Stage::Resolving(name)) = server.map(|server| &server.stage) else {
            return false;
        };
        let (name, ttls) = (name.clone(), Ttls::of(&self.global));
        let resolver = &self.global.resolver;
        let Some(last) = resolver.fall_back(&name, &lateness(&name), ttls, self.now) else {
            return false;
        };
        self.found_addresses(id, &name, Ok(last));
        true
    }

    fn found_addresses(
        &mut self,
        id: ServerId,
        name: &str,
        addresses: Result<Vec<IpAddr>, String>,
    ) {
        let limit = self.global.settled().settings.global.server_connect_timeout;
        self.arm_server(id, limit);
        let Some(server) = self.tables.servers.must_get_mut(id) else {
            return;
        };
        server.stage = Stage::Connecting;
        let port = server.facts.target.endpoint().port;
        self.try_addresses(id, name, port, addresses);
    }

    /// Connects to the addresses of a host's name.
    fn try_addresses(
        &mut self,
        id: ServerId,
        name: &str,
        port: u16,
        addresses: Result<Vec<IpAddr>, String>,
    ) {
        match addresses {
            Ok(addresses) => self.try_targets(id, tcp_targets(name, addresses, port).collect()),
            Err(text) => {
                let error = LastError { text, body: None };
                self.login_failed(id, error, FailureKind::Refused);
            }
        }
    }

    /// Connects to the first address that accepts the attempt.
    pub(super) fn try_targets(&mut self, id: ServerId, mut targets: Vec<Target>) {
        let mut last = std::io::Error::new(ErrorKind::NotFound, "no address");
        while !targets.is_empty() {
            let target = targets.remove(0);
            match self.driver.connect(&target, Owner::Server(id)) {
                Ok(key) => {
                    if let Some(server) = self.tables.servers.must_get_mut(id) {
                        server.key = key;
                        server.facts.target = target;
                        server.stage = Stage::Connecting;
                        server.targets = targets;
                    }
                    return;
                }
                Err(error) => last = error,
            }
        }
        let kind = if is_local(&last) {
            FailureKind::Local
        } else {
            FailureKind::Refused
        };
        let text = format!("connect failed: {last}");
        self.login_failed(id, LastError { text, body: None }, kind);
    }

    /// Handles a connection attempt that an address refused.
    pub(super) fn connect_failed(&mut self, id: ServerId, error: &std::io::Error) {
        let Some(server) = self.tables.servers.must_get_mut(id) else {
            return;
        };
        server.key = Key::null();
        let text = format!("connect failed: {error}");
        self.login_failed(id, LastError { text, body: None }, FailureKind::Refused);
    }
}
