//! State of a session whose reads are served by several hosts.

use anyhow::{Result, ensure};
use weir_conformance::frontend::{bind, execute, parse, query, sync};
use weir_conformance::{Raw, wait_until};

use super::support::{NOTICED, World, marked};

/// Rows in an answer.
fn rows(messages: &[weir_conformance::raw::Message]) -> Result<Vec<weir_conformance::raw::Row>> {
    ensure!(
        messages.iter().all(|message| message.tag != b'E'),
        "{messages:?}"
    );
    let rows = messages.iter().filter(|message| message.tag == b'D');
    rows.map(|message| message.row()).collect()
}

#[test]
fn rt_15_a_named_statement_runs_on_every_host() -> Result<()> {
    let world = World::start(2, "")?;
    world.prepare("CREATE TABLE t AS SELECT 7 AS a; CREATE TABLE w (a int)")?;
    let mut client = world.client()?;
    client.ask(&[parse("s", &marked("SELECT a FROM t", "named"), &[]), sync()].concat())?;
    let read = |client: &mut Raw| -> Result<()> {
        let answer = client.ask(&[bind("", "s", &[]), execute("", 0), sync()].concat())?;
        ensure!(rows(&answer)? == [[Some("7".to_owned())]], "{answer:?}");
        Ok(())
    };
    // Without a write of its own, the session's reads go to either replica.
    wait_until("the statement on both replicas", NOTICED, || {
        read(&mut client)?;
        Ok(world.on_replicas("named").iter().all(|count| *count > 0))
    })?;
    // The read behind a write is served by the primary, unless a replica is known to have it already.
    wait_until("the statement on the primary", NOTICED, || {
        client.query("INSERT INTO w VALUES (1)")?;
        read(&mut client)?;
        Ok(world.on_primary("named") > 0)
    })
}

#[test]
fn rt_16_settings_follow_to_every_host() -> Result<()> {
    let world = World::start(2, "")?;
    world.prepare("CREATE ROLE tenant; CREATE SCHEMA own; CREATE TABLE own.t AS SELECT 1 AS a; GRANT USAGE ON SCHEMA own TO tenant")?;
    let mut clients = Vec::new();
    for number in 0..4 {
        let mut client = world.client()?;
        client.query(&format!("SET app.tenant = '{number}'"))?;
        if number % 2 == 0 {
            client.query("SET search_path = own; SET ROLE tenant")?;
        }
        clients.push(client);
    }
    let sql = marked(
        "SELECT current_setting('app.tenant'), current_schema, current_user",
        "state",
    );
    // Their settings have been written; reads may go to replicas from now on.
    for (number, client) in clients.iter_mut().enumerate() {
        world.until_replica_serves(client, &format!("ready-{number}"))?;
    }
    for _ in 0..50 {
        for (number, client) in clients.iter_mut().enumerate() {
            let (schema, user) = match number % 2 {
                0 => ("own", "tenant"),
                _ => ("public", "postgres"),
            };
            let wanted = [number.to_string(), schema.to_owned(), user.to_owned()].map(Some);
            let seen = client.query(&sql)?;
            ensure!(seen == [wanted], "client {number} sees {seen:?}");
        }
    }
    let served = world.on_replicas("state");
    ensure!(served.iter().all(|count| *count > 0), "{served:?}");
    Ok(())
}

/// True when a notification has arrived.
fn is_notified(client: &mut Raw) -> Result<bool> {
    let answer = client.ask(&query("SELECT 1"))?;
    Ok(answer.iter().any(|message| message.tag == b'A'))
}

#[test]
fn rt_18_notifications_arrive_beside_reads_on_replicas() -> Result<()> {
    let world = World::start(2, "")?;
    let (mut client, mut other) = (world.client()?, world.client()?);
    client.query("LISTEN news")?;
    for round in 0..5 {
        world.until_replica_serves(&mut client, &format!("reads-{round}"))?;
        other.query("NOTIFY news, 'told'")?;
        wait_until("the notification", NOTICED, || is_notified(&mut client))?;
    }
    Ok(())
}
