//! Leaders that a tool names, and timelines that go back.

use std::time::Duration;

use weir_pool::HostId;
use weir_pool::Moment;

use super::{A, B, C, Story, fails, host, primary, replica, restarted, with};
use crate::failure::FailureKind::Refused;
use crate::rules::Configured;
use crate::rules::LEADER_FOR;
use crate::rules::Rules;
use crate::rules::SplitBrain;
use crate::snapshot::Held;
use crate::snapshot::State;
use crate::snapshot::Writes;

const SPLIT_BRAIN: Writes = Writes::Held(Held::SplitBrain);

fn to(host: usize) -> Writes {
    Writes::To(HostId(u32::try_from(host).unwrap()))
}

impl Story {
    /// A tool says now that a host is the leader.
    fn name(&mut self, host: usize) {
        self.watch.hear_leader(self.now, host, self.now);
        self.note();
    }
}

/// The agent of a is frozen: b was promoted beside it, and c streams from a as before.
fn frozen_agent() -> Story {
    let mut story = Story::working(Rules::default(), 3);
    story.acts[B] = primary(7, 1000);
    story.watch.suspect(story.now);
    story.run(300);
    assert_eq!(story.writes(), SPLIT_BRAIN);
    story.lines.clear();
    story
}

#[test]
fn the_named_leader_of_two_primaries_gets_writes_at_once() {
    let mut story = frozen_agent();
    story.name(B);
    assert_eq!(story.writes(), to(B));
    let lines = story.lines();
    let line = "host b:5432 is the primary (timeline 7; it was a:5432, timeline 6, which may still say so; \
                failover_hints name it as leader)";
    assert!(lines.iter().any(|it| it == line), "{lines:?}");
    assert_eq!(story.view(A).state, State::Fenced);
    // It stays the primary when the report has become too old.
    story.run(60_000);
    assert_eq!(story.writes(), to(B));
}

#[test]
fn a_leader_that_is_named_before_its_promotion_is_probed_often_and_elected_by_its_own_answer() {
    let mut story = Story::working(Rules::default(), 3);
    story.name(B);
    story.run(1000);
    assert_eq!(story.writes(), to(A), "a name makes no primary");
    story.acts[B] = primary(7, 1000);
    story.run(25);
    assert_eq!(story.writes(), to(B));
    let lines = story.lines();
    assert!(
        !lines.iter().any(|it| it.contains("no witness")),
        "{lines:?}"
    );
}

#[test]
fn a_host_that_stays_a_standby_is_probed_often_for_a_while_only() {
    let mut story = Story::working(Rules::default(), 3);
    let mut count = 0;
    for _ in 0..30 {
        story.name(B);
        let until = story.now.plus(Duration::from_secs(1));
        while story.now < until {
            let before = story.flights.len();
            story.run(10);
            count += usize::from(story.flights.len() > before);
        }
    }
    assert!(count < 1000, "{count}");
    assert!(story.watch.next_probe() > story.now.plus(Duration::from_millis(20)));
}

#[test]
fn a_report_counts_for_some_seconds_and_twice_is_not_longer() {
    let mut story = Story::working(Rules::default(), 3);
    let asked = story.now;
    story.watch.hear_leader(story.now, B, asked);
    story.run(4000);
    story.watch.hear_leader(story.now, B, asked);
    story.run(1000);
    assert_eq!(story.now, asked.plus(LEADER_FOR));
    story.acts[B] = primary(7, 1000);
    story.watch.suspect(story.now);
    story.run(500);
    assert_eq!(story.writes(), SPLIT_BRAIN);
    // Confirmed by a new question, it counts again.
    story.name(B);
    assert_eq!(story.writes(), to(B));
}

#[test]
fn a_report_that_comes_late_says_nothing() {
    // The answer took longer than it counts.
    let mut story = frozen_agent();
    let asked = story.now;
    story.run(5000);
    story.watch.hear_leader(story.now, B, asked);
    assert_eq!(story.writes(), SPLIT_BRAIN);
    // A later report was there first.
    let mut story = frozen_agent();
    let asked = story.now;
    story.run(100);
    story.name(A);
    story.watch.hear_leader(story.now, B, asked);
    assert_eq!(story.writes(), SPLIT_BRAIN);
    // It was withdrawn, and comes again.
    let mut story = Story::working(Rules::default(), 3);
    let asked = story.now;
    story.watch.hear_leader(story.now, B, asked);
    story.watch.forget_leader();
    story.watch.hear_leader(story.now, B, asked);
    story.acts[B] = primary(7, 1000);
    story.watch.suspect(story.now);
    story.run(500);
    assert_eq!(story.writes(), SPLIT_BRAIN);
}

#[test]
fn a_report_of_the_future_counts_no_longer_than_one_of_now() {
    let mut story = Story::working(Rules::default(), 3);
    story.watch.hear_leader(story.now, B, Moment::NEVER);
    story.run(5000);
    story.acts[B] = primary(7, 1000);
    story.watch.suspect(story.now);
    story.run(500);
    assert_eq!(story.writes(), SPLIT_BRAIN);
    story.name(9);
    assert_eq!(story.writes(), SPLIT_BRAIN);
}

