//! Tests of annexes: servers for one client each, which count in the size of their pool.

use super::*;

/// Returns an annex of a pool.
fn beside(pool: &Pool) -> Shard {
    let hosts = Alternatives::in_order([Arc::clone(&pool.host)]);
    let shared = Shared::beside(pool.shards[0].shared(), hosts);
    let policy = Arc::clone(pool.shards[0].policy());
    Shard::new(Arc::new(shared), policy, 0, 1)
}

/// Drains the actions of a shard.
fn actions(shard: &mut Shard, now: Moment) -> Vec<Action> {
    std::iter::from_fn(|| shard.poll(now)).collect()
}

fn evicts_for_pool(actions: &[Action]) -> bool {
    let scope = Scope::Pool;
    let mut actions = actions.iter();
    actions.any(|action| matches!(action, Action::Evict { scope: it } if *it == scope))
}

fn connects(actions: &[Action]) -> bool {
    actions
        .iter()
        .any(|action| matches!(action, Action::Connect(_)))
}

#[test]
fn a_server_of_an_annex_takes_a_place_of_the_pool_and_gives_it_back() {
    let mut pool = pool(1, of_size(1));
    let mut annex = beside(&pool);
    serve(&mut annex, Moment(1), 1, 1);
    let shard = &mut pool.shards[0];
    assert_eq!((shard.shared().servers(), annex.shared().staying()), (1, 1));
    let _ = ticket(shard.checkout(Moment(2), ClientId(2), Want::Any));
    assert!(
        actions(shard, Moment(2)).is_empty(),
        "the pool is full, and nobody is evicted"
    );
    annex.closed(Moment(3), ServerId(1));
    let woken = actions(&mut annex, Moment(3));
    assert!(matches!(woken[..], [Action::WakeOthers]), "{woken:?}");
    shard.retry(Moment(3));
    assert!(connects(&actions(shard, Moment(3))));
}

#[test]
fn the_next_free_place_goes_to_the_annex_that_claims_it() {
    let mut pool = pool(1, of_size(2));
    let mut annex = beside(&pool);
    let shard = &mut pool.shards[0];
    serve(shard, Moment(1), 1, 1);
    serve(shard, Moment(1), 2, 2);
    let _ = ticket(shard.checkout(Moment(2), ClientId(3), Want::Any));
    let _ = ticket(annex.checkout(Moment(3), ClientId(9), Want::Any));
    assert!(evicts_for_pool(&actions(&mut annex, Moment(3))));
    // It asks again later.
    let again = Moment(3).plus(EVICT_RETRY);
    assert_eq!(annex.next_tick(), Some(again));
    annex.tick(again);
    assert!(evicts_for_pool(&actions(&mut annex, again)));
    // The engine closes a server as soon as it is free. The pool's own waiter leaves the place.
    shard.closed(Moment(200_000), ServerId(1));
    assert!(!connects(&actions(shard, Moment(200_000))));
    annex.retry(Moment(200_001));
    assert!(connects(&actions(&mut annex, Moment(200_001))));
    // Without a claim the pool takes the next one.
    shard.closed(Moment(200_002), ServerId(2));
    assert!(connects(&actions(shard, Moment(200_002))));
}

#[test]
fn a_claim_ends_with_its_client_and_the_pools_waiters_look_again() {
    for ends in ["forget", "pause", "timeout"] {
        let mut pool = pool(1, of_size(1));
        let mut annex = beside(&pool);
        let shard = &mut pool.shards[0];
        serve(shard, Moment(1), 1, 1);
        let claims = ticket(annex.checkout(Moment(2), ClientId(9), Want::Any));
        let _ = ticket(shard.checkout(Moment(3), ClientId(2), Want::Any));
        shard.closed(Moment(4), ServerId(1));
        assert!(!connects(&actions(shard, Moment(4))));
        drop(actions(&mut annex, Moment(4)));
        let now = match ends {
            "forget" => {
                assert!(annex.forget(claims));
                Moment(5)
            }
            "pause" => {
                annex.shared().set_paused(true);
                annex.settle(Moment(5));
                Moment(5)
            }
            _ => {
                // `query_wait_timeout` is two minutes.
                annex.tick(Moment(150 * SECOND));
                Moment(150 * SECOND)
            }
        };
        let told = actions(&mut annex, now);
        assert!(
            told.iter()
                .any(|action| matches!(action, Action::WakeOthers)),
            "{ends}"
        );
        shard.retry(now);
        assert!(connects(&actions(shard, now)), "{ends}");
    }
}

#[test]
fn an_annex_fails_alone() {
    let mut pool = pool(1, of_size(2));
    let mut annex = beside(&pool);
    let _ = ticket(annex.checkout(Moment(1), ClientId(9), Want::Any));
    start(&mut annex, Moment(1), 9);
    annex.connect_failed(Moment(2), ServerId(9), FailureKind::Rejected);
    let failed = actions(&mut annex, Moment(2));
    assert!(
        failed
            .iter()
            .any(|action| matches!(action, Action::Fail { .. })),
        "{failed:?}"
    );
    serve(&mut pool.shards[0], Moment(3), 1, 1);
}
