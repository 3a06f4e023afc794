//! Reasons of waits.

use super::*;
use crate::Obstacle;

const NOW: Moment = Moment(SECOND);

fn wait(shard: &mut Shard, client: u64) {
    let _ = ticket(shard.checkout(NOW, ClientId(client), Want::Any));
}

#[test]
fn a_client_waits_for_a_login_then_for_the_pool() {
    let mut pool = pool(1, of_size(1));
    let shard = &mut pool.shards[0];
    wait(shard, 1);
    assert_eq!(shard.obstacle(NOW), Obstacle::Connecting);
    start(shard, NOW, 10);
    assert_eq!(shard.obstacle(NOW), Obstacle::Connecting);
    // Of two, one waits for more than this login.
    wait(shard, 2);
    assert_eq!(shard.obstacle(NOW), Obstacle::PoolFull);
    assert_eq!(
        shard.connected(NOW, ServerId(10)),
        Checkin::Assigned(ClientId(1))
    );
    assert_eq!(shard.obstacle(NOW), Obstacle::PoolFull);
    let _ = shard.checkin(NOW, ServerId(10));
    assert_eq!(shard.waiting(), 0);
}

#[test]
fn the_limit_that_is_reached_is_named() {
    let mut pool = pool(1, of_size(2));
    serve(&mut pool.shards[0], NOW, 1, 10);
    pool.database.set_max(1);
    wait(&mut pool.shards[0], 2);
    assert_eq!(pool.shards[0].obstacle(NOW), Obstacle::DatabaseLimit);
    pool.shards[0].shared().set_paused(true);
    assert_eq!(pool.shards[0].obstacle(NOW), Obstacle::Paused);
}

#[test]
fn a_pool_that_limits_assigned_servers_says_so() {
    let policy = Policy {
        limits_assigned: true,
        ..of_size(5)
    };
    let mut pool = pool(1, policy);
    let shard = &mut pool.shards[0];
    shard.shared().set_limit(1);
    serve(shard, NOW, 1, 10);
    wait(shard, 2);
    assert_eq!(shard.obstacle(NOW), Obstacle::SizeLimit);
    shard.shared().set_limit(2);
    shard.retry(NOW);
    assert_eq!(shard.obstacle(NOW), Obstacle::Connecting);
}

#[test]
fn behind_a_failed_login_clients_wait_for_the_next_one() {
    let mut pool = pool(1, of_size(2));
    let shard = &mut pool.shards[0];
    serve(shard, NOW, 1, 10);
    wait(shard, 2);
    start(shard, NOW, 11);
    shard.connect_failed(NOW, ServerId(11), FailureKind::Refused);
    assert_eq!(shard.obstacle(NOW), Obstacle::LoginsFail);
}
