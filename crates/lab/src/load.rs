//! The lab's load generator, for loads that pgbench cannot express: open loop with times counted from the intended
//! start, whole histograms, logins, pipelines, COPY, and idle connections.
//!
//! [`run`] carries out a [`Plan`] and returns an [`Outcome`]; [`process::serve`] does so in a process of its own.
//! Each thread has an event loop (epoll) over its share of the clients, and no thread waits for another while it
//! measures. Results are merged at the end.
//!
//! **Rules.** If all clients are busy when a transaction should begin, it runs later, and its time counts from the
//! intended start. Failures are counted by SQLSTATE and never end the run. The measured time lies between two
//! instants, which are the same for all threads. A client's choices depend only on the seed and on its number.

mod client;
mod clock;
mod control;
mod conversation;
mod failure;
mod latencies;
pub mod plan;
pub mod process;
mod scanner;
mod schedule;
mod tally;
mod target;
mod timer;
pub(crate) mod transport;
mod work;
mod worker;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use mio::Waker;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::load::control::{Control, Gauges};
use crate::load::plan::{Plan, PlanError};
use crate::load::tally::{Tally, Window};
use crate::load::target::Target;
use crate::load::work::Work;
use crate::load::worker::{Parts, Worker};
use crate::record::Outcome;

/// Interval between progress reports.
const TICK: Duration = Duration::from_millis(100);

/// Interval between checks whether all clients are logged in.
const CONNECT_TICK: Duration = Duration::from_millis(5);

/// Allowance for open files other than connections.
const FILES_BESIDES: u64 = 256;

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Current phase.
    pub phase: Phase,
    /// Number of clients that are logged in.
    pub connected: u32,
    /// Transactions so far, those of the warm-up and those that failed included.
    pub transactions: u64,
    /// Failures so far, including those of the warm-up.
    pub errors: u64,
    /// Maximum number of seconds to the end of the phase.
    pub remaining_s: f64,
}

/// Phases of a run, in order. A change is reported at once, so that CPU time can be read at the edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Clients log in.
    Connecting,
    /// Transactions that end in this phase are not counted.
    WarmUp,
    /// Transactions that end in this phase are counted.
    Measuring,
    /// Transactions that have begun may end.
    Draining,
}

/// Reason why a load has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The plan cannot be carried out.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The address cannot be looked up.
    #[error("cannot look up \"{address}\": {error}")]
    Address {
        /// Address as the plan has it.
        address: String,
        /// Reason.
        error: io::Error,
    },
    /// The address resolves to nothing.
    #[error("\"{0}\" is no address; write host:port")]
    NoAddress(String),
    /// The CA's file is unusable.
    #[error(transparent)]
    Tls(#[from] weir_tls::error::Error),
    /// The limit on open files is too low for the number of clients.
    #[error(
        "{clients} clients need more than the {limit} open files that are allowed; raise ulimit -n"
    )]
    OpenFiles {
        /// Number of clients in the plan.
        clients: u32,
        /// The hard limit.
        limit: u64,
    },
    /// No client could log in.
    #[error("no client could log in: {0}")]
    NobodyConnected(String),
    /// The text is not a valid plan.
    #[error("the plan cannot be read: {0}")]
    Json(serde_json::Error),
    /// The system refused something.
    #[error("load generator: {0}")]
    Io(io::Error),
}

