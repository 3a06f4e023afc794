//! Simulation of whole pools: several pools and lanes, messages that arrive late and in any order, logins that fail,
//! servers that die, clients that leave. After every step the counts must be consistent.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that panics has failed, which is what it is for"
)]

#[path = "simulation/books.rs"]
mod books;
#[path = "simulation/world.rs"]
mod world;

use std::time::Duration;

use proptest::prelude::*;
use weir_pool::FailureKind;
use weir_pool::Policy;
use world::CLIENTS;
use world::Op;
use world::Setup;
use world::World;

fn any_fault() -> impl Strategy<Value = Option<FailureKind>> {
    prop_oneof![
        3 => Just(None),
        1 => Just(Some(FailureKind::Local)),
        1 => Just(Some(FailureKind::Refused)),
        1 => Just(Some(FailureKind::Rejected)),
        1 => Just(Some(FailureKind::Temporary)),
    ]
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => any::<bool>().prop_map(Op::Bound),
        3 => prop_oneof![0..2_000u64, 0..20_000u64, 0..400_000u64].prop_map(Op::Advance),
        10 => (0..CLIENTS).prop_map(Op::Checkout),
        2 => (0..CLIENTS).prop_map(Op::CheckoutFresh),
        12 => any::<u64>().prop_map(Op::Deliver),
        1 => any::<u64>().prop_map(Op::DieBusy),
        1 => any::<u64>().prop_map(Op::DieIdle),
        1 => any_fault().prop_map(Op::Faults),
        8 => (0..CLIENTS).prop_map(Op::Finish),
        4 => (0..CLIENTS).prop_map(Op::GoOn),
        6 => (0..CLIENTS).prop_map(Op::Keep),
        1 => any::<bool>().prop_map(Op::Refuse),
        2 => (0..CLIENTS).prop_map(Op::Leave),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(pool, on)| Op::Pause(pool, on)),
        1 => Just(Op::Recycle),
        1 => (1..5usize).prop_map(Op::Resize),
        4 => (any::<usize>(), 0..5usize).prop_map(|(pool, limit)| Op::SetLimit(pool, limit)),
        3 => any::<u64>().prop_map(Op::Tick),
    ]
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let lifetime = prop_oneof![
        Just(None),
        Just(Some(Duration::ZERO)),
        Just(Some(Duration::from_millis(50)))
    ];
    let idle = prop_oneof![Just(None), Just(Some(Duration::from_millis(40)))];
    let limits = (0..5usize, 0..3usize, 0..3usize);
    let hold = prop_oneof![Just(Duration::ZERO), Just(Duration::from_millis(60))];
    (limits, lifetime, (idle, hold), any::<[bool; 3]>()).prop_map(
        |(
            (size, min, reserve),
            lifetime,
            (idle_timeout, hold),
            [round_robin, keep, limits_assigned],
        )| {
            Policy {
                lifetime_jitter: None,
                size,
                min,
                reserve,
                reserve_timeout: Duration::from_millis(20),
                lifetime,
                idle_timeout,
                check_delay: Duration::from_millis(30),
                wait_timeout: None,
                wait_notify: Some(Duration::from_millis(15)),
                login_retry: Duration::from_millis(200),
                hold,
                between_holds: Duration::from_millis(20),
                round_robin,
                limits_assigned,
                keep_min_without_clients: keep,
            }
        },
    )
}

fn any_setup(immediate: bool) -> impl Strategy<Value = Setup> {
    (
        1..3usize,
        1..5usize,
        any_policy(),
        0..6usize,
        0..6usize,
        0..4usize,
    )
        .prop_map(
            move |(pools, lanes, policy, database_max, user_max, logins_max)| Setup {
                pools,
                lanes,
                policy,
                database_max,
                user_max,
                logins_max,
                immediate,
            },
        )
}

fn run(setup: Setup, ops: &[Op]) {
    let mut world = World::new(setup);
    ops.iter().for_each(|op| world.apply(op));
    world.finish_everything();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn books_balance_and_everybody_is_served_whatever_the_order_of_messages(
        setup in any_setup(false),
        ops in proptest::collection::vec(any_op(), 0..150),
    ) {
        run(setup, &ops);
    }

    #[test]
    fn the_longest_waiter_of_all_lanes_is_served_first(
        setup in any_setup(true),
        ops in proptest::collection::vec(any_op(), 0..150),
    ) {
        run(setup, &ops);
    }
}
