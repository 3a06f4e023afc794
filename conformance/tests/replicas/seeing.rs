//! Explanations: `EXPLAIN ROUTE`, `SHOW ROUTES` and the notices of `weir.trace_route`.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use weir_conformance::frontend::{bind, describe, execute, parse, query, sync};
use weir_conformance::raw::Message;
use weir_conformance::{Raw, wait_until};

use super::support::{NOTICED, World, marked};

/// A table, and functions that only read and may write.
const OBJECTS: &str = "CREATE TABLE t AS SELECT 7 AS a; CREATE TABLE w (a int);
    CREATE FUNCTION reads() RETURNS int LANGUAGE sql STABLE AS 'SELECT 7';
    CREATE FUNCTION writes() RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO w VALUES (1); RETURN 1; END';
    CREATE FUNCTION sly() RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN writes(); END'";

fn console(world: &World) -> Result<Raw> {
    world.weir.connect("pgbouncer")
}

/// Answer of `EXPLAIN ROUTE`: the first value of each item.
fn explained(console: &mut Raw, sql: &str) -> Result<HashMap<String, String>> {
    let rows = console.query(&format!("EXPLAIN ROUTE {sql}"))?;
    let mut items = HashMap::new();
    for row in rows {
        let [Some(item), Some(value)] = &row[..] else {
            anyhow::bail!("{row:?}");
        };
        let value = value.clone();
        items.entry(item.clone()).or_insert(value);
    }
    Ok(items)
}

#[test]
fn an_explanation_is_what_happens() -> Result<()> {
    let world = World::start(1, "")?;
    world.prepare(OBJECTS)?;
    let mut console = console(&world)?;
    let mut client = world.client()?;
    wait_until("knowledge of the functions", NOTICED, || {
        client.query("SELECT 1")?;
        Ok(explained(&mut console, "SELECT reads()")?["verdict"] == "replica")
    })?;
    let cases = [
        ("SELECT a FROM t", "replica", "the text reads"),
        ("SELECT reads()", "replica", "the text reads"),
        ("SELECT writes()", "primary", "is declared VOLATILE"),
        ("SELECT a FROM t FOR UPDATE", "primary", "rows are locked"),
        (
            "INSERT INTO w VALUES (1)",
            "primary",
            "INSERT is for the primary",
        ),
        ("BEGIN", "primary", "the transaction may write"),
        ("BEGIN READ ONLY", "replica", "read only"),
        ("nonsense", "primary", "does not parse"),
    ];
    for (number, (sql, verdict, reason)) in cases.into_iter().enumerate() {
        let told = explained(&mut console, &format!("FOR shop {sql}"))?;
        ensure!(told["verdict"] == verdict, "{sql}: {told:?}");
        ensure!(told["reason"].contains(reason), "{sql}: {told:?}");
        ensure!(told.contains_key("host") && told["rules"].contains("read_write_split is auto"));
        // A client's statement runs there.
        let mark = format!("seen-{number}");
        let mut client = world.client()?;
        client.ask(&query(&marked(sql, &mark)))?;
        let on_replica = world.on_replicas(&mark).iter().sum::<usize>() > 0;
        ensure!(on_replica == (verdict == "replica"), "{sql} ran elsewhere");
    }
    // With one routed database its name may be left out, and a user be added.
    for prefix in ["", "FOR shop/postgres", "FOR shop/nobody"] {
        let told = explained(&mut console, &format!("{prefix} SELECT a FROM t"))?;
        ensure!(told["verdict"] == "replica", "{prefix}: {told:?}");
    }
    let errors = console.ask(&query("EXPLAIN ROUTE FOR nosuch SELECT 1"))?;
    ensure!(
        errors
            .iter()
            .any(|message| message.error().contains("no such database"))
    );
    Ok(())
}

