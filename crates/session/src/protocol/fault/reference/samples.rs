//! A sample of each error with its guide. `…` stands for parts of a text that vary.

use std::sync::Arc;
use std::time::Duration;

use weir_auth::login::LoginError;
use weir_rules::{Rejection, Wish};
use weir_sql::{Reason, Reasons};
use weir_wire::frame::{FrameError, Side};
use weir_wire::options::OptionsError;
use weir_wire::startup::StartupError;

use super::{Guide, Theme};
use crate::fault::{Applicant, Credential, Fault};
use crate::own_settings::WrongSetting;
use crate::relay::{ClientFault, full};

const LIMIT: &str = "Raise the option, or find the clients in `SHOW CLIENTS`.";
const BROKEN: &str = "The client is broken or hostile. The log has its address.";

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
        rules(),
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

/// Client whom the rules do not let in.
pub(super) fn applicant() -> Box<Applicant> {
    let part = "…".to_owned();
    Box::new(Applicant {
        host: Some(part.clone()),
        user: part.clone(),
        database: part,
        is_encrypted: false,
        is_physical: false,
    })
}

/// Error of an assignment that is refused.
fn wrong_setting(name: &str, value: &str) -> Fault {
    Fault::WrongSetting(WrongSetting::of(name, value).expect("the value is wrong"))
}

fn logins() -> Vec<Sample> {
    let login = |fault, when, act| sample(Theme::Login, fault, when, act);
    let failed = |credential, when, act| {
        let fault = Fault::AuthenticationFailed(credential, "…".to_owned());
        login(fault, when, act)
    };
    vec![
        failed(
            Credential::Password,
            "Methods `plain`, `md5` and `scram-sha-256`: the password is wrong or expired, the user does not exist, or the method cannot use its stored secret (`scram-sha-256` needs another than an md5 secret).",
            "Compare with `auth_file` or `auth_query`. The text is the same in all cases, so that it does not reveal which users exist.",
        ),
        failed(
            Credential::Ldap,
            "The directory refused the password, or no directory server answered.",
            "Read the log line before this error: it has the reason.",
        ),
        failed(
            Credential::Pam,
            "PAM refused the password.",
            "Read the log line before this error: it has the reason.",
        ),
        failed(
            Credential::Certificate,
            "Method `cert`: the client sent no certificate, the certificate is for another name, or the user is unknown.",
            "Check the certificate ([TLS](../guide/tls.md)) and the map in `auth_ident_file`.",
        ),
        failed(
            Credential::Peer,
            "Method `peer`: the system user has another name, or is unknown.",
            "Check the map in `auth_ident_file`.",
        ),
        failed(
            Credential::Trust,
            "Method `trust`: the user is neither in `auth_file` nor known to `auth_query`.",
            "Add a line `\"name\" \"\"` to `auth_file`.",
        ),
        login(
            Fault::LoginRejected(applicant()),
            "The first matching line of `auth_hba_file` has the method `reject`.",
            "Run `weir hba explain`: it names the line.",
        ),
        login(
            Fault::NoAuthenticationMethod(applicant()),
            "No line of `auth_hba_file` matches this client.",
            "Run `weir hba explain`: it says why each line does not match.",
        ),
        login(
            Fault::TlsRequired,
            "`client_tls_sslmode` requires TLS, and the client does not use it.",
            "Set `sslmode=require` in the client.",
        ),
        login(
            Fault::TooManyFailures,
            "Too many logins from the client's address have failed (`auth_failures_per_minute`).",
            "Find the client that fails: [failed logins](../guide/authentication.md#failed-logins).",
        ),
        login(
            Fault::NoDatabase("…".to_owned()),
            "`[databases]` has no entry of that name and no `*`: only clients that have logged in are told so. With `*`: `auth_query` would run in this database, and PostgreSQL has none of that name.",
            "Add the entry and RELOAD, or create the database. With `auth_dbname`, users are looked up elsewhere.",
        ),
        login(
            Fault::NotAllowed,
            "The client asked for the console, and its user is neither in `admin_users` nor in `stats_users`.",
            "Add the user to one of these options.",
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
            Fault::AuthDatabaseDisabled("…".to_owned()),
            "`DISABLE` on the console was used for the database in which `auth_query` looks the user up.",
            "`ENABLE` on the console.",
        ),
        login(
            Fault::NoUser,
            "The start-up packet names no user.",
            "Set a user in the client.",
        ),
        login(
            Fault::LoginProtocol(LoginError::EmptyPassword),
            "The client sent an empty password.",
            "Set a password in the client. PostgreSQL refuses empty passwords too.",
        ),
        login(
            Fault::LoginProtocol(LoginError::PasswordTooLong),
            "The password has more than 65,530 bytes.",
            BROKEN,
        ),
        login(
            Fault::LookupFailed,
            "No server could run `auth_query`, or its result was not one row of name and secret.",
            "Read the log line before this error: it has the reason.",
        ),
        login(
            misconfigured("bouncer config error"),
            "`auth_type = any` is used for a database without a forced `user`, or LDAP without options.",
            "Set `user=` in the database, or `auth_ldap_options`.",
        ),
        login(
            Fault::TooManyLogins,
            "4,096 logins wait for a helper thread.",
            "LDAP, PAM or DNS is slow, or clients flood Weir with logins. The log has their addresses.",
        ),
        login(
            Fault::NoRandom,
            "The operating system returned an error for a request for random bytes.",
            "Check the machine.",
        ),
        login(
            Fault::Options(unusable),
            "The start-up parameter `options` contains something other than settings.",
            "Pass settings only.",
        ),
        login(
            Fault::ReplicationValue("maybe".to_owned()),
            "The start-up parameter `replication` has a value that PostgreSQL does not accept.",
            "Ask for `true`, `database` or `false`.",
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
            "`max_db_client_connections` clients of the database are connected.",
            LIMIT,
        ),
        limit(
            Fault::TooManyClients("max_user_client_connections"),
            "`max_user_client_connections` clients of the user are connected.",
            LIMIT,
        ),
        limit(
            Fault::TooManyClients("max_pools"),
            "The client needs a new pool, and `max_pools` pools exist.",
            "Look in `SHOW POOLS` for databases (by `*`) or users that are not intended, or raise the option.",
        ),
        limit(
            Fault::TooManyPins("…"),
            "`max_pinned` clients of the pool are pinned already, and this one would be another.",
            "`SHOW PINS` lists pinned clients with the reasons; [session state](../guide/session-state.md) says how to avoid them.",
        ),
        limit(
            Fault::TooManyWaiting,
            "As many clients of the pool wait for a server as `max_waiting` lets wait. The statement did not run; the session continues, and a transaction was not begun.",
            "Try again later, or raise the option. Why they wait: [when clients wait](../guide/operating.md#when-clients-wait).",
        ),
        limit(
            Fault::TooManyChannels,
            "The client listens to 10,000 channels. The session continues.",
            "Listen to fewer channels.",
        ),
        limit(
            Fault::ListenQueueFull("…"),
            "The client is in a transaction or does not read, and the notifications that wait for it exceed \
             `listen_queue_bytes` or `listen_queue_size`; or the client has read nothing for 60 seconds and more than 1 MiB waits.",
            "Read faster, end transactions sooner, or raise the option.",
        ),
        limit(
            Fault::Protocol(ClientFault::TooManyStatements),
            "The client holds 10,000 prepared statements.",
            "Deallocate statements that are no longer used: the client leaks them.",
        ),
        limit(
            Fault::Protocol(ClientFault::TooLong(4_194_304)),
            "The client sent a message longer than `max_packet_size`.",
            "Send less at once, or raise the option.",
        ),
    ]
}

