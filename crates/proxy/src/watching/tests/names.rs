//! Hosts with names, whose addresses change.

use std::net::IpAddr;
use std::time::Duration;

use weir_config::HostAddr;
use weir_pool::HostId;

use super::hosts::Manner;
use super::world::{INTERVAL, World};
use crate::driver::memory::End;

const NAME: &str = "localhost";
const OLD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const TTL: Duration = Duration::from_secs(5);

/// Lets a name have this address, until its time is over.
fn know(world: &World, address: IpAddr) {
    let addresses = Ok(vec![address]);
    let resolver = &world.global.resolver;
    resolver.keep(NAME.to_owned(), addresses, TTL, world.now());
}

/// Watches a primary that has a name.
fn watched() -> World {
    let mut world = World::empty(&[Manner::Primary]);
    know(&world, OLD);
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
