//! A server with room for replication, the programs that replicate, and connections that speak its protocol.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use anyhow::{Context, Result};
use weir_conformance::child::{self, Guarded, Runner};
use weir_conformance::frontend::{copy_data, query};
use weir_conformance::postgres::Options;
use weir_conformance::raw::Message;
use weir_conformance::{Config, Postgres, Raw, SOON, TempDir, Weir, tools, wait_until};

/// Time limit of a wait for data.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Starts a server that decodes its WAL and lets everybody replicate.
pub(crate) fn postgres_with(settings: &[&str], hba: &[&str]) -> Result<Postgres> {
    let own = [
        "wal_level = logical",
        "max_wal_senders = 30",
        "max_replication_slots = 30",
        "wal_keep_size = 512MB",
    ];
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    let everybody = ["host replication all 127.0.0.1/32 trust"];
    Postgres::start(&Options {
        settings: lines(&[&own, settings].concat()),
        hba: lines(&[hba, &everybody].concat()),
        ..Options::default()
    })
}

/// Such a server, which the tests share while any of them runs.
pub(crate) fn postgres() -> Result<Arc<Postgres>> {
    static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(running) = shared.upgrade() {
        return Ok(running);
    }
    let started = Arc::new(postgres_with(&[], &[])?);
    *shared = Arc::downgrade(&started);
    Ok(started)
}

/// Configuration in front of such a server, with time limits that would end every stream at once.
pub(crate) fn config(postgres: &Postgres) -> Config {
    Config::to(postgres.port())
        .set("query_timeout", "2")
        .set("idle_transaction_timeout", "2")
        .set("transaction_timeout", "2")
        .set("client_idle_timeout", "2")
        .set("server_lifetime", "2")
        .set("server_idle_timeout", "2")
        .set("server_reset_query_always", "1")
        .set("server_check_query", "select 'Weir checks'")
        .set("server_check_delay", "0")
}

/// Command of a program of PostgreSQL that connects to this port on loopback.
pub(crate) fn program(name: &str, port: u16) -> Result<Command> {
    let mut command = child::setpriv(Runner::Postgres, None)?;
    command.arg(tools::postgres_bin_dir()?.join(name));
    command.args(["-h", "127.0.0.1", "-U", "postgres", "-w"]);
    command.args(["-p", &port.to_string()]).current_dir("/");
    for name in ["PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGOPTIONS"] {
        command.env_remove(name);
    }
    Ok(command)
}

/// Starts such a program, which goes on until it is stopped.
pub(crate) fn start(
    name: &str,
    port: u16,
    arguments: &[&str],
    directory: &TempDir,
) -> Result<Guarded> {
    let bin = tools::postgres_bin_dir()?.join(name);
    let (bin, port) = (text(&bin)?.to_owned(), port.to_string());
    let own = [
        &*bin,
        "-h",
        "127.0.0.1",
        "-U",
        "postgres",
        "-w",
        "-p",
        &port,
    ];
    let log = directory.path().join(format!("{name}-{port}.log"));
    let command = [&own[..], arguments].concat();
    Guarded::start(Runner::Postgres, "INT", &command, &[], &log)
}

/// Directory that PostgreSQL's programs can write to.
pub(crate) fn directory() -> Result<TempDir> {
    let directory = TempDir::new()?;
    if tools::is_root() {
        tools::run(Command::new("chown").arg("postgres:").arg(directory.path()))?;
    }
    Ok(directory)
}

/// Returns a path as text.
pub(crate) fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path is not UTF-8")
}

/// Starts the server whose files are in this directory, on this port.
pub(crate) fn start_copy(data: &Path, port: u16, directory: &TempDir) -> Result<Guarded> {
    let program: PathBuf = tools::postgres_bin_dir()?.join("postgres");
    let (sockets, port) = (text(directory.path())?, port.to_string());
    let sockets = format!("unix_socket_directories={sockets}");
    let command = [
        text(&program)?,
        "-D",
        text(data)?,
        "-p",
        &port,
        "-c",
        &sockets,
    ];
    let log = directory.path().join("copy.log");
    Guarded::start(Runner::Postgres, "QUIT", &command, &[], &log)
}

