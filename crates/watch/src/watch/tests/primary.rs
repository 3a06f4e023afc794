//! Which host takes writes.

use std::time::Duration;

use weir_pool::HostId;

use super::{A, B, C, Story, fails, host, primary, replica, restarted, standby, with};
use crate::answer::Receiver;
use crate::failure::FailureKind::{Busy, Full, Login, Refused, Reset, Timeout};
use crate::rules::Configured;
use crate::rules::Rules;
use crate::rules::SplitBrain;
use crate::snapshot::Generation;
use crate::snapshot::Held;
use crate::snapshot::Role;
use crate::snapshot::State;
use crate::snapshot::Writes;

const NO_PRIMARY: Writes = Writes::Held(Held::NoPrimary);
const SPLIT_BRAIN: Writes = Writes::Held(Held::SplitBrain);

fn to(host: usize) -> Writes {
    Writes::To(HostId(u32::try_from(host).unwrap()))
}

fn ruled_by(split_brain: SplitBrain) -> Rules {
    Rules {
        split_brain,
        ..Rules::default()
    }
}

#[test]
fn no_host_is_elected_before_all_hosts_had_a_result() {
    let acts = vec![primary(6, 1000), fails(Timeout), primary(7, 1000)];
    let mut story = Story::new(Rules::default(), acts);
    story.run(500);
    assert_eq!(story.writes(), Writes::Unknown);
    assert!(
        story
            .watch
            .snapshot()
            .hosts
            .iter()
            .all(|it| !it.takes_reads)
    );
    story.acts[C] = replica(6, 1000);
    story.run(600);
    assert_eq!(story.writes(), to(A));
}

#[test]
fn a_primary_that_refuses_makes_writes_wait_at_once() {
    let mut story = Story::working(Rules::default(), 3);
    story.acts[A] = fails(Refused);
    story.watch.suspect(story.now);
    story.run(2);
    assert_eq!(story.writes(), NO_PRIMARY);
    assert_eq!(story.view(A).state, State::Down);
    assert_eq!(
        story.lines(),
        [
            "no host is a primary (a:5432 does not answer: connection refused): writes wait",
            "host a:5432 is down: connection refused"
        ]
    );
    // Back in place, with another timeline: two answers suffice.
    story.acts[A] = restarted(primary(7, 1000));
    story.run(150);
    assert_eq!(story.writes(), to(A));
    assert_eq!(story.view(A).generation, Generation(1));
    let lines = story.lines();
    let line = "host a:5432 is the primary (timeline 7; as before)";
    assert!(lines.iter().any(|it| it == line), "{lines:?}");
}

#[test]
fn silence_makes_writes_wait_and_never_switches() {
    let mut story = Story::working(Rules::default(), 3);
    story.acts[A] = fails(Timeout);
    story.run(2900);
    assert_eq!(story.writes(), to(A));
    story.run(1200);
    assert_eq!(story.writes(), NO_PRIMARY);
    story.run(3_600_000);
    assert_eq!(story.writes(), NO_PRIMARY);
    assert!(story.view(B).takes_reads);
}

#[test]
fn one_closed_connection_is_no_failure_of_the_host() {
    let mut story = Story::working(Rules::default(), 2);
    story.reset(A);
    assert_eq!(story.writes(), to(A));
    story.run(1000);
    assert_eq!(story.writes(), to(A));
    assert!(story.lines().is_empty());
    // The connection broke because the host died: the next probe, at once, shows it.
    story.acts[A] = fails(Reset);
    story.reset(A);
    story.run(25);
    assert_eq!(story.writes(), NO_PRIMARY);
}

#[test]
fn a_host_that_refuses_only_the_probe_keeps_its_writes() {
    for kind in [Login, Full] {
        let mut story = Story::working(Rules::default(), 2);
        story.acts[A] = fails(kind);
        story.run(60_000);
        assert_eq!(story.writes(), to(A), "{kind:?}");
    }
    let mut story = Story::working(Rules::default(), 2);
    story.acts[A] = fails(Busy);
    story.run(1000);
    assert_eq!(story.writes(), NO_PRIMARY);
    assert_eq!(story.view(A).state, State::Refusing);
}

