//! Weir as a child process: started without a configuration file, with access to its console and to its log of pool
//! decisions.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::error::{Error, Result};
use crate::postgres::{Programs, USER, answers};
use crate::process::{Process, run_to_end};

const START_LIMIT: Duration = Duration::from_secs(15);
const LOG: &str = "weir.log";

/// Weir in front of one PostgreSQL. Fields drop in this order.
#[derive(Debug)]
pub struct Weir {
    process: Process,
    directory: TempDir,
    address: SocketAddr,
}

impl Weir {
    /// Starts the program that `command` names, at this address, with these environment variables for its options.
    ///
    /// # Errors
    /// If it does not start; the error has its output.
    pub fn start(
        mut command: Command,
        address: SocketAddr,
        upstream: SocketAddr,
        options: &[(&str, &str)],
    ) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("weir-run-").tempdir();
        let directory = directory.map_err(Error::system("make a directory for Weir"))?;
        command.args(["run", "--upstream", &upstream.to_string()]);
        command.env("WEIR_LISTEN_PORT", address.port().to_string());
        command.envs(options.iter().copied());
        let log = directory.path().join(LOG);
        let mut process = Process::start("weir", &mut command, &log)?;
        process.await_ready(START_LIMIT, &log, || answers(address))?;
        Ok(Self {
            process,
            directory,
            address,
        })
    }

    /// Returns the address that clients connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns the log so far.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn log(&self) -> Result<String> {
        let path = self.directory.path().join(LOG);
        fs::read_to_string(&path).map_err(Error::file("read", &path))
    }
}

/// A row of `SHOW POOL_SIZE`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Pool {
    /// State of the controller.
    pub state: String,
    /// Size of the pool.
    pub size: u32,
    /// Effect of a change of size, as the console shows it.
    pub elasticity: String,
    /// Number of changes of size.
    pub moves: u32,
    /// Number of times that the pool was stuck.
    pub stalls: u32,
    /// Number of sudden reductions.
    pub cuts: u32,
}

/// Character that never occurs in the text of a decision.
const SEPARATOR: &str = "\u{1f}";

impl Pool {
    /// Queries Weir's console for its first pool.
    ///
    /// # Errors
    /// If psql fails, or there is no such pool.
    pub fn look(programs: &Programs, address: SocketAddr) -> Result<Self> {
        let mut command = Command::new(programs.path("psql")?);
        command.args(["-X", "-q", "-A", "-F", SEPARATOR]);
        command.args(["-h", &address.ip().to_string()]);
        command.args(["-p", &address.port().to_string(), "-U", USER]);
        command.args(["-c", "SHOW POOL_SIZE", "pgbouncer"]);
        let table = run_to_end(&mut command)?;
        Self::read(&table).ok_or_else(|| Error::Unexpected {
            what: "SHOW POOL_SIZE".to_owned(),
            text: table,
        })
    }

    /// Parses psql's unaligned table, with its heading.
    fn read(table: &str) -> Option<Self> {
        let mut lines = table.lines();
        let (heading, row) = (lines.next()?, lines.next()?);
        let fields: Vec<(&str, &str)> =
            heading.split(SEPARATOR).zip(row.split(SEPARATOR)).collect();
        let field = |name: &str| {
            let found = fields.iter().find(|(column, _)| *column == name);
            found.map(|(_, value)| *value)
        };
        let figure = |name: &str| field(name)?.parse().ok();
        Some(Self {
            state: field("state")?.to_owned(),
            size: figure("size")?,
            elasticity: field("elasticity")?.to_owned(),
            moves: figure("moves")?,
            stalls: figure("stalls")?,
            cuts: figure("cuts")?,
        })
    }
}

/// Returns time and text of the decisions in Weir's log: `DATE TIME UTC [PID] LOG pool size of DATABASE/USER: WORDS`.
#[must_use]
pub fn decisions(log: &str) -> Vec<(&str, &str)> {
    log.lines()
        .filter_map(|line| {
            let (head, words) = line.split_once("pool size of ")?;
            let time = head.split_whitespace().nth(1)?;
            Some((time, words.split_once(": ")?.1))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_found_in_the_log() {
        let log = "2026-01-02 03:04:05.678 UTC [1] LOG listening on 127.0.0.1:1\n\
                   2026-01-02 03:04:06.000 UTC [1] LOG pool size of a/b: 8 -> 16: more pay: why\n";
        let expected = [("03:04:06.000", "8 -> 16: more pay: why")];
        assert_eq!(decisions(log), expected);
    }

    #[test]
    fn the_row_of_the_pool_is_read_by_the_names_of_its_columns() {
        let table = [
            "state|size|moves|elasticity|stalls|cuts|decisions",
            "holds|7|3|0.10|1|0|",
        ];
        let table = table.join("\n").replace('|', SEPARATOR);
        let expected = Pool {
            state: "holds".to_owned(),
            size: 7,
            elasticity: "0.10".to_owned(),
            moves: 3,
            stalls: 1,
            cuts: 0,
        };
        assert_eq!(Pool::read(&table), Some(expected));
        assert_eq!(Pool::read("state\n"), None);
    }
}
