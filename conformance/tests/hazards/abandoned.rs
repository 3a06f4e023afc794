//! Clients that vanish or misuse COPY: the server is cleaned or closed, and other clients do not notice.

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::Target;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::wait_until;

use crate::support;
use crate::support::MIB;
use crate::support::Meter;

fn vanish(raw: Raw, by_reset: bool) -> Result<()> {
    if by_reset {
        raw.reset()?;
    }
    Ok(())
}

/// Checks that the next client of a pool of one server soon gets its own answer.
fn next_is_served(target: &Target, database: &str, token: &str) -> Result<()> {
    let begun = clock::now();
    let mut next = Raw::connect(target.port(), database)?;
    let value = next.query_one(&format!("select '{token}'"))?;
    ensure!(value == token, "wanted {token}, got {value}");
    ensure!(begun.elapsed() < SOON, "took {:?}", begun.elapsed());
    next.terminate();
    Ok(())
}

/// Number of backends of a database that match a condition.
fn backends(postgres: &Postgres, database: &str, condition: &str) -> Result<u32> {
    let sql = format!(
        "select count(*) from pg_stat_activity where datname = '{database}' and {condition}"
    );
    Ok(Raw::connect(postgres.port(), "postgres")?
        .query_one(&sql)?
        .parse()?)
}

#[test]
fn cor_01_a_client_that_vanishes_in_mid_query_leaves_nothing_behind() -> Result<()> {
    let postgres = Postgres::shared()?;
    postgres.create_database("cor_01")?;
    let mut target = support::start(postgres.port(), &PoolOptions::default().pool_size(1))?;
    next_is_served(&target, "cor_01", "warm")?;
    let meter = Meter::begin(&target)?;
    let queries = [
        "select 'foreign', pg_sleep(60)",
        "select repeat('foreign', 100) from generate_series(1, 200000)",
        "begin; select 'foreign', pg_sleep(60)",
        "begin; select 'foreign'",
        "copy (select repeat('foreign', 100) from generate_series(1, 200000)) to stdout",
        "set datestyle = 'German'; select 'foreign', pg_sleep(60)",
        "select no_such_thing",
    ];
    for round in 0..6 {
        for (number, sql) in queries.iter().enumerate() {
            let mut raw = Raw::connect(target.port(), "cor_01")?;
            raw.send(&frontend::query(sql))?;
            // In some rounds it has begun to read.
            if round % 3 == 2 && !sql.contains("sleep") {
                raw.read_message()?;
            }
            vanish(raw, (round + number) % 2 == 0)?;
            next_is_served(&target, "cor_01", &format!("mine {round} {number}"))
                .with_context(|| format!("after {sql}"))?;
        }
    }
    let mut next = Raw::connect(target.port(), "cor_01")?;
    ensure!(next.query_one("show datestyle")? == "ISO, MDY");
    let running = "select coalesce(string_agg(concat_ws(' ', pid, state, query), '; '), '') \
                   from pg_stat_activity where datname = 'cor_01' and state <> 'idle'";
    let mut observer = Raw::connect(postgres.port(), "postgres")?;
    let mut left = String::new();
    let ended = wait_until("the end of abandoned queries", SOON, || {
        left = observer.query_one(running)?;
        Ok(left.is_empty())
    });
    ended.context(left)?;
    ensure!(backends(&postgres, "cor_01", "true")? <= 1);
    meter.check_growth(8 * MIB)?;
    target.check_healthy()
}

