//! Online upgrade, as seen by [`Running`]: offers to a successor, and arrivals from a predecessor.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::bounded;

use super::Running;
use crate::global::{Global, Place, lock};
use crate::handover::{Link, LinkMessage, Moved, Stay};
use crate::listen::Passed;
use crate::mailbox::{CancelFrom, Message};
use crate::neighbours::{FarAsker, Side};
use crate::orders::{Order, Receipt};
use crate::socket::Socket;
use crate::worker::Arrival;

/// Time for a worker to deal with the clients handed to it.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Listening sockets for a successor, and the flags that say it has them.
#[derive(Default)]
pub(super) struct Offered {
    pub(super) sockets: Vec<Passed>,
    pub(super) are_passed_on: Vec<Arc<AtomicBool>>,
}

/// Counters of the clients that came from the predecessor.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    pub(crate) count: AtomicUsize,
    pub(crate) longest_us: AtomicU64,
}

/// Counters of the clients that stay with this process while its successor runs.
#[derive(Debug, Default)]
pub(crate) struct Staying {
    clients: AtomicUsize,
    with_tls: AtomicUsize,
    /// Number of workers that have counted theirs.
    counted: AtomicUsize,
}

impl Staying {
    /// Adds the clients of one worker. The last of so many `workers` gets the sums.
    pub(crate) fn count(&self, clients: usize, with_tls: usize, workers: usize) -> Option<Stay> {
        self.clients.fetch_add(clients, Ordering::SeqCst);
        self.with_tls.fetch_add(with_tls, Ordering::SeqCst);
        (self.counted.fetch_add(1, Ordering::SeqCst) + 1 == workers).then(|| Stay {
            pid: std::process::id(),
            clients: self.clients.load(Ordering::SeqCst),
            with_tls: self.with_tls.load(Ordering::SeqCst),
        })
    }
}

/// Outcome of an upgrade: when the old process has ended, or earlier if some of its clients stay there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Succeeded {
    /// Number of clients that were moved.
    pub moved: usize,
    /// Longest time for which a client belonged to neither process.
    pub longest_pause: Duration,
    /// Clients that stay with the old process; none if it has ended.
    pub stay: Option<Stay>,
}

impl Running {
    /// Offers our listening sockets over a link, with these settings of administrators and all orders that hold, and the stream
    /// on which the outcome is reported. Later orders are passed on.
    ///
    /// # Errors
    /// The other process is gone, or does not read.
    pub fn offer(
        &self,
        link: &Arc<Link>,
        settings: Vec<Order>,
        report: &std::os::unix::net::UnixStream,
    ) -> Result<(), crate::LinkError> {
        let collect = || [settings, self.global.standing()].concat();
        let send = |standing| link.offer(&lock(&self.offered).sockets, standing, report);
        let neighbours = &self.global.succession.neighbours;
        neighbours.offer(link, collect, send)
    }

    /// Takes an offer back: the other process has not started.
    pub fn withdraw(&self) {
        self.global.succession.neighbours.withdraw();
    }

    /// Hands our clients to a successor as they become idle. Clients that cannot move stay until they leave, or for
    /// `upgrade_drain_timeout`. Then everything ends, as after [`Running::shutdown`].
    pub fn hand_over(&self, link: Arc<Link>) {
        let offered = std::mem::take(&mut *lock(&self.offered));
        for is_passed_on in &offered.are_passed_on {
            is_passed_on.store(true, Ordering::Relaxed);
        }
        drop(offered);
        let neighbours = &self.global.succession.neighbours;
        neighbours.succeed_by(Arc::clone(&link));
        let settled = self.global.settled();
        if let Some(limit) = settled.settings.global.upgrade_drain_timeout {
            self.note_drain(limit);
        }
        self.tell_all(|| Message::HandOver(Arc::clone(&link)));
        self.watch(Side::Newer, link, |_| {});
    }

    /// Takes the clients of the predecessor as they arrive. `tell` is called when that process has ended, and before that if
    /// it says that clients stay there.
    pub fn take_over(&self, link: Link, tell: impl FnMut(Succeeded) + Send + 'static) {
        let link = Arc::new(link);
        self.global.succession.neighbours.follow(Arc::clone(&link));
        self.watch(Side::Older, link, tell);
    }

    fn watch(&self, side: Side, link: Arc<Link>, mut tell: impl FnMut(Succeeded) + Send + 'static) {
        let global = Arc::clone(&self.global);
        let watching = std::thread::Builder::new()
            .name("weir-upgrade".to_owned())
            .spawn(move || {
                while let Ok((message, socket)) = link.receive() {
                    match message {
                        LinkMessage::Stay(stay) => tell(outcome(&global, Some(stay))),
                        message => read(&global, side, message, socket),
                    }
                }
                part(&global, &link);
                tell(outcome(&global, None));
            });
        if let Err(error) = watching {
            tracing::error!("upgrade failed: cannot start a thread: {error}");
        }
    }
}

