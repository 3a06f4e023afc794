//! Expected result of each case, from the documentation alone; every login that no rule accepts is refused.

use crate::case::Case;
use crate::case::Credential;
use crate::case::Database;
use crate::case::Listener;
use crate::case::Method;
use crate::case::Secret;
use crate::case::Transport;

/// True if the client must be accepted.
pub(crate) fn lets_in(case: &Case) -> bool {
    is_admitted(case) && has_line(case) && is_known(case) && proves(case) && may_use(case)
}

/// Applies `client_tls_sslmode`: `prefer` requires nothing, `verify-full` requires TLS and a certificate. Unix
/// sockets are exempt.
fn is_admitted(case: &Case) -> bool {
    match case.transport {
        Transport::Unix => true,
        Transport::Tcp | Transport::Tls => case.listener == Listener::Prefer,
        Transport::OwnCertificate | Transport::OtherCertificate => {
            case.listener == Listener::VerifyFull
        }
    }
}

/// Applies the lines of the file: each method is written for certain kinds of connections.
fn has_line(case: &Case) -> bool {
    let is_local = case.transport == Transport::Unix;
    let is_tls = !is_local && case.transport != Transport::Tcp;
    match case.method {
        Method::Trust | Method::Password | Method::Md5 | Method::Scram => true,
        Method::TrustInClear => case.transport == Transport::Tcp,
        Method::ScramInTls | Method::Cert | Method::CertMap => is_tls,
        Method::Peer | Method::PeerSelf | Method::PeerMap => is_local,
        Method::Reject => false,
    }
}

/// True if a user of that name is in the file or the table, with or without a secret.
fn is_known(case: &Case) -> bool {
    case.secret != Secret::Unknown
}

fn proves(case: &Case) -> bool {
    // An empty password proves nothing, even if the secret is empty.
    let knows = case.credential == Credential::Right;
    match case.method {
        Method::Trust | Method::TrustInClear => true,
        Method::Password | Method::Md5 => {
            knows && matches!(case.secret, Secret::Plain | Secret::Md5 | Secret::Scram)
        }
        Method::Scram | Method::ScramInTls => {
            knows && matches!(case.secret, Secret::Plain | Secret::Scram)
        }
        Method::Cert | Method::CertMap => case.transport == Transport::OwnCertificate,
        Method::PeerSelf | Method::PeerMap => true,
        // No user of this system has such a name.
        Method::Peer => false,
        Method::Reject => false,
    }
}

/// Applies the permissions of databases: only `admin_users` may use the console, and a missing database is always
/// refused.
fn may_use(case: &Case) -> bool {
    match case.database {
        Database::Real => true,
        Database::Console => true,
        Database::ConsoleOfOthers => false,
        Database::Missing => false,
    }
}
