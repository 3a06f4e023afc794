//! Several workers over one pool: servers are handed over, limits are exact, and no client waits beside an idle server.

use std::time::Duration;

use weir_testkit::cuts::Dice;
use weir_testkit::say::say;

use super::world::World;
use crate::driver::memory::End;
use crate::mailbox::Message;

#[test]
fn a_server_that_is_idle_on_one_worker_serves_a_client_of_another() {
    let mut world = World::new(2, "default_pool_size = 1");
    let (one, other) = (world.login(), world.login());
    assert_eq!(
        world.workers[0].tables.clients.len(),
        1,
        "one client on each"
    );
    for round in 0..6 {
        for client in [one, other] {
            let tag = format!("c{client}-{round}");
            let heard = world.ask(client, &say().query(&format!("row {tag}")));
            assert_eq!(heard, format!("T D({tag}) C(SELECT 1) Z(I)"));
        }
    }
    assert_eq!(world.servers.len(), 1);
}

#[test]
fn cor_22_a_server_that_dies_on_its_way_to_another_worker_loses_no_query() {
    for how in [End::Orderly, End::Reset] {
        let mut world = World::new(2, "default_pool_size = 1");
        let (one, other) = (world.login(), world.login());
        world.ask(one, &say().query("row x"));
        let home = (0..2).find(|worker| !world.workers[*worker].tables.servers.is_empty());
        let home = home.unwrap();
        let asker = 1 - home;
        let client = [one, other][asker];
        world.callers[client].say(&say().query("row y"));
        world.callers[client].serve();
        world.turn(asker);
        world.turn(home);
        assert!(
            world.workers[home].tables.servers.is_empty(),
            "it is on its way"
        );
        world.servers[0].die(how == End::Orderly, how);
        world.servers[0].serve();
        world.settle();
        let heard = world.callers[client].heard();
        assert_eq!(heard, "T D(y) C(SELECT 1) Z(I)", "{how:?}");
    }
}

/// The answer of another worker was dropped, and the console waited for ever.
#[test]
fn a_console_is_answered_although_its_workers_mailbox_was_full() {
    let mut world = World::new(2, "admin_users = ann\nstats_users = ann");
    let console = world.login_to_console();
    let home = usize::from(world.workers[0].tables.clients.is_empty());
    world.callers[console].say(&say().query("SHOW LISTS"));
    world.callers[console].serve();
    world.turn(home);
    let mailbox = world.global.mailbox(home).unwrap();
    while mailbox.send(Message::Settings).is_ok() {}
    world.turn(1 - home);
    world.settle();
    world.advance(Duration::from_secs(1));
    assert_eq!(world.callers[console].heard(), "C(1)");
}

#[test]
fn the_longest_waiter_of_all_workers_is_served_first() {
    let mut world = World::new(2, "default_pool_size = 1\nquery_wait_notify = 0");
    let clients: Vec<_> = (0..6).map(|_| world.login()).collect();
    world.ask(clients[0], &say().query("begin"));
    for client in &clients[1..] {
        world.ask(*client, &say().query(&format!("row c{client}")));
        // Longer than the grace within which a worker serves its own clients first.
        world.pass(Duration::from_millis(5));
    }
    world.ask(clients[0], &say().query("commit"));
    let asked = world.servers[0]
        .asked
        .iter()
        .filter(|sql| sql.starts_with("row"));
    let expected: Vec<_> = clients[1..]
        .iter()
        .map(|client| format!("row c{client}"))
        .collect();
    assert_eq!(asked.cloned().collect::<Vec<_>>(), expected);
}

#[test]
fn i_12_no_wake_up_is_lost_in_whatever_order_the_workers_turn() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let places = 1 + dice.below(2);
        let lines = format!("default_pool_size = {places}\nquery_wait_notify = 0");
        let mut world = World::new(2, &lines);
        let clients: Vec<_> = (0..5).map(|_| world.login()).collect();
        let mut asked = vec![0; clients.len()];
        for _ in 0..300 {
            let pick = dice.below(clients.len());
            match dice.below(6) {
                0 if asked[pick] < 10 => {
                    asked[pick] += 1;
                    world.callers[clients[pick]].say(&say().query("begin;row x;commit"));
                }
                0 | 1 => drop(world.callers[clients[pick]].serve()),
                2..5 => drop(world.turn(dice.below(2))),
                _ => {
                    let live = world.servers.len();
                    world.servers[dice.below(live)].serve();
                }
            }
            let live = world.live_servers();
            assert!(live <= places, "I-10: {live} of {places}, seed {seed}");
        }
        world.settle();
        for (client, asked) in clients.iter().zip(asked) {
            let heard = world.callers[*client].heard();
            assert_eq!(heard.matches("Z(I)").count(), asked, "seed {seed}: {heard}");
        }
    }
}

#[test]
fn i_10_limits_hold_across_pools_and_an_idle_server_makes_room() {
    let mut world = World::new(2, "max_db_connections = 1\nquery_wait_notify = 0");
    let ann = world.login();
    world.ask(ann, &say().query("row a"));
    assert_eq!(world.live_servers(), 1);
    let bob = world.dial("bob", &[]);
    world.advance(Duration::from_secs(1));
    assert!(
        world.callers[bob].heard().ends_with("Z(I)"),
        "another pool's idle server is closed"
    );
    assert_eq!(
        world.ask(bob, &say().query("row b")),
        "T D(b) C(SELECT 1) Z(I)"
    );
    assert_eq!(world.live_servers(), 1);
}
