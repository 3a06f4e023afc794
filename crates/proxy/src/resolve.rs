//! Resolution of host names: by the system's resolver on a helper thread, cached for `dns_max_ttl`.
//!
//! A name server that is silent or fails takes no database away: the last addresses of a name stay in use, as RFC 8767
//! describes it. Only the answer that a name does not exist ends that.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dns_lookup::{AddrInfoHints, LookupErrorKind, SockType, getaddrinfo};
use weir_pool::Moment;
use weir_stats::HostRow;

use crate::global::{Global, lock};
use crate::hosts::canonical_name;
use crate::mailbox::Message;
use crate::worker::ServerId;

/// Number of cached names beyond which expired ones are dropped.
const NAMES_MAX: usize = 10_000;

/// Time that a look-up has before the name's last addresses are used instead. A name server nearby takes a few
/// milliseconds, and whoever waits for a server here has lost one.
pub(crate) const LATE: Duration = Duration::from_millis(100);

/// Age beyond which the last addresses of a name are not used any more. RFC 8767, section 5, suggests one to three days.
const STALE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Result for a server connection that waits for an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) server: ServerId,
    pub(crate) name: String,
    pub(crate) addresses: Result<Vec<IpAddr>, String>,
}

/// Failed look-up of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unresolved {
    pub(crate) text: String,
    /// True if the answer is that there is no such name; false if there was no answer.
    pub(crate) is_answer: bool,
}

#[derive(Debug, Clone)]
struct Known {
    /// Name as it was first written.
    name: String,
    addresses: Result<Vec<IpAddr>, String>,
    until: Moment,
    /// Time of the look-up that found the addresses.
    found: Moment,
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

    /// Keeps the result of a look-up for `dns_max_ttl`, or for `dns_nxdomain_ttl` if it has failed. Returns what is to be
    /// used: the last addresses if there was no answer.
    pub(crate) fn keep(
        &self,
        name: String,
        found: Result<Vec<IpAddr>, Unresolved>,
        ttls: Ttls,
        now: Moment,
    ) -> Result<Vec<IpAddr>, String> {
        let (addresses, ttl) = match found {
            Ok(addresses) => (Ok(addresses), ttls.found),
            Err(failure) => {
                if !failure.is_answer
                    && let Some(last) = self.fall_back(&name, &failure.text, ttls, now)
                {
                    return Ok(last);
                }
                (Err(failure.text), ttls.failed)
            }
        };
        let mut known = lock(&self.known);
        if known.len() >= NAMES_MAX {
            known.retain(|_, known| now < known.until);
        }
        let entry = Known {
            name,
            addresses: addresses.clone(),
            until: now.plus(ttl),
            found: now,
        };
        known.insert(canonical_name(&entry.name), entry);
        addresses
    }

    /// True if a name has last addresses, in case that its look-up is late.
    pub(crate) fn remembers(&self, name: &str, now: Moment) -> bool {
        let known = lock(&self.known);
        let known = known.get(&canonical_name(name));
        known.is_some_and(|known| known.last(now).is_some())
    }

    /// Puts the last addresses of a name in force again for `dns_nxdomain_ttl`, because there is no answer. A look-up that
    /// is answered later takes their place.
    pub(crate) fn fall_back(
        &self,
        name: &str,
        why: &str,
        ttls: Ttls,
        now: Moment,
    ) -> Option<Vec<IpAddr>> {
        let mut known = lock(&self.known);
        let known = known.get_mut(&canonical_name(name))?;
        let last = known.last(now)?.to_vec();
        if known.until <= now {
            known.until = now.plus(ttls.failed);
            let seconds = ttls.failed.as_secs();
            tracing::warn!("{why}; its last addresses stay in use for {seconds} s");
        }
        Some(last)
    }
}

// === impl Known ===

impl Known {
    /// Returns the addresses, fresh or not, if they are not too old to be of use.
    fn last(&self, now: Moment) -> Option<&[IpAddr]> {
        let addresses = self.addresses.as_deref().ok()?;
        (now.since(self.found) <= STALE_MAX).then_some(addresses)
    }
}

/// Times for which results are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ttls {
    /// `dns_max_ttl`.
    pub(crate) found: Duration,
    /// `dns_nxdomain_ttl`.
    pub(crate) failed: Duration,
}

impl Ttls {
    pub(crate) fn of(global: &Global) -> Self {
        let settled = global.settled();
        let options = &settled.settings.global;
        Self {
            found: options.dns_max_ttl,
            failed: options.dns_nxdomain_ttl,
        }
    }
}

/// Says that a look-up is late.
pub(crate) fn lateness(name: &str) -> String {
    let limit = LATE.as_millis();
    format!("server DNS lookup of {name} takes longer than {limit} ms")
}

