//! Two hosts under pg_auto_failover, with a monitor.
//!
//! Nodes have numbers, which stay with their data directories whatever role a node takes. The monitor gives a silent node
//! up after seconds, where its defaults take a minute.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;

use crate::Raw;
use crate::TempDir;
use crate::child::Guarded;
use crate::child::Runner;
use crate::cluster::LIMIT;
use crate::orphans;
use crate::patroni::give_to_postgres;
use crate::postmaster;
use crate::tools;
use crate::wait_until;

/// Number of nodes beside the monitor.
const NODES: usize = 2;
/// Pause between two looks at the nodes.
const LOOK: Duration = Duration::from_millis(100);
/// Time limit of a direct question.
const QUESTION: Duration = Duration::from_secs(2);
/// Database of the monitor.
const MONITORED: &str = "pg_auto_failover";
/// Debian packages of the tool.
const PACKAGES: &str = "pg-auto-failover-cli postgresql-15-auto-failover";

/// Settings of the monitor, in milliseconds.
const SETTINGS: [(&str, u32); 7] = [
    ("health_check_period", 1000),
    ("health_check_timeout", 1000),
    ("health_check_max_retries", 1),
    ("health_check_retry_delay", 500),
    ("node_considered_unhealthy_timeout", 3000),
    ("primary_demote_timeout", 3000),
    ("startup_grace_period", 1000),
];

/// A monitor or a node: its pg_autoctl, which runs PostgreSQL.
#[derive(Debug)]
struct Member {
    address: SocketAddr,
    data: PathBuf,
    agent: Option<Guarded>,
}

/// Monitor and nodes; dropping it ends all of their processes and removes their files.
#[derive(Debug)]
pub struct AutoFailover {
    // The monitor last: nodes report to it when they stop.
    nodes: Vec<Member>,
    monitor: Member,
    directory: TempDir,
    /// Processes that are stopped.
    frozen: Vec<u32>,
}

impl AutoFailover {
    /// Starts everything, and returns when the first node is the primary and the second one its standby.
    ///
    /// # Errors
    /// When pg_auto_failover or PostgreSQL is not installed, or a node does not start in time.
    pub fn start() -> Result<Self> {
        orphans::adopt()?;
        let directory = TempDir::new()?;
        give_to_postgres(&directory)?;
        let nodes = (0..NODES).map(|number| Member::new(&format!("n{number}"), &directory));
        let mut cluster = Self {
            nodes: nodes.collect::<Result<_>>()?,
            monitor: Member::new("monitor", &directory)?,
            directory,
            frozen: Vec::new(),
        };
        cluster.monitor.start(&cluster.directory, "monitor", &[])?;
        cluster.wait("the monitor", |cluster| cluster.states().is_ok())?;
        cluster.hasten()?;
        let monitor = format!(
            "postgres://autoctl_node@{}/{MONITORED}",
            cluster.monitor.address
        );
        let expected = [
            "n0 single single",
            "n0 primary primary, n1 secondary secondary",
        ];
        for (number, expected) in expected.into_iter().enumerate() {
            let name = format!("n{number}");
            let words = ["--name", &name, "--monitor", &monitor];
            let node = cluster.nodes.get_mut(number).context("a node")?;
            node.start(&cluster.directory, "postgres", &words)?;
            cluster.wait(expected, |cluster| {
                cluster.states().is_ok_and(|states| states == expected)
            })?;
        }
        Ok(cluster)
    }

    /// Has the monitor give silent nodes up early.
    fn hasten(&self) -> Result<()> {
        let mut raw = self.connect_monitor()?;
        for (name, value) in SETTINGS {
            raw.query(&format!("ALTER SYSTEM SET pgautofailover.{name} = {value}"))?;
        }
        raw.query("SELECT pg_reload_conf()")?;
        raw.terminate();
        Ok(())
    }

