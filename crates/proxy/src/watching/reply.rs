//! Reply to a probe: one row of text, checked message by message. Pure.

use weir_watch::{Answer, Failure};
use weir_wire::backend::{DataRow, ReadyForQuery, TransactionStatus, tag};
use weir_wire::frame::{Frame, Side, frame, header};

use super::failure;

/// Maximum length of a message in a reply, in bytes: a host that is not PostgreSQL must not fill our memory.
const MESSAGE_MAX: usize = 30_000;

/// Reply that is being received.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// Contents of the row, once it has come.
    answer: Option<Answer>,
}

impl Reply {
    /// Reads the messages at the start of `input`. Returns the number of bytes read, and the answer once the server is
    /// ready again.
    ///
    /// # Errors
    /// The server reports an error, or sends something else than one row of a probe.
    pub(super) fn handle(&mut self, input: &[u8]) -> Result<(usize, Option<Answer>), Failure> {
        let mut at = 0;
        while let Some(message) = next(input.get(at..).unwrap_or_default())? {
            at += message.raw.len();
            if let Some(answer) = self.message(&message)? {
                return Ok((at, Some(answer)));
            }
        }
        Ok((at, None))
    }

    fn message(&mut self, message: &Frame<'_>) -> Result<Option<Answer>, Failure> {
        match message.header.tag {
            tag::DATA_ROW if self.answer.is_none() => self.answer = Some(parse(message.body)?),
            tag::DATA_ROW => return Err(failure::of_nonsense("the probe returned several rows")),
            tag::READY_FOR_QUERY => {
                let status = ReadyForQuery::parse(message.body);
                if status != Ok(ReadyForQuery(TransactionStatus::Idle)) {
                    return Err(failure::of_nonsense("the probe left a transaction open"));
                }
                let answer = self.answer.take();
                let none = || failure::of_nonsense("the probe returned no row");
                return answer.map(Some).ok_or_else(none);
            }
            tag::ROW_DESCRIPTION | tag::COMMAND_COMPLETE => {}
            other => aside(other, message.body)?,
        }
        Ok(None)
    }
}

/// Reads messages that may come between two probes. Returns the number of bytes read.
///
/// # Errors
/// The server ends the session, or sends a message that has no place there.
pub(super) fn between_probes(input: &[u8]) -> Result<usize, Failure> {
    let mut at = 0;
    while let Some(message) = next(input.get(at..).unwrap_or_default())? {
        at += message.raw.len();
        aside(message.header.tag, message.body)?;
    }
    Ok(at)
}

/// Handles a message that may come at any time.
fn aside(tag: u8, body: &[u8]) -> Result<(), Failure> {
    match tag {
        tag::NOTICE_RESPONSE | tag::PARAMETER_STATUS => Ok(()),
        tag::ERROR_RESPONSE => Err(failure::of_error(body)),
        other => {
            let text = format!("unexpected message of type '{}'", char::from(other));
            Err(failure::of_nonsense(&text))
        }
    }
}

fn parse(body: &[u8]) -> Result<Answer, Failure> {
    let row = DataRow::parse(body);
    let row = row.map_err(|error| failure::of_nonsense(&format!("malformed row: {error}")))?;
    let columns: Vec<_> = row.collect();
    Answer::parse(&columns).map_err(|error| failure::of_nonsense(&error.to_string()))
}

/// Returns the message at the start of `input`, if it is complete.
fn next(input: &[u8]) -> Result<Option<Frame<'_>>, Failure> {
    let nonsense = |error: weir_wire::frame::FrameError| failure::of_nonsense(&error.to_string());
    let head = header(input, Side::Backend).map_err(nonsense)?;
    if head.is_some_and(|head| head.total_len() > MESSAGE_MAX) {
        return Err(failure::of_nonsense("a message is too long for a probe"));
    }
    frame(input, Side::Backend).map_err(nonsense)
}
