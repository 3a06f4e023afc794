//! Slow work off the workers' loops: key derivation, TLS handshakes, name resolution, directories. On a few threads for
//! each kind, with a bounded queue.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use crossbeam_channel::{Sender, bounded};

/// Threads for work that computes: two keep each other's queue short without taking the machine.
const COMPUTERS: usize = 2;
/// Threads for work that waits for somebody else.
const WAITERS: usize = 8;
/// Logins compute at a lower priority than the traffic of those who are in (nice(2), by thread on Linux).
const NICENESS: i32 = 5;
/// Jobs that may wait.
const JOBS_MAX: usize = 4096;

/// What a kind of work does with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Computes,
    Waits,
}

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The helpers; they end when this is dropped.
pub(crate) struct Offload {
    jobs: Sender<Job>,
}

/// The queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overloaded;

impl Offload {
    /// Helpers for one kind of work, so that a slow resolver does not hold up logins.
    pub(crate) fn new(name: &str, kind: Kind) -> io::Result<Self> {
        let (jobs, inbox) = bounded::<Job>(JOBS_MAX);
        let threads = match kind {
            Kind::Computes => COMPUTERS,
            Kind::Waits => WAITERS,
        };
        for i in 0..threads {
            let inbox = inbox.clone();
            thread::Builder::new()
                .name(format!("weir-{name}-{i}"))
                .spawn(move || {
                    if kind == Kind::Computes {
                        // Not allowed in some sandboxes; then it computes at the same priority.
                        let _ = rustix::process::nice(NICENESS);
                    }
                    for job in inbox {
                        // A bug costs the one connection that it happened for; the thread is everybody's.
                        if catch_unwind(AssertUnwindSafe(job)).is_err() {
                            tracing::error!("a bug was hit by a helper thread");
                        }
                    }
                })?;
        }
        Ok(Self { jobs })
    }

    /// No helpers: a test runs the jobs, when it likes.
    #[cfg(test)]
    pub(crate) fn by_hand(jobs: Sender<Job>) -> Self {
        Self { jobs }
    }

    /// Runs a job on some helper.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Overloaded> {
        self.jobs.try_send(Box::new(job)).map_err(|_| Overloaded)
    }
}
