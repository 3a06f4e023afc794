//! The SQLite file that receives all samples and feeds all analysis. Any SQL client can read it: see `schema.sql`.

mod read;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, Transaction, params, params_from_iter};
use serde_json::{Map, Value};

use super::Snapshot;
use crate::clock;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::meter::Window;
use crate::record::{Costs, Outcome};

pub use self::read::{CellRow, Processor, RunRow};

const SCHEMA: &str = include_str!("schema.sql");
/// SQLite's `user_version`: raised by changes that break readers.
pub const FORMAT: i64 = 1;
/// SQLite's `application_id`: "weir".
const APPLICATION: i64 = 0x7765_6972;
/// Time to wait for a lock: the collector and the run write to the same file.
const PATIENCE: Duration = Duration::from_secs(10);

/// Columns of `pg_stat_activity` in all versions. A column that a version lacks stays empty.
const COLUMNS: [&str; 22] = [
    "datid",
    "datname",
    "pid",
    "leader_pid",
    "usesysid",
    "usename",
    "application_name",
    "client_addr",
    "client_hostname",
    "client_port",
    "backend_start",
    "xact_start",
    "query_start",
    "state_change",
    "wait_event_type",
    "wait_event",
    "state",
    "backend_xid",
    "backend_xmin",
    "query_id",
    "query",
    "backend_type",
];

/// Open connection to the file.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
    path: PathBuf,
}

/// Data that the file does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Name of the data.
    pub what: String,
    /// Reason, and what can be done about it.
    pub why: String,
}

/// Identity of a new run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun<'a> {
    /// `run` or `watch`.
    pub kind: &'a str,
    /// The command line.
    pub command: String,
    /// Address of the server, without a password.
    pub server: String,
    /// Version that the server reports.
    pub server_version: String,
    /// Seed of the order of cells and of the load.
    pub seed: u64,
    /// Further settings of the run, as JSON.
    pub settings: String,
}

/// Identity of a new cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NewCell<'a> {
    /// Workload: `chatty`, `pipelined`, `scripts` or `watch`.
    pub workload: &'a str,
    /// Number of connections to the server.
    pub connections: u32,
    /// Number of clients of the load.
    pub clients: u32,
    /// Number of the repetition, from 0.
    pub repetition: u32,
    /// Position in the order of execution, from 0.
    pub place: u32,
}

impl Database {
    /// Creates a new file.
    ///
    /// # Errors
    /// The file exists, or the system refuses.
    pub fn create(path: &Path) -> Result<Self> {
        if path.exists() {
            return Err(failed(path)("it is there already; name another directory"));
        }
        let database = Self::open_any(path)?;
        database.go(|connection| {
            connection.execute_batch(SCHEMA)?;
            connection.pragma_update(None, "application_id", APPLICATION)?;
            connection.pragma_update(None, "user_version", FORMAT)
        })?;
        Ok(database)
    }

    /// Opens a file that [`Database::create`] made.
    ///
    /// # Errors
    /// The file is missing, or is not of this kind and format.
    pub fn open(path: &Path) -> Result<Self> {
        if !path.is_file() {
            return Err(failed(path)("it is not there"));
        }
        let database = Self::open_any(path)?;
        let format: i64 = database.go(|connection| {
            connection.query_row(
                "SELECT CASE (SELECT application_id FROM pragma_application_id) WHEN ?1 THEN user_version ELSE -1 END \
                 FROM pragma_user_version",
                [APPLICATION],
                |row| row.get(0),
            )
        })?;
        if format == FORMAT {
            Ok(database)
        } else {
            Err(failed(path)(&format!(
                "it has format {format} and this program reads {FORMAT}"
            )))
        }
    }

