//! Tests with hostile texts: deep, long, cut, random. They must finish on a thread's stack (2 MiB) within a second.

use std::thread;

use super::functions;
use crate::judge::judge;
use crate::{Judge, Sequences, is_harmless};

/// Returns nested texts, all of which advance a sequence somewhere inside.
fn nested(depth: usize) -> Vec<String> {
    let pairs = [
        ("SELECT nextval('x'), ", "1+", "1", ""),
        ("SELECT nextval('x'), ", "NOT ", "true", ""),
        ("SELECT nextval('x'), ", "- ", "1", ""),
        ("SELECT nextval('x'), ", "(", "1", ")"),
        ("SELECT nextval('x'), ", "abs(", "1", ")"),
        ("SELECT nextval('x'), ", "row(", "1", ")"),
        ("SELECT nextval('x'), ", "array[", "1", "]"),
        ("SELECT nextval('x'), ", "CASE WHEN true THEN ", "1", " END"),
        ("SELECT nextval('x'), a", "", "", "::int"),
        ("SELECT nextval('x'), a", "", "", ".b"),
        ("SELECT nextval('x'), a", "", "", "[1]"),
        ("SELECT nextval('x'), a", "", "", "||'a'"),
        ("SELECT nextval('x')", "", "", " UNION SELECT 1"),
        ("SELECT nextval('x') FROM a", "", "", " JOIN b ON true"),
        ("SELECT nextval('x') WHERE a", "", "", " AND (b OR c)"),
        ("SELECT nextval('x') WHERE a IN (1", "", "", ",1"),
        ("SELECT nextval('x') FROM ", "(", "a", " JOIN b ON true)"),
        ("", "SELECT (", "SELECT nextval('x')", ")"),
        ("", "SELECT * FROM (", "SELECT nextval('x')", ") x"),
        ("", "WITH a AS (", "SELECT nextval('x')", ") SELECT 1"),
        ("", "EXPLAIN ", "SELECT nextval('x')", ""),
        ("SELECT nextval('x')", "/*", "", "*/"),
        ("SELECT nextval('x');", "", "", "SET a = 1;"),
        (
            "CREATE SCHEMA s CREATE TABLE t (a int DEFAULT nextval('x'))",
            "",
            "",
            " CREATE TABLE t ()",
        ),
    ];
    let text = |(start, open, middle, close): &(&str, &str, &str, &str)| {
        format!(
            "{start}{}{middle}{}",
            open.repeat(depth),
            close.repeat(depth)
        )
    };
    pairs.iter().map(text).collect()
}

#[test]
fn nesting_of_any_depth_neither_crashes_nor_loses_an_effect() {
    let judged = thread::Builder::new().stack_size(2 << 20).spawn(|| {
        for depth in [10, 45, 60, 300, 2000, 30_000] {
            for text in nested(depth) {
                // Words would settle most of these texts without a parse.
                let parsed = format!("CREATE TEMP TABLE x AS {text}");
                for text in [parsed, text] {
                    let moves = judge(text.as_bytes(), &functions()).sequences;
                    assert_eq!(moves, Sequences::Moves, "{:.60} {depth}", text);
                    assert!(!is_harmless(text.as_bytes(), &functions()));
                }
            }
        }
    });
    judged.unwrap().join().unwrap();
}

/// Checks the tree itself, beyond the limits of `judge`.
#[test]
fn the_parser_itself_stops_in_time() {
    let parsed = thread::Builder::new().stack_size(2 << 20).spawn(|| {
        let functions = functions();
        for depth in [40, 200, 4000] {
            for text in nested(depth).iter().filter(|text| !text.contains("/*")) {
                if let Some(tree) = crate::tree::effects(text, false, &functions) {
                    assert_eq!(tree.sequences, Sequences::Moves, "{text:.60} {depth}");
                }
            }
        }
    });
    parsed.unwrap().join().unwrap();
}

/// A small random generator, whose failures can be repeated by their seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        // Constants from Numerical Recipes.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

const PIECES: &[&[u8]] = &[
    b"SET",
    b"LOCAL",
    b" ",
    b"\n",
    b"'",
    b"''",
    b"\\",
    b"\"",
    b"$",
    b"$$",
    b"$a$",
    b"--",
    b"/*",
    b"*/",
    b";",
    b"E'",
    b"U&\"",
    b"U&'",
    b"N'",
    b"(",
    b")",
    b".",
    b",",
    b"=",
    b"1",
    b"0x",
    b"a",
    b"nextval",
    b"set_config",
    b"pg_temp",
    b"TEMP",
    b"CREATE",
    b"SELECT",
    b"INTO",
    b"\0",
    b"\x83",
    b"\xc3\xa9",
    b"\xff",
    b"DO",
    b"LOAD",
    b"TRANSACTION",
    b"PREPARE",
    b"DECLARE",
    b"HOLD",
    b"RESET",
    b"DISCARD",
    b"ALL",
    b"LISTEN",
    b"UNLISTEN",
    b"*",
];

#[test]
fn random_pieces_never_panic() {
    let functions = functions();
    let mut remembered = Judge::new(functions.clone());
    for seed in 0..20_000 {
        let mut random = Random(seed);
        let mut text = Vec::new();
        for _ in 0..random.below(14) {
            text.extend_from_slice(PIECES[random.below(PIECES.len())]);
            if random.below(3) == 0 {
                text.push(b' ');
            }
        }
        let pinned = random.below(2) == 0;
        let effects = remembered.effects(&text, pinned);
        if is_harmless(&text, &functions) {
            assert!(pinned || effects.is_none(), "seed {seed}: {text:?}");
        }
        if let Ok(text) = std::str::from_utf8(&text) {
            super::check_text_without_nul(text);
        }
    }
}

#[test]
fn texts_cut_anywhere_never_panic() {
    let text =
        "SELECT 'a', E'\\'', $x$ $ $x$, U&\"d\", \"e\"\"\" /* /* */ */ -- x\n; SET a.b = 'é'; \
                CREATE TEMP TABLE t AS SELECT set_config('a', $1, false)"
            .as_bytes();
    for start in 0..text.len() {
        for end in [start, (start + 7).min(text.len()), text.len()] {
            judge(&text[start..end], &functions());
            judge(&text[..end], &functions());
        }
    }
}
