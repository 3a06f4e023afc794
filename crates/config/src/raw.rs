//! Values of all sources before they are combined: one checked value per key with its origin, and the mistakes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use weir_rules::StatementList;

use crate::error::{ConfigError, ErrorKind};
use crate::options::{Kind, Opt, Scope};
use crate::point::HostPoint;
use crate::rules::QueryRule;
use crate::value::{BadValue, Dialect, Value};

/// Maximum number of reported mistakes.
const ERROR_COUNT_MAX: usize = 100;
/// Longest database and user name in bytes.
pub(crate) const DATABASE_LEN_MAX: usize = 63;
pub(crate) const USER_LEN_MAX: usize = 127;
/// Maximum number of characters of a wrong value that a message repeats.
const QUOTE_CHARS_MAX: usize = 80;

/// Source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A line of a file, from 1; 0 = the file as a whole.
    File(Arc<str>, u32),
    /// An environment variable of this name.
    Environment(String),
    /// The command line, or a rule of the command.
    Argument(&'static str),
    /// A line of a file that takes its value from an environment variable of this name.
    Variable(Arc<str>, u32, String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, 0) => f.write_str(path),
            Self::File(path, line) => write!(f, "{path}:{line}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Argument(text) => f.write_str(text),
            Self::Variable(path, line, name) => write!(f, "{path}:{line} by ${{{name}}}"),
        }
    }
}

/// Values by option name.
pub(crate) type Values = BTreeMap<&'static str, (Value, Origin)>;

/// Content of all sources.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Raw {
    pub(crate) global: Values,
    pub(crate) databases: BTreeMap<String, (Values, Origin)>,
    /// Tables of single hosts, by database and host.
    pub(crate) hosts: BTreeMap<String, BTreeMap<HostPoint, (Values, Origin)>>,
    pub(crate) listeners: BTreeMap<String, (Values, Origin)>,
    /// Entries of `[pools]`, by database and user.
    pub(crate) pools: BTreeMap<String, BTreeMap<String, (Values, Origin)>>,
    pub(crate) users: BTreeMap<String, (Values, Origin)>,
    pub(crate) peers: BTreeMap<u32, (Values, Origin)>,
    /// Query rules in the order of the file.
    pub(crate) rules: Vec<QueryRule>,
    /// Place in `rules` of each name.
    pub(crate) rule_names: HashMap<Arc<str>, usize>,
    /// Lists of statements by user.
    pub(crate) statement_lists: BTreeMap<String, StatementList>,
    pub(crate) notes: Vec<String>,
    pub(crate) errors: Vec<ConfigError>,
    /// True if several files must not overlap: a second setting is then a mistake, not a note.
    pub(crate) refuses_repeats: bool,
    /// Environment variables that values were taken from.
    pub(crate) used_variables: BTreeSet<String>,
    /// Lines of an ini, for its conversion.
    pub(crate) trace: Option<Vec<Traced>>,
}

/// A line of an ini file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Traced {
    Blank,
    /// Comment without its mark.
    Comment(String),
    /// Start of a section.
    Section(Scope),
    /// A global option by its row's name. Its value is in force only if no later line sets it again.
    Global(&'static str, Origin),
    /// An entry by its name, with the same rule.
    Entry(Scope, String, Origin),
}

/// Quotes text from the user: one line, of bounded length.
pub(crate) fn quoted(text: &str) -> String {
    let mut chars = text.chars();
    let short: String = chars.by_ref().take(QUOTE_CHARS_MAX).collect();
    let dots = if chars.next().is_some() { "…" } else { "" };
    format!("{:?}{dots}", short)
}

impl Raw {
    /// Records a mistake. Beyond the limit, records only that there are more.
    pub(crate) fn fail(&mut self, error: ConfigError) {
        match self.errors.len() {
            len if len < ERROR_COUNT_MAX => self.errors.push(error),
            ERROR_COUNT_MAX => self.errors.push(ConfigError {
                kind: ErrorKind::TooMany,
                key: None,
                message: "more mistakes follow".to_owned(),
                suggestion: None,
                ..error
            }),
            _ => {}
        }
    }

    /// Records a mistake at a place.
    pub(crate) fn fail_at(&mut self, at: &Origin, kind: ErrorKind, message: impl Into<String>) {
        let error = error_at(at, kind, message);
        self.fail(error);
    }

    /// Returns a place that sets something else than a query rule.
    pub(crate) fn has_more_than_rules(&self) -> Option<Origin> {
        let global = self.global.values().map(|(_, at)| at);
        let pools = self.pools.values().flat_map(BTreeMap::values);
        let entries = self.databases.values().chain(self.users.values());
        let entries = entries.chain(pools).chain(self.listeners.values());
        let places = global.chain(entries.map(|(_, at)| at));
        places
            .chain(self.peers.values().map(|(_, at)| at))
            .next()
            .cloned()
    }

