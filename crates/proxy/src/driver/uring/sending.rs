//! Sends, and the records of TLS in them.

use std::io::ErrorKind;

use super::super::secured::Records;
use super::super::{Flow, Key};
use super::{Conn, FULL, Uring, token};
use crate::tls::Session;

/// Number of bytes from which on the outbox grows by steps of as many, and no longer by doubling.
const STEP: usize = 16 * 1024;

/// Makes room for so many more bytes in an outbox. A peer that does not read keeps the memory for long.
#[inline]
pub(super) fn make_room(outbox: &mut Vec<u8>, len: usize) {
    let needed = outbox.len() + len;
    if needed > outbox.capacity().max(2 * STEP) {
        let room = needed.next_multiple_of(STEP);
        outbox.reserve_exact(room - outbox.len());
    }
}

impl Conn {
    /// Says if the connection takes more.
    #[inline]
    pub(super) fn flow(&mut self) -> Flow {
        if self.unsent() <= FULL {
            return Flow::On;
        }
        self.full = true;
        Flow::Full
    }
}

impl Uring {
    /// Seals bytes into TLS records, behind what is to be sent.
    pub(super) fn seal(&mut self, key: Key, bytes: &[u8]) -> Flow {
        let Some(conn) = self.conns.get_mut(key) else {
            return Flow::On;
        };
        let Some(tls) = conn.tls.as_deref_mut() else {
            return Flow::On;
        };
        for part in Records::parts(bytes) {
            let before = conn.outbox.len();
            make_room(&mut conn.outbox, Session::sealed_len_max(part.len()));
            conn.outbox
                .resize(before + Session::sealed_len_max(part.len()), 0);
            let room = conn.outbox.get_mut(before..).unwrap_or_default();
            match tls.seal(part, room) {
                Ok(len) => conn.outbox.truncate(before + len),
                Err(error) => {
                    tracing::debug!("TLS record could not be sealed: {error}");
                    conn.outbox.truncate(before);
                    conn.broken = Some(ErrorKind::InvalidData.into());
                    conn.queue(key, &mut self.ready);
                    return Flow::On;
                }
            }
        }
        conn.flow()
    }

    /// Gives the ring everything that is to be sent.
    #[inline]
    pub(super) fn send_all(&mut self) {
        let mut keys = std::mem::take(&mut self.to_send);
        for key in keys.drain(..) {
            let Some(conn) = self.conns.get_mut(key) else {
                continue;
            };
            if conn.sending.is_some() || conn.outbox.is_empty() {
                continue;
            }
            let (Some(token), Some(socket)) = (token(key), conn.socket.descriptor()) else {
                continue;
            };
            let bytes = std::mem::take(&mut conn.outbox);
            let len = bytes.len();
            conn.sending = self.ring.send(token, socket, bytes).map(|id| (id, len));
        }
        if self.to_send.is_empty() {
            self.to_send = keys;
        }
    }

    /// Sends what the socket takes at once, if no send is under way, and drops the rest.
    pub(super) fn flush_now(&mut self, key: Key) {
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        if conn.sending.is_none() && !conn.outbox.is_empty() {
            // The connection ends now, so nobody asks for the outcome.
            let _ = conn.socket.send(&conn.outbox);
            conn.outbox.clear();
        }
    }
}
