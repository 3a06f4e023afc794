//! Waiting for a server: failures in the middle of a batch, servers that refuse, and the errors that
//! clients receive.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
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

use crate::support;

fn batch() -> [Vec<u8>; 5] {
    [
        frontend::parse("", "select 'waiting'", &[]),
        frontend::bind("", "", &[]),
        frontend::describe(b'P', ""),
        frontend::execute("", 0),
        frontend::sync(),
    ]
}

/// Setup in which the only server is in use, and every worker can welcome clients without one.
fn taken(settings: &[&str]) -> Result<(Scripted, weir_conformance::Target, Raw)> {
    let server = Scripted::honest()?;
    let mut options = PoolOptions::default().pool_size(1);
    for line in settings {
        options = options.setting(line);
    }
    let target = support::start(server.port(), &options)?;
    support::warm_up(&target)?;
    let mut holder = Raw::connect(target.port(), "postgres")?;
    holder.query("begin")?;
    Ok((server, target, holder))
}

#[test]
fn cor_49_a_batch_that_waits_too_long_gets_one_error_in_place_of_its_first_reply() -> Result<()> {
    let (server, mut target, mut holder) = taken(&["query_wait_timeout = 1"])?;
    let whole = batch().concat();
    let unfinished = batch()[..4].concat();
    let two = [batch().concat(), batch().concat()].concat();
    for bytes in [whole, unfinished, two, frontend::query("select 'waiting'")] {
        let mut raw = Raw::connect(target.port(), "postgres")?;
        let begun = clock::now();
        raw.send(&bytes)?;
        let words = support::last_words(&mut raw)?;
        ensure!(
            support::tags(&words) == "E",
            "{}",
            support::describe(&words)
        );
        ensure!(words[0].field(b'S').as_deref() == Some("FATAL"));
        let waited = begun.elapsed();
        ensure!(
            waited > Duration::from_millis(900) && waited < SOON,
            "waited {waited:?}"
        );
    }
    ensure!(
        server.count(b"select 'waiting'") == 0,
        "the server saw a batch"
    );
    holder.query("rollback")?;
    support::check_serves(&mut target)
}

#[test]
fn cor_49_a_batch_cancelled_while_it_waits_is_skipped_up_to_its_sync() -> Result<()> {
    let (server, mut target, mut holder) = taken(&[])?;
    let mut raw = Raw::connect(target.port(), "postgres")?;
    for cut in [1, 2, 4, 5] {
        let parts = batch();
        let (now, later) = parts.split_at(cut);
        raw.send(&now.concat())?;
        raw.stream()
            .set_read_timeout(Some(Duration::from_millis(200)))?;
        let begun = clock::now();
        // The first cancel may overtake the batch.
        while raw.stream().peek(&mut [0]).is_err() {
            ensure!(begun.elapsed() < SOON, "cut {cut}: not cancelled");
            raw.cancel(target.port())?;
        }
        raw.stream()
            .set_read_timeout(Some(Duration::from_secs(10)))?;
        let error = raw.read_message()?;
        ensure!(
            error.field(b'C').as_deref() == Some("57014"),
            "cut {cut}: {}",
            error.error()
        );
        raw.send(&later.concat())?;
        let rest = raw.read_until_ready()?;
        ensure!(
            support::tags(&rest) == "Z",
            "cut {cut}: {}",
            support::describe(&rest)
        );
    }
    ensure!(
        server.count(b"select 'waiting'") == 0,
        "the server saw a batch"
    );
    holder.query("rollback")?;
    let answer = raw.ask(&batch().concat())?;
    ensure!(
        support::tags(&answer) == "12nDCZ",
        "{}",
        support::describe(&answer)
    );
    support::check_serves(&mut target)
}

/// A client whose welcome is known is logged in at once, on any worker.
#[test]
fn cor_49_a_login_does_not_wait_for_a_busy_pool() -> Result<()> {
    let server = Scripted::honest()?;
    let options = PoolOptions::default()
        .pool_size(1)
        .env("WEIR_WORKERS", "4")
        .setting("client_login_timeout = 30");
    let mut target = support::start(server.port(), &options)?;
    let mut holder = Raw::connect(target.port(), "postgres")?;
    holder.query("begin")?;
    for number in 0..8 {
        let begun = clock::now();
        Raw::connect(target.port(), "postgres").with_context(|| format!("login {number}"))?;
        ensure!(begun.elapsed() < SOON, "took {:?}", begun.elapsed());
    }
    holder.query("rollback")?;
    support::check_serves(&mut target)
}

