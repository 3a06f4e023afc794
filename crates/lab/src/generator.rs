//! What makes the load: pgbench, or the lab's own generator. Either runs as a process of its own, so that its CPU time
//! can be told from everybody else's.

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

/// One load on one target.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// Where clients connect.
    pub host: String,
    /// See above.
    pub port: u16,
    /// As whom they log in, with a password if one is asked for.
    pub user: String,
    /// See above.
    pub password: String,
    /// To which database.
    pub database: String,
    /// TLS is required; otherwise it is refused.
    pub tls: bool,
    /// What they do.
    pub work: &'a Work,
    /// Transactions per second, if they come at given times.
    pub rate: Option<f64>,
    /// Of the generator.
    pub threads: u32,
    /// Not counted.
    pub warm_up: Duration,
    /// Counted.
    pub measure: Duration,
    /// The same for all targets of a block.
    pub seed: u64,
    /// Where it may write; what it leaves there is kept.
    pub directory: &'a Path,
}

impl Job<'_> {
    /// How libpq is told to log in.
    #[must_use]
    pub fn access(&self) -> Access {
        Access {
            tls: self.tls,
            password: true,
        }
    }
}

/// What a load showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// Its command line.
    pub command: Vec<String>,
    /// When it was measured.
    pub window: Window,
    /// What the generator saw.
    pub outcome: Outcome,
}

/// Makes a load.
pub trait Generator: fmt::Debug {
    /// What [`crate::record::Cell::generator`] says.
    fn name(&self) -> &'static str;

    /// Carries out `job` to its end; `watch` reads the books meanwhile.
    ///
    /// # Errors
    /// The generator fails, or is of no use for this job; or an interrupt.
    fn run(&self, job: &Job<'_>, watch: &mut Watch<'_>) -> Result<Loaded>;
}

/// How often a generator's process is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Reads the books while a generator runs, and stops it if a signal comes.
#[derive(Debug)]
pub struct Watch<'a> {
    groups: Groups,
    interrupt: &'a Interrupt,
    meter: Option<Meter>,
}

impl<'a> Watch<'a> {
    /// `groups` without the generator, which is not there yet.
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
    /// It takes longer than `limit`, fails, or a signal comes.
    pub fn wait(&self, process: &mut Process, limit: Duration) -> Result<()> {
        self.attend_with(process, limit, || Ok(()))
    }

    /// Reads the books until the process ends; `each` is called often.
    ///
    /// # Errors
    /// As [`Watch::wait`]; or the books cannot be read.
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

    /// What the last measurement cost.
    ///
    /// # Errors
    /// Nothing was measured in this window.
    pub fn costs(&self, window: Window) -> Result<Costs> {
        let meter = self.meter.as_ref().ok_or_else(|| Error::Unexpected {
            what: "the measurement".to_owned(),
            text: "nothing was measured".to_owned(),
        })?;
        meter.costs(window)
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
                // What it wrote says more than its status.
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
