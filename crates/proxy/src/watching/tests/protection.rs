//! Names and TLS: what helpers do for a connection, in time and too late.

use std::time::Duration;

use weir_config::HostAddr;
use weir_watch::State;

use super::hosts::Manner;
use super::world::{INTERVAL, TIMEOUT, World, settings};
use crate::transport::Transport;
use crate::worker::CONFIG;

/// Returns a world whose only host is named.
fn named(name: &str) -> World {
    let mut world = World::empty(&[Manner::Primary]);
    let mut spec = world.spec();
    spec.hosts[0].address = HostAddr::Name(name.to_owned());
    world.watch(vec![spec]);
    world
}

#[test]
fn a_name_is_looked_up_by_a_helper() {
    let mut world = named("localhost");
    assert_eq!(world.dials, 0);
    assert!(world.help());
    world.settle();
    assert_eq!(world.dials, 1);
    assert_eq!(world.view(0).state, State::Up);
}

#[test]
fn a_name_that_is_found_too_late_is_for_the_next_attempt() {
    let mut world = named("localhost");
    let late = world.take_job();
    world.advance(TIMEOUT + Duration::from_millis(10));
    assert_eq!(world.error(0), "no end of the name look-up within 400 ms");
    late();
    assert!(
        world
            .watcher
            .links
            .values()
            .all(|link| link.doing() == "name look-up")
    );
    world.watcher.turn().unwrap();
    assert_eq!(world.dials, 0, "not for the attempt that has failed");
    while world.help() {}
    world.advance(3 * INTERVAL);
    assert_eq!(world.view(0).state, State::Up);
}

#[test]
fn a_name_that_does_not_exist_is_a_failure_with_words() {
    let mut world = named("no-such-host.invalid");
    assert!(world.help());
    world.settle();
    assert!(
        world.error(0).contains("DNS lookup failed"),
        "{}",
        world.error(0)
    );
}

#[test]
fn the_next_attempt_begins_behind_an_address_that_is_silent() {
    let mut world = World::empty(&[Manner::Silent]);
    let mut spec = world.spec();
    spec.hosts[0].address = HostAddr::Name("localhost".to_owned());
    world.watch(vec![spec]);
    assert!(world.help());
    world.settle();
    let target = |world: &World| {
        let mut links = world.watcher.links.values();
        links.next().and_then(|link| link.target.clone())
    };
    let first = target(&world).unwrap();
    let addresses = 1 + world.watcher.links.values().next().unwrap().rest.len();
    world.advance(TIMEOUT + Duration::from_millis(10));
    let mut seen = vec![first];
    for _ in 0..300 {
        world.advance(Duration::from_millis(10));
        seen.extend(target(&world).filter(|target| seen.last() != Some(target)));
    }
    seen.dedup();
    assert_eq!(seen.len() > 1, addresses > 1, "{seen:?}");
}

/// Returns a world with this `server_tls_sslmode`, whose host has TLS or not.
fn protected(mode: &str, has_tls: bool) -> World {
    let lines = format!("server_tls_sslmode = {mode}");
    let loaded = settings(&lines);
    let transport = Transport::stand_in(&loaded, &CONFIG);
    let mut world = World::with(&[Manner::Primary], &lines, transport);
    world.has_tls = Some(has_tls);
    let mut spec = world.spec();
    spec.login.tls = loaded.server_tls().remove(0).1;
    spec.login.outgoing = world.global.settled().outgoing(&spec.login.tls);
    world.watch(vec![spec]);
    for _ in 0..8 {
        while world.help() {}
        world.settle();
    }
    world
}

#[test]
fn probes_are_as_protected_as_queries() {
    let mut world = protected("require", true);
    assert_eq!(world.view(0).state, State::Up);
    assert!(world.side(0).asked > 0);
    assert!(
        world
            .watcher
            .links
            .values()
            .all(|link| link.end_point.is_some())
    );
    world.advance(3 * INTERVAL);
    assert_eq!((world.dials, world.view(0).state), (1, State::Up));
}

#[test]
fn a_host_without_tls_gets_no_login_if_tls_is_required() {
    let world = protected("require", false);
    assert_eq!(
        world.error(0),
        "server does not support SSL, but SSL was required"
    );
    assert!(world.sides.iter().all(|side| side.parameters.is_empty()));
}

#[test]
fn a_host_without_tls_is_asked_if_tls_may_be_missing() {
    let world = protected("prefer", false);
    assert_eq!(world.view(0).state, State::Up);
}

#[test]
fn settings_that_are_not_in_force_are_no_reason_to_go_without_tls() {
    let mut world = World::empty(&[Manner::Primary]);
    let mut spec = world.spec();
    spec.login.outgoing = Err(crate::transport::NoSuchSettings);
    world.watch(vec![spec]);
    assert!(world.error(0).contains("not in force"));
    assert!(world.sides.iter().all(|side| side.parameters.is_empty()));
}

#[test]
fn a_handshake_that_a_helper_finishes_too_late_is_dropped() {
    let lines = "server_tls_sslmode = require";
    let loaded = settings(lines);
    let transport = Transport::stand_in(&loaded, &CONFIG);
    let mut world = World::with(&[Manner::Primary], lines, transport);
    world.has_tls = Some(true);
    let mut spec = world.spec();
    spec.login.tls = loaded.server_tls().remove(0).1;
    spec.login.outgoing = world.global.settled().outgoing(&spec.login.tls);
    world.watch(vec![spec]);
    let late = world.take_job();
    world.advance(TIMEOUT + Duration::from_millis(10));
    assert_eq!(world.error(0), "no end of the TLS handshake within 400 ms");
    late();
    world.settle();
    assert_eq!(world.watcher.driver.open(), world.watcher.links.len());
}
