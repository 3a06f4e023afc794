//! `pgbouncer_compat`: the version of PgBouncer whose console Weir shows.

use std::collections::HashMap;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::frontend;
use weir_conformance::tools;
use weir_conformance::wait_until;

use crate::support::PATIENCE;
use crate::support::both;
use crate::support::database;
use crate::support::row;

/// Number that a console greets with.
fn greeting(port: u16) -> Result<String> {
    let mut raw = Raw::tcp(port, PATIENCE)?;
    let startup = [("user", "postgres"), ("database", "pgbouncer")];
    raw.send(&frontend::startup(frontend::VERSION_3_0, &startup))?;
    let messages = raw.read_until_ready()?;
    let mut statuses = messages.iter().filter(|message| message.tag == b'S');
    let found = statuses.find_map(|status| {
        let mut parts = status.body.split(|byte| *byte == 0);
        let is_it = parts.next() == Some(&b"server_version"[..]);
        is_it.then(|| String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned())
    });
    found.context("no server_version")
}

/// Place of a column of SHOW CLIENTS.
fn place(console: &mut Raw, column: &str) -> Result<usize> {
    let messages = console.ask(&frontend::query("SHOW CLIENTS"))?;
    let names = messages.first().context("no answer")?.column_names()?;
    let found = names.iter().position(|name| name == column);
    found.with_context(|| format!("no {column} in {names:?}"))
}

#[test]
fn a_reload_shows_the_console_of_another_version() -> Result<()> {
    let postgres = database("drop_compat")?;
    let config = Config::to(postgres.port());
    let mut weir = Weir::start(&config)?;
    let mut console = weir.connect("pgbouncer")?;
    ensure!(console.query_one("SHOW VERSION")? == "PgBouncer 1.25.2");
    ensure!(greeting(weir.port())? == "1.25.2/bouncer");
    ensure!(place(&mut console, "replication")? == 3);
    weir.reload(&config.clone().set("pgbouncer_compat", "1.18"))?;
    wait_until("the other version", PATIENCE, || {
        Ok(console.query_one("SHOW VERSION")? == "PgBouncer 1.18.0")
    })?;
    ensure!(greeting(weir.port())? == "1.18.0/bouncer");
    ensure!(place(&mut console, "replication")? == 18);
    console.query("SET pgbouncer_compat = '1.23'")?;
    ensure!(console.query_one("SHOW VERSION")? == "PgBouncer 1.23.1");
    let own = row(&mut console, "SHOW STATE", "key", "weir_version")?;
    ensure!(own.is_some_and(|row| row["value"] == env!("CARGO_PKG_VERSION")));
    weir.check_healthy()?;
    let mut unknown = Weir::spawn(&config.set("pgbouncer_compat", "1.17"), tools::free_port()?)?;
    ensure!(!unknown.wait_exit(PATIENCE)?.success());
    let log = unknown.log();
    ensure!(
        log.contains("pgbouncer_compat") && log.contains("1.18"),
        "{log}"
    );
    Ok(())
}

/// Row of the console's own database in a table of statistics.
fn own(console: &mut Raw, table: &str) -> Result<HashMap<String, String>> {
    row(console, table, "database", "pgbouncer")?.context("no row of the console")
}

#[test]
fn sessions_of_the_console_count_as_in_pgbouncer() -> Result<()> {
    let postgres = database("drop_compat_counts")?;
    let config = Config::to(postgres.port()).set("pgbouncer_compat", "1.18");
    both(&config, |pooler| {
        for _ in 0..3 {
            let mut console = pooler.connect("pgbouncer")?;
            console.query("SHOW VERSION")?;
            console.query("SHOW VERSION")?;
        }
        // A session without a query does not count.
        let _silent = pooler.connect("pgbouncer")?;
        let mut console = pooler.connect("pgbouncer")?;
        let stats = own(&mut console, "SHOW STATS")?;
        for (column, value) in [
            ("total_xact_count", "4"),
            ("total_query_count", "4"),
            ("total_received", "0"),
            ("total_sent", "0"),
            ("total_query_time", "0"),
        ] {
            ensure!(stats[column] == value, "{column}: {stats:?}");
        }
        let totals = own(&mut console, "SHOW STATS_TOTALS")?;
        ensure!(totals["xact_count"] == "4", "{totals:?}");
        let all = row(&mut console, "SHOW TOTALS", "name", "total_query_count")?;
        ensure!(all.is_some_and(|row| row["value"] == "4"));
        Ok(())
    })
}

#[test]
fn clients_of_the_console_have_their_application_name() -> Result<()> {
    let postgres = database("drop_compat_name")?;
    let config = Config::to(postgres.port());
    both(&config, |pooler| {
        let startup = [
            ("user", "postgres"),
            ("database", "pgbouncer"),
            ("application_name", "drop_watch"),
        ];
        let mut console = Raw::connect_with(pooler.port(), &startup)?;
        let client = row(&mut console, "SHOW CLIENTS", "database", "pgbouncer")?;
        let name = client.map(|client| client["application_name"].clone());
        ensure!(name.as_deref() == Some("drop_watch"), "{name:?}");
        Ok(())
    })
}
