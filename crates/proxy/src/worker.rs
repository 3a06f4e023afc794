//! Worker: a thread with an event loop that owns clients, servers and its lane of every pool.
//!
//! [`Worker::turn`] handles completions, messages from other threads, and timers. The files beside this one group the
//! methods by subject; no method blocks.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use weir_pool::Moment;
use weir_rules::Bulkhead;
use weir_session::client::Client as Session;

use crate::driver::{Completion, Driver, Owner, Why};
use crate::global::Global;
use crate::inspect::Detail;
use crate::mailbox::{Inbox, Message};
use crate::mirrors::Mirror;

mod access;
mod again;
mod applications;
mod away;
mod broken;
mod cancel;
mod changed;
mod client;
mod console;
mod dial;
mod digests;
mod drain;
mod ids;
mod inbox;
mod inquiry;
mod keeping;
mod listening;
mod lobby;
mod login;
mod login_failure;
mod looking;
mod measure;
mod mirroring;
mod moving;
mod negotiate;
mod orders;
mod peers;
mod pooling;
mod proof;
mod proxied;
mod questions;
mod relay;
mod release;
mod replication;
mod rewriting;
mod roles;
mod routing;
mod ruling;
mod secure;
mod server;
mod sizing;
mod slots;
mod snapshot;
mod stalls;
mod state;
mod tables;
#[cfg(test)]
mod tests;
mod throttle;
mod timers;
mod watches;
mod welcome;

pub(crate) use access::Answered;
pub(crate) use broken::{Broken, Missing};
use drain::Ending;
#[cfg(test)]
use ids::GroupId;
pub(crate) use ids::{CancellerId, ClientId, ServerId};
pub(crate) use keeping::Trials;
use listening::Listening;
pub(crate) use listening::{Asking, Heard, Leaver};
use measure::Errors;
pub(crate) use measure::Retired;
pub(crate) use moving::Arrival;
pub(crate) use orders::words;
pub(crate) use peers::Forward;
use questions::Questions;
pub(crate) use roles::Standing;
pub use routing::explain_route_offline;
pub(crate) use ruling::rule_rows;
use slots::Phase;
pub(crate) use slots::tcp_targets;
use stalls::Stalls;
pub(crate) use state::routing_names;
use tables::Tables;
#[cfg(test)]
pub(crate) use tests::CONFIG;
use timers::Timers;

/// Minimum interval between two log lines about failing accepts.
const ACCEPT_LOG: Duration = Duration::from_secs(10);

/// Completions handled in a row. Messages and timers then have their turn, however much data streams in.
const COMPLETIONS_MAX: usize = 1024;

/// Largest capacity of a reused buffer that is kept. Memory of larger buffers is freed.
const BUFFER_KEPT: usize = 256 * 1024;

/// Worker state; see the module documentation.
pub(crate) struct Worker<D> {
    /// Number of the worker, from 0.
    number: usize,
    global: Arc<Global>,
    driver: D,
    inbox: Inbox,
    now: Moment,
    tables: Tables,
    /// True if a pool wants its servers asked about session state without a reason (`session_state_check`).
    has_checks: bool,
    /// True if query rules may concern a client.
    has_rules: bool,
    /// True if one of them changes texts.
    has_rewrites: bool,
    /// Bulkheads of the query rules.
    bulkheads: Vec<Arc<Bulkhead>>,
    /// Mirrors of the query rules.
    mirrors: Vec<Arc<Mirror>>,
    /// State of the random numbers for query rules.
    dice: u64,
    /// True if a database that is no longer configured may still have clients.
    has_removed: bool,
    timers: Timers,
    /// True if the timer of pools that find their own size is armed.
    is_sizing: bool,
    listening: Listening,
    /// Stands in for the client of a server that is being cleaned.
    nobody: Session,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    answers: Vec<u8>,
    /// Tasks for after the current event.
    later: VecDeque<release::Later>,
    questions: Questions,
    console: console::Count,
    /// Time since which traffic is suspended (`SUSPEND`).
    suspended_since: Option<Moment>,
    /// Errors sent to clients.
    errors: Errors,
    /// Turns of the event loop.
    turns: u64,
    stalls: Stalls,
    ending: Ending,
    /// Time before which no line about failing accepts is logged.
    quiet_until: Moment,
}