/// Carries out a plan: logs in, warms up, measures. Blocks. Calls `progress` from this thread about ten times a
/// second and at once when the phase changes. When `stop` becomes true, the result is what was measured by then.
///
/// The process's soft limit on open files is raised if need be.
///
/// # Errors
/// The plan is wrong, the system refuses something, or no client can log in within [`Plan::connect_s`] (or all have
/// failed three times).
pub fn run(
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, LoadError> {
    run_to_tally(plan, stop, progress).map(|(tally, end)| tally.outcome(end))
}

fn run_to_tally(
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(Tally, Instant), LoadError> {
    plan.check()?;
    allow_files(plan.clients)?;
    let target = Target::new(plan)?;
    let work = Work::new(plan);
    let control = Control::default();
    let parts = Parts {
        plan,
        work: &work,
        target: &target,
        control: &control,
    };
    let mut workers = Vec::new();
    let mut wakers = Vec::new();
    let mut gauges = Vec::new();
    for number in 0..plan.thread_count() {
        let (worker, waker) = Worker::new(parts, number).map_err(LoadError::Io)?;
        workers.push(worker);
        wakers.push(waker);
        gauges.push(Gauges::default());
    }
    let (done, finished) = bounded(workers.len());
    thread::scope(|scope| {
        for (worker, gauges) in workers.into_iter().zip(&gauges) {
            let done = done.clone();
            scope.spawn(move || {
                // The receiver exists until all threads have answered.
                let _ = done.send(worker.run(gauges));
            });
        }
        drop(done);
        let keeper = Keeper {
            plan,
            control: &control,
            wakers: &wakers,
            gauges: &gauges,
            finished,
            stop,
            tallies: Vec::new(),
        };
        keeper.keep(progress)
    })
}

/// Coordinator: the thread that waits for the others.
struct Keeper<'a> {
    plan: &'a Plan,
    control: &'a Control,
    wakers: &'a [Waker],
    gauges: &'a [Gauges],
    finished: Receiver<io::Result<Tally>>,
    stop: &'a AtomicBool,
    tallies: Vec<Tally>,
}

impl Keeper<'_> {
    fn keep(mut self, progress: &mut dyn FnMut(&Progress)) -> Result<(Tally, Instant), LoadError> {
        let result = self.all(progress);
        // All threads must end in any case: the scope waits for them.
        self.end();
        let end = clock::now();
        while self.tallies.len() < self.wakers.len() && self.wait(TICK)? {}
        result?;
        let mut all = Tally::new(worker::is_open(self.plan.pace));
        self.tallies.drain(..).for_each(|tally| all.merge(tally));
        if self.control.window().is_none() && !self.is_stopped() {
            return Err(LoadError::NobodyConnected(
                all.first_failure()
                    .unwrap_or_else(|| "the target does not answer".to_owned()),
            ));
        }
        // A run with a fixed number of transactions ends with the last of them.
        let end = match self.plan.transactions_per_client {
            Some(_) => all.last().map_or(end, |last| last.min(end)),
            None => end,
        };
        Ok((all, end))
    }

    fn all(&mut self, progress: &mut dyn FnMut(&Progress)) -> Result<(), LoadError> {
        if !self.connect(progress)? {
            return Ok(());
        }
        let start = clock::now();
        let warm_up_s = match self.plan.transactions_per_client {
            Some(_) => 0.0,
            None => self.plan.warm_up_s,
        };
        let from = start + Duration::from_secs_f64(warm_up_s);
        let until = from + Duration::from_secs_f64(self.plan.measure_s);
        self.control.start(Window { start, from, until });
        self.wake();
        let drained = until + Duration::from_secs_f64(self.plan.drain_s);
        let phases = [
            (Phase::WarmUp, from),
            (Phase::Measuring, until),
            // Threads end by themselves.
            (Phase::Draining, drained + TICK),
        ];
        for (phase, end) in phases {
            while !self.is_stopped() && self.tallies.len() < self.wakers.len() {
                let now = clock::now();
                if now >= end {
                    break;
                }
                progress(&self.progress(phase, end));
                if !self.wait(TICK.min(end.saturating_duration_since(now)))? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Waits for the logins. Returns false if the run cannot go on.
    fn connect(&mut self, progress: &mut dyn FnMut(&Progress)) -> Result<bool, LoadError> {
        if self.plan.reconnect {
            return Ok(true);
        }
        let end = clock::now() + Duration::from_secs_f64(self.plan.connect_s);
        let mut told = None;
        loop {
            let now = clock::now();
            let state = self.progress(Phase::Connecting, end);
            if told.is_none_or(|told| now >= told + TICK) {
                progress(&state);
                told = Some(now);
            }
            if state.connected == self.plan.clients {
                return Ok(true);
            }
            let tries = state.errors / u64::from(self.plan.clients);
            let is_hopeless = state.connected == 0 && tries >= 3;
            if self.is_stopped() || is_hopeless || now >= end {
                return Ok(state.connected > 0 && !self.is_stopped());
            }
            self.wait(CONNECT_TICK)?;
        }
    }

    /// Waits for one thread to end, or for the time to pass. Returns false if no thread is left.
    fn wait(&mut self, time: Duration) -> Result<bool, LoadError> {
        match self.finished.recv_timeout(time) {
            Ok(tally) => {
                // A thread's error ends the whole run.
                self.tallies.push(tally.map_err(LoadError::Io)?);
                Ok(true)
            }
            Err(RecvTimeoutError::Timeout) => Ok(true),
            Err(RecvTimeoutError::Disconnected) => Ok(false),
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn end(&self) {
        self.control.stop();
        self.wake();
    }

    fn wake(&self) {
        for waker in self.wakers {
            // Waking a thread that has ended fails; nothing is lost.
            let _ = waker.wake();
        }
    }

    fn progress(&self, phase: Phase, end: Instant) -> Progress {
        let mut sum = Progress {
            phase,
            connected: 0,
            transactions: 0,
            errors: 0,
            remaining_s: end.saturating_duration_since(clock::now()).as_secs_f64(),
        };
        for gauges in self.gauges {
            let (connected, transactions, errors) = gauges.read();
            sum.connected += connected;
            sum.transactions += transactions;
            sum.errors += errors;
        }
        sum
    }
}

/// Raises the soft limit of open files if need be.
fn allow_files(clients: u32) -> Result<(), LoadError> {
    let needed = u64::from(clients) + FILES_BESIDES;
    let limit = getrlimit(Resource::Nofile);
    // `None` means no limit.
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(limit) = limit.maximum.filter(|maximum| *maximum < needed) {
        return Err(LoadError::OpenFiles { clients, limit });
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|error| LoadError::Io(error.into()))
}

#[cfg(test)]
mod tests;
