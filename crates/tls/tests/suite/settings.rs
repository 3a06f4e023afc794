//! Tests of protocols, ciphers and curves as two ends negotiate them.

use rustls::crypto::aws_lc_rs::{cipher_suite, kx_group};
use rustls::{CipherSuite, NamedGroup, ProtocolVersion};
use weir_tls::connector::{Connector, ConnectorOptions, Verify};
use weir_tls::listener::{Listener, ListenerOptions};

use crate::handshake::{Outcome, connector, listener, listening, meet};
use crate::pki::{Directory, self_signed, server};

/// A handshake between a listener and a connector with these settings.
fn negotiate(
    listening_with: impl Fn(ListenerOptions) -> ListenerOptions,
    connecting_with: impl Fn(ConnectorOptions) -> ConnectorOptions,
) -> Outcome {
    let directory = Directory::new();
    let pair = self_signed(&server(&["localhost"]));
    let listener = listener(&listening_with(listening(&directory, &pair)));
    let connector = connector(&connecting_with(ConnectorOptions::new(Verify::None)));
    meet(&connector, &listener, "localhost")
}

#[test]
fn the_newest_common_version_is_spoken() {
    let version = |ours: &str, theirs: &str| {
        let outcome = negotiate(
            |options| ListenerOptions {
                protocols: ours.to_owned(),
                ..options
            },
            |options| ConnectorOptions {
                protocols: theirs.to_owned(),
                ..options
            },
        );
        outcome.error.is_none().then(|| outcome.version().unwrap())
    };
    assert_eq!(version("", ""), Some(ProtocolVersion::TLSv1_3));
    assert_eq!(version("secure", "tlsv1.2"), Some(ProtocolVersion::TLSv1_2));
    assert_eq!(version("tlsv1.2", "secure"), Some(ProtocolVersion::TLSv1_2));
    assert_eq!(version("all", "all"), Some(ProtocolVersion::TLSv1_3));
    assert_eq!(version("tlsv1.3", "tlsv1.2"), None);
}

#[test]
fn the_listener_prefers_its_own_order_and_the_cheapest_cipher() {
    let suite = |ours: &str, theirs: &str| {
        let protocols = || {
            if ours.starts_with("TLS_") {
                "tlsv1.3"
            } else {
                "tlsv1.2"
            }
            .to_owned()
        };
        let outcome = negotiate(
            |options| ListenerOptions {
                ciphers: if ours.starts_with("TLS_") { "" } else { ours }.to_owned(),
                tls13_ciphers: if ours.starts_with("TLS_") { ours } else { "" }.to_owned(),
                protocols: protocols(),
                ..options
            },
            |options| ConnectorOptions {
                ciphers: if ours.starts_with("TLS_") { "" } else { theirs }.to_owned(),
                tls13_ciphers: if ours.starts_with("TLS_") { theirs } else { "" }.to_owned(),
                ..options
            },
        );
        outcome.error.is_none().then(|| outcome.suite().unwrap())
    };
    let all13 = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
    let turned = "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256";
    assert_eq!(
        suite(all13, turned),
        Some(CipherSuite::TLS13_AES_128_GCM_SHA256)
    );
    assert_eq!(
        suite(turned, all13),
        Some(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256)
    );
    assert_eq!(
        suite(
            "fast",
            "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256"
        ),
        Some(CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)
    );
    assert_eq!(
        suite("AES256", "fast"),
        Some(CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384)
    );
    assert_eq!(suite("AES256", "AES128"), None);
    // The certificate has an ECDSA key.
    assert_eq!(suite("aRSA", "fast"), None);
}

#[test]
fn the_default_order_is_cheapest_first() {
    let directory = Directory::new();
    let built = listener(&listening(&directory, &self_signed(&server(&["db"]))));
    let suites = &built.config.crypto_provider().cipher_suites;
    assert_eq!(
        suites.first(),
        Some(&cipher_suite::TLS13_AES_128_GCM_SHA256)
    );
    assert_eq!(suites.len(), 9);
    assert!(built.config.ignore_client_order);
}

