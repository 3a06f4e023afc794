//! TLS of connections to clients and to servers, as far as a worker decides: bytes before the handshake, while helpers
//! run it, and after it. The memory driver seals nothing, so bytes after a handshake are plain.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use weir_testkit::say::say;
use weir_tls::connector::{Connector, ConnectorOptions, Verify};
use weir_tls::listener::{Listener, ListenerOptions};
use weir_tls::session::{HANDSHAKE_LEN_MAX, Handshake, Progress, ServerConfig, Session};
use weir_wire::encode;
use weir_wire::startup::Version;

use super::postgres::Postgres;
use super::world::{Host, World, hold_up};
use crate::console::Shutdown;
use crate::driver::memory::{End, Peer};
use crate::tls::Protection;
use crate::worker::slots::{Phase, Stage};

const SECOND: Duration = Duration::from_secs(1);

/// Key and certificate, in files that stay for the whole run.
static FILES: LazyLock<(PathBuf, PathBuf)> = LazyLock::new(|| {
    // Beside the test's own binary.
    let directory = std::env::current_exe().unwrap();
    let directory = directory.with_file_name(format!("secure-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["db.example".to_owned()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap().pem();
    let write = |name: &str, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        restrict(&path);
        path
    };
    (write("key", key.serialize_pem()), write("crt", certificate))
});

/// TLS settings of a server with that certificate.
pub(crate) static CONFIG: LazyLock<Arc<ServerConfig>> = LazyLock::new(|| {
    let (key, certificate) = &*FILES;
    let listener = Listener::build(&ListenerOptions {
        key_file: Some(key.clone()),
        cert_file: Some(certificate.clone()),
        ..ListenerOptions::default()
    });
    listener.unwrap().config
});

fn restrict(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Returns a world that offers TLS to clients, and uses none to servers.
fn offering(lines: &str) -> World {
    let (key, certificate) = &*FILES;
    World::new(
        1,
        &format!(
            "client_tls_sslmode = allow\nserver_tls_sslmode = disable\n\
             client_tls_key_file = {}\nclient_tls_cert_file = {}\n{lines}",
            key.display(),
            certificate.display()
        ),
    )
}

fn ssl_request() -> Vec<u8> {
    let mut bytes = Vec::new();
    encode::ssl_request(&mut bytes).unwrap();
    bytes
}

fn startup() -> Vec<u8> {
    let mut bytes = Vec::new();
    let parameters = [(&b"user"[..], &b"ann"[..]), (b"database", b"shop")];
    encode::startup(&mut bytes, Version::V3_0, &parameters).unwrap();
    bytes
}

/// Returns the client's side of a handshake that verifies nothing.
fn connecting(is_direct: bool) -> Handshake {
    let connector = Connector::build(&ConnectorOptions::new(Verify::None)).unwrap();
    let name = connector.server_name("db.example").unwrap();
    Handshake::connect(connector.config, name, is_direct).unwrap()
}

/// Returns the server's side of a handshake.
fn accepting(is_direct: bool) -> Handshake {
    Handshake::accept(Arc::clone(&CONFIG), is_direct).unwrap()
}

/// Advances a handshake by a step that must succeed.
#[track_caller]
fn step(handshake: Handshake, input: &[u8]) -> (Result<Handshake, Box<Session>>, Vec<u8>) {
    let advanced = handshake.advance(input);
    match advanced.progress {
        Ok(Progress::More(handshake)) => (Ok(handshake), advanced.output),
        Ok(Progress::Done(session, plain)) => {
            assert!(plain.is_empty());
            (Err(session), advanced.output)
        }
        Err(fault) => panic!("{fault}"),
    }
}

// === clients ===

/// Takes the bytes that a client received since the last call.
fn got(world: &mut World, client: usize) -> Vec<u8> {
    world.callers[client].hear_again();
    std::mem::take(&mut world.callers[client].got)
}

/// Returns a client in the middle of its handshake: the server's flight has arrived.
fn half_way(world: &mut World, is_direct: bool) -> (usize, Handshake, Vec<u8>) {
    let client = world.connect();
    if !is_direct {
        world.callers[client].say(&ssl_request());
        world.settle();
        assert_eq!(got(world, client), b"S");
    }
    let (handshake, hello) = step(connecting(is_direct), &[]);
    world.callers[client].say(&hello);
    world.settle_until(|world| !world.callers[client].got.is_empty());
    let flight = got(world, client);
    assert_eq!(flight.first(), Some(&0x16));
    (client, handshake.ok().unwrap(), flight)
}

/// Returns a client whose handshake is done, and its session.
fn secured(world: &mut World, is_direct: bool) -> (usize, Box<Session>) {
    let (client, handshake, flight) = half_way(world, is_direct);
    let (done, last) = step(handshake, &flight);
    world.callers[client].say(&last);
    world.settle_until(|world| {
        let mut clients = world.workers[0].tables.clients.iter();
        !clients.any(|(_, client)| matches!(client.phase, Phase::Securing(_)))
    });
    assert_eq!(got(world, client), b"");
    (client, done.err().unwrap())
}

#[test]
fn a_client_comes_in_by_tls_asked_for_or_at_once() {
    for is_direct in [false, true] {
        let mut world = offering("");
        let (client, session) = secured(&mut world, is_direct);
        let shown = world.workers[0].tables.clients.iter().next().unwrap().1;
        let tls = shown.identity.tls.as_ref().unwrap();
        assert_eq!(tls.protection, Protection::Real(session.protection()));
        assert!(tls.certificate.is_none());
        assert!(world.ask(client, &startup()).ends_with("Z(I)"));
        let heard = world.ask(client, &say().query("row x"));
        assert_eq!(heard, "T D(x) C(SELECT 1) Z(I)");
        world.ask(client, &say().terminate());
        world.check_empty();
    }
}

#[test]
fn what_is_sealed_behind_the_handshake_counts_as_sent_inside_of_it() {
    for cut in [0, 1, 60, 1000] {
        let mut world = offering("");
        let (client, handshake, flight) = half_way(&mut world, false);
        let (done, mut last) = step(handshake, &flight);
        let mut session = done.err().unwrap();
        let mut records = vec![0; Session::sealed_len_max(startup().len())];
        let len = session.seal(&startup(), &mut records).unwrap();
        last.extend_from_slice(&records[..len]);
        // The second part comes while a helper has the first.
        let (one, other) = last.split_at(cut.min(last.len()));
        for part in [one, other] {
            world.callers[client].say(part);
            world.callers[client].serve();
            world.turn(0);
        }
        world.settle_until(|world| world.callers[client].got.ends_with(b"I"));
        world.callers[client].leave(End::Orderly);
        world.settle();
        world.check_empty();
    }
}

#[test]
fn sec_01_nothing_that_came_with_the_request_counts() {
    for behind in [startup(), vec![0x16], ssl_request(), vec![0]] {
        let mut world = offering("");
        let client = world.connect();
        let heard = world.ask(client, &[ssl_request(), behind].concat());
        assert_eq!(
            heard,
            "E(FATAL 08P01 received unencrypted data after SSL request)"
        );
        assert!(world.callers[client].is_closed());
        assert_eq!(world.servers.len(), 0);
        world.check_empty();
    }
}

#[test]
fn sec_06_encryption_is_not_negotiated_inside_of_tls() {
    let mut gss = Vec::new();
    encode::gssenc_request(&mut gss).unwrap();
    for request in [ssl_request(), gss] {
        for is_direct in [false, true] {
            let mut world = offering("");
            let (client, _) = secured(&mut world, is_direct);
            let heard = world.ask(client, &request);
            assert!(heard.starts_with("E(FATAL 0A000 unsupported frontend protocol 1234"));
            assert!(world.callers[client].is_closed());
            world.check_empty();
        }
    }
}

#[test]
fn tls_that_is_required_is_required() {
    let mut world = offering("");
    let (key, certificate) = &*FILES;
    let lines = format!(
        "client_tls_sslmode = require\nserver_tls_sslmode = disable\n\
         client_tls_key_file = {}\nclient_tls_cert_file = {}",
        key.display(),
        certificate.display()
    );
    let mut strict = World::new(1, &lines);
    for (world, expected) in [
        (&mut world, "Z(I)"),
        (&mut strict, "E(FATAL 28000 SSL required)"),
    ] {
        let client = world.connect();
        let heard = world.ask(client, &startup());
        assert!(heard.ends_with(expected), "{heard}");
        let (client, _) = secured(world, false);
        assert!(world.ask(client, &startup()).ends_with("Z(I)"));
    }
}

#[test]
fn sec_07_a_handshake_that_stalls_ends_at_the_one_deadline_of_the_login() {
    for stalls in 0..3 {
        let mut world = offering("client_login_timeout = 5");
        let started = world.now();
        let client = match stalls {
            0 => {
                let client = world.connect();
                world.ask(client, &ssl_request());
                client
            }
            1 => half_way(&mut world, false).0,
            _ => secured(&mut world, true).0,
        };
        world.advance(started.plus(5 * SECOND).since(world.now()) - Duration::from_millis(1));
        assert!(!world.callers[client].is_closed(), "{stalls}");
        world.advance(Duration::from_millis(1));
        assert!(world.callers[client].is_closed(), "{stalls}");
        world.check_empty();
    }
}

#[test]
fn a_client_in_its_handshake_is_ended_without_plain_text() {
    let mut world = offering("");
    let (client, ..) = half_way(&mut world, false);
    world.shut_down(Shutdown::Now);
    assert!(world.callers[client].is_closed());
    assert_eq!(got(&mut world, client), b"");
}

#[test]
fn sec_21_a_handshake_that_is_none_costs_its_connection_and_nothing_else() {
    let too_long = vec![0; HANDSHAKE_LEN_MAX + 1];
    let head = b"\x16\x03\x01\x40\x00";
    for garbage in [
        &b"Q\0\0\0\x05\0"[..],
        b"\x16\x03\x01\0\x04\x0b\0\0\0",
        &too_long,
        &startup(),
    ] {
        let mut world = offering("");
        let client = world.connect();
        world.ask(client, &ssl_request());
        world.callers[client].say(garbage);
        world.settle_until(|world| world.callers[client].is_closed());
        assert_eq!(world.servers.len(), 0);
        world.check_empty();
    }
    // A record that is never finished: the buffer stays within its limit.
    let mut world = offering("");
    let client = world.connect();
    world.callers[client].say(head);
    world.callers[client].say(&vec![0; 1 << 20]);
    world.settle_until(|world| world.callers[client].is_closed());
    world.check_empty();
}

#[test]
fn cor_01_a_message_about_a_client_that_has_left_concerns_nobody_else() {
    for how in [End::Orderly, End::Reset] {
        let mut world = offering("");
        let held_up = hold_up(&world.global.helpers.handshakers);
        let clients: Vec<_> = (0..2).map(|_| world.connect()).collect();
        let mut handshakes = Vec::new();
        for client in &clients {
            world.callers[*client].say(&ssl_request());
            world.settle();
            assert_eq!(got(&mut world, *client), b"S");
            let (handshake, hello) = step(connecting(false), &[]);
            handshakes.extend(handshake);
            world.callers[*client].say(&hello);
            world.settle();
        }
        // Helpers have both handshakes. The first client leaves, and a third takes its place.
        world.callers[clients[0]].leave(how);
        world.settle();
        let third = world.connect();
        world.callers[third].say(&ssl_request());
        world.settle();
        assert_eq!(got(&mut world, third), b"S");
        assert_eq!(world.workers[0].tables.clients.len(), 2);
        drop(held_up);
        let second = clients[1];
        world.settle_until(|world| !world.callers[second].got.is_empty());
        assert_eq!(got(&mut world, third), b"");
        let flight = got(&mut world, second);
        let (done, last) = step(handshakes.pop().unwrap(), &flight);
        assert!(done.is_err());
        world.callers[second].say(&last);
        world.callers[second].serve();
        world.settle_until(|world| {
            let mut clients = world.workers[0].tables.clients.iter();
            clients.any(|(_, client)| client.identity.tls.is_some())
        });
        assert!(world.ask(second, &startup()).ends_with("Z(I)"));
        for client in [second, third] {
            world.callers[client].leave(how);
        }
        world.settle();
        world.check_empty();
    }
}

// === servers ===

/// Returns a world whose only server connection has just been made, and the first bytes sent on it.
fn connecting_to_server(sslmode: &str, more: &str) -> (World, usize, Peer, Vec<u8>) {
    let lines = format!(
        "server_tls_sslmode = {sslmode}\nserver_login_retry = 1\nquery_wait_notify = 0\n{more}"
    );
    let mut world = World::new(1, &lines);
    world.host = Host::Silent;
    let client = world.dial("ann", &[]);
    world.settle();
    let peer = world.unanswered.pop().unwrap();
    peer.accept();
    world.settle();
    let first = peer.receive(usize::MAX);
    (world, client, peer, first)
}

/// Returns the worker's reaction to a server's answer to SSLRequest.
fn after_answer(sslmode: &str, answer: &[u8], end: Option<End>) -> &'static str {
    let (mut world, client, peer, first) = connecting_to_server(sslmode, "");
    let outcome = if first == ssl_request() {
        peer.send(answer);
        if let Some(how) = end {
            peer.end(how);
        }
        let mut said = Vec::new();
        world.settle_until(|world| {
            said.extend(peer.receive(usize::MAX));
            // A handshake begins with a helper.
            let mut servers = world.workers[0].tables.servers.iter();
            !said.is_empty() || !servers.any(|(_, it)| matches!(it.stage, Stage::Securing(_)))
        });
        match said.as_slice() {
            [0x16, ..] => "handshake",
            [] if end.is_some() || peer.is_closed() => "closed",
            said if is_startup(said) => "plain",
            said => panic!("{said:?}"),
        }
    } else {
        assert!(is_startup(&first), "{first:?}");
        "plain at once"
    };
    // SEC-03: unprotected bytes are not shown to any client.
    world.advance(Duration::from_millis(100));
    let heard = world.callers[client].heard();
    assert!(!heard.contains("secret"), "{heard}");
    outcome
}

#[test]
fn a_server_in_its_handshake_is_closed_without_plain_text() {
    for answer in [&b""[..], b"S"] {
        let (mut world, _, peer, _) = connecting_to_server("require", "server_connect_timeout = 1");
        peer.send(answer);
        let is_asked = |world: &World| {
            let mut servers = world.workers[0].tables.servers.iter();
            servers.any(|(_, server)| matches!(server.stage, Stage::Negotiating(_)))
        };
        let mut said = Vec::new();
        world.settle_until(|world| {
            said.extend(peer.receive(usize::MAX));
            answer.is_empty() == is_asked(world) && (is_asked(world) || !said.is_empty())
        });
        world.advance(2 * SECOND);
        assert!(peer.is_closed());
        assert_eq!(peer.receive(usize::MAX), b"");
    }
}

#[test]
fn sec_05_what_follows_each_answer_to_a_request_for_tls() {
    let error = b"E\0\0\0\x1aSFATAL\0Msecret text\0\0";
    let long = [&b"E\0\x01\0\0Msecret"[..], &[b'x'; 65_536]].concat();
    for sslmode in ["disable", "allow", "prefer", "require"] {
        let outcome = |answer: &[u8]| after_answer(sslmode, answer, None);
        if sslmode == "disable" {
            assert_eq!(outcome(b""), "plain at once");
            continue;
        }
        let plain = if sslmode == "require" {
            "closed"
        } else {
            "plain"
        };
        assert_eq!(outcome(b"S"), "handshake", "{sslmode}");
        assert_eq!(outcome(b"N"), plain, "{sslmode}");
        for answer in [
            &error[..],
            &long,
            b"E",
            b"s",
            b"\0",
            b"R\0\0\0\x08\0\0\0\0",
            b"HTTP/1.1 400 secret",
            // SEC-02: bytes that come with the answer may be injected.
            b"SR\0\0\0\x08\0\0\0\0Z\0\0\0\x05I",
            b"S\x16\x03\x03",
            b"NR\0\0\0\x08\0\0\0\0Z\0\0\0\x05I",
            b"SS",
        ] {
            let shown = String::from_utf8_lossy(&answer[..answer.len().min(30)]);
            assert_eq!(outcome(answer), "closed", "{sslmode}: {shown}");
        }
        for how in [End::Orderly, End::Reset] {
            assert_eq!(after_answer(sslmode, b"", Some(how)), "closed");
        }
    }
}

#[test]
fn a_server_is_logged_in_to_behind_its_handshake_only() {
    for (negotiation, is_direct) in [("postgres", false), ("direct", true)] {
        let more = format!("server_tls_sslnegotiation = {negotiation}");
        let (mut world, client, peer, first) = connecting_to_server("require", &more);
        let mut hello = first;
        if !is_direct {
            assert_eq!(hello, ssl_request());
            hello.clear();
            peer.send(b"S");
        }
        world.settle_until(|_| {
            hello.extend(peer.receive(usize::MAX));
            !hello.is_empty()
        });
        let (handshake, flight) = step(accepting(is_direct), &hello);
        peer.send(&flight);
        let mut rest = Vec::new();
        world.settle_until(|world| {
            rest.extend(peer.receive(usize::MAX));
            let mut servers = world.workers[0].tables.servers.iter();
            servers.any(|(_, it)| matches!(it.stage, Stage::Login(_)))
        });
        // The end of the handshake; behind it, as if sealed, the start-up packet.
        let at = rest.len() - startup_len(&rest);
        let (done, last) = step(handshake.ok().unwrap(), &rest[..at]);
        assert!(done.is_err() && last.is_empty());
        let facts = &world.workers[0]
            .tables
            .servers
            .iter()
            .next()
            .unwrap()
            .1
            .facts;
        assert!(facts.tls.is_some());
        world.host = Host::Accepts;
        world.servers.push(Postgres::hearing(1, peer, &rest[at..]));
        world.settle();
        assert!(world.callers[client].heard().ends_with("Z(I)"));
        let heard = world.ask(client, &say().query("row x"));
        assert_eq!(heard, "T D(x) C(SELECT 1) Z(I)");
    }
}

/// True if bytes begin with a start-up packet of protocol 3.
fn is_startup(bytes: &[u8]) -> bool {
    bytes.get(4..7) == Some(&[0, 3, 0])
}

/// Returns the length of the start-up packet at the end of `bytes`.
fn startup_len(bytes: &[u8]) -> usize {
    let fits = |at: &usize| {
        let len = bytes[*at..].first_chunk().copied().map(u32::from_be_bytes);
        is_startup(&bytes[*at..]) && len == u32::try_from(bytes.len() - at).ok()
    };
    bytes.len() - (0..bytes.len()).find(fits).unwrap()
}

#[test]
fn sec_04_a_server_that_fails_its_handshake_is_not_logged_in_to() {
    for answer in [
        &b"\x15\x03\x03\0\x02\x02\x28"[..],
        b"R\0\0\0\x08\0\0\0\0",
        b"\x16\x03\x03\0\x04\x02\0\0\0",
    ] {
        for sslmode in ["prefer", "require"] {
            let (mut world, client, peer, _) = connecting_to_server(sslmode, "");
            peer.send(b"S");
            world.settle_until(|_| !peer.receive(usize::MAX).is_empty());
            peer.send(answer);
            let mut said = Vec::new();
            world.settle_until(|_| {
                said.extend(peer.receive(usize::MAX));
                peer.is_closed()
            });
            assert!(matches!(said.first(), None | Some(0x15)), "{said:?}");
            world.advance(Duration::from_millis(100));
            let heard = world.callers[client].heard();
            assert!(!heard.contains("Z("), "{heard}");
        }
    }
}
