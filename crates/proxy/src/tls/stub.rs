//! Record layer without cryptography, for both ends of a simulated connection. It cuts, numbers and disguises bytes as
//! TLS does. So it detects bytes that bypass it, and records that are lost, doubled or out of order.
//!
//! ```text
//! record:     kind (1) number (1) length (2) body (length, each byte disguised by the number) check (1)
//! handshake:  hello ──►   ◄── flight, in two records   finished ──►   ◄── done
//!             short (as TLS 1.3): the client is through when it has sent `finished`, and `done` comes as a ticket
//!             long (as TLS 1.2):  the client waits for `done`
//! ```

use std::cell::RefCell;

use weir_tls::session::{HANDSHAKE_LEN_MAX, Opened, TlsFault};

/// Content type of a handshake, as in TLS: it identifies TLS that begins without a request.
const HANDSHAKE: u8 = 0x16;
const DATA: u8 = 0x17;
const GOOD_BYE: u8 = 0x15;
/// Kind of a record that asks for an answer, like a key update.
const UPDATE: u8 = 0x18;
const UPDATED: u8 = 0x19;
/// Kind of a record that every receiver refuses.
const SPOILT: u8 = 0xff;

const HELLO: u8 = 1;
const FLIGHT: u8 = 2;
const FINISHED: u8 = 3;
const DONE: u8 = 4;

const HEADER: usize = 4;
/// Length of header and check, in bytes.
const OVERHEAD: usize = HEADER + 1;
/// Maximum number of plain bytes in a record: few, so that messages span records.
const RECORD_LEN: usize = 256;
/// Length of a certificate chain, in bytes.
const CHAIN_LEN: usize = 300;

