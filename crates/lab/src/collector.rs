//! What a server does while it is under load: its sessions several times a second, its counters and the machine's twice a
//! second, all into one SQLite file.
//!
//! It has a connection of its own, past any pooler, and never counts that. What it cannot see it says.

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

/// Seven times a second: 600 snapshots in a minute and a half.
pub const INTERVAL: Duration = Duration::from_millis(140);
/// By so much of it each pause is longer or shorter: what happens at a rhythm must not be missed by the same rhythm.
const JITTER: f64 = 0.2;
/// Counters and the machine's books change slowly and cost more.
const SLOW: Duration = Duration::from_millis(500);

/// What to look at.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to log in. The sampled database may be another one of the same server.
    pub address: Address,
    /// Sessions of this database only.
    pub database: Option<String>,
    /// Between snapshots, on average.
    pub interval: Duration,
    /// Of the jitter.
    pub seed: u64,
    /// The console of a Weir in front of it, whose exact sums of times are then in the file too, as counters of
    /// [`WEIR`].
    pub console: Option<Address>,
}

/// The source that counters of Weir's console have.
pub const WEIR: &str = "weir";

/// What a server says of itself before anything is sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// `server_version`.
    pub version: String,
    /// Whether the kernel's books of the server can be read.
    pub near: bool,
    /// The first process of the server, if it is near.
    pub postmaster: Option<u32>,
    /// What will not be in the file, and why.
    pub missing: Vec<Missing>,
}

/// Samples in a thread of its own until it is stopped.
#[derive(Debug)]
pub struct Collector {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<u64>>>,
}

impl Collector {
    /// Says what can be seen there.
    ///
    /// # Errors
    /// The server refuses.
    pub fn look(settings: &Settings) -> Result<Sight> {
        Source::connect(settings).map(|source| source.sight().clone())
    }

    /// Begins to sample into `file`, as part of a run and a cell of it.
    ///
    /// # Errors
    /// The server refuses, or the file cannot be written.
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

    /// Ends it, and says how many snapshots there are.
    ///
    /// # Errors
    /// What ended it before.
    pub fn stop(mut self) -> Result<u64> {
        self.join().unwrap_or(Ok(0))
    }

    /// Whether it has ended by itself; [`Collector::stop`] says why.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn join(&mut self) -> Option<Result<u64>> {
        // It waits for this to be dropped.
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

/// What was seen at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Since the epoch.
    pub at: Duration,
    /// How long the server took to tell.
    pub took: Duration,
    /// Rows of `pg_stat_activity`.
    pub sessions: Vec<serde_json::Map<String, serde_json::Value>>,
    /// Counters of the server.
    pub counters: Vec<Counter>,
    /// Figures of the machine: name and value. Times are in microseconds since some moment.
    pub machine: Vec<(String, f64)>,
    /// Context switches of a server process: pid, voluntary, involuntary.
    pub switches: Vec<(u32, u64, u64)>,
}

/// One counter of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// The view, such as `pg_stat_wal`.
    pub source: String,
    /// Of what: a database, or a kind of I/O.
    pub object: String,
    /// The column.
    pub name: String,
    /// Since its reset.
    pub value: f64,
}

/// Where a result directory keeps it.
#[must_use]
pub fn file(directory: &Path) -> PathBuf {
    directory.join("tune.sqlite")
}
