//! A TLS connection without its socket: the handshake, then records opened and sealed.
//!
//! A [`Handshake`] takes received bytes and returns bytes to send. Its steps cost up to a millisecond (a signature, a
//! certificate chain), so they run on threads that may block, never on an event loop. It results in a [`Session`],
//! whose steps cost about a microsecond and which owns no buffer unless a record is half received.
//!
//! Both use rustls' unbuffered connections: records are opened where they were received and sealed into the caller's
//! buffer; see the module `rustls::unbuffered`.

use std::fmt;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{CipherSuite, CommonState, ProtocolVersion};

use crate::alpn::alpn_is_fine;

pub use rustls::client::ClientConfig;
pub use rustls::pki_types::{CertificateDer, ServerName};
pub use rustls::server::ServerConfig;

#[cfg(test)]
mod tests;

/// Maximum bytes from a peer before its handshake is done: several times a long certificate chain.
pub const HANDSHAKE_LEN_MAX: usize = 128 * 1024;

/// Maximum plain bytes of one record (RFC 8446, 5.1).
const RECORD_LEN: usize = 16 * 1024;
/// Upper limit of the bytes that a record adds to its plain bytes: header, explicit nonce, content type, tag (RFC 5246
/// and 8446).
const RECORD_OVERHEAD: usize = 5 + 8 + 1 + 16;
/// Room for a key update in front.
const SLACK: usize = 64;

/// Reason for which a connection is over.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFault {
    /// The peer did not agree on the application protocol, which direct TLS requires (hazard SEC-08).
    #[error("the other side did not agree on the application protocol \"postgresql\"")]
    NoApplicationProtocol,
    /// The host is not a valid name for a certificate.
    #[error("{0}")]
    Name(String),
    /// A panic in Weir.
    #[error("internal error")]
    Bug,
    /// The peer has sent too much without finishing its handshake.
    #[error("more than {HANDSHAKE_LEN_MAX} bytes without a finished TLS handshake")]
    TooLong,
    /// An error of rustls.
    #[error("{0}")]
    Tls(#[from] rustls::Error),
}

/// Version and cipher suite of a connection, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protection {
    version: ProtocolVersion,
    suite: CipherSuite,
}

/// Formats as PgBouncer does: `TLSv1.3/TLS_AES_128_GCM_SHA256`.
impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = match self.version {
            ProtocolVersion::TLSv1_2 => "TLSv1.2",
            ProtocolVersion::TLSv1_3 => "TLSv1.3",
            _ => "TLS",
        };
        let suite = self.suite.as_str().unwrap_or("unknown");
        // rustls marks the suites of TLS 1.3; the standard's names begin with TLS as well.
        write!(f, "{version}/{}", suite.replacen("TLS13_", "TLS_", 1))
    }
}

/// A connection in either role.
enum Connection {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only the protection: all other fields hold keys.
        f.debug_tuple("Session").field(&self.protection).finish()
    }
}

impl Connection {
    fn common(&self) -> &CommonState {
        match self {
            Self::Client(connection) => connection,
            Self::Server(connection) => connection,
        }
    }

    /// Makes one pass over `input`, as far as rustls goes.
    fn step(&mut self, input: &mut [u8], plain: &mut Plain<'_>, out: &mut Vec<u8>) -> Stepped {
        match self {
            Self::Client(connection) => act(connection.process_tls_records(input), plain, out),
            Self::Server(connection) => act(connection.process_tls_records(input), plain, out),
        }
    }
}

/// Destination of opened bytes.
struct Plain<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl Plain<'_> {
    /// Appends bytes. False if they do not fit, which the contract of [`Session::open`] excludes.
    fn push(&mut self, bytes: &[u8]) -> bool {
        let Some(room) = self.buffer.get_mut(self.len..self.len + bytes.len()) else {
            return false;
        };
        room.copy_from_slice(bytes);
        self.len += bytes.len();
        true
    }
}

/// Result of a step of rustls.
enum Next {
    /// More bytes have to come before the handshake is done.
    Blocked,
    /// The peer has sent close_notify.
    Closed,
    /// Call rustls again.
    Again,
    /// Everything has been processed; records can be sealed.
    Traffic,
}

