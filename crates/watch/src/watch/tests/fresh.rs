//! Freshness of replicas.

use std::time::Duration;

use weir_pool::HostId;
use weir_pool::Moment;

use super::{A, B, C, Story, fails, primary, replica, restarted, standby, with};
use crate::answer::Lsn;
use crate::answer::Position;
use crate::answer::Receiver;
use crate::failure::FailureKind::{Login, Refused, Timeout};
use crate::rules::Rules;
use crate::snapshot::Writes;

const NOTHING: Moment = Moment(0);

#[test]
fn a_write_is_bounded_by_the_next_sample_and_found_on_the_replica() {
    let mut story = Story::working(Rules::default(), 2);
    let wrote = story.now;
    story.acts[A] = primary(6, 2000);
    story.watch.wrote(wrote);
    story.run(30);
    assert!(story.view(B).fresh_to <= wrote);
    assert_eq!(story.view(A).fresh_to, Moment::NEVER);
    story.acts[B] = replica(6, 2000);
    story.run(45);
    assert!(story.view(B).fresh_to > wrote, "{:?}", story.view(B));
}

#[test]
fn a_replica_that_has_replayed_less_is_not_fresh() {
    let mut story = Story::working(Rules::default(), 2);
    let wrote = story.now;
    story.watch.wrote(wrote);
    story.acts[A] = primary(6, 2000);
    story.acts[B] = replica(6, 1999);
    story.run(5000);
    assert!(story.view(B).fresh_to <= wrote);
    assert_eq!(story.view(B).lag_bytes, Some(1));
}

#[test]
fn an_insert_position_beyond_the_flushed_one_bounds_asynchronous_commits() {
    let mut story = Story::working(Rules::default(), 2);
    let wrote = story.now;
    story.watch.wrote(wrote);
    story.acts[A] = with(primary(6, 1000), |answer| {
        if let Position::Primary { inserted, .. } = &mut answer.position {
            *inserted = Lsn(1500);
        }
    });
    story.run(3000);
    assert!(story.view(B).fresh_to > wrote);
    assert!(story.view(B).fresh_to_async <= wrote);
    story.acts[B] = replica(6, 1500);
    story.run(2000);
    assert!(story.view(B).fresh_to_async > wrote);
}

#[test]
fn what_was_proved_dies_with_the_connection() {
    let mut story = Story::working(Rules::default(), 2);
    assert!(story.view(B).fresh_to > NOTHING);
    story.reset(B);
    assert_eq!(story.view(B).fresh_to, NOTHING);
    for kind in [Timeout, Login, Refused] {
        let mut story = Story::working(Rules::default(), 2);
        story.acts[B] = fails(kind);
        story.run(2100);
        assert_eq!(story.view(B).fresh_to, NOTHING, "{kind:?}");
    }
}

#[test]
fn a_restarted_standby_may_be_behind_itself() {
    let mut story = Story::working(Rules::default(), 2);
    story.acts[A] = primary(6, 2000);
    story.acts[B] = replica(6, 2000);
    story.run(2500);
    let fresh = story.view(B).fresh_to;
    story.acts[B] = restarted(replica(6, 1500));
    story.run(1100);
    assert!(story.view(B).fresh_to < fresh);
}

#[test]
fn a_promotion_makes_all_samples_worthless() {
    let mut story = Story::working(Rules::default(), 3);
    story.acts[A] = fails(Refused);
    story.run(1100);
    let wrote = story.now;
    story.acts[B] = primary(7, 1200);
    story.run(100);
    let since = story.watch.snapshot().writes_since;
    // c streams on the old timeline, and is beyond all positions.
    story.acts[C] = replica(6, 9000);
    story.run(3000);
    assert_eq!(story.view(C).fresh_to, NOTHING);
    assert!(!story.view(C).takes_reads);
    story.acts[C] = replica(7, 1200);
    story.run(3000);
    let fresh = story.view(C).fresh_to;
    assert!(fresh > wrote && fresh >= since, "{fresh:?}");
}

#[test]
fn samples_of_a_former_term_do_not_count() {
    let mut story = Story::working(Rules::default(), 3);
    story.acts[A] = fails(Refused);
    story.run(1100);
    // c has replayed all that the former primary has shown, but not what the new one has.
    story.acts[B] = primary(7, 5000);
    story.acts[C] = replica(7, 2000);
    story.run(3000);
    assert_eq!(story.view(C).fresh_to, NOTHING);
}

