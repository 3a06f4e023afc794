//! Helpers of the drop-in tests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Weir;

/// Time limit, generous because the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a test with PgBouncer, then with Weir.
pub(crate) fn both(config: &Config, test: impl Fn(&Weir) -> Result<()>) -> Result<()> {
    let pgbouncer = Weir::start_pgbouncer(config)?;
    test(&pgbouncer).context("PgBouncer")?;
    drop(pgbouncer);
    let mut weir = Weir::start(config)?;
    test(&weir).context("Weir")?;
    weir.check_healthy()
}

/// Creates a database of the shared cluster, which runs as long as the test holds it.
pub(crate) fn database(name: &str) -> Result<Arc<Postgres>> {
    let postgres = Postgres::shared()?;
    postgres.create_database(name)?;
    Ok(postgres)
}

/// Creates a role that may log in, unless it exists.
pub(crate) fn role(port: u16, name: &str) -> Result<()> {
    let mut direct = Raw::connect(port, "postgres")?;
    let sql = format!(
        "do $$ begin create role {name} login; exception when duplicate_object or unique_violation then null; end $$"
    );
    direct.query(&sql).map(drop)
}

/// Error of a login that must fail.
pub(crate) fn refusal<T>(login: Result<T>) -> String {
    login
        .err()
        .map_or_else(String::new, |error| error.to_string())
}

/// Row of a console's table with this value in this column.
pub(crate) fn row(
    console: &mut Raw,
    sql: &str,
    column: &str,
    value: &str,
) -> Result<Option<HashMap<String, String>>> {
    let rows = console.query_named(sql)?;
    let mut rows = rows.into_iter();
    Ok(rows.find(|row| row.get(column).is_some_and(|found| found == value)))
}
