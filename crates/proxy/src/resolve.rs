//! Resolution of host names: by the system's resolver on a helper thread, cached for `dns_max_ttl`.

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_pool::Moment;
use weir_stats::HostRow;

use crate::global::{Global, lock};
use crate::hosts::canonical_name;
use crate::mailbox::Message;
use crate::worker::ServerId;

/// Number of cached names beyond which expired ones are dropped.
const NAMES_MAX: usize = 10_000;

/// Result for a server connection that waits for an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) server: ServerId,
    pub(crate) addresses: Result<Vec<IpAddr>, String>,
}

#[derive(Debug, Clone)]
struct Known {
    /// Name as it was first written.
    name: String,
    addresses: Result<Vec<IpAddr>, String>,
    until: Moment,
}

/// Cache of resolved names. A name is looked up once for all hosts with that name, whatever their ports.
#[derive(Debug, Default)]
pub(crate) struct Resolver {
    /// Results by canonical name.
    known: Mutex<HashMap<String, Known>>,
}

impl Resolver {
    /// Returns the cached result for a name, if it is fresh.
    pub(crate) fn cached(&self, name: &str, now: Moment) -> Option<Result<Vec<IpAddr>, String>> {
        let known = lock(&self.known);
        known
            .get(&canonical_name(name))
            .filter(|known| now < known.until)
            .map(|known| known.addresses.clone())
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.known).len()
    }

    /// Returns the cached names, sorted.
    pub(crate) fn rows(&self, now: Moment) -> Vec<HostRow> {
        let known = lock(&self.known);
        let rows = known.values().map(|known| HostRow {
            name: known.name.clone(),
            ttl_seconds: known.until.since(now).as_secs(),
            addresses: known
                .addresses
                .iter()
                .flatten()
                .map(IpAddr::to_string)
                .collect(),
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        rows
    }

    pub(crate) fn keep(
        &self,
        name: String,
        addresses: Result<Vec<IpAddr>, String>,
        ttl: Duration,
        now: Moment,
    ) {
        let mut known = lock(&self.known);
        if known.len() >= NAMES_MAX {
            known.retain(|_, known| now < known.until);
        }
        known.insert(
            canonical_name(&name),
            Known {
                name,
                addresses,
                until: now.plus(ttl),
            },
        );
    }
}

/// Resolves a name on a helper; the answer goes to the worker's mailbox. Returns false if the helpers are overloaded.
pub(crate) fn resolve(global: &Arc<Global>, name: String, worker: usize, server: ServerId) -> bool {
    let shared = Arc::clone(global);
    resolve_then(global, name, move |addresses| {
        if let Some(mailbox) = shared.mailbox(worker) {
            mailbox.send_waiting(Message::Resolved(Resolved { server, addresses }));
        }
    })
}

/// Resolves a name on a helper, which then calls `answer`. Returns false if the helpers are overloaded.
pub(crate) fn resolve_then(
    global: &Arc<Global>,
    name: String,
    answer: impl FnOnce(Result<Vec<IpAddr>, String>) + Send + 'static,
) -> bool {
    let shared = Arc::clone(global);
    let job = move || {
        let found = (name.as_str(), 0).to_socket_addrs();
        let addresses = match found {
            Ok(found) => Ok(found.map(|address| address.ip()).collect::<Vec<_>>()),
            Err(error) => Err(format!("server DNS lookup failed: {name}: {error}")),
        };
        let settled = shared.settled();
        let options = &settled.settings.global;
        let ttl = match &addresses {
            Ok(_) => options.dns_max_ttl,
            Err(_) => options.dns_nxdomain_ttl,
        };
        let now = shared.clock.now();
        shared.resolver.keep(name, addresses.clone(), ttl, now);
        answer(addresses);
    };
    global.helpers.resolvers.run(job).is_ok()
}