#[test]
fn cor_01_work_before_a_terminate_is_finished_or_given_up_in_time() -> Result<()> {
    let postgres = Postgres::shared()?;
    postgres.create_database("cor_01_terminate")?;
    let mut direct = Raw::connect(postgres.port(), "cor_01_terminate")?;
    direct.query("create table sink (line text)")?;
    let mut target = support::start(postgres.port(), &PoolOptions::default().pool_size(1))?;
    next_is_served(&target, "cor_01_terminate", "warm")?;
    let mut raw = Raw::connect(target.port(), "cor_01_terminate")?;
    raw.send(&frontend::query(
        "insert into sink select 'mine' from pg_sleep(0.3)",
    ))?;
    // A client that leaves while it waits for a server (whose role and database are being checked) is dropped.
    wait_until("the server to work", SOON, || {
        let runs = "select count(*) from pg_stat_activity where state = 'active' and query like 'insert into sink%'";
        Ok(direct.query_one(runs)? == "1")
    })?;
    raw.terminate();
    wait_until("the insert", SOON, || {
        Ok(direct.query_one("select count(*) from sink")? == "1")
    })?;
    for sql in ["select pg_sleep(60)", "begin; select pg_sleep(60)"] {
        let mut raw = Raw::connect(target.port(), "cor_01_terminate")?;
        raw.send(&frontend::query(sql))?;
        raw.terminate();
        next_is_served(&target, "cor_01_terminate", "mine")
            .with_context(|| format!("after {sql}"))?;
    }
    target.check_healthy()
}

#[test]
fn cor_02_a_client_that_vanishes_at_any_byte_of_a_batch_leaves_nothing_behind() -> Result<()> {
    let postgres = Postgres::shared()?;
    postgres.create_database("cor_02")?;
    let options = PoolOptions::default()
        .pool_size(1)
        .setting("max_prepared_statements = 100");
    let mut target = support::start(postgres.port(), &options)?;
    Raw::connect(postgres.port(), "cor_02")?.query("create table sink (line text)")?;
    for name in ["", "named"] {
        let batch = [
            frontend::parse(name, "insert into sink select $1", &[]),
            frontend::bind("", name, &[Some(b"foreign")]),
            frontend::describe(b'P', ""),
            frontend::execute("", 0),
            frontend::flush(),
            frontend::execute("", 0),
        ]
        .concat();
        for cut in 0..batch.len() {
            let mut raw = Raw::connect(target.port(), "cor_02")?;
            raw.send(batch.get(..cut).unwrap_or_default())?;
            vanish(raw, cut % 2 == 0)?;
            next_is_served(&target, "cor_02", &format!("mine {cut}"))
                .with_context(|| format!("cut at {cut} of '{name}'"))?;
        }
    }
    // No Sync was sent, so nothing was committed.
    let count = Raw::connect(postgres.port(), "cor_02")?.query_one("select count(*) from sink")?;
    ensure!(count == "0", "{count} rows of vanished clients");
    target.check_healthy()
}

/// A message that is forwarded while it arrives cannot be withdrawn: its server is closed.
#[test]
fn cor_02_a_client_that_vanishes_inside_a_streamed_message_costs_its_server() -> Result<()> {
    let postgres = Postgres::shared()?;
    postgres.create_database("cor_02_streamed")?;
    let mut target = support::start(postgres.port(), &PoolOptions::default().pool_size(1))?;
    let sql = format!("select length('{}')", "x".repeat(200_000));
    let long = frontend::query(&sql);
    let bind = [
        frontend::parse("", "select length($1)", &[]),
        frontend::bind("", "", &[Some(&[b'y'; 200_000])]),
    ]
    .concat();
    for (number, bytes) in [&long, &bind, &long, &bind].into_iter().enumerate() {
        for cut in [10, 30_000, 40_000, 100_000, 199_999] {
            let mut raw = Raw::connect(target.port(), "cor_02_streamed")?;
            raw.send(bytes.get(..cut).unwrap_or_default())?;
            vanish(raw, number % 2 == 0)?;
            next_is_served(&target, "cor_02_streamed", &format!("mine {cut}"))
                .with_context(|| format!("cut at {cut}"))?;
        }
    }
    wait_until("one backend", SOON, || {
        Ok(backends(&postgres, "cor_02_streamed", "true")? <= 1)
    })?;
    target.check_healthy()
}

