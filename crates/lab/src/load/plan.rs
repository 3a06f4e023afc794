//! What the load generator is told: a plain description that TOML and JSON can hold. It knows no socket and no time.

mod check;

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use check::PlanError;

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
    /// Host and port over TCP, such as `127.0.0.1:5432` or `[::1]:5432`. Of a name the first address is taken.
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
    /// An integer by Zipf's law: the n-th of the range is as likely as 1 / n to the power of `exponent`.
    Zipf {
        /// Smallest, and the most likely.
        min: i64,
        /// Largest, at most 2^53 above.
        max: i64,
        /// Above 0; 1.1 makes a hot spot as many applications have.
        exponent: f64,
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
