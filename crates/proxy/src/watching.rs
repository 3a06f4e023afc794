//! Thread that probes the hosts of all databases with several hosts. It owns one connection to each host of each such
//! database; [`weir_watch`] decides what the answers mean, and workers read the results as [`crate::global::Cluster`].
//!
//! [`Watcher::turn`] handles completions, messages, reports of workers and deadlines. It waits in one place only, as a
//! worker does; helpers derive keys, look names up and compute handshakes.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use slotmap::SlotMap;
use weir_pool::Moment;
use weir_watch::{Failure, probe_query, sample_query};
use weir_wire::encode;

use crate::driver::{Completion, Driver, Owner};
use crate::global::Global;
use crate::socket::TcpOptions;
use crate::worker::{Missing, ServerId};

mod dial;
mod failure;
mod link;
mod login;
mod message;
mod reply;
mod spec;
#[cfg(test)]
mod tests;
mod thread;
mod watched;

use link::{Link, Stage, Step};
use message::{Message, WatcherInbox, WatcherMailbox};
use spec::ClusterSpec;
pub(crate) use spec::specs;
pub(crate) use thread::Watching;
use watched::{Watched, WatchedHost};

/// Completions handled in a row. Messages and deadlines then have their turn.
const COMPLETIONS_MAX: usize = 1024;

/// Shortest wait for a deadline: no mistake about deadlines turns the thread into a busy loop.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// Pause of probing after an internal error.
const PAUSE: Duration = Duration::from_secs(1);

slotmap::new_key_type! {
    /// Cluster that is being watched, until a reload ends that.
    struct WatchedId;
}

/// Closure that wakes all workers, because a snapshot has news for requests that wait.
pub(crate) type WakeWorkers = Box<dyn Fn() + Send>;

/// See the module's page.
pub(crate) struct Watcher<D> {
    global: Arc<Global>,
    driver: D,
    mailbox: WatcherMailbox,
    inbox: WatcherInbox,
    wake_workers: WakeWorkers,
    now: Moment,
    watched: SlotMap<WatchedId, Watched>,
    /// Connections to hosts. Servers of this thread have the ids that servers of a worker have.
    links: SlotMap<ServerId, Link>,
    /// Time before which no probe starts.
    paused_until: Moment,
    has_ended: bool,
}

impl<D: Driver> Watcher<D> {
    /// Makes a watcher without clusters; [`Message::Settings`] brings them.
    pub(crate) fn new(
        global: Arc<Global>,
        driver: D,
        (mailbox, inbox): (WatcherMailbox, WatcherInbox),
        wake_workers: WakeWorkers,
    ) -> Self {
        Self {
            now: global.clock.now(),
            global,
            driver,
            mailbox,
            inbox,
            wake_workers,
            watched: SlotMap::with_key(),
            links: SlotMap::with_key(),
            paused_until: Moment(0),
            has_ended: false,
        }
    }

    /// Runs until [`Message::Stop`].
    ///
    /// # Errors
    /// The operating system cannot wait for events any more.
    pub(crate) fn run(mut self) -> std::io::Result<()> {
        while !self.has_ended {
            match catch_unwind(AssertUnwindSafe(|| self.turn())) {
                Ok(outcome) => outcome?,
                Err(panic) if cfg!(test) => resume_unwind(panic),
                // Without this thread, no change of roles would be noticed any more.
                Err(_) => self.start_over(),
            }
        }
        Ok(())
    }

    /// Waits for events and handles them.
    ///
    /// # Errors
    /// The operating system cannot wait for events any more.
    pub(crate) fn turn(&mut self) -> std::io::Result<()> {
        let wait = |at: Moment| at.since(self.now).max(WAIT_MIN);
        self.driver.wait(self.now, self.next_deadline().map(wait))?;
        self.now = self.global.clock.now();
        for _ in 0..COMPLETIONS_MAX {
            let Some(completion) = self.driver.next() else {
                break;
            };
            self.complete(completion);
        }
        if self.inbox.have_come() {
            while let Some(message) = self.inbox.next() {
                self.receive(message);
            }
        }
        for (_, watched) in &mut self.watched {
            watched.hear_workers(self.now);
            watched.hear_sources(self.now);
        }
        self.end_overdue();
        self.start_probes();
        self.publish();
        Ok(())
    }

