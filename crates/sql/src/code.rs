//! Effects of code on its session: bodies of functions, procedures and DO blocks, as far as their words show.
//!
//! Code is never parsed. PL/pgSQL and SQL are read word by word. SQL that is built at run time is followed where it
//! consists of constants, quoted values and quoted names. Whatever cannot be followed may set anything
//! ([`Reason::Setting`]). So may other languages where they can reach the database.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::effects::Effects;
use crate::functions::{Functions, Kind, Meaning, NAME_MAX};
use crate::lex::{Lexer, Reading, Token, Unclear};
use crate::reason::Reason;
use crate::scan::{is_local_set, is_native, is_transactional_set, makes_temporary};
use crate::setting::{self, Setting};
use crate::{tree, words};

/// Maximum nesting of code in constants that is followed.
const DEPTH_MAX: usize = 4;
/// Maximum length of code that is read.
const CODE_MAX: usize = 1024 * 1024;
/// Placeholder for an unknown value or name. Not ASCII, so no setting and no function has this name.
const HOLE: char = '\u{25a1}';

/// Words of code, in lower case.
pub(crate) type Seen = HashSet<Box<[u8]>>;

/// Returns the effects of code in a language. Adds the words of SQL and PL/pgSQL to `seen`.
pub(crate) fn effects(
    language: &[u8],
    code: &[u8],
    functions: &Functions,
    seen: &mut Seen,
) -> Effects {
    let is = |name: &[u8]| language.eq_ignore_ascii_case(name);
    if is(b"internal") || is(b"c") {
        return Effects::default();
    }
    let kind = match language {
        _ if is(b"plpgsql") => Language::Plpgsql,
        _ if is(b"sql") => Language::Sql,
        _ if is_apart(language, code) => return Effects::default(),
        _ => return anything(),
    };
    let mut walk = Walk {
        functions,
        effects: Effects::default(),
        seen,
        reading: Reading::Standard,
        depth: 0,
    };
    walk.code(code, kind);
    // A backslash in a constant may or may not end it.
    let is_clear = code.iter().all(|byte| *byte != b'\\');
    if !is_clear {
        walk.reading = Reading::Escaping;
        walk.code(code, kind);
    }
    walk.effects
}

/// Returns a constant without its quotes; `None` if it has escapes that are not read.
pub(crate) fn unquoted(constant: &[u8]) -> Option<Cow<'_, [u8]>> {
    match constant {
        [b'\'', inner @ .., b'\''] => Some(undoubled(inner)),
        [b'e' | b'E', b'\'', inner @ .., b'\''] => unescaped(inner).map(Cow::Owned),
        [b'$', rest @ ..] => {
            let tag = rest.iter().position(|byte| *byte == b'$')? + 2;
            let inner = constant.get(tag..constant.len().checked_sub(tag)?)?;
            Some(Cow::Borrowed(inner))
        }
        _ => None,
    }
}

/// Returns the value of an `E''` literal's inside; `None` if it has numeric escapes.
fn unescaped(inner: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            // The second of two quotes.
            b'\'' => *bytes.next()?,
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'b' | b'f' => b' ',
                b'0'..=b'7' | b'x' | b'u' | b'U' => return None,
                other => *other,
            },
            other => *other,
        };
        text.push(byte);
    }
    Some(text)
}

fn undoubled(inner: &[u8]) -> Cow<'_, [u8]> {
    if !inner.contains(&b'\'') {
        return Cow::Borrowed(inner);
    }
    let mut text = Vec::with_capacity(inner.len());
    let mut is_second = false;
    for byte in inner {
        is_second = *byte == b'\'' && !is_second;
        if !is_second {
            text.push(*byte);
        }
    }
    Cow::Owned(text)
}

/// True if code of a known language contains no word by which it could reach the database or run generated code.
fn is_apart(language: &[u8], code: &[u8]) -> bool {
    let reaches: &[&[u8]] = match language.to_ascii_lowercase().as_slice() {
        b"plperl" | b"plperlu" | b"pltcl" | b"pltclu" => &[
            b"spi_", b"eval", b"_shared", b"require", b"subst", b"uplevel", b"apply", b"&{", b"&$",
            b"->(", b"{*}",
        ],
        b"plpython3u" | b"plpython2u" | b"plpythonu" => &[
            b"plpy", b"eval", b"exec", b"import", b"attr", b"globals", b"sd", b"gd",
        ],
        _ => return false,
    };
    let code = code.to_ascii_lowercase();
    let holds = |part: &[u8]| code.windows(part.len()).any(|window| window == part);
    !reaches.iter().any(|part| holds(part))
}

