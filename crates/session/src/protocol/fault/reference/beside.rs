//! Code of each error beside the one that PostgreSQL has for the same event, and what drivers make of a code.

use weir_auth::login::LoginError;
use weir_wire::sqlstate::SqlState;
use weir_wire::startup::StartupError;

use crate::fault::{Credential, Fault};
use crate::relay::ClientFault;

/// Reason for the code of an error.
pub(super) struct Beside {
    /// PostgreSQL's code for the same event, with words if it is not told to the client in the same way; empty if
    /// PostgreSQL has no such event.
    pub(super) postgresql: &'static str,
    /// Why Weir's code is the right one; empty if it is PostgreSQL's for the same event.
    pub(super) why: &'static str,
}

/// Returns PostgreSQL's code for the event of an error, and the reason for Weir's.
#[expect(clippy::too_many_lines, reason = "a flat table, one row per error")]
pub(super) fn beside(fault: &Fault) -> Beside {
    let same = |postgresql| Beside {
        postgresql,
        why: "",
    };
    let own = |why| Beside {
        postgresql: "",
        why,
    };
    let other = |postgresql, why| Beside { postgresql, why };
    match fault {
        Fault::AdminShutdown => same("57P01 (`pg_terminate_backend`)"),
        Fault::AuthDatabaseDisabled(_) | Fault::DatabaseDisabled(_) => {
            same("55000 (`ALLOW_CONNECTIONS false`)")
        }
        Fault::AuthenticationFailed(Credential::Ldap | Credential::Pam, _) => other(
            "28000",
            "28P01, as for other wrong passwords: drivers ask for one",
        ),
        Fault::AuthenticationFailed(Credential::Password, _) => same("28P01"),
        Fault::AuthenticationFailed(Credential::Trust, _) => {
            same("28000 (`role \"…\" does not exist`)")
        }
        Fault::AuthenticationFailed(..) => same("28000"),
        Fault::BlockFailed => same("25P02"),
        Fault::Cancelled => same("57014"),
        Fault::ClientIdleTimeout => same("57P05 (`idle_session_timeout`)"),
        Fault::DatabaseChanged | Fault::SuspendTimeout => {
            own("an operator's order ends the session; the next connection works")
        }
        Fault::DatabaseRemoved => same("57P01 (`DROP DATABASE … WITH (FORCE)`)"),
        Fault::IdleTransactionTimeout => same("25P03"),
        Fault::ListenQueueFull(_) => {
            own("a limit of the configuration; PostgreSQL keeps notifications in a file")
        }
        Fault::LoginProtocol(LoginError::EmptyPassword) => same("28P01"),
        Fault::LoginProtocol(_) => same("08P01"),
        Fault::LoginRejected(_) | Fault::NoAuthenticationMethod(_) => same("28000"),
        Fault::LoginTimeout => same("57014 (its log; the client is told nothing)"),
        Fault::LoginTimeoutServerDown => {
            own("libpq and pgx go to their next host; an error of class 28 would stop them")
        }
        Fault::LookupFailed => own(
            "the password was not looked at, so class 28 would be wrong; libpq and pgx go to their next host",
        ),
        Fault::Misconfigured(_) => same("F0000 (`pg_hba.conf` cannot be read)"),
        Fault::NoDatabase(_) => same("3D000"),
        Fault::NoHost(_) => own("the same as 57P03 of a server in recovery"),
        Fault::NoRandom => other("XX000", "the system has failed, not the program"),
        Fault::NotAllowed => same("42501 (`CONNECT` privilege)"),
        Fault::NoUser => same("28000"),
        Fault::Options(_) => same("42601"),
        Fault::OutcomeUnknown => own("08006 would say that nothing was committed"),
        Fault::Protocol(ClientFault::SimpleQuery) => own("a message that is not allowed here"),
        Fault::Protocol(ClientFault::TooLong(_)) => other(
            "08P01 (`invalid message length`)",
            "the message is right and over a limit of the configuration",
        ),
        Fault::Protocol(ClientFault::TooManyStatements) | Fault::TooManyChannels => {
            own("a limit; PostgreSQL's is its memory (53200)")
        }
        Fault::Protocol(_) => same("08P01"),
        Fault::QueryTimeout => same("57014 (`statement_timeout`, as ERROR)"),
        Fault::QueryTimeoutWaiting => own("the same limit as `query timeout`"),
        Fault::QueryWaitTimeout | Fault::QueryWaitTimeoutServerDown(_) => {
            own("as PostgreSQL's `too many clients already`: no connection was to be had")
        }
        Fault::Rejected(rejection) if rejection.code == *b"42501" => {
            own("as for a privilege that is missing; a rule may have its own code")
        }
        Fault::Rejected(_) => own("a limit of the configuration; a rule may have its own code"),
        Fault::ReplicationValue(_) => same("22023"),
        Fault::RuleTimeout(_) => same("57014 (`statement_timeout`)"),
        Fault::SequenceRefused | Fault::StateRefused(_) => {
            own("as for what a hot standby or a prepared transaction cannot do")
        }
        Fault::ServerLost => {
            own("what libpq says when a server vanishes has no code; drivers use 08006")
        }
        Fault::ServerShuttingDown | Fault::ShuttingDown => same("57P01"),
        Fault::ServerUnavailable(_) => own("what drivers use when a server refuses the connection"),
        Fault::Startup(StartupError::UnsupportedVersion { .. }) => same("0A000"),
        Fault::Startup(_) | Fault::StartupEncoding | Fault::UnencryptedData(_) => same("08P01"),
        Fault::StatementMode => own("no retry helps, so it must not look like a lost connection"),
        Fault::TlsRequired => same("28000 (`no pg_hba.conf entry … no encryption`)"),
        Fault::TooManyClients(_) => same("53300"),
        Fault::TooManyFailures => own("a login is refused; a driver must not try again at once"),
        Fault::TooManyLogins => own("as for too many clients"),
        Fault::TooManyWaiting => own("as for `query_wait_timeout`, which comes later"),
        Fault::TooManyPins(_) => own("a limit of the configuration"),
        Fault::TransactionLost => own("frameworks repeat a transaction after 40001"),
        Fault::TransactionTimeout => same("25P04"),
        Fault::Unsayable(_) => same("22023"),
        Fault::WrongSetting(wrong) => match wrong.code() {
            SqlState::INVALID_NAME => same("42602"),
            SqlState::CANT_CHANGE_RUNTIME_PARAM => same("55P02"),
            _ => same("22023"),
        },
    }
}

