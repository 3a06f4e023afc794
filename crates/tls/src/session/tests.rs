//! Tests of two ends that talk over buffers: networks cut their bytes anywhere, and one end attacks the other.

use std::sync::LazyLock;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::PrivateKeyDer;
use rustls::version::{TLS12, TLS13};
use rustls::{Error, RootCertStore, SupportedProtocolVersion};
use weir_testkit::cuts::Dice;

use super::*;

mod hostile;
mod records;

const NAME: &str = "db.example";
const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];
const POSTGRESQL: &[&[u8]] = &[b"postgresql"];

struct Material {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    roots: RootCertStore,
}

static MATERIAL: LazyLock<Material> = LazyLock::new(|| {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &ca).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone()).unwrap();
    Material {
        chain: vec![leaf.der().clone(), ca.der().clone()],
        key: key.into(),
        roots,
    }
});

/// Settings of both ends.
#[derive(Clone)]
struct Terms {
    version: &'static SupportedProtocolVersion,
    provider: Arc<CryptoProvider>,
    /// ALPN protocols of the connecting end (`offered`) and of the other (`spoken`).
    offered: Vec<Vec<u8>>,
    spoken: Vec<Vec<u8>>,
}

fn protocols(names: &[&[u8]]) -> Vec<Vec<u8>> {
    names.iter().map(|name| name.to_vec()).collect()
}

impl Terms {
    fn new(version: &'static SupportedProtocolVersion) -> Self {
        Self {
            version,
            provider: Arc::new(aws_lc_rs::default_provider()),
            offered: protocols(POSTGRESQL),
            spoken: protocols(POSTGRESQL),
        }
    }

    fn server_config(&self) -> Arc<ServerConfig> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider));
        let builder = builder.with_protocol_versions(&[self.version]).unwrap();
        let material = &*MATERIAL;
        let key = material.key.clone_key();
        let mut config = builder
            .with_no_client_auth()
            .with_single_cert(material.chain.clone(), key)
            .unwrap();
        config.alpn_protocols.clone_from(&self.spoken);
        config.send_tls13_tickets = 0;
        Arc::new(config)
    }

    fn client_config(&self) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider));
        let builder = builder.with_protocol_versions(&[self.version]).unwrap();
        let mut config = builder
            .with_root_certificates(MATERIAL.roots.clone())
            .with_no_client_auth();
        config.alpn_protocols.clone_from(&self.offered);
        config.enable_secret_extraction = true;
        Arc::new(config)
    }

    fn accept(&self, is_direct: bool) -> Handshake {
        Handshake::accept(self.server_config(), is_direct).unwrap()
    }

    fn connect(&self, is_direct: bool) -> Handshake {
        let name = ServerName::try_from(NAME).unwrap();
        Handshake::connect(self.client_config(), name, is_direct).unwrap()
    }
}

/// An end: a handshake, then a session with the bytes that came behind the handshake.
enum End {
    Shaking(Box<Handshake>),
    Up(Box<Session>, Vec<u8>),
}

impl End {
    /// Processes a piece; bytes to send go to `out`.
    fn take(self, piece: &[u8], out: &mut Vec<u8>) -> Result<Self, TlsFault> {
        match self {
            Self::Shaking(handshake) => {
                let advanced = handshake.advance(piece);
                out.extend_from_slice(&advanced.output);
                advanced.progress.map(|progress| match progress {
                    Progress::More(handshake) => Self::Shaking(Box::new(handshake)),
                    Progress::Done(session, plain) => Self::Up(session, plain),
                })
            }
            Self::Up(mut session, mut plain) => {
                let (more, closed) = receive(&mut session, piece, out)?;
                assert!(!closed);
                plain.extend(more);
                Ok(Self::Up(session, plain))
            }
        }
    }

    fn is_up(&self) -> bool {
        matches!(self, Self::Up(..))
    }

    #[track_caller]
    fn session(self) -> Session {
        match self {
            Self::Up(session, plain) => {
                assert!(plain.is_empty() && !session.has_partial_record());
                *session
            }
            Self::Shaking(_) => panic!("the handshake is not done"),
        }
    }
}

