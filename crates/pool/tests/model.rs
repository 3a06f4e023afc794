//! Lanes on threads whose order shuttle decides: limits are never exceeded, and no wakeup is lost. A lost wakeup leaves
//! every thread waiting for a message, which shuttle reports as a deadlock. Run by `cargo test -p weir-pool --features
//! model --test model`.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that panics has failed, which is what it is for"
)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use shuttle::rand::Rng;
use shuttle::rand::thread_rng;
use shuttle::sync::mpsc::Receiver;
use shuttle::sync::mpsc::Sender;
use shuttle::sync::mpsc::channel;
use weir_pool::Action;
use weir_pool::Alternatives;
use weir_pool::Checkin;
use weir_pool::Checkout;
use weir_pool::ClientId;
use weir_pool::HostGate;
use weir_pool::HostId;
use weir_pool::Moment;
use weir_pool::Policy;
use weir_pool::Quota;
use weir_pool::Serial;
use weir_pool::ServerId;
use weir_pool::Shard;
use weir_pool::Shared;
use weir_pool::Transfer;
use weir_pool::Want;

/// Time stands still, because nothing may depend on a timer.
const NOW: Moment = Moment(1);

/// Number of thread orders that are tried for each set-up.
const ORDERS: usize = 200;

enum Message {
    Ask(usize),
    AskRefused,
    /// A lane has completed its transactions.
    Done,
    Transfer(Transfer, bool),
    Retry,
}

#[derive(Clone, Copy)]
enum Client {
    Away,
    Holding(ServerId),
    Keeping(ServerId),
    Waiting,
}

#[derive(Clone, Copy)]
struct Setup {
    lanes: usize,
    size: usize,
    database_max: usize,
    /// Assigned servers; 0 = not limited.
    seats: usize,
    keeps: bool,
    /// Some servers are closed after a transaction.
    closes: bool,
    /// Number of transactions of each lane's first client, and of the second client of the first lane.
    transactions: [usize; 2],
}

struct Lane {
    number: usize,
    shard: Shard,
    /// Each client with the transactions that it still has to do.
    clients: [(Client, usize); 2],
    inbox: Receiver<Message>,
    others: Vec<Sender<Message>>,
    /// Servers to release at the end of the event, as the engine does it.
    later: VecDeque<ServerId>,
    open: Arc<AtomicUsize>,
    setup: Setup,
    done: usize,
    next_server: u64,
}

impl Lane {
    fn run(mut self) {
        let mut has_told = false;
        while self.done < self.setup.lanes {
            let acts = (0..self.clients.len()).any(|client| self.act(client));
            self.settle();
            let is_over = |(client, left): &(Client, usize)| {
                *left == 0 && !matches!(client, Client::Waiting | Client::Holding(_))
            };
            if !has_told && self.clients.iter().all(is_over) {
                has_told = true;
                self.others
                    .iter()
                    .for_each(|other| drop(other.send(Message::Done)));
            }
            if !acts && self.done < self.setup.lanes {
                let message = self.inbox.recv().unwrap();
                self.hear(message);
                self.settle();
            }
        }
    }

    /// Performs one step of a client; false if it can only wait.
    fn act(&mut self, client: usize) -> bool {
        let (state, left) = self.clients[client];
        match state {
            Client::Away if left > 0 => {
                self.clients[client] = (Client::Waiting, left - 1);
                match self.shard.checkout(NOW, ClientId(client as u64), Want::Any) {
                    Checkout::Granted(server) | Checkout::Check(server) => {
                        self.hold(client, server);
                    }
                    Checkout::Queued(_) => {}
                    Checkout::FailFast => panic!("no login fails"),
                }
            }
            Client::Keeping(server) if left > 0 => {
                self.shard.unkeep(server);
                self.clients[client] = (Client::Holding(server), left - 1);
            }
            Client::Holding(server) if self.setup.closes && thread_rng().gen_bool(0.5) => {
                self.clients[client].0 = Client::Away;
                self.open.fetch_sub(1, SeqCst);
                self.shard.closed(NOW, server);
            }
            Client::Holding(server) => {
                let wants = self.setup.keeps && thread_rng().gen_bool(0.7);
                if wants && self.shard.keep(NOW, server) {
                    self.clients[client].0 = Client::Keeping(server);
                } else {
                    self.clients[client].0 = Client::Away;
                    self.later.push_back(server);
                }
            }
            Client::Away | Client::Keeping(_) | Client::Waiting => return false,
        }
        true
    }

    fn hear(&mut self, message: Message) {
        match message {
            Message::Ask(by) => {
                if let Some(server) = self.shard.asked(NOW, by) {
                    let transfer = self.shard.detach(server).unwrap();
                    drop(self.others[by].send(Message::Transfer(transfer, true)));
                } else {
                    self.settle();
                    drop(self.others[by].send(Message::AskRefused));
                }
            }
            Message::AskRefused => self.shard.ask_answered(NOW, false),
            Message::Done => self.done += 1,
            Message::Transfer(transfer, asked) => {
                let server = self.name();
                let answer = self.shard.adopt(NOW, server, transfer);
                self.place(server, answer);
                if asked {
                    self.shard.ask_answered(NOW, true);
                }
            }
            Message::Retry => self.shard.retry(NOW),
        }
    }

