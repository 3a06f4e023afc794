//! The admin console and malformed input.

use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::PoolOptions;
use weir_conformance::Raw;
use weir_conformance::frontend;
use weir_conformance::scripted::Scripted;

use crate::support;
use crate::support::MIB;
use crate::support::Meter;

#[test]
fn sec_28_degenerate_console_input_is_answered_and_harms_nothing() -> Result<()> {
    let server = Scripted::honest()?;
    let mut target = support::start(server.port(), &PoolOptions::default())?;
    let spaces = vec![b' '; 1 << 20];
    let quotes = vec![b'\''; 100_000];
    let bodies: Vec<Vec<u8>> = vec![
        b"\0".to_vec(),
        b";\0".to_vec(),
        b";;\0".to_vec(),
        b" ; ; \0".to_vec(),
        [&spaces[..], b"\0"].concat(),
        [&spaces[..], b";\0"].concat(),
        [&quotes[..], b"\0"].concat(),
        b"show 'pools\0".to_vec(),
        b"show \"pools\0".to_vec(),
        b"show 'po''ols'\0".to_vec(),
        b"show\0pools\0".to_vec(),
        b"show pools\0trailing\0".to_vec(),
        b"show \xff\xfe\0".to_vec(),
        b"\xc3\x28\0".to_vec(),
        b"show\0".to_vec(),
        b"show show show\0".to_vec(),
        b"set\0".to_vec(),
        b"set =\0".to_vec(),
        b"set x = 'y\0".to_vec(),
        b"kill\0".to_vec(),
        b"pause nosuch\0".to_vec(),
        b"-- comment\0".to_vec(),
        b"/* comment\0".to_vec(),
        b"$$\0".to_vec(),
        b"select 1; show pools; \0".to_vec(),
        b"show pools; show pools\0".to_vec(),
        b"no terminator".to_vec(),
        Vec::new(),
    ];
    let mut raw = console(target.port())?;
    raw.query("show pools")?;
    let meter = Meter::begin(&target)?;
    for (number, body) in bodies.iter().enumerate() {
        let context = || format!("body {number}: {:.60}", body.escape_ascii().to_string());
        raw.send(&frontend::message(b'Q', body))
            .with_context(context)?;
        let answer = raw.read_until_ready().with_context(context)?;
        if answer.last().is_some_and(|last| last.tag == b'Z') {
            ensure!(answer.len() > 1, "{}: only ReadyForQuery", context());
        } else {
            raw = console(target.port())?;
        }
    }
    // One of the commands was a KILL of all databases, which pauses them.
    raw.query("resume")?;
    raw.query("show pools")?;
    meter.check_growth(8 * MIB)?;
    meter.check_cpu(Duration::from_secs(2))?;
    support::check_serves(&mut target)
}

/// PgBouncer refuses the extended protocol here. Any answer is accepted: one per request, and the process survives.
#[test]
fn sec_28_the_extended_protocol_on_the_console_is_answered() -> Result<()> {
    let server = Scripted::honest()?;
    let mut target = support::start(server.port(), &PoolOptions::default())?;
    let requests = [
        frontend::parse("", "show pools", &[]),
        frontend::bind("", "", &[]),
        frontend::describe(b'S', ""),
        frontend::execute("", 0),
        frontend::close(b'S', ""),
        frontend::function_call(1, &[]),
        frontend::copy_data(b"x"),
        frontend::copy_done(),
        frontend::message(b'y', b""),
        frontend::message(b'p', b"secret\0"),
        support::head(b'Q', 0xffff_ffff),
        frontend::message(b'P', b""),
        frontend::message(b'B', b"\xff"),
    ];
    for (number, request) in requests.iter().enumerate() {
        let mut raw = console(target.port())?;
        raw.send(&[request.clone(), frontend::sync()].concat())?;
        raw.read_until_ready()
            .with_context(|| format!("request {number}"))?;
        drop(raw);
        // The console itself still works.
        console(target.port())?.query("show version")?;
    }
    support::check_serves(&mut target)
}

fn console(port: u16) -> Result<Raw> {
    let mut raw = Raw::tcp(port, Duration::from_secs(10))?;
    let login = [("user", "postgres"), ("database", "pgbouncer")];
    let answer = raw.ask(&frontend::startup(frontend::VERSION_3_0, &login))?;
    ensure!(
        answer.last().is_some_and(|last| last.tag == b'Z'),
        "{}",
        support::describe(&answer)
    );
    Ok(raw)
}
