//! Orders of an administrator, and their effect on clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_testkit::say::say;

use super::postgres::LAST_WORD;
use super::world::{Host, World};
use crate::driver::memory::End;

const ROW: &str = "T D(x) C(SELECT 1) Z(I)";
const LINES: &str = "admin_users = ann\ndefault_pool_size = 2";

fn row() -> Vec<u8> {
    say().query("row x").into_bytes()
}

fn order(text: &str) -> Vec<u8> {
    say().query(text).into_bytes()
}

/// Returns this many queries for rows of 64 KiB.
fn many(rows: usize) -> Vec<u8> {
    let value = "x".repeat(65_536);
    let mut messages = say();
    for _ in 0..rows {
        messages = messages.query(&format!("row {value}"));
    }
    messages.into_bytes()
}

/// Returns a world with one worker and one with two, since orders go from one worker to the others.
fn worlds() -> [World; 2] {
    [World::new(1, LINES), World::new(2, LINES)]
}

#[test]
fn a_pause_is_complete_when_the_running_transactions_are_over() {
    for mut world in worlds() {
        let (console, one, other) = (world.login_to_console(), world.login(), world.login());
        assert_eq!(
            world.ask(one, &say().query("begin").into_bytes()),
            "C(BEGIN) Z(T)"
        );
        assert_eq!(world.ask(other, &row()), ROW);
        assert_eq!(world.ask(console, &order("PAUSE")), "");
        assert_eq!(world.live_servers(), 1, "who is idle goes");
        assert_eq!(world.ask(other, &row()), "", "it waits");
        assert_eq!(
            world.ask(one, &row()),
            "T D(x) C(SELECT 1) Z(T)",
            "it goes on"
        );
        assert_eq!(
            world.ask(one, &say().query("commit").into_bytes()),
            "C(COMMIT) Z(I)"
        );
        world.advance(Duration::from_secs(1));
        assert_eq!(world.callers[console].heard(), "C(done)");
        assert_eq!(world.live_servers(), 0);
        assert_eq!(world.callers[other].heard(), "", "still");
        assert_eq!(
            world.ask(console, &order("PAUSE")),
            "C(already suspended/paused)"
        );
        assert_eq!(world.ask(console, &order("RESUME")), "C(done)");
        assert_eq!(world.callers[other].heard(), ROW);
        assert_eq!(
            world.ask(console, &order("RESUME")),
            "C(pooler is not paused/suspended)"
        );
    }
}

#[test]
fn a_database_is_paused_alone() {
    let mut world = World::new(1, LINES);
    let (console, here) = (world.login_to_console(), world.login());
    let there = world.dial("ann", &[("database", "other")]);
    world.settle();
    world.callers[there].heard();
    assert_eq!(world.ask(console, &order("PAUSE shop")), "C(done)");
    assert_eq!(world.ask(here, &row()), "");
    assert_eq!(world.ask(there, &row()), ROW);
    assert_eq!(
        world.ask(console, &order("RESUME")),
        "C(pooler is not paused/suspended)"
    );
    assert_eq!(
        world.ask(console, &order("RESUME other")),
        "C(database other is not paused)"
    );
    assert_eq!(
        world.ask(console, &order("PAUSE weir")),
        "C(cannot pause admin db: weir)"
    );
    assert_eq!(world.ask(console, &order("RESUME shop")), "C(done)");
    assert_eq!(world.callers[here].heard(), ROW);
}

#[test]
fn a_pool_that_is_new_in_a_paused_database_is_paused_too() {
    let mut world = World::new(1, LINES);
    let console = world.login_to_console();
    assert_eq!(world.ask(console, &order("PAUSE shop")), "C(done)");
    let client = world.dial("ann", &[]);
    world.settle();
    assert_eq!(
        world.callers[client].heard(),
        "",
        "its greeting needs a server"
    );
    assert_eq!(world.live_servers(), 0);
    assert_eq!(world.ask(console, &order("RESUME shop")), "C(done)");
    assert!(world.callers[client].heard().ends_with("Z(I)"));
}

#[test]
fn waiting_for_a_paused_pool_ends_with_query_wait_timeout_as_any_waiting() {
    let mut world = World::new(
        1,
        &format!("{LINES}\nquery_wait_timeout = 3\nquery_wait_notify = 0"),
    );
    let (console, client) = (world.login_to_console(), world.login());
    world.ask(console, &order("PAUSE"));
    world.ask(client, &row());
    world.advance(Duration::from_secs(4));
    assert!(world.callers[client].heard().starts_with("E(FATAL 53300"));
}

