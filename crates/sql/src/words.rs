//! Effects of a text by its words alone: at least those of the parse tree, sometimes more. Suffices for calls of
//! functions, and replaces the tree where there is none.

use std::borrow::Cow;

use crate::code;
use crate::effects::{Definition, Effects, Resets, Sequences};
use crate::functions::{Functions, Kind, Meaning};
use crate::lex::{Lexer, Token, Unclear};
use crate::reason::Reason;
use crate::scan::{
    self, Lead, is_local_set, is_native, is_prepare_transaction, is_transactional_set,
    makes_temporary, names_statement,
};
use crate::setting::{self, Setting};
use crate::tree;

/// A statement, with the effects that its words show.
#[derive(Debug)]
pub(crate) struct Statement {
    /// End of the statement in bytes: its `;` or the end of the text.
    pub(crate) end: usize,
    pub(crate) effects: Effects,
    /// True if the parse tree would show the same effects.
    pub(crate) is_exact: bool,
    /// True if the statement begins with SET or RESET.
    pub(crate) sets: bool,
    /// Effects of code that the statement runs or defines, which a tree does not show.
    pub(crate) code: Effects,
}

/// Returns the next statement that contains words; `None` at the end.
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
        reads: scan::only_reads(word),
        creates: scan::creates(word),
        code: Code::default(),
    };
    words.lead(lexer)?;
    let end = words.rest(lexer, word)?;
    let code = words.code();
    Ok(Some(Statement {
        end,
        effects: words.effects,
        is_exact: words.is_exact,
        sets: matches!(lead, Lead::Reset | Lead::Set),
        code,
    }))
}

/// Code that a statement runs or defines.
#[derive(Default)]
struct Code {
    /// Effects of the objects that the statement uses, and of the code in it.
    effects: Effects,
    /// Constants of DO and CREATE FUNCTION that may be code.
    texts: Vec<Vec<u8>>,
    language: Option<Vec<u8>>,
    /// Names of the objects that the statement defines. `awaits_name` is true while the last name is incomplete or yet
    /// to come.
    names: Vec<Box<[u8]>>,
    awaits_name: bool,
    /// True if the statement defines functions, or objects with unknown code.
    defines: bool,
}

struct Words<'a> {
    functions: &'a Functions,
    effects: Effects,
    is_exact: bool,
    lead: Lead,
    /// True if `set_config` was called.
    sets: bool,
    /// True if the statement begins like one that only reads.
    reads: bool,
    /// True if the statement begins with CREATE or ALTER.
    creates: bool,
    code: Code,
}

