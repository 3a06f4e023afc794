//! Running target: its files written, its processes started, and a real login and query answered.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::Signal as SystemSignal;
use tempfile::TempDir;

use super::site::{INNER_PORTS, Values};
use super::{Found, Instance, Process as Description, Signal, Site};
use crate::access::Access;
use crate::clock;
use crate::error::Error;
use crate::ports::free_port;
use crate::postgres::{Programs, answers, private_directory};
use crate::process::{Account, Process, last_lines, run_to_end};
use crate::template;

/// Number of lines of each log, and of psql, in the report of a target that is not ready.
const LINES: usize = 15;
/// Time limit of libpq for a single login, in seconds.
const LOGIN_SECONDS: &str = "5";

/// Reason why a target does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A file or a process failed.
    #[error(transparent)]
    System(#[from] Error),
    /// A template cannot be filled in.
    #[error(transparent)]
    Template(#[from] template::Error),
    /// A program was not looked for.
    #[error("`{0}` was not found")]
    Program(String),
    /// The target does not get ready.
    #[error(transparent)]
    NotReady(#[from] NotReady),
}

/// Report of a target that does not get ready, with its own words.
#[derive(Debug, thiserror::Error)]
#[error("{target} did not start: {obstacle}{}{}", quoted_login(login.as_deref()), logs.iter().map(Log::quoted).collect::<String>())]
pub struct NotReady {
    /// Name of the target.
    pub(super) target: String,
    /// First thing that went wrong.
    pub(super) obstacle: Obstacle,
    /// Words of psql at the last login, if one was tried.
    pub(super) login: Option<String>,
    /// Ends of the logs of all processes.
    pub(super) logs: Vec<Log>,
}

/// Reason why a target is not ready.
#[derive(Debug)]
#[non_exhaustive]
pub enum Obstacle {
    /// A process did not listen on its port in time.
    DoesNotListen {
        /// Name of the program in the description.
        program: String,
        /// Time that was waited.
        within: Duration,
    },
    /// A process ended.
    Ended {
        /// Name of the program in the description.
        program: String,
        /// Exit status of the process.
        status: ExitStatus,
    },
    /// No login and query succeeded within this time.
    NoLogin {
        /// Time that was waited.
        within: Duration,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DoesNotListen { program, within } => {
                write!(formatter, "{program} did not listen within {within:?}")
            }
            Self::Ended { program, status } => write!(formatter, "{program} ended ({status})"),
            Self::NoLogin { within } => {
                write!(formatter, "no login and query succeeded within {within:?}")
            }
        }
    }
}

/// End of a process's log.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) name: String,
    /// Last lines, marked as a quotation; empty if the process wrote nothing.
    pub(super) lines: String,
}

impl Log {
    fn quoted(&self) -> String {
        let Self { name, lines } = self;
        if lines.is_empty() {
            format!("\n{name} is empty.")
        } else {
            format!("\n{name} ends with:\n{}", lines.trim_end())
        }
    }
}

fn quoted_login(words: Option<&str>) -> String {
    let Some(words) = words else {
        return String::new();
    };
    let lines: Vec<&str> = words.lines().collect();
    let skipped = lines.len().saturating_sub(LINES);
    let quoted = lines
        .iter()
        .skip(skipped)
        .map(|line| format!("\n  | {line}"));
    format!(
        "\nThe last login by psql said:{}",
        quoted.collect::<String>()
    )
}

/// Running target. Dropping it stops its processes in reverse order.
#[derive(Debug)]
pub struct Deployment {
    processes: Vec<Process>,
    directory: Option<TempDir>,
    /// Address that clients connect to.
    pub address: SocketAddr,
}

impl Deployment {
    /// Returns a target without processes: clients connect to the server itself.
    #[must_use]
    pub fn direct(address: SocketAddr) -> Self {
        Self {
            processes: Vec::new(),
            directory: None,
            address,
        }
    }

