//! Clients that lose their server in a transaction block and keep their session (`keep_client`).

use weir_testkit::backend::Database;
use weir_testkit::say::{Say, say};

use super::world::World;
use crate::driver::memory::End;

const LOST: &str =
    "E(40001 the server of this transaction was lost, and the transaction was rolled back)";
const FAILED: &str =
    "E(25P02 current transaction is aborted, commands ignored until end of transaction block)";

/// Ways in which a server ends: with a last word, and how.
const ENDS: [(bool, End); 3] = [
    (true, End::Orderly),
    (false, End::Orderly),
    (false, End::Reset),
];

fn world(lines: &str) -> World {
    let lines = format!("session_state = track\nquery_wait_notify = 0\nkeep_client = 1\n{lines}");
    let mut world = World::new(1, &lines);
    world.database = Some(Database::default());
    world
}

/// A client in a block that has run these statements.
fn in_block(statements: &[&str]) -> (World, usize) {
    let mut world = world("");
    let client = world.login();
    for statement in statements {
        let heard = world.ask(client, &say().query(statement));
        assert!(heard.ends_with("Z(T)"), "{statement}: {heard}");
    }
    (world, client)
}

fn lose(world: &mut World, (last_word, how): (bool, End)) {
    world.servers[0].die(last_word, how);
    world.settle();
}

/// Sends a request that the server does not answer before it ends. Returns what the client hears.
fn lose_with(world: &mut World, client: usize, request: &Say, end: (bool, End)) -> String {
    world.servers[0].stalled = true;
    world.callers[client].say(request);
    world.settle();
    lose(world, end);
    world.callers[client].heard()
}

fn goes_on(world: &mut World, client: usize) {
    let heard = world.ask(client, &say().query("BEGIN").query("row y").query("COMMIT"));
    assert_eq!(
        heard,
        "C(BEGIN) Z(T) T D(y) C(SELECT 1) Z(T) C(COMMIT) Z(I)"
    );
}

#[test]
fn a_request_that_is_lost_in_a_block_fails_and_its_client_goes_on() {
    for end in ENDS {
        let (mut world, client) = in_block(&["BEGIN"]);
        let heard = lose_with(&mut world, client, &say().query("SELECT 'x'"), end);
        assert_eq!(heard, format!("{LOST} Z(E)"), "{end:?}");
        let heard = world.ask(client, &say().query("SELECT 'x'"));
        assert_eq!(heard, format!("{FAILED} Z(E)"));
        assert_eq!(
            world.ask(client, &say().query("rollback")),
            "C(ROLLBACK) Z(I)"
        );
        goes_on(&mut world, client);
    }
}

#[test]
fn a_client_that_was_idle_in_its_block_hears_of_the_loss_with_its_next_request() {
    for end in ENDS {
        let (mut world, client) = in_block(&["BEGIN", "SELECT 'x'"]);
        lose(&mut world, end);
        assert_eq!(world.callers[client].heard(), "");
        let heard = world.ask(client, &say().query("SELECT 'x'"));
        assert_eq!(heard, format!("{LOST} Z(E)"));
        // PostgreSQL answers a COMMIT so in a failed block.
        assert_eq!(
            world.ask(client, &say().query("COMMIT")),
            "C(ROLLBACK) Z(I)"
        );
        goes_on(&mut world, client);
    }
}

#[test]
fn a_commit_behind_a_loss_fails_and_ends_the_block() {
    let (mut world, client) = in_block(&["BEGIN"]);
    lose(&mut world, ENDS[0]);
    let heard = world.ask(client, &say().query("COMMIT"));
    assert_eq!(heard, format!("{LOST} Z(I)"));
    goes_on(&mut world, client);

    let (mut world, client) = in_block(&["BEGIN"]);
    lose(&mut world, ENDS[0]);
    let commit = say().parse("", "COMMIT").bind("", "").execute("", 0).sync();
    assert_eq!(world.ask(client, &commit), format!("{LOST} Z(I)"));
    goes_on(&mut world, client);
}

