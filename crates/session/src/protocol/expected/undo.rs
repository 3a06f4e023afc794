//! Effects of requests on the client's names, and how they are undone if the server skips the request.

use std::sync::Arc;

use weir_rules::Rejection;
use weir_sql::Reasons;

use crate::client::{Parsed, key};
use crate::own_settings::WrongSetting;
use crate::statement::Statement;

/// Change of the client's names that must be undone if the server skips the request.
#[derive(Debug)]
pub(crate) enum Undo {
    /// A Parse of this name was sent that had been answered before.
    Began(Arc<[u8]>),
    /// A Close removed this name.
    Closed(Arc<[u8]>, Option<Arc<Statement>>, Parsed),
    /// SQL-level DEALLOCATE: this name is gone if it succeeds. Nothing to undo.
    Deallocate(Box<[u8]>),
    /// DEALLOCATE ALL: all names are gone if it succeeds. Nothing to undo.
    DeallocateAll,
    /// A Parse, sent at this time of the pool's clock, added this name.
    Named(Arc<[u8]>, Arc<Statement>, u64),
    /// A Parse gives the server this statement under the client's own name. `true` if the statement had a name of ours
    /// so far.
    Owned(Arc<[u8]>, Arc<Statement>, bool),
    /// A statement that must fail was sent in place of the client's. Nothing to undo.
    Refused(Refusal),
}

/// Reason for which a statement is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A query rule rejects the statement.
    Rule(Arc<Rejection>),
    /// The statement gives a setting of Weir a wrong value.
    Setting(Box<WrongSetting>),
    /// The statement would leave session state, for these reasons.
    State(Reasons),
}

impl Undo {
    /// True if the request decides what becomes of this name (as PostgreSQL compares it).
    pub(super) fn concerns(&self, name: &[u8]) -> bool {
        match self {
            Self::Began(changed)
            | Self::Closed(changed, ..)
            | Self::Named(changed, ..)
            | Self::Owned(changed, ..) => key(changed) == name,
            Self::Deallocate(changed) => key(changed) == name,
            Self::DeallocateAll => true,
            Self::Refused(_) => false,
        }
    }

    /// True if the request removes a name.
    pub(super) fn takes_away(&self) -> bool {
        matches!(
            self,
            Self::Closed(..) | Self::Deallocate(_) | Self::DeallocateAll
        )
    }

    /// True if the request may fail although everything before it in the batch succeeds.
    pub(super) fn may_fail_alone(&self) -> bool {
        matches!(self, Self::Deallocate(_) | Self::DeallocateAll)
    }
}