#[test]
fn the_answer_that_elects_a_host_is_no_sample() {
    let mut story = Story::working(Rules::default(), 3);
    story.acts[A] = fails(Refused);
    story.run(1100);
    story.acts[B] = primary(7, 1200);
    story.acts[C] = replica(7, 1200);
    for _ in 0..300 {
        story.run(1);
        let (snapshot, fresh) = (story.watch.snapshot(), story.view(C).fresh_to);
        if snapshot.writes == Writes::To(HostId(1)) {
            let since = snapshot.writes_since;
            assert!(fresh == NOTHING || fresh >= since, "{fresh:?} {since:?}");
        }
    }
    assert!(story.view(C).fresh_to > NOTHING);
}

#[test]
fn a_primary_that_restarts_may_be_behind_itself() {
    let mut story = Story::working(Rules::default(), 2);
    // b answers no more for a while.
    story.latency[B] = Duration::from_secs(3600);
    story.run(1100);
    assert!(story.view(B).fresh_to > NOTHING);
    story.acts[A] = restarted(primary(6, 900));
    story.run(3000);
    assert_eq!(story.view(B).fresh_to, NOTHING);
}

#[test]
fn a_hidden_timeline_proves_nothing() {
    let mut story = Story::working(Rules::default(), 2);
    story.acts[B] = with(standby(Receiver::Hidden, 1000), |answer| {
        answer.started = 2;
        answer.checkpoint_timeline = Some(6);
    });
    story.run(5000);
    assert!(story.view(B).takes_reads);
    assert_eq!(story.view(B).fresh_to, NOTHING);
    story.acts[B] = with(standby(Receiver::Hidden, 1000), |answer| answer.started = 3);
    story.run(5000);
    assert!(!story.view(B).takes_reads);
    let lines = story.lines();
    let line = "host b:5432 gets no reads: its timeline is not known (the user of the probe should be a member of \
                pg_monitor)";
    assert!(lines.iter().any(|it| it == line), "{lines:?}");
}

#[test]
fn replicas_stay_fresh_for_old_commits_while_the_primary_is_down() {
    let mut story = Story::working(Rules::default(), 2);
    let wrote = story.now;
    story.watch.wrote(wrote);
    story.run(1100);
    let fresh = story.view(B).fresh_to;
    assert!(fresh > wrote);
    story.acts[A] = fails(Refused);
    story.acts[B] = standby(Receiver::None, 1000);
    story.run(60_000);
    assert_eq!(story.view(B).fresh_to, fresh);
    assert!(story.view(B).takes_reads);
}

#[test]
fn late_and_repeated_answers_are_ignored() {
    let mut story = Story::working(Rules::default(), 2);
    let super::Act::Answer(ahead) = primary(6, 5000) else {
        panic!("an answer");
    };
    let before = story.watch.snapshot();
    // No probe is under way.
    story.watch.handle_answer(story.now, A, story.now, &ahead);
    assert_eq!(story.watch.snapshot(), before);
    let now = story.watch.next_probe();
    let host = story.watch.poll_probe(now).unwrap();
    // The answer to an earlier order.
    let earlier = Moment(now.0 - 1);
    story.watch.handle_answer(now, host, earlier, &ahead);
    assert_eq!(story.watch.snapshot(), before);
    // Unknown hosts.
    story.watch.handle_answer(now, 99, now, &ahead);
    story
        .watch
        .handle_failure(now, 99, &super::failure(Timeout));
    assert_eq!(story.watch.snapshot(), before);
}

#[test]
fn a_time_in_the_future_claims_nothing() {
    let mut story = Story::working(Rules::default(), 2);
    story.run(1000);
    let late = story.now.plus(Duration::from_secs(3600));
    for _ in 0..4 {
        story.now = story.watch.next_probe();
        let host = story.watch.poll_probe(story.now).unwrap();
        let super::Act::Answer(answer) = story.acts[host].clone() else {
            panic!("an answer");
        };
        story.watch.handle_answer(story.now, host, late, &answer);
    }
    assert!(story.view(B).fresh_to <= story.now);
}
