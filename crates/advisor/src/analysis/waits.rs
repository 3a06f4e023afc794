//! Wait profile of sessions: average active sessions by wait event, from snapshots of `pg_stat_activity`.

use std::collections::BTreeMap;

/// Activity of a session at a snapshot.
///
/// State and wait are separate columns of `pg_stat_activity` and read at different moments
/// (<https://www.postgresql.org/docs/current/monitoring-stats.html#MONITORING-PG-STAT-ACTIVITY-VIEW>), so some
/// pairs exist only because time passed between the two: [`Race`](Class::Race).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Active without a wait event: on a core, or waiting for one.
    Cpu,
    /// Waits for storage.
    Io,
    /// Waits for a lightweight lock inside of PostgreSQL.
    LwLock,
    /// Waits for a lock that a transaction holds.
    Lock,
    /// Active with any other wait, such as IPC, Timeout, or for the client to take rows.
    Other,
    /// In a transaction and waiting for its client: the server is in use and does nothing.
    ClientInTransaction,
    /// Between transactions.
    Idle,
    /// State and wait event contradict each other; expected to be rare.
    Race,
}

impl Class {
    /// Classifies by the columns `state`, `wait_event_type` and `wait_event`; SQL's NULL is `None`.
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

    /// True if the session is busy in the database.
    pub const fn is_active(self) -> bool {
        matches!(
            self,
            Self::Cpu | Self::Io | Self::LwLock | Self::Lock | Self::Other
        )
    }
}

/// Number of occurrences of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Occurrences {
    /// Sessions in all snapshots together.
    pub count: u64,
    /// Number of snapshots with at least one such session.
    pub present_in: u64,
    /// Sum of the squares of the sessions in each snapshot, if known.
    pub squares: Option<u64>,
}

/// Average active sessions of one event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Sessions per snapshot, over **all** snapshots: the average number of sessions that this event occupies.
    pub average: f64,
    /// Standard error of the average.
    pub error: f64,
    /// Sessions per snapshot over those with the event. Some publications call this the average. It shows how bad the
    /// event is when it comes, and must not be compared with cores.
    pub when_present: f64,
}

impl Occurrences {
    /// Returns the load over `snapshots`; `None` if there were none.
    ///
    /// The error comes from the variance between snapshots if the squares are known. Otherwise it is that of counting,
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

/// Combined snapshots of one phase.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    snapshots: u64,
    events: BTreeMap<Event, Occurrences>,
}

impl Profile {
    /// Adds one snapshot: the number of sessions by event. A snapshot without sessions counts, too.
    pub fn add(&mut self, sessions: &BTreeMap<Event, u64>) {
        self.snapshots += 1;
        for (event, count) in sessions.iter().filter(|(_, count)| **count > 0) {
            let occurrences = self.events.entry(event.clone()).or_default();
            occurrences.count += count;
            occurrences.present_in += 1;
            *occurrences.squares.get_or_insert(0) += count * count;
        }
    }

    /// Number of snapshots.
    pub const fn snapshots(&self) -> u64 {
        self.snapshots
    }

    /// Returns every event with its load, the largest first.
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

    /// Average number of sessions of one class.
    pub fn class(&self, class: Class) -> f64 {
        self.average(|of| of == class)
    }

    /// Average number of sessions that were busy in the database, to be compared with cores.
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

    /// Average number of sessions that wanted a core and had none, given the number of cores busy with the database.
    /// Class "CPU" counts all active sessions without a wait event. Not below 0.
    pub fn waiting_for_cpu(&self, cores_used: f64) -> f64 {
        (self.class(Class::Cpu) - cores_used).max(0.0)
    }
}
