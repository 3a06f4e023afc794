//! Cancel requests: they affect the client's own statement or none.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;
use anyhow::ensure;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::random::Random;
use weir_conformance::scripted::Scripted;
use weir_conformance::wait_until;

use crate::support;
use crate::support::MIB;
use crate::support::Meter;

const CANCELS: u32 = 1000;

/// A single client cancels its own short queries a thousand times, while two others use the same server.
#[test]
fn cor_24_a_late_cancel_never_hits_another_client() -> Result<()> {
    let postgres = Postgres::shared()?;
    let mut target = support::start(postgres.port(), &PoolOptions::default().pool_size(1))?;
    let port = target.port();
    let is_over = Arc::new(AtomicBool::new(false));
    let bystanders: Vec<_> = (0..2)
        .map(|number| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || bystand(port, number, &is_over))
        })
        .collect();
    let outcome = cancel_often(port);
    is_over.store(true, Ordering::Relaxed);
    for bystander in bystanders {
        let served = bystander
            .join()
            .map_err(|_| anyhow!("a bystander panicked"))??;
        // Most cancels find their query in the queue and take almost no time, so the rounds are over soon.
        ensure!(served > 3, "a bystander was served only {served} times");
    }
    let (cancelled, finished) = outcome?;
    ensure!(
        cancelled > 0 && finished > 0,
        "{cancelled} cancelled, {finished} finished: no race"
    );
    support::check_serves(&mut target)
}

fn bystand(port: u16, number: u32, is_over: &AtomicBool) -> Result<u32> {
    let mut raw = Raw::connect(port, "postgres")?;
    let mut served = 0;
    while !is_over.load(Ordering::Relaxed) {
        let token = format!("bystander {number} {served}");
        let value = raw.query_one(&format!("select '{token}', pg_sleep(0.0002)"))?;
        ensure!(value == token, "wanted {token}, got {value}");
        served += 1;
    }
    Ok(served)
}

fn cancel_often(port: u16) -> Result<(u32, u32)> {
    let seed = 24;
    let mut random = Random::new(seed);
    let mut raw = Raw::connect(port, "postgres")?;
    let (mut cancelled, mut finished) = (0, 0);
    for turn in 0..CANCELS {
        let token = format!("mine {turn}");
        let sleep = random.below(4);
        raw.send(&frontend::query(&format!(
            "select '{token}', pg_sleep(0.000{sleep})"
        )))?;
        let answer = if random.chance(10) {
            // The cancel is late for certain. On a busy machine all others may find their query in the queue.
            let answer = raw.read_until_ready()?;
            raw.cancel(port)?;
            answer
        } else if random.chance(50) {
            // The cancel request is sent first; another thread waits for its end.
            let (pid, secret) = raw.key.clone();
            let canceller = thread::spawn(move || -> Result<()> {
                let mut second = Raw::tcp(port, Duration::from_secs(20))?;
                second.send(&frontend::cancel_request(pid, &secret))?;
                second.read_to_close()?;
                Ok(())
            });
            let answer = raw.read_until_ready()?;
            canceller
                .join()
                .map_err(|_| anyhow!("a canceller panicked"))??;
            answer
        } else {
            raw.cancel(port)?;
            raw.read_until_ready()?
        };
        match support::codes(&answer).as_slice() {
            [] => {
                let row = answer.iter().find(|message| message.tag == b'D');
                let row = row.context("no row")?.row()?;
                ensure!(
                    row.first() == Some(&Some(token.clone())),
                    "wanted {token}, got {row:?}"
                );
                finished += 1;
            }
            [code] if code == "57014" => cancelled += 1,
            _ => {
                return Err(anyhow!(
                    "turn {turn}, seed {seed}: {}",
                    support::describe(&answer)
                ));
            }
        }
    }
    Ok((cancelled, finished))
}

