//! Transactions: one host from begin to end, chosen by what the client says.

use anyhow::{Result, ensure};
use weir_conformance::frontend::{bind, execute, parse, query, sync};

use super::support::{World, marked};

#[test]
fn rt_12_a_transaction_that_reads_and_then_writes_never_fails() -> Result<()> {
    for policy in ["conservative", "until-write"] {
        let world = World::start(1, &format!("split_begin={policy}"))?;
        world.prepare("CREATE TABLE t (a int)")?;
        let mut client = world.client()?;
        for round in 0..100 {
            client.query("BEGIN")?;
            client.query("SELECT count(*) FROM t")?;
            client.query(&format!("INSERT INTO t VALUES ({round})"))?;
            let seen = client.query_one("SELECT count(*) FROM t")?;
            ensure!(
                seen == (round + 1).to_string(),
                "{policy}: {seen} rows in round {round}"
            );
            client.query("COMMIT")?;
        }
        let rows = world
            .cluster
            .primary()
            .query_one("SELECT count(*) FROM t")?;
        ensure!(rows == "100", "{policy}: {rows}");
    }
    Ok(())
}

#[test]
fn rt_13_a_read_only_transaction_stays_on_one_replica() -> Result<()> {
    let world = World::start(2, "")?;
    let mut client = world.client()?;
    for round in 0..20 {
        let mark = format!("block-{round}");
        client.query("BEGIN READ ONLY")?;
        for _ in 0..5 {
            client.query(&marked("SELECT 1", &mark))?;
        }
        client.query("COMMIT")?;
        let mut served = world.on_replicas(&mark);
        served.sort_unstable();
        ensure!(
            served == [0, 5],
            "{served:?}, primary {}",
            world.on_primary(&mark)
        );
    }
    Ok(())
}

#[test]
fn rt_13_a_serializable_transaction_runs_on_the_primary() -> Result<()> {
    let world = World::start(1, "")?;
    let blocks: [&[&str]; 3] = [
        &["BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY"],
        &["BEGIN", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"],
        &[
            "SET default_transaction_isolation = 'serializable'",
            "BEGIN READ ONLY",
        ],
    ];
    for (number, begin) in blocks.iter().enumerate() {
        let mut client = world.client()?;
        for text in *begin {
            client.query(text)?;
        }
        world.runs_on_primary(&mut client, "SELECT 1", &format!("strict-{number}"))?;
        client.query("COMMIT")?;
    }
    Ok(())
}

#[test]
fn rt_17_a_cursor_and_a_portal_stay_on_their_host() -> Result<()> {
    let world = World::start(2, "")?;
    let mut client = world.client()?;
    for _ in 0..20 {
        client.query("BEGIN READ ONLY")?;
        client.query("DECLARE c CURSOR FOR SELECT generate_series(1, 6)")?;
        for first in [1, 3, 5] {
            let rows = client.query("FETCH 2 FROM c")?;
            let wanted = [first, first + 1].map(|number| vec![Some(number.to_string())]);
            ensure!(rows == wanted, "{rows:?}");
        }
        client.query("COMMIT")?;
        client.query("BEGIN READ ONLY")?;
        let open = [
            parse("", "SELECT generate_series(1, 6)", &[]),
            bind("p", "", &[]),
            execute("p", 2),
            sync(),
        ];
        client.ask(&open.concat())?;
        let rest = client.ask(&[execute("p", 0), sync()].concat())?;
        let rows = rest.iter().filter(|message| message.tag == b'D').count();
        ensure!(rows == 4, "{rows} rows left in the portal");
        client.query("COMMIT")?;
    }
    Ok(())
}

/// A statement that fails leaves its server untouched, and the next one of the pipeline came to the same server.
#[test]
fn a_write_behind_a_failed_read_in_one_pipeline_runs_on_the_primary() -> Result<()> {
    let world = World::start(1, "")?;
    world.prepare("CREATE TABLE t (a int)")?;
    let mut client = world.client()?;
    for round in 0..20 {
        let texts = [
            "SELECT 1/0".to_owned(),
            format!("INSERT INTO t VALUES ({round})"),
        ];
        client.send(&texts.map(|sql| query(&sql)).concat())?;
        for code in ["22012", ""] {
            let messages = client.read_until_ready()?;
            let error = messages.iter().find(|message| message.tag == b'E');
            let heard = error.and_then(|error| error.field(b'C'));
            ensure!(
                heard.clone().unwrap_or_default() == code,
                "{heard:?} in round {round}"
            );
        }
    }
    Ok(())
}
