//! Tracks definitions (tables, views, types, functions) that a transaction changes and then undoes, or changes again.
//!
//! In such a transaction PostgreSQL resolves statements to definitions that were never committed. This includes
//! statements that it only analyses again (`RevalidateCachedQuery`). Afterwards it keeps that result. Without a pooler,
//! only the client that made the changes is affected. Here other clients use the same copies, so all copies on that
//! server become invalid. Command tags do not show which objects a function defines.

/// State of the definitions in the transaction under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Definitions {
    /// Definitions were changed.
    Changed,
    #[default]
    Kept,
    /// Definitions were changed, and a copy of ours was used after that.
    Used,
    /// Definitions were changed, and then a part of the transaction was undone, or they were changed again after a use.
    Doubtful,
}

impl Definitions {
    /// Records that a part of the transaction is undone.
    pub(super) fn undo(&mut self) {
        if matches!(self, Self::Changed | Self::Used) {
            *self = Self::Doubtful;
        }
    }

    /// Records that a copy of ours was prepared, bound or described.
    pub(super) fn note_use(&mut self) {
        if *self == Self::Changed {
            *self = Self::Used;
        }
    }

    /// Records a completed statement by its command tag.
    pub(super) fn note(&mut self, tag: &[u8]) {
        let defines = match tag.first() {
            Some(b'A') => tag.starts_with(b"ALTER "),
            Some(b'C') => tag.starts_with(b"CREATE "),
            Some(b'D') => tag.starts_with(b"DROP "),
            _ => false,
        };
        if defines {
            *self = match *self {
                Self::Kept => Self::Changed,
                Self::Used => Self::Doubtful,
                same => same,
            };
        }
    }
}
