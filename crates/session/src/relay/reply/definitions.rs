//! Definitions that a transaction has changed and then undone: tables, views, types, functions.
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
    /// Some were changed, and a part of the transaction was undone.
    Undone,
}

impl Definitions {
    /// Something of the transaction is undone.
    pub(super) fn undo(&mut self) {
        if *self == Self::Changed {
            *self = Self::Undone;
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
        if defines && *self == Self::Kept {
            *self = Self::Changed;
        }
    }
}
