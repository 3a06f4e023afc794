//! Shapes: statements that have one, and others that do not.

use proptest::prelude::*;

use super::*;
use crate::Fingerprint;

fn keys(text: &str) -> Vec<ShapeKey> {
    let mut keys = Vec::new();
    Shaper::new(7).shapes(text.as_bytes(), true, &mut |key, _| keys.push(key));
    keys
}

fn key(text: &str) -> ShapeKey {
    let keys = keys(text);
    assert_eq!(keys.len(), 1, "{text}");
    keys[0]
}

fn marked(text: &str) -> String {
    without_literals(text.as_bytes(), Blank::Mark, 1024)
}

/// Statements in groups of one shape.
const GROUPS: &[&[&str]] = &[
    &[
        "SELECT abalance FROM pgbench_accounts WHERE aid = 17",
        "select abalance\nfrom pgbench_accounts -- comment\nwhere aid=$1",
        "SELECT abalance FROM pgbench_accounts WHERE aid = /* a */ 'x'",
    ],
    &[
        "SELECT * FROM t WHERE a IN (1)",
        "SELECT * FROM t WHERE a IN (1, 2,3)",
        "SELECT * FROM t WHERE a IN ($1, $2)",
    ],
    &[
        "SELECT * FROM t WHERE a IN (-1, -2) AND b = 1.5e-3",
        "SELECT * FROM t WHERE a IN (-1) AND b = .5",
    ],
    &[
        "SELECT * FROM t WHERE a IN ('x'::text, 'y'::text)",
        "SELECT * FROM t WHERE a IN ('x'::text)",
    ],
    &[
        "SELECT * FROM t WHERE (a, b) IN ((1, 2), (3, 4))",
        "SELECT * FROM t WHERE (a, b) IN ((1, 2))",
    ],
    &[
        "INSERT INTO t (a, b) VALUES (1, 'x'), (2, 'y') ON CONFLICT DO NOTHING",
        "INSERT INTO t (a, b) VALUES (1, 'x') ON CONFLICT DO NOTHING",
    ],
    &[
        "SELECT * FROM (VALUES (1, 2), (3, 4), (5, 6)) v (a, b)",
        "SELECT * FROM (VALUES (1, 2)) v (a, b)",
    ],
    &[
        "SELECT E'a\\'b', $tag$ ; $tag$, U&'x', B'1', X'1F', N'n', 0x1F, 1_000, 1e+5",
        "SELECT '', '', '', '', '', '', 1, 2, 3",
    ],
    &["SELECT f(1, 2)", "SELECT f(3, 4)"],
    &["SELECT f(1)"],
    &["SELECT a FROM \"T\""],
    &["SELECT a FROM t ORDER BY a, a"],
    &["SELECT a FROM t ORDER BY a"],
    &["SELECT a FROM t WHERE b IN (SELECT c FROM u ORDER BY c, c, c)"],
    &["SELECT a FROM t WHERE b IN (SELECT c FROM u ORDER BY c, c)"],
    &[
        "UPDATE t SET a = 1 WHERE b = 2",
        "UPDATE t SET a = 'x' WHERE b = 3",
    ],
    &["SELECT 1 + -1"],
    &["SELECT interval '1 day'", "SELECT interval '2 days'"],
];

#[test]
fn texts_that_differ_in_literals_have_one_shape_and_others_do_not() {
    for (number, group) in GROUPS.iter().enumerate() {
        for text in *group {
            assert_eq!(key(text), key(group[0]), "{text}");
        }
        for other in GROUPS.iter().skip(number + 1) {
            assert_ne!(
                key(other[0]),
                key(group[0]),
                "{} and {}",
                other[0],
                group[0]
            );
        }
    }
}

#[test]
fn one_shape_has_one_fingerprint() {
    for group in GROUPS {
        let first = Fingerprint::of(group[0]).unwrap();
        for text in *group {
            assert_eq!(Fingerprint::of(text), Some(first), "{text}");
            let exact = Fingerprint::exact(group[0]);
            assert_eq!(Fingerprint::exact(text), exact, "{text}");
        }
    }
}

#[test]
fn a_text_without_literals_has_the_fingerprint_and_the_shape_of_the_statement() {
    for text in GROUPS.iter().copied().flatten() {
        let sample = without_literals(text.as_bytes(), Blank::Sample, 1024);
        assert_eq!(Fingerprint::of(&sample), Fingerprint::of(text), "{sample}");
        assert_eq!(key(&sample), key(text), "{sample}");
        assert_eq!(
            without_literals(sample.as_bytes(), Blank::Sample, 1024),
            sample
        );
    }
}

