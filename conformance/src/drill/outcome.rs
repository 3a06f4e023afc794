//! Outcome of a drill: its figures, and the parts of the guarantee that were broken.

use std::collections::BTreeMap;
use std::time::Duration;
use std::time::Instant;

use super::Disturbs;
use super::Drill;
use super::Options;
use super::Subject;
use super::Window;
use super::ledger::Audit;
use super::ledger::CLOSED;
use super::ledger::Fate;
use super::ledger::Place;
use super::ledger::Record;

/// Longest time that may be added to the cluster's own gap.
const ADDED_MAX: Duration = Duration::from_millis(200);
/// Longest time for which Weir keeps a name's former address (`dns_max_ttl`).
const NAME_AGE_MAX: Duration = Duration::from_secs(1);
/// SQLSTATE of a server whose disk is full.
const DISK_FULL: &str = "53100";
/// Longest time from a request to its answer, or of a login, beyond the cluster's own gap.
const WAIT_ADDED_MAX: Duration = Duration::from_secs(10);
/// Longest gap between two reads of clients that only read.
const READ_GAP_MAX: Duration = Duration::from_millis(500);

/// Measurements and observations of a run.
pub(super) struct Facts {
    pub(super) drill: &'static Drill,
    pub(super) options: Options,
    /// Time of the load.
    pub(super) time: Duration,
    pub(super) begin: Instant,
    pub(super) windows: Vec<Window>,
    pub(super) record: Record,
    /// Times of direct writes.
    pub(super) own: Vec<Instant>,
    pub(super) audit: Audit,
    /// Error of the subject's processes, or in their logs.
    pub(super) health: Result<(), String>,
    pub(super) log: String,
}

/// Gaps of one event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gaps {
    pub(super) writes: Duration,
    pub(super) reads: Duration,
    /// Gap of direct writes to whichever host is the primary.
    pub(super) own: Duration,
    /// Time without a Weir.
    pub(super) outage: Duration,
}

/// Outcome of a drill.
#[derive(Debug)]
pub struct Outcome {
    pub(super) drill: &'static Drill,
    pub(super) options: Options,
    pub(super) time: Duration,
    pub(super) begin: Instant,
    pub(super) gaps: Vec<Gaps>,
    pub(super) record: Record,
    pub(super) audit: Audit,
    pub(super) broken: Vec<String>,
    log: String,
}

impl Outcome {
    pub(super) fn new(facts: Facts) -> Self {
        let Facts {
            mut record,
            mut own,
            ..
        } = facts;
        for times in [&mut record.writes, &mut record.reads, &mut own] {
            times.sort_unstable();
        }
        let gaps = facts.windows.iter().map(|window| Gaps {
            writes: longest_gap(&record.writes, *window),
            reads: longest_gap(&record.reads, *window),
            own: longest_gap(&own, *window),
            outage: window.outage,
        });
        let mut outcome = Self {
            gaps: gaps.collect(),
            drill: facts.drill,
            options: facts.options,
            time: facts.time,
            begin: facts.begin,
            record,
            audit: facts.audit,
            broken: Vec::new(),
            log: facts.log,
        };
        outcome.judge(facts.health);
        outcome
    }

    /// Program between the clients and the cluster.
    #[must_use]
    pub fn subject(&self) -> Subject {
        self.options.subject
    }

