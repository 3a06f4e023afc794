//! Tests of findings that are read from a file of made-up cells.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::*;
use crate::collector::database::{NewCell, NewRun};
use crate::collector::{Counter, Snapshot, WEIR};
use crate::meter::Window;
use crate::record::{Costs, Latency, Machine, Outcome, Usage};

/// Writes the published figures, as if measured twice each. `pool_clients` is the number of clients if it was a
/// pool.
pub(in crate::tune) fn published(directory: &Path, pool_clients: Option<u32>) -> Database {
    let mut database = Database::create(&collector::file(directory)).unwrap();
    let settings = Settings {
        name: "p3".to_owned(),
        data: "compat".to_owned(),
        path: if pool_clients.is_some() {
            "weir"
        } else {
            "direct"
        }
        .to_owned(),
        pool_clients,
        cores: Some(2),
        goal: "balanced".to_owned(),
        repetitions: 2,
        planned: 20,
        ..Settings::default()
    };
    let run = NewRun {
        kind: "run",
        command: "weir tune run p3".to_owned(),
        server: "postgres@127.0.0.1:5432/postgres".to_owned(),
        server_version: "18.0".to_owned(),
        seed: 5,
        settings: settings.json(),
    };
    let run = database.begin_run(&run, &BTreeMap::new(), &[]).unwrap();
    for workload in ["chatty", "pipelined"] {
        for (connections, tps, mean, stddev) in study(workload).unwrap().rows {
            for repetition in 0..2 {
                let new = NewCell {
                    workload,
                    connections,
                    clients: pool_clients.unwrap_or(connections),
                    repetition,
                    place: 0,
                };
                let cell = database.begin_cell(run, &new).unwrap();
                for at in [1000, 2000, 3000] {
                    let snapshot = snapshot(at, connections);
                    database.add_snapshot(run, cell, &snapshot).unwrap();
                }
                let window = Window {
                    begin: Duration::from_millis(1000),
                    end: Duration::from_millis(3000),
                };
                // One per cent more, and one per cent less.
                let part = if repetition == 0 { 1.01 } else { 0.99 };
                let outcome = outcome(tps * part, mean / part, stddev);
                database.end_cell(cell, window, &outcome, &costs()).unwrap();
                database.judge_cell(cell, &[]).unwrap();
            }
        }
    }
    database
}

/// Returns a snapshot: half of the sessions wait for their client, one for the log, the rest have no wait.
fn snapshot(at: u64, connections: u32) -> Snapshot {
    let session = |number: u32| -> Map<String, Value> {
        let (state, kind, event) = match number {
            0 => ("active", Some("LWLock"), Some("WALWrite")),
            number if number % 2 == 0 => ("active", None, None),
            _ => ("idle in transaction", Some("Client"), Some("ClientRead")),
        };
        let pairs = [
            ("pid", Value::from(number)),
            ("state", state.into()),
            ("wait_event_type", kind.into()),
            ("wait_event", event.into()),
            ("backend_type", "client backend".into()),
        ];
        pairs
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect()
    };
    let time = f64::from(u32::try_from(at).unwrap()) * 1000.0;
    let counter = |name: &str, per_us: f64| Counter {
        source: WEIR.to_owned(),
        object: String::new(),
        name: name.to_owned(),
        value: time * per_us,
    };
    Snapshot {
        at: Duration::from_millis(at),
        sessions: (0..connections).map(session).collect(),
        counters: vec![
            counter("wait_time", 3.0),
            counter("xact_time", 2.0),
            counter("query_time", 1.5),
        ],
        machine: vec![
            ("cpus".to_owned(), 2.0),
            ("load_1min".to_owned(), 1.5),
            ("cpu_user_us".to_owned(), time),
            ("cpu_idle_us".to_owned(), time),
        ],
        ..Snapshot::default()
    }
}

fn outcome(tps: f64, mean_ms: f64, stddev_ms: f64) -> Outcome {
    Outcome {
        tps,
        seconds: 2.0,
        latency: Some(Latency {
            mean: 1000.0 * mean_ms,
            stddev: 1000.0 * stddev_ms,
            p50: 900.0 * mean_ms,
            p90: 1500.0 * mean_ms,
            p99: 3000.0 * mean_ms,
            p999: 5000.0 * mean_ms,
            ..Latency::default()
        }),
        ..Outcome::default()
    }
}

fn costs() -> Costs {
    let used = |cpu_us| {
        Some(Usage {
            cpu_us,
            ..Usage::default()
        })
    };
    Costs {
        server: used(2e6),
        generator: used(1e6),
        machine: Some(Machine {
            cpus: 2,
            ..Machine::default()
        }),
        ..Costs::default()
    }
}

