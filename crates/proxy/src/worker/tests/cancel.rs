//! Cancels hit the statement of the client that sent them, or nothing (COR-24, COR-25).

use std::time::Duration;

use weir_testkit::say::say;

use super::world::World;
use crate::driver::memory::End;

const HIT: &str = "E(57014 canceling statement due to user request)";

/// Returns a world with one server, a client whose query runs on it, and a client that waits for it.
fn busy() -> (World, usize, usize) {
    let mut world = World::new(1, "default_pool_size = 1\nquery_wait_notify = 0");
    world.cancels_at_once = false;
    let (one, other) = (world.login(), world.login());
    world.callers[one].say(&say().query("row one"));
    world.callers[one].serve();
    world.turn(0);
    world.servers[0].hear();
    assert!(world.servers[0].begin());
    (world, one, other)
}

/// Lets clients and workers run, but no server.
fn go_on(world: &mut World) {
    go_on_for(world, Duration::ZERO);
}

fn go_on_for(world: &mut World, time: Duration) {
    for server in &mut world.servers {
        server.stalled = true;
    }
    world.advance(time);
    for server in &mut world.servers {
        server.stalled = false;
    }
}

#[test]
fn a_cancel_stops_what_its_client_runs_and_its_connection_closes_afterwards() {
    let (mut world, one, _) = busy();
    let asker = world.request_cancel(one);
    go_on(&mut world);
    assert_eq!(world.cancels.len(), 1);
    assert!(!world.callers[asker].is_closed(), "the cancel is not over");
    assert!(world.signal(0));
    world.cancels.remove(0).peer.end(End::Orderly);
    world.settle();
    assert!(world.callers[asker].is_closed());
    assert_eq!(world.callers[one].heard(), format!("{HIT} Z(I)"));
    assert_eq!(
        world.ask(one, &say().query("row x")),
        "T D(x) C(SELECT 1) Z(I)"
    );
}

#[test]
fn cor_24_a_server_is_not_given_away_before_the_cancel_is_over_and_a_ping_was_answered() {
    let (mut world, one, other) = busy();
    world.request_cancel(one);
    go_on(&mut world);
    // The query ends by itself, and a client waits for the server.
    world.settle();
    assert_eq!(world.callers[one].heard(), "T D(one) C(SELECT 1) Z(I)");
    assert_eq!(world.ask(other, &say().query("row other")), "");
    // The late signal: nothing runs that it could hit.
    assert!(!world.signal(0));
    world.settle();
    assert_eq!(world.callers[other].heard(), "");
    world.cancels.remove(0).peer.end(End::Orderly);
    world.settle();
    assert_eq!(world.callers[other].heard(), "T D(other) C(SELECT 1) Z(I)");
    assert_eq!(world.servers[0].asked, ["row one", "", "row other"]);
}

#[test]
fn cor_24_a_server_goes_when_a_cancel_to_it_never_ends() {
    let (mut world, one, other) = busy();
    world.request_cancel(one);
    go_on(&mut world);
    world.settle();
    world.ask(other, &say().query("row other"));
    // server_connect_timeout or cancel_wait_timeout, whichever is first.
    world.advance(Duration::from_secs(16));
    assert_eq!(world.callers[other].heard(), "T D(other) C(SELECT 1) Z(I)");
    assert_eq!(
        world
            .servers
            .iter()
            .filter(|server| server.is_alive())
            .count(),
        1
    );
    assert_eq!(
        world.servers.last().unwrap().asked,
        ["row other"],
        "on a new server"
    );
}

#[test]
fn cor_24_a_server_goes_after_its_query_when_a_cancel_of_it_was_given_up() {
    let (mut world, one, other) = busy();
    world.request_cancel(one);
    go_on(&mut world);
    // server_connect_timeout gives the cancel up while the query still runs: the signal may come at any time.
    go_on_for(&mut world, Duration::from_secs(16));
    assert_eq!(world.callers[one].heard(), "");
    world.settle();
    assert_eq!(world.callers[one].heard(), "T D(one) C(SELECT 1) Z(I)");
    assert_eq!(
        world.ask(other, &say().query("row other")),
        "T D(other) C(SELECT 1) Z(I)"
    );
    let last = world.servers.last().unwrap();
    assert_eq!(last.asked, ["row other"], "on a new server");
}

