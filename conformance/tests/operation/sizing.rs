//! A pool determines its own size on a real PostgreSQL: the limit rises while more servers pay off, and stays within
//! its bound. It also resolves stalls in which a pool of fixed size would leave clients waiting for each other.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::wait_until;

use crate::support::PATIENCE;
use crate::support::Server;
use crate::support::answer;
use crate::support::clients;
use crate::support::send_all;

/// Time limit for the quiet start and a search, on a machine that is busy with other work, too.
const SEARCH_MAX: Duration = Duration::from_secs(45);
const START: u64 = 2;
const SIZE_MAX: u64 = 12;

/// Starts an adaptive pool with `START` servers.
fn small_pool(server: &Server) -> Result<Weir> {
    let config = server.config().set("default_pool_size", "auto");
    let config = config.set("pool_size_start", &START.to_string());
    Weir::start(&config.set("pool_size_max", &SIZE_MAX.to_string()))
}

/// Number in a column of the pool's row.
fn figure(weir: &Weir, column: &str) -> Result<u64> {
    let rows = weir.connect("pgbouncer")?.query_named("SHOW POOL_SIZE")?;
    let row = rows.first().context("no pool finds its size")?;
    let value = row.get(column);
    let value = value.with_context(|| format!("no column {column}"))?;
    value.parse().with_context(|| format!("{column} = {value}"))
}

/// Servers mostly wait, so more of them increase throughput, up to the bound.
#[test]
fn a_pool_finds_its_size_under_load_and_stays_within_its_bounds() -> Result<()> {
    let mut server = Server::new("op_sizing")?;
    let weir = small_pool(&server)?;
    let mut clients = clients(&weir, "op_sizing", 24)?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let running: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                scope.spawn(|| -> Result<()> {
                    while !stop.load(Ordering::Relaxed) {
                        client.query("select pg_sleep(0.005)")?;
                    }
                    Ok(())
                })
            })
            .collect();
        let found = wait_until("a larger pool", SEARCH_MAX, || {
            let limit = figure(&weir, "limit")?;
            ensure!(limit <= SIZE_MAX, "the limit is {limit}");
            let servers = server.count()?;
            ensure!(servers as u64 <= SIZE_MAX, "{servers} backends");
            Ok(figure(&weir, "size")? >= 3 * START)
        });
        stop.store(true, Ordering::Relaxed);
        for client in running {
            client.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        found
    })?;
    ensure!(figure(&weir, "moves")? > 0);
    ensure!(weir.log().contains("pool size of op_sizing/postgres: "));
    wait_until("everybody to be done", SEARCH_MAX, || {
        Ok(figure(&weir, "assigned")? == 0)
    })
}

/// Each application holds one connection in a transaction and waits for the answer on its second one.
#[test]
fn clients_that_wait_for_clients_in_the_queue_go_on() -> Result<()> {
    let server = Server::new("op_stall")?;
    let weir = small_pool(&server)?;
    let mut holders = clients(&weir, "op_stall", 2)?;
    for holder in &mut holders {
        holder.query("begin")?;
    }
    let mut seconds = clients(&weir, "op_stall", 2)?;
    let asked = clock::now();
    send_all(&mut seconds, "select 1")?;
    for second in &mut seconds {
        answer(second)?;
    }
    let took = clock::now() - asked;
    ensure!(took < SOON, "it took {took:?}");
    for holder in &mut holders {
        holder.query("commit")?;
    }
    ensure!(figure(&weir, "stalls")? > 0);
    ensure!(figure(&weir, "limit")? > START, "it fell at once");
    Ok(())
}

/// The first server waits for its client, the second for a lock of that client, and the client for a queued client.
/// From outside the second server seems to work.
#[test]
fn a_stall_behind_a_row_lock_ends() -> Result<()> {
    let mut server = Server::new("op_stall_lock")?;
    let mut direct = Raw::connect(server.postgres.port(), "op_stall_lock")?;
    direct.query("create table t as select 0 as n")?;
    let weir = small_pool(&server)?;
    let mut clients = clients(&weir, "op_stall_lock", 3)?;
    let [holder, blocked, second] = clients.as_mut_slice() else {
        unreachable!("three were asked for");
    };
    holder.query("begin")?;
    holder.query("update t set n = 1")?;
    send_all(std::slice::from_mut(blocked), "update t set n = 2")?;
    wait_until("a server that waits for a lock", PATIENCE, || {
        let waits = "select count(*) from pg_stat_activity \
                     where datname = 'op_stall_lock' and wait_event_type = 'Lock'";
        Ok(server.direct.query_one(waits)? != "0")
    })?;
    let asked = clock::now();
    send_all(std::slice::from_mut(second), "select 1")?;
    answer(second)?;
    let took = clock::now() - asked;
    ensure!(took < SOON, "it took {took:?}");
    holder.query("commit")?;
    answer(blocked)?;
    ensure!(figure(&weir, "stalls")? > 0);
    Ok(())
}