struct Stepped {
    discard: usize,
    next: Result<Next, rustls::Error>,
}

/// Performs the action that a state of rustls asks for.
fn act<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plain: &mut Plain<'_>,
    out: &mut Vec<u8>,
) -> Stepped {
    let mut discard = status.discard;
    let next = match status.state {
        Err(error) => Err(error),
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                None => break Ok(Next::Again),
                Some(Err(error)) => break Err(error),
                Some(Ok(record)) => {
                    discard += record.discard;
                    if !plain.push(record.payload) {
                        break Err(rustls::Error::General("no room for a record".to_owned()));
                    }
                }
            }
        },
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let start = out.len();
            let mut room = RECORD_LEN;
            loop {
                out.resize(start + room, 0);
                match data.encode(out.get_mut(start..).unwrap_or_default()) {
                    Ok(written) => {
                        out.truncate(start + written);
                        break Ok(Next::Again);
                    }
                    Err(EncodeError::InsufficientSize(size)) => room = size.required_size,
                    Err(EncodeError::AlreadyEncoded) => {
                        out.truncate(start);
                        break Ok(Next::Again);
                    }
                }
            }
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(Next::Again)
        }
        Ok(ConnectionState::WriteTraffic(_)) => Ok(Next::Traffic),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Ok(Next::Closed),
        Ok(ConnectionState::BlockedHandshake) => Ok(Next::Blocked),
        // Early data is never accepted, because a replayed query would run twice. Future states of rustls are errors,
        // too.
        Ok(_) => Err(rustls::Error::HandshakeNotComplete),
    };
    Stepped { discard, next }
}

// === the handshake ===

/// A connection that is not protected yet.
pub struct Handshake {
    connection: Connection,
    /// True without an SSLRequest before the handshake: the application protocol must be agreed on.
    is_direct: bool,
    /// Received bytes that could not be processed yet.
    input: Vec<u8>,
    /// The peer's close_notify came right behind its handshake.
    is_closed: bool,
}

/// State of a handshake after a step.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub enum Progress {
    /// Bytes of the peer are missing; call [`Handshake::advance`] again when they arrive.
    More(Handshake),
    /// The handshake is done. The bytes are data that the peer has sent behind it, opened.
    Done(Box<Session>, Vec<u8>),
}

/// Result of a step of a handshake.
pub struct Advanced {
    /// Bytes to send, also when the handshake has failed: they are the alert then.
    pub output: Vec<u8>,
    /// State of the handshake, or the reason for which it failed.
    pub progress: Result<Progress, TlsFault>,
}

impl Handshake {
    /// Starts the accepting side. `is_direct`: TLS from the first byte on, without an SSLRequest.
    ///
    /// # Errors
    /// If rustls refuses the settings.
    pub fn accept(config: Arc<ServerConfig>, is_direct: bool) -> Result<Self, TlsFault> {
        let connection = Connection::Server(UnbufferedServerConnection::new(config)?);
        Ok(Self::new(connection, is_direct))
    }

    /// Starts the connecting side. Its first message comes out of [`Handshake::advance`] with no bytes.
    ///
    /// # Errors
    /// If rustls refuses the settings.
    pub fn connect(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        is_direct: bool,
    ) -> Result<Self, TlsFault> {
        let connection = Connection::Client(UnbufferedClientConnection::new(config, name)?);
        Ok(Self::new(connection, is_direct))
    }

    fn new(connection: Connection, is_direct: bool) -> Self {
        Self {
            connection,
            is_direct,
            input: Vec::new(),
            is_closed: false,
        }
    }

    /// Processes received bytes. Computes for up to a millisecond.
    #[must_use]
    pub fn advance(mut self, bytes: &[u8]) -> Advanced {
        let mut output = Vec::new();
        if self.input.len() + bytes.len() > HANDSHAKE_LEN_MAX {
            let progress = Err(TlsFault::TooLong);
            return Advanced { output, progress };
        }
        self.input.extend_from_slice(bytes);
        let mut buffer = vec![0; self.input.len()];
        let mut plain = Plain {
            buffer: &mut buffer,
            len: 0,
        };
        let outcome = self.run(&mut plain, &mut output);
        let len = plain.len;
        let progress = match outcome {
            Ok(false) => Ok(Progress::More(self)),
            Ok(true) => self.finish().map(|session| {
                buffer.truncate(len);
                Progress::Done(Box::new(session), buffer)
            }),
            Err(fault) => Err(fault),
        };
        Advanced { output, progress }
    }