#[test]
fn a_report_of_before_the_last_failover_says_nothing() {
    let mut story = Story::working(Rules::default(), 3);
    story.name(C);
    story.acts[A] = fails(Refused);
    story.acts[B] = primary(7, 1000);
    story.watch.suspect(story.now);
    story.run(500);
    assert_eq!(story.writes(), to(B));
    // Promoted by mistake, while the report would still count.
    story.acts[C] = primary(8, 1000);
    story.watch.suspect(story.now);
    story.run(500);
    assert_eq!(story.writes(), SPLIT_BRAIN);
    story.name(C);
    assert_eq!(story.writes(), to(C));
}

#[test]
fn a_named_leader_on_a_lower_timeline_wins_nothing() {
    let mut story = Story::working(Rules::default(), 3);
    story.acts[B] = primary(5, 1000);
    story.name(B);
    story.run(500);
    assert_eq!(story.writes(), to(A));
    assert_eq!(story.view(B).state, State::Fenced);
    // The leader that Patroni names is the former one: it took its key back.
    let mut story = frozen_agent();
    story.name(A);
    story.run(500);
    assert_eq!(story.writes(), SPLIT_BRAIN);
}

#[test]
fn a_name_admits_no_host_that_the_watch_excludes() {
    let hosts = |role| {
        let mut hosts: Vec<_> = (0..3).map(host).collect();
        hosts[B].role = role;
        hosts
    };
    let acts = vec![primary(6, 1000), replica(6, 1000), replica(6, 1000)];
    let hosts = hosts(Configured::Replica);
    let mut story = Story::with_hosts(Rules::default(), hosts, acts);
    story.run(2000);
    story.acts[B] = primary(7, 1000);
    story.name(B);
    story.run(2000);
    assert_eq!(story.writes(), to(A));
    // Another cluster.
    let mut story = Story::working(Rules::default(), 3);
    let foreign = with(restarted(primary(7, 1000)), |answer| {
        answer.system = Some(43)
    });
    story.acts[B] = foreign;
    story.name(B);
    story.run(2000);
    assert_eq!(story.writes(), to(A));
    assert_eq!(story.view(B).state, State::Foreign);
}

#[test]
fn a_fenced_host_that_is_promoted_again_and_named_is_admitted() {
    let mut story = frozen_agent();
    story.name(B);
    assert_eq!(story.writes(), to(B));
    story.run(1000);
    // Nobody saw a in recovery. On its former timeline the name does not help.
    story.name(A);
    story.run(500);
    assert_eq!(
        (story.writes(), story.view(A).state),
        (to(B), State::Fenced)
    );
    story.acts[A] = restarted(primary(8, 1000));
    story.watch.suspect(story.now);
    story.run(500);
    assert_eq!(story.writes(), to(A));
}

/// Returns the lines about a timeline that goes back.
fn steps_back(story: &mut Story) -> Vec<String> {
    let lines = story.lines().into_iter();
    lines.filter(|line| line.contains("goes back")).collect()
}

#[test]
fn a_timeline_that_goes_back_is_told_once_per_step() {
    let mut story = Story::working(Rules::default(), 2);
    story.acts[A] = restarted(replica(5, 1000));
    story.acts[B] = primary(5, 1000);
    story.watch.suspect(story.now);
    story.run(500);
    assert_eq!(story.writes(), to(B));
    let line = "the timeline goes back: primary b:5432 is on timeline 5, and there was timeline 6; \
                commits on that one are lost";
    assert_eq!(steps_back(&mut story), [line]);
    // The same primary after a restart, and a promotion.
    story.acts[B] = restarted(primary(5, 1000));
    story.watch.suspect(story.now);
    story.run(500);
    story.acts[B] = restarted(primary(6, 1000));
    story.watch.suspect(story.now);
    story.run(500);
    assert!(steps_back(&mut story).is_empty());
    assert_eq!(story.view(B).timeline, 6);
    // Another step.
    story.acts[A] = primary(5, 1000);
    story.acts[B] = replica(5, 1000);
    story.watch.suspect(story.now);
    story.run(500);
    assert_eq!(story.writes(), to(A));
    assert_eq!(steps_back(&mut story).len(), 1);
}

#[test]
fn a_first_primary_behind_the_timeline_of_a_standby_is_a_step_back() {
    let rules = Rules {
        split_brain: SplitBrain::Newest,
        hold: Duration::from_secs(1),
        ..Rules::default()
    };
    let receiver = crate::answer::Receiver::Other { timeline: 7 };
    let acts = vec![primary(6, 1000), super::standby(receiver, 1000)];
    let mut story = Story::new(rules.clone(), acts);
    story.run(3000);
    assert_eq!(story.writes(), to(A));
    assert_eq!(steps_back(&mut story).len(), 1);
    story.run(10_000);
    assert!(steps_back(&mut story).is_empty());
    let mut story = Story::new(rules, vec![primary(7, 1000), replica(6, 1000)]);
    story.run(3000);
    assert!(steps_back(&mut story).is_empty());
}
