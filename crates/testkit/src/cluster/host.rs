//! Host of a cluster: its log, its role, and the positions in the log.

use super::{Facts, Position};

/// Position of the first entry, in bytes of WAL.
const FIRST: u64 = 0x1000;
/// Length of an entry, in bytes of WAL.
const ENTRY: u64 = 0x40;

/// Record of the log. An entry without rows shows nothing: a statement of an open transaction, or a new timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Unique in the cluster: hosts with the same last entry have the same history.
    pub(super) id: u64,
    pub(super) rows: Vec<String>,
}

impl Entry {
    pub(super) fn blank(id: u64) -> Self {
        Self {
            id,
            rows: Vec::new(),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum Role {
    Primary,
    Standby(Standby),
}

/// Positions count entries: `restart <= replayed <= log.len()`.
#[derive(Debug, Clone)]
pub(super) struct Standby {
    replayed: usize,
    /// Position from which a start replays again.
    restart: usize,
    pub(super) is_paused: bool,
    pub(super) is_broken: bool,
}

impl Standby {
    fn at(position: usize) -> Self {
        Self {
            replayed: position,
            restart: position,
            is_paused: false,
            is_broken: false,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Host {
    pub(super) role: Role,
    pub(super) is_up: bool,
    pub(super) timeline: u32,
    started: i64,
    log: Vec<Entry>,
    /// Number of durable entries; all of them on a standby.
    flushed: usize,
}

impl Host {
    pub(super) fn new(is_primary: bool) -> Self {
        Self {
            role: match is_primary {
                true => Role::Primary,
                false => Role::Standby(Standby::at(0)),
            },
            is_up: true,
            timeline: 1,
            started: 1,
            log: Vec::new(),
            flushed: 0,
        }
    }

    pub(super) fn is_standby(&self) -> bool {
        matches!(self.role, Role::Standby(_))
    }

    /// True for a standby whose receiver works.
    pub(super) fn is_receiving(&self) -> bool {
        matches!(&self.role, Role::Standby(standby) if !standby.is_broken)
    }

    /// True if another host's durable log continues this host's log.
    pub(super) fn is_prefix_of(&self, other: &Self) -> bool {
        let durable = other.log.get(..other.flushed).unwrap_or_default();
        match self.log.len().checked_sub(1) {
            None => true,
            Some(last) => durable.get(last) == self.log.last(),
        }
    }

    /// Returns the rows that queries see.
    pub(super) fn rows(&self) -> Vec<String> {
        let shown = match &self.role {
            Role::Primary => self.log.len(),
            Role::Standby(standby) => standby.replayed,
        };
        let shown = self.log.get(..shown).unwrap_or_default();
        shown.iter().flat_map(|entry| entry.rows.clone()).collect()
    }

    /// Returns the rows of the whole log.
    pub(super) fn all_rows(&self) -> Vec<String> {
        let rows = self.log.iter().flat_map(|entry| entry.rows.clone());
        rows.collect()
    }

    pub(super) fn facts(&self, streams: bool) -> Facts {
        let bytes = |entries: usize| FIRST + ENTRY * entries as u64;
        let position = match &self.role {
            Role::Primary => Position::Primary {
                flushed: bytes(self.flushed),
                inserted: bytes(self.log.len()),
            },
            Role::Standby(standby) => Position::Standby {
                received: bytes(self.log.len()),
                replayed: bytes(standby.replayed),
                streams,
                is_paused: standby.is_paused,
            },
        };
        Facts {
            timeline: self.timeline,
            started: self.started,
            position,
        }
    }

    // --- events ---

    pub(super) fn write(&mut self, entry: Entry) {
        self.log.push(entry);
    }

    /// Makes the log of a primary durable.
    pub(super) fn flush(&mut self) {
        self.flushed = self.log.len();
    }

    /// Copies up to `max` durable entries of the primary.
    pub(super) fn receive(&mut self, source: &Self, max: usize) {
        let durable = source.log.get(..source.flushed).unwrap_or_default();
        let fresh = durable.get(self.log.len()..).unwrap_or_default();
        self.log.extend(fresh.iter().take(max).cloned());
        self.timeline = source.timeline;
        self.flush();
    }

    /// Shows up to `max` more entries.
    pub(super) fn replay(&mut self, max: usize) {
        let len = self.log.len();
        if let Role::Standby(standby) = &mut self.role
            && self.is_up
            && !standby.is_paused
        {
            standby.replayed = standby.replayed.saturating_add(max).min(len);
        }
    }

    /// Makes the replayed position the one from which a start replays.
    pub(super) fn restart_here(&mut self) {
        if let Role::Standby(standby) = &mut self.role {
            standby.restart = standby.replayed;
        }
    }

    /// Ends the host. Returns the rows that were not durable.
    pub(super) fn crash(&mut self) -> Vec<String> {
        self.is_up = false;
        let lost = self.log.split_off(self.flushed.min(self.log.len()));
        lost.into_iter().flat_map(|entry| entry.rows).collect()
    }

    pub(super) fn start(&mut self, started: i64, replays_again: bool) {
        if self.is_up {
            return;
        }
        self.is_up = true;
        self.started = started;
        if let Role::Standby(standby) = &mut self.role
            && replays_again
        {
            standby.replayed = standby.restart;
        }
    }

    pub(super) fn promote(&mut self, timeline: u32, entry: Entry) {
        self.role = Role::Primary;
        self.timeline = timeline;
        self.log.push(entry);
        self.flush();
    }

    pub(super) fn follow(&mut self, source: &Self, rewinds: bool) {
        if rewinds {
            let durable = source.log.get(..source.flushed).unwrap_or_default();
            self.log = durable.to_vec();
            self.timeline = source.timeline;
        }
        self.flush();
        self.role = Role::Standby(Standby::at(self.log.len()));
    }
}
