//! Every error that Weir itself reports to a client: SQLSTATE, text, and severity. No other module defines any.
//!
//! Texts of refused logins are PostgreSQL's, which name the user and the database. Other texts are PgBouncer's where it
//! has one, because log parsers and operators know them. Codes are PostgreSQL's (Appendix A of its manual) and tell
//! errors apart; PgBouncer sends 08P01 for everything.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weir_auth::login::LoginError;
use weir_rules::{Rejection, Wish};
use weir_sql::{Reason, Reasons};
use weir_wire::encode::{ErrorReport, Severity};
use weir_wire::options::OptionsError;
use weir_wire::sqlstate::SqlState;
use weir_wire::startup::StartupError;

use crate::own_settings::WrongSetting;
use crate::relay::ClientFault;

/// SQLSTATE of `transaction_timeout`, which came with PostgreSQL 17, after the release that the table of codes was made
/// from.
const TRANSACTION_TIMEOUT: SqlState =
    SqlState::from_bytes(*b"25P04").expect("five digits and capitals");

/// Credential with which a client failed to authenticate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// TLS certificate.
    Certificate,
    /// Password checked by an LDAP directory.
    Ldap,
    /// Password checked by PAM.
    Pam,
    /// Password that Weir checks: sent in clear text or as an MD5 digest, or proved by SCRAM.
    Password,
    /// System user at the other end of a unix socket.
    Peer,
    /// Name only (`trust`), and the name is unknown.
    Trust,
}

impl Credential {
    /// Returns the method as PostgreSQL names it in its errors (`auth_failed` in auth.c).
    fn method(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Ldap => "LDAP",
            Self::Pam => "PAM",
            Self::Password => "password",
            Self::Peer => "Peer",
            Self::Trust => "\"trust\"",
        }
    }

    fn code(self) -> SqlState {
        match self {
            Self::Ldap | Self::Pam | Self::Password => SqlState::INVALID_PASSWORD,
            Self::Certificate | Self::Peer | Self::Trust => {
                SqlState::INVALID_AUTHORIZATION_SPECIFICATION
            }
        }
    }
}

/// Client whom the HBA rules do not let in, as it introduced itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applicant {
    /// Address of the client; none for a unix socket.
    pub host: Option<String>,
    /// Role name.
    pub user: String,
    /// Database name.
    pub database: String,
    /// True if the connection uses TLS.
    pub is_encrypted: bool,
    /// True if the client asks for physical replication, which has no database.
    pub is_physical: bool,
}

impl Applicant {
    /// Returns the word that PostgreSQL puts before "connection", with a space behind it.
    fn kind(&self) -> &'static str {
        match self.is_physical {
            true => "replication ",
            false => "",
        }
    }
}

impl fmt::Display for Applicant {
    /// Writes the words of PostgreSQL's `ClientAuthentication` in auth.c.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encryption = if self.is_encrypted {
            "SSL encryption"
        } else {
            "no encryption"
        };
        let host = self.host.as_deref().unwrap_or("[local]");
        write!(f, "host \"{host}\", user \"{}\"", self.user)?;
        if !self.is_physical {
            write!(f, ", database \"{}\"", self.database)?;
        }
        write!(f, ", {encryption}")
    }
}

