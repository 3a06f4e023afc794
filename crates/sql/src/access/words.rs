//! Step 1: words that prove a text to read only, or to be for the primary.

use std::str::from_utf8;

use super::{Access, Cause, Isolation, Modes, Names};
use crate::lex::{Item, Lexer, Reading, Token};
use crate::table::PerByte;

/// First words of statements that are for the primary, whatever follows, sorted, with the words as causes show them.
const PRIMARY: [(&str, &str); 29] = [
    ("alter", "ALTER"),
    ("analyse", "ANALYSE"),
    ("analyze", "ANALYZE"),
    ("call", "CALL"),
    ("checkpoint", "CHECKPOINT"),
    ("cluster", "CLUSTER"),
    ("comment", "COMMENT"),
    ("create", "CREATE"),
    ("delete", "DELETE"),
    ("do", "DO"),
    ("drop", "DROP"),
    ("execute", "EXECUTE"),
    ("grant", "GRANT"),
    ("import", "IMPORT"),
    ("insert", "INSERT"),
    ("listen", "LISTEN"),
    ("load", "LOAD"),
    ("lock", "LOCK"),
    ("merge", "MERGE"),
    ("notify", "NOTIFY"),
    ("reassign", "REASSIGN"),
    ("refresh", "REFRESH"),
    ("reindex", "REINDEX"),
    ("revoke", "REVOKE"),
    ("security", "SECURITY"),
    ("truncate", "TRUNCATE"),
    ("unlisten", "UNLISTEN"),
    ("update", "UPDATE"),
    ("vacuum", "VACUUM"),
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

/// Lengths of these words by their first byte in either case, one bit per length.
#[expect(clippy::indexing_slicing, reason = "within the list, at compile time")]
static UNSURE_SIEVE: PerByte<u64> = {
    let mut table = PerByte::new([0; 256]);
    let mut at = 0;
    while at < UNSURE.len() {
        let word = UNSURE[at].as_bytes();
        let bit = 1 << word.len();
        let (lower, upper) = (word[0], word[0].to_ascii_uppercase());
        table.set(lower, table.at(lower) | bit);
        table.set(upper, table.at(upper) | bit);
        at += 1;
    }
    table
};

/// Maximum length of a word that is looked up. PostgreSQL cuts longer names.
const WORD_MAX: usize = 63;

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
            Some(before) => before.beside(access),
        });
    }
}

/// Returns where a statement may run, and reads it to its end.
fn statement(first: &Lower, lexer: &mut Lexer<'_>, names: &Names) -> Option<Access> {
    let word = first.text();
    let primary = PRIMARY.binary_search_by_key(&word, |(known, _)| known);
    if let Some((_, shown)) = primary.ok().and_then(|at| PRIMARY.get(at)) {
        skip(lexer)?;
        return Some(Access::Primary(Cause::Statement((*shown).into())));
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
        let name = match lexer.item() {
            Ok(None | Some(Item::Semicolon)) => return true,
            Ok(Some(Item::Name(name))) => name,
            Err(_) => return false,
        };
        let is_quoted = lexer.ends_in_quote();
        // PostgreSQL may read such a name in another way: it cuts it, folds it by a locale, or takes two quotes for one.
        let is_plain = name.len() <= WORD_MAX && name.is_ascii();
        if !is_plain || is_quoted && name.contains(&b'"') {
            return false;
        }
        if !is_quoted && is_unsure(name) {
            return false;
        }
        let is_fine = match lexer.ahead() {
            Some(b'(') => !is_quoted && is_read_call(name, names),
            // A schema makes the function behind it another one than its name says.
            Some(b'.') if names_function(lexer) => false,
            _ => is_other_name(name, is_quoted, names),
        };
        if !is_fine {
            return false;
        }
    }
}

/// True for a word before a parenthesis that is no call, or one of a function that reads only.
fn is_read_call(word: &[u8], names: &Names) -> bool {
    let Some(lower) = Lower::of(word) else {
        return false;
    };
    let word = lower.text();
    // Some of these words can also be names of functions.
    let is_key_word = BEFORE_PARENTHESIS.binary_search(&word).is_ok() && !names.has_function(word);
    is_key_word || names.function(None, word).is_ok()
}

/// True if a name can mean no relation but one that every host can read.
fn is_other_name(name: &[u8], is_quoted: bool, names: &Names) -> bool {
    // The grammar tells catalogue tables from columns of their names.
    let is_system = name
        .get(..3)
        .is_some_and(|start| start.eq_ignore_ascii_case(b"pg_"));
    if is_system {
        return false;
    }
    if !names.may_be_relation(name) {
        return true;
    }
    let Some(lower) = Lower::of(name) else {
        return false;
    };
    // Quotes keep the case of a name.
    let exact = if is_quoted {
        from_utf8(name).ok()
    } else {
        Some(lower.text())
    };
    exact.is_some_and(|name| names.relation(None, name) == Ok(false))
}

/// True if the word, in any case, is in [`UNSURE`].
fn is_unsure(word: &[u8]) -> bool {
    let lengths = word.first().map_or(0, |first| UNSURE_SIEVE.at(*first));
    // The word is no longer than `WORD_MAX`.
    lengths >> word.len() & 1 == 1
        && UNSURE
            .iter()
            .any(|known| known.as_bytes().eq_ignore_ascii_case(word))
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
                modes.isolation = Some(Isolation::Serializable);
                rest
            }
            ["isolation", "level", "repeatable", "read", rest @ ..] => {
                modes.isolation = Some(Isolation::RepeatableRead);
                rest
            }
            [
                "isolation",
                "level",
                "read",
                "committed" | "uncommitted",
                rest @ ..,
            ] => {
                modes.isolation = Some(Isolation::ReadCommitted);
                rest
            }
            ["deferrable", rest @ ..] | ["not", "deferrable", rest @ ..] => rest,
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
        from_utf8(bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_can_be_searched() {
        assert!(PRIMARY.is_sorted());
        assert!(
            PRIMARY
                .iter()
                .all(|(word, shown)| word.to_ascii_uppercase() == *shown)
        );
        assert!(ANYWHERE.is_sorted());
        assert!(BEFORE_PARENTHESIS.is_sorted());
        assert!(UNSURE.is_sorted());
    }
}
