//! Orders of the operator while a stream is under way: reload, console commands, shutdown, upgrade; and several hosts.

use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};
use weir_conformance::{Cluster, Config, Raw, SOON, TempDir, Weir, tools, wait_until, weir_bin};

use crate::fixture::{
    LIMIT, config, create_slot, postgres, read_change, replicate, stream, wait_for, wait_servers,
};

/// A stream from a database of its own, and a connection that changes the database directly.
struct Followed {
    raw: Raw,
    writer: Raw,
    changes: u32,
}

impl Followed {
    fn start(postgres: u16, weir: &Weir, name: &str) -> Result<Self> {
        let mut raw = replicate(weir.port(), name, "database")?;
        create_slot(&mut raw, name, false)?;
        stream(&mut raw, name)?;
        let mut writer = Raw::connect(postgres, name)?;
        writer.query("CREATE TABLE IF NOT EXISTS changed (id int)")?;
        let changes = 0;
        let mut followed = Self {
            raw,
            writer,
            changes,
        };
        followed.check()?;
        Ok(followed)
    }

    /// Checks that a change arrives.
    fn check(&mut self) -> Result<()> {
        self.changes += 1;
        let number = self.changes;
        self.writer
            .query(&format!("INSERT INTO changed VALUES ({number})"))?;
        read_change(&mut self.raw, &format!("INSERT: id[integer]:{number}")).map(drop)
    }

    /// Reads up to the end of the connection, and returns the code of the last error.
    fn end(mut self) -> String {
        let mut code = String::new();
        while let Ok(message) = self.raw.read_message() {
            if message.tag == b'E' {
                code = message.field(b'C').unwrap_or_default();
            }
        }
        code
    }
}

#[test]
fn reloads_and_reconnect_leave_a_stream_alone() -> Result<()> {
    let postgres = postgres()?;
    postgres.create_database("repl_reload")?;
    let first = config(&postgres);
    let mut weir = Weir::start(&first)?;
    let mut followed = Followed::start(postgres.port(), &weir, "repl_reload")?;
    let mut console = weir.connect("pgbouncer")?;
    console.query("RELOAD")?;
    followed.check()?;
    // Another host, another size: the server is obsolete and stays until its client leaves.
    let other = first
        .set("default_pool_size", "1")
        .set("server_fast_close", "1")
        .database(&format!(
            "repl_reload = host=127.0.0.2 port={}",
            postgres.port()
        ));
    weir.reload(&other)?;
    wait_until("the server is obsolete", SOON, || {
        let servers = weir.connect("pgbouncer")?.query_named("SHOW SERVERS")?;
        let of_stream = servers
            .iter()
            .find(|row| row.get("replication").is_some_and(|it| it == "logical"));
        Ok(of_stream
            .and_then(|row| row.get("close_needed"))
            .is_some_and(|it| it == "1"))
    })?;
    followed.check()?;
    console.query("RECONNECT")?;
    followed.check()?;
    let port = weir.port();
    let closes =
        thread::spawn(move || Raw::connect(port, "pgbouncer")?.query("WAIT_CLOSE repl_reload"));
    followed.writer.query("SELECT pg_sleep(0.3)")?;
    ensure!(!closes.is_finished(), "WAIT_CLOSE waits for the stream");
    followed.check()?;
    drop(followed);
    closes
        .join()
        .map_err(|_| anyhow::anyhow!("the thread failed"))??;
    weir.check_healthy()
}

