//! Three hosts under Patroni with an etcd, and the faults that a failover begins with.
//!
//! Nodes have numbers, which stay with their data directories whatever role a node takes. A node is its Patroni agent and
//! the PostgreSQL server that the agent starts. Methods wait for events, up to [`LIMIT`]; none sleeps for a fixed time.

use std::net::IpAddr;
use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;

use crate::TempDir;
use crate::child::Guarded;
use crate::child::Runner;
use crate::cluster::LIMIT;
use crate::orphans;
use crate::tools;
use crate::wait_until;

mod network;
mod node;
mod rest;
mod volume;
mod yaml;

pub use network::Network;
pub use node::Node;

use network::Wires;
use node::Place;
use volume::Volume;

/// Number of nodes.
pub const NODES: usize = 3;

/// Key in etcd that holds the name of the leader: Patroni's default namespace, and the scope of `yaml.rs`.
pub const LEADER_KEY: &str = "/service/drill/leader";

/// Pause between two looks at the nodes: each look opens several connections, which must not disturb a measurement.
const LOOK: Duration = Duration::from_millis(50);

/// Replication from the leader to the other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// A commit waits for no other node. A failover may lose acknowledged commits.
    Asynchronous,
    /// A commit waits for one other node, which Patroni chooses (`synchronous_mode`). Only that node may become leader.
    Synchronous,
}

/// A running etcd and three nodes; dropping it ends all of their processes and removes their files.
#[derive(Debug)]
pub struct Patroni {
    // Dropped in this order: an agent without an etcd takes longer to stop, and all files are in the directory.
    nodes: Vec<Node>,
    etcd: Guarded,
    etcd_address: SocketAddr,
    wires: Wires,
    /// Volumes of the nodes' WAL; empty if the nodes have none of their own.
    volumes: Vec<Volume>,
    _directory: TempDir,
    replication: Replication,
}

/// Kind of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Replication from the leader to the other nodes.
    pub replication: Replication,
    /// Network between the nodes.
    pub network: Network,
    /// True if the WAL of each node is on a small volume of its own. Needs root.
    pub has_volumes: bool,
}

impl Shape {
    /// Nodes on one address, of which one other has each acknowledged commit.
    pub const SYNCHRONOUS: Self = Self {
        replication: Replication::Synchronous,
        network: Network::OneAddress,
        has_volumes: false,
    };

    /// Nodes on one address, and commits that wait for no other node.
    pub const ASYNCHRONOUS: Self = Self {
        replication: Replication::Asynchronous,
        network: Network::OneAddress,
        has_volumes: false,
    };
}

impl Patroni {
    /// Starts everything, and returns when there is a leader that two others replicate from.
    ///
    /// # Errors
    /// When Patroni, etcd or PostgreSQL is not installed, or a node does not start in time.
    pub fn start(shape: Shape) -> Result<Self> {
        orphans::adopt()?;
        let directory = TempDir::new()?;
        give_to_postgres(&directory)?;
        let wires = Wires::new(shape.network)?;
        let (etcd, etcd_address) = start_etcd(&directory, wires.hub())?;
        let mut nodes: Vec<Node> = Vec::new();
        let mut volumes = Vec::new();
        for number in 0..NODES {
            if shape.has_volumes {
                volumes.push(Volume::new(
                    directory.path().join(format!("volume{number}")),
                )?);
            }
            let before = nodes.last().map(|node| node.address().port());
            let place = Place {
                directory: &directory,
                wires: &wires,
                port: wires.port(before)?,
                etcd: etcd_address,
                replication: shape.replication,
                wal: volumes.last().map(Volume::wal),
            };
            nodes.push(Node::new(number, place)?);
        }
        let mut patroni = Self {
            nodes,
            etcd,
            etcd_address,
            wires,
            volumes,
            _directory: directory,
            replication: shape.replication,
        };
        // The first one initialises the cluster; the others copy it.
        patroni.start_agent(0)?;
        patroni.wait_leader()?;
        for number in 1..NODES {
            patroni.start_agent(number)?;
        }
        patroni.wait_whole()?;
        Ok(patroni)
    }

