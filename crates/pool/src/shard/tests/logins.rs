//! Logins to servers: how many at once, and what a failure means for those who wait.

use super::*;

#[test]
fn several_connections_are_made_at_once_but_never_more_than_waiters() {
    let mut pool = pool(1, of_size(10));
    let shard = &mut pool.shards[0];
    for client in 0..3 {
        let _ = ticket(shard.checkout(Moment(1), ClientId(client), Want::Any));
    }
    (0..3).for_each(|server| start(shard, Moment(1), server));
    assert!(shard.poll(Moment(1)).is_none());
    assert_eq!((shard.connecting(), pool.host.logins()), (3, 3));
}

#[test]
fn the_hosts_cap_holds_and_the_next_login_starts_when_one_ends() {
    let mut pool = pool(1, of_size(10));
    let shard = &mut pool.shards[0];
    for client in 0..5 {
        let _ = ticket(shard.checkout(Moment(1), ClientId(client), Want::Any));
    }
    (0..4).for_each(|server| start(shard, Moment(1), server));
    assert!(shard.poll(Moment(1)).is_none());
    assert_eq!(
        shard.connected(Moment(2), ServerId(0)),
        Checkin::Assigned(ClientId(0))
    );
    assert!(matches!(shard.poll(Moment(2)), Some(Action::WakeOthers)));
    start(shard, Moment(2), 4);
}

#[test]
fn a_refused_login_fails_waiters_and_new_clients_until_the_retry() {
    let mut pool = pool(1, of_size(2));
    let shard = &mut pool.shards[0];
    let _ = ticket(shard.checkout(Moment(1), ClientId(1), Want::Any));
    start(shard, Moment(1), 1);
    shard.connect_failed(Moment(2), ServerId(1), FailureKind::Refused);
    assert!(matches!(shard.poll(Moment(2)), Some(Action::WakeOthers)));
    let failed = shard.poll(Moment(2));
    assert!(matches!(
        failed,
        Some(Action::Fail {
            error: WaitError::ServerDown,
            ..
        })
    ));
    assert_eq!(
        shard.checkout(Moment(3), ClientId(2), Want::Any),
        Checkout::FailFast
    );
    assert!(shard.poll(Moment(3)).is_none(), "the gate keeps the pace");
    // Later a client that fails fast starts one login to find out whether the host is back.
    let later = Moment(SECOND);
    assert_eq!(
        shard.checkout(later, ClientId(3), Want::Any),
        Checkout::FailFast
    );
    start(shard, later, 2);
    assert_eq!(shard.connected(later, ServerId(2)), Checkin::Idle);
    assert_eq!(
        shard.checkout(later, ClientId(4), Want::Any),
        Checkout::Granted(ServerId(2))
    );
}

#[test]
fn a_host_that_is_starting_up_keeps_clients_waiting() {
    let mut pool = pool(1, of_size(2));
    let shard = &mut pool.shards[0];
    let _ = ticket(shard.checkout(Moment(1), ClientId(1), Want::Any));
    start(shard, Moment(1), 1);
    shard.connect_failed(Moment(2), ServerId(1), FailureKind::Temporary);
    assert!(shard.poll(Moment(2)).is_none());
    let next = shard.next_tick().unwrap();
    assert!(next > Moment(2) && next < Moment(SECOND), "{next:?}");
    shard.tick(next);
    start(shard, next, 2);
    assert_eq!(
        shard.connected(next, ServerId(2)),
        Checkin::Assigned(ClientId(1))
    );
}

#[test]
fn clients_wait_again_once_a_host_that_was_gone_says_that_it_is_starting_up() {
    let mut pool = pool(2, of_size(2));
    let (first, second) = pool.shards.split_at_mut(1);
    let (shard, other) = (&mut first[0], &mut second[0]);
    let _ = ticket(shard.checkout(Moment(1), ClientId(1), Want::Any));
    start(shard, Moment(1), 1);
    shard.connect_failed(Moment(2), ServerId(1), FailureKind::Refused);
    while shard.poll(Moment(2)).is_some() {}
    for shard in [&mut *shard, other] {
        let answer = shard.checkout(Moment(3), ClientId(2), Want::Any);
        assert_eq!(answer, Checkout::FailFast, "nobody listens there");
    }
    // The next login, started by a client that fails fast, learns that PostgreSQL is starting up.
    let later = Moment(SECOND);
    assert_eq!(
        shard.checkout(later, ClientId(2), Want::Any),
        Checkout::FailFast
    );
    start(shard, later, 2);
    shard.connect_failed(later, ServerId(2), FailureKind::Temporary);
    for shard in [shard, other] {
        let _ = ticket(shard.checkout(later, ClientId(3), Want::Any));
        while let Some(action) = shard.poll(later) {
            assert!(!matches!(action, Action::Fail { .. }), "{action:?}");
        }
    }
}

