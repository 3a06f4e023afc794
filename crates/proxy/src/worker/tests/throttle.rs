//! Hazard SEC-67: failed logins delay their source, and no other client.

use std::time::Duration;

use weir_auth::kdf::{ScramKeys, derive};
use weir_auth::scram::{MECHANISM, Nonce, ScramClient, Step};
use weir_auth::secret::Secret;
use weir_testkit::reading::messages;
use weir_testkit::say::say;
use weir_wire::encode;
use weir_wire::startup::Version;

use super::world::{World, hold_up};

const FAILED: &str = "E(FATAL 28P01 password authentication failed for user \"ann\")";
const NOBODY_FAILED: &str = "E(FATAL 28P01 password authentication failed for user \"nobody\")";
const TOO_MANY: &str =
    "E(FATAL 28000 too many failed logins from this address (auth_failures_per_minute))";
const HERE: &str = "192.0.2.1";
const THERE: &str = "192.0.2.2";
const MS: Duration = Duration::from_millis(1);

fn world(lines: &str) -> World {
    let lines = format!("auth_type = plain\n{lines}");
    World::with_users(&lines, "\"ann\" \"pencil\"\n\"bob\" \"crayon\"\n")
}

/// Returns a client that has sent its password.
fn attempt(world: &mut World, from: &str, password: &str) -> usize {
    let client = world.dial_from(from, "ann", &[]);
    world.settle();
    assert_eq!(world.callers[client].heard(), "R");
    let mut message = Vec::new();
    encode::password(&mut message, password.as_bytes()).unwrap();
    world.callers[client].say(&message);
    world.settle();
    client
}

/// Returns the immediate outcome of a login: let in, an error, or nothing.
fn outcome(world: &mut World, from: &str, password: &str) -> String {
    let client = attempt(world, from, password);
    let heard = world.callers[client].heard();
    if heard.ends_with("Z(I)") {
        assert_eq!(world.ask(client, &say().terminate()), "");
        return "in".to_owned();
    }
    assert!(heard.is_empty() || world.callers[client].is_closed());
    heard
}

#[test]
fn sec_67_a_refusal_is_told_after_a_while_and_to_its_source_only() {
    let mut world = world("auth_failure_delay = 0.25");
    let slow = attempt(&mut world, HERE, "wrong");
    // A client from another address, or with the right password, does not wait.
    assert_eq!(outcome(&mut world, THERE, "pencil"), "in");
    assert_eq!(outcome(&mut world, HERE, "pencil"), "in");
    world.advance(249 * MS);
    assert_eq!(world.callers[slow].heard(), "");
    assert!(!world.callers[slow].is_closed());
    world.advance(MS);
    assert_eq!(world.callers[slow].heard(), FAILED);
    assert!(world.callers[slow].is_closed());
    world.check_empty();
}

#[test]
fn sec_67_the_delay_grows_for_a_source_that_fails_again_and_again() {
    let mut world = world("auth_failure_delay = 0.25\nauth_failures_per_minute = 60");
    for delay in [250, 500, 1000, 2000, 4000, 5000, 5000] {
        attempt(&mut world, HERE, "wrong");
        let timers = world.workers[0]
            .tables
            .clients
            .iter()
            .map(|(_, client)| client.timer);
        let told_at = timers.flatten().max().unwrap();
        assert_eq!(told_at, world.now().plus(delay * MS));
        assert_eq!(outcome(&mut world, THERE, "pencil"), "in");
    }
    // Failures are forgotten with time.
    world.advance(Duration::from_secs(60));
    attempt(&mut world, HERE, "wrong");
    let deadline = world.workers[0].timers.next().unwrap();
    assert_eq!(deadline, world.now().plus(250 * MS));
}

#[test]
fn sec_67_what_is_said_while_a_refusal_waits_changes_nothing() {
    let mut world = world("auth_failure_delay = 0.25");
    let client = attempt(&mut world, HERE, "wrong");
    let mut right = Vec::new();
    encode::password(&mut right, b"pencil").unwrap();
    assert_eq!(world.ask(client, &right), "");
    assert_eq!(world.ask(client, &say().query("row x")), "");
    world.advance(250 * MS);
    assert_eq!(world.callers[client].heard(), FAILED);
    assert_eq!(world.servers.len(), 0);
    world.check_empty();
}

