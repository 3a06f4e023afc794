//! Takes one sample of the server and its machine.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use super::database::Missing;
use super::psql::{Address, Psql, unexpected};
use super::{Counter, Settings, Sight, Snapshot, WEIR, system};
use crate::clock;
use crate::error::Result;

/// Views of counters: name, SQL expression that names a row's object, first version of PostgreSQL that has the
/// view.
const VIEWS: &[(&str, &str, &str)] = &[
    ("pg_stat_database", "v.datname", "any"),
    ("pg_stat_bgwriter", "''", "any"),
    ("pg_stat_wal", "''", "14"),
    (
        "pg_stat_io",
        "concat_ws('/', v.backend_type, v.object, v.context)",
        "16",
    ),
    ("pg_stat_checkpointer", "''", "17"),
];

/// Maximum number of processes whose context switches are read per sample: each costs a file.
const SWITCHES_MAX: usize = 256;

/// Connections that samples are read from.
pub(super) struct Source {
    psql: Psql,
    console: Option<Psql>,
    activity: String,
    counters: String,
    sight: Sight,
}

impl Source {
    pub(super) fn connect(settings: &Settings) -> Result<Self> {
        let mut psql = Psql::connect(&settings.address)?;
        // A hung server must become an error, not block the sampling.
        psql.execute("SET statement_timeout = '10s'")?;
        let mut missing = privileges(&mut psql)?;
        let mut counters = String::new();
        for (view, object, since) in VIEWS {
            let known = psql.value(&format!("SELECT to_regclass('pg_catalog.{view}')"))?;
            if known.is_none_or(|name| name.is_empty()) {
                missing.push(Missing {
                    what: (*view).to_owned(),
                    why: format!("PostgreSQL has it from {since} on"),
                });
                continue;
            }
            let only = match (*view, &settings.database) {
                ("pg_stat_database", Some(name)) => format!(" WHERE v.datname = {}", quoted(name)),
                _ => String::new(),
            };
            counters.push_str(&format!(
                "SELECT json_build_object('source', '{view}', 'object', coalesce({object}, ''), 'values', row_to_json(v)) \
                 FROM pg_catalog.{view} v{only};\n"
            ));
        }
        let postmaster = near(&mut psql, &settings.address)?;
        if postmaster.is_none() {
            missing.push(Missing {
                what: "CPU, load, pressure, context switches, disk and network of the server".to_owned(),
                why: "the server is not on this machine, or its processes cannot be seen; run weir tune beside it".to_owned(),
            });
        }
        let version = psql.value("SHOW server_version")?.unwrap_or_default();
        let database = settings.database.as_deref();
        let only = database.map(|name| format!(" AND a.datname = {}", quoted(name)));
        // Background processes are kept: what the checkpointer waits for explains what sessions wait for.
        let activity = format!(
            "SELECT row_to_json(a) FROM pg_catalog.pg_stat_activity a \
             WHERE a.pid <> pg_backend_pid() AND a.application_name <> '{}' \
             AND (a.backend_type <> 'client backend' OR (true{}))",
            super::psql::APPLICATION,
            only.unwrap_or_default(),
        );
        Ok(Self {
            psql,
            console: settings.console.as_ref().map(Psql::open).transpose()?,
            activity,
            counters,
            sight: Sight {
                version,
                near: postmaster.is_some(),
                postmaster,
                missing,
            },
        })
    }

    pub(super) const fn sight(&self) -> &Sight {
        &self.sight
    }

    /// Samples the sessions.
    pub(super) fn activity(&mut self) -> Result<Snapshot> {
        let begun = clock::now();
        let at = clock::since_epoch();
        let lines = self.psql.lines(&self.activity)?;
        let took = clock::now().saturating_duration_since(begun);
        let sessions: Result<Vec<_>> = lines.iter().map(|line| object(line)).collect();
        Ok(Snapshot {
            // The server took the sample at an unknown moment within `took`.
            at: at + took / 2,
            took,
            sessions: sessions?,
            ..Snapshot::default()
        })
    }

    /// Adds the counters and figures that change slowly.
    pub(super) fn add_slow(&mut self, snapshot: &mut Snapshot) -> Result<()> {
        for line in self.psql.lines(&self.counters)? {
            add_counters(&object(&line)?, &mut snapshot.counters);
        }
        if let Some(console) = &mut self.console {
            let rows = console.rows("SHOW TOTALS")?;
            snapshot
                .counters
                .extend(rows.iter().filter_map(|row| total(row)));
        }
        if self.sight.near {
            snapshot.machine = system::machine(&|path| fs::read_to_string(path).ok());
            let pids = snapshot
                .sessions
                .iter()
                .filter_map(|session| u32::try_from(session.get("pid")?.as_u64()?).ok());
            snapshot.switches = pids
                .take(SWITCHES_MAX)
                .filter_map(system::switches)
                .collect();
        }
        Ok(())
    }
}