/// Resolves a name on a helper; the answer goes to the worker's mailbox. Returns false if the helpers are overloaded.
pub(crate) fn resolve(global: &Arc<Global>, name: String, worker: usize, server: ServerId) -> bool {
    let (shared, asked) = (Arc::clone(global), name.clone());
    resolve_then(global, asked, move |addresses| {
        if let Some(mailbox) = shared.mailbox(worker) {
            mailbox.send_waiting(Message::Resolved(Resolved {
                server,
                name,
                addresses,
            }));
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
        let found = look_up(&name);
        let (ttls, now) = (Ttls::of(&shared), shared.clock.now());
        answer(shared.resolver.keep(name, found, ttls, now));
    };
    global.helpers.resolvers.run(job).is_ok()
}

/// Asks the system for the addresses of a name. Blocks.
fn look_up(name: &str) -> Result<Vec<IpAddr>, Unresolved> {
    let hints = AddrInfoHints {
        socktype: SockType::Stream.into(),
        ..AddrInfoHints::default()
    };
    let failed = |error: std::io::Error, is_answer| Unresolved {
        text: format!("server DNS lookup failed: {name}: {error}"),
        is_answer,
    };
    match getaddrinfo(Some(name), None, Some(hints)) {
        Ok(found) => {
            let found = found.map(|entry| entry.map(|entry| entry.sockaddr.ip()));
            let found = found.collect::<std::io::Result<_>>();
            found.map_err(|error| failed(error, false))
        }
        Err(error) => {
            let is_answer = matches!(
                error.kind(),
                LookupErrorKind::NoName | LookupErrorKind::NoData
            );
            Err(failed(error.into(), is_answer))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "db.test";
    const TTLS: Ttls = Ttls {
        found: Duration::from_secs(10),
        failed: Duration::from_secs(3),
    };

    fn at(seconds: u64) -> Moment {
        Moment(0).plus(Duration::from_secs(seconds))
    }

    fn failure(is_answer: bool) -> Result<Vec<IpAddr>, Unresolved> {
        Err(Unresolved {
            text: "no luck".to_owned(),
            is_answer,
        })
    }

    /// Makes a resolver that knows an address of the name from second 0 on.
    fn resolver() -> (Resolver, Vec<IpAddr>) {
        let (resolver, addresses) = (Resolver::default(), vec![[10, 0, 0, 7].into()]);
        let kept = resolver.keep(NAME.to_owned(), Ok(addresses.clone()), TTLS, at(0));
        assert_eq!(kept, Ok(addresses.clone()));
        (resolver, addresses)
    }

    #[test]
    fn the_last_addresses_stay_in_use_while_nobody_answers() {
        let (resolver, addresses) = resolver();
        assert_eq!(resolver.cached(NAME, at(11)), None);
        let kept = resolver.keep(NAME.to_owned(), failure(false), TTLS, at(11));
        assert_eq!(kept, Ok(addresses.clone()));
        assert_eq!(resolver.cached("DB.test", at(13)), Some(Ok(addresses)));
        assert_eq!(resolver.cached(NAME, at(14)), None);
        let new = vec![[10, 0, 0, 8].into()];
        let kept = resolver.keep(NAME.to_owned(), Ok(new.clone()), TTLS, at(14));
        assert_eq!(kept, Ok(new));
    }

    #[test]
    fn a_name_that_does_not_exist_any_more_has_no_addresses() {
        let (resolver, _) = resolver();
        let kept = resolver.keep(NAME.to_owned(), failure(true), TTLS, at(11));
        assert_eq!(kept, Err("no luck".to_owned()));
        assert!(!resolver.remembers(NAME, at(11)));
        assert_eq!(resolver.fall_back(NAME, "late", TTLS, at(11)), None);
    }

    #[test]
    fn the_last_addresses_are_used_for_one_day_and_no_longer() {
        let (resolver, addresses) = resolver();
        let day = 24 * 3600;
        let before = resolver.fall_back(NAME, "late", TTLS, at(day));
        assert_eq!(before, Some(addresses));
        // The time counts from the look-up that found them.
        assert_eq!(resolver.fall_back(NAME, "late", TTLS, at(day + 1)), None);
    }

    #[test]
    fn a_late_look_up_shortens_no_result_that_is_fresh_by_now() {
        let (resolver, addresses) = resolver();
        assert!(resolver.fall_back(NAME, "late", TTLS, at(1)).is_some());
        assert_eq!(resolver.cached(NAME, at(9)), Some(Ok(addresses)));
    }

    #[test]
    fn names_under_invalid_are_answered_or_nobody_is_there_to_answer() {
        // RFC 6761, 6.4: they do not exist. A machine without a name server gets no answer.
        let failure = look_up("no.such.host.invalid").unwrap_err();
        let start = "server DNS lookup failed: no.such.host.invalid: ";
        assert!(failure.text.starts_with(start), "{}", failure.text);
    }
}
