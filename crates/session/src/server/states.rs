//! States of a server's session that exclude each other, and the rule for those in which the server goes back to its pool
//! ([table of legal combinations](../../../../docs/internals/server-states.md)).

/// Requests sent since the last ReadyForQuery was read.
///
/// ```text
///          Query, Sync, request of ours        Parse, Bind, ...
/// Nothing ──────────────────────────────► Whole ─────────────► OpenBatch
///    ▲ └───────────────Parse, Bind, ...─────┼───────────────────▲ │
///    │                                      ▲────Query, Sync──────┤
///    └────ReadyForQuery, nothing owed───────┴─────────────────────┘
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Sent {
    #[default]
    Nothing,
    /// A batch of extended-protocol messages that neither a Sync nor a Query has ended, perhaps behind other requests. A
    /// Flush begins none.
    OpenBatch,
    /// Requests that PostgreSQL ends by itself: queries, batches with a Sync.
    Whole,
}

impl Sent {
    /// Records a request that leaves an open batch open.
    #[inline]
    pub(crate) fn add(&mut self) {
        if *self == Self::Nothing {
            *self = Self::Whole;
        }
    }
}
