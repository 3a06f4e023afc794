//! Demands of a client's next batch on its host, read from its texts or known without.

use std::sync::Arc;

use weir_session::relay::Destination;
use weir_sql::{Access, Cause, Step};

use super::hint::Hinted;

/// Demands of a request, and how they were found.
pub(super) struct Reading {
    pub(super) destination: Destination,
    pub(super) hints: Option<Hinted>,
    /// True if texts were read for it.
    pub(super) is_read: bool,
}

impl Reading {
    /// Demands of a request whose texts do not decide.
    pub(super) fn of(access: &Arc<Access>) -> Self {
        Self {
            destination: unread(access),
            hints: None,
            is_read: false,
        }
    }
}

/// Verdicts that need no look at a text.
pub(super) struct Fixed {
    /// On the start of a client that is not logged in yet.
    pub(super) anywhere: Arc<Access>,
    /// On a batch that a replica has refused.
    pub(super) refused: Arc<Access>,
    /// On batches that run on the primary whatever they say.
    pub(super) unread: Arc<Access>,
}

impl Default for Fixed {
    fn default() -> Self {
        Self {
            anywhere: Arc::new(Access::Anywhere),
            refused: Arc::new(Access::Primary(Cause::Refused)),
            unread: Arc::new(Access::Primary(Cause::Unread)),
        }
    }
}

/// Returns the destination of a batch that needs no look.
pub(super) fn unread(access: &Arc<Access>) -> Destination {
    Destination {
        access: Arc::clone(access),
        block: None,
        is_complete: false,
        len: 0,
        is_plain: false,
        defines: true,
        step: Step::Other,
        statement: None,
    }
}
