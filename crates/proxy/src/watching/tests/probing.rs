//! Probes: answers, each kind of failure, limits of time, and what workers are told.

use std::time::Duration;

use weir_pool::{HostId, Moment};
use weir_watch::{Role, State, Writes};

use super::hosts::{Manner, error};
use super::world::{INTERVAL, TIMEOUT, World};
use crate::driver::memory::End;

/// Advances by a bit more than the shortest pause between two probes of a host.
fn soon(world: &mut World) {
    world.advance(Duration::from_millis(30));
}

/// Advances by a bit more than one interval.
fn next(world: &mut World) {
    world.advance(INTERVAL + Duration::from_millis(20));
}

#[test]
fn hosts_are_asked_on_one_connection_each_and_workers_learn_their_roles() {
    let mut world = World::new(&[Manner::Primary, Manner::Standby]);
    let snapshot = world.cluster().snapshot();
    assert_eq!(snapshot.writes, Writes::To(HostId(0)));
    assert_eq!(world.view(0).role, Role::Primary);
    assert_eq!(world.view(1).role, Role::Replica);
    assert!(world.view(1).takes_reads);
    let number = world.cluster().number();
    assert!(number > 0 && world.take_woken() > 0);
    for _ in 0..5 {
        next(&mut world);
    }
    assert_eq!((world.dials, world.open(0), world.open(1)), (2, 1, 1));
    assert!(world.side(0).asked >= 5 && world.side(1).asked >= 5);
    assert_eq!(world.take_woken(), 0, "nothing that a request waits for");
}

#[test]
fn the_login_names_weir_and_needs_no_pool() {
    let mut world = World::new(&[Manner::Primary]);
    let mut parameters = world.side(0).parameters.clone();
    parameters.sort();
    let expected = [
        ("application_name", "weir watch"),
        ("database", "postgres"),
        ("default_transaction_isolation", "read committed"),
        ("user", "watcher"),
    ];
    assert_eq!(
        parameters,
        expected.map(|(n, v)| (n.to_owned(), v.to_owned()))
    );
    assert!(world.global.all_pools().is_empty());
}

#[test]
fn a_host_has_one_probe_under_way() {
    let mut world = World::new(&[Manner::Stuck]);
    for _ in 0..20 {
        world.cluster().suspect();
        world.cluster().wrote(world.now());
        world.settle();
    }
    assert_eq!((world.dials, world.side(0).asked), (1, 1));
}

#[test]
fn a_refused_connection_is_a_failure_at_once_and_the_host_is_tried_again() {
    let mut world = World::new(&[Manner::Refuses]);
    assert_eq!(world.view(0).state, State::Down);
    assert!(
        world.error(0).starts_with("connect failed"),
        "{}",
        world.error(0)
    );
    let dials = world.dials;
    world.manners[0] = Manner::Primary;
    for _ in 0..3 {
        next(&mut world);
    }
    assert!(world.dials > dials);
    assert_eq!(world.view(0).state, State::Up);
    assert_eq!(world.open(0), 1);
}

#[test]
fn silence_fails_within_the_limit_and_the_attempt_is_given_up() {
    for (manner, step) in [
        (Manner::Silent, "connect"),
        (Manner::Mute, "login"),
        (Manner::Stuck, "probe"),
    ] {
        let mut world = World::new(&[manner]);
        world.advance(TIMEOUT - Duration::from_millis(10));
        assert_eq!(world.error(0), "", "{manner:?}");
        world.advance(Duration::from_millis(20));
        let expected = format!("no end of the {step} within 400 ms");
        assert_eq!(world.error(0), expected);
        // The next attempt has begun.
        let mut attempts = world.sides.iter().map(|side| &side.peer);
        let mut pending = world.pending.iter().map(|(_, peer)| peer);
        let first = attempts.next().or_else(|| pending.next()).unwrap();
        assert!(first.is_closed(), "{manner:?}");
        assert_eq!(world.watcher.driver.open(), world.watcher.links.len());
    }
}

#[test]
fn the_probe_has_its_own_limit_after_a_slow_login() {
    let mut world = World::new(&[Manner::Mute]);
    world.advance(TIMEOUT - Duration::from_millis(50));
    world.manners[0] = Manner::Stuck;
    world.settle();
    assert_eq!(world.side(0).asked, 1);
    world.advance(TIMEOUT - Duration::from_millis(20));
    assert_eq!(world.error(0), "");
    world.advance(Duration::from_millis(30));
    assert_eq!(world.error(0), "no end of the probe within 400 ms");
}

