//! Console output over both workers is correct, and the console can stop the process.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;
use anyhow::ensure;
use weir_conformance::Weir;
use weir_conformance::psql::psql;
use weir_conformance::tools;

use crate::support::PATIENCE;
use crate::support::Server;
use crate::support::clients;
use crate::support::ended;
use crate::support::send_all;

type Table = Vec<HashMap<String, String>>;

/// Result of a command in psql, as rows.
fn show(weir: &Weir, command: &str) -> Result<Table> {
    let mut psql = psql(weir.port(), "pgbouncer")?;
    let output = tools::run(psql.args(["-A", "-P", "footer=off", "-c", command]))?;
    let mut lines = output
        .lines()
        .map(|line| line.split('|').map(str::to_owned));
    let names: Vec<String> = lines.next().context("no header")?.collect();
    Ok(lines
        .map(|values| names.iter().cloned().zip(values).collect())
        .collect())
}

fn number(row: &HashMap<String, String>, key: &str) -> Result<i64> {
    let value = row.get(key).with_context(|| format!("no {key}"))?;
    value.parse().with_context(|| format!("{key} = {value}"))
}

fn row_of(table: Table, key: &str, value: &str) -> Result<HashMap<String, String>> {
    let mut rows: Table = table
        .into_iter()
        .filter(|row| row.get(key).is_some_and(|found| found == value))
        .collect();
    ensure!(rows.len() == 1, "{} rows with {key} = {value}", rows.len());
    rows.pop().context("one row")
}

#[test]
fn the_numbers_are_exact_when_nothing_moves() -> Result<()> {
    let mut server = Server::new("op_show")?;
    let weir = Weir::start(&server.config().set("default_pool_size", "3"))?;
    let mut clients = clients(&weir, "op_show", 10)?;
    send_all(&mut clients[..5], "begin; select 1")?;
    weir.wait_pool("op_show", "cl_waiting", 2)?;
    let pool = row_of(show(&weir, "SHOW POOLS")?, "database", "op_show")?;
    for (key, wanted) in [
        ("cl_waiting", 2),
        ("cl_active", 8),
        ("sv_active", 3),
        ("sv_idle", 0),
        ("sv_login", 0),
        ("servers", 3),
        ("size", 3),
    ] {
        ensure!(number(&pool, key)? == wanted, "{key}: {pool:?}");
    }
    let clients_shown = show(&weir, "SHOW CLIENTS")?;
    let of_ours =
        |row: &&HashMap<String, String>| row.get("database").is_some_and(|d| d == "op_show");
    ensure!(clients_shown.iter().filter(of_ours).count() == 10);
    let workers: std::collections::HashSet<_> = clients_shown
        .iter()
        .filter(of_ours)
        .filter_map(|row| row.get("worker"))
        .collect();
    ensure!(workers.len() == 2, "{workers:?}");
    let servers = show(&weir, "SHOW SERVERS")?;
    let mut pids: Vec<String> = servers
        .iter()
        .filter(of_ours)
        .filter_map(|row| row.get("remote_pid").cloned())
        .collect();
    pids.sort_by_key(|pid| pid.parse::<u32>().unwrap_or(0));
    ensure!(pids == server.pids()?, "{pids:?}");
    let database = row_of(show(&weir, "SHOW DATABASES")?, "name", "op_show")?;
    ensure!(
        number(&database, "current_connections")? == 3,
        "{database:?}"
    );
    ensure!(
        number(&database, "current_client_connections")? == 10,
        "{database:?}"
    );
    let lists = show(&weir, "SHOW LISTS")?;
    let item =
        |list: &str| -> Result<i64> { number(&row_of(lists.clone(), "list", list)?, "items") };
    // The client of this query counts, too.
    ensure!(item("used_clients")? == 11, "{lists:?}");
    ensure!(item("used_servers")? == 3, "{lists:?}");
    Ok(())
}

#[test]
fn statistics_add_up_over_workers() -> Result<()> {
    let server = Server::new("op_stats")?;
    let weir = Weir::start(&server.config())?;
    let mut clients = clients(&weir, "op_stats", 8)?;
    for client in &mut clients {
        client.query("select 1")?;
        client.query("begin")?;
        client.query("select 2")?;
        client.query("commit")?;
    }
    let stats = row_of(show(&weir, "SHOW STATS")?, "database", "op_stats")?;
    ensure!(number(&stats, "total_query_count")? == 32, "{stats:?}");
    ensure!(number(&stats, "total_xact_count")? == 16, "{stats:?}");
    ensure!(
        number(&stats, "total_client_login_count")? == 8,
        "{stats:?}"
    );
    Ok(())
}

