//! First come, first served, whichever worker a client is connected to.

use std::time::Duration;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::frontend;

use crate::support::Server;
use crate::support::answer;
use crate::support::apart;
use crate::support::clients;

const WAITERS: usize = 20;

#[test]
fn the_queue_is_served_in_the_order_of_arrival() -> Result<()> {
    let server = Server::new("op_fifo")?;
    let mut direct = Raw::connect(server.postgres.port(), "op_fifo")?;
    direct.query("create table served (at serial, n int)")?;
    let mut weir = Weir::start(&server.config().set("default_pool_size", "1"))?;
    let mut holder = weir.connect("op_fifo")?;
    let mut waiters = clients(&weir, "op_fifo", WAITERS)?;
    // Not the order in which they were connected: that is the order of workers in turn.
    waiters.rotate_left(WAITERS / 3);
    waiters.swap(2, 11);
    waiters.swap(5, 6);
    for round in 0..3 {
        holder.query("begin")?;
        for (n, waiter) in waiters.iter_mut().enumerate() {
            let sent = clock::now();
            let sql = format!("insert into served (n) values ({n})");
            waiter.send(&frontend::query(&sql))?;
            weir.wait_pool("op_fifo", "cl_waiting", i64::try_from(n)? + 1)?;
            apart(sent)?;
        }
        holder.query("commit")?;
        for waiter in &mut waiters {
            answer(waiter)?;
        }
        let order = direct.query("select n from served order by at")?;
        let order: Vec<String> = order.into_iter().flatten().flatten().collect();
        let wanted: Vec<String> = (0..WAITERS).map(|n| n.to_string()).collect();
        ensure!(order == wanted, "round {round}: {order:?}");
        direct.query("truncate served")?;
    }
    weir.check_healthy()
}

#[test]
fn a_busy_client_does_not_overtake_one_that_waits() -> Result<()> {
    let server = Server::new("op_fair")?;
    let mut weir = Weir::start(&server.config().set("default_pool_size", "1"))?;
    // Four clients, two per worker, all with the next query on its way as soon as the last is answered.
    let mut counts = [0_u32; 4];
    let mut clients = clients(&weir, "op_fair", 4)?;
    let until = clock::now() + Duration::from_secs(1);
    std::thread::scope(|scope| -> Result<()> {
        let running: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                scope.spawn(move || -> Result<u32> {
                    let mut count = 0;
                    while clock::now() < until {
                        client.query("select pg_sleep(0.003)")?;
                        count += 1;
                    }
                    Ok(count)
                })
            })
            .collect();
        for (count, client) in counts.iter_mut().zip(running) {
            *count = client.join().map_err(|_| anyhow::anyhow!("panicked"))??;
        }
        Ok(())
    })?;
    let (least, most) = (counts.iter().min(), counts.iter().max());
    let (least, most) = (least.copied().unwrap_or(0), most.copied().unwrap_or(0));
    ensure!(least > 10 && most <= least * 2, "{counts:?}");
    weir.check_healthy()
}