fn times() -> Vec<Sample> {
    let time = |fault, when, act| sample(Theme::Times, fault, when, act);
    vec![
        time(
            Fault::LoginTimeout,
            "The login took longer than `client_login_timeout`, counted from the accept of the connection.",
            "Check whether the client stopped answering, or LDAP, PAM or `auth_query` is slow.",
        ),
        time(
            Fault::LoginTimeoutServerDown,
            "The login took longer than `client_login_timeout` while the client waited for a first server, from which Weir learns the parameters that clients are told.",
            "As for `query_wait_timeout`: [when clients wait](../guide/operating.md#when-clients-wait).",
        ),
        time(
            Fault::QueryWaitTimeout,
            "No server became free within `query_wait_timeout`.",
            "Find out why: [when clients wait](../guide/operating.md#when-clients-wait).",
        ),
        time(
            Fault::QueryWaitTimeoutServerDown("server login failed: FATAL …".to_owned()),
            "No server became free within `query_wait_timeout`, because PostgreSQL was starting up, shutting down or out of connections. The DETAIL quotes PostgreSQL: `server login failed: FATAL …`.",
            "Check PostgreSQL. Raise the option if restarts of PostgreSQL take longer.",
        ),
        time(
            Fault::QueryTimeout,
            "A query ran longer than `query_timeout`. Weir cancels it.",
            "Make the query faster, or raise the option.",
        ),
        time(
            Fault::QueryTimeoutWaiting,
            "A query waited for a server longer than `query_timeout`.",
            "As for `query_wait_timeout`: [when clients wait](../guide/operating.md#when-clients-wait).",
        ),
        time(
            Fault::TransactionTimeout,
            "A transaction was open longer than `transaction_timeout`. PostgreSQL rolls it back.",
            "Make transactions shorter, or raise the option.",
        ),
        time(
            Fault::IdleTransactionTimeout,
            "The client sent nothing within a transaction for `idle_transaction_timeout`. PostgreSQL rolls the transaction back.",
            "Find out why the application holds transactions open.",
        ),
        time(
            Fault::ClientIdleTimeout,
            "The client sent nothing for `client_idle_timeout`.",
            "Connect again.",
        ),
    ]
}

