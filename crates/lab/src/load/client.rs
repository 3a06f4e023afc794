//! Client of the load: connects, encrypts, logs in and runs transactions.

use std::time::Instant;

use mio::event::Event;
use mio::{Registry, Token};
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;
use weir_session::login::{LoginStep, ServerLogin};
use weir_wire::encode;

use crate::load::conversation::{Conversation, Over, Turn};
use crate::load::failure::Failure;
use crate::load::scanner::Scanner;
use crate::load::target::{Keys, Target};
use crate::load::transport::{Got, Outgoing, Transport};
use crate::load::work::Work;

/// State that the clients of one thread share.
pub(super) struct Shared<'a> {
    pub(super) work: &'a Work,
    pub(super) target: &'a Target,
    pub(super) keys: Keys,
    /// Buffer of one receive.
    pub(super) scratch: Vec<u8>,
    /// Bytes of payload in both directions, of all clients so far.
    pub(super) payload: u64,
}

/// Client of the load.
///
/// ```text
/// Down ──► Connecting ─┬─► SslAsked ─┬─► Login ──► Ready
///   ▲                  └─────────────┘               │
///   └──────────── any failure, or the end ◄──────────┘
/// ```
pub(super) struct Client {
    phase: Phase,
    transport: Option<Transport>,
    out: Outgoing,
    scanner: Scanner,
    conversation: Conversation,
    random: Xoshiro256PlusPlus,
    /// Transaction in progress; with `reconnect` its time includes connecting.
    pub(super) running: Option<Running>,
    /// Number of transactions in the measured time.
    pub(super) count: u64,
    /// Number of transactions begun at any time.
    pub(super) begun: u64,
    /// Number of failures since the last success.
    pub(super) failures: u32,
}

#[derive(Default)]
enum Phase {
    #[default]
    Down,
    Connecting,
    SslAsked,
    Login(Box<Login>),
    Ready,
}

struct Login {
    machine: ServerLogin,
    /// Bytes that are not processed yet.
    input: Vec<u8>,
}

/// A transaction in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    /// Intended start of the transaction.
    pub(super) intended: Instant,
}

/// Result of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Happened {
    /// Nothing that the client's worker has to know.
    Nothing,
    /// The client may begin transactions.
    LoggedIn,
    /// The client's transaction is over.
    Over(Over),
}

impl Client {
    /// Creates a client. `index` counts all clients of the plan, so that its choices do not depend on the number of
    /// threads.
    pub(super) fn new(seed: u64, index: u64) -> Self {
        Self {
            phase: Phase::Down,
            transport: None,
            out: Outgoing::default(),
            scanner: Scanner::default(),
            conversation: Conversation::default(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed.rotate_left(32) ^ index),
            running: None,
            count: 0,
            begun: 0,
            failures: 0,
        }
    }

    /// True if the client is logged in.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// Begins to connect.
    pub(super) fn connect(
        &mut self,
        shared: &Shared<'_>,
        registry: &Registry,
        token: Token,
    ) -> Result<(), Failure> {
        let transport = Transport::connect(shared.target.address, registry, token);
        self.transport = Some(transport.map_err(|error| Failure::connect(&error))?);
        self.phase = Phase::Connecting;
        Ok(())
    }

    /// Begins a transaction on a connection that is up.
    pub(super) fn begin(&mut self, shared: &mut Shared<'_>) -> Result<(), Failure> {
        let mut turn = Turn {
            work: shared.work,
            random: &mut self.random,
            out: &mut self.out.bytes,
        };
        self.conversation.begin(&mut turn)?;
        self.flush(shared)
    }

    /// Closes the connection; sends Terminate first if the client is logged in and has nothing else to send.
    pub(super) fn disconnect(&mut self) {
        if let Some(transport) = self.transport.take() {
            if self.is_up() && self.out.is_empty() {
                // Always fits: a message without a body.
                let _ = encode::terminate(&mut self.out.bytes);
            }
            transport.close(&mut self.out);
        }
        self.phase = Phase::Down;
        self.out.clear();
        self.scanner = Scanner::default();
        self.conversation.reset();
    }

    /// Handles an event of the socket. After a failure the connection is unusable.
    pub(super) fn ready(
        &mut self,
        event: &Event,
        shared: &mut Shared<'_>,
    ) -> Result<Happened, Failure> {
        if matches!(self.phase, Phase::Connecting) {
            let Some(transport) = &self.transport else {
                return Ok(Happened::Nothing);
            };
            let connected = transport.is_connected();
            if !connected.map_err(|error| Failure::connect(&error))? {
                return Ok(Happened::Nothing);
            }
            self.connected(shared)?;
        }
        if event.is_writable() {
            self.flush(shared)?;
        }
        match event.is_readable() || event.is_read_closed() {
            true => self.receive(event.is_read_closed(), shared),
            false => Ok(Happened::Nothing),
        }
    }

