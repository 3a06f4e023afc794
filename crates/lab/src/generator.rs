//! Load generators: pgbench, or the lab's own. Each runs as a separate process, so that its CPU time can be
//! measured separately.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::access::Access;
use crate::clock;
use crate::error::{Error, Result};
use crate::experiment::Work;
use crate::interrupt::Interrupt;
use crate::meter::{Groups, Meter, Window};
use crate::process::Process;
use crate::record::{Costs, Outcome};

/// Load on one target.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// Host that clients connect to.
    pub host: String,
    /// Port that clients connect to.
    pub port: u16,
    /// User that clients log in as.
    pub user: String,
    /// Password, sent if the server asks for one.
    pub password: String,
    /// Database that clients log in to.
    pub database: String,
    /// True if TLS is required; false if it is refused.
    pub tls: bool,
    /// Work of the clients.
    pub work: &'a Work,
    /// Transactions per second, for an open loop.
    pub rate: Option<f64>,
    /// Number of generator threads.
    pub threads: u32,
    /// Time of warm-up, which is not counted.
    pub warm_up: Duration,
    /// Time of measuring.
    pub measure: Duration,
    /// Seed of the generator, equal for all targets of a block.
    pub seed: u64,
    /// Directory for the generator's files, which are kept.
    pub directory: &'a Path,
}

impl Job<'_> {
    /// Returns the login settings for libpq.
    #[must_use]
    pub fn access(&self) -> Access {
        Access {
            tls: self.tls,
            password: true,
        }
    }
}

/// Result of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// Command line of the generator.
    pub command: Vec<String>,
    /// Window of the measured time.
    pub window: Window,
    /// Figures that the generator reported.
    pub outcome: Outcome,
}

/// Generator of load.
pub trait Generator: fmt::Debug {
    /// Returns the name for [`crate::record::Cell::generator`].
    fn name(&self) -> &'static str;

    /// Carries out `job` to its end, while `watch` reads the resource counters.
    ///
    /// # Errors
    /// The generator fails, cannot do this job, or a signal arrives.
    fn run(&self, job: &Job<'_>, watch: &mut Watch<'_>) -> Result<Loaded>;
}

/// Interval between looks at a generator's process.
const LOOK: Duration = Duration::from_millis(20);

/// Reads the resource counters while a generator runs, and stops waiting if a signal arrives.
#[derive(Debug)]
pub struct Watch<'a> {
    groups: Groups,
    interrupt: &'a Interrupt,
    meter: Option<Meter>,
}

impl<'a> Watch<'a> {
    /// Creates a watch; `groups` lacks the generator, which does not run yet.
    #[must_use]
    pub fn new(groups: Groups, interrupt: &'a Interrupt) -> Self {
        Self {
            groups,
            interrupt,
            meter: None,
        }
    }

    /// Waits for the end of a process that is not measured.
    ///
    /// # Errors
    /// The process takes longer than `limit` or fails, or a signal arrives.
    pub fn wait(&self, process: &mut Process, limit: Duration) -> Result<()> {
        self.attend_with(process, limit, || Ok(()))
    }

    /// Reads the resource counters until the process ends, and calls `each` at short intervals.
    ///
    /// # Errors
    /// As [`Watch::wait`]; or the counters cannot be read.
    pub fn measure(
        &mut self,
        process: &mut Process,
        limit: Duration,
        mut each: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut groups = self.groups.clone();
        groups.generator = vec![process.pid()];
        let mut meter = Meter::start(&groups)?;
        let result = self.attend_with(process, limit, || {
            meter.tick()?;
            each()
        });
        meter.look()?;
        self.meter = Some(meter);
        result
    }

    /// Returns the costs of the last measurement, in which transactions have ended as `outcome` tells.
    ///
    /// # Errors
    /// Nothing was measured in this window.
    pub fn costs(&self, window: Window, outcome: &Outcome) -> Result<Costs> {
        let meter = self.meter.as_ref().ok_or_else(|| Error::Unexpected {
            what: "the measurement".to_owned(),
            text: "nothing was measured".to_owned(),
        })?;
        Ok(meter.costs(window)?.of_work(outcome.transactions))
    }

    fn attend_with(
        &self,
        process: &mut Process,
        limit: Duration,
        mut each: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let deadline = clock::now() + limit;
        loop {
            each()?;
            if let Some(status) = process.try_wait()? {
                // The caller reports the process's output, which says more than its status.
                return if status.success() {
                    Ok(())
                } else {
                    Err(Error::Load {
                        name: process.name().to_owned(),
                        reason: format!("it failed ({status})"),
                    })
                };
            }
            if clock::now() > deadline {
                return Err(Error::TooLong {
                    name: process.name().to_owned(),
                    limit,
                });
            }
            self.interrupt.wait(LOOK)?;
        }
    }
}
