//! A sample of each error with its guide. `…` stands for parts of a text that vary.

use weir_auth::login::LoginError;
use weir_sql::{Reason, Reasons};
use weir_wire::frame::{FrameError, Side};
use weir_wire::options::OptionsError;
use weir_wire::startup::StartupError;

use super::{Guide, Theme};
use crate::fault::{Credential, Fault};
use crate::relay::ClientFault;

const LIMIT: &str = "Raise it, or see in `SHOW CLIENTS` who holds the places.";
const BROKEN: &str = "A broken or hostile client: see its address in the log.";

type Sample = (Fault, Guide);

/// Returns samples of every kind of error, in the order of the page.
pub(super) fn samples() -> Vec<Sample> {
    let parts = [
        logins(),
        refused(),
        limits(),
        times(),
        servers(),
        operator(),
        state(),
        protocol(),
    ];
    parts.into_iter().flatten().collect()
}

fn sample(theme: Theme, fault: Fault, when: &'static str, what_to_do: &'static str) -> Sample {
    let guide = Guide {
        theme,
        when,
        what_to_do,
    };
    (fault, guide)
}

fn misconfigured(text: &str) -> Fault {
    Fault::Misconfigured(text.to_owned())
}

fn logins() -> Vec<Sample> {
    let login = |fault, when, act| sample(Theme::Login, fault, when, act);
    let failed = |credential, when, act| login(Fault::AuthenticationFailed(credential), when, act);
    vec![
        failed(
            Credential::Password,
            "A wrong or expired password, no such user, or a secret that the method cannot use (`plain`, `md5`).",
            "Compare with `auth_file` or `auth_query`. A client is not told which it was.",
        ),
        failed(
            Credential::Sasl,
            "The same where the exchange is SCRAM.",
            "As above; an md5 secret is of no use for SCRAM.",
        ),
        failed(
            Credential::Ldap,
            "The directory refuses the password, or cannot be asked.",
            "The line before it in the log says which.",
        ),
        failed(
            Credential::Pam,
            "PAM refuses the password.",
            "The line before it in the log says why.",
        ),
        failed(
            Credential::Certificate,
            "`cert`: no certificate, one for another name, or an unknown user.",
            "[TLS](../guide/tls.md), and the map in `auth_ident_file`.",
        ),
        failed(
            Credential::Peer,
            "`peer`: the system user is another one, or unknown.",
            "The map in `auth_ident_file`.",
        ),
        failed(
            Credential::Trust,
            "`trust`: the user is not known.",
            "A line `\"name\" \"\"` in `auth_file`.",
        ),
        login(
            Fault::LoginRejected,
            "A line of `auth_hba_file` says `reject`.",
            "`weir hba explain` says which line.",
        ),
        login(
            Fault::NoAuthenticationMethod,
            "No line of `auth_hba_file` is for this client.",
            "`weir hba explain`.",
        ),
        login(
            Fault::TlsRequired,
            "`client_tls_sslmode` asks for TLS, and the client has none.",
            "`sslmode=require` in the client.",
        ),
        login(
            Fault::TooManyFailures,
            "Its address has failed too often (`auth_failures_per_minute`).",
            "[Failed logins](../guide/authentication.md#failed-logins).",
        ),
        login(
            Fault::NoDatabase("…".to_owned()),
            "No entry of `[databases]` has that name, and there is no `*`. Told only to those who have logged in.",
            "Add the entry and RELOAD.",
        ),
        login(
            Fault::NotAllowed,
            "The console, for a user who is neither in `admin_users` nor in `stats_users`.",
            "One of these options.",
        ),
    ]
}

fn refused() -> Vec<Sample> {
    let login = |fault, when, act| sample(Theme::Login, fault, when, act);
    let unusable = OptionsError::Unsupported {
        argument: "…".to_owned(),
    };
    vec![
        login(
            Fault::NoUser,
            "The start-up packet names no user.",
            "Name one.",
        ),
        login(
            Fault::LoginProtocol(LoginError::EmptyPassword),
            "The client sent an empty password.",
            "Give it one; PostgreSQL refuses these too.",
        ),
        login(
            Fault::LoginProtocol(LoginError::PasswordTooLong),
            "The password has more than 65,530 bytes.",
            BROKEN,
        ),
        login(
            misconfigured("auth_query failed"),
            "Nobody could be asked, or the answer was none.",
            "The line before it in the log says why.",
        ),
        login(
            misconfigured("bouncer config error"),
            "`auth_type = any` for a database without a forced `user`; LDAP without options.",
            "`user=` in the database; `auth_ldap_options`.",
        ),
        login(
            Fault::TooManyLogins,
            "4,096 logins wait for a helper thread.",
            "LDAP, PAM or DNS is slow, or somebody floods.",
        ),
        login(
            Fault::NoRandom,
            "The system gives none.",
            "Look at the machine.",
        ),
        login(
            Fault::Options(unusable),
            "The start-up parameter `options` holds something that is not a setting.",
            "Give settings only.",
        ),
        login(
            Fault::ReplicationUnsupported,
            "The client asks for replication.",
            "Let it connect to PostgreSQL directly.",
        ),
    ]
}

