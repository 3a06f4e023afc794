//! Requests that run again after the loss of their only host's server.

use std::time::Duration;

use weir_testkit::backend::Database;
use weir_testkit::say::say;

use super::postgres::Postgres;
use super::world::{Host, TwoHosts, World};
use crate::driver::memory::End;

const HOWS: [End; 2] = [End::Orderly, End::Reset];
const SEEN: &str = "T D(y) C(SELECT 1) Z(I)";

/// Makes a world of one worker with a client that has had a server, and a catalogue.
fn begun(lines: &str) -> (World, usize) {
    let lines = format!("query_wait_notify = 0\ndefault_pool_size = 2\n{lines}");
    let mut world = World::new(1, &lines);
    world.database = Some(Database::default());
    let client = world.login();
    world.know_catalogue();
    assert_eq!(world.ask(client, &read()), SEEN);
    (world, client)
}

fn read() -> Vec<u8> {
    say().query("SELECT 'y'").into_bytes()
}

/// Lets a client send these bytes, and the newest server do their work. Its answer is not sent.
fn at_work<'w>(world: &'w mut World, client: usize, said: &[u8]) -> &'w mut Postgres {
    world.callers[client].say(said);
    world.callers[client].serve();
    world.turn(0);
    let alive = world.servers.iter().rposition(|server| server.is_alive());
    let server = &mut world.servers[alive.expect("a server")];
    server.hear();
    while server.work() {}
    server
}

/// Lets a client send these bytes, and its server do their work and end before any answer. Returns what the client got.
fn lost(world: &mut World, client: usize, said: &[u8], (last_word, how): (bool, End)) -> String {
    let server = at_work(world, client, said);
    server.discard_unsent();
    server.die(last_word, how);
    world.settle();
    world.callers[client].heard()
}

#[test]
fn a_read_whose_server_is_lost_before_it_answers_runs_again() {
    let extended = say().parse("", "SELECT 'y'").run("").sync().into_bytes();
    for how in HOWS {
        for last_word in [false, true] {
            for said in [read(), extended.clone()] {
                let (mut world, client) = begun("");
                let answer = world.ask(client, &said);
                let heard = lost(&mut world, client, &said, (last_word, how));
                assert_eq!(heard, answer, "{how:?} {last_word}");
                assert_eq!(world.ask(client, &read()), SEEN);
            }
        }
    }
}

/// Number of servers that clients have.
fn leases(world: &World) -> usize {
    let servers = world.workers[0].tables.servers.iter();
    servers.filter(|(_, server)| server.lease.is_some()).count()
}

#[test]
fn a_read_runs_again_whose_server_the_client_has_kept_for_a_sequence() {
    const NEXT: &str = "SELECT nextval('public.seq_1')";
    for how in HOWS {
        let (mut world, client) = begun("session_state = track");
        for _ in 0..2 {
            assert!(world.ask(client, &say().query(NEXT)).ends_with("Z(I)"));
        }
        assert_eq!(leases(&world), 1, "kept");
        assert_eq!(world.ask(client, &read()), SEEN);
        assert_eq!(leases(&world), 1, "still kept");
        let heard = lost(&mut world, client, &read(), (true, how));
        assert_eq!(heard, SEEN, "{how:?}");
        // What reads the sequence's value is bound to the server.
        assert!(world.ask(client, &say().query(NEXT)).ends_with("Z(I)"));
        let said = say().query("SELECT currval('public.seq_1')");
        let heard = lost(&mut world, client, &said, (true, how));
        assert!(heard.starts_with("E(FATAL "), "{heard}");
    }
}

#[test]
fn a_begin_whose_server_is_lost_runs_again() {
    for text in ["BEGIN", "START TRANSACTION READ ONLY"] {
        let (mut world, client) = begun("");
        let heard = lost(&mut world, client, &say().query(text), (true, End::Orderly));
        assert!(heard.ends_with("Z(T)"), "{text}: {heard}");
        assert!(world.ask(client, &say().query("COMMIT")).ends_with("Z(I)"));
    }
}

#[test]
fn what_may_have_done_something_is_lost_with_its_server() {
    for text in [
        "SELECT nextval('public.seq_1')",
        "SELECT f()",
        "INSERT INTO t VALUES (1)",
        "SELECT 'y' FOR UPDATE",
        "SELECT 'y'; INSERT INTO t VALUES (1)",
        "SET app.x = 'y'",
    ] {
        let (mut world, client) = begun("");
        let heard = lost(&mut world, client, &say().query(text), (true, End::Orderly));
        assert_eq!(
            heard,
            "E(FATAL 57P01 terminating connection due to administrator command)"
        );
        assert!(world.callers[client].is_closed(), "{text}");
    }
}

