//! Why nobody could be asked: the directory is away or set up wrongly. Never the user's fault.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// No verdict could be had. For the log; the client is told what it is told of a wrong password.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The search filter is none (RFC 4515).
    #[error("LDAP search filter cannot be read: {}", filter.escape_debug())]
    Filter {
        /// With the user name in its place.
        filter: String,
    },
    /// A server answered with something that is not LDAP.
    #[error("an LDAP server's answer cannot be understood")]
    Malformed,
    /// No server is configured.
    #[error("no LDAP server is configured")]
    NoServer,
    /// This build lacks the method.
    #[error("this build has no {method}")]
    NotBuilt {
        /// `LDAP` or `PAM`.
        method: &'static str,
    },
    /// PAM itself failed: no such service, a module missing, a back end away.
    #[error("PAM service {service:?} failed: {reason}")]
    Pam {
        /// The PAM service.
        service: String,
        /// In PAM's words.
        reason: String,
    },
    /// The operating system gave no event loop or no thread.
    #[error("could not start an LDAP exchange: {0}")]
    Resources(io::ErrorKind),
    /// A server was reached and refused something that is not up to the user, such as the bind of `ldapbinddn`.
    #[error("{0}")]
    Server(ServerFailure),
    /// No server could be asked. In the order of the configuration.
    #[error("no LDAP server could be asked: {}", Listed(.0))]
    Unreachable(Vec<ServerFailure>),
}

/// What one server did wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("LDAP server {server}: {step}: {failure}")]
pub struct ServerFailure {
    /// Scheme, host and port.
    pub server: String,
    /// What was being done.
    pub step: Step,
    /// What happened.
    pub failure: Failure,
}

/// The part of an LDAP exchange that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Name resolution, TCP, StartTLS and the TLS handshake.
    Connect,
    /// The bind of `ldapbinddn`, or the anonymous one, before a search.
    SearchBind,
    /// The search for the user's entry.
    Search,
    /// The bind with the user's own password.
    UserBind,
}

/// How a step failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Failure {
    /// The address is none, for example a host name with a slash.
    #[error("not an address")]
    Address,
    /// An LDAP result other than success (RFC 4511 section 4.1.9).
    #[error("result {code}{}", Quoted(.text))]
    Code {
        /// The result code.
        code: u32,
        /// The server's diagnostic message, may be empty.
        text: String,
    },
    /// The connection failed.
    #[error("{text}")]
    Connection {
        /// Its kind.
        kind: io::ErrorKind,
        /// The operating system's or rustls' text.
        text: String,
    },
    /// The server's answers make no sense.
    #[error("malformed answer: {text}")]
    Protocol {
        /// What was wrong.
        text: String,
    },
    /// No answer within this server's share of the time.
    #[error("no answer in time")]
    Timeout,
    /// TLS is asked for and the certificate authorities could not be read.
    #[error("{0}")]
    TlsSetup(TlsSetupError),
}

/// Why there are no certificate authorities to check an LDAP server with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TlsSetupError {
    /// The file holds no certificate that can be used.
    #[error("no certificate authority in {}", .0.display())]
    Empty(PathBuf),
    /// The system has no certificate authorities (Debian: package `ca-certificates`).
    #[error("the system has no certificate authorities")]
    NoSystemRoots,
    /// The file cannot be read.
    #[error("cannot read {}: {kind}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        kind: io::ErrorKind,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::SearchBind => "bind for the search",
            Self::Search => "search",
            Self::UserBind => "bind as the user",
        })
    }
}

/// Several failures in a row.
struct Listed<'a>(&'a [ServerFailure]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, failure) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            failure.fmt(f)?;
        }
        Ok(())
    }
}

/// A server's text, if it has one. Escaped: it comes from outside and goes into the log.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", self.0.escape_debug())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_cannot_forge_a_log_line() {
        let failure = ServerFailure {
            server: "ldap://one.example:389".to_owned(),
            step: Step::SearchBind,
            failure: Failure::Code {
                code: 49,
                text: "no\n2026-01-01 LOG all is well\u{1b}[2J".to_owned(),
            },
        };
        let away = ServerFailure {
            server: "ldap://two.example:389".to_owned(),
            step: Step::Connect,
            failure: Failure::Timeout,
        };
        let text = DirectoryError::Unreachable(vec![failure, away]).to_string();
        assert!(!text.contains(char::is_control), "{text:?}");
        let rest = "ldap://one.example:389: bind for the search: result 49 (no\\n";
        assert!(text.contains(rest), "{text}");
        let rest = "; LDAP server ldap://two.example:389: connect: no answer in time";
        assert!(text.ends_with(rest), "{text}");
    }
}
