//! What the load generator is told: a plain description that TOML and JSON can hold. It knows no socket and no time.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The most clients of one generator: more do not fit into one range of source ports.
pub const CLIENTS_MAX: u32 = 50_000;

/// The most threads.
pub const THREADS_MAX: u32 = 256;

/// The most statements of one transaction, repetitions included.
pub const STATEMENTS_MAX: usize = 100_000;

/// The longest line of COPY data.
pub const LINE_MAX: u32 = 1 << 20;

/// One load on one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Host and port over TCP, such as `127.0.0.1:5432` or `[::1]:5432`.
    pub address: String,
    /// Role to log in as.
    pub user: String,
    /// Its password, for clear text, MD5 and SCRAM alike.
    #[serde(default)]
    pub password: Option<Password>,
    /// Database to log in to.
    pub database: String,
    /// Further start-up parameters, such as `application_name`.
    #[serde(default)]
    pub parameters: Vec<(String, String)>,
    /// Whether the connections are encrypted.
    #[serde(default)]
    pub tls: Tls,
    /// Connections, 1 to [`CLIENTS_MAX`].
    #[serde(default = "one")]
    pub clients: u32,
    /// Threads, 1 to [`THREADS_MAX`], never more than clients. Each has an event loop of its own.
    #[serde(default = "one")]
    pub threads: u32,
    /// How statements are sent.
    #[serde(default)]
    pub protocol: Protocol,
    /// How many statements of a transaction are sent at once, with one Sync behind them. 1: each waits for the answer to
    /// the one before. More than 1 needs [`Protocol::Extended`] or [`Protocol::Prepared`].
    #[serde(default = "one")]
    pub pipeline: u32,
    /// What is run, chosen at random by weight. May be empty if only logins count ([`Plan::reconnect`]) or nothing does
    /// ([`Pace::Idle`]).
    #[serde(default)]
    pub transactions: Vec<Transaction>,
    /// When transactions begin.
    #[serde(default)]
    pub pace: Pace,
    /// A connection and a login for every transaction; they are part of its time.
    #[serde(default)]
    pub reconnect: bool,
    /// The run also ends when each client has done so many; what failed counts. No warm-up then.
    #[serde(default)]
    pub transactions_per_client: Option<u64>,
    /// Seconds that run in front and are not counted.
    #[serde(default)]
    pub warm_up_s: f64,
    /// Seconds that are counted.
    pub measure_s: f64,
    /// Seconds that whatever is under way at the end may still take.
    #[serde(default = "drain")]
    pub drain_s: f64,
    /// Seconds that all logins together may take before anything begins.
    #[serde(default = "connect")]
    pub connect_s: f64,
    /// Decides each client's choices and the times of a Poisson schedule.
    #[serde(default)]
    pub seed: u64,
}

/// A password, which is not shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// Encryption of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Tls {
    /// None.
    #[default]
    Off,
    /// Any certificate will do: `sslmode=require`.
    Require,
    /// The certificate must lead back to this CA and name the host: `sslmode=verify-full`.
    VerifyFull {
        /// PEM file with the CA's certificate.
        ca_file: PathBuf,
    },
}

/// How statements are sent (manual, "Message Flow").
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Query, with the values in the text.
    #[default]
    Simple,
    /// Parse, Bind, Describe, Execute and Sync each time, as pgbench's `-M extended`.
    Extended,
    /// The same without the Parse after the first time on a connection, as `-M prepared`.
    Prepared,
}

/// When transactions begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pace {
    /// When the client's last one is over. A target that stalls is asked less, so its worst times are rare in the result.
    #[default]
    Closed,
    /// Evenly, whether the target keeps up or not. Times count from when a transaction was to begin.
    Fixed {
        /// Of all clients together.
        per_second: f64,
    },
    /// At random times with this mean rate, otherwise as [`Pace::Fixed`].
    Poisson {
        /// Of all clients together.
        per_second: f64,
    },
    /// Never: the connections are opened and kept. If there are transactions, each client runs one first.
    Idle,
}

