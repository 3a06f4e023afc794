//! Tests of sorting, and of the classification of targets.

use super::panel::sort_key;
use super::*;
use crate::report::fixture;

#[test]
fn numbers_sort_by_size_and_before_words() {
    let mut places = ["1000", "90%", "out", "5%", "50", "1", "in"].to_vec();
    places.sort_by_key(|place| sort_key(place));
    assert_eq!(places, ["1", "5%", "50", "90%", "1000", "in", "out"]);
}

#[test]
fn ours_is_what_is_used_and_not_what_was_slowed() {
    assert!(is_ours("weir") && is_ours("weir-1") && is_ours("weir-16"));
    assert!(!is_ours("weir-slow-20") && !is_ours("weir-1-again") && !is_ours("pgbouncer"));
}

#[test]
fn panels_are_named_by_what_differs_between_them() {
    let results = fixture::results();
    let view = View::new(&results);
    let labels = |at: usize| -> Vec<&str> {
        view.experiments[at]
            .panels
            .iter()
            .map(|panel| panel.label.as_str())
            .collect()
    };
    assert_eq!(labels(0), [""]);
    assert_eq!(labels(1), ["protocol extended", "protocol prepared"]);
    assert_eq!(
        view.experiments[0].panels[0].places,
        ["1", "50", "100", "500", "1000"]
    );
}

#[test]
fn a_noise_floor_is_lent_where_there_is_no_twin() {
    let mut results = fixture::results();
    results
        .cells
        .retain(|cell| cell.experiment == "p1" || cell.target != "pgbouncer-again");
    let view = View::new(&results);
    let floor = |at: usize, metric| view.experiments[at].floors.get(&metric).copied();
    let own = floor(0, Metric::Tps).unwrap();
    let lent = floor(1, Metric::Tps).unwrap();
    assert!(own.own && !lent.own);
    assert_eq!(own.noise, lent.noise);
    assert_eq!(floor(3, Metric::Bandwidth), None);
}

#[test]
fn what_is_missing_is_what_was_planned() {
    let mut results = fixture::small();
    results
        .cells
        .retain(|cell| cell.target != "weir-1" || cell.block < 3);
    let missing = |results: &Results| View::new(results).experiments[0].missing.len();
    assert_eq!(missing(&results), 2 * 3);
    // Without a plan, cells that were never measured are not known to be missing.
    results.run.experiments[0].plan.clear();
    assert_eq!(missing(&results), 2 * 3);
    results.cells.retain(|cell| cell.target != "weir-1");
    assert_eq!(missing(&results), 0);
}

#[test]
fn cells_that_nothing_describes_are_counted() {
    let mut results = fixture::small();
    results.cells[0].experiment = "other".to_owned();
    results.cells[1].target = "other".to_owned();
    assert_eq!(View::new(&results).strays, 2);
}

#[test]
fn the_interval_of_a_percentile_is_that_of_drawn_blocks() {
    let mut results = fixture::small();
    results.cells.retain(|cell| {
        cell.target == "weir-1" && cell.factors.get("clients").is_some_and(|c| c == "100")
    });
    for (cell, p99) in results.cells.iter_mut().zip([100, 200, 300, 400, 500]) {
        let latency = cell
            .outcome
            .as_mut()
            .and_then(|outcome| outcome.latency.as_mut());
        latency.unwrap().histogram = Some(vec![(p99, 100)]);
    }
    let interval = |results: &Results, share| {
        let point = Point::new(results.cells.iter());
        point
            .percentile_interval(share)
            .map(|interval| (interval.low, interval.high))
    };
    // The largest of five values drawn from five is below the third with a probability of (2/5)^5, about 1 %, and
    // below the fourth with 8 %.
    assert_eq!(interval(&results, 0.99), Some((300.0, 500.0)));
    assert_eq!(interval(&results, 0.0), Some((100.0, 300.0)));
    // Without distributions, the interval is that of the mean of the blocks' percentiles.
    for (cell, p99) in results.cells.iter_mut().zip([10.0; 5]) {
        let latency = cell
            .outcome
            .as_mut()
            .and_then(|outcome| outcome.latency.as_mut())
            .unwrap();
        (latency.histogram, latency.p99) = (None, p99);
    }
    assert_eq!(interval(&results, 0.99), Some((10.0, 10.0)));
    results.cells.truncate(1);
    assert_eq!(interval(&results, 0.99), None);
}

#[test]
fn a_version_stands_behind_the_name_of_its_program() {
    let versioned = |title: &str, version: &str| {
        let mut target = fixture::small().run.targets[0].clone();
        title.clone_into(&mut target.title);
        target.version = Some(version.to_owned());
        versioned(&target)
    };
    for (title, version, expected) in [
        ("PgBouncer", "PgBouncer 1.25.2", "PgBouncer 1.25.2"),
        ("PgBouncer 1.25", "PgBouncer 1.25.2", "PgBouncer 1.25.2"),
        ("PgCat, 1 worker", "pgcat 1.3.0", "PgCat 1.3.0, 1 worker"),
        (
            "PgDog, 2 workers",
            "PgDog v7b40c0c",
            "PgDog v7b40c0c, 2 workers",
        ),
        (
            "HAProxy (TCP)",
            "HAProxy version 2.6.12-1 2026/10/17",
            "HAProxy 2.6.12-1 (TCP)",
        ),
        (
            "Pgpool-II",
            "pgpool-II version 4.3.5 (tamahomeboshi)",
            "Pgpool-II 4.3.5",
        ),
        (
            "PgBouncer in front of Pgpool-II",
            "pgpool-II version 4.3.5; PgBouncer 1.18.0",
            "PgBouncer in front of Pgpool-II",
        ),
        ("Odyssey", "started at 10", "Odyssey"),
        (
            "Odyssey, 1 worker",
            "odyssey (git: 1.5.1)",
            "Odyssey 1.5.1, 1 worker",
        ),
    ] {
        assert_eq!(versioned(title, version), expected);
    }
}
