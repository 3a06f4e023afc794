//! Plan of a load: a plain description that TOML and JSON can hold. It has no access to sockets and clocks.

mod check;

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use check::PlanError;

/// Maximum number of clients of one generator: more do not fit into one range of source ports.
pub const CLIENTS_MAX: u32 = 50_000;

/// Maximum number of threads.
pub const THREADS_MAX: u32 = 256;

/// Maximum number of statements in one transaction, repetitions included.
pub const STATEMENTS_MAX: usize = 100_000;

/// Maximum length of a line of COPY data, in bytes.
pub const LINE_MAX: u32 = 1 << 20;

/// Load on one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Host and port over TCP, such as `127.0.0.1:5432` or `[::1]:5432`. If a name has several addresses, the first
    /// is used.
    pub address: String,
    /// Role to log in as.
    pub user: String,
    /// Password of the role, for clear text, MD5 and SCRAM alike.
    #[serde(default)]
    pub password: Option<Password>,
    /// Database to log in to.
    pub database: String,
    /// Further start-up parameters, such as `application_name`.
    #[serde(default)]
    pub parameters: Vec<(String, String)>,
    /// Encryption of the connections.
    #[serde(default)]
    pub tls: Tls,
    /// Number of connections, 1 to [`CLIENTS_MAX`].
    #[serde(default = "one")]
    pub clients: u32,
    /// Number of threads, 1 to [`THREADS_MAX`]; at most one per client is used. Each has an event loop of its own.
    #[serde(default = "one")]
    pub threads: u32,
    /// Protocol for sending statements.
    #[serde(default)]
    pub protocol: Protocol,
    /// Number of statements of a transaction that are sent at once, with one Sync after them. With 1, each
    /// statement waits for the previous answer. More than 1 needs [`Protocol::Extended`] or [`Protocol::Prepared`].
    #[serde(default = "one")]
    pub pipeline: u32,
    /// Transactions to run, chosen at random by weight. May be empty if only logins count ([`Plan::reconnect`]) or
    /// nothing does ([`Pace::Idle`]).
    #[serde(default)]
    pub transactions: Vec<Transaction>,
    /// When transactions begin.
    #[serde(default)]
    pub pace: Pace,
    /// True to connect and log in for every transaction; both are part of its time.
    #[serde(default)]
    pub reconnect: bool,
    /// Number of transactions per client after which the run also ends, failures included. There is no warm-up
    /// then.
    #[serde(default)]
    pub transactions_per_client: Option<u64>,
    /// Seconds of warm-up, which are not counted.
    #[serde(default)]
    pub warm_up_s: f64,
    /// Seconds that are counted.
    pub measure_s: f64,
    /// Maximum number of seconds for transactions in progress at the end.
    #[serde(default = "drain")]
    pub drain_s: f64,
    /// Maximum number of seconds for all logins together.
    #[serde(default = "connect")]
    pub connect_s: f64,
    /// Seed of each client's choices and of the times of a Poisson schedule.
    #[serde(default)]
    pub seed: u64,
}

/// Password, hidden from `Debug`.
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
    /// No encryption.
    #[default]
    Off,
    /// Any certificate is accepted: `sslmode=require`.
    Require,
    /// The certificate must chain to this CA and name the host: `sslmode=verify-full`.
    VerifyFull {
        /// PEM file with the CA's certificate.
        ca_file: PathBuf,
    },
}

/// Protocol for sending statements (manual, "Message Flow").
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Query, with the values in the text.
    #[default]
    Simple,
    /// Parse, Bind, Describe, Execute and Sync each time, as pgbench's `-M extended`.
    Extended,
    /// As [`Protocol::Extended`], but with one Parse per statement and connection, as `-M prepared`.
    Prepared,
}

/// Rule for when transactions begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pace {
    /// As soon as the client's previous transaction is over. A stalled target then receives fewer requests, so its
    /// worst times are rare in the result.
    #[default]
    Closed,
    /// At a constant rate, whether the target keeps up or not. Times count from the intended start of a
    /// transaction.
    Fixed {
        /// Rate of all clients together.
        per_second: f64,
    },
    /// At random times with this mean rate, otherwise as [`Pace::Fixed`].
    Poisson {
        /// Rate of all clients together.
        per_second: f64,
    },
    /// Never: the connections are opened and kept. If there are transactions, each client runs one first.
    Idle,
}

/// Statements that belong together, from the client's first byte to the last answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    /// Name, for display.
    #[serde(default)]
    pub name: String,
    /// Weight in the random choice, relative to the other transactions; at least 1.
    #[serde(default = "one")]
    pub weight: u32,
    /// Variables that the statements use as `:name`. Values are drawn at the start, and again for each repetition
    /// of a statement.
    #[serde(default)]
    pub variables: Vec<Variable>,
    /// Statements in order, with `BEGIN` and `COMMIT` where they are wanted. After an error the generator sends
    /// `ROLLBACK` by itself.
    pub statements: Vec<Statement>,
}

impl Transaction {
    /// Returns a transaction of weight 1, with these statements and no variables.
    pub fn new<'a>(statements: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            name: String::new(),
            weight: 1,
            variables: Vec::new(),
            statements: statements.into_iter().map(Statement::new).collect(),
        }
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &str, draw: Draw) -> Self {
        let name = name.to_owned();
        self.variables.push(Variable { name, draw });
        self
    }
}

/// Variable and the source of its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Name of ASCII alphanumeric characters and underscores. As in pgbench, `:name` is replaced everywhere, even
    /// in quotes, except after another colon.
    pub name: String,
    /// Source of the value.
    pub draw: Draw,
}

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Draw {
    /// Integer, uniformly distributed.
    Uniform {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// Integer, uniformly distributed, but never the value of another variable. That variable must come before this
    /// one.
    UniformExcept {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
        /// Name of the other variable.
        except: String,
    },
    /// Integer by Zipf's law: the n-th value of the range has a probability proportional to 1 / n to the power of
    /// `exponent`.
    Zipf {
        /// Smallest value, and the most likely.
        min: i64,
        /// Largest value, at most 2^53 above `min`.
        max: i64,
        /// Exponent above 0; 1.1 makes a hot spot such as many applications have.
        exponent: f64,
    },
    /// Text of repeated `x`.
    Filler {
        /// Length in bytes.
        bytes: usize,
    },
}

/// Statement of a transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// SQL text. Results, those of `COPY ... TO STDOUT` included, are read to their end and discarded.
    pub sql: String,
    /// Number of executions in a row.
    #[serde(default = "one")]
    pub repeat: u32,
    /// Data for `COPY ... FROM STDIN`. The statement is then sent by the simple protocol, and never in a batch.
    #[serde(default)]
    pub copy_in: Option<CopyIn>,
}

impl Statement {
    /// Returns a statement that runs once, without data.
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
    /// Total number of bytes; the last line is cut short if need be.
    pub bytes: u64,
    /// Bytes per line including its end, 2 to [`LINE_MAX`].
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
    /// Returns a closed loop of one client that runs nothing for a second; the caller sets the fields.
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

    /// Returns the number of threads that are really used.
    pub fn thread_count(&self) -> u32 {
        self.threads.min(self.clients)
    }
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
}