/// Statements that belong together, from the client's first byte to the last answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    /// For people.
    #[serde(default)]
    pub name: String,
    /// How often it is chosen, relative to the others; at least 1.
    #[serde(default = "one")]
    pub weight: u32,
    /// What `:name` in the statements stands for. Drawn at the start, and again for each repetition of a statement.
    #[serde(default)]
    pub variables: Vec<Variable>,
    /// In this order, `BEGIN` and `COMMIT` included where they are wanted. `ROLLBACK` after an error is sent by itself.
    pub statements: Vec<Statement>,
}

impl Transaction {
    /// One of weight 1, with these statements and no variables.
    pub fn new<'a>(statements: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            name: String::new(),
            weight: 1,
            variables: Vec::new(),
            statements: statements.into_iter().map(Statement::new).collect(),
        }
    }

    /// The same with one more variable.
    #[must_use]
    pub fn with(mut self, name: &str, draw: Draw) -> Self {
        let name = name.to_owned();
        self.variables.push(Variable { name, draw });
        self
    }
}

/// A name and where its value comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Letters, digits and underscores. As in pgbench, `:name` is replaced wherever it stands, in quotes too, except
    /// behind another colon.
    pub name: String,
    /// Its value.
    pub draw: Draw,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Draw {
    /// An integer, all equally likely.
    Uniform {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// The same, but never the value of another variable, which stands in front of this one.
    UniformExcept {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
        /// The other one's name.
        except: String,
    },
    /// So many letters `x`.
    Filler {
        /// Bytes.
        bytes: usize,
    },
}

/// One statement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Its text. Results, `COPY ... TO STDOUT` included, are read to their end and thrown away.
    pub sql: String,
    /// How many times in a row.
    #[serde(default = "one")]
    pub repeat: u32,
    /// For `COPY ... FROM STDIN`: what is sent. Always in the simple protocol and never in a batch.
    #[serde(default)]
    pub copy_in: Option<CopyIn>,
}

impl Statement {
    /// Once, without data.
    pub fn new(sql: &str) -> Self {
        Self {
            sql: sql.to_owned(),
            repeat: 1,
            copy_in: None,
        }
    }
}

/// Data for a `COPY ... FROM STDIN`: lines of one text column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyIn {
    /// How many bytes in all, the last line cut short if need be.
    pub bytes: u64,
    /// Bytes of a line with its end, 2 to [`LINE_MAX`].
    pub line: u32,
}

const fn one() -> u32 {
    1
}

const fn drain() -> f64 {
    10.0
}

const fn connect() -> f64 {
    60.0
}

impl Plan {
    /// A closed loop of one client that runs nothing for a second; the fields are to be set.
    pub fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            user: "postgres".to_owned(),
            password: None,
            database: "postgres".to_owned(),
            parameters: Vec::new(),
            tls: Tls::Off,
            clients: 1,
            threads: 1,
            protocol: Protocol::Simple,
            pipeline: 1,
            transactions: Vec::new(),
            pace: Pace::Closed,
            reconnect: false,
            transactions_per_client: None,
            warm_up_s: 0.0,
            measure_s: 1.0,
            drain_s: drain(),
            connect_s: connect(),
            seed: 0,
        }
    }

    /// How many threads it really takes.
    pub fn thread_count(&self) -> u32 {
        self.threads.min(self.clients)
    }

    /// # Errors
    /// The first thing in it that cannot be done.
    pub fn check(&self) -> Result<(), PlanError> {
        within("clients", self.clients, CLIENTS_MAX)?;
        within("threads", self.threads, THREADS_MAX)?;
        within("pipeline", self.pipeline, u32::MAX)?;
        let seconds = [
            ("warm_up_s", self.warm_up_s, true),
            ("measure_s", self.measure_s, false),
            ("drain_s", self.drain_s, true),
            ("connect_s", self.connect_s, false),
        ];
        for (key, value, may_be_zero) in seconds {
            let is_fine = (value > 0.0 || may_be_zero && value == 0.0) && value <= 1e6;
            if !is_fine {
                return Err(PlanError::Seconds { key, value });
            }
        }
        if self.pipeline > 1 && self.protocol == Protocol::Simple {
            return Err(PlanError::SimplePipeline);
        }
        self.check_pace()?;
        self.transactions.iter().try_for_each(Transaction::check)
    }

    fn check_pace(&self) -> Result<(), PlanError> {
        if let Pace::Fixed { per_second } | Pace::Poisson { per_second } = self.pace
            && !(per_second > 0.0 && per_second <= 1e8)
        {
            return Err(PlanError::Rate(per_second));
        }
        match self.pace {
            Pace::Idle if self.reconnect => Err(PlanError::IdleReconnect),
            Pace::Idle => Ok(()),
            _ if self.transactions.is_empty() && !self.reconnect => Err(PlanError::NothingToDo),
            _ => Ok(()),
        }
    }
}