    /// Runs rustls until it needs more bytes. True if the handshake is done.
    fn run(&mut self, plain: &mut Plain<'_>, output: &mut Vec<u8>) -> Result<bool, TlsFault> {
        loop {
            let stepped = self.connection.step(&mut self.input, plain, output);
            self.input.drain(..stepped.discard.min(self.input.len()));
            match stepped.next {
                Ok(Next::Again) => {}
                Ok(Next::Blocked) => return Ok(false),
                Ok(Next::Traffic) => return Ok(true),
                // A cancel request and its close_notify may come with the end of the handshake.
                Ok(Next::Closed) if !self.connection.common().is_handshaking() => {
                    self.is_closed = true;
                    return Ok(true);
                }
                Ok(Next::Closed) => return Err(rustls::Error::HandshakeNotComplete.into()),
                Err(error) => {
                    say_why(&mut self.connection, &mut self.input, output);
                    return Err(error.into());
                }
            }
        }
    }

    fn finish(self) -> Result<Session, TlsFault> {
        let common = self.connection.common();
        if !alpn_is_fine(self.is_direct, common.alpn_protocol()) {
            return Err(TlsFault::NoApplicationProtocol);
        }
        let (Some(version), Some(suite)) =
            (common.protocol_version(), common.negotiated_cipher_suite())
        else {
            return Err(rustls::Error::HandshakeNotComplete.into());
        };
        Ok(Session {
            protection: Protection {
                version,
                suite: suite.suite(),
            },
            connection: self.connection,
            // A copy, so that the handshake's larger buffer is freed.
            rest: self.input.to_vec(),
            is_closed: self.is_closed,
            fault: None,
        })
    }
}

/// Appends the alert that rustls has prepared. Stops there: rustls must not look at input again once it has failed.
fn say_why(connection: &mut Connection, input: &mut [u8], output: &mut Vec<u8>) {
    let mut plain = Plain {
        buffer: &mut [],
        len: 0,
    };
    while connection.common().wants_write() {
        let stepped = connection.step(input, &mut plain, output);
        if !matches!(stepped.next, Ok(Next::Again)) {
            return;
        }
    }
}

// === the session ===

/// A protected connection.
pub struct Session {
    connection: Connection,
    protection: Protection,
    /// The beginning of a record, or of a handshake message in several records, that is not complete yet. rustls keeps
    /// ranges of these bytes and needs them at every call.
    rest: Vec<u8>,
    is_closed: bool,
    /// The fault that ended the connection.
    fault: Option<TlsFault>,
}

/// Result of opening received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Number of plain bytes written to the caller's buffer.
    pub len: usize,
    /// True if the peer has sent close_notify: nothing comes after these bytes.
    pub is_closed: bool,
}

