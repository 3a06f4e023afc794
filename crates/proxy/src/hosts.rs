//! Hosts that pools log in to. Each host exists once in the process, however many databases name it, and however they
//! spell it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use weir_advisor::controller::Turns;
use weir_config::{HostAddr, PoolSettings};
use weir_pool::HostGate;

use crate::global::lock;

/// Number of a host in this process, in order of first use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HostId(usize);

/// Identity of a host: its addresses and port. PgBouncer's `host=a,b` is one host with two addresses; their order does
/// not matter.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Ways {
    addresses: Vec<HostAddr>,
    port: u16,
}

impl Ways {
    fn of(pool: &PoolSettings) -> Self {
        let mut addresses: Vec<_> = pool.hosts.iter().map(canonical).collect();
        addresses.sort_unstable();
        addresses.dedup();
        Self {
            addresses,
            port: pool.port,
        }
    }
}

/// Returns the canonical form of an address. DNS ignores case, and a name may end with the dot of its root.
fn canonical(address: &HostAddr) -> HostAddr {
    match address {
        HostAddr::Name(name) => {
            let name = name.trim_end_matches('.');
            HostAddr::Name(name.to_ascii_lowercase())
        }
        same => same.clone(),
    }
}

/// State shared by all pools of a host.
#[derive(Debug, Default)]
struct Host {
    /// Limit on simultaneous logins; made with the first pool.
    gate: OnceLock<Arc<HostGate>>,
    /// Token of the pool that may try another size.
    turns: Arc<Mutex<Turns>>,
}

/// All hosts of the process. Entries are never removed: a configuration names few hosts.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    ids: Mutex<HashMap<Ways, HostId>>,
    shared: Mutex<HashMap<HostId, Host>>,
}

impl Hosts {
    /// Returns the host of a pool; a new host gets the next number.
    pub(crate) fn id_of(&self, pool: &PoolSettings) -> HostId {
        let mut ids = lock(&self.ids);
        let next = HostId(ids.len());
        *ids.entry(Ways::of(pool)).or_insert(next)
    }

    /// Returns the limit on logins to a host. A new one allows `logins_max` at once, 0 = unlimited.
    pub(crate) fn gate(&self, id: HostId, logins_max: usize) -> Arc<HostGate> {
        let mut shared = lock(&self.shared);
        let host = shared.entry(id).or_default();
        let gate = host
            .gate
            .get_or_init(|| Arc::new(HostGate::new(logins_max)));
        Arc::clone(gate)
    }

    /// Returns the token with which one pool of a host at a time tries another size.
    pub(crate) fn turns(&self, id: HostId) -> Arc<Mutex<Turns>> {
        let mut shared = lock(&self.shared);
        Arc::clone(&shared.entry(id).or_default().turns)
    }

    /// Sets the maximum number of simultaneous logins for every host.
    pub(crate) fn set_logins_max(&self, logins_max: usize) {
        for gate in lock(&self.shared)
            .values()
            .filter_map(|host| host.gate.get())
        {
            gate.set_logins_max(logins_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASES: &str = "[databases]\none = host=a.example,10.0.0.1 port=5433\n\
        two = host=10.0.0.1,A.Example.,10.0.0.1 port=5433\n\
        three = host=a.example,10.0.0.1 port=5434\nfour = host=a.example port=5433\n\
        [pgbouncer]\nlisten_addr = 127.0.0.1\nauth_type = trust\nauth_file = users\n";

    fn pools() -> Vec<PoolSettings> {
        let mut read = |_: &std::path::Path| Ok(DATABASES.to_owned());
        let loaded = weir_config::load("weir.ini".as_ref(), &mut read, std::iter::empty());
        let settings = loaded.unwrap().settings;
        let names = ["one", "two", "three", "four"].iter();
        names
            .map(|name| settings.pool(name, "ann").unwrap())
            .collect()
    }

    #[test]
    fn databases_that_name_the_same_hosts_in_another_order_have_one_limiter() {
        let hosts = Hosts::default();
        let ids: Vec<_> = pools().iter().map(|pool| hosts.id_of(pool)).collect();
        let gates: Vec<_> = ids.iter().map(|id| hosts.gate(*id, 2)).collect();
        assert!(Arc::ptr_eq(&gates[0], &gates[1]));
        assert!(Arc::ptr_eq(&hosts.turns(ids[0]), &hosts.turns(ids[1])));
        for (one, other) in [(0, 2), (0, 3), (2, 3)] {
            assert_ne!(ids[one], ids[other]);
            assert!(!Arc::ptr_eq(&gates[one], &gates[other]));
            let (one, other) = (hosts.turns(ids[one]), hosts.turns(ids[other]));
            assert!(!Arc::ptr_eq(&one, &other));
        }
    }
}