#[test]
fn a_host_that_is_starting_or_full_is_alive() {
    for code in ["57P03", "53300"] {
        let world = World::new(&[Manner::Rejects(code)]);
        assert_eq!(world.view(0).state, State::Refusing, "{code}");
        assert_eq!(world.error(0), format!("FATAL: as scripted ({code})"));
    }
}

#[test]
fn a_login_is_refused_in_the_words_of_the_host_or_for_lack_of_a_secret() {
    let world = World::new(&[Manner::Rejects("28P01")]);
    assert_eq!(world.error(0), "FATAL: as scripted (28P01)");
    let world = World::new(&[Manner::AsksForPassword]);
    assert!(
        world
            .error(0)
            .contains("Weir has no such secret of this user"),
        "{}",
        world.error(0)
    );
}

#[test]
fn a_password_from_the_configuration_is_sent() {
    let mut world = World::empty(&[Manner::AsksForPassword]);
    let mut spec = world.spec();
    spec.login.secret = Some(weir_auth::stored::StoredSecret::parse(b"pass"));
    world.watch(vec![spec]);
    assert_eq!(world.side(0).passwords, ["pass"]);
    assert_eq!(world.side(0).asked, 1);
}

#[test]
fn an_error_or_nonsense_in_place_of_the_answer_ends_the_connection() {
    let row_of_two = b"D\0\0\0\x0c\0\x01\0\0\0\x02xx";
    for (manner, text) in [
        (
            Manner::Fails("ERROR", "42501"),
            "ERROR: as scripted (42501)",
        ),
        (
            Manner::Babbles(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            "invalid message length",
        ),
        (
            Manner::Babbles(b"\xff\0\0\0\x04"),
            "invalid backend message type",
        ),
        (Manner::Babbles(b"D\x20\0\0\0"), "too long"),
        (
            Manner::Babbles(b"C\0\0\0\x0dSELECT 0\0Z\0\0\0\x05I"),
            "no row",
        ),
        (Manner::Babbles(row_of_two), "column"),
        (
            Manner::Babbles(b"1\0\0\0\x04"),
            "unexpected message of type '1'",
        ),
    ] {
        let mut world = World::new(&[manner]);
        assert!(
            world.error(0).contains(text),
            "{manner:?}: {}",
            world.error(0)
        );
        assert_eq!(world.open(0), 0);
        world.manners[0] = Manner::Primary;
        for _ in 0..3 {
            next(&mut world);
        }
        assert_eq!(world.view(0).state, State::Up, "{manner:?}");
    }
}

#[test]
fn an_end_in_the_middle_of_the_answer_is_a_reset() {
    for (end, text) in [
        (End::Orderly, "the host closed the connection"),
        (End::Reset, "connection lost"),
    ] {
        let mut world = World::new(&[Manner::BreaksOff(end)]);
        assert!(world.error(0).starts_with(text), "{}", world.error(0));
        // One session may have been ended; a second one tells more.
        next(&mut world);
        assert_eq!(world.view(0).state, State::Down);
    }
}

#[test]
fn a_replica_whose_connection_ends_between_probes_is_not_known_to_be_fresh() {
    let mut world = World::new(&[Manner::Primary, Manner::Standby]);
    world.advance(Duration::from_millis(100));
    assert!(world.view(1).fresh_to > Moment(0));
    world.manners[1] = Manner::Silent;
    world.side(1).say(|out| error(out, "FATAL", "57P01"));
    world.end(1, End::Orderly);
    world.settle();
    assert_eq!(world.view(1).fresh_to, Moment(0));
    assert!(world.error(1).contains("57P01"), "{}", world.error(1));
}

#[test]
fn a_primary_whose_connection_ends_between_probes_is_probed_at_once() {
    let mut world = World::new(&[Manner::Primary, Manner::Standby]);
    let dials = world.dials;
    world.end(0, End::Reset);
    soon(&mut world);
    assert_eq!(world.dials, dials + 1);
    assert_eq!(world.cluster().snapshot().writes, Writes::To(HostId(0)));
    assert_eq!((world.open(0), world.view(0).state), (1, State::Up));
}

#[test]
fn notices_between_probes_are_no_answers() {
    let mut world = World::new(&[Manner::Primary]);
    let status = |out: &mut Vec<u8>| {
        weir_wire::encode::parameter_status(out, b"in_hot_standby", b"off").unwrap();
    };
    world.side(0).say(status);
    next(&mut world);
    assert_eq!((world.dials, world.open(0)), (1, 1));
    assert_eq!(world.view(0).state, State::Up);
}

#[test]
fn an_answer_that_nobody_asked_for_ends_the_connection() {
    let mut world = World::new(&[Manner::Primary, Manner::Standby]);
    let standby = |out: &mut Vec<u8>| super::hosts::rows(out, &[super::hosts::row(true)]);
    world.side(0).say(standby);
    soon(&mut world);
    assert_eq!((world.dials, world.open(0)), (3, 1));
    assert_eq!(world.view(0).role, Role::Primary);
}

#[test]
fn a_suspicion_makes_hosts_be_probed_at_once() {
    let mut world = World::new(&[Manner::Primary, Manner::Standby]);
    let asked = |world: &mut World| [world.side(0).asked, world.side(1).asked];
    // Some time after the election, all is quiet once both hosts were probed.
    world.advance(Duration::from_secs(6));
    let before = asked(&mut world);
    while asked(&mut world)
        .iter()
        .zip(before)
        .any(|(now, before)| *now == before)
    {
        soon(&mut world);
    }
    soon(&mut world);
    let quiet = asked(&mut world);
    soon(&mut world);
    assert_eq!(asked(&mut world), quiet);
    world.take_wakeups();
    world.cluster().suspect();
    world.cluster().suspect();
    assert_eq!(world.take_wakeups(), 1);
    world.settle();
    assert_eq!(asked(&mut world), quiet.map(|n| n + 1));
}

#[test]
fn commits_are_covered_by_a_probe_soon_and_wake_the_thread_once() {
    let mut world = World::new(&[Manner::Primary, Manner::Standby]);
    world.advance(Duration::from_millis(500));
    world.take_wakeups();
    let at = world.now();
    for _ in 0..100 {
        world.cluster().wrote(at);
        world.pass(Duration::from_micros(10));
        world.cluster().wrote(world.now());
    }
    assert_eq!(world.take_wakeups(), 1);
    let last = world.cluster().last_write();
    world.advance(Duration::from_millis(60));
    assert!(
        world.view(1).fresh_to > last,
        "{:?} {last:?}",
        world.view(1).fresh_to
    );
    // Quiet again: the next commit wakes.
    world.cluster().wrote(world.now());
    assert_eq!(world.take_wakeups(), 1);
}

#[test]
fn a_commit_is_not_covered_by_a_probe_that_was_sent_before() {
    let mut world = World::new(&[Manner::Primary, Manner::Standby]);
    world.advance(Duration::from_millis(500));
    // The primary is asked, and has not answered.
    world.manners[0] = Manner::Stuck;
    world.cluster().suspect();
    world.settle();
    world.pass(Duration::from_millis(1));
    let commit = world.now();
    world.cluster().wrote(commit);
    world.take_wakeups();
    world.manners[0] = Manner::Primary;
    let primary = |out: &mut Vec<u8>| super::hosts::rows(out, &[super::hosts::row(false)]);
    world.side(0).say(primary);
    for _ in 0..3 {
        world.step();
    }
    assert_eq!(world.cluster().uncovered_write(Moment(0)), Some(commit));
    world.advance(Duration::from_millis(60));
    world.cluster().wrote(world.now());
    assert_eq!(world.take_wakeups(), 1, "covered meanwhile");
}

#[test]
fn a_waiting_reader_is_woken_by_each_snapshot() {
    let mut world = World::new(&[Manner::Primary, Manner::Standby]);
    world.take_woken();
    next(&mut world);
    assert_eq!(world.take_woken(), 0);
    let waiter = world.cluster().wait_for_freshness();
    next(&mut world);
    assert!(world.take_woken() > 0);
    drop(waiter);
    world.take_woken();
    next(&mut world);
    assert_eq!(world.take_woken(), 0);
}

#[test]
fn a_primary_that_fails_wakes_the_workers() {
    let mut world = World::new(&[Manner::Primary, Manner::Standby]);
    world.take_woken();
    world.manners[0] = Manner::BreaksOff(End::Reset);
    next(&mut world);
    assert!(matches!(world.cluster().snapshot().writes, Writes::Held(_)));
    assert!(world.take_woken() > 0);
}

#[test]
fn a_shortage_of_descriptors_is_not_the_fault_of_a_host() {
    let mut world = World::empty(&[Manner::Primary]);
    world.watcher.driver.is_short = true;
    let spec = world.spec();
    world.watch(vec![spec]);
    assert!(world.error(0).starts_with("connect failed"));
    world.watcher.driver.is_short = false;
    for _ in 0..3 {
        next(&mut world);
    }
    assert_eq!(world.view(0).state, State::Up);
}
