//! First come, first served, on every worker, and whatever the reason for which a client keeps its server.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use anyhow::Context;
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
use crate::support::on_workers;

const WAITERS: usize = 20;

#[test]
fn the_queue_is_served_in_the_order_of_arrival() -> Result<()> {
    on_workers(|workers| {
        let server = Server::new("op_fifo")?;
        let mut direct = Raw::connect(server.postgres.port(), "op_fifo")?;
        direct.query("create table served (at serial, n int)")?;
        let mut weir = Weir::start(
            &server
                .config()
                .workers(workers)
                .set("default_pool_size", "1"),
        )?;
        let mut holder = weir.connect("op_fifo")?;
        let mut waiters = clients(&weir, "op_fifo", WAITERS)?;
        // Not the order of connecting, which is the order of workers in turn.
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
    })
}

/// Four clients send their next query as soon as the last one is answered. Each query gets the number of its turn from
/// the server, and a client that has sent one reads the last number that anybody has seen. With one worker, because
/// another one may not run for a while and read the query late; the tests below wait until it has.
#[test]
fn a_busy_client_does_not_overtake_one_that_waits() -> Result<()> {
    const CLIENTS: usize = 4;
    const EACH: usize = 60;
    /// Each other client may be in front, have a turn that it has not seen, and be served in this turn of the loop.
    const TURNS_MAX: usize = 3 * (CLIENTS - 1) + 1;
    let turn = "update turns set n = n + 1 returning n, pg_sleep(0.001)";
    let server = Server::new("op_fair")?;
    let mut direct = Raw::connect(server.postgres.port(), "op_fair")?;
    direct.query("create table turns (n int)")?;
    direct.query("insert into turns values (0)")?;
    let mut weir = Weir::start(&server.config().workers(1).set("default_pool_size", "1"))?;
    let mut clients = clients(&weir, "op_fair", CLIENTS)?;
    let seen = AtomicUsize::new(0);
    std::thread::scope(|scope| -> Result<()> {
        let running: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                scope.spawn(|| -> Result<()> {
                    for _ in 0..EACH {
                        client.send(&frontend::query(turn))?;
                        let before = seen.load(SeqCst);
                        let messages = answer(client)?;
                        let row = messages.iter().find(|message| message.tag == b'D');
                        let row = row.context("no row")?.row()?;
                        let number = row.first().cloned().flatten().context("no number")?;
                        let number = number.parse()?;
                        seen.fetch_max(number, SeqCst);
                        ensure!(number <= before + TURNS_MAX, "{number} after {before}");
                    }
                    Ok(())
                })
            })
            .collect();
        for client in running {
            client.join().map_err(|_| anyhow::anyhow!("panicked"))??;
        }
        Ok(())
    })?;
    weir.check_healthy()
}

/// Statements that give a client a reason to keep its server.
const REASONS: [&str; 4] = [
    "select lastval()",
    "select currval('made_id_seq')",
    "select nextval('made_id_seq')",
    "do $$ begin perform 1; end $$",
];

/// Protocol for a statement.
#[derive(Clone, Copy, Debug)]
enum Protocol {
    Simple,
    Extended,
    Prepared,
}

impl Protocol {
    const ALL: [Self; 3] = [Self::Simple, Self::Extended, Self::Prepared];

    fn say(self, client: &mut Raw, sql: &str) -> Result<()> {
        let bytes = match self {
            Self::Simple => frontend::query(sql),
            Self::Extended => batch("", sql, true),
            Self::Prepared => {
                // The statement's text is its name; closed, so that each transaction prepares it again.
                let mut bytes = batch(sql, sql, false);
                bytes.extend(frontend::close(b'S', sql));
                bytes.extend(frontend::sync());
                bytes
            }
        };
        client.send(&bytes)?;
        answer(client).map(drop)
    }

    /// Runs one transaction of client `number`.
    fn transaction(self, client: &mut Raw, number: i32, reason: &str) -> Result<()> {
        let insert = format!("insert into made (client) values ({number})");
        for sql in ["begin", &insert, reason, "commit"] {
            self.say(client, sql)?;
        }
        Ok(())
    }
}

fn batch(name: &str, sql: &str, ends: bool) -> Vec<u8> {
    let mut bytes = frontend::parse(name, sql, &[]);
    bytes.extend(frontend::bind("", name, &[]));
    bytes.extend(frontend::execute("", 0));
    if ends {
        bytes.extend(frontend::sync());
    }
    bytes
}

