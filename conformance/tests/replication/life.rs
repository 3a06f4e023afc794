//! Servers of replication connections: their limits, their end, cancels, and back-pressure.

use std::thread;

use anyhow::{Result, ensure};
use weir_conformance::frontend::{copy_done, query};
use weir_conformance::{Config, Raw, SOON, Weir, process, wait_until};

use crate::fixture::{
    config, connections, create_slot, postgres, read_change, replicate, status, stream, wait_for,
    wait_servers,
};

/// Number of walsenders of a database's slots and clients, as the server counts them.
fn walsenders(database: &str) -> String {
    format!(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender' AND datname = '{database}'"
    )
}

#[test]
fn a_client_that_vanishes_gives_its_server_and_its_place_back() -> Result<()> {
    let postgres = postgres()?;
    postgres.create_database("repl_vanish")?;
    let mut weir = Weir::start(&config(&postgres).set("default_pool_size", "1"))?;
    for round in 0..4 {
        let slot = format!("vanish_{round}");
        // The only place of the pool: the next round needs it.
        let mut raw = replicate(weir.port(), "repl_vanish", "database")?;
        create_slot(&mut raw, &slot, false)?;
        wait_servers(&weir, 1)?;
        match round {
            0 => raw.terminate(),
            1 => raw.reset()?,
            2 => {
                stream(&mut raw, &slot)?;
                raw.reset()?;
            }
            _ => {
                stream(&mut raw, &slot)?;
                // In the middle of a message.
                raw.send(&status(0)[..7])?;
                raw.reset()?;
            }
        }
        wait_servers(&weir, 0)?;
        wait_for(postgres.port(), "postgres", &walsenders("repl_vanish"), "0")?;
    }
    ensure!(weir.pool_number("repl_vanish", "cl_active")? == 0);
    let mut ordinary = weir.connect("repl_vanish")?;
    ensure!(ordinary.query_one("SELECT 1")? == "1");
    weir.check_healthy()
}

#[test]
fn a_running_query_of_a_client_that_has_left_is_cancelled() -> Result<()> {
    let postgres = postgres()?;
    postgres.create_database("repl_left")?;
    let weir = Weir::start(&config(&postgres))?;
    let mut raw = replicate(weir.port(), "repl_left", "database")?;
    raw.send(&query("SELECT pg_sleep(600)"))?;
    let asleep = format!(
        "{} AND query LIKE '%pg_sleep(600)%'",
        walsenders("repl_left")
    );
    wait_for(postgres.port(), "postgres", &asleep, "1")?;
    drop(raw);
    wait_for(postgres.port(), "postgres", &asleep, "0")?;
    wait_servers(&weir, 0)
}

#[test]
fn a_cancel_reaches_the_walsender() -> Result<()> {
    let postgres = postgres()?;
    postgres.create_database("repl_cancel")?;
    let mut weir = Weir::start(&config(&postgres))?;
    let mut raw = replicate(weir.port(), "repl_cancel", "database")?;
    raw.send(&query("SELECT pg_sleep(600)"))?;
    let asleep = format!(
        "{} AND query LIKE '%pg_sleep(600)%'",
        walsenders("repl_cancel")
    );
    wait_for(postgres.port(), "postgres", &asleep, "1")?;
    raw.cancel(weir.port())?;
    let answer = raw.read_until_ready()?;
    let error = answer.iter().find(|message| message.tag == b'E');
    let code = error.and_then(|error| error.field(b'C'));
    ensure!(code.as_deref() == Some("57014"), "{answer:?}");
    ensure!(raw.query("IDENTIFY_SYSTEM")?.len() == 1);
    // In a stream the cancel ends the stream, and the connection goes on.
    create_slot(&mut raw, "cancelled", false)?;
    stream(&mut raw, "cancelled")?;
    raw.cancel(weir.port())?;
    let answer = raw.read_until_ready()?;
    ensure!(
        answer
            .iter()
            .any(|message| message.field(b'C').as_deref() == Some("57014"))
    );
    ensure!(raw.query("IDENTIFY_SYSTEM")?.len() == 1);
    weir.check_healthy()
}

