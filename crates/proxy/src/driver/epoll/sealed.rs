//! TLS records over the sockets of this driver.

use std::io::ErrorKind;

use weir_tls::session::TlsFault;

use super::super::secured::{Records, TlsRead};
use super::super::{Completion, Flow, Key};
use super::Epoll;

impl Epoll {
    /// Seals bytes into TLS records and sends them.
    pub(super) fn send_sealed(&mut self, key: Key, bytes: &[u8]) -> Flow {
        let mut records = std::mem::take(&mut self.records);
        let mut flow = Flow::On;
        for part in Records::parts(bytes) {
            let Some(tls) = self
                .conns
                .get_mut(key)
                .and_then(|conn| conn.tls.as_deref_mut())
            else {
                break;
            };
            match records.seal(tls, part) {
                Ok(sealed) => flow = self.send_raw(key, sealed),
                Err(error) => {
                    self.break_off(key, &error);
                    flow = Flow::On;
                    break;
                }
            }
        }
        self.records = records;
        flow
    }

    /// Receives TLS records and opens them.
    pub(super) fn receive_sealed(&mut self, key: Key) -> Option<Completion> {
        let mut records = std::mem::take(&mut self.records);
        let conn = self.conns.get_mut(key)?;
        let owner = conn.owner;
        let read = match &mut conn.tls {
            Some(tls) => records.read(|room| conn.socket.receive(room), tls, self.spare.room()),
            None => TlsRead::Ended(None),
        };
        let completion = match read {
            TlsRead::Nothing => {
                conn.readable = false;
                None
            }
            TlsRead::Again => {
                conn.queued = true;
                self.ready.push_back(key);
                None
            }
            TlsRead::Opened { len, more, closed } => {
                conn.said_bye = closed;
                conn.readable = more || closed || conn.hung_up;
                if conn.readable {
                    conn.queued = true;
                    self.ready.push_back(key);
                }
                if !records.answer().is_empty() {
                    self.send_raw(key, records.answer());
                }
                (len > 0).then(|| Completion::Received(owner, self.spare.take(len)))
            }
            TlsRead::Ended(error) => {
                if !records.answer().is_empty() {
                    self.send_raw(key, records.answer());
                }
                self.end(key, error)
            }
        };
        self.records = records;
        completion
    }

    /// Marks a connection as broken after a TLS fault; its owner is told.
    fn break_off(&mut self, key: Key, error: &TlsFault) {
        tracing::debug!("TLS record could not be sealed: {error}");
        if let Some(conn) = self.conns.get_mut(key) {
            conn.broken = Some(ErrorKind::InvalidData);
            if !conn.queued {
                conn.queued = true;
                self.ready.push_back(key);
            }
        }
    }
}
