//! Three hosts under repmgr, with a repmgrd beside each.
//!
//! Nodes have numbers, which stay with their data directories whatever role a node takes. repmgr restarts no server that
//! has died, and keeps no former primary from coming back: tests do both in the order that repmgr's manual asks for.

use std::fs;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;

use crate::TempDir;
use crate::child;
use crate::child::Guarded;
use crate::child::Runner;
use crate::cluster::LIMIT;
use crate::orphans;
use crate::patroni::give_to_postgres;
use crate::postmaster;
use crate::tools;
use crate::wait_until;

mod node;

use node::Node;

/// Number of nodes.
const NODES: usize = 3;
/// Pause between two looks at the nodes.
const LOOK: Duration = Duration::from_millis(50);

/// Stands in for ssh, by which repmgr stops and rejoins the former primary in a switchover: all nodes are on this machine.
const SSH: &str = "#!/bin/sh
while [ $# -gt 0 ]; do
    case \"$1\" in
    -o) shift 2 ;;
    -*) shift ;;
    *) shift; break ;;
    esac
done
exec sh -c \"$*\"
";

/// Three running nodes; dropping it ends all of their processes and removes their files.
#[derive(Debug)]
pub struct Repmgr {
    // Dropped before their servers, which they would replace.
    daemons: Vec<Guarded>,
    nodes: Vec<Node>,
    directory: TempDir,
    /// Processes that are stopped.
    frozen: Vec<u32>,
}

impl Repmgr {
    /// Starts everything, and returns when there is a primary that two others replicate from. Each acknowledged commit is
    /// on a second node.
    ///
    /// # Errors
    /// When repmgr or PostgreSQL is not installed, or a node does not start in time.
    pub fn start() -> Result<Self> {
        orphans::adopt()?;
        let directory = TempDir::new()?;
        give_to_postgres(&directory)?;
        write_ssh(directory.path())?;
        let nodes = (0..NODES).map(|number| Node::new(number, &directory));
        let mut repmgr = Self {
            daemons: Vec::new(),
            nodes: nodes.collect::<Result<_>>()?,
            directory,
            frozen: Vec::new(),
        };
        repmgr.initialise()?;
        for node in &repmgr.nodes {
            let daemon = node.start_daemon(repmgr.directory.path())?;
            repmgr.daemons.push(daemon);
        }
        repmgr.wait_whole()?;
        Ok(repmgr)
    }

    /// Makes the first node the primary, and the others copies of it.
    fn initialise(&self) -> Result<()> {
        let first = self.node(0);
        first.initialise(&self.directory)?;
        first.start_server()?;
        self.repmgr(0, &["primary", "register"])?;
        for number in 1..NODES {
            let node = self.node(number);
            let port = first.address().port().to_string();
            let host = [
                "-h",
                "127.0.0.1",
                "-p",
                &port,
                "-U",
                "postgres",
                "-d",
                "postgres",
            ];
            let clone = ["standby", "clone", "--fast-checkpoint"];
            self.repmgr(number, &[host.as_slice(), &clone].concat())?;
            node.start_server()?;
            self.repmgr(number, &["standby", "register", "--wait-sync"])?;
        }
        // Not before: the first registration would wait for a standby.
        let names: Vec<&str> = self.nodes.iter().map(Node::name).collect();
        for node in &self.nodes {
            node.set_synchronous(&names)?;
        }
        Ok(())
    }

