//! A worker's mailbox in thread orders chosen by shuttle. Every accepted message is read once, and in its sender's
//! order; every refused message is returned; and no wakeup is lost. A lost wakeup leaves the worker asleep, which
//! shuttle reports as a deadlock.

#![expect(
    clippy::unwrap_used,
    reason = "a test that panics has failed, which is what it is for"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use shuttle::rand::Rng;
use shuttle::rand::thread_rng;
use shuttle::sync::atomic::AtomicUsize;
use shuttle::thread;

use channel::{Inbox, Mailbox, mailbox};
use sync::Waker;

#[path = "../src/mailbox/channel.rs"]
mod channel;

/// Types of `src/mailbox/sync.rs`, scheduled by shuttle.
mod sync {
    use std::collections::VecDeque;
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::Ordering::SeqCst;

    pub(crate) use shuttle::sync::atomic::AtomicBool;
    use shuttle::sync::atomic::AtomicUsize;
    use shuttle::sync::{Condvar, Mutex};

    /// Waker of a worker that waits for its sockets.
    #[derive(Debug, Default)]
    pub(crate) struct Waker {
        is_awake: Mutex<bool>,
        changed: Condvar,
        pub(crate) wakes: AtomicUsize,
    }

    impl Waker {
        pub(crate) fn wake(&self) -> io::Result<()> {
            self.wakes.fetch_add(1, SeqCst);
            *self.is_awake.lock().unwrap() = true;
            self.changed.notify_one();
            Ok(())
        }

        /// Waits for a wakeup, and clears it.
        pub(crate) fn wait(&self) {
            let mut is_awake = self.is_awake.lock().unwrap();
            while !*is_awake {
                is_awake = self.changed.wait(is_awake).unwrap();
            }
            *is_awake = false;
        }
    }

    /// Channel with the part of crossbeam's interface that a mailbox uses.
    #[derive(Debug)]
    struct Channel<T> {
        queue: Mutex<VecDeque<T>>,
        has_room: Condvar,
        capacity: usize,
    }

    #[derive(Debug)]
    pub(crate) struct Sender<T>(Arc<Channel<T>>);

    #[derive(Debug)]
    pub(crate) struct Receiver<T>(Arc<Channel<T>>);

    #[expect(dead_code, reason = "the receiver outlives all senders here")]
    pub(crate) enum TrySendError<T> {
        Full(T),
        Disconnected(T),
    }

    pub(crate) fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
        let channel = Arc::new(Channel {
            queue: Mutex::new(VecDeque::new()),
            has_room: Condvar::new(),
            capacity,
        });
        (Sender(Arc::clone(&channel)), Receiver(channel))
    }

    impl<T> Sender<T> {
        pub(crate) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
            let mut queue = self.0.queue.lock().unwrap();
            if queue.len() == self.0.capacity {
                return Err(TrySendError::Full(message));
            }
            queue.push_back(message);
            Ok(())
        }

        pub(crate) fn send(&self, message: T) -> Result<(), TrySendError<T>> {
            let mut queue = self.0.queue.lock().unwrap();
            while queue.len() == self.0.capacity {
                queue = self.0.has_room.wait(queue).unwrap();
            }
            queue.push_back(message);
            Ok(())
        }
    }

    impl<T> Clone for Sender<T> {
        fn clone(&self) -> Self {
            Self(Arc::clone(&self.0))
        }
    }

    impl<T> Receiver<T> {
        pub(crate) fn try_recv(&self) -> Result<T, ()> {
            let message = self.0.queue.lock().unwrap().pop_front().ok_or(())?;
            self.0.has_room.notify_one();
            Ok(message)
        }

        pub(crate) fn len(&self) -> usize {
            self.0.queue.lock().unwrap().len()
        }
    }
}

/// Number of thread orders tried for each set-up, by each of two schedulers.
const ORDERS: usize = 2000;

enum Message {
    /// Index of a sender, and number of its message.
    Work(usize, usize),
    /// Last message of a sender.
    Done,
}

#[derive(Clone, Copy)]
struct Setup {
    capacity: usize,
    senders: usize,
    /// Number of messages of each sender.
    messages: usize,
    /// Number of places released by a thread that sends no messages.
    releases: usize,
    /// True if each sender ends with `Done`, and waits for room to send it.
    says_done: bool,
}

/// Sends all messages. Returns the numbers of those that were refused.
fn send(mailbox: &Mailbox<Message>, who: usize, setup: Setup) -> Vec<usize> {
    let mut refused = Vec::new();
    for number in 0..setup.messages {
        match mailbox.send(Message::Work(who, number)) {
            Err(Message::Work(sender, number)) => {
                assert_eq!(sender, who, "a message of another sender came back");
                refused.push(number);
            }
            Err(Message::Done) => panic!("Done was not sent"),
            Ok(()) => {}
        }
    }
    if setup.says_done {
        mailbox.send_waiting(Message::Done);
    }
    refused
}