/// Has all servers crash when the first one has answered this request but for ReadyForQuery. Returns what the client heard.
fn crashes_behind_the_reply(text: &str) -> (String, bool) {
    let (mut world, client) = begun("");
    let server = at_work(&mut world, client, &say().query(text));
    server.crash_behind(server.unsent() - 6);
    world.settle();
    let heard = world.callers[client].heard();
    (heard, world.callers[client].is_closed())
}

#[test]
fn a_read_runs_again_whose_reply_a_crash_has_broken_off() {
    // The signal comes when the reply is in PostgreSQL's buffer: both come in one packet.
    assert_eq!(crashes_behind_the_reply("SELECT 'y'"), (SEEN.into(), false));
}

#[test]
fn a_reply_that_a_crash_follows_in_the_same_packet_is_told() {
    let (mut world, client) = begun("");
    let server = at_work(&mut world, client, &read());
    server.crash_behind(server.unsent());
    world.settle();
    let heard = world.callers[client].heard();
    assert!(heard.starts_with(SEEN), "{heard}");
    assert_eq!(world.ask(client, &read()), SEEN);
}

#[test]
fn the_reply_to_a_write_that_a_crash_has_broken_off_is_told() {
    let text = "BEGIN; SELECT nextval('public.seq_1'); COMMIT; SELECT 'y'";
    let (heard, is_closed) = crashes_behind_the_reply(text);
    assert!(heard.contains("C(COMMIT)"), "{heard}");
    assert!(heard.contains("N(FATAL 57P02 "), "{heard}");
    let last = "E(FATAL 08007 server conn crashed? the outcome of the transaction is unknown)";
    assert!(heard.ends_with(last) && is_closed, "{heard}");
}

#[test]
fn what_a_server_has_said_before_its_last_word_is_told_if_nothing_runs_again() {
    // Both come in one packet. The first statement is committed.
    let text = "BEGIN; SELECT nextval('public.seq_1'); COMMIT; SELECT 'y'";
    let (mut world, client) = begun("");
    let server = at_work(&mut world, client, &say().query(text));
    // All but ReadyForQuery.
    let len = server.unsent() - 6;
    server.speak(len);
    server.discard_unsent();
    server.die(true, End::Orderly);
    world.settle();
    let heard = world.callers[client].heard();
    assert!(heard.contains("C(COMMIT)"), "{heard}");
    assert!(
        heard.ends_with("E(FATAL 57P01 terminating connection due to administrator command)"),
        "{heard}"
    );
}

#[test]
fn what_nobody_can_judge_is_lost_with_its_server() {
    let mut without_catalogue = World::new(1, "query_wait_notify = 0");
    without_catalogue.database = Some(Database::default());
    let client = without_catalogue.login();
    let without_catalogue = (without_catalogue, client);
    let (off, in_session) = (begun("failover_hold = 0"), begun("pool_mode = session"));
    for (mut world, client) in [without_catalogue, off, in_session] {
        let heard = lost(&mut world, client, &read(), (false, End::Reset));
        assert!(heard.contains("FATAL 0800"), "{heard}");
    }
}

#[test]
fn a_batch_that_defines_its_names_anew_is_lost_with_its_server() {
    // The statement `s` writes when it is used, and reads afterwards.
    let write = say()
        .parse("s", "INSERT INTO t VALUES (1)")
        .sync()
        .into_bytes();
    let anew = say()
        .run("s")
        .close_statement("s")
        .parse("s", "SELECT 'y'")
        .sync();
    let unnamed = say()
        .parse("", "INSERT INTO t VALUES (1)")
        .sync()
        .into_bytes();
    let unnamed_anew = say().run("").parse("", "SELECT 'y'").sync();
    for (before, said) in [(write, anew), (unnamed, unnamed_anew)] {
        let (mut world, client) = begun("");
        world.ask(client, &before);
        let heard = lost(&mut world, client, &said, (false, End::Reset));
        assert!(heard.contains("FATAL 08007"), "{heard}");
    }
}

