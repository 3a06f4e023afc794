//! Physical replication: `pg_basebackup`, `pg_receivewal`, and a standby.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use weir_conformance::{Config, Postgres, Raw, TempDir, Weir, tools};

use crate::fixture::{
    config, directory, postgres, postgres_with, program, replicate, start_copy, text, wait_for,
};

/// Physical clients name the database `replication`, whatever they replicate.
fn physical(postgres: &Postgres) -> Config {
    config(postgres).database(&format!(
        "replication = host=127.0.0.1 port={} pool_mode=statement",
        postgres.port()
    ))
}

/// Copies a server into a new directory below `directory`.
fn back_up(port: u16, name: &str, wal: &str, directory: &TempDir) -> Result<String> {
    let data = directory.path().join(name);
    let mut backup = program("pg_basebackup", port)?;
    backup.args(["-c", "fast", "-X", wal, "--manifest-checksums=SHA256", "-D"]);
    tools::run(backup.arg(&data))?;
    let verify = program("pg_verifybackup", port)?;
    // The connection options are no options of this program.
    let bin = verify
        .get_args()
        .find(|it| it.to_string_lossy().ends_with("verifybackup"));
    let bin = bin.context("the program")?.to_owned();
    tools::run(std::process::Command::new(bin).arg(&data).current_dir("/"))?;
    Ok(text(&data)?.to_owned())
}

/// Returns the files of a backup, with their checksums, as its manifest has them. Three of them tell when a backup was made.
fn manifest(data: &str) -> Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(Path::new(data).join("backup_manifest"))?;
    let manifest: serde_json::Value = serde_json::from_str(&text)?;
    let files = manifest.get("Files").and_then(|files| files.as_array());
    let entry = |file: &serde_json::Value| {
        let part = |name: &str| Some(file.get(name)?.as_str()?.to_owned());
        Some((part("Path")?, part("Checksum")?))
    };
    let files = files.context("files")?.iter();
    let dated = ["backup_label", "global/pg_control", "pg_internal.init"];
    let files = files.filter_map(entry);
    Ok(files
        .filter(|(path, _)| !path.starts_with("pg_wal/"))
        .filter(|(path, _)| !dated.iter().any(|name| path.ends_with(name)))
        .collect())
}

#[test]
fn a_base_backup_is_that_of_a_direct_connection_and_starts() -> Result<()> {
    let postgres = postgres_with(&["archive_mode = off"], &[])?;
    postgres.create_database("repl_backed_up")?;
    let mut raw = Raw::connect(postgres.port(), "repl_backed_up")?;
    raw.query("CREATE TABLE kept AS SELECT n AS id, repeat(md5(n::text), 50) AS text FROM generate_series(1, 20000) n")?;
    let sum = "SELECT md5(string_agg(id || text, ',' ORDER BY id)) FROM kept";
    let sum_there = raw.query_one(sum)?;
    raw.query("CHECKPOINT")?;
    let mut weir = Weir::start(&physical(&postgres))?;
    let directory = directory()?;
    let direct = manifest(&back_up(postgres.port(), "direct", "fetch", &directory)?)?;
    ensure!(direct.len() > 900, "{} files", direct.len());
    for wal in ["fetch", "stream"] {
        let data = back_up(weir.port(), wal, wal, &directory)?;
        let through = manifest(&data)?;
        let differ = |(path, sum): &(&String, &String)| through.get(*path) != Some(*sum);
        let other: Vec<_> = direct.iter().filter(differ).collect();
        ensure!(
            other.is_empty() && through.len() == direct.len(),
            "{wal}: {other:?}"
        );
        let port = tools::free_port()?;
        let copy = start_copy(Path::new(&data), port, &directory)?;
        wait_for(port, "repl_backed_up", sum, &sum_there)?;
        drop(copy);
    }
    weir.check_healthy()
}

