//! Monitoring tools read the console unchanged: the queries of pgbouncer_exporter and of check_postgres, and the
//! columns that they read by name.

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;

use crate::support::Stage;

/// Queries of `pgbouncer_exporter`, each with the columns that become labels and those that become numbers.
const EXPORTER: [(&str, &[&str], &[&str]); 3] = [
    (
        "SHOW DATABASES;",
        &[
            "name",
            "host",
            "port",
            "database",
            "force_user",
            "pool_mode",
        ],
        &[
            "pool_size",
            "reserve_pool_size",
            "min_pool_size",
            "max_connections",
            "current_connections",
            "max_client_connections",
            "current_client_connections",
            "paused",
            "disabled",
        ],
    ),
    (
        "SHOW POOLS;",
        &["database", "user", "pool_mode"],
        &[
            "cl_active",
            "cl_active_cancel_req",
            "cl_waiting",
            "cl_waiting_cancel_req",
            "sv_active",
            "sv_active_cancel",
            "sv_being_canceled",
            "sv_idle",
            "sv_used",
            "sv_tested",
            "sv_login",
            "maxwait",
            "maxwait_us",
        ],
    ),
    (
        "SHOW STATS;",
        &["database"],
        &[
            "total_query_count",
            "total_query_time",
            "total_received",
            "total_requests",
            "total_sent",
            "total_wait_time",
            "total_xact_count",
            "total_xact_time",
            "total_client_parse_count",
            "total_server_parse_count",
            "total_bind_count",
            "total_server_assignment_count",
        ],
    ),
];

/// Column of PgBouncer before 1.8, which current versions do not have either.
const LONG_GONE: &str = "total_requests";

#[test]
fn the_exporter_reads_its_columns() -> Result<()> {
    let mut stage = Stage::new("con_exporter")?;
    stage.client()?.query("select 1")?;
    for (sql, labels, numbers) in EXPORTER {
        let rows = stage.admin.query_named(sql)?;
        ensure!(rows.len() == 2, "{sql}: {rows:?}");
        for row in &rows {
            for label in labels {
                ensure!(row.contains_key(*label), "{sql}: no {label}");
            }
            for number in numbers.iter().filter(|number| **number != LONG_GONE) {
                let value = row.get(*number);
                let value = value.with_context(|| format!("{sql}: no {number}"))?;
                value
                    .parse::<f64>()
                    .with_context(|| format!("{sql}: {number} = {value}"))?;
            }
        }
    }
    for (sql, first, second, keys) in [
        (
            "SHOW LISTS;",
            "list",
            "items",
            &[
                "databases",
                "users",
                "pools",
                "free_clients",
                "used_clients",
                "login_clients",
                "free_servers",
                "used_servers",
                "dns_names",
                "dns_zones",
                "dns_queries",
                "dns_pending",
            ][..],
        ),
        (
            "SHOW CONFIG;",
            "key",
            "value",
            &[
                "max_client_conn",
                "max_user_connections",
                "default_pool_size",
            ][..],
        ),
    ] {
        let rows = stage.admin.query_named(sql)?;
        for key in keys {
            let row = rows
                .iter()
                .find(|row| row.get(first).is_some_and(|name| name == key));
            let value = row.and_then(|row| row.get(second));
            let value = value.with_context(|| format!("{sql}: no {key}"))?;
            value
                .parse::<u64>()
                .with_context(|| format!("{sql}: {key} = {value}"))?;
        }
    }
    // The exporter looks for the first number in it.
    let version = stage.admin.query_one("SHOW VERSION;")?;
    ensure!(version.starts_with("PgBouncer 1."), "{version}");
    Ok(())
}

/// `check_postgres.pl --action=pgb_pool_*` and `pgbouncer_backends` read tables of psql by the position of a column.
#[test]
fn checks_find_columns_in_their_places() -> Result<()> {
    let stage = Stage::new("con_checks")?;
    stage.client()?.query("select 1")?;
    let ask = |sql: &str| -> Result<Vec<Vec<String>>> {
        let mut psql = weir_conformance::psql::psql(stage.weir.port(), "pgbouncer")?;
        let output = weir_conformance::tools::run(psql.args(["-A", "-t", "-q", "-c", sql]))?;
        let rows = output.lines();
        Ok(rows
            .map(|row| row.split('|').map(str::to_owned).collect())
            .collect())
    };
    let pools = ask("SHOW POOLS")?;
    let pool = pools
        .iter()
        .find(|row| row.first().is_some_and(|name| name == "con_checks"));
    let pool = pool.context("no pool")?;
    // Columns database, user, cl_active, cl_waiting: one client was there and may be gone, none waits.
    ensure!(
        pool.get(1).is_some_and(|user| user == "postgres"),
        "{pool:?}"
    );
    ensure!(
        pool.get(3).is_some_and(|waiting| waiting == "0"),
        "{pool:?}"
    );
    // Columns maxwait, maxwait_us, pool_mode.
    ensure!(pool.get(13).is_some_and(|wait| wait == "0"), "{pool:?}");
    ensure!(
        pool.get(15).is_some_and(|mode| mode == "transaction"),
        "{pool:?}"
    );
    let config = ask("SHOW CONFIG")?;
    let max = config
        .iter()
        .find(|row| row.first().is_some_and(|key| key == "max_client_conn"));
    ensure!(
        max.and_then(|row| row.get(1))
            .is_some_and(|value| value == "400"),
        "{max:?}"
    );
    Ok(())
}

/// The statistics show one transaction under the name of the database.
#[test]
fn statistics_grow() -> Result<()> {
    let mut stage = Stage::new("con_stats")?;
    let mut client = stage.client()?;
    let mut last = 0;
    for _ in 0..3 {
        client.query("select 1")?;
        let count = stage.value("SHOW STATS", "con_stats", "total_query_count")?;
        let count = count.parse::<u64>()?;
        ensure!(count == last + 1, "{count} after {last}");
        last = count;
    }
    ensure!(stage.value("SHOW LISTS", "used_clients", "items")? == "2");
    Ok(())
}
