//! Hosts that pools log in to. Each host exists once in the process, however many databases name it, and however they
//! spell it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use weir_advisor::controller::Turns;
use weir_config::{HostAddr, LoadBalanceHosts, PoolSettings};
pub(crate) use weir_pool::HostId;
use weir_pool::{Alternatives, HostGate};

use crate::global::lock;

/// Identity of a host. Only [`Hosts::id_of`] turns it into a [`HostId`].
///
/// - A name counts without its case and without the dot of the root, as DNS compares names. A name and its address are
///   two hosts: which addresses a name has is known only when it is resolved, and may change.
/// - An address counts by value (`::1` and `0:0:0:0:0:0:0:1` are one).
/// - A unix socket counts by the path of its directory, or by its abstract name.
/// - The port belongs to all of them: it is a part of a socket's file name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Identity {
    /// None if the configuration names neither a host nor a directory for sockets.
    address: Option<HostAddr>,
    port: u16,
}

impl Identity {
    fn of(address: Option<&HostAddr>, port: u16) -> Self {
        let address = address.map(|address| match address {
            HostAddr::Name(name) => HostAddr::Name(canonical_name(name)),
            same => same.clone(),
        });
        Self { address, port }
    }
}

/// Returns the form of a host name by which names are compared.
pub(crate) fn canonical_name(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// State shared by all pools with servers on one host.
#[derive(Debug, Clone)]
struct Host {
    /// Limit on simultaneous logins.
    gate: Arc<HostGate>,
    /// Token of the pool that may try another size.
    turns: Arc<Mutex<Turns>>,
}

#[derive(Debug, Default)]
struct Known {
    hosts: Vec<Host>,
    ids: HashMap<Identity, HostId>,
}

/// All hosts of the process. Entries are never removed, since a configuration names few hosts; so a [`HostId`] needs no
/// generation.
#[derive(Debug)]
pub(crate) struct Hosts {
    known: RwLock<Known>,
    /// Maximum number of simultaneous logins at each host.
    logins_max: Mutex<usize>,
}

impl Hosts {
    /// Makes the table of hosts that each allow `logins_max` simultaneous logins.
    pub(crate) fn new(logins_max: usize) -> Self {
        Self {
            known: RwLock::default(),
            logins_max: Mutex::new(logins_max),
        }
    }

    /// Returns the host with this address and port; a new host gets the next number.
    pub(crate) fn id_of(&self, address: Option<&HostAddr>, port: u16) -> HostId {
        let identity = Identity::of(address, port);
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = known.ids.get(&identity) {
            return *id;
        }
        drop(known);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Known { hosts, ids } = &mut *known;
        *ids.entry(identity).or_insert_with(|| {
            let id = HostId(u32::try_from(hosts.len()).unwrap_or(u32::MAX));
            hosts.push(Host {
                gate: Arc::new(HostGate::new(id, *lock(&self.logins_max))),
                turns: Arc::default(),
            });
            id
        })
    }

    /// Returns the hosts of a pool, in the order in which they are configured.
    fn ids_of(&self, pool: &PoolSettings) -> Vec<HostId> {
        if pool.hosts.is_empty() {
            return vec![self.id_of(None, pool.port)];
        }
        let addresses = pool.hosts.iter();
        addresses
            .map(|address| self.id_of(Some(address), pool.port))
            .collect()
    }

    /// Returns the address and port of a host that a pool's settings name; none if they do not name it.
    pub(crate) fn address_of<'p>(
        &self,
        pool: &'p PoolSettings,
        host: HostId,
    ) -> Option<(&'p HostAddr, u16)> {
        let with_roles = pool.cluster.iter().flat_map(|cluster| &cluster.hosts);
        let with_roles = with_roles.map(|host| (&host.address, host.port));
        let alternatives = pool.hosts.iter().map(|address| (address, pool.port));
        with_roles
            .chain(alternatives)
            .find(|(address, port)| self.id_of(Some(address), *port) == host)
    }

    /// Returns the hosts of a pool as its logins try them: its only host, or the alternatives that are configured.
    pub(crate) fn alternatives(&self, pool: &PoolSettings, host: Option<HostId>) -> Alternatives {
        let ids = host.map_or_else(|| self.ids_of(pool), |host| vec![host]);
        let hosts = self.get(&ids).into_iter();
        let gates = hosts.map(|host| host.gate);
        match pool.load_balance_hosts {
            LoadBalanceHosts::Disable => Alternatives::in_order(gates),
            LoadBalanceHosts::RoundRobin => Alternatives::in_turn(gates),
        }
    }

    /// Returns the tokens without which a pool tries no other size, one for each of its hosts, in the order of their
    /// numbers.
    pub(crate) fn turns(
        &self,
        pool: &PoolSettings,
        host: Option<HostId>,
    ) -> Vec<Arc<Mutex<Turns>>> {
        let mut ids = host.map_or_else(|| self.ids_of(pool), |host| vec![host]);
        ids.sort_unstable();
        ids.dedup();
        self.get(&ids).into_iter().map(|host| host.turns).collect()
    }

    fn get(&self, ids: &[HostId]) -> Vec<Host> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let place = |HostId(number): &HostId| usize::try_from(*number).unwrap_or(usize::MAX);
        let hosts = ids.iter().filter_map(|id| known.hosts.get(place(id)));
        hosts.cloned().collect()
    }

    /// Sets the maximum number of simultaneous logins for every host.
    pub(crate) fn set_logins_max(&self, logins_max: usize) {
        *lock(&self.logins_max) = logins_max;
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        for host in &known.hosts {
            host.gate.set_logins_max(logins_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASES: &str = "[databases]\none = host=a.example,10.0.0.1 port=5433\n\
        two = host=10.0.0.1,A.Example. port=5433\n\
        three = host=a.example,10.0.0.1 port=5434\nfour = host=a.example port=5433\n\
        five = host=/run/a,::1\nsix = host=@a,0:0:0:0:0:0:0:1,/run/a load_balance_hosts=disable\n\
        [pgbouncer]\nlisten_addr = 127.0.0.1\nauth_type = trust\nauth_file = users\n";

    fn pool(name: &str) -> PoolSettings {
        let mut read = |_: &std::path::Path| Ok(DATABASES.to_owned());
        let loaded = weir_config::load("weir.ini".as_ref(), &mut read, std::iter::empty());
        loaded.unwrap().settings.pool(name, "ann").unwrap()
    }

    #[test]
    fn databases_that_name_the_same_hosts_have_the_same_limiters() {
        let hosts = Hosts::new(2);
        let ids = |name| hosts.ids_of(&pool(name));
        let [one, two] = ids("one")[..] else { panic!() };
        assert_eq!(ids("two"), [two, one], "in another order and spelling");
        assert_eq!(ids("four"), [one], "alone");
        let [three, _] = ids("three")[..] else {
            panic!()
        };
        assert_ne!(one, three, "another port");
        let [directory, address] = ids("five")[..] else {
            panic!()
        };
        assert_eq!(ids("six")[1..], [address, directory]);
        let turns = |name| hosts.turns(&pool(name), None);
        let is_same = |(one, other): (&Arc<_>, &Arc<_>)| Arc::ptr_eq(one, other);
        assert!(turns("one").iter().zip(&turns("two")).all(is_same));
        assert!(Arc::ptr_eq(&turns("four")[0], &turns("one")[0]));
    }

    #[test]
    fn a_limit_per_host_follows_a_reload() {
        let hosts = Hosts::new(2);
        let gates = |name| {
            let known = hosts.get(&hosts.ids_of(&pool(name)));
            known.into_iter().map(|host| host.gate).collect::<Vec<_>>()
        };
        let before = gates("one");
        hosts.set_logins_max(7);
        for gate in before.iter().chain(&gates("three")) {
            assert_eq!(gate.logins_max(), 7);
        }
    }
}
