//! Answers of the other database, read to their end and compared with those of the client.

use std::io::{self, Read};
use std::time::Duration;

use weir_session::mirrored::{Outcome, ROW_MAX, row_hash, rows_of};
use weir_wire::backend::{ErrorFields, tag};
use weir_wire::frame::{HEADER_LEN, Side, header};

use super::counts::Compared;

/// Longest message other than a row that is read, in bytes; of a longer one, what is behind is ignored.
const READ_MAX: usize = 64 * 1024;

/// Types whose sums depend on the order of the rows: `float4` and `float8`.
const FLOATS: [u32; 2] = [700, 701];

/// Answer to one request, up to ReadyForQuery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) rows: u64,
    /// Sum of the hashes of the rows.
    pub(super) sum: u64,
    /// True if a row was too long for the sum, or has a column of a type that cannot be compared.
    pub(super) has_no_sum: bool,
    /// SQLSTATE of the first error, and its text.
    pub(super) error: Option<([u8; 5], String)>,
    /// True if the database waits for the data of a COPY.
    pub(super) wants_copy: bool,
    pub(super) took: Duration,
}

impl Answer {
    /// Reads the answer to a request: messages up to ReadyForQuery, or up to a CopyInResponse.
    pub(super) fn read(from: &mut impl Read, body: &mut Vec<u8>) -> io::Result<Self> {
        let mut answer = Self::default();
        loop {
            let mut head = [0; HEADER_LEN];
            from.read_exact(&mut head)
                .map_err(|error| match answer.error.take() {
                    // The last word of the connection.
                    Some((code, text)) => {
                        let code = String::from_utf8_lossy(&code).into_owned();
                        io::Error::other(format!("{code}: {text}"))
                    }
                    None => error,
                })?;
            let header = header(&head, Side::Backend).map_err(io::Error::other)?;
            let header = header.ok_or(io::ErrorKind::InvalidData)?;
            let len = header.total_len() - HEADER_LEN;
            body.clear();
            let kept = len.min(READ_MAX.max(ROW_MAX));
            from.take(kept as u64).read_to_end(body)?;
            if body.len() < kept {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if kept < len {
                let rest = (len - kept) as u64;
                if io::copy(&mut from.take(rest), &mut io::sink())? < rest {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            if answer.take(header.tag, body, len) {
                return Ok(answer);
            }
        }
    }

    /// Takes one message. True at the end.
    fn take(&mut self, tag: u8, body: &[u8], len: usize) -> bool {
        match tag {
            tag::DATA_ROW if len > ROW_MAX => self.has_no_sum = true,
            tag::DATA_ROW => self.sum = self.sum.wrapping_add(row_hash(body)),
            tag::ROW_DESCRIPTION => self.has_no_sum |= has_floats(body),
            tag::COMMAND_COMPLETE => self.rows += rows_of(body),
            tag::ERROR_RESPONSE if self.error.is_none() => self.error = Some(error(body)),
            tag::COPY_IN_RESPONSE | tag::COPY_BOTH_RESPONSE => {
                self.wants_copy = true;
                return true;
            }
            tag::READY_FOR_QUERY => return true,
            _ => {}
        }
        false
    }

    /// Compares the answer with what the client got. None if neither tells anything about the statement.
    pub(super) fn compare(&self, client: &Outcome, has_same_rows: bool) -> Option<Compared> {
        match (&client.code, &self.error) {
            (code, Some((of_mirror, _)))
                if !tells(of_mirror) && code.as_ref() != Some(of_mirror) =>
            {
                None
            }
            (Some(code), _) if !tells(code) => None,
            (Some(code), Some((of_mirror, _))) if code == of_mirror => Some(Compared::Same),
            (None, None) => {
                let is_comparable = has_same_rows && !self.has_no_sum;
                let (rows, of_mirror) = (client.rows, self.rows);
                Some(match client.sum {
                    _ if client.is_partial => return None,
                    _ if rows != of_mirror => Compared::Counts(rows, of_mirror),
                    Some(sum) if is_comparable && sum != self.sum => Compared::Rows,
                    _ => Compared::Same,
                })
            }
            (code, error) => {
                let shown = error
                    .as_ref()
                    .map(|(code, text)| format!("{}: {text}", String::from_utf8_lossy(code)));
                Some(Compared::Errors(*code, shown))
            }
        }
    }
}

/// True if an error tells about the statement: not about the state of a connection, of a host, of other transactions, or of a
/// transaction that has failed before.
fn tells(code: &[u8; 5]) -> bool {
    !matches!(
        code,
        [b'0', b'8', ..] | [b'5', b'3' | b'7' | b'8', ..] | [b'4', b'0', ..]
    ) && code != b"25006"
        && code != b"25P02"
}

fn error(body: &[u8]) -> ([u8; 5], String) {
    let fields = ErrorFields::parse(body).ok();
    let code = fields.as_ref().and_then(|fields| fields.get(b'C'));
    let code = code.and_then(|code| code.try_into().ok());
    let text = fields.as_ref().and_then(ErrorFields::message);
    let text = String::from_utf8_lossy(text.unwrap_or_default()).into_owned();
    (code.unwrap_or(*b"XX000"), text)
}

/// True if a RowDescription has a column of a type whose sums depend on the order of the rows.
fn has_floats(body: &[u8]) -> bool {
    let mut rest = body.get(2..).unwrap_or_default();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        // Behind the name: table, column, type, length, modifier, format.
        let fields = rest.get(end + 1..end + 19);
        let kind = fields.and_then(|fields| fields.get(6..10)?.try_into().ok());
        if kind.is_some_and(|kind| FLOATS.contains(&u32::from_be_bytes(kind))) {
            return true;
        }
        rest = rest.get(end + 19..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let len = u32::try_from(body.len() + 4).unwrap();
        [&[tag], &len.to_be_bytes()[..], body].concat()
    }

    fn outcome(rows: u64, sum: Option<u64>, code: Option<&[u8; 5]>) -> Outcome {
        Outcome {
            rows,
            sum,
            code: code.copied(),
            ..Outcome::default()
        }
    }

    fn column(name: &str, kind: u32) -> Vec<u8> {
        let rest = [&[0; 6][..], &kind.to_be_bytes(), &[0; 8]].concat();
        [name.as_bytes(), &[0], &rest].concat()
    }

    #[test]
    fn an_answer_is_read_to_its_end() {
        let stream = [
            message(b'1', b""),
            message(b'2', b""),
            message(b'D', b"one"),
            message(b'D', b"two"),
            message(b'C', b"SELECT 2\0"),
            message(b'Z', b"I"),
            message(b'D', b"next"),
        ];
        let mut stream = &stream.concat()[..];
        let answer = Answer::read(&mut stream, &mut Vec::new()).unwrap();
        assert_eq!((answer.rows, answer.error), (2, None));
        assert_eq!(answer.sum, row_hash(b"one").wrapping_add(row_hash(b"two")));
        assert_eq!(stream.len(), 9);
        assert!(Answer::read(&mut &stream[..3], &mut Vec::new()).is_err());
        assert!(Answer::read(&mut &message(b'Z', b"I")[..5], &mut Vec::new()).is_err());
    }

    #[test]
    fn answers_differ_in_errors_counts_or_rows() {
        let mut answer = Answer {
            rows: 2,
            sum: 7,
            ..Answer::default()
        };
        let compare = |answer: &Answer, client: &Outcome| answer.compare(client, true);
        assert_eq!(
            compare(&answer, &outcome(2, Some(7), None)),
            Some(Compared::Same)
        );
        assert_eq!(
            compare(&answer, &outcome(2, None, None)),
            Some(Compared::Same)
        );
        assert_eq!(
            compare(&answer, &outcome(2, Some(8), None)),
            Some(Compared::Rows)
        );
        assert_eq!(
            answer.compare(&outcome(2, Some(8), None), false),
            Some(Compared::Same)
        );
        assert_eq!(
            compare(&answer, &outcome(3, None, None)),
            Some(Compared::Counts(3, 2))
        );
        let failed = outcome(0, None, Some(b"22012"));
        assert_eq!(
            compare(&answer, &failed),
            Some(Compared::Errors(Some(*b"22012"), None))
        );
        let partial = Outcome {
            is_partial: true,
            ..outcome(1, None, None)
        };
        assert_eq!(compare(&answer, &partial), None);
        answer.has_no_sum = true;
        assert_eq!(
            compare(&answer, &outcome(2, Some(8), None)),
            Some(Compared::Same)
        );
        for (code, expected) in [
            (b"22012", Some(Compared::Same)),
            (
                b"42P01",
                Some(Compared::Errors(
                    Some(*b"22012"),
                    Some("42P01: x".to_owned()),
                )),
            ),
            (b"57P01", None),
            (b"25006", None),
            (b"40001", None),
        ] {
            answer.error = Some((*code, "x".to_owned()));
            assert_eq!(compare(&answer, &failed), expected, "{code:?}");
        }
    }

    #[test]
    fn columns_of_floats_are_found() {
        let of = |kinds: &[u32]| {
            let count = u16::try_from(kinds.len()).unwrap().to_be_bytes();
            let columns = kinds.iter().map(|kind| column("c", *kind));
            [count.to_vec(), columns.flatten().collect()].concat()
        };
        assert!(!has_floats(&of(&[23, 25, 1700])));
        assert!(has_floats(&of(&[23, 701])));
        assert!(has_floats(&of(&[700])));
        assert!(!has_floats(&of(&[])));
    }
}