/// Returns the effects of code that cannot be read.
pub(crate) fn anything() -> Effects {
    let mut effects = Effects::default();
    effects.leaves(Reason::Setting);
    effects
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Plpgsql,
    Sql,
}

/// Reads code word by word.
struct Walk<'a> {
    functions: &'a Functions,
    effects: Effects,
    seen: &'a mut Seen,
    reading: Reading,
    depth: usize,
}

impl Walk<'_> {
    fn code(&mut self, code: &[u8], language: Language) {
        if self.depth > DEPTH_MAX || code.len() > CODE_MAX {
            return self.effects.leaves(Reason::Setting);
        }
        self.depth += 1;
        if self.tokens(code, language).is_err() {
            self.effects.leaves(Reason::Setting);
        }
        self.depth -= 1;
    }

    fn tokens(&mut self, code: &[u8], language: Language) -> Result<(), Unclear> {
        let mut lexer = Lexer::new(code, self.reading);
        let (mut before, mut lead): (&[u8], &[u8]) = (b"", b"");
        let mut starts = true;
        while let Some(token) = lexer.token()? {
            let mut begins = token == Token::Other(b';') || token == Token::Other(b'>');
            match token {
                Token::Word(word) | Token::Quoted(word) => {
                    if starts && token == Token::Word(word) {
                        lead = word;
                        self.statement(word, &lexer, language)?;
                    }
                    self.word((word, before), &lexer)?;
                    if language == Language::Plpgsql && word.eq_ignore_ascii_case(b"execute") {
                        self.execute(lexer.clone())?;
                    }
                    begins |= goes_on(word);
                    before = word;
                }
                Token::Unicode => self.effects.leaves(Reason::Setting),
                // The body of a DO block, or code that is being defined.
                Token::Text(text) if is_any(lead, &[b"do", b"create"]) => match unquoted(text) {
                    Some(code) => self.code(&code, Language::Plpgsql),
                    None => self.effects.leaves(Reason::Setting),
                },
                Token::Text(_) | Token::Other(_) => {}
            }
            starts = begins;
        }
        Ok(())
    }

    /// Handles the first word of a possible statement.
    fn statement(
        &mut self,
        word: &[u8],
        lexer: &Lexer<'_>,
        language: Language,
    ) -> Result<(), Unclear> {
        let is = |known: &[u8]| word.eq_ignore_ascii_case(known);
        if is(b"set") {
            if !is_transactional_set(lexer)? && !is_local_set(lexer)? {
                self.setting(setting::set(lexer.clone())?);
            }
        } else if is(b"reset") {
            self.setting(setting::reset(lexer.clone())?);
        } else if is(b"listen") {
            self.effects.may_leave(Reason::Listen);
        } else if is(b"prepare") {
            self.effects.may_leave(Reason::Prepared);
        } else if is(b"load") {
            if matches!(lexer.clone().token()?, Some(Token::Text(_))) {
                self.effects.leaves(Reason::Library);
            }
        } else if is(b"execute") && language == Language::Sql {
            self.effects.runs_unseen();
        }
        Ok(())
    }

    fn setting(&mut self, setting: Setting) {
        let effects = &mut self.effects;
        match setting {
            Setting::All => effects.runs_unseen(),
            Setting::One(name, true) if name == "seed" => effects.leaves(Reason::Seed),
            Setting::One(name, _) => tree::ask(&name, effects),
            Setting::Special(names) => names.iter().for_each(|name| tree::ask(name, effects)),
            Setting::Unknown => effects.leaves(Reason::Setting),
        }
    }

    fn word(&mut self, (word, before): (&[u8], &[u8]), lexer: &Lexer<'_>) -> Result<(), Unclear> {
        // PostgreSQL truncates names there.
        let word = word.get(..NAME_MAX).unwrap_or(word);
        self.seen.insert(word.to_ascii_lowercase().into());
        let is_call = || Ok(lexer.clone().token()? == Some(Token::Other(b'(')));
        if word == HOLE.to_string().as_bytes() && is_call()? {
            self.effects.leaves(Reason::Setting);
        }
        match self.functions.meaning(word) {
            Some(Meaning::Call(kind)) if is_call()? => match kind {
                Kind::SetConfig => self.set_config(lexer.clone())?,
                Kind::RunsText => self.runs_text(lexer.clone())?,
                kind => words::call(kind, &mut self.effects),
            },
            Some(Meaning::Catalogued) => {
                let found = self.functions.catalogue().any(word);
                self.effects = std::mem::take(&mut self.effects).join(found);
            }
            Some(Meaning::Hold) if before.eq_ignore_ascii_case(b"with") => {
                self.effects.may_leave(Reason::Cursor);
            }
            Some(Meaning::Temporary) if makes_temporary(before) => {
                self.effects.may_leave(Reason::TemporaryObject);
            }
            Some(Meaning::TemporarySchema) => self.effects.may_leave(Reason::TemporaryObject),
            Some(Meaning::Language) if is_native(lexer)? => self.effects.leaves(Reason::Library),
            Some(Meaning::Settings) => self.effects.ask_all(),
            Some(Meaning::Statements) => self.effects.list_statements(),
            Some(Meaning::Listed | Meaning::Unknown) => self.effects.leaves(Reason::Function),
            None
            | Some(
                Meaning::Call(_)
                | Meaning::Execute
                | Meaning::Hold
                | Meaning::Language
                | Meaning::Statistics
                | Meaning::Temporary,
            ) => {}
        }
        Ok(())
    }

    /// Handles the arguments of `set_config`, which may have casts.
    fn set_config(&mut self, mut lexer: Lexer<'_>) -> Result<(), Unclear> {
        lexer.token()?;
        let name = match lexer.token()? {
            Some(Token::Text(name)) => unquoted(name).map(Cow::into_owned),
            _ => None,
        };
        let name = name.and_then(|name| String::from_utf8(name).ok());
        let name = name.filter(|name| name.is_ascii() && is_end_of_argument(&mut lexer));
        let Some(name) = name.map(|name| name.to_ascii_lowercase()) else {
            self.effects.leaves(Reason::Setting);
            return Ok(());
        };
        if name == "seed" {
            self.effects.leaves(Reason::Seed);
        } else if !is_last_true(&mut lexer)? {
            tree::ask(&name, &mut self.effects);
        }
        Ok(())
    }

    /// Handles `query_to_xml('..')` and similar functions.
    fn runs_text(&mut self, lexer: Lexer<'_>) -> Result<(), Unclear> {
        match constant_arguments(lexer)? {
            Some(texts) => texts.iter().for_each(|text| self.code(text, Language::Sql)),
            None => self.effects.leaves(Reason::Setting),
        }
        Ok(())
    }

    /// Handles PL/pgSQL's EXECUTE.
    fn execute(&mut self, mut lexer: Lexer<'_>) -> Result<(), Unclear> {
        match lexer.clone().token()? {
            // Names a trigger's function, or a privilege.
            Some(Token::Word(word)) if is_any(word, &[b"function", b"procedure", b"on"]) => Ok(()),
            _ => {
                match made_text(&mut lexer)? {
                    Some(text) => self.code(text.as_bytes(), Language::Sql),
                    None => self.effects.leaves(Reason::Setting),
                }
                Ok(())
            }
        }
    }
}

