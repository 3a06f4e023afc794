//! Reader of PostgreSQL's log on stderr, line by line. `log_line_prefix` is passed over, whatever it is, and words of the server
//! must be English.

use std::io::{self, BufRead};

use super::tally::Seen;

/// Maximum length of a text in bytes; what follows is passed over.
const TEXT_MAX: usize = 1024 * 1024;

/// Words that begin a message. Only those of `LOG` have statements that ran.
const SEVERITIES: [&[u8]; 17] = [
    b"LOG",
    b"CONTEXT",
    b"DEBUG1",
    b"DEBUG2",
    b"DEBUG3",
    b"DEBUG4",
    b"DEBUG5",
    b"DETAIL",
    b"ERROR",
    b"FATAL",
    b"HINT",
    b"INFO",
    b"LOCATION",
    b"NOTICE",
    b"PANIC",
    b"QUERY",
    b"WARNING",
];
/// Begins the line with the statement of an error. It had a line of its own if it was logged, so it does not count.
const STATEMENT: &[u8] = b"STATEMENT";

/// Statement of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Logged<'t> {
    pub(super) text: &'t [u8],
    /// Microseconds that it took.
    pub(super) server_us: Option<u64>,
}

/// Calls `visit` with each text that the log says was executed.
///
/// # Errors
/// The log cannot be read.
pub(super) fn read(input: &mut dyn BufRead, visit: &mut dyn FnMut(Seen<'_>)) -> io::Result<()> {
    let mut pending: Option<Pending> = None;
    let mut line = Line::default();
    while line.read(input)? {
        match (&mut pending, line.bytes.strip_prefix(b"\t")) {
            (Some(pending), Some(more)) => pending.push(more, line.is_whole),
            // Goes on with a message that has no statement.
            (None, Some(_)) => {}
            (_, None) => {
                if let Some(done) = pending.take() {
                    done.visit(visit);
                }
                pending = begun(&line);
            }
        }
    }
    if let Some(done) = pending {
        done.visit(visit);
    }
    Ok(())
}

/// True if a text has a line of such a log.
pub(super) fn is_log(begin: &[u8]) -> bool {
    begin
        .split(|byte| *byte == b'\n')
        .any(|line| severity(line).is_some())
}

/// Text that may go on in the next line.
struct Pending {
    text: Vec<u8>,
    is_whole: bool,
    server_us: Option<u64>,
}

impl Pending {
    fn push(&mut self, more: &[u8], is_whole: bool) {
        let room = TEXT_MAX.saturating_sub(self.text.len() + 1);
        if !self.is_whole || room == 0 {
            self.is_whole = false;
            return;
        }
        self.text.push(b'\n');
        self.text
            .extend_from_slice(more.get(..room).unwrap_or(more));
        self.is_whole = is_whole && more.len() <= room;
    }

    fn visit(&self, visit: &mut dyn FnMut(Seen<'_>)) {
        visit(Seen {
            text: &self.text,
            is_whole: self.is_whole,
            calls: 1,
            server_us: self.server_us,
            ..Seen::default()
        });
    }
}

fn begun(line: &Line) -> Option<Pending> {
    let (word, rest) = severity(&line.bytes)?;
    let logged = (word == b"LOG").then(|| statement(rest)).flatten()?;
    Some(Pending {
        text: logged.text.to_vec(),
        is_whole: line.is_whole,
        server_us: logged.server_us,
    })
}

/// Line of bounded length, without its end.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    is_whole: bool,
}

impl Line {
    /// Reads the next line; false at the end of the input.
    fn read(&mut self, input: &mut dyn BufRead) -> io::Result<bool> {
        self.bytes.clear();
        self.is_whole = true;
        let mut has_begun = false;
        loop {
            let buffer = match input.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                return Ok(has_begun);
            }
            has_begun = true;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = end.and_then(|end| buffer.get(..end)).unwrap_or(buffer);
            let room = TEXT_MAX.saturating_sub(self.bytes.len());
            self.bytes
                .extend_from_slice(part.get(..room).unwrap_or(part));
            self.is_whole &= part.len() <= room;
            let used = part.len() + usize::from(end.is_some());
            input.consume(used);
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}

/// Splits a line behind its prefix: the word that begins its message, and the message.
fn severity(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    while let Some(colon) = find(line.get(at..)?, b":  ") {
        let before = line.get(..at + colon)?;
        let is_letter = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
        let begin = before.iter().rposition(|byte| !is_letter(byte));
        let word = before.get(begin.map_or(0, |begin| begin + 1)..)?;
        at += colon + 3;
        if SEVERITIES.contains(&word) || word == STATEMENT {
            return Some((word, line.get(at..)?));
        }
    }
    None
}

/// Returns the statement of a message of severity `LOG`. Messages about steps before the execution have none, and neither
/// have those about later fetches from a portal.
pub(super) fn statement(message: &[u8]) -> Option<Logged<'_>> {
    let (server_us, rest) = match message.strip_prefix(b"duration: ") {
        Some(timed) => {
            let end = find(timed, b" ms")?;
            let time = microseconds(timed.get(..end)?)?;
            (Some(time), timed.get(end + 3..)?.trim_ascii_start())
        }
        None => (None, message),
    };
    let text = match rest.strip_prefix(b"statement: ") {
        Some(text) => text,
        None => {
            let named = rest.strip_prefix(b"execute ")?;
            if named.starts_with(b"fetch from ") {
                return None;
            }
            named.get(find(named, b": ")? + 2..)?
        }
    };
    Some(Logged { text, server_us })
}

/// Reads milliseconds with three digits behind the point.
fn microseconds(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let part: u64 = format!("{part:0<3}").get(..3)?.parse().ok()?;
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(1000)?
        .checked_add(part)
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests;
