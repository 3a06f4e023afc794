//! Clusters that drills disturb, and what all of them have.

use std::net::SocketAddr;

use anyhow::Result;
use anyhow::bail;

use crate::Patroni;
use crate::Raw;
use crate::Repmgr;
use crate::cluster::LIMIT;
use crate::patroni::LEADER_KEY;
use crate::patroni::Shape;

/// Kind of a drill's cluster.
#[derive(Clone, Copy, Debug)]
pub enum World {
    /// Three nodes under Patroni.
    Patroni(Shape),
    /// Three nodes under repmgr; one other has each acknowledged commit.
    Repmgr,
}

/// A running cluster.
#[derive(Debug)]
pub(super) enum Cluster {
    Patroni(Patroni),
    Repmgr(Repmgr),
}

impl Cluster {
    pub(super) fn start(world: World) -> Result<Self> {
        match world {
            World::Patroni(shape) => Patroni::start(shape).map(Self::Patroni),
            World::Repmgr => Repmgr::start().map(Self::Repmgr),
        }
    }

    /// Returns options of an entry that make the leader in etcd a witness.
    pub(super) fn fence(&self) -> Result<String> {
        let Self::Patroni(patroni) = self else {
            bail!("only a cluster of Patroni has a fence");
        };
        let scope = LEADER_KEY.trim_end_matches("/leader");
        let etcd = patroni.etcd_address();
        Ok(format!(
            " failover_hints=etcd:http://{etcd}{scope} fence=patroni"
        ))
    }

    /// Addresses of the PostgreSQL servers, by the numbers of their nodes.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Patroni(patroni) => patroni.addresses(),
            Self::Repmgr(repmgr) => repmgr.addresses(),
        }
    }

    /// Returns the node that takes writes.
    pub(super) fn leader(&self) -> Result<usize> {
        match self {
            Self::Patroni(patroni) => patroni.leader(),
            Self::Repmgr(repmgr) => repmgr.leader(),
        }
    }

    /// Waits until a node takes writes, and logs in there.
    pub(super) fn connect_leader(&self) -> Result<Raw> {
        match self {
            Self::Patroni(patroni) => patroni.node(patroni.wait_leader()?).connect(LIMIT),
            Self::Repmgr(repmgr) => repmgr.connect_leader(),
        }
    }

    /// Waits until there is a leader that all others stream from.
    pub(super) fn wait_whole(&self) -> Result<()> {
        match self {
            Self::Patroni(patroni) => patroni.wait_whole(),
            Self::Repmgr(repmgr) => repmgr.wait_whole(),
        }
    }

    /// A line for each node.
    pub(super) fn states(&self) -> String {
        match self {
            Self::Patroni(patroni) => patroni.states(),
            Self::Repmgr(repmgr) => repmgr.states(),
        }
    }
}
