//! SIGKILL under load: effects on the next process and on the server.

use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::tools;
use weir_conformance::wait_until;

use crate::support::PATIENCE;
use crate::support::Server;

/// Time limit from the start of the process to the first accepted connection. A multiple of the previous start's
/// duration is also accepted, because the machine may be busy.
const ACCEPTING_MAX: Duration = Duration::from_millis(200);
const STARTS_MAX: u32 = 4;
/// Time limit from the kill to the end of the last orphaned transaction; a multiple of the start's duration is
/// accepted, too.
const ORPHANS_MAX: Duration = Duration::from_secs(1);
/// Number of tries, of which the best counts.
const TRIES: usize = 3;

/// Measurements of one kill.
struct Killed {
    /// Time that the killed process took to start.
    first: Duration,
    /// Time until the next process accepted a connection.
    accepting: Duration,
    /// Time until no transaction of the killed process was left.
    orphans: Duration,
}

impl Killed {
    fn is_soon(&self) -> bool {
        self.accepting <= ACCEPTING_MAX.max(self.first * STARTS_MAX)
            && self.orphans <= ORPHANS_MAX.max(self.first * STARTS_MAX)
    }
}

/// pgbench's load, until it is dropped or its connections break.
struct Load(Child);

impl Load {
    fn start(port: u16, database: &str) -> Result<Self> {
        tools::require("pgbench", "postgresql-15 (or postgresql-contrib)")?;
        let mut pgbench = Command::new("pgbench");
        pgbench.args([
            "-h",
            "127.0.0.1",
            "-U",
            "postgres",
            "-n",
            "-c",
            "20",
            "-j",
            "2",
        ]);
        pgbench.args(["-T", "60", "-p", &port.to_string(), database]);
        pgbench.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(pgbench.spawn()?))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Number of open transactions in the database.
fn transactions(server: &mut Server) -> Result<usize> {
    let sql = format!(
        "select count(*) from pg_stat_activity where datname = '{}' and xact_start is not null",
        server.database
    );
    Ok(server.direct.query_one(&sql)?.parse()?)
}

/// Kills a process once and measures.
fn killed(server: &mut Server, config: &Config) -> Result<Killed> {
    let begun = clock::now();
    let mut weir = Weir::start(config)?;
    let first = begun.elapsed();
    let port = weir.port();
    let load = Load::start(port, server.database)?;
    let mut holder = weir.connect(server.database)?;
    holder.query("begin; update pgbench_branches set bbalance = bbalance where bid = 1")?;
    wait_until("load", PATIENCE, || Ok(transactions(server)? > 3))?;
    let begun = clock::now();
    weir.kill()?;
    // The old pgbench cannot reconnect, so every open transaction is an orphan now.
    drop(load);
    wait_until("the end of all orphans", PATIENCE, || {
        Ok(transactions(server)? == 0)
    })?;
    let orphans = begun.elapsed();
    let begun = clock::now();
    let next = Weir::spawn(config, port)?;
    let mut accepted = None;
    wait_until("a login", PATIENCE, || {
        accepted = Raw::connect(port, server.database).ok();
        Ok(accepted.is_some())
    })?;
    let accepting = begun.elapsed();
    if let Some(mut client) = accepted {
        client.query("update pgbench_branches set bbalance = bbalance where bid = 1")?;
    }
    drop(next);
    Ok(Killed {
        first,
        accepting,
        orphans,
    })
}

#[test]
fn after_sigkill_the_next_process_accepts_at_once_and_no_transaction_is_left() -> Result<()> {
    let mut server = Server::new("op_killed")?;
    let mut setup = Command::new("pgbench");
    setup.args(["-h", "127.0.0.1", "-U", "postgres", "-i", "-q", "-s", "5"]);
    setup.args(["-p", &server.postgres.port().to_string(), "op_killed"]);
    tools::run(&mut setup)?;
    let config = server.config();
    let mut told = Vec::new();
    for _ in 0..TRIES {
        let killed = killed(&mut server, &config)?;
        let Killed {
            first,
            accepting,
            orphans,
        } = killed;
        told.push(format!(
            "a start {first:?}, a login after {accepting:?}, no orphan after {orphans:?}"
        ));
        if killed.is_soon() {
            return Ok(());
        }
    }
    bail!("too late: {}", told.join("; "))
}

/// The next process can use the address at once, although connections of the last one linger and its socket file
/// still exists.
#[test]
fn what_a_killed_process_leaves_is_no_obstacle() -> Result<()> {
    let server = Server::new("op_killed_file")?;
    let directory = weir_conformance::TempDir::new()?;
    let path = directory.path().display().to_string();
    let config = server
        .config()
        .set("unix_socket_dir", &path)
        .set("pidfile", &format!("{path}/pid"));
    let mut weir = Weir::start(&config)?;
    let port = weir.port();
    let mut client = weir.connect("op_killed_file")?;
    client.send(&frontend::query("select pg_sleep(0.1)"))?;
    weir.kill()?;
    let next = Weir::spawn(&config, port)?;
    next.wait_log("process up")?;
    ensure!(next.connect("op_killed_file")?.query_one("select 1")? == "1");
    let mut local = Raw::unix(directory.path(), port, PATIENCE)?;
    local.login(&[("user", "postgres"), ("database", "op_killed_file")])?;
    Ok(())
}
