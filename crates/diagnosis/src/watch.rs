//! Watch over the snapshots: which conditions hold, what has happened, and the figures of the last day.
//!
//! A condition begins after a number of samples in a row and ends after 30 samples without it. Samples count, not
//! seconds: a sample that is missing is neither presence nor absence. After a gap of more than ten seconds, or a clock
//! that was set back, rows of samples begin anew: conditions that hold go on, others have to show themselves again.

use std::collections::BTreeMap;

use weir_stats::{ConditionRow, EventKind, EventRow, Severity, Snapshot};

use crate::conditions::{CONDITIONS, Condition, Finding};
use crate::events::{Earlier, Events};
use crate::facts::Facts;
use crate::history::{History, Series};
use crate::pace::Step;
use crate::peaks::Peaks;
use crate::windows::Windows;

/// Samples of absence after which a condition ends.
const ABSENCE_SAMPLES: u32 = 30;
/// Scopes per condition that are kept, at most.
pub(crate) const FINDINGS_MAX: usize = 100;

/// Condition that began or ended with a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Began, with the first evidence and advice.
    Began(ConditionRow),
    /// Ended, after this number of seconds; evidence and advice are the last ones.
    Ended(ConditionRow, u64),
}

/// Diagnosis of a process, fed with one snapshot a second.
///
/// Commands: [`observe`](Self::observe) adds a snapshot, [`push_event`](Self::push_event) an event. All others are
/// getters.
#[derive(Debug, Default)]
pub struct Watch {
    before: Option<i64>,
    /// Seconds that have passed, without the leaps of a clock that was set.
    lived: u64,
    windows: Windows,
    peaks: Peaks,
    states: BTreeMap<(usize, String), State>,
    events: Events,
    earlier: Earlier,
    history: History,
}

impl Watch {
    /// Creates a watch that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a snapshot and returns the conditions that begin or end with it.
    ///
    /// Snapshots come once a second; their time is [`Snapshot::unix`]. If the workers did not answer, there is no
    /// snapshot to add. Clients, servers and digests are not read: a snapshot may leave them out.
    pub fn observe(&mut self, snapshot: &Snapshot) -> Vec<Change> {
        let step = Step::between(self.before, snapshot.unix);
        self.before = Some(snapshot.unix);
        self.lived += step.seconds();
        self.windows.sample(snapshot, step);
        self.peaks.sample(snapshot, step);
        self.history.sample(snapshot, &self.windows, step);
        self.earlier.compare(snapshot, &mut self.events);
        if !step.is_continuous() {
            self.states.values_mut().for_each(State::interrupt);
        }
        let found = find(&Facts::new(snapshot, &self.windows, &self.peaks));
        let changes = self.judge(found, snapshot.unix);
        for change in &changes {
            self.events.push(event(change, snapshot.unix));
        }
        changes
    }

    /// Conditions that hold, worst first, then oldest first.
    #[must_use]
    pub fn conditions(&self) -> Vec<ConditionRow> {
        let rows = self.states.iter().filter_map(|((index, scope), state)| {
            let condition = CONDITIONS.get(*index)?;
            state.is_held.then(|| state.row(condition, scope))
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|a, b| (b.severity.cmp(&a.severity)).then(a.since.cmp(&b.since)));
        rows
    }

    /// Highest severity of the conditions that hold.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        let held = self.states.values().filter(|state| state.is_held);
        held.map(|state| state.finding.severity).max()
    }

    /// Adds an event that no snapshot shows, such as an order of an administrator.
    pub fn push_event(&mut self, event: EventRow) {
        self.events.push(event);
    }

    /// The latest 500 events, newest first.
    pub fn events(&self) -> impl Iterator<Item = &EventRow> {
        self.events.rows()
    }

    /// Peaks of limits and of waiting clients.
    #[must_use]
    pub fn peaks(&self) -> &Peaks {
        &self.peaks
    }

    /// Returns the series of a pool (`database/user`) or, with an empty scope, of the process, for the last
    /// `window_seconds`: up to an hour from the ring of seconds, else up to a day from the ring of 30 seconds. Series are
    /// reduced to at most `points_max` points. None if nothing is kept of the pool.
    #[must_use]
    pub fn series(&self, scope: &str, window_seconds: u32, points_max: usize) -> Option<Series> {
        self.history.series(scope, window_seconds, points_max)
    }

    /// Scopes of the pools with series, in no order.
    pub fn series_scopes(&self) -> impl Iterator<Item = &str> {
        self.history.scopes()
    }

    /// Moves the states on by a sample.
    fn judge(&mut self, found: Vec<(usize, Finding)>, unix: i64) -> Vec<Change> {
        for state in self.states.values_mut() {
            state.presence = Presence::Absent;
        }
        let mut kept: BTreeMap<usize, usize> = BTreeMap::new();
        for (index, _) in self.states.keys() {
            *kept.entry(*index).or_default() += 1;
        }
        for (index, finding) in found {
            let key = (index, finding.scope.clone());
            if let Some(state) = self.states.get_mut(&key) {
                state.find(finding, unix);
                continue;
            }
            let kept = kept.entry(index).or_default();
            if *kept < FINDINGS_MAX {
                *kept += 1;
                self.states
                    .insert(key, State::new(finding, unix, self.lived));
            }
        }
        self.suppress();
        let mut changes = Vec::new();
        let lived = self.lived;
        for ((index, scope), state) in &mut self.states {
            if let Some(condition) = CONDITIONS.get(*index) {
                changes.extend(state.advance(condition, scope, lived));
            }
        }
        self.end_suppressed(&mut changes);
        self.states
            .retain(|_, state| state.is_held || state.run > 0);
        changes
    }

