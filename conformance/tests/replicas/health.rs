//! Replicas that are behind, silent, refused or gone: who gets reads, and who does not notice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_conformance::cluster::Shutdown;
use weir_conformance::{Fault, Raw, clock, frontend, wait_until};

use super::support::{NOTICED, Reads, World, marked, state};

/// Options for reads that any replica in rotation may serve, however old its data are.
const EVENTUAL: &str = "read_consistency=eventual max_staleness=2";

/// Number of reads that show where reads go.
const READS: usize = 60;

/// Runs reads with a mark and returns the number that each host but the primary has served, by their numbers.
fn spread(world: &World, client: &mut Raw, mark: &str) -> Result<Vec<usize>> {
    for _ in 0..READS {
        client.query(&marked("SELECT 1", mark))?;
    }
    Ok(world.on_replicas(mark))
}

/// Checks that replica 1 gets no read while replica 2 gets all of them.
fn ensure_out(world: &World, client: &mut Raw, mark: &str) -> Result<()> {
    let served = spread(world, client, mark)?;
    ensure!(served == [0, READS], "{mark}: {served:?}");
    Ok(())
}

/// Waits until replica 1 serves reads again.
fn until_back(world: &World, client: &mut Raw, mark: &str) -> Result<()> {
    world.until_reads(1, Reads::Some)?;
    wait_until("a read on replica 1", NOTICED, || {
        client.query(&marked("SELECT 1", mark))?;
        Ok(world.on_replicas(mark).first() > Some(&0))
    })
}

#[test]
fn rt_26_a_replica_that_falls_behind_gets_no_reads_until_it_has_caught_up() -> Result<()> {
    let mut world = World::start(2, EVENTUAL)?;
    world.prepare("CREATE TABLE t (a int)")?;
    let mut client = world.client()?;
    let write = "INSERT INTO t VALUES (1)";

    world.cluster.pause_replay(1)?;
    world.cluster.primary().query(write)?;
    world.until_reads(1, Reads::None)?;
    ensure_out(&world, &mut client, "paused")?;
    world.cluster.resume_replay(1)?;
    until_back(&world, &mut client, "resumed")?;

    // The primary calls the replica streaming, and all that was received is replayed.
    world.cluster.freeze_receiver(1)?;
    world.cluster.primary().query(write)?;
    world.until_reads(1, Reads::None)?;
    world.cluster.wait_streaming(1)?;
    ensure_out(&world, &mut client, "silent")?;
    world.cluster.thaw_receiver(1)?;
    until_back(&world, &mut client, "thawed")?;

    let upstream = world.cluster.host(1).query_one("SHOW primary_conninfo")?;
    world
        .cluster
        .set(1, "primary_conninfo", "host=127.0.0.1 port=1 user=postgres")?;
    world
        .cluster
        .host(1)
        .wait_for("SELECT count(*) FROM pg_stat_wal_receiver", "0")?;
    world.cluster.primary().query(write)?;
    world.until_reads(1, Reads::None)?;
    ensure_out(&world, &mut client, "stopped")?;
    world.cluster.set(1, "primary_conninfo", &upstream)?;
    until_back(&world, &mut client, "connected")
}

#[test]
fn rt_27_a_replica_of_an_idle_primary_is_not_behind() -> Result<()> {
    let world = World::start(1, EVENTUAL)?;
    let mut client = world.client()?;
    // Longer than `max_staleness`, twice.
    wait_until("six seconds without a write", NOTICED, || {
        let shown = world.shown(1)?;
        let is = |column: &str, value: &str| shown.get(column).is_some_and(|it| it == value);
        ensure!(is("reads", "yes") && is("state", "up"), "{shown:?}");
        ensure!(is("lag_bytes", "0") && is("lag_ms", "0"), "{shown:?}");
        let since = shown.get("since_seconds").context("no column")?;
        Ok(since.parse::<u64>()? >= 6)
    })?;
    ensure!(spread(&world, &mut client, "idle")? == [READS]);
    Ok(())
}

