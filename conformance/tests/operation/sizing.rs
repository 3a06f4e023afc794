//! A pool finds its own size on a real PostgreSQL: the limit moves up where more servers pay, and holds below its bound.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;
use anyhow::ensure;
use weir_conformance::Weir;
use weir_conformance::wait_until;

use crate::support::Server;
use crate::support::clients;

/// The quiet start, and a search on a machine that does other things too.
const SEARCH_MAX: Duration = Duration::from_secs(45);
const START: u64 = 2;
const SIZE_MAX: u64 = 12;

/// A column of the pool's row, as a number.
fn figure(weir: &Weir, column: &str) -> Result<u64> {
    let rows = weir.connect("pgbouncer")?.query_named("SHOW POOL_SIZE")?;
    let row = rows.first().context("no pool finds its size")?;
    let value = row.get(column);
    let value = value.with_context(|| format!("no column {column}"))?;
    value.parse().with_context(|| format!("{column} = {value}"))
}

/// Servers mostly wait, so more of them bring more, up to the bound.
#[test]
fn a_pool_finds_its_size_under_load_and_stays_within_its_bounds() -> Result<()> {
    let mut server = Server::new("op_sizing")?;
    let config = server.config().set("default_pool_size", "auto");
    let config = config.set("pool_size_start", &START.to_string());
    let weir = Weir::start(&config.set("pool_size_max", &SIZE_MAX.to_string()))?;
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
