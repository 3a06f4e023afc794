//! Tests with catalogues of small databases.

use std::sync::Arc;

use super::*;
use crate::{Functions, Judge, Reason};

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
