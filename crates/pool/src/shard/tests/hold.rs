//! Tests of waiting clients while the host of a pool is gone.

use super::*;
use crate::action::HoldNews;

/// A pool with a hold of 60 s whose host has answered a login, and which has no server any more.
fn pool_after_a_loss() -> Pool {
    let policy = Policy {
        hold: Duration::from_secs(60),
        between_holds: Duration::from_secs(30),
        ..of_size(2)
    };
    let mut pool = pool(1, policy);
    let shard = &mut pool.shards[0];
    let _ = ticket(shard.checkout(Moment(1), ClientId(1), Want::Any));
    start(shard, Moment(1), 1);
    assert_eq!(
        shard.connected(Moment(2), ServerId(1)),
        Checkin::Assigned(ClientId(1))
    );
    shard.closed(Moment(3), ServerId(1));
    pool
}

/// A client waits, and its login fails at `now` in this way. Returns the news, and whether somebody was failed.
fn fail(shard: &mut Shard, now: Moment, client: u64, kind: FailureKind) -> (Vec<HoldNews>, bool) {
    if let Checkout::Queued(_) = shard.checkout(now, ClientId(client), Want::Any) {}
    let (mut news, mut has_failed, mut begun) = (Vec::new(), false, None);
    shard.tick(now);
    let mut polls = 0;
    while let Some(action) = shard.poll(now) {
        polls += 1;
        assert!(polls < 100);
        match action {
            Action::Connect(token) => {
                let server = ServerId(client * 100 + polls);
                shard.connect_started(token, server, Serial(client));
                begun = Some(server);
            }
            Action::Hold(told) => news.push(told),
            Action::Fail { .. } => has_failed = true,
            _ => {}
        }
        if let Some(server) = begun.take() {
            shard.connect_failed(now, server, kind);
        }
    }
    (news, has_failed)
}

#[test]
fn clients_wait_for_a_host_that_has_answered_before_and_is_gone() {
    let mut pool = pool_after_a_loss();
    let shard = &mut pool.shards[0];
    let (news, has_failed) = fail(shard, Moment(10), 2, FailureKind::Refused);
    let until = Moment(10).plus(Duration::from_secs(60));
    assert_eq!(news, [HoldNews::Began(until)]);
    assert!(!has_failed);
    assert_eq!(shard.shared().held_until(), Some(until));
    // Logins are tried often meanwhile.
    let mut now = Moment(10);
    for _ in 0..20 {
        let next = shard.next_tick().unwrap();
        assert!(next.since(now) <= Duration::from_millis(201), "{next:?}");
        now = next;
        let (news, has_failed) = fail(shard, now, 2, FailureKind::Refused);
        assert!(news.is_empty() && !has_failed, "{news:?}");
    }
    let back = shard.next_tick().unwrap();
    shard.tick(back);
    start(shard, back, 9);
    assert_eq!(
        shard.connected(back, ServerId(9)),
        Checkin::Assigned(ClientId(2))
    );
    let lasted = back.since(Moment(10));
    let ended = std::iter::from_fn(|| shard.poll(back))
        .any(|action| matches!(action, Action::Hold(HoldNews::Ended(it)) if it == lasted));
    assert!(ended);
    assert_eq!(shard.shared().held_until(), None);
}

#[test]
fn clients_of_a_host_that_stays_away_fail_after_the_hold() {
    let mut pool = pool_after_a_loss();
    let shard = &mut pool.shards[0];
    assert!(!fail(shard, Moment(10), 2, FailureKind::Timeout).1);
    let over = Moment(10).plus(Duration::from_secs(60));
    let (news, has_failed) = fail(shard, over, 3, FailureKind::Timeout);
    assert!(news.is_empty() && has_failed, "{news:?}");
    assert_eq!(shard.waiting(), 1, "the other one has come just now");
    // Whoever comes later waits, too.
    let later = over.plus(Duration::from_secs(70));
    let (news, has_failed) = fail(shard, later, 4, FailureKind::Timeout);
    assert!(news.is_empty() && !has_failed, "{news:?}");
    assert_eq!(shard.waiting(), 2);
}

