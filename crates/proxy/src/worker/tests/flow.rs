//! Backpressure for slow clients and slow servers: which side is paused, which continues, and how much is buffered
//! (I-09).

use std::time::Duration;

use weir_testkit::say::{Say, say};

use super::world::World;

/// Capacity of each connection, in bytes: far less than the tests send.
const ROOM: usize = 4096;
/// Maximum number of bytes that a worker buffers for a client or server that does not read: one receive, and the
/// message that it completes.
const KEPT_MAX: usize = 128 * 1024;

fn many(rows: usize) -> Say {
    (0..rows).fold(say(), |said, row| {
        said.query(&format!("rows 100 r{row}-{}", "x".repeat(100)))
    })
}

#[test]
fn a_server_is_held_back_for_a_client_that_does_not_read_and_goes_on_when_it_does() {
    let mut world = World::with_room(1, "", ROOM);
    let client = world.login();
    world.callers[client].deaf = true;
    world.ask(client, &many(50));
    assert!(world.servers[0].unsent() > 0, "it could send more");
    assert!(world.buffered_max() <= KEPT_MAX, "{}", world.buffered_max());
    world.callers[client].deaf = false;
    world.settle();
    let heard = world.callers[client].heard();
    assert_eq!(heard.matches("Z(I)").count(), 50);
    assert_eq!(heard.matches("C(SELECT 100)").count(), 50);
    assert_eq!(world.buffered_max(), 0);
}

#[test]
fn a_client_is_held_back_for_a_server_that_does_not_read() {
    let mut world = World::with_room(1, "", ROOM);
    let client = world.login();
    world.ask(client, &say().query("copy in"));
    world.servers[0].stalled = true;
    let line = "x".repeat(1000);
    let data = (0..300).fold(say(), |said, _| said.copy_data(&line));
    world.ask(client, &data.copy_done());
    assert!(world.callers[client].unsent() > 0, "it could send more");
    assert!(world.buffered_max() <= KEPT_MAX, "{}", world.buffered_max());
    world.servers[0].stalled = false;
    world.settle();
    assert_eq!(world.callers[client].heard(), "C(COPY 300) Z(I)");
}

#[test]
fn a_client_that_waits_for_a_server_is_read_only_so_far_ahead() {
    let mut world = World::with_room(1, "default_pool_size = 1\nquery_wait_notify = 0", ROOM);
    let (holder, waiter) = (world.login(), world.login());
    world.ask(holder, &say().query("begin"));
    world.ask(waiter, &many(1000));
    assert!(world.callers[waiter].unsent() > 0);
    assert!(world.buffered_max() <= KEPT_MAX, "{}", world.buffered_max());
    world.ask(holder, &say().query("commit"));
    assert_eq!(world.callers[waiter].heard().matches("Z(I)").count(), 1000);
}

#[test]
fn a_client_that_does_not_read_delays_nobody_else() {
    let mut world = World::with_room(1, "default_pool_size = 2", ROOM);
    let (slow, other) = (world.login(), world.login());
    world.callers[slow].deaf = true;
    world.ask(slow, &many(50));
    for _ in 0..10 {
        assert_eq!(
            world.ask(other, &say().query("row x")),
            "T D(x) C(SELECT 1) Z(I)"
        );
    }
}

#[test]
fn a_long_row_passes_through_a_narrow_connection() {
    let mut world = World::with_room(1, "", 64);
    let client = world.login();
    let long = "y".repeat(300_000);
    let heard = world.ask(client, &say().query(&format!("row {long}")));
    assert_eq!(heard, format!("T D({long}) C(SELECT 1) Z(I)"));
    assert!(world.buffered_max() <= KEPT_MAX);
}

#[test]
fn a_slow_client_that_leaves_frees_its_server() {
    let mut world = World::with_room(1, "default_pool_size = 1", ROOM);
    let (slow, other) = (world.login(), world.login());
    world.callers[slow].deaf = true;
    world.ask(slow, &many(20));
    world.callers[slow].leave(crate::driver::memory::End::Reset);
    world.advance(Duration::from_secs(2));
    assert_eq!(
        world.ask(other, &say().query("row x")),
        "T D(x) C(SELECT 1) Z(I)"
    );
}

#[test]
fn a_client_that_was_held_back_while_it_waited_is_read_again_when_it_gets_its_server() {
    let mut world = World::new(1, "default_pool_size = 1\nquery_wait_notify = 0");
    let (holder, waiter) = (world.login(), world.login());
    world.ask(holder, &say().query("begin"));
    let long = format!("row {}", "x".repeat(1000));
    let said = (0..300).fold(say(), |said, _| said.query(&long));
    assert_eq!(world.ask(waiter, &said), "");
    assert!(world.buffered_max() <= KEPT_MAX, "{}", world.buffered_max());
    world.ask(holder, &say().query("commit"));
    let heard = world.callers[waiter].heard();
    assert_eq!(heard.matches("Z(I)").count(), 300);
}
