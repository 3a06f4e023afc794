//! What has to happen in each case, from the documents alone; whatever no rule lets in is refused.

use crate::case::Case;
use crate::case::Credential;
use crate::case::Database;
use crate::case::Listener;
use crate::case::Method;
use crate::case::Secret;
use crate::case::Transport;

/// True when the client is to be let in.
pub(crate) fn lets_in(case: &Case) -> bool {
    is_admitted(case) && has_line(case) && is_known(case) && proves(case) && may_use(case)
}

/// `client_tls_sslmode`: `prefer` asks for nothing, `verify-full` for TLS and a certificate. Sockets are beside that.
fn is_admitted(case: &Case) -> bool {
    match case.transport {
        Transport::Unix => true,
        Transport::Tcp | Transport::Tls => case.listener == Listener::Prefer,
        Transport::OwnCertificate | Transport::OtherCertificate => {
            case.listener == Listener::VerifyFull
        }
    }
}

/// The lines of the file: which kinds of connection each method was written for.
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

/// Somebody of that name is in the file or the table, with or without a secret.
fn is_known(case: &Case) -> bool {
    case.secret != Secret::Unknown
}

fn proves(case: &Case) -> bool {
    // An empty password proves nothing, not even to an empty secret.
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
        // Nobody on this machine has such a name.
        Method::Peer => false,
        Method::Reject => false,
    }
}

/// The console is for those in `admin_users`; a database that does not exist is for nobody.
fn may_use(case: &Case) -> bool {
    match case.database {
        Database::Real => true,
        Database::Console => true,
        Database::ConsoleOfOthers => false,
        Database::Missing => false,
    }
}
