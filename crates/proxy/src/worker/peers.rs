//! Cancel requests for clients of a peer: they are forwarded unchanged, except for the number of forwards left.

use std::net::IpAddr;
use std::sync::Arc;

use weir_config::{HostAddr, Peer};
use weir_pool::Entered;
use weir_wire::encode;

use super::Worker;
use super::cancel::{CancelAsker, Errand};
use super::client::Leaving;
use super::ids::ClientId;
use super::slots::{Phase, tcp_targets};
use crate::driver::Driver;
use crate::global::source;
use crate::mailbox::Message;
use crate::peering;
use crate::resolve;
use crate::socket::Target;

/// Cancel request on its way to a peer whose address is being looked up.
pub(crate) struct Forward {
    /// Connection that asked.
    asker: ClientId,
    peer_id: u32,
    message: Vec<u8>,
    place: Entered,
    name: String,
    port: u16,
}

impl<D: Driver> Worker<D> {
    /// Returns the id of the peer that a cancel request is for; none if the request is ours.
    pub(super) fn peer_of(&self, pid: u32) -> Option<u32> {
        let own = self.global.settled().settings.global.peer_id;
        let owner = peering::owner(pid);
        (own != 0 && owner != own).then_some(owner)
    }

    /// Forwards a cancel request. The requester gets no answer.
    pub(super) fn forward_cancel(&mut self, id: ClientId, peer_id: u32, pid: u32, key: &[u8]) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        client.phase = Phase::Cancelling;
        // Only the peer can judge the key, so right ones are counted as well as wrong ones.
        let source = source(&client.identity.remote, client.identity.remote_uid);
        let is_known = self.global.settled().settings.peers.contains_key(&peer_id);
        if !is_known || !self.global.grants_forward(source, self.now) {
            // Any client can cause this at will, so it is no warning.
            tracing::debug!(
                "cancel request for peer {peer_id} dropped: the peer is not in [peers], or its address sends too many (cancel_requests_per_second)"
            );
            return self.remove_client(id, Leaving::Orderly, "failed cancel request");
        }
        let outcome = self.prepare_forward(id, peer_id, pid, key);
        if let Err(reason) = outcome {
            tracing::warn!("cancel request for peer {peer_id} dropped: {reason}");
            self.remove_client(id, Leaving::Orderly, "failed cancel request");
        }
    }

    fn prepare_forward(
        &mut self,
        asker: ClientId,
        peer_id: u32,
        pid: u32,
        key: &[u8],
    ) -> Result<(), String> {
        let settled = self.global.settled();
        let peer = settled.settings.peers.get(&peer_id);
        let peer = peer.ok_or("there is no such peer")?;
        let mut key = key.to_vec();
        if !peering::forward(&mut key) {
            return Err("it was forwarded too often".to_owned());
        }
        let mut message = Vec::new();
        // A key of the same length has just been read.
        let _ = encode::cancel_request(&mut message, pid, &key);
        let max = connections_max(peer, settled.settings.global.peer_connections());
        let place = self.global.peer_quota(peer_id, max).try_enter();
        let place = place.ok_or("its pool_size is reached")?;
        match target(peer)? {
            Ok(target) => {
                let errand = Errand::Peer {
                    peer_id,
                    message,
                    place,
                };
                self.carry_to_peer(CancelAsker::Here(asker), target, errand)
            }
            Err(name) => self.look_up_peer(Forward {
                asker,
                peer_id,
                message,
                place,
                name,
                port: peer.port,
            }),
        }
    }

    fn look_up_peer(&mut self, forward: Forward) -> Result<(), String> {
        if let Some(known) = self.global.resolver.cached(&forward.name, self.now) {
            return self.peer_found(forward, known);
        }
        let (worker, name) = (self.number, forward.name.clone());
        let global = Arc::clone(&self.global);
        let answer = move |addresses| {
            if let Some(mailbox) = global.mailbox(worker) {
                let forward = Box::new(forward);
                mailbox.send_waiting(Message::PeerFound { forward, addresses });
            }
        };
        match resolve::resolve_then(&self.global, name, answer) {
            true => Ok(()),
            false => Err("too many names are being looked up".to_owned()),
        }
    }

    /// Continues with a peer whose address was looked up.
    pub(super) fn peer_looked_up(
        &mut self,
        forward: Forward,
        addresses: Result<Vec<IpAddr>, String>,
    ) {
        let asker = CancelAsker::Here(forward.asker);
        if let Err(reason) = self.peer_found(forward, addresses) {
            tracing::warn!("cancel request for a peer dropped: {reason}");
            self.cancel_done(Some(asker));
        }
    }

    fn peer_found(
        &mut self,
        forward: Forward,
        addresses: Result<Vec<IpAddr>, String>,
    ) -> Result<(), String> {
        let target = tcp_targets(&forward.name, addresses?, forward.port).next();
        let target = target.ok_or("its name has no address")?;
        let asker = CancelAsker::Here(forward.asker);
        let errand = Errand::Peer {
            peer_id: forward.peer_id,
            message: forward.message,
            place: forward.place,
        };
        self.carry_to_peer(asker, target, errand)
    }

    fn carry_to_peer(
        &mut self,
        asker: CancelAsker,
        target: Target,
        errand: Errand,
    ) -> Result<(), String> {
        let settled = self.global.settled();
        // The connection is as protected as one to a server. Sockets of this machine need no protection.
        let tls = match target {
            Target::Tcp(..) => settled.outgoing(&settled.settings.global.server_tls()),
            Target::Unix(..) | Target::Abstract(..) => Ok(None),
        };
        let tls = tls.map_err(|_| "the TLS settings are not in force")?;
        self.carry(target, tls, errand, Some(asker))
    }
}

/// Returns the maximum number of connections to a peer at once.
fn connections_max(peer: &Peer, default: u32) -> u32 {
    peer.pool_size.unwrap_or(default)
}

/// Returns where a peer listens; `Ok(Err(name))` is a name that has to be looked up.
fn target(peer: &Peer) -> Result<Result<Target, String>, String> {
    let port = peer.port;
    let host = peer.host.first().ok_or("it has no host")?;
    Ok(match host {
        HostAddr::Ip(ip) => Ok(Target::Tcp((*ip, port).into(), None)),
        HostAddr::UnixDir(directory) => {
            let path = directory.join(format!(".s.PGSQL.{port}"));
            Ok(Target::Unix(path, port))
        }
        HostAddr::Abstract(name) => {
            let name = format!("{name}/.s.PGSQL.{port}");
            Ok(Target::Abstract(name, port))
        }
        HostAddr::Name(name) => Err(name.clone()),
    })
}
