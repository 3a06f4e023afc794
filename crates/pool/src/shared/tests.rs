//! Tests of places: taken in all three limits or in none.

use super::*;
use crate::HostGate;
use crate::HostId;

/// A pool with room for two servers, within these limits of database and user.
fn pool(database: &Arc<Quota>, user: &Arc<Quota>) -> Arc<Shared> {
    let policy = Policy {
        size: 2,
        ..Policy::default()
    };
    let host = Arc::new(HostGate::new(HostId(1), 4));
    let (database, user) = (Arc::clone(database), Arc::clone(user));
    Arc::new(Shared::new(
        &policy,
        1,
        database,
        user,
        Alternatives::in_order([host]),
    ))
}

/// Two lanes look at the same moment and see room for one more server; one of them is late.
#[test]
fn a_place_that_a_limit_refuses_is_given_back_everywhere() {
    for (databases, users, refusal) in [(1, 2, Refusal::Database), (2, 1, Refusal::User)] {
        let (database, user) = (Arc::new(Quota::new(databases)), Arc::new(Quota::new(users)));
        let pool = pool(&database, &user);
        let mut wake = false;
        let first = pool.reserve(0, &mut wake).unwrap();
        for _ in 0..3 {
            // The late lane looked before the first took the place.
            let taken = pool.places.try_take(0);
            assert_eq!(pool.complete(taken, &mut wake).unwrap_err(), refusal);
            assert_eq!(pool.servers(), 1, "{refusal:?}");
            assert_eq!((database.used(), user.used()), (1, 1), "{refusal:?}");
        }
        assert!(!wake, "nobody waits for a place");
        let _ = first.release();
        assert_eq!((pool.servers(), database.used(), user.used()), (0, 0, 0));
    }
}

#[test]
fn who_waits_for_a_place_hears_of_one_that_a_limit_refused() {
    let (database, user) = (Arc::new(Quota::new(1)), Arc::new(Quota::new(2)));
    let pool = pool(&database, &user);
    let mut wake = false;
    let first = pool.reserve(0, &mut wake).unwrap();
    let taken = pool.places.try_take(0);
    // Another lane finds the pool full just then.
    assert_eq!(pool.look(0), Err(Refusal::Pool));
    assert_eq!(
        pool.complete(taken, &mut wake).unwrap_err(),
        Refusal::Database
    );
    assert!(wake, "the place is free again");
    drop(first);
}
