//! Tests of one or two shards, command by command.

use super::*;
use crate::Checkin;
use crate::Checkout;
use crate::ClientId;
use crate::CloseReason;
use crate::FailureKind;
use crate::HANDOVER_IDLE;
use crate::HostGate;
use crate::HostId;
use crate::Quota;
use crate::Scope;
use crate::Serial;
use crate::WaitError;
use crate::Want;

mod annexes;
mod hold;
mod hosts;
mod logins;
mod obstacles;

const SECOND: u64 = 1_000_000;

pub(super) struct Pool {
    database: Arc<Quota>,
    host: Arc<HostGate>,
    pub(super) shards: Vec<Shard>,
}

pub(super) fn pool(lanes: usize, policy: Policy) -> Pool {
    let (database, user) = (Arc::new(Quota::new(0)), Arc::new(Quota::new(0)));
    let host = Arc::new(HostGate::new(HostId(1), 4));
    let shared = Shared::new(
        &policy,
        lanes,
        Arc::clone(&database),
        user,
        Alternatives::in_order([Arc::clone(&host)]),
    );
    let (shared, policy) = (Arc::new(shared), Arc::new(policy));
    let new = |lane| Shard::new(Arc::clone(&shared), Arc::clone(&policy), lane, 1);
    Pool {
        database,
        host,
        shards: (0..lanes).map(new).collect(),
    }
}

pub(super) fn of_size(size: usize) -> Policy {
    Policy {
        size,
        ..Policy::default()
    }
}

fn ticket(answer: Checkout) -> crate::Ticket {
    let Checkout::Queued(ticket) = answer else {
        panic!("not queued: {answer:?}")
    };
    ticket
}

fn start(shard: &mut Shard, now: Moment, server: u64) {
    let Some(Action::Connect(token)) = shard.poll(now) else {
        panic!("no connect")
    };
    shard.connect_started(token, ServerId(server), Serial(0));
}

/// Assigns `server` to `client` after a new login.
pub(super) fn serve(shard: &mut Shard, now: Moment, client: u64, server: u64) {
    let _ = ticket(shard.checkout(now, ClientId(client), Want::Any));
    start(shard, now, server);
    assert_eq!(
        shard.connected(now, ServerId(server)),
        Checkin::Assigned(ClientId(client))
    );
}

#[test]
fn the_warmest_server_is_used_again_and_round_robin_takes_the_coldest() {
    for (round_robin, expected) in [(false, 2), (true, 1)] {
        let mut pool = pool(
            1,
            Policy {
                round_robin,
                ..of_size(2)
            },
        );
        let shard = &mut pool.shards[0];
        serve(shard, Moment(1), 1, 1);
        serve(shard, Moment(1), 2, 2);
        assert_eq!(shard.checkin(Moment(2), ServerId(1)), Checkin::Idle);
        assert_eq!(shard.checkin(Moment(3), ServerId(2)), Checkin::Idle);
        let answer = shard.checkout(Moment(4), ClientId(3), Want::Any);
        assert_eq!(answer, Checkout::Granted(ServerId(expected)));
    }
}

#[test]
fn waiters_are_served_in_order_and_those_who_left_are_skipped() {
    let mut pool = pool(1, of_size(1));
    let shard = &mut pool.shards[0];
    serve(shard, Moment(1), 1, 1);
    let _ = ticket(shard.checkout(Moment(2), ClientId(2), Want::Any));
    let third = ticket(shard.checkout(Moment(3), ClientId(3), Want::Any));
    let _ = ticket(shard.checkout(Moment(4), ClientId(4), Want::Any));
    assert!(shard.forget(third));
    assert!(!shard.forget(third));
    assert_eq!(
        shard.checkin(Moment(5), ServerId(1)),
        Checkin::Assigned(ClientId(2))
    );
    assert_eq!(
        shard.checkin(Moment(6), ServerId(1)),
        Checkin::Assigned(ClientId(4))
    );
    assert_eq!(shard.checkin(Moment(7), ServerId(1)), Checkin::Idle);
}