#[test]
fn a_switchover_tells_its_evidence() {
    let mut story = Story::working(Rules::default(), 3);
    story.acts[A] = fails(Refused);
    story.run(1100);
    story.acts[B] = primary(7, 1200);
    story.run(100);
    assert_eq!(story.writes(), to(B));
    let lines = story.lines();
    let line =
        "host b:5432 is the primary (timeline 7; it was a:5432, timeline 6, which does not answer)";
    assert!(lines.iter().any(|it| it == line), "{lines:?}");
    // c follows, a comes back as a replica.
    story.acts[C] = replica(7, 1200);
    story.acts[A] = restarted(replica(7, 1200));
    story.run(1000);
    assert_eq!(story.view(A).role, Role::Replica);
    assert_eq!(story.view(A).state, State::Up);
    assert_eq!(story.view(A).generation, Generation(1));
    assert!(story.view(A).takes_reads && story.view(C).takes_reads);
}

#[test]
fn two_primaries_get_no_writes_until_a_standby_streams_from_one() {
    let mut story = Story::working(Rules::default(), 3);
    story.acts[B] = primary(7, 1200);
    story.run(5300);
    assert_eq!(story.writes(), SPLIT_BRAIN);
    assert!(story.view(C).takes_reads);
    assert!(!story.view(A).takes_reads && !story.view(B).takes_reads);
    story.acts[C] = replica(7, 1200);
    story.run(200);
    assert_eq!(story.writes(), to(B));
    assert_eq!(story.view(A).state, State::Fenced);
    let lines = story.lines();
    let line = "host b:5432 is the primary (timeline 7; it was a:5432, timeline 6, which may still say so; \
                c:5432 streams on this timeline)";
    assert!(lines.iter().any(|it| it == line), "{lines:?}");
}

#[test]
fn the_rule_decides_when_the_hold_is_over() {
    for (rule, expected) in [
        (SplitBrain::Keep, to(A)),
        (SplitBrain::Newest, to(B)),
        (SplitBrain::Refuse, SPLIT_BRAIN),
    ] {
        let mut story = Story::working(ruled_by(rule), 3);
        story.acts[B] = primary(7, 1200);
        story.run(2_000);
        let since = story.watch.snapshot().writes_since;
        let end = since.plus(Duration::from_secs(60));
        story.run(u64::try_from(end.since(story.now).as_millis()).unwrap() - 2);
        assert_eq!(story.writes(), SPLIT_BRAIN);
        story.run(4);
        assert_eq!(story.writes(), expected, "{rule:?}");
        if expected != SPLIT_BRAIN {
            let since = story.watch.snapshot().writes_since;
            assert_eq!(since, end, "the hold is exact");
        }
        story.run(60_000);
        assert_eq!(story.writes(), expected, "{rule:?}");
    }
}

#[test]
fn a_fenced_host_gets_nothing_even_if_the_winner_dies() {
    let mut story = Story::working(Rules::default(), 2);
    story.acts[A] = fails(Refused);
    story.run(1100);
    story.acts[B] = primary(7, 1200);
    story.run(100);
    // a is back, writable, and does not know that it lost.
    story.acts[A] = restarted(primary(6, 1100));
    story.run(1000);
    assert_eq!(
        (story.writes(), story.view(A).state),
        (to(B), State::Fenced)
    );
    story.acts[B] = fails(Refused);
    story.run(200_000);
    assert_eq!(story.writes(), NO_PRIMARY);
    assert!(!story.view(A).takes_reads);
    // In recovery, but on the old timeline: its rows may differ.
    story.acts[A] = standby(Receiver::Other { timeline: 6 }, 1100);
    story.run(2000);
    assert_eq!(story.view(A).state, State::Fenced);
    story.acts[B] = primary(7, 1200);
    story.acts[A] = restarted(replica(7, 1200));
    story.run(3000);
    assert_eq!((story.writes(), story.view(A).state), (to(B), State::Up));
    assert!(story.view(A).takes_reads);
}

#[test]
fn a_copy_of_the_primary_gets_nothing() {
    let mut story = Story::working(Rules::default(), 3);
    story.acts[B] = primary(6, 1000);
    story.run(120_000);
    assert_eq!(
        (story.writes(), story.view(B).state),
        (to(A), State::Fenced)
    );
    story.acts[A] = fails(Refused);
    story.run(120_000);
    assert_eq!(story.writes(), NO_PRIMARY);
}

