//! Tests of EXPLAIN ROUTE and SHOW ROUTES.

use weir_proxy::console::Console;
use weir_stats::{RouteCounts, RouteKey, Snapshot};

use super::{Engine, Role, shown, test_console};

#[test]
fn a_route_is_explained_to_whoever_may_look() {
    let mut engine = Engine::new(Role::Stats);
    let wanted = "\
T item:text value:text
D | verdict | replica
D | runs_on | 10.0.0.6:5432
D | reason | runs on 10.0.0.6:5432: the text reads
D | rules | target is read-write
D | host | primary 10.0.0.5:5432
D | note | select 'a;b' from t
C SHOW
Z I
";
    for sql in [
        "EXPLAIN ROUTE select 'a;b' from t;",
        "explain route for shop/ann select 'a;b' from t",
    ] {
        assert_eq!(engine.ask(sql), wanted, "{sql}");
    }
}

#[test]
fn a_question_that_has_no_answer_is_an_error() {
    let mut engine = Engine::new(Role::Admin);
    for (sql, error) in [
        (
            "EXPLAIN ROUTE FOR other SELECT 1",
            "database other has one host",
        ),
        ("EXPLAIN ROUTE", "a statement is required"),
        ("EXPLAIN SELECT 1", "invalid command"),
    ] {
        let answer = engine.ask(sql);
        assert!(answer.contains(error), "{sql}: {answer}");
    }
}

#[test]
fn routes_are_shown_most_frequent_first() {
    let route = |statement: &str, verdict| RouteKey {
        database: "shop".to_owned(),
        statement: statement.to_owned(),
        verdict,
        reason: "because".to_owned(),
    };
    let counts = |count, error, retries| RouteCounts {
        count,
        error,
        retries,
    };
    let mut snapshot = Snapshot::default();
    let rows = [
        (route("insert", "primary"), counts(3, 1, 0)),
        (route("select", "replica"), counts(5, 0, 2)),
    ];
    snapshot.routes.extend(rows.clone());
    let mut other = Snapshot::default();
    other.routes.extend(rows);
    snapshot.merge(other);
    let mut client = test_console().open(Role::Stats);
    client.handle(b'Q', b"SHOW ROUTES\0");
    let wanted = "\
T database:text verdict:text reason:text count:int8 error:int8 retries:int8 statement:text
D | shop | replica | because | 10 | 0 | 4 | select
D | shop | primary | because | 6 | 2 | 0 | insert
C SHOW
Z I
";
    assert_eq!(shown(&client.gathered(&snapshot)), wanted);
}