#[test]
fn a_client_whose_server_failed_the_check_keeps_its_place() {
    let mut pool = pool(1, of_size(1));
    let shard = &mut pool.shards[0];
    serve(shard, Moment(1), 1, 1);
    let _ = ticket(shard.checkout(Moment(9), ClientId(2), Want::Any));
    let _ = ticket(shard.checkout_since(Moment(10), ClientId(3), Want::Any, Moment(5)));
    assert_eq!(
        shard.checkin(Moment(11), ServerId(1)),
        Checkin::Assigned(ClientId(3))
    );
}

#[test]
fn a_server_unused_for_long_is_checked_first() {
    let mut pool = pool(1, of_size(1));
    let shard = &mut pool.shards[0];
    serve(shard, Moment(1), 1, 1);
    assert_eq!(shard.checkin(Moment(2), ServerId(1)), Checkin::Idle);
    let late = Moment(2 + 30 * SECOND);
    assert_eq!(
        shard.checkout(late, ClientId(2), Want::Any),
        Checkout::Check(ServerId(1))
    );
    assert_eq!(shard.counts(late).sv_tested, 1);
    shard.test_passed(ServerId(1));
    assert_eq!(shard.counts(late).sv_active, 1);
}

#[test]
fn a_free_server_goes_to_the_lane_that_has_waited_longer() {
    let mut pool = pool(2, of_size(1));
    let [first, second] = &mut pool.shards[..] else {
        panic!()
    };
    serve(first, Moment(1), 1, 1);
    let _ = ticket(second.checkout(Moment(2), ClientId(2), Want::Any));
    let _ = ticket(first.checkout(Moment(5_000), ClientId(3), Want::Any));
    assert_eq!(
        first.checkin(Moment(6_000), ServerId(1)),
        Checkin::HandOver { lane: 1 }
    );
    let transfer = first.detach(ServerId(1)).unwrap();
    assert_eq!(
        second.adopt(Moment(6_001), ServerId(9), transfer),
        Checkin::Assigned(ClientId(2))
    );
    assert_eq!(
        second.checkin(Moment(6_002), ServerId(9)),
        Checkin::HandOver { lane: 0 }
    );
}

#[test]
fn waiters_of_nearly_the_same_age_are_served_where_the_server_is() {
    let mut pool = pool(2, of_size(1));
    let [first, second] = &mut pool.shards[..] else {
        panic!()
    };
    serve(first, Moment(1), 1, 1);
    let _ = ticket(second.checkout(Moment(2), ClientId(2), Want::Any));
    let _ = ticket(first.checkout(Moment(3), ClientId(3), Want::Any));
    assert_eq!(
        first.checkin(Moment(6_000), ServerId(1)),
        Checkin::Assigned(ClientId(3))
    );
}

#[test]
fn a_surplus_server_of_another_lane_is_asked_for_before_one_is_opened() {
    let mut pool = pool(2, of_size(5));
    let [first, second] = &mut pool.shards[..] else {
        panic!()
    };
    serve(first, Moment(1), 1, 1);
    assert_eq!(first.checkin(Moment(2), ServerId(1)), Checkin::Idle);
    let now = Moment(2).plus(HANDOVER_IDLE);
    let _ = ticket(second.checkout(now, ClientId(2), Want::Any));
    assert!(matches!(second.poll(now), Some(Action::Ask { lane: 0 })));
    assert!(second.poll(now).is_none());
    let server = first.asked(now, 1).unwrap();
    let transfer = first.detach(server).unwrap();
    assert_eq!(
        second.adopt(now, ServerId(2), transfer),
        Checkin::Assigned(ClientId(2))
    );
    second.ask_answered(now, true);
    assert!(second.poll(now).is_none());
}

