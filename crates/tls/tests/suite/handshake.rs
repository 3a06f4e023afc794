//! Handshakes between two configurations, without sockets.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, Connection, Error, ProtocolVersion, ServerConfig,
    ServerConnection,
};
use weir_tls::connector::{Connector, ConnectorOptions, Verify};
use weir_tls::listener::{Listener, ListenerOptions};

use crate::pki::{Directory, Pair, now};

/// Both ends after the handshake, or after it failed.
pub(crate) struct Outcome {
    pub(crate) client: ClientConnection,
    pub(crate) server: ServerConnection,
    /// The first error, from the side that verified.
    pub(crate) error: Option<Error>,
}

impl Outcome {
    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        self.client.protocol_version()
    }

    pub(crate) fn suite(&self) -> Option<CipherSuite> {
        self.client
            .negotiated_cipher_suite()
            .map(|suite| suite.suite())
    }

    /// Returns `fine`, or the error in short.
    pub(crate) fn verdict(&self) -> String {
        match &self.error {
            None => "fine".to_owned(),
            Some(Error::InvalidCertificate(problem)) => {
                let text = format!("{problem:?}");
                text.split([' ', '(']).next().unwrap().to_owned()
            }
            Some(error) => error.to_string(),
        }
    }
}

pub(crate) fn shake(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
    name: ServerName<'static>,
) -> Outcome {
    let client = ClientConnection::new(Arc::clone(client), name).unwrap();
    let server = ServerConnection::new(Arc::clone(server)).unwrap();
    let mut outcome = Outcome {
        client,
        server,
        error: None,
    };
    // Each turn moves one flight; a handshake has few.
    for _ in 0..10 {
        let mut client = Connection::Client(outcome.client);
        let mut server = Connection::Server(outcome.server);
        let error = pump(&mut client, &mut server).or_else(|| pump(&mut server, &mut client));
        let (Connection::Client(client), Connection::Server(server)) = (client, server) else {
            unreachable!()
        };
        outcome = Outcome {
            client,
            server,
            error,
        };
        if outcome.error.is_some() {
            return outcome;
        }
    }
    assert!(!outcome.client.is_handshaking() && !outcome.server.is_handshaking());
    outcome
}

fn pump(from: &mut Connection, to: &mut Connection) -> Option<Error> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        if let Err(error) = to.process_new_packets() {
            return Some(error);
        }
    }
    None
}

/// Options of a listener with this certificate.
pub(crate) fn listening(directory: &Directory, pair: &Pair) -> ListenerOptions {
    ListenerOptions {
        key_file: Some(directory.write("server.key", &pair.key)),
        cert_file: Some(directory.write("server.crt", &pair.certificate)),
        ..ListenerOptions::default()
    }
}

pub(crate) fn listener(options: &ListenerOptions) -> Listener {
    Listener::build_with_time(options, now()).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn connector(options: &ConnectorOptions) -> Connector {
    Connector::build_with_time(options, now()).unwrap_or_else(|error| panic!("{error}"))
}

/// Options of a connector that trusts this CA.
pub(crate) fn connecting(directory: &Directory, verify: Verify, ca: &str) -> ConnectorOptions {
    let ca_file = Some(directory.write("ca.crt", ca));
    ConnectorOptions {
        ca_file,
        ..ConnectorOptions::new(verify)
    }
}

/// Runs a handshake of a connector that addresses the listener as `host`.
pub(crate) fn meet(connector: &Connector, listener: &Listener, host: &str) -> Outcome {
    let name = connector.server_name(host).unwrap();
    shake(&connector.config, &listener.config, name)
}