#[test]
fn a_login_of_before_the_hosts_last_answer_fails_nobody() {
    let mut pool = pool(1, of_size(3));
    let shard = &mut pool.shards[0];
    for client in 1..=2 {
        let _ = ticket(shard.checkout(Moment(client), ClientId(client), Want::Any));
        start(shard, Moment(client), client);
    }
    shard.connect_failed(Moment(5), ServerId(2), FailureKind::Temporary);
    // This connection was in the postmaster's queue when the postmaster exited.
    shard.connect_failed(Moment(6), ServerId(1), FailureKind::Refused);
    while let Some(action) = shard.poll(Moment(6)) {
        assert!(!matches!(action, Action::Fail { .. }), "{action:?}");
    }
    assert_eq!(shard.waiting(), 2);
    // A login that began after that answer is more recent.
    let later = Moment(SECOND);
    shard.tick(later);
    start(shard, later, 3);
    shard.connect_failed(later, ServerId(3), FailureKind::Refused);
    assert_eq!(shard.waiting(), 0);
}

#[test]
fn a_rejected_user_stays_rejected_when_the_host_starts_up() {
    let mut pool = pool(1, of_size(3));
    let shard = &mut pool.shards[0];
    for client in 1..=2 {
        let _ = ticket(shard.checkout(Moment(client), ClientId(client), Want::Any));
        start(shard, Moment(client), client);
    }
    shard.connect_failed(Moment(5), ServerId(1), FailureKind::Rejected);
    shard.connect_failed(Moment(6), ServerId(2), FailureKind::Temporary);
    while shard.poll(Moment(6)).is_some() {}
    assert_eq!(
        shard.checkout(Moment(7), ClientId(3), Want::Any),
        Checkout::FailFast
    );
}

#[test]
fn a_try_that_hangs_does_not_keep_others_from_being_made() {
    let mut pool = pool(1, of_size(8));
    let shard = &mut pool.shards[0];
    let _ = ticket(shard.checkout(Moment(1), ClientId(1), Want::Any));
    start(shard, Moment(1), 1);
    shard.connect_failed(Moment(2), ServerId(1), FailureKind::Temporary);
    let mut tries = 0;
    while let Some(next) = shard.next_tick().filter(|next| next.0 < 20 * SECOND) {
        shard.tick(next);
        while let Some(action) = shard.poll(next) {
            if let Action::Connect(token) = action {
                tries += 1;
                shard.connect_started(token, ServerId(1 + tries), Serial(0));
            }
        }
        if tries == 1 {
            // Other clients that want a server.
            let _ = ticket(shard.checkout(next, ClientId(2), Want::Any));
            let _ = ticket(shard.checkout(next, ClientId(3), Want::Any));
            let _ = ticket(shard.checkout(next, ClientId(4), Want::Any));
            let _ = ticket(shard.checkout(next, ClientId(5), Want::Any));
            let _ = ticket(shard.checkout(next, ClientId(6), Want::Any));
        }
    }
    assert_eq!(tries, crate::PROBES_MAX as u64);
}

/// Whoever resumes knows that the host is back, so earlier failures are not reported to clients.
#[test]
fn resuming_forgets_that_logins_failed() {
    let mut pool = pool(1, of_size(1));
    let shard = &mut pool.shards[0];
    let _ = ticket(shard.checkout(Moment(1), ClientId(1), Want::Any));
    start(shard, Moment(1), 1);
    shard.shared().set_paused(true);
    shard.settle(Moment(2));
    shard.connect_failed(Moment(2), ServerId(1), FailureKind::Refused);
    while let Some(action) = shard.poll(Moment(2)) {
        assert!(!matches!(action, Action::Fail { .. }), "it waits on");
    }
    shard.shared().set_paused(false);
    shard.settle(Moment(3));
    start(shard, Moment(3), 2);
}

#[test]
fn a_waiter_behind_an_obsolete_server_is_told_that_the_login_was_rejected() {
    let mut pool = pool(1, of_size(2));
    let shard = &mut pool.shards[0];
    let _ = ticket(shard.checkout(Moment(1), ClientId(1), Want::Any));
    start(shard, Moment(1), 1);
    assert_eq!(
        shard.connected(Moment(2), ServerId(1)),
        Checkin::Assigned(ClientId(1))
    );
    // The password has changed.
    shard.recycle(Moment(3));
    while shard.poll(Moment(3)).is_some() {}
    let _ = ticket(shard.checkout(Moment(4), ClientId(2), Want::Any));
    start(shard, Moment(4), 2);
    shard.connect_failed(Moment(5), ServerId(2), FailureKind::Rejected);
    let failed = std::iter::from_fn(|| shard.poll(Moment(5))).any(|action| {
        matches!(
            action,
            Action::Fail {
                client: ClientId(2),
                ..
            }
        )
    });
    assert!(failed, "no server will come for the waiter");
    assert_eq!(
        shard.checkout(Moment(6), ClientId(3), Want::Any),
        Checkout::FailFast
    );
    // The first client keeps its server.
    assert_eq!(shard.shared().connected(), 1);
}