#[test]
fn a_refused_ask_falls_through_to_a_new_connection() {
    let mut pool = pool(2, of_size(5));
    let [first, second] = &mut pool.shards[..] else {
        panic!()
    };
    serve(first, Moment(1), 1, 1);
    assert_eq!(first.checkin(Moment(2), ServerId(1)), Checkin::Idle);
    let now = Moment(SECOND);
    let _ = ticket(second.checkout(now, ClientId(2), Want::Any));
    assert!(matches!(second.poll(now), Some(Action::Ask { lane: 0 })));
    assert_eq!(
        first.checkout(now, ClientId(3), Want::Any),
        Checkout::Granted(ServerId(1))
    );
    assert_eq!(first.asked(now, 1), None);
    second.ask_answered(now, false);
    start(second, now, 2);
}

#[test]
fn the_reserve_opens_for_those_who_waited_long() {
    let mut pool = pool(
        1,
        Policy {
            reserve: 1,
            ..of_size(1)
        },
    );
    let shard = &mut pool.shards[0];
    serve(shard, Moment(1), 1, 1);
    let _ = ticket(shard.checkout(Moment(2), ClientId(2), Want::Any));
    let due = Moment(2 + 5 * SECOND);
    assert_eq!(shard.next_tick(), Some(due));
    shard.tick(due);
    assert!(matches!(
        shard.poll(due),
        Some(Action::Notify {
            client: ClientId(2)
        })
    ));
    start(shard, due, 2);
    assert!(shard.is_reserve(ServerId(2)) && !shard.is_reserve(ServerId(1)));
    // As in PgBouncer it is an ordinary server from now on.
    assert_eq!(
        shard.connected(due, ServerId(2)),
        Checkin::Assigned(ClientId(2))
    );
    assert_eq!(shard.checkin(due, ServerId(2)), Checkin::Idle);
}

#[test]
fn a_wait_ends_at_its_timeout() {
    let mut pool = pool(
        1,
        Policy {
            wait_notify: None,
            ..of_size(1)
        },
    );
    let shard = &mut pool.shards[0];
    serve(shard, Moment(1), 1, 1);
    let _ = ticket(shard.checkout(Moment(2), ClientId(2), Want::Any));
    let due = shard.next_tick().unwrap();
    assert_eq!(due, Moment(2 + 120 * SECOND));
    shard.tick(due);
    let failed = shard.poll(due);
    assert!(matches!(
        failed,
        Some(Action::Fail {
            error: WaitError::Timeout,
            ..
        })
    ));
    assert_eq!(shard.waiting(), 0);
}

#[test]
fn a_full_database_limit_asks_for_an_eviction() {
    let mut pool = pool(1, of_size(5));
    pool.database.set_max(1);
    let other_pools_server = pool.database.try_enter().unwrap();
    let shard = &mut pool.shards[0];
    let _ = ticket(shard.checkout(Moment(1), ClientId(1), Want::Any));
    assert!(matches!(
        shard.poll(Moment(1)),
        Some(Action::Evict {
            scope: Scope::Database
        })
    ));
    drop(other_pools_server);
    shard.retry(Moment(2));
    start(shard, Moment(2), 1);
}

#[test]
fn an_evicted_server_is_closed_and_only_if_it_is_idle() {
    let mut pool = pool(1, of_size(1));
    let shard = &mut pool.shards[0];
    serve(shard, Moment(1), 1, 1);
    assert!(!shard.evict(Moment(2), ServerId(1)));
    assert_eq!(shard.checkin(Moment(3), ServerId(1)), Checkin::Idle);
    assert_eq!(shard.coldest_idle(), Some((ServerId(1), Moment(3))));
    assert!(shard.evict(Moment(4), ServerId(1)));
    let action = shard.poll(Moment(4));
    assert!(matches!(
        action,
        Some(Action::Close {
            reason: CloseReason::Evicted,
            ..
        })
    ));
    shard.closed(Moment(5), ServerId(1));
    assert_eq!(shard.shared().servers(), 0);
}

