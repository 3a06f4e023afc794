//! Conversations of clients through one worker.

use weir_testkit::say::say;

use super::world::World;

#[test]
fn a_client_logs_in_asks_and_leaves() {
    let mut world = World::new(1, "");
    let client = world.dial("ann", &[("application_name", "till")]);
    world.settle();
    assert_eq!(
        world.callers[client].heard(),
        "R S(application_name=till) S(server_version=15.18) S(TimeZone=UTC) K Z(I)"
    );
    assert_eq!(
        world.ask(client, &say().query("row x")),
        "T D(x) C(SELECT 1) Z(I)"
    );
    assert_eq!(world.ask(client, &say().terminate()), "");
    assert!(world.callers[client].is_closed());
    world.check_empty();
    assert_eq!(world.live_servers(), 1);
}

#[test]
fn two_clients_take_turns_on_one_server() {
    let mut world = World::new(1, "default_pool_size = 1");
    let (one, other) = (world.login(), world.login());
    for round in 0..5 {
        for client in [one, other] {
            let tag = format!("c{client}-{round}");
            let heard = world.ask(client, &say().query(&format!("row {tag}")));
            assert_eq!(heard, format!("T D({tag}) C(SELECT 1) Z(I)"));
        }
    }
    assert_eq!(world.servers.len(), 1);
}

#[test]
fn waiting_clients_are_served_first_come_first_served() {
    let mut world = World::new(1, "default_pool_size = 1");
    let clients: Vec<_> = (0..6).map(|_| world.login()).collect();
    world.ask(clients[0], &say().query("begin"));
    for client in clients[1..].iter().rev() {
        world.ask(*client, &say().query(&format!("row c{client}")));
        world.pass(std::time::Duration::from_micros(1));
    }
    world.ask(clients[0], &say().query("commit"));
    let asked: Vec<_> = world.servers[0]
        .asked
        .iter()
        .filter(|sql| sql.starts_with("row"))
        .collect();
    let expected: Vec<_> = clients[1..]
        .iter()
        .rev()
        .map(|client| format!("row c{client}"))
        .collect();
    assert_eq!(asked, expected.iter().collect::<Vec<_>>());
}

#[test]
fn the_server_works_for_the_next_before_the_last_bytes_go_to_the_first() {
    let mut world = World::new(1, "default_pool_size = 1");
    let (one, other) = (world.login(), world.login());
    world.callers[one].say(&say().query("row one"));
    world.callers[one].serve();
    world.callers[other].say(&say().query("row other"));
    world.callers[other].serve();
    world.turn(0);
    world.servers[0].serve();
    world.callers[one].heard();
    // In one turn: the reply arrives, the next request goes out.
    world.turn(0);
    assert!(world.servers[0].hear());
    assert!(world.servers[0].work());
    assert_eq!(world.servers[0].asked, ["row one", "row other"]);
}

#[test]
fn settings_follow_their_client_and_reach_nobody_else() {
    let mut world = World::new(1, "default_pool_size = 1");
    let (one, other) = (world.login(), world.login());
    world.ask(one, &say().query("set TimeZone CET"));
    world.ask(other, &say().query("row a"));
    assert_eq!(world.servers[0].backend.setting("TimeZone"), Some("UTC"));
    world.ask(one, &say().query("row b"));
    assert_eq!(world.servers[0].backend.setting("TimeZone"), Some("CET"));
}

#[test]
fn what_is_said_behind_a_copy_that_fails_is_answered_to_nobody_else() {
    let bad = || say().copy_data("bad");
    for said in [
        bad().query("row a"),
        bad().query(""),
        bad().sync().query("row a"),
        bad().parse("s", "row a").run("s").sync(),
        bad().copy_done().query("row a").query("row b"),
    ] {
        let mut world = World::new(1, "default_pool_size = 1\nquery_wait_notify = 0");
        let (one, other) = (world.login(), world.login());
        world.ask(one, &say().query("copy in"));
        world.callers[one].say(&said);
        world.callers[one].serve();
        world.callers[other].say(&say().query("row mine"));
        world.callers[other].serve();
        // The server answers message by message, and each answer arrives alone.
        world.turn(0);
        while world.servers[0].hear() || world.servers[0].work() {
            world.servers[0].speak(usize::MAX);
            world.turn(0);
        }
        world.settle();
        assert_eq!(
            world.callers[other].heard(),
            "T D(mine) C(SELECT 1) Z(I)",
            "{said:?}"
        );
    }
}
