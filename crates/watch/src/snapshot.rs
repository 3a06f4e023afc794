//! Snapshot of a database's hosts: what workers read without a lock when they route a statement.

use std::sync::Arc;
use std::time::Duration;

use weir_pool::{HostId, Moment};

use crate::answer::Lsn;
use crate::position::Positions;

/// Role of a host, as its own SQL answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The host is not in recovery.
    Primary,
    /// The host is in recovery.
    Replica,
    /// The host has not answered yet.
    #[default]
    Unknown,
}

/// State of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// A standby that does not stream and whose timeline is not the primary's. It may have rows that the primary never
    /// had, so it gets no statement.
    Diverged,
    /// The host does not answer.
    Down,
    /// A host that said that it is the primary, lost against another one, and was not seen in recovery on the primary's
    /// timeline since. It gets no statement.
    Fenced,
    /// The host belongs to another cluster: its system identifier differs. It gets no statement.
    Foreign,
    /// The host is alive and refuses sessions: it starts, stops (57P03), is full (53300), or refuses the watcher. The
    /// host that takes writes keeps them if it is only full.
    Refusing,
    /// No probe was answered yet.
    #[default]
    Unknown,
    /// The host answers.
    Up,
}

/// Life of a host between two starts or changes of its role. Servers of an earlier one are not handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u32);

/// Facts about one host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostView {
    /// Number of the host in this process.
    pub host: HostId,
    /// Address and port, as configured.
    pub name: Arc<str>,
    /// Availability zone; empty if none is configured.
    pub az: Arc<str>,
    /// Role that the host has now.
    pub role: Role,
    /// State that the host has now.
    pub state: State,
    /// Time since which the host has had this role and state.
    pub since: Moment,
    /// Life of the host. Its pooled servers belong to this one or to an earlier one.
    pub generation: Generation,
    /// Timeline of the host; 0 = unknown.
    pub timeline: u32,
    /// Every commit that was acknowledged before this moment is visible on the host. [`Moment::NEVER`] on the host that
    /// takes writes; zero if nothing is known.
    pub fresh_to: Moment,
    /// Likewise for commits of sessions with `synchronous_commit = off`.
    pub fresh_to_async: Moment,
    /// WAL of the timeline of [`Snapshot::positions`] that the host has proved to show; none if nothing is proved. Not
    /// known for the host that takes writes.
    pub replayed: Option<Lsn>,
    /// WAL that the primary has flushed and the host has not replayed, in bytes; none if unknown.
    pub lag_bytes: Option<u64>,
    /// Age of the newest sample of the primary that the host has replayed; zero if the primary was idle since; none if
    /// unknown.
    pub lag: Option<Duration>,
    /// True if the host may get reads: it is up, its role and the configuration allow it, and its lag is below
    /// `max_lag` and `max_staleness`. A primary has this too.
    pub takes_reads: bool,
    /// Share of reads relative to other hosts, after slow start and outlier detection; 0 = none.
    pub weight: u32,
    /// Duration of the last probe that was answered.
    pub probe_time: Option<Duration>,
    /// Last error of a probe, in the host's own words if it spoke.
    pub last_error: Option<Arc<str>>,
}

/// Host that takes writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// No host takes writes now: requests for the primary wait.
    Held(Held),
    /// No host was probed yet.
    #[default]
    Unknown,
    /// This host takes writes.
    To(HostId),
}

/// Reason for which no host takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// All hosts that answer are in recovery, or no host answers.
    NoPrimary,
    /// Several hosts say that they are the primary, and no witness tells which one is.
    SplitBrain,
}

/// Facts about all hosts of a database, at one moment. Immutable.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Number that grows with each snapshot of the database.
    pub number: u64,
    /// Host that takes writes.
    pub writes: Writes,
    /// Time since which `writes` has had its value.
    pub writes_since: Moment,
    /// Positions of the primary.
    pub positions: Positions,
    /// Hosts, in the order of the configuration.
    pub hosts: Vec<HostView>,
}

impl Snapshot {
    /// Returns a host by its number.
    #[must_use]
    pub fn host(&self, id: HostId) -> Option<&HostView> {
        self.hosts.iter().find(|host| host.host == id)
    }

    /// Returns the host that takes writes, if there is one.
    #[must_use]
    pub fn primary(&self) -> Option<&HostView> {
        match self.writes {
            Writes::To(id) => self.host(id),
            Writes::Held(_) | Writes::Unknown => None,
        }
    }
}
