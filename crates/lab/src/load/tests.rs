//! Tests of the generator against the null backend: both must have counted the same.

mod failures;
mod open_loop;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::load::plan::{CopyIn, Draw, Pace, Protocol, Tls, Transaction};
use crate::null::{Counts, NullBackend, NullPlan, NullTls};

use super::*;

/// Carries out a plan without progress reports.
fn tally(plan: &Plan) -> Tally {
    run_to_tally(plan, &AtomicBool::new(false), &mut |_| {})
        .unwrap()
        .0
}

fn outcome(plan: &Plan) -> Outcome {
    run(plan, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// Returns the backend's counters when all clients have left.
fn counts(backend: &NullBackend) -> Counts {
    loop {
        let counts = backend.counts();
        if counts.connected == 0 {
            return counts;
        }
        thread::yield_now();
    }
}

/// Returns a plan with this number of transactions for each of three clients on two threads.
fn plan(backend: &NullBackend, each: u64) -> Plan {
    Plan {
        clients: 3,
        threads: 2,
        transactions_per_client: Some(each),
        measure_s: 60.0,
        transactions: vec![
            Transaction::new(["SELECT * FROM t WHERE a = :a"])
                .with("a", Draw::Uniform { min: 1, max: 9 }),
        ],
        ..Plan::new(&backend.address().to_string())
    }
}

fn backend(rows: u64, row_bytes: u32) -> NullBackend {
    NullBackend::start(&NullPlan {
        rows,
        row_bytes,
        threads: 2,
        ..NullPlan::default()
    })
    .unwrap()
}

#[test]
fn every_protocol_is_counted_alike_on_both_sides() {
    let backend = backend(42, 100);
    let mut sum = 0;
    for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
        let outcome = outcome(&Plan {
            protocol,
            ..plan(&backend, 100)
        });
        sum += 300;
        assert_eq!((outcome.transactions, outcome.errors), (300, 0));
        assert_eq!(counts(&backend).transactions, sum);
        let per_client = outcome.per_client.unwrap();
        assert_eq!((per_client.min, per_client.max), (100.0, 100.0));
        let histogram = outcome.latency.unwrap().histogram.unwrap();
        assert_eq!(histogram.iter().map(|(_, count)| count).sum::<u64>(), 300);
        let bytes = outcome.bytes_per_s.unwrap() * outcome.seconds;
        assert!((bytes - 300.0 * 42.0 * 106.0).abs() < 1.0, "{bytes}");
    }
    assert_eq!(counts(&backend).logins, 9);
}

#[test]
fn pipelines_and_blocks_are_single_transactions() {
    let backend = backend(1, 100);
    let block = Transaction::new(["BEGIN", "SELECT 1", "UPDATE t SET a = 1", "COMMIT"]);
    let mut sum = Counts::default();
    for (protocol, pipeline) in [
        (Protocol::Simple, 1),
        (Protocol::Extended, 3),
        (Protocol::Prepared, 1),
        (Protocol::Prepared, 4),
    ] {
        let outcome = outcome(&Plan {
            protocol,
            pipeline,
            transactions: vec![block.clone()],
            ..plan(&backend, 50)
        });
        assert_eq!((outcome.transactions, outcome.errors), (150, 0));
        sum.transactions += 150;
        sum.statements += 600;
        let counts = counts(&backend);
        assert_eq!(counts.transactions, sum.transactions);
        assert_eq!(counts.statements, sum.statements);
    }
}

#[test]
fn copies_carry_exactly_what_was_asked_for() {
    // Exceeds the socket buffers of both sides.
    let backend = backend(20_000, 500);
    let mut copy_in = Transaction::new(["COPY t FROM STDIN"]);
    copy_in.statements[0].copy_in = Some(CopyIn {
        bytes: 5_000_001,
        line: 100,
    });
    for transaction in [
        Transaction::new(["SELECT 1"]),
        Transaction::new(["COPY t TO STDOUT"]),
        copy_in,
    ] {
        let is_in = transaction.statements[0].copy_in.is_some();
        let is_copy = is_in || transaction.statements[0].sql.starts_with("COPY");
        let outcome = outcome(&Plan {
            transactions: vec![transaction],
            ..plan(&backend, 2)
        });
        assert_eq!((outcome.transactions, outcome.errors), (6, 0));
        let each = match (is_in, is_copy) {
            (true, _) => 5_000_001.0,
            (_, true) => 20_000.0 * 500.0,
            _ => 20_000.0 * 506.0,
        };
        let bytes = outcome.bytes_per_s.unwrap() * outcome.seconds;
        assert!((bytes - 6.0 * each).abs() < 1.0, "{bytes}");
    }
    let counts = counts(&backend);
    assert_eq!(
        (counts.transactions, counts.copied_in_bytes),
        (18, 6 * 5_000_001)
    );
}

#[test]
fn a_login_per_transaction() {
    let backend = backend(1, 100);
    let with = |transactions: Vec<Transaction>| Plan {
        reconnect: true,
        protocol: Protocol::Prepared,
        transactions,
        ..plan(&backend, 20)
    };
    let first = outcome(&with(vec![Transaction::new(["SELECT 1"])]));
    assert_eq!((first.transactions, first.errors), (60, 0));
    let seen = counts(&backend);
    assert_eq!((seen.logins, seen.transactions), (60, 60));
    // Only logins.
    assert_eq!(outcome(&with(Vec::new())).transactions, 60);
    let seen = counts(&backend);
    assert_eq!((seen.logins, seen.transactions), (120, 60));
}

/// Creates a self-signed certificate for 127.0.0.1.
fn certificate(directory: &std::path::Path) -> NullTls {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let files = NullTls {
        cert_file: directory.join("server.crt"),
        key_file: directory.join("server.key"),
    };
    fs::write(&files.cert_file, made.cert.pem()).unwrap();
    fs::write(&files.key_file, made.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&files.key_file, fs::Permissions::from_mode(0o600)).unwrap();
    files
}

#[test]
fn encrypted_connections_are_counted_alike_on_both_sides() {
    let directory = tempfile::tempdir().unwrap();
    let tls = certificate(directory.path());
    let ca_file = tls.cert_file.clone();
    let backend = NullBackend::start(&NullPlan {
        tls: Some(tls),
        rows: 1000,
        ..NullPlan::default()
    })
    .unwrap();
    let mut sum = 0;
    for (tls, reconnect) in [
        (Tls::Require, false),
        (Tls::Require, true),
        (Tls::VerifyFull { ca_file }, false),
        (Tls::Off, false),
    ] {
        let outcome = outcome(&Plan {
            tls,
            reconnect,
            protocol: Protocol::Extended,
            ..plan(&backend, 10)
        });
        assert_eq!((outcome.transactions, outcome.errors), (30, 0));
        sum += 30;
        assert_eq!(counts(&backend).transactions, sum);
    }
}

#[test]
fn a_measured_time_is_warmed_up_and_cut_exactly() {
    let backend = backend(1, 100);
    let mut phases = Vec::new();
    let plan = Plan {
        transactions_per_client: None,
        warm_up_s: 0.2,
        measure_s: 1.1,
        ..plan(&backend, 0)
    };
    let (tally, end) = run_to_tally(&plan, &AtomicBool::new(false), &mut |progress| {
        phases.push(progress.phase);
        assert!(progress.remaining_s >= 0.0);
    })
    .unwrap();
    let total = tally.total;
    assert_eq!(counts(&backend).transactions, total);
    let outcome = tally.outcome(end);
    assert!(outcome.transactions < total, "the warm-up is not counted");
    assert!((outcome.seconds - 1.1).abs() < 1e-9);
    assert_eq!(outcome.per_second.len(), 1);
    assert_eq!((outcome.errors, outcome.unfinished), (0, 0));
    assert_eq!(outcome.connected, Some(3));
    assert!(phases.is_sorted());
    phases.dedup();
    assert!(phases.starts_with(&[Phase::Connecting, Phase::WarmUp, Phase::Measuring]));
    // Closed loop: the number of clients is throughput times latency.
    let busy = outcome.tps * outcome.latency.unwrap().mean / 1e6;
    assert!((2.5..=3.1).contains(&busy), "{busy}");
}

#[test]
fn connections_that_only_wait_are_kept_and_counted() {
    let backend = backend(1, 100);
    let mut held = 0;
    let plan = Plan {
        clients: 300,
        pace: Pace::Idle,
        transactions_per_client: None,
        measure_s: 0.3,
        ..plan(&backend, 0)
    };
    let outcome = run(&plan, &AtomicBool::new(false), &mut |progress| {
        if progress.phase == Phase::Measuring {
            held = held.max(backend.counts().connected);
        }
    });
    let outcome = outcome.unwrap();
    assert_eq!((held, outcome.connected), (300, Some(300)));
    // Each client has run one transaction.
    assert_eq!(counts(&backend).transactions, 300);
}

#[test]
fn a_run_that_is_stopped_has_a_result() {
    let backend = backend(1, 100);
    let stop = AtomicBool::new(false);
    let plan = Plan {
        transactions_per_client: None,
        measure_s: 600.0,
        ..plan(&backend, 0)
    };
    let outcome = run(&plan, &stop, &mut |progress| {
        let is_enough = progress.phase == Phase::Measuring && progress.transactions > 10;
        stop.store(is_enough, Ordering::Release);
    });
    let outcome = outcome.unwrap();
    assert!(outcome.transactions > 10);
    assert!(outcome.seconds > 0.0 && outcome.seconds < 60.0);
}

#[test]
fn a_process_of_its_own_reads_a_plan_and_writes_lines() {
    let backend = backend(1, 100);
    let text = serde_json::to_string(&plan(&backend, 10)).unwrap();
    let mut lines = Vec::new();
    let stop = AtomicBool::new(false);
    process::serve(text.as_bytes(), &mut lines, &stop).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let read = |line: &str| serde_json::from_str::<process::Message>(line).unwrap();
    let messages: Vec<_> = lines.lines().map(read).collect();
    assert!(matches!(
        messages.first(),
        Some(process::Message::Progress(_))
    ));
    let Some(process::Message::Outcome(outcome)) = messages.last() else {
        panic!("{messages:?}");
    };
    assert_eq!(outcome.transactions, 30);

    let mut lines = Vec::new();
    assert!(process::serve(&b"{}"[..], &mut lines, &stop).is_err());
    let message = read(String::from_utf8(lines).unwrap().trim_end());
    assert!(
        matches!(message, process::Message::Failed(_)),
        "{message:?}"
    );
}