impl<D: Driver> Worker<D> {
    pub(crate) fn new(number: usize, global: Arc<Global>, driver: D, inbox: Inbox) -> Self {
        let now = global.clock.now();
        let workers = global.worker_count();
        let broken = Arc::clone(&global.broken);
        let seed = global.secrets.shapes;
        let mut worker = Self {
            number,
            global,
            driver,
            inbox,
            now,
            tables: Tables::new(number, workers, seed, &broken),
            has_checks: false,
            has_rules: false,
            has_rewrites: false,
            bulkheads: Vec::new(),
            mirrors: Vec::new(),
            dice: seed,
            has_removed: false,
            listening: Listening::new(workers, &broken),
            timers: Timers::default(),
            is_sizing: false,
            nobody: Session::default(),
            to_server: Vec::new(),
            to_client: Vec::new(),
            answers: Vec::new(),
            later: VecDeque::new(),
            questions: Questions::default(),
            console: console::Count::default(),
            suspended_since: None,
            errors: Errors::new(),
            turns: 0,
            stalls: Stalls::default(),
            ending: Ending::default(),
            quiet_until: now,
        };
        worker.arm_stats();
        worker.arm_house(Duration::ZERO);
        let settled = worker.global.settled();
        worker.settle_digests(&settled.settings.global);
        worker
    }

    /// Runs until all workers are told to stop and have stopped.
    ///
    /// # Errors
    ///
    /// If the operating system cannot wait for events any more.
    pub(crate) fn run(mut self) -> std::io::Result<()> {
        self.driver
            .set_spin(self.global.settled().settings.global.spin);
        while !self.has_ended() {
            self.turn()?;
        }
        if let Some(last) = self.global.workers.last_figures.get(self.number) {
            // Set here and nowhere else.
            let _ = last.set(Box::new(self.measure(Detail::Metrics)));
        }
        Ok(())
    }

    fn turn(&mut self) -> std::io::Result<()> {
        let timeout = self.timers.next().map(|at| at.since(self.now));
        self.driver.wait(self.now, timeout)?;
        self.now = self.global.clock.now();
        self.stalls.turn_begins();
        self.turns += 1;
        for _ in 0..COMPLETIONS_MAX {
            let Some(completion) = self.driver.next() else {
                break;
            };
            self.complete_or_drop(completion);
            self.run_later();
        }
        if self.inbox.have_come() {
            self.read_inbox();
        }
        self.run_timers();
        self.run_later();
        while let Some(completion) = self.driver.next_detached() {
            self.complete_or_drop(completion);
            self.run_later();
        }
        self.grant_permits();
        self.stalls.turn_ends();
        Ok(())
    }

