//! Begin of a connection to a host: name look-up, and one address after the other. A name may get other addresses
//! later: the connection moves then.

use std::io::{Error, ErrorKind};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use slotmap::Key as _;
use weir_config::HostAddr;
use weir_watch::Failure;

use super::link::{Link, Stage};
use super::message::Message;
use super::{WatchedId, Watcher, failure};
use crate::driver::{Driver, Key, Owner};
use crate::resolve::{LATE, Ttls, lateness, resolve_then};
use crate::socket::Target;
use crate::worker::{ServerId, tcp_targets};

/// Shortest time between two look-ups of a name beside a connection: a resolver may be slow.
const LOOK_UP_MIN: Duration = Duration::from_secs(1);

impl<D: Driver> Watcher<D> {
    /// Makes a connection to a host, for a probe that is due.
    pub(super) fn dial(&mut self, watched_id: WatchedId, host: usize) {
        let Some(watched) = self.watched.get_mut(watched_id) else {
            return;
        };
        let (Some(spec), Some(state)) = (watched.spec.hosts.get(host), watched.hosts.get_mut(host))
        else {
            return;
        };
        let deadline = self.now.plus(watched.spec.rules.probe_timeout);
        let id = self.links.insert(Link::new(watched_id, host, deadline));
        state.link = Some(id);
        let port = spec.port;
        let target = match spec.address.clone() {
            HostAddr::Name(name) => return self.look_up(id, &name, port),
            HostAddr::Ip(ip) => Target::Tcp((ip, port).into(), None),
            HostAddr::UnixDir(directory) => {
                Target::Unix(directory.join(format!(".s.PGSQL.{port}")), port)
            }
            HostAddr::Abstract(name) => Target::Abstract(format!("{name}/.s.PGSQL.{port}"), port),
        };
        self.try_targets(id, vec![target]);
    }

    fn look_up(&mut self, id: ServerId, name: &str, port: u16) {
        if let Some(addresses) = self.global.resolver.cached(name, self.now) {
            return self.try_addresses(id, name, port, addresses);
        }
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        link.stage = Stage::Resolving(name.into());
        if self.global.resolver.remembers(name, self.now) {
            let late = self.now.plus(LATE);
            link.deadline = link.deadline.map(|deadline| deadline.min(late));
        }
        if !self.ask_for(id, name) {
            self.fail(id, &failure::of_shortage("too many name look-ups at once"));
        }
    }

    /// Lets a helper look a name up for a connection. Returns false if the helpers are overloaded.
    fn ask_for(&self, id: ServerId, name: &str) -> bool {
        let mailbox = self.mailbox.clone();
        let answer = move |addresses| {
            mailbox.send_waiting(Message::Resolved {
                link: id,
                addresses,
            });
        };
        resolve_then(&self.global, name.to_owned(), answer)
    }

    /// True if a host's name has lost the address of the host's connection. A name whose result is too old is looked up
    /// beside the connection, for the next probe.
    pub(super) fn has_moved(&mut self, id: ServerId) -> bool {
        let link = self.links.get(id);
        if link.is_some_and(|link| link.is_superseded) {
            return true;
        }
        let Some((name, address)) = link.and_then(Link::named_address) else {
            return false;
        };
        match self.global.resolver.cached(&name, self.now) {
            Some(Ok(addresses)) => !addresses.contains(&address),
            // The host answers, whatever the resolver says.
            Some(Err(_)) => false,
            None => {
                self.look_up_beside(id, &name);
                false
            }
        }
    }

    fn look_up_beside(&mut self, id: ServerId, name: &str) {
        let now = self.now;
        let Some(state) = self.host_of(id).filter(|state| state.next_look_up <= now) else {
            return;
        };
        state.next_look_up = now.plus(LOOK_UP_MIN);
        // With too many look-ups, a later probe has its turn.
        self.ask_for(id, name);
    }

