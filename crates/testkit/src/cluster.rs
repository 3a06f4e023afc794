//! Hosts of one database: a primary and standbys, each with its own log of commits.
//!
//! A standby shows its log up to the position that it has replayed. Nothing moves by itself: a simulation replicates,
//! crashes, starts and promotes hosts. [`Site`] is the view of one session, for [`crate::backend::Backend::open_at`].

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cuts::Dice;

mod host;

use host::{Entry, Host, Role};

/// A cluster; clones refer to the same one.
#[derive(Debug, Clone)]
pub struct Cluster(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    hosts: Vec<Host>,
    /// Number of entries that were written, on all hosts.
    entries: u64,
    starts: i64,
    timelines: u32,
    /// Rows that are not in the history of the newest primary.
    lost: BTreeSet<String>,
    deeds: Vec<Deed>,
}

/// Statement that a host has executed for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deed {
    /// Index of the host.
    pub host: usize,
    /// Process number of the session.
    pub process: u32,
    /// Text constant of the statement, which identifies it.
    pub tag: String,
    /// True if the statement writes.
    pub writes: bool,
}

/// Facts that a host tells about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Timeline.
    pub timeline: u32,
    /// Number of the host's start.
    pub started: i64,
    /// Role and positions.
    pub position: Position,
}

/// Role and positions of a host, in bytes of WAL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// The host takes writes.
    Primary {
        /// End of the durable WAL.
        flushed: u64,
        /// End of the written WAL.
        inserted: u64,
    },
    /// The host is in recovery.
    Standby {
        /// End of the received WAL.
        received: u64,
        /// End of the replayed WAL.
        replayed: u64,
        /// True if the host receives WAL from a primary.
        streams: bool,
        /// True if replay is paused.
        is_paused: bool,
    },
}