    /// Handles a completion and catches a panic in it. A panic is a bug of ours: it costs the connection that was
    /// served, and a line in the log.
    fn complete_or_drop(&mut self, completion: Completion) {
        let owner = completion.owner();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.complete(completion)));
        let Err(panic) = outcome else {
            return;
        };
        if cfg!(test) {
            // The panic fails the test, and the simulator's run.
            resume_unwind(panic);
        }
        tracing::error!("internal error while serving {owner:?}; its connection is closed");
        // The panic may have come after the end of the connection.
        match owner {
            Owner::Client(id) if self.tables.clients.contains(id) => {
                self.remove_client(id, client::Leaving::Lost, "internal error");
            }
            Owner::Server(id) if self.tables.servers.contains(id) => {
                self.close_server(id, "internal error");
            }
            Owner::Cancel(id) if self.tables.cancellers.contains(id) => {
                self.cancel_over(id, false);
            }
            Owner::Cancel(_) | Owner::Client(_) | Owner::Nobody | Owner::Server(_) => {}
        }
    }

    #[inline]
    fn complete(&mut self, completion: Completion) {
        match completion {
            Completion::Received(owner, chunk) => {
                match owner {
                    Owner::Client(id) => self.client_received(id, &chunk),
                    Owner::Server(id) => self.server_received(id, &chunk),
                    Owner::Cancel(id) => self.cancel_received(id, &chunk),
                    Owner::Nobody => {}
                }
                self.driver.recycle(chunk);
            }
            Completion::Accepted(accepted) => self.accepted(accepted),
            Completion::AcceptFailed(error) => {
                if self.now >= self.quiet_until {
                    self.quiet_until = self.now.plus(ACCEPT_LOG);
                    tracing::warn!("accept() failed, trying again: {error}");
                }
            }
            Completion::Connected(owner) => match owner {
                Owner::Server(id) => self.server_connected(id),
                Owner::Cancel(id) => self.cancel_connected(id),
                Owner::Client(_) | Owner::Nobody => {}
            },
            Completion::ConnectFailed(owner, error) => match owner {
                Owner::Server(id) => self.connect_failed(id, &error),
                Owner::Cancel(id) => self.cancel_over(id, false),
                Owner::Client(_) | Owner::Nobody => {}
            },
            Completion::Detached(owner, stream) => match owner {
                Owner::Client(id) => self.client_detached(id, *stream),
                Owner::Server(id) => self.server_detached(id, *stream),
                Owner::Cancel(_) | Owner::Nobody => {}
            },
            Completion::Drained(owner) => self.drained(owner),
            Completion::Ended(owner, ending) => match owner {
                Owner::Client(id) => self.client_ended(id, &ending),
                Owner::Server(id) => self.server_ended(id, ending.error.as_ref()),
                Owner::Cancel(id) => self.cancel_ended(id, ending.error.as_ref()),
                Owner::Nobody => {}
            },
        }
    }

    fn read_inbox(&mut self) {
        if self.inbox.take_retry() {
            self.follow_hosts();
            self.retry_lanes();
        }
        while let Some(message) = self.inbox.next() {
            self.receive(message);
            self.run_later();
        }
    }

    /// Sends a message to another worker; `Err` gives it back.
    fn post(&self, worker: usize, message: Message) -> Result<(), Message> {
        match self.global.mailbox(worker) {
            Some(mailbox) => mailbox.send(message),
            None => Err(message),
        }
    }

    /// Receives again from the connections that were stopped for a backlog that is now gone.
    fn drained(&mut self, owner: Owner) {
        match owner {
            Owner::Client(id) => {
                let Some(client) = self.tables.clients.must_get(id) else {
                    return;
                };
                let was_unread = self.driver.reasons(client.key).has(Why::Unread);
                self.driver.go(client.key, Why::Unread);
                let server = client
                    .lease
                    .and_then(|server| self.tables.servers.must_get(server));
                if let Some(server) = server {
                    self.driver.go(server.key, Why::Partner);
                }
                if was_unread && matches!(client.phase, Phase::Console(_)) {
                    self.take_input(id);
                }
                self.deliver_mail(id);
            }
            Owner::Server(id) => {
                let Some(server) = self.tables.servers.must_get(id) else {
                    return;
                };
                let client = server
                    .lease
                    .and_then(|client| self.tables.clients.must_get(client));
                if let Some(client) = client {
                    self.driver.go(client.key, Why::Partner);
                }
                match server.lease {
                    // The unsent bytes kept the server from being released.
                    Some(client) => self.release_if_free(client, id),
                    None => self.put_back_abandoned(id),
                }
            }
            Owner::Cancel(_) | Owner::Nobody => {}
        }
    }
}

/// Frees the memory of a reused buffer that has grown beyond [`BUFFER_KEPT`].
fn trim(buffer: &mut Vec<u8>) {
    if buffer.capacity() > BUFFER_KEPT {
        *buffer = Vec::new();
    }
}
