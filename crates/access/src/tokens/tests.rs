//! Tests of the tokenizer.

use proptest::prelude::*;

use super::*;

/// Writes fields separated by ` | ` and tokens by `,`; quoted ones in brackets.
fn cut(line: &str) -> Result<String, Mistake> {
    let mut tokens = Tokens::new(line, Comments::Hash);
    let mut out = String::new();
    while let Some((token, goes_on)) = tokens.next()? {
        match token.quoted {
            true => out.push_str(&format!("[{}]", *token.text)),
            false => out.push_str(&token.text),
        }
        out.push_str(if goes_on { "," } else { " | " });
    }
    Ok(out)
}

#[test]
fn lines_are_cut_as_postgresql_cuts_them() {
    let cases = [
        ("", ""),
        ("   \t ", ""),
        ("# only a comment", ""),
        ("a b", "a | b | "),
        ("a\tb\r", "a | b | "),
        ("a,b c", "a,b | c | "),
        ("a, b c", "a,b | c | "),
        ("a,,b", "a,b | "),
        (",a", "a | "),
        ("a,", "a,"),
        ("a#b c", "a | "),
        ("\"a b\" c", "[a b] | c | "),
        ("\"a,b#c\"", "[a,b#c] | "),
        ("\"a\"\"b\"", "[a\"b] | "),
        ("\"\"", "[] | "),
        ("\"\"\"\"", "[\"] | "),
        ("a\"b c\"d", "ab cd | "),
        ("x=\"a, b\"", "x=a, b | "),
        ("al\"l\"", "all | "),
        ("\"al\"l", "[all] | "),
        ("+\"my group\"", "+my group | "),
        ("a\\b", "a\\b | "),
        ("äöü,日本", "äöü,日本 | "),
    ];
    for (line, fields) in cases {
        assert_eq!(cut(line).as_deref(), Ok(fields), "{line}");
    }
}

#[test]
fn a_comma_after_a_blank_goes_on_with_the_list_as_in_pgbouncer() {
    assert_eq!(cut("a,b , c d").as_deref(), Ok("a,b,c | d | "));
    assert_eq!(cut("a ,b c").as_deref(), Ok("a,b | c | "));
}

#[test]
fn what_looks_like_something_else_is_a_mistake() {
    assert_eq!(cut("a \"b c"), Err(Mistake::UnterminatedQuote));
    assert_eq!(cut("a \"b\"\"c"), Err(Mistake::UnterminatedQuote));
    for (line, code) in [
        ("all\u{a0}all", 0xa0),
        ("a\u{b}b", 0xb),
        ("a\u{2003}b", 0x2003),
        ("\"a\0b\"", 0),
    ] {
        assert_eq!(cut(line), Err(Mistake::StrangeCharacter(code)), "{line:?}");
    }
}

#[test]
fn the_comment_is_found_outside_of_quotes_only() {
    let mut tokens = Tokens::new("\"#\" x # y", Comments::Hash);
    while tokens.next().unwrap().is_some() {}
    assert_eq!(tokens.comment_at, Some(6));
}

#[test]
fn without_comments_a_hash_is_text() {
    let tokens = flat("a=b#c, d=\"e f\"").unwrap();
    let texts: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
    assert_eq!(texts, ["a=b#c", "d=e f"]);
}

struct Quoted<'a>(&'a str);

impl std::fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        quote(f, self.0)
    }
}

proptest! {
    #[test]
    fn no_line_makes_it_panic(line in "[ \t,\"#\\\\a-c\u{a0}\u{0}=/+@]{0,40}") {
        let _ = cut(&line);
    }

    #[test]
    fn no_text_at_all_makes_it_panic(line in any::<String>()) {
        let _ = cut(&line);
    }

    #[test]
    fn a_quoted_word_is_read_back_as_itself(word in "[^\u{0}]{0,20}") {
        let line = format!("{} x", Quoted(&word));
        let (token, goes_on) = Tokens::new(&line, Comments::Hash).next().unwrap().unwrap();
        prop_assert_eq!(token.text.as_str(), word);
        prop_assert!(token.quoted && !goes_on);
    }
}
