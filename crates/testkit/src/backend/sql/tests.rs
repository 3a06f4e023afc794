//! Tests of the parser.

use super::*;

#[track_caller]
fn one(text: &str) -> Sql {
    let mut found = parse(text.as_bytes()).unwrap();
    assert_eq!(found.len(), 1, "{text}");
    found.remove(0)
}

fn set(name: &str, value: &str) -> Sql {
    Sql::Set(Setting {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        local: false,
        any: false,
    })
}

#[test]
fn the_forms_that_weir_writes_are_understood() {
    assert_eq!(one("SET \"timezone\" TO E'CET'"), set("timezone", "CET"));
    assert_eq!(one("SET \"my\".\"a\" TO E'x''y'"), set("my.a", "x'y"));
    assert_eq!(one("RESET \"my\".\"a\""), Sql::Reset("my.a".into()));
    assert_eq!(
        one("SELECT pg_catalog.set_config(E'search_path',E'a, \"B c\"',false)"),
        Sql::Select(Select::SetConfig {
            name: "search_path".into(),
            value: "a, \"B c\"".into(),
            local: false,
        })
    );
}

#[test]
fn weirs_question_is_read_part_by_part() {
    let text = "SELECT 's', E'a', pg_catalog.current_setting(E'a', true) UNION ALL \
                SELECT 'p', 'listen', '' WHERE EXISTS (SELECT 1 FROM pg_catalog.pg_listening_channels())";
    let asks = vec![
        Ask::Setting("a".into()),
        Ask::Pinned("listen".into(), Held::Channels),
    ];
    assert_eq!(one(text), Sql::Select(Select::Question(asks)));
}

#[test]
fn one_syntax_error_spoils_the_text() {
    assert_eq!(
        parse(b"row a; error parse"),
        Err("syntax error at or near \"error parse\"".into())
    );
    assert!(parse(b"select 'x'; oops").is_err());
}

#[test]
fn lists_of_schemas_are_quoted_where_they_must() {
    assert_eq!(
        one("SET search_path TO one, 'Two'"),
        set("search_path", "one, \"Two\"")
    );
}

#[test]
fn only_what_can_be_planned_can_be_prepared() {
    assert!(parse(b"PREPARE p AS SET a.b TO c").is_err());
    assert!(parse(b"PREPARE p AS SELECT 'x'").is_ok());
}
