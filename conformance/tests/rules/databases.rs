//! Rules that send transactions to another database.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use weir_conformance::{Postgres, Raw, frontend, wait_until};

use super::{World, batch, query};

/// Longest time that a test waits for something to happen.
const NOTICED: std::time::Duration = std::time::Duration::from_secs(60);

impl World {
    /// Starts Weir with a rule that sends what names a table to the database of reports, which has it.
    fn reporting(name: &str) -> Result<Self> {
        let reports = format!("{name}_reports");
        let rules = format!(
            "[[rules]]\nname = \"reports\"\nmatch.database = \"{name}\"\nmatch.tables = \"totals\"\naction = \"route\"\n\
             to = \"database:{reports}\"\n"
        );
        let world = Self::with_rules(name, &rules)?;
        Postgres::shared()?.create_database(&reports)?;
        let mut direct = Raw::connect(world.port, &reports)?;
        direct.query("create table totals as select current_database()::text as place")?;
        direct.query("create schema other")?;
        direct.query("create table other.totals as select 'other'::text as place")?;
        Ok(world)
    }

    fn pools(&self) -> Result<HashMap<String, HashMap<String, String>>> {
        let mut console = self.weir.connect("pgbouncer")?;
        let rows = console.query_named("SHOW POOLS")?;
        Ok(rows
            .into_iter()
            .map(|row| (row["database"].clone(), row))
            .collect())
    }
}

fn value(client: &mut Raw, request: &[u8]) -> Result<String> {
    let answer = client.ask(request)?;
    let row = answer.iter().find(|message| message.tag == b'D');
    let row = row.with_context(|| format!("{answer:?}"))?.row()?;
    row[0].clone().context("NULL")
}

#[test]
fn what_a_rule_names_runs_in_another_database_and_all_else_at_home() -> Result<()> {
    let world = World::reporting("route_database")?;
    let mut client = world.weir.connect(&world.database)?;
    for request in [query, batch] {
        let place = value(&mut client, &request("select place from totals"))?;
        assert_eq!(place, "route_database_reports");
        let place = value(&mut client, &request("select current_database()"))?;
        assert_eq!(place, "route_database");
    }
    // A batch of several statements is one transaction, and stays together.
    let text = "select place from totals; select current_database()";
    let answer = client.ask(&query(text))?;
    let rows = answer.iter().filter(|message| message.tag == b'D');
    let rows: Vec<_> = rows.map(|row| row.row()).collect::<Result<_>>()?;
    assert_eq!(rows.len(), 2);
    assert!(
        rows.iter()
            .all(|row| row[0].as_deref() == Some("route_database_reports"))
    );
    // A block belongs to the database in which it began.
    client.query("begin")?;
    let failed = client.ask(&query("select place from totals"))?;
    ensure!(failed[0].error().contains("42P01"), "{failed:?}");
    client.query("rollback")?;
    assert_eq!(world.rules()?, ["reports 4"]);
    Ok(())
}

#[test]
fn statements_and_settings_follow_the_client_to_another_database_and_back() -> Result<()> {
    let world = World::reporting("route_session")?;
    let mut client = world.weir.connect(&world.database)?;
    // The table is in the other database only, so the statement is prepared there.
    let mut parse = frontend::parse("s", "select place from totals", &[]);
    parse.extend(frontend::describe(b'S', "s"));
    parse.extend(frontend::sync());
    let answer = client.ask(&parse)?;
    ensure!(
        answer.iter().any(|message| message.tag == b'T'),
        "{answer:?}"
    );
    let mut run = frontend::bind("", "s", &[]);
    run.extend(frontend::execute("", 0));
    run.extend(frontend::sync());
    assert_eq!(value(&mut client, &run)?, "route_session_reports");
    let home = batch("select current_database()");
    assert_eq!(value(&mut client, &home)?, "route_session");
    assert_eq!(value(&mut client, &run)?, "route_session_reports");
    client.query("set search_path = other")?;
    assert_eq!(
        value(&mut client, &query("select place from totals"))?,
        "other"
    );
    assert_eq!(value(&mut client, &query("show search_path"))?, "other");
    // What was prepared for the other database stays a name of the client.
    let answer = client.ask(&parse)?;
    ensure!(answer[0].error().contains("42P05"), "{answer:?}");
    Ok(())
}

#[test]
fn a_server_that_a_client_keeps_does_not_hold_it_at_home() -> Result<()> {
    let world = World::reporting("route_kept")?;
    let mut direct = Raw::connect(world.port, &world.database)?;
    direct.query("create table log (id serial, what text)")?;
    let mut client = world.weir.connect(&world.database)?;
    for _ in 0..5 {
        // The value of the sequence keeps the server, and the setting is asked for behind the reply.
        client.query("insert into log (what) values ('x')")?;
        client.query("select set_config('a.b', 'c', false)")?;
        let place = value(&mut client, &query("select place from totals"))?;
        assert_eq!(place, "route_kept_reports");
        let place = value(&mut client, &query("select current_setting('a.b')"))?;
        assert_eq!(place, "c");
    }
    Ok(())
}

#[test]
fn a_client_that_leaves_another_database_in_the_middle_leaves_nothing_behind() -> Result<()> {
    let world = World::reporting("route_leave")?;
    let away = "route_leave_reports";
    for _ in 0..3 {
        let mut client = world.weir.connect(&world.database)?;
        let text = "begin; select place from totals";
        client.ask(&query(text))?;
        let pools = world.pools()?;
        assert_eq!(pools[away]["cl_active"], "1", "{pools:?}");
        assert_eq!(pools["route_leave"]["cl_active"], "0", "{pools:?}");
        drop(client);
        wait_until("the server to be free again", NOTICED, || {
            let pools = world.pools()?;
            Ok(pools[away]["cl_active"] == "0" && pools[away]["sv_active"] == "0")
        })?;
    }
    let mut client = world.weir.connect(&world.database)?;
    client.ask(&query("select place from totals"))?;
    let pools = world.pools()?;
    assert_eq!(pools[away]["cl_active"], "0", "{pools:?}");
    assert_eq!(pools["route_leave"]["cl_active"], "1", "{pools:?}");
    Ok(())
}