#[test]
fn literals_and_comments_are_left_out() {
    for (text, blank) in [
        ("select 'a''b' , $$x$$, 12 from t", "select ? , ?, ? from t"),
        ("/* trace 9 */ select 1 -- secret", "select ?"),
        ("select 'a'\n'b'", "select ?"),
        (
            "alter role joe password 'secret'",
            "alter role joe password ?",
        ),
        (
            "select a from t where b in (1,\n 2, 3) and c",
            "select a from t where b in (?) and c",
        ),
        (
            "insert into t values (1, 'a'), (2, 'b')",
            "insert into t values (?, ?)",
        ),
        ("select t.a, a.\"B\"", "select t.a, a.\"B\""),
        ("select 'no end", "select..."),
        ("select 'it\\'s secret', 'x'", "select..."),
    ] {
        assert_eq!(marked(text), blank, "{text}");
    }
    let long = without_literals(b"select aaaa, bbbb, cccc", Blank::Mark, 12);
    assert_eq!(long, "select aaaa,...");
}

#[test]
fn statements_of_one_shape_have_one_canonical_form_and_others_do_not() {
    let form = |text: &str| canonical(text.as_bytes()).unwrap();
    for (number, group) in GROUPS.iter().enumerate() {
        for text in *group {
            assert_eq!(form(text), form(group[0]), "{text}");
            assert_eq!(form(&marked(text)), form(text), "{text}");
        }
        for other in GROUPS.iter().skip(number + 1) {
            assert_ne!(form(other[0]), form(group[0]));
        }
    }
    // Fingerprints do not tell these apart.
    assert_ne!(
        form("SELECT a.* FROM t a, u b"),
        form("SELECT a.* FROM t b, u a")
    );
    let long = format!("SELECT {} FROM t", vec!["a"; 9_000].join(", "));
    assert!(form(&long).ends_with(", a from t"));
}

#[test]
fn a_text_with_several_readings_has_no_canonical_form() {
    for text in [
        "SELECT 'a\\'' UNION SELECT b --'",
        "SELECT 'no end",
        "SELECT U&\"d!0061ta\" UESCAPE '!'",
        "SELECT 1; SELECT 2",
        "",
        "SELECT \"a",
        "SELECT 1 /* no end",
        "SELECT a\0",
    ] {
        assert_eq!(canonical(text.as_bytes()), None, "{text}");
    }
    assert!(canonical(b"SELECT 1; ; -- x").is_some());
    assert!(canonical(b"SELECT E'a\\'b', '\xc3\xbc'").is_some());
    assert!(is_clear("SELECT 'ü' & $$x$$".replace('ü', "u").as_bytes()));
    for text in ["SELECT 'a\\b'", "SELECT U&\"a\"", "SELECT 'ü', $1", "a\0"] {
        assert!(!is_clear(text.as_bytes()), "{text}");
    }
}

#[test]
fn statements_are_found_in_long_texts_too() {
    let text = format!("SELECT '{}'; DROP TABLE t;", "x".repeat(20_000));
    let mut found = Vec::new();
    statements(text.as_bytes(), &mut |place| found.push(&text[place]));
    assert_eq!(found.len(), 2);
    assert_eq!(found[1], "DROP TABLE t");
}

#[test]
fn each_statement_of_a_text_has_a_shape_of_its_own() {
    assert_eq!(keys("select 1; ; select 2;").len(), 2);
    assert_eq!(keys("select 1;select a")[0], key("select 5"));
    assert_eq!(keys(""), []);
    assert_eq!(keys(" ; -- nothing"), []);
    assert_eq!(keys("select 1; select 'open; select 2").len(), 2);
    let body = "create function f() returns int begin atomic select 1; select 2; end";
    assert_eq!(keys(body).len(), 1);
    let mut places = Vec::new();
    let text = "  select 1 ; /* x */ select 2 -- y";
    Shaper::new(7).shapes(text.as_bytes(), true, &mut |_, place| {
        places.push(&text[place])
    });
    assert_eq!(places, ["select 1", "select 2"]);
}

