//! Errors of a directory that cannot be asked: it is away or configured wrongly. Never the user's fault.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Reason why there is no verdict. For the log: the client receives the message for a wrong password.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The search filter is not valid (RFC 4515).
    #[error("LDAP search filter cannot be read: {}", filter.escape_debug())]
    Filter {
        /// The filter, with the user name in place.
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
        /// PAM's own description.
        reason: String,
    },
    /// The operating system could not provide an event loop or a thread.
    #[error("could not start an LDAP exchange: {0}")]
    Resources(io::ErrorKind),
    /// A server was reached and refused a request for a reason unrelated to the user, such as the bind of
    /// `ldapbinddn`.
    #[error("{0}")]
    Server(ServerFailure),
    /// No server could be asked. The failures are in the order of the configuration.
    #[error("no LDAP server answered: {}", Listed(.0))]
    Unreachable(Vec<ServerFailure>),
}

/// Failure of one server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("LDAP server {server}: {step}: {failure}")]
pub struct ServerFailure {
    /// Scheme, host and port.
    pub server: String,
    /// The step that failed.
    pub step: Step,
    /// The failure itself.
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

/// Reason why a step failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Failure {
    /// The address is not valid, for example a host name with a slash.
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
        /// Kind of I/O error.
        kind: io::ErrorKind,
        /// Text from the operating system or from rustls.
        text: String,
    },
    /// The server's answers violate the protocol.
    #[error("malformed answer: {text}")]
    Protocol {
        /// Description of the violation.
        text: String,
    },
    /// The server did not answer within its share of the time.
    #[error("no answer in time")]
    Timeout,
    /// TLS is required and the certificate authorities could not be read.
    #[error("{0}")]
    TlsSetup(TlsSetupError),
}

/// Reason why there are no certificate authorities to check an LDAP server with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TlsSetupError {
    /// The file holds no usable certificate.
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
        /// Reason for the failure.
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

/// Several failures, separated by semicolons.
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

/// Text of a server, if it has one. Escaped, because it is foreign input and goes into the log.
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