/// Returns the data that this user may not see, or that the server does not track.
fn privileges(psql: &mut Psql) -> Result<Vec<Missing>> {
    let mut missing = Vec::new();
    let may = psql.value("SELECT pg_has_role('pg_read_all_stats', 'usage')")?;
    if may.as_deref() != Some("t") {
        missing.push(Missing {
            what: "what sessions of other users do".to_owned(),
            why: "the user is no member of pg_monitor; GRANT pg_monitor TO it".to_owned(),
        });
    }
    if psql.value("SHOW track_activities")?.as_deref() != Some("on") {
        missing.push(Missing {
            what: "the state of sessions".to_owned(),
            why: "track_activities is off".to_owned(),
        });
    }
    if psql.value("SHOW track_io_timing")?.as_deref() != Some("on") {
        missing.push(Missing {
            what: "times of reading and writing".to_owned(),
            why: "track_io_timing is off".to_owned(),
        });
    }
    Ok(missing)
}

/// Returns the postmaster's process id if it is visible on this machine. To exclude another machine's pid, the
/// process that serves the connection must be one of PostgreSQL's here.
fn near(psql: &mut Psql, address: &Address) -> Result<Option<u32>> {
    if !address.is_near() {
        return Ok(None);
    }
    let pid = psql.value("SELECT pg_backend_pid()")?;
    let pid: Option<u32> = pid.and_then(|pid| pid.parse().ok());
    Ok(pid.filter(|pid| is_postgres(*pid)).and_then(system::parent))
}

fn is_postgres(pid: u32) -> bool {
    let path = format!("/proc/{pid}/cmdline");
    let text = fs::read(Path::new(&path)).unwrap_or_default();
    String::from_utf8_lossy(&text).contains("postgres")
}

fn object(line: &str) -> Result<Map<String, Value>> {
    match serde_json::from_str(line) {
        Ok(Value::Object(map)) => Ok(map),
        _ => Err(unexpected("a row of PostgreSQL", &[line.to_owned()])),
    }
}

/// Adds the numeric columns of a row as counters.
fn add_counters(row: &Map<String, Value>, counters: &mut Vec<Counter>) {
    let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default();
    let Some(Value::Object(values)) = row.get("values") else {
        return;
    };
    for (name, value) in values {
        if let Some(value) = value.as_f64() {
            counters.push(Counter {
                source: text("source").to_owned(),
                object: text("object").to_owned(),
                name: name.clone(),
                value,
            });
        }
    }
}

/// Parses a row of `SHOW TOTALS`, which has sums in microseconds and averages of the last period. Only the sums are
/// counters.
fn total(row: &[String]) -> Option<Counter> {
    let name = row.first()?.strip_prefix("total_")?;
    Some(Counter {
        source: WEIR.to_owned(),
        object: String::new(),
        name: name.to_owned(),
        value: row.get(1)?.parse().ok()?,
    })
}

/// Quotes a text as an SQL literal (PostgreSQL manual, "String Constants").
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_view_become_counters() {
        let line = r#"{"source":"pg_stat_wal","object":"","values":{"wal_records":7,"stats_reset":"2026","wal_fpi":null}}"#;
        let mut counters = Vec::new();
        add_counters(&object(line).unwrap(), &mut counters);
        assert_eq!(counters.len(), 1);
        assert_eq!(
            (counters[0].name.as_str(), counters[0].value),
            ("wal_records", 7.0)
        );
    }

    #[test]
    fn of_a_console_the_sums_are_kept_and_the_averages_not() {
        let row = |name: &str, value: &str| [name.to_owned(), value.to_owned()];
        let counter = total(&row("total_wait_time", "1500")).unwrap();
        assert_eq!(
            (counter.name.as_str(), counter.value),
            ("wait_time", 1500.0)
        );
        assert_eq!(total(&row("avg_wait_time", "15")), None);
        assert_eq!(total(&["total_wait_time".to_owned()]), None);
    }

    #[test]
    fn a_name_cannot_end_its_literal() {
        assert_eq!(quoted("o'clock"), "'o''clock'");
    }

    #[test]
    fn a_line_that_is_no_row_is_an_error() {
        assert!(object("NOTICE").is_err());
    }
}
