//! Reasons of differences, in the words of the changelog.

pub(super) const CODES: &str =
    "Errors have PostgreSQL's codes where PgBouncer sends 08P01 for most.";
pub(super) const COLUMNS: &str = "Columns and rows of later versions follow those of the chosen version, and Weir's own come last.";
pub(super) const CRASHED: &str =
    "A client whose server ends with a FATAL error gets that error alone.";
pub(super) const DRAIN: &str = "SIGINT, SIGTERM and `SHUTDOWN WAIT_FOR_SERVERS` let transactions, and sessions in session pooling, go on";
pub(super) const EMPTY: &str =
    "An empty query to the console is answered as by PostgreSQL, so that drivers can ping it.";
pub(super) const FDS: &str = "`SHOW FDS` is refused, as PgBouncer 1.26 will have none: `weir upgrade` hands connections over.";
pub(super) const KEEPS: &str =
    "In transaction pooling a client that holds what cannot move keeps its server";
pub(super) const LISTED: &str =
    "`SHOW CONFIG` and `SHOW HELP` list Weir's own options and commands, too.";
pub(super) const LOGINS: &str = "Refused logins are told in PostgreSQL's words";
pub(super) const MEM: &str = "`SHOW MEM` has the kinds of objects that Weir keeps";
pub(super) const MESSAGES: &str =
    "The console answers a message that it does not support with an error and goes on.";
pub(super) const NAMES: &str = "The console has two names, `pgbouncer` and `weir`. It understands the extended protocol, and more settings that drivers make";
pub(super) const NEWEST: &str = "Commands, options, defaults, signals, exit codes, log lines and texts are those of the newest PgBouncer, whichever version it names.";
pub(super) const NO_PACKET: &str = "Bytes that cannot be a start-up packet (a wrong length) are closed without an answer, as by PostgreSQL.";
pub(super) const PROTOCOL: &str = "Faults of the protocol are told in PostgreSQL's words";
pub(super) const PROTOCOL_3_2: &str = "Clients may speak protocol 3.2, with longer cancel keys, and ask for extensions that Weir does not have.";
pub(super) const RELOADED: &str =
    "A file with a mistake or an unknown option is refused whole by RELOAD";
pub(super) const SET_FAILED: &str = "`SET failed` is followed by the reason.";
pub(super) const SET_RESTART: &str = "A SET of an option that needs a restart is refused, where PgBouncer accepts it without effect.";
pub(super) const SHUT: &str = "`SHUTDOWN` is answered before the connection ends, so that psql does not report a lost connection.";
pub(super) const START_UP: &str = "Start-up parameters that PgBouncer refuses (`unsupported startup parameter`) are applied to the client's session";
