//! Record layer of the test's end (`crate::tls::stub`): a test sends and receives plain bytes, and the connection
//! carries records that are cut anywhere.

use weir_testkit::cuts::{Cuts, Dice};

use super::{End, Peer};
use crate::tls::stub::{self, Handshake, Progress, Session};

/// PostgreSQL's SSLRequest.
const REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
/// First byte of a handshake.
const HANDSHAKE: u8 = 0x16;
/// Plain bytes of the longest record.
const RECORD_LEN_MAX: usize = 500;
/// Where handshakes may be spoilt, one in this many is.
const SPOILT_OF: usize = 12;

#[derive(Debug)]
enum Stage {
    /// The client has asked for TLS.
    Asked,
    /// The server has received nothing.
    Listening,
    Open(Session),
    /// The connection is closed, or the handshake failed.
    Over,
    /// The peer does not use TLS.
    Plain,
    Shaking(Handshake),
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Layer {
    stage: Stage,
    dice: Dice,
    /// Bytes that are not in the connection yet.
    out: Vec<u8>,
    /// Plain bytes that the test has not taken yet.
    plain: Vec<u8>,
    /// Beginning of a request for TLS.
    request: Vec<u8>,
    /// True if the server supports TLS.
    has_tls: bool,
    /// True if handshakes may be spoilt.
    spoils: bool,
    is_spoilt: bool,
    /// Number of bytes of records that have moved.
    moves: usize,
}

impl Layer {
    /// Makes the layer of a client that asks for TLS, or begins with a handshake at once.
    pub(crate) fn connecting(seed: u64, spoils: bool) -> Self {
        let mut layer = Self::new(Stage::Asked, seed, spoils);
        if layer.dice.below(4) == 0 {
            layer.stage = Stage::Over;
            layer.shake(Handshake::connect(None), &[]);
        } else {
            layer.out.extend(REQUEST);
        }
        layer
    }

    /// Makes the layer of a server that waits for a request.
    pub(crate) fn accepting(seed: u64, has_tls: bool, spoils: bool) -> Self {
        let mut layer = Self::new(Stage::Listening, seed, spoils);
        layer.has_tls = has_tls;
        layer
    }

    fn new(stage: Stage, seed: u64, spoils: bool) -> Self {
        Self {
            stage,
            dice: Dice::new(seed),
            out: Vec::new(),
            plain: Vec::new(),
            request: Vec::new(),
            has_tls: true,
            spoils,
            is_spoilt: false,
            moves: 0,
        }
    }

    /// Processes bytes from the worker.
    fn hear(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.moves += bytes.len();
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Asked if bytes == b"S" => {
                let wish = *self.dice.pick(&[None, Some(false)]);
                self.shake(Handshake::connect(wish), &[]);
            }
            // Another answer, such as an error, is passed on as plain bytes.
            Stage::Asked | Stage::Plain => {
                self.plain.extend_from_slice(bytes);
                self.stage = Stage::Plain;
            }
            Stage::Listening => self.listen(bytes),
            Stage::Open(mut session) => {
                self.open(&mut session, bytes);
                self.stage = Stage::Open(session);
            }
            Stage::Shaking(handshake) => self.shake(handshake, bytes),
            Stage::Over => {}
        }
    }

    fn listen(&mut self, bytes: &[u8]) {
        self.request.extend_from_slice(bytes);
        let request = std::mem::take(&mut self.request);
        let wish = *self.dice.pick(&[Some(true), Some(false)]);
        if request[0] == HANDSHAKE {
            self.shake(Handshake::accept(wish), &request);
        } else if request == REQUEST && self.has_tls {
            self.out.push(b'S');
            self.stage = Stage::Shaking(Handshake::accept(wish));
        } else if request == REQUEST {
            self.out.push(b'N');
            self.stage = Stage::Plain;
        } else if REQUEST.starts_with(&request) {
            self.request = request;
            self.stage = Stage::Listening;
        } else {
            self.plain = request;
            self.stage = Stage::Plain;
        }
    }

    fn shake(&mut self, handshake: Handshake, bytes: &[u8]) {
        let (output, progress) = handshake.advance(bytes);
        if self.spoils && self.dice.below(SPOILT_OF) == 0 {
            self.out.extend(stub::spoilt());
            self.is_spoilt = true;
            return;
        }
        self.out.extend(output);
        match progress {
            Ok(Progress::More(handshake)) => self.stage = Stage::Shaking(handshake),
            Ok(Progress::Done(session, plain)) => {
                self.plain.extend(plain);
                self.stage = Stage::Open(session);
            }
            Err(fault) => panic!("a worker's handshake: {fault}"),
        }
    }

    fn open(&mut self, session: &mut Session, bytes: &[u8]) {
        let mut records = vec![0; bytes.len() + RECORD_LEN_MAX];
        let kept = session.take_partial(&mut records);
        records.truncate(kept);
        records.extend_from_slice(bytes);
        let mut plain = vec![0; records.len()];
        let opened = session.open(&records, &mut plain, &mut self.out);
        let opened = opened.unwrap_or_else(|fault| panic!("a worker's record: {fault}"));
        self.plain.extend_from_slice(&plain[..opened.len]);
    }