#[test]
fn a_long_text_has_a_shape_that_does_not_depend_on_its_length() {
    let text = |rows: usize| {
        format!(
            "INSERT INTO t VALUES (1, 'x'){}",
            ", (2, 'abc')".repeat(rows)
        )
    };
    let shaper = Shaper::new(7);
    let first = |text: &str, is_whole| shaper.first(text.as_bytes(), is_whole).unwrap();
    let long = first(&text(1_000), true);
    assert_eq!(first(&text(9_000), true), long);
    for cut in [40, 43, 44, 47, 1_005] {
        assert_eq!(first(&text(1_000)[..cut], false), long, "{cut}");
    }
    assert_eq!(first(&text(3), true), first(&text(5), true));
    assert_ne!(first(&text(3), true), long);
    assert_ne!(first("INSERT INTO u VALUES (1, 'x'), (2", false), long);
}

#[test]
fn another_seed_finds_other_keys() {
    let mut other = Vec::new();
    Shaper::new(8).shapes(b"select 1", true, &mut |key, _| other.push(key));
    assert_ne!(other[0], key("select 1"));
}

/// Returns statements about data, of which pairs with one shape are frequent.
fn statement() -> impl Strategy<Value = String> {
    let literal = prop::sample::select(vec![
        "1",
        "-2",
        "'x'",
        "$1",
        "1.5",
        "'y'::text",
        "f(1)",
        "a",
        "NULL",
        "b",
    ]);
    let list = prop::collection::vec(literal.clone(), 1..4).prop_map(|items| items.join(", "));
    let row = list.clone().prop_map(|items| format!("({items})"));
    let rows = prop::collection::vec(row, 1..3).prop_map(|rows| rows.join(","));
    let place = prop::sample::select(vec!["a", "t.b", "\"c\""]);
    prop_oneof![
        (place.clone(), list.clone()).prop_map(|(a, list)| format!("SELECT {a} FROM t WHERE {a} IN ({list})")),
        rows.clone().prop_map(|rows| format!("INSERT INTO t VALUES {rows}")),
        (rows, list.clone()).prop_map(|(rows, list)| format!("SELECT f({list}) FROM (VALUES {rows}) v WHERE ROW(1) IN ((1), (2))")),
        (place, literal, list).prop_map(|(a, one, list)| {
            format!("UPDATE t SET a = {one} WHERE {a} = {one} AND b IN (SELECT {list} FROM u ORDER BY {list})")
        }),
    ]
}

/// Token of a statement without lists, as its shape sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal,
    Name(String),
    Sign(char),
    Word(String),
}

/// Returns tokens, of which two lists are often equal.
fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let word = prop_oneof![
        prop::sample::select(vec![
            "select",
            "a",
            "e",
            "x",
            "u",
            "create",
            "pgbench_accounts"
        ])
        .prop_map(str::to_owned),
        "[a_]{1,2}",
        "[a-c_é][a-b0-1_$ü]{6,18}",
    ];
    let piece = prop_oneof![
        Just(Piece::Literal),
        word.prop_map(Piece::Word),
        "[aA é]{1,9}".prop_map(Piece::Name),
        prop::sample::select(vec![
            '.', ',', '(', ')', '[', ']', '*', '-', '/', '=', '&', '+', '$', ':'
        ])
        .prop_map(Piece::Sign),
    ];
    prop::collection::vec(piece, 1..7)
}

/// Writes tokens with literals, white space, comments and cases of letters that these numbers choose.
fn written(pieces: &[Piece], numbers: &[usize]) -> String {
    let numbers = numbers.iter().copied().cycle();
    let mut text = String::new();
    for (piece, number) in pieces.iter().zip(numbers) {
        match piece {
            Piece::Literal => text.push_str(
                [
                    "1", "4711", "'a''b'", "E'\\''", "$$;$$", "1.5e-3", "1_0.5", "0x1F",
                ][number % 8],
            ),
            Piece::Name(name) => text.push_str(&format!("\"{name}\"")),
            Piece::Sign(sign) => text.push(*sign),
            Piece::Word(word) if number % 2 == 0 => text.push_str(&word.to_ascii_uppercase()),
            Piece::Word(word) => text.push_str(word),
        }
        text.push_str([" ", "\n", "  \t ", " -- x\n", "/* ' */"][number / 8 % 5]);
    }
    text
}

/// Returns the tokens that count: literals behind a literal do not.
fn counted(pieces: &[Piece]) -> Vec<Piece> {
    let mut counted = pieces.to_vec();
    counted.dedup_by(|one, other| (&*one, &*other) == (&Piece::Literal, &Piece::Literal));
    counted
}

