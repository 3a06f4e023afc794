//! Online upgrade between the workers of two processes: which clients move, with which state, and how long others stay.

use std::time::Duration;

use weir_testkit::backend::Database;
use weir_testkit::say::say;

use super::world::World;
use crate::console::Shutdown;
use crate::driver::memory::End;

const LINES: &str = "session_state = track\nmax_prepared_statements = 20\ndefault_pool_size = 2\ndrain_timeout = 2\nupgrade_drain_timeout = 5";

/// Returns a world whose servers behave as PostgreSQL.
fn world() -> World {
    let mut world = World::new(2, LINES);
    world.database = Some(Database::default());
    world
}

fn upgraded(world: &mut World) {
    assert!(world.upgrade(LINES));
    world.settle();
}

/// Sends a query, which its server executes only after [`resume`].
fn ask_and_stall(world: &mut World, client: usize, sql: &str) {
    for server in &mut world.servers {
        server.stalled = true;
    }
    assert_eq!(world.ask(client, &say().query(sql)), "");
    for server in &mut world.servers {
        server.hear();
        server.begin();
    }
}

fn resume(world: &mut World) {
    for server in &mut world.servers {
        server.stalled = false;
    }
    world.settle();
}

#[test]
fn a_client_that_moves_has_its_settings_and_statements() {
    let mut world = world();
    let client = world.login();
    world.ask(client, &say().query("SET TimeZone TO 'CET'"));
    world.ask(client, &say().parse("s0", "SELECT 'named'").sync());
    world.ask(client, &say().parse("", "SELECT 'unnamed'").sync());
    upgraded(&mut world);
    assert_eq!((world.arrivals(), world.processes()), (1, 1));
    let unnamed = world.ask(client, &say().run("").sync());
    assert_eq!(unnamed, "2 D(unnamed) C(SELECT 1) Z(I)");
    let named = world.ask(client, &say().run("s0").sync());
    assert_eq!(named, "2 D(named) C(SELECT 1) Z(I)");
    let zone = world.ask(client, &say().query("SHOW TimeZone"));
    assert_eq!(zone, "T D(CET) C(SHOW) Z(I)");
}

#[test]
fn a_client_in_a_transaction_moves_behind_it() {
    let mut world = world();
    let client = world.login();
    world.ask(client, &say().query("BEGIN"));
    upgraded(&mut world);
    assert_eq!((world.arrivals(), world.processes()), (0, 2));
    let row = world.ask(client, &say().query("SELECT 'x'"));
    assert_eq!(row, "T D(x) C(SELECT 1) Z(T)");
    assert_eq!(world.ask(client, &say().query("COMMIT")), "C(COMMIT) Z(I)");
    assert_eq!((world.arrivals(), world.processes()), (1, 1));
    let row = world.ask(client, &say().query("SELECT 'y'"));
    assert_eq!(row, "T D(y) C(SELECT 1) Z(I)");
}

#[test]
fn a_client_in_a_transaction_stays_until_upgrade_drain_timeout() {
    let mut world = world();
    let client = world.login();
    world.ask(client, &say().query("BEGIN"));
    upgraded(&mut world);
    world.advance(Duration::from_millis(4_900));
    assert_eq!(world.callers[client].heard(), "");
    let newcomer = world.login();
    let stay = world.stay.map(|stay| (stay.clients, stay.with_tls));
    assert_eq!(stay, Some((1, 0)), "told after drain_timeout");
    world.advance(Duration::from_millis(200));
    let word = "E(FATAL 57P01 pooler is shutting down)";
    assert_eq!(world.callers[client].heard(), word);
    assert_eq!(world.processes(), 1);
    let row = world.ask(newcomer, &say().query("SELECT 'x'"));
    assert_eq!(row, "T D(x) C(SELECT 1) Z(I)");
}

#[test]
fn clients_that_stay_do_so_for_hours_and_move_when_they_can() {
    let lines = LINES.replace("upgrade_drain_timeout = 5", "upgrade_drain_timeout = 0");
    let lines = lines.replace("default_pool_size = 2", "default_pool_size = 6");
    let mut world = World::new(1, &lines);
    world.database = Some(Database::default());
    let clients: Vec<_> = (0..6).map(|_| world.login()).collect();
    // Two of them are in a block, and so do not move.
    for client in &clients {
        world.ask(*client, &say().query("BEGIN"));
    }
    for client in &clients[2..] {
        world.ask(*client, &say().query("COMMIT"));
    }
    assert!(world.upgrade(&lines));
    world.settle();
    assert_eq!((world.arrivals(), world.processes()), (4, 2));
    assert!(world.stay.is_none());
    world.advance(Duration::from_secs(7_200));
    assert_eq!(world.stay.map(|stay| stay.clients), Some(2));
    for client in &clients[..2] {
        let row = world.ask(*client, &say().query("SELECT 'x'"));
        assert_eq!(row, "T D(x) C(SELECT 1) Z(T)");
        assert_eq!(world.ask(*client, &say().query("COMMIT")), "C(COMMIT) Z(I)");
    }
    world.advance(Duration::from_secs(2));
    assert_eq!((world.arrivals(), world.processes()), (6, 1));
}

/// The client's value of the sequence was lost with the server that it had kept for a moment.
#[test]
fn a_client_that_has_used_a_sequence_moves_when_it_has_no_server() {
    let mut world = world();
    let client = world.login();
    world.ask(client, &say().query("SELECT nextval('s')"));
    world.advance(Duration::from_secs(2));
    upgraded(&mut world);
    assert_eq!((world.arrivals(), world.processes()), (1, 1));
}

