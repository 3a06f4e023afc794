//! When hosts are probed.

use std::sync::Arc;
use std::time::Duration;

use weir_pool::Moment;

use super::{A, B, C, Story, fails, failure, primary, replica};
use crate::failure::FailureKind::{Refused, Reset, Timeout};
use crate::rules::DIRTY_INTERVAL;
use crate::rules::FAST_INTERVAL;
use crate::rules::Rules;
use crate::snapshot::State;

/// Orders of probes in the next milliseconds, by host. Hosts answer at once.
fn orders(story: &mut Story, millis: u64, mut each: impl FnMut(&mut Story)) -> Vec<usize> {
    for (host, sent, _) in std::mem::take(&mut story.flights) {
        story.deliver(host, sent);
    }
    let mut counts = vec![0; story.acts.len()];
    let end = story.now.plus(Duration::from_millis(millis));
    while story.now < end {
        each(story);
        while let Some(host) = story.watch.poll_probe(story.now) {
            counts[host] += 1;
            story.deliver(host, story.now);
        }
        assert!(story.watch.next_probe() > story.now);
        story.now = story.now.plus(Duration::from_micros(500));
    }
    counts
}

/// A working cluster in which no haste is left.
fn calm() -> Story {
    let mut story = Story::working(Rules::default(), 3);
    story.run(10_000);
    story
}

#[test]
fn a_calm_cluster_is_probed_at_the_configured_interval() {
    assert_eq!(orders(&mut calm(), 10_000, |_| {}), [10, 10, 10]);
}

#[test]
fn a_suspicion_probes_all_hosts_at_once_and_often_for_a_while() {
    let mut story = calm();
    story.watch.suspect(story.now);
    assert_eq!(story.watch.next_probe(), story.now);
    let counts = orders(&mut story, 5000, |_| {});
    assert!(counts.iter().all(|it| (48..=51).contains(it)), "{counts:?}");
    story.run(1000);
    assert_eq!(orders(&mut story, 10_000, |_| {}), [10, 10, 10]);
}

#[test]
fn many_suspicions_are_no_flood() {
    let counts = orders(&mut calm(), 1000, |story| story.watch.suspect(story.now));
    assert!(counts.iter().all(|it| (40..=51).contains(it)), "{counts:?}");
}

#[test]
fn many_writes_sample_the_primary_and_starve_nothing() {
    let mut position = 1000;
    let counts = orders(&mut calm(), 1000, |story| {
        position += 1;
        story.acts = vec![
            primary(6, position),
            replica(6, position),
            replica(6, position - 50),
        ];
        story.watch.wrote(story.now);
    });
    assert!(counts.iter().all(|it| (40..=51).contains(it)), "{counts:?}");
}

#[test]
fn one_write_costs_few_probes() {
    let mut story = calm();
    story.acts = vec![primary(6, 2000), replica(6, 2000), replica(6, 2000)];
    story.watch.wrote(story.now);
    let wrote = story.now;
    let counts = orders(&mut story, 100, |_| {});
    assert!(counts.iter().all(|it| (1..=3).contains(it)), "{counts:?}");
    assert!(story.view(B).fresh_to > wrote && story.view(C).fresh_to > wrote);
}

#[test]
fn a_replica_that_does_not_catch_up_is_not_chased_for_ever() {
    let mut story = calm();
    story.acts[A] = primary(6, 2000);
    story.watch.wrote(story.now);
    let counts = orders(&mut story, 6000, |_| {});
    assert!(counts[B] > 50 && counts[B] < 110, "{counts:?}");
    let counts = orders(&mut story, 3000, |_| {});
    assert_eq!(counts, [3, 3, 3]);
}

#[test]
fn hosts_that_stay_down_are_not_probed_often() {
    let mut story = calm();
    story.acts[B] = fails(Refused);
    story.run(20_000);
    assert_eq!(orders(&mut story, 10_000, |_| {}), [10, 10, 10]);
    // Without a primary all are, as long as requests may wait.
    story.acts[A] = fails(Refused);
    story.run(2000);
    let counts = orders(&mut story, 1000, |_| {});
    assert!(counts.iter().all(|it| *it >= 9), "{counts:?}");
    story.run(120_000);
    assert_eq!(orders(&mut story, 10_000, |_| {}), [10, 10, 10]);
}

#[test]
fn a_host_has_one_probe_at_a_time() {
    let mut story = calm();
    story.watch.suspect(story.now);
    let mut hosts: Vec<_> = std::iter::from_fn(|| story.watch.poll_probe(story.now)).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, [A, B, C]);
    let later = story.now.plus(Duration::from_secs(3600));
    story.watch.suspect(later);
    assert_eq!(story.watch.poll_probe(later), None);
    assert_eq!(story.watch.next_probe(), Moment::NEVER);
}

#[test]
fn time_that_stands_still_orders_nothing_twice() {
    let mut story = calm();
    for _ in 0..100 {
        story.watch.wrote(story.now);
        story.watch.suspect(story.now);
        while let Some(host) = story.watch.poll_probe(story.now) {
            story.deliver(host, story.now);
        }
        assert!(story.watch.next_probe() > story.now);
    }
}

#[test]
fn an_interval_of_zero_is_no_busy_loop() {
    let rules = Rules {
        probe_interval: Duration::ZERO,
        hold: Duration::ZERO,
        ..Rules::default()
    };
    let mut story = Story::working(rules, 2);
    story.run(100);
    assert!(story.watch.next_probe() > story.now);
}

#[test]
fn a_failure_is_counted_once() {
    let mut story = calm();
    story.reset(B);
    story.reset(B);
    let time_out = failure(Timeout);
    for _ in 0..9 {
        story.watch.handle_failure(story.now, B, &time_out);
    }
    assert_eq!(story.view(B).state, State::Up);
    story.acts[B] = fails(Reset);
    story.run(25);
    assert_eq!(story.view(B).state, State::Down);
}

#[test]
fn a_snapshot_stays_until_something_changes() {
    let mut story = calm();
    let before = story.watch.snapshot();
    story.watch.suspect(story.now);
    story.watch.wrote(story.now);
    assert!(Arc::ptr_eq(&before, &story.watch.snapshot()));
    story.acts[B] = fails(Refused);
    story.run(2);
    let after = story.watch.snapshot();
    assert!(after.number > before.number);
    assert_eq!(before.hosts[B].state, State::Up);
}

#[test]
fn a_watch_without_hosts_does_nothing() {
    let mut story = Story::new(Rules::default(), Vec::new());
    story.run(1000);
    assert_eq!(story.watch.next_probe(), Moment::NEVER);
    assert_eq!(DIRTY_INTERVAL * 5, FAST_INTERVAL);
}