    /// Marks findings that a more specific one on the same object explains.
    fn suppress(&mut self) {
        for key in self.suppressed_by(|state| state.presence == Presence::Present) {
            if let Some(state) = self.states.get_mut(&key)
                && state.presence == Presence::Present
            {
                state.presence = Presence::Suppressed;
            }
        }
    }

    /// Ends conditions that a more specific one which holds explains.
    fn end_suppressed(&mut self, changes: &mut Vec<Change>) {
        for key in self.suppressed_by(|state| state.is_held) {
            let Some(condition) = CONDITIONS.get(key.0) else {
                continue;
            };
            if let Some(state) = self.states.get_mut(&key).filter(|state| state.is_held) {
                changes.push(state.end(condition, &key.1, self.lived));
            }
        }
    }

    /// Keys of the states that others, for which `is_cause` is true, explain.
    fn suppressed_by(&self, is_cause: impl Fn(&State) -> bool) -> Vec<(usize, String)> {
        let causes = self.states.iter().filter(|(_, state)| is_cause(state));
        let mut keys = Vec::new();
        for ((index, scope), _) in causes {
            let names = CONDITIONS.get(*index).map_or(&[][..], |by| by.explains);
            for name in names {
                let index = CONDITIONS.iter().position(|other| other.name == *name);
                keys.extend(index.map(|index| (index, scope.clone())));
            }
        }
        keys
    }
}

/// Findings of all conditions, with the index of each.
fn find(facts: &Facts<'_>) -> Vec<(usize, Finding)> {
    let mut found = Vec::new();
    for (index, condition) in CONDITIONS.iter().enumerate() {
        let findings = (condition.find)(facts);
        found.extend(findings.into_iter().map(|finding| (index, finding)));
    }
    found
}

fn event(change: &Change, at: i64) -> EventRow {
    let on = |row: &ConditionRow| match row.scope.as_str() {
        "" => row.condition.to_owned(),
        scope => format!("{} on {scope}", row.condition),
    };
    let (kind, text) = match change {
        Change::Began(row) => (EventKind::Began, format!("{}: {}", on(row), row.evidence)),
        Change::Ended(row, seconds) => {
            let lasted = crate::text::seconds(*seconds);
            (EventKind::Ended, format!("{} after {lasted}", on(row)))
        }
    };
    EventRow { at, kind, text }
}

/// Presence of a condition in a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Present,
    /// A more specific condition explains it: neither present nor absent.
    Suppressed,
    Absent,
}

/// State of one condition on one object.
#[derive(Debug)]
struct State {
    finding: Finding,
    presence: Presence,
    /// Samples in a row with the condition, while it does not hold.
    run: u32,
    /// Samples in a row without it, while it holds.
    absent: u32,
    is_held: bool,
    /// Time of the first sample of the row, in Unix seconds, and in seconds lived.
    since: i64,
    since_lived: u64,
}

impl State {
    fn new(finding: Finding, since: i64, since_lived: u64) -> Self {
        Self {
            finding,
            presence: Presence::Present,
            run: 0,
            absent: 0,
            is_held: false,
            since,
            since_lived,
        }
    }

    fn find(&mut self, finding: Finding, unix: i64) {
        self.finding = finding;
        self.presence = Presence::Present;
        if self.run == 0 && !self.is_held {
            self.since = unix;
        }
    }

    /// A gap: rows of samples begin anew. A condition that does not hold is forgotten.
    fn interrupt(&mut self) {
        self.run = 0;
        self.absent = 0;
    }

    fn advance(&mut self, condition: &Condition, scope: &str, lived: u64) -> Option<Change> {
        match (self.is_held, self.presence) {
            (_, Presence::Suppressed) => None,
            (true, Presence::Present) => {
                self.absent = 0;
                None
            }
            (true, Presence::Absent) => {
                self.absent += 1;
                (self.absent >= ABSENCE_SAMPLES).then(|| self.end(condition, scope, lived))
            }
            (false, Presence::Absent) => {
                self.run = 0;
                None
            }
            (false, Presence::Present) => {
                if self.run == 0 {
                    self.since_lived = lived;
                }
                self.run += 1;
                if self.run < condition.sustain {
                    return None;
                }
                self.is_held = true;
                self.absent = 0;
                Some(Change::Began(self.row(condition, scope)))
            }
        }
    }

    fn end(&mut self, condition: &Condition, scope: &str, lived: u64) -> Change {
        self.is_held = false;
        self.run = 0;
        let lasted = lived.saturating_sub(self.since_lived);
        Change::Ended(self.row(condition, scope), lasted)
    }

    fn row(&self, condition: &Condition, scope: &str) -> ConditionRow {
        ConditionRow {
            condition: condition.name,
            severity: self.finding.severity,
            scope: scope.to_owned(),
            since: self.since,
            evidence: self.finding.evidence.clone(),
            advice: self.finding.advice.clone(),
            command: self.finding.command.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
