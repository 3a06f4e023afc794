//! pgbench through the target: no errors, no lost and no repeated transactions, with 1 to 1,000 clients over 20
//! servers.

#![allow(
    clippy::indexing_slicing,
    reason = "a panic in a test is a failure, and is wanted"
)]

use std::process::Command;
use std::sync::Mutex;
use std::sync::PoisonError;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Target;
use weir_conformance::postgres;
use weir_conformance::tools;

/// Number of servers in the pool.
const POOL_SIZE: u32 = 20;
/// pgbench's scale: enough branches that TPC-B is not dominated by lock waits.
const SCALE: u32 = 20;

#[test]
fn select_only_simple() -> Result<()> {
    run_all(&[1, 50, 500, 1000], &["-S", "-M", "simple"])
}

#[test]
fn select_only_extended() -> Result<()> {
    run_all(&[1, 50, 500, 1000], &["-S", "-M", "extended"])
}

#[test]
fn select_only_prepared() -> Result<()> {
    run_all(&[1, 50, 500, 1000], &["-S", "-M", "prepared"])
}

#[test]
fn tpcb_simple() -> Result<()> {
    run_all(&[1, 50, 500, 1000], &["-M", "simple"])
}

#[test]
fn tpcb_extended() -> Result<()> {
    run_all(&[1, 50, 500, 1000], &["-M", "extended"])
}

/// pgbench 15 prepares with blocking calls. A client that waited for a server there would stall all transactions of
/// its thread, which keep their servers, so it would wait for itself. These numbers of clients are known to work.
#[test]
fn tpcb_prepared() -> Result<()> {
    run_all(&[1, 20, 50, 500], &["-M", "prepared"])
}

#[test]
fn connection_per_transaction() -> Result<()> {
    run_all(&[1, 50], &["-C", "-S", "-M", "simple"])?;
    run_all(&[10], &["-C", "-S", "-M", "prepared"])?;
    run_all(&[20], &["-C", "-M", "extended"])
}

/// Runs each number of clients; one test at a time, because they share two cores and many files.
fn run_all(clients: &[u32], options: &[&str]) -> Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    tools::require("pgbench", "postgresql-15 (or postgresql-contrib)")?;
    tools::require_open_files(4 * 1024)?;
    let cluster = postgres::Options {
        max_connections: 1100,
        ..postgres::Options::default()
    };
    let postgres = Postgres::start(&cluster)?;
    initialise(&postgres)?;
    let pool = PoolOptions::default()
        .pool_size(POOL_SIZE)
        .setting("query_wait_timeout = 120");
    let mut target = Target::start(&postgres, &pool)?;
    for count in clients {
        run(&postgres, target.port(), *count, options).with_context(|| {
            format!(
                "{count} clients, {options:?}\n{}",
                tools::tail(&target.log(), 20)
            )
        })?;
        target.check_healthy()?;
    }
    Ok(())
}

fn initialise(postgres: &Postgres) -> Result<()> {
    let mut pgbench = pgbench(postgres.port());
    pgbench.args(["-i", "-q", "-s", &SCALE.to_string()]);
    tools::run(&mut pgbench).map(drop)
}

fn run(postgres: &Postgres, port: u16, clients: u32, options: &[&str]) -> Result<()> {
    // -S, -C and the number of clients determine a reasonable amount of work.
    let reads_only = options.contains(&"-S");
    let total: u32 = if reads_only { 4000 } else { 1500 };
    let each = (total / clients).clamp(2, 500);
    let before = history(postgres)?;
    let mut pgbench = pgbench(port);
    pgbench
        .args([
            "-n",
            "-c",
            &clients.to_string(),
            "-j",
            "2",
            "-t",
            &each.to_string(),
        ])
        .args(options);
    let report = tools::run(&mut pgbench)?;
    let expected = clients * each;
    let processed = format!("number of transactions actually processed: {expected}/{expected}");
    ensure!(report.contains(&processed), "wanted {processed}:\n{report}");
    ensure!(
        report.contains("number of failed transactions: 0 "),
        "failures:\n{report}"
    );
    let error = report
        .lines()
        .find(|line| line.contains("error") || line.contains("FATAL"));
    ensure!(error.is_none(), "errors:\n{report}");
    let written = history(postgres)? - before;
    let wanted = if reads_only { 0 } else { i64::from(expected) };
    ensure!(
        written == wanted,
        "{written} rows of history instead of {wanted}"
    );
    check_balance(postgres)
}

fn history(postgres: &Postgres) -> Result<i64> {
    let mut raw = Raw::connect(postgres.port(), "postgres")?;
    Ok(raw
        .query_one("select count(*) from pgbench_history")?
        .parse()?)
}

/// Checks the sums: every TPC-B transaction adds one amount to an account, a teller, a branch and the history.
fn check_balance(postgres: &Postgres) -> Result<()> {
    let mut raw = Raw::connect(postgres.port(), "postgres")?;
    let sums = [
        "select sum(bbalance) from pgbench_branches",
        "select sum(tbalance) from pgbench_tellers",
        "select sum(abalance) from pgbench_accounts",
        "select coalesce(sum(delta), 0) from pgbench_history",
    ];
    let sums: Vec<String> = sums
        .iter()
        .map(|sql| raw.query_one(sql))
        .collect::<Result<_>>()?;
    ensure!(
        sums.windows(2).all(|pair| pair[0] == pair[1]),
        "the balances differ: {sums:?}"
    );
    Ok(())
}

/// pgbench with a time limit, so that a stuck run fails.
fn pgbench(port: u16) -> Command {
    let mut command = Command::new("timeout");
    command.args([
        "-k",
        "5",
        "90",
        "pgbench",
        "-h",
        "127.0.0.1",
        "-p",
        &port.to_string(),
    ]);
    command
        .args(["-U", "postgres"])
        .env("LC_ALL", "C")
        .env("PGDATABASE", "postgres");
    command.env_remove("PGOPTIONS");
    command
}
