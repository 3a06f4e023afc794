//! Tests with generated statements: random case, white space, comments, quotes and neighbours.

use proptest::prelude::*;
use proptest::sample::select;

use super::{check, lexical};

/// Statement templates: `~` stands for white space, `@` for an expression, `#` for a name.
const TEMPLATES: &[&str] = &[
    "SELECT~@",
    "SELECT~@~FROM~#~WHERE~@",
    "SELECT~*~INTO~#~FROM~t",
    "SELECT~1~INTO~TEMP~#",
    "SELECT~1~INTO~TABLE~#",
    "WITH~#~AS~(SELECT~@)~SELECT~*~FROM~x",
    "INSERT~INTO~#~VALUES~(@,~@)",
    "INSERT~INTO~t~VALUES~(@)~ON~CONFLICT~DO~NOTHING",
    "INSERT~INTO~t~VALUES~(1)~ON~CONFLICT~(a)~DO~UPDATE~SET~a~=~@",
    "UPDATE~#~SET~a~=~@",
    "DELETE~FROM~#~WHERE~@",
    "MERGE~INTO~#~USING~s~ON~@~WHEN~MATCHED~THEN~UPDATE~SET~a~=~@",
    "VALUES~(@)",
    "(SELECT~@)",
    "TABLE~#",
    "SET~a~=~1",
    "SET~#~TO~x",
    "SET~#~=~DEFAULT",
    "SET~SESSION~a~TO~'b'",
    "SET~LOCAL~#~=~1",
    "SET~local.#~=~1",
    "SET~TRANSACTION~READ~ONLY",
    "SET~SESSION~CHARACTERISTICS~AS~TRANSACTION~READ~WRITE",
    "SET~CONSTRAINTS~ALL~DEFERRED",
    "SET~ROLE~#",
    "SET~TIME~ZONE~'UTC'",
    "SET~LOCAL~TIME~ZONE~'UTC'",
    "RESET~#",
    "RESET~ALL",
    "CREATE~TABLE~#~(a~int~DEFAULT~@)",
    "CREATE~TEMP~TABLE~#~(a~int)",
    "CREATE~LOCAL~TEMPORARY~TABLE~#~()~ON~COMMIT~DROP",
    "CREATE~UNLOGGED~TABLE~#~AS~SELECT~@",
    "CREATE~OR~REPLACE~TEMP~VIEW~#~AS~SELECT~@",
    "CREATE~VIEW~#~AS~SELECT~@",
    "CREATE~SEQUENCE~#",
    "CREATE~TYPE~#~AS~(a~int)",
    "CREATE~FUNCTION~#()~RETURNS~int~LANGUAGE~sql~SET~a~=~1~AS~$$~SELECT~@~$$",
    "CREATE~FUNCTION~#()~RETURNS~int~RETURN~@",
    "CREATE~SCHEMA~x~CREATE~TABLE~#~()",
    "ALTER~TABLE~#~ALTER~a~SET~DEFAULT~@",
    "ALTER~ROLE~r~SET~a~=~1",
    "ALTER~SYSTEM~SET~a~=~1",
    "DROP~TABLE~#",
    "DECLARE~#~CURSOR~WITH~HOLD~FOR~SELECT~@",
    "DECLARE~c~CURSOR~FOR~SELECT~@",
    "CLOSE~#",
    "FETCH~ALL~FROM~#",
    "PREPARE~#~AS~SELECT~@",
    "PREPARE~transaction~AS~SELECT~@",
    "PREPARE~TRANSACTION~'x'",
    "EXECUTE~#(@)",
    "DEALLOCATE~#",
    "DISCARD~ALL",
    "DISCARD~PLANS",
    "LISTEN~a",
    "UNLISTEN~*",
    "NOTIFY~a,~'b'",
    "LOAD~'x'",
    "DO~$x$~BEGIN~PERFORM~@;~END~$x$",
    "CALL~#(@)",
    "EXPLAIN~ANALYZE~SELECT~@",
    "EXPLAIN~(ANALYZE)~CREATE~TEMP~TABLE~#~AS~SELECT~@",
    "COPY~(SELECT~@)~TO~STDOUT",
    "COPY~#~FROM~STDIN",
    "BEGIN",
    "COMMIT",
    "ROLLBACK~TO~#",
    "LOCK~TABLE~#",
    "SHOW~a",
    "GRANT~SELECT~ON~#~TO~r",
    "COMMENT~ON~TABLE~#~IS~'x'",
    "CREATE~RULE~r~AS~ON~INSERT~TO~#~DO~ALSO~(SELECT~@;~NOTIFY~x)",
];