#[test]
fn clients_of_other_lanes_fail_after_the_hold_too() {
    let policy = Policy {
        hold: Duration::from_secs(60),
        ..of_size(2)
    };
    let mut pool = pool(2, policy);
    pool.host.trust();
    let (first, second) = pool.shards.split_at_mut(1);
    let (shard, other) = (&mut first[0], &mut second[0]);
    assert!(!fail(shard, Moment(10), 1, FailureKind::Refused).1);
    let _ = ticket(other.checkout(Moment(11), ClientId(2), Want::Any));
    let over = Moment(10).plus(Duration::from_secs(60));
    assert!(fail(shard, over, 3, FailureKind::Refused).1);
    let wakes = std::iter::from_fn(|| shard.poll(over)).count();
    assert_eq!(wakes, 0, "told before");
    other.retry(over);
    let failed = std::iter::from_fn(|| other.poll(over));
    let failed = failed.filter(|action| matches!(action, Action::Fail { .. }));
    assert_eq!(failed.count(), 1);
    assert_eq!(other.waiting(), 0);
}

#[test]
fn clients_of_a_host_that_never_answered_wait_without_news() {
    let policy = Policy {
        hold: Duration::from_secs(60),
        ..of_size(2)
    };
    let mut pool = pool(1, policy);
    let (news, has_failed) = fail(&mut pool.shards[0], Moment(1), 1, FailureKind::Refused);
    assert!(news.is_empty() && !has_failed, "{news:?}");
    // An earlier process has used it.
    let mut pool = super::pool(1, Policy::clone(pool.shards[0].policy()));
    pool.host.trust();
    let (news, has_failed) = fail(&mut pool.shards[0], Moment(1), 1, FailureKind::Refused);
    assert!(!news.is_empty() && !has_failed, "{news:?}");
}

#[test]
fn a_refused_password_is_not_waited_for() {
    let mut pool = pool_after_a_loss();
    let shard = &mut pool.shards[0];
    assert!(fail(shard, Moment(10), 2, FailureKind::Rejected).1);
}

#[test]
fn an_outage_soon_after_another_begins_no_hold() {
    let mut pool = pool_after_a_loss();
    let shard = &mut pool.shards[0];
    assert!(!fail(shard, Moment(10), 2, FailureKind::Refused).1);
    let back = shard.next_tick().unwrap();
    shard.tick(back);
    start(shard, back, 9);
    let _ = shard.connected(back, ServerId(9));
    shard.closed(back, ServerId(9));
    while shard.poll(back).is_some() {}
    let soon = back.plus(Duration::from_secs(29));
    let (news, has_failed) = fail(shard, soon, 3, FailureKind::Refused);
    assert!(news.is_empty() && !has_failed, "{news:?}");
    // Neither is there one later, whose end would fail anybody.
    let later = soon.plus(Duration::from_secs(70));
    let (news, has_failed) = fail(shard, later, 4, FailureKind::Refused);
    assert!(news.is_empty() && !has_failed, "{news:?}");
    assert_eq!(shard.waiting(), 2);
}

#[test]
fn a_change_of_the_administrator_ends_the_pause_after_a_rejected_login() {
    let mut pool = pool_after_a_loss();
    let shard = &mut pool.shards[0];
    assert!(fail(shard, Moment(10), 2, FailureKind::Rejected).1);
    assert_eq!(
        shard.checkout(Moment(11), ClientId(3), Want::Any),
        Checkout::FailFast
    );
    shard.shared().forgive();
    let _ = ticket(shard.checkout(Moment(12), ClientId(4), Want::Any));
    start(shard, Moment(12), 9);
    assert_eq!(
        shard.connected(Moment(13), ServerId(9)),
        Checkin::Assigned(ClientId(4))
    );
}

#[test]
fn a_lane_that_looks_after_the_host_is_back_fails_nobody() {
    let policy = Policy {
        hold: Duration::from_secs(60),
        ..of_size(2)
    };
    let mut pool = pool(2, policy);
    pool.host.trust();
    let (first, second) = pool.shards.split_at_mut(1);
    let (shard, other) = (&mut first[0], &mut second[0]);
    assert!(!fail(shard, Moment(10), 1, FailureKind::Refused).1);
    let _ = ticket(other.checkout(Moment(11), ClientId(2), Want::Any));
    let over = Moment(10).plus(Duration::from_secs(60));
    assert!(fail(shard, over, 3, FailureKind::Refused).1);
    let back = over.plus(Duration::from_secs(20));
    // A login has succeeded.
    assert!(shard.shared().end_hold(back).is_some());
    other.retry(back);
    while let Some(action) = other.poll(back) {
        assert!(!matches!(action, Action::Fail { .. }), "{action:?}");
    }
}
