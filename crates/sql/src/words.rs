//! What the words of a text alone say of its effects: never less than the parse tree, sometimes
//! more. It clears the calls of functions without a parse, and stands in where there is no tree.

use crate::effects::{Effects, Resets, Sequences};
use crate::functions::{Functions, Kind, Meaning};
use crate::lex::{Lexer, Token, Unclear};
use crate::reason::Reason;
use crate::scan::{
    self, Lead, is_local_set, is_native, is_prepare_transaction, is_transactional_set,
    makes_temporary, names_statement,
};
use crate::setting::{self, Setting};
use crate::tree;

/// A statement, and what its words say.
#[derive(Debug)]
pub(crate) struct Statement {
    /// Where it ends: at its `;` or at the end of the text, in bytes.
    pub(crate) end: usize,
    pub(crate) effects: Effects,
    /// The tree would say no less.
    pub(crate) is_exact: bool,
    /// It begins with SET or RESET.
    pub(crate) sets: bool,
}

/// The next statement that has words in it; nothing at the end.
pub(crate) fn statement(
    lexer: &mut Lexer<'_>,
    functions: &Functions,
) -> Result<Option<Statement>, Unclear> {
    let Some((lead, word)) = scan::lead(lexer)? else {
        return Ok(None);
    };
    let mut words = Words {
        functions,
        effects: Effects::default(),
        is_exact: true,
        lead,
        sets: false,
    };
    words.lead(lexer)?;
    let end = words.rest(lexer, word)?;
    Ok(Some(Statement {
        end,
        effects: words.effects,
        is_exact: words.is_exact,
        sets: matches!(lead, Lead::Reset | Lead::Set),
    }))
}

struct Words<'a> {
    functions: &'a Functions,
    effects: Effects,
    is_exact: bool,
    lead: Lead,
    /// `set_config` was called.
    sets: bool,
}

