//! Uses of the servers, logins at hosts, events, and conditions that need attention.

use std::collections::HashMap;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Postgres;
use weir_conformance::frontend;
use weir_conformance::wait_until;

use crate::support::PATIENCE;
use crate::support::Stage;

type Row = HashMap<String, String>;

/// Waits for a row of a table, and returns it.
fn row(stage: &mut Stage, sql: &str, is_it: impl Fn(&Row) -> bool) -> Result<Row> {
    let mut found = None;
    let mut last = Vec::new();
    let looked = wait_until(sql, PATIENCE, || {
        last = stage.admin.query_named(sql)?;
        found = last.iter().find(|row| is_it(row)).cloned();
        Ok(found.is_some())
    });
    looked.map_err(|error| error.context(format!("{sql}: last seen {last:?}")))?;
    found.context("no row")
}

fn number(row: &Row, column: &str) -> Result<u64> {
    let value = row.get(column).with_context(|| format!("no {column}"))?;
    Ok(value.parse()?)
}

#[test]
fn work_is_told_by_client_and_by_application() -> Result<()> {
    let mut stage = Stage::new("con_apps")?;
    let database = stage.database;
    let (mut billing, mut report) = (stage.client()?, stage.client()?);
    billing.query("set application_name = 'billing'")?;
    report.query("set application_name = 'report'")?;
    for _ in 0..10 {
        billing.query("select pg_sleep(0.01)")?;
    }
    report.query("select 1")?;
    let of = |name: &'static str| {
        move |row: &Row| row["database"] == database && row["application_name"] == name
    };
    // The SET counts under the name that it gives.
    let busy = row(&mut stage, "SHOW APPLICATIONS", |row| {
        of("billing")(row) && row["transactions"] == "11"
    })?;
    ensure!(number(&busy, "clients")? == 1 && number(&busy, "queries")? == 11);
    ensure!(number(&busy, "transaction_us")? >= 100_000, "{busy:?}");
    ensure!(number(&busy, "share")? > 50, "{busy:?}");
    let client = row(&mut stage, "SHOW CLIENTS", of("billing"))?;
    ensure!(number(&client, "transactions")? == 11, "{client:?}");
    ensure!(number(&client, "transaction_us")? >= 100_000);
    drop(billing);
    let left = row(&mut stage, "SHOW APPLICATIONS", |row| {
        of("billing")(row) && row["clients"] == "0"
    })?;
    ensure!(number(&left, "queries")? == 11, "its counts stay: {left:?}");
    stage.weir.check_healthy()
}

#[test]
fn a_pool_full_of_open_transactions_is_diagnosed_with_who_and_what_to_type() -> Result<()> {
    let mut stage = Stage::with("con_diagnosis", |config| {
        config.set("default_pool_size", "2")
    })?;
    let database = stage.database;
    let (mut one, mut two) = (stage.client()?, stage.client()?);
    for client in [&mut one, &mut two] {
        client.query("set application_name = 'billing'")?;
        client.query("begin")?;
    }
    let mut waiter = stage.client()?;
    waiter.send(&frontend::query("select 1"))?;
    let scope = format!("{database}/postgres");
    let is_it = |row: &Row| row["scope"] == scope && row["severity"] == "critical";
    let found = row(&mut stage, "SHOW DIAGNOSIS", is_it)?;
    ensure!(
        found["condition"] == "idle_transactions_fill_pool",
        "{found:?}"
    );
    let told = format!("{} {}", found["evidence"], found["advice"]);
    ensure!(
        told.contains("2 of 2 servers") && told.contains("billing"),
        "{told}"
    );
    let began = row(&mut stage, "SHOW EVENTS", |row| row["kind"] == "began")?;
    ensure!(
        began["text"].contains("idle_transactions_fill_pool"),
        "{began:?}"
    );
    // The command that it names helps.
    let holder = row(&mut stage, "SHOW HOLDERS", |row| {
        row["database"] == database
    })?;
    ensure!(
        found["command"] == format!("KILL_CLIENT {}", holder["client"]),
        "{found:?}"
    );
    stage.order(&found["command"])?;
    waiter.read_until_ready()?;
    let by = row(&mut stage, "SHOW EVENTS", |row| row["kind"] == "order")?;
    ensure!(by["text"].contains("KILL_CLIENT"), "{by:?}");
    stage.weir.check_healthy()
}

#[test]
fn a_host_that_refuses_is_told_in_its_own_words() -> Result<()> {
    let port = Postgres::shared()?.port();
    let mut stage = Stage::with("con_logins", |config| {
        config.database(&format!(
            "con_gone = host=localhost port={port} dbname=con_no_such"
        ))
    })?;
    let mut client = stage.client()?;
    client.query("select 1")?;
    let host = format!("127.0.0.1:{port}");
    let known = row(&mut stage, "SHOW LOGINS", |row| row["host"] == host)?;
    ensure!(
        number(&known, "succeeded")? >= 1 && known["failed"] == "0",
        "{known:?}"
    );
    let refused = stage.weir.connect("con_gone");
    ensure!(refused.is_err(), "there is no such database");
    let host = format!("localhost:{port}");
    let told = row(&mut stage, "SHOW LOGINS", |row| {
        row["host"] == host && row["sqlstate"] == "3D000"
    })?;
    ensure!(
        told["reason"].contains("\"con_no_such\" does not exist"),
        "{told:?}"
    );
    ensure!(told["succeeded"] == "0" && number(&told, "failed_since_success")? >= 1);
    stage.weir.check_healthy()
}
