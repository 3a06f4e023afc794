//! Every driver reads the console like a database, over the extended protocol if the driver can
//! choose.

use std::process::Command;

use anyhow::Result;
use weir_conformance::drivers;

use crate::support::Stage;

/// Time limit for a driver's program, in seconds.
const SECONDS_MAX: &str = "60";

#[test]
fn psycopg_reads_the_console() -> Result<()> {
    python("con_psycopg", "psycopg")
}

#[test]
fn asyncpg_reads_the_console() -> Result<()> {
    python("con_asyncpg", "asyncpg")
}

#[test]
fn pgx_reads_the_console() -> Result<()> {
    go("con_pgx", "console-pgx")
}

#[test]
fn lib_pq_reads_the_console() -> Result<()> {
    go("con_pq", "console-pq")
}

#[test]
fn node_postgres_and_postgres_js_read_the_console() -> Result<()> {
    let built = drivers::node()?;
    drive("con_node", timed("node").arg(built.join("console.js")))
}

#[test]
fn pgjdbc_reads_the_console() -> Result<()> {
    let classpath = drivers::java()?;
    drive(
        "con_jdbc",
        timed("java").args(["-Xmx256m", "-cp", &classpath, "Console"]),
    )
}

fn python(database: &'static str, driver: &str) -> Result<()> {
    let built = drivers::python()?;
    let interpreter = built.join("venv/bin/python");
    drive(
        database,
        timed(&interpreter.to_string_lossy())
            .arg(built.join("with_console.py"))
            .arg(driver),
    )
}

fn go(database: &'static str, driver: &str) -> Result<()> {
    let built = drivers::go()?.join("drivers");
    drive(database, timed(&built.to_string_lossy()).arg(driver))
}

fn timed(program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", SECONDS_MAX, program]);
    command
}

fn drive(database: &'static str, program: &mut Command) -> Result<()> {
    let mut stage = Stage::new(database)?;
    stage.client()?.query("select 1")?;
    drivers::run(program, stage.weir.port(), "pgbouncer")?;
    stage.weir.check_healthy()
}
