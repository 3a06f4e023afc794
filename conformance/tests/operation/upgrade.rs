//! The online upgrade: a new process takes over sockets and clients, and no client notices.

use std::io::Read;
use std::io::Write;
use std::net::Ipv4Addr;
use std::net::TcpStream;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::TempDir;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::http;
use weir_conformance::raw::Message;
use weir_conformance::tls::Dial;
use weir_conformance::tls::Pki;
use weir_conformance::tools;
use weir_conformance::wait_until;
use weir_conformance::weir_bin;

use crate::support::PATIENCE;
use crate::support::Server;

/// Upgrades under load; `UPGRADES` sets another number.
const UPGRADES: u32 = 3;
/// Number of clients of each of the two pgbench runs.
const CLIENTS: u32 = 50;

/// A Weir that is replaced repeatedly. The first process is a child of the suite, the others are not.
pub(crate) struct Chain {
    first: Weir,
    pid: u32,
    _files: TempDir,
}

impl Chain {
    pub(crate) fn start(config: Config) -> Result<Self> {
        let files = TempDir::new()?;
        let pidfile = files.path().join("pid");
        let first = Weir::start(&config.set("pidfile", &pidfile.to_string_lossy()))?;
        let pid = first.pid();
        Ok(Self {
            first,
            pid,
            _files: files,
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.first.port()
    }

    /// Upgrades and returns the output; fails if the upgrade failed.
    pub(crate) fn upgrade(&mut self) -> Result<String> {
        let (text, is_good) = self.try_upgrade()?;
        ensure!(is_good, "{text}\n{}", tools::tail(&self.first.log(), 40));
        let pid = text.split_whitespace().nth(1).context("no process")?;
        self.pid = pid.parse().with_context(|| text.clone())?;
        Ok(text)
    }

    /// Upgrades; returns the output, and whether it was good.
    pub(crate) fn try_upgrade(&self) -> Result<(String, bool)> {
        let mut command = Command::new(weir_bin()?);
        command.args(["upgrade", "--pid", &self.pid.to_string()]);
        tools::run_any(&mut command)
    }

    pub(crate) fn connect(&self, database: &str) -> Result<Raw> {
        Raw::connect(self.port(), database)
    }

    /// Number of the process that serves now.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The process that was replaced first.
    pub(crate) fn first(&mut self) -> &mut Weir {
        &mut self.first
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        if self.pid != self.first.pid() {
            let _ = Command::new("kill")
                .args(["-QUIT", &self.pid.to_string()])
                .status();
        }
    }
}

/// Starts a pgbench that reads, in one query mode.
fn pgbench(port: u16, database: &str, mode: &str) -> Result<std::process::Child> {
    tools::require("pgbench", "postgresql-15 (or postgresql-contrib)")?;
    let mut pgbench = Command::new("pgbench");
    pgbench.args([
        "-h",
        "127.0.0.1",
        "-U",
        "postgres",
        "-n",
        "-S",
        "-j",
        "1",
        "-M",
        mode,
    ]);
    pgbench.args(["-c", &CLIENTS.to_string(), "-T", "600"]);
    pgbench.args(["-p", &port.to_string(), database]);
    pgbench.env("PGSSLMODE", "disable");
    pgbench.stdout(Stdio::null()).stderr(Stdio::piped());
    Ok(pgbench.spawn()?)
}

/// Starts a pgbench with TLS and a new connection for each transaction; these do not move, and end with the old
/// process.
fn sealed_pgbench(port: u16, database: &str) -> Result<std::process::Child> {
    let mut pgbench = Command::new("pgbench");
    pgbench.args(["-h", "127.0.0.1", "-U", "postgres", "-n", "-S", "-C"]);
    pgbench.args(["-c", "4", "-T", "600", "-p", &port.to_string(), database]);
    pgbench.env("PGSSLMODE", "require");
    pgbench.stdout(Stdio::null()).stderr(Stdio::piped());
    Ok(pgbench.spawn()?)
}

/// Stops pgbench and returns its error output, which should contain only the stop.
fn complaints(mut load: std::process::Child) -> Result<String> {
    // If it has ended by itself, its output has the reason.
    let _ = load.kill();
    let output = load.wait_with_output()?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn init(server: &Server) -> Result<()> {
    let mut setup = Command::new("pgbench");
    setup.args(["-h", "127.0.0.1", "-U", "postgres", "-i", "-q", "-s", "1"]);
    setup.args(["-p", &server.postgres.port().to_string(), server.database]);
    tools::run(&mut setup).map(drop)
}

fn rows(messages: &[Message]) -> Result<Vec<String>> {
    let rows = messages.iter().filter(|message| message.tag == b'D');
    let values = rows.map(|row| Ok(row.row()?.into_iter().flatten().next().unwrap_or_default()));
    values.collect()
}

/// Upgrades as many times as requested; returns the outputs.
fn upgrade_often(chain: &mut Chain) -> Result<Vec<String>> {
    let count = std::env::var("UPGRADES").ok();
    let count = count.map_or(Ok(UPGRADES), |count| count.parse())?;
    let wanted = format!("{} clients moved", 2 * CLIENTS + 1);
    let one = |_| {
        let text = chain.upgrade()?;
        let last = text.lines().last().unwrap_or_default();
        ensure!(last.contains(&wanted), "{text}");
        Ok(last.to_owned())
    };
    (0..count).map(one).collect()
}

/// A client that sends queries continuously and measures the longest answer time.
struct Probe {
    is_over: Arc<AtomicBool>,
    asking: JoinHandle<Result<Duration>>,
}

impl Probe {
    fn start(port: u16, database: &'static str) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut client = Raw::connect(port, database)?;
        let asking = std::thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || {
                let mut longest = Duration::ZERO;
                while !is_over.load(Ordering::Relaxed) {
                    let begun = clock::now();
                    ensure!(client.query_one("select 1")? == "1");
                    longest = longest.max(begun.elapsed());
                }
                Ok(longest)
            }
        });
        Ok(Self { is_over, asking })
    }

    fn longest(self) -> Result<Duration> {
        self.is_over.store(true, Ordering::Relaxed);
        let joined = self.asking.join();
        joined.map_err(|_| anyhow::anyhow!("a panic"))?
    }
}

#[test]
fn nobody_notices_upgrades_under_load() -> Result<()> {
    let server = Server::new("op_upgrade")?;
    init(&server)?;
    let pki = Pki::new()?;
    let mut chain = Chain::start(server.config().set_all(pki.client_side("allow")?))?;
    let plain = [
        pgbench(chain.port(), "op_upgrade", "simple")?,
        pgbench(chain.port(), "op_upgrade", "prepared")?,
    ];
    wait_until("all clients", Duration::from_secs(30), || {
        let active = chain.first.pool_number("op_upgrade", "cl_active")?;
        let waiting = chain.first.pool_number("op_upgrade", "cl_waiting")?;
        Ok(active + waiting == i64::from(2 * CLIENTS))
    })?;
    let sealed = sealed_pgbench(chain.port(), "op_upgrade")?;
    let probe = Probe::start(chain.port(), "op_upgrade")?;
    let outcome = upgrade_often(&mut chain);
    println!("longest wait for an answer: {:?}", probe.longest()?);
    for load in plain.into_iter().chain([sealed]) {
        let complaints = complaints(load)?;
        ensure!(
            complaints.is_empty(),
            "{complaints}\n{outcome:?}\n{}",
            tools::tail(&chain.first.log(), 40)
        );
    }
    println!("{}", outcome?.join("\n"));
    ensure!(
        !chain.first.log().contains("panicked"),
        "{}",
        chain.first.log()
    );
    Ok(())
}

#[test]
fn a_client_keeps_its_session_in_the_next_process() -> Result<()> {
    let server = Server::new("op_upgrade_state")?;
    let mut chain = Chain::start(server.config())?;
    let mut client = chain.connect("op_upgrade_state")?;
    client.query("set timezone to 'MST'; set search_path to pg_catalog, public")?;
    client.ask(
        &[
            frontend::parse("named", "select $1::int + 1", &[23]),
            frontend::sync(),
        ]
        .concat(),
    )?;
    client.ask(
        &[
            frontend::parse("", "select 'unnamed'", &[]),
            frontend::sync(),
        ]
        .concat(),
    )?;
    for _ in 0..2 {
        let text = chain.upgrade()?;
        ensure!(text.contains("1 clients moved"), "{text}");
        let run = |name: &str, values: &[Option<&[u8]>]| {
            let bind = frontend::bind("", name, values);
            [bind, frontend::execute("", 0), frontend::sync()].concat()
        };
        ensure!(rows(&client.ask(&run("", &[]))?)? == ["unnamed"]);
        ensure!(rows(&client.ask(&run("named", &[Some(b"41")]))?)? == ["42"]);
        ensure!(client.query_one("show timezone")? == "MST");
        ensure!(client.query_one("show search_path")? == "pg_catalog, public");
        client.ask(
            &[
                frontend::parse("", "select 'unnamed'", &[]),
                frontend::sync(),
            ]
            .concat(),
        )?;
    }
    client.send(&frontend::query("select pg_sleep(100)"))?;
    chain.first.wait_log("upgraded").ok();
    wait_until("a cancel", PATIENCE, || {
        client.cancel(chain.port())?;
        client
            .stream()
            .set_read_timeout(Some(Duration::from_millis(200)))?;
        let peeked = client.stream().peek(&mut [0]);
        Ok(peeked.is_ok_and(|count| count > 0))
    })?;
    client.stream().set_read_timeout(Some(PATIENCE))?;
    let answer = client.read_until_ready()?;
    ensure!(
        answer
            .iter()
            .any(|m| m.tag == b'E' && m.error().contains("57014"))
    );
    Ok(())
}

#[test]
fn who_is_busy_or_holds_something_stays_until_that_is_over() -> Result<()> {
    let server = Server::new("op_upgrade_busy")?;
    let mut chain = Chain::start(server.config().set("drain_timeout", "20"))?;
    let mut busy = chain.connect("op_upgrade_busy")?;
    let mut pinned = chain.connect("op_upgrade_busy")?;
    busy.query("begin; create table t (n int)")?;
    pinned.query("create temporary table mine (n int)")?;
    let old = chain.pid;
    let asking = std::thread::spawn({
        let pid = old.to_string();
        move || {
            let mut command = Command::new(weir_bin()?);
            tools::run_any(command.args(["upgrade", "--pid", &pid]))
        }
    });
    // The first worker, which accepted for all workers, has stopped accepting.
    chain.first.wait_log("worker 0: ")?;
    // A new client belongs to the next process, which forwards cancel requests for the old one.
    let mut new = chain.connect("op_upgrade_busy")?;
    ensure!(new.query_one("select 1")? == "1");
    busy.send(&frontend::query("select pg_sleep(100)"))?;
    wait_until("a cancel", PATIENCE, || {
        busy.cancel(chain.port())?;
        busy.stream()
            .set_read_timeout(Some(Duration::from_millis(200)))?;
        Ok(busy.stream().peek(&mut [0]).is_ok_and(|count| count > 0))
    })?;
    busy.stream().set_read_timeout(Some(PATIENCE))?;
    busy.read_until_ready()?;
    busy.query("rollback")?;
    ensure!(pinned.query_one("select count(*) from mine")? == "0");
    pinned.query("drop table mine")?;
    let (text, is_good) = asking.join().map_err(|_| anyhow::anyhow!("a panic"))??;
    let pid = text.split_whitespace().nth(1).context("no process")?;
    chain.pid = pid.parse()?;
    ensure!(is_good && text.contains("2 clients moved"), "{text}");
    ensure!(chain.first.wait_exit(PATIENCE)?.code() == Some(0));
    for client in [&mut busy, &mut pinned, &mut new] {
        ensure!(client.query_one("select 2")? == "2");
    }
    Ok(())
}

#[test]
fn a_next_process_that_does_not_start_changes_nothing() -> Result<()> {
    let server = Server::new("op_upgrade_bad")?;
    let port = tools::free_port()?;
    let metrics = format!("127.0.0.1:{port}");
    let pages = tools::free_port()?;
    let config = server.config().set("metrics_listen", &metrics);
    let config = config.set("dashboard_listen", &format!("127.0.0.1:{pages}"));
    let mut chain = Chain::start(config)?;
    let mut client = chain.connect("op_upgrade_bad")?;
    client.query("set timezone to 'MST'")?;
    let file = chain.first.directory().join("weir.ini");
    let good = std::fs::read_to_string(&file)?;
    std::fs::write(&file, format!("{good}[pgbouncer]\nno_such_option = 1\n"))?;
    let (text, is_good) = chain.try_upgrade()?;
    ensure!(!is_good && text.contains("failed:"), "{text}");
    ensure!(client.query_one("show timezone")? == "MST");
    ensure!(chain.connect("op_upgrade_bad")?.query_one("select 1")? == "1");
    chain.first.check_healthy()?;
    wait_until("metrics again", PATIENCE, || Ok(says_healthy(port)))?;
    wait_until("pages again", PATIENCE, || Ok(has_dashboard(pages)))?;
    // With the corrected file it succeeds.
    std::fs::write(&file, good)?;
    chain.upgrade()?;
    ensure!(client.query_one("show timezone")? == "MST");
    wait_until("metrics of the next", PATIENCE, || Ok(says_healthy(port)))?;
    wait_until("pages of the next", PATIENCE, || Ok(has_dashboard(pages)))
}

/// True if a dashboard at this port refuses the Host of the request.
fn has_dashboard(port: u16) -> bool {
    http::request(port, "GET /").is_ok_and(|(status, _)| status == 421)
}

/// True if the health page at this port answers positively.
fn says_healthy(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

#[test]
fn a_client_with_tls_stays_until_it_leaves() -> Result<()> {
    let server = Server::new("op_upgrade_tls")?;
    let pki = Pki::new()?;
    let mut chain = Chain::start(server.config().set_all(pki.client_side("allow")?))?;
    let mut plain = chain.connect("op_upgrade_tls")?;
    let dial = Dial::new(&pki.authority)?;
    let mut sealed = dial.login(chain.port(), "postgres", "op_upgrade_tls")?;
    let pid = chain.pid.to_string();
    let asking = std::thread::spawn(move || {
        let mut command = Command::new(weir_bin()?);
        tools::run_any(command.args(["upgrade", "--pid", &pid]))
    });
    chain.first.wait_log("1 of them use TLS")?;
    for _ in 0..3 {
        ensure!(sealed.query_one("select 1")? == "1");
        ensure!(plain.query_one("select 1")? == "1");
    }
    ensure!(
        chain.first.check_healthy().is_ok(),
        "the old process is gone"
    );
    sealed.terminate();
    let (text, is_good) = asking.join().map_err(|_| anyhow::anyhow!("a panic"))??;
    let pid = text.split_whitespace().nth(1).context("no process")?;
    chain.pid = pid.parse()?;
    ensure!(is_good && text.contains("1 clients moved"), "{text}");
    ensure!(plain.query_one("select 1")? == "1");
    Ok(())
}
