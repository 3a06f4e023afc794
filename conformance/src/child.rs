//! Child processes that cannot outlive the suite.
//!
//! Each child runs under `setpriv --pdeathsig`. The kernel sends that signal when the *thread* that made the child
//! ends; therefore one thread that lives as long as the process makes all children. Even a killed suite leaves none
//! behind.

use std::fs::File;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;

use crate::tools;
use crate::wait_until;

type Order = (Command, mpsc::SyncSender<io::Result<Child>>);

/// User whose rights a child gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// User `postgres` if the suite runs as root (PostgreSQL and PgBouncer refuse root), else the user of the suite.
    Postgres,
    /// User of the suite.
    Ourselves,
}

/// A process that is stopped when dropped.
#[derive(Debug)]
pub struct Guarded {
    child: Child,
    stop_signal: &'static str,
    name: String,
    log: PathBuf,
}

impl Guarded {
    /// Starts `command` (program first) with output and errors written to `log`.
    ///
    /// `stop_signal` (`QUIT`, `TERM`, …) ends the process when this is dropped and when the suite dies.
    ///
    /// # Errors
    /// When `setpriv` is missing or the log file cannot be opened.
    pub fn start(
        runner: Runner,
        stop_signal: &'static str,
        command: &[&str],
        env: &[(String, String)],
        log: &Path,
    ) -> Result<Self> {
        Self::start_under(&[], runner, stop_signal, command, env, log)
    }

    /// Starts like [`Guarded::start`], by the command `outer`, which must replace itself by the command in its arguments.
    ///
    /// # Errors
    /// As [`Guarded::start`].
    pub fn start_under(
        outer: &[&str],
        runner: Runner,
        stop_signal: &'static str,
        command: &[&str],
        env: &[(String, String)],
        log: &Path,
    ) -> Result<Self> {
        let name = command.first().copied().unwrap_or("nothing").to_owned();
        let output = File::create(log).with_context(|| format!("create {}", log.display()))?;
        let mut setpriv = setpriv_under(outer, runner, Some(stop_signal))?;
        setpriv.args(command).stdin(Stdio::null());
        setpriv.stdout(output.try_clone()?).stderr(output);
        setpriv.envs(env.iter().map(|(key, value)| (key, value)));
        let child = spawn(setpriv).with_context(|| format!("start {name}"))?;
        Ok(Self {
            child,
            stop_signal,
            name,
            log: log.to_owned(),
        })
    }

    /// Process id; `setpriv` replaces itself, so this is the program's own.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Output of the process so far.
    #[must_use]
    pub fn log(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Fails with the log if the process has ended.
    ///
    /// # Errors
    /// When the process has ended, or when its state cannot be read.
    pub fn check_running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(anyhow!("{} ended: {status}\n{}", self.name, self.log())),
        }
    }

    /// Sends a signal by name.
    ///
    /// # Errors
    /// When `kill` fails.
    pub fn signal(&self, signal: &str) -> Result<()> {
        tools::run(Command::new("kill").args(["-s", signal, &self.pid().to_string()]))?;
        Ok(())
    }

    /// Waits for the end of the process without a signal.
    ///
    /// # Errors
    /// When the process did not end within the limit.
    pub fn wait_exit(&mut self, limit: Duration) -> Result<ExitStatus> {
        let mut status = None;
        let child = &mut self.child;
        wait_until("the end of the process", limit, || {
            status = child.try_wait()?;
            Ok(status.is_some())
        })
        .with_context(|| format!("{}\n{}", self.name, self.log()))?;
        status.context("it has just ended")
    }

    /// Sends a signal and waits for the end; sends `SIGKILL` after `limit`.
    ///
    /// # Errors
    /// When the process did not end by itself within the limit.
    pub fn stop(&mut self, signal: &str, limit: Duration) -> Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        self.signal(signal)?;
        let child = &mut self.child;
        let ended = wait_until("the end of the process", limit, || {
            Ok(child.try_wait()?.is_some())
        });
        if ended.is_err() {
            self.child.kill()?;
            self.child.wait()?;
        }
        ended.with_context(|| format!("{} after SIG{signal}\n{}", self.name, self.log()))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let stopped = self.stop(self.stop_signal, Duration::from_secs(10));
        if thread::panicking() {
            eprintln!("--- log of {}\n{}", self.name, tools::tail(&self.log(), 60));
        } else if let Err(error) = stopped {
            eprintln!("{error:#}");
        }
    }
}

/// Command for `setpriv` with the runner's rights; the caller adds program and arguments.
///
/// # Errors
/// When `setpriv` is not installed.
pub fn setpriv(runner: Runner, death_signal: Option<&str>) -> Result<Command> {
    setpriv_under(&[], runner, death_signal)
}

fn setpriv_under(outer: &[&str], runner: Runner, death_signal: Option<&str>) -> Result<Command> {
    tools::require("setpriv", "util-linux")?;
    let mut command = match outer.split_first() {
        None => Command::new("setpriv"),
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).arg("setpriv");
            command
        }
    };
    if runner == Runner::Postgres && tools::is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    if let Some(signal) = death_signal {
        command.args(["--pdeathsig", signal]);
    }
    Ok(command)
}

/// Makes a child from the thread that lives as long as the process.
fn spawn(command: Command) -> Result<Child> {
    static SPAWNER: OnceLock<Mutex<mpsc::SyncSender<Order>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, inbox) = mpsc::sync_channel::<Order>(1);
        thread::spawn(move || {
            for (mut command, reply) in inbox {
                drop(reply.send(command.spawn()));
            }
        });
        Mutex::new(orders)
    });
    let (reply, answer) = mpsc::sync_channel(1);
    let orders = spawner
        .lock()
        .map_err(|_| anyhow!("a test panicked while starting a child"))?;
    orders.send((command, reply))?;
    drop(orders);
    Ok(answer.recv()??)
}
