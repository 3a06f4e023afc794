//! Parsing of a query: a statement of the table of commands with its arguments, or an error.

use std::borrow::Cow;

use weir_config::PgBouncerVersion;
use weir_proxy::console::{Order, Refusal, Role, RouteQuestion, Shutdown};
use weir_wire::sqlstate::SqlState;

use crate::command::{self, COMMANDS, EXPLAIN_ROUTE, RULE, SHOW_DIGESTS};
use crate::digests;
use crate::explain;
use crate::rule;
use crate::show::{Heading, Show, text};
use crate::token::{self, tokens};

/// Maximum of bytes of an invalid query that its error repeats.
const ECHO_LEN_MAX: usize = 100;

/// Statement that its user may use.
#[derive(Clone)]
pub(crate) enum Statement {
    /// Returns one text.
    Constant {
        column: &'static str,
        value: &'static str,
    },
    /// Question for digests.
    Digests(digests::Question),
    /// Query without a statement.
    Empty,
    /// Question where a statement would run.
    Explain(RouteQuestion),
    Help,
    /// SET of a parameter that drivers set on connecting.
    Ignore,
    /// An order for the engine, and the tag of its answer.
    Perform(Order, Cow<'static, str>),
    /// A table in the columns of this version, which are those that a client was told.
    Show(&'static Show, PgBouncerVersion),
    /// Rows of a table whose first column has this value, if there is one.
    ShowOf(&'static Show, Option<String>),
    Stop(Shutdown),
}

/// Error for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) code: SqlState,
    pub(crate) message: String,
}

impl Refused {
    /// Creates an error with the code that PgBouncer's console uses for all its errors.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::with(SqlState::PROTOCOL_VIOLATION, message)
    }

    pub(crate) fn with(code: SqlState, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::with(refusal.code(), refusal.to_string())
    }
}

impl Statement {
    /// Parses a query of a user with this role. Only this function decides what is permitted (hazard SEC-44).
    pub(crate) fn read(role: Role, version: PgBouncerVersion, sql: &[u8]) -> Result<Self, Refused> {
        if let Some(arguments) = explain::behind_words(sql) {
            command::permit(EXPLAIN_ROUTE, role)?;
            return explain::read(arguments).map(Self::Explain);
        }
        if let Some(arguments) = digests::behind_words(sql) {
            command::permit(SHOW_DIGESTS, role)?;
            return digests::read(arguments).map(Self::Digests);
        }
        if let Some(arguments) = rule::behind_word(sql) {
            command::permit(RULE, role)?;
            return rule::read(arguments).map(|(order, tag)| Self::Perform(order, tag.into()));
        }
        let tokens = match tokens(sql) {
            Ok(tokens) if tokens.is_empty() => return Ok(Self::Empty),
            Ok(tokens) => tokens,
            Err(token::Fault::Invalid) => return Err(invalid(sql)),
            Err(token::Fault::LongWord) => return Err(Refused::new("bad arguments")),
        };
        let Some((entry, rest)) = command::find(&tokens) else {
            return Err(invalid(sql));
        };
        command::permit(entry.name, role)?;
        entry.read(rest, version).map_err(|fault| match fault {
            command::Fault::DatabaseMissing => Refused::new("a database is required"),
            command::Fault::LongName => Refused::new("bad arguments"),
            command::Fault::NoClient => Refused::new("invalid client pointer supplied"),
            command::Fault::Gone(why) => Refused::with(SqlState::FEATURE_NOT_SUPPORTED, why),
            command::Fault::Unknown => invalid(sql),
        })
    }

    /// Columns of the result, if there is one.
    pub(crate) fn headings(&self) -> Option<Cow<'static, [Heading]>> {
        match self {
            Self::Constant { column, .. } => Some(vec![text(column)].into()),
            Self::Digests(_) => Some(digests::HEADINGS.into()),
            Self::Explain(_) => Some(explain::HEADINGS.into()),
            Self::Show(show, version) => Some(show.columns(*version).into()),
            Self::ShowOf(show, _) => Some(show.headings.into()),
            Self::Empty | Self::Help | Self::Ignore | Self::Perform(..) | Self::Stop(_) => None,
        }
    }
}

/// Lines of SHOW HELP.
pub(crate) fn usages() -> String {
    let shown = COMMANDS
        .iter()
        .filter(|entry| !entry.is_courtesy() && !entry.is_gone());
    shown.fold(String::new(), |text, entry| text + "\n\t" + &entry.usage())
}

/// Error that repeats the query, short and printable.
fn invalid(sql: &[u8]) -> Refused {
    let start = sql.get(..ECHO_LEN_MAX).unwrap_or(sql);
    let mut echo: String = String::from_utf8_lossy(start)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if start.len() < sql.len() {
        echo.push_str("...");
    }
    Refused::new(format!("invalid command '{echo}', use SHOW HELP;"))
}
