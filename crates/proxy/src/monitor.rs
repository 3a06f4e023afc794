//! Listener for monitoring (`metrics_listen`): figures and health checks over HTTP, on threads of its own.
//!
//! Monitoring cannot slow the traffic. Workers are asked for figures by a mailbox message, at most ten times a second.
//! At most `SERVERS` connections are served, as many again may wait, and the rest are closed. Each connection has one
//! deadline, from its first byte to its last. `httparse` reads the requests. A server such as hyper would bring a
//! runtime for three pages, and has no deadline for clients that do not read; tiny_http has no deadlines at all.

use std::net::{IpAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{io, thread};

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_config::ListenPoint;
use weir_pool::Moment;
use weir_stats::Snapshot;

use crate::clock::Clock;
use crate::global::{Global, lock};
use crate::inspect::Detail;
use crate::listen::{self, ListenError};
use crate::mailbox::Message;
use crate::running::Running;

mod check;
mod failover;
mod http;
mod process;
mod query;
mod ready;

pub use check::Checked;
use check::Service;
use http::{Method, Page, Request, Status};
use ready::Probes;

/// Number of connections served at once; as many again may wait.
const SERVERS: usize = 8;
/// Deadline of a connection, from the accept to the last byte of the answer; waiting for a thread counts.
const CONNECTION_MAX: Duration = Duration::from_secs(5);
/// Time for the workers to answer; beyond it the page reports an error.
const WORKERS_MAX: Duration = Duration::from_secs(2);
/// Time for which collected figures are reused.
const FRESH: Duration = Duration::from_millis(100);
/// Pause after a failed accept: the system lacks a resource, and an immediate retry would not help.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Methods of the pages.
const METHODS: &str = "GET, HEAD, OPTIONS";
/// Answer to a request for an unknown page.
const PAGES: &str = "/metrics, /healthz, /readyz, /primary, /replica, /read-only, /v1/failover";

/// Turns figures and verdicts into the text of a page.
pub trait Pages: Send + Sync {
    /// Answer to a health check, in JSON.
    fn checked(&self, checked: &Checked) -> String;

    /// The page in Prometheus' text format 0.0.4.
    fn metrics(&self, snapshot: Snapshot) -> String;
}

/// Listening sockets that are not served yet.
#[derive(Debug)]
pub struct Monitor {
    listeners: Vec<TcpListener>,
}

impl Monitor {
    /// Opens the sockets of `metrics_listen`, or none of them.
    ///
    /// # Errors
    /// An address cannot be listened on.
    pub fn bind(points: &[ListenPoint]) -> Result<Self, ListenError> {
        let listeners = listen::open_plain(points)?;
        Ok(Self { listeners })
    }
}

/// Opens the sockets of `dashboard_listen`, or none of them.
///
/// # Errors
/// An address cannot be listened on.
pub fn open(points: &[ListenPoint]) -> Result<Vec<TcpListener>, ListenError> {
    listen::open_plain(points)
}

impl Running {
    /// Starts the threads that serve the monitoring pages.
    ///
    /// # Errors
    /// The system has no threads left.
    pub fn monitor(&self, monitor: Monitor, pages: Arc<dyn Pages>) -> io::Result<()> {
        if monitor.listeners.is_empty() {
            return Ok(());
        }
        let desk = Arc::new(Desk {
            global: Arc::clone(self.global()),
            pages,
            figures: Mutex::default(),
            probes: Probes::default(),
        });
        let (queue, waiting) = bounded(SERVERS);
        for i in 0..SERVERS {
            let (desk, waiting) = (Arc::clone(&desk), waiting.clone());
            thread::Builder::new()
                .name(format!("weir-http-{i}"))
                .spawn(move || serve(&desk, &waiting))?;
        }
        for listener in monitor.listeners {
            let address = listener.local_addr()?;
            tracing::info!("metrics and health on http://{address}");
            lock(&self.global().monitors).push(listener.try_clone()?);
            let (queue, clock) = (queue.clone(), self.global().clock);
            thread::Builder::new()
                .name("weir-http".to_owned())
                .spawn(move || accept(&listener, clock, &queue))?;
        }
        Ok(())
    }

    /// Closes the sockets of `metrics_listen`, so that another process may use the addresses. Running answers are
    /// finished. [`Running::monitor`] may be called again.
    pub fn stop_monitor(&self) {
        for listener in lock(&self.global().monitors).drain(..) {
            close(&listener);
        }
    }
}

/// Shuts a listening socket down. On Linux this ends a blocked `accept` of another thread.
fn close(listener: &TcpListener) {
    // Fails only if the socket does not listen any more, which is the aim.
    let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
}

/// Connection and its deadline.
type Caller = (TcpStream, Moment);

fn accept(listener: &TcpListener, clock: Clock, queue: &Sender<Caller>) {
    loop {
        match listener.accept() {
            // If the queue is full, the connection is closed; scrapers come again.
            Ok((stream, _)) => {
                let until = clock.now().plus(CONNECTION_MAX);
                drop(queue.try_send((stream, until)));
            }
            // The listening socket was shut down.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            Err(error) => {
                tracing::warn!("metrics_listen: accept() failed: {error}");
                thread::park_timeout(ACCEPT_PAUSE);
            }
        }
    }
}

fn serve(desk: &Desk, waiting: &Receiver<Caller>) {
    for (stream, until) in waiting {
        // A panic costs only the connection it happened on.
        let served = catch_unwind(AssertUnwindSafe(|| {
            http::serve(&stream, desk.global.clock, until, |request, peer| {
                desk.page(request, peer)
            })
        }));
        match served {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!("metrics_listen: {error}"),
            Err(_) => tracing::error!("internal error while answering a request on metrics_listen"),
        }
    }
}

