//! Weir as a drill's subject, which a drill may upgrade or kill. Clients keep their address in both cases.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use rustix::process::Pid;
use rustix::process::WaitOptions;
use rustix::process::waitpid;

use crate::Config;
use crate::Weir;
use crate::clock::now;
use crate::tools;
use crate::wait_until;
use crate::weir_bin;

/// Time limit for the end of a process.
const END_MAX: Duration = Duration::from_secs(10);

/// A running Weir; dropping it stops it.
#[derive(Debug)]
pub(super) struct Pooler {
    config: Config,
    weir: Weir,
    /// Process that an upgrade has put in the place of the first one. It is no child of this program, and writes to the
    /// log of the first.
    successor: Option<u32>,
    /// Logs of processes that were killed.
    former_logs: String,
}

impl Pooler {
    pub(super) fn start(config: Config) -> Result<Self> {
        Ok(Self {
            weir: Weir::start(&config)?,
            config,
            successor: None,
            former_logs: String::new(),
        })
    }

    pub(super) fn weir(&self) -> &Weir {
        &self.weir
    }

    /// Logs of all processes so far.
    pub(super) fn log(&self) -> String {
        format!("{}{}", self.former_logs, self.weir.log())
    }

    /// Fails if the process has ended, or any has logged a panic.
    pub(super) fn check_healthy(&mut self) -> Result<()> {
        let log = self.log();
        ensure!(!log.contains("panicked at"), "{}", tools::tail(&log, 60));
        match self.successor {
            None => self.weir.check_healthy(),
            Some(pid) => {
                ensure!(runs(pid), "process {pid} has ended");
                Ok(())
            }
        }
    }

    /// Upgrades Weir to another process of the same program, and returns when the former process has ended.
    pub(super) fn upgrade(&mut self) -> Result<()> {
        let pid = self.successor.unwrap_or_else(|| self.weir.pid());
        let mut upgrade = Command::new(weir_bin()?);
        let said = tools::run(upgrade.args(["upgrade", "--pid", &pid.to_string()]))?;
        let successor = said.split_whitespace().nth(1).context("no process")?;
        self.successor = Some(successor.parse().with_context(|| said.clone())?);
        let last = said.lines().last().unwrap_or_default();
        self.former_logs.push_str(&format!("drill: {last}\n"));
        Ok(())
    }

    /// Kills Weir with SIGKILL, starts another one at the same port, and returns the time without a Weir.
    pub(super) fn kill(&mut self) -> Result<Duration> {
        ensure!(self.successor.is_none(), "an upgraded Weir is not killed");
        let begin = now();
        self.weir.kill()?;
        self.former_logs.push_str(&self.weir.log());
        let mut next = Weir::spawn(&self.config, self.weir.port())?;
        next.wait_ready()?;
        let outage = begin.elapsed();
        self.former_logs
            .push_str(&format!("drill: no Weir for {outage:.2?}\n"));
        self.weir = next;
        Ok(outage)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let Some(pid) = self.successor else {
            return;
        };
        let mut kill = Command::new("kill");
        drop(tools::run_any(kill.args(["-s", "QUIT", &pid.to_string()])));
        // `Patroni` has made this process the parent of orphans.
        let waited = wait_until("the end of the upgraded Weir", END_MAX, || {
            if let Ok(raw) = i32::try_from(pid) {
                let _ = waitpid(Pid::from_raw(raw), WaitOptions::NOHANG);
            }
            Ok(!runs(pid))
        });
        if let Err(error) = waited {
            eprintln!("{error:#}");
        }
    }
}

/// True if a process exists and is no zombie.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.starts_with(" Z"))
}
