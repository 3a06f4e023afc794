//! SQL of a probe: one statement, one round trip, one row of [`COLUMNS`] text columns.
//!
//! The statement runs on primaries and standbys of PostgreSQL 13 to 18. Names are qualified and numbers are not
//! formatted, so that no setting of the session changes the answer, except the ones in [`PROBE_SETTINGS`].
//!
//! | column | primary | standby |
//! |---|---|---|
//! | 0 | `f` | `t` |
//! | 1, 2 | flush and insert LSN | NULL |
//! | 3 | name of the current WAL file; its first 8 digits are the timeline | NULL |
//! | 4, 5, 6 | NULL | replay LSN, receive LSN, true if replay is paused |
//! | 7, 8 | NULL | timeline and status of the WAL receiver; NULL without one; NULL and `hidden` without `pg_monitor` |
//! | 9 | start time of the postmaster in microseconds | likewise |
//! | 10 | system identifier and timeline of the last checkpoint, `id/timeline`; NULL if a function is denied | likewise |
//! | 11 | `default_transaction_read_only` | likewise |
//!
//! - **Functions that fail on the other role** stand in `CASE`. `pg_is_in_recovery()` is evaluated once. If a standby is
//!   promoted during the statement, `pg_is_wal_replay_paused()` fails with 55000, and the next probe succeeds.
//! - **The timeline of a primary** is the one of its current WAL file. `pg_control_checkpoint()` shows the old one until
//!   the next checkpoint, so that it only proves a lower limit.
//! - **The replay LSN is read before the receiver's timeline**: the left side of the join comes first. So WAL of a later
//!   timeline is never taken for WAL of the timeline that is shown.
//! - **Denied functions.** PostgreSQL checks the right to execute a function when a plan starts, also in a branch of
//!   `CASE` that is never taken. So the control file is read by a text that `ts_stat` runs only if its branch is taken.
//!   (`query_to_xml` would need a server built with libxml.)

/// Number of columns of the answer.
pub const COLUMNS: usize = 12;

/// Start-up parameters that the connection of a probe needs. A role or database whose default is SERIALIZABLE cannot
/// run any query on a standby (0A000).
pub const PROBE_SETTINGS: [(&str, &str); 1] = [("default_transaction_isolation", "read committed")];

macro_rules! probe {
    ($control:expr) => {
        concat!(
            "SELECT host.recovering,",
            " CASE WHEN NOT host.recovering THEN pg_catalog.pg_current_wal_flush_lsn() END,",
            " CASE WHEN NOT host.recovering THEN pg_catalog.pg_current_wal_insert_lsn() END,",
            " CASE WHEN NOT host.recovering",
            " THEN pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()) END,",
            " CASE WHEN host.recovering THEN host.replayed END,",
            " CASE WHEN host.recovering THEN pg_catalog.pg_last_wal_receive_lsn() END,",
            " CASE WHEN host.recovering THEN pg_catalog.pg_is_wal_replay_paused() END,",
            " receiver.received_tli,",
            " CASE WHEN receiver.pid IS NOT NULL THEN COALESCE(receiver.status, 'hidden') END,",
            " (pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time())",
            " OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8,",
            $control,
            " pg_catalog.current_setting('default_transaction_read_only')",
            " FROM (SELECT pg_catalog.pg_is_in_recovery() AS recovering,",
            " pg_catalog.pg_last_wal_replay_lsn() AS replayed) AS host",
            " LEFT JOIN pg_catalog.pg_stat_wal_receiver AS receiver ON true"
        )
    };
}

/// Returns the statement of a probe. It answers all that [`Answer`](crate::Answer) has.
#[must_use]
pub const fn probe_query() -> &'static str {
    probe!(concat!(
        " CASE WHEN pg_catalog.has_function_privilege(",
        "pg_catalog.to_regprocedure('pg_catalog.pg_control_system()')::pg_catalog.oid, 'EXECUTE')",
        " AND pg_catalog.has_function_privilege(",
        "pg_catalog.to_regprocedure('pg_catalog.pg_control_checkpoint()')::pg_catalog.oid, 'EXECUTE')",
        " THEN (SELECT control.word FROM pg_catalog.ts_stat(",
        "'SELECT pg_catalog.array_to_tsvector(ARRAY[pg_catalog.concat_ws(''/'', s.system_identifier, c.timeline_id)])",
        " FROM pg_catalog.pg_control_system() AS s, pg_catalog.pg_control_checkpoint() AS c') AS control) END,"
    ))
}

/// Returns a cheaper statement with the same columns that does not read the control file: column 10 is NULL. It may take
/// the place of [`probe_query`] on a connection that has answered that one.
#[must_use]
pub const fn sample_query() -> &'static str {
    probe!(" NULL,")
}