#[test]
fn cor_03_a_copy_in_that_its_client_leaves_is_undone() -> Result<()> {
    let postgres = Postgres::shared()?;
    postgres.create_database("cor_03")?;
    Raw::connect(postgres.port(), "cor_03")?.query("create table sink (line text)")?;
    let mut target = support::start(postgres.port(), &PoolOptions::default().pool_size(1))?;
    let simple = frontend::query("copy sink from stdin");
    let in_transaction = frontend::query("begin; copy sink from stdin");
    let extended = [
        frontend::parse("", "copy sink from stdin", &[]),
        frontend::bind("", "", &[]),
        frontend::execute("", 0),
        frontend::flush(),
    ]
    .concat();
    let data = frontend::copy_data(b"foreign\n");
    let half = data.get(..9).unwrap_or_default().to_vec();
    let fail = frontend::copy_fail("no");
    for round in 0..4 {
        for start in [&simple, &in_transaction, &extended] {
            for after in [
                Vec::new(),
                data.clone(),
                half.clone(),
                data.repeat(5000),
                fail.clone(),
            ] {
                let mut raw = Raw::connect(target.port(), "cor_03")?;
                raw.send(start)?;
                while raw.read_message()?.tag != b'G' {}
                raw.send(&after)?;
                vanish(raw, round % 2 == 0)?;
                next_is_served(&target, "cor_03", &format!("mine {round}"))?;
            }
        }
    }
    let mut next = Raw::connect(target.port(), "cor_03")?;
    ensure!(next.query_one("select count(*) from sink")? == "0");
    target.check_healthy()
}

#[test]
fn cor_04_late_copy_data_after_a_failed_copy_needs_no_server() -> Result<()> {
    let postgres = Postgres::shared()?;
    postgres.create_database("cor_04")?;
    Raw::connect(postgres.port(), "cor_04")?.query("create table sink (number int)")?;
    let mut target = support::start(postgres.port(), &PoolOptions::default().pool_size(1))?;
    let mut raw = Raw::connect(target.port(), "cor_04")?;
    for end in [frontend::copy_done(), frontend::copy_fail("late")] {
        raw.send(&frontend::query("copy sink from stdin"))?;
        ensure!(raw.read_message()?.tag == b'G');
        raw.send(&frontend::copy_data(b"not a number\n"))?;
        let answer = raw.read_until_ready()?;
        ensure!(
            support::tags(&answer) == "EZ",
            "{}",
            support::describe(&answer)
        );
        // The server is free already: another client uses it while the first one keeps sending.
        let mut other = Raw::connect(target.port(), "cor_04")?;
        other.query("begin")?;
        for _ in 0..200 {
            raw.send(&frontend::copy_data(&[b'1'; 5000]))?;
        }
        raw.send(&end)?;
        ensure!(other.query_one("select 'other'")? == "other");
        other.query("rollback")?;
        ensure!(raw.query_one("select 'mine'")? == "mine");
    }
    ensure!(raw.query_one("select count(*) from sink")? == "0");
    target.check_healthy()
}

#[test]
fn cor_05_a_sync_right_after_the_execute_of_a_copy_is_not_counted() -> Result<()> {
    let postgres = Postgres::shared()?;
    postgres.create_database("cor_05")?;
    Raw::connect(postgres.port(), "cor_05")?.query("create table sink (line text)")?;
    let mut target = support::start(postgres.port(), &PoolOptions::default().pool_size(1))?;
    let batch = [
        frontend::parse("", "copy sink from stdin", &[]),
        frontend::bind("", "", &[]),
        frontend::execute("", 0),
        frontend::sync(),
    ]
    .concat();
    for turn in 1..=3 {
        // Directly first: PostgreSQL's answer is the reference.
        for port in [postgres.port(), target.port()] {
            let mut raw = Raw::connect(port, "cor_05")?;
            raw.send(&batch)?;
            while raw.read_message()?.tag != b'G' {}
            raw.send(&frontend::flush())?;
            raw.send(&frontend::copy_data(b"line\n"))?;
            raw.send(&[frontend::copy_done(), frontend::sync()].concat())?;
            let answer = raw.read_until_ready()?;
            ensure!(
                support::tags(&answer) == "CZ",
                "{}",
                support::describe(&answer)
            );
            ensure!(raw.query_one("select 'mine'")? == "mine");
        }
        next_is_served(&target, "cor_05", &format!("next {turn}"))?;
    }
    let mut raw = Raw::connect(target.port(), "cor_05")?;
    ensure!(raw.query_one("select count(*) from sink")? == "6");
    target.check_healthy()
}