#[test]
fn cor_24_a_server_goes_after_its_query_when_the_connection_of_a_cancel_broke() {
    let (mut world, one, other) = busy();
    world.request_cancel(one);
    go_on(&mut world);
    // The request was sent, and may still be read.
    world.cancels.remove(0).peer.end(End::Reset);
    go_on(&mut world);
    assert_eq!(world.callers[one].heard(), "");
    world.settle();
    assert_eq!(world.callers[one].heard(), "T D(one) C(SELECT 1) Z(I)");
    assert_eq!(
        world.ask(other, &say().query("row other")),
        "T D(other) C(SELECT 1) Z(I)"
    );
    let last = world.servers.last().unwrap();
    assert_eq!(last.asked, ["row other"], "on a new server");
}

#[test]
fn cor_24_of_two_cancels_both_have_to_be_over_before_the_server_is_given_away() {
    let (mut world, one, other) = busy();
    for _ in 0..2 {
        world.request_cancel(one);
        go_on(&mut world);
    }
    assert_eq!(world.cancels.len(), 2);
    world.settle();
    assert_eq!(world.callers[one].heard(), "T D(one) C(SELECT 1) Z(I)");
    assert_eq!(world.ask(other, &say().query("row other")), "");
    for expected in ["", "T D(other) C(SELECT 1) Z(I)"] {
        world.cancels.remove(0).peer.end(End::Orderly);
        world.settle();
        assert_eq!(world.callers[other].heard(), expected);
    }
}

#[test]
fn a_cancel_of_an_idle_client_reaches_no_server() {
    let mut world = World::new(1, "default_pool_size = 1");
    world.cancels_at_once = false;
    let client = world.login();
    world.ask(client, &say().query("row x"));
    let asker = world.request_cancel(client);
    world.settle();
    assert!(world.callers[asker].is_closed());
    assert!(world.cancels.is_empty());
}

#[test]
fn a_cancel_at_every_byte_of_a_query_ends_in_its_reply_or_one_error() {
    let said = say().query("row x");
    for cut in 0..=said.len() {
        let mut world = World::new(1, "default_pool_size = 1");
        let (client, other) = (world.login(), world.login());
        let mut heard = world.ask(client, &said[..cut]);
        world.request_cancel(client);
        world.callers[client].say(&said[cut..]);
        world.settle();
        heard += &world.callers[client].heard();
        assert_eq!(
            heard, "T D(x) C(SELECT 1) Z(I)",
            "nothing ran when it came, at {cut}"
        );
        assert_eq!(
            world.ask(other, &say().query("row y")),
            "T D(y) C(SELECT 1) Z(I)"
        );
    }
}

#[test]
fn cor_25_a_cancel_of_a_waiting_client_is_answered_without_a_server() {
    let (mut world, one, other) = busy();
    world.callers[other].say(&say().query("row other").query("row next"));
    go_on(&mut world);
    let asker = world.request_cancel(other);
    go_on(&mut world);
    assert!(world.callers[asker].is_closed());
    assert_eq!(
        world.callers[other].heard(),
        "E(57014 canceling statement due to user request) Z(I)"
    );
    world.settle();
    assert_eq!(world.callers[one].heard(), "T D(one) C(SELECT 1) Z(I)");
    assert_eq!(world.callers[other].heard(), "T D(next) C(SELECT 1) Z(I)");
    assert_eq!(world.servers[0].asked, ["row one", "row next"]);
}

#[test]
fn cor_25_a_cancelled_waiter_leaves_its_place_in_the_queue_to_the_next() {
    let mut world = World::new(1, "default_pool_size = 1\nquery_wait_notify = 0");
    let (holder, waiter, next) = (world.login(), world.login(), world.login());
    world.ask(holder, &say().query("begin"));
    world.ask(waiter, &say().query("row waiter"));
    world.request_cancel(waiter);
    world.settle();
    assert!(world.callers[waiter].heard().ends_with("Z(I)"));
    world.ask(next, &say().query("row next"));
    world.ask(holder, &say().query("commit"));
    let heard = world.callers[next].heard();
    assert_eq!(heard, "T D(next) C(SELECT 1) Z(I)");
    assert_eq!(world.servers[0].asked, ["begin", "commit", "row next"]);
}

