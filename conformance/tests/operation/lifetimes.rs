//! Closing, checking and replacing of servers.

use std::time::Duration;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::frontend;

use crate::support::Server;
use crate::support::clients;
use crate::support::took;

#[test]
fn server_idle_timeout_closes_unused_servers() -> Result<()> {
    let mut server = Server::new("op_idle_timeout")?;
    let weir = Weir::start(&server.config().set("server_idle_timeout", "1"))?;
    let mut raw = weir.connect("op_idle_timeout")?;
    raw.query("select 1")?;
    let begun = clock::now();
    ensure!(server.count()? == 1);
    server.wait_count(0)?;
    took(begun, Duration::from_secs(1))?;
    ensure!(raw.query_one("select 1")? == "1");
    Ok(())
}

#[test]
fn server_lifetime_closes_old_servers_when_they_are_free() -> Result<()> {
    let mut server = Server::new("op_lifetime")?;
    let weir = Weir::start(&server.config().set("server_lifetime", "1"))?;
    let mut raw = weir.connect("op_lifetime")?;
    let first = raw.query_one("select pg_backend_pid()")?;
    server.wait_count(0)?;
    raw.query("begin")?;
    let second = raw.query_one("select pg_backend_pid()")?;
    ensure!(first != second);
    // Older than its lifetime, but in use.
    raw.query("select pg_sleep(1.5)")?;
    ensure!(raw.query_one("select pg_backend_pid()")? == second);
    raw.query("commit")?;
    server.wait_count(0)
}

#[test]
fn lifetimes_differ_by_server_lifetime_jitter() -> Result<()> {
    let mut server = Server::new("op_jitter")?;
    let config = server.config().set("server_lifetime", "3");
    let config = config.set("server_lifetime_jitter", "2");
    let weir = Weir::start(&config.set("min_pool_size", "0"))?;
    let mut clients = clients(&weir, "op_jitter", 12)?;
    let begun = clock::now();
    for client in &mut clients {
        client.send(&frontend::query("select pg_sleep(0.3)"))?;
    }
    for client in &mut clients {
        client.read_until_ready()?;
    }
    ensure!(server.count()? == 12);
    // From one to five seconds after the login: never all twelve at the same time.
    let mut counts = Vec::new();
    while server.count()? > 0 {
        counts.push(server.count()?);
        ensure!(begun.elapsed() < Duration::from_secs(20), "{counts:?}");
    }
    let took = begun.elapsed();
    counts.dedup();
    ensure!(counts.len() > 4, "all at once: {counts:?}");
    ensure!(took < Duration::from_secs(9), "{took:?}");
    Ok(())
}

#[test]
fn a_server_lifetime_of_zero_closes_after_each_use() -> Result<()> {
    let mut server = Server::new("op_lifetime_0")?;
    let weir = Weir::start(&server.config().set("server_lifetime", "0"))?;
    let mut raw = weir.connect("op_lifetime_0")?;
    let mut pids = Vec::new();
    for _ in 0..5 {
        pids.push(raw.query_one("select pg_backend_pid()")?);
    }
    pids.sort();
    pids.dedup();
    ensure!(pids.len() == 5, "{pids:?}");
    server.wait_count(0)
}

/// Number of checks during ten queries, counted by a table to which each check adds a row.
fn checks_of_ten(server: &Server, delay: &str, query: &str) -> Result<usize> {
    let mut inside = Raw::connect(server.postgres.port(), server.database)?;
    inside.query("drop table if exists checks; create table checks (pid int)")?;
    let config = server.config().set("server_check_delay", delay);
    let weir = Weir::start(&config.set("server_check_query", query))?;
    let mut raw = weir.connect(server.database)?;
    for _ in 0..10 {
        ensure!(raw.query_one("select 7")? == "7");
    }
    Ok(inside.query_one("select count(*) from checks")?.parse()?)
}

#[test]
fn server_check_query_runs_before_reuse() -> Result<()> {
    let server = Server::new("op_check")?;
    let query = "insert into checks values (pg_backend_pid())";
    let always = checks_of_ten(&server, "0", query)?;
    ensure!((9..=11).contains(&always), "{always} checks");
    let never = checks_of_ten(&server, "30", query)?;
    ensure!(never == 0, "{never} checks");
    Ok(())
}

#[test]
fn a_server_that_fails_its_check_is_replaced_in_silence() -> Result<()> {
    let mut server = Server::new("op_check_fails")?;
    let config = server.config().set("server_check_delay", "0");
    let config = config.set(
        "server_check_query",
        "select 1 / (pg_backend_pid() - pg_backend_pid())",
    );
    let mut weir = Weir::start(&config)?;
    let mut raw = weir.connect("op_check_fails")?;
    let mut pids = Vec::new();
    for _ in 0..4 {
        pids.push(raw.query_one("select pg_backend_pid()")?);
    }
    pids.dedup();
    ensure!(pids.len() == 4, "{pids:?}");
    server.wait_count(1)?;
    let log = weir.log();
    ensure!(log.contains("closing because: test query failed"), "{log}");
    weir.check_healthy()
}

#[test]
fn a_server_that_dies_while_idle_is_replaced_in_silence() -> Result<()> {
    let mut server = Server::new("op_dies")?;
    for delay in ["0", "30"] {
        let mut weir = Weir::start(&server.config().set("server_check_delay", delay))?;
        let mut raw = weir.connect("op_dies")?;
        for round in 0..15 {
            ensure!(raw.query_one("select 1")? == "1");
            server.terminate_all()?;
            let value = raw.query_one(&format!("select {round}"))?;
            ensure!(value == round.to_string());
        }
        weir.check_healthy()?;
    }
    Ok(())
}
