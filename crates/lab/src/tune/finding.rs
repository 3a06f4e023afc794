//! Evaluation of a result directory: figures by number of connections, the result of the analysis, and the doubts.
//! `finding.json` holds it, and reports are made from it.

mod judge;
mod published;
mod spot;
mod threats;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use weir_advisor::analysis::{Kind, round_trips};
use weir_advisor::controller::Goal;

pub use self::judge::{Banded, Curve, Judgement, Rule, Verdict};
pub use self::published::{SETUP, Study, study};
pub use self::spot::{CLASSES, LatencyMs, PoolTimes, Range, Spot, Wait, class_name};

use self::judge::{Question, judge};
use super::watch;
use crate::collector;
use crate::collector::database::{CellRow, Database, RunRow};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::wallet::{Mode, Profile, Wallet};

/// Version of `finding.json`; raised by changes that break readers.
pub const FORMAT: u32 = 1;

/// Name of the file in a result directory.
pub const FILE: &str = "finding.json";

/// Settings of a run that the analysis needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Name of the run, for display.
    pub name: String,
    /// Data: `compat`, `realistic`, `own`, or empty.
    pub data: String,
    /// Way to the server: `direct`, `pooler`, `weir` or `watch`.
    pub path: String,
    /// Number of clients of the pool, if its size was varied.
    pub pool_clients: Option<u32>,
    /// Number of cores of the server, if known.
    pub cores: Option<u32>,
    /// Number of disks that seek.
    pub spindles: u32,
    /// Goal: `throughput`, `balanced` or `latency`.
    pub goal: String,
    /// Seconds of warm-up before each measurement.
    pub warm_up_s: f64,
    /// Seconds of each measurement.
    pub measure_s: f64,
    /// Simulated network delay: milliseconds added to each round trip.
    pub round_trip_ms: f64,
    /// Planned number of repetitions.
    pub repetitions: u32,
    /// pgbench's `--protocol`.
    pub protocol: String,
    /// Number of planned cells.
    pub planned: usize,
    /// True if a debug build made the run.
    pub debug: bool,
}

/// Evaluation of a result directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Value of [`FORMAT`].
    pub format: u32,
    /// Kind: `run` or `watch`.
    pub kind: String,
    /// Start, in milliseconds since 1970.
    pub started_ms: i64,
    /// The command line.
    pub command: String,
    /// Address of the server, without a password.
    pub server: String,
    /// Version that the server reports.
    pub server_version: String,
    /// Seed of the order of cells and of the load.
    pub seed: u64,
    /// Settings of the run.
    pub settings: Settings,
    /// Facts about the machine, PostgreSQL and the data.
    pub environment: Environment,
    /// Data that could not be collected: name and reason.
    pub missing: Vec<(String, String)>,
    /// Number of cells with figures.
    pub measured: usize,
    /// Cells without figures: name and reason.
    pub failed: Vec<(String, String)>,
    /// Cells after which the books were wrong: name and violations.
    pub wrong_books: Vec<(String, String)>,
    /// Workloads that were measured.
    pub series: Vec<Series>,
    /// Comparison of chatty with pipelined: connections, speed-up of throughput, milliseconds per saved round trip.
    pub round_trips: Vec<(u32, f64, f64)>,
    /// Cost of a round trip in milliseconds, if nothing waits for other work.
    pub round_trip_ms: Option<f64>,
    /// Doubts about all answers, each a sentence without a full stop.
    pub threats: Vec<String>,
    /// Limits of applying the answers elsewhere, in the same form.
    pub notes: Vec<String>,
}

/// Workload at several numbers of connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Workload: `chatty`, `pipelined`, `scripts` or `watch`.
    pub name: String,
    /// Measurements, fewest connections first.
    pub spots: Vec<Spot>,
    /// Result of the analysis.
    pub judgement: Judgement,
    /// Published study under similar conditions.
    pub published: Option<Study>,
}

impl Finding {
    /// Reads a result directory, also of a run that was stopped. If a result is kept without its samples, which are
    /// large, `finding.json` is read as it is.
    ///
    /// # Errors
    /// There is no result, or it cannot be read.
    pub fn read(directory: &Path) -> Result<Self> {
        let kept = directory.join(FILE);
        if kept.is_file() && !collector::file(directory).is_file() {
            return Self::kept(&kept);
        }
        let database = Database::open(&collector::file(directory))?;
        let run = database.last_run()?;
        let settings: Settings = serde_json::from_str(&run.settings).unwrap_or_default();
        let cells = database.cells(run.id)?;
        let groups = if run.kind == "watch" {
            watch::spots(&database, &cells)?
        } else {
            spots(&database, &cells)?
        };
        let mut finding = Self::of(&run, settings);
        finding.environment = database.environment(run.id)?;
        let missing = database.missing(run.id)?;
        finding.missing = missing.into_iter().map(|one| (one.what, one.why)).collect();
        finding.count(&cells);
        finding.threats = threats::of(&finding, &groups);
        finding.notes = threats::notes(&finding);
        finding.series = groups
            .into_iter()
            .map(|(name, spots)| finding.series(name, spots))
            .collect();
        finding.compare();
        Ok(finding)
    }

