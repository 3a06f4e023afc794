//! Running target: its files written, its processes started, and a real login and query answered.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
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

const START_LIMIT: Duration = Duration::from_secs(30);
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

    /// Writes the files, starts the processes one after the other, and logs in.
    ///
    /// # Errors
    /// A process ends or does not answer; the error has the end of its log.
    pub fn start(
        instance: &Instance,
        found: &Found,
        site: &Site,
        programs: &Programs,
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
        for process in processes {
            deployment.launch(process, found, site, &values)?;
        }
        deployment.log_in(instance, site, programs)?;
        Ok(deployment)
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
            process.await_ready(START_LIMIT, &log, || address.is_none_or(answers))?;
            self.processes.push(process);
        }
        Ok(())
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
        let mut reason = None;
        let up = clock::poll_until(START_LIMIT, || {
            let mut command = Command::new(&psql);
            command.args(["-X", "-q", "-A", "-t", "-h", "127.0.0.1", "-w"]);
            command.args(["-p", &self.address.port().to_string(), "-U", &site.user]);
            command.args(["-c", "SELECT 42", &site.database]);
            access.apply(&mut command);
            command.env("PGPASSWORD", &site.password);
            command.env("PGCONNECT_TIMEOUT", LOGIN_SECONDS);
            match run_to_end(&mut command) {
                Ok(text) => text.trim() == "42" || !site.answers,
                Err(error) => {
                    reason = Some(error.to_string());
                    !self.is_alive()
                }
            }
        });
        if up && self.is_alive() {
            return Ok(());
        }
        Err(StartError::System(Error::NotReady {
            name: instance.name.clone(),
            limit: START_LIMIT,
            reason,
            log: self.logs(),
        }))
    }

    fn logs(&self) -> String {
        let Some(directory) = &self.directory else {
            return String::new();
        };
        let entries = fs::read_dir(directory.path()).into_iter().flatten();
        let mut paths: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        paths.sort_unstable();
        paths.iter().map(|path| last_lines(path, 10)).collect()
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