#[test]
fn a_rollback_behind_a_loss_is_nothing_special() {
    for rollback in [
        say().query("ROLLBACK"),
        say().query("/* done */ abort work;"),
        say().parse("", "ROLLBACK").run("").sync(),
    ] {
        let (mut world, client) = in_block(&["BEGIN"]);
        lose(&mut world, ENDS[1]);
        let heard = world.ask(client, &rollback);
        assert!(heard.ends_with("C(ROLLBACK) Z(I)"), "{heard}");
        assert!(!heard.contains("E("), "{heard}");
        goes_on(&mut world, client);
    }
}

#[test]
fn the_extended_protocol_fails_up_to_its_sync() {
    let run = say().parse("", "SELECT 'x'").run("").sync();
    let (mut world, client) = in_block(&["BEGIN"]);
    let heard = lose_with(&mut world, client, &run, ENDS[1]);
    assert_eq!(heard, format!("{LOST} Z(E)"));
    assert_eq!(world.ask(client, &run), format!("{FAILED} Z(E)"));
    assert_eq!(world.ask(client, &say().sync()), "Z(E)");
    let heard = world.ask(client, &say().parse("", "ROLLBACK").run("").sync());
    assert!(heard.ends_with("C(ROLLBACK) Z(I)"), "{heard}");
    goes_on(&mut world, client);
}

#[test]
fn a_batch_without_its_sync_is_skipped_to_it() {
    let (mut world, client) = in_block(&["BEGIN"]);
    let begun = say().parse("s", "SELECT 'x'").flush();
    let heard = lose_with(&mut world, client, &begun, ENDS[1]);
    assert_eq!(heard, LOST);
    let rest = say().run("s").sync();
    assert_eq!(world.ask(client, &rest), "Z(E)");
    world.ask(client, &say().query("ROLLBACK"));
    let heard = world.ask(client, &say().run("s").sync());
    assert!(heard.contains("26000"), "its Parse has failed: {heard}");
}

#[test]
fn what_a_lost_block_has_set_is_taken_back_and_the_rest_stays() {
    let mut world = world("");
    let client = world.login();
    world.ask(client, &say().query("SET DateStyle TO 'SQL, DMY'"));
    world.ask(client, &say().parse("s", "SELECT 'kept'").sync());
    world.ask(client, &say().query("BEGIN"));
    world.ask(client, &say().query("SET DateStyle TO 'German'"));
    lose(&mut world, ENDS[0]);
    world.ask(client, &say().query("ROLLBACK"));
    let heard = world.ask(client, &say().query("SHOW DateStyle"));
    assert!(heard.contains("D(SQL, DMY)"), "{heard}");
    let heard = world.ask(client, &say().run("s").sync());
    assert!(heard.contains("D(kept)"), "{heard}");
}

#[test]
fn what_was_set_just_before_a_lost_block_stays() {
    let mut world = world("");
    let client = world.login();
    let set = "SET DateStyle TO 'SQL, DMY'";
    world.ask(client, &say().query(set).query("BEGIN"));
    lose(&mut world, ENDS[0]);
    let rollback = say().query("ROLLBACK").query("SHOW DateStyle");
    let heard = world.ask(client, &rollback);
    // The client was told that it has lost its session, or it has not lost it.
    assert!(
        heard.contains("57P01") || heard.contains("D(SQL, DMY)"),
        "{heard}"
    );
    let client = world.login();
    world.ask(
        client,
        &say().query("SELECT set_config('my.a', 'kept', false)"),
    );
    world.ask(client, &say().query("BEGIN"));
    lose(&mut world, ENDS[0]);
    let rollback = say().query("ROLLBACK").query("SHOW my.a");
    let heard = world.ask(client, &rollback);
    assert!(heard.contains("D(kept)"), "{heard}");
}

#[test]
fn a_commit_that_is_lost_is_told_as_unknown() {
    let (mut world, client) = in_block(&["BEGIN", "SELECT 'x'"]);
    let heard = lose_with(&mut world, client, &say().query("COMMIT"), ENDS[1]);
    assert!(heard.starts_with("E(FATAL 08007"), "{heard}");
    assert!(world.callers[client].is_closed());
}

