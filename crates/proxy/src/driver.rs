//! What the engine asks of the operating system, in the shape of completions.
//!
//! The engine says "connect", "send", "pause", "close" and is told what has happened: bytes were received, a connection
//! was made or lost, a backlog is gone. It never asks whether a socket is ready. [`Epoll`] does it with readiness
//! events; a driver over io_uring would deliver the same [`Completion`]s from its ring.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use weir_pool::Moment;
use weir_stats::Endpoint;

use crate::listen::Accepted;
use crate::socket::{Stream, Target, TcpOptions};
use crate::tls::Session;
use crate::worker::{CancellerId, ClientId, ServerId};

mod epoll;
#[cfg(test)]
pub(crate) mod memory;
mod secured;

pub(crate) use epoll::Epoll;
#[cfg(test)]
pub(crate) use memory::MemoryStream;

slotmap::new_key_type! {
    /// Id of a connection with the driver, until that is closed, detached or ended. Nothing that is done to a connection
    /// that is gone has an effect, nor to the null key, which no connection ever has.
    pub(crate) struct Key;
}

/// Whose connection it is; the engine's name, given back with each completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A connection that carries a cancel request.
    Cancel(CancellerId),
    Client(ClientId),
    /// Nobody's any more: only its backlog is still being sent.
    Nobody,
    Server(ServerId),
}

/// Something that has happened.
#[derive(Debug)]
pub(crate) enum Completion {
    Accepted(Accepted),
    /// Accepting failed for want of descriptors or memory; it is tried again by itself.
    AcceptFailed(io::Error),
    Connected(Owner),
    ConnectFailed(Owner, io::Error),
    /// Everything that a send left behind has been taken by the socket.
    Drained(Owner),
    /// The other side has closed, or the connection broke.
    /// A broken TLS record counts as broken connection.
    Ended(Owner, Option<io::Error>),
    /// So many bytes are at the start of the buffer.
    Received(Owner, usize),
}

impl Completion {
    /// Whose connection it is about.
    pub(crate) fn owner(&self) -> Owner {
        match self {
            Self::Accepted(_) | Self::AcceptFailed(_) => Owner::Nobody,
            Self::Connected(owner)
            | Self::ConnectFailed(owner, _)
            | Self::Drained(owner)
            | Self::Ended(owner, _)
            | Self::Received(owner, _) => *owner,
        }
    }
}

/// See the module's page.
pub(crate) trait Driver {
    /// Waits until something has happened, at most so long. `now` is the time when it begins.
    fn wait(&mut self, now: Moment, timeout: Option<Duration>) -> io::Result<()>;

    /// The next thing that has happened; received bytes are put into `buffer`.
    fn next(&mut self, buffer: &mut [u8]) -> Option<Completion>;

    /// Takes over a connected socket.
    fn add(&mut self, stream: Stream, owner: Owner) -> io::Result<Key>;

    /// Begins to connect; a completion says how it ended.
    fn connect(&mut self, target: &Target, owner: Owner) -> io::Result<Key>;

    /// Sends all of it; returns how many bytes could not be sent yet. The caller stops producing while that is not 0.
    fn send(&mut self, key: Key, bytes: &[u8]) -> usize;

    /// From now on what is received is opened and what is sent is sealed; bytes were exchanged as they are before that.
    fn secure(&mut self, key: Key, session: Box<Session>);

    /// How many bytes are still to be sent.
    fn backlog(&self, key: Key) -> usize;

    /// Our own end of the connection; of a unix socket this port.
    fn local(&self, key: Key, unix_port: u16) -> Endpoint;

    /// Whether the other side is known to have sent something, or to have gone, that was not told yet.
    fn has_news(&self, key: Key) -> bool;

    /// Stops receiving: no [`Completion::Received`] until [`Driver::resume`]. A broken connection is still told.
    fn pause(&mut self, key: Key);

    /// Receives again.
    fn resume(&mut self, key: Key);

    /// Receives nothing and accepts nobody until `resume_all`, but for connections that are kept awake.
    fn suspend_all(&mut self);

    /// Takes that back.
    fn resume_all(&mut self);

    /// This connection is served even while the others are suspended.
    fn keep_awake(&mut self, key: Key);

    /// Closes after the backlog was sent, or a few seconds later.
    fn close(&mut self, key: Key);

    /// Closes at once; what is still to be sent is not sent.
    fn abort(&mut self, key: Key);

    /// Takes a connection out of the driver, unless bytes are still to be sent.
    fn detach(&mut self, key: Key) -> Option<Stream>;

    /// A connection's socket, if nothing is still to be sent and its bytes go as they are.
    fn socket(&self, key: Key) -> Option<BorrowedFd<'_>>;

    /// A reload: connections from now on are made with these options.
    fn set_options(&mut self, options: TcpOptions);

    /// Stops accepting for good.
    fn stop_accepting(&mut self);

    /// The same but for unix sockets, by which an administrator may still come.
    fn stop_accepting_tcp(&mut self);
}