#[test]
fn routes_are_counted_by_statement_without_literals() -> Result<()> {
    let world = World::start(1, "")?;
    world.prepare(OBJECTS)?;
    let mut client = world.client()?;
    for number in 0..5 {
        client.query(&format!(
            "SELECT a FROM t WHERE a = {number} AND 'secret' <> ''"
        ))?;
    }
    client.ask(&[parse("s", "SELECT a FROM t LIMIT $1", &[]), sync()].concat())?;
    for _ in 0..3 {
        client.ask(&[bind("", "s", &[Some(b"1")]), execute("", 0), sync()].concat())?;
    }
    client.query("INSERT INTO w VALUES (1)")?;
    let mut console = console(&world)?;
    // The net: the replica refuses what is declared STABLE.
    wait_until(
        "a refusal by the replica",
        NOTICED.saturating_mul(9),
        || {
            client.query("SELECT sly()")?;
            let rows = console.query_named("SHOW ROUTES")?;
            Ok(rows.iter().any(|row| row["retries"] == "1"))
        },
    )?;
    let rows = console.query_named("SHOW ROUTES")?;
    let row = |statement: &str, verdict: &str| {
        let mut rows = rows.iter();
        rows.find(|row| row["statement"] == statement && row["verdict"] == verdict)
            .with_context(|| format!("{statement}: {rows:?}"))
    };
    let read = row("SELECT a FROM t WHERE a = ? AND ? <> ?", "replica")?;
    ensure!(
        read["count"] == "5" && read["reason"] == "the text reads",
        "{read:?}"
    );
    // Each use by name, and the batch that prepares if a server saw it.
    let uses = &row("SELECT a FROM t LIMIT $1", "replica")?["count"];
    ensure!(uses == "3" || uses == "4", "{uses} uses");
    ensure!(row("INSERT INTO w VALUES (?)", "primary")?["reason"].contains("INSERT"));
    ensure!(row("SELECT sly()", "replica")?["retries"] == "1");
    // It ran there for another reason as long as its definition was not known.
    let mut on_primary = rows.iter().filter(|row| row["verdict"] == "primary");
    let refused = "a standby has refused the text before";
    ensure!(on_primary.any(|row| row["statement"] == "SELECT sly()" && row["reason"] == refused));
    Ok(())
}

/// Texts of the notices in an answer, and the tags of all messages.
fn notices(messages: &[Message]) -> (Vec<String>, String) {
    let told = messages.iter().filter(|message| message.tag == b'N');
    let told = told.filter_map(|message| message.field(b'M')).collect();
    let tags = messages
        .iter()
        .map(|message| char::from(message.tag))
        .collect();
    (told, tags)
}

#[test]
fn a_session_is_told_its_routes_on_request() -> Result<()> {
    let world = World::start(1, "")?;
    world.prepare(OBJECTS)?;
    let mut client = world.client()?;
    let (told, _) = notices(&client.ask(&query("SELECT a FROM t"))?);
    ensure!(told.is_empty(), "without being asked: {told:?}");
    client.query("SET weir.trace_route = on")?;
    world.until_replica_serves(&mut client, "ready")?;

    let (told, tags) = notices(&client.ask(&query("SELECT a FROM t"))?);
    ensure!(tags == "NTDCZ" && told.len() == 1, "{tags} {told:?}");
    ensure!(
        told[0].starts_with("route: replica 127.0.0.1:") && told[0].ends_with(": the text reads")
    );
    let messages = [parse("", "SELECT a FROM t", &[]), bind("", "", &[])];
    let messages = [
        &messages.concat()[..],
        &describe(b'P', ""),
        &execute("", 0),
        &sync(),
    ];
    let (told, tags) = notices(&client.ask(&messages.concat())?);
    ensure!(
        tags == "N12TDCZ" && told[0].contains("replica"),
        "{tags} {told:?}"
    );
    // A transaction has one route.
    let (told, _) = notices(&client.ask(&query("BEGIN"))?);
    ensure!(
        told.len() == 1 && told[0].contains("the transaction may write"),
        "{told:?}"
    );
    let (told, tags) = notices(&client.ask(&query("INSERT INTO w VALUES (1)"))?);
    ensure!(told.is_empty() && tags == "CZ", "{tags} {told:?}");
    client.query("COMMIT")?;
    // COPY: the notice stands in front of it.
    let (told, tags) = notices(&client.ask(&query("COPY t TO STDOUT"))?);
    ensure!(told.len() == 1 && tags.starts_with("NH"), "{tags} {told:?}");

    // Two batches at once, on two hosts: each notice stands in front of its own reply.
    world.until_replica_serves(&mut client, "again")?;
    client.send(&[query("SELECT a FROM t"), query("INSERT INTO w VALUES (2)")].concat())?;
    let (told, tags) = notices(&client.read_until_ready()?);
    ensure!(
        tags == "NTDCZ" && told[0].contains("replica"),
        "{tags} {told:?}"
    );
    let (told, tags) = notices(&client.read_until_ready()?);
    ensure!(
        tags == "NCZ" && told[0].contains("primary"),
        "{tags} {told:?}"
    );

    client.query("RESET weir.trace_route")?;
    let (told, _) = notices(&client.ask(&query("SELECT a FROM t"))?);
    ensure!(told.is_empty(), "after RESET: {told:?}");
    Ok(())
}