    fn connected(&mut self, shared: &mut Shared<'_>) -> Result<(), Failure> {
        if shared.target.tls.is_some() {
            encode::ssl_request(&mut self.out.bytes)?;
            self.phase = Phase::SslAsked;
            return self.flush(shared);
        }
        self.log_in(shared)
    }

    fn log_in(&mut self, shared: &mut Shared<'_>) -> Result<(), Failure> {
        let machine = ServerLogin::start(shared.target.login()?, &mut self.out.bytes)?;
        self.phase = Phase::Login(Box::new(Login {
            machine,
            input: Vec::new(),
        }));
        self.flush(shared)
    }

    fn flush(&mut self, shared: &mut Shared<'_>) -> Result<(), Failure> {
        let Some(transport) = &mut self.transport else {
            return Ok(());
        };
        loop {
            transport.write(&mut self.out)?;
            if !self.out.is_empty() {
                return Ok(());
            }
            let made = self.conversation.fill(shared.work, &mut self.out.bytes)?;
            shared.payload += made;
            if self.out.is_empty() {
                return Ok(());
            }
        }
    }

    /// Reads until nothing is left, and to the end of the stream if the server `is_closed`.
    fn receive(&mut self, is_closed: bool, shared: &mut Shared<'_>) -> Result<Happened, Failure> {
        let mut happened = Happened::Nothing;
        loop {
            let Some(transport) = &mut self.transport else {
                return Ok(happened);
            };
            // Bytes after the one-byte answer are encrypted, or were injected: they must not be read as plain text.
            let room = match self.phase {
                Phase::SslAsked => 1,
                _ => shared.scratch.len(),
            };
            let mut scratch = std::mem::take(&mut shared.scratch);
            let got = transport.read(scratch.get_mut(..room).unwrap_or_default());
            let heard = match &got {
                Ok(Got::Bytes(count, _)) => {
                    self.hear(scratch.get(..*count).unwrap_or_default(), shared)
                }
                _ => Ok(Happened::Nothing),
            };
            shared.scratch = scratch;
            match heard? {
                Happened::Nothing => {}
                other => happened = other,
            }
            // TLS may have to answer by itself.
            self.flush(shared)?;
            match got? {
                Got::Bytes(_, has_more) if has_more || is_closed => {}
                Got::Bytes(..) | Got::Nothing => return Ok(happened),
                Got::End => {
                    let reason = self.conversation.take_failure();
                    return Err(reason.unwrap_or_else(Failure::closed));
                }
            }
        }
    }

    fn hear(&mut self, bytes: &[u8], shared: &mut Shared<'_>) -> Result<Happened, Failure> {
        match &mut self.phase {
            Phase::Down | Phase::Connecting => Ok(Happened::Nothing),
            Phase::SslAsked => match bytes {
                [b'S'] => self.secure(shared).map(|()| Happened::Nothing),
                [b'E'] => Err(Failure::tls("the server reports an error instead of TLS")),
                _ => Err(Failure::tls("the server does not support TLS")),
            },
            Phase::Login(_) => self.hear_login(bytes, shared),
            Phase::Ready => self.hear_answer(bytes, shared),
        }
    }

    fn secure(&mut self, shared: &mut Shared<'_>) -> Result<(), Failure> {
        if let (Some((config, name)), Some(transport)) = (&shared.target.tls, &mut self.transport) {
            let secured = transport.secure(config.clone(), name.clone());
            secured.map_err(|error| Failure::tls(error.to_string()))?;
        }
        self.log_in(shared)
    }

    fn hear_login(&mut self, bytes: &[u8], shared: &mut Shared<'_>) -> Result<Happened, Failure> {
        let Phase::Login(login) = &mut self.phase else {
            return Ok(Happened::Nothing);
        };
        login.input.extend_from_slice(bytes);
        loop {
            let (count, step) = login.machine.handle(&login.input, &mut self.out.bytes)?;
            login.input.drain(..count);
            match step {
                LoginStep::More => return Ok(Happened::Nothing),
                LoginStep::NeedKeys(request) => {
                    let keys = shared.keys.of(&request);
                    login.machine.provide_keys(&keys, &mut self.out.bytes)?;
                }
                LoginStep::Done(_) => {
                    let rest = std::mem::take(&mut login.input);
                    self.phase = Phase::Ready;
                    self.hear_answer(&rest, shared)?;
                    return Ok(Happened::LoggedIn);
                }
            }
        }
    }

    fn hear_answer(&mut self, bytes: &[u8], shared: &mut Shared<'_>) -> Result<Happened, Failure> {
        let mut happened = Happened::Nothing;
        let before = self.scanner.payload;
        let conversation = &mut self.conversation;
        let mut turn = Turn {
            work: shared.work,
            random: &mut self.random,
            out: &mut self.out.bytes,
        };
        self.scanner.feed(bytes, |tag, body| {
            if let Some(over) = conversation.hear(tag, body, &mut turn)? {
                happened = Happened::Over(over);
            }
            Ok::<(), Failure>(())
        })?;
        shared.payload += self.scanner.payload - before;
        Ok(happened)
    }
}