#[test]
fn a_commit_that_postgresql_has_undone_fails_like_one_of_a_conflict() {
    let (mut world, client) = in_block(&["BEGIN", "SELECT 'x'"]);
    let heard = lose_with(&mut world, client, &say().query("COMMIT"), ENDS[0]);
    assert_eq!(heard, format!("{LOST} Z(I)"));
    goes_on(&mut world, client);
}

#[test]
fn a_session_with_more_than_its_block_on_the_server_ends_with_it() {
    for statement in [
        "SELECT pg_advisory_lock(1)",
        "CREATE TEMP TABLE t (a text)",
        "PREPARE p AS SELECT 1",
    ] {
        let (mut world, client) = in_block(&["BEGIN", statement]);
        lose(&mut world, ENDS[0]);
        let heard = world.callers[client].heard();
        assert!(heard.contains("57P01"), "{statement}: {heard}");
        assert!(world.callers[client].is_closed());
    }
}

#[test]
fn a_client_without_the_option_ends_with_its_server() {
    let mut world = World::new(1, "query_wait_notify = 0");
    world.database = Some(Database::default());
    let client = world.login();
    world.ask(client, &say().query("BEGIN"));
    lose(&mut world, ENDS[0]);
    assert!(world.callers[client].heard().contains("FATAL 57P01"));
}

#[test]
fn a_lost_block_holds_no_server() {
    let mut world = world("default_pool_size = 1");
    let (one, two) = (world.login(), world.login());
    world.ask(one, &say().query("BEGIN"));
    lose(&mut world, ENDS[1]);
    goes_on(&mut world, two);
    assert_eq!(world.ask(one, &say().query("ROLLBACK")), "C(ROLLBACK) Z(I)");
    goes_on(&mut world, one);
}

#[test]
fn a_server_may_be_lost_behind_any_byte_of_its_answer() {
    let extended = say().parse("s", "SELECT 'x'").bind("", "s");
    let extended = extended.describe_portal("").execute("", 0).sync();
    for request in [say().query("SELECT 'x'"), extended] {
        for end in [ENDS[0], ENDS[1]] {
            let mut kept = 0;
            for cut in 0.. {
                let (mut world, client) = in_block(&["BEGIN"]);
                let (heard, is_cut) = world.ask_in_vain(client, &request, cut, end);
                if !is_cut {
                    assert!(cut > 20 && kept > 0, "{cut} {kept}");
                    break;
                }
                if world.callers[client].is_closed() {
                    // In the middle of a message, or it had been told everything.
                    assert!(!heard.contains("40001"), "{cut}: {heard}");
                    continue;
                }
                kept += 1;
                let heard = world.ask(client, &say().query("rollback"));
                assert!(heard.ends_with("C(ROLLBACK) Z(I)"), "{cut}: {heard}");
                goes_on(&mut world, client);
            }
        }
    }
}

#[test]
fn values_that_the_block_has_changed_are_reported_with_the_error() {
    for end in ENDS {
        let block = ["BEGIN", "SET LOCAL TimeZone = 'CET'"];
        let (mut world, client) = in_block(&block);
        let heard = lose_with(&mut world, client, &say().query("SELECT 'x'"), end);
        assert_eq!(heard, format!("{LOST} S(TimeZone=UTC) Z(E)"), "{end:?}");
        let heard = world.ask(client, &say().query("ROLLBACK"));
        assert_eq!(heard, "C(ROLLBACK) Z(I)");
        goes_on(&mut world, client);

        // Between two requests, the values are told at once.
        let (mut world, client) = in_block(&block);
        lose(&mut world, end);
        assert_eq!(world.callers[client].heard(), "S(TimeZone=UTC)");
        let heard = world.ask(client, &say().query("ROLLBACK"));
        assert_eq!(heard, "C(ROLLBACK) Z(I)");
        goes_on(&mut world, client);
    }
}
