//! Actions of rules, beside rejecting statements.

use std::thread;

use anyhow::{Context, Result, ensure};
use weir_conformance::{Raw, frontend, wait_until};

use super::{World, batch, line, query};

/// Longest time that a test waits for something to happen.
const NOTICED: std::time::Duration = std::time::Duration::from_secs(60);

#[test]
fn a_rewritten_statement_is_answered_as_its_new_text_directly() -> Result<()> {
    let rules = r#"
        [[rules]]
        name = "newest-first"
        match.fingerprint = "SELECT name FROM report WHERE id > $1"
        action = "rewrite"
        to = "SELECT name FROM report WHERE id > $1 ORDER BY id DESC LIMIT 2"
    "#;
    let world = World::with_rules("rules_rewrite", rules)?;
    let mut direct = Raw::connect(world.port, &world.database)?;
    direct.query("insert into report select i, 'name ' || i from generate_series(1, 9) i")?;
    let old = "select name from report where id > 3 -- all";
    let new = "SELECT name FROM report WHERE id > 3 ORDER BY id DESC LIMIT 2 -- all";
    for request in [query, batch] {
        let (through, direct) = world.both(&[request(old)], &[request(new)])?;
        assert_eq!(through, direct);
    }
    // With a parameter, under a name, several times.
    let prepared = |text: &str| -> Vec<Vec<u8>> {
        let mut parse = frontend::parse("s", text, &[23]);
        parse.extend(frontend::describe(b'S', "s"));
        parse.extend(frontend::sync());
        let runs = ["1", "7", "9"].into_iter().map(|value| {
            let mut run = frontend::bind("", "s", &[Some(value.as_bytes())]);
            run.extend(frontend::execute("", 0));
            run.extend(frontend::sync());
            run
        });
        std::iter::once(parse).chain(runs).collect()
    };
    let old = prepared("SELECT name FROM report WHERE id > $1");
    let new = prepared("SELECT name FROM report WHERE id > $1 ORDER BY id DESC LIMIT 2");
    let (through, direct) = world.both(&old, &new)?;
    assert_eq!(through, direct);
    let hits = world.rules()?;
    assert_eq!(hits, ["newest-first 3"]);
    Ok(())
}

#[test]
fn a_statement_that_runs_too_long_fails_as_if_it_was_cancelled() -> Result<()> {
    let rules = r#"
        [[rules]]
        name = "short"
        match.functions = "pg_sleep"
        action = "pass"
        timeout = "150ms"
    "#;
    let world = World::with_rules("rules_timeout", rules)?;
    let mut client = world.weir.connect(&world.database)?;
    let told = "ERROR 57014 canceling statement due to rule short (timeout 0.15 s)";
    for request in [query, batch] {
        let answer = client.ask(&request("select pg_sleep(600)"))?;
        let error = answer.iter().find(|message| message.tag == b'E');
        assert_eq!(line(error.context("no error")?), told);
        client.query("begin")?;
        client.ask(&request("select pg_sleep(600)"))?;
        let failed = client.ask(&query("select 1"))?;
        ensure!(line(&failed[0]).starts_with("ERROR 25P02"), "{failed:?}");
        client.query("rollback")?;
        // One that ends in time, and others of the session.
        client.query("select pg_sleep(0)")?;
    }
    Ok(())
}

