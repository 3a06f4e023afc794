//! Rules of watching and the hosts that are watched, from the configuration. A reload replaces the whole [`Watch`];
//! nothing mutates a rule.
//!
//! [`Watch`]: crate::Watch

use std::sync::Arc;
use std::time::Duration;

use weir_pool::HostId;

/// Interval of probes while a failover is suspected.
pub const FAST_INTERVAL: Duration = Duration::from_millis(100);

/// Shortest interval of probes of one host: while a session waits for its write to be bounded, and to confirm that a
/// host is back.
pub const DIRTY_INTERVAL: Duration = Duration::from_millis(20);

/// Time for which all hosts are probed at [`FAST_INTERVAL`] after a suspicion.
pub const SUSPECT_FOR: Duration = Duration::from_secs(5);

/// Time for which a report about the leader counts, from the moment at which the tool was asked.
pub const LEADER_FOR: Duration = Duration::from_secs(5);

/// Rules of watching the hosts of one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Interval of probes of a host that gives no reason for more.
    pub probe_interval: Duration,
    /// Limit on the time of one probe. The caller enforces it, with [`FailureKind::Timeout`](crate::FailureKind).
    pub probe_timeout: Duration,
    /// Number of consecutive probes without an answer after which a host is down. A refused connection needs only one.
    pub fall: u32,
    /// Number of consecutive answers after which a host that was down is up.
    pub rise: u32,
    /// WAL in bytes by which a replica may be behind; none = no limit.
    pub max_lag: Option<u64>,
    /// Time by which a replica may be behind; none = no limit.
    pub max_staleness: Option<Duration>,
    /// Time in which a host that came back gets its full weight again.
    pub slow_start: Duration,
    /// Decision if several hosts still say that they are the primary when `hold` is over.
    pub split_brain: SplitBrain,
    /// Time for which writes wait for a witness if several hosts say that they are the primary.
    pub hold: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            probe_interval: Duration::from_secs(1),
            probe_timeout: Duration::from_secs(1),
            fall: 3,
            rise: 2,
            max_lag: None,
            max_staleness: Some(Duration::from_secs(10)),
            slow_start: Duration::from_secs(30),
            split_brain: SplitBrain::Newest,
            hold: Duration::from_secs(60),
        }
    }
}

/// Decision between several hosts that say that they are the primary, without a witness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SplitBrain {
    /// The host that took writes before takes them.
    Keep,
    /// The host with the highest timeline takes writes.
    #[default]
    Newest,
    /// No host takes writes until the hosts agree.
    Refuse,
}

/// Host of the database, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Number of the host in this process.
    pub id: HostId,
    /// Address and port.
    pub name: Arc<str>,
    /// Availability zone; empty if none is configured.
    pub az: Arc<str>,
    /// Roles that the host may have.
    pub role: Configured,
    /// Share of reads relative to other hosts; 0 = none.
    pub weight: u32,
    /// True if the host may get reads.
    pub reads: bool,
}

/// Roles that a host may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Configured {
    /// The role that the host's own SQL answers.
    #[default]
    Auto,
    /// Primary. While the host is in recovery, it takes no writes.
    Primary,
    /// Replica. If the host says that it is a primary, it gets no statement.
    Replica,
}
