//! Hints in comments of statements.

use anyhow::{Result, ensure};
use weir_conformance::frontend::{bind, execute, parse, sync};
use weir_conformance::{Raw, wait_until};

use super::support::{NOTICED, Reads, World, marked};

/// True if a text ran on a replica.
fn ran_on_replica(world: &World, client: &mut Raw, hint: &str, mark: &str) -> Result<bool> {
    client.query(&format!("{hint} {}", marked("SELECT a FROM t", mark)))?;
    let served: usize = world.on_replicas(mark).iter().sum();
    ensure!(served + world.on_primary(mark) == 1, "{hint}");
    Ok(served == 1)
}

#[test]
fn hints_in_comments_choose_the_host_of_their_transaction() -> Result<()> {
    let world = World::start_entries(1, &[("shop", "comment_hints=1"), ("deaf", "")])?;
    world.prepare("CREATE TABLE t (a int)")?;
    let mut client = world.client()?;
    let cases = [
        ("", true),
        ("/* weir: role=primary */", false),
        ("/*weir: read_consistency=primary*/", false),
        ("/*action='%2Fcart',weir_role='primary'*/", false),
        ("/* weir: role=replica */", true),
        ("/* weir: read_write_split=hint */", false),
        ("/* weir: read_write_split=hint role=replica */", true),
        // Without a meaning.
        ("/* weir: role=master */", true),
        ("/* weirs: role=primary */", true),
    ];
    for (number, (hint, expect)) in cases.into_iter().enumerate() {
        let on_replica = ran_on_replica(&world, &mut client, hint, &format!("hint-{number}"))?;
        ensure!(on_replica == expect, "{hint}");
    }
    wait_until("the line in the log", NOTICED, || {
        Ok(world
            .weir
            .log()
            .contains("role=master in a comment is ignored"))
    })?;
    // At the end, as sqlcommenter writes it, and for a prepared statement.
    let sql = format!(
        "{} /*weir_role='primary'*/",
        marked("SELECT a FROM t", "end")
    );
    client.ask(&[parse("s", &sql, &[]), sync()].concat())?;
    client.ask(&[bind("", "s", &[]), execute("", 0), sync()].concat())?;
    ensure!(world.on_primary("end") > 0 && world.on_replicas("end") == [0]);
    // For a block.
    client.query("/* weir: role=replica */ BEGIN")?;
    client.query(&marked("SELECT a FROM t", "block"))?;
    client.query("COMMIT")?;
    ensure!(world.on_replicas("block") == [1]);
    // Without the option they are comments.
    let mut deaf = world.weir.connect("deaf")?;
    ensure!(ran_on_replica(
        &world,
        &mut deaf,
        "/* weir: role=primary */",
        "deaf"
    )?);
    Ok(())
}

#[test]
fn a_hint_bounds_the_age_of_a_read() -> Result<()> {
    let options = "comment_hints=1 read_consistency=eventual max_staleness=600 max_lag=0";
    let world = World::start(1, options)?;
    world.prepare("CREATE TABLE t (a int)")?;
    let mut client = world.client()?;
    world.cluster.delay(1, "1h")?;
    world.cluster.primary().query("INSERT INTO t VALUES (1)")?;
    wait_until("an age of more than a second", NOTICED, || {
        Ok(world.shows(1, "lag_ms")?.parse::<u64>()? > 1000)
    })?;
    world.until_reads(1, Reads::Some)?;
    ensure!(ran_on_replica(&world, &mut client, "", "old")?);
    let hint = "/* weir: max_staleness=1s */";
    ensure!(!ran_on_replica(&world, &mut client, hint, "young")?);
    Ok(())
}
