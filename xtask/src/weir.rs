//! Weir as a child process: started without a configuration file, with access to its console and to its log of pool
//! decisions.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use weir_lab::postgres::{Programs, USER, answers};
use weir_lab::process::{Process, run_to_end};

use crate::workspace;

const START_LIMIT: Duration = Duration::from_secs(15);
const LOG: &str = "weir.log";

/// Path of the release binary: `WEIR_BIN`, else cargo's target directory. Fails with the build command if it is
/// missing.
pub(crate) fn weir_binary() -> Result<PathBuf> {
    let built = || workspace::target_directory().join("release").join("weir");
    let binary = std::env::var_os("WEIR_BIN").map_or_else(built, PathBuf::from);
    if !binary.is_file() {
        bail!(
            "{} is not there; build it with: cargo build --release -p weir-cli",
            binary.display()
        );
    }
    Ok(binary)
}

/// Weir in front of one PostgreSQL. Fields drop in this order.
pub(crate) struct Weir {
    process: Process,
    directory: TempDir,
    pub(crate) address: SocketAddr,
}

impl Weir {
    /// Starts the program that `command` names, on an unused port, with these environment variables for its options.
    ///
    /// # Errors
    /// If it does not start; the error has its output.
    pub(crate) fn start(
        mut command: Command,
        address: SocketAddr,
        upstream: SocketAddr,
        options: &[(&str, &str)],
    ) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("weir-run-").tempdir()?;
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

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Log output so far.
    pub(crate) fn log(&self) -> Result<String> {
        Ok(fs::read_to_string(self.directory.path().join(LOG))?)
    }
}

/// A row of `SHOW POOL_SIZE`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct Pool {
    pub(crate) state: String,
    pub(crate) size: u32,
    pub(crate) elasticity: String,
    pub(crate) moves: u32,
    pub(crate) stalls: u32,
    pub(crate) cuts: u32,
}

/// Character that never occurs in the text of a decision.
const SEPARATOR: &str = "\u{1f}";

impl Pool {
    /// Queries Weir's console for its first pool.
    ///
    /// # Errors
    /// If psql fails, or there is no such pool.
    pub(crate) fn look(programs: &Programs, address: SocketAddr) -> Result<Self> {
        let mut command = Command::new(programs.path("psql")?);
        command.args(["-X", "-q", "-A", "-F", SEPARATOR]);
        command.args(["-h", &address.ip().to_string()]);
        command.args(["-p", &address.port().to_string(), "-U", USER]);
        command.args(["-c", "SHOW POOL_SIZE", "pgbouncer"]);
        Self::read(&run_to_end(&mut command)?).context("SHOW POOL_SIZE has no row of the pool")
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

/// Time and text of the decisions in Weir's log: `DATE TIME UTC [PID] LOG pool size of DATABASE/USER: WORDS`.
pub(crate) fn decisions(log: &str) -> Vec<(&str, &str)> {
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
