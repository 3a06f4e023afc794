//! TLS material for test worlds whose connections use the record layer without cryptography (`crate::tls::stub`).

use std::sync::Arc;

use weir_config::{Settings, SslMode, SslNegotiation};
use weir_tls::connector::{Connector, ConnectorOptions, Verify};
use weir_tls::session::ServerConfig;

use super::{Incoming, Outgoing, Transport, is_required};

impl Transport {
    /// True if [`Transport::stand_in`] made this, and it protects any connection.
    pub(crate) fn is_stand_in(&self) -> bool {
        let mut outgoing = self.outgoing.values();
        self.listener
            .as_ref()
            .is_some_and(|listener| listener.is_stub)
            || outgoing.any(|outgoing| outgoing.is_stub)
    }

    /// Makes a stand-in for these settings that reads no files. `config` is never used.
    pub(crate) fn stand_in(settings: &Settings, config: &Arc<ServerConfig>) -> Self {
        let client = settings.global.client_tls().sslmode;
        let listener = Incoming {
            config: Arc::clone(config),
            end_point: None,
            is_stub: true,
        };
        let servers = settings.server_tls().into_iter();
        let servers = servers.filter(|(_, tls)| tls.sslmode != SslMode::Disable);
        let outgoing = servers.map(|(_, tls)| {
            let outgoing = Outgoing {
                connector: Connector::build(&ConnectorOptions::new(Verify::None)).unwrap(),
                is_required: is_required(tls.sslmode),
                is_direct: tls.sslnegotiation == SslNegotiation::Direct,
                is_stub: true,
            };
            (tls, Arc::new(outgoing))
        });
        Self {
            listener: (client != SslMode::Disable).then(|| Arc::new(listener)),
            requires_tls: is_required(client),
            outgoing: outgoing.collect(),
            ..Self::default()
        }
    }
}
