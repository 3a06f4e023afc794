//! Tests of the series: rates, percentiles, gaps, reduction, places, and bounds.

use weir_stats::{PoolRow, Snapshot, Times};

use super::*;
use crate::Watch;
use crate::fixture::{START, calm, with, with_pool};

fn watch(seconds: impl Iterator<Item = u64>, snapshot: impl Fn(u64) -> Snapshot) -> Watch {
    let mut watch = Watch::new();
    for second in seconds {
        watch.observe(&snapshot(second));
    }
    watch
}

fn line<'a>(series: &'a Series, name: &str) -> &'a [f32] {
    let mut lines = series.lines.iter();
    &lines.find(|line| line.name == name).unwrap().values
}

/// Values with NaN as -1, so that they can be compared.
fn known(values: &[f32]) -> Vec<f32> {
    let known = values
        .iter()
        .map(|value| if value.is_nan() { -1.0 } else { *value });
    known.collect()
}

#[test]
fn a_pool_has_rates_gauges_and_percentiles_of_each_second() {
    let snapshot = |s| {
        with_pool(s, |row| {
            let mut times = Times::default();
            times.query.record_many(5_000, s * 200);
            times.wait.record_many(1_000_000, s.saturating_sub(2));
            row.times = Some(Box::new(times));
            row.totals.bytes_sent = s * 1_000;
        })
    };
    let watch = watch(0..4, snapshot);
    let series = watch.series("shop/app", 60, 60).unwrap();
    assert_eq!((series.start, series.step_seconds), (START - 1, 1));
    assert_eq!(series.lines.len(), 12);
    assert_eq!(
        known(line(&series, "transactions")),
        [-1.0, 100.0, 100.0, 100.0]
    );
    assert_eq!(
        known(line(&series, "bytes")),
        [-1.0, 1_000.0, 1_000.0, 1_000.0]
    );
    assert_eq!(line(&series, "servers"), [4.0; 4]);
    let p99 = line(&series, "query_p99");
    assert!(
        p99[0].is_nan() && (0.004..0.006).contains(&p99[3]),
        "{p99:?}"
    );
    // Nobody waited in the first seconds: unknown, not zero.
    let waits = line(&series, "wait_p99");
    assert!(waits[2].is_nan() && waits[3] > 0.7, "{waits:?}");
    assert_eq!(watch.series("shop/nobody", 60, 60), None);
}

#[test]
fn the_process_has_cores_and_sums() {
    let watch = watch(0..3, calm);
    let series = watch.series("", 60, 60).unwrap();
    assert_eq!(known(line(&series, "cpu")), [-1.0, 0.4, 0.4]);
    assert_eq!(known(line(&series, "transactions")), [-1.0, 100.0, 100.0]);
    assert_eq!(line(&series, "clients"), [10.0; 3]);
}

#[test]
fn missing_seconds_are_unknown_and_late_ones_are_not() {
    // One second is late and stands for two; then three seconds are missing.
    let watch = watch([0, 1, 3, 7].into_iter(), calm);
    let series = watch.series("shop/app", 60, 60).unwrap();
    let expected = [-1.0, 100.0, 100.0, 100.0, -1.0, -1.0, -1.0, 100.0];
    assert_eq!(known(line(&series, "transactions")), expected);
    assert_eq!(series.start, START - 1);
    // After a gap, the first sample knows gauges only.
    let mut watch = watch;
    watch.observe(&calm(60));
    let series = watch.series("shop/app", 2, 60).unwrap();
    assert_eq!(known(line(&series, "transactions")), [-1.0, -1.0]);
    assert_eq!(known(line(&series, "servers")), [-1.0, 4.0]);
}

#[test]
fn two_samples_in_a_second_are_one_point() {
    let watch = watch([0, 1, 1, 2].into_iter(), calm);
    let series = watch.series("shop/app", 60, 60).unwrap();
    assert_eq!(line(&series, "servers").len(), 3);
}

#[test]
fn points_are_means_or_maxima_and_begin_at_multiples_of_the_step() {
    let snapshot = |s: u64| {
        with_pool(s, |row| {
            row.servers = s % 10;
            row.counts.cl_waiting = s % 10;
        })
    };
    let watch = watch(0..100, snapshot);
    let series = watch.series("shop/app", 60, 6).unwrap();
    assert_eq!(series.step_seconds, 10);
    assert_eq!(series.start.rem_euclid(10), 0);
    // The last 60 seconds begin a second before a multiple, and lose it; the last point is not full yet.
    assert_eq!(line(&series, "waiting"), [9.0; 6]);
    assert_eq!(line(&series, "servers")[..5], [4.5; 5]);
    for points in [1, 7, 59, 60, 1000] {
        let series = watch.series("shop/app", 60, points).unwrap();
        assert!(line(&series, "waiting").len() <= points);
    }
}