fn read(pool_clients: Option<u32>) -> Finding {
    let directory = tempfile::tempdir().unwrap();
    drop(published(directory.path(), pool_clients));
    Finding::read(directory.path()).unwrap()
}

fn rule(series: &Series, name: &str) -> Option<f64> {
    let mut rules = series.judgement.rules.iter();
    rules
        .find(|rule| rule.name == name)
        .and_then(|rule| rule.connections)
}

#[test]
fn the_published_rows_out_of_a_file_give_the_published_knees_and_an_answer() {
    let finding = read(None);
    let names: Vec<&str> = finding
        .series
        .iter()
        .map(|series| series.name.as_str())
        .collect();
    assert_eq!(names, ["chatty", "pipelined"]);
    for (series, knee) in finding.series.iter().zip([13.6, 8.3]) {
        let found = rule(series, "bandwidth-delay knee").unwrap();
        assert!((found - knee).abs() < 0.05, "{found} is not {knee}");
        assert_eq!(rule(series, "rule of thumb"), Some(4.0));
        assert!(matches!(
            series.judgement.verdict,
            Verdict::Recommended { .. }
        ));
        assert_eq!(series.published.as_ref().unwrap().rows.len(), 5);
    }
    assert!((finding.round_trip_ms.unwrap() - 1.27).abs() < 0.01);
    assert_eq!((finding.measured, finding.failed.len()), (20, 0));
}

#[test]
fn a_spot_has_its_repetitions_waits_and_costs() {
    let finding = read(None);
    let spot = &finding.series[0].spots[2];
    assert_eq!((spot.connections, spot.tps_each.len()), (8, 2));
    assert!(spot.tps.low < spot.tps.mean && spot.tps.mean < spot.tps.high);
    // Three snapshots in each of the two repetitions.
    assert_eq!(spot.snapshots, 6);
    let log = spot
        .waits
        .iter()
        .find(|wait| wait.event == "LWLock:WALWrite")
        .unwrap();
    assert_eq!((log.average, log.when_present, log.error), (1.0, 1.0, 0.0));
    assert_eq!(spot.active, 4.0);
    assert_eq!(spot.classes[5], ("client, in transaction".to_owned(), 4.0));
    // Three sessions on a CPU, of which only one is available.
    assert_eq!(spot.without_core, Some(2.0));
    assert_eq!(spot.generator_share, Some(0.25));
    assert!((spot.processor.unwrap().user - 0.5).abs() < 1e-9);
    assert!(finding.threats[0].contains("25 %"), "{:?}", finding.threats);
}

#[test]
fn the_size_of_a_pool_is_judged_by_the_time_on_a_server_and_its_own_books_are_read() {
    let finding = read(Some(64));
    let spot = &finding.series[0].spots[0];
    let pool = spot.pool.unwrap();
    assert_eq!((pool.queue, pool.client, pool.server), (3.0, 0.5, 1.5));
    // Little's law is checked with the clients, of which there are 64.
    assert_eq!(finding.series[0].judgement.little[0].1, 64.0);
    assert_eq!(
        (finding.round_trip_ms, &finding.series[0].published),
        (None, &None)
    );
}

#[test]
fn wrong_books_forbid_an_answer() {
    let directory = tempfile::tempdir().unwrap();
    let database = published(directory.path(), None);
    database
        .judge_cell(3, &["2 wallets differ from their ledger".to_owned()])
        .unwrap();
    let finding = Finding::read(directory.path()).unwrap();
    let Verdict::Refused { reason } = &finding.series[0].judgement.verdict else {
        panic!("{finding:?}");
    };
    assert!(reason.contains("after 1 cells"), "{reason}");
    assert_eq!(finding.wrong_books.len(), 1);
}

#[test]
fn a_curve_that_still_rises_is_not_extrapolated() {
    let directory = tempfile::tempdir().unwrap();
    let database = published(directory.path(), None);
    // A run that was stopped early: the largest two are missing.
    for cell in database.cells(1).unwrap() {
        if cell.connections > 8 {
            database.fail_cell(cell.id, "interrupted").unwrap();
        }
    }
    let finding = Finding::read(directory.path()).unwrap();
    let Verdict::Refused { reason } = &finding.series[0].judgement.verdict else {
        panic!("{finding:?}");
    };
    assert!(reason.contains("measure 16 connections"), "{reason}");
    assert_eq!((finding.measured, finding.failed.len()), (12, 8));
}
