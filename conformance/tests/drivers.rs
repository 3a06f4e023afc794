//! Real drivers do the work of applications through the target.
//!
//! Each program in `drivers/` runs named steps and checks the answers itself. Downloads and builds are kept in
//! `target/conformance` until the sources or pins change.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Target;
use weir_conformance::drivers;

/// Time limit for a driver's program in seconds; it is then killed and its last steps are shown.
const SECONDS_MAX: &str = "180";

#[test]
fn psycopg_works() -> Result<()> {
    python("with_psycopg.py", "psycopg")
}

#[test]
fn asyncpg_works() -> Result<()> {
    python("with_asyncpg.py", "asyncpg")
}

#[test]
fn pgx_works() -> Result<()> {
    go("pgx")
}

#[test]
fn lib_pq_works() -> Result<()> {
    go("pq")
}

#[test]
fn node_postgres_works() -> Result<()> {
    let built = drivers::node()?;
    drive("node_postgres", timed("node").arg(built.join("main.js")))
}

#[test]
fn pgjdbc_works() -> Result<()> {
    let classpath = drivers::java()?;
    drive(
        "pgjdbc",
        timed("java").args(["-Xmx512m", "-cp", &classpath, "Main"]),
    )
}

fn python(program: &str, database: &str) -> Result<()> {
    let built = drivers::python()?;
    let interpreter = built.join("venv/bin/python");
    drive(
        database,
        timed(&interpreter.to_string_lossy()).arg(built.join(program)),
    )
}

fn go(driver: &str) -> Result<()> {
    let built = drivers::go()?;
    let name = if driver == "pq" { "lib_pq" } else { driver };
    drive(name, timed(&path(&built, "drivers")).arg(driver))
}

fn path(directory: &Path, name: &str) -> String {
    directory.join(name).to_string_lossy().into_owned()
}

fn timed(program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", SECONDS_MAX, program]);
    command
}

/// Runs a driver's program in a database of its own.
fn drive(database: &str, program: &mut Command) -> Result<()> {
    let postgres = Postgres::shared()?;
    postgres.create_database(database)?;
    let mut target = Target::start(&postgres, &PoolOptions::default().pool_size(10))?;
    drivers::run(program, target.port(), database)?;
    target.check_healthy()
}