impl Cluster {
    /// Creates a cluster whose first host is the primary.
    #[must_use]
    pub fn new(hosts: usize) -> Self {
        let host = |index| Host::new(index == 0);
        Self(Arc::new(Mutex::new(State {
            hosts: (0..hosts).map(host).collect(),
            entries: 0,
            starts: 1,
            timelines: 1,
            lost: BTreeSet::new(),
            deeds: Vec::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of hosts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state().hosts.len()
    }

    /// True without hosts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the view of a new session on a host.
    #[must_use]
    pub fn site(&self, host: usize) -> Site {
        Site {
            cluster: self.clone(),
            host,
        }
    }

    /// True if the host accepts sessions.
    #[must_use]
    pub fn is_up(&self, host: usize) -> bool {
        self.state().host(host).is_up
    }

    /// True if the host is in recovery.
    #[must_use]
    pub fn is_standby(&self, host: usize) -> bool {
        self.state().host(host).is_standby()
    }

    /// Returns the host that became the primary last.
    #[must_use]
    pub fn leader(&self) -> usize {
        self.state().leader()
    }

    /// Returns the facts that a probe of the host reads.
    #[must_use]
    pub fn facts(&self, host: usize) -> Facts {
        let state = self.state();
        state.host(host).facts(state.can_stream(host))
    }

    /// True if a failover or a crash has lost this row.
    #[must_use]
    pub fn is_lost(&self, row: &str) -> bool {
        self.state().lost.contains(row)
    }

    /// True if the newest primary has committed this row.
    #[must_use]
    pub fn has(&self, row: &str) -> bool {
        let state = self.state();
        let rows = state.host(state.leader()).rows();
        rows.into_iter().any(|known| known == row)
    }

    /// Returns the statements that were executed since the last call.
    #[must_use]
    pub fn take_deeds(&self) -> Vec<Deed> {
        std::mem::take(&mut self.state().deeds)
    }

    // --- events ---

    /// Makes a primary write its WAL to disk, and standbys receive and replay some of theirs.
    pub fn replicate(&self, dice: &mut Dice) {
        let mut state = self.state();
        for host in 0..state.hosts.len() {
            state.replicate(host, dice);
        }
    }

    /// Makes all standbys that stream replay everything, unless replay is paused.
    pub fn catch_up(&self) {
        let mut state = self.state();
        for host in 0..state.hosts.len() {
            state.receive(host, usize::MAX);
            state.host_mut(host).replay(usize::MAX);
        }
    }

    /// Ends a host with all its sessions. WAL that was not flushed is lost.
    pub fn crash(&self, host: usize) {
        let mut state = self.state();
        let lost = state.host_mut(host).crash();
        if state.leader() == host {
            state.lost.extend(lost);
        }
    }

    /// Starts a host in its former role. A standby may have to replay WAL again.
    pub fn start(&self, host: usize, replays_again: bool) {
        let mut state = self.state();
        state.starts += 1;
        let started = state.starts;
        state.host_mut(host).start(started, replays_again);
    }

    /// Promotes a standby that is up: it replays everything and begins a timeline.
    pub fn promote(&self, host: usize) {
        let mut state = self.state();
        if !state.host(host).is_up || !state.host(host).is_standby() {
            return;
        }
        state.timelines += 1;
        let timeline = state.timelines;
        let id = state.next_entry();
        state.host_mut(host).promote(timeline, Entry::blank(id));
        let kept: BTreeSet<String> = state.host(host).rows().into_iter().collect();
        let known = state.hosts.iter().flat_map(Host::all_rows);
        let lost: Vec<_> = known.filter(|row| !kept.contains(row)).collect();
        state.lost.extend(lost);
    }

    /// Makes a host that is down a standby of the newest primary. `rewinds` replaces its history by that primary's.
    pub fn follow(&self, host: usize, rewinds: bool) {
        let mut state = self.state();
        let leader = state.leader();
        if host == leader || state.host(host).is_up {
            return;
        }
        let source = state.host(leader).clone();
        state.host_mut(host).follow(&source, rewinds);
    }

    /// Pauses or resumes the replay of a standby.
    pub fn pause(&self, host: usize, is_paused: bool) {
        if let Role::Standby(standby) = &mut self.state().host_mut(host).role {
            standby.is_paused = is_paused;
        }
    }

    /// Breaks or mends the WAL receiver of a standby.
    pub fn break_receiver(&self, host: usize, is_broken: bool) {
        if let Role::Standby(standby) = &mut self.state().host_mut(host).role {
            standby.is_broken = is_broken;
        }
    }
}

impl State {
    fn host(&self, host: usize) -> &Host {
        self.hosts.get(host).expect("the cluster has this host")
    }

    fn host_mut(&mut self, host: usize) -> &mut Host {
        self.hosts.get_mut(host).expect("the cluster has this host")
    }

    fn leader(&self) -> usize {
        let hosts = self.hosts.iter().enumerate();
        let primaries = hosts.filter(|(_, host)| !host.is_standby());
        let newest = primaries.max_by_key(|(_, host)| host.timeline);
        newest.map_or(0, |(index, _)| index)
    }

    fn next_entry(&mut self) -> u64 {
        self.entries += 1;
        self.entries
    }

    /// True if a standby receives WAL from the newest primary, whose history continues its own.
    fn can_stream(&self, host: usize) -> bool {
        let (standby, leader) = (self.host(host), self.host(self.leader()));
        standby.is_up && leader.is_up && standby.is_receiving() && standby.is_prefix_of(leader)
    }

    fn replicate(&mut self, host: usize, dice: &mut Dice) {
        if dice.below(2) == 0 {
            self.host_mut(host).flush();
        }
        let (received, replayed) = (dice.below(6), dice.below(6));
        self.receive(host, received);
        let restarts = dice.below(4) == 0;
        let host = self.host_mut(host);
        host.replay(replayed);
        if restarts {
            host.restart_here();
        }
    }

    fn receive(&mut self, host: usize, max: usize) {
        if self.can_stream(host) {
            let source = self.host(self.leader()).clone();
            self.host_mut(host).receive(&source, max);
        }
    }
}

/// View of one session on one host.
#[derive(Debug, Clone)]
pub struct Site {
    cluster: Cluster,
    host: usize,
}

impl Site {
    /// Index of the host.
    #[must_use]
    pub fn host(&self) -> usize {
        self.host
    }

    /// True if the host accepts sessions.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.cluster.is_up(self.host)
    }

    /// True if the host is in recovery.
    #[must_use]
    pub fn is_standby(&self) -> bool {
        self.cluster.is_standby(self.host)
    }

    /// Returns the committed rows that the host shows.
    #[must_use]
    pub fn rows(&self) -> Vec<String> {
        self.cluster.state().host(self.host).rows()
    }

    /// Returns the position up to which a host in recovery has replayed; none for a primary.
    #[must_use]
    pub fn replayed(&self) -> Option<u64> {
        match self.cluster.facts(self.host).position {
            Position::Standby { replayed, .. } => Some(replayed),
            Position::Primary { .. } => None,
        }
    }

    /// Writes WAL of a statement whose transaction is open.
    pub(crate) fn write(&self) {
        let mut state = self.cluster.state();
        let entry = Entry::blank(state.next_entry());
        state.host_mut(self.host).write(entry);
    }

    /// Commits rows. `waits` makes them durable before the answer.
    pub(crate) fn commit(&self, rows: Vec<String>, waits: bool) {
        let mut state = self.cluster.state();
        if state.leader() != self.host {
            state.lost.extend(rows.iter().cloned());
        }
        let id = state.next_entry();
        let host = state.host_mut(self.host);
        host.write(Entry { id, rows });
        if waits {
            host.flush();
        }
    }

    /// Records an executed statement.
    pub(crate) fn record(&self, process: u32, tag: &str, writes: bool) {
        let deed = Deed {
            host: self.host,
            process,
            tag: tag.to_owned(),
            writes,
        };
        self.cluster.state().deeds.push(deed);
    }
}

#[cfg(test)]
mod tests;
