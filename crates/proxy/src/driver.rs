//! Interface between the engine and the operating system, in the form of completions.
//!
//! The engine says "connect", "send", "stop", "close". The driver reports events: bytes were received, a connection
//! was made or lost, unsent bytes are on their way. The engine never asks if a socket is ready. [`Epoll`] implements this with
//! readiness events, [`Uring`] delivers the same [`Completion`]s from a ring.

use std::fmt;
use std::io;
use std::time::Duration;

use weir_pool::Moment;
use weir_stats::Endpoint;

use crate::listen::Accepted;
use crate::socket::{Stream, Target, TcpOptions};
use crate::tls::Session;
use crate::worker::{CancellerId, ClientId, ServerId};

mod chunk;
mod epoll;
#[cfg(test)]
pub(crate) mod memory;
mod secured;
#[cfg(test)]
mod tests;
mod uring;
mod why;

pub(crate) use chunk::{CHUNK, Chunk};
pub(crate) use epoll::Epoll;
#[cfg(test)]
pub(crate) use memory::MemoryStream;
pub(crate) use uring::Uring;
pub(crate) use why::{Reasons, Why};

slotmap::new_key_type! {
    /// Id of a connection in the driver, valid until the connection is closed, detached or ended. Calls with the key of
    /// a gone connection have no effect. Neither have calls with the null key, which no connection ever has.
    pub(crate) struct Key;
}

/// Owner of a connection: the engine's own id, returned with each completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A connection that carries a cancel request.
    Cancel(CancellerId),
    Client(ClientId),
    /// No owner any more: only the backlog is still being sent.
    Nobody,
    Server(ServerId),
}

/// Course of a connection in a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// The connection is closed once its backlog is sent.
    Closing,
    /// The connection leaves the driver once its backlog is sent and nothing is received any more.
    Detaching,
    Open,
}

/// Time after which the backlog of a closed connection is dropped.
const LINGER: Duration = Duration::from_secs(5);

/// Event that the driver reports. Rare events are boxed, so that the frequent ones are moved cheaply.
#[derive(Debug)]
pub(crate) enum Completion {
    Accepted(Box<Accepted>),
    /// Accepting failed for lack of descriptors or memory. The driver tries again later.
    AcceptFailed(io::Error),
    Connected(Owner),
    ConnectFailed(Owner, io::Error),
    /// The connection is out of the driver: the end of [`Driver::begin_detach`].
    Detached(Owner, Box<Stream>),
    /// No byte is unsent any more: the socket has taken all of them, or the connection broke and its end follows. Comes
    /// after [`Flow::Full`], and after [`Driver::is_drained`] has returned false; otherwise a driver may leave it out.
    Drained(Owner),
    Ended(Owner, Ending),
    /// Bytes were received. The chunk goes back by [`Driver::recycle`] when they are sent or copied.
    Received(Owner, Chunk),
}

/// Answer to a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The connection takes more.
    On,
    /// The connection has as many unsent bytes as it should have: the sender stops until [`Completion::Drained`].
    Full,
}

/// End of a connection: the peer has closed, or the connection broke. A broken TLS record counts as a broken connection.
#[derive(Debug)]
pub(crate) struct Ending {
    /// Error that broke the connection; none if the peer closed it in order.
    pub(crate) error: Option<io::Error>,
    /// Reasons for which the connection was not received from when it ended.
    pub(crate) reasons: Reasons,
}

impl Completion {
    /// Returns the owner of the connection that the completion is about.
    pub(crate) fn owner(&self) -> Owner {
        match self {
            Self::Accepted(_) | Self::AcceptFailed(_) => Owner::Nobody,
            Self::Connected(owner)
            | Self::ConnectFailed(owner, _)
            | Self::Detached(owner, _)
            | Self::Drained(owner)
            | Self::Ended(owner, _)
            | Self::Received(owner, _) => *owner,
        }
    }
}

/// Means by which other threads end a driver's wait.
pub(crate) trait Wake: fmt::Debug + Send + Sync {
    /// Makes the driver's current or next wait return at once.
    fn wake(&self) -> io::Result<()>;
}