/// Returns the shapes of a text that the walk finds token by token, without runs.
fn keys_of_single_tokens(text: &str) -> Vec<(ShapeKey, Range<usize>)> {
    let mut walk = Shaper::new(7).walk(text.as_bytes(), true);
    walk.text = Some(Text::new(Blank::Canonical, usize::MAX));
    std::iter::from_fn(|| walk.statement()).collect()
}

/// Returns the shapes of a text.
fn keys_of_runs(text: &str) -> Vec<(ShapeKey, Range<usize>)> {
    let mut found = Vec::new();
    Shaper::new(7).shapes(text.as_bytes(), true, &mut |key, place| {
        found.push((key, place))
    });
    found
}

#[test]
fn a_run_reads_each_byte_behind_and_in_front_of_a_word_as_the_walk_does() {
    let bytes: Vec<char> = (1..=0xff_u8).map(char::from).collect();
    for byte in bytes {
        for text in [
            "a", "e", "u&", "$", "1", "1.", "t.", "in", "values", "abcdefg", "abcdefgh", "a ", "( ",
        ] {
            for text in [
                format!("{text}{byte}'x'"),
                format!("{byte}{text} b"),
                format!("{text}{byte}1 , {text}{byte}{byte}2"),
            ] {
                assert_eq!(
                    keys_of_runs(&text),
                    keys_of_single_tokens(&text),
                    "{text:?}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn two_texts_have_one_shape_exactly_if_they_have_the_same_tokens_without_literals(
        one in pieces(),
        place in 0..6_usize,
        piece in pieces(),
        numbers in prop::collection::vec(0..40_usize, 7),
        others in prop::collection::vec(0..40_usize, 7),
    ) {
        // Another list, which differs in one token at most.
        let mut two = one.clone();
        let place = place % two.len();
        two[place] = piece[0].clone();
        let (text, other) = (written(&one, &numbers), written(&two, &others));
        let expected = counted(&one) == counted(&two);
        prop_assert_eq!(key(&text) == key(&other), expected, "{} / {}", text, other);
        prop_assert_eq!(key(&written(&one, &others)), key(&text));
    }

    #[test]
    fn a_run_adds_to_the_hash_what_its_tokens_add(
        parts in prop::collection::vec(
            prop_oneof![
                prop::sample::select(vec![
                    "in", "IN", "values", "create", "atomic", "select", "(", ")", "[", "]", ",", ";", "$1", "$", "$a$", "--", "/*", "*/",
                    "'", "\"", "''", "e'", "u&\"", "u&", ".", "..", "1", "1e5", "1e+", ".5", "-", "*", " ", "\n", "\\", "?", "\u{7f}", "ü",
                    "abcdefgh", "abcdefghi",
                ])
                .prop_map(str::to_owned),
                "[ -~]{1,3}",
                "[a-zA-Z0-9_$é]{1,20}",
            ],
            0..24,
        )
    ) {
        let text = parts.concat();
        prop_assert_eq!(keys_of_runs(&text), keys_of_single_tokens(&text), "{:?}", text);
    }
}

proptest! {
    #[test]
    fn two_statements_of_one_shape_have_one_fingerprint(one in statement(), two in statement()) {
        let sample = without_literals(one.as_bytes(), Blank::Sample, 4096);
        for other in [&two, &sample] {
            if key(&one) == key(other) {
                prop_assert_eq!(Fingerprint::exact(&one), Fingerprint::exact(other), "{} / {}", one, other);
            }
        }
        prop_assert_eq!(key(&one), key(&sample));
        let form = |text: &str| canonical(text.as_bytes());
        prop_assert_eq!(key(&one) == key(&two), form(&one) == form(&two), "{} / {}", one, two);
        prop_assert_eq!(form(&marked(&one)), form(&one));
        prop_assert_eq!(form(&form(&one).unwrap()), form(&one));
    }

    #[test]
    fn no_text_panics_and_no_literal_is_left(text in "[a-z0-9'\"$;(),.\\\\ \\-/*\n]{0,60}") {
        let _ = keys(&text);
        let secret = format!("select 'SECRET' from {text}");
        let blank = without_literals(secret.as_bytes(), Blank::Mark, 4096);
        prop_assert!(!blank.contains("SECRET"));
    }
}