/// Error that Weir reports to one client.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The administrator ended the session.
    AdminShutdown,
    /// The auth database of `auth_query` is disabled (`DISABLE` on the console); its name.
    AuthDatabaseDisabled(String),
    /// The credentials do not match, or the user does not exist: the client cannot tell which. The user's name.
    AuthenticationFailed(Credential, String),
    /// `client_idle_timeout`.
    ClientIdleTimeout,
    /// Session pooling: a reload pointed the database elsewhere while the client had a server (`server_fast_close`).
    DatabaseChanged,
    /// `DISABLE` on the console: the database takes no new clients.
    DatabaseDisabled(String),
    /// The database is no longer configured, or the administrator has ended all its clients.
    DatabaseRemoved,
    /// The client was cancelled while it waited for a server.
    Cancelled,
    /// `client_login_timeout`.
    LoginTimeout,
    /// `client_login_timeout` of a client that waited for a server before its welcome.
    LoginTimeoutServerDown,
    /// A login message out of place, or one that cannot be accepted.
    LoginProtocol(LoginError),
    /// `idle_transaction_timeout`.
    IdleTransactionTimeout,
    /// Too many notifications wait for the client, which would miss one; name of the limit.
    ListenQueueFull(&'static str),
    /// `auth_query` could not be run, or did not answer with one row of name and secret.
    LookupFailed,
    /// A line of the HBA file refuses this client.
    LoginRejected(Box<Applicant>),
    /// No line of the HBA file is for this client.
    NoAuthenticationMethod(Box<Applicant>),
    /// The auth or server configuration does not let this user log in to the server; reason.
    Misconfigured(String),
    /// The database does not exist; its name.
    NoDatabase(String),
    /// No host of the database can run the transaction; reason.
    NoHost(String),
    /// The system provides no random bytes.
    NoRandom,
    /// The user asked for the console and is neither in `admin_users` nor in `stats_users`.
    NotAllowed,
    /// The start-up packet names no user.
    NoUser,
    /// `options` contains something that is not a setting.
    Options(OptionsError),
    /// Message that PostgreSQL would not accept.
    Protocol(ClientFault),
    /// `query_timeout`.
    QueryTimeout,
    /// `query_timeout` of a client that still waits for a server.
    QueryTimeoutWaiting,
    /// `query_wait_timeout`.
    QueryWaitTimeout,
    /// `query_wait_timeout` of a client whose server accepts no logins for now (57P03, 53300); the server's error text.
    QueryWaitTimeoutServerDown(String),
    /// A query rule rejects the statement.
    Rejected(Arc<Rejection>),
    /// A query rule, or a hint of the statement if the rule has no name, has cancelled the statement, which ran for longer than
    /// this.
    RuleTimeout(Wish<Duration>),
    /// Wrong value of the start-up parameter `replication`.
    ReplicationValue(String),
    /// The server connection was lost while it worked for this client. Nothing of its transaction was committed.
    ServerLost,
    /// The server connection was lost before it answered a request that may have committed.
    OutcomeUnknown,
    /// The server of the client's transaction was lost, and the client keeps its session (`keep_client`). Nothing of the
    /// transaction was committed.
    TransactionLost,
    /// Request in a transaction block that has failed with its server.
    BlockFailed,
    /// No server is available; the last error, in the words of the server or the system.
    ServerUnavailable(String),
    /// Weir is shutting down, and the client waits for a server that it will not get.
    ServerShuttingDown,
    /// Weir is shutting down.
    ShuttingDown,
    /// The start-up packet is invalid.
    Startup(StartupError),
    /// The statement reads a sequence value of its session (`sequence_values = refuse`).
    SequenceRefused,
    /// The statement would leave state on its server that cannot move (`session_state = refuse`).
    StateRefused(Reasons),
    /// Pending data could not be sent to the client within `suspend_timeout` of `SUSPEND`.
    SuspendTimeout,
    /// The client began a transaction block in statement pooling.
    StatementMode,
    /// A name or value in the start-up packet is not UTF-8.
    StartupEncoding,
    /// `max_client_conn` or a related limit is reached; name of the limit.
    TooManyClients(&'static str),
    /// `max_pinned` is reached; reason for which the client would be pinned.
    TooManyPins(&'static str),
    /// `max_waiting` clients of the pool wait for a server already.
    TooManyWaiting,
    /// Too many logins wait for helper threads.
    TooManyLogins,
    /// Too many logins from the same address have failed.
    TooManyFailures,
    /// `transaction_timeout`.
    TransactionTimeout,
    /// The client listens to the maximum number of channels ([`crate::channels::CHANNELS_MAX`]).
    TooManyChannels,
    /// The client must use TLS.
    TlsRequired,
    /// A setting of the client's cannot be sent to a server; reason.
    Unsayable(String),
    /// The statement gives a setting of Weir (`weir.*`) a wrong value.
    WrongSetting(WrongSetting),
    /// Bytes followed a request for encryption ("SSL", "GSSAPI encryption") in clear text.
    UnencryptedData(&'static str),
}

impl Fault {
    /// Returns the SQLSTATE.
    pub fn code(&self) -> SqlState {
        match self {
            Self::AdminShutdown
            | Self::DatabaseChanged
            | Self::DatabaseRemoved
            | Self::ServerShuttingDown
            | Self::ShuttingDown
            | Self::SuspendTimeout => SqlState::ADMIN_SHUTDOWN,
            Self::AuthenticationFailed(credential, _) => credential.code(),
            Self::Cancelled
            | Self::LoginTimeout
            | Self::QueryTimeout
            | Self::QueryTimeoutWaiting
            | Self::RuleTimeout(_) => SqlState::QUERY_CANCELED,
            Self::ClientIdleTimeout => SqlState::IDLE_SESSION_TIMEOUT,
            Self::IdleTransactionTimeout => SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            Self::LoginRejected(_)
            | Self::NoAuthenticationMethod(_)
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
            Self::AuthDatabaseDisabled(_) | Self::DatabaseDisabled(_) => {
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE
            }
            Self::NoDatabase(_) => SqlState::INVALID_CATALOG_NAME,
            Self::LoginTimeoutServerDown | Self::LookupFailed | Self::NoHost(_) => {
                SqlState::CANNOT_CONNECT_NOW
            }
            Self::Misconfigured(_) => SqlState::CONFIG_FILE_ERROR,
            Self::NoRandom => SqlState::SYSTEM_ERROR,
            Self::NotAllowed => SqlState::INSUFFICIENT_PRIVILEGE,
            Self::Options(_) => SqlState::SYNTAX_ERROR,
            Self::QueryWaitTimeout
            | Self::QueryWaitTimeoutServerDown(_)
            | Self::TooManyClients(_)
            | Self::TooManyLogins
            | Self::TooManyWaiting => SqlState::TOO_MANY_CONNECTIONS,
            Self::SequenceRefused | Self::StateRefused(_) | Self::StatementMode => {
                SqlState::FEATURE_NOT_SUPPORTED
            }
            Self::Rejected(rejection) => {
                SqlState::from_bytes(rejection.code).unwrap_or(SqlState::INSUFFICIENT_PRIVILEGE)
            }
            Self::ServerLost => SqlState::CONNECTION_FAILURE,
            Self::OutcomeUnknown => SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
            Self::TransactionLost => SqlState::T_R_SERIALIZATION_FAILURE,
            Self::BlockFailed => SqlState::IN_FAILED_SQL_TRANSACTION,
            Self::ServerUnavailable(_) => SqlState::SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
            Self::Startup(StartupError::UnsupportedVersion { .. }) => {
                SqlState::FEATURE_NOT_SUPPORTED
            }
            Self::Startup(_) => SqlState::PROTOCOL_VIOLATION,
            Self::TransactionTimeout => TRANSACTION_TIMEOUT,
            Self::ReplicationValue(_) | Self::Unsayable(_) => SqlState::INVALID_PARAMETER_VALUE,
            Self::WrongSetting(wrong) => wrong.code(),
        }
    }

    /// Returns the message text.
    #[expect(clippy::too_many_lines, reason = "a flat table, one row per error")]
    pub fn text(&self) -> Cow<'static, str> {
        match self {
            Self::AdminShutdown => "admin forced disconnect".into(),
            Self::AuthDatabaseDisabled(name) => {
                format!("authentication database \"{name}\" is disabled").into()
            }
            Self::AuthenticationFailed(credential, user) => {
                let method = credential.method();
                format!("{method} authentication failed for user \"{user}\"").into()
            }
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
            Self::LoginRejected(applicant) => {
                let kind = applicant.kind();
                format!("pg_hba.conf rejects {kind}connection for {applicant}").into()
            }
            Self::LoginTimeout => "client_login_timeout".into(),
            Self::LoginTimeoutServerDown => "client_login_timeout (server down)".into(),
            Self::LookupFailed => "auth_query failed".into(),
            Self::Misconfigured(text) => text.clone().into(),
            Self::NoAuthenticationMethod(applicant) if applicant.is_physical => {
                format!("no pg_hba.conf entry for replication connection from {applicant}").into()
            }
            Self::NoAuthenticationMethod(applicant) => {
                format!("no pg_hba.conf entry for {applicant}").into()
            }
            Self::NoDatabase(name) => format!("database \"{name}\" does not exist").into(),
            Self::NoHost(why) => format!("no host of the database can run this transaction: {why}").into(),
            Self::NoRandom => "the operating system provides no random bytes".into(),
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
            Self::Rejected(rejection) => rejection.message.clone().into(),
            Self::RuleTimeout(Wish { rule, value }) => {
                let seconds = value.as_secs_f64();
                let cause = match &**rule {
                    "" => "its hint".to_owned(),
                    rule => format!("rule {rule}"),
                };
                format!("canceling statement due to {cause} (timeout {seconds} s)").into()
            }
            Self::ReplicationValue(value) => {
                format!("invalid value for parameter \"replication\": \"{value}\"").into()
            }
            Self::ServerLost => "server conn crashed?".into(),
            Self::OutcomeUnknown => {
                "server conn crashed? the outcome of the transaction is unknown".into()
            }
            Self::TransactionLost => {
                "the server of this transaction was lost, and the transaction was rolled back".into()
            }
            Self::BlockFailed => {
                "current transaction is aborted, commands ignored until end of transaction block"
                    .into()
            }
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
                format!("too many clients are pinned to their servers (max_pinned); pin of this client: {reason}").into()
            }
            Self::TooManyFailures => {
                "too many failed logins from this address (auth_failures_per_minute)".into()
            }
            Self::TooManyLogins => "too many logins in progress".into(),
            Self::TooManyWaiting => "too many clients wait for a server (max_waiting)".into(),
            Self::TooManyChannels => "too many channels on one connection (10000); UNLISTEN those not needed".into(),
            Self::SuspendTimeout => "suspend_timeout".into(),
            Self::TransactionTimeout => "transaction timeout".into(),
            Self::TlsRequired => "SSL required".into(),
            Self::Unsayable(why) => format!("setting of this client cannot be sent to a server: {why}").into(),
            Self::WrongSetting(wrong) => wrong.to_string().into(),
            Self::UnencryptedData(kind) => {
                format!("received unencrypted data after {kind} request").into()
            }
        }
    }

    /// Returns the DETAIL, if there is one.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::QueryWaitTimeoutServerDown(words) => Some(words),
            _ => None,
        }
    }

    /// Returns the HINT, if there is one.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Rejected(rejection) => Some(&*rejection.hint).filter(|hint| !hint.is_empty()),
            Self::ReplicationValue(_) => Some(REPLICATION_VALUES),
            _ => None,
        }
    }

    /// True if the connection is closed without an answer, as by PostgreSQL (`ProcessStartupPacket` in postmaster.c): a
    /// packet of an impossible length was not sent by a client of PostgreSQL.
    pub fn is_silent(&self) -> bool {
        matches!(
            self,
            Self::Startup(StartupError::BadLength { .. } | StartupError::BadCancelKeyLength { .. })
        )
    }

    /// True if the error ends the session.
    pub fn is_fatal(&self) -> bool {
        !matches!(
            self,
            Self::BlockFailed
                | Self::Cancelled
                | Self::Rejected(_)
                | Self::TooManyWaiting
                | Self::RuleTimeout(_)
                | Self::TransactionLost
                | Self::SequenceRefused
                | Self::StateRefused(_)
                | Self::TooManyChannels
                | Self::WrongSetting(_)
        )
    }

    /// Appends the ErrorResponse to `out`.
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
        let hint = self.hint().map(|hint| hint.replace('\0', "?"));
        report.hint = hint.as_deref();
        // Cannot fail: NULs are replaced, and texts are short or were read from one message.
        let _ = report.encode(out);
    }
}

/// HINT of [`Fault::ReplicationValue`], in PostgreSQL's words.
const REPLICATION_VALUES: &str = "Valid values are: \"false\", 0, \"true\", 1, \"database\".";

/// Text of [`Fault::SequenceRefused`].
const SEQUENCE_REFUSED: &str =
    "lastval() and currval() are refused (sequence_values); use INSERT ... RETURNING";

/// Returns the text of [`Fault::StateRefused`].
fn refusal(reasons: Reasons) -> String {
    let words: Vec<_> = reasons.iter().map(Reason::words).collect();
    format!(
        "session state that outlives a transaction is refused (session_state): {}",
        words.join(", ")
    )
}

#[cfg(test)]
mod reference;
