//! Child processes of the lab: identified and stopped by pid; none outlives its owner.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal};

use crate::clock;
use crate::error::{Error, Result};

/// Running child in a process group of its own. Dropping it sends its stop signals in order, then kills what is
/// left of the group.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    /// Signals sent in this order, with a wait after each. SIGKILL follows if the process ignores all.
    stop_signals: Vec<Signal>,
}

/// Variable with directories in which programs are looked for before `PATH`. No child gets it: Weir refuses variables
/// of its own prefix that it does not know.
pub const BIN_DIRECTORIES: &str = "WEIR_BENCH_BIN_DIR";

const STOP_LIMIT: Duration = Duration::from_secs(5);

impl Process {
    /// Starts `command` in a process group of its own, with its output going to `log`. A Ctrl-C at the terminal
    /// then reaches only the lab, which stops its children in order.
    ///
    /// # Errors
    /// The log cannot be written, or the program cannot be started.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        Self::start_with_input(name, command, Stdio::null(), log)
    }

    /// As [`Process::start`], with standard input.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn start_with_input(
        name: &str,
        command: &mut Command,
        input: impl Into<Stdio>,
        log: &Path,
    ) -> Result<Self> {
        let output = File::create(log).map_err(Error::file("write", log))?;
        let errors = output.try_clone().map_err(Error::file("write", log))?;
        let child = command
            .env_remove(BIN_DIRECTORIES)
            .stdin(input)
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(start(command))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            stop_signals: vec![Signal::TERM],
        })
    }

    /// Replaces the signals that are sent before SIGKILL.
    #[must_use]
    pub fn stop_with(mut self, signals: &[Signal]) -> Self {
        self.stop_signals = signals.to_vec();
        self
    }

    /// Waits until `ready` returns true; calls it repeatedly.
    ///
    /// # Errors
    /// The child ends first, or `limit` has passed; the error has the end of the log.
    pub fn await_ready(
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
        let name = self.name.clone();
        match (ended, up) {
            (Some(status), _) => Err(Error::Ended {
                name,
                status,
                log: last_lines(log, 15),
            }),
            (None, false) => Err(Error::NotReady {
                name,
                limit,
                reason: None,
                log: last_lines(log, 15),
            }),
            (None, true) => Ok(()),
        }
    }

    /// Writes a line to the process's standard input, which stays open until it is stopped.
    ///
    /// # Errors
    /// The process does not read its input.
    pub fn say(&mut self, line: &str) -> Result<()> {
        let input = self.child.stdin.as_mut();
        let written = input.map_or(Ok(()), |input| writeln!(input, "{line}"));
        written.map_err(|source| Error::Load {
            name: self.name.clone(),
            reason: format!("it does not listen: {source}"),
        })
    }

    /// Returns the exit status if the process has ended.
    ///
    /// # Errors
    /// The system refuses.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(Error::system("wait"))
    }

    /// Waits for the end of the process, without a limit.
    ///
    /// # Errors
    /// The system refuses.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        self.child.wait().map_err(Error::system("wait"))
    }

    /// Stops the process, as dropping does.
    pub fn stop(self) {
        drop(self);
    }

    /// Returns the name that was given at the start.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the process id, which is also that of its group.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // The process may have just ended by itself; the wait that follows finds out.
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
                break;
            }
            self.signal(signal);
            if self.ended_within(STOP_LIMIT) {
                break;
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Workers may outlive a pooler's master that stopped early. The group's id cannot be reused as long as a
        // member is left.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

fn start(command: &Command) -> impl FnOnce(io::Error) -> Error {
    let program = command.get_program().to_string_lossy().into_owned();
    move |source| Error::Start { program, source }
}

const SERVER_USER: &str = "postgres";

/// The user that servers run as: PostgreSQL and PgBouncer refuse to run as root.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Account {
    /// The current user, if it is not root.
    Ourselves,
    /// Another user, if the lab runs as root.
    Other {
        /// User id.
        uid: u32,
        /// Primary group id.
        gid: u32,
    },
}

impl Account {
    /// Returns `postgres` if the lab runs as root, else the current user.
    ///
    /// # Errors
    /// The user does not exist.
    pub fn for_servers() -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::Ourselves);
        }
        let path = Path::new("/etc/passwd");
        let passwd = fs::read_to_string(path).map_err(Error::file("read", path))?;
        find_account(&passwd, SERVER_USER).ok_or(Error::NoAccount(SERVER_USER))
    }

    /// Makes `command` run as this user. Sets the ids directly: runuser would stay in between as a parent, and the
    /// child's pid would not be the server's.
    pub fn apply(self, command: &mut Command) {
        if let Self::Other { uid, gid } = self {
            command.uid(uid).gid(gid);
        }
    }

    /// Makes this user the owner of `path`.
    ///
    /// # Errors
    /// The system refuses.
    pub fn own(self, path: &Path) -> Result<()> {
        if let Self::Other { uid, gid } = self {
            chown(path, Some(uid), Some(gid)).map_err(Error::file("give away", path))?;
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

/// Runs a short command to its end and returns its standard output.
///
/// # Errors
/// The command cannot be started, or fails; the error then has all its output.
pub fn run_to_end(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(start(command))?;
    if !output.status.success() {
        return Err(Error::Failed {
            program: command.get_program().to_string_lossy().into_owned(),
            status: output.status,
            output: format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr),
            ),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Raises the soft limit on open files to the hard one, for the lab and its children: 500 clients need more than
/// the usual 1024.
///
/// # Errors
/// The system refuses.
pub fn raise_open_files() -> Result<()> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    rustix::process::setrlimit(Resource::Nofile, raised)
        .map_err(io::Error::from)
        .map_err(Error::system("raise the limit of open files"))
}

/// Finds the program `name` in one of `first`, else in `PATH`, else in the system directories that an ordinary
/// user's path leaves out.
///
/// # Errors
/// The program is not found.
pub fn find_program(name: &str, first: &[PathBuf]) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let system = [PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")];
    first
        .iter()
        .chain(&on_path)
        .chain(&system)
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| Error::Missing {
            name: name.to_owned(),
            hint: None,
        })
}

/// Returns the last `count` lines of a log, marked as a quotation; empty if it cannot be read.
pub(crate) fn last_lines(log: &Path, count: usize) -> String {
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