    /// Addresses of the PostgreSQL servers, by the numbers of their nodes.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(Node::address).collect()
    }

    /// Returns the node that takes writes.
    ///
    /// # Errors
    /// When there is none at the moment.
    pub fn leader(&self) -> Result<usize> {
        let leader = self.nodes.iter().position(Node::takes_writes);
        leader.with_context(|| format!("no primary\n{}", self.states()))
    }

    /// Waits until there is a primary, and returns it.
    ///
    /// # Errors
    /// When there is none in time.
    pub fn wait_leader(&self) -> Result<usize> {
        self.wait("a primary", || Ok(self.leader().is_ok()))?;
        self.leader()
    }

    /// Waits until a node other than this takes writes, and returns it.
    ///
    /// # Errors
    /// When there is none in time.
    pub fn wait_leader_beside(&self, former: usize) -> Result<usize> {
        let found = || {
            let mut others = self.nodes.iter().enumerate();
            let found = others.find(|(number, node)| *number != former && node.takes_writes());
            found.map(|(number, _)| number)
        };
        self.wait("another primary", || Ok(found().is_some()))?;
        found().context("the new primary has gone")
    }

    /// Waits until there is a primary, and all other nodes stream from it.
    ///
    /// # Errors
    /// When this does not happen in time.
    pub fn wait_whole(&self) -> Result<()> {
        self.wait("a primary that two others stream from", || {
            let Ok(leader) = self.leader() else {
                return Ok(false);
            };
            let sender = self.node(leader).address();
            let mut others = self.nodes.iter().filter(|node| node.address() != sender);
            Ok(others.all(|node| node.streams_from(sender)))
        })
    }

    /// Makes a standby the primary, as `repmgr standby switchover` does, and returns when the former one follows it.
    ///
    /// # Errors
    /// When repmgr refuses or fails.
    pub fn switchover(&self, to: usize) -> Result<()> {
        self.repmgr(to, &["standby", "switchover", "--siblings-follow"])?;
        let leader = self.wait_leader()?;
        ensure!(leader == to, "node {leader} is the primary instead of {to}");
        Ok(())
    }

    /// Kills the postmaster of a node. Nothing starts it again. Returns when no process of the server is left.
    ///
    /// # Errors
    /// When the server does not run, or does not end in time.
    pub fn kill_postmaster(&self, number: usize) -> Result<()> {
        postmaster::end(self.node(number).data(), "KILL")
    }

    /// Stops all processes of a node, which closes no connection.
    ///
    /// # Errors
    /// When the node does not run.
    pub fn freeze(&mut self, number: usize) -> Result<()> {
        let daemon = self.daemons.get(number).context("no repmgrd")?;
        self.frozen.push(daemon.pid());
        daemon.signal("STOP")?;
        let data = self.node(number).data().to_owned();
        postmaster::freeze(&data, &mut self.frozen)
    }

    /// Lets all stopped processes go on.
    ///
    /// # Errors
    /// When one of them has ended.
    pub fn thaw(&mut self) -> Result<()> {
        postmaster::thaw(&mut self.frozen)
    }

    /// Brings a former primary back that was killed, as a standby of the new one.
    ///
    /// # Errors
    /// When repmgr refuses or fails.
    pub fn rejoin(&self, number: usize) -> Result<()> {
        let node = self.node(number);
        // repmgr refuses a server that was not shut down in the regular way.
        node.recover_alone()?;
        let leader = self.node(self.leader()?);
        // pg_rewind reads the timeline from the control file, which a checkpoint writes.
        leader.checkpoint()?;
        let conninfo = leader.conninfo();
        self.repmgr(
            number,
            &["node", "rejoin", "--force-rewind", "-d", &conninfo],
        )
    }

    /// Version of repmgr, as `repmgr 5.3.3`.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn version() -> Result<String> {
        let mut repmgr = Command::new(tools::require("repmgr", "repmgr postgresql-15-repmgr")?);
        Ok(tools::run(repmgr.arg("--version"))?.trim().to_owned())
    }

    /// Returns a line for each node, for the errors of those who wait in vain.
    #[must_use]
    pub fn states(&self) -> String {
        let states = self.nodes.iter().map(|node| node.state() + "\n");
        let logs = self
            .daemons
            .iter()
            .map(|daemon| tools::tail(&daemon.log(), 8));
        states.chain(logs).collect()
    }

    /// Runs repmgr on a node.
    fn repmgr(&self, number: usize, words: &[&str]) -> Result<()> {
        let node = self.node(number);
        let mut command = child::setpriv(Runner::Postgres, None)?;
        command.arg(tools::require("repmgr", "repmgr postgresql-15-repmgr")?);
        command.arg("-f").arg(node.config()).args(words);
        command.envs(node::env(self.directory.path()));
        tools::run(command.current_dir(self.directory.path())).map(drop)
    }

    fn node(&self, number: usize) -> &Node {
        self.nodes
            .get(number)
            .expect("the caller names a node of this cluster")
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

    /// Logs in to the primary.
    ///
    /// # Errors
    /// When there is none.
    pub fn connect_leader(&self) -> Result<crate::Raw> {
        self.node(self.wait_leader()?).connect(LIMIT)
    }
}

impl Drop for Repmgr {
    fn drop(&mut self) {
        drop(self.thaw());
    }
}

/// Address of a node on loopback.
fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn write_ssh(directory: &Path) -> Result<()> {
    let programs = directory.join("bin");
    fs::create_dir(&programs)?;
    let ssh = programs.join("ssh");
    fs::write(&ssh, SSH)?;
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