fn servers() -> Vec<Sample> {
    let server = |fault, when, act| sample(Theme::Servers, fault, when, act);
    vec![
        server(
            Fault::ServerUnavailable("connect failed: …".to_owned()),
            "The pool has no server, and the last login to PostgreSQL failed. The cached error has the reason: `connect failed: …`, `connect timeout`, \
             `server DNS lookup failed: …`, `server login failed: …`, `server conn crashed?`, \
             `exec_on_connect query failed`.",
            "Follow [when logins fail](../guide/operating.md#when-logins-fail). For `server_login_retry` new clients get the \
             error at once; meanwhile Weir tries again.",
        ),
        server(
            Fault::NoHost("no replica takes reads".to_owned()),
            "The database has several hosts, and none of them may run the transaction: no primary was found within `failover_hold`, or no \
             replica qualifies and `read_fallback = error`. Only databases with `replicas` have this error.",
            "`SHOW HOSTS` has the state of each host and the reason for it.",
        ),
        server(
            Fault::ServerLost,
            "The server connection was lost while it worked for this client. Nothing of the client's transaction was committed.",
            "PostgreSQL's log has the reason. The transaction can be repeated.",
        ),
        server(
            Fault::OutcomeUnknown,
            "The server connection was lost before the answer to a COMMIT, or to a request outside of a transaction block.",
            "PostgreSQL's log has the reason. The request may or may not have been executed: check before you repeat it.",
        ),
        server(
            Fault::TransactionLost,
            "The server was lost in a transaction block, and `keep_client` keeps the session. Nothing of the transaction was committed.",
            "Roll back and run the transaction again. Many drivers and frameworks do so by themselves.",
        ),
        server(
            Fault::BlockFailed,
            "A request in such a block, before its ROLLBACK.",
            "Send ROLLBACK, as after any error in a transaction block.",
        ),
        server(
            Fault::Cancelled,
            "The client cancelled its query while it waited for a server. The session continues.",
            "No action is needed.",
        ),
    ]
}

fn operator() -> Vec<Sample> {
    let operator = |fault, when, act| sample(Theme::Operator, fault, when, act);
    vec![
        operator(
            Fault::ShuttingDown,
            "Weir shuts down.",
            "Connect again. Another process may listen already.",
        ),
        operator(
            Fault::ServerShuttingDown,
            "Weir shuts down, and the client waited for a server.",
            "Connect again. Another process may listen already.",
        ),
        operator(
            Fault::AdminShutdown,
            "The administrator ran `KILL_CLIENT`, or a cancel request named this client during its login.",
            "Ask the administrator.",
        ),
        operator(
            Fault::DatabaseRemoved,
            "A reload removed the database, or the administrator ran `KILL`.",
            "Ask the administrator.",
        ),
        operator(
            Fault::DatabaseDisabled("…".to_owned()),
            "The administrator ran `DISABLE`; `ENABLE` ends it.",
            "Ask the administrator.",
        ),
        operator(
            Fault::SuspendTimeout,
            "The administrator ran `SUSPEND`, and the client did not read its pending data within `suspend_timeout`.",
            "Connect again.",
        ),
        operator(
            Fault::DatabaseChanged,
            "Session pooling with `server_fast_close`: a reload pointed the database at another server.",
            "Connect again.",
        ),
    ]
}

