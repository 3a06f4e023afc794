//! What workers and helper threads tell a worker. Bounded; the sender learns when it is full and decides.

use std::net::IpAddr;
use std::sync::Arc;

use crossbeam_channel::Sender;
use mio::Waker;
use weir_auth::kdf::ScramKeys;
use weir_pool::{Moment, Parcel, Scope};
use weir_stats::Snapshot;

use crate::console::Shutdown;
use crate::global::{GlobalPool, Place};
use crate::handover::Link;
use crate::listen::Accepted;
use crate::moved::MovedServer;
use crate::orders::{Refusal, Task};
use crate::resolve::Resolved;
use crate::socket::Stream;
use crate::tls::Advanced;
use crate::worker::{
    Answered, Arrival, Asking, CancellerId, ClientId, Forward, Heard, Leaver, ServerId,
};

mod channel;
mod sync;

/// Messages that a worker may have waiting.
const MESSAGES_MAX: usize = 4096;

/// Who asked a helper thread for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    Cancel(CancellerId),
    Client(ClientId),
    Server(ServerId),
}

/// Source of a cancel request that a worker passes on.
pub(crate) enum CancelFrom {
    /// Nobody who waits to be told.
    Nobody,
    /// A connection of another worker's, which is closed when the cancel is over.
    Socket(Stream),
    /// A connection of the other process of an upgrade.
    Neighbour(Place),
}

/// Everything that reaches a worker from outside its sockets and timers.
pub(crate) enum Message {
    /// A new client for this worker.
    Accepted(Box<Accepted>),
    /// A client of the process before this one.
    Arrived(Box<Arrival>),
    /// A worker's waiter could use an idle server.
    Ask { pool: Arc<GlobalPool>, from: usize },
    /// There was none.
    AskRefused { pool: Arc<GlobalPool> },
    /// Tell when everything that was sent before this has been dealt with.
    Barrier(Sender<()>),
    /// Cancel what this client is doing; who asked is told when that is done.
    Cancel { client: ClientId, asker: CancelFrom },
    /// The other process is done with the cancel that this connection asked for.
    CancelOver(ClientId),
    /// A limit that another worker needs is full: close the idle server that fits, or pass it on.
    Evict {
        scope: Scope,
        pool: Arc<GlobalPool>,
        /// Workers that have looked.
        hops: usize,
    },
    /// A successor accepts clients: send it ours.
    HandOver(Arc<Link>),
    /// The connection that listens for this worker's clients has something for them.
    Heard(Vec<Heard>),
    /// A helper has taken a step of a TLS handshake.
    Handshake {
        asker: Asker,
        advanced: Box<Advanced>,
    },
    /// A fact that a login asked for.
    Learnt {
        asker: Asker,
        answered: Box<Answered>,
    },
    /// Keys were derived (`None`: the helper could not take the work).
    Keys {
        asker: Asker,
        keys: Option<ScramKeys>,
    },
    /// A client wants to listen, or to stop.
    Listen(Box<Asking>),
    /// A client does not listen any more.
    ListenEnd(Box<Leaver>),
    /// Servers of this pool that began until then have a role or defaults that are not those of today.
    Outdated {
        pool: Arc<GlobalPool>,
        before: Moment,
    },
    /// A server changes hands.
    Parcel {
        pool: Arc<GlobalPool>,
        parcel: Parcel,
        server: Box<MovedServer>,
        asked: bool,
    },
    /// The address of a peer, to which a cancel request is to be sent on.
    PeerFound {
        forward: Box<Forward>,
        addresses: Result<Vec<IpAddr>, String>,
    },
    /// A command of the console was carried out, or not.
    Performed {
        question: u64,
        outcome: Result<(), Refusal>,
    },
    /// Give a sign of life, with this number.
    Pulse(u64),
    /// A host name was resolved, or not.
    Resolved(Resolved),
    /// Somebody wants this worker's figures. He waits for them, within limits.
    Measure(Sender<Box<Snapshot>>),
    /// The configuration has changed.
    Settings,
    /// Stop.
    Shutdown(Shutdown),
    /// What an order asks of every worker; `Tasked` is the answer to `to`, if somebody waits for one.
    Task {
        task: Task,
        to: Option<(usize, u64)>,
    },
    /// Whether there was something to do.
    Tasked { question: u64, found: bool },
    /// Describe yourself, for this worker and question.
    Describe { to: usize, question: u64 },
    /// The answer.
    Description {
        question: u64,
        snapshot: Box<Snapshot>,
    },
}

/// The sending half.
pub(crate) type Mailbox = channel::Mailbox<Message>;

/// The receiving half.
pub(crate) type Letters = channel::Letters<Message>;

/// Makes a mailbox whose messages wake this worker.
pub(crate) fn mailbox(waker: Arc<Waker>) -> (Mailbox, Letters) {
    channel::mailbox(MESSAGES_MAX, waker)
}