/// Without lists, AES-128 is used with every peer that allows it, and other peers are served.
#[test]
fn by_default_aes_128_is_used_wherever_the_peer_allows_it() {
    const AES_128: CipherSuite = CipherSuite::TLS13_AES_128_GCM_SHA256;
    const AES_256: CipherSuite = CipherSuite::TLS13_AES_256_GCM_SHA384;
    const CHACHA20: CipherSuite = CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;
    // A client that prefers what is dearest, as OpenSSL does.
    let of_client = |tls13: &str| {
        let outcome = negotiate(
            |options| options,
            |options| ConnectorOptions {
                tls13_ciphers: tls13.to_owned(),
                ..options
            },
        );
        outcome.suite()
    };
    let both = "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256";
    assert_eq!(of_client(both), Some(AES_128));
    assert_eq!(of_client("TLS_AES_256_GCM_SHA384"), Some(AES_256));
    assert_eq!(of_client("TLS_CHACHA20_POLY1305_SHA256"), Some(CHACHA20));
    // A server that heeds the client's order, or has its own (`ssl_prefer_server_ciphers`).
    let of_server = |tls13: &str, heeds_client: bool| {
        let directory = Directory::new();
        let options = ListenerOptions {
            tls13_ciphers: tls13.to_owned(),
            ..listening(&directory, &self_signed(&server(&["localhost"])))
        };
        let mut listener = listener(&options);
        let mut config = (*listener.config).clone();
        config.ignore_client_order = !heeds_client;
        listener.config = config.into();
        let connector = connector(&ConnectorOptions::new(Verify::None));
        meet(&connector, &listener, "localhost").suite()
    };
    assert_eq!(of_server(both, true), Some(AES_128));
    assert_eq!(of_server(both, false), Some(AES_256), "the server decides");
    assert_eq!(of_server("TLS_AES_256_GCM_SHA384", true), Some(AES_256));
    assert_eq!(
        of_server("TLS_CHACHA20_POLY1305_SHA256", true),
        Some(CHACHA20)
    );
    let of_tls12 = |ciphers: &str| {
        let outcome = negotiate(
            |options| options,
            |options| ConnectorOptions {
                protocols: "tlsv1.2".to_owned(),
                ciphers: ciphers.to_owned(),
                ..options
            },
        );
        outcome.suite()
    };
    assert_eq!(
        of_tls12("ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256"),
        Some(CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)
    );
    assert_eq!(
        of_tls12("AES256"),
        Some(CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384)
    );
}

#[test]
fn the_group_is_the_first_that_the_listener_names() {
    let group = |curve: &str| {
        let outcome = negotiate(
            |options| ListenerOptions {
                curve: curve.to_owned(),
                ..options
            },
            |options| options,
        );
        assert_eq!(outcome.verdict(), "fine", "{curve}");
        outcome
            .client
            .negotiated_key_exchange_group()
            .unwrap()
            .name()
    };
    assert_eq!(group("auto"), NamedGroup::X25519);
    assert_eq!(group("prime256v1"), NamedGroup::secp256r1);
    assert_eq!(group("secp384r1"), NamedGroup::secp384r1);
}

#[test]
fn the_hybrid_is_used_by_peers_that_speak_nothing_else_or_when_named() {
    let directory = Directory::new();
    let pair = self_signed(&server(&["localhost"]));
    let group = |curve: &str, groups: &[&'static dyn rustls::crypto::SupportedKxGroup]| {
        let options = ListenerOptions {
            curve: curve.to_owned(),
            ..listening(&directory, &pair)
        };
        let listener = listener(&options);
        let mut connector = connector(&ConnectorOptions::new(Verify::None));
        let mut provider = (**connector.config.crypto_provider()).clone();
        provider.kx_groups = groups.to_vec();
        let config = rustls::ClientConfig::builder_with_details(provider.into(), crate::pki::now())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots(&pair.certificate))
            .with_no_client_auth();
        connector.config = config.into();
        let outcome = meet(&connector, &listener, "localhost");
        outcome
            .client
            .negotiated_key_exchange_group()
            .map(|group| group.name())
    };
    let both: &[&'static dyn rustls::crypto::SupportedKxGroup] =
        &[kx_group::X25519MLKEM768, kx_group::X25519];
    assert_eq!(group("auto", &both[..1]), Some(NamedGroup::X25519MLKEM768));
    assert_eq!(
        group("X25519MLKEM768:auto", both),
        Some(NamedGroup::X25519MLKEM768)
    );
}