    /// Opens with write-ahead logging, so that a reader does not block the writer.
    fn open_any(path: &Path) -> Result<Self> {
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open(path)?;
            connection.busy_timeout(PATIENCE)?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "NORMAL")?;
            Ok(connection)
        };
        let connection = open().map_err(|error| failed(path)(&error.to_string()))?;
        Ok(Self {
            connection,
            path: path.to_owned(),
        })
    }

    /// Records a run and its environment; returns the run's id.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin_run(
        &self,
        run: &NewRun<'_>,
        environment: &Environment,
        missing: &[Missing],
    ) -> Result<i64> {
        self.go(|connection| {
            connection.execute(
                "INSERT INTO run (kind, started, command, weir_version, server, server_version, seed, settings) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    run.kind,
                    ms(clock::since_epoch()),
                    run.command,
                    env!("CARGO_PKG_VERSION"),
                    run.server,
                    run.server_version,
                    run.seed.cast_signed(),
                    run.settings
                ],
            )?;
            let id = connection.last_insert_rowid();
            for (section, pairs) in environment {
                for (name, value) in pairs {
                    let row = params![id, section, name, value];
                    connection.execute("INSERT INTO env VALUES (?1, ?2, ?3, ?4)", row)?;
                }
            }
            for Missing { what, why } in missing {
                connection.execute("INSERT INTO missing VALUES (?1, ?2, ?3)", params![id, what, why])?;
            }
            Ok(id)
        })
    }

    /// Records the start of a cell; returns the cell's id.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin_cell(&self, run: i64, cell: &NewCell<'_>) -> Result<i64> {
        self.go(|connection| {
            connection.execute(
                "INSERT INTO cell (_run_id, workload, connections, clients, repetition, place, started) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    run,
                    cell.workload,
                    cell.connections,
                    cell.clients,
                    cell.repetition,
                    cell.place,
                    ms(clock::since_epoch())
                ],
            )?;
            Ok(connection.last_insert_rowid())
        })
    }

    /// Records the result of a cell, and marks each of its snapshots as taken before, during or after the measured
    /// time.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end_cell(
        &self,
        cell: i64,
        window: Window,
        outcome: &Outcome,
        costs: &Costs,
    ) -> Result<()> {
        let (begin, end) = (ms(window.begin), ms(window.end));
        let (outcome, costs) = (json(outcome), json(costs));
        self.go(|connection| {
            connection.execute(
                "UPDATE cell SET bench_begin = ?2, bench_end = ?3, outcome = ?4, costs = ?5 WHERE id = ?1",
                params![cell, begin, end, outcome, costs],
            )?;
            let phase = "CASE WHEN _collected_at < ?2 THEN 'pre' WHEN _collected_at > ?3 THEN 'post' ELSE 'bench' END";
            let sql = format!("UPDATE snapshot SET _phase = {phase} WHERE _cell_id = ?1");
            connection.execute(&sql, params![cell, begin, end])?;
            let sql = format!(
                "UPDATE pg_stat_activity SET _phase = {phase} \
                 WHERE _snapshot_id IN (SELECT id FROM snapshot WHERE _cell_id = ?1)"
            );
            connection.execute(&sql, params![cell, begin, end]).map(drop)
        })
    }

    /// Records the violations that the oracle found after a cell; an empty list means none.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn judge_cell(&self, cell: i64, violations: &[String]) -> Result<()> {
        self.set(cell, "oracle", &violations.join("; "))
    }

    /// Records why a cell has no figures.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn fail_cell(&self, cell: i64, why: &str) -> Result<()> {
        self.set(cell, "failed", why)
    }

    fn set(&self, cell: i64, column: &str, value: &str) -> Result<()> {
        let sql = format!("UPDATE cell SET {column} = ?2 WHERE id = ?1");
        self.go(|connection| connection.execute(&sql, params![cell, value]).map(drop))
    }

    /// Adds one snapshot.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add_snapshot(&mut self, run: i64, cell: i64, snapshot: &Snapshot) -> Result<()> {
        let path = self.path.clone();
        let mut add = || {
            let transaction = self.connection.transaction()?;
            insert(&transaction, run, cell, snapshot)?;
            transaction.commit()
        };
        add().map_err(|error| failed(&path)(&error.to_string()))
    }

    fn go<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        work(&self.connection).map_err(|error| failed(&self.path)(&error.to_string()))
    }
}

fn insert(
    transaction: &Transaction<'_>,
    run: i64,
    cell: i64,
    snapshot: &Snapshot,
) -> rusqlite::Result<()> {
    let at = ms(snapshot.at);
    let took = i64::try_from(snapshot.took.as_micros()).unwrap_or(i64::MAX);
    transaction.execute(
        "INSERT INTO snapshot (_run_id, _cell_id, _collected_at, _phase, took_us) VALUES (?1, ?2, ?3, 'bench', ?4)",
        params![run, cell, at, took],
    )?;
    let id = transaction.last_insert_rowid();
    let places: Vec<String> = (1..=COLUMNS.len() + 3).map(|at| format!("?{at}")).collect();
    let sql = format!(
        "INSERT INTO pg_stat_activity (_snapshot_id, _run_id, _collected_at, _phase, {}) VALUES ({}, {}, {}, 'bench', {})",
        COLUMNS.join(", "),
        "?1",
        "?2",
        "?3",
        places.get(3..).unwrap_or_default().join(", ")
    );
    let mut statement = transaction.prepare(&sql)?;
    for session in &snapshot.sessions {
        let ours = [id, run, at].map(Sql::Integer);
        let theirs = COLUMNS.iter().map(|column| value(session, column));
        statement.execute(params_from_iter(ours.into_iter().chain(theirs)))?;
    }
    let mut statement =
        transaction.prepare("INSERT INTO pg_counter VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    for counter in &snapshot.counters {
        let (source, object, name) = (&counter.source, &counter.object, &counter.name);
        statement.execute(params![id, run, at, source, object, name, counter.value])?;
    }
    let mut statement = transaction.prepare("INSERT INTO os_sample VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (name, value) in &snapshot.machine {
        statement.execute(params![id, run, at, name, value])?;
    }
    let mut statement =
        transaction.prepare("INSERT INTO backend_switches VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for (pid, voluntary, involuntary) in &snapshot.switches {
        let counts = [*voluntary, *involuntary].map(u64::cast_signed);
        statement.execute(params![id, run, at, pid, counts[0], counts[1]])?;
    }
    Ok(())
}

fn value(session: &Map<String, Value>, column: &str) -> Sql {
    match session.get(column) {
        None | Some(Value::Null) => Sql::Null,
        Some(Value::String(text)) => Sql::Text(text.clone()),
        Some(Value::Number(number)) => number.as_i64().map_or(Sql::Null, Sql::Integer),
        Some(other) => Sql::Text(other.to_string()),
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn failed(path: &Path) -> impl Fn(&str) -> Error {
    let name = path.display().to_string();
    move |reason| Error::Load {
        name: name.clone(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests;
