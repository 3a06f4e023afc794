//! Tests of `auth_query`: a server's answer about a user that the auth_file does not contain, and faults at every step
//! of the query.

use std::time::Duration;

use weir_testkit::say::say;
use weir_wire::encode;

use super::postgres::Catalog;
use super::world::{Host, World};
use crate::console::Shutdown;
use crate::driver::memory::End;
use crate::global::{Purpose, lock};
use crate::worker::inquiry::AUTH_QUERY_WITH_END;

const FAILED: &str = "E(FATAL 28P01 password authentication failed for user \"ann\")";
const NO_ANSWER: &str = "E(FATAL 57P03 auth_query failed)";

fn world_with(lines: &str) -> World {
    let lines = format!(
        "auth_type = plain\nauth_user = keeper\nquery_wait_notify = 0\ndefault_pool_size = 1\n{lines}"
    );
    let world = World::with_users(&lines, "\"bob\" \"crayon\"\n\"keeper\" \"key\"\n");
    *lock(&world.catalog) = Catalog {
        rows: vec![
            ("ann", vec![vec![Some("ann"), Some("pencil")]]),
            ("null", vec![vec![Some("null"), None]]),
            ("empty", vec![vec![Some("empty"), Some("")]]),
            ("two", vec![vec![Some("two"), Some("pencil")]; 2]),
            ("wrong", vec![vec![Some("ann"), Some("pencil")]]),
            ("nameless", vec![vec![None, Some("pencil")]]),
            ("narrow", vec![vec![Some("pencil")]]),
            (
                "over",
                vec![vec![Some("over"), Some("pencil"), Some("1000000000")]],
            ),
            (
                "valid",
                vec![vec![Some("valid"), Some("pencil"), Some("infinity")]],
            ),
            (
                "'; drop table x; --",
                vec![vec![Some("'; drop table x; --"), Some("pencil")]],
            ),
            ("keeper", vec![vec![Some("keeper"), Some("pencil")]]),
            (
                "md5",
                vec![vec![
                    Some("md5"),
                    Some("md5d9999fb5a8a3d8c8cc37ec40d9f09b4d"),
                ]],
            ),
        ],
        ..Catalog::default()
    };
    world
}

fn world() -> World {
    world_with("")
}

/// Connects, and sends a password if asked for one.
fn try_in(world: &mut World, user: &str, parameters: &[(&str, &str)], password: &str) -> usize {
    let client = world.dial(user, parameters);
    world.settle();
    if world.callers[client].heard() == "R" {
        let mut message = Vec::new();
        encode::password(&mut message, password.as_bytes()).unwrap();
        world.callers[client].say(&message);
        world.settle();
    } else {
        // The other answer is to be read again by the caller.
        world.callers[client].hear_again();
    }
    client
}

fn outcome(world: &mut World, user: &str, password: &str) -> String {
    let client = try_in(world, user, &[], password);
    let heard = world.callers[client].heard();
    if heard.ends_with("Z(I)") {
        world.ask(client, &say().terminate());
        return "in".to_owned();
    }
    heard
}

/// Returns the users that servers were logged in to as, in order.
fn users(world: &World) -> Vec<&str> {
    world.servers.iter().map(|server| server.user()).collect()
}

#[test]
fn a_user_that_only_the_database_knows_logs_in_and_works() {
    let mut world = world();
    let client = try_in(&mut world, "ann", &[], "pencil");
    assert!(world.callers[client].heard().ends_with("Z(I)"));
    let heard = world.ask(client, &say().query("row x"));
    assert_eq!(heard, "T D(x) C(SELECT 1) Z(I)");
    let heard = world.ask(client, &say().parse("s", "row y").run("s").sync());
    assert_eq!(heard, "1 2 D(y) C(SELECT 1) Z(I)");
    // One server runs the inquiry, another the client's queries.
    assert_eq!(users(&world), ["keeper", "ann"]);
    assert_eq!(world.servers[0].asked, [AUTH_QUERY_WITH_END]);
    assert_eq!(lock(&world.catalog).looked_up, ["ann"]);
    world.ask(client, &say().terminate());
    world.check_empty();
}

