//! Step 1: words that prove a text to read only, or to be for the primary.

use super::{Access, Cause, Modes, Names};
use crate::lex::{Item, Lexer, Reading, Token};

/// First words of statements that are for the primary, whatever follows; sorted.
const PRIMARY: [&str; 28] = [
    "alter",
    "analyse",
    "analyze",
    "call",
    "checkpoint",
    "cluster",
    "comment",
    "create",
    "delete",
    "do",
    "drop",
    "grant",
    "import",
    "insert",
    "listen",
    "load",
    "lock",
    "merge",
    "notify",
    "reassign",
    "refresh",
    "reindex",
    "revoke",
    "security",
    "truncate",
    "unlisten",
    "update",
    "vacuum",
];

/// First words of statements that go where their transaction is; sorted.
const ANYWHERE: [&str; 9] = [
    "abort",
    "close",
    "deallocate",
    "end",
    "fetch",
    "move",
    "release",
    "rollback",
    "savepoint",
];

/// Words that may stand before a parenthesis without a call, sorted. Types with a modifier are among them.
const BEFORE_PARENTHESIS: [&str; 59] = [
    "all",
    "and",
    "any",
    "array",
    "as",
    "between",
    "bit",
    "case",
    "cast",
    "char",
    "character",
    "coalesce",
    "cross",
    "dec",
    "decimal",
    "distinct",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "filter",
    "float",
    "from",
    "greatest",
    "group",
    "having",
    "ilike",
    "in",
    "inner",
    "intersect",
    "interval",
    "is",
    "join",
    "lateral",
    "least",
    "like",
    "limit",
    "not",
    "nullif",
    "numeric",
    "offset",
    "on",
    "or",
    "over",
    "overlay",
    "position",
    "row",
    "select",
    "some",
    "substring",
    "then",
    "trim",
    "union",
    "using",
    "values",
    "varchar",
    "when",
    "where",
];

/// Words that may announce what words cannot decide, sorted: locks, INTO, statements inside WITH.
const UNSURE: [&str; 12] = [
    "copy",
    "current",
    "delete",
    "for",
    "information_schema",
    "insert",
    "into",
    "merge",
    "table",
    "tablesample",
    "update",
    "xmltable",
];

/// Maximum length of a word that is looked up. PostgreSQL cuts longer names.
const WORD_MAX: usize = 63;

