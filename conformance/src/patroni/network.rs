//! Network of the nodes: addresses of loopback, or a bridge with a network namespace for each node, which is a machine
//! with a cable that can be pulled. Servers listen on these private addresses only.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::process;
use std::process::Command;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use super::NODES;
use crate::tools;

/// Last byte of the address of the first node.
const FIRST: u8 = 11;

/// Kind of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// All nodes on 127.0.0.1, with a port each.
    OneAddress,
    /// An address of loopback for each node, and the same port, so that a name can move from one to another.
    OnePort,
    /// A network namespace for each node, behind a bridge. Needs root.
    Cables,
}

/// Addresses of a cluster; dropping it removes its bridge and namespaces.
#[derive(Debug)]
pub(super) struct Wires {
    network: Network,
    /// Name of the bridge, and beginning of the names of ports and namespaces.
    bridge: String,
    /// Third byte of the addresses behind the bridge.
    subnet: u8,
}

impl Wires {
    pub(super) fn new(network: Network) -> Result<Self> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let wires = Self {
            network,
            // Names of interfaces have at most 15 bytes.
            bridge: format!("wd{}-{}", process::id() % 10_000_000, serial % 100),
            subnet: u8::try_from((process::id() + serial) % 250).unwrap_or_default(),
        };
        if network == Network::Cables {
            wires.lay().context("network namespaces")?;
        }
        Ok(wires)
    }

    /// Address of this machine, for clients, Weir and etcd.
    pub(super) fn hub(&self) -> IpAddr {
        match self.network {
            Network::OneAddress | Network::OnePort => Ipv4Addr::LOCALHOST.into(),
            Network::Cables => self.behind_bridge(1),
        }
    }

    /// Address of a node.
    pub(super) fn node(&self, number: usize) -> IpAddr {
        let last = FIRST + u8::try_from(number).unwrap_or_default();
        match self.network {
            Network::OneAddress => Ipv4Addr::LOCALHOST.into(),
            Network::OnePort => Ipv4Addr::new(127, 0, 0, last).into(),
            Network::Cables => self.behind_bridge(last),
        }
    }

    /// Port of a node's PostgreSQL, behind that of the node before it.
    pub(super) fn port(&self, before: Option<u16>) -> Result<u16> {
        match (self.network, before) {
            (Network::OnePort, Some(port)) => Ok(port),
            _ => tools::free_port(),
        }
    }

    /// Command that runs another one on a node; empty if any command does.
    pub(super) fn on_node(&self, number: usize) -> Vec<String> {
        if self.network != Network::Cables {
            return Vec::new();
        }
        let namespace = format!("--net=/run/netns/{}", self.end(number));
        vec!["nsenter".to_owned(), namespace]
    }

    /// Pulls the cable of a node: no packet comes through, and neither end is told.
    pub(super) fn cut(&self, number: usize) -> Result<()> {
        self.require_cables()?;
        ip(&["link", "set", &self.end(number), "down"])
    }

    /// Plugs the cable of a node in again.
    pub(super) fn heal(&self, number: usize) -> Result<()> {
        self.require_cables()?;
        ip(&["link", "set", &self.end(number), "up"])
    }

    fn require_cables(&self) -> Result<()> {
        if self.network != Network::Cables {
            bail!("the nodes of this cluster have no cables");
        }
        Ok(())
    }

    fn behind_bridge(&self, last: u8) -> IpAddr {
        Ipv4Addr::new(10, 213, self.subnet, last).into()
    }

    /// Name of a node's namespace, and of its port at the bridge.
    fn end(&self, number: usize) -> String {
        format!("{}n{number}", self.bridge)
    }

    fn lay(&self) -> Result<()> {
        let bridge = self.bridge.as_str();
        ip(&["link", "add", bridge, "type", "bridge"])?;
        ip(&["addr", "add", &format!("{}/24", self.hub()), "dev", bridge])?;
        ip(&["link", "set", bridge, "up"])?;
        for number in 0..NODES {
            let end = self.end(number);
            let inside = |words: &[&str]| ip(&[&["-n", &end], words].concat());
            ip(&["netns", "add", &end])?;
            ip(&[
                "link", "add", &end, "type", "veth", "peer", "name", "eth0", "netns", &end,
            ])?;
            ip(&["link", "set", &end, "master", bridge, "up"])?;
            let address = format!("{}/24", self.node(number));
            inside(&["addr", "add", &address, "dev", "eth0"])?;
            inside(&["link", "set", "eth0", "up"])?;
            inside(&["link", "set", "lo", "up"])?;
        }
        Ok(())
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        if self.network != Network::Cables {
            return;
        }
        for number in 0..NODES {
            let end = self.end(number);
            drop(ip(&["link", "del", &end]));
            drop(ip(&["netns", "del", &end]));
        }
        drop(ip(&["link", "del", &self.bridge]));
    }
}

fn ip(words: &[&str]) -> Result<()> {
    let program = tools::require("ip", "iproute2")?;
    tools::run(Command::new(program).args(words)).map(drop)
}
