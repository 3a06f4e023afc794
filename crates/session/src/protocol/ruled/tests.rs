//! Rules about a client's statements, in all protocols.

use std::sync::Arc;
use std::time::Duration;

use weir_rules::{Action, Concurrency, Conditions, Mirroring, Rejection, Rule, Rules};
use weir_sql::Fingerprint;
use weir_wire::backend::TransactionStatus;
use weir_wire::encode;

use super::{Decided, Judged};
use crate::fixture::{IDLE, World, bind, complete, error, messages, plain, query, ready};
use crate::mirrored::Outcome;
use crate::watched::MirrorEvent;

mod lists;

/// Rule that rejects statements like this one.
fn stop(text: &str) -> Rule {
    let rejection = Rejection {
        rule: "stop".into(),
        message: "report 42 is disabled".to_owned(),
        code: *b"57014",
        hint: "ask the DBA".to_owned(),
    };
    let conditions = Conditions {
        fingerprints: Fingerprint::exact(text).into_iter().collect(),
        ..Conditions::default()
    };
    Rule::new("stop", conditions, Action::Reject(Arc::new(rejection)))
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
        world.rules = Rules::new([stop(STOPPED)], &mut |_| None);
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

/// A rule for the tables named report, with these changes.
fn watch(change: impl FnOnce(&mut Rule)) -> Rule {
    let conditions = Conditions {
        tables: vec![weir_sql::Pattern::read("report").unwrap()],
        ..Conditions::default()
    };
    let mut rule = Rule::new("watch", conditions, Action::Pass);
    change(&mut rule);
    rule
}

/// Batch that runs a text without a name, or a text as a simple query.
fn runs(text: &str) -> [Vec<u8>; 2] {
    let batch = messages(|out| {
        encode::parse(out, b"", text.as_bytes(), &[0, 0]).unwrap();
        bind(out, "", "");
        encode::execute(out, b"", 0).unwrap();
        encode::sync(out).unwrap();
    });
    [query(text), batch]
}

fn done(is_batch: bool) -> Vec<u8> {
    messages(|out| {
        if is_batch {
            plain(out, "12");
        }
        complete(out, "SELECT 1");
        ready(out, IDLE);
    })
}

#[test]
fn a_statement_that_takes_long_is_logged_without_its_literals() {
    for (number, said) in runs("SELECT a FROM report WHERE id = 7").iter().enumerate() {
        let mut world =
            World::with_rules([watch(|rule| rule.log = Some(Duration::from_millis(2)))]);
        for (us, lines) in [(1_999, 0), (2_000, 1)] {
            world.send(said);
            world.answer(us, &done(number == 1));
            let found = world.server.take_log_lines();
            assert_eq!(found.len(), lines, "{us}");
            for line in found {
                let shown = (&*line.rule, &*line.text, line.took.as_micros(), line.code);
                assert_eq!(
                    shown,
                    ("watch", "SELECT a FROM report WHERE id = ?", 2_000, None)
                );
            }
        }
        world.send(said);
        world.answer(5_000, &failed("22012", IDLE));
        assert_eq!(world.server.take_log_lines()[0].code, Some(*b"22012"));
        world.send(&query("SELECT 1"));
        world.answer(9_000, &done(false));
        assert!(world.server.take_log_lines().is_empty());
    }
}

#[test]
fn a_statement_in_a_pipeline_has_its_own_time() {
    let mut world =
        World::with_rules([watch(|rule| rule.timeout = Some(Duration::from_millis(5)))]);
    let [_, slow] = runs("SELECT a FROM report");
    let [_, other] = runs("SELECT 1");
    world.send(&[slow.clone(), other, slow].concat());
    assert_eq!(world.server.watch_ends_us(), Some(5_000));
    world.answer(3_000, &done(true));
    assert_eq!(
        world.server.watch_ends_us(),
        None,
        "no rule for the second one"
    );
    world.answer(9_000, &done(true));
    assert_eq!(world.server.watch_ends_us(), Some(17_000));
    world.answer(1, &done(true));
    assert_eq!(world.server.watch_ends_us(), None);
}

#[test]
fn the_error_of_a_statement_that_was_cancelled_names_the_rule() {
    for said in runs("SELECT a FROM report") {
        let mut world = World::with_rules([watch(|rule| {
            rule.timeout = Some(Duration::from_millis(1500))
        })]);
        world.send(&said);
        world.server.watch_is_over();
        assert_eq!(world.server.watch_ends_us(), None, "cancelled once");
        let heard = text(&world.answer(1_500_000, &failed("57014", IDLE)));
        assert!(
            heard.contains("canceling statement due to rule watch (timeout 1.5 s)"),
            "{heard}"
        );
        assert!(world.server.is_free());
        // A cancel of the client's own keeps its words.
        world.send(&said);
        let own = failed("57014", IDLE);
        assert_eq!(world.answer(1, &own), own);
    }
}

#[test]
fn as_many_statements_run_as_the_bulkhead_lets() {
    for said in runs("SELECT a FROM report") {
        let is_batch = said[0] == b'P';
        let limit = Concurrency {
            max: 1,
            queue_max: 5,
        };
        let mut world = World::with_rules([watch(|rule| rule.concurrency = Some(limit))]);
        world.send(&[said.clone(), said.clone()].concat());
        let refused = match is_batch {
            true => messages(|out| {
                plain(out, "1");
                error(out, "26000");
                ready(out, IDLE);
            }),
            false => failed("22P02", IDLE),
        };
        let heard = text(&world.answer(1, &[done(is_batch), refused].concat()));
        assert!(
            heard.contains("1 statements of rule watch run already (max_concurrency)"),
            "{heard}"
        );
        // The first one has given its place back.
        world.send(&said);
        assert_eq!(world.answer(1, &done(is_batch)), done(is_batch));
        assert!(world.server.is_free());
    }
}

#[test]
fn the_timeout_of_a_hint_counts_if_it_is_shorter() {
    for (text, expected) in [
        (
            "/* weir: timeout=3ms role=replica */ SELECT a FROM report",
            Some(3_000),
        ),
        ("SELECT a FROM report /*weir_timeout='3ms'*/", Some(3_000)),
        ("/* weir: timeout=9ms */ SELECT a FROM report", Some(5_000)),
        ("/* weir: timeout=soon */ SELECT 1", None),
        ("/* weir: timeout=7ms */ SELECT 1", Some(7_000)),
    ] {
        for said in runs(text) {
            let mut world =
                World::with_rules([watch(|rule| rule.timeout = Some(Duration::from_millis(5)))]);
            world.send(&said);
            assert_eq!(world.server.watch_ends_us(), expected, "{text}");
        }
    }
}

#[test]
fn rt_46_a_long_literal_hides_nothing() {
    let long = "x".repeat(20_000);
    let text = format!("SELECT a FROM report WHERE b = '{long}' AND id = 7");
    for (number, said) in runs(&text).iter().enumerate() {
        let mut world = World::with_rules([watch(|rule| rule.log = Some(Duration::ZERO))]);
        world.send(said);
        world.answer(1, &done(number == 1));
        assert_eq!(world.server.take_log_lines().len(), 1, "{number}");
    }
    // Two texts with one beginning are not one.
    let mut world = World::with_rules([watch(|rule| rule.log = Some(Duration::ZERO))]);
    for (rest, lines) in [("", 0), (" FROM report", 1), (" FROM other", 0)] {
        world.send(&query(&format!("SELECT '{long}'{rest}")));
        world.answer(1, &done(false));
        assert_eq!(world.server.take_log_lines().len(), lines, "{rest}");
    }
}

/// A rule that mirrors the tables named report.
fn mirror(compares_rows: bool) -> Rule {
    let to = Mirroring {
        database: "next".into(),
        compares_rows,
        writes: false,
        connections: 1,
    };
    watch(|rule| rule.action = Action::Mirror(Arc::new(to)))
}

fn row(out: &mut Vec<u8>, value: &str) {
    encode::data_row(out, &[Some(value.as_bytes())]).unwrap();
}

/// Texts and outcomes of mirrored requests; the ends of transactions are lines.
fn mirrored(world: &mut World) -> Vec<String> {
    let shown = world
        .server
        .take_mirrored()
        .into_iter()
        .map(|event| match event {
            MirrorEvent::Request(request) => {
                let copied = request.request.unwrap();
                let Outcome { rows, code, .. } = request.outcome;
                let code = code.map(|code| text(&code)).unwrap_or_default();
                format!("{} {rows}{code}", text(copied.text()))
            }
            MirrorEvent::End(undone) => format!("-- {undone:?}"),
        });
    shown.collect()
}

#[test]
fn a_mirrored_request_is_complete_when_its_reply_is() {
    for (number, said) in runs("SELECT a FROM report WHERE id = 7").iter().enumerate() {
        let mut world = World::with_rules([mirror(true)]);
        world.send(said);
        assert!(mirrored(&mut world).is_empty());
        let reply = messages(|out| {
            if number == 1 {
                plain(out, "12");
            }
            row(out, "one");
            row(out, "two");
            complete(out, "SELECT 2");
            ready(out, IDLE);
        });
        // However the reply is cut, it has one sum.
        let mut sums = Vec::new();
        for cut in [reply.len(), 20, 12] {
            let (begin, rest) = reply.split_at(cut);
            world.pass(begin);
            world.pass(rest);
            for event in world.server.take_mirrored() {
                if let MirrorEvent::Request(request) = event {
                    assert_eq!(request.outcome.rows, 2);
                    sums.push(request.outcome.sum.unwrap());
                }
            }
            world.send(said);
        }
        assert_eq!(sums.len(), 3);
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
        world.answer(1, &failed("22012", IDLE));
        assert_eq!(
            mirrored(&mut world),
            ["SELECT a FROM report WHERE id = 7 022012", "-- Nothing"]
        );
        world.send(&query("SELECT 1"));
        world.answer(1, &done(false));
        assert!(mirrored(&mut world).is_empty());
    }
}

#[test]
fn the_requests_of_a_block_end_with_it_and_with_what_was_rolled_back() {
    let text = "SELECT a FROM report";
    for (tags, end) in [
        (&["COMMIT"][..], "-- Nothing"),
        (&["ROLLBACK"], "-- Last"),
        (&["ROLLBACK", "COMMIT"], "-- Part"),
    ] {
        let mut world = World::with_rules([mirror(false)]);
        let mut run = |text: &str, tag: &str, status| {
            world.send(&query(text));
            world.answer(
                1,
                &messages(|out| {
                    complete(out, tag);
                    ready(out, status);
                }),
            );
            mirrored(&mut world)
        };
        let block = TransactionStatus::InTransaction;
        assert!(run("BEGIN", "BEGIN", block).is_empty());
        assert_eq!(run(text, "SELECT 1", block), ["SELECT a FROM report 1"]);
        for (number, tag) in tags.iter().enumerate() {
            let is_last = number + 1 == tags.len();
            let status = if is_last { IDLE } else { block };
            let told = run("x", tag, status);
            assert_eq!(told, if is_last { vec![end] } else { vec![] });
        }
    }
}

#[test]
fn the_requests_of_a_client_are_forgotten_when_another_one_gets_the_server() {
    let mut world = World::with_rules([mirror(false)]);
    world.send(&query("SELECT a FROM report"));
    world.answer(
        1,
        &messages(|out| {
            complete(out, "SELECT 1");
            ready(out, TransactionStatus::InTransaction);
        }),
    );
    // The client has gone without the end of its block, which Weir rolls back.
    world.server.begin_counting(0);
    world.send(&query("ROLLBACK"));
    world.answer(
        1,
        &messages(|out| {
            complete(out, "ROLLBACK");
            ready(out, IDLE);
        }),
    );
    assert!(mirrored(&mut world).is_empty());
}

#[test]
fn a_client_has_a_bound_of_copies() {
    let mut world = World::with_rules([mirror(false)]);
    let long = format!("SELECT a FROM report WHERE b = '{}'", "x".repeat(7_000));
    for _ in 0..40 {
        world.send(&query(&long));
    }
    let reply = |out: &mut Vec<u8>| {
        complete(out, "SELECT 1");
        ready(out, IDLE);
    };
    for _ in 0..40 {
        world.answer(1, &messages(reply));
    }
    let copied = |world: &mut World| {
        let events = world.server.take_mirrored().into_iter();
        let copied = events.filter(
            |event| matches!(event, MirrorEvent::Request(request) if request.request.is_some()),
        );
        copied.count()
    };
    assert_eq!(copied(&mut world), 37);
    // What has ended makes room.
    world.send(&query(&long));
    world.answer(1, &messages(reply));
    assert_eq!(copied(&mut world), 1);
}
