//! States of a server's session that exclude each other, and the rule for those in which the server goes back to its pool
//! ([table of legal combinations](../../../../../docs/internals/server-states.md)).

/// Future of a server connection, from best to worst. It never improves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Future {
    /// Other clients may use the server.
    #[default]
    Open,
    /// The session has state that can never be removed, so no other client may use the server.
    Spoiled,
    /// A FATAL was read, or a reply was not understood: the connection ends.
    Dying,
}

impl Future {
    /// Records state that can never be removed.
    pub(crate) fn spoil(&mut self) {
        if *self == Self::Open {
            *self = Self::Spoiled;
        }
    }
}

/// Treatment of reported values that belong to the host of a server, such as `in_hot_standby`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum HostFacts {
    /// Changes are dropped: the client's next server may be on another host.
    Hidden,
    /// Likewise. The server has said that it is no standby.
    HiddenOnPrimary,
    /// Likewise, on a standby. No notification comes from there, and none can be sent.
    HiddenOnStandby,
    /// The client is told.
    #[default]
    Shown,
}

/// Rest of a message from the server that is handled while it arrives, by its length in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// The rest is dropped.
    Drop(u64),
    /// The rest is for the client.
    Forward(u64),
    /// No message is partly read.
    #[default]
    Nothing,
}

impl Incoming {
    /// Takes up to `available` bytes of the rest. Returns their number.
    pub(crate) fn take(&mut self, available: usize) -> usize {
        let (Self::Drop(rest) | Self::Forward(rest)) = self else {
            return 0;
        };
        let here = usize::try_from(*rest).unwrap_or(usize::MAX).min(available);
        *rest -= here as u64;
        if *rest == 0 {
            *self = Self::Nothing;
        }
        here
    }
}

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

/// Progress of a client with its lease of the server.
///
/// ```text
///   begins a lease ──► Fresh ──statement completed──► Working
///                                                      ▲   │
///                            statement completed ──────┤   │ ReadyForQuery, idle
///                                                      │   ▼
///   free again: settle() ◄── Alone                    Between ◄── settle()
///                              ▲
///   the client left, or a ping ┴── from any state
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Progress {
    /// No client uses the server, which finishes what one began, or answers a ping. Errors in answer to our own requests
    /// are ignored.
    Alone,
    /// The client has done nothing in this transaction yet, except begin it.
    Between,
    /// The client has done nothing on this lease yet, except begin a transaction.
    #[default]
    Fresh,
    /// The client has done something in this transaction.
    Working,
}

impl Progress {
    /// True if the client has done nothing in this transaction yet, except begin it.
    #[inline]
    pub(crate) fn begins_transaction(self) -> bool {
        matches!(self, Self::Between | Self::Fresh)
    }

    /// Records that a statement of the client was completed.
    #[inline]
    pub(crate) fn work(&mut self) {
        if *self != Self::Alone {
            *self = Self::Working;
        }
    }

    /// Records the end of a transaction.
    #[inline]
    pub(crate) fn transaction_over(&mut self) {
        if *self == Self::Working {
            *self = Self::Between;
        }
    }

    /// Ends [`Progress::Alone`]: a free server has no open transaction.
    pub(crate) fn settle(&mut self) {
        if *self == Self::Alone {
            *self = Self::Between;
        }
    }
}

/// Origin of the sequence values that `currval` and `lastval` may return.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum SequenceValues {
    /// There are none: they were discarded, and the client has done nothing since.
    Emptied,
    /// They may be another client's, or older than what the client got elsewhere.
    Foreign,
    /// As [`SequenceValues::Foreign`], but the client may have advanced a sequence on this lease too.
    Mixed,
    /// There are none but the client's own.
    #[default]
    Own,
}

impl SequenceValues {
    /// True if the client may find values that are not its own.
    #[inline]
    pub(crate) fn are_foreign(self) -> bool {
        matches!(self, Self::Foreign | Self::Mixed)
    }

    /// Records a lease by the client that had the last one too, without another server in between.
    #[inline]
    pub(crate) fn stay(&mut self) {
        if *self == Self::Mixed {
            *self = Self::Foreign;
        }
    }

    /// Records a lease by a client that has not had this server all the time.
    #[inline]
    pub(crate) fn meet(&mut self, has_predecessor: bool) {
        *self = match has_predecessor || self.are_foreign() {
            true => Self::Foreign,
            false => Self::Own,
        };
    }

    /// Records that the client may have advanced a sequence.
    #[inline]
    pub(crate) fn advance(&mut self) {
        if *self == Self::Foreign {
            *self = Self::Mixed;
        }
    }

    /// Records that a statement of the client was completed.
    #[inline]
    pub(crate) fn work(&mut self) {
        if *self == Self::Emptied {
            *self = Self::Own;
        }
    }

    /// Records that the session's values were discarded, not by Weir.
    pub(crate) fn discard(&mut self) {
        if self.are_foreign() {
            *self = Self::Own;
        }
    }
}

/// Progress of a DISCARD ALL of a client that began with settings of its own: those must be set again behind it, which
/// leads back to `Nothing`. So does the failure of the DISCARD ALL.
///
/// ```text
/// Nothing ──noted──► Due ──Execute──► Sent ──next message──► Asked
///                   ▲ │                 └────completed───┬─────┘
///                   │ └─► set behind query or Sync       ▼
///                   └───────────Sync─────────────────── Done ──another message──► set at once
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Discard {
    #[default]
    Nothing,
    /// The values must be set behind the client's batch or query.
    Due,
    /// The DISCARD ALL is executed by a message of its own that nothing follows yet.
    Sent,
    /// The server has been asked to answer that message now.
    Asked,
    /// The server has completed it.
    Done,
}

impl Discard {
    /// True if the client's next message decides how the values are set.
    #[inline]
    pub(crate) fn is_underway(self) -> bool {
        matches!(self, Self::Sent | Self::Asked | Self::Done)
    }

    /// Records a DISCARD ALL that is about to be sent.
    pub(crate) fn fall_due(&mut self) {
        if *self == Self::Nothing {
            *self = Self::Due;
        }
    }

    /// Records that the server has completed a DISCARD ALL.
    pub(crate) fn complete(&mut self) {
        if self.is_underway() {
            *self = Self::Done;
        }
    }
}
