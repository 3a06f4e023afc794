//! Processes of a world: workers with their shared state, and the online upgrade from one process to the next.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender};
use weir_pool::Moment;

use super::protected::Helpers;
use super::{NoConsole, World, setup};
use crate::clock::Clock;
use crate::driver::Wake;
use crate::driver::memory::{MemoryDriver, file};
use crate::global::Global;
use crate::handover::{Link, LinkMessage};
use crate::mailbox::{Message, mailbox};
use crate::neighbours::Side;
use crate::orders::Task;
use crate::running::succession;
use crate::settled::{Settled, Setup};
use crate::worker::slots::Phase;
use crate::worker::{Arrival, Worker};

/// Waker of the mailboxes of all workers.
#[derive(Debug)]
struct Wakeup(Sender<()>);

impl Wake for Wakeup {
    fn wake(&self) -> io::Result<()> {
        // It rings already, or the world is gone.
        let _ = self.0.try_send(());
        Ok(())
    }
}

/// Makes a process: the shared state of its workers, the workers, and their waker.
pub(super) fn staff(
    workers: usize,
    setup: Setup,
    room: usize,
    hands: &'static AtomicU64,
    helpers: &Helpers,
) -> (Arc<Global>, Vec<Worker<MemoryDriver>>, Receiver<()>) {
    let setup_is_stub = setup.transport.is_stand_in();
    let (commands, _) = crossbeam_channel::bounded(1);
    let settled = Settled::new(setup, None);
    let mut global = Global::new(settled, Arc::new(NoConsole), workers, commands).unwrap();
    global.clock = Clock::set_by(hands);
    if setup_is_stub {
        global.helpers.handshakers = helpers.offload();
    }
    // Their threads are of another world.
    global.mirrors.stop();
    let global = Arc::new(global);
    // No worker sleeps here; the waker only has to exist.
    let (waker, wakeups) = crossbeam_channel::bounded(1);
    let waker: Arc<dyn Wake> = Arc::new(Wakeup(waker));
    let (boxes, inboxes): (Vec<_>, Vec<_>) =
        (0..workers).map(|_| mailbox(Arc::clone(&waker))).unzip();
    assert!(global.workers.mailboxes.set(boxes).is_ok());
    let workers = inboxes.into_iter().enumerate().map(|(worker, inbox)| {
        let driver = MemoryDriver::new(room);
        Worker::new(worker, Arc::clone(&global), driver, inbox)
    });
    let workers = workers.collect();
    (global, workers, wakeups)
}

/// Process whose clients move to its successor.
pub(super) struct Predecessor {
    global: Arc<Global>,
    /// End of the link that belongs to this process.
    link: Arc<Link>,
    /// End of the link that belongs to the successor.
    successor: Arc<Link>,
    /// Number of workers of the successor.
    workers: usize,
    /// Time at which it ends the clients that could not move.
    ends_at: Moment,
}

impl World {
    /// Begins an online upgrade to a process with this configuration. Returns false if there was one before.
    pub(in super::super) fn upgrade(&mut self, lines: &str) -> bool {
        if self.predecessor.is_some() {
            return false;
        }
        let count = self.workers.len();
        let users = "\"ann\" \"\"\n\"bob\" \"\"\n";
        let (global, mut workers, wakeups) = staff(
            count,
            setup(lines, users),
            self.room,
            self.hands,
            &self.helpers,
        );
        let (link, successor) = Link::pair().unwrap();
        let (link, successor) = (Arc::new(link), Arc::new(Link::from(successor)));
        // Both processes have the listening sockets: clients that were not accepted yet are the successor's.
        for accepted in self.workers[0].driver.take_arrivals() {
            workers[0].driver.arrive(accepted);
        }
        let old = std::mem::replace(&mut self.global, global);
        workers.append(&mut self.workers);
        (self.workers, self.wakeups) = (workers, wakeups);
        let neighbours = &old.succession.neighbours;
        let adopt = |orders| {
            self.global.adopt(orders);
            Ok(())
        };
        neighbours.offer(&link, || old.standing(), adopt).unwrap();
        neighbours.succeed_by(Arc::clone(&link));
        let neighbours = &self.global.succession.neighbours;
        neighbours.follow(Arc::clone(&successor));
        for mailbox in old.workers.mailboxes.get().unwrap() {
            mailbox.send_waiting(Message::HandOver(Arc::clone(&link)));
        }
        let limit = old.settled().settings.global.upgrade_drain_timeout;
        self.predecessor = Some(Predecessor {
            ends_at: limit.map_or(Moment::NEVER, |limit| self.now().plus(limit)),
            global: old,
            link,
            successor,
            workers: count,
        });
        true
    }

