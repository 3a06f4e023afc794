//! Samples a server under load into one SQLite file: its sessions several times a second, its counters and the
//! machine's twice a second.
//!
//! The collector has its own connection, which bypasses any pooler and is excluded from the samples.
//! [`Sight::missing`] lists the data that it cannot see.

pub mod database;
pub mod psql;
mod source;
mod system;

use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use self::database::{Database, Missing};
use self::psql::Address;
use self::source::Source;
use crate::clock;
use crate::error::{Error, Result};

/// Time between snapshots: seven per second, 600 in a minute and a half.
pub const INTERVAL: Duration = Duration::from_millis(140);
/// Relative jitter of each pause. Without it, periodic events could be missed by samples at the same period.
const JITTER: f64 = 0.2;
/// Time between reads of the counters and of the machine's figures. They change slowly and cost more to read.
const SLOW: Duration = Duration::from_millis(500);

/// Target and rate of the sampling.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Server to log in to. The sampled database may be another one of the same server.
    pub address: Address,
    /// Database whose sessions are sampled; `None` for all.
    pub database: Option<String>,
    /// Mean time between snapshots.
    pub interval: Duration,
    /// Seed of the jitter.
    pub seed: u64,
    /// Console of a Weir in front of the server. Its exact sums of times are recorded as counters of [`WEIR`].
    pub console: Option<Address>,
}

/// Source name of the counters that come from Weir's console.
pub const WEIR: &str = "weir";

/// Facts about a server that are known before sampling begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// PostgreSQL's `server_version`.
    pub version: String,
    /// True if the kernel's figures about the server and its machine can be read.
    pub near: bool,
    /// Process id of the postmaster; present if the server is near.
    pub postmaster: Option<u32>,
    /// Data that will be absent from the file, each with the reason.
    pub missing: Vec<Missing>,
}

/// Samples in a thread of its own until it is stopped.
#[derive(Debug)]
pub struct Collector {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<u64>>>,
}

impl Collector {
    /// Connects and returns what can be sampled there.
    ///
    /// # Errors
    /// The server refuses.
    pub fn look(settings: &Settings) -> Result<Sight> {
        Source::connect(settings).map(|source| source.sight().clone())
    }

    /// Starts to sample into `file`, as part of the given run and cell.
    ///
    /// # Errors
    /// The server refuses, or the file cannot be opened.
    pub fn start(settings: &Settings, file: &Path, run: i64, cell: i64) -> Result<Self> {
        let source = Source::connect(settings)?;
        let database = Database::open(file)?;
        let (stop, stopped) = bounded(1);
        let sampler = Sampler {
            source,
            database,
            run,
            cell,
            interval: settings.interval,
            random: fastrand::Rng::with_seed(settings.seed),
        };
        let thread = thread::Builder::new()
            .name("collector".to_owned())
            .spawn(move || sampler.run(&stopped))
            .map_err(Error::system("start a thread"))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Stops sampling and returns the number of snapshots.
    ///
    /// # Errors
    /// The error that had already ended the sampling.
    pub fn stop(mut self) -> Result<u64> {
        self.join().unwrap_or(Ok(0))
    }

    /// True if sampling has ended by itself; [`Collector::stop`] returns the reason.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn join(&mut self) -> Option<Result<u64>> {
        // The thread ends when this sender is dropped.
        drop(self.stop.take());
        let ended = self.thread.take()?.join();
        Some(ended.unwrap_or_else(|_| {
            Err(Error::Unexpected {
                what: "the collector".to_owned(),
                text: "it panicked".to_owned(),
            })
        }))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

struct Sampler {
    source: Source,
    database: Database,
    run: i64,
    cell: i64,
    interval: Duration,
    random: fastrand::Rng,
}

impl Sampler {
    fn run(mut self, stopped: &Receiver<()>) -> Result<u64> {
        let mut count = 0;
        let mut slow = clock::now();
        loop {
            let begun = clock::now();
            let mut snapshot = self.source.activity()?;
            if begun >= slow {
                slow = begun + SLOW;
                self.source.add_slow(&mut snapshot)?;
            }
            self.database.add_snapshot(self.run, self.cell, &snapshot)?;
            count += 1;
            let jitter = 1.0 + JITTER * (2.0 * self.random.f64() - 1.0);
            let pause = self.interval.mul_f64(jitter);
            let left = (begun + pause).saturating_duration_since(clock::now());
            match stopped.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(count),
            }
        }
    }
}

/// Sample of the server and its machine at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Time of the sample since the Unix epoch.
    pub at: Duration,
    /// Time that the server took to answer.
    pub took: Duration,
    /// Rows of `pg_stat_activity`.
    pub sessions: Vec<serde_json::Map<String, serde_json::Value>>,
    /// Counters of the server, present in slow samples.
    pub counters: Vec<Counter>,
    /// Figures of the machine: name and value. Times are in microseconds since some moment.
    pub machine: Vec<(String, f64)>,
    /// Context switches of a server process: pid, voluntary, involuntary.
    pub switches: Vec<(u32, u64, u64)>,
}

/// Counter of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// View that has the counter, such as `pg_stat_wal`.
    pub source: String,
    /// Object that the counter belongs to: a database, or a kind of I/O.
    pub object: String,
    /// Column of the view.
    pub name: String,
    /// Value since the last reset of the counter.
    pub value: f64,
}

/// Returns the path of the samples in a result directory.
#[must_use]
pub fn file(directory: &Path) -> PathBuf {
    directory.join("tune.sqlite")
}
