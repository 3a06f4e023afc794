//! Roles that are dropped and created again, and defaults that change, while a pool has servers.

use std::time::Duration;

use weir_testkit::say::say;

use super::world::World;
use crate::driver::memory::End;
use crate::global::lock;

const ROW: &str = "T D(x) C(SELECT 1) Z(I)";

fn row() -> Vec<u8> {
    say().query("row x").into_bytes()
}

fn checks(world: &World) -> u32 {
    world.servers.iter().map(|server| server.role_checks).sum()
}

/// Number of servers that have run a client's query.
fn used(world: &World) -> usize {
    let asked = |asked: &Vec<String>| asked.iter().any(|sql| sql == "row x");
    let servers = world.servers.iter();
    servers.filter(|server| asked(&server.asked)).count()
}

#[test]
fn a_new_client_gets_a_server_with_the_defaults_of_today() {
    for change in [0, 1] {
        let mut world = World::new(1, "role_check_delay = 1");
        let before = world.login();
        assert_eq!(world.ask(before, &row()), ROW);
        match change {
            0 => lock(&world.catalog).defaults = Some("{work_mem=5MB}"),
            _ => lock(&world.catalog).role += 1,
        }
        world.advance(Duration::from_secs(2));
        let after = world.login();
        assert_eq!(world.ask(after, &row()), ROW);
        assert_eq!((world.live_servers(), used(&world)), (1, 2));
        assert_eq!(
            world.servers[0].asked,
            ["row x"],
            "it served nobody any more"
        );
        // From now on all clients see the same, and keep seeing it.
        for client in [before, after] {
            assert_eq!(world.ask(client, &row()), ROW);
        }
        world.advance(Duration::from_secs(2));
        let last = world.login();
        assert_eq!(world.ask(last, &row()), ROW);
        assert_eq!((world.live_servers(), used(&world)), (1, 2));
    }
}

#[test]
fn servers_are_asked_for_new_clients_only_and_not_more_often_than_role_check_delay() {
    let mut world = World::new(1, "role_check_delay = 5");
    for _ in 0..10 {
        let client = world.login();
        for _ in 0..3 {
            assert_eq!(world.ask(client, &row()), ROW);
        }
    }
    assert_eq!(checks(&world), 1);
    let client = world.login();
    world.advance(Duration::from_secs(6));
    assert_eq!(world.ask(client, &row()), ROW);
    assert_eq!(checks(&world), 2);
    world.advance(Duration::from_secs(60));
    assert_eq!(world.ask(client, &row()), ROW);
    assert_eq!(checks(&world), 2);
    let mut world = World::new(1, "role_check_delay = 0");
    let client = world.login();
    assert_eq!(world.ask(client, &row()), ROW);
    assert_eq!(checks(&world), 0);
}

#[test]
fn servers_that_other_workers_have_are_replaced_too() {
    let mut world = World::new(2, "role_check_delay = 1\ndefault_pool_size = 4");
    let clients: Vec<_> = (0..4).map(|_| world.login()).collect();
    for client in &clients {
        world.ask(*client, &say().query("begin"));
    }
    for client in &clients {
        world.ask(*client, &say().query("commit"));
    }
    assert_eq!(world.live_servers(), 4);
    lock(&world.catalog).role += 1;
    world.advance(Duration::from_secs(2));
    let new = world.login();
    assert_eq!(world.ask(new, &row()), ROW);
    assert_eq!(world.live_servers(), 1, "the others were idle and are gone");
}

#[test]
fn of_servers_that_are_older_than_the_first_answer_nobody_knows() {
    let lines =
        "role_check_delay = 1\nmin_pool_size = 2\n[databases]\nshop = host=10.0.0.1 user=ann";
    let lines = lines.replace("[databases]", "; no others\n[databases]");
    let mut world = World::new(1, &lines);
    let first = world.login();
    assert_eq!(world.ask(first, &row()), ROW);
    world.advance(Duration::from_secs(1));
    assert_eq!(world.live_servers(), 2);
    let second = world.login();
    assert_eq!(world.ask(second, &row()), ROW);
    assert_eq!(world.live_servers(), 2);
    world.check();
}

#[test]
fn a_server_that_dies_of_the_question_costs_its_client_nothing() {
    let mut world = World::new(1, "role_check_delay = 1");
    let first = world.login();
    assert_eq!(world.ask(first, &row()), ROW);
    world.advance(Duration::from_secs(2));
    let second = world.login();
    world.servers[0].stalled = true;
    assert_eq!(world.ask(second, &row()), "");
    world.servers[0].die(false, End::Reset);
    lock(&world.catalog).role += 1;
    world.settle();
    assert_eq!(world.callers[second].heard(), ROW);
    assert_eq!(used(&world), 2);
}

#[test]
fn a_client_that_leaves_during_the_question_leaves_a_server_that_is_judged() {
    for role in [0, 1] {
        let mut world = World::new(1, "role_check_delay = 1");
        let first = world.login();
        assert_eq!(world.ask(first, &row()), ROW);
        world.advance(Duration::from_secs(2));
        let second = world.login();
        world.servers[0].stalled = true;
        assert_eq!(world.ask(second, &row()), "");
        world.callers[second].leave(End::Reset);
        lock(&world.catalog).role += role;
        world.settle();
        world.servers[0].stalled = false;
        world.settle();
        assert_eq!(world.live_servers(), usize::from(role == 0));
        assert_eq!(world.ask(first, &row()), ROW);
    }
}