    /// Returns the time at which something is due.
    fn next_deadline(&self) -> Option<Moment> {
        let probes = self.watched.values().map(|it| it.watch.next_probe());
        let probes = probes.map(|at| at.max(self.paused_until));
        let links = self.links.values().filter_map(|link| link.deadline);
        probes.chain(links).filter(|at| *at != Moment::NEVER).min()
    }

    fn complete(&mut self, completion: Completion) {
        match completion {
            Completion::Connected(Owner::Server(id)) => self.connected(id),
            Completion::ConnectFailed(Owner::Server(id), error) => self.connect_failed(id, &error),
            Completion::Ended(Owner::Server(id), ending) => {
                if let Some(link) = self.links.get_mut(id) {
                    link.key = slotmap::Key::null();
                }
                self.fail(id, &failure::of_end(ending.error.as_ref()));
            }
            Completion::Received(owner, chunk) => {
                if let Owner::Server(id) = owner {
                    self.received(id, &chunk);
                }
                self.driver.recycle(chunk);
            }
            // Messages are short: the driver keeps what a socket does not take, and deadlines limit the rest.
            Completion::Drained(_) => {}
            // The thread has no listeners and hands no connection over; no other owner has connections here.
            Completion::Accepted(_)
            | Completion::AcceptFailed(_)
            | Completion::Connected(_)
            | Completion::ConnectFailed(..)
            | Completion::Detached(..)
            | Completion::Ended(..) => {}
        }
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Handshake { link, advanced } => self.advanced(link, *advanced),
            Message::Keys { link, keys } => self.derived(link, &keys),
            Message::Resolved { link, addresses } => self.looked_up(link, addresses),
            Message::Settings(specs) => self.settle(specs),
            Message::Stop => self.has_ended = true,
        }
    }

    // --- probes ---

    fn start_probes(&mut self) {
        if self.now < self.paused_until {
            return;
        }
        let mut due = Vec::new();
        for (id, watched) in &mut self.watched {
            while let Some(host) = watched.watch.poll_probe(self.now) {
                due.push((id, host));
            }
        }
        for (id, host) in due {
            let state = self.watched.get(id).and_then(|it| it.hosts.get(host));
            match state.and_then(|state| state.link) {
                Some(link) if self.has_moved(link) => {
                    self.close(link);
                    self.dial(id, host);
                }
                Some(link) => self.ask(link),
                None => self.dial(id, host),
            }
        }
    }

    /// Sends the probe on a connection that is logged in.
    fn ask(&mut self, id: ServerId) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let Some(watched) = self.watched.get(link.watched) else {
            return;
        };
        if !matches!(link.stage, Stage::Idle) {
            // The host has a probe under way; its deadline limits it.
            self.global.broken.report(Missing::State);
            return;
        }
        // Some facts hold for the life of a connection.
        let text = match link.has_answered {
            false => probe_query(),
            true => sample_query(),
        };
        let mut message = Vec::new();
        // A constant text without a NUL.
        let _ = encode::query(&mut message, text.as_bytes());
        link.stage = Stage::Asked(reply::Reply::default());
        link.sent = self.now;
        link.deadline = Some(self.now.plus(watched.spec.rules.probe_timeout));
        self.driver.send(link.key, &message);
    }

    /// Handles bytes from a host.
    fn received(&mut self, id: ServerId, bytes: &[u8]) {
        // The connection may have been closed by the bytes before these.
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        link.receive(bytes);
        let mut out = Vec::new();
        while let Some(link) = self.links.get_mut(id) {
            let step = link.step(&mut out);
            if !out.is_empty() {
                self.driver.send(link.key, &out);
                out.clear();
            }
            match step {
                Ok(Step::More) => return,
                Ok(Step::Advance(step)) => self.advance(id, *step),
                Ok(Step::Answered(answer)) => {
                    let (host, sent) = (link.host, link.sent);
                    let address = link.named_address().map(|(_, address)| address);
                    if let Some(watched) = self.watched.get_mut(link.watched) {
                        watched.note_address(host, address);
                        watched.handle_answer(self.now, host, sent, &answer);
                    }
                }
                Ok(Step::Ask) => self.ask(id),
                Ok(Step::Derive(request)) => self.derive(id, request),
                Ok(Step::LogIn) => self.log_in(id),
                Ok(Step::Secure(outgoing)) => self.secure(id, &outgoing),
                Err(failure) => self.fail(id, &failure),
            }
        }
    }

    fn end_overdue(&mut self) {
        let is_over = |link: &Link| link.deadline.is_some_and(|at| at <= self.now);
        let links = self.links.iter().filter(|(_, link)| is_over(link));
        let overdue: Vec<_> = links.map(|(id, _)| id).collect();
        for id in overdue {
            self.overdue(id);
        }
    }

    /// Ends a connection with its probe. A connection may also fail between two probes: it is a sign of trouble then.
    fn fail(&mut self, id: ServerId, failure: &Failure) {
        if let Some((watched, host)) = self.close(id)
            && let Some(watched) = self.watched.get_mut(watched)
        {
            watched.note_address(host, None);
            watched.watch.handle_failure(self.now, host, failure);
        }
    }

    /// Closes a connection. Returns the host that it belonged to.
    fn close(&mut self, id: ServerId) -> Option<(WatchedId, usize)> {
        let link = self.links.remove(id)?;
        if link.is_logged_in() {
            let mut message = Vec::new();
            // Five bytes. PostgreSQL logs a client that leaves without them.
            let _ = encode::terminate(&mut message);
            self.driver.close_with(link.key, &message);
        } else {
            self.driver.abort(link.key);
        }
        let watched = self.watched.get_mut(link.watched);
        if let Some(state) = watched.and_then(|watched| watched.hosts.get_mut(link.host)) {
            state.link = None;
        }
        Some((link.watched, link.host))
    }

    /// Returns the state of a connection's host.
    fn host_of(&mut self, id: ServerId) -> Option<&mut WatchedHost> {
        let link = self.links.get(id)?;
        self.watched.get_mut(link.watched)?.hosts.get_mut(link.host)
    }

    // --- clusters ---

    /// Watches these clusters and no others. Clusters that are described as before keep their connections, and what is
    /// known of their hosts.
    fn settle(&mut self, specs: Vec<ClusterSpec>) {
        let options = &self.global.settled().settings.global;
        self.driver.set_options(TcpOptions::new(options));
        let mut before: Vec<_> = self.watched.keys().collect();
        for spec in specs {
            let is_it = |id: &WatchedId| {
                let known = self.watched.get(*id);
                known.is_some_and(|known| known.spec.continues(&spec))
            };
            match before.iter().position(is_it) {
                Some(place) => {
                    let id = before.swap_remove(place);
                    if let Some(known) = self.watched.get_mut(id) {
                        known.spec = spec;
                    }
                }
                None => {
                    self.watched.insert(Watched::new(spec, self.now));
                }
            }
        }
        for id in before {
            self.forget(id);
        }
    }

    /// Stops watching a cluster.
    fn forget(&mut self, id: WatchedId) {
        let Some(watched) = self.watched.remove(id) else {
            return;
        };
        for link in watched.hosts.iter().filter_map(|host| host.link) {
            self.close(link);
        }
    }

    /// Begins to watch all clusters anew, after an internal error that may have left their state half changed.
    fn start_over(&mut self) {
        tracing::error!("internal error while hosts were watched; all of them are probed anew");
        self.paused_until = self.now.plus(PAUSE);
        let specs: Vec<_> = self.watched.values().map(|it| it.spec.clone()).collect();
        let ids: Vec<_> = self.watched.keys().collect();
        for id in ids {
            self.forget(id);
        }
        for spec in specs {
            self.watched.insert(Watched::new(spec, self.now));
        }
    }

    fn publish(&mut self) {
        let mut is_news = false;
        for (_, watched) in &mut self.watched {
            is_news |= watched.publish();
        }
        if is_news {
            (self.wake_workers)();
        }
    }
}