    /// True if the guarantee held.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.broken.is_empty()
    }

    /// Log of the subject.
    #[must_use]
    pub fn log(&self) -> &str {
        &self.log
    }

    /// Errors outside of transactions, or those inside, by place and code.
    pub(super) fn errors(&self, inside: bool) -> BTreeMap<(Place, &str), u64> {
        let errors = self.record.errors.iter();
        let chosen = errors.filter(|((place, _), _)| is_inside(*place) == inside);
        let pairs = chosen.map(|((place, code), errors)| ((*place, code.as_str()), errors.count));
        pairs.collect()
    }

    fn judge(&mut self, health: Result<(), String>) {
        let mut broken = Vec::new();
        broken.extend(health.err());
        if self.options.is_timed {
            broken.extend(self.broken_gaps());
            broken.extend(self.broken_waits());
        }
        broken.extend(self.broken_errors());
        broken.extend(self.broken_ledger());
        self.broken = broken;
    }

    fn broken_gaps(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (round, gaps) in self.gaps.iter().enumerate() {
            let round = round + 1;
            let added = gaps.writes.saturating_sub(gaps.own);
            if added > self.added_max() + gaps.outage {
                broken.push(format!(
                    "event {round}: no write for {:.2?}, {added:.2?} longer than direct",
                    gaps.writes
                ));
            }
            if gaps.reads > self.read_gap_max(*gaps) {
                broken.push(format!("event {round}: no read for {:.2?}", gaps.reads));
            }
        }
        broken
    }

    fn broken_waits(&self) -> Vec<String> {
        let own = self.gaps.iter().map(|gaps| gaps.own).max();
        let most = own.unwrap_or_default() + WAIT_ADDED_MAX;
        let waits = [
            ("request", self.record.longest),
            ("login", self.record.longest_login),
        ];
        let broken = waits.iter().filter(|(_, wait)| *wait > most);
        broken
            .map(|(what, wait)| format!("a {what} took {wait:.2?}, more than {most:.2?}"))
            .collect()
    }

    /// Longest permitted time that is added to the cluster's own gap.
    fn added_max(&self) -> Duration {
        match self.drill.disturbs {
            Disturbs::Primary | Disturbs::Replicas | Disturbs::Weir | Disturbs::Disk => ADDED_MAX,
            Disturbs::Name => ADDED_MAX + NAME_AGE_MAX,
        }
    }

    /// Longest permitted gap between two reads. A new Weir knows neither the state of the replicas nor the parameters
    /// that a login is answered with: until it has found the primary, it serves nobody.
    fn read_gap_max(&self, gaps: Gaps) -> Duration {
        match self.drill.disturbs {
            Disturbs::Primary | Disturbs::Replicas | Disturbs::Disk => READ_GAP_MAX,
            Disturbs::Weir | Disturbs::Name => {
                READ_GAP_MAX.max(gaps.own + self.added_max() + gaps.outage)
            }
        }
    }

    fn broken_errors(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let mut permitted = 0;
        for ((place, code), errors) in &self.record.errors {
            if is_permitted(self.drill.disturbs, *place, code) {
                // A client tries its login until there is a Weir.
                permitted += if *place == Place::Login {
                    0
                } else {
                    errors.count
                };
            } else {
                broken.push(format!("{place}: {} failed with {code}", errors.count));
            }
        }
        let events = u64::from(self.options.rounds);
        let each = match self.drill.disturbs {
            Disturbs::Weir => 2,
            _ => 1,
        };
        if permitted > each * u64::from(self.options.clients) * events {
            broken.push(format!(
                "{permitted} requests in flight failed, more than {each} for each client and event"
            ));
        }
        broken
    }

    fn broken_ledger(&self) -> Vec<String> {
        let Audit {
            lost,
            doubled,
            ghosts,
            foreign,
            ..
        } = self.audit;
        let counts = [
            (lost, "acknowledged rows are lost"),
            (doubled, "rows are there twice"),
            (ghosts, "refused rows are there"),
            (foreign, "rows are of no client"),
            (
                self.record.stale.len(),
                "reads did not show the session's last row once",
            ),
        ];
        let broken = counts.iter().filter(|(count, _)| *count > 0);
        broken
            .map(|(count, what)| format!("{count} {what}"))
            .collect()
    }

    /// Number of rows of unknown fate.
    pub(super) fn unknown(&self) -> usize {
        self.record.count(Fate::Unknown)
    }
}

fn is_inside(place: Place) -> bool {
    matches!(place, Place::Inside | Place::Commit)
}

