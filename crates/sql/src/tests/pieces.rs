//! Tests of texts that pass in pieces against the same texts as a whole.

use std::sync::Arc;

use proptest::prelude::*;

use crate::effects::Effects;
use crate::{Catalogue, Functions, Judge, Pieces, Reason};

const SETS: &str = "begin perform set_config('app.tenant', $1, false); end";

fn judge() -> Judge {
    let function = |name| ["F", name, name, "plpgsql", SETS].map(str::as_bytes);
    let rows = [
        ["H", "1", "", "", ""].map(str::as_bytes),
        function("login"),
        function("log in 1st"),
        function("naïve"),
    ];
    let listed = Functions::new(["app.become", "set_tenant", "\"switch$tenant\""]);
    let mut judge = Judge::new(listed);
    judge.set_catalogue(&Arc::new(Catalogue::load(rows).unwrap()), 1);
    judge
}

/// Returns the effects found in a text that is cut before each of these places.
fn read(text: &str, cuts: &[usize]) -> Effects {
    let (judge, mut pieces, mut all) = (judge(), Pieces::default(), Effects::default());
    let text = [text.as_bytes(), b"\0"].concat();
    let mut from = 0;
    for to in cuts.iter().copied().chain([text.len()]) {
        let to = to.clamp(from, text.len());
        let found = judge.piece(&mut pieces, &text[from..to]);
        all = all.join(found.unwrap_or_default());
        from = to;
    }
    all
}

/// True if the effects make Weir track a setting that a query for all settings would not list.
fn follows(found: &Effects) -> bool {
    !found.certain.is_empty() || !found.asks.names.is_empty()
}

#[test]
fn code_that_sets_is_found_wherever_the_text_is_cut() {
    for text in [
        "SELECT login(1)",
        "insert into t values (LOGIN('A'))",
        "SELECT 'x', app.\"Login\"(1)",
        "SELECT \"log in 1st\"(1)",
        "SELECT naïve(1)",
        "SELECT app.become(1)",
        "SELECT \"switch$tenant\"(1)",
        "SELECT set_tenant",
        "SELECT set_config('a.b', 'c', false)",
        "SELECT U&\"set\\005fconfig\"('a.b', 'c', false)",
        "SELECT u&\"x\"",
        "SELECT query_to_xml('select login(1)', true, true, '')",
        "SELECT $a$b$a$,login(1)",
        "SELECT 1login(1)",
        "SELECT 1 /* login",
    ] {
        assert!(follows(&read(text, &[])), "{text}");
        for cut in 0..text.len() {
            assert!(follows(&read(text, &[cut])), "{text} at {cut}");
            assert!(follows(&read(text, &[cut, cut + 1])), "{text} at {cut}");
        }
    }
}

#[test]
fn data_is_no_code() {
    let long = "login".repeat(40);
    for text in [
        "SELECT 1",
        "INSERT INTO logins VALUES ('set_configs', 'log_in', 'U&x', 'temp', 'execute', 'language')",
        "SELECT u & \"x\", \"in\", '1st'",
        &format!("INSERT INTO t VALUES ('{long}')"),
    ] {
        let found = read(text, &[7, 30, 40]);
        assert!(!follows(&found), "{text}: {found:?}");
    }
}

#[test]
fn a_name_without_a_word_in_it_makes_every_text_suspect() {
    let judge = Judge::new(Functions::new(["\"!\""]));
    let found = judge.piece(&mut Pieces::default(), b"SELECT 1\0").unwrap();
    assert!(found.certain.contains(Reason::Function));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_less_is_found_in_pieces_than_in_the_whole_text(
        text in super::property::about_data(),
        cuts in proptest::collection::btree_set(0..200_usize, 0..6),
    ) {
        let mut judge = judge();
        let Some(whole) = judge.effects(text.as_bytes(), false) else {
            return Ok(());
        };
        let cuts: Vec<usize> = cuts.into_iter().collect();
        let found = read(&text, &cuts);
        let names = whole.asks.names.iter();
        let has_names = names.clone().all(|name| found.asks.names.contains(name));
        let is_custom = names.clone().any(|name| name.contains('.'));
        prop_assert!(!is_custom || has_names || !found.certain.is_empty(), "{}", text);
        for reason in [Reason::Function, Reason::Seed, Reason::Setting] {
            let is_certain = whole.certain.contains(reason);
            prop_assert!(!is_certain || !found.certain.is_empty(), "{}: {:?}", text, reason);
        }
        prop_assert!(whole.sequences <= found.sequences || !found.certain.is_empty(), "{}", text);
    }
}