/// See the module's page.
pub(crate) trait Driver {
    /// Waits for events, at most for `timeout`. `now` is the time at which the wait begins.
    fn wait(&mut self, now: Moment, timeout: Option<Duration>) -> io::Result<()>;

    /// Returns the next event.
    fn next(&mut self) -> Option<Completion>;

    /// Takes back the memory of a chunk.
    fn recycle(&mut self, chunk: Chunk);

    /// Takes over a connected socket. Bytes that were received before are reported first.
    fn add(&mut self, stream: Stream, owner: Owner) -> io::Result<Key>;

    /// Begins to connect; a completion reports the outcome.
    fn connect(&mut self, target: &Target, owner: Owner) -> io::Result<Key>;

    /// Sends all bytes, behind those sent before. The answer says if the sender may go on; the bytes may be unsent in
    /// either case.
    fn send(&mut self, key: Key, bytes: &[u8]) -> Flow;

    /// Starts TLS: from now on, received bytes are opened and sent bytes are sealed. Earlier bytes were plain.
    fn secure(&mut self, key: Key, session: Box<Session>);

    /// Number of bytes that are still to be sent, as far as the driver has reported.
    fn unsent(&self, key: Key) -> usize;

    /// True if no byte is unsent. If there are some, [`Completion::Drained`] comes when there are none.
    fn is_drained(&mut self, key: Key) -> bool;

    /// True from [`Flow::Full`] until [`Completion::Drained`].
    fn is_full(&self, key: Key) -> bool;

    /// Returns our own address of the connection; a unix socket has `unix_port` as its port.
    fn local(&self, key: Key, unix_port: u16) -> Endpoint;

    /// True if the peer is known to have sent bytes or closed, and no completion has reported it yet.
    fn has_news(&self, key: Key) -> bool;

    /// Stops receiving for this reason: no [`Completion::Received`] while any reason is left. A broken connection is
    /// still reported.
    fn stop(&mut self, key: Key, why: Why);

    /// Takes a reason back. The connection is received from again if no other reason is left.
    fn go(&mut self, key: Key, why: Why);

    /// Takes all reasons back: the connection's user is another one from now on.
    fn clear_reasons(&mut self, key: Key);

    /// Returns the reasons for which the connection is not received from.
    fn reasons(&self, key: Key) -> Reasons;

    /// Stops receiving and accepting until `resume_all`, except on connections that are kept awake.
    fn suspend_all(&mut self);

    /// Takes a `suspend_all` back.
    fn resume_all(&mut self);

    /// Serves this connection even while the others are suspended.
    fn keep_awake(&mut self, key: Key);

    /// Closes the connection once its backlog is sent, or after a few seconds.
    fn close(&mut self, key: Key);

    /// Closes the connection at once and drops its backlog.
    fn abort(&mut self, key: Key);

    /// Closes the connection at once. The message is sent before if the socket takes it whole, without waiting.
    fn close_with(&mut self, key: Key, message: &[u8]);

    /// Begins to take an established connection out of the driver. From now on nothing is received from it.
    /// [`Completion::Detached`] comes when all bytes are sent, or [`Completion::Ended`] if the connection breaks before.
    /// Neither comes if the connection is closed first. Does nothing for a connection that is already on its way.
    fn begin_detach(&mut self, key: Key);

    /// Returns the next [`Completion::Detached`], ahead of all other events, if a connection is out already. So a server
    /// that another worker has asked for goes in the same turn.
    fn next_detached(&mut self) -> Option<Completion>;

    /// Sets the options of connections made from now on; called by a reload.
    fn set_options(&mut self, options: TcpOptions);

    /// Sets the time for which a wait polls for events before it sleeps; called at the start and by a reload.
    fn set_spin(&mut self, spin: Duration);

    /// Stops accepting for good.
    fn stop_accepting(&mut self);

    /// Stops accepting TCP connections for good. Unix sockets stay open for an administrator.
    fn stop_accepting_tcp(&mut self);
}
