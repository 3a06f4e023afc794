//! Definitions that a transaction has changed and then undone, or changed again: tables, views, types, functions.
//!
//! In such a transaction PostgreSQL resolves statements to what no commit has ever made so, also those that it only
//! analyses again (`RevalidateCachedQuery`), and afterwards it goes by that. In a session of its own only the client that
//! did so sees it. Other clients use the same copies, so all copies of that server are of no more use. No command
//! tag tells what functions define.

/// Changes of definitions in the transaction under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Definitions {
    /// Some were changed.
    Changed,
    #[default]
    Kept,
    /// Likewise, and a copy of ours was used behind that.
    Used,
    /// Some were changed, and then a part of the transaction was undone, or others were changed behind a use.
    Doubtful,
}

impl Definitions {
    /// Something of the transaction is undone.
    pub(super) fn undo(&mut self) {
        if matches!(self, Self::Changed | Self::Used) {
            *self = Self::Doubtful;
        }
    }

    /// A copy of ours was prepared, bound or described.
    pub(super) fn note_use(&mut self) {
        if *self == Self::Changed {
            *self = Self::Used;
        }
    }

    /// A statement with this command tag has run.
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
