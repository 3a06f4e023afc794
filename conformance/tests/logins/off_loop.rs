//! Key derivation takes milliseconds and must not happen in a worker's loop.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use anyhow::anyhow;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::process;

use crate::support::attempt;
use crate::support::begin;
use crate::support::inside;
use crate::support::scram_first;
use crate::support::scram_wrong;

const LOGINS: usize = 100;

/// Runs queries until told to stop; returns the longest duration of one.
fn query_until(raw: &mut Raw, stop: &AtomicBool) -> Result<Duration> {
    let mut slowest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let begun = clock::now();
        raw.query("select 1")?;
        slowest = slowest.max(begun.elapsed());
    }
    Ok(slowest)
}

/// Brings all logins to the point where keys are needed, before any answer is read; returns their total duration. The
/// proofs are wrong, which only the keys can show.
fn derive_all(port: u16) -> Result<Duration> {
    let mut logins = (0..LOGINS)
        .map(|login| Ok(begin(port, &format!("user{login}"), "postgres")?.0))
        .collect::<Result<Vec<Raw>>>()?;
    for raw in &mut logins {
        raw.send(&scram_first("abcdefghijklmnop"))?;
    }
    let mut proofs = Vec::new();
    for raw in &mut logins {
        let answer = raw.read_message()?;
        ensure!(answer.tag == b'R', "{}", answer.error());
        proofs.push(scram_wrong(&answer));
    }
    let begun = clock::now();
    for (raw, proof) in logins.iter_mut().zip(proofs) {
        raw.send(&proof)?;
    }
    for raw in &mut logins {
        let answer = raw.read_message()?;
        ensure!(answer.tag == b'E', "let in by a wrong proof");
    }
    Ok(begun.elapsed())
}

#[test]
fn a_hundred_scram_logins_hold_up_no_query() -> Result<()> {
    let postgres = Postgres::shared()?;
    // Each user has a different password, because the cache would hide the work otherwise.
    let users: String = (0..LOGINS)
        .map(|user| format!("\"user{user}\" \"password {user}\"\n"))
        .collect();
    let config = Config::to(postgres.port())
        .userlist(&format!("\"postgres\" \"\"\n{users}"))
        .set("auth_type", "scram-sha-256")
        .set("scram_iterations", "50000")
        // On a busy machine the last of them waits for long.
        .set("client_login_timeout", "0")
        .set("auth_failure_delay", "0")
        .set("auth_failures_per_minute", "0")
        .env("WEIR_WORKERS", "1");
    // A client without SCRAM of its own logs in with method trust; after a reload the others need SCRAM.
    let weir = Weir::start(&config.clone().set("auth_type", "trust"))?;
    let mut raw = weir.connect("postgres")?;
    raw.query("select 1")?;
    weir.reload(&config)?;
    weir.wait_log("reload done")?;
    let stop = AtomicBool::new(false);
    let (derived, slowest) = thread::scope(|scope| {
        let querying = scope.spawn(|| query_until(&mut raw, &stop));
        let derived = derive_all(weir.port());
        stop.store(true, Ordering::Relaxed);
        let slowest = querying
            .join()
            .map_err(|_| anyhow!("the client panicked"))?;
        Ok::<_, anyhow::Error>((derived?, slowest?))
    })?;
    // In the loop, all that time would be one pause; outside of it a query only waits for a processor.
    ensure!(
        derived > Duration::from_millis(400),
        "the work is too small to show anything: {derived:?}"
    );
    ensure!(
        slowest < derived / 4,
        "a query took {slowest:?} while keys were derived for {derived:?}"
    );
    Ok(())
}

#[test]
fn derived_keys_are_kept() -> Result<()> {
    let postgres = Postgres::shared()?;
    let config = Config::to(postgres.port())
        .userlist("\"user0\" \"secret\"\n")
        .database(&format!(
            "forced = host=127.0.0.1 port={} dbname=postgres user=postgres",
            postgres.port()
        ))
        .set("auth_type", "scram-sha-256")
        .set("client_login_timeout", "0")
        .set("scram_iterations", "200000");
    let weir = Weir::start(&config)?;
    // libpq derives keys, too, so only Weir's own processor time counts.
    let login = || -> Result<u64> {
        let before = process::cpu_ns(weir.pid())?;
        inside(
            "user0",
            &attempt(weir.port(), "user0", Some("secret"), "forced")?,
        )?;
        Ok(process::cpu_ns(weir.pid())? - before)
    };
    let first = login()?;
    let second = login()?;
    ensure!(second < first / 2, "first {first} ns, second {second} ns");
    Ok(())
}