#[test]
fn pg_receivewal_receives_the_segments_of_the_server() -> Result<()> {
    let postgres = postgres_with(&[], &[])?;
    let mut weir = Weir::start(&physical(&postgres))?;
    let directory = directory()?;
    let target = directory.path().join("wal");
    tools::run(
        std::process::Command::new("install")
            .args(["-d", "-o", "postgres"])
            .arg(&target),
    )?;
    let mut walsender = replicate(weir.port(), "replication", "true")?;
    walsender.query("CREATE_REPLICATION_SLOT segments PHYSICAL RESERVE_WAL")?;
    let mut raw = Raw::connect(postgres.port(), "postgres")?;
    raw.query("CREATE TABLE filler (text text)")?;
    for _ in 0..3 {
        raw.query(
            "INSERT INTO filler SELECT repeat(md5(n::text), 30) FROM generate_series(1, 15000) n",
        )?;
        raw.query("SELECT pg_switch_wal()")?;
    }
    let end = raw.query_one("SELECT pg_current_wal_flush_lsn()")?;
    // The program stops when it has received something behind the end.
    raw.query("INSERT INTO filler VALUES ('behind'); SELECT pg_switch_wal()")?;
    let mut receiver = program("pg_receivewal", weir.port())?;
    receiver.args(["-S", "segments", "--no-loop", "--endpos", &end, "-D"]);
    tools::run(receiver.arg(&target))?;
    let wal = raw
        .query_one("SELECT setting || '/pg_wal' FROM pg_settings WHERE name = 'data_directory'")?;
    let mut whole = 0;
    for entry in fs::read_dir(&target)? {
        let name = entry?.file_name();
        if name.to_string_lossy().len() == 24 {
            let [ours, theirs] = [target.join(&name), Path::new(&wal).join(&name)].map(fs::read);
            ensure!(ours? == theirs?, "{}", name.display());
            whole += 1;
        }
    }
    ensure!(whole >= 3, "{whole} segments");
    let mut slot = program("pg_receivewal", weir.port())?;
    tools::run(slot.args(["-S", "segments", "--drop-slot"]))?;
    weir.check_healthy()
}

#[test]
fn a_standby_follows_its_primary_also_over_its_restart() -> Result<()> {
    let mut postgres = postgres_with(&[], &[])?;
    postgres.create_database("repl_followed")?;
    let mut weir = Weir::start(&physical(&postgres))?;
    let directory = directory()?;
    let data = directory.path().join("standby");
    let mut backup = program("pg_basebackup", weir.port())?;
    backup.args([
        "-c", "fast", "-X", "stream", "-R", "-C", "-S", "standby", "-D",
    ]);
    tools::run(backup.arg(&data))?;
    let port = tools::free_port()?;
    let standby = start_copy(&data, port, &directory)?;
    let count = "SELECT count(*) FROM followed";
    for round in 1..=3 {
        let mut raw = Raw::connect(postgres.port(), "repl_followed")?;
        raw.query("CREATE TABLE IF NOT EXISTS followed (id int)")?;
        raw.query("INSERT INTO followed SELECT generate_series(1, 10000)")?;
        wait_for(port, "repl_followed", count, &(round * 10_000).to_string())?;
        if round == 1 {
            // The standby hears that the primary shuts down in order, and comes again.
            postgres.restart_fast()?;
            wait_for(postgres.port(), "repl_followed", count, "10000")?;
        }
    }
    // What the standby logs about the end is what it logs without a pooler.
    let log = standby.log();
    ensure!(
        log.contains("replication terminated by primary server"),
        "{log}"
    );
    ensure!(!log.contains("unexpected result"), "{log}");
    drop(standby);
    weir.check_healthy()
}

#[test]
fn commands_of_a_physical_walsender_are_answered_as_directly() -> Result<()> {
    let postgres = postgres()?;
    let mut weir = Weir::start(&physical(&postgres))?;
    let ask = |port: u16| -> Result<Vec<String>> {
        let mut raw = replicate(port, "replication", "true")?;
        let mut answers = Vec::new();
        for command in [
            "SHOW wal_segment_size",
            "TIMELINE_HISTORY 7",
            "SELECT 1",
            "SET datestyle = iso",
            "",
            "SHOW max_wal_senders",
            "CREATE_REPLICATION_SLOT same TEMPORARY PHYSICAL",
            "READ_REPLICATION_SLOT same",
            "nonsense",
        ] {
            let asked = raw.ask(&weir_conformance::frontend::query(command))?;
            let shown = asked.iter().map(|message| match message.tag {
                b'E' => format!("E {}", message.error()),
                tag => format!(
                    "{} {:?}",
                    char::from(tag),
                    String::from_utf8_lossy(&message.body)
                ),
            });
            answers.extend(shown);
        }
        Ok(answers)
    };
    let (direct, through) = (ask(postgres.port())?, ask(weir.port())?);
    ensure!(direct == through, "{direct:#?}\n{through:#?}");
    weir.check_healthy()
}