#[test]
fn cor_25_a_cancelled_batch_of_a_waiting_client_is_answered_at_its_sync() {
    let (mut world, _, other) = busy();
    world.callers[other].say(&say().parse("s", "row other").run("s"));
    go_on(&mut world);
    world.request_cancel(other);
    go_on(&mut world);
    let error = "E(57014 canceling statement due to user request)";
    assert_eq!(world.callers[other].heard(), error);
    world.callers[other].say(&say().sync());
    go_on(&mut world);
    assert_eq!(world.callers[other].heard(), "Z(I)");
    world.settle();
    assert_eq!(
        world.ask(other, &say().query("row x")),
        "T D(x) C(SELECT 1) Z(I)"
    );
}

#[test]
fn a_cancel_with_a_wrong_key_does_nothing() {
    let (mut world, one, _) = busy();
    let asker = world.connect();
    let (pid, mut key) = world.callers[one].cancel_key();
    key[3] ^= 1;
    let mut packet = Vec::new();
    weir_wire::encode::cancel_request(&mut packet, pid, &key).unwrap();
    world.callers[asker].say(&packet);
    go_on(&mut world);
    assert!(world.callers[asker].is_closed() && world.cancels.is_empty());
    world.settle();
    assert_eq!(world.callers[one].heard(), "T D(one) C(SELECT 1) Z(I)");
}

#[test]
fn sec_66_wrong_keys_from_an_address_do_not_stop_right_ones() {
    let peers = "peer_id = 1\n[peers]\n2 = host=10.0.0.2";
    for lines in ["", peers] {
        let mut world = World::new(1, &format!("cancel_requests_per_second = 1\n{lines}"));
        world.cancels_at_once = false;
        let client = world.login();
        world.callers[client].say(&say().query("row one"));
        world.callers[client].serve();
        world.turn(0);
        world.servers[0].hear();
        assert!(world.servers[0].begin());
        let (pid, mut key) = world.callers[client].cancel_key();
        key[0] ^= 1;
        let mut packet = Vec::new();
        weir_wire::encode::cancel_request(&mut packet, pid, &key).unwrap();
        for _ in 0..100 {
            let asker = world.connect();
            world.callers[asker].say(&packet);
            go_on(&mut world);
        }
        assert!(world.cancels.is_empty());
        world.request_cancel(client);
        go_on(&mut world);
        assert_eq!(world.cancels.len(), 1, "{lines}");
    }
}

#[test]
fn a_client_that_repeats_its_cancel_opens_few_connections() {
    let (mut world, one, _) = busy();
    let askers: Vec<_> = (0..20).map(|_| world.request_cancel(one)).collect();
    go_on(&mut world);
    assert_eq!(world.cancels.len(), 4);
    let open = askers
        .iter()
        .filter(|asker| !world.callers[**asker].is_closed());
    assert_eq!(open.count(), 4);
}

#[test]
fn a_cancel_finds_its_client_on_another_worker() {
    let mut world = World::new(2, "default_pool_size = 1");
    let (one, other) = (world.login(), world.login());
    let workers: Vec<_> = world
        .workers
        .iter()
        .map(|worker| worker.tables.clients.len())
        .collect();
    assert_eq!(workers, [1, 1]);
    for client in [one, other] {
        world.ask(client, &say().query("begin"));
        world.callers[client].say(&say().query("row x"));
        world.callers[client].serve();
        for worker in 0..2 {
            world.turn(worker);
        }
        world.servers[0].hear();
        assert!(world.servers[0].begin());
        let asker = world.request_cancel(client);
        go_on(&mut world);
        world.settle();
        assert!(world.callers[asker].is_closed());
        assert_eq!(world.callers[client].heard(), format!("{HIT} Z(E)"));
        world.ask(client, &say().query("rollback"));
    }
    for client in [one, other] {
        world.ask(client, &say().terminate());
    }
    world.check_empty();
}

#[test]
fn what_a_vanished_client_was_running_is_cancelled() {
    let (mut world, one, other) = busy();
    world.callers[one].leave(End::Reset);
    world.callers[other].say(&say().query("row other"));
    go_on(&mut world);
    assert_eq!(world.cancels.len(), 1);
    assert!(world.signal(0));
    world.cancels_at_once = true;
    world.settle();
    assert_eq!(world.callers[other].heard(), "T D(other) C(SELECT 1) Z(I)");
    assert_eq!(world.live_servers(), 1);
}

