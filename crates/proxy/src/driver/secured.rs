//! Buffers to open and seal TLS records. Each worker has one set, so that a connection owns none.

use std::io::{self, ErrorKind};

use weir_tls::session::{Opened, TlsFault};

use crate::tls::Session;

/// Number of plain bytes sealed at once: as many as one receive brings.
const PART: usize = 64 * 1024;

/// Outcome of a read from a protected connection.
pub(super) enum TlsRead {
    /// The socket had no bytes.
    Nothing,
    /// A signal interrupted the call.
    Again,
    /// `len` plain bytes were opened. `more`: the socket may have more. `closed`: the peer has sent the closing alert.
    Opened {
        len: usize,
        more: bool,
        closed: bool,
    },
    /// The peer has closed, or the connection is broken.
    Ended(Option<io::Error>),
}

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Sealed records, as received and as sent.
    sealed: Vec<u8>,
    /// Records to be sent in answer to a read.
    answer: Vec<u8>,
}

impl Records {
    /// Reads records by `receive`, into the room that it is given, and opens them into `buffer`.
    #[inline]
    pub(super) fn read(
        &mut self,
        receive: impl FnOnce(&mut [u8]) -> io::Result<usize>,
        tls: &mut Session,
        buffer: &mut [u8],
    ) -> TlsRead {
        self.answer.clear();
        if self.sealed.len() < buffer.len() {
            self.sealed.resize(buffer.len(), 0);
        }
        // A record has fewer plain bytes than sealed ones, so records that fit here fit into the caller's buffer,
        // opened.
        let room = self.sealed.get_mut(..buffer.len()).unwrap_or_default();
        let kept = tls.take_partial(room);
        let received = receive(room.get_mut(kept..).unwrap_or_default());
        let count = match &received {
            Ok(0) if kept < room.len() => return TlsRead::Ended(None),
            Ok(count) => *count,
            Err(error) => {
                let outcome = match error.kind() {
                    ErrorKind::WouldBlock => TlsRead::Nothing,
                    ErrorKind::Interrupted => TlsRead::Again,
                    kind => return TlsRead::Ended(Some(kind.into())),
                };
                tls.put_back(room.get(..kept).unwrap_or_default());
                return outcome;
            }
        };
        let is_full = kept + count == room.len();
        let records = room.get_mut(..kept + count).unwrap_or_default();
        match tls.open(records, buffer, &mut self.answer) {
            Ok(opened) => TlsRead::Opened {
                len: opened.len,
                more: is_full,
                closed: opened.is_closed,
            },
            Err(fault) => TlsRead::Ended(Some(io::Error::other(fault))),
        }
    }

    /// Opens received records into `buffer`, in the memory where they are unless a record began in an earlier receive.
    pub(super) fn open(
        &mut self,
        received: &mut [u8],
        tls: &mut Session,
        buffer: &mut [u8],
    ) -> Result<Opened, TlsFault> {
        self.answer.clear();
        if !tls.has_partial_record() {
            return tls.open(received, buffer, &mut self.answer);
        }
        if self.sealed.len() < buffer.len() {
            self.sealed.resize(buffer.len(), 0);
        }
        let kept = tls.take_partial(&mut self.sealed);
        let end = kept + received.len();
        if self.sealed.len() < end {
            self.sealed.resize(end, 0);
        }
        let records = self.sealed.get_mut(..end).unwrap_or_default();
        if let Some(room) = records.get_mut(kept..) {
            room.copy_from_slice(received);
        }
        tls.open(records, buffer, &mut self.answer)
    }

    /// Returns the records to be sent after a read.
    #[inline]
    pub(super) fn answer(&self) -> &[u8] {
        &self.answer
    }

    /// Splits `bytes` into parts for [`Records::seal`].
    #[inline]
    pub(super) fn parts(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
        bytes.chunks(PART)
    }

    /// Seals one part. Returns its records.
    #[inline]
    pub(super) fn seal(&mut self, tls: &mut Session, part: &[u8]) -> Result<&[u8], TlsFault> {
        let len_max = Session::sealed_len_max(part.len());
        if self.sealed.len() < len_max {
            self.sealed.resize(len_max, 0);
        }
        let len = tls.seal(part, &mut self.sealed)?;
        Ok(self.sealed.get(..len).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::stub;

    #[test]
    fn a_receive_that_fills_the_room_behind_half_a_record_says_that_there_may_be_more() {
        let (mut far, near) = stub::pair();
        let mut near = Session::Stub(near);
        let mut sent = Vec::new();
        for part in [b"one", b"two"] {
            far.seal_one(part, &mut sent);
        }
        let mut records = Records::default();
        let mut buffer = [0; 8];
        let mut read = |count: usize, near: &mut Session| {
            let receive = |room: &mut [u8]| {
                let part: Vec<_> = sent.drain(..count.min(room.len())).collect();
                room[..part.len()].copy_from_slice(&part);
                Ok(part.len())
            };
            match records.read(receive, near, &mut buffer) {
                TlsRead::Opened { len, more, .. } => (buffer[..len].to_vec(), more),
                _ => panic!("nothing was opened"),
            }
        };
        assert_eq!(read(3, &mut near), (Vec::new(), false));
        assert_eq!(read(usize::MAX, &mut near), (b"one".to_vec(), true));
        assert_eq!(read(8, &mut near), (b"two".to_vec(), true));
    }
}