/// Returns the effects of a call that runs its text arguments.
pub(crate) fn run_texts(lexer: &Lexer<'_>, functions: &Functions) -> Result<Effects, Unclear> {
    let Some(texts) = constant_arguments(lexer.clone())? else {
        return Ok(anything());
    };
    let seen = &mut Seen::new();
    let each = texts
        .iter()
        .map(|text| effects(b"sql", text, functions, seen));
    Ok(each.fold(Effects::default(), Effects::join))
}

/// Returns the text arguments of a call, if all arguments are constants.
fn constant_arguments(mut lexer: Lexer<'_>) -> Result<Option<Vec<Vec<u8>>>, Unclear> {
    lexer.token()?;
    let mut texts = Vec::new();
    let mut is_cast = false;
    loop {
        match lexer.token()? {
            Some(Token::Other(b')')) => return Ok(Some(texts)),
            Some(Token::Other(b',')) => is_cast = false,
            Some(Token::Other(b':')) => is_cast = true,
            Some(Token::Other(b'0'..=b'9')) => {}
            Some(Token::Text(text)) => match unquoted(text) {
                Some(text) => texts.push(text.into_owned()),
                None => return Ok(None),
            },
            Some(Token::Other(b'.') | Token::Word(_) | Token::Quoted(_)) if is_cast => {}
            Some(Token::Word(word)) if is_any(word, &[b"true", b"false", b"null"]) => {}
            _ => return Ok(None),
        }
    }
}

