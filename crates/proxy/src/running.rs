//! Start, reload and shutdown of all workers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use weir_stats::{Draining, EventKind, FailedReload};

use crate::console::{Command, Console, Shutdown};
use crate::diagnosing::Diagnosing;
use crate::driver::{Driver, Epoll, Uring, Wake};
use crate::global::{Global, lock};
use crate::hints;
use crate::io;
use crate::listen::{self, ListenError, Listener, Passed};
use crate::mailbox::{Message, mailbox};
use crate::neighbours::Side;
use crate::orders::{Order, Refusal, Task};
use crate::settled::{Settled, Setup};
use crate::socket::TcpOptions;
use crate::watching;
use crate::worker::Worker;

pub(crate) mod succession;

pub(crate) use succession::Arrivals;
use succession::Offered;
pub(crate) use succession::Staying;
pub use succession::Succeeded;
use succession::wait_for_workers;

/// Maximum number of console commands that wait to be carried out.
const COMMANDS_MAX: usize = 16;

/// Reason for which starting failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The system has no threads, descriptors or random bytes left.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}

/// Handle of the running workers.
pub struct Running {
    global: Arc<Global>,
    workers: Vec<JoinHandle<()>>,
    commands: Receiver<Command>,
    /// Number of the last `Pulse` that was sent.
    pulse: u64,
    offered: Mutex<Offered>,
}

/// Opens the listening sockets and starts the workers. Sockets that were `passed` replace all that the configuration
/// names. Orders of the process before this one that are `standing` are carried out before the first client is accepted.
///
/// # Errors
/// An address cannot be listened on, or the system lacks a resource; nothing is running then.
pub fn start(
    setup: Setup,
    console: Arc<dyn Console>,
    passed: Vec<Passed>,
    standing: Vec<Order>,
) -> Result<Running, StartError> {
    let global_options = &setup.settings.global;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = global_options.worker_count(cores);
    let options = TcpOptions::new(global_options);
    let (driver_in_use, rings) = io::prepare(global_options.io, workers);
    let listeners = listen::open(&setup.settings, passed)?;
    for listener in &listeners {
        tracing::info!("listening on {}", listener.name());
    }
    let offered = share(&listeners)?;
    let (sender, commands) = bounded(COMMANDS_MAX);
    let global = Global::new(Settled::new(setup, None), console, workers, sender)?;
    let global = Arc::new(global);
    global.adopt(standing);
    io::put(&global, driver_in_use);
    #[cfg(feature = "debug-spin")]
    crate::spin::warn();
    let workers = start_workers(&global, (workers, rings), listeners, options)?;
    watch(&global)?;
    Diagnosing::start(&global)?;
    Ok(Running {
        global,
        workers,
        commands,
        pulse: 0,
        offered: Mutex::new(offered),
    })
}

/// Starts the workers over these rings, or over epoll. The first worker accepts for all of them, which get equal shares of
/// the clients.
fn start_workers(
    global: &Arc<Global>,
    (count, rings): (usize, io::Rings),
    listeners: Vec<Listener>,
    options: TcpOptions,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let mut listeners = Some(listeners);
    let mut listeners = || listeners.take().unwrap_or_default();
    let Some(rings) = rings else {
        let drivers = (0..count).map(|_| Epoll::new(listeners(), options));
        return spawn(global, drivers.collect::<std::io::Result<_>>()?);
    };
    let drivers = rings.into_iter();
    let drivers = drivers.map(|ring| Uring::new(ring, listeners(), options));
    spawn(global, drivers.collect())
}

/// Starts a worker over each of these drivers.
fn spawn<D: Driver + Send + 'static>(
    global: &Arc<Global>,
    drivers: Vec<(D, Arc<dyn Wake>)>,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let mut parts = Vec::new();
    let mut mailboxes = Vec::new();
    for (driver, waker) in drivers {
        let (sender, inbox) = mailbox(waker);
        mailboxes.push(sender);
        parts.push((driver, inbox));
    }
    // The only place that sets it.
    let _ = global.workers.mailboxes.set(mailboxes);
    let mut workers = Vec::new();
    for (number, (driver, inbox)) in parts.into_iter().enumerate() {
        let worker = Worker::new(number, Arc::clone(global), driver, inbox);
        let name = format!("weir-worker-{number}");
        workers.push(thread::Builder::new().name(name).spawn(move || {
            if let Err(error) = worker.run() {
                tracing::error!("worker {number} ended: {error}");
            }
        })?);
    }
    Ok(workers)
}

/// Watches the hosts that the configuration names, on a thread that starts with the first of them, and reads the sources
/// of hints.
fn watch(global: &Arc<Global>) -> std::io::Result<()> {
    let specs = watching::specs(&global.settled(), &global.hosts, &global.clusters);
    global.watching.settle(global, &global.clusters, specs)?;
    let sources = hints::specs(&global.settled(), &global.clusters);
    global.hint_sources.settle(sources)
}

impl Running {
    pub(crate) fn global(&self) -> &Arc<Global> {
        &self.global
    }

    /// Stops the workers. May be called again, for a harder shutdown.
    pub fn shutdown(&self, how: Shutdown) {
        // Closes the sockets: no client may wait where none is accepted.
        drop(std::mem::take(&mut *lock(&self.offered)));
        self.global
            .halting
            .is_draining
            .store(true, Ordering::SeqCst);
        let limit = self.global.settled().settings.global.drain_timeout;
        self.note_drain(limit);
        self.tell_all(|| Message::Shutdown(how));
    }

