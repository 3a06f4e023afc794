//! Recovery conflicts: a replica ends what a client runs there, because replay has to go on.

use anyhow::{Result, ensure};
use weir_conformance::{Raw, frontend, wait_until};

use super::support::{NOTICED, Reads, World, marked};

/// World with one replica whose replay waits for nobody.
fn impatient() -> Result<World> {
    let world = World::start(1, "read_consistency=eventual")?;
    world.cluster.set(1, "hot_standby_feedback", "off")?;
    world.cluster.set(1, "max_standby_streaming_delay", "0")?;
    world.prepare("CREATE TABLE t AS SELECT g AS a FROM generate_series(1, 100) g")?;
    Ok(world)
}

/// Number of conflicts that have ended something on the replica.
fn conflicts(world: &World) -> Result<String> {
    world.cluster.replica(1).query_one(
        "SELECT confl_lock + confl_snapshot FROM pg_stat_database_conflicts WHERE datname = 'postgres'",
    )
}

/// Checks that Weir has sent no error of this SQLSTATE to any client.
fn ensure_untold(world: &World, state: &str) -> Result<()> {
    let errors = world
        .weir
        .connect("pgbouncer")?
        .query_named("SHOW ERRORS")?;
    let told = errors
        .iter()
        .find(|row| row.get("sqlstate").is_some_and(|code| code == state));
    ensure!(told.is_none(), "{told:?}");
    Ok(())
}

/// Waits until the replica has begun a statement with this mark.
fn until_begun(world: &World, mark: &str) -> Result<()> {
    wait_until("the statement on the replica", NOTICED, || {
        Ok(world.on_replicas(mark) == [1])
    })
}

#[test]
fn rt_28_a_read_that_replay_ends_is_answered_by_the_primary() -> Result<()> {
    let world = impatient()?;
    let causes = [
        ("lock", "ALTER TABLE t ADD COLUMN b int"),
        // Rows that the snapshot of the read still sees are removed.
        ("snapshot", "DELETE FROM t WHERE a > 50; VACUUM t"),
    ];
    for (number, (mark, cause)) in causes.iter().enumerate() {
        let mut client = world.client()?;
        // The first row needs all of them, so the client has got nothing when the read is ended.
        let sql = "SELECT count(pg_sleep(0.02)) FROM t";
        client.send(&frontend::query(&marked(sql, mark)))?;
        until_begun(&world, mark)?;
        for statement in cause.split("; ") {
            world.cluster.primary().query(statement)?;
        }
        let answer = client.read_until_ready()?;
        let rows: Vec<_> = answer
            .iter()
            .filter(|message| message.tag == b'D')
            .collect();
        ensure!(rows.len() == 1, "{mark}: {answer:?}");
        ensure!(world.on_replicas(mark) == [1] && world.on_primary(mark) == 1);
        world.cluster.replica(1).wait_for(
            "SELECT confl_lock + confl_snapshot FROM pg_stat_database_conflicts WHERE datname = 'postgres'",
            &(number + 1).to_string(),
        )?;
        // The conflict says nothing about the text.
        wait_until("the same read on the replica", NOTICED, || {
            client.query(&marked(sql, mark))?;
            Ok(world.on_replicas(mark) != [1])
        })?;
        client.terminate();
    }
    ensure_untold(&world, "40001")?;
    world.until_reads(1, Reads::Some)
}

/// Messages that a client has got up to the close of its connection, by tag.
fn to_the_close(client: &mut Raw) -> Result<Vec<String>> {
    let mut told = Vec::new();
    while let Ok(message) = client.read_message() {
        told.push(match message.tag {
            b'E' => message.error(),
            tag => char::from(tag).to_string(),
        });
    }
    Ok(told)
}

#[test]
fn rt_29_an_idle_transaction_that_replay_ends_is_told_once() -> Result<()> {
    let world = impatient()?;
    let since = world.shown(1)?;
    let mut client = world.client()?;
    client.query("BEGIN READ ONLY")?;
    ensure!(client.query(&marked("SELECT a FROM t", "idle"))?.len() == 100);
    ensure!(world.on_replicas("idle") == [1]);
    world
        .cluster
        .primary()
        .query("ALTER TABLE t ADD COLUMN b int")?;
    let told = to_the_close(&mut client)?;
    let is_one = |told: &[String]| matches!(told, [only] if only.starts_with("FATAL 40001 terminating connection due to conflict with recovery"));
    ensure!(is_one(&told), "{told:?}");
    ensure!(conflicts(&world)? == "1");

    // The host is as good as before.
    let mut other = world.client()?;
    world.until_replica_serves(&mut other, "after")?;
    let now = world.shown(1)?;
    for column in ["state", "reads", "generation"] {
        ensure!(now.get(column) == since.get(column), "{since:?} {now:?}");
    }
    let log = world.weir.log();
    ensure!(
        !log.contains("is down") && !log.contains("refuses sessions"),
        "{log}"
    );
    Ok(())
}
