//! Helper threads for slow work: key derivation, TLS handshakes, name resolution, directories. Each kind has a few
//! threads and a bounded queue.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use crossbeam_channel::{Sender, bounded};

/// Number of threads for work that computes: two keep the queue short without taking the machine.
const COMPUTERS: usize = 2;
/// Number of threads for work that waits for another system.
const WAITERS: usize = 8;
/// Niceness of computing threads: logins yield to the traffic of logged-in clients (nice(2), per thread on Linux).
const NICENESS: i32 = 5;
/// Maximum number of jobs that wait.
const JOBS_MAX: usize = 4096;

/// Kind of work: computing or waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Computes,
    Waits,
}

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Helper threads of one kind; they end when this is dropped.
pub(crate) struct Offload {
    jobs: Sender<Job>,
}

/// Error: the queue of jobs is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overloaded;

impl Offload {
    /// Starts helpers for one kind of work, so that a slow resolver does not delay logins.
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
                        // Some sandboxes forbid this; the thread then keeps its priority.
                        let _ = rustix::process::nice(NICENESS);
                    }
                    for job in inbox {
                        // A panic costs only the connection the job was for; all share the thread.
                        if catch_unwind(AssertUnwindSafe(job)).is_err() {
                            tracing::error!("internal error in a helper thread; the login or look-up it worked for fails");
                        }
                    }
                })?;
        }
        Ok(Self { jobs })
    }

    /// Returns a queue without threads: a test runs the jobs.
    #[cfg(test)]
    pub(crate) fn by_hand(jobs: Sender<Job>) -> Self {
        Self { jobs }
    }

    /// Queues a job for the next free helper.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Overloaded> {
        self.jobs.try_send(Box::new(job)).map_err(|_| Overloaded)
    }
}
