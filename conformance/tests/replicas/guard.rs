//! Reads on a replica that checks first whether it has caught up (`read_guard`).

use anyhow::{Context, Result, bail, ensure};
use weir_conformance::frontend::{bind, execute, parse, query, sync};
use weir_conformance::raw::Row;
use weir_conformance::{Raw, wait_until};

use super::support::{NOTICED, World, marked};

/// A cluster whose replica had no lag when it was asked last, and is not asked again soon.
fn rarely_asked() -> Result<World> {
    let world = World::start_rarely_asked(1, "read_guard=1")?;
    world.prepare("CREATE TABLE t (a int); CREATE ROLE tenant; GRANT SELECT ON t TO tenant")?;
    let mut client = world.client()?;
    wait_until("a probe without lag", NOTICED, || {
        client.query("INSERT INTO t VALUES (0)")?;
        world.until_replica_serves(&mut client, "no-lag")?;
        let shown = world.shown(1)?;
        Ok(["lag_bytes", "lag_ms"]
            .iter()
            .all(|lag| shown.get(*lag).is_some_and(|value| value == "0")))
    })?;
    Ok(world)
}

/// Lets a session see a commit that Weir does not know of. Returns what the table has then.
fn ask_for_unknown_commit(world: &World, client: &mut Raw) -> Result<String> {
    world.cluster.primary().query("INSERT INTO t VALUES (1)")?;
    let lsn = world.cluster.primary().flush()?;
    client.query(&format!("SET weir.min_lsn = '1/{lsn}'"))?;
    world.cluster.primary().query_one("SELECT count(*) FROM t")
}

/// Rows of an answer without an error.
fn rows(client: &mut Raw, message: &[u8]) -> Result<Vec<Row>> {
    let answer = client.ask(message)?;
    ensure!(
        answer.iter().all(|message| message.tag != b'E'),
        "{answer:?}"
    );
    let rows = answer.iter().filter(|message| message.tag == b'D');
    rows.map(|message| message.row()).collect()
}

/// Read in each protocol, with a mark.
fn reads(mark: &str) -> [Vec<u8>; 3] {
    let sql = marked("SELECT count(*) FROM t", mark);
    let unnamed = [
        parse("", &sql, &[]),
        bind("", "", &[]),
        execute("", 0),
        sync(),
    ];
    let named = [
        parse(mark, &sql, &[]),
        bind("", mark, &[]),
        execute("", 0),
        sync(),
    ];
    [query(&sql), unnamed.concat(), named.concat()]
}

#[test]
fn a_replica_that_has_caught_up_since_its_probe_serves_the_read() -> Result<()> {
    let world = rarely_asked()?;
    for state in ["RESET ROLE", "SET app.tenant = 'a'", "SET ROLE tenant"] {
        let mut client = world.client()?;
        client.query(state)?;
        for (number, message) in reads("caught-up").iter().enumerate() {
            let before = world.on_replicas("caught-up");
            let expect = ask_for_unknown_commit(&world, &mut client)?;
            world.cluster.wait_until_replayed(1)?;
            let seen = rows(&mut client, message)?;
            ensure!(seen == [[Some(expect)]], "{state}, {number}: {seen:?}");
            if world.on_replicas("caught-up") == before {
                let routes = world.weir.connect("pgbouncer")?.query("SHOW ROUTES")?;
                bail!("{state}, {number}: {routes:#?} {:?}", world.shown(1));
            }
        }
    }
    ensure!(world.on_primary("caught-up") == 0);
    let guards = world
        .cluster
        .replica(1)
        .count_statements("pg_last_wal_replay_lsn() >=");
    ensure!(guards >= 9, "{guards}");
    Ok(())
}

#[test]
fn a_replica_that_has_not_caught_up_leaves_the_read_to_the_primary() -> Result<()> {
    let world = rarely_asked()?;
    world.cluster.delay(1, "1h")?;
    for state in ["RESET ROLE", "SET app.tenant = 'b'", "SET ROLE tenant"] {
        let mut client = world.client()?;
        client.query(state)?;
        for (number, message) in reads("behind").iter().enumerate() {
            let expect = ask_for_unknown_commit(&world, &mut client)?;
            let seen = rows(&mut client, message)?;
            ensure!(seen == [[Some(expect)]], "{state}, {number}: {seen:?}");
        }
        // The session goes on, in the state that it has set.
        let role = client.query("SELECT current_user, current_setting('app.tenant', true)")?;
        let user = role.first().and_then(|row| row.first()?.as_deref());
        let is_tenant = user == Some("tenant");
        ensure!(is_tenant == state.ends_with("tenant"), "{state}: {role:?}");
    }
    ensure!(world.on_replicas("behind") == [0]);
    let console = world
        .weir
        .connect("pgbouncer")?
        .query_named("SHOW ROUTES")?;
    let retries = console.iter().filter_map(|row| row.get("retries"));
    let retries: Vec<u64> = retries
        .map(|count| count.parse())
        .collect::<Result<_, _>>()?;
    ensure!(
        retries.iter().sum::<u64>() > 0,
        "no guard has failed: {console:?}"
    );
    let log = world.weir.log();
    ensure!(!log.contains("closing because: server"), "{log}");
    Ok(())
}

#[test]
fn own_writes_are_seen_with_a_guard_whichever_host_serves() -> Result<()> {
    let world = World::start(1, "read_guard=1")?;
    world.prepare("CREATE TABLE t (a int)")?;
    world.cluster.delay(1, "30ms")?;
    let mut client = world.client()?;
    for number in 1..=200 {
        client.query("INSERT INTO t VALUES (1)")?;
        for message in reads(&format!("own-{number}")) {
            let seen = rows(&mut client, &message)?;
            let count = seen.first().and_then(|row| row.first().cloned().flatten());
            ensure!(
                count.context("no row")? == number.to_string(),
                "{number}: {seen:?}"
            );
        }
    }
    Ok(())
}