/// Receives as the driver does: puts a half-received record in front, then opens everything.
fn receive(
    session: &mut Session,
    piece: &[u8],
    out: &mut Vec<u8>,
) -> Result<(Vec<u8>, bool), TlsFault> {
    let mut records = vec![0; 64 * 1024 + piece.len()];
    let kept = session.take_partial(&mut records);
    assert!(!session.has_partial_record());
    records[kept..kept + piece.len()].copy_from_slice(piece);
    records.truncate(kept + piece.len());
    let mut plain = vec![0; records.len()];
    let opened = session.open(&mut records, &mut plain, out)?;
    plain.truncate(opened.len);
    Ok((plain, opened.is_closed))
}

/// Opens records that arrive in one piece, without close_notify or a reply.
#[track_caller]
fn open(session: &mut Session, records: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let (plain, closed) = receive(session, records, &mut out).unwrap();
    assert!(!closed && out.is_empty());
    plain
}

#[track_caller]
fn seal(session: &mut Session, plain: &[u8]) -> Vec<u8> {
    let mut records = vec![0; Session::sealed_len_max(plain.len())];
    let len = session.seal(plain, &mut records).unwrap();
    records.truncate(len);
    records
}

/// Runs a handshake whose flights arrive in pieces. Returns both ends, or the fault of the first one that fails with
/// its output.
fn shake_in_pieces(
    client: Handshake,
    server: Handshake,
    mut pieces: impl FnMut(&[u8]) -> Vec<usize>,
) -> Result<(End, End), (TlsFault, Vec<u8>)> {
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let mut client = End::Shaking(Box::new(client))
        .take(&[], &mut to_server)
        .map_err(|fault| (fault, Vec::new()))?;
    let mut server = End::Shaking(Box::new(server));
    while !to_server.is_empty() || !to_client.is_empty() {
        let flight = std::mem::take(&mut to_server);
        for piece in split(&flight, &pieces(&flight)) {
            server = server
                .take(piece, &mut to_client)
                .map_err(|fault| (fault, to_client.clone()))?;
        }
        let flight = std::mem::take(&mut to_client);
        for piece in split(&flight, &pieces(&flight)) {
            client = client
                .take(piece, &mut to_server)
                .map_err(|fault| (fault, to_server.clone()))?;
        }
    }
    assert!(client.is_up() && server.is_up());
    Ok((client, server))
}

