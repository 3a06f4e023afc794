//! Output of consoles that are played.

use super::*;
use crate::console::Ask;
use crate::fixture::{Answers, PGBOUNCER, WEIR};

struct Played(Answers);

impl Connect for Played {
    fn connect(&self) -> Result<Box<dyn Ask>, Lost> {
        Ok(Box::new(Self(self.0.clone())))
    }
}

impl Ask for Played {
    fn ask(&mut self, sql: &str) -> Result<Result<Table, String>, Lost> {
        let mut questions = Question::ALL.into_iter();
        let question = questions.find(|question| question.sql() == sql).unwrap();
        Ok(self.0.reply(question).map(|table| Table::clone(&table)))
    }
}

fn played(text: &str) -> Played {
    Played(Answers::read(&[text]))
}

#[test]
fn tables_have_aligned_columns() {
    let text = once(&played(PGBOUNCER), &Once::Table(View::Pools)).unwrap();
    expect_test::expect![[r#"
        database   user       waiting  max wait  clients  busy  idle  login  db avg wait  db avg xact  db avg query  mode
        shop       ann              3     2.82s        2     2     0      0        493us            0         395us  transaction
        bank       postgres         0         0        1     1     0      0         28us         89us          89us  transaction
        pgbouncer  pgbouncer        0         0        1     0     0      0            0            0             0  statement
    "#]].assert_eq(&text);
}

#[test]
fn a_view_that_the_pooler_does_not_have_is_an_error() {
    let error = once(&played(PGBOUNCER), &Once::Table(View::Pins)).unwrap_err();
    let told = "PgBouncer 1.18.0 has no SHOW PINS: this view needs Weir.";
    assert_eq!(error, OnceError::Refused(told.to_owned()));
}

#[test]
fn an_empty_view_says_why() {
    let mut answers = Answers::read(&[WEIR]);
    answers.clear(Question::Errors);
    let text = once(&Played(answers), &Once::Table(View::Errors)).unwrap();
    assert_eq!(text, "No client has received an error since the start.\n");
}

#[test]
fn json_has_the_tables_and_the_refusals() {
    let text = once(&played(PGBOUNCER), &Once::Json(View::ALL.to_vec())).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["tables"]["POOLS"][2]["cl_waiting"], "3");
    assert!(
        value["refused"]["PINS"]
            .as_str()
            .unwrap()
            .starts_with("invalid command")
    );
    assert!(value["tables"].get("PINS").is_none());
}

#[test]
fn numbers_are_numbers_by_their_type() {
    let table = Table {
        columns: ["int8", "numeric", "text"].map(str::to_owned).to_vec(),
        types: vec![20, 1700, 25],
        rows: vec![
            vec![
                Some("7".to_owned()),
                Some("0.5".to_owned()),
                Some("7".to_owned()),
            ],
            vec![None, None, None],
        ],
    };
    let expected = serde_json::json!([
        {"int8": 7, "numeric": 0.5, "text": "7"},
        {"int8": null, "numeric": null, "text": null},
    ]);
    assert_eq!(rows(&table), expected);
}

#[test]
fn no_control_character_is_left_in_json() {
    let json = escaped("{\"a\": \"\u{9b}31m\u{7f}\"}\n");
    assert_eq!(json, "{\"a\": \"\\u009b31m\\u007f\"}\n");
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["a"], "\u{9b}31m\u{7f}");
}
