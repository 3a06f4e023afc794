//! Events of the ring, as they change connections.

use std::io::{self, ErrorKind};

use rustix::io::Errno;
use weir_ring::{Bytes, Event};

use super::super::Key;
use super::pieces::Piece;
use super::{Course, Hearing, Token, Uring, key_of};

impl Uring {
    /// Takes all events of the ring.
    pub(super) fn note_all(&mut self) {
        while let Some(event) = self.ring.next_event() {
            self.note(event);
        }
    }

    #[inline]
    fn note(&mut self, event: Event) {
        match event {
            Event::Received { token, bytes, more } => self.note_received(token, bytes, more),
            Event::Sent { token, outcome } => self.note_sent(key_of(token), outcome),
            Event::Polled { token, events } => self.note_polled(key_of(token), events),
            Event::Accepted {
                token,
                socket,
                more,
            } => self
                .accepting
                .note(token, (socket, more), &self.options, self.now),
            // The worker looks into its inbox in each turn.
            _ => {}
        }
    }

    #[inline]
    fn note_received(&mut self, token: Token, bytes: io::Result<Bytes>, more: bool) {
        let key = key_of(token);
        let Some(conn) = self.conns.get_mut(key) else {
            if let Ok(bytes) = bytes {
                self.ring.give_back(bytes.memory);
            }
            if !more {
                self.operation_over(key);
            }
            return;
        };
        if !more {
            conn.hearing = Hearing::Off;
        }
        conn.has_unheard = false;
        match bytes {
            Ok(bytes) if bytes.len == 0 => {
                conn.has_ended = true;
                conn.queue(key, &mut self.ready);
            }
            Ok(bytes) => {
                conn.floods = bytes.len >= self.small_len;
                if !conn.is_heard(self.suspended) || conn.floods && conn.hearing == Hearing::Armed {
                    conn.unsettle(key, &mut self.unsettled);
                }
                conn.pieces.push(Piece::received(bytes.memory, bytes.len));
                conn.queue(key, &mut self.ready);
            }
            // The kernel had no buffer, or was told to end: if the connection is received from, it begins again.
            Err(error) if is_harmless(&error) => conn.unsettle(key, &mut self.unsettled),
            Err(error) => {
                conn.broken = Some(error);
                conn.queue(key, &mut self.ready);
            }
        }
        if !more {
            // A receive may also end because completions overflowed.
            conn.unsettle(key, &mut self.unsettled);
            if conn.is_out() {
                self.detaching.push_back(key);
            }
        }
    }

    fn note_polled(&mut self, key: Key, events: io::Result<u32>) {
        let Some(conn) = self.conns.get_mut(key) else {
            return self.operation_over(key);
        };
        conn.is_polled = false;
        if conn.connecting {
            self.connected.push_back(key);
            return;
        }
        if conn.course == Course::Detaching {
            if conn.is_out() {
                self.detaching.push_back(key);
            }
            return;
        }
        // A connection that is received from tells its end there.
        if events.is_ok_and(|events| events != 0)
            && !conn.is_heard(self.suspended)
            && conn.hearing == Hearing::Off
        {
            conn.broken = Some(ErrorKind::ConnectionReset.into());
            conn.queue(key, &mut self.ready);
        }
    }

    #[inline]
    pub(super) fn note_sent(&mut self, key: Key, outcome: io::Result<()>) {
        let Some(conn) = self.conns.get_mut(key) else {
            return self.operation_over(key);
        };
        conn.sending = None;
        if let Err(error) = outcome {
            conn.broken = Some(error);
            conn.outbox = Vec::new();
            conn.queue(key, &mut self.ready);
        }
        if !conn.outbox.is_empty() {
            self.to_send.push(key);
            return;
        }
        if conn.full || conn.is_awaited {
            self.drained.push_back(key);
        }
        if conn.is_out() {
            self.detaching.push_back(key);
        }
    }

    /// Notes that an operation of a connection that is gone has ended.
    fn operation_over(&mut self, key: Key) {
        if let Some(gone) = self.gone.get_mut(&key) {
            gone.operations -= 1;
            if gone.operations == 0 {
                self.gone.remove(&key);
            }
        }
    }

    /// Logs that the kernel had too few receive buffers.
    pub(super) fn log_growth(&mut self) {
        let buffers = self.ring.counters().buffers;
        if buffers > self.buffers {
            self.buffers = buffers;
            tracing::info!("io_uring had too few receive buffers: there are {buffers} now");
        }
    }
}

/// True for errors that end a receive and say nothing about the connection.
fn is_harmless(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    [Errno::NOBUFS, Errno::CANCELED, Errno::INTR, Errno::AGAIN]
        .iter()
        .any(|harmless| number == Some(harmless.raw_os_error()))
}
