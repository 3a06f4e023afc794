//! Tests of the windows: sums, rates, gaps, counters that fall, and bounds.

use weir_stats::HostLogins;

use super::*;
use crate::fixture::{calm, key, with, with_pool};

/// Windows after samples at these seconds.
fn windows(seconds: &[u64], snapshot: impl Fn(u64) -> Snapshot) -> Windows {
    let mut windows = Windows::default();
    let mut before = None;
    for second in seconds {
        let snapshot = snapshot(*second);
        windows.sample(&snapshot, Step::between(before, snapshot.unix));
        before = Some(snapshot.unix);
    }
    windows
}

fn change(windows: &Windows, span: Span) -> f64 {
    let track = windows.pool(&key()).unwrap();
    track.change(PoolFigure::Transactions as usize, span)
}

#[test]
fn windows_are_the_sums_of_their_samples() {
    let all: Vec<_> = (0..200).collect();
    let windows = windows(&all, calm);
    assert_eq!(change(&windows, Span::Short), 1_000.0);
    assert_eq!(change(&windows, Span::Long), 6_000.0);
    assert_eq!(windows.seconds(Span::Long), 60.0);
    assert_eq!(
        windows.rate(change(&windows, Span::Short), Span::Short),
        100.0
    );
}

#[test]
fn a_young_window_knows_the_seconds_that_it_covers() {
    let windows = windows(&[0, 1, 2], calm);
    assert_eq!(change(&windows, Span::Long), 200.0);
    assert_eq!(windows.rate(200.0, Span::Long), 100.0);
    let one = self::windows(&[0], calm);
    assert_eq!(
        (change(&one, Span::Long), one.rate(0.0, Span::Long)),
        (0.0, 0.0)
    );
}

#[test]
fn a_late_sample_keeps_rates_right_and_a_gap_empties_them() {
    let late = windows(&[0, 1, 6, 7], calm);
    assert_eq!(late.rate(change(&late, Span::Short), Span::Short), 100.0);
    assert_eq!(change(&late, Span::Short), 700.0);
    let gap = windows(&[0, 1, 2, 500], calm);
    assert_eq!(
        (change(&gap, Span::Long), gap.seconds(Span::Long)),
        (0.0, 0.0)
    );
    assert_eq!(gap.samples(), 1);
    let back = windows(&[100, 101, 0, 1], calm);
    assert_eq!(change(&back, Span::Long), 100.0);
}

#[test]
fn a_counter_that_falls_is_no_change_and_goes_on_from_there() {
    let total = |second| [500, 600, 10, 30][usize::try_from(second).unwrap()];
    let windows = windows(&[0, 1, 2, 3], |s| {
        with_pool(s, |row| row.totals.transactions = total(s))
    });
    assert_eq!(change(&windows, Span::Long), 120.0);
}

#[test]
fn an_object_that_appears_later_begins_at_zero() {
    let windows = windows(&[0, 1, 2], |s| {
        with(s, |snapshot| {
            if s > 0 {
                let logins = HostLogins {
                    failed: 3,
                    ..HostLogins::default()
                };
                snapshot.logins.insert("db2:5432".to_owned(), logins);
            }
        })
    });
    let host = "db2:5432".to_owned();
    let failed = windows.logins(&host, LoginFigure::Failed, Span::Long);
    let first = windows.logins(&"db1:5432".to_owned(), LoginFigure::Succeeded, Span::Long);
    assert_eq!((failed, first), (3.0, 0.0));
}

#[test]
fn gauges_are_added_up() {
    let all: Vec<_> = (0..100).collect();
    let windows = windows(&all, calm);
    let track = windows.pool(&key()).unwrap();
    let leased = track.change(PoolFigure::Leased as usize, Span::Long);
    assert_eq!(leased, 60.0);
}

#[test]
fn pools_beyond_the_bound_have_no_windows_and_begin_with_their_totals() {
    let pools = |second: u64, count: usize| {
        with(second, |snapshot| {
            snapshot.pools.clear();
            for number in 0..2_000 - count {
                let mut row = PoolRow::default();
                row.totals.transactions = 1_000_000 + second;
                let name = format!("db{:04}", number + count);
                snapshot.pools.insert((name, "app".to_owned()), row);
            }
        })
    };
    // The first thousand pools go, and others get their places in the sample after.
    let windows = windows(&[0, 1, 2, 3, 4], |s| {
        pools(s, if s >= 3 { 1_000 } else { 0 })
    });
    assert_eq!(windows.pools.tracks.len(), 1_000);
    let late = windows
        .pool(&("db1999".to_owned(), "app".to_owned()))
        .unwrap();
    assert_eq!(late.change(0, Span::Long), 0.0);
}

#[test]
fn a_track_takes_the_bytes_that_the_crate_states() {
    assert!(size_of::<Track<POOL_FIGURES>>() <= 4300);
    let total = POOLS_MAX * size_of::<Track<POOL_FIGURES>>()
        + APPLICATIONS_MAX * size_of::<Track<APPLICATION_FIGURES>>()
        + HOSTS_MAX * (size_of::<Track<LOGIN_FIGURES>>() + size_of::<Track<1>>())
        + CODES_MAX * (size_of::<Track<1>>() + size_of::<Hour>() + 240)
        + WORKERS_MAX * size_of::<Track<1>>();
    assert!(total < 7_000_000, "{total}");
}

#[test]
fn the_baseline_is_the_median_minute() {
    let mut hour = Hour::default();
    for minute in 0..60_u8 {
        hour.add(if minute < 20 {
            1000.0
        } else {
            f32::from(minute)
        });
        hour.end_minute();
    }
    assert_eq!(hour.median(4), None);
    // 40 usual minutes from 20 to 59, and 20 of a storm.
    assert_eq!(hour.median(60), Some(50.0));
    // A code that is new had no errors in the minutes before.
    let mut new = Hour::default();
    new.add(500.0);
    new.end_minute();
    assert_eq!(new.median(30), Some(0.0));
}