#[test]
fn rt_27_an_old_primary_that_was_not_rewound_is_never_read() -> Result<()> {
    let mut world = World::start(2, EVENTUAL)?;
    world.prepare("CREATE TABLE t AS SELECT 'common' AS a")?;
    world.cluster.promote(1)?;
    world.cluster.primary().query("UPDATE t SET a = 'new'")?;
    world.cluster.follow(2)?;
    // This row exists nowhere else.
    world.cluster.host(0).query("UPDATE t SET a = 'lost'")?;
    world.until(1, "writes", "yes")?;
    world.until(0, "state", "fenced")?;
    world.cluster.rejoin_without_rewind(0)?;
    world.until(0, "role", "replica")?;
    world.cluster.wait_until_replayed(2)?;
    world.until_reads(2, Reads::Some)?;

    let mut client = world.client()?;
    for _ in 0..READS {
        let seen = client.query_one(&marked("SELECT a FROM t", "diverged"))?;
        ensure!(seen == "new", "{seen}");
    }
    let shown = world.shown(0)?;
    let said = shown.get("state").context("no column")?;
    ensure!(said == "fenced" || said == "diverged", "{shown:?}");
    ensure!(shown.get("reads").is_some_and(|it| it == "no"), "{shown:?}");
    ensure!(world.on_replicas("diverged") == [0, READS]);

    // After a rewind it is a replica like any other.
    world.cluster.rejoin(0)?;
    world.until_reads(0, Reads::Some)
}

/// Time in which a host that serves nobody gets no reads: three probes and the time-out of the last.
const OUT: Duration = Duration::from_secs(4);

/// Longest time for a statement on a host that has no fault. A busy machine takes a while.
const UNDISTURBED: Duration = Duration::from_secs(2);

/// Does work on hosts without a fault until told to stop, and returns the longest time of a statement.
fn work(world: &World, is_over: &AtomicBool) -> Result<Duration> {
    let (mut writer, mut longest) = (world.client()?, Duration::ZERO);
    while !is_over.load(Ordering::Relaxed) {
        let start = clock::now();
        writer.query("INSERT INTO t VALUES (1)")?;
        longest = longest.max(start.elapsed());
        pause();
    }
    Ok(longest)
}

/// Keeps the logs of the hosts short: they hold every statement.
fn pause() {
    thread::park_timeout(Duration::from_millis(5));
}

/// Runs a test beside work on the primary, which must not be disturbed.
fn undisturbed(world: &World, test: impl FnOnce() -> Result<()>) -> Result<()> {
    let is_over = AtomicBool::new(false);
    let longest = thread::scope(|scope| {
        let worker = scope.spawn(|| work(world, &is_over));
        let outcome = test();
        is_over.store(true, Ordering::Relaxed);
        let longest = worker.join().expect("the worker does not panic");
        outcome.and(longest)
    })?;
    ensure!(longest < UNDISTURBED, "a write took {longest:?}");
    Ok(())
}

#[test]
fn rt_30_a_replica_that_serves_nobody_gets_no_reads() -> Result<()> {
    let world = World::start_with_paths(2, "read_consistency=eventual")?;
    world.prepare("CREATE TABLE t (a int)")?;
    undisturbed(&world, || {
        for fault in [Fault::Refuse, Fault::Reset, Fault::HangLogin, Fault::Hang] {
            let mut client = world.client()?;
            world.path(1)?.set(fault)?;
            if fault == Fault::HangLogin {
                // Its connections are as good as before; new ones are not, and the probe needs one.
                let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'weir watch'";
                world.cluster.replica(1).query(kill)?;
            }
            let start = clock::now();
            world.until_reads(1, Reads::None)?;
            let elapsed = start.elapsed();
            // A busy machine asks late.
            ensure!(elapsed < OUT * 2, "{fault:?}: {elapsed:?}");
            ensure_out(&world, &mut client, &format!("{fault:?}"))?;
            world.path(1)?.set(Fault::None)?;
            until_back(&world, &mut client, &format!("{fault:?}-over"))?;
            client.terminate();
        }
        Ok(())
    })
}

/// A read that is under way when its replica goes is answered all the same.
#[test]
fn rt_30_a_read_on_a_replica_that_goes_is_answered_by_the_primary() -> Result<()> {
    let world = World::start_with_paths(1, "read_consistency=eventual")?;
    for fault in [Fault::Refuse, Fault::Reset, Fault::Hang] {
        let mark = format!("{fault:?}");
        world.until_reads(1, Reads::Some)?;
        let mut client = world.client()?;
        world.until_replica_serves(&mut client, &format!("{fault:?}-before"))?;
        client.send(&frontend::query(&marked("SELECT 7, pg_sleep(0.5)", &mark)))?;
        wait_until("the read on the replica", NOTICED, || {
            Ok(world.on_replicas(&mark) == [1])
        })?;
        world.path(1)?.set(fault)?;
        let answer = client.read_until_ready()?;
        let row = answer.iter().find(|message| message.tag == b'D');
        let row = row.with_context(|| format!("{fault:?}: {answer:?}"))?;
        ensure!(row.row()?.first() == Some(&Some("7".to_owned())));
        ensure!(world.on_primary(&mark) == 1, "{fault:?}");
        world.path(1)?.set(Fault::None)?;
    }
    Ok(())
}

