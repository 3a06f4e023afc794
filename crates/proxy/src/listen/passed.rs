//! Listening sockets opened by another process: a service manager, or the predecessor of this process.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;

/// Listening socket opened by another process. The socket files of a service manager stay when we end; those of our
/// predecessor are ours.
#[derive(Debug)]
pub struct Passed {
    pub(super) kind: Kind,
    /// True if this process removes the socket file.
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

    /// True if the socket listens for connections.
    ///
    /// # Errors
    /// The system call fails.
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
