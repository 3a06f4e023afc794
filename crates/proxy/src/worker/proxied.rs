//! Clients behind a proxy: the PROXY protocol's header names the address of the client (`proxy_protocol_from`).
//!
//! The header stands in front of everything else, a TLS handshake included. Only connections from the listed addresses
//! are read in this way. There the header is required: if it were optional, a client could write one of its own.

use std::net::IpAddr;

use weir_session::hello::Opening;
use weir_stats::Endpoint;
use weir_wire::proxy_header;

use super::Worker;
use super::client::Leaving;
use super::ids::ClientId;
use super::slots::Phase;
use crate::driver::Driver;
use crate::listen::Accepted;
use crate::settled::Settled;

impl<D: Driver> Worker<D> {
    /// Reads the header of a proxy. Returns the number of bytes handled; the caller keeps an incomplete header.
    pub(super) fn header_input(&mut self, id: ClientId, input: &[u8]) -> usize {
        let settled = self.global.settled();
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return input.len();
        };
        match proxy_header::parse(input) {
            Ok(None) => 0,
            Ok(Some(header)) => {
                if let Some(source) = header.source {
                    client.identity.remote = Endpoint {
                        address: source.ip().to_string(),
                        port: source.port(),
                    };
                    // Another machine's loopback address is not ours.
                    client.identity.is_loopback &= source.ip().is_loopback();
                }
                client.phase = Phase::Opening(tcp_opening(&settled));
                header.len
            }
            Err(why) => {
                if settled.settings.global.log_pooler_errors {
                    tracing::warn!(
                        "{client} refused: {why}, and its address is in proxy_protocol_from"
                    );
                }
                self.remove_client(id, Leaving::Lost, "no PROXY header");
                input.len()
            }
        }
    }
}

/// Returns the first phase of a connection.
pub(super) fn first_phase(settled: &Settled, accepted: &Accepted) -> Phase {
    if accepted.remote.address == "unix" {
        Phase::Opening(Opening::default())
    } else if is_from_proxy(settled, accepted) {
        Phase::AwaitingHeader
    } else {
        Phase::Opening(tcp_opening(settled))
    }
}

fn tcp_opening(settled: &Settled) -> Opening {
    match settled.transport.listener() {
        Some(_) => Opening::offering_tls(),
        None => Opening::default(),
    }
}

fn is_from_proxy(settled: &Settled, accepted: &Accepted) -> bool {
    let proxies = &settled.settings.global.proxy_protocol_from;
    if proxies.is_empty() {
        return false;
    }
    let address = accepted.remote.address.parse::<IpAddr>();
    address.is_ok_and(|ip| proxies.iter().any(|network| network.contains(ip)))
}