#[test]
fn sec_67_after_too_many_failures_a_source_is_not_checked_any_more() {
    let mut world = world("auth_failures_per_minute = 3");
    for _ in 0..3 {
        assert_eq!(outcome(&mut world, HERE, "wrong"), FAILED);
    }
    assert_eq!(outcome(&mut world, HERE, "wrong"), TOO_MANY);
    // The answer does not reveal if the password is right.
    assert_eq!(outcome(&mut world, HERE, "pencil"), TOO_MANY);
    // IPv4-mapped form of the address.
    assert_eq!(outcome(&mut world, "::ffff:192.0.2.1", "pencil"), TOO_MANY);
    assert_eq!(outcome(&mut world, THERE, "pencil"), "in");
    assert_eq!(outcome(&mut world, THERE, "wrong"), FAILED);
    // One more attempt is allowed every twenty seconds.
    world.advance(Duration::from_secs(19));
    assert_eq!(outcome(&mut world, HERE, "pencil"), TOO_MANY);
    world.advance(Duration::from_secs(1));
    assert_eq!(outcome(&mut world, HERE, "pencil"), "in");
    assert_eq!(outcome(&mut world, HERE, "wrong"), FAILED);
    assert_eq!(outcome(&mut world, HERE, "pencil"), TOO_MANY);
    world.check_empty();
}

#[test]
fn sec_67_a_victim_is_not_locked_out_by_failures_of_others() {
    let mut world = world("auth_failures_per_minute = 3");
    for n in 0..50 {
        let from = format!("198.51.100.{n}");
        for _ in 0..3 {
            assert_eq!(outcome(&mut world, &from, "wrong"), FAILED);
        }
    }
    assert_eq!(outcome(&mut world, HERE, "pencil"), "in");
}

#[test]
fn sec_67_successes_are_not_counted() {
    let mut world = world("auth_failures_per_minute = 1");
    for _ in 0..10 {
        assert_eq!(outcome(&mut world, HERE, "pencil"), "in");
    }
    assert_eq!(outcome(&mut world, HERE, "wrong"), FAILED);
    assert_eq!(outcome(&mut world, HERE, "pencil"), TOO_MANY);
}

#[test]
fn sec_67_there_is_no_limit_if_there_is_to_be_none() {
    let mut world = world("auth_failures_per_minute = 0");
    for _ in 0..200 {
        assert_eq!(outcome(&mut world, HERE, "wrong"), FAILED);
    }
    assert_eq!(outcome(&mut world, HERE, "pencil"), "in");
}

#[test]
fn sec_67_the_limit_holds_for_attempts_at_the_same_time() {
    let mut world = world("auth_failures_per_minute = 3");
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let client = world.dial_from(HERE, "ann", &[]);
            world.settle();
            world.callers[client].heard();
            client
        })
        .collect();
    for client in &clients {
        let mut message = Vec::new();
        encode::password(&mut message, b"wrong").unwrap();
        world.callers[*client].say(&message);
    }
    world.settle();
    let heard: Vec<_> = clients
        .iter()
        .map(|client| world.callers[*client].heard())
        .collect();
    assert_eq!(heard.iter().filter(|heard| *heard == FAILED).count(), 3);
    assert_eq!(heard.iter().filter(|heard| *heard == TOO_MANY).count(), 17);
}

#[test]
fn sec_67_a_refusal_that_waits_takes_nobodys_place() {
    let mut world = world("auth_failure_delay = 0.25\nmax_client_conn = 1");
    let failed = attempt(&mut world, HERE, "wrong");
    assert_eq!(world.global.limits.clients.used(), 0);
    let client = attempt(&mut world, THERE, "pencil");
    assert!(world.callers[client].heard().ends_with("Z(I)"));
    // The client takes one place nevertheless.
    let third = world.dial_from(THERE, "ann", &[]);
    world.settle();
    let full = "E(FATAL 53300 no more connections allowed (max_client_conn))";
    assert_eq!(world.callers[third].heard(), full);
    world.advance(250 * MS);
    assert_eq!(world.callers[failed].heard(), FAILED);
    assert_eq!(world.global.limits.clients.used(), 1);
    world.ask(client, &say().terminate());
    world.check_empty();
}

#[test]
fn sec_07_the_time_of_a_login_includes_the_wait_for_its_refusal() {
    let mut world = world("auth_failure_delay = 10\nclient_login_timeout = 2");
    let started = world.now();
    let client = world.dial_from(HERE, "ann", &[]);
    world.advance(1500 * MS);
    world.callers[client].heard();
    let mut message = Vec::new();
    encode::password(&mut message, b"wrong").unwrap();
    world.callers[client].say(&message);
    world.advance(499 * MS);
    assert_eq!(world.callers[client].heard(), "");
    world.advance(MS);
    assert_eq!(world.callers[client].heard(), FAILED);
    assert_eq!(world.now(), started.plus(Duration::from_secs(2)));
    world.check_empty();
}