#[test]
fn cor_06_a_copy_fail_after_copy_done_is_dropped() -> Result<()> {
    let postgres = Postgres::shared()?;
    postgres.create_database("cor_06")?;
    Raw::connect(postgres.port(), "cor_06")?.query("create table sink (line text)")?;
    let mut target = support::start(postgres.port(), &PoolOptions::default().pool_size(1))?;
    let mut raw = Raw::connect(target.port(), "cor_06")?;
    for is_together in [true, false] {
        raw.send(&frontend::query("copy sink from stdin"))?;
        ensure!(raw.read_message()?.tag == b'G');
        let end = [
            frontend::copy_data(b"line\n"),
            frontend::copy_done(),
            frontend::copy_fail("postgres.js says this always"),
        ];
        if is_together {
            raw.send(&end.concat())?;
        } else {
            for part in &end {
                raw.send(part)?;
                std::thread::yield_now();
            }
        }
        let answer = raw.read_until_ready()?;
        ensure!(
            support::tags(&answer) == "CZ",
            "{}",
            support::describe(&answer)
        );
        next_is_served(&target, "cor_06", "next")
            .with_context(|| format!("sent together: {is_together}"))?;
        ensure!(raw.query_one("select 'mine'")? == "mine");
    }
    ensure!(raw.query_one("select count(*) from sink")? == "2");
    target.check_healthy()
}

#[test]
fn cor_23_a_good_bye_inside_a_transaction_releases_its_locks() -> Result<()> {
    let postgres = Postgres::shared()?;
    postgres.create_database("cor_23")?;
    Raw::connect(postgres.port(), "cor_23")?.query("create table locked (line text)")?;
    let mut target = support::start(postgres.port(), &PoolOptions::default().pool_size(2))?;
    for round in 0..6 {
        let mut raw = Raw::connect(target.port(), "cor_23")?;
        raw.query("begin")?;
        raw.query("insert into locked values ('foreign')")?;
        raw.query("lock table locked in access exclusive mode")?;
        if round % 2 == 0 {
            raw.terminate();
        } else {
            vanish(raw, true)?;
        }
        let mut observer = Raw::connect(postgres.port(), "cor_23")?;
        wait_until("the end of the locks", SOON, || {
            let count = observer
                .query_one("select count(*) from pg_locks where relation = 'locked'::regclass")?;
            Ok(count == "0")
        })?;
        next_is_served(&target, "cor_23", &format!("next {round}"))?;
    }
    let mut raw = Raw::connect(target.port(), "cor_23")?;
    ensure!(raw.query_one("select count(*) from locked")? == "0");
    target.check_healthy()
}

/// COPY fails while a long message of its data is being forwarded. Weir's own query about the client's state must not
/// be sent inside that message: the server would read its rest as messages.
#[test]
fn cor_04_nothing_of_ours_stands_inside_of_late_copy_data() -> Result<()> {
    let (postgres, database) = (Postgres::shared()?, "cor_04_inside");
    postgres.create_database(database)?;
    Raw::connect(postgres.port(), database)?.query("create table sink (a int)")?;
    let options = PoolOptions::default()
        .pool_size(1)
        .setting("session_state_check = always");
    let mut target = support::start(postgres.port(), &options)?;
    let mut raw = Raw::connect(target.port(), database)?;
    let mut other = Raw::connect(target.port(), database)?;
    // The rest of the message is itself a valid message.
    let mut data = vec![b'x'; 100_000];
    data.extend(frontend::query("create table smuggled ()"));
    let long = frontend::copy_data(&data);
    let (first, rest) = long.split_at(5 + 100_000);
    raw.send(&frontend::query("copy sink from stdin"))?;
    raw.send(&[&frontend::copy_data(b"no number\n"), first].concat())?;
    let told = raw.read_until_ready()?;
    ensure!(
        support::tags(&told) == "GEZ",
        "{}",
        support::describe(&told)
    );
    raw.send(&[rest, &frontend::copy_done()].concat())?;
    ensure!(other.query_one("select 'served'")? == "served");
    ensure!(raw.query_one("select 'next'")? == "next");
    let tables = "select count(*) from pg_class where relname = 'smuggled'";
    ensure!(other.query_one(tables)? == "0", "data was run");
    target.check_healthy()
}