#[test]
fn what_the_answer_says_decides() {
    let mut world = world();
    for (user, password, expected) in [
        ("ann", "pencil", "in"),
        ("ann", "crayon", FAILED),
        ("null", "pencil", FAILED),
        ("empty", "pencil", FAILED),
        ("nobody", "pencil", FAILED),
        ("over", "pencil", FAILED),
        ("valid", "pencil", "in"),
        ("md5", "crayon", FAILED),
        ("two", "pencil", NO_ANSWER),
        ("wrong", "pencil", NO_ANSWER),
        ("nameless", "pencil", NO_ANSWER),
        ("narrow", "pencil", NO_ANSWER),
        // These users are in the auth_file: no server is asked.
        ("bob", "crayon", "in"),
        ("keeper", "key", "in"),
        ("keeper", "pencil", FAILED),
    ] {
        // The error names the user.
        let expected = expected.replace("\"ann\"", &format!("\"{user}\""));
        assert_eq!(outcome(&mut world, user, password), expected, "{user}");
        world.check_empty();
    }
    let asked_for = lock(&world.catalog).looked_up.clone();
    assert!(
        !asked_for
            .iter()
            .any(|name| name == "bob" || name == "keeper")
    );
}

#[test]
fn an_empty_password_is_never_right() {
    let mut world = world();
    for user in ["ann", "null", "empty", "nobody"] {
        let heard = outcome(&mut world, user, "");
        assert!(
            heard.starts_with("E(FATAL 28P01 empty password"),
            "{user}: {heard}"
        );
    }
}

#[test]
fn sec_43_a_name_is_a_value_and_never_sql() {
    let mut world = world();
    let name = "'; drop table x; --";
    assert_eq!(outcome(&mut world, name, "pencil"), "in");
    assert_eq!(lock(&world.catalog).looked_up, [name]);
    assert_eq!(world.servers[0].asked, [AUTH_QUERY_WITH_END]);
}

#[test]
fn sec_43_no_setting_of_a_client_reaches_the_server_that_is_asked() {
    let mut world = world();
    let evil = [
        ("options", "-c DateStyle=evil -c timezone=evil"),
        ("TimeZone", "CET"),
        ("application_name", "evil"),
        ("client_encoding", "SJIS"),
    ];
    let client = try_in(&mut world, "ann", &evil, "pencil");
    let heard = world.callers[client].heard();
    assert!(heard.ends_with("Z(I)"), "{heard}");
    // There is no such role. The setting comes after the inquiry.
    let other = try_in(
        &mut world,
        "ann",
        &[("search_path", "evil"), ("role", "evil")],
        "pencil",
    );
    let heard = world.callers[other].heard();
    assert!(heard.contains("role \"evil\" does not exist"), "{heard}");
    let asked = &world.servers[0];
    assert_eq!(asked.user(), "keeper");
    assert_eq!(asked.asked, [AUTH_QUERY_WITH_END; 2]);
    assert_eq!(asked.parameter("search_path"), Some("pg_catalog"));
    let names: Vec<_> = asked
        .parameters
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["user", "database", "search_path", "datestyle"]);
    assert_eq!(asked.parameter("datestyle"), Some("ISO"));
    // The server never becomes the client's, and the next inquiry goes there too.
    let again = try_in(&mut world, "ann", &evil, "pencil");
    assert!(world.callers[again].heard().ends_with("Z(I)"));
    world.ask(again, &say().query("row x"));
    assert_eq!(world.servers[0].asked, [AUTH_QUERY_WITH_END; 3]);
    assert_eq!(world.servers[0].backend.setting("TimeZone"), Some("UTC"));
}

#[test]
fn sec_43_the_pool_that_asks_is_nobodys_even_if_the_user_is_the_same() {
    let mut world = world();
    let keeper = try_in(&mut world, "keeper", &[], "key");
    assert!(world.callers[keeper].heard().ends_with("Z(I)"));
    world.ask(keeper, &say().query("begin"));
    // The only server of the clients' pool is taken: the inquiry does not wait for it.
    let ann = try_in(&mut world, "ann", &[], "pencil");
    assert!(world.callers[ann].heard().ends_with("Z(I)"));
    assert_eq!(users(&world), ["keeper", "keeper", "ann"]);
    assert_eq!(world.servers[1].asked, [AUTH_QUERY_WITH_END]);
    let groups = world.workers[0].tables.groups.iter();
    let private: Vec<_> = groups
        .filter(|(_, group)| group.global.key.purpose != Purpose::Clients)
        .map(|(_, group)| &*group.global.key.user)
        .collect();
    assert_eq!(private, ["keeper"]);
    assert_eq!(world.ask(keeper, &say().query("commit")), "C(COMMIT) Z(I)");
}

#[test]
fn an_error_of_the_query_refuses_the_login_and_tells_nothing() {
    let mut world = world();
    lock(&world.catalog).fails = true;
    for _ in 0..3 {
        assert_eq!(outcome(&mut world, "ann", "pencil"), NO_ANSWER);
        world.check_empty();
    }
    // Once the query works again, logins work again.
    lock(&world.catalog).fails = false;
    assert_eq!(outcome(&mut world, "ann", "pencil"), "in");
    assert_eq!(users(&world)[0], "keeper");
}