#[test]
fn kill_ends_a_stream_and_pause_waits_for_its_client() -> Result<()> {
    let postgres = postgres()?;
    postgres.create_database("repl_kill")?;
    let mut weir = Weir::start(&config(&postgres))?;
    let mut console = weir.connect("pgbouncer")?;
    let followed = Followed::start(postgres.port(), &weir, "repl_kill")?;
    console.query("KILL repl_kill")?;
    ensure!(followed.end() == "57P01");
    console.query("RESUME repl_kill")?;
    wait_servers(&weir, 0)?;
    let slots = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'repl_kill'";
    wait_for(postgres.port(), "postgres", slots, "0")?;
    let mut followed = Followed::start(postgres.port(), &weir, "repl_kill")?;
    let port = weir.port();
    let pause = thread::spawn(move || Raw::connect(port, "pgbouncer")?.query("PAUSE repl_kill"));
    wait_until("the pause", SOON, || {
        let rows = weir.connect("pgbouncer")?.query_named("SHOW DATABASES")?;
        let row = rows
            .iter()
            .find(|row| row.get("name").is_some_and(|name| name == "repl_kill"));
        Ok(row
            .and_then(|row| row.get("paused"))
            .is_some_and(|paused| paused == "1"))
    })?;
    followed.check()?;
    ensure!(!pause.is_finished(), "PAUSE waits");
    drop(followed);
    pause
        .join()
        .map_err(|_| anyhow::anyhow!("the thread failed"))??;
    // A login waits for the end of the pause.
    let login = thread::spawn(move || replicate(port, "repl_kill", "database").map(drop));
    weir.wait_pool("repl_kill", "cl_waiting", 1)?;
    console.query("RESUME repl_kill")?;
    login
        .join()
        .map_err(|_| anyhow::anyhow!("the thread failed"))??;
    weir.check_healthy()
}

#[test]
fn suspend_holds_a_stream_up_and_resume_lets_it_go_on() -> Result<()> {
    let postgres = postgres()?;
    postgres.create_database("repl_suspend")?;
    let mut weir = Weir::start(&config(&postgres))?;
    let mut followed = Followed::start(postgres.port(), &weir, "repl_suspend")?;
    let mut console = weir.connect("pgbouncer")?;
    console.query("SUSPEND")?;
    followed.writer.query("INSERT INTO changed VALUES (4711)")?;
    console.query("RESUME")?;
    read_change(&mut followed.raw, "INSERT: id[integer]:4711")?;
    followed.check()?;
    weir.check_healthy()
}

#[test]
fn a_shutdown_waits_for_a_stream_and_ends_it_when_its_time_is_over() -> Result<()> {
    let postgres = postgres()?;
    postgres.create_database("repl_stop")?;
    for signal in ["TERM", "INT"] {
        let mut weir = Weir::start(&config(&postgres).set("drain_timeout", "60"))?;
        let mut followed = Followed::start(postgres.port(), &weir, "repl_stop")?;
        let idle = replicate(weir.port(), "repl_stop", "database")?;
        weir.signal(signal)?;
        followed.check()?;
        drop((followed, idle));
        ensure!(weir.wait_exit(SOON)?.success());
        let mut weir = Weir::start(&config(&postgres).set("drain_timeout", "1"))?;
        let followed = Followed::start(postgres.port(), &weir, "repl_stop")?;
        weir.signal(signal)?;
        ensure!(followed.end() == "57P01", "{signal}");
        weir.wait_exit(SOON)?;
    }
    Ok(())
}

/// Starts Weir, upgrades it while a stream is under way, and returns when both processes have done their part.
fn upgrade_around(postgres: u16, weir: &mut Weir) -> Result<()> {
    let mut followed = Followed::start(postgres, weir, "repl_upgrade")?;
    let pid = weir.pid().to_string();
    let upgrade = thread::spawn(move || {
        let mut command = Command::new(weir_bin()?);
        tools::run_any(command.args(["upgrade", "--pid", &pid]))
    });
    weir.wait_log("clients stay with this process")?;
    followed.check()?;
    // The next client is one of the new process.
    let mut next = replicate(weir.port(), "repl_upgrade", "database")?;
    ensure!(next.query("IDENTIFY_SYSTEM")?.len() == 1);
    followed.check()?;
    ensure!(
        !upgrade.is_finished(),
        "the old process waits for its stream"
    );
    drop(followed);
    let upgraded = upgrade
        .join()
        .map_err(|_| anyhow::anyhow!("the thread failed"))?;
    let (text, is_good) = upgraded?;
    ensure!(is_good, "{text}");
    ensure!(weir.wait_exit(SOON)?.success());
    ensure!(next.query("IDENTIFY_SYSTEM")?.len() == 1);
    Ok(())
}