    fn kept(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).map_err(Error::file("read", file))?;
        let wrong = |text: String| Error::Unexpected {
            what: file.display().to_string(),
            text,
        };
        let finding: Self =
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if finding.format > FORMAT {
            return Err(wrong(format!(
                "it has format {} and this program reads up to {FORMAT}",
                finding.format
            )));
        }
        Ok(finding)
    }

    fn of(run: &RunRow, settings: Settings) -> Self {
        Self {
            format: FORMAT,
            kind: run.kind.clone(),
            started_ms: run.started_ms,
            command: run.command.clone(),
            server: run.server.clone(),
            server_version: run.server_version.clone(),
            seed: run.seed,
            settings,
            environment: Environment::new(),
            missing: Vec::new(),
            measured: 0,
            failed: Vec::new(),
            wrong_books: Vec::new(),
            series: Vec::new(),
            round_trips: Vec::new(),
            round_trip_ms: None,
            threats: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn count(&mut self, cells: &[CellRow]) {
        for cell in cells {
            let name = format!(
                "{}, {} connections, repetition {}",
                cell.workload,
                cell.connections,
                cell.repetition + 1
            );
            if let Some(why) = &cell.failed {
                self.failed.push((name.clone(), why.clone()));
            } else if cell.outcome.is_some() || cell.workload == "watch" {
                self.measured += 1;
            } else {
                self.failed
                    .push((name.clone(), "it was not finished".to_owned()));
            }
            if let Some(how) = cell.oracle.as_ref().filter(|how| !how.is_empty()) {
                self.wrong_books.push((name, how.clone()));
            }
        }
    }

    fn series(&self, name: String, spots: Vec<Spot>) -> Series {
        let kind = match self.settings.pool_clients {
            Some(clients) => Kind::Pool { clients },
            None => Kind::Connections,
        };
        let question = Question {
            kind,
            cores: self.settings.cores,
            spindles: self.settings.spindles,
            goal: goal(&self.settings.goal),
            seed: self.seed,
            wrong_books: self.wrong_books.len(),
            doubts: &self.threats,
        };
        let judgement = judge(&spots, &question);
        let like_it = self.settings.data == "compat" && self.settings.path == "direct";
        let published = like_it.then(|| study(&name)).flatten();
        Series {
            name,
            spots,
            judgement,
            published,
        }
    }

    fn compare(&mut self) {
        let sweep = |mode: Mode| {
            let series = self
                .series
                .iter()
                .find(|series| series.name == mode.name())?;
            judge::sweep(&series.spots, Kind::Connections).ok()
        };
        let (Some(chatty), Some(pipelined)) = (sweep(Mode::Chatty), sweep(Mode::Pipelined)) else {
            return;
        };
        // Behind a pool, latency includes the queue, which is not a round trip.
        if self.settings.pool_clients.is_some() {
            return;
        }
        let trips = (Mode::Chatty.round_trips(), Mode::Pipelined.round_trips());
        let compared = round_trips::compare(&chatty, &pipelined, trips);
        self.round_trip_ms = round_trips::cost_s(&compared).map(|seconds| 1000.0 * seconds);
        self.round_trips = compared
            .iter()
            .map(|one| (one.connections, one.speed_up, 1000.0 * one.round_trip_s))
            .collect();
    }
}

/// Workloads by name, each with its spots in the order of connections.
pub(super) type Groups = BTreeMap<String, Vec<Spot>>;

fn spots(database: &Database, cells: &[CellRow]) -> Result<Groups> {
    let mut by_place: BTreeMap<(&str, u32), Vec<&CellRow>> = BTreeMap::new();
    for cell in cells
        .iter()
        .filter(|cell| cell.failed.is_none() && cell.outcome.is_some())
    {
        let place = (cell.workload.as_str(), cell.connections);
        by_place.entry(place).or_default().push(cell);
    }
    let mut groups = Groups::new();
    for ((workload, _), cells) in by_place {
        if let Some(spot) = spot::of(database, &cells)? {
            groups.entry(workload.to_owned()).or_default().push(spot);
        }
    }
    Ok(groups)
}

/// Returns the name of a goal for [`Settings::goal`].
#[must_use]
pub const fn goal_name(goal: Goal) -> &'static str {
    match goal {
        Goal::Balanced => "balanced",
        Goal::Latency => "latency",
        Goal::Throughput => "throughput",
    }
}

/// Parses [`Settings::goal`].
#[must_use]
pub fn goal(name: &str) -> Goal {
    match name {
        "latency" => Goal::Latency,
        "throughput" => Goal::Throughput,
        _ => Goal::Balanced,
    }
}

/// Returns the name of the data for [`Settings::data`].
#[must_use]
pub fn data_name(wallet: &Wallet) -> String {
    match wallet.profile {
        Profile::Compat if wallet.zipf.is_none() => "compat".to_owned(),
        Profile::Compat => "compat, Zipf".to_owned(),
        Profile::Realistic { scale } => format!("realistic, scale {scale}"),
    }
}

#[cfg(test)]
pub(in crate::tune) mod tests;
