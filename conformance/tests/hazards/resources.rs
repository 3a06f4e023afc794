//! Resources that a client can use up: memory, time for logging in, and open files. All of them are released again.

use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::PoolOptions;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::scripted;
use weir_conformance::scripted::Scripted;
use weir_conformance::tools;
use weir_conformance::wait_until;

use crate::support;
use crate::support::MIB;
use crate::support::Meter;

/// Clients that do not read.
const SLOW: u64 = 50;
/// Maximum of memory per such client.
const SLOW_MAX: u64 = 128 * 1024;

#[test]
fn cor_41_clients_that_do_not_read_cost_little_memory() -> Result<()> {
    let server = Scripted::start(|conversation| {
        conversation.login()?;
        let is_big =
            |message: &weir_conformance::raw::Message| message.body.starts_with(b"select 'big'");
        while conversation.serve_until(is_big)?.is_some() {
            conversation.send(&scripted::row_description())?;
            let row = scripted::row(&[b'x'; 8192]);
            for _ in 0..1000 {
                conversation.send(&row)?;
            }
            conversation.send(&scripted::complete("SELECT 1000"))?;
            conversation.ready()?;
        }
        Ok(())
    })?;
    let mut target = support::start(server.port(), &PoolOptions::default().pool_size(60))?;
    support::check_serves(&mut target)?;
    let meter = Meter::begin(&target)?;
    let mut slow = Vec::new();
    for _ in 0..SLOW {
        let mut raw = Raw::connect(target.port(), "postgres")?;
        raw.send(&frontend::query("select 'big'"))?;
        slow.push(raw);
    }
    // Other clients are served meanwhile.
    for _ in 0..50 {
        support::check_serves(&mut target)?;
    }
    meter.check_growth(SLOW * SLOW_MAX + 4 * MIB)?;
    for raw in &mut slow {
        let bytes = raw.skim_until_ready()?;
        ensure!(bytes > 8_000_000, "a client that went on got {bytes} bytes");
    }
    meter.check_growth(SLOW * SLOW_MAX + 4 * MIB)?;
    support::check_serves(&mut target)
}

/// Points at which a login stalls; the fifth is a complete start-up packet.
fn login_stages() -> [Vec<u8>; 8] {
    let startup = frontend::startup(
        frontend::VERSION_3_0,
        &[("user", "postgres"), ("database", "postgres")],
    );
    let initial = frontend::message(b'p', b"SCRAM-SHA-256\0\0\0\0\x0cn,,n=,r=abcd");
    [
        Vec::new(),
        vec![0],
        startup.get(..20).unwrap_or_default().to_vec(),
        frontend::ssl_request(),
        startup.clone(),
        [startup.clone(), vec![b'p', 0]].concat(),
        [
            startup.clone(),
            initial.get(..20).unwrap_or_default().to_vec(),
        ]
        .concat(),
        [startup.clone(), initial].concat(),
    ]
}

#[test]
fn cor_42_clients_that_stall_in_their_login_are_shown_out() -> Result<()> {
    let server = Scripted::honest()?;
    let guard = support::start_with_users(
        server.port(),
        "scram-sha-256",
        "\"postgres\" \"secret\"\n",
        &[
            "client_login_timeout = 8",
            "max_client_conn = 1000",
            "listen_backlog = 1000",
        ],
    )?;
    let mut target = guard.target;
    let pid = target.pid()?;
    let stages = login_stages();
    let startup = stages[4].clone();
    // The port opens before the start is complete: an answer shows that the workers run.
    let mut first = Raw::tcp(target.port(), Duration::from_secs(10))?;
    first.send(&startup)?;
    first.read_message()?;
    let files = support::open_files(pid)?;
    drop(first);
    let meter = Meter::begin(&target)?;
    let begun = clock::now();
    let mut stalled = Vec::new();
    for stage in stages.iter().cycle().take(200) {
        let mut raw = Raw::tcp(target.port(), Duration::from_secs(10))?;
        raw.send(stage)?;
        stalled.push(raw);
    }
    wait_until(
        "a hundred clients at the door",
        Duration::from_secs(6),
        || Ok(support::open_files(pid)? > files + 100),
    )?;
    // A client that does not stall is asked for its password at once.
    let at = clock::now();
    let mut honest = Raw::tcp(target.port(), Duration::from_secs(10))?;
    honest.send(&startup)?;
    let asked = honest.read_message()?;
    ensure!(asked.tag == b'R', "{}", asked.error());
    ensure!(
        at.elapsed() < Duration::from_secs(4),
        "took {:?}",
        at.elapsed()
    );
    drop(honest);
    for (number, raw) in stalled.iter_mut().enumerate() {
        // A byte now and then must not extend the deadline.
        if number % 8 == 2 {
            drop(raw.send(&[0]));
        }
        raw.read_to_close()
            .with_context(|| format!("stage {}", number % 8))?;
    }
    let took = begun.elapsed();
    ensure!(took < Duration::from_secs(60), "took {took:?}");
    wait_until(
        "the return of the open files",
        Duration::from_secs(20),
        || Ok(support::open_files(pid)? <= files),
    )?;
    meter.check_growth(6 * MIB)?;
    ensure!(
        server.connections() == 0,
        "a server was asked for a stranger"
    );
    target.check_healthy()
}

