//! A host of a cluster: its files, its process, and direct queries of a test.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::chown;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;

use super::LIMIT;
use crate::Raw;
use crate::child::Guarded;
use crate::child::Runner;
use crate::raw::Row;
use crate::tools;
use crate::wait_until;

/// File with the settings of one host, which `postgresql.conf` includes.
pub(super) const CONFIG: &str = "host.conf";

/// Way to stop a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Ends all sessions, and sends all WAL to the replicas.
    Fast,
    /// Ends all processes at once; the next start recovers as after a crash.
    Immediate,
}

/// Server that a replica receives from.
#[derive(Clone, Debug)]
pub(super) struct Upstream {
    pub(super) port: u16,
    /// Replication slot; without one, `wal_keep_size` bounds how far the replica may fall behind.
    pub(super) slot: Option<String>,
}

/// A host, which runs or is stopped.
#[derive(Debug)]
pub struct Host {
    number: usize,
    port: u16,
    bin: PathBuf,
    /// Directory of the cluster.
    directory: PathBuf,
    data: PathBuf,
    server: Option<Guarded>,
    /// Number of starts so far; each has a log of its own.
    starts: usize,
    /// Process that receives WAL, if it is stopped by a signal.
    frozen: Option<String>,
}

impl Host {
    pub(super) fn new(number: usize, port: u16, directory: &Path, bin: PathBuf) -> Self {
        Self {
            number,
            port,
            bin,
            directory: directory.to_owned(),
            data: directory.join(format!("host{number}")),
            server: None,
            starts: 0,
            frozen: None,
        }
    }