/// Logs in for replication: `true` or `database`.
pub(crate) fn replicate(port: u16, database: &str, replication: &str) -> Result<Raw> {
    let parameters = [
        ("user", "postgres"),
        ("database", database),
        ("replication", replication),
    ];
    Raw::connect_with(port, &parameters)
}

/// Starts to stream from a logical slot, and reads up to CopyBothResponse.
pub(crate) fn stream(raw: &mut Raw, slot: &str) -> Result<()> {
    raw.send(&query(&format!(
        "START_REPLICATION SLOT \"{slot}\" LOGICAL 0/0"
    )))?;
    let first = raw.read_message()?;
    anyhow::ensure!(
        first.tag == b'W',
        "{}: {}",
        char::from(first.tag),
        first.error()
    );
    Ok(())
}

/// Creates a slot for `test_decoding`, which goes with its connection unless it is kept.
pub(crate) fn create_slot(raw: &mut Raw, slot: &str, is_kept: bool) -> Result<()> {
    let kind = if is_kept { "" } else { "TEMPORARY " };
    let command =
        format!("CREATE_REPLICATION_SLOT \"{slot}\" {kind}LOGICAL test_decoding NOEXPORT_SNAPSHOT");
    raw.query(&command).map(drop)
}

/// Reads from a stream up to a change that contains this text, and answers keepalives that ask for it.
pub(crate) fn read_change(raw: &mut Raw, wanted: &str) -> Result<Message> {
    loop {
        let message = raw.read_message()?;
        anyhow::ensure!(
            message.tag == b'd',
            "{}: {}",
            char::from(message.tag),
            message.error()
        );
        if let [b'k', rest @ ..] = &message.body[..]
            && rest.last() == Some(&1)
        {
            raw.send(&status(0))?;
        }
        if String::from_utf8_lossy(&message.body).contains(wanted) {
            return Ok(message);
        }
    }
}

/// Returns a standby status update that confirms all WAL up to this position.
pub(crate) fn status(position: u64) -> Vec<u8> {
    let position = position.to_be_bytes();
    let mut body = vec![b'r'];
    for _ in 0..3 {
        body.extend(position);
    }
    body.extend([0; 9]);
    copy_data(&body)
}

/// Waits until a query of the server on this port has this answer.
pub(crate) fn wait_for(port: u16, database: &str, sql: &str, wanted: &str) -> Result<()> {
    let mut last = String::new();
    wait_until(&format!("{sql} = {wanted}"), LIMIT, || {
        let answer = Raw::connect(port, database).and_then(|mut raw| raw.query_one(sql));
        last = answer.unwrap_or_else(|error| format!("{error:#}"));
        Ok(last == wanted)
    })
    .with_context(|| format!("last: {last}"))
}

/// Waits until this number of rows of `SHOW SERVERS` are of replication connections.
pub(crate) fn wait_servers(weir: &Weir, wanted: usize) -> Result<()> {
    let mut last = 0;
    wait_until(&format!("{wanted} replication servers"), SOON, || {
        last = connections(weir, "SHOW SERVERS")?.len();
        Ok(last == wanted)
    })
    .with_context(|| format!("last: {last}\n{}", weir.log()))
}

/// Returns type, user, database, kind and state of the replication connections that a table of the console shows.
pub(crate) fn connections(weir: &Weir, command: &str) -> Result<Vec<String>> {
    let rows = weir.connect("pgbouncer")?.query_named(command)?;
    let rows = rows
        .iter()
        .filter(|row| row.get("replication").is_some_and(|it| it != "none"));
    let columns = ["type", "user", "database", "replication", "state"];
    let shown = rows.map(|row| {
        let shown: Vec<_> = columns
            .iter()
            .filter_map(|name| row.get(*name).cloned())
            .collect();
        shown.join(" ")
    });
    Ok(shown.collect())
}