/// A login that sends single bytes ends at the same absolute deadline.
#[test]
fn cor_42_a_trickling_login_ends_at_the_absolute_deadline() -> Result<()> {
    let server = Scripted::honest()?;
    let options = PoolOptions::default().setting("client_login_timeout = 1");
    let mut target = support::start(server.port(), &options)?;
    let padding = "x".repeat(9000);
    let startup = frontend::startup(
        frontend::VERSION_3_0,
        &[("user", "postgres"), ("application_name", &padding)],
    );
    let mut raw = Raw::tcp(target.port(), Duration::from_millis(10))?;
    let begun = clock::now();
    for byte in startup {
        // The read's time-out sets the pace; data or the end of the connection ends the loop.
        if raw.send(&[byte]).is_err() || raw.stream().peek(&mut [0]).is_ok() {
            break;
        }
    }
    let took = begun.elapsed();
    ensure!(
        took > Duration::from_millis(700) && took < SOON,
        "took {took:?}"
    );
    support::check_serves(&mut target)
}

#[test]
fn cor_42_a_half_sent_request_holds_no_server() -> Result<()> {
    let server = Scripted::honest()?;
    let mut target = support::start(server.port(), &PoolOptions::default().pool_size(1))?;
    let bind = frontend::bind("", "", &[Some(&[b'y'; 20_000])]);
    for (name, bytes) in [
        (
            "Query",
            frontend::query(&format!("select '{}'", "x".repeat(10_000))),
        ),
        ("Bind", bind),
        ("Parse", frontend::parse("", &"x".repeat(20_000), &[])),
        ("FunctionCall", frontend::function_call(1, &[&[0; 20_000]])),
    ] {
        let mut raw = Raw::connect(target.port(), "postgres")?;
        raw.send(bytes.get(..bytes.len() - 1).unwrap_or_default())?;
        support::check_serves(&mut target).with_context(|| name.to_owned())?;
    }
    Ok(())
}

#[test]
fn cor_44_running_out_of_files_neither_spins_nor_lasts() -> Result<()> {
    let server = Scripted::honest()?;
    let options = PoolOptions::default().pool_size(5);
    let mut target = support::start(server.port(), &options)?;
    support::check_serves(&mut target)?;
    let pid = target.pid()?;
    limit_files(pid, support::open_files(pid)? + 40)?;
    let mut crowd = Vec::new();
    // Beyond the limit, but within the listener's backlog.
    for _ in 0..150 {
        crowd.push(Raw::tcp(target.port(), Duration::from_secs(10))?);
    }
    // Some time at the limit: without work the process must stay idle.
    let meter = Meter::begin(&target)?;
    let until = clock::now() + Duration::from_secs(2);
    wait_until("two seconds", Duration::from_secs(10), || {
        Ok(clock::now() >= until)
    })?;
    meter.check_cpu(Duration::from_millis(200))?;
    meter.check_growth(4 * MIB)?;
    target.check_healthy()?;
    // A log line per failed accept would fill the disk.
    let lines = target.log().lines().count();
    ensure!(lines < 2000, "{lines} lines of log");
    drop(crowd);
    for _ in 0..20 {
        support::check_serves(&mut target)?;
    }
    Ok(())
}

/// No descriptor is left for a server connection. That is a shortage of Weir, not a fault of the server; connecting
/// must work again when descriptors are free.
#[test]
fn cor_44_no_file_for_a_server_connection_does_not_mark_the_server_down() -> Result<()> {
    let server = Scripted::honest()?;
    let options = PoolOptions::default()
        .pool_size(5)
        .setting("query_wait_timeout = 10");
    let mut target = support::start(server.port(), &options)?;
    support::warm_up(&target)?;
    let mut holder = Raw::connect(target.port(), "postgres")?;
    holder.query("begin")?;
    let mut waiting = Raw::connect(target.port(), "postgres")?;
    let pid = target.pid()?;
    limit_files(pid, support::open_files(pid)?)?;
    // The second server cannot be connected now.
    waiting.send(&frontend::query("select 'waited'"))?;
    let until = clock::now() + Duration::from_secs(1);
    wait_until("one second", Duration::from_secs(5), || {
        Ok(clock::now() >= until)
    })?;
    limit_files(pid, 4096)?;
    let begun = clock::now();
    let answer = waiting.read_until_ready()?;
    ensure!(
        support::tags(&answer) == "TDCZ",
        "{}",
        support::describe(&answer)
    );
    ensure!(begun.elapsed() < SOON, "took {:?}", begun.elapsed());
    holder.query("rollback")?;
    support::check_serves(&mut target)
}

/// Sets the soft limit of open files of a running process.
fn limit_files(pid: u32, files: usize) -> Result<()> {
    tools::require("prlimit", "util-linux")?;
    let (pid, limit) = (pid.to_string(), format!("--nofile={files}:"));
    tools::run(Command::new("prlimit").args(["--pid", &pid, &limit]))?;
    Ok(())
}