#[test]
fn a_stream_ends_from_either_side_and_the_connection_goes_on() -> Result<()> {
    let postgres = postgres()?;
    postgres.create_database("repl_ends")?;
    let mut weir = Weir::start(&config(&postgres))?;
    let mut writer = Raw::connect(postgres.port(), "repl_ends")?;
    writer.query("CREATE TABLE ends (id int)")?;
    for round in 0..3 {
        let (slot, mut raw) = (
            format!("ends_{round}"),
            replicate(weir.port(), "repl_ends", "database")?,
        );
        create_slot(&mut raw, &slot, false)?;
        stream(&mut raw, &slot)?;
        writer.query(&format!("INSERT INTO ends VALUES ({round})"))?;
        read_change(&mut raw, &format!("INSERT: id[integer]:{round}"))?;
        // The end of the stream and the next request, in one write.
        raw.send(&[status(1), copy_done(), query("IDENTIFY_SYSTEM")].concat())?;
        let ended = raw.read_until_ready()?;
        ensure!(ended.iter().any(|message| message.tag == b'c'));
        let identified = raw.read_until_ready()?;
        ensure!(identified.iter().any(|message| message.tag == b'D'));
        ensure!(raw.query_one("SELECT 'and goes on'")? == "and goes on");
    }
    let mut raw = replicate(weir.port(), "repl_ends", "database")?;
    create_slot(&mut raw, "ends", false)?;
    // PostgreSQL's own end: the walsender is told to go.
    stream(&mut raw, "ends")?;
    writer.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'walsender' AND datname = 'repl_ends'")?;
    let mut last = None;
    while let Ok(message) = raw.read_message() {
        last = Some(message);
    }
    let last = last.and_then(|last| last.field(b'C'));
    ensure!(last.as_deref() == Some("57P01"), "{last:?}");
    wait_servers(&weir, 0)?;
    weir.check_healthy()
}

#[test]
fn replication_counts_in_the_size_of_the_pool_and_takes_the_place_of_an_idle_server() -> Result<()>
{
    let postgres = postgres()?;
    postgres.create_database("repl_size")?;
    let quick = Config::to(postgres.port())
        .set("default_pool_size", "2")
        .set("query_wait_timeout", "2");
    let mut weir = Weir::start(&quick)?;
    let mut one = weir.connect("repl_size")?;
    let mut two = weir.connect("repl_size")?;
    one.query("BEGIN")?;
    two.query("BEGIN")?;
    // Both servers are busy: no place.
    let refused = replicate(weir.port(), "repl_size", "database").err();
    let refused = refused
        .map(|error| format!("{error:#}"))
        .unwrap_or_default();
    ensure!(refused.contains("query_wait_timeout"), "{refused}");
    // One is idle, and goes.
    two.query("COMMIT")?;
    let mut stream_of = replicate(weir.port(), "repl_size", "database")?;
    ensure!(stream_of.query("IDENTIFY_SYSTEM")?.len() == 1);
    ensure!(weir.pool_number("repl_size", "sv_active")? == 2);
    let late = two.query("SELECT 1").err();
    ensure!(late.is_some(), "the pool is full");
    // The place comes back with the end of the client, to a client that waits.
    let port = weir.port();
    let waiting = thread::spawn(move || -> Result<String> {
        Raw::connect(port, "repl_size")?.query_one("SELECT 'served'")
    });
    weir.wait_pool("repl_size", "cl_waiting", 1)?;
    stream_of.terminate();
    let served = waiting
        .join()
        .map_err(|_| anyhow::anyhow!("the thread failed"))??;
    ensure!(served == "served");
    one.query("COMMIT")?;
    weir.check_healthy()
}

#[test]
fn limits_of_databases_and_users_hold_for_replication() -> Result<()> {
    let postgres = postgres()?;
    postgres.create_database("repl_limits")?;
    for limit in ["max_db_connections", "max_user_connections"] {
        let limited = Config::to(postgres.port())
            .set(limit, "1")
            .set("query_wait_timeout", "1");
        let weir = Weir::start(&limited)?;
        let mut idle = weir.connect("repl_limits")?;
        idle.query("SELECT 1")?;
        // The idle server makes room.
        let first = replicate(weir.port(), "repl_limits", "database")?;
        let second = replicate(weir.port(), "repl_limits", "database").err();
        ensure!(second.is_some(), "{limit}");
        drop(first);
        wait_servers(&weir, 0)?;
        replicate(weir.port(), "repl_limits", "database")?;
    }
    let few = Config::to(postgres.port()).set("max_db_client_connections", "1");
    let weir = Weir::start(&few)?;
    let _first = replicate(weir.port(), "repl_limits", "database")?;
    let second = replicate(weir.port(), "repl_limits", "database").err();
    let second = second.map(|error| format!("{error:#}")).unwrap_or_default();
    ensure!(second.contains("max_db_client_connections"), "{second}");
    Ok(())
}

