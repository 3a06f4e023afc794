//! Shutting down, and `-R`.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::TempDir;
use weir_conformance::Weir;
use weir_conformance::tools;
use weir_conformance::wait_until;
use weir_conformance::weir_bin;

use crate::support::PATIENCE;
use crate::support::database;

#[test]
fn shutdown_wait_for_clients_leaves_consoles_open_on_every_worker() -> Result<()> {
    let postgres = database("drop_shutdown")?;
    let mut weir = Weir::start(&Config::to(postgres.port()).workers(3))?;
    let mut client = weir.connect("drop_shutdown")?;
    // Clients are spread over the workers, so two of these are on workers without another client.
    let mut consoles = Vec::new();
    for _ in 0..5 {
        consoles.push(weir.connect("pgbouncer")?);
    }
    consoles[0].query("SHUTDOWN WAIT_FOR_CLIENTS")?;
    wait_until("a refusal of new connections", PATIENCE, || {
        Ok(weir.connect("drop_shutdown").is_err())
    })?;
    for _ in 0..5 {
        for console in &mut consoles {
            ensure!(!console.query("SHOW CLIENTS")?.is_empty());
        }
        ensure!(client.query_one("select 1")? == "1");
    }
    client.terminate();
    let status = weir.wait_exit(PATIENCE)?;
    ensure!(status.code() == Some(0), "{status}");
    Ok(())
}

/// Runs `pgbouncer -R` on the file of this Weir; returns what it says, and the number of the next process.
fn reboot(weir: &Weir) -> Result<(String, u32)> {
    let mut command = Command::new(weir_bin()?);
    command.arg0("pgbouncer").arg("-R");
    command.arg(weir.directory().join("weir.ini"));
    let (text, is_good) = tools::run_any(&mut command)?;
    ensure!(is_good, "{text}");
    let pid = text.split_whitespace().nth(1).unwrap_or_default();
    let pid = pid.parse()?;
    Ok((text, pid))
}

/// A process that is not a child of the suite.
struct Next(u32);

impl Drop for Next {
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .args(["-QUIT", &self.0.to_string()])
            .status();
    }
}

#[test]
fn reboot_needs_no_pid_file_and_returns_while_sessions_last() -> Result<()> {
    let postgres = database("drop_reboot")?;
    let sockets = TempDir::new()?;
    let config = Config::to(postgres.port())
        .set("pool_mode", "session")
        .set("unix_socket_dir", &sockets.path().to_string_lossy());
    let weir = Weir::start(&config)?;
    let mut client = weir.connect("drop_reboot")?;
    ensure!(client.query_one("select 1")? == "1");
    let (text, pid) = reboot(&weir)?;
    let first = Next(pid);
    ensure!(first.0 != weir.pid(), "{text}");
    // The session goes on in the old process, and new ones begin in the next.
    ensure!(client.query_one("select 2")? == "2");
    let mut other = Raw::unix(sockets.path(), weir.port(), PATIENCE)?;
    other.login(&[("user", "postgres"), ("database", "drop_reboot")])?;
    ensure!(other.query_one("select 3")? == "3");
    other.terminate();
    client.terminate();
    // The next process is found as well, although it has the socket from the first.
    let mut second = None;
    wait_until("the end of the first upgrade", PATIENCE, || {
        second = reboot(&weir).ok().map(|(_, pid)| Next(pid));
        Ok(second.is_some())
    })?;
    ensure!(second.is_some_and(|next| next.0 != first.0));
    Ok(())
}

#[test]
fn the_next_process_has_the_name_under_which_the_first_was_started() -> Result<()> {
    let postgres = database("drop_name")?;
    let directory = TempDir::new()?;
    let link = directory.path().join("our-pooler");
    std::os::unix::fs::symlink(weir_bin()?, &link)?;
    // The last arguments are `run` and the file.
    let exec = format!(
        "cd {}; exec ./our-pooler \"${{@:$#-1}}\"",
        directory.path().display()
    );
    let outer = ["bash", "-c", &exec, "bash"].map(str::to_owned).to_vec();
    let weir = Weir::start(&Config::to(postgres.port()).under(outer))?;
    let name = |pid: u32| -> Result<String> {
        let about = |what: &str| std::fs::read_to_string(format!("/proc/{pid}/{what}"));
        let line = about("cmdline")?;
        let first = line.split('\0').next().unwrap_or_default();
        Ok(format!("{} {first}", about("comm")?.trim()))
    };
    ensure!(name(weir.pid())? == "our-pooler ./our-pooler");
    let file = weir.directory().join("weir.ini");
    let mut nexts: Vec<Next> = Vec::new();
    for _ in 0..2 {
        let (text, is_good) = tools::run_any(Command::new(weir_bin()?).arg("upgrade").arg(&file))?;
        ensure!(is_good, "{text}");
        let pid = text.split_whitespace().nth(1).unwrap_or_default();
        nexts.push(Next(pid.parse()?));
        let name = nexts.last().map(|next| name(next.0)).transpose()?;
        ensure!(
            name.as_deref() == Some("our-pooler ./our-pooler"),
            "{name:?}"
        );
    }
    Ok(())
}

#[test]
fn an_upgrade_finds_the_process_by_its_port() -> Result<()> {
    let postgres = database("drop_by_port")?;
    // Neither a pid file nor a unix socket.
    let weir = Weir::start(&Config::to(postgres.port()))?;
    let mut client = weir.connect("drop_by_port")?;
    ensure!(client.query_one("select 1")? == "1");
    let file = weir.directory().join("weir.ini");
    let (text, is_good) = tools::run_any(Command::new(weir_bin()?).arg("upgrade").arg(&file))?;
    ensure!(is_good, "{text}");
    let pid = text.split_whitespace().nth(1).unwrap_or_default();
    let next = Next(pid.parse()?);
    ensure!(next.0 != weir.pid(), "{text}");
    ensure!(client.query_one("select 2")? == "2");
    let (text, pid) = reboot(&weir)?;
    let last = Next(pid);
    ensure!(last.0 != next.0, "{text}");
    ensure!(client.query_one("select 3")? == "3");
    Ok(())
}
