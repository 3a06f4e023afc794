//! A storm of logins: pgbench that connects anew for every transaction, and whose transaction
//! sends nothing. What is left is connecting, TLS, authentication and leaving.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use weir_lab::access::Access;
use weir_lab::clock;
use weir_lab::interrupt::Interrupt;
use weir_lab::postgres::{DATABASE, USER};
use weir_lab::process::Process;

use super::complaints;

/// Only pgbench itself sees this.
const NOTHING: &str = "\\set nothing 1\n";
/// For a whole storm.
const LIMIT: Duration = Duration::from_secs(300);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// How many come, and how often.
#[derive(Clone, Debug)]
pub(crate) struct Storm {
    /// At once, each with a thread: pgbench waits for a login inside its thread.
    pub(crate) connectors: u32,
    pub(crate) logins_each: u32,
    /// Niceness of the connectors' process, for it shares the machine with what is measured.
    pub(crate) nice: u8,
    /// Pins the connectors to these CPUs (taskset's list syntax).
    pub(crate) cpus: Option<String>,
    pub(crate) access: Access,
}

/// When a storm was; times since the epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) begin: Duration,
    pub(crate) end: Duration,
}

impl Weather {
    pub(crate) fn seconds(&self) -> f64 {
        (self.end - self.begin).as_secs_f64()
    }
}

impl Storm {
    pub(crate) fn logins(&self) -> u32 {
        self.connectors * self.logins_each
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// A login that failed, an interrupt, or no end within five minutes.
    pub(crate) fn run(
        &self,
        pgbench: &Path,
        address: SocketAddr,
        interrupt: &Interrupt,
    ) -> Result<Weather> {
        let directory = tempfile::Builder::new().prefix("weir-storm-").tempdir()?;
        fs::write(directory.path().join("nothing.sql"), NOTHING)?;
        let output = directory.path().join("output");
        let mut command = self.command(pgbench, address);
        command.current_dir(directory.path());
        let begin = clock::since_epoch();
        let mut process =
            Process::start("pgbench", &mut command, &output)?.stop_with(&[Signal::TERM]);
        let deadline = clock::now() + LIMIT;
        let status = loop {
            if let Some(status) = process.try_wait()? {
                break status;
            }
            if clock::now() > deadline {
                bail!("the storm did not end within {LIMIT:?}");
            }
            interrupt.wait(LOOK_INTERVAL)?;
        };
        let end = clock::since_epoch();
        let text = fs::read_to_string(&output)?;
        if !status.success() {
            bail!("pgbench failed ({status}): {}", complaints(&text));
        }
        let done = processed(&text).context("pgbench does not say how often it logged in")?;
        if done != u64::from(self.logins()) {
            bail!("{done} of {} logins", self.logins());
        }
        Ok(Weather { begin, end })
    }

    /// nice and taskset replace themselves by the program.
    fn command(&self, pgbench: &Path, address: SocketAddr) -> Command {
        let mut command = Command::new("nice");
        command.args(["-n", &self.nice.to_string()]);
        if let Some(cpus) = &self.cpus {
            command.args(["taskset", "-c", cpus]);
        }
        command.arg(pgbench);
        command.args(["--no-vacuum", "--connect", "--file=nothing.sql"]);
        command.arg(format!("--client={}", self.connectors));
        command.arg(format!("--jobs={}", self.connectors));
        command.arg(format!("--transactions={}", self.logins_each));
        command.args(["-h", &address.ip().to_string()]);
        command.args(["-p", &address.port().to_string(), "-U", USER, DATABASE]);
        self.access.apply(&mut command);
        command
    }
}

/// `number of transactions actually processed: 400/400`
fn processed(output: &str) -> Option<u64> {
    let (_, rest) = output.split_once("actually processed: ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_counted_from_pgbenchs_own_words() {
        let output = "number of threads: 100\n\
                      number of transactions actually processed: 399/400\ntps = 1\n";
        assert_eq!(processed(output), Some(399));
        assert_eq!(processed("tps = 1\n"), None);
    }

    #[test]
    fn the_time_of_a_storm_is_from_begin_to_end() {
        let weather = Weather {
            begin: Duration::from_millis(1500),
            end: Duration::from_millis(4000),
        };
        assert!((weather.seconds() - 2.5).abs() < 1e-9);
    }
}