fn roots(pem: &str) -> rustls::RootCertStore {
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    let der = rustls::pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    roots.add(der).unwrap();
    roots
}

#[test]
fn mistakes_in_lists_name_the_option_and_lists_for_openssl_work_with_warnings() {
    let directory = Directory::new();
    let options = listening(&directory, &self_signed(&server(&["db"])));
    let error = |options: ListenerOptions| Listener::build(&options).unwrap_err().to_string();
    let bad = ListenerOptions {
        protocols: "tlsv1.0".to_owned(),
        ..options.clone()
    };
    assert!(error(bad).starts_with("client_tls_protocols: TLS 1.0 and 1.1 are broken"));
    let bad = ListenerOptions {
        ciphers: "HIHG".to_owned(),
        ..options.clone()
    };
    assert!(error(bad).starts_with("client_tls_ciphers: unknown cipher \"HIHG\""));
    let bad = ListenerOptions {
        tls13_ciphers: "HIGH".to_owned(),
        ..options.clone()
    };
    assert!(error(bad).starts_with("client_tls13_ciphers: unknown cipher \"HIGH\""));
    let bad = ListenerOptions {
        curve: "none".to_owned(),
        ..options.clone()
    };
    assert!(error(bad).starts_with("client_tls_ecdhcurve: \"none\""));
    let bad = ConnectorOptions {
        ciphers: "RC4-MD5".to_owned(),
        ..ConnectorOptions::new(Verify::None)
    };
    let bad = Connector::build(&bad).unwrap_err().to_string();
    assert!(
        bad.starts_with("server_tls_ciphers: cipher \"RC4-MD5\" is known"),
        "{bad}"
    );
    let old = ListenerOptions {
        protocols: "all".to_owned(),
        ciphers: "ECDHE-ECDSA-AES128-GCM-SHA256:AES128-SHA".to_owned(),
        curve: "secp521r1:X25519".to_owned(),
        ..options
    };
    let warnings = Listener::build(&old).unwrap().warnings;
    let warnings = warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        warnings,
        [
            "client_tls_protocols: TLS 1.0 and 1.1 are not supported; using TLS 1.2 and 1.3 only",
            "client_tls_ciphers: not supported and left out: AES128-SHA",
            "client_tls_ecdhcurve: not supported and left out: secp521r1",
        ]
    );
}

#[test]
fn hosts_are_names_or_addresses() {
    let connector = connector(&ConnectorOptions::new(Verify::None));
    let name = |host: &str| {
        connector
            .server_name(host)
            .map(|name| name.to_str().into_owned())
    };
    assert_eq!(name("db.example.com").as_deref(), Ok("db.example.com"));
    assert_eq!(name("db_1").as_deref(), Ok("db_1"));
    assert_eq!(name("10.0.0.1").as_deref(), Ok("10.0.0.1"));
    assert_eq!(name("[::1]").as_deref(), Ok("::1"));
    assert_eq!(name("fe80::1%eth0").as_deref(), Ok("fe80::1"));
    for bad in ["", "/var/run", "a b", "-", "db..example.com"] {
        assert!(name(bad).is_err(), "{bad}");
    }
}

#[test]
fn without_a_ca_file_the_cas_of_the_system_are_trusted() {
    for ca_file in [None, Some("system".into())] {
        for (verify, warned) in [(Verify::Ca, 1), (Verify::Full, 0)] {
            let options = ConnectorOptions {
                ca_file: ca_file.clone(),
                ..ConnectorOptions::new(verify)
            };
            match Connector::build(&options) {
                Ok(connector) => assert_eq!(connector.warnings.len(), warned),
                // A machine without ca-certificates.
                Err(error) => assert!(error.to_string().contains("no CA certificates"), "{error}"),
            }
        }
    }
}