#[test]
fn a_pause_that_is_cancelled_or_whose_console_leaves_is_taken_back() {
    for leaves in [false, true] {
        for mut world in worlds() {
            let (console, one, other) = (world.login_to_console(), world.login(), world.login());
            world.ask(one, &say().query("begin").into_bytes());
            assert_eq!(world.ask(console, &order("PAUSE")), "");
            assert_eq!(world.ask(other, &row()), "");
            if leaves {
                world.callers[console].leave(End::Orderly);
                world.settle();
            } else {
                world.request_cancel(console);
                world.settle();
                let heard = world.callers[console].heard();
                assert_eq!(heard, "C(canceling statement due to user request)");
            }
            assert_eq!(world.callers[other].heard(), ROW);
        }
    }
}

#[test]
fn a_resume_from_elsewhere_ends_the_waiting_for_a_pause() {
    let mut world = World::new(2, LINES);
    let (console, second, client) = (
        world.login_to_console(),
        world.login_to_console(),
        world.login(),
    );
    world.ask(client, &say().query("begin").into_bytes());
    assert_eq!(world.ask(console, &order("PAUSE shop")), "");
    assert_eq!(world.ask(second, &order("RESUME shop")), "C(done)");
    world.advance(Duration::from_secs(1));
    let heard = world.callers[console].heard();
    assert_eq!(heard, "C(resumed before everything was paused)");
}

#[test]
fn kill_ends_clients_and_servers_at_once_and_leaves_the_database_paused() {
    for mut world in worlds() {
        let (console, one, other) = (world.login_to_console(), world.login(), world.login());
        world.ask(one, &say().query("begin").into_bytes());
        assert_eq!(world.ask(console, &order("KILL shop")), "C(done)");
        for client in [one, other] {
            assert_eq!(
                world.callers[client].heard(),
                "E(FATAL 57P01 database removed)"
            );
            assert!(world.callers[client].is_closed());
        }
        assert_eq!(world.live_servers(), 0);
        let late = world.dial("ann", &[]);
        world.settle();
        assert!(!world.callers[late].heard().ends_with("Z(I)") || world.live_servers() == 0);
        assert_eq!(world.ask(console, &order("RESUME shop")), "C(done)");
        world.callers[late].heard();
        assert_eq!(world.ask(late, &row()), ROW);
    }
}

/// A first login locked the pools and then the orders, and PAUSE the orders and then the pools.
#[test]
fn first_logins_of_pools_and_pauses_do_not_wait_for_each_other() {
    let world = World::new(1, "");
    let global = Arc::clone(&world.global);
    let (done, over) = crossbeam_channel::bounded(1);
    std::thread::spawn(move || {
        let are_in = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !are_in.load(Ordering::Relaxed) {
                    global.pause(None, "pause").unwrap();
                    global.resume(None).unwrap();
                }
            });
            for number in 0..2_000 {
                let settled = global.settled();
                let user = format!("user{number}");
                let settings = settled.settings.pool("shop", &user).unwrap();
                let _ = global.pool(settings);
            }
            are_in.store(true, Ordering::Relaxed);
        });
        let _ = done.send(());
    });
    let limit = Duration::from_secs(60);
    assert!(over.recv_timeout(limit).is_ok(), "they wait for each other");
}

#[test]
fn a_client_that_has_its_servers_fatal_error_gets_no_second_one() {
    let mut world = World::new(1, LINES);
    let (console, client) = (world.login_to_console(), world.login());
    world.ask(client, &say().query("begin").into_bytes());
    // The FATAL arrives, the end of the connection does not yet.
    world.servers[0].say_last_word();
    world.settle();
    assert_eq!(world.ask(console, &order("KILL shop")), "C(done)");
    let told = format!("E(FATAL 57P01 {LAST_WORD})");
    assert_eq!(world.callers[client].heard(), told);
    assert!(world.callers[client].is_closed());
}

#[test]
fn kill_client_ends_just_that_one_wherever_it_is() {
    let mut world = World::new(2, LINES);
    let console = world.login_to_console();
    let clients: Vec<_> = (0..4).map(|_| world.login()).collect();
    let before = world.ask(console, &order("SHOW"));
    let ids = before.trim_start_matches("C(").trim_end_matches(')');
    // The console's own number is the lowest: it connected first.
    let mut ids: Vec<u64> = ids.split(' ').map(|id| id.parse().unwrap()).collect();
    ids.sort_unstable();
    let killed = world.ask(console, &order(&format!("KILL_CLIENT {}", ids[2])));
    assert_eq!(killed, "C(done)");
    let ended: Vec<_> = clients
        .iter()
        .filter(|client| world.callers[**client].is_closed())
        .collect();
    assert_eq!(ended, [&clients[1]]);
    let again = world.ask(console, &order(&format!("KILL_CLIENT {}", ids[2])));
    assert_eq!(again, "C(client not found)");
}

#[test]
fn a_disabled_database_takes_no_new_clients_and_keeps_those_it_has() {
    let mut world = World::new(1, LINES);
    let (console, client) = (world.login_to_console(), world.login());
    assert_eq!(world.ask(console, &order("DISABLE shop")), "C(done)");
    assert_eq!(world.ask(client, &row()), ROW);
    let late = world.dial("ann", &[]);
    world.settle();
    assert!(world.callers[late].heard().starts_with("E(FATAL 55000"));
    assert_eq!(world.ask(console, &order("ENABLE shop")), "C(done)");
    world.login();
}

