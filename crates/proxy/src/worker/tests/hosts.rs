//! Hosts that several pools share, lists of hosts, and pools that a reload moves to another host.

use std::time::Duration;

use weir_testkit::say::say;

use crate::socket::Target;

use super::world::{Host, World};

const ONE_LOGIN: &str = "server_connect_concurrency = 1\nserver_connect_timeout = 5\n";

/// Returns a world with one worker and these databases, in which no host answers.
fn silent(databases: &str) -> World {
    let lines = format!("{ONE_LOGIN}\n[databases]\n{databases}\n; no others");
    let mut world = World::new(1, &lines);
    world.host = Host::Silent;
    world
}

fn dial(world: &mut World, database: &str) -> usize {
    let client = world.dial("ann", &[("database", database)]);
    world.settle();
    client
}

/// Returns the last part of the addresses that are being connected to, sorted.
fn dialled(world: &World) -> String {
    let servers = world.workers[0].tables.servers.iter();
    let addresses = servers.map(|(_, server)| match &server.facts.target {
        Target::Tcp(address, _) => address.ip().to_string().pop().unwrap(),
        _ => '?',
    });
    let mut addresses: Vec<_> = addresses.collect();
    addresses.sort_unstable();
    addresses.into_iter().collect()
}

#[test]
fn databases_that_name_the_same_hosts_share_the_limits_of_each_host() {
    let mut world = silent(
        "one = host=10.0.0.1,10.0.0.2 load_balance_hosts=disable\n\
         two = host=10.0.0.2,10.0.0.1 load_balance_hosts=disable\nthree = host=10.0.0.1",
    );
    dial(&mut world, "one");
    assert_eq!(dialled(&world), "1");
    dial(&mut world, "three");
    assert_eq!(dialled(&world), "1", "that host has its one login");
    dial(&mut world, "two");
    assert_eq!(dialled(&world), "12");
    dial(&mut world, "one");
    assert_eq!(dialled(&world), "12", "neither host admits another login");
    // The first login fails; its host has room again after a pause, and the other one has not.
    world.advance(Duration::from_secs(6));
    assert!(dialled(&world).len() <= 2, "{}", dialled(&world));
}

#[test]
fn a_login_goes_on_to_the_next_host_and_others_learn_that_the_first_fails() {
    let mut world = World::new(
        1,
        "[databases]\nshop = host=10.0.0.1,10.0.0.2 load_balance_hosts=disable\n\
         mail = host=10.0.0.1\n; no others",
    );
    world.host = Host::Silent;
    dial(&mut world, "shop");
    world.unanswered.remove(0).refuse();
    world.settle();
    assert_eq!(dialled(&world), "2");
    // The first host gets no login now, whatever the database.
    dial(&mut world, "mail");
    assert_eq!(dialled(&world), "2");
    world.host = Host::Accepts;
    world.unanswered.remove(0).accept();
    world.advance(Duration::from_millis(100));
    assert_eq!(dialled(&world), "12");
}

#[test]
fn a_pool_that_moves_takes_the_limits_of_its_new_host() {
    let lines = "server_login_retry = 15\nfailover_hold = 0\n[databases]\nshop = host=10.0.0.1\n; no others";
    let mut world = World::new(1, lines);
    world.host = Host::Refuses;
    for _ in 0..12 {
        dial(&mut world, "shop");
        world.advance(Duration::from_secs(4));
    }
    let before = world.servers.len();
    world.host = Host::Accepts;
    let client = dial(&mut world, "shop");
    let refusal = world.callers[client].heard();
    assert!(
        refusal.contains("08001"),
        "the host is known to fail: {refusal}"
    );
    world.reload(&lines.replace("10.0.0.1", "10.0.0.2"));
    let client = dial(&mut world, "shop");
    let greeting = world.callers[client].heard();
    assert!(greeting.ends_with("Z(I)"), "{greeting}");
    assert_eq!((world.servers.len(), &*dialled(&world)), (before + 1, "2"));
}

#[test]
fn rt_50_a_database_with_one_host_has_no_router_and_its_clients_no_route() {
    let mut world = World::new(1, "[databases]\nshop = host=10.0.0.1\n; no others");
    let client = dial(&mut world, "shop");
    world.callers[client].say(&say().query("BEGIN").query("SELECT 1").query("COMMIT"));
    world.settle();
    assert!(world.callers[client].heard().ends_with("Z(I)"));
    let tables = &world.workers[0].tables;
    assert!(
        tables
            .groups
            .iter()
            .all(|(_, group)| group.routing.is_none())
    );
    assert!(
        tables
            .clients
            .iter()
            .all(|(_, client)| client.route.is_none())
    );
}
