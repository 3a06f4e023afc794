//! Inputs of statements: which kind one is, and its reader.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::progress::Progress;
use super::tally::Seen;
use super::{csvlog, digests, log};
use crate::args::InputKind;
use crate::route::split;

/// Number of bytes at the beginning that tell the kind.
const BEGIN: usize = 64 * 1024;

/// Input whose kind is known.
pub(super) struct Input {
    kind: InputKind,
    reader: BufReader<Progress<Box<dyn Read>>>,
}

/// Reason for which an input is not read to its end.
#[derive(Debug)]
pub(super) enum InputError {
    /// The operating system's reason.
    Io(io::Error),
    /// Mistake in the content, with the part of its place that follows the name of the file.
    Content(String),
}

impl From<io::Error> for InputError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl InputError {
    /// Creates a mistake in a line, from 1.
    pub(super) fn at(line: usize, message: impl std::fmt::Display) -> Self {
        Self::Content(format!(":{line}: {message}"))
    }
}

impl Input {
    /// Opens a file, or the standard input for `-`. Its beginning tells its kind unless it is given.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn open(path: &Path, kind: Option<InputKind>) -> io::Result<Self> {
        let (input, total): (Box<dyn Read>, _) = match path == Path::new("-") {
            true => (Box::new(io::stdin()), None),
            false => {
                let file = File::open(path)?;
                let total = file.metadata()?.len();
                (Box::new(file), Some(total))
            }
        };
        let mut reader = BufReader::with_capacity(BEGIN, Progress::new(input, total));
        let kind = match kind {
            Some(kind) => kind,
            None => kind_of(reader.fill_buf()?),
        };
        Ok(Self { kind, reader })
    }

    /// Kind of the input.
    pub(super) fn kind(&self) -> InputKind {
        self.kind
    }

    /// Calls `visit` with each text.
    ///
    /// # Errors
    /// The input cannot be read, or is not of its kind.
    pub(super) fn read(mut self, visit: &mut dyn FnMut(Seen<'_>)) -> Result<(), InputError> {
        match self.kind {
            InputKind::Digests => digests::read(&mut self.reader, visit),
            InputKind::Log => Ok(log::read(&mut self.reader, visit)?),
            InputKind::Csvlog => Ok(csvlog::read(&mut self.reader, visit)?),
            InputKind::Statements => statements(&mut self.reader, visit),
        }
    }
}

fn statements(reader: &mut dyn BufRead, visit: &mut dyn FnMut(Seen<'_>)) -> Result<(), InputError> {
    let mut text = String::new();
    reader.read_to_string(&mut text)?;
    let statements = split(&text).map_err(|mistake| InputError::at(mistake.line, mistake.fault))?;
    for statement in statements {
        visit(Seen {
            text: statement.text.as_bytes(),
            is_whole: true,
            calls: 1,
            ..Seen::default()
        });
    }
    Ok(())
}

/// Tells the kind of an input by its beginning.
fn kind_of(begin: &[u8]) -> InputKind {
    let mut bytes = begin.iter().filter(|byte| !byte.is_ascii_whitespace());
    if let (Some(b'['), Some(b'{' | b']')) = (bytes.next(), bytes.next()) {
        return InputKind::Digests;
    }
    if csvlog::is_csvlog(begin) {
        return InputKind::Csvlog;
    }
    match log::is_log(begin) {
        true => InputKind::Log,
        false => InputKind::Statements,
    }
}

/// Says why an input of this kind may have no statements.
pub(super) fn advice(kind: InputKind) -> &'static str {
    match kind {
        InputKind::Digests => "has no digests; a running Weir counts them unless digests = 0",
        InputKind::Log | InputKind::Csvlog => {
            "has no statements; PostgreSQL writes them with log_statement = all or \
             log_min_duration_statement = 0, and lc_messages must be English"
        }
        InputKind::Statements => "has no statements",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_tells_the_kind() {
        for (text, kind) in [
            ("\n[\n  {\"database\": \"shop\"}]", InputKind::Digests),
            ("[]", InputKind::Digests),
            ("[2026-11-01] LOG:  statement: SELECT 1\n", InputKind::Log),
            (
                "2026-11-01 UTC [7] LOG:  database system is ready\n",
                InputKind::Log,
            ),
            ("SELECT 1;\n-- LOG: none\n", InputKind::Statements),
            ("", InputKind::Statements),
        ] {
            assert_eq!(kind_of(text.as_bytes()), kind, "{text}");
        }
    }

    #[test]
    fn statements_are_split_as_for_routes() {
        let mut found = Vec::new();
        let mut visit =
            |seen: Seen<'_>| found.push(String::from_utf8_lossy(seen.text).into_owned());
        statements(&mut "SELECT ';';\nSELECT 2".as_bytes(), &mut visit).unwrap();
        assert_eq!(found, ["SELECT ';'", "SELECT 2"]);
        let mut nothing = |_: Seen<'_>| {};
        let refused = statements(&mut "SELECT 1;\nSELECT 'a".as_bytes(), &mut nothing);
        let Err(InputError::Content(mistake)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(mistake, ":2: a string has no end");
    }
}