fn limits() -> Vec<Sample> {
    let limit = |fault, when, act| sample(Theme::Limits, fault, when, act);
    vec![
        limit(
            Fault::TooManyClients("max_client_conn"),
            "`max_client_conn` clients are connected.",
            LIMIT,
        ),
        limit(
            Fault::TooManyClients("max_db_client_connections"),
            "So many clients of that database are connected.",
            LIMIT,
        ),
        limit(
            Fault::TooManyClients("max_user_client_connections"),
            "So many clients of that user are connected.",
            LIMIT,
        ),
        limit(
            Fault::TooManyClients("max_pools"),
            "There would be more pools than `max_pools`.",
            "Databases by `*`, or users, that nobody meant?",
        ),
        limit(
            Fault::TooManyPins("…"),
            "`max_pinned` clients keep their server already.",
            "`SHOW PINS` says who and why; [session state](../guide/session-state.md).",
        ),
        limit(
            Fault::TooManyChannels,
            "One client listens to 10,000 channels. The session goes on.",
            "Listen to fewer.",
        ),
        limit(
            Fault::ListenQueueFull("…"),
            "The client is in a transaction or does not read, and `listen_queue_bytes` or `listen_queue_size` \
             notifications wait for it; or it has read nothing for 60 seconds, and more than 1 MiB waits.",
            "Read faster, or raise the option.",
        ),
        limit(
            Fault::Protocol(ClientFault::TooManyStatements),
            "One client holds 10,000 prepared statements.",
            "The client leaks them.",
        ),
        limit(
            Fault::Protocol(ClientFault::TooLong(4_194_304)),
            "A message is longer than `max_packet_size`.",
            "Send less at once, or raise the option.",
        ),
    ]
}

fn times() -> Vec<Sample> {
    let time = |fault, when, act| sample(Theme::Times, fault, when, act);
    vec![
        time(
            Fault::LoginTimeout,
            "From accept on, the login took longer than `client_login_timeout`.",
            "The client went silent, or LDAP, PAM or `auth_query` is slow.",
        ),
        time(
            Fault::LoginTimeoutServerDown,
            "The same while the client waited for a server to learn its parameters from.",
            "As for `query_wait_timeout`.",
        ),
        time(
            Fault::QueryWaitTimeout,
            "No server became free within `query_wait_timeout`.",
            "[When clients wait](../guide/operating.md#when-clients-wait).",
        ),
        time(
            Fault::QueryWaitTimeoutServerDown("server login failed: FATAL …".to_owned()),
            "The same while PostgreSQL was starting up, shutting down or out of connections. The DETAIL has PostgreSQL's own words: `server login failed: FATAL …`.",
            "Look at PostgreSQL; raise the limit if its restarts take longer.",
        ),
        time(
            Fault::QueryTimeout,
            "A query ran longer than `query_timeout`; it is cancelled.",
            "Make it faster, or raise the limit.",
        ),
        time(
            Fault::QueryTimeoutWaiting,
            "A query waited for a server longer than `query_timeout`.",
            "As for `query_wait_timeout`.",
        ),
        time(
            Fault::TransactionTimeout,
            "A transaction was open longer than `transaction_timeout`; it is rolled back.",
            "Make transactions shorter, or raise the limit.",
        ),
        time(
            Fault::IdleTransactionTimeout,
            "Nothing came within a transaction for `idle_transaction_timeout`; it is rolled back.",
            "The application holds transactions open.",
        ),
        time(
            Fault::ClientIdleTimeout,
            "Nothing came for `client_idle_timeout`.",
            "Connect again.",
        ),
    ]
}