#[test]
fn the_day_has_a_point_for_thirty_seconds() {
    let snapshot = |s: u64| with_pool(s, |row| row.counts.cl_waiting = s % 7);
    let watch = watch(0..4_000, snapshot);
    let series = watch.series("shop/app", 86_400, 10_000).unwrap();
    assert_eq!(series.step_seconds, 30);
    assert_eq!(line(&series, "waiting").len(), 133);
    assert!(line(&series, "waiting").iter().all(|value| *value == 6.0));
    assert_eq!(line(&series, "transactions")[1..], [100.0; 132]);
    let hour = watch.series("shop/app", 3_600, 10_000).unwrap();
    assert_eq!(line(&hour, "waiting").len(), 3_600);
    assert_eq!(hour.start, START + 3_999 - 3_600);
}

#[test]
fn a_day_without_samples_empties_the_rings() {
    let mut watch = watch(0..100, calm);
    watch.observe(&calm(200_000));
    let series = watch.series("", 86_400, 1_000).unwrap();
    assert_eq!(line(&series, "clients").len(), 0);
    assert_eq!(line(&watch.series("", 60, 60).unwrap(), "clients").len(), 1);
}

#[test]
fn a_clock_that_is_set_back_moves_the_points_with_it() {
    let watch = watch((100..110).chain(50..52), calm);
    let series = watch.series("shop/app", 60, 60).unwrap();
    assert_eq!(series.start, START + 51 - 12);
    assert_eq!(line(&series, "servers").len(), 12);
}

/// 200 pools, of which some have this many transactions a second.
fn many(second: u64, busy: &[(usize, u64)]) -> Snapshot {
    with(second, |snapshot| {
        snapshot.pools.clear();
        for number in 0..200 {
            let rate = busy.iter().find(|(of, _)| *of == number);
            let mut row = PoolRow::default();
            row.totals.transactions = second * rate.map_or(1, |(_, rate)| *rate);
            snapshot
                .pools
                .insert((format!("db{number:03}"), "app".to_owned()), row);
        }
    })
}

#[test]
fn a_busy_pool_gets_the_place_of_an_idle_one() {
    let mut watch = watch(0..60, |s| many(s, &[(199, 2)]));
    let has = |watch: &Watch, scope: &str| watch.series(scope, 60, 60).is_some();
    assert_eq!(watch.series_scopes().count(), 50);
    assert!(!has(&watch, "db199/app"));
    // Twice as many transactions are not enough: otherwise equal pools would take turns.
    for second in 60..120 {
        watch.observe(&many(second, &[(199, 2)]));
    }
    assert!(!has(&watch, "db199/app"));
    for second in 120..200 {
        watch.observe(&many(second, &[(199, 100)]));
    }
    assert!(has(&watch, "db199/app"));
    assert_eq!(watch.series_scopes().count(), 50);
}

#[test]
fn a_pool_that_is_gone_keeps_its_ring_until_another_needs_it() {
    let mut watch = watch(0..30, calm);
    for second in 30..60 {
        watch.observe(&with(second, |snapshot| snapshot.pools.clear()));
    }
    let series = watch.series("shop/app", 60, 60).unwrap();
    let servers = known(line(&series, "servers"));
    assert_eq!((servers[29], servers[30], servers.len()), (4.0, -1.0, 60));
    for second in 60..80 {
        watch.observe(&many(second, &[]));
    }
    assert_eq!(watch.series("shop/app", 60, 60), None);
}

#[test]
fn memory_grows_with_time_up_to_its_bound() {
    let mut history = History::default();
    let windows = Windows::default();
    let snapshot = many(0, &[]);
    let at = |history: &mut History, seconds: u64| {
        for _ in 0..seconds {
            history.sample(&snapshot, &windows, Step::Regular(1));
        }
        history.bytes()
    };
    // 51 rings of an hour and of a day, each with room for 120 rows.
    assert!(at(&mut history, 60) < 700_000);
    let full = PLACES * (HOUR + DAY) * 48 + (HOUR + DAY) * 24;
    history.skip(Step::Gap(86_399));
    assert_eq!(at(&mut history, 100), full);
    assert_eq!(full, 15_707_520);
}