fn state() -> Vec<Sample> {
    let state = |fault, when, act| sample(Theme::State, fault, when, act);
    vec![
        state(
            Fault::StateRefused(Reasons::of(Reason::TemporaryObject)),
            "The statement would leave state on its server that cannot follow the client (`session_state = refuse`). The \
             session continues.",
            "Change the statement, or the policy: [session state](../guide/session-state.md).",
        ),
        state(
            wrong_setting("weir.role", "…"),
            "The statement gives a setting of Weir a value that it does not have. Databases with replicas only. The session \
             continues.",
            "Use one of the values: [replicas](../guide/replicas.md).",
        ),
        state(
            wrong_setting("weir.…", ""),
            "The statement sets a name that begins with `weir.` and that Weir does not know. Databases with replicas only. The \
             session continues.",
            "Use another prefix for settings of the application.",
        ),
        state(
            wrong_setting("weir.lsn", ""),
            "The statement sets `weir.lsn`, which Weir gives to the session. The session continues.",
            "Set `weir.min_lsn` to read what another session has written.",
        ),
        state(
            Fault::SequenceRefused,
            "The statement reads a sequence value of its session (`sequence_values = refuse`). The session continues.",
            "Use `INSERT ... RETURNING`, or [another value](../internals/decisions/sequence-values.md) of the option.",
        ),
        state(
            Fault::StatementMode,
            "The client began a transaction block in statement pooling.",
            "Set `pool_mode = transaction`.",
        ),
        state(
            Fault::Unsayable("…".to_owned()),
            "A setting of the client is longer than a message, so Weir cannot send it to a server.",
            "Use a shorter value.",
        ),
    ]
}

fn rules() -> Vec<Sample> {
    let state = |fault, when, act| sample(Theme::State, fault, when, act);
    vec![
        state(
            Fault::Rejected(Arc::new(Rejection {
                rule: "NAME".into(),
                message: "statement rejected by rule NAME".to_owned(),
                code: *b"42501",
                hint: String::new(),
            })),
            "A [query rule](../guide/rules.md) rejects the statement; message, SQLSTATE and hint are the rule's own, if it has \
             any. The session continues; a transaction fails as after any other error.",
            "Ask whoever has made the rule: `SHOW RULES`.",
        ),
        state(
            Fault::Rejected(Arc::new(Rejection {
                rule: "statement_policy".into(),
                message: "statement is not in the list of user NAME".to_owned(),
                code: *b"42501",
                hint: String::new(),
            })),
            "The user may run [listed statements](../guide/rules.md#allow-list) only (`statement_policy = enforce`), and this is \
             another one. So are function calls of the protocol, statements above 1 MiB, and some that were prepared before the \
             list was enforced; the message says so. The session continues; a transaction fails as after any other error.",
            "Review the statement, and add it to the user's file in `statement_list_dir`.",
        ),
        state(
            Fault::Rejected(full(&"NAME".into(), 5)),
            "As many statements run as a [query rule](../guide/rules.md) lets run at once. Outside of a transaction the client has \
             waited for `query_wait_timeout`, or `max_waiting` others wait. The session continues; a transaction fails as after \
             any other error.",
            "Try again later.",
        ),
        state(
            Fault::RuleTimeout(Wish {
                rule: "NAME".into(),
                value: Duration::from_secs(2),
            }),
            "The statement ran for longer than a [query rule](../guide/rules.md) lets it run (`timeout`), and was cancelled. The \
             session continues; a transaction fails as after any other error.",
            "Make the statement faster, or change the rule.",
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
        protocol(
            version(2),
            "The client speaks protocol 2, which PostgreSQL 7.4 replaced in 2003.",
        ),
        protocol(
            version(9),
            "The client speaks another protocol, such as HTTP.",
        ),
        protocol(
            Fault::Startup(StartupError::BadLayout),
            "The start-up packet does not end with its terminator.",
        ),
        protocol(
            Fault::Startup(StartupError::BadLength { len: 1 }),
            "The length of the start-up packet is impossible.",
        ),
        protocol(
            Fault::StartupEncoding,
            "A name or value in the start-up packet is not UTF-8.",
        ),
        protocol(
            Fault::UnencryptedData("SSL"),
            "Bytes followed the request for TLS in clear text (CVE-2021-3935).",
        ),
        protocol(
            Fault::UnencryptedData("GSSAPI encryption"),
            "Bytes followed the request for GSSAPI encryption in clear text.",
        ),
        protocol(
            Fault::Protocol(unknown.into()),
            "PostgreSQL's protocol has no message of this type.",
        ),
        protocol(
            Fault::Protocol(ClientFault::OutOfPlace(b'p')),
            "The client sent a message that is not allowed at this point.",
        ),
        protocol(
            Fault::Protocol(ClientFault::Malformed(b'P')),
            "The body of a message cannot be decoded.",
        ),
        sample(
            Theme::Protocol,
            Fault::Protocol(ClientFault::SimpleQuery),
            "The client sent a simple query, and `disable_pqexec` is on.",
            "Use the extended protocol.",
        ),
    ]
}
