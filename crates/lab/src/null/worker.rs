//! Thread of the null backend: an event loop over its sessions.

use std::io;
use std::mem;
use std::net::TcpStream as StdStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::{Receiver, Sender};
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use rustls::ServerConfig;
use slab::Slab;

use crate::load::transport::{Got, Outgoing, Transport};
use crate::null::canned::Canned;
use crate::null::control::{Control, Gauges};
use crate::null::session::{Done, Session, Took, Turn};

const WAKER: Token = Token(usize::MAX - 1);
const LISTENER: Token = Token(usize::MAX - 2);

/// Size of the receive buffer.
const SCRATCH: usize = 64 * 1024;

/// State that all threads share.
pub(super) struct Common {
    pub(super) canned: Canned,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) control: Control,
}

/// Listener that hands connections to the threads in turn.
pub(super) struct Acceptor {
    pub(super) listener: TcpListener,
    /// Queue and waker of each thread, the accepting one included.
    pub(super) threads: Vec<(Sender<StdStream>, Arc<Waker>)>,
    pub(super) next: usize,
}

/// Thread of the null backend.
pub(super) struct Worker {
    pub(super) common: Arc<Common>,
    pub(super) number: usize,
    poll: Poll,
    accepted: Receiver<StdStream>,
    acceptor: Option<Acceptor>,
    connections: Slab<Connection>,
    scratch: Vec<u8>,
    done: Done,
    next_pid: u32,
}

struct Connection {
    transport: Transport,
    session: Session,
    /// Bytes that are not processed yet.
    input: Vec<u8>,
    out: Outgoing,
    /// True if the socket may have more bytes: an edge that is not used up.
    is_readable: bool,
}

/// Creates the poll and the waker of a thread, before the thread itself.
pub(super) fn poll() -> io::Result<(Poll, Arc<Waker>)> {
    let poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
    Ok((poll, waker))
}

impl Worker {
    pub(super) fn new(
        common: Arc<Common>,
        number: usize,
        poll: Poll,
        accepted: Receiver<StdStream>,
        acceptor: Option<Acceptor>,
    ) -> io::Result<Self> {
        let mut acceptor = acceptor;
        if let Some(acceptor) = &mut acceptor {
            let listener = &mut acceptor.listener;
            poll.registry()
                .register(listener, LISTENER, Interest::READABLE)?;
        }
        Ok(Self {
            common,
            number,
            poll,
            accepted,
            acceptor,
            connections: Slab::new(),
            scratch: vec![0; SCRATCH],
            done: Done::default(),
            // Cancel keys are not looked at; the ids only have to differ.
            next_pid: u32::try_from(number).unwrap_or(0) + 1,
        })
    }

    /// Runs until told to stop.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let common = Arc::clone(&self.common);
        let gauges = common.control.gauges(self.number);
        loop {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            common.control.pass();
            if common.control.is_stopped() {
                return Ok(());
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    WAKER => {}
                    Token(key) => self.event(key, event),
                }
            }
            // Includes the connections that this thread has just accepted for itself.
            while let Ok(stream) = self.accepted.try_recv() {
                self.take(stream);
            }
            self.publish(gauges);
        }
    }

    fn publish(&self, gauges: &Gauges) {
        let open = self.connections.len() as u64;
        gauges.connected.store(open, Ordering::Relaxed);
        gauges.logins.store(self.done.logins, Ordering::Relaxed);
        let (statements, transactions) = (self.done.statements, self.done.transactions);
        gauges.statements.store(statements, Ordering::Relaxed);
        gauges.transactions.store(transactions, Ordering::Relaxed);
        gauges
            .copied_in
            .store(self.done.copied_in, Ordering::Relaxed);
    }

    fn accept(&mut self) {
        let Some(acceptor) = &mut self.acceptor else {
            return;
        };
        // After any error there is nothing to accept for now.
        while let Ok((stream, _)) = acceptor.listener.accept() {
            let turn = acceptor.next % acceptor.threads.len();
            acceptor.next += 1;
            if let Some((thread, waker)) = acceptor.threads.get(turn) {
                // A full queue closes the connection, as a full backlog would.
                let _ = thread.try_send(stream.into());
                let _ = waker.wake();
            }
        }
    }

    fn take(&mut self, stream: StdStream) {
        let entry = self.connections.vacant_entry();
        let stream = TcpStream::from_std(stream);
        let token = Token(entry.key());
        if let Ok(transport) = Transport::accept(stream, self.poll.registry(), token) {
            entry.insert(Connection {
                transport,
                session: Session::default(),
                input: Vec::new(),
                out: Outgoing::default(),
                is_readable: false,
            });
        }
    }

    fn event(&mut self, key: usize, event: &Event) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let is_closed = event.is_read_closed();
        connection.is_readable |= event.is_readable() || is_closed;
        let mut context = Context {
            common: &self.common,
            scratch: &mut self.scratch,
            done: &mut self.done,
            pid: self.next_pid,
        };
        let logins = context.done.logins;
        let is_alive = connection.turn(is_closed, &mut context);
        if self.done.logins > logins {
            self.next_pid = self.next_pid.wrapping_add(64);
        }
        if !is_alive {
            let connection = self.connections.remove(key);
            let mut out = connection.out;
            connection.transport.close(&mut out);
        }
    }
}

