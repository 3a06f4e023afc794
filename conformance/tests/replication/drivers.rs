//! Drivers that read changes: pgjdbc as Debezium uses it, postgres.js and psycopg2. Each prints what it receives.

use std::process::Command;

use anyhow::{Result, ensure};
use weir_conformance::{Weir, drivers, tools};

use crate::fixture::{config, postgres};

/// Runs a program in a database directly and through Weir, and compares what it prints.
fn compare(
    name: &str,
    least: usize,
    command: impl Fn(u16, &str, &str) -> Result<Command>,
) -> Result<()> {
    let postgres = postgres()?;
    let database = format!("repl_{name}");
    postgres.create_database(&database)?;
    // The limit is for the connection that makes the changes.
    let patient = config(&postgres).set("client_idle_timeout", "0");
    let mut weir = Weir::start(&patient)?;
    let direct = tools::run(&mut command(
        postgres.port(),
        &database,
        &format!("{name}_a"),
    )?)?;
    let through = tools::run(&mut command(weir.port(), &database, &format!("{name}_b"))?)?;
    ensure!(
        direct == through,
        "{direct}\n--- and through Weir\n{through}\n{}",
        weir.log()
    );
    ensure!(direct.len() >= least, "{direct}");
    weir.check_healthy()
}

#[test]
fn pgjdbc_streams_as_debezium_does() -> Result<()> {
    let classes = drivers::java()?;
    compare("jdbc", 60, |port, database, slot| {
        let mut command = Command::new("java");
        command.args(["-Xmx256m", "-cp", &classes, "Replication"]);
        command.args([&format!("{port}/{database}"), slot]);
        Ok(command)
    })
}

#[test]
fn postgres_js_subscribes() -> Result<()> {
    let program = drivers::node()?.join("replication.js");
    compare("node", 3_000, |port, database, _| {
        let mut command = Command::new("node");
        command.arg(&program).args([&port.to_string(), database]);
        Ok(command)
    })
}

#[test]
fn psycopg2_consumes_a_stream() -> Result<()> {
    let python = drivers::python()?;
    compare("python", 10_000, |port, database, slot| {
        let mut command = Command::new(python.join("venv/bin/python"));
        command.arg(python.join("with_replication.py"));
        command.args([&port.to_string(), database, slot]);
        Ok(command)
    })
}