fn within(key: &'static str, value: u32, max: u32) -> Result<(), PlanError> {
    match value {
        0 => Err(PlanError::OutOfRange { key, value, max }),
        value if value > max => Err(PlanError::OutOfRange { key, value, max }),
        _ => Ok(()),
    }
}

impl Transaction {
    fn check(&self) -> Result<(), PlanError> {
        within("weight", self.weight, u32::MAX)?;
        for (at, variable) in self.variables.iter().enumerate() {
            variable.check(self.variables.get(..at).unwrap_or_default())?;
        }
        let mut count = 0_usize;
        for statement in &self.statements {
            within("repeat", statement.repeat, u32::MAX)?;
            count = count.saturating_add(statement.repeat as usize);
            if statement.sql.contains('\0') {
                return Err(PlanError::Nul(self.name.clone()));
            }
            if statement
                .copy_in
                .is_some_and(|copy| !(2..=LINE_MAX).contains(&copy.line))
            {
                return Err(PlanError::CopyLine(self.name.clone()));
            }
        }
        if count == 0 || count > STATEMENTS_MAX {
            let name = self.name.clone();
            return Err(PlanError::StatementCount { name, count });
        }
        Ok(())
    }
}

impl Variable {
    /// `before` are those in front of it.
    fn check(&self, before: &[Self]) -> Result<(), PlanError> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if self.name.is_empty() || !self.name.bytes().all(is_name) {
            return Err(PlanError::VariableName(self.name.clone()));
        }
        if before.iter().any(|other| other.name == self.name) {
            return Err(PlanError::VariableTwice(self.name.clone()));
        }
        let is_fine = match &self.draw {
            Draw::Uniform { min, max } => min <= max,
            // With one value only, it could be the one that is excepted.
            Draw::UniformExcept { min, max, except } => {
                let is_number = |other: &Self| !matches!(other.draw, Draw::Filler { .. });
                if !before.iter().any(|o| o.name == *except && is_number(o)) {
                    return Err(PlanError::UnknownVariable(except.clone()));
                }
                min < max
            }
            Draw::Filler { bytes } => *bytes < 1 << 30,
        };
        match is_fine {
            true => Ok(()),
            false => Err(PlanError::VariableRange(self.name.clone())),
        }
    }
}