const MOMENT: Duration = Duration::from_millis(1);
const CANCEL_AGAIN: Duration = Duration::from_millis(200);

/// Cancels what `client` runs; the cancel reaches PostgreSQL too early and has no effect.
fn cancel_in_vain(world: &mut World, client: usize) {
    let asker = world.request_cancel(client);
    go_on(world);
    assert!(!world.signal(0), "the query has not been read");
    world.cancels.remove(0).peer.end(End::Orderly);
    go_on_for(world, MOMENT);
    assert!(world.callers[asker].is_closed());
}

/// As [`busy`], but PostgreSQL has not read the query yet.
fn sent() -> (World, usize) {
    let mut world = World::new(1, "default_pool_size = 1");
    world.cancels_at_once = false;
    let client = world.login();
    world.advance(MOMENT);
    world.callers[client].say(&say().query("row one"));
    go_on(&mut world);
    (world, client)
}

#[test]
fn a_cancel_that_came_before_its_query_is_sent_again() {
    let (mut world, client) = sent();
    cancel_in_vain(&mut world, client);
    world.servers[0].hear();
    assert!(world.servers[0].begin());
    go_on_for(&mut world, CANCEL_AGAIN);
    assert_eq!(world.cancels.len(), 1);
    assert!(world.signal(0));
    world.cancels.remove(0).peer.end(End::Orderly);
    world.settle();
    assert_eq!(world.callers[client].heard(), format!("{HIT} Z(I)"));
    world.advance(Duration::from_secs(1));
    assert!(world.cancels.is_empty(), "once");
}

#[test]
fn a_cancel_is_not_sent_again_to_the_next_query() {
    let (mut world, client) = sent();
    cancel_in_vain(&mut world, client);
    world.settle();
    assert_eq!(world.callers[client].heard(), "T D(one) C(SELECT 1) Z(I)");
    world.callers[client].say(&say().query("row next"));
    go_on(&mut world);
    go_on_for(&mut world, CANCEL_AGAIN);
    assert!(world.cancels.is_empty());
}

#[test]
fn a_cancel_is_not_sent_again_to_the_next_client() {
    let mut world = World::new(1, "default_pool_size = 1\nquery_wait_notify = 0");
    let (one, other) = (world.login(), world.login());
    world.advance(Duration::from_secs(1));
    world.callers[one].say(&say().query("row one"));
    world.callers[one].serve();
    world.turn(0);
    world.request_cancel(one);
    // The cancel comes before the query, and everything up to the next client's query in one moment.
    go_on(&mut world);
    world.settle();
    assert_eq!(world.callers[one].heard(), "T D(one) C(SELECT 1) Z(I)");
    world.callers[other].say(&say().query("row other"));
    go_on(&mut world);
    world.servers[0].hear();
    assert!(world.servers[0].begin());
    go_on_for(&mut world, 2 * CANCEL_AGAIN);
    world.settle();
    assert_eq!(world.callers[other].heard(), "T D(other) C(SELECT 1) Z(I)");
}

#[test]
fn a_cancel_is_not_sent_again_to_the_next_statement_of_a_pipeline() {
    let mut world = World::new(1, "default_pool_size = 1");
    world.cancels_at_once = false;
    let client = world.login();
    world.advance(MOMENT);
    world.callers[client].say(&say().query("row one").query("row two"));
    go_on(&mut world);
    cancel_in_vain(&mut world, client);
    world.servers[0].hear();
    assert!(world.servers[0].begin() && world.servers[0].finish());
    go_on_for(&mut world, CANCEL_AGAIN);
    assert!(world.cancels.is_empty());
}

#[test]
fn a_cancel_of_what_has_long_been_running_is_sent_once() {
    let (mut world, one, _) = busy();
    go_on_for(&mut world, CANCEL_AGAIN);
    world.request_cancel(one);
    go_on(&mut world);
    world.cancels.remove(0).peer.end(End::Orderly);
    go_on_for(&mut world, Duration::from_secs(1));
    assert!(world.cancels.is_empty());
}