#[test]
fn rt_30_load_on_a_replica_is_no_fault() -> Result<()> {
    let world = World::start(1, "read_consistency=eventual pool_size=2")?;
    let mut clients = Vec::new();
    // Two slow reads fill the pool, and the others wait.
    for number in 0..8 {
        let mut client = world.client()?;
        let seconds = if number < 2 { 3 } else { 0 };
        let sql = marked(&format!("SELECT pg_sleep({seconds})"), "slow");
        client.send(&frontend::query(&sql))?;
        clients.push(client);
    }
    for client in &mut clients {
        let answer = client.read_until_ready()?;
        ensure!(
            answer.iter().any(|message| message.tag == b'D'),
            "{answer:?}"
        );
    }
    ensure!(
        world.on_replicas("slow") == [8],
        "{:?}",
        world.on_replicas("slow")
    );
    for client in &mut clients {
        client.query("SET statement_timeout = '1ms'")?;
    }
    // The settings were made on the primary; reads go to the replica at once, as they need no fresh data.
    for _ in 0..20 {
        for client in &mut clients {
            let seen = state(client, &marked("SELECT pg_sleep(1)", "storm"))?;
            ensure!(seen.as_deref() == Some("57014"), "{seen:?}");
        }
    }
    ensure!(world.on_replicas("storm").iter().sum::<usize>() > 0);
    let shown = world.shown(1)?;
    ensure!(
        shown.get("reads").is_some_and(|it| it == "yes"),
        "{shown:?}"
    );
    let log = world.weir.log();
    ensure!(
        !log.contains("gets no reads") && !log.contains("is down"),
        "{log}"
    );
    Ok(())
}

#[test]
fn rt_31_reads_survive_the_loss_of_all_replicas_and_come_back_slowly() -> Result<()> {
    let mut world = World::start(2, "read_consistency=eventual")?;
    world.prepare("CREATE TABLE t AS SELECT 7 AS a")?;
    let mut client = world.client()?;
    ensure!(spread(&world, &mut client, "before")?.iter().sum::<usize>() == READS);
    for number in [1, 2] {
        world.cluster.stop(number, Shutdown::Immediate)?;
    }
    // From the first read on, not only after the watcher has noticed.
    for _ in 0..READS {
        ensure!(client.query_one(&marked("SELECT a FROM t", "alone"))? == "7");
    }
    ensure!(world.on_primary("alone") == READS);
    for number in [1, 2] {
        world.until(number, "state", "down")?;
    }
    world.cluster.start_host(1)?;
    world.until_reads(1, Reads::Some)?;
    let weight: u32 = world.shows(1, "weight")?.parse()?;
    ensure!(weight < 100, "no slow start: {weight}");
    until_back(&world, &mut client, "back")
}

#[test]
fn rt_31_a_replica_that_flaps_costs_no_read() -> Result<()> {
    let world = World::start_with_paths(1, "read_consistency=eventual")?;
    world.prepare("CREATE TABLE t (a int)")?;
    let is_over = AtomicBool::new(false);
    undisturbed(&world, || {
        thread::scope(|scope| {
            let reader = scope.spawn(|| -> Result<usize> {
                let (mut client, mut count) = (world.client()?, 0);
                while !is_over.load(Ordering::Relaxed) {
                    ensure!(client.query_one(&marked("SELECT 7", "flap"))? == "7");
                    count += 1;
                    pause();
                }
                Ok(count)
            });
            let flap = || -> Result<()> {
                for _ in 0..3 {
                    world.path(1)?.set(Fault::Refuse)?;
                    world.until_reads(1, Reads::None)?;
                    world.path(1)?.set(Fault::None)?;
                    world.until_reads(1, Reads::Some)?;
                    let before = world.on_replicas("flap");
                    wait_until("a read on the replica", NOTICED, || {
                        Ok(world.on_replicas("flap") != before)
                    })?;
                }
                Ok(())
            };
            let outcome = flap();
            is_over.store(true, Ordering::Relaxed);
            let count = reader.join().expect("the reader does not panic");
            outcome.and(count)?;
            ensure!(world.on_primary("flap") > 0);
            Ok(())
        })
    })
}
