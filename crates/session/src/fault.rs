//! Every error that Weir itself reports to a client: its SQLSTATE, its text, whether the session goes on. Only here.
//!
//! Texts are PgBouncer's where it has one (log parsers and people know them); codes are PostgreSQL's, by Appendix A of
//! its manual, and say what happened (PgBouncer sends 08P01 for everything).

use std::borrow::Cow;

use weir_auth::login::LoginError;
use weir_sql::{Reason, Reasons};
use weir_wire::encode::{ErrorReport, Severity};
use weir_wire::options::OptionsError;
use weir_wire::sqlstate::SqlState;
use weir_wire::startup::StartupError;

use crate::relay::ClientFault;

/// `transaction_timeout` came with PostgreSQL 17, after the release that the table of codes was made from.
const TRANSACTION_TIMEOUT: SqlState =
    SqlState::from_bytes(*b"25P04").expect("five digits and capitals");

/// What a client could not prove itself with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// Its certificate.
    Certificate,
    /// A password that an LDAP directory checks.
    Ldap,
    /// A password that PAM checks.
    Pam,
    /// A password that we check, sent in the clear or as an MD5 digest.
    Password,
    /// Its user at the other end of a unix socket.
    Peer,
    /// A password that SCRAM proves.
    Sasl,
    /// Nothing but its name, which nobody knows.
    Trust,
}

impl Credential {
    fn failure(self) -> &'static str {
        match self {
            Self::Certificate => "certificate authentication failed",
            Self::Ldap => "LDAP authentication failed",
            Self::Pam => "PAM authentication failed",
            Self::Password => "password authentication failed",
            Self::Peer => "unix socket login rejected",
            Self::Sasl => "SASL authentication failed",
            Self::Trust => "\"trust\" authentication failed",
        }
    }

    fn code(self) -> SqlState {
        match self {
            Self::Ldap | Self::Pam | Self::Password | Self::Sasl => SqlState::INVALID_PASSWORD,
            Self::Certificate | Self::Peer | Self::Trust => {
                SqlState::INVALID_AUTHORIZATION_SPECIFICATION
            }
        }
    }
}

