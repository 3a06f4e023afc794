//! Messages to a worker from other workers and helper threads. The mailbox is bounded; a sender learns when it is full,
//! and decides.

use std::net::IpAddr;
use std::sync::Arc;

use crossbeam_channel::Sender;
use weir_auth::kdf::ScramKeys;
use weir_pool::{Moment, Scope, Transfer};
use weir_rules::Permit;
use weir_stats::Snapshot;

use crate::console::Shutdown;
use crate::driver::Wake;
use crate::global::{GlobalPool, Place};
use crate::handover::Link;
use crate::inspect::Detail;
use crate::listen::Accepted;
use crate::mirrors::Newcomer;
use crate::moved::MovedServer;
use crate::neighbours::{FarAsker, Side};
use crate::orders::{Order, Receipt, Refusal, Task};
use crate::resolve::Resolved;
use crate::tls::Advanced;
use crate::worker::{
    Answered, Arrival, Asking, CancellerId, ClientId, Forward, Heard, Leaver, ServerId,
};

pub(crate) mod channel;
mod sync;

/// Maximum number of messages that wait for a worker.
const MESSAGES_MAX: usize = 4096;

/// Connection that asked a helper thread for a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    Cancel(CancellerId),
    Client(ClientId),
    Server(ServerId),
}

/// Source of a cancel request that a worker passes on.
pub(crate) enum CancelFrom {
    /// Connection of the process on this side in an upgrade.
    Neighbour(Side, FarAsker),
    /// Connection of another worker, closed when the cancel is over.
    Worker(Place),
}

/// Message to a worker: everything that reaches it except through sockets and timers.
pub(crate) enum Message {
    /// New client for this worker.
    Accepted(Box<Accepted>),
    /// Client moved from the previous process.
    Arrived(Box<Arrival>),
    /// Worker `from` has a waiter that could use an idle server.
    Ask { pool: Arc<GlobalPool>, from: usize },
    /// Answer to `Ask`: there was no idle server.
    AskRefused { pool: Arc<GlobalPool> },
    /// Report when every earlier message has been processed.
    Barrier(Sender<()>),
    /// Cancel the statement of this client. The asker is told when that is done.
    Cancel { client: ClientId, asker: CancelFrom },
    /// Cancel requested by this connection is over, on another worker or in the other process.
    CancelOver(ClientId),
    /// Limit that another worker needs is full: close an idle server that fits, or pass the message on.
    Evict {
        scope: Scope,
        pool: Arc<GlobalPool>,
        /// Number of workers that have looked.
        asked: usize,
    },
    /// Successor accepts clients: send it ours.
    HandOver(Arc<Link>),
    /// Notifications for clients of this worker, from the connection that listens for them.
    Heard(Vec<Heard>),
    /// New client of a mirror.
    Mirror(Box<Newcomer>),
    /// Step of a TLS handshake, done by a helper.
    Handshake {
        asker: Asker,
        advanced: Box<Advanced>,
    },
    /// Fact that a login asked for.
    Learnt {
        asker: Asker,
        answered: Box<Answered>,
    },
    /// Keys derived by a helper; `None` if the helper could not take the work.
    Keys {
        asker: Asker,
        keys: Option<ScramKeys>,
    },
    /// Request of a client to listen, to stop listening, or to get the notifications that are committed by now.
    Listen(Box<Asking>),
    /// Client that no longer listens.
    ListenEnd(Box<Leaver>),
    /// Servers of this pool that connected until `before` have an outdated role or outdated defaults.
    Outdated {
        pool: Arc<GlobalPool>,
        before: Moment,
    },
    /// Server handed over from another worker.
    Transfer {
        pool: Arc<GlobalPool>,
        transfer: Box<Transfer>,
        server: Box<MovedServer>,
        asked: bool,
    },
    /// Addresses of a peer, to which a cancel request is to be sent on.
    PeerFound {
        forward: Box<Forward>,
        addresses: Result<Vec<IpAddr>, String>,
    },
    /// Order of the process on this side.
    Ordered(Side, Box<Order>, Receipt),
    /// Outcome of a console command.
    Performed {
        question: u64,
        outcome: Result<(), Refusal>,
    },
    /// Watchdog's check that the worker runs: answer with this number.
    Pulse(u64),
    /// Result of a host name lookup.
    Resolved(Resolved),
    /// Send this worker's figures; the caller waits for them, within limits.
    Measure {
        detail: Detail,
        answer: Sender<Box<Snapshot>>,
    },
    /// Configuration has changed.
    Settings,
    /// Stop the worker.
    Shutdown(Shutdown),
    /// Task of an order, for every worker. `Tasked` is the answer, sent to `to` if given.
    Task {
        task: Task,
        to: Option<(usize, u64)>,
    },
    /// Answer to `Task`; `found` is true if there was something to do.
    Tasked { question: u64, found: bool },
    /// A client that has waited in front of a bulkhead may go on.
    Permit(ClientId, Permit),
    /// Describe yourself to this worker, for this question, with or without digests.
    Describe {
        to: usize,
        question: u64,
        digests: bool,
    },
    /// Answer to `Describe`.
    Description {
        question: u64,
        snapshot: Box<Snapshot>,
    },
}

/// Sending half of a worker's mailbox.
pub(crate) type Mailbox = channel::Mailbox<Message>;

/// Receiving half of a worker's mailbox.
pub(crate) type Inbox = channel::Inbox<Message>;

/// Makes a mailbox whose messages wake this worker.
pub(crate) fn mailbox(waker: Arc<dyn Wake>) -> (Mailbox, Inbox) {
    channel::mailbox(MESSAGES_MAX, waker)
}
