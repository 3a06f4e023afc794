//! Tests of the open loop, and of the effect that a stall of the target has.

use super::*;

/// Minimum duration of the stall.
const STALL: Duration = Duration::from_millis(300);

/// Runs a plan during which the target stalls once, after a third of the time. The stall is timed by the progress
/// reports, about ten times a second.
fn with_stall(plan: &Plan, backend: &NullBackend) -> Outcome {
    let mut paused = None;
    let outcome = run(plan, &AtomicBool::new(false), &mut |progress| {
        if progress.phase != Phase::Measuring {
            return backend.resume();
        }
        match paused {
            None if progress.remaining_s < plan.measure_s * 2.0 / 3.0 => {
                backend.pause();
                paused = Some(clock::now());
            }
            Some(at) if clock::now() >= at + STALL => backend.resume(),
            _ => {}
        }
    });
    outcome.unwrap()
}

/// Returns the number of transactions that took at least this many milliseconds.
fn slow(outcome: &Outcome, ms: f64) -> f64 {
    let histogram = outcome.latency.clone().unwrap().histogram.unwrap();
    let slow = histogram.iter().filter(|(us, _)| *us as f64 >= ms * 1000.0);
    slow.map(|(_, count)| *count as f64).sum()
}

#[test]
fn a_stall_is_many_late_transactions_and_not_one_of_each_client() {
    let backend = backend(1, 100);
    let rate = 500.0;
    let plan = Plan {
        transactions_per_client: None,
        measure_s: 1.5,
        ..plan(&backend, 0)
    };
    let closed = with_stall(&plan, &backend);
    let open = with_stall(
        &Plan {
            pace: Pace::Fixed { per_second: rate },
            ..plan
        },
        &backend,
    );
    // In the closed loop each of the three clients waited once; a busy machine may add a stall of its own. In the
    // open loop all transactions due in the first 175 ms of the stall were 125 ms late or more.
    let (closed, late) = (slow(&closed, 125.0), slow(&open, 125.0));
    assert!((3.0..=15.0).contains(&closed), "{closed}");
    assert!(
        late >= rate * 0.175 && late > 4.0 * closed,
        "{late} {closed}"
    );
    assert!(open.latency.unwrap().max >= 290_000.0);
    assert!(open.lag_us_p99.unwrap() >= 100_000.0);
}

#[test]
fn late_transactions_are_neither_skipped_nor_lost() {
    let backend = backend(1, 100);
    for pace in [
        Pace::Fixed { per_second: 400.0 },
        Pace::Poisson { per_second: 400.0 },
    ] {
        let before = counts(&backend).transactions;
        let plan = Plan {
            pace,
            transactions_per_client: None,
            measure_s: 1.0,
            seed: 7,
            ..plan(&backend, 0)
        };
        let outcome = with_stall(&plan, &backend);
        let histogram = outcome.latency.unwrap().histogram.unwrap();
        let recorded: u64 = histogram.iter().map(|(_, count)| count).sum();
        // By the schedule, which the stall does not change.
        let is_right = match pace {
            Pace::Fixed { .. } => recorded == 400,
            _ => (300..=500).contains(&recorded),
        };
        assert!(is_right, "{recorded}");
        assert_eq!(counts(&backend).transactions - before, recorded);
        assert_eq!(outcome.unfinished, 0);
    }
}

#[test]
fn what_never_ends_is_told_with_its_time_so_far() {
    let backend = backend(1, 100);
    let plan = Plan {
        pace: Pace::Fixed { per_second: 100.0 },
        transactions_per_client: None,
        measure_s: 0.5,
        drain_s: 0.2,
        ..plan(&backend, 0)
    };
    let outcome = run(&plan, &AtomicBool::new(false), &mut |progress| {
        if progress.phase == Phase::Measuring {
            backend.pause();
        }
    });
    backend.resume();
    let outcome = outcome.unwrap();
    let histogram = outcome.latency.unwrap().histogram.unwrap();
    let recorded: u64 = histogram.iter().map(|(_, count)| count).sum();
    assert_eq!(recorded, 50);
    assert!(outcome.unfinished >= 40, "{}", outcome.unfinished);
}

#[test]
fn logins_by_a_schedule() {
    let backend = backend(1, 100);
    let plan = Plan {
        pace: Pace::Poisson { per_second: 200.0 },
        reconnect: true,
        transactions_per_client: None,
        measure_s: 0.5,
        ..plan(&backend, 0)
    };
    let tally = tally(&plan);
    assert!(tally.total > 50);
    assert_eq!(
        (tally.total_errors, counts(&backend).logins),
        (0, tally.total)
    );
}
