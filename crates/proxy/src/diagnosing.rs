//! Thread that looks at the figures once a second: conditions, events, and the history.
//!
//! The workers are asked for the figures that cost them least ([`Detail::Watch`]). Console, metrics page, dashboard and log
//! show the findings of the same look, so that they cannot differ.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use std::{io, thread};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use weir_diagnosis::{Change, Series, Watch};
use weir_stats::{ConditionRow, EventKind, EventRow, LimitRow, Peak, Severity, Snapshot};

use crate::global::{Global, lock};
use crate::inspect::Detail;
use crate::monitor::collect;

/// Maximum number of points of a line of the history: an hour of seconds, or a day of half minutes.
const POINTS_MAX: usize = 3_600;
/// Interval between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Looks without an answer of every worker after which the log says so.
const SILENT_LOOKS: u32 = 10;
/// Maximum number of events that wait for the next look, as many as are kept.
const NOTED_MAX: usize = 500;

/// Findings, for whoever shows them. Workers take the locks of `noted` and `shown`, which are held for a moment only; the
/// watch is locked while it looks.
#[derive(Default)]
pub(crate) struct Diagnosing {
    watch: Mutex<Watch>,
    /// Events since the last look.
    noted: Mutex<Vec<EventRow>>,
    /// Findings of the last look.
    shown: Mutex<Arc<Shown>>,
    /// Ends the thread when it is dropped.
    stop: OnceLock<Mutex<Option<Sender<()>>>>,
}

/// Findings of a look.
#[derive(Debug, Default)]
struct Shown {
    conditions: Vec<ConditionRow>,
    events: Vec<EventRow>,
    /// Peaks of limits by name and scope.
    peaks: HashMap<(&'static str, String), Peak>,
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
                let mut silent = 0;
                while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    global.diagnosing.look(&global, &mut silent);
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
        let mut noted = lock(&self.noted);
        if noted.len() < NOTED_MAX {
            noted.push(EventRow { at, kind, text });
        }
    }

    /// Adds conditions, events, and the peaks of its limits to a snapshot.
    pub(crate) fn show(&self, snapshot: &mut Snapshot) {
        let noted = lock(&self.noted);
        let shown = Arc::clone(&lock(&self.shown));
        snapshot.events = noted.iter().rev().chain(&shown.events).cloned().collect();
        drop(noted);
        snapshot.conditions.clone_from(&shown.conditions);
        for limit in &mut snapshot.limits {
            let key = (limit.name, limit.scope.clone());
            limit.peak = shown.peaks.get(&key).copied();
        }
    }

    /// Returns a part of the history. For threads that serve no client: the watch may be busy.
    pub(crate) fn series(&self, scope: &str, seconds: u32) -> Option<Series> {
        lock(&self.watch).series(scope, seconds, POINTS_MAX)
    }

    /// Looks once. Without an answer of every worker there are no figures; after several such looks in a row, `silent` of
    /// them, the log tells it.
    fn look(&self, global: &Global, silent: &mut u32) {
        let figures = collect(global, Detail::Watch);
        match &figures {
            Ok(_) => *silent = 0,
            Err(why) => {
                *silent = silent.saturating_add(1);
                if *silent == SILENT_LOOKS {
                    tracing::error!(
                        "diagnosis: no figures for {SILENT_LOOKS} looks in a row: {why}"
                    );
                    global.note(EventKind::Process, format!("no figures to diagnose: {why}"));
                }
            }
        }
        let mut watch = lock(&self.watch);
        let noted = lock(&self.noted).clone();
        let count = noted.len();
        noted.into_iter().for_each(|event| watch.push_event(event));
        let changes = match &figures {
            Ok(snapshot) => watch.observe(snapshot),
            Err(_) => Vec::new(),
        };
        let limits = figures.as_ref().map(|snapshot| &*snapshot.limits);
        let shown = Arc::new(Shown::of(&watch, limits.unwrap_or_default()));
        drop(watch);
        self.publish(shown, count);
        changes.iter().for_each(log);
    }

    /// Shows findings that contain the first `count` events that have waited. Both change at once, so that nobody sees an
    /// event twice or misses it.
    fn publish(&self, shown: Arc<Shown>, count: usize) {
        let mut noted = lock(&self.noted);
        let count = count.min(noted.len());
        noted.drain(..count);
        *lock(&self.shown) = shown;
    }
}

impl Shown {
    fn of(watch: &Watch, limits: &[LimitRow]) -> Self {
        let peaks = limits.iter().filter_map(|limit| {
            let peak = watch.peaks().limit(limit.name, &limit.scope)?;
            let peak = Peak {
                used: peak.ever.used,
                at: peak.ever.at,
                used_in_hour: peak.hour.used,
            };
            Some(((limit.name, limit.scope.clone()), peak))
        });
        Self {
            conditions: watch.conditions(),
            events: watch.events().cloned().collect(),
            peaks: peaks.collect(),
        }
    }
}

/// Writes the begin or the end of a condition into the log.
fn log(change: &Change) {
    match change {
        Change::Began(row) => {
            let line = harmless(&began(row));
            match row.severity {
                Severity::Critical => tracing::error!("{line}"),
                Severity::Warning => tracing::warn!("{line}"),
                Severity::Info => tracing::info!("{line}"),
            }
        }
        Change::Ended(row, seconds) => {
            let line = format!("{}{} ended after {seconds} s", row.condition, of(row));
            tracing::info!("{}", harmless(&line));
        }
    }
}

/// Replaces what would begin another line of the log, or move a terminal: names and texts come from outside.
fn harmless(line: &str) -> String {
    let sign = |sign: char| if sign.is_control() { ' ' } else { sign };
    line.chars().map(sign).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(diagnosing: &Diagnosing) -> Vec<String> {
        let mut snapshot = Snapshot::default();
        diagnosing.show(&mut snapshot);
        snapshot
            .events
            .into_iter()
            .map(|event| event.text)
            .collect()
    }

    #[test]
    fn an_event_is_shown_at_once_and_once() {
        let diagnosing = Diagnosing::default();
        let note = |text: &str| diagnosing.note(7, EventKind::Order, text.to_owned());
        note("one");
        note("two");
        assert_eq!(texts(&diagnosing), ["two", "one"]);
        let mut watch = Watch::new();
        for event in lock(&diagnosing.noted).clone() {
            watch.push_event(event);
        }
        // Comes while the watch looks.
        note("three");
        diagnosing.publish(Arc::new(Shown::of(&watch, &[])), 2);
        assert_eq!(texts(&diagnosing), ["three", "two", "one"]);
    }

    #[test]
    fn events_that_wait_are_bounded() {
        let diagnosing = Diagnosing::default();
        for number in 0..2 * NOTED_MAX {
            diagnosing.note(7, EventKind::Order, number.to_string());
        }
        assert_eq!(texts(&diagnosing).len(), NOTED_MAX);
    }

    #[test]
    fn names_of_clients_begin_no_line_of_the_log() {
        let row = ConditionRow {
            condition: "long_transaction",
            severity: Severity::Warning,
            scope: "shop/ann".to_owned(),
            since: 0,
            evidence: "client of evil\n2026-11-27 ERROR all is lost".to_owned(),
            advice: "End it.\u{1b}[2J".to_owned(),
            command: String::new(),
        };
        let line = harmless(&began(&row));
        assert!(!line.contains(char::is_control), "{line:?}");
    }
}