#[test]
fn cor_25_a_cancel_takes_a_waiting_client_out_of_the_queue() -> Result<()> {
    let server = Scripted::honest()?;
    let mut target = support::start(server.port(), &PoolOptions::default().pool_size(1))?;
    support::warm_up(&target)?;
    let mut holder = Raw::connect(target.port(), "postgres")?;
    let mut waiting = Raw::connect(target.port(), "postgres")?;
    holder.query("begin")?;
    for round in 0..20 {
        waiting.send(&frontend::query("select 'never seen'"))?;
        let begun = clock::now();
        // The first cancel may overtake the query.
        let mut answer = None;
        waiting
            .stream()
            .set_read_timeout(Some(Duration::from_millis(200)))?;
        while answer.is_none() {
            ensure!(begun.elapsed() < SOON, "round {round}: not cancelled");
            waiting.cancel(target.port())?;
            let mut first = [0];
            if waiting.stream().peek(&mut first).is_ok() {
                answer = Some(waiting.read_until_ready()?);
            }
        }
        let answer = answer.context("an answer came")?;
        ensure!(
            support::codes(&answer) == ["57014"],
            "{}",
            support::describe(&answer)
        );
        ensure!(
            support::tags(&answer) == "EZ",
            "{}",
            support::describe(&answer)
        );
    }
    ensure!(holder.query_one("select 'held'")? == "select 'held'");
    holder.query("rollback")?;
    waiting
        .stream()
        .set_read_timeout(Some(Duration::from_secs(10)))?;
    ensure!(waiting.query_one("select 'seen'")? == "select 'seen'");
    ensure!(server.count(b"never seen") == 0, "the server saw the query");
    support::check_serves(&mut target)
}

/// Cancel requests with guessed, truncated or oversized keys: the connection is closed without an answer,
/// and no server receives anything.
#[test]
fn cor_24_wrong_cancel_keys_are_ignored() -> Result<()> {
    let server = Scripted::honest()?;
    let mut target = support::start(server.port(), &PoolOptions::default())?;
    let mut raw = Raw::connect(target.port(), "postgres")?;
    raw.query("begin")?;
    let connections = server.connections();
    let (pid, secret) = raw.key.clone();
    let meter = Meter::begin(&target)?;
    let mut wrong = secret.clone();
    wrong.iter_mut().for_each(|byte| *byte = !*byte);
    let longer = [&secret[..], b"x"].concat();
    let keys: [(i32, &[u8]); 8] = [
        (pid, &wrong),
        (pid, &[]),
        (pid, &secret[..3]),
        (pid, &longer),
        (pid + 1, &secret),
        (0, &[0; 4]),
        (-1, &[0xff; 4]),
        (pid, &[0; 256]),
    ];
    for (pid, key) in keys.iter().cycle().take(400) {
        let mut second = Raw::tcp(target.port(), Duration::from_secs(5))?;
        second.send(&frontend::cancel_request(*pid, key))?;
        let words = support::last_words(&mut second)?;
        ensure!(words.iter().all(|message| message.tag == b'E'), "{words:?}");
    }
    ensure!(
        server.connections() == connections,
        "a cancel reached the server"
    );
    meter.check_growth(MIB)?;
    support::check_serves(&mut target)
}

/// A flood of cancel requests of one client neither delays other clients nor uses up the pool's
/// connections.
#[test]
fn cor_26_a_flood_of_cancels_delays_nobody() -> Result<()> {
    let postgres = Postgres::shared()?;
    let mut target = support::start(postgres.port(), &PoolOptions::default().pool_size(2))?;
    let mut sleeper = Raw::connect(target.port(), "postgres")?;
    sleeper.send(&frontend::query("select pg_sleep(60)"))?;
    let mut flood = Vec::new();
    for _ in 0..200 {
        let mut second = Raw::tcp(target.port(), Duration::from_secs(15))?;
        second.send(&frontend::cancel_request(sleeper.key.0, &sleeper.key.1))?;
        flood.push(second);
    }
    for _ in 0..20 {
        support::check_serves(&mut target)?;
    }
    let answer = sleeper.read_until_ready()?;
    ensure!(
        support::codes(&answer) == ["57014"],
        "{}",
        support::describe(&answer)
    );
    wait_until("the end of the flood", Duration::from_secs(15), || {
        Ok(flood
            .pop()
            .is_none_or(|mut second| second.read_to_close().is_err()))
    })?;
    support::check_serves(&mut target)
}