#[test]
fn sec_07_a_login_that_stalls_anywhere_is_ended_by_its_one_deadline() {
    let mut bytes = Vec::new();
    let parameters = [(&b"user"[..], &b"ann"[..]), (b"database", b"shop")];
    encode::startup(&mut bytes, Version::V3_0, &parameters).unwrap();
    encode::password(&mut bytes, b"pencil").unwrap();
    for said in [0, 4, 20] {
        let mut world = world("client_login_timeout = 2");
        let client = world.connect_from(HERE);
        world.callers[client].say(&bytes[..said]);
        // A byte now and then does not extend the deadline.
        for byte in bytes[said..].chunks(1).take(19) {
            world.callers[client].say(byte);
            world.advance(100 * MS);
        }
        world.advance(99 * MS);
        assert!(!world.callers[client].is_closed());
        world.advance(MS);
        let heard = world.callers[client].heard();
        assert!(
            heard.ends_with("E(FATAL 57014 client_login_timeout)"),
            "{heard}"
        );
        world.check_empty();
    }
}

#[test]
fn a_client_that_goes_while_its_refusal_waits_is_forgotten() {
    let mut world = world("auth_failure_delay = 0.25");
    let client = attempt(&mut world, HERE, "wrong");
    world.callers[client].leave(crate::driver::memory::End::Orderly);
    world.settle();
    world.check_empty();
}

#[test]
fn sec_67_the_limit_holds_for_attempts_whose_keys_are_derived_at_the_same_time() {
    let lines = "auth_type = plain\nscram_iterations = 1\nauth_failures_per_minute = 3";
    let verifier = "SCRAM-SHA-256$4096:00ZwZFQtFSz6QGVCVmRknA==$\
        M1yQobhCeihmxyyOe00jQNM5Is0mO1qC9tExporSKEQ=:lazRMVYAnmT+5oKcSiFBhmgMEWHktOjmTOyok2ERRso=";
    let mut world = World::with_users(lines, &format!("\"ann\" \"{verifier}\"\n"));
    let held_up = hold_up(&world.global.helpers.derivers);
    let clients: Vec<_> = (0..20)
        .map(|_| attempt(&mut world, HERE, "wrong"))
        .collect();
    drop(held_up);
    world.settle_until(|world| {
        clients
            .iter()
            .all(|client| world.callers[*client].is_closed())
    });
    let heard: Vec<_> = clients
        .iter()
        .map(|client| world.callers[*client].heard())
        .collect();
    assert_eq!(heard.iter().filter(|heard| *heard == FAILED).count(), 3);
    assert_eq!(heard.iter().filter(|heard| *heard == TOO_MANY).count(), 17);
}

/// Runs SCRAM for an unknown user up to the proof. Returns the client, and the proof to send.
fn scram_to_the_end(world: &mut World, seed: u8) -> (usize, Vec<u8>) {
    let client = world.dial_from(HERE, "nobody", &[]);
    let nonce = Nonce::from_random([seed; 18]);
    let mut scram = ScramClient::with_password(Secret::from("wrong"), nonce);
    let mut first = Vec::new();
    let text = scram.first_message().unwrap();
    encode::sasl_initial(&mut first, MECHANISM.as_bytes(), Some(&text)).unwrap();
    world.settle();
    world.ask(client, &first);
    let reply = messages(&world.callers[client].got).0[1].body[4..].to_vec();
    let Ok(Step::NeedKeys(request)) = scram.handle_server_first(&reply) else {
        panic!("no keys are needed");
    };
    let keys = ScramKeys::from_salted(&derive(&request));
    let mut last = Vec::new();
    encode::sasl_response(&mut last, &scram.provide_keys(&keys).unwrap()).unwrap();
    (client, last)
}

#[test]
fn sec_67_a_failure_counts_before_the_keys_that_hide_it_are_derived() {
    let lines = "auth_type = scram-sha-256\nscram_iterations = 1\nauth_failures_per_minute = 3";
    let mut world = World::with_users(lines, "\"bob\" \"crayon\"\n");
    let clients: Vec<_> = (0..20).map(|n| scram_to_the_end(&mut world, n)).collect();
    let held_up = hold_up(&world.global.helpers.derivers);
    let mut told = 0;
    for (client, proof) in &clients {
        told += usize::from(world.ask(*client, proof) == TOO_MANY);
    }
    assert_eq!(told, 17);
    drop(held_up);
    world.settle_until(|world| world.workers[0].tables.clients.is_empty());
    let failed = clients
        .iter()
        .filter(|(client, _)| world.callers[*client].heard() == NOBODY_FAILED);
    // The errors are as always, and each failure is counted once.
    assert_eq!(failed.count(), 3);
    world.advance(Duration::from_secs(20));
    let (client, proof) = scram_to_the_end(&mut world, 99);
    world.callers[client].say(&proof);
    world.settle_until(|world| world.callers[client].is_closed());
    assert_eq!(world.callers[client].heard(), NOBODY_FAILED);
}