struct Context<'a> {
    common: &'a Common,
    scratch: &'a mut Vec<u8>,
    done: &'a mut Done,
    pid: u32,
}

impl Connection {
    /// Does all that is possible now. Returns false when the connection has ended.
    fn turn(&mut self, is_closed: bool, context: &mut Context<'_>) -> bool {
        loop {
            if self.transport.write(&mut self.out).is_err() {
                return false;
            }
            // The next writable event continues.
            if !self.out.is_empty() {
                return true;
            }
            if (self.session.is_blocked() || !self.input.is_empty()) && !self.go_on(context) {
                return false;
            }
            if !self.out.is_empty() {
                continue;
            }
            if !self.is_readable {
                return true;
            }
            match self.receive(is_closed, context) {
                Some(true) => {}
                Some(false) => return true,
                None => return false,
            }
        }
    }

    /// Reads once. Returns `None` at the end, and false if there was nothing to read.
    fn receive(&mut self, is_closed: bool, context: &mut Context<'_>) -> Option<bool> {
        match self.transport.read(context.scratch).ok()? {
            Got::End => None,
            Got::Nothing => {
                self.is_readable = false;
                // TLS may have to answer by itself.
                self.transport.write(&mut self.out).ok()?;
                Some(false)
            }
            Got::Bytes(count, has_more) => {
                self.is_readable = has_more || is_closed;
                if !self.input.is_empty() {
                    let bytes = context.scratch.get(..count).unwrap_or_default();
                    self.input.extend_from_slice(bytes);
                    return self.go_on(context).then_some(true);
                }
                let scratch = mem::take(context.scratch);
                let rest = self.hear(scratch.get(..count).unwrap_or_default(), context);
                if let Some(rest) = rest {
                    self.input.extend_from_slice(rest);
                }
                let is_alive = rest.is_some();
                *context.scratch = scratch;
                is_alive.then_some(true)
            }
        }
    }

    /// Processes the rest of the input. Returns false at the end.
    fn go_on(&mut self, context: &mut Context<'_>) -> bool {
        let mut input = mem::take(&mut self.input);
        let Some(rest) = self.hear(&input, context) else {
            return false;
        };
        let taken = input.len() - rest.len();
        if taken < input.len() {
            input.drain(..taken);
            self.input = input;
        }
        true
    }

    /// Processes bytes and returns those that are left; `None` at the end.
    fn hear<'b>(&mut self, bytes: &'b [u8], context: &mut Context<'_>) -> Option<&'b [u8]> {
        let mut turn = Turn {
            canned: &context.common.canned,
            has_tls: context.common.tls.is_some(),
            pid: context.pid,
            done: context.done,
            out: &mut self.out.bytes,
        };
        let took = self.session.feed(bytes, &mut turn);
        match took.ok()? {
            Took::Bytes(count) => bytes.get(count..),
            Took::BeforeTls(count) => {
                // Bytes after the SSLRequest were injected: they must not be read as plain text.
                (count == bytes.len()).then_some(())?;
                // One byte into an empty socket always fits.
                self.transport.write(&mut self.out).ok()?;
                let config = context.common.tls.clone()?;
                self.transport.secure_as_server(config).ok()?;
                self.session.secured();
                bytes.get(count..)
            }
        }
    }
}
