//! Statements that the model understands: some of PostgreSQL's own, in exact forms, and a shorthand of a few words.

use super::resolved::{NUMBERS, Number};
use super::token::{self, Token};

mod forms;
mod shorthand;

/// A statement. Names are folded as PostgreSQL folds them, values are as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sql {
    /// `ALTER TABLE t ALTER COLUMN v TYPE int|text ..`; true for int.
    Alter(String, bool),
    /// True for READ ONLY.
    Begin(bool),
    /// `None` means all cursors.
    CloseCursor(Option<String>),
    Commit,
    /// `COPY t FROM STDIN`; the shorthand has no table.
    CopyIn(Option<Name>),
    /// Number of lines; each consists of `what` and a number, counted from `first`.
    CopyOut {
        lines: usize,
        first: usize,
        what: String,
    },
    CreateTemp {
        table: String,
        on_commit: OnCommit,
    },
    /// `None` means all statements.
    Deallocate(Option<String>),
    Declare {
        name: String,
        hold: bool,
        query: Box<Self>,
    },
    /// The server ends the session with FATAL.
    Die,
    DiscardAll,
    Discard(Part),
    /// Succeeds without rows.
    Do,
    /// `DO` with a block that changes a setting.
    DoSet(String, String),
    Drop(String),
    /// Fails at execution: SQLSTATE and text.
    Error(&'static str, String),
    Execute(String),
    Fetch(usize, String),
    Insert(Name, String),
    /// `INSERT INTO t VALUES ($1)`, optionally with `RETURNING pg_typeof($1)::text`.
    InsertParameter {
        table: Name,
        returns: bool,
        /// Type of the parameter, once resolved.
        number: Option<Number>,
    },
    Listen(String),
    Load,
    Notice(Notice, String),
    Notify(String, String),
    Prepare(String, Box<Self>),
    Release(String),
    Reset(String),
    ResetAll,
    /// `ALTER TABLE kind_0 ALTER COLUMN v TYPE numeric`
    Retype(String, Number),
    Rollback,
    RollbackTo(String),
    Savepoint(String),
    Select(Select),
    Set(Setting),
    Show(String),
    /// `None` means all channels.
    Unlisten(Option<String>),
    /// `CREATE VIEW ann.spot` if true, else `DROP VIEW ann.spot`.
    View(bool),
}

/// Name of a table, optionally with its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) schema: Option<String>,
    pub(super) table: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnCommit {
    DeleteRows,
    Drop,
    PreserveRows,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Plans,
    Sequences,
    Temp,
}

/// Severity of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    Notice,
    Warning,
}

/// A SET in any form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) name: String,
    /// `None` means the default.
    pub(super) value: Option<String>,
    pub(super) local: bool,
    /// True for the shorthand, which accepts any name and value.
    pub(super) any: bool,
}

/// Expression of a SELECT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Select {
    /// `pg_listening_channels()`
    Channels,
    Currval(String),
    CurrentSetting(String),
    CurrentUser,
    /// `coalesce(nullif(current_setting(x, true), ''), 'none')`
    CustomSetting(String),
    /// Fails during planning.
    FailsEarly,
    /// Fails at execution, after its RowDescription.
    FailsLate,
    /// Weir's comparison of a replica's position: fails unless the host has replayed that much WAL.
    Guard(u64),
    Integer(String),
    Lastval,
    /// `SELECT a FROM public.sink WHERE a <> 'tag'`: the committed rows.
    Ledger(String),
    Literal(String),
    Lock(Lock, i64),
    Nextval(String),
    /// `note('row')`: a function that inserts a row into `public.sink` and returns it.
    Note(String),
    /// Weir's query about the session's state.
    Question(Vec<Ask>),
    /// Shorthand: this number of rows in a column `what`.
    Rows(usize, String),
    /// `'x'||i FROM generate_series(1,n) i`
    Series(usize, String),
    SessionUser,
    SetConfig {
        name: String,
        value: String,
        local: bool,
    },
    Table(Name, String),
}

/// Functions of advisory locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    Take,
    Transaction,
    Try,
    Unlock,
    UnlockAll,
}

/// Part of Weir's query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    AllSettings,
    /// Word to answer with, and the kind of object it refers to.
    Pinned(String, Held),
    Setting(String),
    /// Names of the statements that the protocol has prepared.
    Statements,
}

/// Objects that a session may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    Channels,
    Cursors,
    Locks,
    Prepared,
    Temporary,
}

impl Sql {
    /// True if the statement is analysed at the Parse, and can be prepared.
    pub(super) fn is_plannable(&self) -> bool {
        matches!(
            self,
            Self::Select(_) | Self::Insert(..) | Self::InsertParameter { .. }
        )
    }

    pub(super) fn ends_transaction(&self) -> bool {
        matches!(self, Self::Commit | Self::Rollback | Self::RollbackTo(_))
    }

    /// True for statements that PostgreSQL commits at once, even inside a pipeline.
    pub(super) fn commits_at_once(&self) -> bool {
        matches!(
            self,
            Self::Begin(_) | Self::Commit | Self::DiscardAll | Self::Rollback
        )
    }
}

/// Parses the statements of a text. A syntax error anywhere fails the whole text, as in PostgreSQL.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Sql>, String> {
    let text = String::from_utf8_lossy(text);
    if let Some(of_weir) = forms::question(&text).or_else(|| forms::guard(&text)) {
        return Ok(vec![of_weir]);
    }
    let Some(statements) = token::statements(&text) else {
        return Err(format!("syntax error at or near \"{text}\""));
    };
    statements
        .iter()
        .map(|(text, tokens)| {
            forms::statement(tokens).map_or_else(|| shorthand::statement(text), Ok)
        })
        .collect()
}

/// A reader of tokens.
#[derive(Debug, Clone, Copy)]
struct Reader<'t>(&'t [Token]);

impl<'t> Reader<'t> {
    fn next(&mut self) -> Option<&'t Token> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// Consumes these words and symbols if they come next; otherwise consumes nothing.
    fn takes(&mut self, words: &str) -> bool {
        let mut ahead = *self;
        for word in words.split(' ') {
            let fits = match ahead.next() {
                Some(Token::Word(found)) => found == word,
                Some(Token::Symbol(found)) => word.chars().eq([*found]),
                _ => false,
            };
            if !fits {
                return false;
            }
        }
        *self = ahead;
        true
    }

    fn expect(&mut self, words: &str) -> Option<()> {
        self.takes(words).then_some(())
    }

    fn name(&mut self) -> Option<String> {
        match self.next()? {
            Token::Word(name) | Token::Quoted(name) => Some(name.clone()),
            _ => None,
        }
    }

    /// Reads names separated by dots.
    fn dotted(&mut self) -> Option<String> {
        let mut name = self.name()?;
        while self.takes(".") {
            name = format!("{name}.{}", self.name()?);
        }
        Some(name)
    }

    fn table(&mut self) -> Option<Name> {
        let first = self.name()?;
        Some(if self.takes(".") {
            Name {
                schema: Some(first),
                table: self.name()?,
            }
        } else {
            Name {
                schema: None,
                table: first,
            }
        })
    }

    fn text(&mut self) -> Option<String> {
        match self.next()? {
            Token::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn number<N: std::str::FromStr>(&mut self) -> Option<N> {
        match self.next()? {
            Token::Number(number) => number.parse().ok(),
            _ => None,
        }
    }

    /// Succeeds if no token is left.
    fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests;
