//! Bytes that are still in flight although every request is answered: the server is not free before the last of them.
//! Examples are the data of a failed COPY, and a notice after the last answer.

use weir_testkit::say::say;
use weir_wire::backend::TransactionStatus;
use weir_wire::encode;

use super::world::World;
use crate::driver::memory::End;

/// Capacity of each connection, in bytes: far less than the tests send.
const ROOM: usize = 4096;
const SETUP: &str = "default_pool_size = 1\nquery_wait_notify = 0";

/// Returns the server's answer to a COPY that failed.
fn failed() -> Vec<u8> {
    let mut said = Vec::new();
    let fields = [
        (b'S', &b"ERROR"[..]),
        (b'V', b"ERROR"),
        (b'C', b"22P04"),
        (b'M', b"bad data"),
    ];
    encode::error_response(&mut said, &fields).unwrap();
    encode::ready_for_query(&mut said, TransactionStatus::Idle).unwrap();
    said
}

/// Returns a client whose COPY has begun on the only server, which reads no further, and a second client.
fn copying(lines: &str, copy: &str) -> (World, usize, usize) {
    let mut world = World::with_room(1, &format!("{SETUP}\n{lines}"), ROOM);
    let (one, other) = (world.login(), world.login());
    if lines.contains("track") {
        // After this the client has a reason to keep its server.
        let sql = "INSERT INTO public.sink VALUES ('x')";
        assert_eq!(world.ask(one, &say().query(sql)), "C(INSERT 0 1) Z(I)");
    }
    let begun = world.ask(one, &say().query(copy));
    assert!(begun.starts_with('G'), "{begun}");
    world.servers[0].stalled = true;
    (world, one, other)
}

/// Number of clients that wait for a server.
fn waiting(world: &World) -> usize {
    let lanes = world.workers[0].tables.lanes.iter();
    lanes.map(|(_, lane)| lane.shard.waiting()).sum()
}

/// Reads, in place of the server, all bytes in flight to it.
fn hear_out(world: &mut World) -> Vec<u8> {
    let mut read = Vec::new();
    loop {
        world.settle();
        let some = world.servers[0].peer.receive(usize::MAX);
        if some.is_empty() {
            assert_eq!(world.buffered_max(), 0);
            return read;
        }
        read.extend(some);
    }
}

/// Sends the error of the COPY, and lets the other client send a query, which has to wait. Then reads the rest.
#[track_caller]
fn stays(world: &mut World, one: usize, other: usize, rest: &[u8]) {
    let sent = world.servers[0].peer.send(&failed());
    assert_eq!(sent, failed().len());
    world.settle();
    assert_eq!(world.callers[one].heard(), "E(22P04 bad data) Z(I)");
    assert_eq!(world.ask(other, &say().query("SELECT 1")), "");
    assert_eq!(waiting(world), 1, "nobody gets the server");
    world.callers[one].say(rest);
    let read = hear_out(world);
    assert!(
        read.ends_with(&say().query("SELECT 1").into_bytes()),
        "now it does"
    );
}

#[test]
fn a_server_with_unsent_bytes_goes_to_nobody() {
    let (mut world, one, other) = copying("", "copy in");
    let data = (0..20).fold(say(), |said, _| said.copy_data(&"x".repeat(1000)));
    world.ask(one, &data);
    assert!(world.buffered_max() > 0, "not everything was taken");
    stays(&mut world, one, other, b"");
}

#[test]
fn a_server_with_unsent_bytes_is_not_given_up_for_a_waiter() {
    let copy = "COPY public.sink FROM STDIN";
    let (mut world, one, other) = copying("session_state = track", copy);
    let data = (0..20).fold(say(), |said, _| said.copy_data(&"x".repeat(1000)));
    world.ask(one, &data);
    assert!(world.buffered_max() > 0, "not everything was taken");
    stays(&mut world, one, other, b"");
}

#[test]
fn a_server_in_the_middle_of_a_clients_long_message_goes_to_nobody() {
    let (mut world, one, other) = copying("", "copy in");
    let data = say().copy_data(&"x".repeat(200_000)).into_bytes();
    let (begin, rest) = data.split_at(100_000);
    world.callers[one].say(begin);
    hear_out(&mut world);
    stays(&mut world, one, other, rest);
}

#[test]
fn a_server_in_the_middle_of_a_clients_long_message_is_not_given_up_for_a_waiter() {
    let copy = "COPY public.sink FROM STDIN";
    let (mut world, one, other) = copying("session_state = track", copy);
    let data = say().copy_data(&"x".repeat(200_000)).into_bytes();
    let (begin, rest) = data.split_at(100_000);
    world.callers[one].say(begin);
    hear_out(&mut world);
    stays(&mut world, one, other, rest);
}

#[test]
fn a_server_in_the_middle_of_its_own_long_message_goes_to_nobody() {
    let mut world = World::new(1, SETUP);
    let (one, other) = (world.login(), world.login());
    world.servers[0].stalled = true;
    assert_eq!(world.ask(one, &say().query("row x")), "");
    let (mut said, mut notice) = (Vec::new(), Vec::new());
    encode::command_complete(&mut said, b"SELECT 1").unwrap();
    encode::ready_for_query(&mut said, TransactionStatus::Idle).unwrap();
    let text = [b'n'; 100_000];
    encode::notice_response(&mut notice, &[(b'S', b"NOTICE"), (b'M', &text)]).unwrap();
    let (begin, rest) = notice.split_at(60_000);
    said.extend_from_slice(begin);
    assert_eq!(world.servers[0].peer.send(&said), said.len());
    world.settle();
    assert_eq!(world.ask(other, &say().query("SELECT 1")), "");
    assert_eq!(
        world.callers[other].got.last(),
        Some(&b'I'),
        "only its greeting"
    );
    assert_eq!(waiting(&world), 1, "nobody gets the server");
    assert_eq!(world.servers[0].peer.send(rest), rest.len());
    world.settle();
    let heard = world.callers[one].got.len();
    assert!(heard > notice.len(), "the notice is whole: {heard} bytes");
    assert_eq!(waiting(&world), 0, "now somebody does");
}

#[test]
fn a_server_whose_client_left_goes_to_nobody_before_its_last_byte_is_sent() {
    let (mut world, one, other) = copying("", "copy in");
    let data = (0..20).fold(say(), |said, _| said.copy_data(&"x".repeat(1000)));
    world.ask(one, &data);
    assert!(world.buffered_max() > 0, "not everything was taken");
    assert_eq!(world.servers[0].peer.send(&failed()), failed().len());
    world.settle();
    world.callers[one].leave(End::Reset);
    world.settle();
    assert_eq!(world.ask(other, &say().query("SELECT 1")), "");
    assert_eq!(waiting(&world), 1, "nobody gets the server");
    let read = hear_out(&mut world);
    assert!(
        read.ends_with(&say().query("SELECT 1").into_bytes()),
        "now it does"
    );
}

/// A Bind that would wait for what runs in front of it comes into a COPY, which waits for the client.
#[test]
fn a_bind_of_a_statement_that_prepares_another_ends_a_copy() {
    let mut world = World::new(1, "session_state = track");
    world.database = Some(weir_testkit::backend::Database::default());
    let client = world.login();
    let prepares = say().parse("s1", "PREPARE q0 AS SELECT 'q'").sync();
    world.ask(client, &prepares);
    let copy = "COPY public.sink FROM STDIN";
    let batch = say().parse("", copy).run("").flush();
    assert!(world.ask(client, &batch).contains('G'));
    let heard = world.ask(client, &say().run("s1").sync());
    assert!(heard.contains("E("), "{heard}");
}
