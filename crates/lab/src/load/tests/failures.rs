//! Tests that failures are counted, and end a run only if nothing else is left to do.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use weir_wire::encode::{self, ErrorReport, Severity};
use weir_wire::sqlstate::SqlState;

use super::*;

#[test]
fn errors_are_counted_by_code() {
    let backend = backend(1, 100);
    // The plan has no data for the COPY, so it fails; in the block it must be rolled back.
    let transactions = vec![
        Transaction::new(["SELECT 1"]),
        Transaction::new(["BEGIN", "COPY t FROM STDIN", "COMMIT"]),
    ];
    for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
        let outcome = outcome(&Plan {
            protocol,
            transactions: transactions.clone(),
            ..plan(&backend, 40)
        });
        let codes: Vec<_> = outcome.errors_by_code.into_iter().collect();
        assert_eq!(codes, [("57014".to_owned(), outcome.errors)]);
        assert_eq!(outcome.transactions + outcome.errors, 120);
        assert!(outcome.transactions > 20 && outcome.errors > 20);
        let text = "COPY from stdin failed (57014)";
        assert_eq!(outcome.first_error.as_deref(), Some(text));
    }
}

#[test]
fn nobody_there_is_said_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let plan = Plan {
        transactions: vec![Transaction::new(["SELECT 1"])],
        ..Plan::new(&address)
    };
    let error = run(&plan, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
    let text = "no client could log in: Connection refused (os error 111) (connect)";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_server_without_tls_is_not_spoken_to_in_the_clear() {
    let backend = backend(1, 100);
    let plan = Plan {
        tls: Tls::Require,
        ..plan(&backend, 1)
    };
    let error = run(&plan, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
    let text = "no client could log in: the server does not support TLS (tls)";
    assert_eq!(error.to_string(), text);
    assert_eq!(counts(&backend).logins, 0);
}

/// Accepts logins as the null backend does, and ends each connection with an error at its first query.
fn killer(listener: &TcpListener, connections: usize) {
    for _ in 0..connections {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        assert!(stream.read(&mut buffer).unwrap() > 0);
        let mut out = Vec::new();
        encode::authentication_ok(&mut out).unwrap();
        encode::backend_key_data(&mut out, 1, &[0; 4]).unwrap();
        out.extend_from_slice(b"Z\0\0\0\x05I");
        stream.write_all(&out).unwrap();
        assert!(stream.read(&mut buffer).unwrap() > 0);
        out.clear();
        let report = ErrorReport::new(Severity::Fatal, SqlState::ADMIN_SHUTDOWN, "killed");
        report.encode(&mut out).unwrap();
        stream.write_all(&out).unwrap();
    }
}

#[test]
fn a_lost_connection_is_one_failure_with_its_reason_and_is_made_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plan = Plan {
        transactions: vec![Transaction::new(["SELECT 1"])],
        transactions_per_client: Some(3),
        measure_s: 60.0,
        ..Plan::new(&listener.local_addr().unwrap().to_string())
    };
    let outcome = thread::scope(|scope| {
        scope.spawn(|| killer(&listener, 3));
        outcome(&plan)
    });
    assert_eq!((outcome.transactions, outcome.errors), (0, 3));
    let codes: Vec<_> = outcome.errors_by_code.into_iter().collect();
    assert_eq!(codes, [("57P01".to_owned(), 3)]);
}

#[test]
fn a_ca_that_does_not_vouch_is_a_failure() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let backend = NullBackend::start(&NullPlan {
        tls: Some(certificate(one.path())),
        ..NullPlan::default()
    })
    .unwrap();
    let ca_file = certificate(two.path()).cert_file;
    let plan = Plan {
        tls: Tls::VerifyFull { ca_file },
        ..plan(&backend, 1)
    };
    let error = run(&plan, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
    assert!(error.to_string().ends_with("(tls)"), "{error}");
}
