//! The null backend ([`crate::null`]) as a separate process, in the place of PostgreSQL.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::error::{Error, Result};
use crate::experiment::NullServer;
use crate::null::{Message, NullPlan, NullTls};
use crate::postgres::private_directory;
use crate::process::{Account, Process};

const START_LIMIT: Duration = Duration::from_secs(10);

/// Running null backend. Dropping it stops it.
#[derive(Debug)]
pub(super) struct Canned {
    process: Process,
    _directory: TempDir,
    pub(super) address: SocketAddr,
}

impl Canned {
    /// Starts a null backend. `program` is Weir's own program, with the arguments that precede its
    /// command `null`.
    pub(super) fn start(
        program: &[String],
        wanted: NullServer,
        certificates: Option<&Certificates>,
    ) -> Result<Self> {
        let failed = |reason: String| Error::Load {
            name: "weir bench null".to_owned(),
            reason,
        };
        let (first, arguments) = program
            .split_first()
            .ok_or_else(|| failed("no program is given for it".to_owned()))?;
        let plan = NullPlan {
            threads: wanted.threads,
            rows: wanted.rows,
            row_bytes: wanted.row_bytes,
            tls: certificates.map(|files| NullTls {
                cert_file: files.certificate(),
                key_file: files.key(),
            }),
            ..NullPlan::default()
        };
        let line = serde_json::to_string(&plan).map_err(|error| failed(error.to_string()))?;
        let directory = private_directory(Account::Ourselves)?;
        let log = directory.path().join("null.log");
        let mut command = Command::new(first);
        command.args(arguments).arg("null");
        let process =
            Process::start_with_input("weir bench null", &mut command, Stdio::piped(), &log)?;
        let mut process = process.stop_with(&[Signal::TERM]);
        process.say(&line)?;
        let mut address = None;
        process.await_ready(START_LIMIT, &log, || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            address = text.lines().find_map(listening);
            address.is_some()
        })?;
        let address =
            address.ok_or_else(|| failed("it does not say where it listens".to_owned()))?;
        Ok(Self {
            process,
            _directory: directory,
            address,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

fn listening(line: &str) -> Option<SocketAddr> {
    match serde_json::from_str(line).ok()? {
        Message::Address(address) => Some(address),
        Message::Counts(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_it_listens_is_in_its_first_line() {
        let line = serde_json::to_string(&Message::Address(SocketAddr::from(([127, 0, 0, 1], 7))));
        assert_eq!(listening(&line.unwrap()).unwrap().port(), 7);
        assert_eq!(listening("cannot listen"), None);
    }

    #[test]
    fn a_program_that_ends_at_once_is_reported_with_its_words() {
        let program = ["sh", "-c", "echo no such command; exit 2"].map(str::to_owned);
        let error = Canned::start(&program, NullServer::default(), None).unwrap_err();
        // The process may have ended before or after its input is written.
        let text = error.to_string();
        assert!(text.contains("weir bench null"), "{text}");
    }
}
