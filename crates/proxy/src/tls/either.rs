//! Types of `weir_tls::session` for tests: real TLS, or its stand-in.

use std::fmt;
use std::sync::Arc;

use weir_tls::session::{
    self as real, CertificateDer, ClientConfig, Opened, ServerConfig, ServerName, TlsFault,
};

use super::stub;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    Real(real::Protection),
    Stub,
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Real(protection) => protection.fmt(f),
            Self::Stub => f.write_str("stub"),
        }
    }
}

/// See [`real::Handshake`].
#[expect(clippy::large_enum_variant, reason = "only tests have it")]
pub(crate) enum Handshake {
    Real(real::Handshake),
    Stub(stub::Handshake),
}

#[expect(clippy::large_enum_variant, reason = "only tests have it")]
pub(crate) enum Progress {
    More(Handshake),
    Done(Box<Session>, Vec<u8>),
}

pub(crate) struct Advanced {
    pub(crate) output: Vec<u8>,
    pub(crate) progress: Result<Progress, TlsFault>,
}

impl Handshake {
    pub(crate) fn accept(config: Arc<ServerConfig>, is_direct: bool) -> Result<Self, TlsFault> {
        real::Handshake::accept(config, is_direct).map(Self::Real)
    }

    pub(crate) fn connect(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        is_direct: bool,
    ) -> Result<Self, TlsFault> {
        real::Handshake::connect(config, name, is_direct).map(Self::Real)
    }

    /// Returns the server's side of the stand-in. Its handshake is short or long, as the client asks.
    pub(crate) fn stub_server() -> Self {
        Self::Stub(stub::Handshake::accept(None))
    }

    /// Returns the client's side of the stand-in.
    pub(crate) fn stub_client() -> Self {
        Self::Stub(stub::Handshake::connect(None))
    }

    pub(crate) fn advance(self, bytes: &[u8]) -> Advanced {
        match self {
            Self::Real(handshake) => {
                let advanced = handshake.advance(bytes);
                let progress = advanced.progress.map(|progress| match progress {
                    real::Progress::More(handshake) => Progress::More(Self::Real(handshake)),
                    real::Progress::Done(session, plain) => {
                        Progress::Done(Box::new(Session::Real(*session)), plain)
                    }
                });
                Advanced {
                    output: advanced.output,
                    progress,
                }
            }
            Self::Stub(handshake) => {
                let (output, progress) = handshake.advance(bytes);
                let progress = progress.map(|progress| match progress {
                    stub::Progress::More(handshake) => Progress::More(Self::Stub(handshake)),
                    stub::Progress::Done(session, plain) => {
                        Progress::Done(Box::new(Session::Stub(session)), plain)
                    }
                });
                Advanced { output, progress }
            }
        }
    }
}

/// See [`real::Session`].
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "only tests have it")]
pub(crate) enum Session {
    Real(real::Session),
    Stub(stub::Session),
}

impl Session {
    /// True for the stand-in.
    pub(crate) fn is_stub(&self) -> bool {
        matches!(self, Self::Stub(_))
    }

    pub(crate) fn protection(&self) -> Protection {
        match self {
            Self::Real(session) => Protection::Real(session.protection()),
            Self::Stub(_) => Protection::Stub,
        }
    }

    pub(crate) fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        match self {
            Self::Real(session) => session.peer_certificate(),
            Self::Stub(_) => None,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Real(session) => session.is_closed(),
            Self::Stub(session) => session.is_closed(),
        }
    }

    pub(crate) fn has_partial_record(&self) -> bool {
        match self {
            Self::Real(session) => session.has_partial_record(),
            Self::Stub(session) => session.has_partial_record(),
        }
    }

    pub(crate) fn take_partial(&mut self, buffer: &mut [u8]) -> usize {
        match self {
            Self::Real(session) => session.take_partial(buffer),
            Self::Stub(session) => session.take_partial(buffer),
        }
    }

    pub(crate) fn put_back(&mut self, partial: &[u8]) {
        match self {
            Self::Real(session) => session.put_back(partial),
            Self::Stub(session) => session.put_back(partial),
        }
    }

    pub(crate) fn open(
        &mut self,
        received: &mut [u8],
        buffer: &mut [u8],
        out: &mut Vec<u8>,
    ) -> Result<Opened, TlsFault> {
        match self {
            Self::Real(session) => session.open(received, buffer, out),
            Self::Stub(session) => session.open(received, buffer, out),
        }
    }

    pub(crate) fn sealed_len_max(plain_len: usize) -> usize {
        stub::sealed_len_max(plain_len).max(real::Session::sealed_len_max(plain_len))
    }

    pub(crate) fn seal(&mut self, plain: &[u8], buffer: &mut [u8]) -> Result<usize, TlsFault> {
        match self {
            Self::Real(session) => session.seal(plain, buffer),
            Self::Stub(session) => Ok(session.seal(plain, buffer)),
        }
    }

    pub(crate) fn close(&mut self) -> Vec<u8> {
        match self {
            Self::Real(session) => session.close(),
            Self::Stub(session) => session.close(),
        }
    }
}
