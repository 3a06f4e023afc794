//! What workers and helper threads tell a worker. Bounded; the sender learns when it is full and decides.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use mio::Waker;
use weir_auth::kdf::ScramKeys;
use weir_pool::{Moment, Parcel, Scope};
use weir_stats::Snapshot;
use weir_tls::session::Advanced;

use crate::console::Shutdown;
use crate::global::GlobalPool;
use crate::handover::Link;
use crate::listen::Accepted;
use crate::moved::MovedServer;
use crate::orders::{Refusal, Task};
use crate::resolve::Resolved;
use crate::socket::Stream;
use crate::worker::{Answered, Arrival, Asking, Forward, Heard, Leaver};

/// Messages that a worker may have waiting.
const MESSAGES_MAX: usize = 4096;

/// Who asked a helper thread for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    Cancel { index: usize, id: u64 },
    Client { index: usize, id: u64 },
    Server { index: usize, id: u64 },
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
    /// Cancel what this client is doing; the socket is closed when that is done.
    Cancel {
        client: usize,
        id: u64,
        socket: Option<Stream>,
    },
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
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    sender: Sender<Message>,
    bell: Arc<Bell>,
}

/// Wakes the worker once for any number of messages.
#[derive(Debug)]
struct Bell {
    rung: AtomicBool,
    retry: AtomicBool,
    waker: Arc<Waker>,
}

/// The receiving half.
pub(crate) struct Letters {
    receiver: Receiver<Message>,
    bell: Arc<Bell>,
}

/// A mailbox whose letters wake this worker.
pub(crate) fn mailbox(waker: Arc<Waker>) -> (Mailbox, Letters) {
    let (sender, receiver) = bounded(MESSAGES_MAX);
    let bell = Arc::new(Bell {
        rung: AtomicBool::new(false),
        retry: AtomicBool::new(false),
        waker,
    });
    (
        Mailbox {
            sender,
            bell: Arc::clone(&bell),
        },
        Letters { receiver, bell },
    )
}

impl Mailbox {
    /// Sends, or gives the message back if the mailbox is full.
    pub(crate) fn send(&self, message: Message) -> Result<(), Message> {
        self.sender.try_send(message).map_err(|error| match error {
            TrySendError::Full(message) | TrySendError::Disconnected(message) => message,
        })?;
        self.bell.ring();
        Ok(())
    }

    /// Sends something that must arrive: waits for room. Never from a worker.
    pub(crate) fn send_waiting(&self, message: Message) {
        if self.sender.send(message).is_ok() {
            self.bell.ring();
        }
    }

    /// A place was released that somebody may be waiting for.
    pub(crate) fn retry(&self) {
        self.bell.retry.store(true, Ordering::SeqCst);
        self.bell.ring();
    }
}

impl Bell {
    fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            // A waker fails only when the worker is gone.
            let _ = self.waker.wake();
        }
    }
}

impl Letters {
    /// Whether anything has come since the last call; call [`Letters::next`] until it is empty then.
    #[inline]
    pub(crate) fn have_come(&self) -> bool {
        self.bell.rung.load(Ordering::Relaxed) && self.bell.rung.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn next(&self) -> Option<Message> {
        self.receiver.try_recv().ok()
    }

    /// How many messages wait to be read.
    pub(crate) fn waiting(&self) -> usize {
        self.receiver.len()
    }

    /// Whether anything waits to be read.
    #[cfg(test)]
    pub(crate) fn are_waiting(&self) -> bool {
        self.bell.rung.load(Ordering::SeqCst)
    }

    /// Whether waiters should look again.
    pub(crate) fn take_retry(&self) -> bool {
        self.bell.retry.swap(false, Ordering::SeqCst)
    }
}
