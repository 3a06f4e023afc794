//! Tests of the throttle: its bound, its sources, and its bounded memory.

use proptest::prelude::*;

use super::*;

const RULES: Rules = Rules {
    burst: 3,
    interval: Duration::from_secs(10),
    delay_first: Duration::from_millis(100),
    delay_max: Duration::from_millis(350),
    sources_max: 4,
};

fn source(number: u32) -> Source {
    Source::V4(Ipv4Addr::from(number))
}

fn secs(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// Takes attempts until one is refused at `now`; returns their number.
fn drain(throttle: &mut Throttle, source: Source, now: Duration) -> u32 {
    let mut count = 0;
    while count < 1000 && throttle.take(source, now).is_ok() {
        count += 1;
    }
    count
}

#[test]
fn sec_67_a_source_gets_its_burst_then_one_per_interval() {
    let mut throttle = Throttle::new(RULES);
    assert_eq!(drain(&mut throttle, source(1), secs(5)), 3);
    assert_eq!(
        throttle.allow(source(1), secs(5)),
        Err(RetryAfter(secs(10)))
    );
    assert_eq!(
        throttle.allow(source(1), secs(14)),
        Err(RetryAfter(secs(1)))
    );
    assert_eq!(drain(&mut throttle, source(1), secs(15)), 1);
    assert_eq!(drain(&mut throttle, source(1), secs(100)), 3);
}

#[test]
fn sec_67_other_sources_are_not_affected() {
    let mut throttle = Throttle::new(RULES);
    drain(&mut throttle, source(1), secs(5));
    assert_eq!(throttle.allow(source(2), secs(5)), Ok(()));
    assert_eq!(
        throttle.failure(source(2), secs(5)),
        Duration::from_millis(100)
    );
}

#[test]
fn sec_67_answers_are_held_back_longer_and_longer_up_to_a_limit() {
    let mut throttle = Throttle::new(RULES);
    let delays: Vec<_> = (0..5)
        .map(|_| throttle.failure(source(1), secs(5)).as_millis())
        .collect();
    assert_eq!(delays, [100, 200, 350, 350, 350]);
    // After two windows everything is forgiven, whatever the number of failures.
    assert_eq!(throttle.failure(source(1), secs(66)).as_millis(), 100);
}

#[test]
fn sec_67_without_an_interval_there_is_no_limit_and_no_delay_that_grows() {
    let mut throttle = Throttle::new(Rules {
        interval: Duration::ZERO,
        ..RULES
    });
    for _ in 0..100 {
        assert_eq!(
            throttle.failure(source(1), secs(5)),
            Duration::from_millis(100)
        );
        assert_eq!(throttle.allow(source(1), secs(5)), Ok(()));
    }
    assert_eq!(throttle.source_count(), 0);
}

#[test]
fn sec_67_an_ipv6_network_is_one_source_and_mapped_ipv4_is_ipv4() {
    let of = |text: &str| Source::from_ip(text.parse().unwrap());
    assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
    assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
}

#[test]
fn sec_67_a_drained_bucket_cannot_be_flushed_by_fresh_sources() {
    let mut throttle = Throttle::new(RULES);
    drain(&mut throttle, source(1), secs(5));
    // The other sources evict one another until all places are equally drained.
    let places = u32::try_from(RULES.sources_max).unwrap() - 1;
    for number in 0..places * RULES.burst {
        throttle.spend(source(100 + number), secs(5));
        assert!(throttle.allow(source(1), secs(5)).is_err(), "{number}");
    }
    // From then on each further attempt costs a failure in every other place.
    let mut granted = 0;
    for number in 0..1000 {
        throttle.spend(source(1000 + number), secs(5));
        granted += u32::from(throttle.take(source(1), secs(5)).is_ok());
    }
    assert!(granted <= 1000 / places, "{granted}");
    assert_eq!(throttle.source_count(), RULES.sources_max);
}

#[test]
fn sec_67_two_sources_cannot_forgive_each_other_in_a_crowded_table() {
    let mut throttle = Throttle::new(RULES);
    for number in 10..14 {
        drain(&mut throttle, source(number), secs(5));
    }
    let mut granted = 0;
    for turn in 0..1000 {
        // The address sorts before or after the others.
        let source = source(1 + 100 * (turn % 2));
        granted += u32::from(throttle.take(source, secs(5)).is_ok());
    }
    assert!(granted <= 2 * RULES.burst, "{granted}");
}

#[test]
fn sec_66_cancels_are_limited_to_20_in_a_second() {
    let mut throttle = Throttle::new(Rules::for_cancels());
    assert_eq!(drain(&mut throttle, Source::Unix(7), secs(5)), 100);
    assert_eq!(drain(&mut throttle, Source::Unix(7), secs(6)), 20);
    assert_eq!(drain(&mut throttle, Source::Unix(8), secs(6)), 100);
}

/// Checks the bound of one source: in every span of time at most the burst plus one per interval.
fn check_bound(times: &[Duration], rules: &Rules) -> Result<(), TestCaseError> {
    for (index, from) in times.iter().enumerate() {
        for (count, to) in times[index..].iter().enumerate() {
            let span = (*to - *from).as_nanos() / rules.interval.as_nanos();
            let bound = u128::from(rules.burst) + span;
            prop_assert!((count as u128) < bound, "{count} from {from:?} to {to:?}");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn sec_67_the_bound_holds_for_random_schedules(
        burst in 1..6_u32,
        interval in 1..5000_u64,
        steps in prop::collection::vec((0..4_u32, 0..4000_u64), 1..300),
    ) {
        let rules = Rules { burst, interval: Duration::from_millis(interval), ..RULES };
        let mut throttle = Throttle::new(rules);
        let mut now = Duration::ZERO;
        let mut granted = vec![Vec::new(); 4];
        for (number, pause) in steps {
            now += Duration::from_millis(pause);
            if throttle.take(source(number), now).is_ok() {
                granted[number as usize].push(now);
            }
        }
        for times in granted {
            check_bound(&times, &rules)?;
        }
    }

    #[test]
    fn sec_67_nobody_waits_for_longer_than_two_windows_and_memory_is_bounded(
        steps in prop::collection::vec((0..20_u32, 0..40_000_u64), 1..300),
    ) {
        let mut throttle = Throttle::new(RULES);
        let mut now = Duration::ZERO;
        for (number, pause) in steps {
            now += Duration::from_millis(pause);
            let delay = throttle.failure(source(number), now);
            prop_assert!(delay >= RULES.delay_first && delay <= RULES.delay_max);
            prop_assert!(throttle.source_count() <= RULES.sources_max);
            prop_assert_eq!(throttle.buckets.len(), throttle.order.len());
            prop_assert!(throttle.allow(source(number), now + RULES.window() * 2).is_ok());
        }
    }
}
