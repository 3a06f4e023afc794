//! Clients that stall, guess or flood are limited without effect on others (SEC-07, SEC-66, SEC-67).

use std::net::Ipv4Addr;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::login::Binding;
use weir_conformance::login::login;
use weir_conformance::random::Random;
use weir_conformance::tls::Dial;
use weir_conformance::tls::Pki;
use weir_conformance::tools;
use weir_conformance::wait_until;

const PATIENCE: Duration = Duration::from_secs(30);
const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const PASSWORD: &str = "correct horse";

fn open_files(pid: u32) -> Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// Waits until the process has at most this number of open files.
fn wait_files(pid: u32, most: usize) -> Result<()> {
    let mut last = 0;
    wait_until("closed files", PATIENCE, || {
        last = open_files(pid)?;
        Ok(last <= most)
    })
    .with_context(|| format!("{last} files, not {most}"))
}

/// 95th percentile of the times.
fn p95(mut times: Vec<Duration>) -> Duration {
    times.sort();
    let rank = times.len() * 95 / 100;
    times.get(rank).copied().unwrap_or_default()
}

/// Opens `count` sockets that send these bytes and nothing more.
fn stall(port: u16, bytes: &[u8], count: usize) -> Result<Vec<Raw>> {
    (0..count)
        .map(|_| {
            let mut raw = Raw::tcp(port, PATIENCE)?;
            raw.send(bytes)?;
            Ok(raw)
        })
        .collect()
}

#[test]
fn sec_07_thousands_that_stall_in_the_handshake_are_closed_in_time() -> Result<()> {
    tools::require_open_files(6_000)?;
    let postgres = Postgres::shared()?;
    let pki = Pki::new()?;
    let config = Config::to(postgres.port())
        .set_all(pki.client_side("prefer")?)
        .set("client_login_timeout", "12")
        .set("max_client_conn", "5000");
    let mut weir = Weir::start(&config)?;
    let dial = Dial::new(&pki.authority)?;
    dial.login(weir.port(), "postgres", "postgres")?;
    let baseline = open_files(weir.pid())?;
    let begun = clock::now();
    let hello = dial.hello()?;
    let request = frontend::ssl_request();
    let half = hello.get(..hello.len() / 2).context("half a ClientHello")?;
    // Stalls at SSLRequest; at the first byte of the ClientHello, after the request or at once; in its
    // middle.
    let mut stalled = stall(weir.port(), &request, 1000)?;
    for bytes in [&[22][..], half, &[]] {
        stalled.extend(stall(weir.port(), bytes, 300)?);
    }
    let mut behind = stall(weir.port(), &request, 600)?;
    for (number, raw) in behind.iter_mut().enumerate() {
        std::io::Read::read_exact(raw.reader(), &mut [0])?;
        raw.send(if number % 2 == 0 { &[22] } else { half })?;
    }
    stalled.extend(behind);
    let mut times = Vec::new();
    while times.len() < 30 {
        let at = clock::now();
        dial.login(weir.port(), "postgres", "postgres")?.terminate();
        times.push(at.elapsed());
    }
    let (count, p95) = (times.len(), p95(times));
    ensure!(p95 < SOON, "{count} logins, p95 {p95:?}");
    // Some keep sending single bytes, which does not extend the deadline.
    for raw in stalled.iter_mut().rev().take(300) {
        drop(raw.send(&[0]));
    }
    for raw in &mut stalled {
        raw.read_to_close()
            .context("a stalled client was not closed")?;
    }
    // The limit is 12 seconds; the rest is for opening thousands of sockets on a busy machine.
    let took = begun.elapsed();
    ensure!(took < Duration::from_secs(60), "closed after {took:?}");
    drop(stalled);
    wait_files(weir.pid(), baseline + 8)?;
    weir.check_healthy()
}

/// Sends a cancel request with this key from an address, without reading.
fn cancel(source: Ipv4Addr, port: u16, pid: i32, key: &[u8]) -> Result<TcpStream> {
    let mut raw = Raw::tcp_from(source, port, PATIENCE)?;
    raw.send(&frontend::cancel_request(pid, key))?;
    raw.into_stream()
}