    /// Writes the files, starts the processes one after the other, and logs in. If that fails, the files and whole
    /// logs are copied to the directory `kept`.
    ///
    /// # Errors
    /// A process ends or does not answer; the error has the end of its log, and psql's words.
    pub fn start(
        instance: &Instance,
        found: &Found,
        site: &Site,
        programs: &Programs,
        kept: &Path,
    ) -> Result<Self, StartError> {
        let processes = &instance.definition.process;
        let account = if processes.iter().any(|process| process.unprivileged) {
            Account::for_servers()?
        } else {
            Account::Ourselves
        };
        let directory = private_directory(account)?;
        let port = free_port()?;
        let inner = (0..INNER_PORTS)
            .map(|_| free_port())
            .collect::<Result<Vec<u16>, _>>()?;
        let values = site.values(instance, &found.version, directory.path(), port, &inner);
        for file in &instance.definition.file {
            let path = directory.path().join(&file.path);
            let text = template::render(&file.path, &file.text, &values)?;
            fs::write(&path, text).map_err(Error::file("write", &path))?;
            account.own(&path)?;
        }
        let mut deployment = Self {
            processes: Vec::new(),
            directory: Some(directory),
            address: SocketAddr::from(([127, 0, 0, 1], port)),
        };
        match deployment.get_ready(instance, found, site, programs, &values) {
            Ok(()) => Ok(deployment),
            Err(error) => {
                // The reason matters more than a disk on which its files do not fit.
                let _ = deployment.keep(kept);
                Err(error)
            }
        }
    }

    fn get_ready(
        &mut self,
        instance: &Instance,
        found: &Found,
        site: &Site,
        programs: &Programs,
        values: &Values,
    ) -> Result<(), StartError> {
        for process in &instance.definition.process {
            self.launch(instance, process, found, site, values)?;
        }
        self.log_in(instance, site, programs)
    }

