//! Changing the configuration of a running Weir, and configurations that are wrong from the beginning.

use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Weir;
use weir_conformance::frontend;

use crate::support::PATIENCE;
use crate::support::Server;
use crate::support::answer;
use crate::support::clients;
use crate::support::send_all;

fn shown(weir: &Weir, key: &str) -> Result<String> {
    let config = weir.connect("pgbouncer")?.query_named("SHOW CONFIG")?;
    let row = config
        .iter()
        .find(|row| row.get("key").is_some_and(|name| name == key));
    let value = row.and_then(|row| row.get("value"));
    Ok(value.with_context(|| format!("no {key}"))?.clone())
}

#[test]
fn another_pool_size_takes_effect() -> Result<()> {
    let mut server = Server::new("op_reload")?;
    let config = server.config().set("default_pool_size", "1");
    let mut weir = Weir::start(&config)?;
    let mut clients = clients(&weir, "op_reload", 4)?;
    clients[0].query("begin")?;
    send_all(&mut clients[1..], "begin; select 1")?;
    weir.wait_pool("op_reload", "cl_waiting", 3)?;
    weir.reload(&config.clone().set("default_pool_size", "3"))?;
    // Those who wait get the new places without anybody giving one back.
    weir.wait_pool("op_reload", "cl_waiting", 1)?;
    server.stays(3, Duration::from_millis(300))?;
    ensure!(shown(&weir, "default_pool_size")? == "3");
    weir.reload(&config.set("default_pool_size", "2"))?;
    weir.wait_log("reload done, 1 changes")?;
    send_all(&mut clients, "commit")?;
    answer(&mut clients[0])?;
    for client in &mut clients[1..] {
        answer(client)?;
        answer(client)?;
    }
    server.wait_count(2)?;
    for client in &mut clients {
        ensure!(client.query_one("select 1")? == "1");
    }
    weir.check_healthy()
}

#[test]
fn a_bad_file_changes_nothing_and_is_logged() -> Result<()> {
    let mut server = Server::new("op_bad_reload")?;
    let config = server.config().set("default_pool_size", "2");
    let mut weir = Weir::start(&config)?;
    let mut raw = weir.connect("op_bad_reload")?;
    let mut clients = clients(&weir, "op_bad_reload", 4)?;
    let bad = config
        .set("default_pool_size", "4")
        .set("query_timeout", "soon");
    weir.reload(&bad)?;
    weir.wait_log("reload failed, the running configuration stays as it was")?;
    let log = weir.log();
    let line = log
        .lines()
        .find(|line| line.contains("query_timeout"))
        .with_context(|| log.clone())?;
    ensure!(line.contains("weir.ini:"), "{line}");
    ensure!(shown(&weir, "default_pool_size")? == "2");
    send_all(&mut clients, "begin; select 1")?;
    weir.wait_pool("op_bad_reload", "cl_waiting", 2)?;
    ensure!(server.count()? == 2);
    drop(clients);
    ensure!(raw.query_one("select 1")? == "1");
    weir.check_healthy()
}

#[test]
fn a_reload_drops_nobody() -> Result<()> {
    let mut server = Server::new("op_reload_flight")?;
    let config = server.config();
    let mut weir = Weir::start(&config)?;
    let mut clients = clients(&weir, "op_reload_flight", 5)?;
    let (in_transaction, others) = clients.split_first_mut().context("five")?;
    in_transaction.query("begin; create temp table kept (n int)")?;
    for client in &mut *others {
        client.send(&frontend::query("select 'done', pg_sleep(0.5)"))?;
    }
    // Another port of the database: every server leads somewhere else now, and goes when it is free.
    let pids = server.pids()?;
    let elsewhere = weir_conformance::Config::new().database(&format!(
        "* = host=localhost port={}",
        server.postgres.port()
    ));
    weir.reload(&elsewhere)?;
    weir.wait_log("reload done")?;
    for client in &mut *others {
        let rows = answer(client)?;
        ensure!(rows.iter().any(|message| message.tag == b'D'));
    }
    in_transaction.query("select * from kept")?;
    in_transaction.query("commit")?;
    for client in &mut clients {
        ensure!(client.query_one("select 1")? == "1");
    }
    weir_conformance::wait_until("new servers", PATIENCE, || {
        let now = server.pids()?;
        Ok(!now.is_empty() && now.iter().all(|pid| !pids.contains(pid)))
    })?;
    weir.check_healthy()
}