#[test]
fn lifetime_zero_closes_after_every_use() {
    let mut pool = pool(
        1,
        Policy {
            lifetime: Some(Duration::ZERO),
            ..of_size(1)
        },
    );
    let shard = &mut pool.shards[0];
    serve(shard, Moment(1), 1, 1);
    let answer = shard.checkin(Moment(2), ServerId(1));
    assert_eq!(answer, Checkin::Close(CloseReason::Lifetime));
}

#[test]
fn a_lifetime_ends_not_before_its_time_and_within_a_tenth_after() {
    let mut pool = pool(
        1,
        Policy {
            idle_timeout: None,
            ..of_size(1)
        },
    );
    let shard = &mut pool.shards[0];
    serve(shard, Moment(1), 1, 1);
    assert_eq!(shard.checkin(Moment(2), ServerId(1)), Checkin::Idle);
    let due = shard.next_tick().unwrap();
    assert!(
        due >= Moment(3_600 * SECOND) && due <= Moment(3_960 * SECOND + 1),
        "{due:?}"
    );
    shard.tick(due);
    let action = shard.poll(due);
    assert!(matches!(
        action,
        Some(Action::Close {
            reason: CloseReason::Lifetime,
            ..
        })
    ));
}

#[test]
fn with_a_jitter_lifetimes_differ_in_both_directions_and_by_no_more() {
    for (jitter, shortest, longest) in [(600, 3_000, 4_200), (9_999, 0, 7_200)] {
        let mut pool = pool(
            1,
            Policy {
                idle_timeout: None,
                lifetime_jitter: Some(Duration::from_secs(jitter)),
                ..of_size(9)
            },
        );
        let shard = &mut pool.shards[0];
        let ends: Vec<_> = (1..10)
            .map(|server| {
                serve(shard, Moment(0), server, server);
                shard.servers[&ServerId(server)].expires
            })
            .collect();
        let bounds = Moment(shortest * SECOND)..=Moment(longest * SECOND);
        assert!(ends.iter().all(|end| bounds.contains(end)), "{ends:?}");
        let middle = Moment(3_600 * SECOND);
        let is_wide = ends.iter().any(|end| *end < middle) && ends.iter().any(|end| *end > middle);
        assert!(is_wide, "{ends:?}");
    }
}

#[test]
fn a_server_whose_lifetime_ends_in_use_is_closed_on_release() {
    let mut pool = pool(1, of_size(1));
    let shard = &mut pool.shards[0];
    serve(shard, Moment(1), 1, 1);
    let young = Moment(3_599 * SECOND);
    assert_eq!(shard.checkin(young, ServerId(1)), Checkin::Idle);
    let granted = Checkout::Granted(ServerId(1));
    assert_eq!(shard.checkout(young, ClientId(2), Want::Any), granted);
    let old = Moment(3_961 * SECOND);
    let closed = Checkin::Close(CloseReason::Lifetime);
    assert_eq!(shard.checkin(old, ServerId(1)), closed);
}

#[test]
fn idle_servers_beyond_the_minimum_are_closed() {
    let mut pool = pool(
        1,
        Policy {
            min: 1,
            ..of_size(2)
        },
    );
    let shard = &mut pool.shards[0];
    serve(shard, Moment(1), 1, 1);
    serve(shard, Moment(1), 2, 2);
    assert_eq!(shard.checkin(Moment(2), ServerId(1)), Checkin::Idle);
    assert_eq!(shard.checkin(Moment(3), ServerId(2)), Checkin::Idle);
    let late = Moment(3 + 600 * SECOND);
    shard.tick(late);
    let action = shard.poll(late);
    assert!(
        matches!(
            action,
            Some(Action::Close {
                server: ServerId(1),
                ..
            })
        ),
        "{action:?}"
    );
    assert!(shard.poll(late).is_none());
}

