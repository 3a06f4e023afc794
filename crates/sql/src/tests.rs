//! Tests of both steps against each other: a text that step 1 clears has no effects in the parse tree, and the words
//! show at least the effects of the tree.

mod access;
mod corpus;
mod hostile;
mod lexical;
mod pieces;
mod property;
mod scanned;
mod verdicts;

use crate::effects::{Effects, Resets};
use crate::functions::Functions;
use crate::judge::{by_words, judge};
use crate::lex::{Lexer, Reading};
use crate::{Reason, is_harmless, is_harmless_while_pinned, tree, words};

/// Returns the built-in functions and some that an administrator might list.
fn functions() -> Functions {
    Functions::new(["set_tenant", "app.become"])
}

/// Checks that no step misses an effect that the tree shows. Returns true if there was a tree.
fn check(text: &str) -> bool {
    let functions = functions();
    let unpinned = is_harmless(text.as_bytes(), &functions);
    let pinned = is_harmless_while_pinned(text.as_bytes(), &functions);
    assert!(unpinned || !pinned, "harmless only while pinned: {text}");
    let mut parsed = false;
    for escapes in [false, true] {
        let Some(tree) = tree::effects(text, escapes, &functions) else {
            continue;
        };
        parsed = true;
        assert!(!unpinned || tree.is_harmless(), "cleared: {text}\n{tree:?}");
        assert!(
            !pinned || tree.is_harmless_while_pinned(),
            "cleared: {text}\n{tree:?}"
        );
        let reading = if escapes {
            Reading::Escaping
        } else {
            Reading::Standard
        };
        assert_no_less(&all_words(text, reading, &functions), &tree, "words", text);
        let judged = judge(text.as_bytes(), &functions);
        assert_no_less(&judged, &tree, "judge", text);
        assert_resets(&judged, &tree, text);
        if let Some(exact) = by_words(text.as_bytes(), &functions) {
            assert_no_less(&exact, &tree, "exact words", text);
            assert_resets(&exact, &tree, text);
            assert!(tree.channels.is_empty(), "{text}");
        }
    }
    parsed
}

fn all_words(text: &str, reading: Reading, functions: &Functions) -> Effects {
    let mut lexer = Lexer::new(text.as_bytes(), reading);
    let mut all = Effects::default();
    while let Ok(Some(statement)) = words::statement(&mut lexer, functions) {
        all = all.join(statement.effects);
    }
    all
}

fn assert_no_less(ours: &Effects, tree: &Effects, who: &str, text: &str) {
    // This reason stands for all effects.
    if ours.certain.contains(Reason::Unknown) {
        return;
    }
    let told = format!("{who}: {text}\n{ours:?}\n{tree:?}");
    assert_eq!(ours.reasons.union(tree.reasons), ours.reasons, "{told}");
    assert_eq!(ours.certain.union(tree.certain), ours.certain, "{told}");
    assert!(ours.sequences >= tree.sequences, "{told}");
    assert!(ours.frees || !tree.frees, "{told}");
    assert!(ours.unseen || !tree.unseen, "{told}");
    assert!(ours.wants_new || !tree.wants_new, "{told}");
    assert!(ours.asks.all || !tree.asks.all, "{told}");
    // A pin covers every setting; asking for all covers those without a dot.
    let is_asked = |name: &str| {
        ours.certain.contains(Reason::Setting)
            || ours.asks.all && !name.contains('.')
            || ours.asks.names.iter().any(|ours| **ours == *name)
    };
    assert!(tree.asks.names.iter().all(|name| is_asked(name)), "{told}");
}

fn assert_resets(ours: &Effects, tree: &Effects, text: &str) {
    let both = [
        (&ours.resets, &tree.resets),
        (&ours.resets_locally, &tree.resets_locally),
    ];
    for pair in both {
        match pair {
            (Resets::Session, _) | (Resets::All, Resets::All) | (_, Resets::Nothing) => {}
            (Resets::Names(ours), Resets::Names(tree)) => {
                assert!(tree.iter().all(|name| ours.contains(name)), "{text}");
            }
            _ => panic!("{text}"),
        }
    }
}

/// Checks a text without zero bytes, which end a text for PostgreSQL's parser.
fn check_text_without_nul(text: &str) {
    if !text.contains('\0') {
        check(text);
    }
}