#[test]
fn reconnect_closes_idle_servers_now_and_wait_close_waits_for_the_others() {
    for mut world in worlds() {
        let (console, one, other) = (world.login_to_console(), world.login(), world.login());
        world.ask(one, &say().query("begin").into_bytes());
        world.ask(other, &row());
        assert_eq!(world.live_servers(), 2);
        assert_eq!(
            world.ask(console, &order("WAIT_CLOSE")),
            "C(done)",
            "nothing to close"
        );
        assert_eq!(world.ask(console, &order("RECONNECT")), "C(done)");
        assert_eq!(world.live_servers(), 1);
        assert_eq!(world.ask(console, &order("WAIT_CLOSE shop")), "");
        assert_eq!(world.ask(other, &row()), ROW, "by a new server");
        world.ask(one, &say().query("commit").into_bytes());
        world.advance(Duration::from_secs(1));
        assert_eq!(world.callers[console].heard(), "C(done)");
        assert_eq!(
            world.ask(console, &order("RECONNECT weir")),
            "C(cannot reconnect admin db: weir)"
        );
    }
}

/// Sends SUSPEND; the other workers are checked after a moment.
fn suspend(world: &mut World, console: usize) {
    world.callers[console].say(&order("SUSPEND"));
    world.advance(Duration::from_millis(100));
    assert_eq!(world.callers[console].heard(), "C(done)");
}

#[test]
fn while_suspended_nothing_moves_but_the_console() {
    for mut world in worlds() {
        let (console, client) = (world.login_to_console(), world.login());
        world.ask(client, &row());
        suspend(&mut world, console);
        assert_eq!(world.ask(client, &row()), "");
        let late = world.connect();
        world.settle();
        assert_eq!(
            world.ask(console, &order("SUSPEND")),
            "C(already suspended/paused)"
        );
        assert_eq!(world.ask(console, &order("RESUME")), "C(done)");
        assert_eq!(world.callers[client].heard(), ROW);
        world.callers[late].leave(End::Orderly);
        world.settle();
        world.callers[console].say(&order("PAUSE shop"));
        world.advance(Duration::from_millis(100));
        assert_eq!(world.callers[console].heard(), "C(done)");
        let refused = world.ask(console, &order("SUSPEND"));
        assert_eq!(refused, "C(cannot suspend with paused databases)");
    }
}

#[test]
fn a_suspension_ends_with_the_console_that_ordered_it() {
    let mut world = World::new(2, LINES);
    let (console, client) = (world.login_to_console(), world.login());
    suspend(&mut world, console);
    assert_eq!(world.ask(client, &row()), "");
    world.callers[console].leave(End::Orderly);
    world.settle();
    assert_eq!(world.callers[client].heard(), ROW);
}

#[test]
fn whoever_takes_nothing_within_suspend_timeout_is_closed() {
    let lines = format!("{LINES}\nsuspend_timeout = 3");
    let mut world = World::with_room(2, &lines, 1 << 20);
    let (console, client) = (world.login_to_console(), world.login());
    world.callers[client].deaf = true;
    world.ask(client, &many(200));
    assert_eq!(
        world.ask(console, &order("SUSPEND")),
        "",
        "something is left to be sent"
    );
    world.advance(Duration::from_secs(2));
    assert_eq!(world.callers[console].heard(), "");
    world.advance(Duration::from_secs(2));
    assert_eq!(world.callers[console].heard(), "C(done)");
}

/// Administrators pause because a server is down: afterwards, no error from before may be reported.
#[test]
fn what_failed_before_a_pause_is_not_told_after_it() {
    let mut world = World::new(1, LINES);
    let (console, client) = (world.login_to_console(), world.login());
    world.ask(client, &row());
    world.ask(console, &order("PAUSE"));
    world.host = Host::Refuses;
    assert_eq!(world.ask(client, &row()), "");
    world.host = Host::Accepts;
    assert_eq!(world.ask(console, &order("RESUME")), "C(done)");
    assert_eq!(world.callers[client].heard(), ROW);
}

/// An error behind part of a message would be read as the rest of that message.
#[test]
fn who_is_killed_in_the_middle_of_a_message_is_told_nothing() {
    let mut world = World::new(1, LINES);
    let (console, client) = (world.login_to_console(), world.login());
    world.servers[0].stalled = true;
    world.ask(client, &row());
    let whole = [b'D', 0, 0, 0, 100];
    world.servers[0].peer.send(&whole);
    world.settle();
    assert_eq!(world.callers[client].new_bytes(), whole);
    assert_eq!(world.ask(console, &order("KILL shop")), "C(done)");
    assert_eq!(world.callers[client].new_bytes(), b"");
    assert!(world.callers[client].is_closed());
}