/// Checks the invariants of a pool that hold at any moment.
fn check_pool(pool: &HashMap<String, String>, clients: i64, size: i64) -> Result<()> {
    let number = |key| number(pool, key);
    let servers = number("servers")?;
    let by_state: i64 = ["sv_active", "sv_idle", "sv_used", "sv_tested", "sv_login"]
        .iter()
        .map(|key| number(key))
        .sum::<Result<i64>>()?;
    ensure!(
        pool.get("violation").is_some_and(String::is_empty),
        "{pool:?}"
    );
    ensure!((0..=size).contains(&servers), "{pool:?}");
    ensure!(by_state == servers, "{by_state} by state: {pool:?}");
    let seen = number("cl_active")? + number("cl_waiting")?;
    ensure!(seen == clients, "{seen} clients: {pool:?}");
    Ok(())
}

#[test]
fn the_numbers_are_consistent_under_load() -> Result<()> {
    let server = Server::new("op_show_load")?;
    // Several workers answer one after the other, so servers that move meanwhile are counted twice or not at all.
    // The answer of a single worker is exact.
    let config = server
        .config()
        .set("default_pool_size", "4")
        .env("WEIR_WORKERS", "1");
    let mut weir = Weir::start(&config)?;
    let mut clients = clients(&weir, "op_show_load", 16)?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| -> Result<()> {
        let running: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                scope.spawn(|| -> Result<()> {
                    while !stop.load(Ordering::Relaxed) {
                        client.query("select pg_sleep(0.001)")?;
                    }
                    Ok(())
                })
            })
            .collect();
        let mut checked = Ok(());
        for _ in 0..20 {
            let pool = show(&weir, "SHOW POOLS")
                .and_then(|pools| row_of(pools, "database", "op_show_load"));
            checked = checked.and_then(|()| check_pool(&pool?, 16, 4));
        }
        stop.store(true, Ordering::Relaxed);
        for client in running {
            client.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        checked
    })?;
    weir.wait_pool("op_show_load", "sv_idle", 4)?;
    weir.check_healthy()
}

#[test]
fn shutdown_stops() -> Result<()> {
    let mut server = Server::new("op_shutdown")?;
    let mut weir = Weir::start(&server.config())?;
    let mut client = weir.connect("op_shutdown")?;
    client.query("begin")?;
    let mut psql = psql(weir.port(), "pgbouncer")?;
    // The connection may end before the answer.
    tools::run_any(psql.args(["-c", "SHUTDOWN"]))?;
    ended(&mut client, "57P01 pooler is shutting down")?;
    let status = weir.wait_exit(Duration::from_secs(3))?;
    ensure!(status.code() == Some(0), "{status}");
    server.wait_count(0)
}

#[test]
fn shutdown_wait_for_clients_lets_them_leave() -> Result<()> {
    let server = Server::new("op_shutdown_wait")?;
    let mut weir = Weir::start(&server.config())?;
    let mut client = weir.connect("op_shutdown_wait")?;
    let mut console = weir.connect("pgbouncer")?;
    console.query("SHUTDOWN WAIT_FOR_CLIENTS")?;
    console.terminate();
    weir_conformance::wait_until("a refusal of new connections", PATIENCE, || {
        Ok(weir.connect("op_shutdown_wait").is_err())
    })?;
    for _ in 0..5 {
        ensure!(client.query_one("select 1")? == "1");
    }
    client.terminate();
    let status = weir.wait_exit(Duration::from_secs(3))?;
    ensure!(status.code() == Some(0), "{status}");
    Ok(())
}

#[test]
fn only_those_named_may_use_the_console() -> Result<()> {
    let mut server = Server::new("op_console_roles")?;
    server.roles(&["op_hal", "op_ida"])?;
    let config = server.config().set("stats_users", "op_hal");
    let weir =
        Weir::start(&config.userlist("\"postgres\" \"\"\n\"op_hal\" \"\"\n\"op_ida\" \"\"\n"))?;
    let mut looks = weir.connect_as("op_hal", "pgbouncer")?;
    looks.query("SHOW POOLS")?;
    let refused = looks.query("SHUTDOWN").err().map(|error| error.to_string());
    ensure!(refused.is_some_and(|text| text.contains("admin access needed")));
    ensure!(weir.connect_as("op_ida", "pgbouncer").is_err());
    let mut raw = weir.connect("op_console_roles")?;
    ensure!(raw.query_one("select 1")? == "1");
    Ok(())
}
