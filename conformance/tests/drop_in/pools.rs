//! Pools that come and go without clients.

use std::sync::Barrier;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::frontend;
use weir_conformance::wait_until;

use crate::support::PATIENCE;
use crate::support::both;
use crate::support::database;
use crate::support::row;

/// Waits until a database has this number of backends.
fn wait_backends(port: u16, database: &str, wanted: &str) -> Result<()> {
    let mut direct = Raw::connect(port, "postgres")?;
    let sql = format!("select count(*) from pg_stat_activity where datname = '{database}'");
    wait_until(&format!("{wanted} backends"), PATIENCE, || {
        Ok(direct.query_one(&sql)? == wanted)
    })
}

#[test]
fn min_pool_size_of_a_forced_user_is_filled_without_a_client() -> Result<()> {
    let postgres = database("drop_min")?;
    let port = postgres.port();
    let entry = format!("drop_min = host=127.0.0.1 port={port} user=postgres min_pool_size=2");
    // PgBouncer 1.18 opens them with the first client only, later versions at the start.
    let mut weir = Weir::start(&Config::new().database(&entry))?;
    wait_backends(port, "drop_min", "2")?;
    // RECONNECT closes them, and others take their place.
    weir.connect("pgbouncer")?.query("RECONNECT drop_min")?;
    wait_backends(port, "drop_min", "2")?;
    weir.check_healthy()
}

#[test]
fn an_auto_database_leaves_after_its_timeout_whatever_stats_period_is() -> Result<()> {
    let postgres = database("drop_auto")?;
    let port = postgres.port();
    let config = Config::to(port)
        .set("stats_period", "3600")
        .set("server_idle_timeout", "1")
        .set("autodb_idle_timeout", "1");
    both(&config, |pooler| {
        let mut client = pooler.connect("drop_auto")?;
        ensure!(client.query_one("select 1")? == "1");
        let mut console = pooler.connect("pgbouncer")?;
        ensure!(row(&mut console, "SHOW DATABASES", "name", "drop_auto")?.is_some());
        client.terminate();
        wait_until("the end of the database", PATIENCE, || {
            let pool = row(&mut console, "SHOW POOLS", "database", "drop_auto")?;
            let database = row(&mut console, "SHOW DATABASES", "name", "drop_auto")?;
            Ok(pool.is_none() && database.is_none())
        })?;
        // It comes again with the next client.
        let mut client = pooler.connect("drop_auto")?;
        ensure!(client.query_one("select 1")? == "1");
        Ok(())
    })
}

/// Server connections that a pooler has opened for a database.
fn opened(pooler: &Weir, database: &str) -> usize {
    let log = pooler.log();
    let lines = log.lines().filter(|line| {
        let is_server = line.contains("S-0x") && line.contains(&format!(" {database}/"));
        is_server && line.contains("new connection to server")
    });
    lines.count()
}

/// Clients that one thread each lets run this many transactions at the same time, from login to logout.
fn at_once(pooler: &Weir, database: &str, clients: usize, transactions: usize) -> Result<()> {
    let barrier = Barrier::new(clients);
    let run = || {
        barrier.wait();
        let mut client = pooler.connect(database)?;
        for _ in 0..transactions {
            ensure!(client.query_one("select 1")? == "1");
        }
        client.terminate();
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(run)).collect();
        threads.into_iter().try_for_each(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| bail!("a client panicked"))
        })
    })
}

/// Attempts at a cold start. A worker that a busy machine lets wait may miss a server that has just become free on another
/// worker, so the best attempt counts.
const ATTEMPTS: usize = 3;

/// Name of the database of one attempt.
fn cold(what: &str, attempt: usize) -> String {
    format!("drop_cold_{what}_{attempt}")
}

/// Fails unless one of the attempts, each in a database of its own, opens at most `most` servers.
fn opens_at_most(
    most: usize,
    pooler: &Weir,
    what: &str,
    run: impl Fn(&str) -> Result<()>,
) -> Result<()> {
    let mut counts = Vec::new();
    for attempt in 0..ATTEMPTS {
        let database = cold(what, attempt);
        run(&database)?;
        counts.push(opened(pooler, &database));
        if counts.last().is_some_and(|count| *count <= most) {
            return Ok(());
        }
    }
    bail!("{what}: {counts:?} servers, not {most}")
}