impl Session {
    /// Returns version and cipher suite.
    #[must_use]
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// Returns the peer's own certificate, if it sent one.
    #[must_use]
    pub fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.connection.common().peer_certificates()?.first()
    }

    /// True if the peer has sent close_notify: nothing more comes.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// True if a record is half received.
    #[must_use]
    pub fn has_partial_record(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Moves a half-received record to the start of `buffer`, so that the rest can be received behind it. Returns its
    /// length; 0, and it stays here, if `buffer` is too short.
    pub fn take_partial(&mut self, buffer: &mut [u8]) -> usize {
        let rest = std::mem::take(&mut self.rest);
        let Some(room) = buffer.get_mut(..rest.len()) else {
            self.rest = rest;
            return 0;
        };
        room.copy_from_slice(&rest);
        rest.len()
    }

    /// Returns the bytes taken by [`Session::take_partial`], if nothing was received behind them.
    pub fn put_back(&mut self, partial: &[u8]) {
        self.rest = partial.to_vec();
    }

    /// Opens the records in `received`, which begins with the bytes from [`Session::take_partial`]. Plain bytes go to
    /// `buffer`, which must be at least as long. Bytes to send in answer (a key update) are appended to `out`.
    ///
    /// # Errors
    /// A record was tampered with or is malformed; `out` has the alert for it then.
    pub fn open(
        &mut self,
        received: &mut [u8],
        buffer: &mut [u8],
        out: &mut Vec<u8>,
    ) -> Result<Opened, TlsFault> {
        self.check()?;
        let mut plain = Plain { buffer, len: 0 };
        let mut at = 0;
        loop {
            let input = received.get_mut(at..).unwrap_or_default();
            let stepped = self.connection.step(input, &mut plain, out);
            at += stepped.discard;
            match stepped.next {
                Ok(Next::Again) => {}
                Ok(Next::Closed) => {
                    self.is_closed = true;
                    break;
                }
                Ok(Next::Traffic | Next::Blocked) => break,
                Err(error) => {
                    let rest = received.get_mut(at..).unwrap_or_default();
                    say_why(&mut self.connection, rest, out);
                    let fault = TlsFault::from(error);
                    self.fault = Some(fault.clone());
                    return Err(fault);
                }
            }
        }
        if let Some(rest) = received.get(at..).filter(|rest| !rest.is_empty()) {
            self.rest = rest.to_vec();
        }
        Ok(Opened {
            len: plain.len,
            is_closed: self.is_closed,
        })
    }

    /// Returns the length of the buffer that [`Session::seal`] needs for this many plain bytes.
    #[must_use]
    pub fn sealed_len_max(plain_len: usize) -> usize {
        plain_len + (plain_len / RECORD_LEN + 1) * RECORD_OVERHEAD + SLACK
    }

    /// Seals `plain` into records at the start of `buffer`, which has [`Session::sealed_len_max`] bytes. Returns the
    /// number of bytes written.
    ///
    /// # Errors
    /// If the connection may not send any more.
    pub fn seal(&mut self, plain: &[u8], buffer: &mut [u8]) -> Result<usize, TlsFault> {
        self.check()?;
        let rest = &mut self.rest;
        match &mut self.connection {
            Connection::Client(connection) => {
                seal(connection.process_tls_records(rest), plain, buffer)
            }
            Connection::Server(connection) => {
                seal(connection.process_tls_records(rest), plain, buffer)
            }
        }
    }

    /// Returns the close_notify to send before the socket is closed; empty if it cannot be sent any more.
    #[must_use]
    pub fn close(&mut self) -> Vec<u8> {
        if self.fault.is_some() {
            return Vec::new();
        }
        let mut buffer = vec![0; SLACK];
        let rest = &mut self.rest;
        let written = match &mut self.connection {
            Connection::Client(connection) => {
                close(connection.process_tls_records(rest), &mut buffer)
            }
            Connection::Server(connection) => {
                close(connection.process_tls_records(rest), &mut buffer)
            }
        };
        buffer.truncate(written);
        buffer
    }

    /// Returns the first fault, if there was one.
    fn check(&self) -> Result<(), TlsFault> {
        self.fault.clone().map_or(Ok(()), Err)
    }
}

fn seal<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plain: &[u8],
    buffer: &mut [u8],
) -> Result<usize, TlsFault> {
    match status.state? {
        ConnectionState::WriteTraffic(mut traffic) => match traffic.encrypt(plain, buffer) {
            Ok(written) => Ok(written),
            Err(EncryptError::EncryptExhausted) => Err(rustls::Error::EncryptError.into()),
            Err(EncryptError::InsufficientSize(_)) => {
                Err(rustls::Error::General("no room to seal".to_owned()).into())
            }
        },
        _ => Err(rustls::Error::HandshakeNotComplete.into()),
    }
}

fn close<Data>(status: UnbufferedStatus<'_, '_, Data>, buffer: &mut [u8]) -> usize {
    match status.state {
        Ok(ConnectionState::WriteTraffic(mut traffic)) => {
            traffic.queue_close_notify(buffer).unwrap_or_default()
        }
        _ => 0,
    }
}