impl Words<'_> {
    fn lead(&mut self, lexer: &Lexer<'_>) -> Result<(), Unclear> {
        let effects = &mut self.effects;
        match self.lead {
            Lead::Declare | Lead::Harmless => {}
            Lead::Execute => effects.names = true,
            Lead::Call | Lead::Do => effects.runs_unseen(),
            Lead::Deallocate => deallocate(effects),
            Lead::Frees => effects.frees = true,
            Lead::Listen => self.inexact().may_leave(Reason::Listen),
            Lead::Load => load(effects),
            Lead::Prepare if is_prepare_transaction(lexer)? => {}
            Lead::Prepare => {
                effects.may_leave(Reason::Prepared);
                effects.names = true;
            }
            Lead::Set if is_transactional_set(lexer)? => {}
            Lead::Reset => self.setting(setting::reset(lexer.clone())?),
            Lead::Set if is_local_set(lexer)? => self.local(setting::set(lexer.clone())?),
            Lead::Set => {
                self.setting(setting::set(lexer.clone())?);
                self.effects.wants_new |= setting::makes_temporary(lexer.clone())?;
            }
            Lead::Unlisten => self.inexact().frees = true,
            Lead::Discard => {
                let effects = self.inexact();
                effects.frees = true;
                effects.resets = Resets::Session;
                effects.ask_all();
            }
            Lead::Unknown => self.inexact().may_leave(Reason::Unknown),
        }
        Ok(())
    }

    fn setting(&mut self, setting: Setting) {
        match setting {
            Setting::All => {
                self.effects.resets = Resets::All;
                self.effects.ask_all();
            }
            Setting::One(name, true) if name == "seed" => self.effects.leaves(Reason::Seed),
            Setting::One(name, has_value) => {
                if !has_value {
                    self.effects.reset(&name);
                }
                tree::ask(&name, &mut self.effects);
            }
            Setting::Special(names) => {
                let effects = self.inexact();
                names.iter().for_each(|name| tree::ask(name, effects));
            }
            Setting::Unknown => self.inexact().leaves(Reason::Setting),
        }
    }

    /// SET LOCAL, perhaps to a default.
    fn local(&mut self, setting: Setting) {
        match setting {
            Setting::One(name, true) if name == "seed" => self.effects.leaves(Reason::Seed),
            Setting::One(name, false) => self.effects.reset_locally(&name),
            Setting::Special(names) => {
                let effects = self.inexact();
                names.iter().for_each(|name| effects.reset_locally(name));
            }
            Setting::All | Setting::One(..) | Setting::Unknown => self.is_exact = false,
        }
    }

    fn inexact(&mut self) -> &mut Effects {
        self.is_exact = false;
        &mut self.effects
    }

    /// Up to the end of the statement; says where that is.
    fn rest(&mut self, lexer: &mut Lexer<'_>, lead: &[u8]) -> Result<usize, Unclear> {
        let mut before = lead;
        loop {
            let end = lexer.at();
            match lexer.token()? {
                None => return Ok(lexer.at()),
                Some(Token::Other(b';')) => return Ok(end),
                Some(Token::Word(word) | Token::Quoted(word)) => {
                    self.word(word, before, lexer)?;
                    before = word;
                }
                Some(Token::Unicode) => self.hidden(),
                Some(Token::Text(text)) if self.lead == Lead::Do => self.body(text),
                Some(Token::Text(text)) if self.sets && text.eq_ignore_ascii_case(b"'seed'") => {
                    self.effects.leaves(Reason::Seed);
                }
                Some(Token::Text(_) | Token::Other(_)) => {}
            }
        }
    }

    fn word(&mut self, word: &[u8], before: &[u8], lexer: &Lexer<'_>) -> Result<(), Unclear> {
        if !self.functions.may_mean(word) {
            return Ok(());
        }
        match self.functions.meaning(word) {
            Some(Meaning::Call(kind)) if lexer.clone().token()? == Some(Token::Other(b'(')) => {
                if kind == Kind::SetConfig {
                    self.set_config(lexer)?;
                } else {
                    call(kind, &mut self.effects);
                }
            }
            Some(Meaning::Execute) if names_statement(lexer)? => self.effects.names = true,
            Some(Meaning::Hold) if self.lead == Lead::Declare => {
                self.inexact().may_leave(Reason::Cursor);
            }
            Some(Meaning::Temporary) if makes_temporary(before) => self.temporary(),
            Some(Meaning::TemporarySchema) => self.temporary(),
            Some(Meaning::Language) if is_native(lexer)? => self.effects.leaves(Reason::Library),
            Some(Meaning::Settings) => self.effects.ask_all(),
            Some(Meaning::Statistics) => self.effects.reads_statistics = true,
            None
            | Some(
                Meaning::Call(_)
                | Meaning::Execute
                | Meaning::Hold
                | Meaning::Language
                | Meaning::Temporary,
            ) => {}
            Some(Meaning::Listed | Meaning::Unknown) => self.inexact().leaves(Reason::Function),
        }
        Ok(())
    }

    /// `set_config('name', .., true)` is told apart here: applications send it with each transaction,
    /// and the text is new each time.
    fn set_config(&mut self, lexer: &Lexer<'_>) -> Result<(), Unclear> {
        match config(&mut lexer.clone())? {
            Some(Config { is_local: true, .. }) => {}
            Some(Config { name, .. }) => tree::ask(&name, &mut self.effects),
            None => {
                self.sets = true;
                self.inexact().leaves(Reason::Setting);
            }
        }
        Ok(())
    }

    fn temporary(&mut self) {
        self.inexact().may_leave(Reason::TemporaryObject);
    }

    /// A name behind escapes.
    fn hidden(&mut self) {
        let effects = self.inexact();
        effects.leaves(Reason::Unknown);
        effects.sequences(Sequences::Reads);
        effects.frees = true;
    }

    /// The body of a DO, of whatever language: the words in it, in strings or not.
    fn body(&mut self, body: &[u8]) {
        if tree::sets_in_code(&String::from_utf8_lossy(body)) {
            self.effects.leaves(Reason::Setting);
        }
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80 || *byte == b'_';
        let mut rest = body;
        while let Some(start) = rest.iter().position(is_part) {
            let word = rest.get(start..).unwrap_or_default();
            let length = word.iter().position(|byte| !is_part(byte));
            let (word, behind) = word.split_at(length.unwrap_or(word.len()));
            self.body_word(word, behind);
            rest = behind;
        }
    }

    fn body_word(&mut self, word: &[u8], behind: &[u8]) {
        let effects = &mut self.effects;
        match self.functions.meaning(word) {
            Some(Meaning::Call(kind)) => call(kind, effects),
            Some(Meaning::Execute) => effects.names = true,
            Some(Meaning::Hold) => effects.may_leave(Reason::Cursor),
            Some(Meaning::Temporary | Meaning::TemporarySchema) => {
                effects.may_leave(Reason::TemporaryObject);
            }
            Some(Meaning::Listed) => effects.leaves(Reason::Function),
            // What has no name in here is asked about anyway.
            None
            | Some(
                Meaning::Language | Meaning::Settings | Meaning::Statistics | Meaning::Unknown,
            ) => {}
        }
        let next = behind.iter().find(|byte| !byte.is_ascii_whitespace());
        let constant = matches!(next, Some(b'\'' | b'$'));
        if word.eq_ignore_ascii_case(b"load") && constant {
            effects.leaves(Reason::Library);
        } else if word.eq_ignore_ascii_case(b"listen") {
            effects.may_leave(Reason::Listen);
        } else if word.eq_ignore_ascii_case(b"prepare") {
            effects.may_leave(Reason::Prepared);
            effects.names = true;
        }
        effects.names |= word.eq_ignore_ascii_case(b"deallocate");
    }
}