const EXPRESSIONS: &[&str] = &[
    "1",
    "a",
    "$1",
    "'x'",
    "'it''s'",
    "'a\\'",
    "'a\\n'",
    "E'\\''",
    "E'a\\\\'",
    "$$;~SET~a~=~1$$",
    "$q$'$q$",
    "B'1'",
    "U&'\\0041'",
    "'SET~a~=~1;'",
    "1~=~1",
    "NOT~true",
    "(SELECT~1)",
    "#",
    "#(1)",
    "#()",
    "a~+~-~1",
    "a~->>~'b'",
    "now()",
    "nextval('s')",
    "currval('s')",
    "setval('s',~1)",
    "lastval()",
    "set_config('a',~'b',~false)",
    "set_config('a',~'b',~true)",
    "pg_catalog.set_config($1,~$2,~$3)",
    "\"set_config\"('a',~'b',~false)",
    "U&\"set\\005fconfig\"('a',~'b',~false)",
    "pg_advisory_lock(1)",
    "pg_try_advisory_lock(1,~2)",
    "pg_advisory_xact_lock(1)",
    "pg_advisory_unlock(1)",
    "setseed(0.5)",
    "set_config('A.b',~@,~true)",
    "set_config('a''b',~@,~false)",
    "set_config('seed',~'0.5',~true)",
    "set_config('a',~(@),~NOT~false)",
    "set_config(E'a',~@,~false)",
    "set_config('a',~array[@]::text,~fAlSe)",
    "set_config(setting_name~=>~'a',~new_value~=>~@,~is_local~=>~true)",
    "set_tenant(1)",
    "app.become('x')",
    "dblink_connect('x')",
    "array[@]",
    "coalesce(@,~@)",
    "CASE~WHEN~@~THEN~@~END",
    "(@)",
    "(@)::text",
    "(SELECT~@~FROM~#)",
    "EXISTS~(SELECT~@)",
    "sum(@)~OVER~(PARTITION~BY~@)",
    "row(@,~@)",
];

const NAMES: &[&str] = &[
    "t",
    "x.y",
    "\"Quoted\"\"Name\"",
    "pg_temp.t",
    "pg_temp_3.f",
    "\"pg_temp\".t",
    "temp",
    "temporary",
    "local",
    "hold",
    "public.t",
    "seed",
    "search_path",
    "a.b",
    "é",
    "nextval",
    "set_tenant",
    "\"SET\"",
    "U&\"pg\\005ftemp\".t",
    "_a$b$c",
    "transaction",
    "constraints",
];

const SPACES: &[&str] = &[
    " ",
    "\n",
    "\t ",
    " /* x */ ",
    "/**/",
    " -- it's\n",
    "/* /* ; */ ' */",
    " --;SET a = 1;\r",
];

fn filled(depth: u32) -> impl Strategy<Value = String> {
    fill_any(TEMPLATES.to_vec(), depth)
}

/// Generates a statement that begins like one about data.
pub(super) fn about_data() -> impl Strategy<Value = String> {
    const WORDS: [&str; 7] = [
        "SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "MERGE", "VALUES",
    ];
    let is_about_data = |text: &&str| WORDS.iter().any(|word| text.starts_with(word));
    let templates = TEMPLATES.iter().copied().filter(is_about_data).collect();
    fill_any(templates, 3)
}

fn fill_any(templates: Vec<&'static str>, depth: u32) -> impl Strategy<Value = String> {
    let picks = proptest::collection::vec(any::<u16>(), 64);
    (select(templates), picks).prop_map(move |(template, picks)| {
        let mut picks = picks.into_iter().map(usize::from).cycle();
        fill(template, depth, &mut picks)
    })
}

fn fill(template: &str, depth: u32, picks: &mut impl Iterator<Item = usize>) -> String {
    let mut text = String::new();
    for letter in template.chars() {
        let pick = picks.next().unwrap();
        match letter {
            '~' => text.push_str(
                SPACES[if pick.is_multiple_of(3) {
                    pick / 3 % SPACES.len()
                } else {
                    0
                }],
            ),
            '@' if depth == 0 => text.push('1'),
            '@' => text.push_str(&fill(
                EXPRESSIONS[pick % EXPRESSIONS.len()],
                depth - 1,
                picks,
            )),
            '#' => text.push_str(NAMES[pick % NAMES.len()]),
            _ => text.push(letter),
        }
    }
    text
}

/// Changes the case of characters at random. Outside quotes this has no effect; inside, the check still holds.
fn recased(text: &str, seed: u64) -> String {
    let flips = |place: usize| seed.rotate_left(u32::try_from(place % 64).unwrap()) & 1 == 1;
    let turn = |(place, letter): (usize, char)| {
        if flips(place) {
            letter.to_ascii_uppercase()
        } else {
            letter.to_ascii_lowercase()
        }
    };
    text.chars().enumerate().map(turn).collect()
}

/// Returns the configuration; `PROPTEST_CASES` raises the number of cases.
fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_step_one_clears_has_no_effects_in_the_tree(statement in filled(3)) {
        check(&statement);
        lexical::check(&statement);
    }

    #[test]
    fn case_and_company_change_nothing(
        statements in proptest::collection::vec(filled(2), 1..4),
        seed in any::<u64>(),
    ) {
        let text = statements.join(";");
        check(&recased(&text, seed));
        lexical::check(&text);
    }

    #[test]
    fn soups_of_pieces_agree(
        pieces in proptest::collection::vec(
            prop_oneof![select(TEMPLATES), select(EXPRESSIONS), select(NAMES), select(SPACES), select(&["'", "\"", "$$", ";", "\\", "E'", "/*", "*/", "--", "U&\""][..])],
            0..8,
        ),
        glue in select(&["", " ", ";"][..]),
    ) {
        let text = pieces.join(glue).replace(['~', '@', '#'], " ");
        check(&text);
        lexical::check(&text);
    }
}

/// Checks that the generator does not drift into texts that PostgreSQL refuses.
#[test]
fn most_generated_statements_parse() {
    let mut picks = (0_usize..).map(|number| number.wrapping_mul(2_654_435_761) >> 7);
    let texts: Vec<String> = (0..2000)
        .map(|number| fill(TEMPLATES[number % TEMPLATES.len()], 2, &mut picks))
        .collect();
    let parsed = texts.iter().filter(|text| check(text)).count();
    assert!(parsed > 1000, "{parsed} of 2000");
}
