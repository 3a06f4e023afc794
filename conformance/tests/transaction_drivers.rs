//! Drivers with their defaults in transaction pooling, with more clients than servers: all their results are equal.
//!
//! The programs `tx_*` in `drivers/` run scenarios with six clients side by side and print each client's results.
//! Every program runs twice, directly and through the target; PostgreSQL's own answers are the reference. The target
//! has two servers, and two more connections make clients change between them.

#[path = "transaction_drivers/cluster.rs"]
mod cluster;
#[path = "transaction_drivers/shaker.rs"]
mod shaker;
#[path = "transaction_drivers/transcript.rs"]
mod transcript;

use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use cluster::Cluster;
use shaker::Shaker;
use transcript::Transcript;
use weir_conformance::Kind;
use weir_conformance::PoolOptions;
use weir_conformance::Target;
use weir_conformance::drivers;

/// Time limit for a program in seconds; it is then killed and its last steps are shown.
const SECONDS_MAX: &str = "400";
/// Servers of the pool: fewer than clients.
const SERVERS: u32 = 2;

#[test]
fn libpq_pipelines_are_told_the_same() -> Result<()> {
    let program = drivers::libpq()?.join("transactions");
    compare("libpq", &program.to_string_lossy(), &[])
}

#[test]
fn psycopg_is_told_the_same() -> Result<()> {
    python("psycopg")
}

#[test]
fn rails_is_told_the_same() -> Result<()> {
    python("rails")
}

#[test]
fn asyncpg_is_told_the_same() -> Result<()> {
    python("asyncpg")
}

#[test]
fn sqlalchemy_is_told_the_same() -> Result<()> {
    python("sqlalchemy")
}

#[test]
fn django_is_told_the_same() -> Result<()> {
    python("django")
}

#[test]
fn pgx_is_told_the_same() -> Result<()> {
    go("pgx")
}

#[test]
fn lib_pq_is_told_the_same() -> Result<()> {
    go("pq")
}

#[test]
fn node_postgres_is_told_the_same() -> Result<()> {
    node("pg")
}

#[test]
fn postgres_js_is_told_the_same() -> Result<()> {
    node("postgres")
}

#[test]
fn pgjdbc_is_told_the_same() -> Result<()> {
    let classpath = drivers::java()?;
    let arguments = ["-Xmx512m", "-cp", &classpath, "Transactions"];
    compare("jdbc", "java", &arguments)
}

#[test]
fn tokio_postgres_is_told_the_same() -> Result<()> {
    rust("tokio_postgres")
}

#[test]
fn sqlx_is_told_the_same() -> Result<()> {
    rust("sqlx")
}

fn python(program: &str) -> Result<()> {
    let built = drivers::python()?;
    let file = built.join(format!("tx_{program}.py"));
    let interpreter = built.join("venv/bin/python");
    let (interpreter, file) = (interpreter.to_string_lossy(), file.to_string_lossy());
    compare(program, &interpreter, &[&*file])
}

fn go(driver: &str) -> Result<()> {
    let program = drivers::go()?.join("drivers");
    let argument = format!("tx-{driver}");
    compare(driver, &program.to_string_lossy(), &[&*argument])
}

fn node(driver: &str) -> Result<()> {
    let file = drivers::node()?.join(format!("tx_{driver}.js"));
    let name = format!("node_{driver}");
    compare(&name, "node", &[&*file.to_string_lossy()])
}

fn rust(driver: &str) -> Result<()> {
    let program = drivers::rust()?;
    compare(driver, &program.to_string_lossy(), &[driver])
}

/// Runs a program directly and through the target and compares the clients' results.
fn compare(name: &str, program: &str, arguments: &[&str]) -> Result<()> {
    let cluster = Cluster::shared()?;
    let options = PoolOptions::default()
        .pool_size(SERVERS)
        .setting("query_wait_timeout = 100")
        // Every start-up parameter must have its effect; this line overrides the one that other suites need.
        .setting("ignore_startup_parameters =");
    let mut target = Target::start_kind(Kind::from_env()?, cluster.port(), &options)?;
    // Programs repeat their query until they have seen this many servers, however rarely the machine runs the shaker.
    let reachable = match target.kind() {
        Kind::Direct => 1,
        _ => SERVERS,
    };
    let run = |port: u16, database: &str, servers: u32| -> Result<Transcript> {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", SECONDS_MAX, program]);
        command.args(arguments);
        drivers::connect_to(&mut command, port, database);
        command.env("TX_SERVERS", servers.to_string());
        Transcript::of(&mut command, database)
    };
    let (direct, pooled) = (format!("tx_{name}_direct"), format!("tx_{name}_pooled"));
    cluster.create_database(&direct)?;
    cluster.create_database(&pooled)?;
    let expected = run(cluster.port(), &direct, 1)?;
    expected.check_good().context("run directly")?;
    let shaker = Shaker::start(target.port(), &pooled)?;
    let got = run(target.port(), &pooled, reachable)?;
    expected
        .compare(&got)
        .and_then(|()| got.check_good())
        .context("run through the target")?;
    let shakes = shaker.stop()?;
    if target.kind() != Kind::Direct {
        ensure!(shakes > 10, "the clients' servers changed {shakes} times");
        ensure!(got.servers() != Some(1), "no client changed its server");
    }
    target.check_healthy()
}
