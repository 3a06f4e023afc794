//! A node: its Patroni agent, the PostgreSQL server that the agent starts, and direct questions to both.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;

use super::Replication;
use super::network::Wires;
use super::rest;
use super::yaml;
use crate::Raw;
use crate::TempDir;
use crate::child::Guarded;
use crate::child::Runner;
use crate::cluster::LIMIT;
use crate::postmaster;
use crate::tools;
use crate::wait_until;

/// Time limit of a direct question: a frozen server accepts connections and does not answer.
const QUESTION: Duration = Duration::from_secs(2);

/// Text that a leader's agent logs at the end of each of its cycles.
const CYCLE: &str = "the leader with the lock";

/// Place of a node in its cluster.
#[derive(Clone)]
pub(super) struct Place<'a> {
    pub(super) directory: &'a TempDir,
    pub(super) wires: &'a Wires,
    /// TCP port of PostgreSQL.
    pub(super) port: u16,
    pub(super) etcd: SocketAddr,
    pub(super) replication: Replication,
    /// Directory of the WAL, if it is not in the data directory.
    pub(super) wal: Option<PathBuf>,
}

/// A node, which runs or is stopped.
#[derive(Debug)]
pub struct Node {
    name: String,
    postgres: SocketAddr,
    rest: SocketAddr,
    /// Command that runs another one on this node.
    on_node: Vec<String>,
    /// Directory of the cluster.
    directory: PathBuf,
    data: PathBuf,
    config: PathBuf,
    agent: Option<Guarded>,
    /// Number of starts of the agent so far; each has a log of its own.
    starts: usize,
    /// Processes that are stopped by a signal.
    frozen: Vec<u32>,
}

impl Node {
    pub(super) fn new(number: usize, place: Place<'_>) -> Result<Self> {
        let name = format!("n{number}");
        let directory = place.directory;
        let data = directory.path().join(&name);
        let address = place.wires.node(number);
        let postgres = SocketAddr::new(address, place.port);
        let rest = SocketAddr::new(address, tools::free_port()?);
        let text = yaml::text(&yaml::Facts {
            name: &name,
            postgres,
            rest,
            etcd: place.etcd,
            replication: place.replication,
            data: &data,
            bin: &tools::postgres_bin_dir()?,
            directory: directory.path(),
            wal: place.wal.as_deref(),
        });
        Ok(Self {
            config: directory.write(&format!("{name}.yml"), &text)?,
            name,
            postgres,
            rest,
            on_node: place.wires.on_node(number),
            directory: directory.path().to_owned(),
            data,
            agent: None,
            starts: 0,
            frozen: Vec::new(),
        })
    }