#[test]
fn the_minimum_is_kept_while_there_are_clients_and_exact_across_lanes() {
    let mut pool = pool(
        2,
        Policy {
            min: 2,
            ..of_size(5)
        },
    );
    let now = Moment(1);
    pool.shards.iter_mut().for_each(|shard| shard.tick(now));
    assert!(pool.shards[0].poll(now).is_none(), "no clients, no servers");
    pool.shards[0].clients(now, 1);
    pool.shards[1].clients(now, 1);
    start(&mut pool.shards[0], now, 1);
    start(&mut pool.shards[0], now, 2);
    assert!(pool.shards[0].poll(now).is_none() && pool.shards[1].poll(now).is_none());
}

/// Four servers, idle since `Moment(2)`, in a pool that limits the assigned ones.
fn four_idle(policy: Policy) -> Pool {
    let mut pool = pool(
        1,
        Policy {
            limits_assigned: true,
            ..policy
        },
    );
    let shard = &mut pool.shards[0];
    (1..=4).for_each(|number| serve(shard, Moment(1), number, number));
    for server in 1..=4 {
        assert_eq!(shard.checkin(Moment(2), ServerId(server)), Checkin::Idle);
    }
    pool
}

#[test]
fn a_pool_that_needs_far_fewer_servers_closes_the_surplus_soon() {
    let mut pool = four_idle(of_size(4));
    let shard = &mut pool.shards[0];
    let later = Moment(2).plus(SURPLUS_IDLE);
    shard.shared().set_enough(4);
    shard.tick(later);
    assert!(shard.poll(later).is_none(), "four are enough, not too many");
    shard.shared().set_enough(2);
    let mut closed = Vec::new();
    while let Some(next) = shard.next_tick().filter(|next| *next < Moment(60 * SECOND)) {
        let now = next.max(later);
        shard.tick(now);
        while let Some(action) = shard.poll(now) {
            let Action::Close { server, reason } = action else {
                panic!("{action:?}")
            };
            closed.push((server, reason, now));
        }
    }
    let gone = |server, at| (ServerId(server), CloseReason::Surplus, at);
    assert_eq!(
        closed,
        [gone(1, later), gone(2, later.plus(SURPLUS_SPACING))]
    );
    // The servers that remain are closed by server_idle_timeout.
    let timeout = shard.policy.idle_timeout.unwrap();
    assert_eq!(shard.next_tick(), Some(Moment(2).plus(timeout)));
}

#[test]
fn a_pool_whose_servers_shall_stay_keeps_the_surplus() {
    for (min, idle_timeout) in [(4, Some(Duration::from_secs(600))), (0, None)] {
        let mut pool = four_idle(Policy {
            min,
            idle_timeout,
            ..of_size(4)
        });
        let shard = &mut pool.shards[0];
        shard.shared().set_enough(1);
        let later = Moment(60 * SECOND);
        shard.tick(later);
        assert!(shard.poll(later).is_none(), "{min} {idle_timeout:?}");
    }
}

#[test]
fn recycling_closes_idle_servers_now_and_busy_ones_on_release() {
    let mut pool = pool(1, of_size(2));
    let shard = &mut pool.shards[0];
    serve(shard, Moment(1), 1, 1);
    serve(shard, Moment(1), 2, 2);
    assert_eq!(shard.checkin(Moment(2), ServerId(1)), Checkin::Idle);
    shard.recycle(Moment(3));
    let action = shard.poll(Moment(3));
    assert!(matches!(
        action,
        Some(Action::Close {
            reason: CloseReason::Obsolete,
            ..
        })
    ));
    shard.closed(Moment(3), ServerId(1));
    let answer = shard.checkin(Moment(4), ServerId(2));
    assert_eq!(answer, Checkin::Close(CloseReason::Obsolete));
    shard.closed(Moment(4), ServerId(2));
    serve(shard, Moment(5), 3, 3);
    assert_eq!(shard.checkin(Moment(6), ServerId(3)), Checkin::Idle);
}