#[test]
fn a_standby_promoted_by_hand_and_put_back_changes_nothing() {
    let mut story = Story::working(Rules::default(), 3);
    story.acts[B] = primary(7, 1200);
    story.run(2000);
    story.acts[B] = restarted(standby(Receiver::Other { timeline: 7 }, 1200));
    story.run(2000);
    assert_eq!(
        (story.writes(), story.view(B).state),
        (to(A), State::Diverged)
    );
    assert!(!story.view(B).takes_reads);
}

#[test]
fn a_host_of_another_cluster_is_named_and_gets_nothing() {
    let foreign = with(primary(9, 5000), |answer| answer.system = Some(13));
    let acts = vec![primary(6, 1000), replica(6, 1000), foreign];
    let mut story = Story::new(Rules::default(), acts);
    story.run(2000);
    assert_eq!(
        (story.writes(), story.view(C).state),
        (to(A), State::Foreign)
    );
    assert!(!story.view(C).takes_reads);
    let line = "host c:5432 belongs to cluster 13, not to 42: it gets no statement";
    let lines = story.lines();
    assert_eq!(
        lines.iter().filter(|it| *it == line).count(),
        1,
        "{lines:?}"
    );
    story.acts[C] = replica(6, 1000);
    story.run(2000);
    assert!(story.view(C).takes_reads);
}

#[test]
fn two_clusters_behind_two_addresses_get_nothing() {
    let foreign = with(primary(9, 5000), |answer| answer.system = Some(13));
    let mut story = Story::new(Rules::default(), vec![primary(6, 1000), foreign]);
    story.run(200_000);
    assert_eq!(story.writes(), SPLIT_BRAIN);
    assert!(
        story
            .watch
            .snapshot()
            .hosts
            .iter()
            .all(|it| !it.takes_reads)
    );
}

#[test]
fn the_configuration_restricts_roles() {
    let mut hosts = vec![host(A), host(B)];
    hosts[B].role = Configured::Replica;
    let acts = vec![fails(Refused), primary(7, 1000)];
    let mut story = Story::with_hosts(Rules::default(), hosts, acts);
    story.run(100_000);
    assert_eq!(story.writes(), NO_PRIMARY);
    assert!(!story.view(B).takes_reads);
    let lines = story.lines();
    let line =
        "host b:5432 is configured as replica and says that it is a primary: it gets no statement";
    assert!(lines.iter().any(|it| it == line), "{lines:?}");
}

#[test]
fn a_standby_cluster_has_no_primary_and_serves_reads() {
    let acts = vec![replica(6, 1000), replica(6, 900)];
    let mut story = Story::new(Rules::default(), acts);
    story.run(2000);
    assert_eq!(story.writes(), NO_PRIMARY);
    assert!(story.watch.snapshot().hosts.iter().all(|it| it.takes_reads));
}

#[test]
fn weir_that_starts_beside_a_former_primary_does_not_believe_it() {
    let acts = vec![
        primary(6, 1000),
        fails(Refused),
        standby(Receiver::Other { timeline: 7 }, 1200),
    ];
    let mut story = Story::new(ruled_by(SplitBrain::Refuse), acts);
    story.run(100_000);
    assert_eq!(story.writes(), SPLIT_BRAIN);
    story.acts[B] = primary(7, 1200);
    story.acts[C] = replica(7, 1200);
    story.run(1000);
    assert_eq!(
        (story.writes(), story.view(A).state),
        (to(B), State::Fenced)
    );
}

#[test]
fn a_read_only_primary_stays_the_primary() {
    let mut story = Story::working(Rules::default(), 2);
    story.acts[A] = with(primary(6, 1000), |answer| answer.is_read_only = true);
    story.run(3000);
    assert_eq!(story.writes(), to(A));
    let line = "primary a:5432 has default_transaction_read_only = on";
    assert_eq!(story.lines(), [line]);
}

#[test]
fn a_late_opinion_of_a_host_that_hangs_wins_nothing() {
    let mut story = Story::working(Rules::default(), 2);
    story.acts[B] = primary(7, 1200);
    story.run(1000);
    story.acts = vec![fails(Timeout), fails(Timeout)];
    for _ in 0..60 {
        story.run(100);
        assert!(matches!(story.writes(), Writes::Held(_)));
    }
}