#[test]
fn a_cold_start_opens_no_more_servers_than_clients_wait() -> Result<()> {
    let postgres = database("drop_cold")?;
    for what in ["one", "eager", "stay", "2", "5", "30"] {
        for attempt in 0..ATTEMPTS {
            postgres.create_database(&cold(what, attempt))?;
        }
    }
    let config = Config::to(postgres.port())
        .set("default_pool_size", "40")
        .set("server_lifetime", "3600");
    both(&config, |pooler| {
        // Clients that come, run one transaction and leave, one after the other.
        opens_at_most(1, pooler, "one", |database| {
            for _ in 0..50 {
                let mut client = pooler.connect(database)?;
                ensure!(client.query_one("select 1")? == "1");
                client.terminate();
            }
            Ok(())
        })?;
        // A client that sends its request together with its start-up packet.
        opens_at_most(1, pooler, "eager", |database| {
            let parameters = [("user", "postgres"), ("database", database)];
            let mut bytes = frontend::startup(frontend::VERSION_3_0, &parameters);
            bytes.extend(frontend::query("select 1"));
            let mut client = Raw::tcp(pooler.port(), PATIENCE)?;
            client.send(&bytes)?;
            client.welcomed()?;
            client.read_until_ready()?;
            Ok(())
        })?;
        // Clients that stay, but run their transactions one after the other.
        opens_at_most(1, pooler, "stay", |database| {
            let mut clients = Vec::new();
            for _ in 0..10 {
                let mut client = pooler.connect(database)?;
                ensure!(client.query_one("select 1")? == "1");
                clients.push(client);
            }
            Ok(())
        })?;
        for clients in [2, 5, 30] {
            // Each of Weir's two workers may miss that a server has just become free on the other one.
            opens_at_most(clients + 2, pooler, &clients.to_string(), |database| {
                at_once(pooler, database, clients, 20)
            })?;
        }
        Ok(())
    })?;
    let mut weir = Weir::start(&config.workers(1))?;
    for clients in [2, 5, 30] {
        at_once(&weir, "postgres", clients, 20)?;
        let count = opened(&weir, "postgres");
        ensure!(count <= clients, "{count} servers for {clients} clients");
    }
    weir.check_healthy()
}

#[test]
fn a_reload_fills_a_pool_that_it_adds() -> Result<()> {
    let postgres = database("drop_min_reload")?;
    let port = postgres.port();
    let entry = format!("drop_min_reload = host=127.0.0.1 port={port} user=postgres");
    let mut weir = Weir::start(&Config::new().database(&entry).set("min_pool_size", "0"))?;
    wait_backends(port, "drop_min_reload", "0")?;
    weir.connect("pgbouncer")?.query("SET min_pool_size = 1")?;
    wait_backends(port, "drop_min_reload", "1")?;
    weir.check_healthy()
}

/// Worker of the client with this database.
fn worker(console: &mut Raw, database: &str) -> Result<String> {
    let client = row(console, "SHOW CLIENTS", "database", database)?;
    let mut client = client.context("no client")?;
    client.remove("worker").context("no worker")
}

#[test]
fn a_reload_is_answered_when_every_worker_has_applied_it() -> Result<()> {
    let postgres = database("drop_applied")?;
    let port = postgres.port();
    let to = |name: &str| {
        let entry = format!("one = host=127.0.0.1 port={port} dbname={name}");
        // Replies of transactions keep their worker busy for a while.
        let config = Config::new().env("WEIR_DEBUG_SPIN_US", "600000");
        config.database(&entry)
    };
    let mut weir = Weir::start(&to("drop_applied"))?;
    let mut client = weir.connect("one")?;
    ensure!(client.query_one("select 1")? == "1");
    let mut console = weir.connect("pgbouncer")?;
    ensure!(worker(&mut console, "one")? != worker(&mut console, "pgbouncer")?);
    weir.replace_file(&to("postgres"))?;
    client.send(&frontend::query("select 42"))?;
    let mut direct = Raw::connect(port, "postgres")?;
    let sql = "select count(*) from pg_stat_activity \
               where datname = 'drop_applied' and state = 'idle' and query = 'select 42'";
    wait_until("the reply of PostgreSQL", PATIENCE, || {
        Ok(direct.query_one(sql)? == "1")
    })?;
    console.query("RELOAD")?;
    // The worker has gone on: its client has the reply, and the next statement runs in the other database.
    client.stream().set_read_timeout(Some(PATIENCE / 100))?;
    client.read_until_ready().context("a busy worker")?;
    client.stream().set_read_timeout(Some(PATIENCE))?;
    ensure!(client.query_one("select current_database()")? == "postgres");
    weir.check_healthy()
}

#[test]
fn an_entry_may_lead_to_another_console() -> Result<()> {
    let postgres = database("drop_far")?;
    let far = Config::to(postgres.port());
    for far in [Weir::start_pgbouncer(&far)?, Weir::start(&far)?] {
        let entry = format!(
            "far = host=127.0.0.1 port={} dbname=pgbouncer user=postgres",
            far.port()
        );
        both(
            &Config::new().database(&entry).set("pool_mode", "session"),
            |pooler| {
                let mut console = pooler.connect("far")?;
                ensure!(row(&mut console, "SHOW LISTS", "list", "databases")?.is_some());
                ensure!(row(&mut console, "SHOW DATABASES", "name", "pgbouncer")?.is_some());
                console.query("RELOAD").map(drop)
            },
        )?;
    }
    Ok(())
}
