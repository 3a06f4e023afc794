//! Activities of clients and reasons of their waits, as SHOW CLIENTS and SHOW WAITS tell them.

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::frontend;
use weir_conformance::wait_until;

use crate::support::PATIENCE;
use crate::support::Stage;

/// Waits until the clients of the database have these activities, in the order of their ids.
fn wait_activities(stage: &mut Stage, wanted: &[&str]) -> Result<()> {
    let mut last = Vec::new();
    let reached = wait_until(&format!("{wanted:?}"), PATIENCE, || {
        let mut rows = stage.admin.query_named("SHOW CLIENTS")?;
        rows.retain(|row| row["database"] == stage.database);
        rows.sort_by_key(|row| row["id"].parse::<u64>().unwrap_or_default());
        last = rows
            .iter()
            .map(|row| row["activity"].clone())
            .collect::<Vec<_>>();
        Ok(last == wanted)
    });
    reached.map_err(|error| error.context(format!("last seen {last:?}")))
}

fn check_wait(stage: &Stage, reason: &str, clients: &str) -> Result<()> {
    let database = stage.database;
    stage.wait("SHOW WAITS", database, "reason", reason)?;
    stage.wait("SHOW WAITS", database, "clients", clients)
}

#[test]
fn a_full_pool_of_open_transactions_is_told_by_both_tables() -> Result<()> {
    let mut stage = Stage::with("con_waits", |config| config.set("default_pool_size", "1"))?;
    let (mut holder, mut other, mut third) = (stage.client()?, stage.client()?, stage.client()?);
    holder.query("begin")?;
    wait_activities(&mut stage, &["idle in transaction", "idle", "idle"])?;
    other.send(&frontend::query("select 1"))?;
    third.send(&frontend::query("select 1"))?;
    wait_activities(&mut stage, &["idle in transaction", "waiting", "waiting"])?;
    check_wait(&stage, "pool full", "2")?;
    holder.send(&frontend::query(
        "select pg_advisory_xact_lock(26), pg_sleep(3600)",
    ))?;
    wait_activities(&mut stage, &["in query", "waiting", "waiting"])?;
    let ended = stage.cancel_backends()?;
    ensure!(ended == "1", "{ended} backends were cancelled");
    holder.read_until_ready()?;
    holder.query("rollback")?;
    other.read_until_ready()?;
    third.read_until_ready()?;
    wait_activities(&mut stage, &["idle", "idle", "idle"])?;
    ensure!(stage.admin.query_named("SHOW WAITS")?.is_empty());
    stage.weir.check_healthy()
}

#[test]
fn limits_pauses_and_pins_have_their_words() -> Result<()> {
    let mut stage = Stage::with("con_waits_limit", |config| {
        config.set("max_db_connections", "1")
    })?;
    let (mut holder, mut other) = (stage.client()?, stage.client()?);
    holder.query("create temp table held (a int)")?;
    wait_activities(&mut stage, &["pinned", "idle"])?;
    other.send(&frontend::query("select 1"))?;
    check_wait(&stage, "database limit", "1")?;
    holder.query("drop table held")?;
    drop(holder);
    other.read_until_ready()?;
    let database = stage.database;
    stage.order(&format!("PAUSE {database}"))?;
    other.send(&frontend::query("select 1"))?;
    check_wait(&stage, "paused", "1")?;
    stage.order(&format!("RESUME {database}"))?;
    other.read_until_ready()?;
    wait_activities(&mut stage, &["idle"])?;
    stage.weir.check_healthy()
}

#[test]
fn in_session_pooling_a_client_that_rests_is_pinned_by_it() -> Result<()> {
    let mut stage = Stage::with("con_waits_session", |config| {
        config.set("pool_mode", "session")
    })?;
    let mut client = stage.client()?;
    client.query("select 1")?;
    wait_activities(&mut stage, &["pinned"])?;
    let database = stage.database;
    stage.wait("SHOW PINS", database, "reason", "session pooling")?;
    client.query("begin")?;
    wait_activities(&mut stage, &["idle in transaction"])?;
    stage.weir.check_healthy()
}
