use std::sync::Arc;

use weir_rules::{ALWAYS, Action, Conditions, Rejection, Rule, Rules};
use weir_sql::Fingerprint;
use weir_wire::backend::TransactionStatus;
use weir_wire::encode;

use crate::fixture::{IDLE, World, bind, complete, error, messages, plain, query, ready};

/// Rule that rejects statements like this one.
fn stop(text: &str) -> Rule {
    let rejection = Rejection {
        rule: "stop".into(),
        message: "report 42 is disabled".to_owned(),
        code: *b"57014",
        hint: "ask the DBA".to_owned(),
    };
    Rule {
        name: "stop".into(),
        conditions: Conditions {
            fingerprints: Fingerprint::exact(text).into_iter().collect(),
            ..Conditions::default()
        },
        action: Action::Reject(Arc::new(rejection)),
        is_dry: false,
        expires: None,
        sample: ALWAYS,
        goes_on: false,
    }
}

fn world() -> World {
    World::with_rules([stop("SELECT a FROM report WHERE id = 42")])
}

const STOPPED: &str = "SELECT a FROM report WHERE id = 7";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The error of the rule, as the client gets it.
fn rejected() -> Vec<u8> {
    messages(|out| {
        let fields = [
            (b'S', &b"ERROR"[..]),
            (b'V', b"ERROR"),
            (b'C', b"57014"),
            (b'M', b"report 42 is disabled"),
            (b'H', b"ask the DBA"),
        ];
        encode::error_response(out, &fields).unwrap();
    })
}

/// Answers of PostgreSQL: an error, and ReadyForQuery with this status.
fn failed(code: &str, status: TransactionStatus) -> Vec<u8> {
    messages(|out| {
        error(out, code);
        ready(out, status);
    })
}

fn with_ready(mut bytes: Vec<u8>, status: TransactionStatus) -> Vec<u8> {
    ready(&mut bytes, status);
    bytes
}

#[test]
fn rt_46_a_simple_query_fails_in_place_of_the_statement() {
    let mut world = world();
    let sent = text(&world.send(&query(STOPPED)));
    assert!(!sent.contains("report"), "{sent}");
    let heard = world.answer(1, &failed("22P02", IDLE));
    assert_eq!(heard, with_ready(rejected(), IDLE));
    assert!(world.server.is_free());
    let sent = text(&world.send(&query("SELECT a FROM report")));
    assert!(sent.contains("SELECT a FROM report"));
}

#[test]
fn rt_46_in_a_block_the_transaction_fails_as_after_any_other_error() {
    let mut world = world();
    world.send(&query("BEGIN"));
    let in_block = TransactionStatus::InTransaction;
    world.answer(
        1,
        &messages(|out| {
            complete(out, "BEGIN");
            ready(out, in_block);
        }),
    );
    world.send(&query(STOPPED));
    let heard = world.answer(1, &failed("22P02", TransactionStatus::Failed));
    assert_eq!(heard, with_ready(rejected(), TransactionStatus::Failed));
    // In the failed block the server's own error comes.
    world.send(&query(STOPPED));
    let own = failed("25P02", TransactionStatus::Failed);
    assert_eq!(world.answer(1, &own), own);
}

#[test]
fn rt_46_a_parse_is_rejected_with_or_without_a_name() {
    for name in ["", "s"] {
        let mut world = world();
        let sent = text(&world.send(&messages(|out| {
            encode::parse(out, name.as_bytes(), STOPPED.as_bytes(), &[0, 0]).unwrap();
            bind(out, "", name);
            encode::execute(out, b"", 0).unwrap();
            encode::sync(out).unwrap();
        })));
        assert!(!sent.contains("report"), "{sent}");
        let heard = world.answer(1, &failed("22P02", IDLE));
        assert_eq!(heard, with_ready(rejected(), IDLE), "{name}");
        assert!(world.server.is_free());
    }
}

#[test]
fn rt_46_a_statement_that_is_older_than_the_rule_is_rejected_when_it_is_bound() {
    for name in ["", "s"] {
        let mut world = World::new();
        world.send(&messages(|out| {
            encode::parse(out, name.as_bytes(), STOPPED.as_bytes(), &[0, 0]).unwrap();
            encode::sync(out).unwrap();
        }));
        world.answer(
            1,
            &messages(|out| {
                plain(out, "1");
                if !name.is_empty() {
                    out.extend_from_slice(b"t\0\0\0\x06\0\0");
                    plain(out, "n");
                }
                ready(out, IDLE);
            }),
        );
        world.rules = Rules::new([stop(STOPPED)]);
        let batch = messages(|out| {
            bind(out, "", name);
            encode::execute(out, b"", 0).unwrap();
            encode::sync(out).unwrap();
        });
        world.send(&batch);
        let heard = world.answer(1, &failed("26000", IDLE));
        assert_eq!(heard, with_ready(rejected(), IDLE), "{name}");
        assert!(world.server.is_free());
        // Without the rule, the statement is there as before.
        world.rules = Rules::default();
        world.send(&batch);
        let answer = messages(|out| {
            plain(out, "2");
            complete(out, "SELECT 0");
            ready(out, IDLE);
        });
        assert_eq!(world.answer(1, &answer), answer);
    }
}

#[test]
fn rt_46_in_a_pipeline_only_the_batch_of_the_statement_fails() {
    let mut world = world();
    let batch = |text: &str| {
        messages(|out| {
            encode::parse(out, b"", text.as_bytes(), &[0, 0]).unwrap();
            bind(out, "", "");
            encode::execute(out, b"", 0).unwrap();
            encode::sync(out).unwrap();
        })
    };
    let all = [batch("SELECT 1"), batch(STOPPED), batch("SELECT 2")].concat();
    let sent = text(&world.send(&all));
    assert!(sent.contains("SELECT 1") && sent.contains("SELECT 2") && !sent.contains("report"));
    let good = messages(|out| {
        plain(out, "12");
        complete(out, "SELECT 1");
        ready(out, IDLE);
    });
    let answers = [good.clone(), failed("22P02", IDLE), good.clone()].concat();
    let heard = world.answer(1, &answers);
    assert_eq!(
        heard,
        [good.clone(), with_ready(rejected(), IDLE), good].concat()
    );
    assert!(world.server.is_free());
}

#[test]
fn a_text_of_several_statements_is_rejected_as_a_whole() {
    let mut world = world();
    let sent = text(&world.send(&query(&format!("INSERT INTO t VALUES (1); {STOPPED}"))));
    assert!(!sent.contains("INSERT"), "{sent}");
}
