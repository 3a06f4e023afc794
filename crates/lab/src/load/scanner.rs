//! Splits the byte stream of a server into messages. Rows are counted and discarded, never collected, so that ten
//! thousand waiting clients own no buffer.

use weir_wire::backend::tag;
use weir_wire::frame::{FrameError, HEADER_LEN, Side, header};

/// Maximum length of a message that is collected. Longer messages are error reports that nothing reads.
const COLLECTED_MAX: usize = 1 << 20;

/// State between two pieces of input.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    /// Beginning of a message whose rest has not arrived.
    partial: Vec<u8>,
    /// Remaining bytes of a message that is skipped.
    skip: usize,
    /// Bytes inside rows and COPY data so far.
    pub(super) payload: u64,
}

impl Scanner {
    /// Consumes all of `bytes` and calls `hear` with the tag and the body of each message. A message whose body is
    /// not needed is reported when it begins, with an empty body.
    ///
    /// # Errors
    /// A violation of PostgreSQL's protocol, or the first error of `hear`.
    pub(super) fn feed<E: From<FrameError>>(
        &mut self,
        mut bytes: &[u8],
        mut hear: impl FnMut(u8, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            if bytes.is_empty() {
                return Ok(());
            }
            if !self.partial.is_empty() {
                bytes = self.complete(bytes, &mut hear)?;
                continue;
            }
            let Some(head) = header(bytes, Side::Backend)? else {
                self.partial.extend_from_slice(bytes);
                return Ok(());
            };
            if !is_read(head.tag) || head.total_len() > COLLECTED_MAX {
                self.pass(head.tag, head.body_len());
                self.skip = head.total_len();
                hear(head.tag, &[])?;
                continue;
            }
            match bytes.split_at_checked(head.total_len()) {
                Some((message, rest)) => {
                    hear(head.tag, message.get(HEADER_LEN..).unwrap_or_default())?;
                    bytes = rest;
                }
                None => {
                    self.partial.extend_from_slice(bytes);
                    return Ok(());
                }
            }
        }
    }

    /// Continues the message in `partial`; returns the bytes after those that it took.
    fn complete<'a, E: From<FrameError>>(
        &mut self,
        bytes: &'a [u8],
        hear: &mut impl FnMut(u8, &[u8]) -> Result<(), E>,
    ) -> Result<&'a [u8], E> {
        let known = header(&self.partial, Side::Backend)?;
        let wanted = known.map_or(HEADER_LEN, |head| head.total_len());
        let missing = wanted.saturating_sub(self.partial.len()).min(bytes.len());
        let (taken, rest) = bytes.split_at(missing);
        self.partial.extend_from_slice(taken);
        let Some(head) = header(&self.partial, Side::Backend)? else {
            return Ok(rest);
        };
        if !is_read(head.tag) || head.total_len() > COLLECTED_MAX {
            self.pass(head.tag, head.body_len());
            self.skip = head.total_len() - self.partial.len();
            self.partial = Vec::new();
            hear(head.tag, &[])?;
        } else if self.partial.len() == head.total_len() {
            let message = std::mem::take(&mut self.partial);
            hear(head.tag, message.get(HEADER_LEN..).unwrap_or_default())?;
        }
        Ok(rest)
    }

    fn pass(&mut self, tag: u8, body_len: usize) {
        if matches!(tag, tag::DATA_ROW | tag::COPY_DATA) {
            self.payload += body_len as u64;
        }
    }
}

/// True if bodies of messages of this kind are needed.
fn is_read(tag: u8) -> bool {
    matches!(tag, tag::READY_FOR_QUERY | tag::ERROR_RESPONSE)
}

#[cfg(test)]
mod tests {
    use weir_wire::backend::TransactionStatus;
    use weir_wire::encode;

    use super::*;

    /// Returns the messages reported for input in pieces of this length.
    fn heard(bytes: &[u8], piece: usize) -> (Vec<(u8, Vec<u8>)>, u64) {
        let mut scanner = Scanner::default();
        let mut heard = Vec::new();
        for piece in bytes.chunks(piece) {
            let told = scanner.feed(piece, |tag, body| {
                heard.push((tag, body.to_vec()));
                Ok::<(), FrameError>(())
            });
            told.unwrap();
        }
        (heard, scanner.payload)
    }

    #[test]
    fn pieces_of_any_length_say_the_same() {
        let mut bytes = Vec::new();
        for row in [&b"one"[..], &[b'x'; 300]] {
            encode::data_row(&mut bytes, &[Some(row), None]).unwrap();
        }
        encode::error_response(&mut bytes, &[(b'C', b"40001")]).unwrap();
        encode::copy_data(&mut bytes, b"12345").unwrap();
        encode::command_complete(&mut bytes, b"SELECT 2").unwrap();
        encode::ready_for_query(&mut bytes, TransactionStatus::Idle).unwrap();
        let whole = heard(&bytes, bytes.len());
        let tags: Vec<u8> = whole.0.iter().map(|(tag, _)| *tag).collect();
        assert_eq!(tags, b"DDEdCZ");
        assert_eq!(whole.0[2].1, b"C40001\0\0");
        assert_eq!(whole.0[5].1, b"I");
        assert_eq!(whole.1, 2 * (2 + 4 + 4) + 303 + 5);
        for piece in 1..20 {
            assert_eq!(heard(&bytes, piece), whole, "pieces of {piece}");
        }
    }

    #[test]
    fn a_stranger_is_an_error() {
        let mut scanner = Scanner::default();
        let told = scanner.feed(b"HTTP/1.1", |_, _| Ok::<(), FrameError>(()));
        assert!(told.is_err());
    }
}
