//! Conversations observed on a real server, one line each.

use expect_test::{Expect, expect};

use super::*;
use crate::cuts::Cuts;
use crate::reading::outline;
use crate::say::{Say, say};

/// Runs a conversation; an empty line of `expect` stands for a step without an answer.
fn check(steps: &[Say], expect: &Expect) {
    let mut backend = Backend::default();
    let lines: Vec<String> = steps
        .iter()
        .map(|step| outline(&backend.converse(step)))
        .collect();
    expect.assert_eq(&lines.join("\n"));
}

#[test]
fn an_error_skips_even_a_query_up_to_the_sync() {
    check(
        &[
            say().parse("", "error parse").flush(),
            say().query("row x").function_call(1),
            say().sync(),
        ],
        &expect![[r#"
            E(42601 syntax error at or near "error parse")

            Z(I)"#]],
    );
}

#[test]
fn copy_ignores_sync_and_late_data() {
    let copy = say()
        .parse("", "copy in")
        .run("")
        .sync()
        .copy_data("a")
        .copy_done();
    check(
        &[
            copy.sync(),
            say().copy_fail("late").copy_data("x").query("row x"),
        ],
        &expect![[r#"
            1 2 G C(COPY 1) Z(I)
            T D(x) C(SELECT 1) Z(I)"#]],
    );
}

#[test]
fn two_copies_in_one_query_and_a_failed_one() {
    check(
        &[
            say().query("copy in;copy in"),
            say().copy_data("a").copy_done(),
            say().copy_data("b").copy_fail("no"),
            say()
                .query("copy in")
                .copy_data("bad")
                .copy_data("x")
                .copy_done(),
        ],
        &expect![[r#"
            G
            C(COPY 1) G
            E(57014 COPY from stdin failed: no) Z(I)
            G E(22P04 extra data after last expected column) Z(I)"#]],
    );
}

#[test]
fn a_request_during_copy_ends_the_session() {
    check(
        &[say().query("copy in"), say().query("row x"), say().sync()],
        &expect![[r#"
            G
            E(08P01 unexpected message type 0x51 during COPY from stdin) E(FATAL 08P01 terminating connection because protocol synchronization was lost)
        "#]],
    );
}

#[test]
fn a_failed_transaction_takes_only_its_end() {
    check(
        &[
            say().parse("r", "row x").parse("end", "rollback").sync(),
            say().query("begin").query("error now"),
            say().parse("a", "row x").sync(),
            say().parse("b", "rollback").sync(),
            say().describe_statement("r").sync(),
            say().describe_statement("end").sync(),
            say().bind("", "r").sync(),
            say().run("end").sync(),
        ],
        &expect![[r#"
            1 1 Z(I)
            C(BEGIN) Z(T) E(22012 error now) Z(E)
            E(25P02 current transaction is aborted, commands ignored until end of transaction block) Z(E)
            1 Z(E)
            E(25P02 current transaction is aborted, commands ignored until end of transaction block) Z(E)
            t n Z(E)
            E(25P02 current transaction is aborted, commands ignored until end of transaction block) Z(E)
            2 C(ROLLBACK) Z(I)"#]],
    );
}

#[test]
fn row_limits_suspend_even_when_no_row_is_left() {
    check(
        &[
            say()
                .query("begin")
                .parse("", "rows 3 x")
                .bind("p", "")
                .execute("p", 2)
                .sync(),
            say().execute("p", 1).execute("p", 1).sync(),
            say().bind("p", "").sync(),
        ],
        &expect![[r#"
            C(BEGIN) Z(T) 1 2 D(x) D(x1) s Z(T)
            D(x2) s C(SELECT 0) Z(T)
            E(42P03 cursor "p" already exists) Z(E)"#]],
    );
}

#[test]
fn unnamed_things_end_when_postgresql_ends_them() {
    check(
        &[
            say()
                .parse("", "row x")
                .sync()
                .run("")
                .execute("", 0)
                .sync(),
            say().execute("", 0).sync(),
            say().query("do y").run("").sync(),
            say()
                .parse("a", "row x")
                .bind("p", "a")
                .query("row y")
                .execute("p", 0)
                .sync(),
            say().parse("", "do z").sync().run("").execute("", 0).sync(),
        ],
        &expect![[r#"
            1 Z(I) 2 D(x) C(SELECT 1) C(SELECT 0) Z(I)
            E(34000 portal "" does not exist) Z(I)
            C(DO) Z(I) E(26000 unnamed prepared statement does not exist) Z(I)
            1 2 T D(y) C(SELECT 1) Z(I) E(34000 portal "p" does not exist) Z(I)
            1 Z(I) 2 C(DO) E(55000 portal "" cannot be run) Z(I)"#]],
    );
}

#[test]
fn parameters_are_reported_before_ready_and_taken_back_by_a_rollback() {
    check(
        &[
            say().query("set TimeZone CET"),
            say().query("begin;set application_name me"),
            say().query("rollback"),
            say()
                .parse("", "set TimeZone EET")
                .run("")
                .parse("", "oops")
                .sync(),
            say().query("discard all"),
        ],
        &expect![[r#"
            C(SET) S(TimeZone=CET) Z(I)
            C(BEGIN) C(SET) S(application_name=me) Z(T)
            C(ROLLBACK) S(application_name=) Z(I)
            1 2 C(SET) E(42601 syntax error at or near "oops") Z(I)
            C(DISCARD ALL) S(TimeZone=UTC) Z(I)"#]],
    );
}

#[test]
fn discard_all_wants_to_be_alone() {
    check(
        &[
            say().query("row x;discard all"),
            say()
                .parse("", "do x")
                .run("")
                .parse("", "discard all")
                .run("")
                .sync(),
            say()
                .query("begin")
                .query("discard all")
                .query("commit")
                .query("commit"),
        ],
        &expect![[r#"
            T D(x) C(SELECT 1) E(25001 DISCARD ALL cannot run inside a transaction block) Z(I)
            1 2 C(DO) 1 2 E(25001 DISCARD ALL cannot be executed within a pipeline) Z(I)
            C(BEGIN) Z(T) E(25001 DISCARD ALL cannot run inside a transaction block) Z(E) C(ROLLBACK) Z(I) N(25P01 there is no transaction in progress) C(COMMIT) Z(I)"#]],
    );
}

#[test]
fn replies_do_not_depend_on_cuts_or_buffering() {
    let input = say()
        .parse("s", "rows 2 x")
        .run("s")
        .sync()
        .query("copy in")
        .copy_data("a")
        .copy_done()
        .query("error x");
    let whole = Backend::default().converse(&input);
    for output in [Output::Buffered, Output::Immediate] {
        let mut backend = Backend::new(output);
        for piece in Cuts::Bytes.pieces(&input) {
            backend.feed(piece);
        }
        assert_eq!(outline(&backend.take_sent()), outline(&whole));
        assert!(backend.is_at_rest());
    }
}

#[test]
fn a_parameter_keeps_the_type_of_its_parse() {
    let database = Database::default();
    let mut one = Backend::open(&database, "ann", &[]);
    let mut other = Backend::open(&database, "ann", &[]);
    let sql = "INSERT INTO public.kind_0 VALUES ($1) RETURNING pg_typeof($1)::text";
    let run = say().bind_value("", "s", "1").execute("", 0).sync();
    let mut lines = Vec::new();
    lines.push(outline(&one.converse(&say().parse("s", sql).sync())));
    let alter = "ALTER TABLE public.kind_0 ALTER COLUMN v TYPE bigint";
    lines.push(outline(&other.converse(&say().query(alter))));
    lines.push(outline(&one.converse(&run)));
    lines.push(outline(&other.converse(&say().parse("s", sql).raw(&run))));
    lines.push(outline(
        &one.converse(&say().bind_value("", "s", "x").sync()),
    ));
    expect![[r#"
        1 Z(I)
        C(ALTER TABLE) Z(I)
        2 D(integer) C(INSERT 0 1) Z(I)
        1 2 D(bigint) C(INSERT 0 1) Z(I)
        E(22P02 invalid input syntax for type integer: "x") Z(I)"#]]
    .assert_eq(&lines.join("\n"));
    assert_eq!(database.numbers("kind_0"), [Number::Integer, Number::Big]);
}

#[test]
fn a_name_finds_a_view_that_came_before_its_parse() {
    let database = Database::default();
    let mut one = Backend::open(&database, "ann", &[]);
    let mut other = Backend::open(&database, "ann", &[]);
    let sql = "SELECT name FROM spot";
    let parse = |name| say().parse(name, sql).run(name).sync();
    let create = "CREATE VIEW ann.spot AS SELECT 'ann'::text AS name";
    let mut lines = Vec::new();
    other.converse(&say().query("BEGIN").query(create));
    lines.push(outline(&other.converse(&say().query(sql))));
    lines.push(outline(&one.converse(&parse("a"))));
    other.converse(&say().query("COMMIT"));
    lines.push(outline(&one.converse(&say().run("a").sync())));
    lines.push(outline(&one.converse(&parse("b"))));
    assert!(database.change_view());
    lines.push(outline(&one.converse(&say().run("b").sync())));
    expect![[r#"
        T D(ann) C(SELECT 1) Z(T)
        1 2 D(public) C(SELECT 1) Z(I)
        2 D(public) C(SELECT 1) Z(I)
        1 2 D(ann) C(SELECT 1) Z(I)
        2 D(public) C(SELECT 1) Z(I)"#]]
    .assert_eq(&lines.join("\n"));
    assert_eq!(database.views(), [false, true, false]);
}
