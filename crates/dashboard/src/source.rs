//! Interface to the pooler: tables, history, actions and logins. The crate knows nothing else of it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::ServerConfig;

/// Data behind the pages. Calls may block, and come from threads that serve no database client.
pub trait Source: Send + Sync {
    /// Returns the table of `SHOW name`, as the console shows it.
    ///
    /// # Errors
    /// The console has no such table, or the workers do not answer.
    fn table(&self, name: &str) -> Result<Table, Missing>;

    /// Returns the series of the last `seconds`.
    ///
    /// # Errors
    /// The process keeps no such series.
    fn history(&self, scope: &Scope, seconds: u32) -> Result<Series, Missing>;

    /// Carries out an action of this administrator.
    ///
    /// # Errors
    /// The pooler refuses the action.
    fn act(&self, action: &Action, who: &Who) -> Result<String, String>;

    /// Checks a user's password. A failed attempt counts for the address.
    ///
    /// # Errors
    /// The login is refused.
    fn sign_in(&self, user: &str, password: &[u8], address: IpAddr) -> Result<Role, Denied>;

    /// Returns the rights that the configuration in force gives to a user.
    fn role(&self, user: &str) -> Option<Role>;

    /// Returns the options in force.
    fn options(&self) -> Options;

    /// Returns the TLS for addresses that are not loopback; `None` if the configuration in force has none, and then
    /// these addresses serve nobody.
    fn tls(&self) -> Option<Arc<ServerConfig>>;

    /// Returns the time in Unix seconds.
    fn unix(&self) -> i64;
}

/// Options that a reload may change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// `dashboard_hosts`: names by which browsers may reach the dashboard.
    pub hosts: Vec<String>,
    /// `dashboard_actions`.
    pub has_actions: bool,
}

/// Rights of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads all tables, without the texts of statements.
    Stats,
    /// Reads everything and may act.
    Admin,
}

/// Reason for which a login is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The user does not exist, has no right to the dashboard, or the password is wrong; no caller learns which. The answer
    /// must be held back for this time.
    #[error("user name or password is wrong, or the user is not in admin_users or stats_users")]
    Wrong(Duration),
    /// The address has failed too often.
    #[error("too many failed logins from this address; wait a minute")]
    TooMany,
}

/// Reason for which there is no table or series.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// The workers do not answer, for this reason.
    #[error("{0}")]
    Failed(String),
    /// This version of the console does not have it.
    #[error("needs {0}")]
    Unknown(String),
}

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Number, aligned at its end.
    Number,
    /// Any text.
    Text,
}

/// Column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The console's name of the column.
    pub name: String,
    /// Type of its values.
    pub kind: Kind,
}

/// Answer to a `SHOW`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Columns, in the console's order.
    pub columns: Vec<Column>,
    /// Rows with a value for each column; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

impl Table {
    /// Returns the place of a column.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// Subject of a history.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// A pool.
    Pool {
        /// Name of its database.
        database: String,
        /// Name of its user.
        user: String,
    },
    /// The whole process.
    Process,
}

/// Values over time, at equal distances.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// Time of the first value, in Unix seconds.
    pub from: i64,
    /// Distance between two values, in seconds.
    pub step: u32,
    /// Lines, all with the same number of values.
    pub lines: Vec<Line>,
    /// Events within the time: Unix seconds and a few words.
    pub marks: Vec<(i64, String)>,
}

/// Line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Name of the figure, such as `tps`.
    pub name: String,
    /// Values, the oldest first; `None` if nothing is known.
    pub values: Vec<Option<f64>>,
}

/// Order of an administrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// `KILL_CLIENT id`.
    KillClient(u64),
    /// `PAUSE database`.
    Pause(String),
    /// `RELOAD`.
    Reload,
    /// `RESUME database`.
    Resume(String),
    /// `RULE DRY name`: the rule only counts.
    RuleOff(String),
    /// `RULE LIVE name`: the rule is in force.
    RuleOn(String),
}

/// Person who acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// Name of the user.
    pub user: String,
    /// Address of the browser.
    pub address: IpAddr,
}

impl Action {
    /// Reads an action by the name that forms use.
    #[must_use]
    pub fn read(name: &str, target: &str) -> Option<Self> {
        let text = || (!target.is_empty()).then(|| target.to_owned());
        Some(match name {
            "kill_client" => Self::KillClient(target.parse().ok()?),
            "pause" => Self::Pause(text()?),
            "reload" => Self::Reload,
            "resume" => Self::Resume(text()?),
            "rule_off" => Self::RuleOff(text()?),
            "rule_on" => Self::RuleOn(text()?),
            _ => return None,
        })
    }

    /// True if the name of the target has to be typed, because the action stops work of others.
    #[must_use]
    pub fn is_grave(&self) -> bool {
        matches!(self, Self::KillClient(_) | Self::Pause(_))
    }

    /// Returns a sentence about the effect.
    #[must_use]
    pub fn effect(&self) -> &'static str {
        match self {
            Self::KillClient(_) => {
                "Disconnects this client. An open transaction is rolled back. There is no way back."
            }
            Self::Pause(_) => {
                "Assigns no more servers of this database: its clients wait. RESUME takes it back."
            }
            Self::Reload => {
                "Reads the configuration again. A configuration with a mistake changes nothing."
            }
            Self::Resume(_) => "Assigns servers of this database again.",
            Self::RuleOff(_) => {
                "Lets the rule only count, until the process ends. Turning it on takes it back."
            }
            Self::RuleOn(_) => {
                "Puts the rule in force, until the process ends. Turning it off takes it back."
            }
        }
    }
}

impl fmt::Display for Action {
    /// Writes the console's command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        match self {
            Self::KillClient(id) => write!(f, "KILL_CLIENT {id}"),
            Self::Pause(database) => write!(f, "PAUSE {}", name(database)),
            Self::Reload => f.write_str("RELOAD"),
            Self::Resume(database) => write!(f, "RESUME {}", name(database)),
            Self::RuleOff(rule) => write!(f, "RULE DRY {}", name(rule)),
            Self::RuleOn(rule) => write!(f, "RULE LIVE {}", name(rule)),
        }
    }
}
