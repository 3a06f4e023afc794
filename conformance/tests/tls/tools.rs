//! psql and pgbench with `sslmode=verify-full` for clients and `server_tls_sslmode = verify-full` for servers.

use std::process::Command;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Kind;
use weir_conformance::PoolOptions;
use weir_conformance::TempDir;
use weir_conformance::psql::psql;
use weir_conformance::tools;

use crate::support::Server;

#[test]
fn psql_works_in_tls() -> Result<()> {
    let server = Server::shared()?;
    let mut target = server.target(PoolOptions::default())?;
    let mut psql = psql(target.port(), "tls")?;
    psql.env("PGSSLMODE", "verify-full")
        .env("PGSSLROOTCERT", server.pki.ca_file())
        .args([
            "-At",
            "-c",
            "\\conninfo",
            "-c",
            "create temp table t (n int)",
        ])
        .args([
            "-c",
            "select ssl from pg_stat_ssl where pid = pg_backend_pid()",
        ]);
    let output = tools::run(&mut psql)?;
    ensure!(
        output.contains("SSL connection (protocol: TLSv1.3"),
        "{output}"
    );
    ensure!(
        output.ends_with("t\n"),
        "the server side is in clear: {output}"
    );
    target.check_healthy()
}

#[test]
fn a_base_backup_passes_in_tls() -> Result<()> {
    let server = Server::shared()?;
    let mut target = server.target(PoolOptions::default())?;
    let directory = TempDir::new()?;
    let data = directory.path().join("data");
    let bin = tools::postgres_bin_dir()?;
    let mut backup = Command::new(bin.join("pg_basebackup"));
    backup
        .args(["-h", "localhost", "-p", &target.port().to_string()])
        .args(["-U", "postgres", "-c", "fast", "-X", "stream", "-D"])
        .arg(&data)
        .env("PGSSLMODE", "verify-full")
        .env("PGSSLROOTCERT", server.pki.ca_file());
    // PgBouncer 1.18, which the suite also runs with, refuses it.
    if target.kind() == Kind::PgBouncer {
        let (refused, is_done) = tools::run_any(&mut backup)?;
        ensure!(!is_done && refused.contains("replication"), "{refused}");
        return Ok(());
    }
    tools::run(&mut backup)?;
    tools::run(Command::new(bin.join("pg_verifybackup")).arg(&data))?;
    target.check_healthy()
}

#[test]
fn pgbench_loses_nothing_in_tls() -> Result<()> {
    tools::require("pgbench", "postgresql-15 (or postgresql-contrib)")?;
    let server = Server::shared()?;
    let mut target = server.target(PoolOptions::default().pool_size(10))?;
    let pgbench = |port: u16, options: &[&str]| {
        let mut pgbench = Command::new("pgbench");
        pgbench
            .args(["-h", "localhost", "-p", &port.to_string(), "-U", "postgres"])
            .env("PGSSLMODE", "verify-full")
            .env("PGSSLROOTCERT", server.pki.ca_file())
            .args(options)
            .arg("tls");
        tools::run(&mut pgbench)
    };
    pgbench(server.postgres.port(), &["-i", "-q", "-s", "10"])?;
    let mut transactions = 0;
    for mode in ["simple", "extended", "prepared"] {
        // pgbench 15 prepares with blocking calls inside transactions, so it must not have more clients than
        // servers then.
        let clients = if mode == "prepared" { 10 } else { 40 };
        let (count, each) = (clients.to_string(), "50");
        let output = pgbench(
            target.port(),
            &["-n", "-M", mode, "-c", &count, "-j", "2", "-t", each],
        )?;
        transactions += clients * 50;
        ensure!(
            output.contains("number of failed transactions: 0 (0.000%)"),
            "{output}"
        );
        let reads = pgbench(
            target.port(),
            &["-n", "-S", "-M", mode, "-c", "40", "-j", "2", "-t", "200"],
        )?;
        ensure!(
            reads.contains("number of failed transactions: 0 (0.000%)"),
            "{reads}"
        );
    }
    let reconnecting = ["-n", "-C", "-S", "-c", "10", "-j", "2", "-t", "20"];
    pgbench(target.port(), &reconnecting)?;
    let mut raw = server.dial()?.login(target.port(), "postgres", "tls")?;
    let history = raw.query_one("select count(*) from pgbench_history")?;
    ensure!(
        history == transactions.to_string(),
        "{history}, not {transactions}"
    );
    let balance = "select (select sum(abalance) from pgbench_accounts) \
                   = (select sum(bbalance) from pgbench_branches)";
    ensure!(raw.query_one(balance)? == "t", "the balance is wrong");
    target.check_healthy()
}
