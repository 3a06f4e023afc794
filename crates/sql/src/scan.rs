//! Step 1: proof in one pass that a text cannot change the state of its session.
//!
//! The first word of each statement decides, and a few words in any place: function names before a parenthesis, TEMP
//! behind CREATE or INTO, names that begin with `pg_temp`.

use crate::catalogue::Use;
use crate::effects::Effects;
use crate::functions::{Functions, Meaning};
use crate::lex::{Item, Lexer, Reading, Token, Unclear};

/// True if the text certainly cannot change the state of its session. False proves nothing.
pub fn is_harmless(text: &[u8], functions: &Functions) -> bool {
    scan(text, functions, false).unwrap_or(false)
}

/// True if, in addition, the text cannot end a pin (DROP, CLOSE).
pub fn is_harmless_while_pinned(text: &[u8], functions: &Functions) -> bool {
    scan(text, functions, true).unwrap_or(false)
}

fn scan(text: &[u8], functions: &Functions, pinned: bool) -> Result<bool, Unclear> {
    let catalogue = functions.catalogue();
    if catalogue.always().is_some() {
        return Ok(false);
    }
    let mut lexer = Lexer::new(text, Reading::Strict);
    while let Some((lead, word)) = lead(&mut lexer)? {
        let harmless = match lead {
            Lead::Frees if catalogue.on_definition().is_some() => false,
            Lead::Create => catalogue.on_definition().is_none(),
            Lead::Declare | Lead::Harmless => true,
            Lead::Frees => !pinned,
            Lead::Prepare => is_prepare_transaction(&lexer)?,
            Lead::Set => is_transactional_set(&lexer)?,
            _ => false,
        };
        if !harmless || !is_rest_harmless(&mut lexer, functions, (lead, word))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Checks the rest of a statement.
fn is_rest_harmless(
    lexer: &mut Lexer<'_>,
    functions: &Functions,
    (lead, mut before): (Lead, &[u8]),
) -> Result<bool, Unclear> {
    let first = before;
    while let Some(Item::Name(word)) = lexer.item()? {
        let is_named = before.eq_ignore_ascii_case(b"execute");
        if lead == Lead::Create && defines_code(word) && creates(first) && !is_named {
            return Ok(false);
        }
        if functions.may_mean(word) {
            let harmless = match functions.meaning(word) {
                None => true,
                Some(Meaning::Call(_)) => lexer.clone().token()? != Some(Token::Other(b'(')),
                Some(Meaning::Catalogued) => {
                    catalogued(word, only_reads(first), lexer, functions)?.is_harmless()
                }
                Some(Meaning::Execute) => !names_statement(lexer)?,
                Some(Meaning::Hold) => lead != Lead::Declare,
                Some(Meaning::Language) => !is_native(lexer)?,
                Some(Meaning::Temporary) => !makes_temporary(before),
                Some(
                    Meaning::Listed
                    | Meaning::Settings
                    | Meaning::Statements
                    | Meaning::Statistics
                    | Meaning::TemporarySchema
                    | Meaning::Unknown,
                ) => false,
            };
            if !harmless {
                return Ok(false);
            }
        }
        before = word;
    }
    Ok(true)
}

/// True for a word behind CREATE or ALTER that announces code, or objects with unknown code.
pub(crate) fn defines_code(word: &[u8]) -> bool {
    [&b"function"[..], b"procedure", b"extension"]
        .iter()
        .any(|known| word.eq_ignore_ascii_case(known))
}

/// True for the first word of a statement that defines objects.
pub(crate) fn creates(first: &[u8]) -> bool {
    first.eq_ignore_ascii_case(b"create") || first.eq_ignore_ascii_case(b"alter")
}

/// True if a statement that begins with this word cannot write, except by functions in it.
pub(crate) fn only_reads(first: &[u8]) -> bool {
    [
        &b"select"[..],
        b"values",
        b"table",
        b"show",
        b"fetch",
        b"declare",
    ]
    .iter()
    .any(|known| first.eq_ignore_ascii_case(known))
}

/// Returns the effects of a word that the catalogue knows.
pub(crate) fn catalogued(
    word: &[u8],
    reads: bool,
    lexer: &Lexer<'_>,
    functions: &Functions,
) -> Result<Effects, Unclear> {
    let catalogue = functions.catalogue();
    let used = catalogue.effects(word, if reads { Use::Read } else { Use::Write });
    Ok(match lexer.clone().token()? {
        Some(Token::Other(b'(')) => used.join(catalogue.effects(word, Use::Call)),
        _ => used,
    })
}

/// True for words behind which TEMP is a key word.
pub(crate) fn makes_temporary(before: &[u8]) -> bool {
    [&b"create"[..], b"replace", b"local", b"global", b"into"]
        .iter()
        .any(|known| before.eq_ignore_ascii_case(known))
}

/// True if a prepared statement may follow EXECUTE: not a trigger's function, and not an object of GRANT.
pub(crate) fn names_statement(lexer: &Lexer<'_>) -> Result<bool, Unclear> {
    Ok(match lexer.clone().token()? {
        Some(Token::Word(word)) => ![&b"function"[..], b"procedure", b"on"]
            .iter()
            .any(|known| word.eq_ignore_ascii_case(known)),
        Some(Token::Quoted(_) | Token::Unicode) => true,
        _ => false,
    })
}

/// True if the language that follows is C.
pub(crate) fn is_native(lexer: &Lexer<'_>) -> Result<bool, Unclear> {
    let next = lexer.clone().token()?;
    Ok(match next {
        Some(Token::Word(name) | Token::Quoted(name)) => name.eq_ignore_ascii_case(b"c"),
        Some(Token::Text(name)) => name.eq_ignore_ascii_case(b"'c'"),
        _ => false,
    })
}

/// True for a two-phase PREPARE TRANSACTION, which needs a constant. `PREPARE transaction AS ..` prepares a statement
/// of that name.
pub(crate) fn is_prepare_transaction(lexer: &Lexer<'_>) -> Result<bool, Unclear> {
    let mut ahead = lexer.clone();
    let word = ahead.token()?;
    Ok(
        matches!(word, Some(Token::Word(word)) if word.eq_ignore_ascii_case(b"transaction"))
            && matches!(ahead.token()?, Some(Token::Text(_))),
    )
}

/// True for SET LOCAL, SET TRANSACTION and SET CONSTRAINTS. False for `SET local.a = 1`, a setting of the session.
pub(crate) fn is_transactional_set(lexer: &Lexer<'_>) -> Result<bool, Unclear> {
    let mut ahead = lexer.clone();
    let Some(Token::Word(word)) = ahead.token()? else {
        return Ok(false);
    };
    let scoped = [&b"local"[..], b"transaction", b"constraints"]
        .iter()
        .any(|known| word.eq_ignore_ascii_case(known));
    // The seed ignores transactions, and TO makes the word before it a setting.
    Ok(scoped
        && matches!(ahead.token()?, Some(Token::Word(name) | Token::Quoted(name))
            if !name.eq_ignore_ascii_case(b"seed") && !name.eq_ignore_ascii_case(b"to"))
        && !(word.eq_ignore_ascii_case(b"local") && may_end_in_default(lexer.clone())?))
}

/// True for SET LOCAL. False for `SET local.a = 1` and `SET local TO 1`.
pub(crate) fn is_local_set(lexer: &Lexer<'_>) -> Result<bool, Unclear> {
    let mut ahead = lexer.clone();
    let is_local = matches!(ahead.token()?, Some(Token::Word(word))
        if word.eq_ignore_ascii_case(b"local"));
    Ok(is_local
        && matches!(ahead.token()?, Some(Token::Word(name) | Token::Quoted(name))
            if !name.eq_ignore_ascii_case(b"to")))
}

/// True if a `SET LOCAL` may return a setting to its start value: `TO DEFAULT`, `TIME ZONE LOCAL`, `NAMES`.
fn may_end_in_default(mut lexer: Lexer<'_>) -> Result<bool, Unclear> {
    lexer.token()?;
    let mut before = lexer.token()?;
    let is_names =
        |token| matches!(token, Some(Token::Word(word)) if word.eq_ignore_ascii_case(b"names"));
    let mut is_bare = is_names(before);
    loop {
        match lexer.token()? {
            None | Some(Token::Other(b';')) => break,
            token => before = token,
        }
        is_bare = false;
    }
    Ok(is_bare
        || matches!(before, Some(Token::Word(last))
            if last.eq_ignore_ascii_case(b"default") || last.eq_ignore_ascii_case(b"local")))
}

/// Kind of a statement by its first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    /// CALL
    Call,
    /// CREATE, ALTER and other statements that define objects.
    Create,
    /// DEALLOCATE
    Deallocate,
    /// DECLARE
    Declare,
    /// DISCARD
    Discard,
    /// DO
    Do,
    /// EXECUTE, whose effects were judged when the statement was prepared.
    Execute,
    /// DROP, CLOSE and other statements that may end a pin.
    Frees,
    /// Statement that does nothing to the session by itself.
    Harmless,
    /// LISTEN
    Listen,
    /// LOAD
    Load,
    /// PREPARE
    Prepare,
    /// RESET
    Reset,
    /// SET
    Set,
    /// Unknown command.
    Unknown,
    /// UNLISTEN
    Unlisten,
}

/// Advances to the first word of the next statement, which parentheses may precede; `None` at the end.
#[inline]
pub(crate) fn lead<'a>(lexer: &mut Lexer<'a>) -> Result<Option<(Lead, &'a [u8])>, Unclear> {
    loop {
        return match lexer.token()? {
            None => Ok(None),
            Some(Token::Word(word)) => Ok(Some((Lead::of(word), word))),
            Some(Token::Other(b';' | b'(')) => continue,
            Some(_) => Ok(Some((Lead::Unknown, b""))),
        };
    }
}

