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
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

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
mod door;
mod judged;
mod lane;

use counts::Counts;
use door::Door;

/// Maximum number of transactions that wait for one lane.
const WAITING_MAX: usize = 256;

/// Maximum bytes of the transactions that wait for one mirror.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Shortest and longest pause when the other database does not answer.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

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
    door: Door,
    /// Time before which no connection is tried, in microseconds; what comes earlier is dropped without waking a thread.
    quiet_until: AtomicU64,
    /// Number of transactions in a row that were not answered.
    failures: AtomicU32,
    /// Bytes of the transactions that wait.
    bytes: AtomicU64,
    /// Outlives a change of the rule.
    counts: Arc<Counts>,
}

/// A thread's queue, and what ends its wait for an answer.
struct Lane {
    /// None before the first transaction, and behind the end.
    queue: Mutex<Option<Queue>>,
    socket: Mutex<Option<UnixStream>>,
}

/// Transactions that wait for a lane.
struct Queue {
    sender: Sender<Transaction>,
    /// Other end, until a thread has it.
    receiver: Option<Receiver<Transaction>>,
}

impl Default for Queue {
    fn default() -> Self {
        let (sender, receiver) = crossbeam_channel::bounded(WAITING_MAX);
        Self {
            sender,
            receiver: Some(receiver),
        }
    }
}

impl Mirror {
    fn new(name: &Arc<str>, plan: &Arc<Mirroring>, counts: Arc<Counts>) -> Self {
        let lane = |_| Lane {
            queue: Mutex::default(),
            socket: Mutex::default(),
        };
        Self {
            name: Arc::clone(name),
            plan: Arc::clone(plan),
            lanes: (0..plan.connections).map(lane).collect(),
            has_ended: AtomicBool::new(false),
            door: Door::default(),
            quiet_until: AtomicU64::new(0),
            failures: AtomicU32::new(0),
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
        let lane = self.lanes.get(number).filter(|_| !self.is_quiet(now));
        let is_taken = before.saturating_add(bytes) <= BYTES_MAX
            && lane.is_some_and(|lane| {
                let mut queue = lock(&lane.queue);
                if self.has_ended.load(Ordering::Relaxed) {
                    return false;
                }
                let waiting = queue.get_or_insert_default();
                let has_thread = waiting.receiver.is_none();
                let sent = waiting.sender.try_send(transaction);
                let is_full = matches!(sent, Err(TrySendError::Full(_)));
                // A full queue does not wait longer for what another lane finds.
                if !has_thread && (is_full || self.door.calls()) {
                    self.begin((&Arc::downgrade(global), global.clock), number, &mut queue);
                }
                if matches!(sent, Err(TrySendError::Disconnected(_))) {
                    *queue = None;
                }
                sent.is_ok()
            });
        if !is_taken {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.drop_one();
        }
    }

    /// True if no connection is tried now, because there was no answer a short time ago.
    pub(crate) fn is_quiet(&self, now: Moment) -> bool {
        now.0 < self.quiet_until.load(Ordering::Relaxed)
    }

    /// Notes if the other database has answered at this time: each failure in a row doubles the pause. The first answer is the
    /// sign for the other lanes; behind a failure, what waits for them is dropped.
    fn answered(
        self: &Arc<Self>,
        (global, clock): (&Weak<Global>, Clock),
        now: Moment,
        has_answered: bool,
    ) {
        if has_answered {
            self.failures.store(0, Ordering::Relaxed);
        } else {
            let before = self.failures.fetch_add(1, Ordering::Relaxed);
            let pause = PAUSE_MIN.saturating_mul(1 << before.min(10)).min(PAUSE_MAX);
            self.quiet_until
                .fetch_max(now.plus(pause).0, Ordering::Relaxed);
        }
        if !self.door.answered(has_answered) {
            return;
        }
        for (number, lane) in self.lanes.iter().enumerate() {
            let mut queue = lock(&lane.queue);
            if has_answered {
                self.begin((global, clock), number, &mut queue);
            } else if let Some(queue) = queue.as_ref() {
                self.empty(queue.receiver.as_ref());
            }
        }
    }

    /// Drops the transactions that wait for a lane without a thread.
    fn empty(&self, waiting: Option<&Receiver<Transaction>>) {
        for transaction in waiting.iter().flat_map(|waiting| waiting.try_iter()) {
            self.forget(&transaction);
            self.counts.drop_one();
        }
    }

    /// Counts the bytes of a transaction that does not wait any more.
    fn forget(&self, transaction: &Transaction) {
        self.bytes.fetch_sub(transaction.bytes(), Ordering::Relaxed);
    }

    /// Starts the thread of a lane, unless it is there.
    fn begin(
        self: &Arc<Self>,
        (global, clock): (&Weak<Global>, Clock),
        number: usize,
        queue: &mut Option<Queue>,
    ) {
        let Some(receiver) = queue.as_mut().and_then(|queue| queue.receiver.take()) else {
            return;
        };
        let waiting = receiver.clone();
        let (mirror, global) = (Arc::clone(self), Weak::clone(global));
        let thread = std::thread::Builder::new().name("weir-mirror".to_owned());
        let started = thread.spawn(move || mirror.run(number, (&global, clock), &receiver));
        if let Err(error) = started {
            *queue = None;
            self.empty(Some(&waiting));
            self.door.answered(false);
            self.counts
                .fail(1, &format!("cannot start a thread: {error}"));
        }
    }

    fn run(
        self: &Arc<Self>,
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
        self.door.end();
        for lane in &self.lanes {
            let queue = lock(&lane.queue).take();
            self.empty(queue.as_ref().and_then(|queue| queue.receiver.as_ref()));
            if let Some(socket) = lock(&lane.socket).take() {
                // The thread may wait for an answer.
                let _ = socket.shutdown(std::net::Shutdown::Both);
            }
        }
    }

    fn row(&self) -> MirrorRow {
        let queues = self.lanes.iter().map(|lane| lock(&lane.queue));
        let waiting = queues.map(|queue| queue.as_ref().map_or(0, |queue| queue.sender.len()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_become_longer_until_there_is_an_answer() {
        let plan = Mirroring {
            database: "next".into(),
            compares_rows: false,
            writes: false,
            connections: 2,
        };
        let mirror = Arc::new(Mirror::new(&"m".into(), &Arc::new(plan), Arc::default()));
        let at = |seconds: u64| Moment(seconds * 1_000_000);
        let place = (&Weak::new(), Clock::new());
        let answered = |now, has_answered| mirror.answered(place, at(now), has_answered);
        assert!(!mirror.is_quiet(at(0)));
        let mut now = 0;
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            answered(now, false);
            assert!(mirror.is_quiet(at(now + pause - 1)), "{pause}");
            assert!(!mirror.is_quiet(at(now + pause)), "{pause}");
            now += pause;
        }
        answered(now, true);
        answered(now, false);
        assert!(!mirror.is_quiet(at(now + 1)));
    }
}