/// Server that accepts only the first connection and refuses the others with `code`.
fn first_only(code: &'static str) -> Result<Scripted> {
    Scripted::start(move |conversation| {
        if conversation.index == 0 {
            conversation.login()?;
            return conversation.serve();
        }
        conversation.startup()?;
        Ok(conversation.send(&refusal(code))?)
    })
}

fn refusal(code: &str) -> Vec<u8> {
    scripted::error(&[
        (b'S', "FATAL"),
        (b'V', "FATAL"),
        (b'C', code),
        (b'M', "refused by script"),
    ])
}

#[test]
fn cor_50_servers_that_are_full_or_starting_do_not_end_waiting_clients() -> Result<()> {
    for code in ["53300", "57P03"] {
        let server = first_only(code)?;
        let options = PoolOptions::default()
            .pool_size(3)
            .setting("server_login_retry = 1");
        let mut target = support::start(server.port(), &options)?;
        support::warm_up(&target)?;
        let mut holder = Raw::connect(target.port(), "postgres")?;
        holder.query("begin")?;
        let mut waiting = Vec::new();
        for _ in 0..5 {
            let mut raw = Raw::connect(target.port(), "postgres")?;
            raw.send(&frontend::query("select 'waited'"))?;
            waiting.push(raw);
        }
        weir_conformance::wait_until("three refusals", Duration::from_secs(10), || {
            Ok(server.connections() > 3)
        })?;
        holder.query("rollback")?;
        for raw in &mut waiting {
            let answer = raw.read_until_ready()?;
            ensure!(
                support::tags(&answer) == "TDCZ",
                "{code}: {}",
                support::describe(&answer)
            );
        }
        support::check_serves(&mut target)?;
    }
    Ok(())
}

#[test]
fn cor_50_a_client_is_let_in_when_a_starting_server_is_ready() -> Result<()> {
    for code in ["53300", "57P03"] {
        let server = Scripted::start(move |conversation| {
            if conversation.index >= 2 {
                conversation.login()?;
                return conversation.serve();
            }
            conversation.startup()?;
            Ok(conversation.send(&refusal(code))?)
        })?;
        let options = PoolOptions::default().setting("server_login_retry = 1");
        let mut target = support::start(server.port(), &options)?;
        let mut raw = Raw::connect(target.port(), "postgres").with_context(|| code.to_owned())?;
        ensure!(raw.query_one("select 'late'")? == "select 'late'");
        support::check_serves(&mut target)?;
    }
    Ok(())
}

#[test]
fn cor_50_refusals_for_good_are_told_at_once() -> Result<()> {
    for code in ["28P01", "28000", "3D000"] {
        let attempts = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&attempts);
        let server = Scripted::start(move |conversation| {
            conversation.startup()?;
            count.fetch_add(1, Ordering::SeqCst);
            Ok(conversation.send(&refusal(code))?)
        })?;
        let mut target = support::start(server.port(), &PoolOptions::default())?;
        for _ in 0..20 {
            let begun = clock::now();
            let mut raw = Raw::tcp(target.port(), Duration::from_secs(10))?;
            raw.send(&frontend::startup(
                frontend::VERSION_3_0,
                &[("user", "postgres"), ("database", "postgres")],
            ))?;
            let words = support::last_words(&mut raw)?;
            ensure!(
                words.len() == 1 && words[0].tag == b'E',
                "{}",
                support::describe(&words)
            );
            let text = words[0].error();
            ensure!(text.contains("refused by script"), "{text}");
            ensure!(begun.elapsed() < SOON, "took {:?}", begun.elapsed());
        }
        // Fewer attempts than clients: the failure is cached.
        let attempts = attempts.load(Ordering::SeqCst);
        ensure!(attempts <= 10, "{code}: {attempts} attempts for 20 clients");
        target.check_healthy()?;
    }
    Ok(())
}