    /// Patroni's name of the node.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Address of the PostgreSQL server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.postgres
    }

    /// Address of the agent's REST interface.
    #[must_use]
    pub fn rest(&self) -> SocketAddr {
        self.rest
    }

    /// True if the agent's REST interface answers a path with status 200.
    #[must_use]
    pub fn answers_ok(&self, path: &str) -> bool {
        self.agent.is_some() && rest::is_ok(self.rest, path)
    }

    /// True if the agent holds the leader's key and the server takes writes.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.answers_ok("/primary") && self.takes_writes()
    }

    /// True if the server accepts sessions and is no standby.
    #[must_use]
    pub fn takes_writes(&self) -> bool {
        self.says("SELECT pg_is_in_recovery()", "f")
    }

    /// Stops the replay of WAL at a standby, which goes on receiving it.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn pause_replay(&self) -> Result<()> {
        self.query_one("SELECT pg_wal_replay_pause()").map(drop)
    }

    /// True if the server receives WAL from the server at this address.
    #[must_use]
    pub fn streams_from(&self, sender: SocketAddr) -> bool {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming' AND sender_host = '{}' AND sender_port = {}",
            sender.ip(),
            sender.port()
        );
        self.says(&sql, "1")
    }

    /// Returns the first column of the first row of a query.
    ///
    /// # Errors
    /// When the login or the query is refused, or the server does not answer in time.
    pub fn query_one(&self, sql: &str) -> Result<String> {
        let mut raw = self.connect(QUESTION)?;
        let value = raw.query_one(sql)?;
        raw.terminate();
        Ok(value)
    }

    /// Logs in to database `postgres`, and waits at most this time for each answer.
    ///
    /// # Errors
    /// When the login is refused, or the server does not answer in time.
    pub fn connect(&self, patience: Duration) -> Result<Raw> {
        let mut raw = Raw::at(self.postgres, patience)?;
        raw.login(&[("user", "postgres"), ("database", "postgres")])?;
        Ok(raw)
    }

    /// Returns all that the agent and the server have logged.
    #[must_use]
    pub fn log(&self) -> String {
        let files = (1..=self.starts).map(|start| self.log_file(start));
        let texts = files.map(|file| fs::read(file).unwrap_or_default());
        texts
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .collect()
    }

    /// Process of the running server.
    ///
    /// # Errors
    /// When it does not run.
    pub fn postmaster(&self) -> Result<u32> {
        postmaster::pid(&self.data)
    }

    pub(super) fn post(&self, path: &str, body: &str) -> Result<String> {
        rest::post(self.rest, path, body)
    }

    pub(super) fn start_agent(&mut self) -> Result<()> {
        ensure!(
            self.agent.is_none(),
            "the agent of {} runs already",
            self.name
        );
        self.starts += 1;
        let program = tools::require("patroni", "patroni")?;
        let command = [&*program.to_string_lossy(), &*self.config.to_string_lossy()];
        let home = (
            "HOME".to_owned(),
            self.directory.to_string_lossy().into_owned(),
        );
        let log = self.log_file(self.starts);
        // SIGTERM: the agent stops its server before it ends.
        let outer: Vec<&str> = self.on_node.iter().map(String::as_str).collect();
        let runner = Runner::Postgres;
        let agent = Guarded::start_under(&outer, runner, "TERM", &command, &[home], &log)?;
        self.agent = Some(agent);
        Ok(())
    }

    pub(super) fn stop_agent(&mut self) -> Result<()> {
        let mut agent = self.agent.take().context("the agent does not run")?;
        agent.stop("TERM", LIMIT)
    }

    pub(super) fn kill_agent(&mut self) -> Result<()> {
        let mut agent = self.agent.take().context("the agent does not run")?;
        agent.stop("KILL", LIMIT)
    }

    pub(super) fn end_postmaster(&self, signal: &str) -> Result<()> {
        postmaster::end(&self.data, signal)
    }

    pub(super) fn freeze_agent(&mut self) -> Result<()> {
        // Patroni 3.0 on etcd's third API renews the leader's key by what it has read before. An agent that is stopped
        // between the two takes the key from the next leader when it goes on, and the cluster loses commits by itself.
        let cycles = || self.log().matches(CYCLE).count();
        let before = cycles();
        wait_until("the end of a cycle of the agent", LIMIT, || {
            Ok(cycles() > before)
        })?;
        let agent = self.agent.as_ref().context("the agent does not run")?;
        self.frozen.push(agent.pid());
        agent.signal("STOP")
    }

    pub(super) fn freeze_server(&mut self) -> Result<()> {
        postmaster::freeze(&self.data, &mut self.frozen)
    }

    pub(super) fn thaw(&mut self) -> Result<()> {
        postmaster::thaw(&mut self.frozen)
    }

    /// Role and state as the agent and the server say them.
    pub(super) fn state(&self) -> String {
        let agent = match (&self.agent, rest::get(self.rest, "/patroni")) {
            (None, _) => "no agent".to_owned(),
            (_, Ok((status, body))) => format!("{status} {body}"),
            (_, Err(error)) => format!("{error:#}"),
        };
        let sql = "SELECT CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE 'primary' END";
        let server = self
            .query_one(sql)
            .unwrap_or_else(|error| format!("{error:#}"));
        format!(
            "{} ({}): server {server}; agent {agent}",
            self.name, self.postgres
        )
    }

    fn says(&self, sql: &str, value: &str) -> bool {
        self.query_one(sql).is_ok_and(|said| said == value)
    }

    fn log_file(&self, start: usize) -> PathBuf {
        self.directory.join(format!("{}-{start}.log", self.name))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.thaw());
        // Killed and not stopped: an agent that stops its server in the regular way takes seconds.
        if let Some(mut agent) = self.agent.take() {
            drop(agent.stop("KILL", LIMIT));
        }
        if self.postmaster().is_ok() {
            drop(self.end_postmaster("QUIT"));
        }
    }
}