    /// Returns a node by its number.
    ///
    /// # Panics
    /// When there is no node of this number.
    #[must_use]
    pub fn node(&self, number: usize) -> &Node {
        self.nodes
            .get(number)
            .expect("the caller names a node of this cluster")
    }

    /// Addresses of the PostgreSQL servers, by the numbers of their nodes.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(Node::address).collect()
    }

    /// Address of etcd. The leader's key there is [`LEADER_KEY`].
    #[must_use]
    pub fn etcd_address(&self) -> SocketAddr {
        self.etcd_address
    }

    /// Returns the node that is the leader by its agent's word and takes writes.
    ///
    /// # Errors
    /// When there is none at the moment.
    pub fn leader(&self) -> Result<usize> {
        let leader = self.nodes.iter().position(Node::is_leader);
        leader.with_context(|| format!("no leader\n{}", self.states()))
    }

    /// Waits until there is a leader, and returns it.
    ///
    /// # Errors
    /// When there is none in time.
    pub fn wait_leader(&self) -> Result<usize> {
        self.wait("a leader", || Ok(self.leader().is_ok()))?;
        self.leader()
    }

    /// Waits until a node other than this is the leader, and returns it.
    ///
    /// # Errors
    /// When there is none in time.
    pub fn wait_leader_beside(&self, former: usize) -> Result<usize> {
        let others = || {
            let mut others = self.nodes.iter().enumerate();
            let found = others.find(|(number, node)| *number != former && node.is_leader());
            found.map(|(number, _)| number)
        };
        self.wait("a leader beside the former one", || Ok(others().is_some()))?;
        others().context("the new leader has gone")
    }

    /// Waits until there is a leader, all other nodes stream from it and, with synchronous replication, commits wait for
    /// one of them.
    ///
    /// # Errors
    /// When this does not happen in time.
    pub fn wait_whole(&self) -> Result<()> {
        self.wait("a leader that two others stream from", || {
            Ok(self.is_whole())
        })
    }

    /// Waits until a node streams from the leader.
    ///
    /// # Errors
    /// When it does not do so in time.
    pub fn wait_streaming(&self, number: usize) -> Result<()> {
        self.wait("a stream from the leader", || {
            let leader = self.leader().map(|leader| self.node(leader).address());
            Ok(leader.is_ok_and(|sender| self.node(number).streams_from(sender)))
        })
    }

    /// Returns a node that may become leader now: with synchronous replication only the one that commits wait for.
    ///
    /// # Errors
    /// When there is none.
    pub fn candidate(&self) -> Result<usize> {
        let path = match self.replication {
            Replication::Asynchronous => "/replica",
            Replication::Synchronous => "/sync",
        };
        let candidate = self.nodes.iter().position(|node| node.answers_ok(path));
        candidate.with_context(|| format!("no node may become leader\n{}", self.states()))
    }

    /// Waits until a node takes no writes any more.
    ///
    /// # Errors
    /// When it still does after the time limit.
    pub fn wait_closed(&self, number: usize) -> Result<()> {
        self.wait("the end of the leader's writes", || {
            Ok(!self.node(number).takes_writes())
        })
    }

    /// Lets a node replay WAL again, and returns when it has replayed all that it had received by then.
    ///
    /// # Errors
    /// When it does not do so in time.
    pub fn resume_replay(&self, number: usize) -> Result<()> {
        let node = self.node(number);
        node.query_one("SELECT pg_wal_replay_resume()")?;
        let received = node.query_one("SELECT pg_last_wal_receive_lsn()")?;
        let sql = format!("SELECT pg_last_wal_replay_lsn() >= '{received}'");
        self.wait("the replay of the WAL", || Ok(node.query_one(&sql)? == "t"))
    }

    /// Makes a node the leader, as `patronictl switchover` does, and returns when it is.
    ///
    /// # Errors
    /// When Patroni refuses, or the node does not become leader in time.
    pub fn switchover(&self, to: usize) -> Result<()> {
        let leader = self.leader()?;
        let body = format!(
            "{{\"leader\": \"{}\", \"candidate\": \"{}\"}}",
            self.node(leader).name(),
            self.node(to).name()
        );
        self.node(leader).post("/switchover", &body)?;
        let now = self.wait_leader_beside(leader)?;
        ensure!(now == to, "node {now} became leader instead of {to}");
        Ok(())
    }

    /// Restarts the PostgreSQL server of a node, as `patronictl restart` does: with a fast shutdown.
    ///
    /// # Errors
    /// When Patroni refuses, or the server does not come back in time.
    pub fn restart(&self, number: usize) -> Result<()> {
        self.node(number).post("/restart", "{}").map(drop)
    }

    /// Sends SIGQUIT to the postmaster of a node: an immediate shutdown. Its agent starts it again. Returns when no
    /// process of the old server is left.
    ///
    /// # Errors
    /// When the server does not run, or does not end in time.
    pub fn quit_postmaster(&self, number: usize) -> Result<()> {
        self.node(number).end_postmaster("QUIT")
    }

    /// Kills the postmaster of a node, whose agent lives on and starts it again. Returns when no process of the old
    /// server is left.
    ///
    /// # Errors
    /// When the server does not run, or does not end in time.
    pub fn kill_postmaster(&self, number: usize) -> Result<()> {
        self.node(number).end_postmaster("KILL")
    }

    /// Kills the agent of a node, then its postmaster: as much of the death of a machine as one machine can show.
    /// Returns when no process of the server is left.
    ///
    /// # Errors
    /// When one of them does not run, or does not end in time.
    pub fn kill_host(&mut self, number: usize) -> Result<()> {
        self.node_mut(number).kill_agent()?;
        self.kill_postmaster(number)
    }

    /// Kills the agents of all nodes, then etcd. The servers run on.
    ///
    /// # Errors
    /// When one of them does not run, or does not end in time.
    pub fn kill_tools(&mut self) -> Result<()> {
        self.nodes.iter_mut().try_for_each(Node::kill_agent)?;
        self.etcd.stop("KILL", LIMIT)
    }

    /// Stops the agent of a node in the regular way, and with it the server.
    ///
    /// # Errors
    /// When they do not end in time.
    pub fn stop_host(&mut self, number: usize) -> Result<()> {
        self.node_mut(number).stop_agent()
    }

    /// Starts the agent of a node, which starts the server.
    ///
    /// # Errors
    /// When the agent runs already or cannot be started.
    pub fn start_agent(&mut self, number: usize) -> Result<()> {
        self.node_mut(number).start_agent()
    }

    /// Stops the agent of the leader with SIGSTOP, between two of its cycles. Its server runs on.
    ///
    /// # Errors
    /// When the agent does not run.
    pub fn freeze_agent(&mut self, number: usize) -> Result<()> {
        self.node_mut(number).freeze_agent()
    }

    /// Stops all processes of the server of a node with SIGSTOP: connections stay open, and nothing answers.
    ///
    /// # Errors
    /// When the server does not run.
    pub fn freeze_server(&mut self, number: usize) -> Result<()> {
        self.node_mut(number).freeze_server()
    }

    /// Lets the stopped processes of a node go on.
    ///
    /// # Errors
    /// When one of them has ended.
    pub fn thaw(&mut self, number: usize) -> Result<()> {
        self.node_mut(number).thaw()
    }

    /// Fills the volume of a node's WAL, and lets the server begin new WAL files until it notices.
    ///
    /// # Errors
    /// When the nodes have no volumes, or the server goes on.
    pub fn fill_volume(&self, number: usize) -> Result<()> {
        self.volume(number)?.fill()?;
        let mut session = self.node(number).connect(LIMIT)?;
        self.wait("the end of the volume", || {
            let sql = "SELECT pg_switch_wal() FROM pg_logical_emit_message(true, 'drill', 'x')";
            Ok(session.query_one(sql).is_err())
        })
    }

    /// Gives the room on the volume of a node's WAL back.
    ///
    /// # Errors
    /// When it was not filled.
    pub fn free_volume(&self, number: usize) -> Result<()> {
        self.volume(number)?.free()
    }

    /// Pulls the network cable of a node: nothing reaches it or comes from it, and neither side is told.
    ///
    /// # Errors
    /// When the nodes have no cables.
    pub fn cut(&self, number: usize) -> Result<()> {
        self.wires.cut(number)
    }

    /// Plugs the network cable of a node in again.
    ///
    /// # Errors
    /// When the nodes have no cables.
    pub fn heal(&self, number: usize) -> Result<()> {
        self.wires.heal(number)
    }

    /// Waits until a former leader streams from the leader that has followed it.
    ///
    /// # Errors
    /// When it does not do so in time, or when it takes the leadership back: then the cluster itself has lost what its
    /// successor has committed.
    pub fn wait_succeeded(&self, former: usize, leader: usize) -> Result<()> {
        let sender = self.node(leader).address();
        self.wait("a stream to the former leader", || {
            let sql = "SELECT pg_is_in_recovery()";
            let is_leader = self
                .node(leader)
                .query_one(sql)
                .is_ok_and(|said| said == "f");
            ensure!(is_leader, "node {leader} is leader no more");
            Ok(self.node(former).streams_from(sender))
        })
    }

    /// Version of Patroni, as `3.0.2`.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn version() -> Result<String> {
        let mut patroni = Command::new(tools::require("patroni", "patroni")?);
        let said = tools::run(patroni.arg("--version"))?;
        Ok(said.trim().replace("patroni ", ""))
    }

    /// Returns a line for each node, for the errors of those who wait in vain.
    #[must_use]
    pub fn states(&self) -> String {
        let states = self.nodes.iter().map(|node| node.state() + "\n");
        states.collect()
    }

    fn is_whole(&self) -> bool {
        let Ok(leader) = self.leader() else {
            return false;
        };
        let sender = self.node(leader).address();
        let mut others = self.nodes.iter().filter(|node| node.address() != sender);
        let is_synchronous = self.replication == Replication::Asynchronous
            || self.nodes.iter().any(|node| node.answers_ok("/sync"));
        others.all(|node| node.streams_from(sender) && node.answers_ok("/replica"))
            && is_synchronous
    }

    fn wait(&self, event: &str, mut has_come: impl FnMut() -> Result<bool>) -> Result<()> {
        let waited = wait_until(event, LIMIT, || {
            let come = has_come()?;
            if !come {
                thread::park_timeout(LOOK);
            }
            Ok(come)
        });
        waited.with_context(|| self.states())
    }

    fn volume(&self, number: usize) -> Result<&Volume> {
        self.volumes
            .get(number)
            .context("the nodes of this cluster have no volumes")
    }

    fn node_mut(&mut self, number: usize) -> &mut Node {
        self.nodes
            .get_mut(number)
            .expect("the caller names a node of this cluster")
    }
}

