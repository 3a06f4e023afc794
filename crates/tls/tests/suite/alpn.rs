//! Tests of the protocols that ALPN accepts, and that no session is ever resumed.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::Resumption;
use weir_tls::alpn::alpn_is_fine;
use weir_tls::connector::{Connector, Verify};
use weir_tls::listener::Listener;

use crate::handshake::{Outcome, connecting, connector, listener, listening, shake};
use crate::pki::{Authority, Directory, server};

fn pair() -> (Listener, Connector) {
    pair_speaking("secure")
}

fn pair_speaking(version: &str) -> (Listener, Connector) {
    let directory = Directory::new();
    let ca = Authority::new("ca");
    let listener = listener(&listening(&directory, &ca.sign(&server(&["localhost"]))));
    let mut options = connecting(&directory, Verify::Full, &ca.pem());
    options.protocols = version.to_owned();
    (listener, connector(&options))
}

/// Runs a handshake with a client that offers `protocols`.
fn offer(protocols: &[&str]) -> Outcome {
    let (listener, mut connector) = pair();
    let config = Arc::make_mut(&mut connector.config);
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    shake(
        &connector.config,
        &listener.config,
        connector.server_name("localhost").unwrap(),
    )
}

/// Verdicts of a direct handshake and of one after SSLRequest.
fn verdicts(protocols: &[&str]) -> [&'static str; 2] {
    let outcome = offer(protocols);
    if outcome.error.is_some() {
        assert_eq!(outcome.verdict(), "peer doesn't support any known protocol");
        return ["alert", "alert"];
    }
    [true, false].map(
        |direct| match alpn_is_fine(direct, outcome.server.alpn_protocol()) {
            true => "accepted",
            false => "refused",
        },
    )
}

#[test]
fn sec_08_direct_tls_needs_the_protocol_and_sslrequest_only_agrees_to_no_other() {
    assert_eq!(verdicts(&[]), ["refused", "accepted"]);
    assert_eq!(verdicts(&["postgresql"]), ["accepted", "accepted"]);
    assert_eq!(verdicts(&["h2", "postgresql"]), ["accepted", "accepted"]);
    assert_eq!(verdicts(&["h2"]), ["alert", "alert"]);
    assert_eq!(verdicts(&["http/1.1", "h2"]), ["alert", "alert"]);
    assert_eq!(verdicts(&["POSTGRESQL"]), ["alert", "alert"]);
    assert!(!alpn_is_fine(true, Some(b"h2")) && !alpn_is_fine(false, Some(b"h2")));
    assert!(!alpn_is_fine(false, Some(b"")));
}

#[test]
fn both_our_ends_agree_on_the_protocol() {
    let outcome = offer(&["postgresql"]);
    assert_eq!(
        outcome.client.alpn_protocol(),
        Some(b"postgresql".as_slice())
    );
    let (listener, connector) = pair();
    let name = connector.server_name("localhost").unwrap();
    let outcome = shake(&connector.config, &listener.config, name);
    assert!(alpn_is_fine(true, outcome.client.alpn_protocol()));
    assert!(alpn_is_fine(true, outcome.server.alpn_protocol()));
}

#[test]
fn sec_09_no_ticket_is_sent_and_no_session_resumed() {
    for version in ["tlsv1.2", "tlsv1.3"] {
        let (listener, connector) = pair_speaking(version);
        // A client that stores every ticket it is given.
        let mut eager = ClientConfig::clone(&connector.config);
        eager.resumption = Resumption::in_memory_sessions(8);
        eager.enable_early_data = true;
        let eager = Arc::new(eager);
        for _ in 0..2 {
            let name = connector.server_name("localhost").unwrap();
            let outcome = shake(&eager, &listener.config, name);
            assert_eq!(outcome.verdict(), "fine");
            assert_eq!(outcome.client.tls13_tickets_received(), 0);
            let full = [
                Some(rustls::HandshakeKind::Full),
                Some(rustls::HandshakeKind::Full),
            ];
            let kinds = [
                outcome.client.handshake_kind(),
                outcome.server.handshake_kind(),
            ];
            assert_eq!(kinds, full, "{version}");
            assert!(!outcome.client.is_early_data_accepted());
        }
        assert_eq!(listener.config.send_tls13_tickets, 0);
        assert!(!listener.config.session_storage.can_cache());
        assert!(!listener.config.ticketer.enabled());
        assert_eq!(listener.config.max_early_data_size, 0);
    }
}
