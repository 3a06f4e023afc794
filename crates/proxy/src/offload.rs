//! Slow work off the workers' loops: key derivation and name resolution, on a few threads with a bounded queue.

use std::io;
use std::thread;

use crossbeam_channel::{Sender, bounded};

/// Threads per kind of work. PBKDF2 is pure computing, and resolvers wait: two of each.
const THREADS: usize = 2;
/// Jobs that may wait.
const JOBS_MAX: usize = 4096;

type Job = Box<dyn FnOnce() + Send>;

/// The helpers; they end when this is dropped.
pub(crate) struct Offload {
    jobs: Sender<Job>,
}

/// The queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overloaded;

impl Offload {
    /// Helpers for one kind of work, so that a slow resolver does not hold up logins.
    pub(crate) fn new(kind: &str) -> io::Result<Self> {
        let (jobs, inbox) = bounded::<Job>(JOBS_MAX);
        for i in 0..THREADS {
            let inbox = inbox.clone();
            thread::Builder::new()
                .name(format!("weir-{kind}-{i}"))
                .spawn(move || {
                    for job in inbox {
                        job();
                    }
                })?;
        }
        Ok(Self { jobs })
    }

    /// Runs a job on some helper.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Overloaded> {
        self.jobs.try_send(Box::new(job)).map_err(|_| Overloaded)
    }
}