    /// TCP port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Data directory.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// True between a start and the next stop or kill.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.server.is_some()
    }

    /// Logs in as `postgres`.
    ///
    /// # Errors
    /// When the login is refused.
    pub fn connect(&self, database: &str) -> Result<Raw> {
        Raw::connect(self.port, database)
    }

    /// Runs a query on a new connection to database `postgres`.
    ///
    /// # Errors
    /// When the login or the query is refused.
    pub fn query(&self, sql: &str) -> Result<Vec<Row>> {
        let mut raw = self.connect("postgres")?;
        let rows = raw.query(sql)?;
        raw.terminate();
        Ok(rows)
    }

    /// Returns the first column of the first row of a query.
    ///
    /// # Errors
    /// When the query fails or gives no row or a NULL.
    pub fn query_one(&self, sql: &str) -> Result<String> {
        let mut raw = self.connect("postgres")?;
        let value = raw.query_one(sql)?;
        raw.terminate();
        Ok(value)
    }

    /// Waits until a query gives this value. A host that does not answer yet is asked again.
    ///
    /// # Errors
    /// When the time limit passes, or the host has ended.
    pub fn wait_for(&self, sql: &str, value: &str) -> Result<()> {
        let mut last = String::new();
        let waited = wait_until(sql, LIMIT, || {
            last = self
                .query_one(sql)
                .unwrap_or_else(|error| format!("{error:#}"));
            Ok(last == value)
        });
        waited.with_context(|| {
            let log = tools::tail(&self.log(), 30);
            format!("host {} says {last} instead of {value}\n{log}", self.number)
        })
    }

    /// Flushes all that is committed on this primary, also without `synchronous_commit`, and returns the position.
    ///
    /// # Errors
    /// When the host is no primary.
    pub fn flush(&self) -> Result<String> {
        let mut raw = self.connect("postgres")?;
        raw.query(
            "SET synchronous_commit = local; SELECT pg_logical_emit_message(true, 'flush', '')",
        )?;
        let position = raw.query_one("SELECT pg_current_wal_flush_lsn()")?;
        raw.terminate();
        Ok(position)
    }

    /// Returns all that the host has logged, over all its starts.
    #[must_use]
    pub fn log(&self) -> String {
        let files = (1..=self.starts).map(|start| self.log_file(start));
        let texts = files.map(|file| fs::read(file).unwrap_or_default());
        texts
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .collect()
    }

    /// True if the host has logged this text.
    #[must_use]
    pub fn log_contains(&self, text: &str) -> bool {
        self.log().contains(text)
    }

    /// Waits until the host has logged this text.
    ///
    /// # Errors
    /// When the time limit passes.
    pub fn wait_for_log(&self, text: &str) -> Result<()> {
        wait_until(text, LIMIT, || Ok(self.log_contains(text))).with_context(|| self.log())
    }

    /// Number of statements with this text in them that the host has executed, from its log. Needs the setting
    /// `log_statement = all`; the text must be on the first line of its statement.
    #[must_use]
    pub fn count_statements(&self, text: &str) -> usize {
        let log = self.log();
        let is_one = |line: &&str| {
            line.split_once("LOG:  ").is_some_and(|(_, entry)| {
                let is_statement =
                    entry.starts_with("statement: ") || entry.starts_with("execute ");
                is_statement && entry.contains(text)
            })
        };
        log.lines().filter(is_one).count()
    }

    /// Writes a file of the data directory that belongs to PostgreSQL's user.
    pub(super) fn write(&self, name: &str, content: &str) -> Result<()> {
        let path = self.data.join(name);
        fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        let owner = fs::metadata(&self.data)?;
        chown(&path, Some(owner.uid()), Some(owner.gid()))?;
        Ok(())
    }

    /// Writes the settings of this host. A host with an upstream is a replica if it also has a `standby.signal`.
    pub(super) fn write_config(&self, upstream: Option<&Upstream>) -> Result<()> {
        let mut text = format!("port = {}\n", self.port);
        if let Some(Upstream { port, slot }) = upstream {
            text.push_str(&format!(
                "primary_conninfo = 'host=127.0.0.1 port={port} user=postgres application_name=host{}'\n",
                self.number
            ));
            if let Some(slot) = slot {
                text.push_str(&format!("primary_slot_name = '{slot}'\n"));
            }
        }
        self.write(CONFIG, &text)
    }

    /// Reads the upstream from the settings of this host, without its slot, which is for one replica only.
    pub(super) fn upstream(&self) -> Result<Option<Upstream>> {
        let text = fs::read_to_string(self.data.join(CONFIG))?;
        let Some((_, rest)) = text.split_once("host=127.0.0.1 port=") else {
            return Ok(None);
        };
        let port = rest.split(' ').next().unwrap_or_default().parse()?;
        Ok(Some(Upstream { port, slot: None }))
    }

    pub(super) fn start(&mut self) -> Result<()> {
        ensure!(self.server.is_none(), "host {} runs", self.number);
        self.starts += 1;
        let program = self.bin.join("postgres");
        let command = [text(&program)?, "-D", text(&self.data)?];
        let log = self.log_file(self.starts);
        let mut server = Guarded::start(Runner::Postgres, "QUIT", &command, &[], &log)?;
        let port = self.port;
        let ready = wait_until("PostgreSQL's readiness", LIMIT, || {
            server.check_running()?;
            Ok(Raw::connect(port, "postgres").is_ok())
        });
        ready.with_context(|| format!("host {}\n{}", self.number, server.log()))?;
        self.server = Some(server);
        Ok(())
    }

    pub(super) fn stop(&mut self, how: Shutdown) -> Result<()> {
        self.thaw_receiver()?;
        let Some(mut server) = self.server.take() else {
            return Ok(());
        };
        let signal = match how {
            Shutdown::Fast => "INT",
            Shutdown::Immediate => "QUIT",
        };
        server.stop(signal, LIMIT)
    }

    pub(super) fn kill_9(&mut self) -> Result<()> {
        self.thaw_receiver()?;
        let mut server = self.server.take().context("the host does not run")?;
        server.stop("KILL", LIMIT)?;
        // PostgreSQL does not start while a process of the old postmaster has its shared memory.
        wait_until("the end of the other processes", LIMIT, || {
            Ok(processes_in(&self.data)? == 0)
        })
    }

    pub(super) fn freeze_receiver(&mut self) -> Result<()> {
        let pid = self.query_one("SELECT pid FROM pg_stat_wal_receiver")?;
        tools::run(Command::new("kill").args(["-s", "STOP", &pid]))?;
        self.frozen = Some(pid.clone());
        wait_until("the stop of the process", LIMIT, || {
            let state = fs::read_to_string(format!("/proc/{pid}/stat"))?;
            Ok(state
                .rsplit(") ")
                .next()
                .is_some_and(|rest| rest.starts_with('T')))
        })
    }

    pub(super) fn thaw_receiver(&mut self) -> Result<()> {
        if let Some(pid) = self.frozen.take() {
            tools::run(Command::new("kill").args(["-s", "CONT", &pid]))?;
        }
        Ok(())
    }

    fn log_file(&self, start: usize) -> PathBuf {
        self.directory
            .join(format!("host{}-{start}.log", self.number))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A stopped process would make the shutdown wait.
        drop(self.thaw_receiver());
    }
}

/// Number of processes that work in a directory. PostgreSQL's do so in their data directory.
fn processes_in(directory: &Path) -> Result<usize> {
    let processes = fs::read_dir("/proc")?.flatten();
    let works_there = |entry: &fs::DirEntry| {
        fs::read_link(entry.path().join("cwd")).is_ok_and(|place| place == directory)
    };
    Ok(processes.filter(works_there).count())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path is not UTF-8")
}