const TABLE: &str = "drop table if exists made; create table made (id serial, client int)";

/// Client 0 is alone on its worker, so no client waits there: it used to keep its server for as long as it sent
/// queries.
#[test]
fn whatever_a_client_keeps_its_server_for_who_waits_elsewhere_is_next() -> Result<()> {
    const MORE: usize = 20;
    let server = Server::new("op_keep")?;
    let mut direct = Raw::connect(server.postgres.port(), "op_keep")?;
    on_workers(|workers| {
        let config = server.config().workers(workers);
        let mut weir = Weir::start(&config.set("default_pool_size", "1"))?;
        let mut clients = clients(&weir, "op_keep", workers.max(2))?;
        for (reason, protocol) in REASONS
            .iter()
            .flat_map(|reason| Protocol::ALL.map(|protocol| (reason, protocol)))
        {
            direct.query(TABLE)?;
            let (busy, waiters) = clients.split_first_mut().context("clients")?;
            // All have used a sequence before, so no client is on trial.
            for client in std::iter::once(&mut *busy).chain(waiters.iter_mut()) {
                protocol.transaction(client, -1, reason)?;
                protocol.transaction(client, -1, reason)?;
            }
            protocol.say(busy, "begin")?;
            protocol.say(busy, "insert into made (client) values (0)")?;
            protocol.say(busy, reason)?;
            for (number, waiter) in waiters.iter_mut().enumerate() {
                let sql = format!("insert into made (client) values ({})", number + 1);
                waiter.send(&frontend::query(&sql))?;
            }
            weir.wait_pool("op_keep", "cl_waiting", i64::try_from(waiters.len())?)?;
            protocol.say(busy, "commit")?;
            for _ in 0..MORE {
                protocol.transaction(busy, 0, reason)?;
            }
            waiters
                .iter_mut()
                .try_for_each(|waiter| answer(waiter).map(drop))?;
            let order = direct.query("select client from made where client >= 0 order by id")?;
            let order: Vec<String> = order.into_iter().flatten().flatten().collect();
            let last = order
                .iter()
                .rposition(|client| client != "0")
                .context("waiters")?;
            let overtaken = order
                .iter()
                .take(last)
                .filter(|client| *client == "0")
                .count();
            // One of them is the transaction that they waited for.
            ensure!(overtaken <= 3, "{reason}, {protocol:?}: {order:?}");
        }
        weir.check_healthy()
    })
}

/// Workload of the reported issue: one client did 180,049 transactions while five others did none.
#[test]
fn clients_that_read_sequences_without_end_all_get_their_turns() -> Result<()> {
    const CLIENTS: usize = 6;
    const EACH: usize = 20;
    const MOST: usize = 20 * EACH;
    let server = Server::new("op_turns")?;
    let mut direct = Raw::connect(server.postgres.port(), "op_turns")?;
    on_workers(|workers| {
        let config = server.config().workers(workers);
        let mut weir = Weir::start(&config.set("default_pool_size", "1"))?;
        for (reason, protocol) in REASONS.iter().zip(Protocol::ALL.iter().cycle()) {
            direct.query(TABLE)?;
            let mut clients = clients(&weir, "op_turns", CLIENTS)?;
            let done: [AtomicUsize; CLIENTS] = Default::default();
            let goes_on = || {
                let counts = done.iter().map(|count| count.load(SeqCst));
                let (least, most) = (counts.clone().min(), counts.max());
                least < Some(EACH) && most < Some(MOST)
            };
            std::thread::scope(|scope| -> Result<()> {
                let running: Vec<_> = (clients.iter_mut().zip(&done))
                    .map(|(client, done)| {
                        scope.spawn(|| -> Result<()> {
                            while goes_on() {
                                protocol.transaction(client, 0, reason)?;
                                done.fetch_add(1, SeqCst);
                            }
                            Ok(())
                        })
                    })
                    .collect();
                for client in running {
                    client.join().map_err(|_| anyhow::anyhow!("panicked"))??;
                }
                Ok(())
            })?;
            let counts = done.map(AtomicUsize::into_inner);
            ensure!(
                counts.iter().all(|count| *count >= EACH),
                "{reason}: {counts:?}"
            );
        }
        weir.check_healthy()
    })
}
