//! The cluster of these tests itself: each fault that it can make is the fault that it claims to be.

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Cluster;
use weir_conformance::cluster::Shutdown;

/// Number of rows that a host shows.
fn rows(cluster: &Cluster, host: usize) -> Result<String> {
    cluster.host(host).query_one("SELECT count(*) FROM t")
}

fn insert(cluster: &Cluster, host: usize) -> Result<()> {
    cluster.host(host).query("INSERT INTO t SELECT 1")?;
    Ok(())
}

#[test]
fn replicas_replay_pause_lag_and_fall_silent() -> Result<()> {
    let mut cluster = Cluster::start(2, &["log_statement = all"])?;
    cluster.primary().query("CREATE TABLE t (a int)")?;
    insert(&cluster, 0)?;
    for replica in [1, 2] {
        cluster.wait_until_replayed(replica)?;
        ensure!(rows(&cluster, replica)? == "1");
    }
    ensure!(cluster.primary().count_statements("INSERT INTO t") == 1);
    ensure!(cluster.replica(1).count_statements("FROM t") == 1);

    cluster.pause_replay(1)?;
    insert(&cluster, 0)?;
    cluster.wait_until_replayed(2)?;
    ensure!(rows(&cluster, 1)? == "1" && rows(&cluster, 2)? == "2");
    cluster.resume_replay(1)?;
    cluster.wait_until_replayed(1)?;
    ensure!(rows(&cluster, 1)? == "2");

    cluster.delay(2, "1h")?;
    cluster.freeze_receiver(1)?;
    insert(&cluster, 0)?;
    let floor = cluster.primary().flush()?;
    // PostgreSQL still calls both streaming.
    cluster.wait_streaming(1)?;
    cluster.wait_streaming(2)?;
    cluster.host(2).wait_for(
        &format!("SELECT pg_last_wal_receive_lsn() >= '{floor}'"),
        "t",
    )?;
    ensure!(rows(&cluster, 1)? == "2" && rows(&cluster, 2)? == "2");
    cluster.thaw_receiver(1)?;
    cluster.delay(2, "0")?;
    for replica in [1, 2] {
        cluster.wait_until_replayed(replica)?;
        ensure!(rows(&cluster, replica)? == "3");
    }
    Ok(())
}

#[test]
fn hosts_that_are_killed_or_stopped_come_back() -> Result<()> {
    let mut cluster = Cluster::start(1, &["synchronous_commit = off"])?;
    cluster.primary().query("CREATE TABLE t (a int)")?;
    for how in [Some(Shutdown::Fast), Some(Shutdown::Immediate), None] {
        for host in [1, 0] {
            match how {
                Some(how) => cluster.stop(host, how)?,
                None => {
                    if host == 1 {
                        cluster.freeze_receiver(host)?;
                    }
                    cluster.kill_9(host)?;
                }
            }
            ensure!(cluster.host(host).connect("postgres").is_err());
            cluster.start_host(host)?;
        }
        insert(&cluster, 0)?;
        cluster.wait_until_replayed(1)?;
        ensure!(rows(&cluster, 0)? == rows(&cluster, 1)?);
    }
    ensure!(
        cluster
            .host(1)
            .log_contains("received immediate shutdown request")
    );
    Ok(())
}

#[test]
fn a_promoted_replica_leaves_a_primary_that_rejoins_or_diverges() -> Result<()> {
    let mut cluster = Cluster::start(2, &[])?;
    cluster.primary().query("CREATE TABLE t (a int)")?;
    cluster.wait_until_replayed(1)?;
    cluster.promote(1)?;
    cluster.follow(2)?;
    // Two primaries of one system, on two timelines.
    insert(&cluster, 0)?;
    insert(&cluster, 1)?;
    insert(&cluster, 1)?;
    let identify = "SELECT system_identifier FROM pg_control_system()";
    ensure!(cluster.host(0).query_one(identify)? == cluster.host(1).query_one(identify)?);
    cluster.wait_until_replayed(2)?;
    ensure!(rows(&cluster, 0)? == "1" && rows(&cluster, 2)? == "2");

    cluster.rejoin_without_rewind(0)?;
    ensure!(cluster.host(0).query_one("SELECT pg_is_in_recovery()")? == "t");
    let diverged = "forked off current database system timeline 1 before current recovery point";
    cluster.host(0).wait_for_log(diverged)?;
    ensure!(rows(&cluster, 0)? == "1");

    cluster.rejoin(0)?;
    cluster.wait_until_replayed(0)?;
    ensure!(rows(&cluster, 0)? == "2");
    Ok(())
}

#[test]
fn a_clone_is_a_second_primary_on_the_same_timeline() -> Result<()> {
    let mut cluster = Cluster::start(0, &[])?;
    cluster.stop(0, Shutdown::Fast)?;
    let copy = cluster.clone_of(0)?;
    cluster.start_host(0)?;
    cluster.start_host(copy)?;
    let identity = "SELECT system_identifier || ' ' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) \
                    FROM pg_control_system()";
    ensure!(cluster.host(0).query_one(identity)? == cluster.host(copy).query_one(identity)?);
    ensure!(cluster.clone_of(copy).is_err(), "a running host was copied");
    Ok(())
}
