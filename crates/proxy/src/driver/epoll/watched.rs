//! Registration of sockets with epoll.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use crate::listen::Listener;
use crate::socket::Socket;

/// Watches a connection; also for writability, if it is connecting.
pub(super) fn watch(
    registry: &Registry,
    socket: &Socket,
    token: Token,
    writable: bool,
) -> io::Result<()> {
    let descriptor = descriptor(socket)?;
    SourceFd(&descriptor.as_raw_fd()).register(registry, token, interest(writable))
}

/// Watches a known connection for writability, too, or no longer.
pub(super) fn watch_anew(
    registry: &Registry,
    socket: &Socket,
    token: Token,
    writable: bool,
) -> io::Result<()> {
    let descriptor = descriptor(socket)?;
    SourceFd(&descriptor.as_raw_fd()).reregister(registry, token, interest(writable))
}

/// Watches a listening socket.
pub(super) fn listen_to(registry: &Registry, listener: &Listener, token: Token) -> io::Result<()> {
    let descriptor = listener.as_fd().as_raw_fd();
    SourceFd(&descriptor).register(registry, token, Interest::READABLE)
}

/// Ends the watch. The socket may stay open: another worker or process may have it.
pub(super) fn forget(registry: &Registry, descriptor: Option<BorrowedFd<'_>>) {
    if let Some(descriptor) = descriptor {
        let _ = SourceFd(&descriptor.as_raw_fd()).deregister(registry);
    }
}

fn descriptor(socket: &Socket) -> io::Result<BorrowedFd<'_>> {
    // Only sockets of tests have none.
    socket
        .descriptor()
        .ok_or_else(|| io::ErrorKind::Unsupported.into())
}

fn interest(writable: bool) -> Interest {
    match writable {
        true => Interest::READABLE | Interest::WRITABLE,
        false => Interest::READABLE,
    }
}