    /// True if no further mistake would be kept.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.len() > ERROR_COUNT_MAX
    }

    /// Finds the row of `key`, or records a mistake.
    pub(crate) fn find(
        &mut self,
        scope: Scope,
        key: &str,
        section: &str,
        at: &Origin,
    ) -> Option<&'static Opt> {
        let found = scope.find(key);
        if found.is_none() {
            let message = format!("unknown key {} {section}", quoted(key));
            let mut error = error_at(at, ErrorKind::UnknownKey, message);
            error.key = Some(key.chars().take(QUOTE_CHARS_MAX).collect());
            error.suggestion = scope.nearest(key).map(str::to_owned);
            self.fail(error);
        }
        found
    }

    /// Records an invalid value; `shown` is the value as written.
    pub(crate) fn bad_value(&mut self, opt: &Opt, shown: &str, at: &Origin, bad: BadValue) {
        let BadValue {
            message,
            suggestion,
        } = bad;
        // A misplaced quote can make a password part of another value.
        let is_secret = opt.kind == Kind::Secret || shown.to_ascii_lowercase().contains("passw");
        let message = match is_secret {
            true => format!("bad value for \"{}\": {message}", opt.name),
            _ => format!(
                "bad value {} for \"{}\": {message}",
                quoted(shown),
                opt.name
            ),
        };
        let mut error = error_at(at, ErrorKind::BadValue, message);
        error.key = Some(opt.name.to_owned());
        error.suggestion = suggestion.map(str::to_owned);
        self.fail(error);
    }

    /// Parses a text and stores it in `values`, or records the mistake.
    pub(crate) fn parse_into(
        &mut self,
        values: &mut Values,
        opt: &'static Opt,
        text: &str,
        dialect: Dialect,
        at: &Origin,
    ) {
        match opt.parse(text, dialect) {
            Ok(value) => self.store(values, opt, value, at),
            Err(bad) => self.bad_value(opt, text, at, bad),
        }
    }

    /// Stores a value. The last one wins, as in PgBouncer, but with a note.
    pub(crate) fn store(
        &mut self,
        values: &mut Values,
        opt: &'static Opt,
        value: Value,
        at: &Origin,
    ) {
        let before = values.insert(opt.name, (value, at.clone()));
        // The environment wins over files without a note.
        let is_file = matches!(at, Origin::File(..) | Origin::Variable(..));
        if let Some((_, before)) = before.filter(|_| is_file) {
            self.repeated(opt.name, at, &before);
        }
    }

    /// Reports a second setting of the same name.
    pub(crate) fn repeated(&mut self, name: &str, at: &Origin, before: &Origin) {
        if self.refuses_repeats {
            let message = format!("{} was set at {before} already", quoted(name));
            let mut error = error_at(at, ErrorKind::Conflict, message);
            error.key = Some(name.to_owned());
            return self.fail(error);
        }
        self.note(format!(
            "{at}: {} was set at {before} already; this one wins",
            quoted(name)
        ));
    }

    /// Adds the options of one host of a database. The last table of a host wins, as for entries.
    pub(crate) fn insert_host(
        &mut self,
        database: String,
        point: HostPoint,
        values: Values,
        at: &Origin,
    ) {
        let shown = format!("{database}/{point}");
        let tables = self.hosts.entry(database).or_default();
        if let Some((_, before)) = tables.insert(point, (values, at.clone())) {
            self.repeated(&shown, at, &before);
        }
    }

    /// Adds the options of one user of a database. The last entry of a pair wins.
    pub(crate) fn insert_pool(
        &mut self,
        database: String,
        user: String,
        values: Values,
        at: &Origin,
    ) {
        for (name, max) in [(&database, DATABASE_LEN_MAX), (&user, USER_LEN_MAX)] {
            if name.is_empty() || name.contains('\0') || name.len() > max {
                let message = format!("a name must have 1 to {max} bytes and no NUL byte");
                return self.fail_at(at, ErrorKind::BadValue, message);
            }
        }
        let shown = format!("{database}/{user}");
        let entries = self.pools.entry(database).or_default();
        if let Some((_, before)) = entries.insert(user, (values, at.clone())) {
            self.repeated(&shown, at, &before);
        }
    }

    /// Keeps a line for the conversion of the file.
    pub(crate) fn trace(&mut self, line: impl FnOnce() -> Traced) {
        if let Some(trace) = &mut self.trace {
            trace.push(line());
        }
    }

    /// Adds a warning, up to the limit on their number.
    pub(crate) fn note(&mut self, note: String) {
        if self.notes.len() < ERROR_COUNT_MAX {
            self.notes.push(note);
        }
    }
}

/// Makes a mistake at a place, without key and suggestion.
pub(crate) fn error_at(at: &Origin, kind: ErrorKind, message: impl Into<String>) -> ConfigError {
    let mut message = message.into();
    let (file, line) = match at {
        Origin::File(path, line) | Origin::Variable(path, line, _) => {
            (path.to_string(), (*line > 0).then_some(*line))
        }
        Origin::Environment(name) => {
            message = format!("{name}: {message}");
            ("environment".to_owned(), None)
        }
        Origin::Argument(text) => ((*text).to_owned(), None),
    };
    ConfigError {
        kind,
        file,
        line,
        key: None,
        message,
        suggestion: None,
    }
}