thread_local! {
    static DAMAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Takes the error of the last record with a wrong number or check that no peer had spoilt.
pub(crate) fn take_damage() -> Option<String> {
    DAMAGE.take()
}

fn damaged(what: String) -> TlsFault {
    let fault = TlsFault::Name(what.clone());
    DAMAGE.set(Some(what));
    fault
}

pub(crate) fn sealed_len_max(plain_len: usize) -> usize {
    plain_len + (plain_len / RECORD_LEN + 1) * OVERHEAD
}

/// Returns a record that every receiver refuses.
pub(crate) fn spoilt() -> Vec<u8> {
    vec![SPOILT; OVERHEAD]
}

/// Next record numbers of both directions.
#[derive(Debug, Default)]
struct Numbers {
    sent: u8,
    received: u8,
}

struct Record {
    kind: u8,
    body: Vec<u8>,
    len: usize,
}

fn disguise(number: u8, byte: u8) -> u8 {
    byte ^ number.wrapping_mul(31) ^ 0xa5
}

impl Numbers {
    fn seal(&mut self, kind: u8, body: &[u8], out: &mut Vec<u8>) {
        let number = self.sent;
        self.sent = number.wrapping_add(1);
        let len = u16::try_from(body.len()).expect("a short record");
        out.extend([kind, number]);
        out.extend(len.to_be_bytes());
        out.extend(body.iter().map(|byte| disguise(number, *byte)));
        out.push(check(kind, number, body));
    }

    /// Opens the record at the start of `bytes`, if it is complete.
    fn open(&mut self, bytes: &[u8]) -> Result<Option<Record>, TlsFault> {
        if bytes.starts_with(&[SPOILT, SPOILT]) {
            return Err(TlsFault::Name("spoilt record".to_owned()));
        }
        let &[kind, number, high, low, ref rest @ ..] = bytes else {
            return Ok(None);
        };
        let known = [HANDSHAKE, DATA, GOOD_BYE, UPDATE, UPDATED].contains(&kind);
        if !known || number != self.received {
            let due = self.received;
            return Err(damaged(format!(
                "TLS: kind {kind:#x}, number {number}, where number {due} is due"
            )));
        }
        let len = usize::from(u16::from_be_bytes([high, low]));
        let Some(sealed) = rest.get(..=len) else {
            return Ok(None);
        };
        let body: Vec<_> = sealed[..len]
            .iter()
            .map(|byte| disguise(number, *byte))
            .collect();
        if sealed[len] != check(kind, number, &body) {
            return Err(damaged(format!("TLS: record {number} is damaged")));
        }
        self.received = number.wrapping_add(1);
        let len = len + OVERHEAD;
        Ok(Some(Record { kind, body, len }))
    }
}

fn check(kind: u8, number: u8, body: &[u8]) -> u8 {
    let sum = body.iter().fold(kind ^ number, |sum, byte| {
        sum.rotate_left(1).wrapping_add(*byte)
    });
    sum ^ 0x3c
}

// === the handshake ===

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Await {
    /// The client has not begun yet.
    Nothing,
    Hello,
    Flight,
    Finished,
    Done,
}

/// Side of a handshake.
#[derive(Debug)]
pub(crate) struct Handshake {
    numbers: Numbers,
    awaits: Await,
    /// True if the handshake is to be short; `None` if the other side decides.
    wish: Option<bool>,
    /// True for a short handshake. The client learns it from the server's flight.
    is_short: bool,
    input: Vec<u8>,
}

#[derive(Debug)]
pub(crate) enum Progress {
    More(Handshake),
    Done(Session, Vec<u8>),
}

impl Handshake {
    /// Makes the server's side. Without a wish, the client decides if the handshake is short.
    pub(crate) fn accept(wish: Option<bool>) -> Self {
        Self::new(Await::Hello, wish)
    }

    /// Makes the client's side. Without a wish, it asks for a short handshake.
    pub(crate) fn connect(wish: Option<bool>) -> Self {
        Self::new(Await::Nothing, wish)
    }

    fn new(awaits: Await, wish: Option<bool>) -> Self {
        Self {
            numbers: Numbers::default(),
            awaits,
            wish,
            is_short: wish != Some(false),
            input: Vec::new(),
        }
    }

    pub(crate) fn advance(mut self, bytes: &[u8]) -> (Vec<u8>, Result<Progress, TlsFault>) {
        let mut out = Vec::new();
        if self.input.len() + bytes.len() > HANDSHAKE_LEN_MAX {
            return (out, Err(TlsFault::TooLong));
        }
        self.input.extend_from_slice(bytes);
        let progress = match self.run(&mut out) {
            Ok(true) => self.finish(&mut out),
            Ok(false) => Ok(Progress::More(self)),
            Err(fault) => Err(fault),
        };
        (out, progress)
    }

    /// Processes the input. Returns true when the handshake is done.
    fn run(&mut self, out: &mut Vec<u8>) -> Result<bool, TlsFault> {
        if self.awaits == Await::Nothing {
            self.say(HELLO, usize::from(self.is_short), out);
            self.awaits = Await::Flight;
        }
        while let Some(record) = self.numbers.open(&self.input)? {
            self.input.drain(..record.len);
            let said = (record.kind == HANDSHAKE).then(|| record.body[0]);
            match (self.awaits, said) {
                (Await::Hello, Some(HELLO)) => {
                    self.is_short = self.wish.unwrap_or(record.body.len() > 1);
                    self.say(FLIGHT, usize::from(self.is_short), out);
                    self.say(FLIGHT, CHAIN_LEN, out);
                    self.awaits = Await::Finished;
                }
                (Await::Flight, Some(FLIGHT)) if record.body.len() < CHAIN_LEN => {
                    self.is_short = record.body.len() > 1;
                }
                (Await::Flight, Some(FLIGHT)) => {
                    self.say(FINISHED, 0, out);
                    self.awaits = Await::Done;
                    if self.is_short {
                        return Ok(true);
                    }
                }
                (Await::Finished, Some(FINISHED)) => {
                    self.say(DONE, 0, out);
                    return Ok(true);
                }
                (Await::Done, Some(DONE)) => return Ok(true),
                (awaits, said) => {
                    return Err(damaged(format!("TLS: {said:?} where {awaits:?} is due")));
                }
            }
        }
        Ok(false)
    }

    fn say(&mut self, what: u8, more: usize, out: &mut Vec<u8>) {
        let body = [vec![what], vec![0x11; more]].concat();
        self.numbers.seal(HANDSHAKE, &body, out);
    }

    /// Makes the session; bytes after the handshake belong to it.
    fn finish(self, out: &mut Vec<u8>) -> Result<Progress, TlsFault> {
        let mut session = Session {
            numbers: self.numbers,
            rest: Vec::new(),
            is_closed: false,
        };
        let input = self.input;
        let mut plain = vec![0; input.len()];
        let opened = session.open(&input, &mut plain, out)?;
        plain.truncate(opened.len);
        Ok(Progress::Done(session, plain))
    }
}

/// Returns both ends of a connection whose handshake is done, the client's first.
pub(crate) fn pair() -> (Session, Session) {
    let (hello, client) = Handshake::connect(None).advance(&[]);
    let (flight, server) = Handshake::accept(Some(true)).advance(&hello);
    let (Ok(Progress::More(client)), Ok(Progress::More(server))) = (client, server) else {
        panic!("a handshake has two turns");
    };
    let (finished, client) = client.advance(&flight);
    let (_, server) = server.advance(&finished);
    match (client, server) {
        (Ok(Progress::Done(client, _)), Ok(Progress::Done(server, _))) => (client, server),
        _ => panic!("a short handshake is done"),
    }
}

// === the session ===

/// Session after a finished handshake.
#[derive(Debug)]
pub(crate) struct Session {
    numbers: Numbers,
    /// Beginning of an incomplete record.
    rest: Vec<u8>,
    is_closed: bool,
}

impl Session {
    pub(crate) fn has_partial_record(&self) -> bool {
        !self.rest.is_empty()
    }

    pub(crate) fn take_partial(&mut self, buffer: &mut [u8]) -> usize {
        let rest = std::mem::take(&mut self.rest);
        buffer[..rest.len()].copy_from_slice(&rest);
        rest.len()
    }

    pub(crate) fn put_back(&mut self, partial: &[u8]) {
        self.rest = partial.to_vec();
    }

    pub(crate) fn open(
        &mut self,
        received: &[u8],
        buffer: &mut [u8],
        out: &mut Vec<u8>,
    ) -> Result<Opened, TlsFault> {
        let (mut at, mut len) = (0, 0);
        while !self.is_closed
            && let Some(record) = self.numbers.open(&received[at..])?
        {
            at += record.len;
            match record.kind {
                DATA => {
                    buffer[len..len + record.body.len()].copy_from_slice(&record.body);
                    len += record.body.len();
                }
                UPDATE => self.numbers.seal(UPDATED, &[], out),
                UPDATED => {}
                GOOD_BYE => self.is_closed = true,
                // The end of a short handshake.
                _ if record.body == [DONE] => {}
                _ => return Err(damaged("TLS: a handshake inside of TLS".to_owned())),
            }
        }
        if !self.is_closed {
            self.rest = received[at..].to_vec();
        }
        Ok(Opened {
            len,
            is_closed: self.is_closed,
        })
    }

    pub(crate) fn seal(&mut self, plain: &[u8], buffer: &mut [u8]) -> usize {
        let mut sealed = Vec::new();
        for part in plain.chunks(RECORD_LEN) {
            self.numbers.seal(DATA, part, &mut sealed);
        }
        buffer[..sealed.len()].copy_from_slice(&sealed);
        sealed.len()
    }

    /// Seals one record of any length.
    pub(crate) fn seal_one(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        self.numbers.seal(DATA, plain, out);
    }

    pub(crate) fn close(&mut self) -> Vec<u8> {
        let mut record = Vec::new();
        self.numbers.seal(GOOD_BYE, &[], &mut record);
        record
    }

    /// Sends a record that the peer has to answer.
    pub(crate) fn update(&mut self, out: &mut Vec<u8>) {
        self.numbers.seal(UPDATE, &[], out);
    }

    /// Returns the header of a data record whose rest is missing.
    pub(crate) fn torn(&mut self) -> Vec<u8> {
        let mut record = Vec::new();
        self.numbers.seal(DATA, &[0], &mut record);
        record.truncate(HEADER);
        record
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }
}