#[test]
fn a_reload_reads_auth_file_again() -> Result<()> {
    let mut server = Server::new("op_reload_users")?;
    server.roles(&["op_gus"])?;
    let config = server.config();
    let weir = Weir::start(&config)?;
    let refused = crate::support::refusal(weir.connect_as("op_gus", "op_reload_users"));
    ensure!(refused.contains("28P01"), "{refused}");
    weir.reload(&config.userlist("\"postgres\" \"\"\n\"op_gus\" \"\"\n"))?;
    weir.wait_log("reload done")?;
    weir_conformance::wait_until("the new user's login", PATIENCE, || {
        Ok(weir.connect_as("op_gus", "op_reload_users").is_ok())
    })
}

#[test]
fn the_environment_wins_over_the_file() -> Result<()> {
    let mut server = Server::new("op_env")?;
    let config = server.config().set("default_pool_size", "5");
    let config = config.env("WEIR_DEFAULT_POOL_SIZE", "2");
    let weir = Weir::start(&config)?;
    ensure!(shown(&weir, "default_pool_size")? == "2");
    weir.reload(&config.set("default_pool_size", "7"))?;
    weir.wait_log("reload done")?;
    ensure!(shown(&weir, "default_pool_size")? == "2");
    let mut clients = clients(&weir, "op_env", 4)?;
    send_all(&mut clients, "begin; select 1")?;
    weir.wait_pool("op_env", "cl_waiting", 2)?;
    ensure!(server.count()? == 2);
    Ok(())
}

#[test]
fn an_unknown_variable_is_a_mistake() -> Result<()> {
    let server = Server::new("op_env_unknown")?;
    let config = server.config().env("WEIR_DEFAULT_POOL_SISE", "2");
    let mut weir = Weir::spawn(&config, weir_conformance::tools::free_port()?)?;
    let status = weir.wait_exit(PATIENCE)?;
    ensure!(status.code() == Some(1), "{status}");
    let log = weir.log();
    ensure!(
        log.contains("WEIR_DEFAULT_POOL_SISE") && log.to_lowercase().contains("default_pool_size"),
        "{log}"
    );
    Ok(())
}

/// Exit code 1, and on one line all of these.
fn refuses(name: &str, text: &str, wanted: &[&str]) -> Result<()> {
    let mut weir = Weir::spawn_text(name, text)?;
    let status = weir.wait_exit(PATIENCE)?;
    let log = weir.log();
    ensure!(status.code() == Some(1), "{status}: {log}");
    let says_all = |line: &str| wanted.iter().all(|part| line.contains(part));
    ensure!(log.lines().any(says_all), "no line with {wanted:?}: {log}");
    Ok(())
}

#[test]
fn mistakes_are_told_with_file_line_key_and_suggestion() -> Result<()> {
    refuses(
        "bad.ini",
        "[databases]\nshop = host=127.0.0.1\n[pgbouncer]\nlisten_port = 1\npool_mod = session\n",
        &["bad.ini:5", "pool_mod", "pool_mode"],
    )?;
    refuses(
        "bad.ini",
        "[databases]\nshop = hots=127.0.0.1\n[pgbouncer]\n",
        &["bad.ini:2", "hots", "host"],
    )?;
    refuses(
        "bad.ini",
        "[databases]\n[pgbouncer]\n\nmax_client_conn = many\n",
        &["bad.ini:4", "max_client_conn", "many"],
    )?;
    refuses(
        "bad.toml",
        "listen_port = 1\n\ndefault_pool_sise = 3\n",
        &["bad.toml:3", "default_pool_sise", "default_pool_size"],
    )?;
    refuses(
        "bad.toml",
        "listen_port = 1\n[databases.shop]\nhost = \"h\"\npool_mode = \"sesion\"\n",
        &["bad.toml:4", "pool_mode", "sesion", "session"],
    )?;
    refuses(
        "bad.ini",
        "[databases]\n[pgbouncer]\nlisten_addr = 127.0.0.1\nauth_file = /nowhere/users\n",
        &["/nowhere/users", "cannot read auth_file"],
    )
}

#[test]
fn all_mistakes_are_told_at_once() -> Result<()> {
    let mut weir = Weir::spawn_text(
        "bad.ini",
        "[databases]\nshop = port=0\n[pgbouncer]\npool_mode = all\nverbos = 1\n",
    )?;
    let status = weir.wait_exit(PATIENCE)?;
    let log = weir.log();
    ensure!(status.code() == Some(1), "{status}: {log}");
    for line in ["bad.ini:2", "bad.ini:4", "bad.ini:5"] {
        ensure!(log.contains(line), "{line} is missing: {log}");
    }
    Ok(())
}
