//! Decision of the router, and reasons for it. Plain numbers, so that a verdict costs no allocation.

use std::fmt;

use weir_pool::HostId;
use weir_pool::Moment;

/// Decision of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The transaction runs on this host.
    Go {
        /// Number of the host.
        host: HostId,
        /// Reason for this host.
        why: Why,
        /// True if the host is a replica and the batch may run on the primary instead if the replica refuses it.
        has_net: bool,
    },
    /// No host qualifies now: the request waits for the next snapshot, until this time at most.
    Hold {
        /// Time at which the router, asked again, refuses the request or lets it fall back. [`Moment::NEVER`] if
        /// only `query_wait_timeout` ends the wait.
        until: Moment,
        /// Reason for the wait.
        why: Why,
    },
    /// The request fails.
    Refuse(Why),
}

/// Reason for a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The text belongs to the primary. [`Access::Primary`](weir_sql::Access::Primary) has the cause.
    Access,
    /// The text has no effect that depends on the host.
    Anywhere,
    /// The transaction may write.
    Begin,
    /// The text reads the system catalogue, which no replica shows reliably under `read_consistency = eventual`.
    Catalogue,
    /// `read_consistency` is `primary`.
    Consistency,
    /// The text reads, and a replica that may have caught up by now compares its position itself (`read_guard`).
    Guarded,
    /// The text reads, but the split waits for a hint.
    NoHint,
    /// No primary is known.
    NoPrimary,
    /// No replica takes reads.
    NoReplica,
    /// The primary has not told its position yet, for which the session asks (`SHOW weir.lsn`).
    Position,
    /// The transaction is READ ONLY.
    ReadOnly,
    /// The text reads, and this host is fresh enough.
    Reads,
    /// The transaction is SERIALIZABLE, which a standby refuses.
    Serializable,
    /// Reads that fall back already have their share of the primary's pool.
    Share,
    /// Several hosts say that they are the primary.
    SplitBrain,
    /// The entry's `target`.
    Target,
    /// The session's `weir.min_lsn` belongs to another timeline than the primary's, or is malformed.
    Token,
    /// No replica has replayed yet the commits that the read must see.
    TooFresh,
    /// The transaction has not written yet (`split_begin = until-write`).
    UntilWrite,
    /// The session, or a hint, asked for this role.
    Wanted,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Access => "the text belongs to the primary",
            Self::Anywhere => "the text has no effect that depends on the host",
            Self::Begin => "the transaction may write",
            Self::Catalogue => {
                "the text reads the system catalogue and read_consistency is eventual"
            }
            Self::Consistency => "read_consistency is primary",
            Self::Guarded => {
                "the text reads, and the replica checks first that it has caught up (read_guard)"
            }
            Self::NoHint => {
                "read_write_split is hint, and neither READ ONLY nor a role asks for a replica"
            }
            Self::NoPrimary => "no primary is known",
            Self::NoReplica => "no replica takes reads",
            Self::Position => "the primary has not told its WAL position yet (weir.lsn)",
            Self::ReadOnly => "the transaction is read only",
            Self::Reads => "the text reads",
            Self::Serializable => "the transaction is serializable, which a standby refuses",
            Self::Share => "reads have their share of the primary's pool (fallback_max_share)",
            Self::SplitBrain => "several hosts say that they are the primary",
            Self::Target => "the entry's target",
            Self::Token => "weir.min_lsn is malformed, or of another timeline than the primary's",
            Self::TooFresh => "no replica has replayed yet the commits that the read must see",
            Self::UntilWrite => "the transaction has not written yet",
            Self::Wanted => "the session asks for this role",
        })
    }
}
