//! Watches a live system: there is no load of the lab's own, and the numbers of connections are those that occur.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use weir_advisor::analysis::waits::{Class, Event, Profile};
use weir_advisor::controller::Goal;

use super::finding::{Groups, LatencyMs, Range, Settings, Spot, goal_name};
use super::ground::{cores_here, surroundings};
use super::run::Finished;
use crate::clock;
use crate::collector::database::{CellRow, Database, NewCell, NewRun};
use crate::collector::psql::Address;
use crate::collector::{self, Collector, INTERVAL};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::run::Progress;
use crate::run::progress::duration;
use crate::statistics::float;

/// Minimum length of a window. Backends report their counters at most once a second, so shorter windows would see
/// jumps.
const WINDOW_MS: i64 = 3000;
/// Minimum number of windows at a concurrency.
const WINDOWS_MIN: usize = 3;
/// Interval of progress lines.
const TOLD_EVERY: Duration = Duration::from_secs(30);
/// Interval of checks for an interrupt.
const LOOK: Duration = Duration::from_millis(200);

/// Options of a watch.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// Server and database; sessions of this database are sampled.
    pub server: Address,
    /// Duration; without one, until an interrupt.
    pub time: Option<Duration>,
    /// Number of cores of the server; without it that of this machine, if the server is on it.
    pub cores: Option<u32>,
    /// Number of disks that seek.
    pub spindles: u32,
    /// Goal of the recommendation.
    pub goal: Goal,
    /// Seed of jitter and bootstrap.
    pub seed: u64,
    /// The command line, for the record.
    pub command: Vec<String>,
}

/// Samples into `directory`, which is created, until the time is over or a signal arrives. Both are normal ends.
///
/// # Errors
/// The server refuses, or the directory has a result already.
pub fn watch(
    look: &Look,
    directory: &Path,
    interrupt: &Interrupt,
    progress: &mut dyn Progress,
) -> Result<Finished> {
    fs::create_dir_all(directory).map_err(Error::file("make", directory))?;
    let file = collector::file(directory);
    let database = Database::create(&file)?;
    let sampling = collector::Settings {
        address: look.server.clone(),
        database: Some(look.server.database.clone()),
        interval: INTERVAL,
        seed: look.seed,
        console: None,
    };
    let sight = Collector::look(&sampling)?;
    let run = NewRun {
        kind: "watch",
        command: look.command.join(" "),
        server: look.server.shown(),
        server_version: sight.version.clone(),
        seed: look.seed,
        settings: settings(look, sight.near).json(),
    };
    let found = surroundings(&look.server, sight.near)?;
    let run = database.begin_run(&run, &found, &sight.missing)?;
    let cell = database.begin_cell(
        run,
        &NewCell {
            workload: "watch",
            connections: 0,
            clients: 0,
            repetition: 0,
            place: 0,
        },
    )?;
    let collector = Collector::start(&sampling, &file, run, cell)?;
    let interrupted = attend(look, &collector, interrupt, progress);
    let mut finished = Finished {
        cells: 1,
        failed: 0,
        interrupted,
    };
    // Samples from before the server went away are still useful.
    if let Err(error) = collector.stop() {
        progress.line(&format!("the watch ended early: {error}"));
        database.fail_cell(cell, &error.to_string())?;
        finished.failed = 1;
    }
    Ok(finished)
}

/// Waits for the end; returns true if it was a signal.
fn attend(
    look: &Look,
    collector: &Collector,
    interrupt: &Interrupt,
    progress: &mut dyn Progress,
) -> bool {
    let begun = clock::now();
    let mut told = begun;
    progress.line("watching; Ctrl-C ends it and makes the report");
    loop {
        let now = clock::now();
        let passed = now.saturating_duration_since(begun);
        if collector.is_over() || look.time.is_some_and(|time| passed >= time) {
            return false;
        }
        if now.saturating_duration_since(told) >= TOLD_EVERY {
            told = now;
            let left = look
                .time
                .map(|time| time.saturating_sub(passed).as_secs_f64());
            let left = left.map_or_else(String::new, |left| format!(" ({} left)", duration(left)));
            progress.line(&format!(
                "watched for {}{left}",
                duration(passed.as_secs_f64())
            ));
        }
        if interrupt.wait(LOOK).is_err() {
            return true;
        }
    }
}