    /// Addresses of the PostgreSQL servers, by the numbers of their nodes.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.address).collect()
    }

    /// Address of the monitor.
    #[must_use]
    pub fn monitor(&self) -> SocketAddr {
        self.monitor.address
    }

    /// Logs in to the monitor as its superuser.
    ///
    /// # Errors
    /// When it refuses.
    pub fn connect_monitor(&self) -> Result<Raw> {
        self.monitor.connect("postgres", MONITORED)
    }

    /// Stops all processes of a node, which closes no connection.
    ///
    /// # Errors
    /// When the node does not run.
    pub fn freeze(&mut self, number: usize) -> Result<()> {
        let node = self.nodes.get(number).context("no such node")?;
        let agent = node.agent.as_ref().context("no agent")?.pid();
        // Each process once: one of the server may end as soon as it goes on.
        let server = postmaster::processes(&node.data)?;
        let below = std::iter::once(agent).chain(children(agent)?);
        for pid in below.filter(|pid| !server.contains(pid)) {
            self.frozen.push(pid);
            postmaster::send("STOP", pid)?;
        }
        postmaster::freeze(&node.data, &mut self.frozen)
    }

    /// Lets all stopped processes go on.
    ///
    /// # Errors
    /// When one of them has ended.
    pub fn thaw(&mut self) -> Result<()> {
        postmaster::thaw(&mut self.frozen)
    }

    /// Waits until a node takes writes.
    ///
    /// # Errors
    /// When it does not in time.
    pub fn wait_writable(&self, number: usize) -> Result<()> {
        self.wait("a node that takes writes", |cluster| {
            let said = cluster.nodes.get(number).context("no such node");
            let said = said.and_then(|node| {
                let mut raw = node.connect("postgres", "postgres")?;
                raw.query_one("SELECT current_setting('transaction_read_only')")
            });
            said.is_ok_and(|said| said == "off")
        })
    }

    /// Returns name, goal and reported state of each node, as the monitor has them.
    ///
    /// # Errors
    /// When the monitor cannot be asked.
    pub fn states(&self) -> Result<String> {
        let mut raw = self.connect_monitor()?;
        raw.query_one(
            "SELECT coalesce(string_agg(concat_ws(' ', nodename, goalstate, reportedstate), ', ' ORDER BY nodeid), '') \
             FROM pgautofailover.node",
        )
    }

    fn wait(&self, event: &str, has_come: impl Fn(&Self) -> bool) -> Result<()> {
        let waited = wait_until(event, LIMIT, || {
            let come = has_come(self);
            if !come {
                thread::park_timeout(LOOK);
            }
            Ok(come)
        });
        waited.with_context(|| {
            let members = self.nodes.iter().chain([&self.monitor]);
            let logs = members.filter_map(|member| member.agent.as_ref());
            let logs: String = logs.map(|agent| tools::tail(&agent.log(), 12)).collect();
            format!("{:?}\n{logs}", self.states())
        })
    }
}

impl Drop for AutoFailover {
    fn drop(&mut self) {
        drop(self.thaw());
    }
}

impl Member {
    fn new(name: &str, directory: &TempDir) -> Result<Self> {
        Ok(Self {
            address: ([127, 0, 0, 1], tools::free_port()?).into(),
            data: directory.path().join(name),
            agent: None,
        })
    }

    /// Creates a monitor or a node, and runs it.
    fn start(&mut self, directory: &TempDir, kind: &str, words: &[&str]) -> Result<()> {
        let program = tools::require("pg_autoctl", PACKAGES)?;
        let (program, port) = (program.to_string_lossy(), self.address.port().to_string());
        let data = self.data.to_string_lossy();
        let mut command = vec![&*program, "create", kind, "--pgdata", &data];
        command.extend(["--pgport", &port, "--run", "--auth", "trust", "--no-ssl"]);
        command.extend(["--hostname", "127.0.0.1", "--listen", "127.0.0.1"]);
        command.extend(words);
        let log = self.data.with_extension("log");
        let env = env(directory)?;
        self.agent = Some(Guarded::start(
            Runner::Postgres,
            "QUIT",
            &command,
            &env,
            &log,
        )?);
        Ok(())
    }

    fn connect(&self, user: &str, database: &str) -> Result<Raw> {
        let mut raw = Raw::at(self.address, QUESTION)?;
        raw.login(&[("user", user), ("database", database)])?;
        Ok(raw)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let Some(agent) = self.agent.take() else {
            return;
        };
        let below = children(agent.pid()).unwrap_or_default();
        drop(agent);
        // Left if the agent was killed because it took too long.
        let is_agent = |pid: &u32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name.trim_end() == "pg_autoctl")
        };
        for pid in below.into_iter().filter(is_agent) {
            drop(postmaster::send("KILL", pid));
        }
        if postmaster::pid(&self.data).is_ok() {
            drop(postmaster::end(&self.data, "QUIT"));
        }
    }
}

/// Environment of pg_autoctl, which keeps files outside of the data directory.
fn env(directory: &TempDir) -> Result<Vec<(String, String)>> {
    let bin = tools::postgres_bin_dir()?;
    let path = std::env::var("PATH").unwrap_or_default();
    let home = directory.path().to_string_lossy().into_owned();
    let mut env = vec![("PATH".to_owned(), format!("{}:{path}", bin.display()))];
    for name in [
        "HOME",
        "XDG_RUNTIME_DIR",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
    ] {
        env.push((name.to_owned(), home.clone()));
    }
    Ok(env)
}

/// Processes below a process, parents first.
fn children(parent: u32) -> Result<Vec<u32>> {
    let mut below = vec![parent];
    let mut at = 0;
    while let Some(parent) = below.get(at).copied() {
        at += 1;
        let listed = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        let listed = listed.unwrap_or_default();
        let pids = listed.split_whitespace().map(str::parse::<u32>);
        below.extend(pids.collect::<Result<Vec<_>, _>>()?);
    }
    below.remove(0);
    Ok(below)
}
