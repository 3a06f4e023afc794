//! Mirrors: query rules that send the statements of some sessions to another database too.
//!
//! ```text
//!   worker ── transaction that is over ──► Mirror ──► lane (thread) ══ socket pair ══► worker, as any client
//!               never waits: no room,        bound        one transaction               of the other database's pool
//!               then dropped and counted                  at a time
//! ```
//!
//! A lane is a client of the other database: pools, prepared statements and settings work for it as for all others, and it has no
//! server of the mirrored client. Its thread may block; nobody waits for it. The transactions of one session go to one lane, in
//! their order.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crossbeam_channel::{Receiver, Sender, TrySendError};
use weir_config::{MIRRORS_MAX, QueryRule};
use weir_pool::Moment;
use weir_rules::{Action, Mirroring};
use weir_session::mirrored::Mirrored;
use weir_session::settings::Settings;
use weir_session::watched::Undone;
use weir_stats::MirrorRow;

use crate::clock::Clock;
use crate::global::{Global, GlobalGroup, lock};
use crate::socket::Stream;

mod answer;
mod counts;
mod judged;
mod lane;

use counts::Counts;

/// Maximum number of transactions that wait for one lane.
const WAITING_MAX: usize = 256;

/// Maximum bytes of the transactions that wait for one mirror.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Transaction of a client, for a mirror.
pub(crate) struct Transaction {
    /// Number of the client.
    pub(crate) client: u64,
    /// Group of the client.
    pub(crate) group: Arc<GlobalGroup>,
    /// Settings of the client behind the transaction.
    pub(crate) settings: Arc<Settings>,
    pub(crate) requests: Vec<Mirrored>,
    pub(crate) undone: Undone,
}

impl Transaction {
    fn bytes(&self) -> u64 {
        let len = |request: &Mirrored| {
            let copied = request.request.as_ref();
            copied.map_or(0, weir_session::mirrored::Request::len) + size_of::<Mirrored>()
        };
        self.requests.iter().map(len).sum::<usize>() as u64
    }
}

/// Client of a mirror, on its way to a worker.
pub(crate) struct Newcomer {
    pub(crate) stream: Stream,
    pub(crate) database: Arc<str>,
    /// Group of the mirrored client, whose user and secrets the newcomer has.
    pub(crate) group: Arc<GlobalGroup>,
    pub(crate) settings: Arc<Settings>,
}

/// All mirrors of the process.
#[derive(Default)]
pub(crate) struct Mirrors {
    mirrors: Mutex<Vec<Arc<Mirror>>>,
    has_ended: AtomicBool,
}

impl Mirrors {
    /// Returns the mirrors of the rules in force. Those of other rules end. The rules are read behind the lock, so that whoever
    /// comes last has the newest.
    pub(crate) fn settle(&self, rules: impl FnOnce() -> Vec<QueryRule>) -> Vec<Arc<Mirror>> {
        let mut mirrors = lock(&self.mirrors);
        let rules = rules();
        let wanted = rules.iter().filter_map(|rule| match &rule.rule.action {
            Action::Mirror(plan) => Some((&rule.rule.name, plan)),
            _ => None,
        });
        if self.has_ended.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let before = std::mem::take(&mut *mirrors);
        for (name, plan) in wanted.take(MIRRORS_MAX) {
            let known = before.iter().find(|mirror| mirror.name == *name);
            mirrors.push(match known {
                Some(known) if known.plan == *plan => Arc::clone(known),
                Some(known) => Arc::new(Mirror::new(name, plan, Arc::clone(&known.counts))),
                None => Arc::new(Mirror::new(name, plan, Arc::default())),
            });
        }
        for old in before {
            if !mirrors.iter().any(|mirror| Arc::ptr_eq(mirror, &old)) {
                old.stop();
            }
        }
        mirrors.clone()
    }

    /// Ends all mirrors, for good.
    pub(crate) fn stop(&self) {
        let mut mirrors = lock(&self.mirrors);
        self.has_ended.store(true, Ordering::Relaxed);
        for mirror in mirrors.drain(..) {
            mirror.stop();
        }
    }

    /// Returns the rows for the console.
    pub(crate) fn rows(&self) -> Vec<MirrorRow> {
        lock(&self.mirrors)
            .iter()
            .map(|mirror| mirror.row())
            .collect()
    }
}