/// True if a request in flight may fail in this way.
fn is_permitted(disturbs: Disturbs, place: Place, code: &str) -> bool {
    match (disturbs, place) {
        (Disturbs::Weir, _) if code == CLOSED => true,
        (_, Place::Login | Place::Read | Place::Begin) => false,
        (Disturbs::Disk, Place::Inside | Place::Write | Place::Commit) if code == DISK_FULL => true,
        (_, Place::Inside) => is_lost(code) || code == "40001",
        (Disturbs::Replicas, Place::Write | Place::Commit) => false,
        (_, Place::Write | Place::Commit) => is_lost(code) || matches!(code, "08007" | "40003"),
    }
}

/// True if a code says that a request was lost with its server, and left nothing behind.
fn is_lost(code: &str) -> bool {
    matches!(code, "08006" | "57P01" | "57P02")
}

/// Guarantee of a drill, in words: what [`Outcome`] checks.
#[must_use]
pub(super) fn guarantee(drill: &Drill) -> String {
    let lost = match drill.disturbs {
        Disturbs::Primary | Disturbs::Replicas => "",
        Disturbs::Disk => " They may also fail with the server's own 53100.",
        Disturbs::Name => " Reads may pause as long as writes, and both by dns_max_ttl longer.",
        Disturbs::Weir => {
            " Beside that, each client loses its connection at most once for each event, and logins are refused while no Weir \
             runs. This time is added to the permitted pause of writes, and reads may pause for as long as writes: a new Weir serves \
             nobody until it knows the primary."
        }
    };
    let in_flight = match drill.disturbs {
        Disturbs::Primary | Disturbs::Weir | Disturbs::Name | Disturbs::Disk => {
            "Of the requests in flight at the primary, at most one for each client and event fails: an autocommitted write \
             with 08006, 08007, 40003, 57P01 or 57P02, a COMMIT with 08006, 08007, 40003, 57P01 or 57P02, another statement of a \
             transaction with 08006, 40001, 57P01 or 57P02."
        }
        Disturbs::Replicas => {
            "No write and no COMMIT fails. At most one statement for each client and event fails, inside a READ ONLY \
             transaction on a replica, with 08006, 40001, 57P01 or 57P02."
        }
    };
    format!(
        "No login, read or BEGIN fails. {in_flight}{lost} Each acknowledged row is there once, no refused row is there, and a session \
         reads its own commits. Writes pause at most {} ms longer than direct ones, reads at most {} ms. No request and no login takes longer than the \
         pause of direct writes and {} s.",
        ADDED_MAX.as_millis(),
        READ_GAP_MAX.as_millis(),
        WAIT_ADDED_MAX.as_secs()
    )
}

/// Longest time without an event in a window; `times` are sorted.
fn longest_gap(times: &[Instant], window: Window) -> Duration {
    let first = times.partition_point(|time| *time < window.begin);
    let last = times.partition_point(|time| *time <= window.end);
    let inside = times.get(first..last).unwrap_or_default();
    let mut before = window.begin;
    let mut longest = Duration::ZERO;
    for time in inside.iter().chain([&window.end]) {
        longest = longest.max(*time - before);
        before = *time;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    #[test]
    fn a_gap_may_be_at_the_edge_of_its_window() {
        let begin = now();
        let at = |ms: &u64| begin + Duration::from_millis(*ms);
        let window = Window {
            begin: at(&100),
            end: at(&200),
            outage: Duration::ZERO,
        };
        let gap = |times: &[u64]| {
            let times: Vec<Instant> = times.iter().map(at).collect();
            longest_gap(&times, window).as_millis()
        };
        assert_eq!(gap(&[]), 100);
        assert_eq!(gap(&[50, 110, 150, 170, 190, 500]), 40);
        assert_eq!(gap(&[110, 120]), 80);
        assert_eq!(gap(&[160, 190]), 60);
    }

    #[test]
    fn a_commit_of_unknown_outcome_must_not_look_like_one_to_repeat() {
        assert!(is_permitted(Disturbs::Primary, Place::Commit, "08007"));
        assert!(!is_permitted(Disturbs::Primary, Place::Commit, "40001"));
        assert!(!is_permitted(Disturbs::Replicas, Place::Commit, "08007"));
        assert!(!is_permitted(Disturbs::Primary, Place::Read, "08006"));
        assert!(!is_permitted(Disturbs::Weir, Place::Commit, "40001"));
    }
}
