//! Simulation of clusters: hosts with real histories of WAL that commit, fail over, diverge, go back after a crash, lose
//! their network and their receivers, while a watch probes them. After every step the snapshot is compared with the truth.

#![expect(
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test that panics has failed, which is what it is for"
)]

#[path = "simulation/checks.rs"]
mod checks;
#[path = "simulation/cluster.rs"]
mod cluster;
#[path = "simulation/world.rs"]
mod world;

use std::time::Duration;

use proptest::prelude::*;
use weir_watch::Rules;
use weir_watch::SplitBrain;
use world::Op;
use world::World;

const HOSTS: usize = 4;

fn any_op() -> impl Strategy<Value = Op> {
    let host = || 0..HOSTS;
    prop_oneof![
        12 => prop_oneof![0..3_000u64, 0..100_000u64, 0..3_000_000u64].prop_map(Op::Advance),
        10 => any::<bool>().prop_map(|is_async| Op::Commit { is_async }),
        2 => host().prop_map(Op::CommitDirectly),
        2 => Just(Op::Uncommitted),
        2 => host().prop_map(Op::Crash),
        3 => host().prop_map(Op::Start),
        2 => host().prop_map(Op::Failover),
        1 => host().prop_map(Op::Promote),
        3 => (host(), host(), any::<bool>())
            .prop_map(|(host, upstream, rewinds)| Op::Follow { host, upstream, rewinds }),
        2 => (host(), any::<bool>()).prop_map(|(host, on)| Op::Cut(host, on)),
        1 => (host(), any::<bool>()).prop_map(|(host, on)| Op::Pause(host, on)),
        1 => (host(), any::<bool>()).prop_map(|(host, on)| Op::StopReceiver(host, on)),
        1 => host().prop_map(Op::KillSession),
        1 => Just(Op::Suspect),
        2 => (host(), 0..6_000_000u64).prop_map(|(host, age)| Op::Name { host, age }),
        1 => Just(Op::Unname),
    ]
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let rule = prop_oneof![
        Just(SplitBrain::Keep),
        Just(SplitBrain::Newest),
        Just(SplitBrain::Refuse)
    ];
    let staleness = prop_oneof![Just(None), Just(Some(Duration::from_secs(2)))];
    let lag = prop_oneof![Just(None), Just(Some(500))];
    let hold = prop_oneof![Just(1), Just(10)];
    (rule, staleness, lag, hold).prop_map(|(split_brain, max_staleness, max_lag, hold)| Rules {
        split_brain,
        max_staleness,
        max_lag,
        hold: Duration::from_secs(hold),
        slow_start: Duration::from_secs(5),
        ..Rules::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn snapshots_never_say_more_than_the_truth(
        rules in any_rules(),
        seed in any::<u64>(),
        ops in proptest::collection::vec(any_op(), 0..200),
    ) {
        let mut world = World::new(rules, HOSTS, seed);
        for op in &ops {
            world.apply(op);
        }
        world.recover();
    }
}