#[test]
fn a_client_that_does_not_read_stops_the_server_and_costs_no_memory() -> Result<()> {
    let postgres = postgres()?;
    postgres.create_database("repl_slow")?;
    let mut weir = Weir::start(&config(&postgres))?;
    let mut raw = replicate(weir.port(), "repl_slow", "database")?;
    raw.query("IDENTIFY_SYSTEM")?;
    let before = process::rss_peak(weir.pid())?;
    raw.send(&query(
        "COPY (SELECT repeat('x', 10000) FROM generate_series(1, 30000)) TO STDOUT",
    ))?;
    let blocked = format!("{} AND wait_event = 'ClientWrite'", walsenders("repl_slow"));
    wait_for(postgres.port(), "postgres", &blocked, "1")?;
    Raw::connect(postgres.port(), "repl_slow")?.query("SELECT pg_sleep(0.3)")?;
    let after = process::rss_peak(weir.pid())?;
    ensure!(after < before + 16 * 1024 * 1024, "{before} {after}");
    let mut rows = 0;
    for message in raw.read_until_ready()? {
        rows += usize::from(message.tag == b'd' && message.body.len() == 10_001);
    }
    ensure!(rows == 30_000, "{rows}");
    weir.check_healthy()
}

#[test]
fn large_data_passes_in_both_directions() -> Result<()> {
    let postgres = postgres()?;
    postgres.create_database("repl_large")?;
    let mut weir = Weir::start(&config(&postgres))?;
    let mut raw = replicate(weir.port(), "repl_large", "database")?;
    raw.query("CREATE TABLE large (text text)")?;
    raw.send(&query("COPY large FROM STDIN"))?;
    ensure!(raw.read_message()?.tag == b'G');
    let row = [vec![b'y'; 1 << 20], b"\n".to_vec()].concat();
    for _ in 0..40 {
        raw.send(&weir_conformance::frontend::copy_data(&row))?;
    }
    raw.send(&copy_done())?;
    raw.read_until_ready()?;
    let sum = raw.query_one("SELECT sum(length(text)) FROM large")?;
    ensure!(sum == (40u64 << 20).to_string(), "{sum}");
    let text = raw.query_one("SELECT string_agg(text, '') FROM large")?;
    ensure!(text.len() == 40 << 20 && text.bytes().all(|byte| byte == b'y'));
    weir.check_healthy()
}

#[test]
fn a_waiting_client_that_leaves_takes_its_login_along() -> Result<()> {
    let postgres = postgres()?;
    postgres.create_database("repl_gone")?;
    let weir = Weir::start(&Config::to(postgres.port()).set("default_pool_size", "1"))?;
    let mut busy = weir.connect("repl_gone")?;
    busy.query("BEGIN")?;
    let mut waiting = Raw::tcp(weir.port(), SOON)?;
    let parameters = [
        ("user", "postgres"),
        ("database", "repl_gone"),
        ("replication", "database"),
    ];
    waiting.send(&weir_conformance::frontend::startup(
        weir_conformance::frontend::VERSION_3_0,
        &parameters,
    ))?;
    wait_until("a waiting client", SOON, || {
        let shown = connections(&weir, "SHOW CLIENTS")?;
        Ok(shown == ["C postgres repl_gone logical waiting"])
    })?;
    drop(waiting);
    wait_until("no client", SOON, || {
        Ok(connections(&weir, "SHOW CLIENTS")?.is_empty())
    })?;
    busy.query("COMMIT")?;
    ensure!(connections(&weir, "SHOW SERVERS")?.is_empty());
    ensure!(busy.query_one("SELECT 1")? == "1");
    Ok(())
}
