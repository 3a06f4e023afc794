//! Reads the collected samples.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Row, params};
use weir_advisor::analysis::waits::{Class, Event, Profile};

use super::{Database, Missing};
use crate::environment::Environment;
use crate::error::Result;
use crate::record::{Costs, Outcome};

/// Row of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// Id of the run.
    pub id: i64,
    /// `run` or `watch`.
    pub kind: String,
    /// Start, in milliseconds since 1970.
    pub started_ms: i64,
    /// The command line.
    pub command: String,
    /// Address of the server.
    pub server: String,
    /// Version that the server reports.
    pub server_version: String,
    /// Seed of the order of cells and of the load.
    pub seed: u64,
    /// Further settings of the run, as JSON.
    pub settings: String,
}

/// Row of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellRow {
    /// Id of the cell.
    pub id: i64,
    /// Workload: `chatty`, `pipelined`, `scripts` or `watch`.
    pub workload: String,
    /// Number of connections to the server.
    pub connections: u32,
    /// Number of clients of the load.
    pub clients: u32,
    /// Number of the repetition, from 0.
    pub repetition: u32,
    /// Results that the load generator reported.
    pub outcome: Option<Outcome>,
    /// CPU time and memory of the cell.
    pub costs: Option<Costs>,
    /// Violations that the oracle found; empty if there are none, `None` if the oracle was not asked.
    pub oracle: Option<String>,
    /// Reason why there are no figures.
    pub failed: Option<String>,
}

/// Use of all CPUs of the machine, as shares of their time from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Processor {
    /// Number of CPUs.
    pub cpus: f64,
    /// Share of programs at normal priority.
    pub user: f64,
    /// Share of programs at a lowered priority.
    pub nice: f64,
    /// Share of the kernel, interrupts included.
    pub system: f64,
    /// Share of idle time with disk requests pending.
    pub iowait: f64,
    /// Share taken by other guests of the same host.
    pub steal: f64,
    /// Context switches per second of the whole machine.
    pub switches_per_s: f64,
    /// Mean of the load average.
    pub load: f64,
    /// Share of the time in which at least one task waited for a CPU, if the kernel reports it.
    pub pressure: Option<f64>,
}

impl Database {
    /// Returns the last run in the file.
    ///
    /// # Errors
    /// The file has no run.
    pub fn last_run(&self) -> Result<RunRow> {
        let sql = "SELECT id, kind, started, command, server, server_version, seed, settings FROM run ORDER BY id DESC LIMIT 1";
        self.go(|connection| {
            connection.query_row(sql, [], |row| {
                Ok(RunRow {
                    id: row.get(0)?,
                    kind: row.get(1)?,
                    started_ms: row.get(2)?,
                    command: row.get(3)?,
                    server: row.get(4)?,
                    server_version: row.get(5)?,
                    seed: row.get::<_, i64>(6)?.cast_unsigned(),
                    settings: row.get(7)?,
                })
            })
        })
    }