#[test]
fn a_paused_pool_lets_clients_wait_and_closes_what_nobody_uses() {
    let mut pool = pool(1, of_size(3));
    let shard = &mut pool.shards[0];
    serve(shard, Moment(1), 1, 1);
    serve(shard, Moment(1), 2, 2);
    assert_eq!(shard.checkin(Moment(2), ServerId(1)), Checkin::Idle);
    shard.shared().set_paused(true);
    shard.settle(Moment(3));
    let reason = |action| match action {
        Some(Action::Close { reason, .. }) => Some(reason),
        _ => None,
    };
    assert_eq!(reason(shard.poll(Moment(3))), Some(CloseReason::Paused));
    shard.closed(Moment(3), ServerId(1));
    let _ = ticket(shard.checkout(Moment(4), ClientId(3), Want::Any));
    assert!(shard.poll(Moment(4)).is_none(), "no server is opened");
    assert_eq!(shard.shared().connected(), 1, "the pause is not complete");
    let paused = Checkin::Close(CloseReason::Paused);
    assert_eq!(shard.checkin(Moment(5), ServerId(2)), paused);
    shard.closed(Moment(5), ServerId(2));
    assert_eq!(shard.shared().connected(), 0);
    shard.shared().set_paused(false);
    shard.settle(Moment(6));
    start(shard, Moment(6), 3);
}

/// The pause is set for all workers at once, but each worker learns of it later.
#[test]
fn a_paused_pool_gives_no_server_before_its_worker_has_heard_of_the_pause() {
    let mut pool = pool(1, of_size(1));
    let shard = &mut pool.shards[0];
    serve(shard, Moment(1), 1, 1);
    assert_eq!(shard.checkin(Moment(2), ServerId(1)), Checkin::Idle);
    shard.shared().set_paused(true);
    let _ = ticket(shard.checkout(Moment(3), ClientId(2), Want::Any));
    assert!(matches!(
        shard.poll(Moment(3)),
        Some(Action::Close {
            reason: CloseReason::Paused,
            ..
        })
    ));
}

/// A worker that ends, or a connect token that is lost on the way, must not cost the pool a place.
#[test]
fn a_leave_to_connect_that_is_dropped_gives_all_its_places_back() {
    let mut pool = pool(1, of_size(1));
    let shard = &mut pool.shards[0];
    let _ = ticket(shard.checkout(Moment(1), ClientId(1), Want::Any));
    let Some(Action::Connect(token)) = shard.poll(Moment(1)) else {
        panic!("no connect")
    };
    let before = (shard.shared().servers(), pool.database.used());
    assert_eq!((before, pool.host.logins()), ((1, 1), 1));
    drop(token);
    let after = (shard.shared().servers(), pool.database.used());
    assert_eq!((after, pool.host.logins()), ((0, 0), 0));
    assert_eq!(shard.shared().staying(), 0);
}

#[test]
fn servers_of_one_burst_are_not_closed_in_one_moment() {
    let mut pool = pool(
        1,
        Policy {
            idle_timeout: Some(Duration::from_secs(100)),
            ..of_size(4)
        },
    );
    let shard = &mut pool.shards[0];
    (1..=4).for_each(|number| serve(shard, Moment(1), number, number));
    for number in 1..=4 {
        assert_eq!(shard.checkin(Moment(2), ServerId(number)), Checkin::Idle);
    }
    let mut closed = Vec::new();
    while let Some(next) = shard.next_tick() {
        shard.tick(next);
        while let Some(action) = shard.poll(next) {
            let Action::Close { server, reason } = action else {
                panic!("{action:?}")
            };
            assert_eq!(reason, CloseReason::IdleTimeout);
            closed.push(next.0 / SECOND);
            shard.closed(next, server);
        }
    }
    assert_eq!(closed, [100, 102, 105, 107]);
}