/// What went wrong for one client.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Administrator's word: the session ends now.
    AdminShutdown,
    /// The credentials do not fit, or there is no such user: a client cannot tell which.
    AuthenticationFailed(Credential),
    /// `client_idle_timeout`.
    ClientIdleTimeout,
    /// The server in session pooling leads where the database was before a reload (`server_fast_close`).
    DatabaseChanged,
    /// `DISABLE` on the console: the database takes no new clients.
    DatabaseDisabled(String),
    /// The database is not configured any more, or the administrator has ended all its clients.
    DatabaseRemoved,
    /// The client was cancelled while it waited for a server.
    Cancelled,
    /// `client_login_timeout`.
    LoginTimeout,
    /// `client_login_timeout` of a client whose greeting waits for a server.
    LoginTimeoutServerDown,
    /// A login message out of place.
    LoginProtocol(LoginError),
    /// `idle_transaction_timeout`.
    IdleTransactionTimeout,
    /// More notifications wait for the client than may; the limit, by name. The client would miss one.
    ListenQueueFull(&'static str),
    /// A line of the HBA file refuses this client.
    LoginRejected,
    /// No line of the HBA file is for this client.
    NoAuthenticationMethod,
    /// The auth or server configuration does not let this user log in to the server; the text says why.
    Misconfigured(String),
    /// No such database.
    NoDatabase(String),
    /// The system gives no random bytes.
    NoRandom,
    /// The console's database, for somebody who is neither in `admin_users` nor in `stats_users`.
    NotAllowed,
    /// The start-up packet names no user.
    NoUser,
    /// `options` holds something that is not a setting.
    Options(OptionsError),
    /// Not a message that PostgreSQL takes.
    Protocol(ClientFault),
    /// `query_timeout`.
    QueryTimeout,
    /// `query_timeout` of a client that still waits for a server.
    QueryTimeoutWaiting,
    /// `query_wait_timeout`.
    QueryWaitTimeout,
    /// `query_wait_timeout` of a client whose server takes no logins for now (57P03, 53300); why, in the server's words.
    QueryWaitTimeoutServerDown(String),
    /// Replication connections.
    ReplicationUnsupported,
    /// The server connection was lost while it worked for this client.
    ServerLost,
    /// No server can be had, and why (the last error, in the server's or the system's words).
    ServerUnavailable(String),
    /// Weir is shutting down, and the client waits for a server that nobody will get any more.
    ServerShuttingDown,
    /// Weir is shutting down.
    ShuttingDown,
    /// Not a start-up packet.
    Startup(StartupError),
    /// The statement reads what a sequence gave its session (`sequence_values = refuse`).
    SequenceRefused,
    /// The statement would leave something on its server that cannot move (`session_state = refuse`).
    StateRefused(Reasons),
    /// What had to be sent before `SUSPEND` could not be sent within `suspend_timeout`.
    SuspendTimeout,
    /// A transaction block in statement pooling.
    StatementMode,
    /// A name or value in the start-up packet is not UTF-8.
    StartupEncoding,
    /// `max_client_conn` or one of its kin; the name of the limit.
    TooManyClients(&'static str),
    /// `max_pinned`; what the client would be pinned for.
    TooManyPins(&'static str),
    /// More logins wait for helpers than may wait.
    TooManyLogins,
    /// Too many logins have failed that came from the same address.
    TooManyFailures,
    /// `transaction_timeout`.
    TransactionTimeout,
    /// It listens to as many channels as one client may ([`crate::channels::CHANNELS_MAX`]).
    TooManyChannels,
    /// The client may come in by TLS only.
    TlsRequired,
    /// A setting of the client's cannot be said to a server; why.
    Unsayable(String),
    /// Bytes came with a request for encryption ("SSL", "GSSAPI encryption").
    UnencryptedData(&'static str),
}

impl Fault {
    /// Its SQLSTATE.
    pub fn code(&self) -> SqlState {
        match self {
            Self::AdminShutdown
            | Self::DatabaseChanged
            | Self::DatabaseRemoved
            | Self::ServerShuttingDown
            | Self::ShuttingDown
            | Self::SuspendTimeout => SqlState::ADMIN_SHUTDOWN,
            Self::AuthenticationFailed(credential) => credential.code(),
            Self::Cancelled | Self::QueryTimeout | Self::QueryTimeoutWaiting => {
                SqlState::QUERY_CANCELED
            }
            Self::ClientIdleTimeout => SqlState::IDLE_SESSION_TIMEOUT,
            Self::IdleTransactionTimeout => SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            Self::LoginRejected
            | Self::LoginTimeout
            | Self::LoginTimeoutServerDown
            | Self::Misconfigured(_)
            | Self::NoAuthenticationMethod
            | Self::NoUser
            | Self::TlsRequired
            | Self::TooManyFailures => SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            Self::ListenQueueFull(_)
            | Self::Protocol(ClientFault::TooManyStatements)
            | Self::TooManyChannels
            | Self::TooManyPins(_) => SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            Self::Protocol(ClientFault::TooLong(_)) => SqlState::PROGRAM_LIMIT_EXCEEDED,
            Self::LoginProtocol(LoginError::EmptyPassword) => SqlState::INVALID_PASSWORD,
            Self::LoginProtocol(_)
            | Self::Protocol(_)
            | Self::StartupEncoding
            | Self::UnencryptedData(_) => SqlState::PROTOCOL_VIOLATION,
            Self::DatabaseDisabled(_) => SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            Self::NoDatabase(_) => SqlState::INVALID_CATALOG_NAME,
            Self::NoRandom => SqlState::SYSTEM_ERROR,
            Self::NotAllowed => SqlState::INSUFFICIENT_PRIVILEGE,
            Self::Options(_) => SqlState::SYNTAX_ERROR,
            Self::QueryWaitTimeout
            | Self::QueryWaitTimeoutServerDown(_)
            | Self::TooManyClients(_)
            | Self::TooManyLogins => SqlState::TOO_MANY_CONNECTIONS,
            Self::ReplicationUnsupported
            | Self::SequenceRefused
            | Self::StateRefused(_)
            | Self::StatementMode => SqlState::FEATURE_NOT_SUPPORTED,
            Self::ServerLost => SqlState::CONNECTION_FAILURE,
            Self::ServerUnavailable(_) => SqlState::SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
            Self::Startup(StartupError::UnsupportedVersion { .. }) => {
                SqlState::FEATURE_NOT_SUPPORTED
            }
            Self::Startup(_) => SqlState::PROTOCOL_VIOLATION,
            Self::TransactionTimeout => TRANSACTION_TIMEOUT,
            Self::Unsayable(_) => SqlState::INVALID_PARAMETER_VALUE,
        }
    }

    /// Its text.
    pub fn text(&self) -> Cow<'static, str> {
        match self {
            Self::AdminShutdown => "admin forced disconnect".into(),
            Self::AuthenticationFailed(credential) => credential.failure().into(),
            Self::Cancelled => "canceling statement due to user request".into(),
            Self::ClientIdleTimeout => "client_idle_timeout".into(),
            Self::DatabaseChanged => "database configuration changed".into(),
            Self::DatabaseDisabled(name) => format!("database \"{name}\" is disabled").into(),
            Self::DatabaseRemoved => "database removed".into(),
            Self::IdleTransactionTimeout => "idle transaction timeout".into(),
            Self::ListenQueueFull(limit) => {
                format!("too many notifications are waiting for this client ({limit})").into()
            }
            Self::LoginProtocol(error) => error.to_string().into(),
            Self::LoginRejected => "login rejected".into(),
            Self::LoginTimeout => "client_login_timeout".into(),
            Self::LoginTimeoutServerDown => "client_login_timeout (server down)".into(),
            Self::Misconfigured(text) => text.clone().into(),
            Self::NoAuthenticationMethod => "no authentication method is found".into(),
            Self::NoDatabase(name) => format!("no such database: {name}").into(),
            Self::NoRandom => "no random bytes from the system".into(),
            Self::NotAllowed => "not allowed".into(),
            Self::NoUser => "no username supplied".into(),
            Self::Options(error) => format!(
                "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed: {error}"
            )
            .into(),
            Self::Protocol(error) => error.to_string().into(),
            Self::QueryTimeout => "query timeout".into(),
            Self::QueryTimeoutWaiting => "query_timeout".into(),
            Self::QueryWaitTimeout | Self::QueryWaitTimeoutServerDown(_) => {
                "query_wait_timeout".into()
            }
            Self::ReplicationUnsupported => "replication connections are not supported yet".into(),
            Self::ServerLost => "server conn crashed?".into(),
            Self::ServerUnavailable(why) => {
                format!("server login has been failing, cached error: {why} (server_login_retry)")
                    .into()
            }
            Self::ServerShuttingDown => "server shutting down".into(),
            Self::ShuttingDown => "pooler is shutting down".into(),
            Self::Startup(StartupError::UnsupportedVersion { major: 2, .. }) => {
                "old V2 protocol not supported".into()
            }
            Self::Startup(error) => error.to_string().into(),
            Self::StartupEncoding => "startup packet is not valid UTF-8".into(),
            Self::SequenceRefused => SEQUENCE_REFUSED.into(),
            Self::StateRefused(reasons) => refusal(*reasons).into(),
            Self::StatementMode => {
                "transaction blocks not allowed in statement pooling mode".into()
            }
            Self::TooManyClients("max_client_conn") => {
                "no more connections allowed (max_client_conn)".into()
            }
            Self::TooManyClients(limit) => format!("client connections exceeded ({limit})").into(),
            Self::TooManyPins(reason) => {
                format!("too many clients keep their server (max_pinned); reason: {reason}").into()
            }
            Self::TooManyFailures => {
                "too many failed logins from this address (auth_failures_per_minute)".into()
            }
            Self::TooManyLogins => "too many logins at once".into(),
            Self::TooManyChannels => "too many channels on one connection (10000)".into(),
            Self::SuspendTimeout => "suspend_timeout".into(),
            Self::TransactionTimeout => "transaction timeout".into(),
            Self::TlsRequired => "SSL required".into(),
            Self::Unsayable(why) => format!("invalid setting: {why}").into(),
            Self::UnencryptedData(kind) => {
                format!("received unencrypted data after {kind} request").into()
            }
        }
    }

    /// Its DETAIL.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::QueryWaitTimeoutServerDown(words) => Some(words),
            _ => None,
        }
    }

    /// Whether the session goes on after it.
    pub fn is_fatal(&self) -> bool {
        !matches!(
            self,
            Self::Cancelled | Self::SequenceRefused | Self::StateRefused(_) | Self::TooManyChannels
        )
    }

    /// Appends the ErrorResponse.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let severity = if self.is_fatal() {
            Severity::Fatal
        } else {
            Severity::Error
        };
        let text = self.text().replace('\0', "?");
        let detail = self.detail().map(|detail| detail.replace('\0', "?"));
        let mut report = ErrorReport::new(severity, self.code(), &text);
        report.detail = detail.as_deref();
        // Without a NUL it always fits: texts are short or were read from one message.
        let _ = report.encode(out);
    }
}

/// Text of [`Fault::SequenceRefused`].
const SEQUENCE_REFUSED: &str =
    "lastval() and currval() are refused (sequence_values); use INSERT ... RETURNING";

/// What [`Fault::StateRefused`] says.
fn refusal(reasons: Reasons) -> String {
    let words: Vec<_> = reasons.iter().map(Reason::words).collect();
    format!(
        "session state that outlives a transaction is refused (session_state): {}",
        words.join(", ")
    )
}

#[cfg(test)]
mod reference;
