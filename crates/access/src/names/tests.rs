//! Tests of regular expressions that both engines accept but read differently.

use super::*;
use crate::tokens::flat;

fn compile(source: &str) -> Result<Option<Pattern>, Mistake> {
    let token = Token {
        text: format!("/{source}").into(),
        quoted: true,
        comment_glued: false,
    };
    Patterns::default().compile(&token)
}

#[test]
fn what_postgresql_reads_differently_is_refused() {
    for source in [
        "\\bx",
        "\\Bx",
        "\\<x",
        "x\\>",
        "[[:<:]]x",
        "[[:>:]]",
        "[[.a.]]",
        "[[=a=]]",
        "[a[b]]",
        "[a&&b]",
        "[a--b]",
        "[a~~b]",
        "a{,3}",
        "[]&&]",
        "[^]--a]",
        "[[:alpha:]&&x]",
    ] {
        let found = compile(source);
        assert!(
            matches!(found, Err(Mistake::AmbiguousRegex { .. })),
            "{source}: {found:?}"
        );
    }
}

#[test]
fn what_both_read_alike_is_compiled() {
    for (source, fits, misses) in [
        ("^[[:alpha:]_]+$", "a_b", "a1"),
        ("^[]x]$", "]", "y"),
        ("^[^]x]$", "y", "]"),
        ("^a\\[b&&c--$", "a[b&&c--", "a"),
        ("^a{2}$", "aa", "a"),
        ("^[\\[-\\]]$", "[", "x"),
        ("^\\\\b$", "\\b", "b"),
        ("(?i)^AB$", "ab", "b"),
        ("^a.b$", "a\nb", "a"),
        ("a$", "ba", "a\n"),
    ] {
        let pattern = compile(source).unwrap().expect("it begins with a slash");
        assert!(
            pattern.matches(fits) && !pattern.matches(misses),
            "{source}"
        );
    }
}

#[test]
fn the_number_of_expressions_has_a_limit() {
    let tokens = flat("/a").unwrap();
    let mut patterns = Patterns {
        count: REGEXES_MAX - 1,
    };
    assert!(patterns.compile(&tokens[0]).is_ok());
    assert_eq!(patterns.compile(&tokens[0]), Err(Mistake::TooManyRegexes));
}