#[test]
fn without_a_server_nobody_is_let_in() {
    for host in [Host::Refuses, Host::Rejects("28P01")] {
        let mut world = world_with("failover_hold = 0");
        world.host = host;
        let client = try_in(&mut world, "ann", &[], "pencil");
        world.advance(Duration::from_secs(1));
        assert_eq!(world.callers[client].heard(), NO_ANSWER, "{host:?}");
        assert!(world.callers[client].is_closed());
        // Users of the auth_file can still log in.
        world.host = Host::Accepts;
        world.advance(Duration::from_secs(20));
        assert_eq!(outcome(&mut world, "bob", "crayon"), "in");
        assert_eq!(outcome(&mut world, "ann", "pencil"), "in");
        world.check_empty();
    }
}

#[test]
fn sec_07_a_question_that_nobody_answers_ends_with_the_login() {
    let mut world = world_with("client_login_timeout = 5");
    world.host = Host::Silent;
    let client = try_in(&mut world, "ann", &[], "pencil");
    world.advance(Duration::from_millis(4999));
    assert_eq!(world.callers[client].heard(), "");
    world.advance(Duration::from_millis(1));
    let heard = world.callers[client].heard();
    assert_eq!(heard, "E(FATAL 57014 client_login_timeout)");
    assert_eq!(world.global.limits.clients.used(), 0);
}

#[test]
fn a_question_waits_for_its_turn_like_everybody() {
    let mut world = world();
    let clients: Vec<_> = (0..5).map(|_| world.dial("ann", &[])).collect();
    world.settle();
    for client in &clients {
        assert_eq!(world.callers[*client].heard(), "R");
    }
    // The pool has one place, so one server serves all of them.
    assert_eq!(users(&world), ["keeper"]);
    assert_eq!(lock(&world.catalog).looked_up, ["ann"; 5]);
}

// === things that happen meanwhile ===

/// Returns a world with an inquiry that has reached the server, which does not answer yet, and its client.
fn asking(lines: &str) -> (World, usize) {
    let mut world = world_with(lines);
    let client = world.dial("ann", &[]);
    world.callers[client].serve();
    for _ in 0..20 {
        world.turn(0);
        if let Some(server) = world.servers.first_mut() {
            if server.user() == "keeper" {
                server.stalled = true;
            }
            server.serve();
        }
    }
    assert!(world.servers[0].stalled);
    world.settle();
    assert_eq!(world.callers[client].heard(), "");
    (world, client)
}

fn is_as_new(world: &mut World) {
    world.advance(Duration::from_secs(3));
    assert_eq!(outcome(world, "ann", "pencil"), "in");
    world.check_empty();
}

#[test]
fn cor_01_a_client_vanishes_while_its_question_runs() {
    for how in [End::Orderly, End::Reset] {
        let (mut world, client) = asking("");
        world.callers[client].leave(how);
        world.settle();
        world.servers[0].stalled = false;
        is_as_new(&mut world);
    }
}

#[test]
fn cor_01_a_client_vanishes_at_every_step_of_its_question() {
    for how in [End::Orderly, End::Reset] {
        for steps in 0..30 {
            let mut world = world();
            let client = world.dial("ann", &[]);
            world.callers[client].serve();
            for _ in 0..steps {
                world.turn(0);
                for server in &mut world.servers {
                    server.hear();
                    server.work();
                    // In small pieces, so that every part of the answer is once the last.
                    server.speak(40);
                }
            }
            world.callers[client].leave(how);
            is_as_new(&mut world);
        }
    }
}

#[test]
fn a_server_that_goes_while_it_is_asked_costs_the_login_and_nothing_else() {
    for how in [End::Orderly, End::Reset] {
        for last_word in [false, true] {
            let (mut world, client) = asking("");
            world.servers[0].die(last_word, how);
            world.settle();
            let heard = world.callers[client].heard();
            // Errors of the server before the login are not shown to the client.
            assert_eq!(heard, NO_ANSWER, "{how:?} {last_word}");
            assert!(world.callers[client].is_closed());
            is_as_new(&mut world);
        }
    }
}

