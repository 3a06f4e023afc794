//! Digests of a client's requests: what replies add to them.

use weir_wire::encode;
use weir_wire::frontend;

use super::rows_of;
use crate::fixture::{IDLE, World, bind, complete, error, messages, plain, query, ready};

#[test]
fn a_simple_query_is_counted_with_rows_bytes_and_time() {
    let mut world = World::new();
    world.server.begin_counting(40);
    world.send(&query("select a from t where b = 5"));
    world.answer(
        300,
        &messages(|out| {
            encode::data_row(out, &[Some(&b"x"[..])]).unwrap();
            complete(out, "SELECT 1");
            ready(out, IDLE);
        }),
    );
    world.send(&query("select a from t where b = 6"));
    // The reply comes in two parts.
    world.answer(
        100,
        &messages(|out| encode::data_row(out, &[Some(&b"x"[..])]).unwrap()),
    );
    world.answer(
        100,
        &messages(|out| {
            complete(out, "SELECT 1");
            ready(out, IDLE);
        }),
    );
    let found = world.figures("select a from t where b = 1");
    assert_eq!(
        (found.calls, found.rows, found.errors, found.wait_us),
        (2, 2, 0, 40)
    );
    assert_eq!((found.times.sum_us(), found.times.count()), (500, 2));
    assert_eq!(found.bytes, 2 * (12 + 14));
}

#[test]
fn statements_of_one_text_are_counted_apart_up_to_the_one_that_fails() {
    let mut world = World::new();
    world.send(&query(
        "insert into t values (1); select a from t; select b from t",
    ));
    world.answer(
        10,
        &messages(|out| {
            complete(out, "INSERT 0 3");
            error(out, "42703");
            ready(out, IDLE);
        }),
    );
    assert_eq!(world.counts("insert into t values (1)"), (1, 0, 3));
    assert_eq!(world.counts("select a from t"), (0, 1, 0));
    assert_eq!(world.figures("select a from t").last_error, Some(*b"42703"));
    assert_eq!(world.counts("select b from t"), (0, 0, 0));
}

#[test]
fn a_prepared_statement_is_counted_by_its_portal() {
    let mut world = World::new();
    world.send(&messages(|out| {
        encode::parse(out, b"s", b"select a from t where b = $1", &[0, 0]).unwrap();
        bind(out, "", "s");
        encode::execute(out, b"", 0).unwrap();
        bind(out, "", "s");
        encode::execute(out, b"", 0).unwrap();
        encode::sync(out).unwrap();
    }));
    world.answer(
        10,
        &messages(|out| {
            plain(out, "1");
            // Of the Describe that Weir adds.
            out.extend_from_slice(b"t\0\0\0\x0a\0\x01\0\0\0\x17");
            plain(out, "n2");
            complete(out, "SELECT 4");
            plain(out, "2");
            complete(out, "SELECT 5");
            ready(out, IDLE);
        }),
    );
    assert_eq!(world.counts("select a from t where b = $1"), (2, 0, 9));
}

#[test]
fn an_unnamed_statement_is_counted_each_time() {
    let mut world = World::new();
    for _ in 0..3 {
        world.send(&messages(|out| {
            encode::parse(out, b"", b"update t set a = $1", &[0, 0]).unwrap();
            bind(out, "p", "");
            encode::execute(out, b"p", 0).unwrap();
            encode::sync(out).unwrap();
        }));
        world.answer(
            10,
            &messages(|out| {
                plain(out, "12");
                complete(out, "UPDATE 2");
                ready(out, IDLE);
            }),
        );
    }
    assert_eq!(world.counts("update t set a = $1"), (3, 0, 6));
}

#[test]
fn a_portal_that_is_fetched_in_parts_is_one_call() {
    let mut world = World::new();
    world.send(&messages(|out| {
        encode::parse(out, b"", b"select a from t", &[0, 0]).unwrap();
        bind(out, "p", "");
        for _ in 0..3 {
            encode::execute(out, b"p", 10).unwrap();
        }
        encode::sync(out).unwrap();
    }));
    world.answer(
        10,
        &messages(|out| {
            plain(out, "12ss");
            complete(out, "SELECT 4");
            ready(out, IDLE);
        }),
    );
    assert_eq!(world.counts("select a from t"), (1, 0, 24));
}

