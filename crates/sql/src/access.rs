//! Where a text may run if a database has a primary and replicas.
//!
//! A hot standby cannot change the database, but some statements succeed there with another meaning: an advisory lock,
//! a view of that host's own state. So a text may run on a replica only if it is proved to read, and everything unknown
//! belongs to the primary. What no text shows (operators, casts, a STABLE function that writes) fails on a standby
//! without an effect; whoever sends it there repeats it on the primary.
//!
//! As for [`effects`](crate::Effects), words come first ([`by_words`]), and PostgreSQL's own grammar decides on the
//! texts of which the words prove nothing.
//!
//! ```
//! use weir_sql::{Access, Names, access};
//!
//! let names = Names::default();
//! assert!(access(b"SELECT a FROM t WHERE b = $1", &names).is_read());
//! assert!(!access(b"SELECT a FROM t FOR UPDATE", &names).is_read());
//! ```

mod names;
mod tree;
mod words;

use std::fmt;
use std::str::from_utf8;

pub use names::{BadPattern, Names, Objects, Own, Pattern};
pub(crate) use words::by_words;

/// Maximum length of a text that is parsed, in bytes; see `judge`.
const TEXT_MAX: usize = 8 * 1024;

/// Hosts on which a text may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Wherever the transaction is, or on any host: COMMIT, FETCH, SET, an empty text.
    Anywhere,
    /// Begins a transaction block. Its modes decide, or the statement behind it.
    Begin(Modes),
    /// On the primary only, for this reason.
    Primary(Cause),
    /// On any host that is fresh enough.
    Read {
        /// True if the text reads tables of the system catalogue, which other sessions may just have changed.
        reads_catalogue: bool,
    },
}

impl Access {
    /// True if the text may run on a replica.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(self, Self::Read { .. })
    }

    /// Returns where a text may run that consists of two parts.
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Primary(cause), _) | (_, Self::Primary(cause)) => Self::Primary(cause),
            // A block that begins in the middle of a text has no host yet when its text is sent.
            (Self::Begin(_), _) | (_, Self::Begin(_)) => Self::Primary(Cause::Block),
            (
                Self::Read { reads_catalogue },
                Self::Read {
                    reads_catalogue: other,
                },
            ) => Self::Read {
                reads_catalogue: reads_catalogue || other,
            },
            (read @ Self::Read { .. }, Self::Anywhere)
            | (Self::Anywhere, read @ Self::Read { .. }) => read,
            (Self::Anywhere, Self::Anywhere) => Self::Anywhere,
        }
    }
}

/// Modes of BEGIN and START TRANSACTION.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// READ ONLY or READ WRITE; none if the text has neither.
    pub read_only: Option<bool>,
    /// True for ISOLATION LEVEL SERIALIZABLE, which a hot standby refuses.
    pub is_serializable: bool,
}

/// Reason for which a text belongs to the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// A transaction block begins between other statements.
    Block,
    /// The text cannot be read without a doubt, so PostgreSQL's own reading may differ.
    Doubtful,
    /// A function of this name is not known to read only, for this reason.
    Function(Box<str>, Why),
    /// SELECT INTO creates a table.
    Into,
    /// Rows are locked: FOR UPDATE, FOR SHARE and similar clauses.
    Locks,
    /// The text is longer than what is parsed.
    Long,
    /// A relation of this name cannot be read on a replica, for this reason.
    Relation(Box<str>, Why),
    /// A setting of this name differs between hosts, or decides which host is needed.
    Setting(Box<str>),
    /// A statement of this kind, in PostgreSQL's words.
    Statement(Box<str>),
    /// PostgreSQL's grammar refuses the text.
    Unparsed,
}

/// Reason for which a function or a relation belongs to the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// Foreign table: another server decides what reading it does.
    Foreign,
    /// Locks or other state that each host has for itself.
    Host,
    /// Function in the administrator's list `primary_functions`.
    Listed,
    /// Sequence, read as a table.
    Sequence,
    /// State of the session that made it.
    Session,
    /// Name that neither PostgreSQL's list nor the database's catalogue has.
    Unknown,
    /// Unlogged table, of which a standby has no data.
    Unlogged,
    /// Function declared VOLATILE, or a procedure.
    Volatile,
    /// Function that changes the database.
    Writes,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Foreign => "is a foreign table",
            Self::Host => "shows or locks what belongs to one host",
            Self::Listed => "is in primary_functions",
            Self::Sequence => "is a sequence",
            Self::Session => "belongs to one session",
            Self::Unknown => "is not known",
            Self::Unlogged => "is unlogged",
            Self::Volatile => "is declared VOLATILE",
            Self::Writes => "writes",
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block => f.write_str("a transaction block begins between other statements"),
            Self::Doubtful => f.write_str("the text has more than one reading"),
            Self::Function(name, why) => write!(f, "function {name} {why}"),
            Self::Into => f.write_str("SELECT INTO creates a table"),
            Self::Locks => f.write_str("rows are locked"),
            Self::Long => write!(f, "the text is longer than {TEXT_MAX} bytes"),
            Self::Relation(name, why) => write!(f, "relation {name} {why}"),
            Self::Setting(name) => write!(f, "setting {name} is a matter of one host"),
            Self::Statement(kind) => write!(f, "{kind} is for the primary"),
            Self::Unparsed => f.write_str("the text does not parse"),
        }
    }
}

/// Returns where a text may run. Never panics, and takes bounded time.
#[must_use]
pub fn access(text: &[u8], names: &Names) -> Access {
    if let Some(access) = by_words(text, names) {
        return access;
    }
    if text.len() > TEXT_MAX {
        return Access::Primary(Cause::Long);
    }
    if words::is_doubtful(text) {
        return Access::Primary(Cause::Doubtful);
    }
    let parsed = from_utf8(text)
        .ok()
        .and_then(|text| tree::access(text, names));
    parsed.unwrap_or(Access::Primary(Cause::Unparsed))
}

/// Returns where a text may run by the grammar alone.
#[cfg(test)]
pub(crate) fn by_tree(text: &str, names: &Names) -> Option<Access> {
    tree::access(text, names)
}
