//! Tests with catalogues of small databases.

use std::sync::Arc;

use super::*;
use crate::{Access, Cause, Functions, Judge, Names, Pattern, Reason, Why};

type Row = [&'static str; 5];

const SETS: &str = "begin perform set_config('app.tenant', $1, false); end";
const STAMP: Row = ["H", "1", "", "", ""];

fn load(rows: &[Row]) -> Catalogue {
    let rows = rows.iter().map(|row| row.map(str::as_bytes));
    Catalogue::load(rows).unwrap()
}

fn function(id: &'static str, name: &'static str, code: &'static str) -> Row {
    ["F", id, name, "plpgsql", code]
}

fn judge(rows: &[Row]) -> Judge {
    let mut judge = Judge::new(Functions::default());
    judge.set_catalogue(&Arc::new(load(rows)), 1);
    judge
}

#[track_caller]
fn asks(judge: &mut Judge, text: &str) {
    let effects = judge.effects(text.as_bytes(), false).expect(text);
    let names: Vec<_> = effects.asks.names.iter().map(|name| &**name).collect();
    assert_eq!(names, ["app.tenant"], "{text}");
    assert!(effects.certain.is_empty(), "{text}: {effects:?}");
}

#[track_caller]
fn is_harmless(judge: &mut Judge, text: &str) {
    assert_eq!(judge.effects(text.as_bytes(), false), None, "{text}");
}

#[test]
fn a_call_has_the_effects_of_the_function() {
    let mut judge = judge(&[STAMP, function("p1", "Login", SETS)]);
    for text in [
        "SELECT login('A')",
        "SELECT app.\"Login\"('A')",
        "SELECT * FROM login('A')",
        "INSERT INTO t VALUES (login('A'))",
        "CALL login('A')",
        "DO $$ BEGIN PERFORM login('A'); END $$",
        "SELECT 1; SELECT login ('A')",
    ] {
        asks(&mut judge, text);
    }
    is_harmless(&mut judge, "SELECT login FROM users");
    is_harmless(&mut judge, "SELECT 'login(1)'");
}

#[test]
fn effects_spread_to_whoever_calls_however_far() {
    let mut judge = judge(&[
        STAMP,
        function("p3", "third", "begin return second(1); end"),
        function("p2", "second", "begin return first(1) + third(1); end"),
        function("p1", "first", SETS),
        function("p4", "apart", "begin return 1; end"),
    ]);
    asks(&mut judge, "SELECT third(1)");
    asks(&mut judge, "SELECT second(1)");
    is_harmless(&mut judge, "SELECT apart(1)");
}

#[test]
fn relations_have_the_effects_of_their_parts() {
    let mut judge = judge(&[
        STAMP,
        function("p1", "login", SETS),
        ["N", "r1", "watched", "", ""],
        ["N", "w1", "watched", "", ""],
        ["E", "w1", "p1", "", ""],
        ["N", "r2", "entrance", "", ""],
        [
            "D",
            "r2",
            "",
            "",
            "SELECT set_config('app.tenant'::text, 'A'::text, false) AS a",
        ],
        ["N", "r3", "hall", "", ""],
        ["E", "r3", "r2", "", ""],
        function("p2", "enters", "begin insert into watched values (1); end"),
    ]);
    asks(&mut judge, "INSERT INTO watched(a) VALUES (1)");
    asks(
        &mut judge,
        "WITH x AS (DELETE FROM watched RETURNING a) SELECT * FROM x",
    );
    asks(&mut judge, "COPY watched FROM STDIN");
    asks(&mut judge, "SELECT * FROM entrance");
    asks(&mut judge, "UPDATE hall SET a = 1");
    asks(&mut judge, "SELECT enters()");
    is_harmless(&mut judge, "SELECT * FROM watched");
    is_harmless(&mut judge, "SELECT * FROM watched_too");
}

#[test]
fn what_no_word_shows_counts_always() {
    let mut judge = judge(&[
        STAMP,
        function("p1", "login", SETS),
        ["E", "o", "p1", "", ""],
    ]);
    asks(&mut judge, "SELECT a === b");
}

#[test]
fn event_triggers_count_for_definitions() {
    let mut judge = judge(&[
        STAMP,
        function("p1", "login", SETS),
        ["E", "e", "p1", "", ""],
    ]);
    asks(&mut judge, "CREATE TABLE t (a int)");
    asks(&mut judge, "DROP TABLE t");
    is_harmless(&mut judge, "SELECT 1");
}

#[test]
fn a_function_of_unknown_names_may_set_anything() {
    let code = "begin perform set_config(name, value, false); end";
    let mut judge = judge(&[STAMP, function("p1", "set_any", code)]);
    let effects = judge.effects(b"SELECT set_any('a.b', 'c')", false).unwrap();
    assert!(effects.certain.contains(Reason::Setting) && effects.asks.all);
}

#[test]
fn a_function_of_a_row_can_be_written_as_its_column() {
    let mut judge = judge(&[
        STAMP,
        function("p1", "login", SETS),
        ["A", "p1", "", "", ""],
    ]);
    asks(&mut judge, "SELECT t.login FROM t");
}

#[test]
fn more_names_than_are_kept_are_any_name() {
    let code: String = (0..200)
        .map(|number| format!("perform set_config('app.n{number}', 'x', false);"))
        .collect();
    let code: &'static str = code.leak();
    let mut judge = judge(&[
        STAMP,
        function("p1", "one", code),
        function("p2", "two", "begin perform one(); perform three(); end"),
        function(
            "p3",
            "three",
            "begin perform two(); perform set_config('a.a', '', false); end",
        ),
    ]);
    for text in ["SELECT one()", "SELECT two()", "SELECT three()"] {
        let effects = judge.effects(text.as_bytes(), false).unwrap();
        assert!(effects.certain.contains(Reason::Setting), "{text}");
    }
}

#[test]
fn a_definition_counts_at_once() {
    let mut judge = judge(&[STAMP, function("p1", "login", SETS)]);
    let mut catalogue = load(&[STAMP, function("p1", "login", SETS)]);
    for (text, name) in [
        (
            "CREATE FUNCTION app.enter() RETURNS text LANGUAGE sql AS $$ select set_config('app.tenant', 'A', false) $$",
            "enter",
        ),
        (
            "CREATE FUNCTION enter2() RETURNS text BEGIN ATOMIC; SELECT 1; SELECT set_config('app.tenant', 'A', false); END",
            "enter2",
        ),
        ("CREATE VIEW IF NOT EXISTS app.v AS SELECT login('A')", "v"),
        (
            "CREATE TRIGGER t BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION login()",
            "watched",
        ),
        (
            "CREATE TABLE defaulted (a text DEFAULT login('A'))",
            "defaulted",
        ),
        ("ALTER TABLE ONLY later ADD CHECK (login(a) = a)", "later"),
    ] {
        let effects = judge.effects(text.as_bytes(), false).expect(text);
        assert!(!effects.defines.is_empty(), "{text}");
        assert!(!catalogue.covers(&effects.defines[0]), "{text}");
        catalogue = catalogue.with(&effects.defines);
        assert!(catalogue.covers(&effects.defines[0]), "{text}");
        judge.set_catalogue(&Arc::new(catalogue.clone()), 2);
        asks(&mut judge, &format!("UPDATE {name} SET a = 1"));
    }
    is_harmless(
        &mut judge,
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'select 1'",
    );
    is_harmless(&mut judge, "CREATE TABLE t (a int)");
    is_harmless(&mut judge, "INSERT INTO t VALUES (1)");
}

#[test]
fn rows_of_another_kind_are_refused() {
    let row = |row: Row| Catalogue::load([row.map(str::as_bytes)]);
    assert_eq!(row(["?", "", "", "", ""]), Err(LoadError::Malformed));
    assert_eq!(row(["N", "r1", "t", "", ""]), Err(LoadError::Malformed));
    assert_eq!(row(["R", "r1", "t", "", "?"]), Err(LoadError::Malformed));
    assert_eq!(row(["V", "r1", "t", "", "?"]), Err(LoadError::Malformed));
}

#[test]
fn functions_are_known_by_number_too() {
    let judge = judge(&[
        STAMP,
        function("p17000", "login", SETS),
        function("p17001", "f", ""),
    ]);
    let names = judge.function(17_000).unwrap().asks.names.clone();
    assert_eq!(*names, ["app.tenant".into()]);
    assert_eq!(judge.function(17_001), None);
}

#[test]
fn names_of_settings_are_told() {
    let catalogue = load(&[STAMP, function("p1", "login", SETS)]);
    assert!(catalogue.settings().any(|name| name == "app.tenant"));
    assert_eq!((catalogue.len(), catalogue.stamp()), (1, &b"1"[..]));
}

/// Returns a judge of the objects in `testdata/objects.sql`, by the rows that PostgreSQL 15 returned for them.
fn recorded() -> Judge {
    let rows = include_str!("../../testdata/objects-15.json").lines();
    let rows: Vec<[String; 5]> = rows.map(|row| serde_json::from_str(row).unwrap()).collect();
    let rows = rows.iter().map(|row| row.each_ref().map(String::as_bytes));
    let mut judge = Judge::new(Functions::default());
    judge.set_catalogue(&Arc::new(Catalogue::load(rows).unwrap()), 1);
    judge
}

#[track_caller]
fn reads(judge: &mut Judge, text: &str, in_catalogue: bool) {
    let expected = Access::Read {
        reads_catalogue: in_catalogue,
    };
    assert_eq!(*judge.access(text.as_bytes()), expected, "{text}");
}

#[track_caller]
fn primary(judge: &mut Judge, text: &str, expected: Why) {
    match &*judge.access(text.as_bytes()) {
        Access::Primary(Cause::Function(_, why) | Cause::Relation(_, why)) => {
            assert_eq!(*why, expected, "{text}");
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn functions_of_a_database_read_unless_one_of_the_name_is_volatile() {
    let mut judge = recorded();
    for text in [
        "SELECT steady(1)",
        "SELECT public.steady(a) FROM plain",
        "SELECT adds_well(1, 2), good_sum(a) FROM plain",
        "SELECT lower(a), max(name), public.lower(1) FROM plain",
        "SELECT translate(name, 'a', 'b') FROM plain",
    ] {
        reads(&mut judge, text, false);
    }
    for text in [
        "SELECT changes(1)",
        "SELECT \"both\"(1)",
        "SELECT app.both(1)",
        "SELECT * FROM app.search('a')",
        "SELECT adds(1, 2)",
        "SELECT bad_sum(a) FROM plain",
    ] {
        primary(&mut judge, text, Why::Volatile);
    }
    // A function of the same name as PostgreSQL's does not make that one read.
    primary(&mut judge, "SELECT nextval('numbers')", Why::Writes);
    for text in ["SELECT watches()", "SELECT unheard_of(1)"] {
        primary(&mut judge, text, Why::Unknown);
    }
    assert!(!judge.access(b"CALL works()").is_read());
}

#[test]
fn relations_are_judged_by_all_that_they_reach() {
    let mut judge = recorded();
    for name in [
        "plain",
        "\"Mixed\"",
        "parted_1",
        "clean",
        "over_clean",
        "tenants",
        "odd",
        "good_total",
        "stored",
        "over_stored",
        "secured",
        "inserted",
    ] {
        reads(&mut judge, &format!("SELECT * FROM {name}"), false);
        reads(&mut judge, &format!("TABLE {name}"), false);
    }
    for name in ["catalogued", "schemas"] {
        reads(&mut judge, &format!("SELECT * FROM {name}"), true);
    }
    for (name, why) in [
        ("unlogged", Why::Unlogged),
        ("parted", Why::Unlogged),
        ("parted_2", Why::Unlogged),
        ("over_parted", Why::Unlogged),
        ("over_unlogged", Why::Unlogged),
        ("guarded", Why::Unlogged),
        ("elsewhere", Why::Foreign),
        ("over_elsewhere", Why::Foreign),
        ("numbers", Why::Sequence),
        ("plain_id_seq", Why::Sequence),
        ("last", Why::Sequence),
        ("writes", Why::Sequence),
        ("over_writes", Why::Sequence),
        ("hosts", Why::Host),
        ("role", Why::Host),
        ("any_setting", Why::Host),
        ("locked", Why::Host),
        ("calls", Why::Volatile),
        ("finds", Why::Volatile),
        ("watched", Why::Volatile),
        ("bad_total", Why::Volatile),
        ("\"Case\"", Why::Volatile),
    ] {
        primary(&mut judge, &format!("SELECT * FROM {name}"), why);
        primary(
            &mut judge,
            &format!("SELECT 1 FROM plain JOIN {name} ON true"),
            why,
        );
        primary(&mut judge, &format!("TABLE public.{name}"), why);
    }
}

#[test]
fn lists_of_the_administrator_count_for_functions_of_views() {
    let mut judge = recorded();
    let list = |text| vec![Pattern::read(text).unwrap()];
    judge.set_names(Names::new(list("steady"), list("app.search")));
    reads(&mut judge, "SELECT * FROM finds", false);
    primary(&mut judge, "SELECT * FROM over_clean", Why::Listed);
    primary(&mut judge, "SELECT * FROM calls", Why::Volatile);
}

#[test]
fn relations_that_reach_each_other_and_many_functions_end_in_a_verdict() {
    let function = |number: usize| {
        let (id, name) = (format!("p{number}"), format!("f{number}"));
        [
            [
                "P".to_owned(),
                id.clone(),
                name,
                "public".to_owned(),
                String::new(),
            ],
            [
                "E".to_owned(),
                "r1".to_owned(),
                id,
                String::new(),
                String::new(),
            ],
        ]
    };
    let fixed = [
        STAMP,
        ["N", "r1", "many", "", ""],
        ["N", "r2", "ring", "", ""],
        ["N", "r3", "chain", "", ""],
        ["E", "r2", "r3", "", ""],
        ["E", "r3", "r2", "", ""],
        ["R", "r4", "end", "", "u"],
        ["E", "r3", "r4", "", ""],
    ];
    let load = |count: usize| {
        let functions: Vec<_> = (0..count).flat_map(function).collect();
        let functions = functions
            .iter()
            .map(|row| row.each_ref().map(String::as_bytes));
        let rows = fixed.iter().map(|row| row.map(str::as_bytes));
        let mut judge = Judge::new(Functions::default());
        judge.set_catalogue(
            &Arc::new(Catalogue::load(rows.chain(functions)).unwrap()),
            1,
        );
        judge
    };
    let mut judge = load(200);
    reads(&mut judge, "SELECT * FROM many", false);
    primary(&mut judge, "SELECT * FROM ring", Why::Unlogged);
    primary(&mut judge, "SELECT * FROM chain", Why::Unlogged);
    primary(&mut load(300), "SELECT * FROM many", Why::Unknown);
}

#[test]
fn names_in_code_say_nothing_about_what_a_relation_reads() {
    let mut judge = judge(&[
        STAMP,
        function("p1", "steady", "begin perform changes(1); end"),
        ["P", "p1", "steady", "public", ""],
        ["P", "p2", "changes", "public", "v"],
        ["N", "r1", "shown", "", ""],
        ["E", "r1", "p1", "", ""],
    ]);
    reads(&mut judge, "SELECT steady(1) FROM shown", false);
}

#[test]
fn blocks_begin_read_committed_as_far_as_the_catalogue_knows() {
    let mut judge = Judge::new(Functions::default());
    assert!(!judge.begins_read_committed(), "nothing is known yet");
    let load = |rows: &[Row]| {
        let rows = rows.iter().map(|row| row.map(str::as_bytes));
        Arc::new(Catalogue::load(rows).unwrap())
    };
    judge.set_catalogue(&load(&[["H", "stamp", "", "", ""]]), 1);
    assert!(judge.begins_read_committed());
    judge.set_catalogue(
        &load(&[["H", "stamp", "", "", ""], ["I", "", "", "", ""]]),
        2,
    );
    assert!(!judge.begins_read_committed());
}
