//! Clients and servers that disconnect at any byte: which errors follow, and that all counts balance afterwards.

use std::time::Duration;

use weir_testkit::say::{Say, say};

use super::world::World;
use crate::driver::memory::End;

const HOWS: [End; 2] = [End::Orderly, End::Reset];

/// Returns a conversation of three requests, each of another kind.
fn talk() -> Say {
    let simple = say().query("begin;rows 2 a");
    let extended = simple.parse("s", "row b").run("s").sync().query("copy in");
    extended.copy_data("line").copy_done().query("commit")
}

/// Checks that another client gets a clean server within the time for cleaning, and that nothing of the first client is
/// left.
fn is_as_new(world: &mut World) {
    world.advance(Duration::from_secs(3));
    world.host = super::world::Host::Accepts;
    let other = world.login();
    assert_eq!(
        world.ask(other, &say().query("row mine")),
        "T D(mine) C(SELECT 1) Z(I)"
    );
    world.ask(other, &say().terminate());
    world.check_empty();
    assert!(world.live_servers() <= 1);
}

#[test]
fn cor_01_a_client_vanishes_at_every_byte_of_what_it_sends() {
    let said = talk();
    for how in HOWS {
        for cut in 0..=said.len() {
            let mut world = World::new(1, "default_pool_size = 1");
            let client = world.login();
            world.ask(client, &said[..cut]);
            world.callers[client].leave(how);
            is_as_new(&mut world);
        }
    }
}

#[test]
fn cor_01_a_client_vanishes_at_every_byte_of_what_it_is_sent() {
    for how in HOWS {
        for cut in 0..120 {
            let mut world = World::new(1, "default_pool_size = 1");
            let client = world.login();
            world.callers[client].say(&talk());
            world.callers[client].serve();
            world.turn(0);
            world.servers[0].hear();
            while world.servers[0].work() {}
            world.servers[0].speak(cut);
            world.turn(0);
            world.callers[client].leave(how);
            is_as_new(&mut world);
        }
    }
}

#[test]
fn a_client_vanishes_at_every_byte_of_its_login() {
    for how in HOWS {
        for cut in 0..60 {
            let mut world = World::new(1, "default_pool_size = 1");
            let client = world.dial("ann", &[("TimeZone", "CET")]);
            world.callers[client].send_some(cut);
            world.turn(0);
            world.callers[client].leave(how);
            is_as_new(&mut world);
        }
    }
}

/// Ends the server of a client that sent `said` after `cut` bytes of its replies. Returns what the client received.
fn cut_off(said: &[u8], cut: usize, how: End, last_word: bool) -> (World, usize, String) {
    let mut world = World::new(1, "default_pool_size = 1");
    let client = world.login();
    let (heard, _) = world.ask_in_vain(client, said, cut, (last_word, how));
    (world, client, heard)
}

#[test]
fn cor_21_a_server_vanishes_at_every_byte_of_its_replies() {
    let said = say().query("row a").query("begin;row b");
    let whole = "T D(a) C(SELECT 1) Z(I) C(BEGIN) T D(b) C(SELECT 1) Z(T)";
    for how in HOWS {
        for cut in 0..300 {
            let (mut world, client, heard) = cut_off(&said, cut, how, false);
            assert!(
                world.callers[client].is_closed(),
                "its transaction is lost: {heard}"
            );
            // Once the block is open, nothing of it is committed.
            let code = match heard.contains("Z(T)") {
                true => "FATAL 08006",
                false => "FATAL 08007",
            };
            let errors = heard.matches(code).count();
            // An error cannot be sent in the middle of a row: the connection just ends.
            assert!(errors == 1 || heard.contains("bytes"), "at {cut}: {heard}");
            let before = heard.split(" E(").next().unwrap();
            let before = before.split(" +").next().unwrap();
            let fits =
                whole.starts_with(before) || before.starts_with("E(") || before.starts_with('+');
            assert!(fits, "at {cut}: {heard}");
            is_as_new(&mut world);
        }
    }
}

