//! Tests of our lexer against PostgreSQL's own (`pg_query::scan`): words, names and constants must be in the same
//! places.

use pg_query::protobuf::Token as Theirs;

use crate::lex::{Lexer, Reading, Token};

/// Token whose end both lexers must agree on.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Constant(usize),
    Name(usize),
    Semicolon(usize),
}

/// Checks that both lexers agree. Returns true if PostgreSQL's lexer accepts the text.
pub(super) fn check(text: &str) -> bool {
    // A failed parse leaves its options behind for the scan.
    pg_query::parse("SELECT 1", 0).unwrap();
    let Ok(scan) = pg_query::scan(text) else {
        return false;
    };
    let mut theirs = Vec::new();
    for token in &scan.tokens {
        let start = usize::try_from(token.start).unwrap();
        let end = usize::try_from(token.end).unwrap();
        match token.token() {
            Theirs::Sconst | Theirs::Usconst | Theirs::Bconst | Theirs::Xconst => {
                push_constant(&mut theirs, text, start, end);
            }
            Theirs::Ident | Theirs::Uident => theirs.push(Seen::Name(end)),
            Theirs::Ascii59 => theirs.push(Seen::Semicolon(end)),
            Theirs::SqlComment | Theirs::CComment => {}
            // The N of N'' is no name.
            Theirs::Nchar if token.end - token.start == 1 => {}
            _ if token.keyword_kind != 0 => theirs.push(Seen::Name(end)),
            _ => {}
        }
    }
    assert_eq!(ours(text), theirs, "{text}");
    true
}

fn ours(text: &str) -> Vec<Seen> {
    let mut lexer = Lexer::new(text.as_bytes(), Reading::Standard);
    let mut seen = Vec::new();
    let mut number_end = None;
    while let Some(token) = lexer.token().unwrap() {
        match token {
            // Our lexer makes a word of characters behind digits, as older PostgreSQL versions do.
            Token::Word(word) if number_end == Some(lexer.at() - word.len()) => {}
            Token::Word(_) | Token::Quoted(_) | Token::Unicode => seen.push(Seen::Name(lexer.at())),
            Token::Text(constant) => {
                let start = lexer.at() - constant.len();
                push_constant(&mut seen, text, start, lexer.at());
            }
            Token::Other(b';') => seen.push(Seen::Semicolon(lexer.at())),
            Token::Other(byte) => {
                let dotted = byte == b'.' && number_end == Some(lexer.at() - 1);
                number_end = (dotted || byte.is_ascii_digit()).then_some(lexer.at());
            }
        }
    }
    seen
}

/// Pushes a constant, merged with the one before it if it continues that one or touches it. Two adjacent quotes are one
/// quote in a text constant; in B'' they end it and begin another.
fn push_constant(seen: &mut Vec<Seen>, text: &str, start: usize, end: usize) {
    if let Some(Seen::Constant(last)) = seen.last()
        && text[..*last].ends_with('\'')
        && text[start..].starts_with('\'')
        && (*last == start || is_continued(&text[*last..start]))
    {
        seen.pop();
    }
    seen.push(Seen::Constant(end));
}

/// True if the gap contains only white space with a new line, and line comments.
fn is_continued(gap: &str) -> bool {
    let lines = gap.split_inclusive(['\n', '\r']);
    let blank = |line: &str| line.trim_start().is_empty() || line.trim_start().starts_with("--");
    gap.contains(['\n', '\r']) && lines.into_iter().all(blank)
}

#[test]
fn pieces_stand_where_postgresql_sees_them() {
    for text in [
        "SELECT a, \"b\"\"c\", 'd''e', E'f\\'g', $$h$$, $i$ $$ $j$ $i$",
        "SELECT B'1', X'f', N'x', U&'x', U&\"y\", u&\"z\", u & 'a', e, n, é'x'",
        "a$b$c $1 $2$$x$$ a.b.c 1.5 .5 5. 1e5 0x1f 1_000",
        "/* /* ; */ ' */ ; -- '\n; --\r;",
        "a--b\n*/**/c -/**/- 1 - -1 @-- x\n+",
        "'a'\n'b' 'c' -- x\n 'd'",
        "E'a'\n'b\\'c' E'd' -- '\n 'e\\''",
        "'a\\' 'b'",
        "$é$ ' $é$ $a ",
        "E'\\'' 'x'",
        "'a' -- b's\nE'\\''",
        "E'\\'' \n 'x\\'' 'y'",
        "$$a$$ -- b\n'c'",
        "B'1'\n'it''s'",
        "",
    ] {
        // PostgreSQL refuses a stray dollar.
        assert!(check(text) || text.contains("$a "), "{text}");
    }
}