#[test]
fn a_failure_in_a_batch_belongs_to_the_statement_that_failed() {
    let mut world = World::new();
    world.send(&messages(|out| {
        encode::parse(out, b"", b"select a from t", &[0, 0]).unwrap();
        bind(out, "", "");
        encode::execute(out, b"", 0).unwrap();
        encode::parse(out, b"", b"select b from t", &[0, 0]).unwrap();
        bind(out, "", "");
        encode::execute(out, b"", 0).unwrap();
        encode::sync(out).unwrap();
    }));
    world.answer(
        10,
        &messages(|out| {
            plain(out, "12");
            complete(out, "SELECT 1");
            error(out, "42703");
            ready(out, IDLE);
        }),
    );
    assert_eq!(world.counts("select a from t"), (1, 0, 1));
    assert_eq!(world.counts("select b from t"), (0, 1, 0));
}

#[test]
fn pipelined_statements_share_the_time_of_the_server() {
    let mut world = World::new();
    world.send(&query("select a"));
    world.send(&query("select b"));
    world.answer(
        100,
        &messages(|out| {
            complete(out, "SELECT 1");
            ready(out, IDLE);
        }),
    );
    world.answer(
        30,
        &messages(|out| {
            complete(out, "SELECT 1");
            ready(out, IDLE);
        }),
    );
    assert_eq!(world.figures("select a").times.sum_us(), 100);
    assert_eq!(world.figures("select b").times.sum_us(), 30);
}

#[test]
fn what_is_not_a_statement_of_the_client_counts_for_none() {
    let mut world = World::new();
    let mut ours = Vec::new();
    world
        .server
        .ask("select pg_backend_pid()", &mut ours)
        .unwrap();
    world.answer(
        10,
        &messages(|out| {
            complete(out, "SELECT 1");
            ready(out, IDLE);
        }),
    );
    world.send(&query(" -- nothing"));
    world.answer(
        10,
        &messages(|out| {
            plain(out, "I");
            ready(out, IDLE);
        }),
    );
    world.send(&messages(|out| {
        encode::parse(out, b"s", b"select a", &[0, 0]).unwrap();
        encode::describe(out, frontend::Kind::Statement, b"s").unwrap();
        encode::sync(out).unwrap();
    }));
    world.answer(
        10,
        &messages(|out| {
            plain(out, "1");
            out.extend_from_slice(b"t\0\0\0\x06\0\0");
            plain(out, "n");
            ready(out, IDLE);
        }),
    );
    let rows = world.table.show();
    assert_eq!(
        rows.rows.values().map(|row| row.figures.calls).sum::<u64>(),
        0
    );
    assert_eq!(rows.other.calls, 0);
}

#[test]
fn the_number_of_rows_is_the_last_word_of_a_tag() {
    for (tag, rows) in [
        ("SELECT 12", 12),
        ("INSERT 0 5", 5),
        ("BEGIN", 0),
        ("", 0),
        ("COPY 99999999999999999999", 0),
    ] {
        assert_eq!(rows_of(format!("{tag}\0").as_bytes()), rows, "{tag}");
    }
}

/// Runs an unnamed statement, which the server answers.
fn run_unnamed(world: &mut World, text: &str) {
    let sent = world.send(&messages(|out| {
        encode::parse(out, b"", text.as_bytes(), &[0, 0]).unwrap();
        bind(out, "", "");
        encode::execute(out, b"", 0).unwrap();
        encode::sync(out).unwrap();
    }));
    let mut rest = &sent[..];
    let reply = messages(|out| {
        while let [tag, length @ ..] = rest {
            match tag {
                b'P' => plain(out, "1"),
                b'B' => plain(out, "2"),
                b'D' => out.extend_from_slice(b"t\0\0\0\x06\0\0T\0\0\0\x06\0\0"),
                b'E' => complete(out, "SELECT 1"),
                b'S' => ready(out, IDLE),
                tag => panic!("{tag}"),
            }
            let length = u32::from_be_bytes(*length.first_chunk().unwrap());
            rest = &rest[1 + length as usize..];
        }
    });
    world.answer(10, &reply);
}

#[test]
fn an_unnamed_statement_counts_for_itself_if_one_of_ours_stands_in_for_it() {
    let mut world = World::new();
    world.policy.prepare_unnamed = 1;
    for _ in 0..5 {
        run_unnamed(&mut world, "select a from t");
        run_unnamed(&mut world, "select b from t, u");
    }
    assert_eq!(world.counts("select a from t"), (5, 0, 5));
    assert_eq!(world.counts("select b from t, u"), (5, 0, 5));
    for _ in 0..3 {
        run_unnamed(&mut world, "select a from t");
    }
    run_unnamed(&mut world, "select c from t");
    run_unnamed(&mut world, "select a from t");
    assert_eq!(world.counts("select a from t"), (9, 0, 9));
    assert_eq!(world.counts("select c from t"), (1, 0, 1));
}