/// The address may be a black hole: the first attempt gets no answer for a long time.
#[test]
fn obsolete_servers_are_known_until_the_last_is_gone() {
    let mut pool = pool(1, of_size(2));
    let shard = &mut pool.shards[0];
    serve(shard, Moment(1), 1, 1);
    assert!(!shard.shared().has_obsolete());
    shard.recycle(Moment(2));
    assert!(shard.shared().has_obsolete());
    serve(shard, Moment(3), 2, 2);
    assert!(shard.is_obsolete(ServerId(1)) && !shard.is_obsolete(ServerId(2)));
    assert_eq!(
        shard.checkin(Moment(4), ServerId(1)),
        Checkin::Close(CloseReason::Obsolete)
    );
    assert!(shard.shared().has_obsolete(), "it is not closed yet");
    shard.closed(Moment(5), ServerId(1));
    assert!(!shard.shared().has_obsolete(), "the other one is newer");
}

/// `sv_used` of SHOW POOLS: a server that is checked before its next use, and only while it is idle.
#[test]
fn a_server_is_long_idle_after_the_check_delay() {
    let mut pool = pool(1, of_size(1));
    let shard = &mut pool.shards[0];
    let delay = shard.policy.check_delay;
    serve(shard, Moment(1), 1, 1);
    let late = Moment(2).plus(delay).plus(delay);
    assert!(!shard.is_long_idle(ServerId(1), late), "it is in use");
    let _ = shard.checkin(Moment(2), ServerId(1));
    assert!(!shard.is_long_idle(ServerId(1), Moment(2).plus(delay)));
    assert!(shard.is_long_idle(ServerId(1), late));
}

#[test]
fn a_smaller_pool_closes_just_the_surplus() {
    let mut pool = pool(1, of_size(3));
    let shard = &mut pool.shards[0];
    (1..=3).for_each(|number| serve(shard, Moment(1), number, number));
    shard.set_policy(Moment(2), Arc::new(of_size(2)));
    let surplus = Checkin::Close(CloseReason::TooMany);
    assert_eq!(shard.checkin(Moment(3), ServerId(1)), surplus);
    assert_eq!(shard.checkin(Moment(3), ServerId(2)), Checkin::Idle);
    shard.closed(Moment(4), ServerId(1));
    assert_eq!(shard.checkin(Moment(5), ServerId(3)), Checkin::Idle);
}

#[test]
fn a_server_lost_between_lanes_makes_everybody_look_again() {
    let mut pool = pool(2, of_size(1));
    let [first, second] = &mut pool.shards[..] else {
        panic!()
    };
    serve(first, Moment(1), 1, 1);
    let _ = ticket(second.checkout(Moment(2), ClientId(2), Want::Any));
    assert_eq!(
        first.checkin(Moment(3), ServerId(1)),
        Checkin::HandOver { lane: 1 }
    );
    let transfer = first.detach(ServerId(1)).unwrap();
    first.lost(Moment(4), transfer);
    assert!(matches!(first.poll(Moment(4)), Some(Action::WakeOthers)));
    second.retry(Moment(5));
    start(second, Moment(5), 2);
}

#[test]
fn announcing_before_looking_loses_no_wake_up_in_any_order() {
    // Lane 0 has a server to give, lane 1 a waiter. Each first announces (A, a), then looks (B, b).
    for order in ["ABab", "AaBb", "AabB", "abAB", "aAbB", "aABb"] {
        let pool = pool(2, of_size(1));
        let shared = pool.shards[0].shared();
        let heads = [Moment(1), Moment::NEVER, Moment::NEVER, Moment::NEVER];
        let mut line = Line {
            count: 1,
            unmet: 1,
            ..Line::EMPTY
        };
        line.heads[..4].copy_from_slice(&heads);
        let (mut handed, mut asked) = (None, None);
        for step in order.chars() {
            match step {
                'A' => shared.announce_idle(0, Offer::new(Some(Moment(1)), None)),
                'B' => handed = shared.deliver_to_oldest(0, Moment::NEVER),
                'a' => shared.announce_wait(1, &line),
                _ => asked = shared.coldest_lane(1),
            }
        }
        assert!(handed.is_some() || asked.is_some(), "lost in order {order}");
    }
}