#[test]
fn cor_20_a_last_word_is_passed_on_exactly_once_wherever_it_comes() {
    let said = say().query("row a").query("begin;row b");
    let mut ends = Vec::new();
    let mut at = 0;
    let replies = weir_testkit::backend::Backend::default().converse(&said);
    for message in weir_testkit::reading::messages(&replies).0 {
        ends.push(at);
        at += message.raw.len();
    }
    ends.push(at);
    for cut in ends {
        let (mut world, client, heard) = cut_off(&said, cut, End::Orderly, true);
        assert!(world.callers[client].is_closed());
        assert_eq!(heard.matches("FATAL").count(), 1, "at {cut}: {heard}");
        assert!(heard.contains("FATAL 57P01"), "at {cut}: {heard}");
        is_as_new(&mut world);
    }
}

#[test]
fn cor_20_idle_clients_do_not_notice_that_servers_end() {
    for (last_word, how) in [
        (true, End::Orderly),
        (false, End::Orderly),
        (false, End::Reset),
    ] {
        let mut world = World::new(1, "default_pool_size = 1");
        let client = world.login();
        world.ask(client, &say().query("row a"));
        world.servers[0].die(last_word, how);
        world.settle();
        assert_eq!(world.callers[client].heard(), "");
        assert_eq!(
            world.ask(client, &say().query("row b")),
            "T D(b) C(SELECT 1) Z(I)"
        );
    }
}

#[test]
fn a_server_that_talks_nonsense_costs_its_client_one_error() {
    let mut world = World::new(1, "default_pool_size = 1");
    let client = world.login();
    world.callers[client].say(&say().query("row a"));
    world.callers[client].serve();
    world.turn(0);
    world.servers[0]
        .peer
        .send(b"C\0\0\0\x09BEGIN\0Z\0\0\0\x05I2\0\0\0\x04");
    world.settle();
    let heard = world.callers[client].heard();
    assert!(world.callers[client].is_closed());
    assert_eq!(heard.matches("FATAL 08007").count(), 1, "{heard}");
}

/// Ends the server of a client without a word once it has executed `said`, in a block. Returns the error.
fn lost_in_block(said: &[u8]) -> String {
    let mut world = World::new(1, "default_pool_size = 1");
    let client = world.login();
    world.ask(
        client,
        &say().parse("c", "commit").parse("r", "row b").sync(),
    );
    let begun = world.ask(client, &say().query("begin").query("row a"));
    assert!(begun.ends_with("Z(T)"), "{begun}");
    world.ask_in_vain(client, said, 0, (false, End::Orderly)).0
}

#[test]
fn a_commit_without_an_answer_is_told_as_unknown_and_other_losses_are_not() {
    let commit = say().parse("", "commit").bind("", "").execute("", 0);
    for (said, is_unknown) in [
        (say().query("commit"), true),
        (say().query("row b;commit"), true),
        (commit.sync(), true),
        (say().query("row b"), false),
        (
            say().parse("", "row b").bind("", "").execute("", 0).sync(),
            false,
        ),
        (say().bind("", "c").execute("", 0).sync(), true),
        (say().bind("", "r").execute("", 0).sync(), false),
    ] {
        let heard = lost_in_block(&said);
        let code = if is_unknown { "08007" } else { "08006" };
        assert!(heard.contains(&format!("FATAL {code}")), "{heard}");
    }
}

/// Runs `do it` on the only server for a client that then sends Terminate. Returns the world and the client that waits
/// next.
fn left_at_work(after: Duration) -> (World, usize) {
    let mut world = World::new(1, "default_pool_size = 1");
    world.cancels_at_once = false;
    let (client, other) = (world.login(), world.login());
    world.callers[client].say(&say().query("do it"));
    world.callers[client].serve();
    world.turn(0);
    world.servers[0].hear();
    assert!(world.servers[0].begin());
    world.servers[0].stalled = true;
    world.advance(after);
    world.callers[client].say(&say().terminate());
    world.callers[other].say(&say().query("row mine"));
    world.settle();
    assert!(world.callers[client].is_closed());
    (world, other)
}