/// True if the text may be read in more than one way, so that the grammar of one reading proves nothing.
pub(super) fn is_doubtful(text: &[u8]) -> bool {
    let mut lexer = Lexer::new(text, Reading::Strict);
    loop {
        match lexer.token() {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Returns where a text may run if its words alone decide.
#[must_use]
pub(crate) fn by_words(text: &[u8], names: &Names) -> Option<Access> {
    let mut lexer = Lexer::new(text, Reading::Strict);
    let mut all: Option<Access> = None;
    loop {
        let first = match lexer.token().ok()? {
            None => return Some(all.unwrap_or(Access::Anywhere)),
            Some(Token::Other(b';' | b'(')) => continue,
            Some(Token::Word(word)) => Lower::of(word)?,
            Some(_) => return None,
        };
        let access = statement(&first, &mut lexer, names)?;
        all = Some(match all {
            None => access,
            Some(before) => before.join(access),
        });
    }
}

/// Returns where a statement may run, and reads it to its end.
fn statement(first: &Lower, lexer: &mut Lexer<'_>, names: &Names) -> Option<Access> {
    let word = first.text();
    if PRIMARY.binary_search(&word).is_ok() {
        skip(lexer)?;
        return Some(Access::Primary(Cause::Statement(
            word.to_ascii_uppercase().into(),
        )));
    }
    match word {
        "select" | "values" => reads(lexer, names).then_some(Access::Read {
            reads_catalogue: false,
        }),
        "begin" | "start" => modes(word, lexer).map(Access::Begin),
        // COMMIT PREPARED and ROLLBACK PREPARED need no transaction.
        "commit" | "rollback" if next_is(lexer, b"prepared") => None,
        "commit" => skip(lexer).map(|()| Access::Anywhere),
        _ if ANYWHERE.binary_search(&word).is_ok() => skip(lexer).map(|()| Access::Anywhere),
        _ => None,
    }
}

/// True if the rest of a SELECT or VALUES reads only, as far as words can tell.
fn reads(lexer: &mut Lexer<'_>, names: &Names) -> bool {
    loop {
        let Ok(item) = lexer.item() else {
            return false;
        };
        let name = match item {
            None | Some(Item::Semicolon) => return true,
            Some(Item::Name(name)) => name,
        };
        let Some(lower) = Lower::of(name) else {
            return false;
        };
        let word = lower.text();
        let is_quoted = lexer.ends_in_quote();
        if !is_quoted && UNSURE.binary_search(&word).is_ok() {
            return false;
        }
        let is_call = matches!(lexer.clone().token(), Ok(Some(Token::Other(b'('))));
        if is_call {
            // Some of these words can also be names of functions.
            let is_key_word = !is_quoted
                && BEFORE_PARENTHESIS.binary_search(&word).is_ok()
                && !names.has_function(word);
            // A quoted name keeps its case.
            let is_read = || !is_quoted && names.function(None, word).is_ok();
            if !is_key_word && !is_read() {
                return false;
            }
            continue;
        }
        // A schema makes the function behind it another one than its name says.
        if matches!(lexer.clone().token(), Ok(Some(Token::Other(b'.')))) && names_function(lexer) {
            return false;
        }
        // The grammar tells catalogue tables from columns of their names.
        if word.starts_with("pg_") || names.relation(None, word) != Ok(false) {
            return false;
        }
    }
}

/// True if a call follows the dots behind a name: `s.f(`, `d.s.f(`.
fn names_function(lexer: &Lexer<'_>) -> bool {
    let mut ahead = lexer.clone();
    loop {
        match ahead.token() {
            Ok(Some(Token::Other(b'.'))) => {}
            _ => return false,
        }
        match ahead.token() {
            Ok(Some(Token::Word(_) | Token::Quoted(_))) => {}
            _ => return false,
        }
        if matches!(ahead.clone().token(), Ok(Some(Token::Other(b'(')))) {
            return true;
        }
    }
}

/// Reads a statement to its end, or to its `;`.
fn skip(lexer: &mut Lexer<'_>) -> Option<()> {
    loop {
        match lexer.item().ok()? {
            None | Some(Item::Semicolon) => return Some(()),
            Some(Item::Name(_)) => {}
        }
    }
}

fn next_is(lexer: &Lexer<'_>, wanted: &[u8]) -> bool {
    let next = lexer.clone().token();
    matches!(next, Ok(Some(Token::Word(word))) if word.eq_ignore_ascii_case(wanted))
}

/// Reads the modes of BEGIN or START TRANSACTION. None if a word is not understood.
fn modes(first: &str, lexer: &mut Lexer<'_>) -> Option<Modes> {
    let mut modes = Modes::default();
    let mut words = Vec::new();
    loop {
        match lexer.token().ok()? {
            None | Some(Token::Other(b';')) => break,
            Some(Token::Other(b',')) => {}
            Some(Token::Word(word)) if words.len() < 16 => words.push(Lower::of(word)?),
            Some(_) => return None,
        }
    }
    let words: Vec<&str> = words.iter().map(Lower::text).collect();
    let ((_, ["transaction", rest @ ..]) | ("begin", ["work", rest @ ..] | rest)) =
        (first, words.as_slice())
    else {
        return None;
    };
    let mut rest = rest;
    loop {
        rest = match rest {
            [] => return Some(modes),
            ["read", "only", rest @ ..] => {
                modes.read_only = Some(true);
                rest
            }
            ["read", "write", rest @ ..] => {
                modes.read_only = Some(false);
                rest
            }
            ["isolation", "level", "serializable", rest @ ..] => {
                modes.is_serializable = true;
                rest
            }
            ["isolation", "level", "repeatable", "read", rest @ ..]
            | [
                "isolation",
                "level",
                "read",
                "committed" | "uncommitted",
                rest @ ..,
            ]
            | ["deferrable", rest @ ..]
            | ["not", "deferrable", rest @ ..] => rest,
            _ => return None,
        };
    }
}

/// A word in lower case, without an allocation.
struct Lower {
    bytes: [u8; WORD_MAX],
    length: usize,
}

impl Lower {
    /// None for a name that is too long, is not ASCII, or contains a quote: PostgreSQL may fold it in another way.
    fn of(word: &[u8]) -> Option<Self> {
        let mut bytes = [0; WORD_MAX];
        let target = bytes.get_mut(..word.len())?;
        for (byte, source) in target.iter_mut().zip(word) {
            if !source.is_ascii() || *source == b'"' {
                return None;
            }
            *byte = source.to_ascii_lowercase();
        }
        Some(Self {
            bytes,
            length: word.len(),
        })
    }

    fn text(&self) -> &str {
        let bytes = self.bytes.get(..self.length).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_can_be_searched() {
        assert!(PRIMARY.is_sorted());
        assert!(ANYWHERE.is_sorted());
        assert!(BEFORE_PARENTHESIS.is_sorted());
        assert!(UNSURE.is_sorted());
    }
}