/// Effect of one code on drivers. The suite `error_classes` asks the drivers themselves.
pub(super) struct Reaction {
    /// SQLSTATE.
    pub(super) code: &'static str,
    /// Class of the exception in psycopg; those of psycopg2, SQLAlchemy and Django have the same name.
    pub(super) psycopg: &'static str,
    /// Says if pgx goes to the next host of its list after this error of a login; empty if not.
    pub(super) next_host: &'static str,
    /// True if HikariCP closes the connection that has met this error, also if it is an ERROR.
    pub(super) evicts: bool,
}

/// Returns the codes of Weir's errors, in order.
pub(super) fn reactions() -> Vec<Reaction> {
    let rows = [
        ("08001", "OperationalError", "yes", true),
        ("08006", "OperationalError", "yes", true),
        ("08007", "OperationalError", "yes", true),
        ("08P01", "OperationalError", "yes", true),
        ("0A000", "NotSupportedError", "yes", true),
        ("22023", "DataError", "yes", false),
        ("25P02", "InternalError", "yes", false),
        ("25P03", "InternalError", "yes", false),
        ("25P04", "InternalError", "yes", false),
        ("28000", "OperationalError", "without TLS", false),
        ("28P01", "OperationalError", "", false),
        ("3D000", "ProgrammingError", "", false),
        ("40001", "OperationalError", "yes", false),
        ("42501", "ProgrammingError", "", false),
        ("42601", "ProgrammingError", "yes", false),
        ("42602", "ProgrammingError", "yes", false),
        ("53300", "OperationalError", "yes", false),
        ("53400", "OperationalError", "yes", false),
        ("54000", "OperationalError", "yes", false),
        ("55000", "OperationalError", "yes", false),
        ("55P02", "OperationalError", "yes", false),
        ("57014", "OperationalError", "yes", false),
        ("57P01", "OperationalError", "yes", true),
        ("57P03", "OperationalError", "yes", true),
        ("57P05", "OperationalError", "yes", false),
        ("58000", "OperationalError", "yes", false),
        ("F0000", "OperationalError", "yes", false),
    ];
    rows.map(|(code, psycopg, next_host, evicts)| Reaction {
        code,
        psycopg,
        next_host,
        evicts,
    })
    .into()
}