fn servers() -> Vec<Sample> {
    let server = |fault, when, act| sample(Theme::Servers, fault, when, act);
    vec![
        server(
            Fault::ServerUnavailable("connect failed: …".to_owned()),
            "No server can be had. The cached error says why: `connect failed: …`, `connect timeout`, \
             `server DNS lookup failed: …`, `server login failed: …`, `server conn crashed?`, \
             `exec_on_connect query failed`.",
            "[When logins fail](../guide/operating.md#when-logins-fail). For `server_login_retry` it is told at once; \
             meanwhile Weir tries again.",
        ),
        server(
            Fault::ServerLost,
            "The server was lost while it worked for this client.",
            "Whether a COMMIT in flight was done is not known. PostgreSQL's log says why.",
        ),
        server(
            Fault::Cancelled,
            "The client asked to cancel while it waited for a server. The session goes on.",
            "Nothing.",
        ),
    ]
}

fn operator() -> Vec<Sample> {
    let operator = |fault, when, act| sample(Theme::Operator, fault, when, act);
    vec![
        operator(
            Fault::ShuttingDown,
            "Weir stops.",
            "Connect again; another process may be there already.",
        ),
        operator(
            Fault::ServerShuttingDown,
            "The same, for a client that waited for a server.",
            "As above.",
        ),
        operator(
            Fault::AdminShutdown,
            "This session was ended from outside.",
            "Ask the administrator.",
        ),
        operator(
            Fault::DatabaseRemoved,
            "The database is not configured any more, or `KILL` on the console.",
            "Ask the administrator.",
        ),
        operator(
            Fault::DatabaseDisabled("…".to_owned()),
            "`DISABLE` on the console, until `ENABLE`.",
            "Ask the administrator.",
        ),
        operator(
            Fault::SuspendTimeout,
            "`SUSPEND` on the console, and the client did not take within `suspend_timeout` what was to be sent.",
            "Connect again.",
        ),
        operator(
            Fault::DatabaseChanged,
            "In session pooling with `server_fast_close`: a reload leads the database elsewhere.",
            "Connect again.",
        ),
    ]
}

fn state() -> Vec<Sample> {
    let state = |fault, when, act| sample(Theme::State, fault, when, act);
    vec![
        state(
            Fault::StateRefused(Reasons::of(Reason::TemporaryObject)),
            "A statement would leave on its server what cannot follow the client (`session_state = refuse`). The \
             session goes on.",
            "[Session state](../guide/session-state.md).",
        ),
        state(
            Fault::SequenceRefused,
            "A statement reads what a sequence gave its session (`sequence_values = refuse`). The session goes on.",
            "`INSERT ... RETURNING`; or [another value](../internals/decisions/sequence-values.md) of the option.",
        ),
        state(
            Fault::StatementMode,
            "A transaction block in statement pooling.",
            "`pool_mode = transaction`.",
        ),
        state(
            Fault::Unsayable("…".to_owned()),
            "A setting that follows the client cannot be said to a server: it is longer than a message.",
            "Set less.",
        ),
    ]
}

fn protocol() -> Vec<Sample> {
    let protocol = |fault, when| sample(Theme::Protocol, fault, when, BROKEN);
    let version = |major| {
        let minor = 0;
        Fault::Startup(StartupError::UnsupportedVersion { major, minor })
    };
    let unknown = FrameError::UnknownTag {
        tag: b'x',
        side: Side::Frontend,
    };
    vec![
        protocol(version(2), "A client of before 2003."),
        protocol(version(9), "Another protocol, such as HTTP."),
        protocol(
            Fault::Startup(StartupError::BadLayout),
            "The start-up packet ends in the wrong place.",
        ),
        protocol(
            Fault::Startup(StartupError::BadLength { len: 1 }),
            "Its length is impossible.",
        ),
        protocol(
            Fault::StartupEncoding,
            "A name or value in it is not UTF-8.",
        ),
        protocol(
            Fault::UnencryptedData("SSL"),
            "Something came behind the request for TLS, before TLS (CVE-2021-3935).",
        ),
        protocol(
            Fault::UnencryptedData("GSSAPI encryption"),
            "The same behind a request for GSSAPI.",
        ),
        protocol(
            Fault::Protocol(unknown.into()),
            "PostgreSQL knows no such message.",
        ),
        protocol(
            Fault::Protocol(ClientFault::OutOfPlace(b'p')),
            "A message that has no place here.",
        ),
        protocol(
            Fault::Protocol(ClientFault::Malformed(b'P')),
            "A message whose body cannot be read.",
        ),
        sample(
            Theme::Protocol,
            Fault::Protocol(ClientFault::SimpleQuery),
            "A simple query where `disable_pqexec` is on.",
            "Use the extended protocol.",
        ),
    ]
}
