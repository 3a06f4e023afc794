//! Logical replication: `pg_recvlogical`, and a subscription of a second server.

use std::fs;

use anyhow::{Result, ensure};
use weir_conformance::{Raw, TempDir, Weir, tools, wait_until};

use crate::fixture::{
    LIMIT, config, directory, postgres, postgres_with, program, start, text, wait_for,
};

/// Changes of every kind: some thousand small ones, values of some megabytes, a transaction that is undone.
const CHANGES: [&str; 7] = [
    "CREATE TABLE shop (id int PRIMARY KEY, name text)",
    "INSERT INTO shop SELECT n, 'name ' || n FROM generate_series(1, 3000) n",
    "UPDATE shop SET name = repeat(md5(id::text), 100000) WHERE id IN (7, 8)",
    "BEGIN; DELETE FROM shop WHERE id > 2900; ROLLBACK",
    "DELETE FROM shop WHERE id BETWEEN 10 AND 200",
    "BEGIN; INSERT INTO shop VALUES (9001, 'äöü'); UPDATE shop SET name = NULL WHERE id = 9; COMMIT",
    "TRUNCATE shop",
];

/// Receives from a slot up to a position of the WAL, and returns what was written to a file.
fn receive(port: u16, slot: &str, end: &str, directory: &TempDir) -> Result<String> {
    let file = directory.path().join(slot);
    let mut receiver = program("pg_recvlogical", port)?;
    receiver.args(["-d", "repl_changes", "-S", slot, "--start", "--no-loop"]);
    receiver.args(["--endpos", end, "-f"]).arg(&file);
    tools::run(&mut receiver)?;
    Ok(fs::read_to_string(&file)?)
}

#[test]
fn pg_recvlogical_receives_what_it_receives_directly() -> Result<()> {
    let postgres = postgres()?;
    postgres.create_database("repl_changes")?;
    let mut weir = Weir::start(&config(&postgres))?;
    let mut through = program("pg_recvlogical", weir.port())?;
    through.args(["-d", "repl_changes", "-S", "changes_weir", "--create-slot"]);
    tools::run(through.args(["-P", "test_decoding"]))?;
    let mut raw = Raw::connect(postgres.port(), "repl_changes")?;
    raw.query("SELECT pg_create_logical_replication_slot('changes_direct', 'test_decoding')")?;
    for change in CHANGES {
        raw.query(change)?;
    }
    let end = raw.query_one("SELECT pg_current_wal_insert_lsn()")?;
    let directory = directory()?;
    let direct = receive(postgres.port(), "changes_direct", &end, &directory)?;
    let through = receive(weir.port(), "changes_weir", &end, &directory)?;
    ensure!(direct.lines().count() > 3_000, "{}", direct.len());
    // The slots begin at different positions, each between two transactions.
    ensure!(
        through == direct,
        "{} and {} bytes",
        through.len(),
        direct.len()
    );
    for (port, slot) in [
        (weir.port(), "changes_weir"),
        (postgres.port(), "changes_direct"),
    ] {
        let mut end = program("pg_recvlogical", port)?;
        tools::run(end.args(["-d", "repl_changes", "-S", slot, "--drop-slot"]))?;
    }
    weir.check_healthy()
}

#[test]
fn a_stream_outlives_every_time_limit_of_queries() -> Result<()> {
    let postgres = postgres()?;
    postgres.create_database("repl_lasts")?;
    let mut weir = Weir::start(&config(&postgres))?;
    let mut raw = Raw::connect(postgres.port(), "repl_lasts")?;
    raw.query("CREATE TABLE lasts (id int)")?;
    raw.query("SELECT pg_create_logical_replication_slot('lasts', 'test_decoding')")?;
    let directory = directory()?;
    let file = directory.path().join("changes");
    let arguments = [
        "-d",
        "repl_lasts",
        "-S",
        "lasts",
        "--start",
        "--no-loop",
        "-F",
        "0",
        "-f",
    ];
    let arguments = [&arguments[..], &[text(&file)?]].concat();
    let mut receiver = start("pg_recvlogical", weir.port(), &arguments, &directory)?;
    for second in 0..8 {
        raw.query(&format!("INSERT INTO lasts VALUES ({second})"))?;
        let wanted = format!("table public.lasts: INSERT: id[integer]:{second}");
        wait_until(&wanted, LIMIT, || {
            receiver.check_running()?;
            Ok(fs::read_to_string(&file).is_ok_and(|text| text.contains(&wanted)))
        })?;
        raw.query("SELECT pg_sleep(1)")?;
    }
    receiver.check_running()?;
    let wal_sender = "SELECT count(*) FROM pg_stat_replication JOIN pg_stat_activity USING (pid) WHERE datname = 'repl_lasts'";
    ensure!(raw.query_one(wal_sender)? == "1");
    drop(receiver);
    raw.query("SELECT pg_sleep(0)")?;
    wait_for(
        postgres.port(),
        "repl_lasts",
        "SELECT active FROM pg_replication_slots WHERE slot_name = 'lasts'",
        "f",
    )?;
    raw.query("SELECT pg_drop_replication_slot('lasts')")?;
    weir.check_healthy()
}

/// Returns a query that sums up a table.
const SUM: &str = "SELECT count(*) || ' ' || coalesce(md5(string_agg(t::text, '|' ORDER BY id)), '') FROM stock t";

#[test]
fn a_subscription_copies_and_follows_its_publisher() -> Result<()> {
    let postgres = postgres()?;
    postgres.create_database("repl_published")?;
    let mut weir = Weir::start(&config(&postgres).set("default_pool_size", "6"))?;
    let subscriber = postgres_with(&[], &[])?;
    subscriber.create_database("repl_subscribed")?;
    let table = "CREATE TABLE stock (id int PRIMARY KEY, at timestamptz, share float8, name text)";
    let mut source = Raw::connect(postgres.port(), "repl_published")?;
    source.query(table)?;
    source.query(
        "INSERT INTO stock SELECT n, now() + n * '1 day'::interval, n / 3.0, repeat(md5(n::text), n % 200) \
         FROM generate_series(1, 5000) n",
    )?;
    source.query("CREATE PUBLICATION published FOR ALL TABLES")?;
    let mut copy = Raw::connect(subscriber.port(), "repl_subscribed")?;
    copy.query(table)?;
    copy.query(&format!(
        "CREATE SUBSCRIPTION subscribed CONNECTION 'host=127.0.0.1 port={} user=postgres dbname=repl_published' \
         PUBLICATION published",
        weir.port()
    ))?;
    let same = |source: &mut Raw| -> Result<()> {
        let sum = source.query_one(SUM)?;
        wait_for(subscriber.port(), "repl_subscribed", SUM, &sum)
    };
    same(&mut source)?;
    for statement in [
        "UPDATE stock SET share = share * 1.1, name = NULL WHERE id % 3 = 0",
        "DELETE FROM stock WHERE id % 7 = 0",
        "INSERT INTO stock SELECT n, now(), pi() * n, repeat('x', 20000) FROM generate_series(6000, 6500) n",
    ] {
        source.query(statement)?;
        same(&mut source)?;
    }
    copy.query("DROP SUBSCRIPTION subscribed")?;
    let slots = "SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'subscribed%'";
    ensure!(source.query_one(slots)? == "0");
    weir.check_healthy()
}
