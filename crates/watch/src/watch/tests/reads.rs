//! Which replicas get reads, and with what weight.

use std::time::Duration;

use super::{A, B, C, Story, fails, host, primary, replica, restarted, standby, with};
use crate::answer::Position;
use crate::answer::Receiver;
use crate::failure::FailureKind::{Refused, Timeout};
use crate::rules::Rules;
use crate::snapshot::State;

fn lag_rules() -> Rules {
    Rules {
        max_lag: Some(1000),
        max_staleness: Some(Duration::from_secs(10)),
        ..Rules::default()
    }
}

#[test]
fn a_replica_leaves_at_the_limit_in_bytes_and_returns_at_half_of_it() {
    let mut story = Story::working(lag_rules(), 2);
    let mut check = |flushed, expected| {
        story.acts[A] = primary(6, flushed);
        story.run(2500);
        assert_eq!(story.view(B).takes_reads, expected, "{flushed}");
        story.acts[B] = replica(6, 1000);
    };
    check(1999, true);
    check(2000, false);
    let mut check = |replayed, expected| {
        story.acts[B] = replica(6, replayed);
        story.run(2500);
        assert_eq!(story.view(B).takes_reads, expected, "{replayed}");
    };
    check(1499, false);
    check(1999, false);
    check(2000, true);
}

#[test]
fn half_of_the_limit_is_enough_to_return() {
    let rules = Rules {
        max_staleness: None,
        ..lag_rules()
    };
    let mut story = Story::working(rules, 2);
    story.acts[A] = primary(6, 2000);
    story.run(2500);
    assert!(!story.view(B).takes_reads);
    story.acts[B] = replica(6, 1499);
    story.run(2500);
    assert!(!story.view(B).takes_reads);
    story.acts[B] = replica(6, 1500);
    story.run(2500);
    assert!(story.view(B).takes_reads);
}

/// Replay stops, and the primary goes on.
fn stalled(rules: Rules) -> Story {
    let mut story = Story::working(rules, 2);
    for step in 0..16 {
        story.acts[A] = primary(6, 1001 + step);
        story.run(500);
    }
    story
}

#[test]
fn a_replica_that_stands_still_leaves_in_time() {
    let mut story = stalled(Rules::default());
    assert!(story.view(B).takes_reads, "{:?}", story.view(B));
    for step in 0..6 {
        story.acts[A] = primary(6, 1100 + step);
        story.run(500);
    }
    assert!(!story.view(B).takes_reads, "{:?}", story.view(B));
    let lag = story.view(B).lag.unwrap();
    assert!(lag >= Duration::from_secs(10) && lag < Duration::from_secs(15));
    story.acts[B] = replica(6, 1105);
    story.run(2000);
    assert!(story.view(B).takes_reads);
    assert_eq!(story.view(B).lag, Some(Duration::ZERO));
}

#[test]
fn a_silent_primary_leaves_the_last_known_position() {
    let mut story = stalled(Rules::default());
    story.acts[A] = fails(Refused);
    story.run(8000);
    assert!(!story.view(B).takes_reads);
    story.acts[B] = replica(6, 5000);
    story.run(2000);
    assert!(story.view(B).takes_reads);
}

#[test]
fn an_idle_primary_has_no_lag() {
    let mut story = Story::working(lag_rules(), 2);
    story.run(600_000);
    let view = story.view(B);
    assert_eq!((view.lag, view.lag_bytes), (Some(Duration::ZERO), Some(0)));
    assert!(view.takes_reads);
    // Nor has one whose flush stopped inside of a record.
    story.acts[A] = primary(6, 8192);
    story.acts[B] = with(replica(6, 8000), |answer| {
        if let Position::Replica { received, .. } = &mut answer.position {
            *received = Some(crate::answer::Lsn(8192));
        }
    });
    story.run(600_000);
    assert_eq!(story.view(B).lag, Some(Duration::ZERO));
    assert!(story.view(B).takes_reads);
}

#[test]
fn a_paused_replica_that_is_behind_gets_no_reads_at_once() {
    let pause = |act| {
        with(act, |answer| {
            if let Position::Replica { is_paused, .. } = &mut answer.position {
                *is_paused = true;
            }
        })
    };
    let mut story = Story::working(Rules::default(), 2);
    story.acts[B] = pause(replica(6, 1000));
    story.run(1100);
    assert!(story.view(B).takes_reads);
    story.acts[A] = primary(6, 1001);
    story.run(2000);
    assert!(!story.view(B).takes_reads);
    assert_eq!(
        story.lines(),
        ["host b:5432 gets no reads: replay is paused"]
    );
}

#[test]
fn a_diverged_standby_gets_no_reads() {
    let diverged = standby(Receiver::Other { timeline: 5 }, 1000);
    let acts = vec![primary(6, 1000), diverged, standby(Receiver::None, 1000)];
    let mut story = Story::new(Rules::default(), acts);
    story.run(60_000);
    assert_eq!(story.view(B).state, State::Diverged);
    assert!(!story.view(B).takes_reads);
    // Nothing proves the timeline of c.
    assert_eq!(story.view(C).state, State::Up);
    assert!(!story.view(C).takes_reads);
}

#[test]
fn the_configuration_excludes_hosts_from_reads() {
    let mut hosts = vec![host(A), host(B), host(C)];
    hosts[B].reads = false;
    hosts[C].weight = 0;
    let acts = vec![primary(6, 1000), replica(6, 1000), replica(6, 1000)];
    let mut story = Story::with_hosts(Rules::default(), hosts, acts);
    story.run(2000);
    assert!(story.view(A).takes_reads);
    assert!(!story.view(B).takes_reads && !story.view(C).takes_reads);
    assert_eq!(story.view(C).weight, 0);
}

#[test]
fn a_silent_replica_is_out_within_four_seconds_and_starts_slowly() {
    let mut story = Story::working(Rules::default(), 3);
    story.acts[B] = fails(Timeout);
    story.run(4100);
    assert_eq!(story.view(B).state, State::Down);
    assert!(!story.view(B).takes_reads && story.view(C).takes_reads);
    story.acts[B] = restarted(replica(6, 1000));
    story.run(2000);
    let view = story.view(B);
    assert!(view.takes_reads);
    assert!((10..=16).contains(&view.weight), "{}", view.weight);
    story.run(30_000);
    assert_eq!(story.view(B).weight, 100);
    assert_eq!(story.view(C).weight, 100);
}

#[test]
fn a_replica_with_slow_probes_gets_half_the_weight() {
    let mut story = Story::working(Rules::default(), 3);
    story.latency[B] = Duration::from_millis(50);
    story.run(9000);
    assert_eq!(story.view(B).weight, 100);
    story.run(3000);
    assert_eq!(story.view(B).weight, 50);
    assert_eq!((story.view(A).weight, story.view(C).weight), (100, 100));
    assert!(story.view(B).takes_reads);
    // At most half of the replicas.
    story.latency[C] = Duration::from_millis(50);
    story.run(15_000);
    assert_eq!((story.view(B).weight, story.view(C).weight), (50, 100));
    story.latency[B] = Duration::from_millis(1);
    story.run(15_000);
    assert_eq!((story.view(B).weight, story.view(C).weight), (100, 50));
}
