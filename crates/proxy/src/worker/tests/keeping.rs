//! Servers that clients keep while no other client waits, over several workers.

use std::time::Duration;

use weir_testkit::backend::Database;
use weir_testkit::cluster::Cluster;
use weir_testkit::cuts::Dice;
use weir_testkit::say::say;

use super::super::keeping::Kept;
use super::world::{Sentry, World};
use crate::driver::memory::End;
use crate::orders::Task;

const NEXT: &str = "SELECT nextval('public.seq_1')";
const SEEN: &str = "D(y) C(SELECT 1) Z(I)";

fn world(workers: usize, lines: &str) -> World {
    let lines = format!("session_state = track\nquery_wait_notify = 0\n{lines}");
    let mut world = World::new(workers, &lines);
    world.database = Some(Database::default());
    world
}

#[test]
fn a_kept_server_goes_to_who_waits_on_any_worker_at_once() {
    for workers in [1, 2, 4] {
        let mut world = world(workers, "default_pool_size = 1");
        let clients: Vec<_> = (0..2 * workers).map(|_| world.login()).collect();
        for client in &clients {
            // The second statement ends the client's trial.
            world.ask(*client, &say().query(NEXT));
            world.ask(*client, &say().query(NEXT));
        }
        for keeper in &clients {
            assert!(world.ask(*keeper, &say().query(NEXT)).ends_with("Z(I)"));
            for other in &clients {
                // No time passes, and no other client sends anything.
                let heard = world.ask(*other, &say().query("SELECT 'y'"));
                assert!(heard.ends_with(SEEN), "{workers} workers: {heard}");
                assert!(world.ask(*keeper, &say().query(NEXT)).ends_with("Z(I)"));
            }
        }
    }
}

#[test]
fn a_client_keeps_its_server_while_nobody_waits_wherever_clients_are() {
    let mut world = world(2, "default_pool_size = 1");
    let (one, _other) = (world.login(), world.login());
    world.ask(one, &say().query(NEXT));
    assert!(
        world
            .ask(one, &say().query("SELECT lastval()"))
            .contains("D(")
    );
    let held = || {
        let servers = world
            .workers
            .iter()
            .flat_map(|worker| worker.tables.servers.iter());
        servers.filter(|(_, server)| server.lease.is_some()).count()
    };
    assert_eq!(held(), 1);
}

#[test]
fn half_a_request_does_not_keep_a_server() {
    let mut world = world(2, "default_pool_size = 1");
    let (one, other) = (world.login(), world.login());
    world.ask(one, &say().query(NEXT));
    world.callers[one].say(&say().query(NEXT)[..7]);
    world.settle();
    assert!(world.ask(other, &say().query("SELECT 'y'")).ends_with(SEEN));
    world.callers[one].say(&say().query(NEXT)[7..]);
    world.settle();
    assert!(world.callers[one].heard().ends_with("Z(I)"));
}

#[test]
fn no_wake_up_is_lost_when_servers_are_kept_in_whatever_order_the_workers_turn() {
    for seed in 0..150 {
        let mut dice = Dice::new(seed);
        let (places, workers) = (1 + dice.below(2), 2 + dice.below(3));
        let mut world = world(workers, &format!("default_pool_size = {places}"));
        let clients: Vec<_> = (0..6).map(|_| world.login()).collect();
        let mut asked = vec![0; clients.len()];
        for _ in 0..300 {
            let pick = dice.below(clients.len());
            match dice.below(7) {
                0 if asked[pick] < 10 => {
                    asked[pick] += 1;
                    let text = [NEXT, "SELECT lastval()", "SELECT 'y'", "DO $$ BEGIN END $$"];
                    let text = text[dice.below(text.len())];
                    world.callers[clients[pick]].say(&say().query(text));
                }
                0 | 1 => drop(world.callers[clients[pick]].serve()),
                2..6 => drop(world.turn(dice.below(workers))),
                _ => {
                    let live = world.servers.len();
                    world.servers[dice.below(live)].serve();
                }
            }
            let live = world.live_servers();
            assert!(live <= places, "{live} of {places}, seed {seed}");
        }
        world.settle();
        // A client that has read its sequence's last value is pinned until now.
        for (client, asked) in clients.iter().zip(&mut asked) {
            world.callers[*client].say(&say().query("DISCARD SEQUENCES"));
            *asked += 1;
        }
        world.settle();
        for (client, asked) in clients.iter().zip(asked) {
            let heard = world.callers[*client].heard();
            assert_eq!(heard.matches("Z(I)").count(), asked, "seed {seed}: {heard}");
        }
    }
}

