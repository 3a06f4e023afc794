//! Listening sockets that were opened by somebody else: a service manager, or the process before this one.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;

/// A socket that another process has opened for us. A service manager's files of unix sockets stay when we end; those of
/// our predecessor are ours by now.
#[derive(Debug)]
pub struct Passed {
    pub(super) kind: Kind,
    /// We remove its file.
    pub(super) owns_file: bool,
}

#[derive(Debug)]
pub(super) enum Kind {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl From<TcpListener> for Passed {
    fn from(listener: TcpListener) -> Self {
        Self {
            kind: Kind::Tcp(listener),
            owns_file: false,
        }
    }
}

impl From<UnixListener> for Passed {
    fn from(listener: UnixListener) -> Self {
        Self::unix(listener, false)
    }
}

impl Passed {
    pub(crate) fn unix(listener: UnixListener, owns_file: bool) -> Self {
        Self {
            kind: Kind::Unix(listener),
            owns_file,
        }
    }

    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.kind, Kind::Unix(_))
    }

    pub(crate) fn owns_file(&self) -> bool {
        self.owns_file
    }

    /// Whether connections can come in.
    ///
    /// # Errors
    /// The system cannot say.
    pub fn is_listening(&self) -> io::Result<bool> {
        Ok(rustix::net::sockopt::socket_acceptconn(self)?)
    }
}

impl AsFd for Passed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Tcp(listener) => listener.as_fd(),
            Kind::Unix(listener) => listener.as_fd(),
        }
    }
}