    /// Number of clients that came from the process before this one.
    pub(in super::super) fn arrivals(&self) -> usize {
        self.global
            .succession
            .arrivals
            .count
            .load(Ordering::Relaxed)
    }

    /// Number of clients that have logged in.
    pub(in super::super) fn ready_clients(&self) -> usize {
        let clients = self
            .workers
            .iter()
            .flat_map(|worker| &worker.tables.clients);
        let ready = clients.filter(|(_, client)| matches!(client.phase, Phase::Ready));
        ready.count()
    }

    /// Resumes the previous process, where an administrator may still have a console.
    pub(in super::super) fn resume_predecessor(&self, database: Option<&str>) {
        let Some(before) = &self.predecessor else {
            return;
        };
        // The database may not be paused.
        let _ = before.global.resume(database);
        for mailbox in before.global.workers.mailboxes.get().unwrap() {
            let task = Task::Settle;
            // The worker may have ended.
            drop(mailbox.send(Message::Task { task, to: None }));
        }
    }

    /// Number of processes with workers.
    pub(in super::super) fn processes(&self) -> usize {
        let workers = self.predecessor.as_ref().map(|before| before.workers);
        1 + usize::from(workers.is_some_and(|workers| self.workers.len() > workers))
    }

    /// True if a process may end clients that it could not give to its successor.
    pub(in super::super) fn may_end_clients(&self) -> bool {
        let before = self.predecessor.as_ref();
        before.is_some_and(|before| before.ends_at <= self.now())
    }

    /// Reads the link at both ends, and drops workers that have ended. True if anything moved.
    pub(in super::super) fn carry(&mut self) -> bool {
        let Some(before) = &self.predecessor else {
            return false;
        };
        let (link, successor) = (Arc::clone(&before.link), Arc::clone(&before.successor));
        let (old, workers) = (Arc::clone(&before.global), before.workers);
        let mut moved = false;
        while successor.has_news() {
            match successor.receive().unwrap() {
                (LinkMessage::Client(client), Some(socket)) => {
                    let file = file(std::os::fd::AsFd::as_fd(&socket));
                    let mut workers = self.workers.iter_mut();
                    let stream = workers.find_map(|worker| worker.driver.take_sent(file));
                    let stream = stream.expect("the socket was sent");
                    let worker = self.global.least_loaded(0);
                    self.global.workers.loads[worker].fetch_add(1, Ordering::Relaxed);
                    let arrival = Arrival {
                        moved: client,
                        stream,
                    };
                    let mailbox = self.global.mailbox(worker).unwrap();
                    mailbox.send_waiting(Message::Arrived(Box::new(arrival)));
                }
                (LinkMessage::Stay(stay), None) => self.stay = Some(stay),
                (message, None) => succession::read(&self.global, Side::Older, message, None),
                (message, _) => panic!("{message:?}"),
            }
            moved = true;
        }
        while link.has_news() {
            let (message, socket) = link.receive().unwrap();
            assert!(socket.is_none(), "{message:?}");
            succession::read(&old, Side::Newer, message, None);
            moved = true;
        }
        for worker in self.workers[workers..]
            .iter_mut()
            .filter(|worker| worker.has_ended())
        {
            worker.driver.leave_backlogs();
            moved = true;
        }
        let mut place = 0;
        self.workers.retain(|worker| {
            place += 1;
            place <= workers || !worker.has_ended()
        });
        if self.workers.len() == workers {
            succession::part(&self.global, &successor);
        }
        moved
    }

    /// Checks, after all clients have left, that nothing of them is left in the previous process (I-14).
    #[track_caller]
    pub(super) fn check_predecessor_empty(&self) {
        let Some(before) = &self.predecessor else {
            return;
        };
        assert_eq!(self.workers.len(), before.workers, "workers that drain");
        let used = (
            before.global.limits.clients.used(),
            before.global.limits.greeters.used(),
        );
        assert_eq!(used, (0, 0), "client limits of the old process");
        let cancellables = before.global.cancellables();
        assert_eq!(cancellables, 0, "cancel keys of the old process");
    }
}