    /// Performs the shard's actions, and the releases that were put off.
    fn settle(&mut self) {
        loop {
            while let Some(action) = self.shard.poll(NOW) {
                self.perform(action);
            }
            let Some(server) = self.later.pop_front() else {
                return;
            };
            let answer = self.shard.checkin(NOW, server);
            self.place(server, answer);
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Assign { client, server, .. } => self.hold(client_index(client), server),
            Action::Ask { lane } => drop(self.others[lane].send(Message::Ask(self.number))),
            Action::Connect(token) => {
                let server = self.name();
                self.shard.connect_started(token, server, Serial(0));
                let open = self.open.fetch_add(1, SeqCst) + 1;
                let max = match self.setup.database_max {
                    0 => self.setup.size,
                    max => max.min(self.setup.size),
                };
                assert!(open <= max, "{open} servers, {max} are allowed");
                let answer = self.shard.connected(NOW, server);
                self.place(server, answer);
            }
            Action::Reclaim { server } => {
                let keeps = |(client, _): &&mut (Client, usize)| matches!(client, Client::Keeping(kept) if *kept == server);
                let client = self.clients.iter_mut().find(keeps).unwrap();
                client.0 = Client::Away;
                self.later.push_back(server);
            }
            Action::WakeOthers => {
                self.others
                    .iter()
                    .for_each(|other| drop(other.send(Message::Retry)));
            }
            // There is one pool: none has a server to evict.
            Action::Evict { .. } => {}
            Action::Close { .. }
            | Action::Fail { .. }
            | Action::Hold(_)
            | Action::Notify { .. } => {
                panic!("nothing closes or fails: {action:?}");
            }
        }
    }

    fn place(&mut self, server: ServerId, answer: Checkin) {
        match answer {
            Checkin::Assigned(client) | Checkin::AssignedCheck(client) => {
                self.hold(client_index(client), server);
            }
            Checkin::Idle => {}
            Checkin::HandOver { lane } => {
                let transfer = self.shard.detach(server).unwrap();
                drop(self.others[lane].send(Message::Transfer(transfer, false)));
            }
            Checkin::Close(reason) => panic!("nothing closes: {reason}"),
        }
    }

    fn hold(&mut self, client: usize, server: ServerId) {
        assert!(matches!(self.clients[client].0, Client::Waiting));
        self.clients[client].0 = Client::Holding(server);
        let shared = self.shard.shared();
        let (assigned, seats) = (shared.assigned(), self.setup.seats);
        assert!(
            seats == 0 || assigned <= seats,
            "{assigned} of {seats} seats"
        );
    }

    fn name(&mut self) -> ServerId {
        self.next_server += 1;
        ServerId(self.next_server)
    }
}

fn client_index(client: ClientId) -> usize {
    usize::try_from(client.0).unwrap()
}

fn run(setup: Setup) {
    let policy = Arc::new(Policy {
        size: setup.size,
        wait_timeout: None,
        wait_notify: None,
        limits_assigned: setup.seats > 0,
        ..Policy::default()
    });
    let database = Arc::new(Quota::new(setup.database_max));
    let (user, host) = (
        Arc::new(Quota::new(0)),
        Arc::new(HostGate::new(HostId(1), 0)),
    );
    let shared = Arc::new(Shared::new(
        &policy,
        setup.lanes,
        database,
        user,
        Alternatives::in_order([host]),
    ));
    shared.set_limit(setup.seats);
    let open = Arc::new(AtomicUsize::new(0));
    let (others, inboxes): (Vec<_>, Vec<_>) = (0..setup.lanes).map(|_| channel()).unzip();
    let lanes = inboxes.into_iter().enumerate().map(|(number, inbox)| Lane {
        number,
        shard: Shard::new(Arc::clone(&shared), Arc::clone(&policy), number, 7),
        clients: [
            (Client::Away, setup.transactions[0]),
            (
                Client::Away,
                if number == 0 {
                    setup.transactions[1]
                } else {
                    0
                },
            ),
        ],
        inbox,
        others: others.clone(),
        later: VecDeque::new(),
        open: Arc::clone(&open),
        setup,
        done: 0,
        next_server: 0,
    });
    let threads: Vec<_> = lanes
        .map(|lane| shuttle::thread::spawn(move || lane.run()))
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

fn check(setup: Setup) {
    check_in(ORDERS, setup);
}

fn check_in(orders: usize, setup: Setup) {
    // First at random, then with few thread switches at the worst moments.
    shuttle::check_random(move || run(setup), orders);
    shuttle::check_pct(move || run(setup), orders, 3);
}

const SETUP: Setup = Setup {
    lanes: 2,
    size: 1,
    database_max: 0,
    seats: 0,
    keeps: false,
    closes: false,
    transactions: [2, 1],
};

#[test]
fn a_pool_of_one_server_serves_every_lane() {
    check(SETUP);
    check(Setup { lanes: 3, ..SETUP });
}

#[test]
fn a_limit_of_the_database_holds_and_whoever_it_refuses_is_served() {
    check(Setup {
        size: 3,
        database_max: 1,
        ..SETUP
    });
    check(Setup {
        lanes: 3,
        size: 3,
        database_max: 2,
        ..SETUP
    });
}

#[test]
fn a_place_that_is_given_back_is_taken_by_who_was_refused() {
    check(Setup {
        closes: true,
        ..SETUP
    });
    // Only the very last release can be missed.
    let last = Setup {
        closes: true,
        transactions: [1, 0],
        ..SETUP
    };
    check_in(60 * ORDERS, last);
    check(Setup {
        lanes: 3,
        size: 3,
        database_max: 1,
        closes: true,
        ..SETUP
    });
}

#[test]
fn kept_servers_come_back_to_waiters_of_every_lane() {
    check(Setup {
        keeps: true,
        ..SETUP
    });
    check(Setup {
        lanes: 3,
        size: 2,
        keeps: true,
        ..SETUP
    });
}

#[test]
fn a_limit_on_assigned_servers_holds_and_whoever_it_refuses_is_served() {
    check(Setup {
        size: 2,
        seats: 1,
        ..SETUP
    });
    check(Setup {
        lanes: 3,
        size: 3,
        seats: 1,
        keeps: true,
        ..SETUP
    });
}
