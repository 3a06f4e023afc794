//! Servers that die: the affected client gets one error, no other client notices, and no statement runs twice.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::frontend;
use weir_conformance::raw::Message;
use weir_conformance::scripted;
use weir_conformance::scripted::Scripted;
use weir_conformance::wait_until;

use crate::support;

/// Tag for "no message": the query is running.
const RUNNING: u8 = 0;

/// Ends every backend of a database; returns when their processes are gone.
fn terminate_all(postgres: &Postgres, database: &str) -> Result<usize> {
    let mut raw = Raw::connect(postgres.port(), "postgres")?;
    let rows = raw.query(&format!(
        "select pid, pg_terminate_backend(pid) from pg_stat_activity where datname = '{database}'"
    ))?;
    let pids: Vec<String> = rows
        .into_iter()
        .filter_map(|row| row.into_iter().next().flatten())
        .collect();
    wait_until("the end of the backends", Duration::from_secs(10), || {
        Ok(pids
            .iter()
            .all(|pid| !Path::new("/proc").join(pid).exists()))
    })?;
    Ok(pids.len())
}

/// Kinds of requests in progress: the request, and the tag of the message after which the server is in the
/// wanted state.
fn working() -> [(&'static str, Vec<u8>, u8); 7] {
    let batch = [
        frontend::parse("", "select 1", &[]),
        frontend::bind("", "", &[]),
        frontend::flush(),
    ]
    .concat();
    [
        ("idle in transaction", frontend::query("begin"), b'Z'),
        (
            "failed transaction",
            frontend::query("begin; select no_such"),
            b'Z',
        ),
        (
            "running",
            frontend::query("begin; select pg_sleep(60)"),
            RUNNING,
        ),
        (
            "in rows",
            frontend::query(
                "select pg_sleep(0.01), repeat('x', 9000) from generate_series(1, 9999)",
            ),
            b'D',
        ),
        ("in COPY in", frontend::query("copy sink from stdin"), b'G'),
        ("in a batch", batch, b'2'),
        (
            "in a batch, in a transaction",
            [
                frontend::query("begin"),
                frontend::parse("", "select 1", &[]),
                frontend::flush(),
            ]
            .concat(),
            b'1',
        ),
    ]
}

#[test]
fn cor_20_a_terminated_backend_is_told_once_to_a_client_at_work() -> Result<()> {
    let postgres = Postgres::shared()?;
    postgres.create_database("cor_20")?;
    Raw::connect(postgres.port(), "cor_20")?.query("create table sink (line text)")?;
    let mut target = support::start(postgres.port(), &PoolOptions::default().pool_size(3))?;
    let mut active = Raw::connect(postgres.port(), "postgres")?;
    let running =
        "select count(*) from pg_stat_activity where datname = 'cor_20' and wait_event = 'PgSleep'";
    for (name, request, until) in working() {
        let mut idle = Raw::connect(target.port(), "cor_20")?;
        idle.query("select 1")?;
        let mut raw = Raw::connect(target.port(), "cor_20")?;
        raw.send(&request)?;
        if until == RUNNING {
            wait_until("the query", Duration::from_secs(5), || {
                Ok(active.query_one(running)? == "1")
            })?;
        } else {
            while raw.read_message().context(name)?.tag != until {}
        }
        let ended = terminate_all(&postgres, "cor_20")?;
        ensure!(ended > 0, "{name}: no backend");
        let words = support::last_words(&mut raw).context(name)?;
        let errors: Vec<&Message> = words.iter().filter(|word| word.tag == b'E').collect();
        ensure!(errors.len() == 1, "{name}: {}", support::describe(&words));
        ensure!(
            words
                .last()
                .is_some_and(|last| last.field(b'C').as_deref() == Some("57P01")),
            "{name}: {}",
            support::describe(&words)
        );
        ensure!(idle.query_one("select 'unaware'").context(name)? == "unaware");
    }
    support::check_serves(&mut target)
}

#[test]
fn cor_20_a_fatal_error_is_passed_on_unchanged_and_once() -> Result<()> {
    for code in ["57P01", "57P02", "57P03"] {
        let fields = [
            (b'S', "FATAL"),
            (b'V', "FATAL"),
            (b'C', code),
            (b'M', "in its own words"),
        ];
        let fatal = scripted::error(&fields);
        let said = fatal.clone();
        let server = Scripted::start(move |conversation| {
            conversation.login()?;
            let is_last = |message: &Message| message.body.starts_with(b"select 'last'");
            if conversation.serve_until(is_last)?.is_some() {
                conversation.send(&scripted::row_description())?;
                conversation.send(&scripted::row(b"first"))?;
                conversation.send(&said)?;
            }
            Ok(())
        })?;
        let mut target = support::start(server.port(), &PoolOptions::default())?;
        let mut raw = Raw::connect(target.port(), "postgres")?;
        raw.send(&frontend::query("select 'last'"))?;
        let words = support::last_words(&mut raw)?;
        ensure!(
            support::tags(&words) == "TDE",
            "{}",
            support::describe(&words)
        );
        ensure!(words[2].wire() == fatal, "{}", words[2].error());
        ensure!(
            server.count(b"select 'last'") == 1,
            "the statement was sent twice"
        );
        support::check_serves(&mut target)?;
    }
    Ok(())
}

/// Ways in which a server dies.
#[derive(Clone, Copy, Debug)]
enum Death {
    Close,
    Reset,
}

#[test]
fn cor_21_a_server_lost_in_mid_flight_is_one_error_and_no_second_try() -> Result<()> {
    for death in [Death::Close, Death::Reset] {
        for said in [
            Vec::new(),
            scripted::row_description(),
            [scripted::row_description(), scripted::row(b"first")].concat(),
            scripted::complete("INSERT 0 1"),
        ] {
            let count = said.len();
            let server = Scripted::start(move |conversation| {
                conversation.login()?;
                let is_last = |message: &Message| message.body.starts_with(b"insert");
                if conversation.serve_until(is_last)?.is_some() {
                    conversation.send(&said)?;
                    if matches!(death, Death::Reset) {
                        conversation.reset();
                    }
                }
                Ok(())
            })?;
            let options = PoolOptions::default().setting("server_login_retry = 0");
            let mut target = support::start(server.port(), &options)?;
            let mut idle = Raw::connect(target.port(), "postgres")?;
            let mut raw = Raw::connect(target.port(), "postgres")?;
            raw.send(&frontend::query("insert into ledger"))?;
            let words = support::last_words(&mut raw)?;
            let context = || {
                format!(
                    "{death:?} after {count} bytes: {}",
                    support::describe(&words)
                )
            };
            ensure!(support::codes(&words) == ["08007"], "{}", context());
            ensure!(
                words.last().is_some_and(|last| last.tag == b'E'),
                "{}",
                context()
            );
            ensure!(
                words
                    .last()
                    .is_some_and(|last| last.field(b'S').as_deref() == Some("FATAL"))
            );
            ensure!(
                server.count(b"insert into ledger") == 1,
                "it was sent twice"
            );
            idle.query("select 1").with_context(context)?;
            support::check_serves(&mut target)?;
        }
    }
    Ok(())
}

/// The client has received half a row: an error inside of it would be read as data.
#[test]
fn cor_21_no_error_is_written_into_a_cut_message() -> Result<()> {
    for length in [100_usize, 10_000, 50_000, 500_000] {
        for part in [6, length / 2, length - 1] {
            let row = scripted::row(&vec![b'r'; length]);
            let cut = row.get(..part).unwrap_or_default().to_vec();
            let sent = [scripted::row_description(), cut].concat();
            let said = sent.clone();
            let server = Scripted::start(move |conversation| {
                conversation.login()?;
                let is_last = |message: &Message| message.body.starts_with(b"select 'cut'");
                if conversation.serve_until(is_last)?.is_some() {
                    conversation.send(&said)?;
                }
                Ok(())
            })?;
            let mut target = support::start(server.port(), &PoolOptions::default())?;
            let mut raw = Raw::connect(target.port(), "postgres")?;
            raw.send(&frontend::query("select 'cut'"))?;
            let got = raw.read_to_close()?;
            let whole = scripted::row_description().len();
            let is_cut = got.len() > whole && sent.starts_with(&got);
            let is_told = got.get(whole) == Some(&b'E') && got.starts_with(&sent[..whole]);
            ensure!(
                is_cut || is_told,
                "{length} cut at {part}: {}",
                got.get(whole..).unwrap_or_default().escape_ascii()
            );
            support::check_serves(&mut target)?;
        }
    }
    Ok(())
}

#[test]
fn cor_21_a_server_lost_while_idle_is_replaced_in_silence() -> Result<()> {
    for death in [Death::Close, Death::Reset] {
        let server = Scripted::start(move |conversation| {
            conversation.login()?;
            let is_last = |message: &Message| message.body.starts_with(b"select 'last'");
            if let Some(request) = conversation.serve_until(is_last)? {
                conversation.answer(&request)?;
                if matches!(death, Death::Reset) {
                    conversation.reset();
                }
            }
            Ok(())
        })?;
        let mut target = support::start(server.port(), &PoolOptions::default().pool_size(1))?;
        let mut raw = Raw::connect(target.port(), "postgres")?;
        for round in 0..30 {
            ensure!(raw.query_one("select 'last'")? == "select 'last'");
            wait_until("the server's end", Duration::from_secs(5), || {
                Ok(server.connections() - server.open() > round)
            })?;
            // After these logins the earlier events are known to all workers.
            for _ in 0..4 {
                drop(Raw::connect(target.port(), "elsewhere")?);
            }
            let value = raw.query_one("select 'next'");
            ensure!(value.with_context(|| format!("{death:?}, round {round}"))? == "select 'next'");
        }
        support::check_serves(&mut target)?;
    }
    Ok(())
}

#[test]
fn cor_22_no_query_is_lost_to_servers_that_were_closed_while_idle() -> Result<()> {
    let postgres = Postgres::shared()?;
    postgres.create_database("cor_22")?;
    let mut target = support::start(postgres.port(), &PoolOptions::default().pool_size(5))?;
    let mut clients = Vec::new();
    for _ in 0..10 {
        clients.push(Raw::connect(target.port(), "cor_22")?);
    }
    let mut ended = 0;
    for round in 0..30 {
        for client in &mut clients {
            client.send(&frontend::query("select 'first', pg_sleep(0.002)"))?;
        }
        for client in &mut clients {
            let answer = client.read_until_ready()?;
            ensure!(
                support::tags(&answer) == "TDCZ",
                "{}",
                support::describe(&answer)
            );
        }
        ended += terminate_all(&postgres, "cor_22")?;
        for (number, client) in clients.iter_mut().enumerate() {
            let token = format!("{round} {number}");
            let value = client.query_one(&format!("select '{token}'"));
            ensure!(value.with_context(|| token.clone())? == token);
        }
    }
    ensure!(ended >= 60, "only {ended} backends were ended");
    support::check_serves(&mut target)
}

/// The close and the next query cross: the query fails or is executed, but never twice.
#[test]
fn cor_22_a_query_that_meets_the_closing_is_run_at_most_once() -> Result<()> {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let server = Scripted::start(move |conversation| {
        conversation.login()?;
        loop {
            let is_insert = |message: &Message| message.body.starts_with(b"insert");
            let Some(request) = conversation.serve_until(is_insert)? else {
                return Ok(());
            };
            let run = count.fetch_add(1, Ordering::SeqCst);
            conversation.answer(&request)?;
            if run.is_multiple_of(2) {
                return Ok(());
            }
        }
    })?;
    let options = PoolOptions::default()
        .pool_size(1)
        .setting("server_login_retry = 0");
    let mut target = support::start(server.port(), &options)?;
    let mut raw = Raw::connect(target.port(), "postgres")?;
    let mut lost = 0;
    for round in 0..200 {
        let before = runs.load(Ordering::SeqCst);
        raw.send(&frontend::query("insert into ledger"))?;
        let answer = raw
            .read_until_ready()
            .with_context(|| format!("round {round}"))?;
        let ran = runs.load(Ordering::SeqCst) - before;
        match support::codes(&answer).as_slice() {
            [] => ensure!(ran == 1, "round {round}: answered, and run {ran} times"),
            [code] if code == "08007" => {
                ensure!(ran <= 1, "round {round}: lost, and run {ran} times");
                lost += 1;
                raw = Raw::connect(target.port(), "postgres")?;
            }
            _ => ensure!(false, "round {round}: {}", support::describe(&answer)),
        }
    }
    ensure!(
        lost < 100,
        "{lost} of 200 were lost: a closed server is not noticed at check-out"
    );
    support::check_serves(&mut target)
}
