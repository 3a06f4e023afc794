//! Splits a console query into tokens. The grammar is not SQL: words, quoted names, quoted values, `=`, comments, and
//! semicolons at the end.

/// Longest word in bytes, as in PgBouncer.
const WORD_LEN_MAX: usize = 127;
/// Maximum of tokens; no command has more.
const TOKENS_MAX: usize = 8;

/// Token without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// Unquoted word, or name in double quotes.
    Word(String),
    /// Value in single quotes.
    Value(String),
    /// `=`.
    Equals,
}

/// Reason why a query cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The query does not follow the grammar.
    Invalid,
    /// A word is too long.
    LongWord,
}

impl Token {
    /// Text of a word.
    pub(crate) fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            Self::Value(_) | Self::Equals => None,
        }
    }

    /// True for the tokens between a key and its value.
    pub(crate) fn is_assignment(&self) -> bool {
        *self == Self::Equals || self.is("TO")
    }

    /// Id of a client, as in the column `id` or as in `ptr`.
    pub(crate) fn id(&self) -> Option<u64> {
        let word = self.word()?;
        match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        }
    }

    /// True if the token is this word, in any case.
    pub(crate) fn is(&self, word: &str) -> bool {
        self.word()
            .is_some_and(|mine| mine.eq_ignore_ascii_case(word))
    }
}

/// Splits a query. Blanks, comments and semicolons alone give no token. Every step consumes at least one byte and at
/// most [`TOKENS_MAX`] words are kept, so the time is linear and the memory bounded.
pub(crate) fn tokens(sql: &[u8]) -> Result<Vec<Token>, Fault> {
    let text = std::str::from_utf8(sql).map_err(|_| Fault::Invalid)?;
    let mut found = Vec::new();
    let mut rest = without_blanks(text)?;
    // As lenient as PostgreSQL with semicolons at the end, as strict as PgBouncer with earlier ones.
    let mut has_ended = false;
    while let Some(first) = rest.chars().next() {
        if first == ';' {
            has_ended = true;
            rest = without_blanks(rest.trim_start_matches(';'))?;
            continue;
        }
        let (token, after) = match first {
            '=' => (Token::Equals, rest.get(1..)),
            '"' => quoted(rest, '"').map(|(name, after)| (Token::Word(name), after))?,
            '\'' => quoted(rest, '\'').map(|(value, after)| (Token::Value(value), after))?,
            _ => bare(rest)?,
        };
        if has_ended || found.len() == TOKENS_MAX {
            return Err(Fault::Invalid);
        }
        found.push(token);
        rest = without_blanks(after.unwrap_or_default())?;
    }
    Ok(found)
}

/// Skips blanks and comments: pgx sends `-- ping`, other tools put the name of the application in front.
fn without_blanks(mut rest: &str) -> Result<&str, Fault> {
    let is_blank = |c: char| c.is_ascii_whitespace() || c == '\x0b';
    loop {
        rest = rest.trim_start_matches(is_blank);
        rest = if let Some(comment) = rest.strip_prefix("--") {
            comment.split_once('\n').map_or("", |(_, after)| after)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").ok_or(Fault::Invalid)?.1
        } else {
            return Ok(rest);
        };
    }
}

/// Reads a word up to a blank, a quote, `=` or `;`.
fn bare(rest: &str) -> Result<(Token, Option<&str>), Fault> {
    let ends = |c: char| c.is_whitespace() || c.is_control() || "'\"=;".contains(c);
    let end = rest.find(ends).unwrap_or(rest.len());
    match rest.split_at_checked(end) {
        // A control character, or a semicolon in the middle.
        None | Some(("", _)) => Err(Fault::Invalid),
        Some((word, _)) if word.len() > WORD_LEN_MAX => Err(Fault::LongWord),
        Some((word, after)) => Ok((Token::Word(word.to_owned()), Some(after))),
    }
}

/// Reads a text in quotes; a doubled quote stands for itself.
fn quoted(rest: &str, quote: char) -> Result<(String, Option<&str>), Fault> {
    let mut text = String::new();
    let mut left = rest.strip_prefix(quote).ok_or(Fault::Invalid)?;
    loop {
        let (part, after) = left.split_once(quote).ok_or(Fault::Invalid)?;
        text.push_str(part);
        if text.len() > WORD_LEN_MAX {
            return Err(Fault::LongWord);
        }
        match after.strip_prefix(quote) {
            Some(more) => {
                text.push(quote);
                left = more;
            }
            None if text.contains('\0') => return Err(Fault::Invalid),
            None => return Ok((text, Some(after))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(sql: &str) -> Vec<Token> {
        tokens(sql.as_bytes()).unwrap()
    }

    fn word(text: &str) -> Token {
        Token::Word(text.to_owned())
    }

    #[test]
    fn words_names_and_values_are_cut() {
        assert_eq!(words(" show\tPOOLS ;; "), [word("show"), word("POOLS")]);
        let value = Token::Value("it's".to_owned());
        assert_eq!(
            words("SET a='it''s'"),
            [word("SET"), word("a"), Token::Equals, value]
        );
        assert_eq!(
            words("pause \"a \"\"b\"\"\""),
            [word("pause"), word("a \"b\"")]
        );
    }

    #[test]
    fn nothing_gives_no_token() {
        for sql in ["", ";", ";;", " ; ; ", "\n\t\r\x0b\x0c"] {
            assert_eq!(words(sql), [], "{sql:?}");
        }
        assert_eq!(tokens(&vec![b' '; 1 << 20]), Ok(vec![]));
    }

    #[test]
    fn comments_are_skipped() {
        for sql in ["-- ping", "/* x */ -- y", ";/**/;--", "--\n;"] {
            assert_eq!(words(sql), [], "{sql:?}");
        }
        let sql = "/* app: it's; */ show --now\n pools; -- please";
        assert_eq!(words(sql), [word("show"), word("pools")]);
        assert_eq!(words("pause \"--a\""), [word("pause"), word("--a")]);
    }

    #[test]
    fn what_is_not_in_the_grammar_is_invalid() {
        let cases: [&[u8]; 11] = [
            b"/* show pools",
            b"; reload",
            b"show pools; /* x */ reload",
            b"show; pools",
            b"reload \"x",
            b"set a='x",
            b"show\0pools",
            b"\0",
            b"pause \"a\0b\"",
            b"show \xff",
            b"a b c d e f g h i",
        ];
        for sql in cases {
            assert_eq!(tokens(sql), Err(Fault::Invalid), "{sql:?}");
        }
    }

    #[test]
    fn long_words_are_told_apart() {
        assert_eq!(words(&"a".repeat(127)).len(), 1);
        for sql in [
            "a".repeat(128),
            format!("\"{}\"", "a".repeat(128)),
            "\"\"".repeat(1 << 19),
        ] {
            assert_eq!(tokens(sql.as_bytes()), Err(Fault::LongWord));
        }
    }
}
