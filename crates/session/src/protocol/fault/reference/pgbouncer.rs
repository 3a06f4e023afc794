//! PgBouncer's texts for clients, and Weir's text for each of these occasions.

use weir_auth::login::LoginError;
use weir_wire::options::OptionsError;
use weir_wire::startup::StartupError;

use self::Instead::{Argued, PostgreSql, Same};
use super::samples::applicant;
use crate::fault::{Credential, Fault};
use crate::relay::ClientFault;

/// Weir's counterpart of a PgBouncer text.
pub(super) enum Instead {
    /// Another text or none; explanation.
    Argued(&'static str),
    /// PostgreSQL's text, sent as this error.
    PostgreSql(Fault),
    /// Identical text, sent as this error.
    Same(Fault),
}

type Text = (&'static str, Instead);

const OWN_WORDS: &str = "PostgreSQL's own error, as without a pooler";
const PROTOCOL: &str = "08P01 in PostgreSQL's words, such as `invalid frontend message type 120` or `invalid message format`, \
    which drivers know";

/// Returns PgBouncer's texts; `…` stands for parts that vary.
pub(super) fn texts() -> Vec<Text> {
    let parts = [waiting(), servers(), passwords(), logins(), protocol()];
    parts.into_iter().flatten().collect()
}

fn waiting() -> Vec<Text> {
    let limit = |name| Same(Fault::TooManyClients(name));
    vec![
        (
            "no more connections allowed (max_client_conn)",
            limit("max_client_conn"),
        ),
        (
            "client connections exceeded (max_db_client_connections)",
            limit("max_db_client_connections"),
        ),
        (
            "client connections exceeded (max_user_client_connections)",
            limit("max_user_client_connections"),
        ),
        ("query_wait_timeout", Same(Fault::QueryWaitTimeout)),
        ("query_timeout", Same(Fault::QueryTimeoutWaiting)),
        ("query timeout", Same(Fault::QueryTimeout)),
        (
            "idle transaction timeout",
            Same(Fault::IdleTransactionTimeout),
        ),
        ("transaction timeout", Same(Fault::TransactionTimeout)),
        ("client_idle_timeout", Same(Fault::ClientIdleTimeout)),
        ("client_login_timeout", Same(Fault::LoginTimeout)),
        (
            "client_login_timeout (server down)",
            Same(Fault::LoginTimeoutServerDown),
        ),
        ("suspend_timeout", Same(Fault::SuspendTimeout)),
    ]
}

fn servers() -> Vec<Text> {
    let unavailable = |why: &str| Same(Fault::ServerUnavailable(why.to_owned()));
    vec![
        ("server conn crashed?", Same(Fault::ServerLost)),
        (
            "server login has been failing, cached error: … (server_login_retry)",
            unavailable("…"),
        ),
        (
            "server login has been failing, try again later (server_login_retry)",
            Argued("the text of 1.25, which names the error"),
        ),
        (
            "pgbouncer cannot connect to server",
            Argued("the text of 1.25; this one belongs to old versions"),
        ),
        ("connect failed", unavailable("connect failed: …")),
        ("connect timeout", unavailable("connect timeout")),
        (
            "server DNS lookup failed",
            unavailable("server DNS lookup failed: …"),
        ),
        (
            "server login failed: wrong password type",
            unavailable("server login failed: wrong password type: …"),
        ),
        (
            "server login failed: failed to verify server signature",
            Argued("not sent: Weir verifies every signature that a server sends"),
        ),
        (
            "server login failed: invalid server signature",
            unavailable("server login failed: invalid server signature"),
        ),
        (
            "server login failed: none of the server's SASL authentication mechanisms are supported",
            unavailable(
                "server login failed: none of the server's SASL authentication mechanisms are supported",
            ),
        ),
        ("server shutting down", Same(Fault::ServerShuttingDown)),
        (
            "invalid server parameter",
            Argued(
                "PostgreSQL's own error, such as 22023 `invalid value for parameter \"TimeZone\": \"x\"`",
            ),
        ),
        ("database removed", Same(Fault::DatabaseRemoved)),
        ("admin forced disconnect", Same(Fault::AdminShutdown)),
    ]
}

fn passwords() -> Vec<Text> {
    let failed = |credential| PostgreSql(Fault::AuthenticationFailed(credential, "…".to_owned()));
    let broken = |error| Same(Fault::LoginProtocol(error));
    vec![
        (
            "password authentication failed",
            failed(Credential::Password),
        ),
        ("SASL authentication failed", failed(Credential::Password)),
        ("\"trust\" authentication failed", failed(Credential::Trust)),
        (
            "certificate authentication failed",
            failed(Credential::Certificate),
        ),
        ("unix socket login rejected", failed(Credential::Peer)),
        ("PAM authentication failed", failed(Credential::Pam)),
        ("LDAP authentication failed", failed(Credential::Ldap)),
        (
            "empty password returned by client",
            broken(LoginError::EmptyPassword),
        ),
        ("password too long", broken(LoginError::PasswordTooLong)),
    ]
}

fn logins() -> Vec<Text> {
    let misconfigured = Fault::Misconfigured("bouncer config error".to_owned());
    vec![
        (
            "login rejected",
            PostgreSql(Fault::LoginRejected(applicant())),
        ),
        (
            "no authentication method is found",
            PostgreSql(Fault::NoAuthenticationMethod(applicant())),
        ),
        (
            "no such user",
            Argued("the text for a wrong password, so that clients do not learn which users exist"),
        ),
        (
            "no such database: …",
            PostgreSql(Fault::NoDatabase("…".to_owned())),
        ),
        (
            "database \"…\" is disabled",
            Same(Fault::DatabaseDisabled("…".to_owned())),
        ),
        (
            "authentication database \"…\" is disabled",
            Same(Fault::AuthDatabaseDisabled("…".to_owned())),
        ),
        (
            "authentication database \"…\" is not configured",
            Argued("`auth_query failed`; the log has this text"),
        ),
        ("bouncer config error", Same(misconfigured)),
        (
            "bouncer resources exhaustion",
            Argued("the resource that ran out: `too many logins in progress`, `(max_pools)`"),
        ),
        ("pooler is shutting down", Same(Fault::ShuttingDown)),
        ("SSL required", Same(Fault::TlsRequired)),
        ("not allowed", Same(Fault::NotAllowed)),
        (
            "username too long",
            Argued("not sent: a name may be as long as the start-up packet (10,000 bytes)"),
        ),
        ("no username supplied", Same(Fault::NoUser)),
    ]
}

fn protocol() -> Vec<Text> {
    let startup = |error| Same(Fault::Startup(error));
    let old = StartupError::UnsupportedVersion { major: 2, minor: 0 };
    let argument = "-d".to_owned();
    vec![
        (
            "unsupported startup parameter: …",
            Argued(
                "not sent: PostgreSQL accepts the parameter, or refuses it with 42704 as without a pooler",
            ),
        ),
        (
            "unsupported startup parameter in options: …",
            Argued("not sent, as above"),
        ),
        (
            "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed",
            Same(Fault::Options(OptionsError::Unsupported { argument })),
        ),
        (
            "invalid startup packet layout: expected terminator as last byte",
            startup(StartupError::BadLayout),
        ),
        ("old V2 protocol not supported", startup(old)),
        (
            "received unencrypted data after SSL request",
            Same(Fault::UnencryptedData("SSL")),
        ),
        (
            "received unencrypted data after GSSAPI encryption request",
            Same(Fault::UnencryptedData("GSSAPI encryption")),
        ),
        ("unknown pkt", Argued(PROTOCOL)),
        ("bad packet header: '…'", Argued(PROTOCOL)),
        (
            "PQexec disallowed",
            Same(Fault::Protocol(ClientFault::SimpleQuery)),
        ),
        (
            "transaction blocks not allowed in statement pooling mode",
            Same(Fault::StatementMode),
        ),
        (
            "prepared statement name is already in use",
            Argued(OWN_WORDS),
        ),
        ("prepared statement did not exist", Argued(OWN_WORDS)),
        ("broken Parse packet", Argued(PROTOCOL)),
        ("broken Bind packet", Argued(PROTOCOL)),
        ("broken Describe packet", Argued(PROTOCOL)),
        ("broken Close packet", Argued(PROTOCOL)),
        (
            "client password pkt before startup packet",
            Argued(PROTOCOL),
        ),
        ("client re-sent startup pkt", Argued(PROTOCOL)),
        (
            "SSL req inside SSL",
            Argued("0A000 `unsupported frontend protocol 1234.5679: …`, as PostgreSQL"),
        ),
        (
            "out of memory",
            Argued("not sent: every buffer has a limit, and the error names the limit"),
        ),
    ]
}