fn settings(look: &Look, near: bool) -> Settings {
    Settings {
        name: "watch".to_owned(),
        path: "watch".to_owned(),
        cores: look.cores.or_else(|| near.then(cores_here).flatten()),
        spindles: look.spindles,
        goal: goal_name(look.goal).to_owned(),
        measure_s: look.time.map_or(0.0, |time| time.as_secs_f64()),
        planned: 1,
        ..Settings::default()
    }
}

/// Window of a few seconds.
struct Window {
    /// Mean number of sessions in a transaction.
    sessions: f64,
    /// Transactions per second.
    tps: f64,
    profile: Vec<BTreeMap<Event, u64>>,
}

/// Returns the measurements at each concurrency that lasted.
pub(super) fn spots(database: &Database, cells: &[CellRow]) -> Result<Groups> {
    let mut bins: BTreeMap<u32, Vec<Window>> = BTreeMap::new();
    for cell in cells {
        for window in windows(database, cell.id)? {
            if let Some(bin) = bin(window.sessions) {
                bins.entry(bin).or_default().push(window);
            }
        }
    }
    let spots: Vec<Spot> = merged(bins)
        .iter()
        .filter_map(|windows| spot(windows))
        .collect();
    Ok(Groups::from([("watch".to_owned(), spots)]))
}

fn windows(database: &Database, cell: i64) -> Result<Vec<Window>> {
    let commits = database.counter(cell, "pg_stat_database", "xact_commit")?;
    let rollbacks = database.counter(cell, "pg_stat_database", "xact_rollback")?;
    let looks: Vec<(i64, f64)> = commits
        .iter()
        .zip(&rollbacks)
        .map(|((at, commits), (_, rollbacks))| (*at, commits + rollbacks))
        .collect();
    let snapshots = database.snapshots(cell)?;
    Ok(cut(&looks, &snapshots))
}

/// Cuts the time into windows of at least [`WINDOW_MS`] between looks at the counters.
fn cut(looks: &[(i64, f64)], snapshots: &[(i64, BTreeMap<Event, u64>)]) -> Vec<Window> {
    let mut windows = Vec::new();
    let mut begin = looks.first().copied();
    let mut since = 0;
    for (at, count) in looks.iter().skip(1).copied() {
        since += 1;
        let Some((from, before)) = begin.filter(|(from, _)| at - from >= WINDOW_MS) else {
            continue;
        };
        let inside = snapshots
            .iter()
            .filter(|(moment, _)| from < *moment && *moment <= at);
        let profile: Vec<BTreeMap<Event, u64>> =
            inside.map(|(_, sessions)| sessions.clone()).collect();
        if !profile.is_empty() {
            let sessions = profile.iter().map(in_transaction).sum::<f64>() / float(profile.len());
            let seconds = u32::try_from(at - from).map_or(f64::INFINITY, f64::from) / 1000.0;
            // The collector's own statements are transactions of this database too: one for each snapshot, several
            // for each look.
            let ours = float(profile.len()) + OURS_EACH_LOOK * f64::from(since);
            windows.push(Window {
                sessions,
                tps: (count - before - ours).max(0.0) / seconds,
                profile,
            });
        }
        begin = Some((at, count));
        since = 0;
    }
    windows
}

/// Approximate number of views that the collector queries per look.
const OURS_EACH_LOOK: f64 = 4.0;

#[expect(clippy::cast_precision_loss, reason = "sessions of a server")]
fn in_transaction(sessions: &BTreeMap<Event, u64>) -> f64 {
    let busy = sessions
        .iter()
        .filter(|((class, _), _)| *class != Class::Idle);
    busy.map(|(_, count)| *count).sum::<u64>() as f64
}

/// Returns the lower end of a concurrency's bin: 1, 2, 3, 4, 5, 7, 9, 12 ...; `None` below a half.
fn bin(sessions: f64) -> Option<u32> {
    if !(0.5..1e6).contains(&sessions) {
        return None;
    }
    let mut low = 1;
    while f64::from(next(low)) - 0.5 <= sessions {
        low = next(low);
    }
    Some(low)
}

/// Returns the lower end of the bin after the one that begins at `low`.
fn next(low: u32) -> u32 {
    low + (low * 2 / 5).max(1)
}

