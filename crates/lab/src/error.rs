//! What can go wrong around a measurement: files, programs, servers. Mistakes in the files that describe experiments
//! and targets have types of their own.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// `Result` with [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a step of a measurement could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Ctrl-C, or another signal that asks us to end.
    #[error("interrupted")]
    Interrupted,
    /// The system refused something about a file.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried: `read`, `write` ...
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused something else.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the system or a program's words are not what they have always been.
    #[error("{what} is not as expected: {text}")]
    Unexpected {
        /// What was read.
        what: String,
        /// A part of it.
        text: String,
    },
    /// A program that is needed is not on this machine.
    #[error("`{name}` is not installed{}", hint.map(|hint| format!(" ({hint})")).unwrap_or_default())]
    Missing {
        /// Its name.
        name: String,
        /// Where it comes from.
        hint: Option<&'static str>,
    },
    /// The system has no account for the servers, and we are root.
    #[error("there is no user `{0}`; install PostgreSQL first (Debian: postgresql-15)")]
    NoAccount(&'static str),
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Which.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// A program ran to its end and failed.
    #[error("{program} failed ({status}):\n{output}")]
    Failed {
        /// Which.
        program: String,
        /// Its exit status.
        status: ExitStatus,
        /// What it wrote.
        output: String,
    },
    /// A server ended before it was ready.
    #[error("{name} ended at once ({status}):\n{log}")]
    Ended {
        /// Which.
        name: String,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// A server was not ready in time.
    #[error("{name} was not ready within {limit:?}{}\n{log}", reason.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    NotReady {
        /// Which.
        name: String,
        /// How long we waited.
        limit: Duration,
        /// What the last attempt said.
        reason: Option<String>,
        /// The end of its log.
        log: String,
    },
    /// A program that ends by itself did not.
    #[error("{name} did not end within {limit:?}")]
    TooLong {
        /// Which.
        name: String,
        /// How long we waited.
        limit: Duration,
    },
    /// Nobody can listen on loopback any more.
    #[error("no free port on loopback")]
    NoPort,
    /// A server has fewer connections than are to be measured.
    #[error(
        "the server has {free} connections left, and {most} are asked for, besides a few of our own: \
         ask for fewer (-c), or raise its max_connections"
    )]
    NoRoom {
        /// What it has left.
        free: i64,
        /// The largest number asked for.
        most: u32,
    },
    /// A load generator failed, or its result makes no sense.
    #[error("{name}: {reason}")]
    Load {
        /// Which generator.
        name: String,
        /// Its own words, or ours.
        reason: String,
    },
}

impl Error {
    /// For `map_err`: what was tried on which file.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }

    /// For `map_err`: what was tried.
    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { action, source }
    }

    /// Whether a signal ended the work, not a mistake.
    #[must_use]
    pub fn is_interrupt(&self) -> bool {
        matches!(self, Self::Interrupted)
    }
}
