//! What sessions wait for: average active sessions by wait event, from snapshots of `pg_stat_activity`.

use std::collections::BTreeMap;

/// What a session was doing at a snapshot.
///
/// State and wait are separate columns of `pg_stat_activity` and read at different moments
/// (<https://www.postgresql.org/docs/current/monitoring-stats.html#MONITORING-PG-STAT-ACTIVITY-VIEW>), so some
/// pairs exist only because time passed between the two: [`Race`](Class::Race).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Active without a wait: on a core, or waiting for one.
    Cpu,
    /// Waits for storage.
    Io,
    /// Waits for a lightweight lock inside of PostgreSQL.
    LwLock,
    /// Waits for a lock that a transaction holds.
    Lock,
    /// Active with any other wait, such as IPC, Timeout, or for the client to take rows.
    Other,
    /// In a transaction, waiting for its client: the server is taken and does nothing.
    ClientInTransaction,
    /// Between transactions.
    Idle,
    /// State and wait contradict each other; expected to be rare.
    Race,
}

impl Class {
    /// From the columns `state`, `wait_event_type` and `wait_event`; SQL's NULL is nothing.
    pub fn of(state: &str, wait_event_type: Option<&str>, wait_event: Option<&str>) -> Self {
        let waits_for_client = wait_event == Some("ClientRead");
        match state {
            "idle in transaction" | "idle in transaction (aborted)" => match wait_event_type {
                None => Self::Race,
                Some(_) => Self::ClientInTransaction,
            },
            "active" | "fastpath function call" => match wait_event_type {
                None => Self::Cpu,
                Some("Client") if waits_for_client => Self::Race,
                Some("IO") => Self::Io,
                Some("LWLock" | "LWLockNamed" | "LWLockTranche") => Self::LwLock,
                Some("Lock") => Self::Lock,
                Some(_) => Self::Other,
            },
            _ => Self::Idle,
        }
    }

    /// Whether the session is busy in the database.
    pub const fn is_active(self) -> bool {
        matches!(
            self,
            Self::Cpu | Self::Io | Self::LwLock | Self::Lock | Self::Other
        )
    }
}

/// How often one event was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Occurrences {
    /// Sessions in all snapshots together.
    pub count: u64,
    /// Snapshots with at least one.
    pub present_in: u64,
    /// Sum of the squares of the sessions in each snapshot, where that is known.
    pub squares: Option<u64>,
}

/// Average active sessions of one event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Sessions per snapshot, over **all** snapshots: how many sessions this event costs on average.
    pub average: f64,
    /// Its standard error.
    pub error: f64,
    /// Sessions per snapshot over those in which the event was there at all. Some publish this under the
    /// name of the first; it says how bad the event is when it comes, and must not be compared with cores.
    pub when_present: f64,
}

impl Occurrences {
    /// The average over `snapshots`; nothing if there were none.
    ///
    /// The error is that of the sessions between snapshots where the squares are known, else that of counting,
    /// √count / snapshots.
    pub fn load(&self, snapshots: u64) -> Option<Load> {
        if snapshots == 0 {
            return None;
        }
        let (count, all) = (self.count as f64, snapshots as f64);
        let average = count / all;
        let error = match self.squares {
            Some(squares) if snapshots > 1 => {
                let variance = (squares as f64 - all * average * average).max(0.0) / (all - 1.0);
                (variance / all).sqrt()
            }
            _ => count.sqrt() / all,
        };
        Some(Load {
            average,
            error,
            when_present: if self.present_in > 0 {
                count / self.present_in as f64
            } else {
                0.0
            },
        })
    }
}

/// A class and the event, such as `LWLock` and `WALWrite`.
pub type Event = (Class, String);

/// Snapshots of one phase, put together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    snapshots: u64,
    events: BTreeMap<Event, Occurrences>,
}

impl Profile {
    /// Adds one snapshot: how many sessions had which event. A snapshot without sessions counts, too.
    pub fn add(&mut self, sessions: &BTreeMap<Event, u64>) {
        self.snapshots += 1;
        for (event, count) in sessions.iter().filter(|(_, count)| **count > 0) {
            let occurrences = self.events.entry(event.clone()).or_default();
            occurrences.count += count;
            occurrences.present_in += 1;
            *occurrences.squares.get_or_insert(0) += count * count;
        }
    }

    /// How many snapshots there were.
    pub const fn snapshots(&self) -> u64 {
        self.snapshots
    }

    /// Every event with its load, the largest first.
    pub fn loads(&self) -> Vec<(Event, Load)> {
        let mut loads: Vec<(Event, Load)> = self
            .events
            .iter()
            .filter_map(|(event, occurrences)| {
                Some((event.clone(), occurrences.load(self.snapshots)?))
            })
            .collect();
        loads.sort_by(|one, other| other.1.average.total_cmp(&one.1.average));
        loads
    }

    /// Sessions of one class on average.
    pub fn class(&self, class: Class) -> f64 {
        self.average(|of| of == class)
    }

    /// Sessions that were busy in the database on average: what is compared with cores.
    pub fn active(&self) -> f64 {
        self.average(Class::is_active)
    }

    fn average(&self, is_meant: impl Fn(Class) -> bool) -> f64 {
        let count: u64 = self
            .events
            .iter()
            .filter(|((class, _), _)| is_meant(*class))
            .map(|(_, occurrences)| occurrences.count)
            .sum();
        count as f64 / (self.snapshots as f64).max(1.0)
    }

    /// Sessions that wanted a core and had none, given how many cores were busy with the database: "CPU" of a
    /// snapshot is all that is not in an instrumented wait. Not below 0.
    pub fn waiting_for_cpu(&self, cores_used: f64) -> f64 {
        (self.class(Class::Cpu) - cores_used).max(0.0)
    }
}