#[test]
fn work_that_a_terminate_follows_at_once_is_finished() {
    let (mut world, other) = left_at_work(Duration::ZERO);
    world.advance(Duration::from_millis(900));
    assert!(world.cancels.is_empty(), "it has a second");
    world.servers[0].stalled = false;
    world.settle();
    assert_eq!(world.servers[0].asked[0], "do it");
    assert_eq!(world.callers[other].heard(), "T D(mine) C(SELECT 1) Z(I)");
    assert_eq!(world.live_servers(), 1);
    world.advance(Duration::from_secs(3));
    assert!(world.cancels.is_empty());
}

#[test]
fn work_that_runs_on_after_a_terminate_is_cancelled_in_time() {
    let (mut world, other) = left_at_work(Duration::ZERO);
    world.advance(Duration::from_millis(1_000));
    assert_eq!(world.cancels.len(), 1);
    assert!(world.signal(0));
    world.cancels_at_once = true;
    world.servers[0].stalled = false;
    world.settle();
    assert_eq!(world.callers[other].heard(), "T D(mine) C(SELECT 1) Z(I)");
    assert_eq!(world.live_servers(), 1, "cancelled, not closed");
}

/// Guards against a cancel that hits BEGIN while the INSERT behind it is committed.
#[test]
fn work_that_more_was_asked_behind_is_not_cancelled() {
    let mut world = World::new(1, "default_pool_size = 1");
    world.cancels_at_once = false;
    let (client, other) = (world.login(), world.login());
    let all = say().query("do it").query("row last").terminate();
    world.callers[client].say(&all);
    world.callers[client].serve();
    world.turn(0);
    world.servers[0].hear();
    assert!(world.servers[0].begin());
    world.servers[0].stalled = true;
    world.callers[other].say(&say().query("row mine"));
    world.advance(Duration::from_millis(1_500));
    assert!(world.cancels.is_empty(), "it would hit the first");
    world.advance(Duration::from_millis(600));
    assert!(
        !world.servers[0].is_alive(),
        "PostgreSQL finds the connection closed"
    );
    assert_eq!(world.callers[other].heard(), "T D(mine) C(SELECT 1) Z(I)");
}

#[test]
fn old_work_of_a_client_that_says_terminate_is_cancelled_at_once() {
    let (mut world, other) = left_at_work(Duration::from_secs(1));
    assert_eq!(world.cancels.len(), 1);
    assert!(world.signal(0));
    world.cancels_at_once = true;
    world.servers[0].stalled = false;
    world.settle();
    assert_eq!(world.callers[other].heard(), "T D(mine) C(SELECT 1) Z(I)");
}

#[test]
fn a_frozen_server_is_closed_when_its_client_has_said_terminate() {
    let (mut world, other) = left_at_work(Duration::ZERO);
    world.advance(Duration::from_millis(1_900));
    assert_eq!(world.callers[other].heard(), "");
    world.advance(Duration::from_millis(200));
    assert_eq!(world.callers[other].heard(), "T D(mine) C(SELECT 1) Z(I)");
    assert_eq!(world.live_servers(), 1, "another one");
}

#[test]
fn an_orderly_good_bye_lets_what_was_asked_finish() {
    let mut world = World::new(1, "default_pool_size = 1");
    let client = world.login();
    world.callers[client].say(&say().query("do it").terminate());
    world.callers[client].serve();
    world.turn(0);
    assert!(world.callers[client].is_closed());
    world.settle();
    assert_eq!(world.servers[0].asked[0], "do it");
    assert!(world.cancels.is_empty());
    is_as_new(&mut world);
}
