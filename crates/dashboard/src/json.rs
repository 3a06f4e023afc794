//! Answers for scripts, in JSON.

use serde::Serialize;
use serde_json::{Value, json};

use crate::pages;
use crate::source::{Kind, Role, Series, Table};

/// Returns a table with the console's names of columns. Numbers are JSON numbers where these hold them exactly.
pub(crate) fn table(name: &str, table: &Table, role: Role) -> Value {
    #[derive(Serialize)]
    struct Column<'a> {
        name: &'a str,
        kind: &'static str,
    }
    let columns = table.columns.iter().map(|column| Column {
        name: &column.name,
        kind: match column.kind {
            Kind::Number => "number",
            Kind::Text => "text",
        },
    });
    let rows = table.rows.iter().map(|row| {
        let cells = row.iter().zip(&table.columns).map(|(cell, column)| {
            let Some(text) = cell else {
                return Value::Null;
            };
            match column.kind {
                _ if pages::is_secret(&column.name, role) => Value::Null,
                Kind::Number => number(text),
                Kind::Text => Value::String(text.clone()),
            }
        });
        Value::Array(cells.collect())
    });
    json!({
        "name": name,
        "columns": columns.collect::<Vec<_>>(),
        "rows": rows.collect::<Vec<_>>(),
    })
}

/// Largest number that every reader of JSON holds exactly (RFC 8259, section 6).
const EXACT_MAX: i64 = (1 << 53) - 1;

fn number(text: &str) -> Value {
    let exact = text.parse::<i64>().ok();
    let exact = exact.filter(|number| (-EXACT_MAX..=EXACT_MAX).contains(number));
    exact.map_or_else(|| Value::String(text.to_owned()), Value::from)
}

/// Returns a history.
pub(crate) fn series(series: &Series) -> Value {
    let lines = series.lines.iter();
    let lines: serde_json::Map<String, Value> = lines
        .map(|line| (line.name.clone(), json!(line.values)))
        .collect();
    json!({
        "from": series.from,
        "step": series.step,
        "lines": lines,
        "marks": series.marks,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::source::{Column, Line};

    fn check(value: &Value, expect: &expect_test::Expect) {
        expect.assert_eq(&serde_json::to_string_pretty(value).unwrap());
    }

    #[test]
    fn a_table_keeps_names_types_and_nulls() {
        let column = |name: &str, kind| Column {
            name: name.to_owned(),
            kind,
        };
        let given = Table {
            columns: vec![
                column("database", Kind::Text),
                column("calls", Kind::Number),
                column("statement", Kind::Text),
            ],
            rows: vec![
                vec![
                    Some("<b>\"shop".into()),
                    Some("7".into()),
                    Some("SELECT ?".into()),
                ],
                vec![None, Some("9007199254740993".into()), None],
            ],
        };
        check(
            &table("DIGESTS", &given, Role::Stats),
            &expect![[r#"
                {
                  "columns": [
                    {
                      "kind": "text",
                      "name": "database"
                    },
                    {
                      "kind": "number",
                      "name": "calls"
                    },
                    {
                      "kind": "text",
                      "name": "statement"
                    }
                  ],
                  "name": "DIGESTS",
                  "rows": [
                    [
                      "<b>\"shop",
                      7,
                      null
                    ],
                    [
                      null,
                      "9007199254740993",
                      null
                    ]
                  ]
                }"#]],
        );
        let admin = table("DIGESTS", &given, Role::Admin);
        assert_eq!(admin["rows"][0][2], "SELECT ?");
    }

    #[test]
    fn a_history_has_gaps_as_null() {
        let given = Series {
            from: 1_700_000_000,
            step: 1,
            lines: vec![Line {
                name: "tps".to_owned(),
                values: vec![Some(1.5), None],
            }],
            marks: vec![(1_700_000_001, "reload".to_owned())],
        };
        assert_eq!(
            series(&given).to_string(),
            r#"{"from":1700000000,"lines":{"tps":[1.5,null]},"marks":[[1700000001,"reload"]],"step":1}"#
        );
    }
}