impl Lead {
    fn of(word: &[u8]) -> Self {
        let mut folded = [0; 16];
        let Some(folded) = folded.get_mut(..word.len()) else {
            return Self::Unknown;
        };
        folded.copy_from_slice(word);
        folded.make_ascii_lowercase();
        match &*folded {
            b"select" | b"insert" | b"update" | b"delete" | b"begin" | b"commit" | b"end"
            | b"with" | b"merge" | b"values" | b"table" | b"start" | b"rollback" | b"abort"
            | b"savepoint" | b"release" | b"truncate" | b"copy" | b"explain" | b"analyze"
            | b"analyse" | b"vacuum" | b"cluster" | b"checkpoint" | b"lock" | b"fetch"
            | b"move" | b"reassign" | b"notify" | b"show" => Self::Harmless,
            b"create" | b"alter" | b"grant" | b"revoke" | b"comment" | b"security" | b"import"
            | b"refresh" | b"reindex" => Self::Create,
            b"drop" | b"close" => Self::Frees,
            b"call" => Self::Call,
            b"deallocate" => Self::Deallocate,
            b"declare" => Self::Declare,
            b"discard" => Self::Discard,
            b"do" => Self::Do,
            b"execute" => Self::Execute,
            b"listen" => Self::Listen,
            b"load" => Self::Load,
            b"prepare" => Self::Prepare,
            b"reset" => Self::Reset,
            b"set" => Self::Set,
            b"unlisten" => Self::Unlisten,
            _ => Self::Unknown,
        }
    }
}
