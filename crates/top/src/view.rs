//! The eight views: their names, the questions they ask, and what they say when there is nothing to show.

use crate::columns::{Sheet, others, pools, sessions};
use crate::data::Data;
use crate::question::Question;

/// A view of the pooler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum View {
    /// Conditions that need somebody, with advice.
    #[default]
    Diagnoses,
    /// Pools by database and user.
    Pools,
    /// Client connections.
    Clients,
    /// Server connections, and who holds them.
    Servers,
    /// Clients that keep their server beyond the transaction.
    Pins,
    /// Errors sent to clients.
    Errors,
    /// Hosts of databases.
    Hosts,
    /// Statements that differ in literals only.
    Statements,
}

impl View {
    /// All views, in the order of their keys.
    pub const ALL: [Self; 8] = [
        Self::Diagnoses,
        Self::Pools,
        Self::Clients,
        Self::Servers,
        Self::Pins,
        Self::Errors,
        Self::Hosts,
        Self::Statements,
    ];

    /// Name in the display and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Diagnoses => "diagnoses",
            Self::Pools => "pools",
            Self::Clients => "clients",
            Self::Servers => "servers",
            Self::Pins => "pins",
            Self::Errors => "errors",
            Self::Hosts => "hosts",
            Self::Statements => "statements",
        }
    }

    /// View of a key from `1` to `8`.
    pub(crate) fn of_key(key: char) -> Option<Self> {
        let number = key.to_digit(10)?.checked_sub(1)?;
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Tables that may fill this view, the best first.
    pub(crate) const fn sheets(self) -> &'static [Sheet] {
        match self {
            Self::Diagnoses => others::DIAGNOSES,
            Self::Pools => pools::SHEETS,
            Self::Clients => sessions::CLIENTS,
            Self::Servers => sessions::SERVERS,
            Self::Pins => others::PINS,
            Self::Errors => others::ERRORS,
            Self::Hosts => others::HOSTS,
            Self::Statements => others::STATEMENTS,
        }
    }

    /// Questions of this view, besides those of the header.
    pub(crate) const fn questions(self) -> &'static [Question] {
        match self {
            Self::Diagnoses => &[Question::Databases, Question::Waits],
            Self::Pools => &[Question::ExtendedPools, Question::Waits],
            Self::Clients => &[Question::Clients],
            Self::Servers => &[Question::Servers, Question::Clients],
            Self::Pins => &[Question::Pins],
            Self::Errors => &[Question::Errors],
            Self::Hosts => &[Question::Hosts, Question::Databases],
            Self::Statements => &[Question::Digests],
        }
    }

    /// Question that the view answers, for its heading.
    pub(crate) const fn purpose(self) -> &'static str {
        match self {
            Self::Diagnoses => "what is wrong, and what to do",
            Self::Pools => "who waits, how long and for what",
            Self::Clients => "what each client does",
            Self::Servers => "who holds the servers",
            Self::Pins => "who keeps a server beyond the transaction",
            Self::Errors => "which errors clients get",
            Self::Hosts => "which hosts are up",
            Self::Statements => "where the servers' time goes",
        }
    }

    /// First sheet whose table is there; else `None`.
    pub(crate) fn sheet(self, data: &Data) -> Option<&'static Sheet> {
        let filled = |sheet: &&Sheet| {
            let table = (sheet.table)(data);
            table.is_some_and(|table| !table.rows.is_empty())
        };
        let known = |sheet: &&Sheet| (sheet.table)(data).is_some();
        let sheets = self.sheets().iter();
        sheets
            .clone()
            .find(filled)
            .or_else(|| sheets.clone().find(known))
    }
}

/// Questions of the header, asked in every view.
pub(crate) const HEADER: [Question; 5] = [
    Question::Version,
    Question::State,
    Question::Diagnosis,
    Question::Pools,
    Question::Stats,
];
