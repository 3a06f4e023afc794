//! Step 2: the verdict on a text that step 1 could not clear.
//!
//! Words alone suffice for calls of functions. Other statements are parsed one by one, within limits of time. A
//! statement without a parse tree keeps the verdict of its words, which covers at least as many effects.

use std::str::from_utf8;

use crate::effects::Effects;
use crate::functions::Functions;
use crate::lex::{Lexer, Reading, Unclear};
use crate::reason::Reason;
use crate::tree;
use crate::words::{self, Statement};

/// Maximum length of a statement that is parsed. The time a hostile text can take in pg_query is quadratic: 3 ms for
/// this many bytes.
const STATEMENT_MAX: usize = 2 * 1024;
/// Maximum number of statements, and of their bytes, that are parsed in one text.
const STATEMENTS_MAX: usize = 128;
const BYTES_MAX: usize = 8 * 1024;
/// Maximum depth of comments: PostgreSQL's lexer takes time quadratic in it.
const COMMENT_DEPTH_MAX: usize = 8;

/// Returns the effects that the text may have on its session. Never panics. A text with several readings has the
/// effects of all of them. Where PostgreSQL's grammar rejects a text, or beyond the limits of a parse, the words
/// decide.
pub fn judge(text: &[u8], functions: &Functions) -> Effects {
    match unclear(text) {
        None => read(text, Reading::Standard, functions),
        // The bytes of some characters look like ASCII, and which ones depends on the encoding.
        Some(Unclear::Wide) if from_utf8(text).is_err() => {
            let mut effects = Effects::default();
            effects.leaves(Reason::Unknown);
            effects
        }
        Some(_) => {
            let mut standard = read(text, Reading::Standard, functions);
            let mut escaping = read(text, Reading::Escaping, functions);
            let unlistens = std::mem::take(&mut escaping.unlistens);
            if unlistens != standard.unlistens {
                standard.unlistens.clear();
            }
            let returns = std::mem::take(&mut escaping.returns);
            if returns != standard.returns {
                standard.returns.clear();
            }
            let channels = std::mem::take(&mut escaping.channels);
            if channels != standard.channels {
                standard.channels.clear();
            }
            standard.join(escaping)
        }
    }
}

/// Returns the verdict if the words alone suffice.
pub(crate) fn by_words(text: &[u8], functions: &Functions) -> Option<Effects> {
    let mut lexer = Lexer::new(text, Reading::Strict);
    let mut all = Effects::default();
    let mut sets = 0;
    while let Some(mut statement) = words::statement(&mut lexer, functions).ok()? {
        if !statement.is_exact {
            return None;
        }
        statement.effects.note_returns(statement.end, sets);
        sets += usize::from(statement.sets);
        all = all.join(statement.effects).join(statement.code);
        all.statements += 1;
    }
    Some(all)
}

/// Returns the reason for which the text has several readings, or none.
pub(crate) fn unclear(text: &[u8]) -> Option<Unclear> {
    let mut lexer = Lexer::new(text, Reading::Strict);
    loop {
        match lexer.token() {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(unclear) => return Some(unclear),
        }
    }
}

fn read(text: &[u8], reading: Reading, functions: &Functions) -> Effects {
    let mut lexer = Lexer::new(text, reading);
    let mut parser = Parser {
        reading,
        functions,
        statements: 0,
        bytes: 0,
    };
    let mut all = Effects::default();
    let mut sets = 0;
    loop {
        let start = lexer.at();
        match words::statement(&mut lexer, functions) {
            Ok(Some(mut statement)) => {
                let code = std::mem::take(&mut statement.code);
                let piece = text.get(start..statement.end).unwrap_or_default();
                let is_deep = lexer.depth_max() > COMMENT_DEPTH_MAX;
                let (end, is_set) = (statement.end, statement.sets);
                let mut effects = parser.effects(piece, is_deep, statement);
                effects.note_returns(end, sets);
                sets += usize::from(is_set);
                all = all.join(effects).join(code);
                all.statements += 1;
            }
            Ok(None) => break,
            // The text has no end, so PostgreSQL refuses all of it.
            Err(_) => {
                all.ask_all();
                break;
            }
        }
    }
    if all.statements != all.channels.len() {
        all.channels.clear();
    }
    all
}

/// Parses statements within the limits of one text.
struct Parser<'a> {
    reading: Reading,
    functions: &'a Functions,
    statements: usize,
    bytes: usize,
}

impl Parser<'_> {
    fn effects(&mut self, text: &[u8], is_deep: bool, words: Statement) -> Effects {
        if words.is_exact || is_deep || text.len() > STATEMENT_MAX {
            return words.effects;
        }
        self.statements += 1;
        self.bytes += text.len();
        if self.statements > STATEMENTS_MAX || self.bytes > BYTES_MAX {
            return words.effects;
        }
        // Bytes that are not UTF-8 may stand in names and constants; ASCII around them is kept.
        let text = String::from_utf8_lossy(text);
        let escapes = self.reading == Reading::Escaping;
        let tree = tree::effects(&text, escapes, self.functions);
        // Only words show these effects.
        let (wants_new, reads_statistics, names, lists_statements) = (
            words.effects.wants_new,
            words.effects.reads_statistics,
            words.effects.names,
            words.effects.lists_statements,
        );
        tree.map_or(words.effects, |tree| Effects {
            statements: 0,
            wants_new: wants_new || tree.wants_new,
            reads_statistics,
            names,
            lists_statements,
            ..tree
        })
    }
}
