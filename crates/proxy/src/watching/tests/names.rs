//! Hosts with names, whose addresses change.

use std::net::IpAddr;
use std::time::Duration;

use weir_config::HostAddr;
use weir_pool::HostId;

use super::hosts::Manner;
use super::world::{INTERVAL, TIMEOUT, World};
use crate::driver::memory::End;
use crate::resolve::{LATE, Ttls};
use crate::transport::Transport;

const NAME: &str = "localhost";
const OLD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const TTL: Duration = Duration::from_secs(5);

/// Lets a name have this address, until its time is over.
fn know(world: &World, address: IpAddr) {
    let resolver = &world.global.resolver;
    let ttls = Ttls {
        found: TTL,
        failed: TTL,
    };
    let kept = resolver.keep(NAME.to_owned(), Ok(vec![address]), ttls, world.now());
    assert_eq!(kept, Ok(vec![address]));
}

/// Watches a primary that has a name.
fn watched() -> World {
    watched_at(OLD, "")
}

/// Watches a primary that has a name with this address, with these lines of configuration.
fn watched_at(address: IpAddr, lines: &str) -> World {
    let mut world = World::with(&[Manner::Primary], lines, Transport::default());
    know(&world, address);
    let mut spec = world.spec();
    spec.hosts[0].address = HostAddr::Name(NAME.to_owned());
    world.watch(vec![spec]);
    assert_eq!(world.dials, 1);
    world
}

fn address(world: &World) -> Option<IpAddr> {
    world.cluster().address(HostId(0))
}

#[test]
fn a_connection_moves_when_its_name_has_other_addresses() {
    let mut world = watched();
    assert_eq!(address(&world), Some(OLD));
    let new = [10, 0, 0, 9].into();
    know(&world, new);
    world.advance(INTERVAL * 2);
    assert_eq!(world.dials, 2);
    assert_eq!(world.open(0), 1);
    assert!(world.sides[0].was_terminated);
    assert_eq!(address(&world), Some(new));
    assert_eq!(world.error(0), "");
}

#[test]
fn workers_keep_the_old_address_until_the_new_one_has_answered() {
    let mut world = watched();
    world.manners[0] = Manner::Silent;
    know(&world, [10, 0, 0, 9].into());
    while world.dials == 1 {
        world.pass(INTERVAL);
        world.settle();
    }
    assert_eq!(address(&world), Some(OLD));
}

#[test]
fn an_old_result_is_looked_up_beside_the_connection() {
    let mut world = watched();
    world.advance(TTL + INTERVAL);
    assert!(world.help(), "no look-up");
    assert!(!world.help(), "two look-ups");
    world.advance(INTERVAL * 2);
    // The name still has the address.
    assert_eq!(world.dials, 1);
    assert_eq!(address(&world), Some(OLD));
}

#[test]
fn a_host_that_does_not_answer_has_no_known_address() {
    let mut world = watched();
    world.manners[0] = Manner::Refuses;
    world.end(0, End::Orderly);
    world.settle();
    assert_eq!(address(&world), None);
}

#[test]
fn a_change_is_seen_by_a_result_that_is_too_old_at_the_next_probe() {
    let gone = [10, 0, 0, 9].into();
    let mut world = watched_at(gone, "dns_max_ttl = 0");
    world.advance(TTL + INTERVAL);
    // The name has the address of this machine.
    assert!(world.help(), "no look-up");
    world.advance(INTERVAL);
    assert!(world.sides[0].was_terminated);
    assert!(world.help(), "no look-up for the new connection");
    world.settle();
    assert_eq!(world.dials, 2);
    assert_eq!(address(&world), Some(OLD));
}

#[test]
fn a_look_up_that_is_late_lets_a_probe_go_to_the_last_address() {
    let mut world = watched();
    world.pass(TTL);
    world.manners[0] = Manner::Refuses;
    world.end(0, End::Orderly);
    while world.dials < 2 {
        world.advance(LATE / 2);
        assert!(world.open(0) == 0, "the connection has ended");
    }
    // Nobody has looked the name up, and nobody waits for that any more.
    world.manners[0] = Manner::Primary;
    world.advance(INTERVAL);
    assert_eq!(world.open(0), 1);
    assert_eq!(address(&world), Some(OLD));
    let asked = std::iter::from_fn(|| world.help().then_some(())).count();
    assert!(asked <= 2, "{asked} look-ups");
}

#[test]
fn a_late_look_up_takes_nothing_from_the_time_of_the_connection() {
    let mut world = watched();
    world.pass(TTL);
    world.manners[0] = Manner::Silent;
    world.end(0, End::Orderly);
    while world.dials < 2 {
        world.advance(LATE / 10);
    }
    world.advance(TIMEOUT - LATE / 2);
    assert_eq!(world.dials, 2);
    let (_, peer) = world.pending.pop().expect("an attempt");
    assert!(!peer.is_closed(), "given up early");
}
