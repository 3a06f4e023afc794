//! Listening sockets that were opened by somebody else: a service manager.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;

/// A socket that another process has opened for us. Files of unix sockets stay when we end: they are its.
#[derive(Debug)]
pub struct Passed(pub(super) Kind);

#[derive(Debug)]
pub(super) enum Kind {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl From<TcpListener> for Passed {
    fn from(listener: TcpListener) -> Self {
        Self(Kind::Tcp(listener))
    }
}

impl From<UnixListener> for Passed {
    fn from(listener: UnixListener) -> Self {
        Self(Kind::Unix(listener))
    }
}

impl Passed {
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
        match &self.0 {
            Kind::Tcp(listener) => listener.as_fd(),
            Kind::Unix(listener) => listener.as_fd(),
        }
    }
}
