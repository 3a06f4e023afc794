//! Starting and stopping the whole.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};

use crate::console::{Command, Console, Shutdown};
use crate::driver::Epoll;
use crate::global::{Global, lock};
use crate::listen::{self, ListenError, Listener, Passed};
use crate::mailbox::{Message, mailbox};
use crate::orders::{Refusal, Task};
use crate::settled::{Settled, Setup};
use crate::socket::TcpOptions;
use crate::worker::Worker;

pub(crate) mod succession;

pub(crate) use succession::Arrivals;
use succession::Offered;
pub use succession::Succeeded;

/// Commands from the console that may wait to be carried out.
const COMMANDS_MAX: usize = 16;

/// Why starting failed.
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

/// The running workers.
pub struct Running {
    global: Arc<Global>,
    workers: Vec<JoinHandle<()>>,
    commands: Receiver<Command>,
    /// The last sign of life that was asked for.
    pulse: u64,
    offered: Mutex<Offered>,
}

/// Opens the listening sockets and starts the workers. Sockets that were `passed` take the place of those that the
/// configuration names.
///
/// # Errors
/// If an address cannot be listened on, or the system lacks something; nothing is running then.
pub fn start(
    setup: Setup,
    console: Arc<dyn Console>,
    passed: Vec<Passed>,
) -> Result<Running, StartError> {
    let global_options = &setup.settings.global;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let lanes = global_options.worker_count(cores);
    let options = TcpOptions::new(global_options);
    let listeners = listen::open(global_options, passed)?;
    for listener in &listeners {
        tracing::info!("listening on {}", listener.name());
    }
    let offered = share(&listeners)?;
    let (sender, commands) = bounded(COMMANDS_MAX);
    let mut global = Global::new(Settled::new(setup, None), console, lanes, sender)?;
    global.spin = debug_spin();
    let global = Arc::new(global);
    let mut listeners = Some(listeners);
    let mut parts = Vec::new();
    let mut mailboxes = Vec::new();
    for _ in 0..lanes {
        // The first worker accepts for all: they get their clients from it in equal shares.
        let (driver, waker) = Epoll::new(listeners.take().unwrap_or_default(), options)?;
        let (sender, letters) = mailbox(waker);
        mailboxes.push(sender);
        parts.push((driver, letters));
    }
    // Set here and nowhere else.
    let _ = global.mailboxes.set(mailboxes);
    let mut workers = Vec::new();
    for (lane, (driver, letters)) in parts.into_iter().enumerate() {
        let worker = Worker::new(lane, Arc::clone(&global), driver, letters);
        let name = format!("weir-worker-{lane}");
        workers.push(thread::Builder::new().name(name).spawn(move || {
            if let Err(error) = worker.run() {
                tracing::error!("worker {lane} ended: {error}");
            }
        })?);
    }
    Ok(Running {
        global,
        workers,
        commands,
        pulse: 0,
        offered: Mutex::new(offered),
    })
}

impl Running {
    pub(crate) fn global(&self) -> &Arc<Global> {
        &self.global
    }

    /// Stops. May be called again, with a harder way.
    pub fn shutdown(&self, how: Shutdown) {
        // Nobody may wait in a socket that nobody accepts from.
        drop(std::mem::take(&mut *lock(&self.offered)));
        self.global.is_draining.store(true, Ordering::SeqCst);
        self.tell_all(|| Message::Shutdown(how));
    }

    /// Puts another configuration in force. What cannot change while running (listeners, workers) stays.
    pub fn reload(&self, setup: Setup) {
        let before = self.global.settled();
        self.global
            .settle(Arc::new(Settled::new(setup, Some(&before))));
        self.tell_all(|| Message::Settings);
        self.global.wake_all();
    }

    /// Assigns no more servers, as the console's PAUSE does it; idle ones are closed, those in use when they are free.
    ///
    /// # Errors
    /// Everything is paused or suspended already, or the pooler is shutting down.
    pub fn pause(&self) -> Result<(), Refusal> {
        self.global.pause(None, "pause")?;
        self.settle();
        Ok(())
    }

    /// Takes a [`Running::pause`], or a PAUSE or SUSPEND of the console, back.
    ///
    /// # Errors
    /// There is nothing to take back.
    pub fn resume(&self) -> Result<(), Refusal> {
        self.global.resume(None)?;
        self.settle();
        Ok(())
    }

    /// What an administrator has stopped, in words, and the command that takes it back; None if everything runs.
    pub fn halted(&self) -> Option<(String, &'static str)> {
        let halts = self.global.halts();
        let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
        if halts.suspended {
            Some(("everything is suspended".to_owned(), "RESUME"))
        } else if halts.all {
            Some(("everything is paused".to_owned(), "RESUME"))
        } else if !halts.paused.is_empty() {
            Some((format!("paused: {}", list(&halts.paused)), "RESUME"))
        } else if !halts.disabled.is_empty() {
            Some((format!("disabled: {}", list(&halts.disabled)), "ENABLE"))
        } else {
            None
        }
    }

    fn settle(&self) {
        self.tell_all(|| Message::Task {
            task: Task::Settle,
            to: None,
        });
    }

    /// Whether every worker has answered since the last call; then they are asked again. A worker that hangs never does.
    pub fn beats(&mut self) -> bool {
        let all = all_answered(&self.global.pulses, self.pulse);
        if all {
            self.pulse += 1;
            for mailbox in self.global.mailboxes.get().into_iter().flatten() {
                // A full mailbox is one that nobody reads: it stays unanswered.
                drop(mailbox.send(Message::Pulse(self.pulse)));
            }
        }
        all
    }

    /// How many clients are connected.
    pub fn clients(&self) -> usize {
        let loads = self.global.loads.iter();
        loads.map(|load| load.load(Ordering::Relaxed)).sum()
    }

    /// What the console asks for; whoever started the workers carries it out.
    pub fn commands(&self) -> Receiver<Command> {
        self.commands.clone()
    }

    /// Whether all workers have ended.
    pub fn is_finished(&self) -> bool {
        self.workers.iter().all(JoinHandle::is_finished)
    }

    /// Waits until all workers have ended.
    pub fn wait(self) {
        for worker in self.workers {
            if worker.join().is_err() {
                tracing::error!("a worker ended by a panic");
            }
        }
    }

    fn tell_all(&self, message: impl Fn() -> Message) {
        for mailbox in self.global.mailboxes.get().into_iter().flatten() {
            mailbox.send_waiting(message());
        }
    }
}

/// `WEIR_DEBUG_SPIN_US`: what each transaction wastes, for benchmarks that have to notice it.
fn debug_spin() -> Duration {
    let asked = std::env::var("WEIR_DEBUG_SPIN_US").ok();
    let Some(micros) = asked.and_then(|micros| micros.parse().ok()) else {
        return Duration::ZERO;
    };
    tracing::warn!("WEIR_DEBUG_SPIN_US: every transaction wastes {micros} us of CPU time");
    Duration::from_micros(micros)
}

/// The listening sockets once more, for a successor.
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