#[test]
fn a_server_that_talks_nonsense_costs_the_login_and_nothing_else() {
    for nonsense in [
        &b"1\0\0\0\x04D\0\0\0\x06\0\x05Z\0\0\0\x05I"[..],
        b"D\0\0\0\x0a\0\x01\xff\xff\xff\xfe",
        b"?\0\0\0\x04",
        b"Z\0\0\0\x05I",
        b"R\0\0\0\x08\0\0\0\0",
    ] {
        let (mut world, client) = asking("");
        world.servers[0].peer.send(nonsense);
        world.settle();
        let heard = world.callers[client].heard();
        assert!(!heard.contains("Z("), "{heard}");
        world.servers[0].stalled = false;
        world.settle();
        world.callers[client].leave(End::Orderly);
        world.settle();
        world.servers.retain(super::postgres::Postgres::is_alive);
        is_as_new(&mut world);
    }
}

#[test]
fn what_a_client_says_while_it_is_asked_about_waits_and_is_refused() {
    for said in [
        say().query("row x"),
        say().sync(),
        say().raw(b"\0\0\0\x08\x04\xd2\x16\x2f"),
        say().parse("", "row x").sync(),
    ] {
        let (mut world, client) = asking("");
        let before = world.servers[0].heard;
        assert_eq!(world.ask(client, &said), "");
        assert_eq!(world.servers[0].heard, before, "I-13");
        world.servers[0].stalled = false;
        world.settle();
        let heard = world.callers[client].heard();
        assert!(heard.starts_with("R E(FATAL 08P01"), "{heard}");
        assert_eq!(users(&world), ["keeper"]);
        is_as_new(&mut world);
    }
    // A password that came too early is accepted.
    let (mut world, client) = asking("");
    let mut message = Vec::new();
    encode::password(&mut message, b"pencil").unwrap();
    assert_eq!(world.ask(client, &message), "");
    world.servers[0].stalled = false;
    world.settle();
    assert!(world.callers[client].heard().ends_with("Z(I)"));
}

#[test]
fn a_cancel_request_with_any_key_does_nothing_to_a_question() {
    let (mut world, client) = asking("");
    for pid in 0..20 {
        let other = world.connect();
        let mut packet = Vec::new();
        encode::cancel_request(&mut packet, pid, &world.servers[0].key()).unwrap();
        world.callers[other].say(&packet);
        world.settle();
        assert!(world.callers[other].is_closed());
    }
    assert!(world.cancels.is_empty());
    world.servers[0].stalled = false;
    world.settle();
    assert_eq!(world.callers[client].heard(), "R");
}

#[test]
fn a_shutdown_while_a_question_runs_is_bounded() {
    for how in [
        Shutdown::Now,
        Shutdown::WaitForServers,
        Shutdown::WaitForClients,
    ] {
        let (mut world, client) = asking("drain_timeout = 30\nclient_login_timeout = 20");
        world.shut_down(how);
        world.servers[0].stalled = false;
        world.settle();
        if how == Shutdown::WaitForClients {
            let mut message = Vec::new();
            encode::password(&mut message, b"pencil").unwrap();
            let heard = world.ask(client, &message);
            assert!(heard.ends_with("Z(I)"), "{how:?}: {heard}");
            world.ask(client, &say().terminate());
        }
        world.advance(Duration::from_secs(20));
        assert!(world.workers[0].ending.is_over(), "{how:?}");
        assert!(world.callers[client].is_closed(), "{how:?}");
        assert_eq!(world.live_servers(), 0, "{how:?}");
    }
}

#[test]
fn an_answer_is_believed_for_a_while_if_that_is_wished() {
    let mut world = world_with("auth_query_cache_ttl = 10");
    for _ in 0..3 {
        assert_eq!(outcome(&mut world, "ann", "pencil"), "in");
    }
    assert_eq!(lock(&world.catalog).looked_up.len(), 1);
    // A failure may mean that the secret is new.
    lock(&world.catalog).rows[0].1[0][1] = Some("crayon");
    assert_eq!(outcome(&mut world, "ann", "crayon"), FAILED);
    assert_eq!(outcome(&mut world, "ann", "crayon"), "in");
    assert_eq!(outcome(&mut world, "ann", "pencil"), FAILED);
    world.advance(Duration::from_secs(10));
    let before = lock(&world.catalog).looked_up.len();
    assert_eq!(outcome(&mut world, "ann", "crayon"), "in");
    assert_eq!(lock(&world.catalog).looked_up.len(), before + 1);
}

#[test]
fn a_user_of_auth_query_waits_for_a_host_that_cannot_be_reached() {
    let mut world = world();
    world.host = Host::Refuses;
    let client = try_in(&mut world, "ann", &[], "pencil");
    world.advance(Duration::from_secs(20));
    assert_eq!(world.callers[client].heard(), "");
    world.host = Host::Accepts;
    world.advance(Duration::from_secs(16));
    assert_eq!(
        world.callers[client].heard(),
        "R",
        "is asked for the password"
    );
}
