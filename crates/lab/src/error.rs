//! Errors around a measurement: files, programs, servers. Mistakes in the files that describe experiments and
//! targets have types of their own.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// `Result` with [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason why a step of a measurement failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Ctrl-C or another termination signal arrived.
    #[error("interrupted")]
    Interrupted,
    /// The system refused an operation on a file.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// Operation that was tried: `read`, `write` ...
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The system refused another operation.
    #[error("cannot {action}: {source}")]
    System {
        /// Operation that was tried.
        action: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// A system file or a program's output has an unexpected form.
    #[error("{what} is not as expected: {text}")]
    Unexpected {
        /// Name of the text that was read.
        what: String,
        /// Part of that text.
        text: String,
    },
    /// A required program is not on this machine.
    #[error("`{name}` is not installed{}", hint.map(|hint| format!(" ({hint})")).unwrap_or_default())]
    Missing {
        /// Name of the program.
        name: String,
        /// Package or project that provides it.
        hint: Option<&'static str>,
    },
    /// No account for the servers exists, and the lab runs as root.
    #[error("there is no user `{0}`; install PostgreSQL first (Debian: postgresql-15)")]
    NoAccount(&'static str),
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Name of the program.
        program: String,
        /// Error of the system.
        source: io::Error,
    },
    /// A program ran to its end and failed.
    #[error("{program} failed ({status}):\n{output}")]
    Failed {
        /// Name of the program.
        program: String,
        /// Exit status of the program.
        status: ExitStatus,
        /// Output of the program.
        output: String,
    },
    /// A server ended before it was ready.
    #[error("{name} ended at once ({status}):\n{log}")]
    Ended {
        /// Name of the server.
        name: String,
        /// Exit status of the server.
        status: ExitStatus,
        /// End of the server's log.
        log: String,
    },
    /// A server was not ready in time.
    #[error("{name} was not ready within {limit:?}{}\n{log}", reason.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    NotReady {
        /// Name of the server.
        name: String,
        /// Time that was waited.
        limit: Duration,
        /// Error of the last attempt.
        reason: Option<String>,
        /// End of the server's log.
        log: String,
    },
    /// A program that should end by itself did not.
    #[error("{name} did not end within {limit:?}")]
    TooLong {
        /// Name of the program.
        name: String,
        /// Time that was waited.
        limit: Duration,
    },
    /// Loopback has no free port.
    #[error("no free port on loopback")]
    NoPort,
    /// A server has fewer free connections than the measurement needs.
    #[error(
        "the server has {free} connections left, and {most} are asked for, besides a few of our own: \
         ask for fewer (-c), or raise its max_connections"
    )]
    NoRoom {
        /// Number of free connections.
        free: i64,
        /// Largest number of connections asked for.
        most: u32,
    },
    /// A load generator failed, or its result makes no sense.
    #[error("{name}: {reason}")]
    Load {
        /// Name of the generator.
        name: String,
        /// Reason, in the generator's words or the lab's.
        reason: String,
    },
}

impl Error {
    /// Wraps a system error for `map_err`, with the operation and the file.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }

    /// Wraps a system error for `map_err`, with the operation.
    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { action, source }
    }

    /// True if a signal, not a mistake, ended the work.
    #[must_use]
    pub fn is_interrupt(&self) -> bool {
        matches!(self, Self::Interrupted)
    }
}
