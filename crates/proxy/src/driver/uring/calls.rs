//! Calls of the worker.

use std::io;
use std::time::Duration;

use weir_pool::Moment;
use weir_stats::Endpoint;

use super::super::{
    CHUNK, Chunk, Completion, Course, Driver, Flow, Key, LINGER, Owner, Reasons, Why,
};
use super::sending::make_room;
use super::{Conn, EVENTS_AHEAD, SHORT_WAIT, TRIM_EVERY, Uring};
use crate::socket::{Socket, Stream, Target, TcpOptions};
use crate::tls::Session;

impl Driver for Uring {
    fn set_options(&mut self, options: TcpOptions) {
        self.options = options;
    }

    fn set_spin(&mut self, spin: Duration) {
        self.spin = spin;
    }

    fn wait(&mut self, now: Moment, timeout: Option<Duration>) -> io::Result<()> {
        self.now = now;
        let mut timeout = timeout;
        if !self.closing.is_empty() {
            self.linger();
        }
        if now >= self.trim_at {
            self.trim_at = now.plus(TRIM_EVERY);
            self.ring.trim()?;
        }
        self.accepting.settle(&mut self.ring, now, self.suspended);
        self.send_all();
        self.settle_backlog();
        if !self.unsettled.is_empty() {
            self.settle();
        }
        if !self.closing.is_empty() || self.accepting.is_paused() {
            timeout = Some(timeout.unwrap_or(SHORT_WAIT).min(SHORT_WAIT));
        }
        let has_work = !self.ready.is_empty()
            || !self.drained.is_empty()
            || !self.connected.is_empty()
            || !self.detaching.is_empty()
            || (!self.suspended && self.accepting.has_some());
        if has_work {
            timeout = Some(Duration::ZERO);
        }
        self.events = 0;
        self.ring_wait(timeout)?;
        self.note_all();
        self.log_growth();
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Option<Completion> {
        if self.spare.is_taken() {
            self.spare = Chunk::with_room(CHUNK);
        }
        self.events += 1;
        if self.events > EVENTS_AHEAD && !self.to_send.is_empty() {
            self.events = 0;
            self.send_all();
            // A ring that is broken says so at the next wait, too.
            let _ = self.ring.submit();
        }
        self.next_noted()
    }

    #[inline]
    fn recycle(&mut self, chunk: Chunk) {
        let memory = chunk.into_memory();
        match memory.len() == CHUNK {
            true => self.spare = Chunk::from_memory(memory, 0),
            false => self.ring.give_back(memory),
        }
    }

    fn add(&mut self, stream: Stream, owner: Owner) -> io::Result<Key> {
        let key = self.insert(stream, owner, false)?;
        if let Some(conn) = self.conns.get_mut(key) {
            // A server that comes from another worker is used before an event tells of it: earlier bytes must be known
            // now.
            conn.has_unheard = matches!(owner, Owner::Server(_)) && conn.socket.has_news();
            if conn.said_bye {
                conn.queue(key, &mut self.ready);
            }
            conn.unsettle(key, &mut self.unsettled);
        }
        Ok(key)
    }

    fn connect(&mut self, target: &Target, owner: Owner) -> io::Result<Key> {
        let socket = Socket::connect(target, &self.options)?;
        let key = self.insert(socket.into(), owner, true)?;
        // A unix socket is connected at once.
        self.connected.push_back(key);
        Ok(key)
    }

    #[inline]
    fn send(&mut self, key: Key, bytes: &[u8]) -> Flow {
        let Some(conn) = self.conns.get_mut(key) else {
            return Flow::On;
        };
        if conn.broken.is_some() {
            return Flow::On;
        }
        if conn.outbox.is_empty() {
            if conn.outbox.capacity() == 0 {
                conn.outbox = self.ring.send_buffer();
            }
            if conn.sending.is_none() {
                self.to_send.push(key);
            }
        }
        if conn.tls.is_some() {
            return self.seal(key, bytes);
        }
        make_room(&mut conn.outbox, bytes.len());
        conn.outbox.extend_from_slice(bytes);
        conn.flow()
    }

    fn secure(&mut self, key: Key, session: Box<Session>) {
        // Bytes that came before are those of the handshake, or plain: they have been reported.
        if let Some(conn) = self.conns.get_mut(key) {
            conn.said_bye = session.is_closed();
            conn.tls = Some(session);
            if conn.said_bye {
                conn.queue(key, &mut self.ready);
            }
        }
    }

    fn unsent(&self, key: Key) -> usize {
        self.conns.get(key).map_or(0, Conn::unsent)
    }

    #[inline]
    fn is_drained(&mut self, key: Key) -> bool {
        let Some(conn) = self.conns.get_mut(key) else {
            return true;
        };
        let is_drained = conn.unsent() == 0 || conn.broken.is_some();
        conn.is_awaited |= !is_drained;
        is_drained
    }

    #[inline]
    fn is_full(&self, key: Key) -> bool {
        self.conns.get(key).is_some_and(|conn| conn.full)
    }

    fn local(&self, key: Key, unix_port: u16) -> Endpoint {
        let conn = self.conns.get(key);
        conn.map_or_else(Endpoint::default, |conn| conn.socket.local(unix_port))
    }

    #[inline]
    fn has_news(&self, key: Key) -> bool {
        self.conns.get(key).is_none_or(|conn| {
            !conn.pieces.is_empty()
                || conn.has_ended
                || conn.has_unheard
                || conn.broken.is_some()
                || conn
                    .tls
                    .as_ref()
                    .is_some_and(|tls| tls.has_partial_record())
        })
    }

    #[inline]
    fn stop(&mut self, key: Key, why: Why) {
        // The receive ends when something comes for a connection that is stopped: most are not stopped for long.
        if let Some(conn) = self.conns.get_mut(key) {
            conn.reasons.add(why);
        }
    }

    #[inline]
    fn go(&mut self, key: Key, why: Why) {
        if let Some(conn) = self.conns.get_mut(key)
            && conn.reasons.has(why)
        {
            conn.reasons.remove(why);
            conn.go_on(key, &mut self.ready, &mut self.unsettled);
        }
    }

    #[inline]
    fn clear_reasons(&mut self, key: Key) {
        if let Some(conn) = self.conns.get_mut(key)
            && !conn.reasons.is_empty()
        {
            conn.reasons = Reasons::default();
            conn.go_on(key, &mut self.ready, &mut self.unsettled);
        }
    }

    #[inline]
    fn reasons(&self, key: Key) -> Reasons {
        let conn = self.conns.get(key);
        conn.map_or_else(Reasons::default, |conn| conn.reasons)
    }

    fn suspend_all(&mut self) {
        self.suspended = true;
    }

    fn resume_all(&mut self) {
        self.suspended = false;
        for (key, conn) in &mut self.conns {
            conn.go_on(key, &mut self.ready, &mut self.unsettled);
        }
    }

    fn keep_awake(&mut self, key: Key) {
        if let Some(conn) = self.conns.get_mut(key) {
            conn.awake = true;
        }
    }

    fn close(&mut self, key: Key) {
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        if let Some(tls) = &mut conn.tls {
            let good_bye = tls.close();
            if conn.outbox.is_empty() && conn.sending.is_none() && !good_bye.is_empty() {
                self.to_send.push(key);
            }
            conn.outbox.extend_from_slice(&good_bye);
        }
        if conn.unsent() == 0 || conn.broken.is_some() {
            self.remove(key);
            return;
        }
        conn.course = Course::Closing;
        conn.owner = Owner::Nobody;
        conn.unsettle(key, &mut self.unsettled);
        self.closing.push((key, self.now.plus(LINGER)));
    }

    fn abort(&mut self, key: Key) {
        self.remove(key);
    }

    fn close_with(&mut self, key: Key, message: &[u8]) {
        self.send(key, message);
        if let Some(conn) = self.conns.get_mut(key)
            && let Some(tls) = &mut conn.tls
        {
            let good_bye = tls.close();
            conn.outbox.extend_from_slice(&good_bye);
        }
        self.flush_now(key);
        self.remove(key);
    }

    fn begin_detach(&mut self, key: Key) {
        let conn = self.conns.get_mut(key);
        let Some(conn) = conn.filter(|conn| conn.course == Course::Open) else {
            return;
        };
        conn.course = Course::Detaching;
        conn.unsettle(key, &mut self.unsettled);
        if conn.is_out() {
            self.detaching.push_back(key);
        }
    }

    #[inline]
    fn next_detached(&mut self) -> Option<Completion> {
        if self.detaching.is_empty() {
            return None;
        }
        self.detach_next()
    }

    fn stop_accepting_tcp(&mut self) {
        self.accepting
            .stop(&mut self.ring, |listener| !listener.is_unix());
    }

    fn stop_accepting(&mut self) {
        self.accepting.stop(&mut self.ring, |_| true);
    }
}