/// Why a plan cannot be carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A number is 0 or too large.
    #[error("{key} is {value}, but has to be from 1 to {max}")]
    OutOfRange {
        /// The field.
        key: &'static str,
        /// What it says.
        value: u32,
        /// The most it may be.
        max: u32,
    },
    /// A duration is no duration.
    #[error("{key} is {value}, but has to be a number of seconds")]
    Seconds {
        /// The field.
        key: &'static str,
        /// What it says.
        value: f64,
    },
    /// A rate of nothing, or of too much.
    #[error("a rate of {0} per second is impossible")]
    Rate(f64),
    /// Batches of the simple protocol.
    #[error("pipeline needs protocol = \"extended\" or \"prepared\"")]
    SimplePipeline,
    /// Connections that are kept and are not.
    #[error("pace = \"idle\" keeps connections, so it cannot reconnect")]
    IdleReconnect,
    /// No transaction, and no other work.
    #[error("there is no transaction to run")]
    NothingToDo,
    /// A transaction of nothing, or an endless one.
    #[error(
        "transaction \"{name}\" has {count} statements, but has to have from 1 to {STATEMENTS_MAX}"
    )]
    StatementCount {
        /// The transaction.
        name: String,
        /// Repetitions included.
        count: usize,
    },
    /// A text that the protocol cannot carry.
    #[error("a statement of transaction \"{0}\" contains a NUL byte")]
    Nul(String),
    /// Lines without a byte in them, or too long to be held.
    #[error("copy_in of transaction \"{0}\" needs lines of 2 to {LINE_MAX} bytes")]
    CopyLine(String),
    /// Not a name.
    #[error("variable name \"{0}\" is not made of letters, digits and underscores")]
    VariableName(String),
    /// The same name again.
    #[error("variable \"{0}\" is there twice")]
    VariableTwice(String),
    /// No value fits.
    #[error("variable \"{0}\" has an empty range")]
    VariableRange(String),
    /// The name of nothing in front.
    #[error("no numeric variable \"{0}\" stands in front of the one that excepts it")]
    UnknownVariable(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            transactions: vec![Transaction::new(["SELECT 1"])],
            ..Plan::new("127.0.0.1:1")
        }
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut Plan), text: &str) {
        let mut plan = plan();
        change(&mut plan);
        assert_eq!(plan.check().unwrap_err().to_string(), text);
    }

    #[test]
    fn a_plan_survives_json_and_needs_only_what_has_no_default() {
        let mut whole = plan();
        whole.pace = Pace::Poisson { per_second: 10.0 };
        whole.tls = Tls::VerifyFull {
            ca_file: "ca.pem".into(),
        };
        whole.password = Some(Password("pencil".into()));
        let text = serde_json::to_string(&whole).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), whole);

        let least = r#"{"address": "127.0.0.1:1", "user": "postgres", "database": "postgres",
            "measure_s": 1, "transactions": [{"statements": [{"sql": "SELECT 1"}]}]}"#;
        assert_eq!(serde_json::from_str::<Plan>(least).unwrap(), plan());
        let wrong = least.replace("measure_s", "measured");
        assert!(serde_json::from_str::<Plan>(&wrong).is_err());
    }

    #[test]
    fn a_password_is_not_shown() {
        let mut plan = plan();
        plan.password = Some(Password("pencil".into()));
        assert!(!format!("{plan:?}").contains("pencil"));
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        assert_eq!(plan().check(), Ok(()));
        let range = "clients is 0, but has to be from 1 to 50000";
        refused(|plan| plan.clients = 0, range);
        refused(
            |plan| plan.measure_s = 0.0,
            "measure_s is 0, but has to be a number of seconds",
        );
        refused(
            |plan| plan.drain_s = f64::NAN,
            "drain_s is NaN, but has to be a number of seconds",
        );
        refused(
            |plan| plan.pipeline = 2,
            "pipeline needs protocol = \"extended\" or \"prepared\"",
        );
        refused(
            |plan| plan.pace = Pace::Fixed { per_second: 0.0 },
            "a rate of 0 per second is impossible",
        );
        refused(
            |plan| plan.transactions.clear(),
            "there is no transaction to run",
        );
        refused(
            |plan| plan.transactions.push(Transaction::new([])),
            "transaction \"\" has 0 statements, but has to have from 1 to 100000",
        );
    }

    #[test]
    fn variables_are_checked() {
        let with = |name: &str, draw: Draw| {
            let name = name.to_owned();
            move |plan: &mut Plan| {
                let one = plan.transactions.remove(0);
                let one = one.with("a", Draw::Uniform { min: 1, max: 2 });
                plan.transactions.push(one.with(&name, draw));
            }
        };
        let fine = Draw::Uniform { min: 1, max: 1 };
        refused(
            with("a b", fine.clone()),
            "variable name \"a b\" is not made of letters, digits and underscores",
        );
        refused(with("a", fine), "variable \"a\" is there twice");
        refused(
            with("b", Draw::Uniform { min: 2, max: 1 }),
            "variable \"b\" has an empty range",
        );
        let except = |min, except: &str| Draw::UniformExcept {
            min,
            max: 2,
            except: except.to_owned(),
        };
        refused(
            with("b", except(2, "a")),
            "variable \"b\" has an empty range",
        );
        refused(
            with("b", except(1, "c")),
            "no numeric variable \"c\" stands in front of the one that excepts it",
        );
        let mut fine = plan();
        with("b", except(1, "a"))(&mut fine);
        assert_eq!(fine.check(), Ok(()));
    }
}