/// Names and portals of the last lease are no reason to stay.
#[test]
fn a_client_that_has_prepared_or_deallocated_by_sql_moves() {
    let prepares = say()
        .query("PREPARE q0 AS SELECT 'q'")
        .query("DEALLOCATE q0");
    let named = say().parse("s1", "SELECT 'p'").parse("s2", "DEALLOCATE s1");
    let unnamed = say().parse("s1", "SELECT 'p'").parse("", "DEALLOCATE s1");
    let batches = [
        prepares,
        named.bind("", "s2").execute("", 0).sync(),
        unnamed.bind("", "").execute("", 0).sync(),
    ];
    for batch in &batches {
        let mut world = world();
        let client = world.login();
        let answers = world.ask(client, batch);
        assert!(!answers.contains("E("), "{answers}");
        world.advance(Duration::from_secs(2));
        upgraded(&mut world);
        assert_eq!((world.arrivals(), world.processes()), (1, 1), "{answers}");
    }
}

#[test]
fn what_a_client_said_halfway_is_not_lost() {
    let mut world = world();
    let client = world.login();
    let said = say().query("SELECT 'whole'").into_bytes();
    assert_eq!(world.ask(client, &said[..9]), "");
    upgraded(&mut world);
    assert_eq!(world.arrivals(), 0, "its worker has half a message");
    let row = world.ask(client, &said[9..]);
    assert_eq!(row, "T D(whole) C(SELECT 1) Z(I)");
    world.advance(Duration::from_millis(20));
    assert_eq!((world.arrivals(), world.processes()), (1, 1));
}

#[test]
fn a_client_that_listens_stays_until_it_does_not() {
    let mut world = world();
    let client = world.login();
    let listens = world.ask(client, &say().query("LISTEN a"));
    assert_eq!(listens, "C(LISTEN) Z(I)");
    upgraded(&mut world);
    assert_eq!(world.callers[client].heard(), "");
    assert_eq!((world.arrivals(), world.processes()), (0, 2));
    let stops = world.ask(client, &say().query("UNLISTEN a"));
    assert_eq!(stops, "C(UNLISTEN) Z(I)");
    world.advance(Duration::from_millis(20));
    assert_eq!((world.arrivals(), world.processes()), (1, 1));
}

#[test]
fn a_worker_without_clients_listens_for_those_of_others_until_they_leave() {
    let mut world = world();
    let client = world.login();
    world.ask(client, &say().query("LISTEN a"));
    world.shut_down(Shutdown::WaitForClients);
    assert_eq!(world.callers[client].heard(), "");
    let stops = world.ask(client, &say().query("UNLISTEN a").terminate());
    assert_eq!(stops, "C(UNLISTEN) Z(I)");
    world.advance(Duration::from_millis(100));
    assert!(world.workers.iter().all(|worker| worker.ending.is_over()));
}

#[test]
fn a_cancel_reaches_a_client_of_the_old_process() {
    let mut world = world();
    let client = world.login();
    world.ask(client, &say().query("BEGIN"));
    upgraded(&mut world);
    ask_and_stall(&mut world, client, "SELECT 'x'");
    world.cancels_at_once = false;
    let asker = world.request_cancel(client);
    world.settle();
    assert!(!world.callers[asker].is_closed(), "the cancel is not over");
    assert!(world.signal(0));
    world.cancels.remove(0).peer.end(End::Orderly);
    world.settle();
    assert!(world.callers[asker].is_closed());
    resume(&mut world);
    let heard = world.callers[client].heard();
    let word = "E(57014 canceling statement due to user request) Z(E)";
    assert_eq!(heard, word);
}

#[test]
fn a_cancel_reaches_a_client_that_has_moved() {
    let mut world = world();
    let client = world.login();
    upgraded(&mut world);
    assert_eq!((world.arrivals(), world.processes()), (1, 1));
    world.ask(client, &say().query("BEGIN"));
    ask_and_stall(&mut world, client, "SELECT 'x'");
    world.request_cancel(client);
    world.settle();
    resume(&mut world);
    let heard = world.callers[client].heard();
    let word = "E(57014 canceling statement due to user request) Z(E)";
    assert_eq!(heard, word);
}

#[test]
fn a_cancel_that_the_old_process_takes_with_it_is_over() {
    let mut world = world();
    let client = world.login();
    world.ask(client, &say().query("BEGIN"));
    upgraded(&mut world);
    ask_and_stall(&mut world, client, "SELECT 'x'");
    world.cancels_at_once = false;
    let asker = world.request_cancel(client);
    world.settle();
    assert!(!world.callers[asker].is_closed());
    world.advance(Duration::from_secs(6));
    assert_eq!(world.processes(), 1, "drain_timeout");
    assert!(world.callers[asker].is_closed());
}

#[test]
fn a_cancel_for_nobody_is_over_at_once_in_both_processes() {
    let mut world = world();
    let client = world.login();
    let other = world.login();
    world.ask(client, &say().query("BEGIN"));
    upgraded(&mut world);
    world.callers[other].leave(End::Orderly);
    world.settle();
    let asker = world.request_cancel(other);
    world.settle();
    assert!(world.callers[asker].is_closed());
}