#[test]
fn no_more_statements_run_at_once_than_the_rule_lets() -> Result<()> {
    const CLIENTS: usize = 8;
    const TURNS: usize = 5;
    let rules = r#"
        [[rules]]
        name = "one"
        match.functions = "alone"
        action = "pass"
        max_concurrency = 1
    "#;
    let world = World::with_rules("rules_bulkhead", rules)?;
    let mut direct = Raw::connect(world.port, &world.database)?;
    direct.query(
        "create function alone() returns bool language sql volatile as \
         $$ select pg_try_advisory_xact_lock(42) and pg_sleep(0.02) is not null $$",
    )?;
    let alone = |text: &str| -> Result<usize> {
        let clients: Vec<Raw> = (0..CLIENTS)
            .map(|_| world.weir.connect(&world.database))
            .collect::<Result<_>>()?;
        let run = |mut client: Raw| -> Result<usize> {
            let mut found = 0;
            for turn in 0..TURNS {
                let request = if turn % 2 == 0 {
                    query(text)
                } else {
                    batch(text)
                };
                let rows = client.ask(&request)?;
                let row = rows.iter().find(|message| message.tag == b'D');
                found += usize::from(row.is_some_and(|row| row.body.ends_with(b"t")));
            }
            Ok(found)
        };
        thread::scope(|scope| {
            let threads: Vec<_> = clients
                .into_iter()
                .map(|client| scope.spawn(|| run(client)))
                .collect();
            let found = threads
                .into_iter()
                .map(|thread| thread.join().expect("a thread"));
            found.sum()
        })
    };
    assert_eq!(alone("select alone()")?, CLIENTS * TURNS);
    let mut console = world.weir.connect("pgbouncer")?;
    console.query("RULE DROP one")?;
    ensure!(
        alone("select alone()")? < CLIENTS * TURNS,
        "the test cannot fail"
    );
    Ok(())
}

#[test]
fn a_statement_that_takes_long_is_logged_without_its_literals() -> Result<()> {
    let rules = r#"
        [[rules]]
        name = "slow"
        match.tables = "report"
        action = "log"
        log = "slow:50ms"

        [[rules]]
        name = "all"
        match.tables = "audit"
        action = "log"
    "#;
    let world = World::with_rules("rules_log", rules)?;
    let mut client = world.weir.connect(&world.database)?;
    client.query("select * from report where name = 'fast'")?;
    client.query(
        "select pg_sleep(0.06) from (select count(*) from report where name = 'secret') _",
    )?;
    client.ask(&batch(
        "select id / 0 from audit where id = 7 union all select 1 / 0",
    ))?;
    world.weir.wait_log("rule slow: ")?;
    world
        .weir
        .wait_log("error 22012: select id / ? from audit where id = ? union all select ? / ?")?;
    let log = world.weir.log();
    ensure!(
        log.contains(" ms: select pg_sleep(?) from (select count(*) from report where name = ?) _")
    );
    ensure!(!log.contains("secret") && !log.contains("name = 'fast'"));
    Ok(())
}

#[test]
fn a_delayed_statement_keeps_no_server() -> Result<()> {
    let rules = r#"
        [[rules]]
        name = "later"
        match.tables = "report"
        action = "delay"
        delay = "2s"
    "#;
    let world = World::with_rules("rules_delay", rules)?;
    let mut client = world.weir.connect(&world.database)?;
    client.send(&query("select count(*) from report"))?;
    let mut console = world.weir.connect("pgbouncer")?;
    wait_until("the rule is met", NOTICED, || {
        Ok(hits(&mut console)? == ["later 1"])
    })?;
    let pools = console.query_named("SHOW POOLS")?;
    let pool = pools.iter().find(|pool| pool["database"] == world.database);
    let pool = pool.context("no pool")?;
    assert_eq!((&*pool["cl_waiting"], &*pool["sv_active"]), ("0", "0"));
    let answer = client.read_until_ready()?;
    assert_eq!(answer.last().map(|message| message.tag), Some(b'Z'));
    Ok(())
}

/// Names of the rules with their hits.
fn hits(console: &mut Raw) -> Result<Vec<String>> {
    let rules = console.query_named("SHOW RULES")?;
    let shown = rules
        .iter()
        .map(|rule| format!("{} {}", rule["name"], rule["hits"]));
    Ok(shown.collect())
}

impl World {
    pub(super) fn rules(&self) -> Result<Vec<String>> {
        hits(&mut self.weir.connect("pgbouncer")?)
    }
}