/// The arguments of a `set_config` that counts.
struct Config {
    /// In lower case.
    name: String,
    is_local: bool,
}

/// Reads the arguments, if the first and the last are plain constants and the name is not that of the
/// seed.
fn config(lexer: &mut Lexer<'_>) -> Result<Option<Config>, Unclear> {
    lexer.token()?;
    let (Some(Token::Text([b'\'', name @ .., b'\''])), Some(Token::Other(b','))) =
        (lexer.token()?, lexer.token()?)
    else {
        return Ok(None);
    };
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'\'' | b'\\');
    if !name.iter().all(is_plain) || name.eq_ignore_ascii_case(b"seed") {
        return Ok(None);
    }
    let mut depth = 0_usize;
    loop {
        match lexer.token()? {
            Some(Token::Other(b'(' | b'[')) => depth += 1,
            Some(Token::Other(b')' | b']')) if depth > 0 => depth -= 1,
            Some(Token::Other(b',')) if depth == 0 => break,
            None | Some(Token::Other(b')' | b']' | b';')) => return Ok(None),
            Some(_) => {}
        }
    }
    let (Some(Token::Word(last)), Some(Token::Other(b')'))) = (lexer.token()?, lexer.token()?)
    else {
        return Ok(None);
    };
    let is_local = last.eq_ignore_ascii_case(b"true");
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let is_known = is_local || last.eq_ignore_ascii_case(b"false");
    Ok(is_known.then_some(Config { name, is_local }))
}

/// What SQL-level EXECUTE did while the client was pinned comes to light when the pin ends.
pub(crate) fn deallocate(effects: &mut Effects) {
    effects.frees = true;
    effects.names = true;
    effects.runs_unseen();
}

/// LOAD by itself: the server says whether it has loaded anything.
pub(crate) fn load(effects: &mut Effects) {
    effects.may_leave(Reason::Library);
    effects.ask_all();
}

/// What a built-in function does, whatever its arguments.
pub(crate) fn call(kind: Kind, effects: &mut Effects) {
    match kind {
        Kind::AdvisoryLock => effects.may_leave(Reason::AdvisoryLock),
        Kind::AdvisoryUnlock => effects.frees = true,
        Kind::ListsChannels => effects.lists_channels = true,
        Kind::MovesSequence => effects.sequences(Sequences::Moves),
        Kind::Opaque => effects.leaves(Reason::Function),
        Kind::ReadsSequence => effects.sequences(Sequences::Reads),
        Kind::RunsText => effects.runs_unseen(),
        Kind::SetConfig => effects.leaves(Reason::Setting),
        Kind::Seed => effects.leaves(Reason::Seed),
        Kind::Statistics => {
            effects.leaves(Reason::Function);
            effects.wants_new = true;
        }
        Kind::TrigramLimit => effects.ask("pg_trgm.similarity_threshold"),
    }
}