#[test]
fn a_kept_server_makes_room_for_another_pool() {
    for workers in [1, 2] {
        let mut world = world(workers, "max_db_connections = 1");
        let ann = world.login();
        world.ask(ann, &say().query(NEXT));
        let bob = world.dial("bob", &[]);
        world.settle();
        // Ann uses the server nearly all the time.
        for _ in 0..20 {
            world.pass(Duration::from_millis(60));
            world.ask(ann, &say().query(NEXT));
            world.advance(Duration::from_millis(60));
        }
        let heard = world.callers[bob].heard();
        assert!(heard.ends_with("Z(I)"), "{workers} workers: {heard}");
    }
}

#[test]
fn a_paused_pool_keeps_no_server() {
    let mut world = world(2, "default_pool_size = 1");
    let one = world.login();
    world.ask(one, &say().query(NEXT));
    world.global.pause(None, "PAUSE").unwrap();
    world.task(&Task::Settle);
    world.settle();
    assert_eq!(world.live_servers(), 0);
}

/// Ways in which a server ends: with a last word, and how.
const ENDS: [(bool, End); 3] = [
    (true, End::Orderly),
    (false, End::Orderly),
    (false, End::Reset),
];

#[test]
fn a_client_that_only_keeps_a_server_does_not_notice_its_end() {
    for moves in [1, 2] {
        for (last_word, how) in ENDS {
            let mut world = world(1, "default_pool_size = 1");
            let client = world.login();
            for _ in 0..moves {
                world.ask(client, &say().query(NEXT));
            }
            world.servers[0].die(last_word, how);
            world.settle();
            assert_eq!(world.callers[client].heard(), "");
            let heard = world.ask(client, &say().query("SELECT 'y'"));
            assert!(heard.ends_with(SEEN), "{heard}");
            let heard = world.ask(client, &say().query("SELECT lastval()"));
            assert!(heard.contains("55000"), "{heard}");
        }
    }
}

/// A database with two hosts, and a client that keeps a server of the primary.
fn kept_at_the_primary() -> (World, usize) {
    let lines = "session_state = track\nquery_wait_notify = 0\n[databases]\n\
                 shop = host=10.0.0.1 replicas=10.0.0.2 watch_user=ann read_write_split=auto\n; no others";
    let mut world = World::new(1, lines);
    let cluster = Cluster::new(2);
    world.database = Some(Database::default());
    world.cluster = Some(cluster.clone());
    let mut sentry = Sentry::new(&world.global, &cluster, world.now(), 1);
    for _ in 0..100 {
        world.pass(Duration::from_millis(20));
        sentry.tick(&world.global, world.now());
    }
    assert_eq!(sentry.primary(), Some(0));
    let client = world.login();
    let heard = world.ask(client, &say().query(NEXT));
    assert!(heard.ends_with("Z(I)"), "{heard}");
    let held = world.workers[0].tables.servers.iter();
    assert_eq!(
        held.filter(|(_, server)| server.kept != Kept::No).count(),
        1
    );
    (world, client)
}

/// Sends a request to a kept server, which ends before it answers. Returns what the client hears.
fn lost_with_kept_server(request: &str, (last_word, how): (bool, End)) -> String {
    let (mut world, client) = kept_at_the_primary();
    let kept = world
        .servers
        .iter_mut()
        .filter(|server| server.asked.iter().any(|asked| asked == NEXT));
    let [server] = &mut kept.collect::<Vec<_>>()[..] else {
        panic!("one server has the client");
    };
    server.stalled = true;
    world.callers[client].say(&say().query(request));
    world.settle();
    let mut servers = world.servers.iter_mut();
    servers
        .find(|server| server.stalled)
        .unwrap()
        .die(last_word, how);
    world.settle();
    world.callers[client].heard()
}

#[test]
fn a_begin_that_is_lost_with_a_kept_server_runs_again() {
    for end in ENDS {
        let heard = lost_with_kept_server("BEGIN", end);
        assert_eq!(heard, "C(BEGIN) Z(T)", "{end:?}");
    }
}

#[test]
fn a_write_that_is_lost_with_a_kept_server_does_not_run_again() {
    for (last_word, how) in ENDS {
        let heard = lost_with_kept_server(NEXT, (last_word, how));
        let code = if last_word { "57P01" } else { "08007" };
        assert!(heard.contains(code), "{heard}");
    }
}
