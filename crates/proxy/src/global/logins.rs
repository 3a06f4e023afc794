//! Logins at servers, by host: how they went, with the host's own words.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use weir_stats::HostLogins;

use crate::socket::Target;

/// Maximum number of hosts; any further one counts as [`OTHERS`].
const HOSTS_MAX: usize = 1_000;
/// Name for all further hosts.
const OTHERS: &str = "(other)";

/// See the module's page. A login is rare beside the transactions that it serves, so there is one lock.
#[derive(Debug, Default)]
pub(crate) struct Logins(Mutex<BTreeMap<String, HostLogins>>);

impl Logins {
    /// Counts a login that succeeded at this Unix time.
    pub(crate) fn succeeded(&self, host: String, unix: i64) {
        self.with(host, |logins| {
            logins.succeeded += 1;
            logins.failed_since = 0;
            logins.last_success = unix;
        });
    }

    /// Counts a login that failed at this Unix time.
    pub(crate) fn failed(&self, host: String, unix: i64, code: &str, reason: &str) {
        self.with(host, |logins| {
            logins.failed += 1;
            logins.failed_since += 1;
            logins.last_failure = unix;
            code.clone_into(&mut logins.code);
            reason.clone_into(&mut logins.reason);
        });
    }

    /// Returns all hosts.
    pub(crate) fn rows(&self) -> BTreeMap<String, HostLogins> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn with(&self, host: String, change: impl FnOnce(&mut HostLogins)) {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = hosts.len() >= HOSTS_MAX && !hosts.contains_key(&host);
        let host = if is_full { OTHERS.to_owned() } else { host };
        change(hosts.entry(host).or_default());
    }
}

/// Returns the name of a host for people: as it is configured, with its port.
pub(crate) fn host_name(target: &Target) -> String {
    match target {
        Target::Tcp(address, Some(name)) => format!("{name}:{}", address.port()),
        Target::Tcp(address, None) => address.to_string(),
        // No address was found for the host yet.
        Target::Unix(path, port) if path.as_os_str().is_empty() => format!("(unknown):{port}"),
        Target::Unix(path, _) => path.display().to_string(),
        Target::Abstract(name, port) => format!("@{name}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_success_ends_a_row_of_failures_and_keeps_the_words_of_the_last() {
        let logins = Logins::default();
        let host = || "db.example:5432".to_owned();
        logins.failed(host(), 7, "28P01", "password authentication failed");
        logins.failed(host(), 8, "53300", "sorry, too many clients already");
        let row = |logins: &Logins| logins.rows().remove(&host()).unwrap();
        assert_eq!(
            (row(&logins).failed_since, row(&logins).code.as_str()),
            (2, "53300")
        );
        logins.succeeded(host(), 9);
        let row = row(&logins);
        assert_eq!((row.failed, row.failed_since, row.last_success), (2, 0, 9));
        assert_eq!(row.reason, "sorry, too many clients already");
    }

    #[test]
    fn a_host_without_an_address_has_a_name_too() {
        let none = Target::Unix(std::path::PathBuf::new(), 5432);
        assert_eq!(host_name(&none), "(unknown):5432");
        let named = Target::Tcp(([10, 0, 0, 5], 5433).into(), Some("db.example".into()));
        assert_eq!(host_name(&named), "db.example:5433");
    }

    #[test]
    fn hosts_beyond_the_limit_share_a_row() {
        let logins = Logins::default();
        for number in 0..HOSTS_MAX + 9 {
            logins.succeeded(number.to_string(), 1);
        }
        let rows = logins.rows();
        assert_eq!((rows.len(), rows[OTHERS].succeeded), (HOSTS_MAX + 1, 9));
    }
}