    /// Seals bytes into records of random length.
    fn seal(&mut self, bytes: &[u8]) {
        let Stage::Open(session) = &mut self.stage else {
            return;
        };
        if self.dice.below(16) == 0 {
            session.update(&mut self.out);
        }
        let mut rest = bytes;
        let mut cuts = Cuts::random(self.dice.roll());
        while !rest.is_empty() {
            let len = cuts.next_len(rest.len()).min(RECORD_LEN_MAX);
            let (part, behind) = rest.split_at(len);
            session.seal_one(part, &mut self.out);
            rest = behind;
        }
    }

    /// Writes the last bytes. Returns true if the connection stays open after the closing record.
    fn part(&mut self) -> bool {
        let Stage::Open(session) = &mut self.stage else {
            return false;
        };
        let how = self.dice.below(4);
        match how {
            0 | 1 => self.out.extend(session.close()),
            2 => self.out.extend(session.torn()),
            _ => {}
        }
        how == 1
    }
}

impl Peer {
    /// Protects the connection with this layer, from its first byte on.
    pub(crate) fn protect(&self, layer: Layer) {
        *self.layer.borrow_mut() = Some(layer);
    }

    /// True if this end has spoilt the handshake.
    pub(crate) fn is_spoilt(&self) -> bool {
        let layer = self.layer.borrow();
        layer.as_ref().is_some_and(|layer| layer.is_spoilt)
    }

    /// True if the connection has a layer, whether the handshake is done or not.
    pub(crate) fn is_protected(&self) -> bool {
        self.layer.borrow().is_some()
    }

    /// Number of bytes of records that have moved.
    pub(crate) fn moves(&self) -> usize {
        self.layer.borrow().as_ref().map_or(0, |layer| layer.moves)
    }

    /// Puts records into the connection, in pieces.
    pub(super) fn flush(&self, layer: &mut Layer) {
        while !layer.out.is_empty() {
            let fits = self.raw_room().min(layer.out.len());
            let len = Cuts::random(layer.dice.roll()).next_len(fits);
            self.send_raw(&layer.out[..len]);
            layer.out.drain(..len);
            layer.moves += len;
            if len == 0 || layer.dice.below(3) == 0 {
                return;
            }
        }
    }

    pub(super) fn send_sealed(&self, layer: &mut Layer, bytes: &[u8]) -> usize {
        self.flush(layer);
        if !layer.out.is_empty() {
            return 0;
        }
        let fits = bytes.len().min(self.raw_room());
        match layer.stage {
            Stage::Plain => self.send_raw(bytes),
            Stage::Open(_) if fits > 0 => {
                layer.seal(&bytes[..fits]);
                self.flush(layer);
                fits
            }
            _ => 0,
        }
    }

    pub(super) fn receive_sealed(&self, layer: &mut Layer, max: usize) -> Vec<u8> {
        if layer.plain.len() < max {
            layer.hear(&self.receive_raw(max));
            self.check_end(layer);
        }
        self.flush(layer);
        let len = layer.plain.len().min(max);
        layer.plain.drain(..len).collect()
    }

    /// Checks that a worker that closes a connection has finished its record and sent the closing record.
    fn check_end(&self, layer: &Layer) {
        let Stage::Open(session) = &layer.stage else {
            return;
        };
        let pipe = self.pipe();
        if pipe.said_bye && !pipe.torn && pipe.closed && pipe.outward.is_empty() {
            assert!(!session.has_partial_record(), "TLS: a record is torn");
            assert!(session.is_closed(), "TLS: closed without a good-bye");
        }
    }

    /// Ends the connection. Before an orderly end, the remaining bytes are put on their way.
    pub(super) fn end_sealed(&self, layer: &mut Layer, how: End) {
        let stays_open = how == End::Orderly && layer.part();
        let mut pipe = self.pipe();
        if how == End::Orderly && pipe.ended.is_none() && !layer.out.is_empty() {
            pipe.inward.push_back(std::mem::take(&mut layer.out));
            pipe.news = true;
        }
        layer.stage = Stage::Over;
        layer.out.clear();
        layer.plain.clear();
        pipe.outward.clear();
        if stays_open {
            pipe.capacity = usize::MAX;
        } else {
            pipe.end(how);
        }
    }

    /// Number of plain bytes that fit now.
    pub(super) fn sealed_room(&self, layer: &Layer) -> usize {
        match layer.stage {
            Stage::Open(_) | Stage::Plain if layer.out.is_empty() => self.raw_room(),
            _ => 0,
        }
    }

    /// Number of bytes on their way to the worker.
    pub(super) fn unsent(layer: &Layer) -> usize {
        layer.out.len()
    }

    pub(super) fn has_heard_all(layer: &Layer) -> bool {
        layer.plain.is_empty()
    }
}