/// Returns the outcome of an upgrade, with all clients that have come so far.
fn outcome(global: &Global, stay: Option<Stay>) -> Succeeded {
    wait_for_workers(global);
    let arrivals = &global.succession.arrivals;
    Succeeded {
        moved: arrivals.count.load(Ordering::Relaxed),
        longest_pause: Duration::from_micros(arrivals.longest_us.load(Ordering::Relaxed)),
        stay,
    }
}

/// Waits until the workers have processed every message that was sent to them.
pub(super) fn wait_for_workers(global: &Global) {
    let mailboxes = global.workers.mailboxes.get().map_or(&[][..], |all| all);
    let (passed, answers) = bounded(mailboxes.len());
    for mailbox in mailboxes {
        mailbox.send_waiting(Message::Barrier(passed.clone()));
    }
    // A worker that has ended does not answer.
    drop(passed);
    for _ in mailboxes {
        // A worker that hangs is left to the watchdog; the counts so far are reported.
        if answers.recv_timeout(ANSWER_MAX).is_err() {
            return;
        }
    }
}

/// Handles a message of the process on this side.
pub(crate) fn read(
    global: &Arc<Global>,
    side: Side,
    message: LinkMessage,
    socket: Option<OwnedFd>,
) {
    match (message, socket) {
        (LinkMessage::Client(moved), Some(socket)) => arrive(global, moved, socket),
        (LinkMessage::Cancel { pid, key, asker }, None) => cancel(global, side, pid, &key, asker),
        (LinkMessage::CancelOver(asker), None) => cancel_over(global, asker),
        (LinkMessage::Order(number, order), None) => ordered(global, side, number, order),
        (LinkMessage::OrderOver(number), None) => {
            global.succession.neighbours.order_is_over(number);
        }
        _ => tracing::error!("upgrade: the other process sent an unexpected message"),
    }
}

/// Gives an order of the other process to a worker that runs.
fn ordered(global: &Arc<Global>, side: Side, number: u64, order: Box<Order>) {
    let receipt = Receipt::for_process(global, side, number);
    let mut ended = global.workers.last_figures.iter();
    let worker = ended.position(|figures| figures.get().is_none());
    // Dropped otherwise, the receipt tells that it is over.
    if let Some(mailbox) = worker.and_then(|worker| global.mailbox(worker)) {
        mailbox.send_waiting(Message::Ordered(side, order, receipt));
    }
}

/// Handles a cancel request for which the process on this side has no client.
fn cancel(global: &Global, side: Side, pid: u32, key: &[u8], asker: FarAsker) {
    let place = global.cancellable(pid, key);
    let mailbox = place.and_then(|place| Some((place, global.mailbox(place.worker)?)));
    let Some((place, mailbox)) = mailbox else {
        let neighbours = &global.succession.neighbours;
        if !neighbours.relay_cancel(Some(side), pid, key, asker) {
            neighbours.report(side, LinkMessage::CancelOver(asker));
        }
        return;
    };
    mailbox.send_waiting(Message::Cancel {
        client: place.client,
        asker: CancelFrom::Neighbour(side, asker),
    });
}

/// Closes the connection of a cancel request that the other process has finished.
fn cancel_over(global: &Global, asker: FarAsker) {
    if let Some(place) = global.succession.neighbours.cancel_is_over(asker) {
        close_asker(global, place);
    }
}

/// Closes the connections of all cancel requests that the ended process had.
pub(crate) fn part(global: &Global, ended: &Arc<Link>) {
    for asker in global.succession.neighbours.part(ended) {
        close_asker(global, asker);
    }
}

fn close_asker(global: &Global, asker: Place) {
    if let Some(mailbox) = global.mailbox(asker.worker) {
        mailbox.send_waiting(Message::CancelOver(asker.client));
    }
}

/// Gives an arriving client to the worker with the fewest clients.
fn arrive(global: &Global, moved: Box<Moved>, socket: OwnedFd) {
    let socket = match moved.remote.0.as_str() {
        "unix" => Socket::Unix(socket.into()),
        _ => Socket::Tcp(socket.into()),
    };
    let worker = global.least_loaded(0);
    if let Some(load) = global.workers.loads.get(worker) {
        load.fetch_add(1, Ordering::Relaxed);
    }
    let stream = socket.into();
    if let Some(mailbox) = global.mailbox(worker) {
        mailbox.send_waiting(Message::Arrived(Box::new(Arrival { moved, stream })));
    }
}
