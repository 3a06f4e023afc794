//! Step 1: proof in one pass that a text cannot change the state of its session.

use crate::functions::Functions;
use crate::lex::{Lexer, Token, Unclear};

/// Proves that the text cannot change the state of its session. `false` proves nothing.
pub fn is_harmless(text: &[u8], functions: &Functions) -> bool {
    scan(text, functions, false).unwrap_or(false)
}

/// The same, and that it cannot end anything that pins (DROP, CLOSE).
pub fn is_harmless_while_pinned(text: &[u8], functions: &Functions) -> bool {
    scan(text, functions, true).unwrap_or(false)
}

fn scan(text: &[u8], functions: &Functions, pinned: bool) -> Result<bool, Unclear> {
    let mut lexer = Lexer::new(text);
    let mut begins = true;
    let mut declares = false;
    while let Some(token) = lexer.token()? {
        match token {
            Token::Word(word) if begins => {
                begins = false;
                match Lead::of(word) {
                    Lead::Harmless => {}
                    Lead::Frees if !pinned => {}
                    Lead::Declare => declares = true,
                    Lead::Prepare if is_prepare_transaction(&lexer)? => {}
                    Lead::Set if is_transactional_set(&lexer)? => {}
                    _ => return Ok(false),
                }
            }
            Token::Word(word) => {
                if functions.may_be(word) && is_word_of_interest(word, functions)
                    || is_temporary_schema(word)
                    || declares && word.eq_ignore_ascii_case(b"hold")
                {
                    return Ok(false);
                }
            }
            Token::Quoted(word) => {
                if begins
                    || functions.may_be(word) && is_word_of_interest(word, functions)
                    || is_temporary_schema(word)
                {
                    return Ok(false);
                }
            }
            Token::Other(b';') => {
                begins = true;
                declares = false;
            }
            Token::Other(b'(') => {}
            Token::Other(_) | Token::Text => begins = false,
        }
    }
    Ok(true)
}

fn is_word_of_interest(word: &[u8], functions: &Functions) -> bool {
    let mut folded = [0; 63];
    let Some(folded) = folded.get_mut(..word.len()) else {
        return true;
    };
    folded.copy_from_slice(word);
    folded.make_ascii_lowercase();
    functions.is_named(folded)
}

/// `pg_temp`, `pg_temp_3`, `pg_temporary`...
#[inline]
pub(crate) fn is_temporary_schema(word: &[u8]) -> bool {
    matches!(word.first(), Some(b'p' | b'P'))
        && word
            .get(..7)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"pg_temp"))
}

/// `PREPARE transaction AS ..` prepares a statement of that name: only a constant makes it 2PC.
fn is_prepare_transaction(lexer: &Lexer<'_>) -> Result<bool, Unclear> {
    let mut ahead = lexer.clone();
    let word = ahead.token()?;
    Ok(
        matches!(word, Some(Token::Word(word)) if word.eq_ignore_ascii_case(b"transaction"))
            && ahead.token()? == Some(Token::Text),
    )
}

/// `SET local.a = 1` and `SET transaction.a = 1` are settings of the session.
fn is_transactional_set(lexer: &Lexer<'_>) -> Result<bool, Unclear> {
    let mut ahead = lexer.clone();
    let Some(Token::Word(word)) = ahead.token()? else {
        return Ok(false);
    };
    let scoped = [&b"local"[..], b"transaction", b"constraints"]
        .iter()
        .any(|known| word.eq_ignore_ascii_case(known));
    Ok(scoped && matches!(ahead.token()?, Some(Token::Word(_) | Token::Quoted(_))))
}

/// The first word of a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lead {
    Declare,
    Frees,
    Harmless,
    Prepare,
    Set,
    Unproven,
}

impl Lead {
    fn of(word: &[u8]) -> Self {
        let mut folded = [0; 16];
        let Some(folded) = folded.get_mut(..word.len()) else {
            return Self::Unproven;
        };
        folded.copy_from_slice(word);
        folded.make_ascii_lowercase();
        match &*folded {
            b"select" | b"insert" | b"update" | b"delete" | b"merge" | b"with" | b"values"
            | b"table" | b"begin" | b"start" | b"commit" | b"end" | b"rollback" | b"abort"
            | b"savepoint" | b"release" | b"create" | b"alter" | b"truncate" | b"copy"
            | b"explain" | b"analyze" | b"analyse" | b"vacuum" | b"reindex" | b"cluster"
            | b"refresh" | b"checkpoint" | b"lock" | b"fetch" | b"move" | b"grant" | b"revoke"
            | b"reassign" | b"comment" | b"security" | b"notify" | b"show" | b"import" => {
                Self::Harmless
            }
            b"drop" | b"close" => Self::Frees,
            b"declare" => Self::Declare,
            b"prepare" => Self::Prepare,
            b"set" => Self::Set,
            _ => Self::Unproven,
        }
    }
}