#[test]
fn an_upgrade_leaves_a_stream_with_the_old_process() -> Result<()> {
    let postgres = postgres()?;
    postgres.create_database("repl_upgrade")?;
    let files = TempDir::new()?;
    let pidfile = files.path().join("pid");
    let upgradable = config(&postgres)
        .set("pidfile", &pidfile.to_string_lossy())
        .set("drain_timeout", "120");
    let mut weir = Weir::start(&upgradable)?;
    let outcome = upgrade_around(postgres.port(), &mut weir);
    let successor = std::fs::read_to_string(&pidfile).unwrap_or_default();
    let successor = successor.trim();
    if !successor.is_empty() && successor != weir.pid().to_string() {
        tools::run(Command::new("kill").args(["-QUIT", successor]))?;
    }
    outcome.with_context(|| weir.log())
}

/// Waits until a login for replication reaches a host that listens on this port.
fn wait_host(weir: &Weir, port: u16) -> Result<()> {
    let mut last = String::new();
    let reached = wait_until("the primary", LIMIT, || {
        let port_there = replicate(weir.port(), "postgres", "database")
            .and_then(|mut raw| raw.query_one("SHOW port"));
        last = port_there.unwrap_or_else(|error| format!("{error:#}"));
        Ok(last == port.to_string())
    });
    reached.with_context(|| format!("last: {last}"))
}

#[test]
fn several_hosts_replicate_from_the_primary() -> Result<()> {
    let mut cluster = Cluster::start(1, &["wal_level = logical"])?;
    let ports = [0, 1].map(|host| cluster.host(host).port());
    let hosts = format!(
        "host=127.0.0.1 port={} replicas=127.0.0.1:{} read_write_split=auto max_lag=0 \
         watch_user=postgres watch_dbname=postgres",
        ports[0], ports[1]
    );
    let several = Config::new()
        .database(&format!("postgres = {hosts}"))
        .database(&format!("replication = {hosts} dbname=postgres"));
    let mut weir = Weir::start(&several)?;
    wait_host(&weir, ports[0])?;
    for _ in 0..10 {
        let mut raw = replicate(weir.port(), "replication", "true")?;
        ensure!(raw.query_one("SHOW port")? == ports[0].to_string());
        let mut raw = replicate(weir.port(), "postgres", "database")?;
        ensure!(raw.query_one("SELECT pg_is_in_recovery()")? == "f");
        ensure!(raw.query_one("SHOW transaction_read_only")? == "off");
    }
    // The order does not wait for a stream, which the end of the host ends.
    let staying = replicate(weir.port(), "postgres", "database")?;
    let mut console = weir.connect("pgbouncer")?;
    console.query("PAUSE WRITES postgres")?;
    console.query("RESUME postgres")?;
    drop(staying);
    cluster.kill_9(0)?;
    // Clients that come while no host is the primary wait for one.
    let port = weir.port();
    let early =
        thread::spawn(move || replicate(port, "postgres", "database")?.query_one("SHOW port"));
    cluster.promote(1)?;
    wait_host(&weir, ports[1])?;
    let early = early
        .join()
        .map_err(|_| anyhow::anyhow!("the thread failed"))?;
    let early = early.map_err(|error| format!("{error:#}"));
    // It may have met the old primary's end.
    ensure!(
        early
            .as_ref()
            .is_ok_and(|port| *port == ports[1].to_string())
            || early.is_err(),
        "{early:?}"
    );
    weir.check_healthy()
}