#[test]
fn a_read_that_its_batch_prepares_with_a_name_runs_again() {
    let anew = |name: &str| {
        let closed = say().close_statement(name).parse(name, "SELECT 'y'");
        closed.run(name).sync().into_bytes()
    };
    let first = say().parse("s", "SELECT 'y'").run("s").sync().into_bytes();
    for how in HOWS {
        for said in [first.clone(), anew("s"), anew("before")] {
            let (mut world, client) = begun("");
            world.ask(
                client,
                &say().parse("before", "INSERT INTO t VALUES (1)").sync(),
            );
            let heard = lost(&mut world, client, &said, (true, how));
            assert!(heard.ends_with("D(y) C(SELECT 1) Z(I)"), "{how:?} {heard}");
        }
        let (mut world, client) = begun("");
        lost(&mut world, client, &first, (true, how));
        // The name has its statement.
        let heard = world.ask(client, &say().run("s").sync());
        assert!(heard.ends_with("D(y) C(SELECT 1) Z(I)"), "{heard}");
    }
}

/// Lets a client run its statement `s` on a new server, which prepares it first and compares its columns. That server works
/// for this number of steps and ends. Returns what the client got, and true if its server had got the request.
fn lost_in_comparison(text: &str, steps: usize) -> (String, bool) {
    let (mut world, client) = begun("");
    world.ask(client, &say().parse("s", text).run("s").sync());
    let other = world.login();
    world.ask(other, &say().query("BEGIN"));
    let third = world.login();
    world.ask(third, &read());
    let run = say().run("s").sync();
    world.callers[client].say(&run);
    world.callers[client].serve();
    world.turn(0);
    let server = world.servers.iter().rposition(|server| server.is_alive());
    let server = server.expect("a server");
    for _ in 0..steps {
        let server = &mut world.servers[server];
        server.hear();
        server.work();
        server.serve();
        world.turn(0);
    }
    let has_begun = world.workers[0]
        .tables
        .clients
        .iter()
        .all(|(_, it)| it.input.is_empty());
    let server = &mut world.servers[server];
    server.hear();
    while server.work() {}
    server.discard_unsent();
    server.die(true, End::Orderly);
    world.settle();
    (world.callers[client].heard(), has_begun)
}

#[test]
fn a_read_whose_statement_is_compared_first_runs_again() {
    for steps in 0..4 {
        let (heard, _) = lost_in_comparison("SELECT 'y'", steps);
        assert_eq!(heard, "2 D(y) C(SELECT 1) Z(I)", "{steps}");
    }
}

#[test]
fn a_write_that_waits_for_a_comparison_begins_elsewhere() {
    const DONE: &str = "2 D(y) C(SELECT 1) Z(I)";
    let lost = "E(FATAL 57P01 terminating connection due to administrator command)";
    let text = "SELECT note('y')";
    assert_eq!(lost_in_comparison(text, 0), (DONE.to_owned(), false));
    assert_eq!(lost_in_comparison(text, 1), (lost.to_owned(), true));
    assert_eq!(
        lost_in_comparison(text, 2),
        (DONE.to_owned(), true),
        "answered"
    );
}

#[test]
fn a_batch_that_prepares_a_name_twice_is_lost_with_its_server() {
    let (mut world, client) = begun("");
    world.ask(client, &say().parse("s", "SELECT 'y'").sync());
    let again = say().parse("s", "SELECT 'z'").run("s").sync();
    assert!(world.ask(client, &again).contains("42P05"));
    let heard = lost(&mut world, client, &again, (false, End::Reset));
    assert!(heard.contains("FATAL 08007"), "{heard}");
}

#[test]
fn a_read_with_more_behind_it_is_lost_with_its_server() {
    let two = [read(), read()].concat();
    let (mut world, client) = begun("");
    let heard = lost(&mut world, client, &two, (false, End::Reset));
    assert!(heard.contains("FATAL 08007"), "{heard}");

    // The second one arrives later.
    let (mut world, client) = begun("");
    world.callers[client].say(&read());
    world.callers[client].serve();
    world.turn(0);
    let heard = lost(&mut world, client, &read(), (false, End::Reset));
    assert!(heard.contains("FATAL 08007"), "{heard}");
}