#[test]
fn sec_66_guessed_cancel_keys_hit_nobody() -> Result<()> {
    const GUESSES: u64 = 4_000;
    tools::require_open_files(6_000)?;
    let postgres = Postgres::shared()?;
    let mut weir = Weir::start(&Config::to(postgres.port()).set("max_client_conn", "5000"))?;
    let port = weir.port();
    let mut sleepers: Vec<Raw> = Vec::new();
    for _ in 0..8 {
        let mut raw = weir.connect("postgres")?;
        raw.send(&frontend::query("select pg_sleep(60)"))?;
        sleepers.push(raw);
    }
    let mut honest = weir.connect("postgres")?;
    honest.query("select 1")?;
    let baseline = open_files(weir.pid())?;
    let pids: Vec<i32> = sleepers.iter().map(|raw| raw.key.0).collect();
    let guessing = thread::spawn(move || -> Result<()> {
        let mut random = Random::new(66);
        for _ in 0..GUESSES {
            let pid = pids
                .get(random.below(pids.len()))
                .copied()
                .unwrap_or_default();
            let key = random.next_u64().to_be_bytes();
            cancel(Ipv4Addr::LOCALHOST, port, pid, &key[..4])?;
        }
        Ok(())
    });
    let mut times = Vec::new();
    while !guessing.is_finished() {
        let at = clock::now();
        honest.query("select 1")?;
        times.push(at.elapsed());
    }
    guessing
        .join()
        .map_err(|_| anyhow!("the guesser panicked"))??;
    let (count, p95) = (times.len(), p95(times));
    ensure!(p95 < SOON, "{count} queries, p95 {p95:?}");
    for raw in &sleepers {
        raw.stream().set_nonblocking(true)?;
        let word = raw.stream().peek(&mut [0]);
        ensure!(word.is_err(), "a guess has hit");
        raw.stream().set_nonblocking(false)?;
    }
    wait_files(weir.pid(), baseline + 8)?;
    // The limit applies per source: a correct cancel request from another address succeeds.
    let mut sleeper = sleepers.pop().context("a sleeper")?;
    let (pid, key) = sleeper.key.clone();
    let at = clock::now();
    cancel(SECOND, port, pid, &key)?;
    let answer = sleeper.read_until_ready()?;
    ensure!(
        answer
            .iter()
            .any(|message| message.field(b'C').as_deref() == Some("57014"))
    );
    ensure!(at.elapsed() < PATIENCE, "{:?}", at.elapsed());
    weir.check_healthy()
}

/// Keys are not sequential: those of two clients have nothing in common.
#[test]
fn sec_66_cancel_keys_do_not_follow_one_another() -> Result<()> {
    let postgres = Postgres::shared()?;
    let weir = Weir::start(&Config::to(postgres.port()))?;
    let mut keys = Vec::new();
    for _ in 0..64 {
        keys.push(weir.connect("postgres")?.key);
    }
    let mut pids: Vec<i32> = keys.iter().map(|key| key.0).collect();
    let follow = pids
        .windows(2)
        .filter(|pair| pair[0].abs_diff(pair[1]) < 1000);
    ensure!(follow.count() < 8, "process ids can be guessed: {pids:?}");
    pids.sort_unstable();
    pids.dedup();
    ensure!(pids.len() == 64, "the same process id twice");
    let mut secrets: Vec<Vec<u8>> = keys.into_iter().map(|key| key.1).collect();
    secrets.sort();
    secrets.dedup();
    ensure!(secrets.len() == 64, "the same secret twice");
    Ok(())
}

/// Logs in once; returns the duration, and true if it was accepted.
fn attempt(source: Ipv4Addr, port: u16, password: &str) -> Result<(Duration, bool)> {
    let at: Instant = clock::now();
    let mut raw = Raw::tcp_from(source, port, PATIENCE)?;
    let outcome = login(&mut raw, "victim", "pgbouncer", password, Binding::No);
    Ok((at.elapsed(), outcome.is_ok()))
}

/// Below the delay of a held-back answer, and enough for a busy machine.
const QUICK: Duration = Duration::from_secs(3);

#[test]
fn sec_67_failed_logins_are_delayed_for_their_source_only() -> Result<()> {
    // No key derivation: thirty of them on the client side would delay all logins.
    let config = Config::to(1)
        .set("failover_hold", "0")
        .set("auth_type", "plain")
        .set("admin_users", "victim")
        .set("auth_failure_delay", "4")
        // Allows one failure per half minute: however long a busy machine takes for this test, no
        // allowance is restored.
        .set("auth_failures_per_minute", "2")
        .userlist(&format!("\"victim\" \"{PASSWORD}\"\n"));
    let mut weir = Weir::start(&config)?;
    let port = weir.port();
    let (time, is_in) = attempt(Ipv4Addr::LOCALHOST, port, PASSWORD)?;
    ensure!(
        is_in && time < QUICK,
        "the right password: in {is_in} after {time:?}"
    );
    let (time, is_in) = attempt(Ipv4Addr::LOCALHOST, port, "wrong")?;
    ensure!(
        !is_in && time >= Duration::from_millis(3900),
        "a wrong password: in {is_in} after {time:?}"
    );
    // An attacker with thirty connections.
    let sprayers: Vec<_> = (0..30)
        .map(|number| {
            thread::spawn(move || attempt(Ipv4Addr::LOCALHOST, port, &format!("guess {number}")))
        })
        .collect();
    // Meanwhile the victim logs in from another address without delay.
    let mut times = Vec::new();
    for _ in 0..10 {
        let (time, is_in) = attempt(SECOND, port, PASSWORD)?;
        ensure!(is_in, "the victim is locked out");
        times.push(time);
    }
    let slowest = times.into_iter().max().unwrap_or_default();
    ensure!(slowest < QUICK, "the victim waits {slowest:?}");
    for sprayer in sprayers {
        let (time, is_in) = sprayer.join().map_err(|_| anyhow!("panicked"))??;
        // Delayed, or refused unchecked because there were too many.
        ensure!(!is_in, "a guess got in after {time:?}");
    }
    // The attacker has used up its allowance: even the right password is refused now.
    let (time, is_in) = attempt(Ipv4Addr::LOCALHOST, port, PASSWORD)?;
    ensure!(!is_in, "in after {time:?}");
    let (time, is_in) = attempt(SECOND, port, PASSWORD)?;
    ensure!(
        is_in && time < QUICK,
        "the victim at the end: in {is_in} after {time:?}"
    );
    weir.check_healthy()
}