/// Returns the first argument of a call, if it is a constant.
fn constant_argument(mut lexer: Lexer<'_>) -> Result<Option<Vec<u8>>, Unclear> {
    lexer.token()?;
    let text = match lexer.token()? {
        Some(Token::Text(text)) => unquoted(text).map(Cow::into_owned),
        _ => None,
    };
    Ok(text.filter(|_| is_end_of_argument(&mut lexer)))
}

/// Skips `::text` and the comma or parenthesis behind an argument. Returns false if anything else follows.
fn is_end_of_argument(lexer: &mut Lexer<'_>) -> bool {
    let mut is_cast = false;
    loop {
        match lexer.token() {
            Ok(Some(Token::Other(b',' | b')'))) => return true,
            Ok(Some(Token::Other(b':'))) => is_cast = true,
            Ok(Some(Token::Other(b'.') | Token::Word(_) | Token::Quoted(_))) if is_cast => {}
            _ => return false,
        }
    }
}

/// Skips to the end of a call. Returns true if its last argument is the constant `true`.
fn is_last_true(lexer: &mut Lexer<'_>) -> Result<bool, Unclear> {
    let (mut depth, mut is_true, mut is_first) = (0_usize, false, true);
    while let Some(token) = lexer.token()? {
        match token {
            Token::Other(b'(' | b'[') => depth += 1,
            Token::Other(b')') if depth == 0 => return Ok(is_true),
            Token::Other(b')' | b']') => depth = depth.saturating_sub(1),
            Token::Other(b',') if depth == 0 => {
                (is_first, is_true) = (true, false);
                continue;
            }
            Token::Word(word) if is_first && depth == 0 => {
                is_true = word.eq_ignore_ascii_case(b"true");
            }
            // Anything but a cast changes the value.
            Token::Other(b':' | b'.') | Token::Word(_) if depth == 0 => {}
            _ => is_true = false,
        }
        is_first = false;
    }
    Ok(false)
}

/// Returns the text behind EXECUTE as far as it is known, with a [`HOLE`] for each value and name.
fn made_text(lexer: &mut Lexer<'_>) -> Result<Option<String>, Unclear> {
    let mut text = String::new();
    loop {
        let Some(piece) = piece(lexer)? else {
            return Ok(None);
        };
        text.push_str(&piece);
        match lexer.token()? {
            Some(Token::Other(b'|')) => {}
            None | Some(Token::Other(b';')) => return Ok(Some(text)),
            Some(Token::Word(word)) if is_any(word, &[b"into", b"using", b"loop"]) => {
                return Ok(Some(text));
            }
            Some(_) => return Ok(None),
        }
        // Skips the second half of `||`.
        let mut ahead = lexer.clone();
        if ahead.token()? == Some(Token::Other(b'|')) {
            *lexer = ahead;
        }
    }
}

fn piece(lexer: &mut Lexer<'_>) -> Result<Option<String>, Unclear> {
    let function = match lexer.token()? {
        Some(Token::Text(text)) => {
            let text = unquoted(text).map(Cow::into_owned);
            return Ok(text.and_then(|text| String::from_utf8(text).ok()));
        }
        Some(Token::Word(function)) => function,
        _ => return Ok(None),
    };
    let arguments = lexer.clone();
    if lexer.token()? != Some(Token::Other(b'(')) {
        return Ok(None);
    }
    skip_arguments(lexer)?;
    Ok(match function.to_ascii_lowercase().as_slice() {
        b"quote_literal" | b"quote_nullable" => Some(format!("'{HOLE}'")),
        b"quote_ident" => Some(format!("\"{HOLE}\"")),
        b"format" => {
            let template = constant_argument(arguments)?;
            let template = template.and_then(|text| String::from_utf8(text).ok());
            template.and_then(|template| formatted(&template))
        }
        _ => None,
    })
}

fn skip_arguments(lexer: &mut Lexer<'_>) -> Result<(), Unclear> {
    let mut depth = 1_usize;
    while depth > 0 {
        match lexer.token()? {
            Some(Token::Other(b'(')) => depth += 1,
            Some(Token::Other(b')')) => depth -= 1,
            Some(_) => {}
            None => break,
        }
    }
    Ok(())
}

/// Returns the result of `format` for a template that contains only values and names (`%L`, `%I`).
fn formatted(template: &str) -> Option<String> {
    let mut text = String::new();
    let mut letters = template.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let mut kind = letters.next()?;
        while kind.is_ascii_digit() || matches!(kind, '$' | '-') {
            kind = letters.next()?;
        }
        match kind {
            '%' => text.push('%'),
            'I' => {
                text.push('"');
                text.push(HOLE);
                text.push('"');
            }
            'L' => {
                text.push('\'');
                text.push(HOLE);
                text.push('\'');
            }
            _ => return None,
        }
    }
    Some(text)
}

