//! Tests that samples are read back as written, and that only those of the measured time count.

use serde_json::json;
use weir_advisor::analysis::waits::{Class, Profile};

use super::super::Counter;
use super::*;

fn fresh() -> (tempfile::TempDir, Database, i64, i64) {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::create(&directory.path().join("tune.sqlite")).unwrap();
    let run = NewRun {
        kind: "run",
        command: "weir tune run".to_owned(),
        server: "127.0.0.1:5432/x".to_owned(),
        server_version: "15.1".to_owned(),
        seed: u64::MAX,
        settings: "{}".to_owned(),
    };
    let environment = Environment::from([(
        "cpu".to_owned(),
        [("usable".to_owned(), "2".to_owned())].into(),
    )]);
    let missing = [Missing {
        what: "pg_stat_io".to_owned(),
        why: "PostgreSQL has it from 16 on".to_owned(),
    }];
    let run = database.begin_run(&run, &environment, &missing).unwrap();
    let cell = NewCell {
        workload: "chatty",
        connections: 8,
        clients: 8,
        repetition: 1,
        place: 3,
    };
    let cell = database.begin_cell(run, &cell).unwrap();
    (directory, database, run, cell)
}

fn session(state: &str, kind: Option<&str>, event: Option<&str>) -> Map<String, Value> {
    let row = json!({
        "pid": 7, "state": state, "wait_event_type": kind, "wait_event": event,
        "backend_type": "client backend", "query": "SELECT 'o''clock'", "from_the_future": 1,
    });
    row.as_object().unwrap().clone()
}

fn at(ms: u64, sessions: Vec<Map<String, Value>>) -> Snapshot {
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let time = ms as f64;
    Snapshot {
        at: Duration::from_millis(ms),
        sessions,
        counters: vec![Counter {
            source: "pg_stat_wal".to_owned(),
            object: String::new(),
            name: "wal_sync".to_owned(),
            value: time,
        }],
        machine: vec![
            ("cpus".to_owned(), 2.0),
            ("load_1min".to_owned(), 1.5),
            ("cpu_user_us".to_owned(), time * 500.0),
            ("cpu_idle_us".to_owned(), time * 1500.0),
            ("ctxt".to_owned(), time * 2.0),
        ],
        switches: vec![(7, 1, 2)],
        ..Snapshot::default()
    }
}

#[test]
fn only_the_measured_time_is_in_the_profile_and_empty_snapshots_count() {
    let (_directory, mut database, run, cell) = fresh();
    let waiting = || session("idle in transaction", Some("Client"), Some("ClientRead"));
    let busy = || session("active", None, None);
    for snapshot in [
        at(500, vec![busy(), busy(), busy()]),
        at(1000, vec![busy(), waiting()]),
        at(1500, vec![]),
        at(2000, vec![busy(), waiting(), waiting()]),
        at(3000, vec![busy()]),
    ] {
        database.add_snapshot(run, cell, &snapshot).unwrap();
    }
    let window = Window {
        begin: Duration::from_millis(900),
        end: Duration::from_millis(2100),
    };
    let outcome = Outcome {
        tps: 12.5,
        ..Outcome::default()
    };
    database
        .end_cell(cell, window, &outcome, &Costs::default())
        .unwrap();
    let mut profile = Profile::default();
    database.add_profile(cell, &mut profile).unwrap();
    assert_eq!(profile.snapshots(), 3);
    assert!((profile.class(Class::ClientInTransaction) - 1.0).abs() < 1e-9);
    assert!((profile.class(Class::Cpu) - 2.0 / 3.0).abs() < 1e-9);
    let processor = database.processor(cell).unwrap().unwrap();
    assert!((processor.user - 0.25).abs() < 1e-9, "{processor:?}");
    assert!(
        (processor.switches_per_s - 2000.0).abs() < 1e-9,
        "{processor:?}"
    );
    assert_eq!(
        database.growth(cell, "pg_stat_wal", "wal_sync").unwrap(),
        Some(1000.0)
    );
    assert_eq!(database.growth(cell, "pg_stat_io", "reads").unwrap(), None);
    let cells = database.cells(run).unwrap();
    assert_eq!(cells[0].outcome.as_ref().unwrap().tps, 12.5);
}

#[test]
fn what_a_run_was_is_found_again_by_another_connection() {
    let (directory, database, run, cell) = fresh();
    database
        .judge_cell(cell, &["a wallet differs".to_owned()])
        .unwrap();
    let again = Database::open(&directory.path().join("tune.sqlite")).unwrap();
    let row = again.last_run().unwrap();
    assert_eq!((row.id, row.seed), (run, u64::MAX));
    assert_eq!(again.missing(run).unwrap()[0].what, "pg_stat_io");
    assert_eq!(again.environment(run).unwrap()["cpu"]["usable"], "2");
    let cell = &again.cells(run).unwrap()[0];
    assert_eq!(cell.oracle.as_deref(), Some("a wallet differs"));
    assert_eq!((cell.connections, cell.repetition), (8, 1));
}

#[test]
fn a_file_of_somebody_else_is_refused_and_none_is_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.sqlite");
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE x (y)")
        .unwrap();
    assert!(Database::open(&path).is_err());
    assert!(Database::create(&path).is_err());
    assert!(Database::open(&directory.path().join("none")).is_err());
}
