//! The admin console: SHOW and commands, PgBouncer's words and columns.