impl Words<'_> {
    fn lead(&mut self, lexer: &Lexer<'_>) -> Result<(), Unclear> {
        let effects = &mut self.effects;
        match self.lead {
            Lead::Create | Lead::Declare | Lead::Harmless => {}
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

    /// Handles SET LOCAL, possibly to a default.
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

    /// Reads to the end of the statement. Returns its position.
    fn rest(&mut self, lexer: &mut Lexer<'_>, lead: &[u8]) -> Result<usize, Unclear> {
        let mut before = lead;
        loop {
            let end = lexer.at();
            match lexer.token()? {
                None => return Ok(lexer.at()),
                Some(Token::Other(b';')) => return Ok(end),
                Some(Token::Word(word) | Token::Quoted(word)) => {
                    self.word(word, before, lexer)?;
                    if matches!(self.lead, Lead::Create | Lead::Do) {
                        self.code_word(word, lexer)?;
                    }
                    before = word;
                }
                Some(Token::Unicode) => self.hidden(),
                Some(Token::Text(text)) => self.text(text),
                Some(Token::Other(_)) => {}
            }
        }
    }

    fn text(&mut self, text: &[u8]) {
        if self.lead == Lead::Do {
            self.body(text);
        }
        if self.lead == Lead::Do || self.code.defines {
            self.code.texts.push(text.to_vec());
        }
        if self.sets && text.eq_ignore_ascii_case(b"'seed'") {
            self.effects.leaves(Reason::Seed);
        }
    }

    fn word(&mut self, word: &[u8], before: &[u8], lexer: &Lexer<'_>) -> Result<(), Unclear> {
        if !self.functions.may_mean(word) {
            return Ok(());
        }
        match self.functions.meaning(word) {
            Some(Meaning::Call(kind)) if lexer.clone().token()? == Some(Token::Other(b'(')) => {
                match kind {
                    Kind::SetConfig => self.set_config(lexer)?,
                    Kind::RunsText => {
                        self.effects.runs_unseen();
                        self.add_code(code::run_texts(lexer, self.functions)?);
                    }
                    kind => call(kind, &mut self.effects),
                }
            }
            Some(Meaning::Catalogued) => {
                let effects = scan::catalogued(word, self.reads, lexer, self.functions)?;
                self.add_code(effects);
            }
            Some(Meaning::Execute) if names_statement(lexer)? => self.effects.names = true,
            Some(Meaning::Hold) if self.lead == Lead::Declare => {
                self.inexact().may_leave(Reason::Cursor);
            }
            Some(Meaning::Temporary) if makes_temporary(before) => self.temporary(),
            Some(Meaning::TemporarySchema) => self.temporary(),
            Some(Meaning::Language) if is_native(lexer)? => self.effects.leaves(Reason::Library),
            Some(Meaning::Settings) => self.effects.ask_all(),
            Some(Meaning::Statements) => self.effects.list_statements(),
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

    /// Handles `set_config('name', .., true)` without a parse: applications send it with each transaction, each time
    /// with another text.
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

    // --- code ---

    fn add_code(&mut self, effects: Effects) {
        let before = std::mem::take(&mut self.code.effects);
        self.code.effects = before.join(effects);
    }

    /// Handles a word of a statement that defines objects, or of a DO.
    fn code_word(&mut self, word: &[u8], lexer: &Lexer<'_>) -> Result<(), Unclear> {
        let is = |known: &[u8]| word.eq_ignore_ascii_case(known);
        if is(b"language") {
            self.code.language = match lexer.clone().token()? {
                Some(Token::Word(name) | Token::Quoted(name)) => Some(name.to_vec()),
                Some(Token::Text(name)) => code::unquoted(name).map(Cow::into_owned),
                _ => None,
            };
        }
        if !self.creates {
            return Ok(());
        }
        self.code.defines |= scan::defines_code(word);
        if is(b"extension") {
            self.effects.runs_unseen();
        } else if is(b"atomic") {
            let functions = self.functions;
            let body = code::effects(b"sql", lexer.rest(), functions, &mut code::Seen::new());
            self.add_code(body);
        }
        if NAMED_BEHIND.iter().any(|known| is(known)) {
            self.code.awaits_name = true;
        } else if self.code.awaits_name && !NO_NAMES.iter().any(|known| is(known)) {
            let goes_on = lexer.clone().token()? == Some(Token::Other(b'.'));
            self.code.awaits_name = goes_on;
            if !goes_on {
                self.code.names.push(word.to_ascii_lowercase().into());
            }
        }
        Ok(())
    }

    /// Returns the effects of code that the statement runs or defines, once all of it was read.
    fn code(&mut self) -> Effects {
        let catalogue = self.functions.catalogue();
        let event = catalogue.on_definition();
        let event = event.filter(|_| matches!(self.lead, Lead::Create | Lead::Frees));
        for effects in [catalogue.always(), event].into_iter().flatten() {
            self.add_code(effects.clone());
        }
        let texts = std::mem::take(&mut self.code.texts);
        let otherwise: &[u8] = if self.lead == Lead::Do {
            b"plpgsql"
        } else {
            b"sql"
        };
        let language = self.code.language.take();
        let language = language.as_deref().unwrap_or(otherwise);
        for text in texts {
            let seen = &mut code::Seen::new();
            let body = code::unquoted(&text);
            let effects = body.map(|body| code::effects(language, &body, self.functions, seen));
            self.add_code(effects.unwrap_or_else(code::anything));
        }
        let mut effects = std::mem::take(&mut self.code.effects).of_objects();
        let names = std::mem::take(&mut self.code.names);
        let defined = effects.clone().join(self.effects.clone().of_objects());
        if self.creates && !names.is_empty() && !defined.is_harmless() {
            effects.defines.push(Definition {
                names,
                effects: defined,
            });
        }
        effects
    }

    fn temporary(&mut self) {
        self.inexact().may_leave(Reason::TemporaryObject);
    }

    /// Handles a name with Unicode escapes, which may be any name.
    fn hidden(&mut self) {
        let effects = self.inexact();
        effects.leaves(Reason::Unknown);
        effects.sequences(Sequences::Reads);
        effects.frees = true;
    }

    /// Reads the words of a DO body, in whatever language, inside strings or not.
    fn body(&mut self, body: &[u8]) {
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
            // Read with their arguments elsewhere.
            Some(Meaning::Call(Kind::RunsText | Kind::SetConfig) | Meaning::Catalogued) => {}
            Some(Meaning::Call(kind)) => call(kind, effects),
            Some(Meaning::Execute) => effects.names = true,
            Some(Meaning::Hold) => effects.may_leave(Reason::Cursor),
            Some(Meaning::Temporary | Meaning::TemporarySchema) => {
                effects.may_leave(Reason::TemporaryObject);
            }
            Some(Meaning::Listed) => effects.leaves(Reason::Function),
            Some(Meaning::Statements) => effects.list_statements(),
            // The server is asked about everything else anyway.
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

/// Words of a definition behind which an object's name stands.
const NAMED_BEHIND: [&[u8]; 12] = [
    b"aggregate",
    b"domain",
    b"function",
    b"into",
    b"on",
    b"operator",
    b"procedure",
    b"routine",
    b"table",
    b"to",
    b"type",
    b"view",
];

/// Words that may stand before that name, or instead of it.
const NO_NAMES: [&[u8]; 17] = [
    b"commit",
    b"conflict",
    b"delete",
    b"each",
    b"exists",
    b"if",
    b"insert",
    b"not",
    b"only",
    b"or",
    b"replace",
    b"row",
    b"select",
    b"statement",
    b"truncate",
    b"update",
    b"when",
];

/// Arguments of a `set_config` call that can be read.
struct Config {
    /// Name of the setting, in lower case.
    name: String,
    is_local: bool,
}

/// Reads the arguments. `None` unless the first and the last are plain constants and the name is not that of the seed.
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

/// Adds the effects of DEALLOCATE. Effects of SQL-level EXECUTE during a pin are only found when the pin ends.
pub(crate) fn deallocate(effects: &mut Effects) {
    effects.frees = true;
    effects.names = true;
    effects.runs_unseen();
}

/// Adds the effects of a LOAD; the server reports if it has loaded a library.
pub(crate) fn load(effects: &mut Effects) {
    effects.may_leave(Reason::Library);
    effects.ask_all();
}

/// Adds the effects of a built-in function, whatever its arguments.
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