    /// Returns the environment of a run.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn environment(&self, run: i64) -> Result<Environment> {
        let rows = self.rows(
            "SELECT section, name, value FROM env WHERE _run_id = ?1",
            run,
            |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, String>(1)?,
                    row.get::<_, String>(2)?,
                ))
            },
        )?;
        let mut found = Environment::new();
        for (section, name, value) in rows {
            found.entry(section).or_default().insert(name, value);
        }
        Ok(found)
    }

    /// Returns the data that a run could not collect.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn missing(&self, run: i64) -> Result<Vec<Missing>> {
        self.rows(
            "SELECT what, why FROM missing WHERE _run_id = ?1",
            run,
            |row| {
                Ok(Missing {
                    what: row.get(0)?,
                    why: row.get(1)?,
                })
            },
        )
    }

    /// Returns the cells of a run in the order of execution.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn cells(&self, run: i64) -> Result<Vec<CellRow>> {
        let sql = "SELECT id, workload, connections, clients, repetition, outcome, costs, oracle, failed FROM cell WHERE _run_id = ?1 ORDER BY place, id";
        self.rows(sql, run, |row| {
            Ok(CellRow {
                id: row.get(0)?,
                workload: row.get(1)?,
                connections: row.get(2)?,
                clients: row.get(3)?,
                repetition: row.get(4)?,
                outcome: parsed(row, 5)?,
                costs: parsed(row, 6)?,
                oracle: row.get(7)?,
                failed: row.get(8)?,
            })
        })
    }

    /// Adds the snapshots of a cell's measured time to `profile`, including those without sessions.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn add_profile(&self, cell: i64, profile: &mut Profile) -> Result<()> {
        for (_, sessions) in self.snapshots(cell)? {
            profile.add(&sessions);
        }
        Ok(())
    }

    /// Returns the snapshots of a cell's measured time: milliseconds since 1970, and the number of sessions per
    /// event. Snapshots without sessions are included.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn snapshots(&self, cell: i64) -> Result<Vec<(i64, BTreeMap<Event, u64>)>> {
        let sql = "SELECT s.id, s._collected_at, a.state, a.wait_event_type, a.wait_event, count(a.pid) FROM snapshot s \
            LEFT JOIN pg_stat_activity a ON a._snapshot_id = s.id AND a.backend_type = 'client backend' AND a.state IS NOT NULL \
            WHERE s._cell_id = ?1 AND s._phase = 'bench' GROUP BY 1, 2, 3, 4, 5 ORDER BY 1";
        let rows = self.rows(sql, cell, |row| {
            let key: (i64, i64) = (row.get(0)?, row.get(1)?);
            let texts = (row.get::<_, Option<String>>(2)?, row.get(3)?, row.get(4)?);
            let count: i64 = row.get(5)?;
            Ok((key, texts, count.unsigned_abs()))
        })?;
        let mut snapshots: BTreeMap<(i64, i64), BTreeMap<Event, u64>> = BTreeMap::new();
        for (key, (state, kind, event), count) in rows {
            let sessions = snapshots.entry(key).or_default();
            if let Some(state) = state {
                *sessions.entry(event_of(&state, kind, event)).or_default() += count;
            }
        }
        let of = |((_, at), sessions)| (at, sessions);
        Ok(snapshots.into_iter().map(of).collect())
    }

    /// Returns the use of the machine's CPUs in the measured time of a cell; `None` if there are no figures.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn processor(&self, cell: i64) -> Result<Option<Processor>> {
        let sql = "SELECT o._collected_at, o.name, o.value FROM os_sample o JOIN snapshot s ON s.id = o._snapshot_id \
            WHERE s._cell_id = ?1 AND s._phase = 'bench' ORDER BY o._collected_at";
        let rows = self.rows(sql, cell, |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, f64>(2)?,
            ))
        })?;
        Ok(processor(&rows))
    }

    /// Returns the time between a cell's first and last snapshot.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn watched(&self, cell: i64) -> Result<Duration> {
        let sql = "SELECT coalesce(max(_collected_at) - min(_collected_at), 0) FROM snapshot WHERE _cell_id = ?1";
        let ms: i64 = self.go(|connection| connection.query_row(sql, [cell], |row| row.get(0)))?;
        Ok(Duration::from_millis(ms.unsigned_abs()))
    }

    /// Returns the values of a server counter in the measured time of a cell, summed over the objects of its view:
    /// milliseconds since 1970, and value.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn counter(&self, cell: i64, source: &str, name: &str) -> Result<Vec<(i64, f64)>> {
        let sql = "SELECT s._collected_at, sum(c.value) FROM pg_counter c JOIN snapshot s ON s.id = c._snapshot_id \
            WHERE s._cell_id = ?1 AND s._phase = 'bench' AND c.source = ?2 AND c.name = ?3 GROUP BY s.id ORDER BY s.id";
        self.go(|connection| {
            let mut statement = connection.prepare(sql)?;
            let rows = statement.query_map(params![cell, source, name], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
            rows.collect()
        })
    }

    /// Returns the growth of a server counter in the measured time of a cell; `None` with fewer than two samples.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn growth(&self, cell: i64, source: &str, name: &str) -> Result<Option<f64>> {
        let looks = self.counter(cell, source, name)?;
        let ends = looks.first().zip(looks.last());
        Ok(ends
            .filter(|_| looks.len() > 1)
            .map(|(first, last)| last.1 - first.1))
    }

    /// Returns the growth per second of a server counter in the measured time of a cell; `None` with fewer than two
    /// samples.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn rate(&self, cell: i64, source: &str, name: &str) -> Result<Option<f64>> {
        let looks = self.counter(cell, source, name)?;
        let ends = looks.first().zip(looks.last());
        Ok(ends.and_then(|(first, last)| {
            let ms = u32::try_from(last.0 - first.0).ok().filter(|ms| *ms > 0)?;
            Some((last.1 - first.1) / (f64::from(ms) / 1000.0))
        }))
    }

    fn rows<T>(
        &self,
        sql: &str,
        key: i64,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        self.go(|connection| {
            let mut statement = connection.prepare(sql)?;
            let rows = statement.query_map([key], row)?;
            rows.collect()
        })
    }
}

fn parsed<T: serde::de::DeserializeOwned>(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(at)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Returns the class of a session's activity, and PostgreSQL's name for it.
fn event_of(state: &str, kind: Option<String>, event: Option<String>) -> Event {
    let class = Class::of(state, kind.as_deref(), event.as_deref());
    let name = match (class, kind, event) {
        (Class::Idle, ..) => "idle".to_owned(),
        (Class::Cpu, ..) => "CPU".to_owned(),
        (_, Some(kind), Some(event)) => format!("{kind}:{event}"),
        (_, Some(kind), None) => kind,
        (_, None, _) => state.to_owned(),
    };
    (class, name)
}

fn processor(rows: &[(i64, String, f64)]) -> Option<Processor> {
    let mut series: BTreeMap<&str, Vec<(i64, f64)>> = BTreeMap::new();
    for (at, name, value) in rows {
        series.entry(name).or_default().push((*at, *value));
    }
    let growth = |name: &str| {
        let values = series.get(name)?;
        Some(values.last()?.1 - values.first()?.1)
    };
    let times = series.get("cpu_user_us")?;
    let span_ms = times.last()?.0 - times.first()?.0;
    let seconds = u32::try_from(span_ms).ok().map(f64::from)? / 1000.0;
    let parts = [
        "user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal",
    ]
    .map(|name| growth(&format!("cpu_{name}_us")).unwrap_or(0.0));
    let all: f64 = parts.iter().sum();
    if seconds <= 0.0 || all <= 0.0 {
        return None;
    }
    let [user, nice, system, _, iowait, irq, softirq, steal] = parts.map(|part| part / all);
    let loads: Vec<f64> = series
        .get("load_1min")?
        .iter()
        .map(|(_, load)| *load)
        .collect();
    Some(Processor {
        cpus: series.get("cpus")?.first()?.1,
        user,
        nice,
        system: system + irq + softirq,
        iowait,
        steal,
        switches_per_s: growth("ctxt").unwrap_or(0.0) / seconds,
        load: crate::statistics::mean(&loads)?,
        pressure: growth("pressure_cpu_some_us").map(|us| us / 1e6 / seconds),
    })
}