/// Loop of a worker, in which sockets and timers may cause a turn at any time.
struct Worker {
    inbox: Inbox<Message>,
    waker: Arc<Waker>,
    released: Arc<AtomicUsize>,
    setup: Setup,
    read: Vec<(usize, usize)>,
    done: usize,
    seen: usize,
    turns_with_messages: usize,
}

impl Worker {
    /// Runs until all messages and flags were read.
    fn run(mut self) -> Vec<(usize, usize)> {
        while !self.knows_all() {
            if thread_rng().gen_bool(0.8) {
                self.waker.wait();
            } else {
                thread::yield_now();
            }
            self.turn();
        }
        let wakes = self.waker.wakes.load(SeqCst);
        let turns = self.turns_with_messages;
        assert!(
            // The last wakeup may be for messages that an earlier turn has read.
            wakes <= turns + 1,
            "{wakes} wakeups for {turns} turns with messages"
        );
        self.read
    }

    fn turn(&mut self) {
        let waiting = self.inbox.waiting();
        assert!(waiting <= self.setup.capacity, "{waiting} messages wait");
        let are_waiting = self.inbox.are_waiting();
        if !self.inbox.have_come() {
            assert!(!are_waiting, "a wakeup is not noticed");
            return;
        }
        self.turns_with_messages += 1;
        if self.inbox.take_retry() {
            self.seen = self.released.load(SeqCst);
        }
        while let Some(message) = self.inbox.next() {
            match message {
                Message::Work(who, number) => self.read.push((who, number)),
                Message::Done => self.done += 1,
            }
        }
    }

    fn knows_all(&self) -> bool {
        let Setup {
            senders,
            messages,
            releases,
            says_done,
            ..
        } = self.setup;
        let has_all = if says_done {
            self.done == senders
        } else {
            // All messages fit into the mailbox.
            self.read.len() == senders * messages
        };
        has_all && self.seen == releases
    }
}

fn run(setup: Setup) {
    let waker = Arc::new(Waker::default());
    let released = Arc::new(AtomicUsize::new(0));
    let (mailbox, inbox) = mailbox(setup.capacity, Arc::clone(&waker));
    let senders = (0..setup.senders).map(|who| {
        let mailbox = mailbox.clone();
        thread::spawn(move || send(&mailbox, who, setup))
    });
    let senders: Vec<_> = senders.collect();
    let releaser = {
        let (mailbox, released) = (mailbox.clone(), Arc::clone(&released));
        thread::spawn(move || {
            for _ in 0..setup.releases {
                released.fetch_add(1, SeqCst);
                mailbox.retry();
            }
        })
    };
    let worker = Worker {
        inbox,
        waker,
        released,
        setup,
        read: Vec::new(),
        done: 0,
        seen: 0,
        turns_with_messages: 0,
    };
    let read = thread::spawn(move || worker.run()).join().unwrap();
    releaser.join().unwrap();
    for (who, sender) in senders.into_iter().enumerate() {
        let refused = sender.join().unwrap();
        let read = read.iter().filter(|(sender, _)| *sender == who);
        let read: Vec<_> = read.map(|(_, number)| *number).collect();
        assert!(read.is_sorted(), "out of order: {read:?}");
        let mut all = [read, refused].concat();
        all.sort_unstable();
        assert_eq!(all, (0..setup.messages).collect::<Vec<_>>());
    }
}

fn check(setup: Setup) {
    // Random orders, and orders with few switches of threads at the worst moments.
    shuttle::check_random(move || run(setup), ORDERS);
    shuttle::check_pct(move || run(setup), ORDERS, 3);
}

const SETUP: Setup = Setup {
    capacity: 8,
    senders: 2,
    messages: 2,
    releases: 0,
    says_done: false,
};

#[test]
fn every_message_wakes_the_worker_or_is_read_in_the_turn_before() {
    check(Setup {
        senders: 1,
        ..SETUP
    });
    check(SETUP);
    check(Setup {
        senders: 3,
        messages: 1,
        ..SETUP
    });
}

#[test]
fn a_release_is_heard_without_any_message() {
    check(Setup {
        senders: 0,
        releases: 3,
        ..SETUP
    });
    check(Setup {
        releases: 2,
        ..SETUP
    });
}

#[test]
fn a_full_mailbox_gives_messages_back_and_lets_who_waits_in() {
    check(Setup {
        capacity: 1,
        messages: 3,
        releases: 1,
        says_done: true,
        ..SETUP
    });
    check(Setup {
        capacity: 2,
        senders: 3,
        says_done: true,
        ..SETUP
    });
}
