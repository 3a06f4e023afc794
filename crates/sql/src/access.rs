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
mod session;
mod settings;
mod step;
mod tree;
mod words;

use std::borrow::Cow;
use std::fmt;
use std::str::from_utf8;

use crate::judge::unclear;

pub use names::{BadPattern, Called, Names, Nature, Objects, Pattern, Relation};
pub(crate) use names::{of_system, reads_only};
pub(crate) use session::state;
pub(crate) use settings::may_read_host_setting;
pub use step::{BlockEnd, Step, block_end, step};
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

    /// Returns where two parts of a batch may run together.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Primary(cause), _) | (_, Self::Primary(cause)) => Self::Primary(cause),
            // A block that begins in the middle of a batch has no host yet when the batch is sent.
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

    /// Returns where a text of two statements may run. A text that reads consists of reads only, so that it can be sent
    /// to another host again.
    fn beside(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Read { .. }, Self::Anywhere) | (Self::Anywhere, Self::Read { .. }) => {
                Self::Primary(Cause::Mixed)
            }
            _ => self.join(other),
        }
    }
}

/// Modes of BEGIN and START TRANSACTION.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// READ ONLY or READ WRITE; none if the text has neither.
    pub read_only: Option<bool>,
    /// Isolation level; none if the text names none.
    pub isolation: Option<Isolation>,
}

impl Modes {
    /// True for ISOLATION LEVEL SERIALIZABLE, which a hot standby refuses.
    #[must_use]
    pub fn is_serializable(self) -> bool {
        self.isolation == Some(Isolation::Serializable)
    }
}

/// Isolation level of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// READ COMMITTED, or READ UNCOMMITTED, which PostgreSQL takes for the same: each statement sees what was committed
    /// before it.
    ReadCommitted,
    /// REPEATABLE READ: all statements see the same.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}

impl Isolation {
    /// Returns the level that PostgreSQL means by a name, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let levels = [
            ("read uncommitted", Self::ReadCommitted),
            ("read committed", Self::ReadCommitted),
            ("repeatable read", Self::RepeatableRead),
            ("serializable", Self::Serializable),
        ];
        let mut levels = levels.into_iter();
        let found = levels.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, level)| level)
    }
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
    /// The text is longer than what is parsed or kept.
    Long,
    /// A message other than those of the simple and the extended query protocol.
    Message,
    /// The text reads, but has statements of another kind too.
    Mixed,
    /// The end of the batch has not arrived, and what has arrived does more than read.
    Open,
    /// A standby has refused the text before.
    Refused,
    /// A relation of this name cannot be read on a replica, for this reason.
    Relation(Box<str>, Why),
    /// The text changes or shows this state of its session.
    Session(&'static str),
    /// A setting of this name differs between hosts, or decides which host is needed.
    Setting(Box<str>),
    /// A statement of this kind, in PostgreSQL's words.
    Statement(Cow<'static, str>),
    /// PostgreSQL's grammar refuses the text.
    Unparsed,
    /// No prepared statement or portal is known by the name in the message.
    Unprepared,
    /// The text was not looked at, because nothing of it decides.
    Unread,
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
            Self::Foreign => "is or contains a foreign table",
            Self::Host => "shows or locks what belongs to one host",
            Self::Listed => "is in primary_functions",
            Self::Sequence => "is or reads a sequence",
            Self::Session => "belongs to one session",
            Self::Unknown => "is not known",
            Self::Unlogged => "is or contains an unlogged table",
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
            Self::Long => f.write_str("the text is too long to be read"),
            Self::Message => f.write_str("the message is none of a query"),
            Self::Mixed => f.write_str("the text reads, but has other statements too"),
            Self::Open => f.write_str("the end of the batch has not arrived"),
            Self::Relation(name, why @ (Why::Listed | Why::Volatile | Why::Writes)) => {
                write!(f, "relation {name} calls a function that {why}")
            }
            Self::Refused => f.write_str("a standby has refused the text before"),
            Self::Relation(name, why) => write!(f, "relation {name} {why}"),
            Self::Session(state) => write!(f, "the text concerns its session: {state}"),
            Self::Setting(name) => write!(f, "setting {name} is a matter of one host"),
            Self::Statement(kind) => write!(f, "{kind} is for the primary"),
            Self::Unparsed => f.write_str("the text does not parse"),
            Self::Unprepared => f.write_str("no statement is known by this name"),
            Self::Unread => f.write_str("nothing of the text decides"),
        }
    }
}

/// Returns where a text may run, but for what it does to its session ([`Judge::access`](crate::Judge::access)). Never
/// panics, and takes bounded time.
#[must_use]
pub fn access(text: &[u8], names: &Names) -> Access {
    by_words(text, names).unwrap_or_else(|| by_grammar(text, names))
}

/// Returns where a text may run of which the words prove nothing.
pub(crate) fn by_grammar(text: &[u8], names: &Names) -> Access {
    if text.len() > TEXT_MAX {
        return Access::Primary(Cause::Long);
    }
    if unclear(text).is_some() {
        return Access::Primary(Cause::Doubtful);
    }
    let parsed = from_utf8(text)
        .ok()
        .and_then(|text| tree::access(text, names));
    parsed.unwrap_or(Access::Primary(Cause::Unparsed))
}

/// Returns where a text may run by its tree alone.
#[cfg(test)]
pub(crate) fn by_tree(text: &str, names: &Names) -> Option<Access> {
    tree::access(text, names)
}
