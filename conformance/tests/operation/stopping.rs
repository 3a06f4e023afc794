//! Signals that end the process: errors of clients, and the exit code.

use std::time::Duration;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::wait_until;

use crate::support::PATIENCE;
use crate::support::Server;
use crate::support::ended;
use crate::support::took;

const GOODBYE: &str = "57P01 pooler is shutting down";

/// Expects exit code 0 within the limit.
fn exits_well(weir: &mut Weir, limit: Duration) -> Result<()> {
    let status = weir.wait_exit(limit)?;
    ensure!(status.code() == Some(0), "{status}\n{}", weir.log());
    ensure!(!weir.log().contains("panicked at"), "{}", weir.log());
    Ok(())
}

/// Starts three clients of this database: one in a transaction, one idle, one waiting (pool size
/// 1).
fn three(server: &Server, config: Config) -> Result<(Weir, Raw, Raw, Raw)> {
    let weir = Weir::start(&config.set("default_pool_size", "1"))?;
    let mut working = weir.connect(server.database)?;
    let idle = weir.connect(server.database)?;
    let mut waiting = weir.connect(server.database)?;
    working.query("create table if not exists t (n int); truncate t")?;
    working.query("begin; insert into t values (1)")?;
    waiting.send(&frontend::query("select 1"))?;
    weir.wait_pool(server.database, "cl_waiting", 1)?;
    Ok((weir, working, idle, waiting))
}

fn drains(signal: &str, database: &'static str) -> Result<()> {
    let mut server = Server::new(database)?;
    let (mut weir, mut working, mut idle, mut waiting) = three(&server, server.config())?;
    weir.signal(signal)?;
    ended(&mut idle, GOODBYE)?;
    ended(&mut waiting, "57P01 server shutting down")?;
    wait_until("a refusal of new connections", PATIENCE, || {
        Ok(Raw::tcp(weir.port(), PATIENCE).is_err())
    })?;
    for n in 2..20 {
        working.query(&format!("insert into t values ({n})"))?;
    }
    working.query("commit")?;
    ended(&mut working, GOODBYE)?;
    exits_well(&mut weir, Duration::from_secs(3))?;
    server.wait_count(0)?;
    let mut direct = Raw::connect(server.postgres.port(), database)?;
    ensure!(direct.query_one("select count(*) from t")? == "19");
    Ok(())
}

#[test]
fn sigterm_lets_transactions_end() -> Result<()> {
    drains("TERM", "op_term")
}

#[test]
fn sigint_lets_transactions_end() -> Result<()> {
    drains("INT", "op_int")
}

#[test]
fn a_running_query_is_answered_before_the_end() -> Result<()> {
    let server = Server::new("op_term_query")?;
    let mut weir = Weir::start(&server.config())?;
    let mut raw = weir.connect("op_term_query")?;
    raw.send(&frontend::query("select 'done', pg_sleep(0.7)"))?;
    weir.wait_pool("op_term_query", "sv_active", 1)?;
    weir.signal("TERM")?;
    let answer = crate::support::answer(&mut raw)?;
    ensure!(answer.iter().any(|message| message.tag == b'D'));
    ended(&mut raw, GOODBYE)?;
    exits_well(&mut weir, Duration::from_secs(3))
}

#[test]
fn a_transaction_that_never_ends_is_cut_at_drain_timeout() -> Result<()> {
    let mut server = Server::new("op_drain")?;
    let config = server.config().set("drain_timeout", "1");
    let (mut weir, mut working, _idle, _waiting) = three(&server, config)?;
    let begun = clock::now();
    weir.signal("TERM")?;
    ended(&mut working, GOODBYE)?;
    took(begun, Duration::from_secs(1))?;
    exits_well(&mut weir, Duration::from_secs(3))?;
    server.wait_count(0)?;
    let mut direct = Raw::connect(server.postgres.port(), "op_drain")?;
    ensure!(direct.query_one("select count(*) from t")? == "0");
    Ok(())
}

#[test]
fn a_second_sigterm_stops_at_once() -> Result<()> {
    let server = Server::new("op_term_twice")?;
    let (mut weir, mut working, mut idle, _waiting) = three(&server, server.config())?;
    weir.signal("TERM")?;
    ended(&mut idle, GOODBYE)?;
    working.query("select 1")?;
    weir.signal("TERM")?;
    ended(&mut working, GOODBYE)?;
    exits_well(&mut weir, SOON)
}

#[test]
fn sigquit_stops_at_once() -> Result<()> {
    let mut server = Server::new("op_quit")?;
    let (mut weir, mut working, _idle, _waiting) = three(&server, server.config())?;
    weir.signal("QUIT")?;
    exits_well(&mut weir, SOON)?;
    ensure!(working.query("select 1").is_err());
    // The transaction does not stay open.
    server.wait_count(0)
}