    /// Notes that the process waits for its clients, for this long at most.
    pub(crate) fn note_drain(&self, limit: Duration) {
        let since = self.global.unix();
        let limit = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX);
        lock(&self.global.facts.draining).get_or_insert(Draining {
            since,
            until: since.saturating_add(limit),
        });
    }

    /// Notes an event for `SHOW EVENTS`.
    pub fn note(&self, kind: EventKind, text: String) {
        self.global.note(kind, text);
    }

    /// Notes the outcome of a reload: the errors, if it failed.
    pub fn note_reload(&self, failure: Option<String>) {
        let kind = EventKind::Reload;
        let text = match &failure {
            None => "the configuration was read again".to_owned(),
            Some(error) => format!("reload failed: {error}"),
        };
        let at = self.global.unix();
        *lock(&self.global.facts.failed_reload) = failure.map(|error| FailedReload { at, error });
        self.note(kind, text);
    }

    /// Puts another configuration in force, and returns when all workers have applied it. Listeners and the number of
    /// workers stay as they are.
    pub fn reload(&self, setup: Setup) {
        let before = self.global.settled();
        self.global
            .settle(Arc::new(Settled::new(setup, Some(&before))));
        if let Err(error) = watch(&self.global) {
            tracing::error!("the hosts of databases with replicas cannot be watched: {error}");
        }
        self.tell_all(|| Message::Settings);
        self.global.wake_all();
        // What a client sends after the answer to a RELOAD must not run by the configuration before it.
        wait_for_workers(&self.global);
    }

    /// Pauses all databases, as the console's PAUSE: no more servers are assigned. Idle servers are closed, used ones
    /// when they are free.
    ///
    /// # Errors
    /// Everything is paused or suspended already, or the pooler is shutting down.
    pub fn pause(&self) -> Result<(), Refusal> {
        self.global.pause(None, "pause")?;
        self.settle();
        self.pass_on(&Order::Pause(None), None);
        Ok(())
    }

    /// Takes a [`Running::pause`] back, or a PAUSE or SUSPEND of the console.
    ///
    /// # Errors
    /// Nothing is paused or suspended.
    pub fn resume(&self) -> Result<(), Refusal> {
        let resumed = self.global.resume(None);
        self.pass_on(&Order::Resume(None), None);
        resumed?;
        self.settle();
        Ok(())
    }

    /// Passes an order on to the other processes of an upgrade, not to the side that it comes from. Does not wait until they
    /// have carried it out.
    pub fn pass_on(&self, order: &Order, from: Option<Side>) {
        (self.global.succession.neighbours).pass_order(order, from);
    }

    /// Returns a text about what an administrator has stopped and the next process of an upgrade could not take over, and how
    /// to end that. `None` if everything can be taken over.
    pub fn unportable(&self) -> Option<(String, &'static str)> {
        self.global.unportable()
    }

    fn settle(&self) {
        self.tell_all(|| Message::Task {
            task: Task::Settle,
            to: None,
        });
    }

    /// True if every worker has answered since the last call; then all are asked again. A worker that hangs never
    /// answers.
    pub fn beats(&mut self) -> bool {
        let all = all_answered(&self.global.workers.pulses, self.pulse);
        if all {
            self.pulse += 1;
            for mailbox in self.global.workers.mailboxes.get().into_iter().flatten() {
                // The mailbox of a worker that hangs may be full; the pulse then stays unanswered.
                drop(mailbox.send(Message::Pulse(self.pulse)));
            }
        }
        all
    }

    /// Number of connected clients.
    pub fn clients(&self) -> usize {
        let loads = self.global.workers.loads.iter();
        loads.map(|load| load.load(Ordering::Relaxed)).sum()
    }

    /// Returns the channel of console commands; the caller carries them out.
    pub fn commands(&self) -> Receiver<Command> {
        self.commands.clone()
    }

    /// True if all workers have ended.
    pub fn is_finished(&self) -> bool {
        self.workers.iter().all(JoinHandle::is_finished)
    }

    /// Waits until all workers have ended.
    pub fn wait(self) {
        for worker in self.workers {
            if worker.join().is_err() {
                tracing::error!("a worker ended by a panic; the log has its text");
            }
        }
        self.global.diagnosing.stop();
        self.global.hint_sources.stop();
        self.global.watching.stop();
    }

    fn tell_all(&self, message: impl Fn() -> Message) {
        for mailbox in self.global.workers.mailboxes.get().into_iter().flatten() {
            mailbox.send_waiting(message());
        }
    }
}

/// Duplicates the listening sockets for a successor.
fn share(listeners: &[Listener]) -> std::io::Result<Offered> {
    let mut offered = Offered::default();
    for listener in listeners {
        let (socket, is_passed_on) = listener.share()?;
        offered.sockets.push(socket);
        offered.are_passed_on.push(is_passed_on);
    }
    Ok(offered)
}

fn all_answered(pulses: &[AtomicU64], asked: u64) -> bool {
    let mut pulses = pulses.iter();
    pulses.all(|pulse| pulse.load(Ordering::Relaxed) >= asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_that_does_not_turn_ends_the_signs_of_life() {
        let pulses = [AtomicU64::new(0), AtomicU64::new(0)];
        assert!(all_answered(&pulses, 0), "nobody was asked yet");
        pulses[0].store(1, Ordering::Relaxed);
        assert!(!all_answered(&pulses, 1));
        pulses[1].store(1, Ordering::Relaxed);
        assert!(all_answered(&pulses, 1));
    }
}