    /// Returns the process ids of the started processes, whose descendants belong to the target too.
    pub fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(Process::pid).collect()
    }

    /// True if all processes still run.
    pub fn is_alive(&mut self) -> bool {
        self.processes
            .iter_mut()
            .all(|process| matches!(process.try_wait(), Ok(None)))
    }

    /// Copies configurations and logs to the directory `to`, which is created.
    ///
    /// # Errors
    /// The system refuses.
    pub fn keep(&self, to: &Path) -> Result<(), Error> {
        fs::create_dir_all(to).map_err(Error::file("create", to))?;
        let Some(directory) = &self.directory else {
            return Ok(());
        };
        let failed = || Error::file("read", directory.path());
        for entry in fs::read_dir(directory.path()).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            let empty = entry.metadata().is_ok_and(|data| data.len() == 0);
            if is_file && !empty {
                let copy = to.join(entry.file_name());
                fs::copy(entry.path(), &copy).map_err(Error::file("write", &copy))?;
            }
        }
        Ok(())
    }

    fn launch(
        &mut self,
        instance: &Instance,
        description: &Description,
        found: &Found,
        site: &Site,
        values: &Values,
    ) -> Result<(), StartError> {
        let key = &description.program;
        let program = found
            .programs
            .get(key)
            .ok_or_else(|| StartError::Program(key.clone()))?;
        let count = template::render("count", &description.count, values)?;
        let port = template::render("port", &description.port, values)?;
        let address: Option<SocketAddr> = format!("127.0.0.1:{port}").parse().ok();
        let directory = self
            .directory
            .as_ref()
            .map_or_else(|| Path::new("/"), |found| found.path());
        for index in 0..count.trim().parse().unwrap_or(1) {
            let mut command = pinned(program, site.cpus.as_deref());
            command.current_dir(directory);
            for argument in &description.arguments {
                command.arg(template::render("arguments", argument, values)?);
            }
            for (name, value) in &description.environment {
                command.env(name, template::render("environment", value, values)?);
            }
            if description.unprivileged {
                Account::for_servers()?.apply(&mut command);
            }
            let log = directory.join(format!("{key}-{index}.log"));
            let signals: Vec<SystemSignal> = description
                .stop
                .iter()
                .map(|signal| signal.system())
                .collect();
            let mut process = Process::start(key, &mut command, &log)?.stop_with(&signals);
            let within = instance.ready_within();
            let ready = process.await_ready(within, &log, || address.is_none_or(answers));
            ready.map_err(|error| self.unready(instance, key, error))?;
            self.processes.push(process);
        }
        Ok(())
    }

    /// Converts the failure of a process to get ready.
    fn unready(&self, instance: &Instance, program: &str, error: Error) -> StartError {
        let program = program.to_owned();
        let obstacle = match error {
            Error::Ended { status, .. } => Obstacle::Ended { program, status },
            Error::NotReady { limit, .. } => Obstacle::DoesNotListen {
                program,
                within: limit,
            },
            other => return StartError::System(other),
        };
        StartError::NotReady(self.report(instance, obstacle, None))
    }

    fn report(&self, instance: &Instance, obstacle: Obstacle, login: Option<String>) -> NotReady {
        NotReady {
            target: instance.name.clone(),
            obstacle,
            login,
            logs: self.logs(),
        }
    }

    /// Waits until a login and a query succeed. An accepted connection is not enough: poolers accept before they
    /// know whether their server is there.
    fn log_in(
        &mut self,
        instance: &Instance,
        site: &Site,
        programs: &Programs,
    ) -> Result<(), StartError> {
        let psql = programs.path("psql")?;
        let access = Access {
            tls: site.client_tls,
            password: true,
        };
        let mut words = None;
        let up = clock::poll_until(instance.ready_within(), || {
            let mut command = Command::new(&psql);
            command.args(["-X", "-q", "-A", "-t", "-h", "127.0.0.1", "-w"]);
            command.args(["-p", &self.address.port().to_string(), "-U", &site.user]);
            command.args(["-c", "SELECT 42", &site.database]);
            access.apply(&mut command);
            command.env("PGPASSWORD", &site.password);
            command.env("PGCONNECT_TIMEOUT", LOGIN_SECONDS);
            match run_to_end(&mut command) {
                Ok(text) if text.trim() == "42" || !site.answers => true,
                Ok(text) => {
                    words = Some(format!("SELECT 42 gave {:?}", text.trim()));
                    !self.is_alive()
                }
                Err(error) => {
                    words = Some(match error {
                        Error::Failed { output, .. } if !output.trim().is_empty() => output,
                        other => other.to_string(),
                    });
                    !self.is_alive()
                }
            }
        });
        let obstacle = match self.ended() {
            Some((program, status)) => Obstacle::Ended { program, status },
            None if up => return Ok(()),
            None => Obstacle::NoLogin {
                within: instance.ready_within(),
            },
        };
        Err(self.report(instance, obstacle, words).into())
    }

    /// Returns the name and the exit status of the first process that has ended.
    fn ended(&mut self) -> Option<(String, ExitStatus)> {
        self.processes.iter_mut().find_map(|process| {
            let status = process.try_wait().ok().flatten()?;
            Some((process.name().to_owned(), status))
        })
    }

    fn logs(&self) -> Vec<Log> {
        let Some(directory) = &self.directory else {
            return Vec::new();
        };
        let entries = fs::read_dir(directory.path()).into_iter().flatten();
        let mut paths: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        paths.sort_unstable();
        let log = |path: &PathBuf| Log {
            name: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            lines: last_lines(path, LINES),
        };
        paths.iter().map(log).collect()
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        // Processes nearest to the clients stop first, so that none reports a lost server.
        while let Some(process) = self.processes.pop() {
            process.stop();
        }
    }
}

/// Returns the command, pinned to `cpus` by taskset. taskset replaces itself by the program, so the pid stays the
/// same.
fn pinned(program: &Path, cpus: Option<&str>) -> Command {
    match cpus {
        None => Command::new(program),
        Some(cpus) => {
            let mut command = Command::new("taskset");
            command.args(["-c", cpus]).arg(program);
            command
        }
    }
}

impl Signal {
    const fn system(self) -> SystemSignal {
        match self {
            Self::Int => SystemSignal::INT,
            Self::Quit => SystemSignal::QUIT,
            Self::Term => SystemSignal::TERM,
        }
    }
}
