//! Children that we started: found by pid, stopped by pid, never outliving their owner.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal};

use crate::lab::clock;

/// A running child. Dropping it stops it with its own sequence of signals.
pub(crate) struct Process {
    name: String,
    child: Child,
    /// Sent in this order, with a wait after each; SIGKILL follows if all were ignored.
    stop_signals: Vec<Signal>,
}

const STOP_LIMIT: Duration = Duration::from_secs(5);

impl Process {
    /// Starts `command` in a process group of its own (a Ctrl-C at the terminal then reaches only
    /// us, and we stop the children in order) with its output going to `log`.
    pub(crate) fn start(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        let output =
            File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name} ({:?})", command.get_program()))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            stop_signals: vec![Signal::TERM],
        })
    }

    /// Replaces the signals tried before SIGKILL.
    pub(crate) fn stop_with(mut self, signals: &[Signal]) -> Self {
        self.stop_signals = signals.to_vec();
        self
    }

    /// Waits until `ready` holds; fails at once, with the end of the log, if the child ends first.
    pub(crate) fn await_ready(
        &mut self,
        limit: Duration,
        log: &Path,
        mut ready: impl FnMut() -> bool,
    ) -> Result<()> {
        let mut ended = None;
        let up = clock::poll_until(limit, || {
            ended = self.try_wait().ok().flatten();
            ended.is_some() || ready()
        });
        let tail = || last_lines(log, 15);
        match (ended, up) {
            (Some(status), _) => bail!("{} ended at once ({status}):\n{}", self.name, tail()),
            (None, false) => {
                bail!("{} was not ready within {limit:?}:\n{}", self.name, tail())
            }
            (None, true) => Ok(()),
        }
    }

    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended by itself a moment ago; the wait that follows finds out.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    fn ended_within(&mut self, limit: Duration) -> bool {
        clock::poll_until(limit, || !matches!(self.child.try_wait(), Ok(None)))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        for signal in self.stop_signals.clone() {
            if self.ended_within(Duration::ZERO) {
                return;
            }
            self.signal(signal);
            if self.ended_within(STOP_LIMIT) {
                return;
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The user that servers run as: PostgreSQL and PgBouncer refuse to run as root.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Account {
    /// We are not root: as ourselves.
    Ourselves,
    /// We are root: as this user.
    Other { uid: u32, gid: u32 },
}

impl Account {
    /// `postgres` when we are root, ourselves otherwise.
    pub(crate) fn for_servers() -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::Ourselves);
        }
        let passwd = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
        find_account(&passwd, "postgres")
            .ok_or_else(|| anyhow!("there is no user `postgres`; install postgresql-15 first"))
    }

    /// Makes `command` run as this user. Sets the ids directly rather than through runuser, which
    /// stays as a parent in between: the child's pid is then the server's pid.
    pub(crate) fn apply(self, command: &mut Command) {
        if let Self::Other { uid, gid } = self {
            command.uid(uid).gid(gid);
        }
    }

    /// Gives `path` to this user.
    pub(crate) fn own(self, path: &Path) -> Result<()> {
        if let Self::Other { uid, gid } = self {
            chown(path, Some(uid), Some(gid))
                .with_context(|| format!("cannot give {} away", path.display()))?;
        }
        Ok(())
    }
}

fn find_account(passwd: &str, name: &str) -> Option<Account> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() != Some(name) {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(Account::Other { uid, gid })
    })
}

/// Runs a short command to its end; its output is shown only if it fails.
pub(crate) fn run_to_end(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !output.status.success() {
        bail!(
            "{:?} failed ({}):\n{}{}",
            command.get_program(),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Allows as many open files as the system lets us, for us and for our children: 500 clients need
/// more than the usual 1024.
pub(crate) fn raise_open_files() -> Result<()> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    rustix::process::setrlimit(Resource::Nofile, raised)
        .context("cannot raise the limit of open files")
}

/// Where `name` is: in one of `first`, else on the path, else in the system directories that an
/// ordinary user's path leaves out.
pub(crate) fn find_program(name: &str, first: &[PathBuf]) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let system = [PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")];
    first
        .iter()
        .chain(&on_path)
        .chain(&system)
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| anyhow!("`{name}` is not installed"))
}

fn last_lines(log: &Path, count: usize) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let skipped = lines.len().saturating_sub(count);
    lines
        .into_iter()
        .skip(skipped)
        .map(|line| format!("  | {line}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_ids_of_a_user() {
        let passwd = "root:x:0:0:root:/:/bin/sh\npostgres:x:101:104:PostgreSQL:/var/lib:/bin/sh\n";
        let expected = Account::Other { uid: 101, gid: 104 };
        assert_eq!(find_account(passwd, "postgres"), Some(expected));
        assert_eq!(find_account(passwd, "post"), None);
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let process = Process::start("sleep", Command::new("sleep").arg("600"), &log).unwrap();
        let entry = PathBuf::from(format!("/proc/{}", process.pid()));
        assert!(entry.exists());
        drop(process);
        assert!(!entry.exists());
    }

    #[test]
    fn a_process_that_ends_early_is_reported_with_its_words() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such database; exit 3"]);
        let mut process = Process::start("server", &mut command, &log).unwrap();
        let limit = Duration::from_secs(10);
        let error = process
            .await_ready(limit, &log, || false)
            .unwrap_err()
            .to_string();
        assert!(error.contains("no such database"), "{error}");
    }
}
