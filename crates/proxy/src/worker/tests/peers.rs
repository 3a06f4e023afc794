//! Cancel requests among peers.

use weir_testkit::say::say;
use weir_wire::encode;

use super::world::World;
use crate::driver::memory::End;
use crate::peering;

const PEERS: &str = "peer_id = 1\n[peers]\n2 = host=10.0.0.2 pool_size=1";

fn world() -> World {
    let mut world = World::new(1, PEERS);
    world.cancels_at_once = false;
    world
}

/// Returns a key that this peer gave out, with this many forwards left.
fn key_of(peer: u32, left: usize) -> (u32, Vec<u8>) {
    let mut key = vec![9, 8, 7, 0x40];
    let pid = peering::mark(peer, 0x4000_0005, &mut key);
    for _ in left..3 {
        assert!(peering::forward(&mut key));
    }
    (pid, key)
}

fn request(world: &mut World, pid: u32, key: &[u8]) -> usize {
    let asker = world.connect();
    let mut packet = Vec::new();
    encode::cancel_request(&mut packet, pid, key).unwrap();
    world.callers[asker].say(&packet);
    world.settle();
    asker
}

#[test]
fn a_cancel_for_a_peer_is_sent_on_with_one_forward_less() {
    let mut world = world();
    let (pid, key) = key_of(2, 3);
    let asker = request(&mut world, pid, &key);
    assert_eq!(world.cancels.len(), 1);
    assert_eq!(
        (world.cancels[0].pid, &world.cancels[0].key),
        (pid, &key_of(2, 2).1)
    );
    assert!(!world.callers[asker].is_closed(), "the cancel is not over");
    world.cancels.remove(0).peer.end(End::Orderly);
    world.settle();
    assert!(world.callers[asker].is_closed());
    world.check_empty();
}

#[test]
fn a_cancel_that_was_forwarded_too_often_or_has_no_peer_ends_here() {
    let mut world = world();
    for (peer, left) in [(2, 0), (3, 3), (0, 3)] {
        let (pid, key) = match peer {
            0 => (0x4000_0005, vec![9, 8, 7, 0x43]),
            _ => key_of(peer, left),
        };
        let asker = request(&mut world, pid, &key);
        assert!(world.callers[asker].is_closed(), "peer {peer}");
        assert!(world.cancels.is_empty(), "peer {peer}");
    }
}

#[test]
fn a_peer_gets_no_more_connections_than_its_pool_size() {
    let mut world = world();
    let (pid, key) = key_of(2, 3);
    request(&mut world, pid, &key);
    let second = request(&mut world, pid, &key);
    assert!(world.callers[second].is_closed());
    assert_eq!(world.cancels.len(), 1);
    world.cancels.remove(0).peer.end(End::Orderly);
    world.settle();
    request(&mut world, pid, &key);
    assert_eq!(world.cancels.len(), 1);
}

#[test]
fn a_cancel_that_peers_sent_on_finds_its_client() {
    let mut world = world();
    let client = world.login();
    world.ask(client, &say().query("begin"));
    world.callers[client].say(&say().query("row one"));
    world.callers[client].serve();
    world.turn(0);
    world.servers[0].hear();
    assert!(world.servers[0].begin());
    let (pid, mut key) = world.callers[client].cancel_key();
    assert_eq!(peering::owner(pid), 1);
    assert_eq!(key[3] & 3, 3);
    assert!(peering::forward(&mut key) && peering::forward(&mut key));
    let asker = world.connect();
    let mut packet = Vec::new();
    encode::cancel_request(&mut packet, pid, &key).unwrap();
    world.callers[asker].say(&packet);
    world.cancels_at_once = true;
    for server in &mut world.servers {
        server.stalled = true;
    }
    world.settle();
    assert!(world.callers[asker].is_closed());
    for server in &mut world.servers {
        server.stalled = false;
    }
    world.settle();
    assert_eq!(
        world.callers[client].heard(),
        "E(57014 canceling statement due to user request) Z(E)"
    );
}