    /// Handles the result of a name look-up. The connection may have been given up meanwhile.
    pub(super) fn looked_up(&mut self, id: ServerId, addresses: Result<Vec<IpAddr>, String>) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let Stage::Resolving(name) = &link.stage else {
            // Kept with the connection: the next probe may come later than `dns_max_ttl` allows to use the result.
            if let (Some((_, address)), Ok(addresses)) = (link.named_address(), addresses) {
                link.is_superseded = !addresses.contains(&address);
            }
            return;
        };
        let name = Arc::clone(name);
        self.found(id, &name, addresses);
    }

    /// Goes on without the result of a look-up that is late, if the name has last addresses. False if it has none.
    fn look_up_is_late(&mut self, id: ServerId) -> bool {
        let Some(Stage::Resolving(name)) = self.links.get(id).map(|link| &link.stage) else {
            return false;
        };
        let (name, ttls) = (Arc::clone(name), Ttls::of(&self.global));
        let resolver = &self.global.resolver;
        let Some(last) = resolver.fall_back(&name, &lateness(&name), ttls, self.now) else {
            return false;
        };
        self.found(id, &name, Ok(last));
        true
    }

    fn found(&mut self, id: ServerId, name: &str, addresses: Result<Vec<IpAddr>, String>) {
        let now = self.now;
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let Some(watched) = self.watched.get(link.watched) else {
            return;
        };
        link.deadline = Some(now.plus(watched.spec.rules.probe_timeout));
        let port = watched.spec.hosts.get(link.host);
        let port = port.map_or(0, |spec| spec.port);
        self.try_addresses(id, name, port, addresses);
    }

    fn try_addresses(
        &mut self,
        id: ServerId,
        name: &str,
        port: u16,
        addresses: Result<Vec<IpAddr>, String>,
    ) {
        let addresses = match addresses {
            Ok(addresses) => addresses,
            Err(text) => return self.fail(id, &failure::of_shortage(&text)),
        };
        let mut targets: Vec<_> = tcp_targets(name, addresses, port).collect();
        let first = self.host_of(id).map_or(0, |state| state.first);
        let first = first.checked_rem(targets.len()).unwrap_or_default();
        targets.rotate_left(first);
        self.try_targets(id, targets);
    }

    /// Connects to the first address that accepts the attempt.
    fn try_targets(&mut self, id: ServerId, targets: Vec<Target>) {
        let mut last = Error::new(ErrorKind::NotFound, "the name has no address");
        let mut targets = targets.into_iter();
        while let Some(target) = targets.next() {
            match self.driver.connect(&target, Owner::Server(id)) {
                Ok(key) => {
                    if let Some(link) = self.links.get_mut(id) {
                        link.key = key;
                        link.target = Some(target);
                        link.rest = targets.collect();
                        link.stage = Stage::Connecting;
                    }
                    return;
                }
                Err(error) => last = error,
            }
        }
        self.fail(id, &failure::of_connect(&last));
    }

    /// Handles an attempt that an address refused; the driver has dropped the connection.
    pub(super) fn connect_failed(&mut self, id: ServerId, error: &Error) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        link.key = Key::null();
        let rest = std::mem::take(&mut link.rest);
        if rest.is_empty() {
            return self.fail(id, &failure::of_connect(error));
        }
        self.try_targets(id, rest);
    }

    /// Fails a connection whose host has not finished a step in time.
    pub(super) fn overdue(&mut self, id: ServerId) {
        if self.look_up_is_late(id) {
            return;
        }
        let Some(link) = self.links.get(id) else {
            return;
        };
        let has_asked = matches!(link.stage, Stage::Asked(_));
        let limit = self.watched.get(link.watched);
        let limit = limit.map_or_else(Default::default, |it| it.spec.rules.probe_timeout);
        let failure: Failure = failure::of_silence(link.doing(), limit);
        if !has_asked && let Some(state) = self.host_of(id) {
            state.first = state.first.wrapping_add(1);
        }
        self.fail(id, &failure);
    }
}
