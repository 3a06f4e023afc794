//! Hosts with names, and name servers that say nothing.

use std::net::IpAddr;
use std::time::Duration;

use weir_testkit::say::say;

use super::world::{Host, World, hold_up};
use crate::driver::memory::End;
use crate::resolve::{LATE, Resolved, Ttls};
use crate::socket::Target;
use crate::worker::slots::Stage;

const NAME: &str = "localhost";
const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7));
/// `dns_max_ttl` and `dns_nxdomain_ttl`.
const TTL: Duration = Duration::from_secs(15);

/// Lets a name have an address.
fn know(world: &World, name: &str) {
    let ttls = Ttls {
        found: TTL,
        failed: TTL,
    };
    let resolver = &world.global.resolver;
    let kept = resolver.keep(name.to_owned(), Ok(vec![ADDRESS]), ttls, world.now());
    assert_eq!(kept, Ok(vec![ADDRESS]));
}

/// Makes a world whose hosts have these names.
fn world(names: &str) -> World {
    let lines = "query_wait_notify = 0\nfailover_hold = 0";
    World::new(1, &format!("{lines}\n[databases]\nshop = host={names}\n"))
}

fn row() -> Vec<u8> {
    say().query("row x").into_bytes()
}

/// Returns the address of the only server.
fn address(world: &World) -> IpAddr {
    let mut servers = world.workers[0].tables.servers.iter();
    let Some((_, server)) = servers.next() else {
        panic!("no server");
    };
    assert!(servers.next().is_none(), "more than one server");
    match server.facts.target {
        Target::Tcp(address, _) => address.ip(),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn a_silent_name_server_delays_a_connection_by_a_moment_and_no_more() {
    let mut world = world(NAME);
    know(&world, NAME);
    let client = world.login();
    let answer = world.ask(client, &row());
    world.advance(TTL + Duration::from_secs(1));
    world.servers[0].die(false, End::Orderly);
    world.settle();

    let _held_up = hold_up(&world.global.helpers.resolvers);
    assert_eq!(world.ask(client, &row()), "");
    world.advance(LATE);
    assert_eq!(world.callers[client].heard(), answer);
    assert_eq!(address(&world), ADDRESS);

    // Whoever comes next does not wait for the same look-up.
    world.servers[1].die(false, End::Orderly);
    world.settle();
    assert_eq!(world.ask(client, &row()), answer);
}

#[test]
fn a_name_without_last_addresses_has_the_whole_time_of_a_connection() {
    let mut world = world(NAME);
    let held_up = hold_up(&world.global.helpers.resolvers);
    let client = world.dial("ann", &[]);
    world.advance(Duration::from_secs(14));
    assert_eq!(world.callers[client].heard(), "");
    drop(held_up);
    world.settle_until(|world| !world.servers.is_empty());
    world.settle();
    assert!(world.callers[client].heard().ends_with("Z(I)"));
}

#[test]
fn addresses_that_come_late_are_not_those_of_the_next_host() {
    let mut world = world(&format!("{NAME},other.test"));
    know(&world, NAME);
    world.advance(TTL + Duration::from_secs(1));
    let _held_up = hold_up(&world.global.helpers.resolvers);
    world.host = Host::Refuses;
    world.dial("ann", &[]);
    world.advance(LATE * 2);

    let worker = &mut world.workers[0];
    let (id, server) = worker.tables.servers.iter().next().expect("a server");
    let is_at = |stage: &Stage| matches!(stage, Stage::Resolving(name) if name == "other.test");
    assert!(is_at(&server.stage), "not at the next host");
    worker.resolved(Resolved {
        server: id,
        name: NAME.to_owned(),
        addresses: Ok(vec![ADDRESS]),
    });
    let server = worker.tables.servers.get(id).expect("the server");
    assert!(is_at(&server.stage));
}
