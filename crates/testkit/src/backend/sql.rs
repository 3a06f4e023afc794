//! The statements that the model knows: some of PostgreSQL's own, by exact forms, and a shorthand of a handful of words.

use super::resolved::{NUMBERS, Number};
use super::token::{self, Token};

mod forms;
mod shorthand;

/// One statement. Names are as PostgreSQL keeps them, values as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sql {
    /// `ALTER TABLE t ALTER COLUMN v TYPE int|text ..`: true makes it an int.
    Alter(String, bool),
    Begin,
    /// None: all.
    CloseCursor(Option<String>),
    Commit,
    /// `COPY t FROM STDIN`; the shorthand has no table.
    CopyIn(Option<Name>),
    /// So many lines, which begin with this and a number.
    CopyOut {
        lines: usize,
        first: usize,
        what: String,
    },
    CreateTemp {
        table: String,
        on_commit: OnCommit,
    },
    /// None: all.
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
    /// No rows.
    Do,
    /// `DO` with a block that sets something.
    DoSet(String, String),
    Drop(String),
    /// Fails when it runs: SQLSTATE and text.
    Error(&'static str, String),
    Execute(String),
    Fetch(usize, String),
    Insert(Name, String),
    /// `INSERT INTO t VALUES ($1)`, perhaps with `RETURNING pg_typeof($1)::text`.
    InsertParameter {
        table: Name,
        returns: bool,
        /// Type of the parameter, once it was resolved.
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
    /// None: all.
    Unlisten(Option<String>),
    /// `CREATE VIEW ann.spot` if true, else `DROP VIEW ann.spot`.
    View(bool),
}

/// A table, perhaps with its schema.
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

/// How a notice is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    Notice,
    Warning,
}

/// A SET in any form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) name: String,
    /// None: the default.
    pub(super) value: Option<String>,
    pub(super) local: bool,
    /// The shorthand takes any name and value.
    pub(super) any: bool,
}

/// What a SELECT selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Select {
    /// `pg_listening_channels()`
    Channels,
    Currval(String),
    CurrentSetting(String),
    CurrentUser,
    /// `coalesce(nullif(current_setting(x, true), ''), 'none')`
    CustomSetting(String),
    /// An error as soon as it is planned.
    FailsEarly,
    /// An error when it runs, behind its RowDescription.
    FailsLate,
    Integer(String),
    Lastval,
    Literal(String),
    Lock(Lock, i64),
    Nextval(String),
    /// Weir's question about the session's state.
    Question(Vec<Ask>),
    /// The shorthand: so many rows in a column `what`.
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

/// The functions of advisory locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    Take,
    Transaction,
    Try,
    Unlock,
    UnlockAll,
}

/// One part of the question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    AllSettings,
    /// The word to answer with, and what it is about.
    Pinned(String, Held),
    Setting(String),
    /// The names of what the protocol has prepared.
    Statements,
}

/// What a session may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    Channels,
    Cursors,
    Locks,
    Prepared,
    Temporary,
}

impl Sql {
    /// Whether it is analysed when it is parsed, and can be prepared.
    pub(super) fn is_plannable(&self) -> bool {
        matches!(
            self,
            Self::Select(_) | Self::Insert(..) | Self::InsertParameter { .. }
        )
    }

    pub(super) fn ends_transaction(&self) -> bool {
        matches!(self, Self::Commit | Self::Rollback | Self::RollbackTo(_))
    }

    /// What PostgreSQL commits at once, even inside of a pipeline.
    pub(super) fn commits_at_once(&self) -> bool {
        matches!(
            self,
            Self::Begin | Self::Commit | Self::DiscardAll | Self::Rollback
        )
    }
}

/// The statements of a text; a syntax error anywhere spoils the whole text, as in PostgreSQL.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Sql>, String> {
    let text = String::from_utf8_lossy(text);
    if let Some(question) = forms::question(&text) {
        return Ok(vec![question]);
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

    /// The next tokens are these words and symbols; if not, nothing is taken.
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

    /// Names with dots between them.
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

    /// Nothing is left.
    fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests;
