//! Thread that looks at the figures once a second: conditions, events, and the history.
//!
//! It asks the workers for the figures that cost them least ([`Detail::Watch`]) and leaves what it finds for the console,
//! the metrics page and the log, so that these cannot differ.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use std::{io, thread};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use weir_diagnosis::{Change, Series, Watch};
use weir_stats::{ConditionRow, EventKind, EventRow, Peak, Severity, Snapshot};

use crate::global::{Global, lock};
use crate::inspect::Detail;
use crate::monitor::collect;

/// Maximum number of points of a line of the history: an hour of seconds, or a day of half minutes.
const POINTS_MAX: usize = 3_600;
/// Interval between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Findings, for whoever shows them.
#[derive(Default)]
pub(crate) struct Diagnosing {
    watch: Mutex<Watch>,
    /// Ends the thread when it is dropped.
    stop: OnceLock<Mutex<Option<Sender<()>>>>,
}

impl Diagnosing {
    /// Starts the thread.
    pub(crate) fn start(global: &Arc<Global>) -> io::Result<()> {
        let (stop, stopped) = bounded(0);
        // The only place that sets it.
        let _ = global.diagnosing.stop.set(Mutex::new(Some(stop)));
        let global = Arc::clone(global);
        thread::Builder::new()
            .name("weir-diagnosis".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    global.diagnosing.look(&global);
                }
            })?;
        Ok(())
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        if let Some(stop) = self.stop.get() {
            drop(lock(stop).take());
        }
    }

    /// Notes an event.
    pub(crate) fn note(&self, at: i64, kind: EventKind, text: String) {
        lock(&self.watch).push_event(EventRow { at, kind, text });
    }

    /// Adds conditions, events, and the peaks of its limits to a snapshot.
    pub(crate) fn show(&self, snapshot: &mut Snapshot) {
        let watch = lock(&self.watch);
        snapshot.conditions = watch.conditions();
        snapshot.events = watch.events().cloned().collect();
        for limit in &mut snapshot.limits {
            let peak = watch.peaks().limit(limit.name, &limit.scope);
            limit.peak = peak.map(|peak| Peak {
                used: peak.ever.used,
                at: peak.ever.at,
                used_in_hour: peak.hour.used,
            });
        }
    }

    /// Returns a part of the history.
    pub(crate) fn series(&self, scope: &str, seconds: u32) -> Option<Series> {
        lock(&self.watch).series(scope, seconds, POINTS_MAX)
    }

    /// Looks once. Without an answer of every worker there are no figures: the next look comes in a second.
    fn look(&self, global: &Global) {
        let Ok(snapshot) = collect(global, Detail::Watch) else {
            return;
        };
        let changes = lock(&self.watch).observe(&snapshot);
        changes.iter().for_each(log);
    }
}

/// Writes the begin or the end of a condition into the log.
fn log(change: &Change) {
    match change {
        Change::Began(row) => {
            let line = began(row);
            match row.severity {
                Severity::Critical => tracing::error!("{line}"),
                Severity::Warning => tracing::warn!("{line}"),
                Severity::Info => tracing::info!("{line}"),
            }
        }
        Change::Ended(row, seconds) => {
            tracing::info!("{}{} ended after {seconds} s", row.condition, of(row));
        }
    }
}

fn began(row: &ConditionRow) -> String {
    format!(
        "{}{}: {} {}",
        row.condition,
        of(row),
        row.evidence,
        row.advice
    )
}

/// Returns the scope of a condition for a sentence.
fn of(row: &ConditionRow) -> String {
    match row.scope.as_str() {
        "" => String::new(),
        scope => format!(" ({scope})"),
    }
}