/// True for words of PL/pgSQL behind which a statement begins.
fn goes_on(word: &[u8]) -> bool {
    is_any(word, &[b"begin", b"else", b"loop", b"then", b"atomic"])
}

fn is_any(word: &[u8], known: &[&[u8]]) -> bool {
    known.iter().any(|known| word.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Asks;

    fn of(language: &str, code: &str) -> Effects {
        let functions = Functions::default();
        effects(
            language.as_bytes(),
            code.as_bytes(),
            &functions,
            &mut Seen::new(),
        )
    }

    #[track_caller]
    fn asks(code: &str, names: &[&str]) {
        let effects = of("plpgsql", code);
        assert_eq!(effects.asks, Asks::of(names), "{code}");
        assert!(effects.certain.is_empty(), "{code}");
    }

    #[test]
    fn names_in_code_are_found() {
        asks(
            "begin perform set_config('app.tenant', $1, false); end",
            &["app.tenant"],
        );
        asks(
            "begin return set_config('App.Tenant'::text, x, is_local); end",
            &["app.tenant"],
        );
        asks("begin set app.tenant = 'A'; end", &["app.tenant"]);
        asks(
            "begin if a then set work_mem to '1MB'; end if; end",
            &["work_mem"],
        );
        asks(
            "begin execute 'set app.tenant to ''A'''; end",
            &["app.tenant"],
        );
        asks(
            "begin execute 'se' || 't app.tenant to ' || quote_literal(a); end",
            &["app.tenant"],
        );
        asks(
            "begin execute format('SET app.tenant = %L', a); end",
            &["app.tenant"],
        );
        asks(
            "begin execute format('SELECT set_config(''a.b'', %1$L, false)', a); end",
            &["a.b"],
        );
        asks(
            "begin execute $x$select set_config('a.b', 'c', false)$x$ into y; end",
            &["a.b"],
        );
        asks("begin reset app.tenant; end", &["app.tenant"]);
        asks(
            r"begin execute e'set app.tenant to \'A\''; end",
            &["app.tenant"],
        );
    }

    #[test]
    fn code_that_sets_nothing_is_harmless() {
        for code in [
            "begin perform set_config('app.tenant', $1, true); end",
            "begin perform set_config('app.tenant', f(a, b), true); end",
            "begin set local app.tenant = 'A'; end",
            "begin update t set a = 1 where b = 2; return new; end",
            "-- set_config('a.b', 'c', false)\nbegin return 'set app.tenant'; end",
            "begin execute format('insert into %I values ($1)', name) using new; end",
            "begin execute 'insert into ' || quote_ident(name) || ' values (1)'; end",
            "begin for r in execute 'select 1' loop null; end loop; end",
            "select a from t where b = 'x\\y'",
        ] {
            assert_eq!(of("plpgsql", code), Effects::default(), "{code}");
        }
        assert_eq!(of("plperl", "return $_[0] + 1;"), Effects::default());
        assert_eq!(of("plpython3u", "return a + 1"), Effects::default());
        assert_eq!(of("c", "anything"), Effects::default());
    }

    #[test]
    fn code_that_cannot_be_followed_may_set_anything() {
        for code in [
            "begin perform set_config(name, value, false); end",
            "begin execute code; end",
            "begin execute format('%s', code); end",
            "begin execute format('set %I to 1', name); end",
            "begin execute format('select %I()', name); end",
            "begin execute 'set ' || name; end",
            "begin return query_to_xml(code, true, true, ''); end",
            "begin return 'no end; end",
        ] {
            assert!(
                of("plpgsql", code).certain.contains(Reason::Setting),
                "{code}"
            );
        }
        for (language, code) in [
            ("plperl", "spi_exec_query($_[0])"),
            ("plpython3u", "plpy.execute(a)"),
            ("plv8", "return 1"),
        ] {
            assert!(
                of(language, code).certain.contains(Reason::Setting),
                "{language}"
            );
        }
    }

    #[test]
    fn other_state_in_code_is_found() {
        let temporary = of("plpgsql", "begin create temp table t(a int); end");
        assert!(temporary.reasons.contains(Reason::TemporaryObject));
        let lock = of("sql", "select pg_advisory_lock(1)");
        assert!(lock.reasons.contains(Reason::AdvisoryLock));
    }
}
