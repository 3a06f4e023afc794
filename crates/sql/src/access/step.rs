//! Steps of a transaction block that may still move to another host: nothing but its reads has run.

use crate::lex::{Item, Lexer, Reading, Token};

/// Step of a transaction block, by the first words of its statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The text ends the block, and is one statement: COMMIT, ROLLBACK, END, ABORT.
    Ends,
    /// Each statement is a query of rows, which leaves nothing in the block. It may still write or call functions.
    Queries,
    /// Anything else: a cursor, a savepoint, SET, EXECUTE, or a text that cannot be read without a doubt.
    Other,
}

/// Returns the step that a text is.
#[must_use]
pub fn step(text: &[u8]) -> Step {
    by_words(text).unwrap_or(Step::Other)
}

/// Statement that ends a transaction block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockEnd {
    /// COMMIT or END.
    Commit,
    /// ROLLBACK or ABORT.
    Rollback,
}

/// Returns the end of a block that a text is, if it is nothing else. AND CHAIN and ROLLBACK TO are no ends.
#[must_use]
pub fn block_end(text: &[u8]) -> Option<BlockEnd> {
    if step(text) != Step::Ends {
        return None;
    }
    match Lexer::new(text, Reading::Strict).token() {
        Ok(Some(Token::Word(word))) => match word.to_ascii_lowercase().as_slice() {
            b"commit" | b"end" => Some(BlockEnd::Commit),
            _ => Some(BlockEnd::Rollback),
        },
        _ => None,
    }
}

fn by_words(text: &[u8]) -> Option<Step> {
    let mut lexer = Lexer::new(text, Reading::Strict);
    let mut found = None;
    loop {
        let word = match lexer.token().ok()? {
            None => return found,
            Some(Token::Other(b';' | b'(')) => continue,
            Some(Token::Word(word)) => word,
            Some(_) => return None,
        };
        let is_any = |words: &[&str]| {
            words
                .iter()
                .any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
        };
        if is_any(&["commit", "end", "rollback", "abort"]) {
            // Alone, so that the reply tells how the block has ended.
            return (found.is_none() && is_at_end(&mut lexer)?).then_some(Step::Ends);
        }
        if !is_any(&["select", "values", "table", "with"]) {
            return None;
        }
        found = Some(Step::Queries);
        while !matches!(lexer.item().ok()?, None | Some(Item::Semicolon)) {}
    }
}

/// True if nothing follows but WORK or TRANSACTION. `AND CHAIN` begins another block, and `TO` ends none.
fn is_at_end(lexer: &mut Lexer<'_>) -> Option<bool> {
    loop {
        match lexer.token().ok()? {
            None => return Some(true),
            Some(Token::Other(b';')) => {}
            Some(Token::Word(word))
                if word.eq_ignore_ascii_case(b"work")
                    || word.eq_ignore_ascii_case(b"transaction") => {}
            Some(_) => return Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_read_step_by_step() {
        for text in ["COMMIT", " end work ; ", "rollback transaction;", "ABORT"] {
            assert_eq!(step(text.as_bytes()), Step::Ends, "{text}");
            let is_commit = text.contains("COMMIT") || text.contains("end");
            let end = match is_commit {
                true => BlockEnd::Commit,
                false => BlockEnd::Rollback,
            };
            assert_eq!(block_end(text.as_bytes()), Some(end), "{text}");
        }
        for text in [
            "SELECT 1",
            "/* a */ (select 1) union select 2;",
            "values (1); table t",
            "WITH a AS (SELECT ';') SELECT * FROM a",
            "select ';declare c cursor for select 1'",
        ] {
            assert_eq!(step(text.as_bytes()), Step::Queries, "{text}");
        }
        for text in [
            "",
            "DECLARE c CURSOR FOR SELECT 1",
            "select 1; declare c cursor for select 1",
            "select 1; commit",
            "commit; select 1",
            "commit and chain",
            "commit prepared 'a'",
            "rollback to savepoint a",
            "savepoint a",
            "set local work_mem = '1MB'",
            "fetch 1 from c",
            "execute q",
            "prepare q as select 1",
            "\"select\" 1",
            "select 'open",
        ] {
            assert_eq!(step(text.as_bytes()), Step::Other, "{text}");
            assert_eq!(block_end(text.as_bytes()), None, "{text}");
        }
    }
}