#[test]
fn a_read_waits_for_the_restart_and_runs_then() {
    let (mut world, client) = begun("server_login_retry = 1");
    world.host = Host::Refuses;
    assert_eq!(lost(&mut world, client, &read(), (true, End::Orderly)), "");
    world.advance(Duration::from_secs(2));
    assert_eq!(world.callers[client].heard(), "");
    world.host = Host::Accepts;
    world.advance(Duration::from_secs(2));
    assert_eq!(world.callers[client].heard(), SEEN);
}

#[test]
fn a_read_that_crashes_its_server_runs_three_times_and_no_more() {
    let (mut world, client) = begun("");
    world.callers[client].say(&read());
    let mut runs = 0;
    // Each server that has got the request ends, before it answers.
    while !world.callers[client].is_closed() {
        world.callers[client].serve();
        world.turn(0);
        for server in &mut world.servers {
            server.hear();
            let asked = server.asked.len();
            server.begin();
            if server.asked.len() > asked {
                runs += 1;
                server.die(false, End::Reset);
            } else {
                server.serve();
            }
        }
    }
    assert_eq!(runs, 3);
}

#[test]
fn a_read_that_an_administrator_may_have_ended_is_not_run_again() {
    let (mut world, client) = begun("");
    world.callers[client].say(&read());
    world.callers[client].serve();
    world.turn(0);
    world.pass(Duration::from_secs(1));
    world.servers[0].die(true, End::Orderly);
    world.settle();
    let heard = world.callers[client].heard();
    assert_eq!(
        heard,
        "E(FATAL 57P01 terminating connection due to administrator command)"
    );
}

#[test]
fn a_read_that_a_crash_has_cut_off_runs_again_however_long_it_ran() {
    let (mut world, client) = begun("");
    world.callers[client].say(&read());
    world.callers[client].serve();
    world.turn(0);
    world.pass(Duration::from_secs(20));
    world.servers[0].crash();
    world.settle();
    assert_eq!(world.callers[client].heard(), SEEN);
}

#[test]
fn the_settings_of_a_client_are_there_when_its_read_runs_again() {
    let (mut world, client) = begun("default_pool_size = 1");
    world.ask(client, &say().query("SET TimeZone = 'CET'"));
    let other = world.login();
    world.ask(other, &read());
    for last_word in [false, true] {
        let heard = lost(&mut world, client, &read(), (last_word, End::Reset));
        assert_eq!(heard, SEEN);
        let zone = world.ask(client, &say().query("SHOW TimeZone"));
        assert!(zone.contains("D(CET)"), "{zone}");
    }
}

/// Lets the host of a client's request be lost before any answer. Returns the client's next words.
fn lost_at(hosts: &mut TwoHosts, client: usize, said: &[u8], host: usize) -> String {
    let world = &mut hosts.world;
    world.callers[client].say(said);
    world.callers[client].serve();
    world.turn(0);
    let at_host = world.servers.iter_mut().filter(|server| {
        let site = server.site.as_ref();
        server.is_alive() && site.is_some_and(|site| site.host() == host)
    });
    for server in at_host {
        server.die(true, End::Orderly);
    }
    world.settle();
    world.callers[client].heard()
}

#[test]
fn a_read_runs_again_without_a_split() {
    let mut hosts = TwoHosts::split("off");
    let client = hosts.world.login();
    hosts.world.know_catalogue();
    assert_eq!(hosts.world.ask(client, &read()), SEEN);
    assert_eq!(lost_at(&mut hosts, client, &read(), 0), SEEN);
    let write = say().query("SELECT nextval('public.seq_1')");
    assert!(lost_at(&mut hosts, client, &write, 0).contains("FATAL 57P01"));
}

#[test]
fn a_read_only_block_that_is_lost_with_its_replica_begins_again() {
    let begin = say().query("BEGIN READ ONLY");
    let mut hosts = TwoHosts::new();
    let client = hosts.world.login();
    assert!(hosts.world.ask(client, &begin).ends_with("Z(T)"));
    assert!(
        hosts
            .world
            .ask(client, &say().query("COMMIT"))
            .ends_with("Z(I)")
    );
    let heard = lost_at(&mut hosts, client, &begin, 1);
    assert!(
        heard.ends_with("C(START TRANSACTION) Z(T)") || heard.ends_with("C(BEGIN) Z(T)"),
        "{heard}"
    );
    assert!(hosts.world.ask(client, &read()).contains("D(y)"));
    assert!(
        hosts
            .world
            .ask(client, &say().query("COMMIT"))
            .ends_with("Z(I)")
    );
}
