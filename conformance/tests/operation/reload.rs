//! Changes of a running Weir's configuration, and configurations that are invalid from the start.

use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::TempDir;
use weir_conformance::Weir;
use weir_conformance::frontend;
use weir_conformance::target::weir_bin;

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
    // Waiting clients get the new places without a release by another client.
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
    in_transaction.query("begin; create temp table kept (n int) on commit drop")?;
    for client in &mut *others {
        client.send(&frontend::query("select 'done', pg_sleep(0.5)"))?;
    }
    // Another address of the database: every server has the wrong destination now and is closed when it
    // is free.
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
    ensure!(refused.contains("28000"), "{refused}");
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

/// Expects exit code 1, and one line with all these texts.
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
        "[databases]\n[pgbouncer]\nlisten_addr = 127.0.0.1\nauth_file = /nowhere/users\nstrict_files = 1\n",
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

#[test]
fn a_change_that_needs_a_restart_is_logged_and_stays() -> Result<()> {
    let server = Server::new("op_restart")?;
    let config = server.config();
    let mut weir = Weir::start(&config)?;
    weir.reload(&config.set("listen_addr", "127.0.0.9"))?;
    weir.wait_log("reload done")?;
    let log = weir.log();
    ensure!(
        log.lines()
            .any(|line| line.contains("WARNING") && line.contains("listen_addr")),
        "{log}"
    );
    ensure!(weir.connect("op_restart")?.query_one("select 1")? == "1");
    ensure!(shown(&weir, "listen_addr")? == "127.0.0.1");
    weir.check_healthy()
}

#[test]
fn sighup_opens_the_log_file_again() -> Result<()> {
    let server = Server::new("op_log")?;
    let directory = TempDir::new()?;
    let file = directory.path().join("weir.log");
    let pidfile = directory.path().join("weir.pid");
    let config = server.config().set("logfile", &file.to_string_lossy());
    let config = config.set("pidfile", &pidfile.to_string_lossy());
    let mut weir = Weir::start(&config)?;
    ensure!(std::fs::read_to_string(&pidfile)?.trim() == weir.pid().to_string());
    let moved = directory.path().join("weir.log.1");
    std::fs::rename(&file, &moved)?;
    weir.reload(&config)?;
    weir.wait_log("reload done")?;
    drop(weir.connect("op_log")?);
    weir_conformance::wait_until("the login in the new file", PATIENCE, || {
        let new = std::fs::read_to_string(&file).unwrap_or_default();
        Ok(new.contains("login attempt: db=op_log"))
    })?;
    ensure!(std::fs::read_to_string(&moved)?.contains("process up"));
    weir.signal("TERM")?;
    ensure!(weir.wait_exit(PATIENCE)?.code() == Some(0));
    ensure!(!pidfile.exists(), "the pidfile is left behind");
    Ok(())
}

/// Runs `weir check` on a file; returns its output, its errors, and true if the exit code was zero.
fn check(directory: &TempDir, name: &str, text: &str) -> Result<(String, String, bool)> {
    let file = directory.write(name, text)?;
    let mut weir = Command::new(weir_bin()?);
    let output = weir.arg("check").arg(file).output()?;
    Ok((
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
        output.status.success(),
    ))
}

#[test]
fn check_prints_what_would_be_in_force_without_secrets() -> Result<()> {
    let directory = TempDir::new()?;
    let ini = "[databases]\nshop = host=127.0.0.1 user=u password=hunter2\n[pgbouncer]\n\
               listen_addr = 127.0.0.1\nauth_type = trust\npool_mode = transaction\n";
    let (printed, said, is_good) = check(&directory, "good.ini", ini)?;
    ensure!(is_good, "{said}");
    ensure!(printed.contains("pool_mode = \"transaction\""), "{printed}");
    ensure!(printed.contains("***"), "{printed}");
    ensure!(!printed.contains("hunter2") && !said.contains("hunter2"));
    // The output is a valid file, and checking it gives the same output.
    let (again, said, is_good) = check(&directory, "again.toml", &printed)?;
    ensure!(is_good, "{said}");
    let settings = |text: &str| -> Vec<String> {
        let code = text.lines().filter_map(|line| line.split('#').next());
        let code = code.map(|line| line.trim().to_owned());
        code.filter(|line| !line.is_empty()).collect()
    };
    ensure!(settings(&again) == settings(&printed), "{again}\n{printed}");
    let (_, said, is_good) = check(&directory, "bad.ini", "[pgbouncer]\npool_mod = x\n")?;
    ensure!(!is_good && said.contains("bad.ini:2"), "{said}");
    Ok(())
}

#[test]
fn what_check_prints_does_not_reload_the_file_that_it_was_made_from() -> Result<()> {
    let directory = TempDir::new()?;
    let ini = "[databases]\n[pgbouncer]\nlisten_addr = 127.0.0.1\nauth_type = trust\n";
    let (printed, said, is_good) = check(&directory, "old.ini", ini)?;
    ensure!(is_good, "{said}");
    let reloads_old = |line: &str| line.starts_with("conffile") && line.contains("old.ini\"");
    ensure!(!printed.lines().any(reloads_old), "{printed}");
    Ok(())
}
