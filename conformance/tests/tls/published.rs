//! The configurations of published comparisons run unchanged, except for ports and file locations, under the
//! published load: P1 and P2 with TLS on both sides, P4 without.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::psql::psql;
use weir_conformance::tls::Spec;
use weir_conformance::tools;
use weir_conformance::wait_until;

use crate::support::Server;

const P1: &str = include_str!("published/p1.ini");
const P4: &str = include_str!("published/p4.ini");
const PATIENCE: Duration = Duration::from_secs(10);
const PASSWORD: &str = "published";

/// A server with pgbench's tables and a user with a password, and Weir with one of the files.
struct Bench {
    server: Arc<Server>,
    weir: Weir,
    sslmode: &'static str,
}

impl Bench {
    fn start(ini: &str, sslmode: &'static str) -> Result<Self> {
        let server = Server::shared()?;
        server.pki.issue("pooler", &Spec::server())?;
        server.pki.issue("to_server", &Spec::client("bench"))?;
        let files = server.pki.directory();
        let secrets = format!("\"bench\" \"{PASSWORD}\"\n");
        server.pki.secret("userlist.txt", secrets.as_bytes())?;
        let port = tools::free_port()?;
        let text = ini
            .replace("@PORT@", &port.to_string())
            .replace("@POSTGRES@", &server.postgres.port().to_string())
            .replace("@FILES@", &files.to_string_lossy());
        let weir = Weir::start_text("pgbouncer.ini", &text, port)?;
        let log = weir.log();
        ensure!(!log.contains("not effective"), "{log}");
        Ok(Self {
            server,
            weir,
            sslmode,
        })
    }

    /// Runs pgbench; fails on any error.
    fn pgbench(&self, options: &[&str]) -> Result<()> {
        let mut pgbench = Command::new("pgbench");
        pgbench
            .args([
                "-h",
                "127.0.0.1",
                "-U",
                "bench",
                "-n",
                "-j",
                "2",
                "-t",
                "40",
            ])
            .args(["-p", &self.weir.port().to_string()])
            .env("PGSSLMODE", self.sslmode)
            .env("PGPASSWORD", PASSWORD)
            .args(options)
            .arg("bench");
        let output = tools::run(&mut pgbench)?;
        let is_whole = output.contains("number of failed transactions: 0 (0.000%)");
        ensure!(is_whole, "{output}");
        Ok(())
    }

    /// Value of an option in the console.
    fn shown(&self, key: &str) -> Result<String> {
        let mut check = psql(self.weir.port(), "bench")?;
        check
            .env("PGSSLMODE", self.sslmode)
            .env("PGPASSWORD", PASSWORD)
            .args(["-U", "bench", "-At", "-c", key]);
        Ok(tools::run(&mut check)?.trim().to_owned())
    }

    /// Number of servers with TLS, and without.
    fn servers(&self) -> Result<(i64, i64)> {
        let sql = "select count(*) filter (where ssl), count(*) filter (where not ssl) from pg_stat_activity \
                   join pg_stat_ssl using (pid) where usename = 'bench'";
        let rows = self.server.beside()?.query(sql)?;
        let mut cells = rows.into_iter().flatten().flatten();
        let mut number = || -> Result<i64> { Ok(cells.next().unwrap_or_default().parse()?) };
        Ok((number()?, number()?))
    }
}

/// Creates database, user and tables.
fn prepare(server: &Server) -> Result<()> {
    tools::require("pgbench", "postgresql-15 (or postgresql-contrib)")?;
    server.postgres.create_database("bench")?;
    let mut direct = server.beside()?;
    direct.query(&format!("create role bench login password '{PASSWORD}'"))?;
    let mut fill = Command::new("pgbench");
    fill.args(["-h", "127.0.0.1", "-p", &server.postgres.port().to_string()]);
    tools::run(fill.args(["-U", "postgres", "-i", "-q", "-s", "1", "bench"]))?;
    let mut inside = Raw::connect(server.postgres.port(), "bench")?;
    inside.query("grant all on all tables in schema public to bench")?;
    Ok(())
}

/// Runs one after the other, because both have the servers of the same user.
#[test]
fn published_configurations_run_as_they_are() -> Result<()> {
    let server = Server::shared()?;
    prepare(&server)?;
    p1_and_p2_run_over_tls_in_every_protocol()?;
    p4_runs_without_tls()
}

fn p1_and_p2_run_over_tls_in_every_protocol() -> Result<()> {
    let mut bench = Bench::start(P1, "require")?;
    let script = bench.weir.directory().join("rows.sql");
    std::fs::write(&script, "select * from pgbench_accounts where aid <= 42;\n")?;
    let script = script.to_string_lossy();
    bench.pgbench(&["-c", "60", "-M", "simple", "-f", &script])?;
    for protocol in ["extended", "prepared"] {
        bench.pgbench(&["-c", "60", "-M", protocol, "-S"])?;
    }
    let (tls, plain) = bench.servers()?;
    ensure!((1..=50).contains(&tls) && plain == 0, "{tls} and {plain}");
    // Clients must use TLS, too.
    bench.sslmode = "disable";
    let refused = bench.shown("select 1").err().map(|error| error.to_string());
    let refused = refused.unwrap_or_default();
    ensure!(refused.contains("SSL required"), "{refused}");
    bench.weir.check_healthy()
}

fn p4_runs_without_tls() -> Result<()> {
    let mut bench = Bench::start(P4, "disable")?;
    wait_until("the end of the other pooler's servers", PATIENCE, || {
        Ok(bench.servers()? == (0, 0))
    })?;
    bench.pgbench(&["-c", "100", "-M", "simple", "-S"])?;
    // This server offers TLS, which the default of server_tls_sslmode accepts.
    let (tls, plain) = bench.servers()?;
    ensure!((1..=10).contains(&tls) && plain == 0, "{tls} and {plain}");
    ensure!(bench.shown("select 1")? == "1");
    bench.weir.check_healthy()
}
