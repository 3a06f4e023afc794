//! LDAP: simple bind and search+bind (PostgreSQL manual 21.10), over plain TCP, StartTLS or `ldaps`.
//!
//! Each check runs on a small event loop of its own that ends with it, so that one deadline covers name resolution,
//! connection, handshake and every answer. Servers are tried in their order. Each may use an equal share of the
//! time, so that a server that drops packets does not keep the next from being asked. The next server is asked only
//! if the previous could not be: a refused password is final.

mod exchange;
mod names;
mod tls;

use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time;
use weir_access::ldap::LdapOptions;
use weir_auth::secret::Secret;

use crate::DirectoryError;
use crate::Failure;
use crate::Refusal;
use crate::ServerFailure;
use crate::Step;
use crate::Verdict;

pub use tls::LdapTls;

use exchange::Stop;
use names::Plan;

/// Asks the LDAP servers if `password` belongs to `user`. Blocks for at most `deadline`.
///
/// With `ldapbasedn` the user's entry is searched for first; otherwise the bind name is `ldapprefix`, the user and
/// `ldapsuffix`. An empty password is refused without a request: servers accept it for every name.
///
/// # Errors If no server could be asked, or a server refused a request for a reason unrelated to the user.
pub fn check_ldap(
    options: &LdapOptions,
    user: &str,
    password: &Secret,
    deadline: Duration,
    tls: &LdapTls,
) -> Result<Verdict, DirectoryError> {
    if password.is_empty() {
        return Ok(Verdict::Refused(Refusal::EmptyPassword));
    }
    let Ok(password) = std::str::from_utf8(password.expose()) else {
        return Ok(Verdict::Refused(Refusal::Password));
    };
    let plan = match names::plan(options, user) {
        Ok(plan) => plan,
        Err(refusal) => return Ok(Verdict::Refused(refusal)),
    };
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // For name resolution, which cannot be interrupted.
        .max_blocking_threads(1)
        .build()
        .map_err(|error| DirectoryError::Resources(error.kind()))?;
    // The library panics at answers that no server should send.
    let verdict = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(try_servers(options, &plan, password, deadline, tls))
    }))
    .unwrap_or(Err(DirectoryError::Malformed));
    // A plain drop would wait for a name server that does not answer.
    runtime.shutdown_background();
    verdict
}

async fn try_servers(
    options: &LdapOptions,
    plan: &Plan,
    password: &str,
    deadline: Duration,
    tls: &LdapTls,
) -> Result<Verdict, DirectoryError> {
    let count = u32::try_from(options.servers.len()).unwrap_or(u32::MAX);
    let Some(share) = deadline.checked_div(count) else {
        return Err(DirectoryError::NoServer);
    };
    let mut failures = Vec::new();
    for host in &options.servers {
        let server = names::Server::new(options, host);
        let step = Cell::new(Step::Connect);
        let attempt = exchange::check(options, &server, plan, password, tls, &step);
        let stop = match time::timeout(share, attempt).await {
            Ok(Ok(verdict)) => return Ok(verdict),
            Ok(Err(stop)) => stop,
            Err(_) => Stop::Next(Failure::Timeout),
        };
        let told = |failure| ServerFailure {
            server: server.to_string(),
            step: step.get(),
            failure,
        };
        match stop {
            Stop::Filter(filter) => return Err(DirectoryError::Filter { filter }),
            Stop::Final(failure) => return Err(DirectoryError::Server(told(failure))),
            Stop::Next(failure) => failures.push(told(failure)),
        }
    }
    Err(DirectoryError::Unreachable(failures))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_password_is_refused_before_anything_is_asked() {
        let ask = |password: &[u8]| {
            let options = LdapOptions {
                prefix: Some("uid=".to_owned()),
                ..LdapOptions::default()
            };
            let (password, tls) = (Secret::new(password.to_vec()), LdapTls::system());
            check_ldap(&options, "alice", &password, Duration::from_secs(1), &tls)
        };
        assert_eq!(ask(b""), Ok(Verdict::Refused(Refusal::EmptyPassword)));
        assert_eq!(ask(b"\xff"), Ok(Verdict::Refused(Refusal::Password)));
        assert_eq!(ask(b"x"), Err(DirectoryError::NoServer));
    }
}
