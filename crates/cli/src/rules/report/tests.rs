//! Tests of the forms of the output.

use expect_test::{Expect, expect};

use super::*;
use crate::rules::tally::{Client, Digest, Seen};

const RULES: &str = "\
[[rules]]
name = \"text\"
match.text = \"x\"
action = \"pass\"
[[rules]]
name = \"stop-orders\"
match.tables = \"orders\"
match.application_name = \"batch\"
action = \"reject\"
dry_run = true
[[rules]]
name = \"old\"
match.kind = \"select\"
action = \"reject\"
sample = \"5%\"
expires = 2020-01-01T00:00:00Z
";

fn digests(format: Format) -> String {
    let rules = crate::load::rules_of("rules.toml", RULES).unwrap();
    let mut tally = Tally::new(&rules, InputKind::Digests, 3, 1_800_000_000);
    for (text, is_whole) in [
        ("DELETE FROM orders WHERE id = $1", true),
        ("SELECT a...", false),
        ("UPDATE t SET a = $1", true),
    ] {
        let digest = match is_whole {
            true => Digest::Facts(weir_sql::Facts::of(text).map(Box::new)),
            false => Digest::Unknown,
        };
        tally.add(Seen {
            text: text.as_bytes(),
            is_whole,
            digest: Some(&digest),
            client: Client::default(),
            calls: 12,
            server_us: Some(3_400),
        });
    }
    text(&tally, format)
}

fn check(found: &str, expected: Expect) {
    expected.assert_eq(found);
}

#[test]
fn people_get_columns_notes_and_examples() {
    check(
        &digests(Format::Table),
        expect![[r#"
            rule         action            statements  calls  server_us  notes
            text         pass                       -      -          -  cannot be decided from digests: match.text
            stop-orders  reject (dry run)           1     12       3400  taken as met: match.application_name; at most: an earlier rule could not be decided
                DELETE FROM orders WHERE id = $1
            old          reject                     0      0          0  has ended (expires); in force for 5% of these (sample)
            (no rule)                               1     12       3400  at most: a rule could not be decided
                UPDATE t SET a = $1
            (undecided)                             1     12       3400  the digests do not have the whole statement, so rules may meet it or not
                SELECT a...
        "#]],
    );
}

#[test]
fn a_log_without_times_has_fewer_columns() {
    let rules = crate::load::rules_of("rules.toml", RULES).unwrap();
    let mut tally = Tally::new(&rules, InputKind::Log, 1, 1_800_000_000);
    tally.add(Seen {
        text: b"DELETE FROM orders WHERE id = 7",
        is_whole: true,
        calls: 1,
        ..Seen::default()
    });
    check(
        &text(&tally, Format::Table),
        expect![[r#"
        rule         action            statements  notes
        text         pass                       0
        stop-orders  reject (dry run)           1  taken as met: match.application_name
            DELETE FROM orders WHERE id = ?
        old          reject                     0  has ended (expires); in force for 5% of these (sample)
        (no rule)                               0
    "#]],
    );
}

#[test]
fn csv_has_all_columns() {
    check(
        &digests(Format::Csv),
        expect![[r#"
            rule,place,action,statements,calls,server_us,notes,examples
            text,rules.toml:1,pass,,,,cannot be decided from digests: match.text,
            stop-orders,rules.toml:5,reject (dry run),1,12,3400,taken as met: match.application_name; at most: an earlier rule could not be decided,DELETE FROM orders WHERE id = $1
            old,rules.toml:11,reject,0,0,0,has ended (expires); in force for 5% of these (sample),
            (no rule),,,1,12,3400,at most: a rule could not be decided,UPDATE t SET a = $1
            (undecided),,,1,12,3400,"the digests do not have the whole statement, so rules may meet it or not",SELECT a...
        "#]],
    );
}

#[test]
fn json_has_numbers_lists_and_nulls() {
    let rows: Value = serde_json::from_str(&digests(Format::Json)).unwrap();
    assert_eq!(rows[0]["statements"], Value::Null);
    assert_eq!(rows[1]["calls"], 12);
    assert_eq!(rows[1]["place"], "rules.toml:5");
    assert_eq!(rows[1]["examples"][0], "DELETE FROM orders WHERE id = $1");
    assert_eq!(rows[4]["rule"], UNDECIDED);
    assert_eq!(rows[4]["server_us"], 3_400);
}