/// Mirror of one rule.
pub(crate) struct Mirror {
    /// Name of the rule.
    pub(crate) name: Arc<str>,
    plan: Arc<Mirroring>,
    lanes: Box<[Lane]>,
    has_ended: AtomicBool,
    /// Bytes of the transactions that wait.
    bytes: AtomicU64,
    /// Outlives a change of the rule.
    counts: Arc<Counts>,
}

/// A thread's queue, and what ends its wait for an answer.
struct Lane {
    /// None before the first transaction, and behind the end.
    queue: Mutex<Option<Sender<Transaction>>>,
    /// Time before which no connection is tried, in microseconds; what comes earlier is dropped without waking the thread.
    quiet_until: AtomicU64,
    socket: Mutex<Option<UnixStream>>,
}

impl Mirror {
    fn new(name: &Arc<str>, plan: &Arc<Mirroring>, counts: Arc<Counts>) -> Self {
        let lane = |_| Lane {
            queue: Mutex::default(),
            quiet_until: AtomicU64::new(0),
            socket: Mutex::default(),
        };
        Self {
            name: Arc::clone(name),
            plan: Arc::clone(plan),
            lanes: (0..plan.connections).map(lane).collect(),
            has_ended: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            counts,
        }
    }

    /// Counts a transaction that is dropped.
    pub(crate) fn drop_one(&self) {
        self.counts.drop_one();
    }

    /// Takes a transaction, or drops it if there is no room.
    pub(crate) fn offer(
        self: &Arc<Self>,
        (global, now): (&Arc<Global>, Moment),
        transaction: Transaction,
    ) {
        let bytes = transaction.bytes();
        let lanes = self.lanes.len().max(1) as u64;
        let number = usize::try_from(transaction.client % lanes).unwrap_or(0);
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_awake = |lane: &&Lane| now.0 >= lane.quiet_until.load(Ordering::Relaxed);
        let lane = self.lanes.get(number).filter(is_awake);
        let is_taken = before.saturating_add(bytes) <= BYTES_MAX
            && lane.is_some_and(|lane| {
                let mut queue = lock(&lane.queue);
                if self.has_ended.load(Ordering::Relaxed) {
                    return false;
                }
                if queue.is_none() {
                    *queue = self.start(global, number);
                }
                let sent = queue.as_ref().map(|queue| queue.try_send(transaction));
                if matches!(sent, Some(Err(TrySendError::Disconnected(_)))) {
                    *queue = None;
                }
                matches!(sent, Some(Ok(())))
            });
        if !is_taken {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.drop_one();
        }
    }

    /// Starts the thread of a lane.
    fn start(self: &Arc<Self>, global: &Arc<Global>, number: usize) -> Option<Sender<Transaction>> {
        let (sender, receiver) = crossbeam_channel::bounded(WAITING_MAX);
        let clock = global.clock;
        let (mirror, global) = (Arc::clone(self), Arc::downgrade(global));
        let thread = std::thread::Builder::new().name("weir-mirror".to_owned());
        let started = thread.spawn(move || mirror.run(number, (&global, clock), &receiver));
        match started {
            Ok(_) => Some(sender),
            Err(error) => {
                self.counts
                    .fail(1, &format!("cannot start a thread: {error}"));
                None
            }
        }
    }

    fn run(
        &self,
        number: usize,
        (global, clock): (&Weak<Global>, Clock),
        queue: &Receiver<Transaction>,
    ) {
        let Some(lane) = self.lanes.get(number) else {
            return;
        };
        lane::Runner::new(self, lane, global, clock).run(queue);
    }

    /// Ends the threads. What waits is dropped.
    fn stop(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
        for lane in &self.lanes {
            *lock(&lane.queue) = None;
            if let Some(socket) = lock(&lane.socket).take() {
                // The thread may wait for an answer.
                let _ = socket.shutdown(std::net::Shutdown::Both);
            }
        }
    }

    fn row(&self) -> MirrorRow {
        let queues = self.lanes.iter().map(|lane| lock(&lane.queue));
        let waiting = queues.map(|queue| queue.as_ref().map_or(0, Sender::len));
        let waiting: usize = waiting.sum();
        MirrorRow {
            rule: self.name.to_string(),
            database: self.plan.database.to_string(),
            connections: self.plan.connections,
            waiting: waiting as u64,
            waiting_bytes: self.bytes.load(Ordering::Relaxed),
            ..self.counts.row()
        }
    }
}