/// Gives a directory to the user who runs servers.
pub(crate) fn give_to_postgres(directory: &TempDir) -> Result<()> {
    if tools::is_root() {
        tools::run(Command::new("chown").arg("postgres:").arg(directory.path()))
            .context("user postgres is missing: apt-get install postgresql-15")?;
    }
    Ok(())
}

/// Starts an etcd of one member, and returns it with its address when it is healthy.
fn start_etcd(directory: &TempDir, address: IpAddr) -> Result<(Guarded, SocketAddr)> {
    let program = tools::require("etcd", "etcd-server")?;
    let at = SocketAddr::new(address, tools::free_port()?);
    let peers = SocketAddr::new(address, tools::free_port()?);
    let data = directory.path().join("etcd");
    let (clients_url, peers_url) = (format!("http://{at}"), format!("http://{peers}"));
    let cluster = format!("default={peers_url}");
    let command = [
        &*program.to_string_lossy(),
        "--data-dir",
        &*data.to_string_lossy(),
        "--listen-client-urls",
        &clients_url,
        "--advertise-client-urls",
        &clients_url,
        "--listen-peer-urls",
        &peers_url,
        "--initial-advertise-peer-urls",
        &peers_url,
        "--initial-cluster",
        &cluster,
        // The disk of a test machine is slow at times, and a lost election of the only member is no subject here.
        "--heartbeat-interval",
        "500",
        "--election-timeout",
        "5000",
    ];
    let log = directory.path().join("etcd.log");
    let mut etcd = Guarded::start(Runner::Postgres, "TERM", &command, &[], &log)?;
    let ready = wait_until("a healthy etcd", LIMIT, || {
        etcd.check_running()?;
        Ok(rest::is_ok(at, "/health"))
    });
    ready.with_context(|| etcd.log())?;
    Ok((etcd, at))
}
