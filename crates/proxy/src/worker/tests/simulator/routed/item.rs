//! Statements of clients, and the requests that they are sent in.

use weir_testkit::say::{Say, say};

/// Name of the prepared read of a session.
const NAMED: &str = "r";

/// Statement of a client. Texts begin with the client's number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// True for READ ONLY.
    Begin(bool),
    Commit,
    /// Inserts this row.
    Insert(String),
    /// Returns this text.
    Mark(String),
    Nextval,
    /// Inserts this row, by a function that may be declared to read.
    Note(String),
    /// Returns all rows; the text identifies the statement.
    Read(String),
    Rollback,
    Set(&'static str, &'static str),
    /// Makes a temporary table with this number.
    Temporary(usize),
}

impl Item {
    pub(super) fn sql(&self) -> String {
        match self {
            Self::Begin(false) => "BEGIN".to_owned(),
            Self::Begin(true) => "BEGIN READ ONLY".to_owned(),
            Self::Commit => "COMMIT".to_owned(),
            Self::Insert(row) => format!("INSERT INTO public.sink VALUES ('{row}')"),
            Self::Mark(text) => format!("SELECT '{text}'"),
            Self::Nextval => "SELECT nextval('public.s')".to_owned(),
            Self::Note(row) => format!("SELECT note('{row}')"),
            Self::Read(tag) => format!("SELECT a FROM public.sink WHERE a <> '{tag}'"),
            Self::Rollback => "ROLLBACK".to_owned(),
            Self::Set(name, value) => format!("SET {name} TO '{value}'"),
            Self::Temporary(number) => {
                format!("CREATE TEMP TABLE t{number} (a text) ON COMMIT DROP")
            }
        }
    }

    /// Row that the statement inserts.
    pub(super) fn row(&self) -> Option<&String> {
        match self {
            Self::Insert(row) | Self::Note(row) => Some(row),
            _ => None,
        }
    }

    /// Text by which hosts name the statement.
    pub(super) fn tag(&self) -> Option<&String> {
        match self {
            Self::Insert(tag) | Self::Mark(tag) | Self::Note(tag) | Self::Read(tag) => Some(tag),
            _ => None,
        }
    }

    pub(super) fn writes(&self) -> bool {
        self.row().is_some() || matches!(self, Self::Nextval | Self::Temporary(_))
    }
}

/// Manner in which a request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A prepared statement with a name. `parses` is true at its first use.
    Named { parses: bool },
    /// Single Query with all statements.
    Simple,
    /// Parse, Bind and Execute for each statement, and one Sync.
    Unnamed,
}

/// Request of a client: one ReadyForQuery ends its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) items: Vec<Item>,
    pub(super) form: Form,
}

impl Request {
    pub(super) fn bytes(&self) -> Say {
        let texts: Vec<_> = self.items.iter().map(Item::sql).collect();
        match self.form {
            Form::Simple => say().query(&texts.join("; ")),
            Form::Unnamed => {
                let parts = texts.iter();
                let all = parts.fold(say(), |said, text| said.parse("", text).run(""));
                all.sync()
            }
            Form::Named { parses: true } => {
                // An earlier attempt may have failed behind its Parse.
                let said = say().close_statement(NAMED);
                said.parse(NAMED, &texts.join("; ")).run(NAMED).sync()
            }
            Form::Named { parses: false } => say().run(NAMED).sync(),
        }
    }

    pub(super) fn told(&self) -> String {
        let texts: Vec<_> = self.items.iter().map(Item::sql).collect();
        format!("{:?} {}", self.form, texts.join("; "))
    }
}
