//! Leaders that sources of hints name: from the report of a source to the host that workers write to.

use std::time::Duration;

use weir_config::HostPoint;
use weir_pool::HostId;
use weir_watch::{Held, State, Writes};

use super::hosts::Manner;
use super::world::{INTERVAL, World};
use crate::clock::machine_us;
use crate::global::{LeaderReport, LeaderReporter};

const SPLIT_BRAIN: Writes = Writes::Held(Held::SplitBrain);

/// Returns a world in which host 1 was promoted beside host 0, and host 2 follows the former primary.
fn frozen_agent(is_fenced: bool) -> World {
    let mut world = World::empty(&[Manner::Primary, Manner::Standby, Manner::Standby]);
    let mut spec = world.spec();
    spec.is_fenced = is_fenced;
    world.watch(vec![spec]);
    world.advance(2 * INTERVAL);
    assert_eq!(world.writes(), Writes::To(HostId(0)));
    world.manners[1] = Manner::Promoted;
    world.advance(2 * INTERVAL);
    assert_eq!(world.writes(), SPLIT_BRAIN);
    world.take_wakeups();
    world
}

fn reporter(world: &World) -> LeaderReporter {
    LeaderReporter::new(world.cluster())
}

/// Returns a report of a source that was asked so many microseconds ago.
fn report(host: &str, age: u64) -> Option<LeaderReport> {
    Some(LeaderReport {
        host: HostPoint::parse(host).ok(),
        asked_us: machine_us() - age,
    })
}

impl World {
    fn writes(&self) -> Writes {
        self.cluster().snapshot().writes
    }
}

#[test]
fn the_leader_of_a_source_decides_between_two_primaries_at_once() {
    let mut world = frozen_agent(true);
    let source = reporter(&world);
    source.report(report("10.0.0.1:5432", 0));
    assert_eq!(world.take_wakeups(), 1);
    world.take_woken();
    world.settle();
    assert_eq!(world.writes(), Writes::To(HostId(1)));
    assert_eq!(world.view(0).state, State::Fenced);
    assert_eq!(world.take_woken(), 1, "requests that wait go on");
    // The decision outlives the source.
    drop(source);
    world.advance(10 * INTERVAL);
    assert_eq!(world.writes(), Writes::To(HostId(1)));
}

#[test]
fn a_report_that_names_no_later_primary_decides_nothing() {
    for (is_fenced, host, age) in [
        // The option is off.
        (false, "10.0.0.1:5432", 0),
        // The former primary, a standby, and none of the hosts.
        (true, "10.0.0.0:5432", 0),
        (true, "10.0.0.2:5432", 0),
        (true, "10.0.0.9:5432", 0),
        (true, "10.0.0.1:5433", 0),
        (true, "10.0.0.1", 0),
        // There is no leader.
        (true, "", 0),
        // It comes too late.
        (true, "10.0.0.1:5432", 5_000_000),
    ] {
        let mut world = frozen_agent(is_fenced);
        let source = reporter(&world);
        source.report(report(host, age));
        world.advance(2 * INTERVAL);
        assert_eq!(world.writes(), SPLIT_BRAIN, "{is_fenced} {host} {age}");
    }
}

#[test]
fn a_report_ends_with_its_source_and_is_not_renewed_by_itself() {
    let ends: [&dyn Fn(LeaderReporter); 4] = [
        &drop,
        &|source| source.report(None),
        &|source| source.end(),
        // A thread that ends late has no effect.
        &|source| {
            source.end();
            source.report(report("10.0.0.1:5432", 0));
        },
    ];
    for end in ends {
        let mut world = World::empty(&[Manner::Primary, Manner::Standby, Manner::Standby]);
        let mut spec = world.spec();
        spec.is_fenced = true;
        world.watch(vec![spec]);
        world.advance(INTERVAL);
        let source = reporter(&world);
        source.report(report("10.0.0.1:5432", 0));
        world.advance(INTERVAL);
        world.take_wakeups();
        end(source);
        assert_eq!(world.take_wakeups(), 1);
        world.manners[1] = Manner::Promoted;
        world.advance(2 * INTERVAL);
        assert_eq!(world.writes(), SPLIT_BRAIN);
    }
    // The source hangs: its report ends by itself.
    let mut world = World::empty(&[Manner::Primary, Manner::Standby, Manner::Standby]);
    let mut spec = world.spec();
    spec.is_fenced = true;
    world.watch(vec![spec]);
    world.advance(INTERVAL);
    let source = reporter(&world);
    source.report(report("10.0.0.1:5432", 0));
    world.advance(Duration::from_secs(6));
    world.manners[1] = Manner::Promoted;
    world.advance(2 * INTERVAL);
    assert_eq!(world.writes(), SPLIT_BRAIN);
    drop(source);
}

#[test]
fn sources_that_disagree_are_no_witness() {
    let mut world = frozen_agent(true);
    let (one, other) = (reporter(&world), reporter(&world));
    one.report(report("10.0.0.0:5432", 0));
    other.report(report("10.0.0.1:5432", 0));
    world.advance(INTERVAL);
    assert_eq!(world.writes(), SPLIT_BRAIN);
    // There is no leader, says the other.
    one.report(report("", 0));
    world.advance(INTERVAL);
    assert_eq!(world.writes(), SPLIT_BRAIN);
    // One that cannot be read says nothing.
    one.report(None);
    world.settle();
    assert_eq!(world.writes(), Writes::To(HostId(1)));
}

#[test]
fn a_fence_may_come_and_go_while_hosts_are_watched() {
    let mut world = frozen_agent(false);
    let source = reporter(&world);
    source.report(report("10.0.0.1:5432", 0));
    world.settle();
    assert_eq!(world.writes(), SPLIT_BRAIN);
    let dials = world.dials;
    let mut spec = world.spec();
    spec.is_fenced = true;
    world.watch(vec![spec]);
    assert_eq!(world.writes(), Writes::To(HostId(1)));
    assert_eq!(world.dials, dials, "connections stay");
    drop(source);
}
