//! Commits whose acknowledgement is lost together with the connection.

use anyhow::{Result, ensure};
use weir_conformance::frontend::query;
use weir_conformance::{Fault, wait_until};

use super::support::{NOTICED, World, marked};

/// The client cannot know what has become of its commit, and looks: it must not read from a replica that lacks it.
#[test]
fn rt_24_a_commit_without_an_answer_is_seen_by_whoever_looks_for_it() -> Result<()> {
    let world = World::start_with_path_to_primary(
        1,
        "read_consistency=global max_staleness=0 min_time_between_holds=0",
    )?;
    world.prepare("CREATE TABLE t (a int)")?;
    world.cluster.delay(1, "1h")?;
    for round in 1..=5 {
        let count = "SELECT count(*) FROM t";
        let mut client = world.client()?;
        // The server of the write has logged in before replies stop.
        client.query("BEGIN")?;
        client.query("INSERT INTO t VALUES (1)")?;
        world.path(0)?.set(Fault::Mute)?;
        client.send(&query("COMMIT"))?;
        let committed = round.to_string();
        wait_until("the commit", NOTICED, || {
            Ok(world.cluster.primary().query_one(count)? == committed)
        })?;
        world.path(0)?.set(Fault::Reset)?;
        let told = client.read_until_ready();
        ensure!(told.is_err() || told?.iter().any(|message| message.tag == b'E'));
        world.path(0)?.set(Fault::None)?;

        let mut other = world.client()?;
        let seen = other.query_one(&marked(count, &format!("after-{round}")))?;
        ensure!(seen == committed, "{seen} rows of {committed}");
        other.terminate();
        world.until(0, "writes", "yes")?;
    }
    Ok(())
}
