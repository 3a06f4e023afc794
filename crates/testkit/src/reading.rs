//! Messages of a server, as values and as one readable line.

use std::fmt::Write;

use weir_wire::backend::{ErrorFields, NotificationResponse, ParameterStatus, tag};
use weir_wire::frame::{Side, frame};

/// Complete message of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'b> {
    /// The type byte.
    pub tag: u8,
    /// The bytes after the length.
    pub body: &'b [u8],
    /// All bytes of the message.
    pub raw: &'b [u8],
}

/// Splits bytes of a server into complete messages; the second value is the rest that is incomplete or does not
/// parse.
pub fn messages(mut bytes: &[u8]) -> (Vec<Message<'_>>, &[u8]) {
    let mut found = Vec::new();
    while let Ok(Some(frame)) = frame(bytes, Side::Backend) {
        found.push(Message {
            tag: frame.header.tag,
            body: frame.body,
            raw: frame.raw,
        });
        bytes = bytes.get(frame.raw.len()..).unwrap_or_default();
    }
    (found, bytes)
}

/// Sorts ParameterStatus messages that follow each other, since their order means nothing: PostgreSQL reports values in the
/// order in which a session changed them first. The second value is the length up to a last run that may go on.
#[must_use]
pub fn sort_reports(bytes: &[u8]) -> (Vec<u8>, usize) {
    sort_runs(bytes, tag::PARAMETER_STATUS, |report| report.raw)
}

/// Sorts each run of notifications by channel; those of one channel keep their order. Returns the bytes as
/// [`sort_reports`] does.
pub fn sort_channels(bytes: &[u8]) -> (Vec<u8>, usize) {
    // The body begins with the sender's process id, the channel and a zero byte.
    sort_runs(bytes, tag::NOTIFICATION_RESPONSE, |message| {
        let name = message.body.get(4..).unwrap_or_default();
        name.split(|byte| *byte == 0).next()
    })
}

/// Sorts each run of messages of one type by a key; see [`sort_reports`].
fn sort_runs<'a, K: Ord>(
    bytes: &'a [u8],
    tag: u8,
    key: impl Fn(&Message<'a>) -> K,
) -> (Vec<u8>, usize) {
    let (found, rest) = messages(bytes);
    let (mut sorted, mut run) = (Vec::with_capacity(bytes.len()), Vec::new());
    let end = |run: &mut Vec<Message<'a>>, sorted: &mut Vec<u8>| {
        run.sort_by_key(&key);
        sorted.extend(run.drain(..).flat_map(|message| message.raw));
    };
    for message in found {
        if message.tag == tag {
            run.push(message);
            continue;
        }
        end(&mut run, &mut sorted);
        sorted.extend_from_slice(message.raw);
    }
    let settled = sorted.len();
    end(&mut run, &mut sorted);
    sorted.extend_from_slice(rest);
    (sorted, settled)
}

/// Formats the messages in one line: type bytes, with the main detail in parentheses.
///
/// `1 2 D(x) C(SELECT 1) E(42601 syntax error) S(TimeZone=UTC) Z(I)`; an incomplete rest appears as `+N bytes`.
pub fn outline(bytes: &[u8]) -> String {
    let (found, rest) = messages(bytes);
    let mut line = String::new();
    for message in found {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push(char::from(message.tag));
        if let Some(detail) = detail(message) {
            // Writing to a string cannot fail.
            let _ = write!(line, "({detail})");
        }
    }
    if !rest.is_empty() {
        let _ = write!(line, " +{} bytes", rest.len());
    }
    line
}

/// Number of messages of a type.
pub fn count(bytes: &[u8], tag: u8) -> usize {
    let (found, _) = messages(bytes);
    found.iter().filter(|message| message.tag == tag).count()
}

fn detail(message: Message<'_>) -> Option<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match message.tag {
        tag::COMMAND_COMPLETE => message.body.strip_suffix(b"\0").map(text),
        tag::READY_FOR_QUERY | tag::COPY_DATA => Some(text(message.body).trim_end().to_owned()),
        // A single column: a two-byte count and a four-byte length come first.
        tag::DATA_ROW => message.body.get(6..).map(text),
        tag::PARAMETER_STATUS => {
            let status = ParameterStatus::parse(message.body).ok()?;
            Some(format!("{}={}", text(status.name), text(status.value)))
        }
        tag::NOTIFICATION_RESPONSE => {
            let told = NotificationResponse::parse(message.body).ok()?;
            Some(format!("{}: {}", text(told.channel), text(told.payload)))
        }
        tag::ERROR_RESPONSE | tag::NOTICE_RESPONSE => {
            let fields = ErrorFields::parse(message.body).ok()?;
            let field = |code| fields.get(code).map(text).unwrap_or_default();
            let severity = match field(b'V').as_str() {
                "FATAL" => "FATAL ",
                _ => "",
            };
            Some(format!("{severity}{} {}", field(b'C'), field(b'M')))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_shows_what_matters_and_what_is_left_over() {
        let bytes = b"1\0\0\0\x04C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05IZ\0\0";
        assert_eq!(outline(bytes), "1 C(SELECT 1) Z(I) +3 bytes");
        assert_eq!(count(bytes, b'Z'), 1);
    }
}