/// Page made from the last collected figures.
#[derive(Debug, Clone)]
struct Figures {
    at: Moment,
    page: Result<Arc<str>, String>,
}

/// State shared by the threads that answer.
struct Desk {
    global: Arc<Global>,
    pages: Arc<dyn Pages>,
    figures: Mutex<Option<Figures>>,
    probes: Probes,
}

impl Desk {
    /// Answers a request.
    fn page(&self, request: &Request<'_>, peer: IpAddr) -> Page {
        let page: &dyn Fn() -> Page = match request.path {
            "/metrics" => &|| self.metrics(),
            "/healthz" => &|| verdict("ok", self.figures().map(drop)),
            "/readyz" => &|| verdict("ready", self.readiness()),
            "/primary" => &|| self.check(Service::Writes, request.query),
            "/replica" => &|| self.check(Service::Replica, request.query),
            "/read-only" => &|| self.check(Service::Reads, request.query),
            "/v1/failover" if request.method == Method::Post => {
                return self.failover(request, peer);
            }
            "/v1/failover" => return Page::not_allowed("POST"),
            _ => return Page::text(Status::NotFound, PAGES),
        };
        match request.only_reads() {
            true => page(),
            false => Page::not_allowed(METHODS),
        }
    }

    fn metrics(&self) -> Page {
        match self.figures() {
            Ok(page) => Page {
                status: Status::Ok,
                content_type: "text/plain; version=0.0.4; charset=utf-8",
                body: page,
            },
            Err(why) => Page::text(Status::Unavailable, &why),
        }
    }

    /// Succeeds if the process accepts clients and can serve them.
    fn readiness(&self) -> Result<(), String> {
        if self.global.halting.is_draining.load(Ordering::SeqCst) {
            return Err("draining".to_owned());
        }
        self.figures()?;
        self.probes.check(&self.global)
    }

    /// Returns the page of metrics. Concurrent callers wait for one collection, and share its page while it is fresh.
    fn figures(&self) -> Result<Arc<str>, String> {
        let mut figures = lock(&self.figures);
        let now = self.global.clock.now();
        if let Some(known) = figures.as_ref().filter(|known| now < known.at.plus(FRESH)) {
            return known.page.clone();
        }
        let page = collect(&self.global, Detail::Metrics)
            .map(|snapshot| self.pages.metrics(snapshot).into());
        let at = self.global.clock.now();
        *figures = Some(Figures {
            at,
            page: page.clone(),
        });
        page
    }
}

/// Collects the figures of all workers, or none: a total without one worker would seem to fall.
pub(crate) fn collect(global: &Global, detail: Detail) -> Result<Snapshot, String> {
    let workers = global.worker_count();
    let (sender, answers) = bounded(workers);
    for mailbox in (0..workers).filter_map(|worker| global.mailbox(worker)) {
        // A full mailbox is not being read; a worker that has ended takes no message either.
        let answer = sender.clone();
        drop(mailbox.send(Message::Measure { detail, answer }));
    }
    drop(sender);
    let until = global.clock.now().plus(WORKERS_MAX);
    let mut parts: Vec<Snapshot> = Vec::new();
    while parts.len() < workers
        && let Ok(part) = answers.recv_timeout(until.since(global.clock.now()))
    {
        parts.push(*part);
    }
    // During a shutdown, workers end one after another.
    for (worker, last) in global.workers.last_figures.iter().enumerate() {
        let has_answered = |part: &Snapshot| part.workers.iter().any(|row| row.worker == worker);
        if let Some(last) = last.get().filter(|_| !parts.iter().any(has_answered)) {
            parts.push(Snapshot::clone(last));
        }
    }
    if parts.len() < workers {
        let (count, limit) = (parts.len(), WORKERS_MAX.as_secs());
        return Err(format!(
            "{count} of {workers} workers answered within {limit} s"
        ));
    }
    let mut snapshot = Snapshot::default();
    parts.into_iter().for_each(|part| snapshot.merge(part));
    snapshot.limits = global.limits();
    snapshot.sizings = global.sizings(global.clock.now());
    snapshot.mirrors = global.mirrors.rows();
    global.show_statements(&mut snapshot, false);
    global.show_database_hosts(&mut snapshot, global.clock.now());
    snapshot.process = process::describe(global.clock);
    global.show_facts(&mut snapshot);
    Ok(snapshot)
}

fn verdict(good: &str, verdict: Result<(), String>) -> Page {
    match verdict {
        Ok(()) => Page::text(Status::Ok, good),
        Err(why) => Page::text(Status::Unavailable, &why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_was_given_up_can_be_listened_on_again() {
        let point = |port: u16| ListenPoint::parse(&format!("127.0.0.1:{port}")).unwrap();
        // Finds a free port.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut first = Monitor::bind(&[point(port)]).unwrap();
        assert!(Monitor::bind(&[point(port)]).is_err(), "it is taken");
        let listener = first.listeners.pop().unwrap();
        let closer = listener.try_clone().unwrap();
        let (queue, _waiting) = bounded(1);
        let accepts = thread::spawn(move || accept(&listener, Clock::new(), &queue));
        close(&closer);
        accepts.join().unwrap();
        drop(closer);
        assert!(Monitor::bind(&[point(port)]).is_ok());
    }
}