/// Returns the bins with enough windows. Two neighbours with too few are combined: their load is on the border of
/// both.
fn merged(bins: BTreeMap<u32, Vec<Window>>) -> Vec<Vec<Window>> {
    let mut found = Vec::new();
    let mut few: Option<(u32, Vec<Window>)> = None;
    for (low, mut windows) in bins {
        let below = few.take().filter(|(below, _)| next(*below) == low);
        if windows.len() < WINDOWS_MIN
            && let Some((_, below)) = below
        {
            windows.extend(below);
        }
        if windows.len() >= WINDOWS_MIN {
            found.push(windows);
        } else {
            few = Some((low, windows));
        }
    }
    found
}

fn spot(windows: &[Window]) -> Option<Spot> {
    let mean = windows.iter().map(|window| window.sessions).sum::<f64>() / float(windows.len());
    let connections = whole(mean);
    let tps_each: Vec<f64> = windows.iter().map(|window| window.tps).collect();
    let tps = Range::of(&tps_each).filter(|tps| tps.mean > 0.0)?;
    let mut profile = Profile::default();
    for sessions in windows.iter().flat_map(|window| &window.profile) {
        profile.add(sessions);
    }
    let mut spot = Spot {
        connections,
        clients: connections,
        tps,
        tps_each,
        // Computed by Little's law, because the latency was not measured.
        latency: Some(LatencyMs {
            mean: 1000.0 * f64::from(connections) / tps.mean,
            ..LatencyMs::default()
        }),
        ..Spot::default()
    };
    spot.profiled(&profile);
    Some(spot)
}

/// Rounds to at least 1; [`bin`] has excluded smaller values.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 1 and a million"
)]
fn whole(sessions: f64) -> u32 {
    sessions.round().max(1.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(count: u64) -> BTreeMap<Event, u64> {
        BTreeMap::from([
            ((Class::Cpu, "CPU".to_owned()), count),
            ((Class::Idle, "idle".to_owned()), 100),
        ])
    }

    #[test]
    fn windows_have_the_sessions_in_transaction_and_not_our_own_statements() {
        let snapshots: Vec<_> = (1..=10_i64).map(|at| (at * 1000, busy(3))).collect();
        // 100 transactions a second, and 1 + 4 of the collector.
        let looks: Vec<_> = (0..=10_i32)
            .map(|second| (i64::from(second) * 1000, f64::from(second) * 105.0))
            .collect();
        let found = cut(&looks, &snapshots);
        assert_eq!(found.len(), 3);
        for window in found {
            assert_eq!((window.sessions, window.tps), (3.0, 100.0));
        }
    }

    #[test]
    fn bins_grow_and_nothing_is_in_two() {
        let bins: Vec<u32> = (1..=16).filter_map(|n| bin(f64::from(n))).collect();
        assert_eq!(bins, [1, 2, 3, 4, 5, 5, 7, 7, 9, 9, 9, 12, 12, 12, 12, 16]);
        assert_eq!(bin(0.4), None);
        assert_eq!(bin(1.49), Some(1));
    }

    #[test]
    fn a_load_on_the_border_of_two_bins_is_kept_and_a_passing_one_is_not() {
        let windows = |count: usize| -> Vec<Window> {
            let window = |_| Window {
                sessions: 1.0,
                tps: 1.0,
                profile: Vec::new(),
            };
            (0..count).map(window).collect()
        };
        let bins = BTreeMap::from([
            (1, windows(3)),
            (2, windows(1)),
            (4, windows(2)),
            (5, windows(9)),
            (16, windows(2)),
            (22, windows(2)),
        ]);
        let found: Vec<usize> = merged(bins).iter().map(Vec::len).collect();
        assert_eq!(found, [3, 9, 4]);
    }

    #[test]
    fn a_concurrency_has_its_throughput_and_the_time_that_follows() {
        let window = |tps| Window {
            sessions: 4.2,
            tps,
            profile: vec![busy(4)],
        };
        let found = spot(&[window(100.0), window(300.0)]).unwrap();
        assert_eq!((found.connections, found.tps.mean), (4, 200.0));
        assert_eq!(found.latency.unwrap().mean, 20.0);
        assert_eq!(found.snapshots, 2);
    }
}
