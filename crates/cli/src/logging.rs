//! Logging: selects lines, their format and their outputs. Only events of this project's crates are
//! logged.

mod format;
mod repeats;
mod sink;
mod syslog;

use std::io;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};
use weir_config::Global;

use self::format::{Format, Lines};
use self::sink::{Outputs, Sink};
use self::syslog::Syslog;

/// Reason why logging cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    #[error("logfile {path}: {error}")]
    File { path: String, error: io::Error },
    #[error("cannot start the log: {0}")]
    Thread(io::Error),
    #[error("WEIR_LOG={0:?} is none of error, warning, log, debug, noise")]
    Level(String),
    #[error("cannot start the log: {0}")]
    Taken(tracing_subscriber::util::TryInitError),
}

/// Log options of the command line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    /// Disables standard error.
    pub(crate) is_quiet: bool,
    /// Added to the option `verbose`.
    pub(crate) verbose: u32,
}

/// The log of the process. Dropping it writes what is still queued.
pub(crate) struct Logging {
    filter: reload::Handle<Targets, Registry>,
    /// Level from `WEIR_LOG`; overrides `verbose`.
    level: Option<LevelFilter>,
    manner: Manner,
    sink: Sink,
}

/// Starts the log of the process.
///
/// # Errors
/// If the log file cannot be opened, `WEIR_LOG` is not a level, or a log exists already.
pub(crate) fn start(global: &Global, manner: Manner) -> Result<Logging, LogError> {
    let level = match std::env::var_os("WEIR_LOG").filter(|level| !level.is_empty()) {
        Some(word) => {
            let word = word.to_string_lossy().into_owned();
            Some(level_named(&word).ok_or(LogError::Level(word))?)
        }
        None => None,
    };
    let outputs = Outputs {
        file: open(&global.logfile)?,
        syslog: Syslog::of(global),
    };
    let sink = Sink::start(outputs, manner.is_quiet).map_err(LogError::Thread)?;
    let verbose = global.verbose.saturating_add(manner.verbose);
    let filter = targets(level.unwrap_or_else(|| level_of(verbose)));
    let (filter, handle) = reload::Layer::new(filter);
    let lines = Lines {
        format: Format::new(global.log_format),
        queue: sink.queue(),
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .try_init()
        .map_err(LogError::Taken)?;
    std::panic::set_hook(Box::new(log_panic));
    warn_of_silence(global);
    Ok(Logging {
        filter: handle,
        level,
        manner,
        sink,
    })
}

impl Logging {
    /// Applies a reload: changes the level and reopens the log file, so that it can be rotated.
    pub(crate) fn apply(&self, global: &Global) {
        match open(&global.logfile) {
            Ok(file) => self.sink.replace(Outputs {
                file,
                syslog: Syslog::of(global),
            }),
            Err(error) => tracing::error!("{error}; logging continues to the previous file"),
        }
        let verbose = global.verbose.saturating_add(self.manner.verbose);
        let level = self.level.unwrap_or_else(|| level_of(verbose));
        // Fails only without a subscriber; the subscriber lives as long as the process.
        let _ = self.filter.reload(targets(level));
        warn_of_silence(global);
    }
}

/// Warns if syslog cannot be reached: Weir runs without it, but the lines would be lost unnoticed.
fn warn_of_silence(global: &Global) {
    if let Some(Err(error)) = Syslog::of(global).map(|mut syslog| syslog.connect()) {
        tracing::warn!(
            "syslog: {error}; lines are lost until a system log accepts them on /dev/log"
        );
    }
}

/// Logs a panic like any other failure, on one line.
fn log_panic(info: &std::panic::PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("unnamed");
    // Empty unless RUST_BACKTRACE is set.
    let backtrace = std::backtrace::Backtrace::capture();
    match backtrace.status() {
        std::backtrace::BacktraceStatus::Captured => {
            tracing::error!("thread {name}: {info} {backtrace}");
        }
        _ => tracing::error!("thread {name}: {info}"),
    }
}

fn open(path: &str) -> Result<Option<std::fs::File>, LogError> {
    if path.is_empty() {
        return Ok(None);
    }
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path);
    file.map(Some).map_err(|error| LogError::File {
        path: path.to_owned(),
        error,
    })
}

/// Selects this project's crates and binary: their names all begin with "weir".
fn targets(level: LevelFilter) -> Targets {
    Targets::new().with_target("weir", level)
}

/// Level of PgBouncer's `verbose`.
fn level_of(verbose: u32) -> LevelFilter {
    match verbose {
        0 => LevelFilter::INFO,
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// Parses PgBouncer's words for levels, in any case.
fn level_named(word: &str) -> Option<LevelFilter> {
    let names = [
        ("error", LevelFilter::ERROR),
        ("warning", LevelFilter::WARN),
        ("log", LevelFilter::INFO),
        ("debug", LevelFilter::DEBUG),
        ("noise", LevelFilter::TRACE),
    ];
    let found = names
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(word));
    found.map(|(_, level)| *level)
}