/// Splits into pieces of these lengths.
fn split<'a>(mut bytes: &'a [u8], lens: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for len in lens {
        let (piece, rest) = bytes.split_at((*len).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces.push(bytes);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

fn pair_of(terms: &Terms) -> (Session, Session) {
    let ends = shake_in_pieces(terms.connect(true), terms.accept(true), |_| Vec::new());
    let (client, server) = ends.unwrap_or_else(|(fault, _)| panic!("{fault}"));
    (client.session(), server.session())
}

fn pair(version: &'static SupportedProtocolVersion) -> (Session, Session) {
    pair_of(&Terms::new(version))
}

/// Pseudo-random bytes without long repetitions.
fn noise(len: usize, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&dice.roll().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

#[track_caller]
fn talk(client: &mut Session, server: &mut Session) {
    let records = seal(client, b"question");
    assert_eq!(open(server, &records), b"question");
    let records = seal(server, b"answer");
    assert_eq!(open(client, &records), b"answer");
}

// === the handshake ===

#[test]
fn a_handshake_succeeds_wherever_its_bytes_are_cut_once() {
    for version in VERSIONS {
        let terms = Terms::new(version);
        let mut cut = 1;
        loop {
            let mut longest = 0;
            let ends = shake_in_pieces(terms.connect(true), terms.accept(true), |flight| {
                longest = longest.max(flight.len());
                vec![cut]
            });
            let (client, server) = ends.unwrap_or_else(|(fault, _)| panic!("{cut}: {fault}"));
            talk(&mut client.session(), &mut server.session());
            if cut >= longest {
                break;
            }
            // The first messages are cut everywhere, certificates and signatures at some places.
            cut += if cut < 300 { 1 } else { 7 };
        }
    }
}

#[test]
fn a_handshake_succeeds_byte_by_byte() {
    for version in VERSIONS {
        let terms = Terms::new(version);
        let one_by_one = |flight: &[u8]| vec![1; flight.len()];
        let ends = shake_in_pieces(terms.connect(true), terms.accept(true), one_by_one);
        let (client, server) = ends.unwrap_or_else(|(fault, _)| panic!("{fault}"));
        talk(&mut client.session(), &mut server.session());
    }
}

/// Result of a handshake with `is_direct` and these application protocols of both ends.
fn verdict(
    version: &'static SupportedProtocolVersion,
    is_direct: bool,
    [offered, spoken]: [&[&[u8]]; 2],
) -> String {
    let terms = Terms {
        offered: protocols(offered),
        spoken: protocols(spoken),
        ..Terms::new(version)
    };
    let ends = shake_in_pieces(terms.connect(is_direct), terms.accept(is_direct), |_| {
        Vec::new()
    });
    match ends {
        Ok(_) => "fine".to_owned(),
        Err((TlsFault::NoApplicationProtocol, _)) => "no protocol".to_owned(),
        Err((fault, said)) => format!("{fault}, alert: {}", !said.is_empty()),
    }
}

#[test]
fn sec_08_direct_tls_needs_the_application_protocol_and_tls_that_was_asked_for_does_not() {
    let refused = "peer doesn't support any known protocol, alert: true";
    for version in VERSIONS {
        for is_direct in [true, false] {
            let without = if is_direct { "no protocol" } else { "fine" };
            let verdict = |names| verdict(version, is_direct, names);
            assert_eq!(verdict([POSTGRESQL, POSTGRESQL]), "fine");
            assert_eq!(verdict([&[b"h2", b"postgresql"], POSTGRESQL]), "fine");
            assert_eq!(verdict([&[], POSTGRESQL]), without);
            // A server without ALPN.
            assert_eq!(verdict([POSTGRESQL, &[]]), without);
            assert_eq!(verdict([&[b"h2"], POSTGRESQL]), refused);
        }
    }
}

#[test]
fn a_handshake_that_fails_says_why_to_the_other_end() {
    for version in VERSIONS {
        let terms = Terms::new(version);
        let stranger = ServerName::try_from("other.example").unwrap();
        let client = Handshake::connect(terms.client_config(), stranger, false).unwrap();
        let Err((fault, alert)) = shake_in_pieces(client, terms.accept(false), |_| Vec::new())
        else {
            panic!("the name is not in the certificate")
        };
        assert!(
            matches!(fault, TlsFault::Tls(Error::InvalidCertificate(_))),
            "{fault}"
        );
        // TLS 1.3: sealed, so only another end of this handshake could read it.
        assert!(alert.len() >= 7, "{alert:?}");
    }
}

#[test]
fn sec_21_no_more_than_the_limit_is_kept_of_an_unfinished_handshake() {
    let terms = Terms::new(&TLS13);
    // The head of a record whose body never comes; then more bytes than a record holds.
    let outcome = |len: usize| {
        let mut bytes = vec![0; len];
        bytes[..5].copy_from_slice(b"\x16\x03\x01\x40\x00");
        match terms.accept(false).advance(&bytes).progress {
            Ok(_) => "waits".to_owned(),
            Err(fault) => fault.to_string(),
        }
    };
    assert_eq!(outcome(6), "waits");
    let too_long = TlsFault::TooLong.to_string();
    assert_eq!(outcome(HANDSHAKE_LEN_MAX + 1), too_long);
    assert_ne!(outcome(HANDSHAKE_LEN_MAX), too_long);
}

#[test]
fn sec_21_a_first_message_without_an_end_is_refused_before_the_limit() {
    let mut handshake = Terms::new(&TLS13).accept(false);
    // A ClientHello that claims the maximum length, in records of 16 KiB.
    let mut record = b"\x16\x03\x01\x40\x00\x01\xff\xff\xff".to_vec();
    record.resize(5 + RECORD_LEN, 0);
    let mut sent = 0;
    loop {
        let advanced = handshake.advance(&record);
        sent += record.len();
        match advanced.progress {
            Ok(Progress::More(next)) => handshake = next,
            Ok(Progress::Done(..)) => panic!("that was no handshake"),
            Err(_) => break,
        }
        assert!(sent <= HANDSHAKE_LEN_MAX, "{sent} bytes are kept");
    }
}

#[test]
fn sec_21_garbage_is_answered_by_an_alert_and_an_end() {
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x16\x03\x01\x00\x04\x0b\0\0\0",
        b"\x15\x03\x01\x00\x02\x02\x28",
        b"\x17\x03\x03\x00\x01x",
        b"\0\0\0\x08\x04\xd2\x16\x2f",
    ] {
        let advanced = Terms::new(&TLS13).accept(false).advance(garbage);
        assert!(advanced.progress.is_err(), "{garbage:?}");
    }
}

#[test]
fn bytes_that_come_with_the_last_flight_are_delivered_with_its_end() {
    for version in VERSIONS {
        let terms = Terms::new(version);
        let mut last_len = usize::MAX;
        let mut cut = 0;
        while cut <= last_len {
            let (plain, whole_len) = data_behind_the_handshake(&terms, cut);
            assert_eq!(plain, b"first second", "cut at {cut}");
            last_len = whole_len;
            cut += 3;
        }
    }
}

/// The end that finishes first seals two records right behind its last flight. Returns the data that the other end
/// opens when these bytes are cut once, and their length.
fn data_behind_the_handshake(terms: &Terms, cut: usize) -> (Vec<u8>, usize) {
    let hello = terms.connect(true).advance(&[]);
    let flight = terms.accept(true).advance(&hello.output);
    let (Ok(Progress::More(client)), Ok(Progress::More(server))) =
        (hello.progress, flight.progress)
    else {
        panic!("a handshake takes two flights at least");
    };
    let answer = client.advance(&flight.output);
    // With TLS 1.3 the client is done first, with TLS 1.2 the server.
    let (mut first, mut last, second) = match answer.progress.unwrap() {
        Progress::Done(session, _) => (session, answer.output, server),
        Progress::More(client) => {
            let end = server.advance(&answer.output);
            let Ok(Progress::Done(session, _)) = end.progress else {
                panic!("the server is not done");
            };
            (session, end.output, client)
        }
    };
    last.extend(seal(&mut first, b"first "));
    last.extend(seal(&mut first, b"second"));
    let mut second = End::Shaking(Box::new(second));
    for piece in split(&last, &[cut]) {
        second = second.take(piece, &mut Vec::new()).unwrap();
    }
    let End::Up(_, plain) = second else {
        panic!("the handshake is not done");
    };
    (plain, last.len())
}

// === what people are told ===

#[test]
fn the_protection_is_named_as_people_know_it() {
    let shown = |version| {
        let (client, server) = pair(version);
        assert_eq!(client.protection(), server.protection());
        assert_eq!(
            format!("{server:?}"),
            format!("Session({:?})", server.protection())
        );
        server.protection().to_string()
    };
    assert_eq!(shown(&TLS13), "TLSv1.3/TLS_AES_256_GCM_SHA384");
    assert_eq!(
        shown(&TLS12),
        "TLSv1.2/TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    );
}

#[test]
fn an_end_knows_the_certificate_of_the_other() {
    for version in VERSIONS {
        let (client, server) = pair(version);
        assert_eq!(client.peer_certificate(), MATERIAL.chain.first());
        assert_eq!(server.peer_certificate(), None);
    }
}

#[test]
fn a_good_bye_right_behind_the_handshake_does_not_cost_what_was_said_before_it() {
    let terms = Terms::new(&TLS13);
    let name = ServerName::try_from(NAME).unwrap();
    let client = Handshake::connect(terms.client_config(), name, false).unwrap();
    let server = Handshake::accept(terms.server_config(), false).unwrap();
    let hello = client.advance(&[]);
    let flight = server.advance(&hello.output);
    let (Ok(Progress::More(client)), Ok(Progress::More(server))) =
        (hello.progress, flight.progress)
    else {
        panic!("a handshake has two turns");
    };
    let finished = client.advance(&flight.output);
    let Ok(Progress::Done(mut client, _)) = finished.progress else {
        panic!("the client is through");
    };
    let mut last = finished.output;
    let mut sealed = vec![0; Session::sealed_len_max(6)];
    let len = client.seal(b"cancel", &mut sealed).unwrap();
    last.extend_from_slice(&sealed[..len]);
    last.extend(client.close());
    let Ok(Progress::Done(session, plain)) = server.advance(&last).progress else {
        panic!("the server is through");
    };
    assert_eq!(plain, b"cancel");
    assert!(session.is_closed());
}
