//! The lab's load generator against real PostgreSQL: it agrees with pgbench, logs in with every method, and really
//! does the work it reports.

#![allow(
    clippy::indexing_slicing,
    reason = "a panic in a test is a failure, and is wanted"
)]

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use weir_conformance::Kind;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Target;
use weir_conformance::TempDir;
use weir_conformance::postgres;
use weir_conformance::tls::Pki;
use weir_conformance::tls::Spec;
use weir_conformance::tools;
use weir_conformance::wait_until;
use weir_lab::load;
use weir_lab::load::LoadError;
use weir_lab::load::plan::CopyIn;
use weir_lab::load::plan::Draw;
use weir_lab::load::plan::Password;
use weir_lab::load::plan::Plan;
use weir_lab::load::plan::Protocol;
use weir_lab::load::plan::Tls;
use weir_lab::load::plan::Transaction;
use weir_lab::null::NullBackend;
use weir_lab::null::NullPlan;
use weir_lab::record::Outcome;

/// Rounds of each generator, by turns.
const ROUNDS: usize = 5;

/// Rounds after which the generators disagree. A busy machine may need more than a quiet one.
const ROUNDS_MAX: usize = 20;

const CLIENTS: u32 = 4;

fn run(plan: &Plan) -> Result<Outcome, LoadError> {
    load::run(plan, &AtomicBool::new(false), &mut |_| {})
}

fn plan(port: u16, each: u64, transactions: Vec<Transaction>) -> Plan {
    Plan {
        clients: CLIENTS,
        threads: 2,
        transactions_per_client: Some(each),
        measure_s: 60.0,
        transactions,
        ..Plan::new(&format!("127.0.0.1:{port}"))
    }
}

// === pgbench ===

/// Enough work for the server that the generators' own work matters little.
const QUERY: &str =
    "SELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 4000";

#[test]
fn agrees_with_pgbench_in_the_simple_protocol() -> Result<()> {
    agree(Protocol::Simple, "simple", 150, false)
}

#[test]
fn agrees_with_pgbench_in_the_prepared_protocol() -> Result<()> {
    agree(Protocol::Prepared, "prepared", 150, false)
}

#[test]
fn agrees_with_pgbench_with_a_login_per_transaction() -> Result<()> {
    agree(Protocol::Extended, "extended", 15, true)
}

/// Runs the same cell with both generators, in alternating rounds. They agree if the ranges of their results overlap:
/// other work of the machine then affects both. `each` is a client's number of transactions per round.
fn agree(protocol: Protocol, word: &str, each: u64, reconnect: bool) -> Result<()> {
    tools::require("pgbench", "postgresql-15 (or postgresql-contrib)")?;
    let postgres = Postgres::shared()?;
    postgres.create_database(word)?;
    tools::run(pgbench(postgres.port(), word).args(["-i", "-q"]))?;
    let directory = TempDir::new()?;
    let script = format!("\\set aid random(1, 90000)\n{QUERY};\n");
    let script = directory.write("script.sql", &script)?;
    let draw = Draw::Uniform {
        min: 1,
        max: 90_000,
    };
    let mut plan = plan(
        postgres.port(),
        each,
        vec![Transaction::new([QUERY]).with("aid", draw)],
    );
    plan.database = word.to_owned();
    plan.protocol = protocol;
    plan.reconnect = reconnect;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS_MAX {
        let outcome = run(&plan)?;
        let wanted = u64::from(CLIENTS) * each;
        ensure!(
            outcome.transactions == wanted && outcome.errors == 0,
            "{outcome:?}"
        );
        ours.push(outcome.tps);
        let mut command = pgbench(postgres.port(), word);
        let (clients, count) = (CLIENTS.to_string(), each.to_string());
        // A thread of pgbench waits for the login of one client, which on a busy machine is what takes the time.
        let threads = if reconnect { &clients } else { "2" };
        command.args([
            "-n", "-M", word, "-j", threads, "-c", &clients, "-t", &count, "-f",
        ]);
        command.arg(&script).args(reconnect.then_some("-C"));
        theirs.push(tps(&tools::run(&mut command)?)?);
        if round >= ROUNDS && Range::of(&ours).overlaps(Range::of(&theirs)) {
            return Ok(());
        }
    }
    let (ours, theirs) = (Range::of(&ours), Range::of(&theirs));
    bail!("ours {ours:?}, pgbench {theirs:?}")
}

#[derive(Debug, Clone, Copy)]
struct Range {
    min: f64,
    max: f64,
}

impl Range {
    fn of(values: &[f64]) -> Self {
        Self {
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(0.0, f64::max),
        }
    }

    /// True if the ranges overlap within 15 %: on a quiet machine they are narrower than the cost of a build without
    /// optimization.
    fn overlaps(self, other: Self) -> bool {
        self.min <= other.max * 1.15 && other.min <= self.max * 1.15
    }
}

fn tps(report: &str) -> Result<f64> {
    let line = report.lines().find_map(|line| line.strip_prefix("tps = "));
    let number = line.and_then(|line| line.split(' ').next());
    Ok(number.with_context(|| report.to_owned())?.parse()?)
}

fn pgbench(port: u16, database: &str) -> Command {
    let mut command = Command::new("timeout");
    let port = port.to_string();
    command.args(["-k", "5", "90", "pgbench", "-h", "127.0.0.1", "-p", &port]);
    command
        .args(["-U", "postgres"])
        .env("LC_ALL", "C")
        .env("PGDATABASE", database)
        .env_remove("PGOPTIONS");
    command
}

// === Logins ===

#[test]
fn every_password_method_with_and_without_tls() -> Result<()> {
    let pki = Pki::new()?;
    let methods = ["password", "md5", "scram-sha-256"];
    // Each role has the name of its method.
    let hba = methods.map(|word| format!("host all \"{word}\" 127.0.0.1/32 {word}"));
    let postgres = Postgres::start(&postgres::Options {
        settings: pki.postgres(&Spec::server())?,
        hba: hba.to_vec(),
        ..postgres::Options::default()
    })?;
    let mut raw = Raw::connect(postgres.port(), "postgres")?;
    for method in methods {
        let stored = if method == "md5" {
            "md5"
        } else {
            "scram-sha-256"
        };
        raw.query(&format!("set password_encryption = '{stored}'"))?;
        raw.query(&format!("create role \"{method}\" login password 'pencil'"))?;
        let mut plan = plan(postgres.port(), 3, vec![Transaction::new(["SELECT 1"])]);
        plan.user = method.to_owned();
        plan.password = Some(Password("pencil".to_owned()));
        plan.reconnect = true;
        let ca_file = pki.ca_file();
        for tls in [Tls::Off, Tls::Require, Tls::VerifyFull { ca_file }] {
            plan.tls = tls;
            let outcome = run(&plan)?;
            ensure!(
                outcome.transactions == 12,
                "{method} {:?} {outcome:?}",
                plan.tls
            );
        }
        plan.reconnect = false;
        plan.password = Some(Password("wrong".to_owned()));
        let error = run(&plan).err().context("a wrong password logs in")?;
        ensure!(error.to_string().ends_with("(28P01)"), "{method}: {error}");
    }
    Ok(())
}

// === Work done ===

#[test]
fn all_that_is_counted_is_in_the_table() -> Result<()> {
    let postgres = Postgres::shared()?;
    postgres.create_database("lab_load")?;
    let mut raw = Raw::connect(postgres.port(), "lab_load")?;
    raw.query("create table t (client text, n bigint)")?;
    raw.query("create table lines (line text)")?;
    let block = Transaction::new([
        "BEGIN",
        "INSERT INTO t VALUES (':text', :n)",
        "SELECT count(*) FROM t WHERE n = :n",
        "COMMIT",
    ])
    .with("n", Draw::Uniform { min: 1, max: 1000 })
    .with("text", Draw::Filler { bytes: 20 });
    let mut plan = plan(postgres.port(), 50, vec![block]);
    plan.database = "lab_load".to_owned();
    let mut rows = 0;
    for (protocol, pipeline) in [
        (Protocol::Simple, 1),
        (Protocol::Extended, 1),
        (Protocol::Prepared, 4),
    ] {
        plan.protocol = protocol;
        plan.pipeline = pipeline;
        // In quotes it is part of the statement's text, which a parameter cannot be.
        let text = match protocol {
            Protocol::Simple => "INSERT INTO t VALUES (':text', :n)",
            _ => "INSERT INTO t VALUES (:text, :n)",
        };
        plan.transactions[0].statements[1].sql = text.to_owned();
        let outcome = run(&plan)?;
        ensure!(
            outcome.transactions == 200 && outcome.errors == 0,
            "{outcome:?}"
        );
        rows += 200;
        let count = raw.query_one("select count(*) from t where client = repeat('x', 20)")?;
        ensure!(count == rows.to_string(), "{count} rows instead of {rows}");
    }
    copies(&mut raw, &mut plan)
}

fn copies(raw: &mut Raw, plan: &mut Plan) -> Result<()> {
    let mut copy_in = Transaction::new(["COPY lines FROM STDIN"]);
    copy_in.statements[0].copy_in = Some(CopyIn {
        bytes: 1_000_000,
        line: 100,
    });
    plan.transactions = vec![copy_in];
    plan.transactions_per_client = Some(1);
    let outcome = run(plan)?;
    ensure!(
        outcome.transactions == 4 && outcome.errors == 0,
        "{outcome:?}"
    );
    let lines = raw.query_one("select count(*) from lines where length(line) = 99")?;
    ensure!(lines == "40000", "{lines} lines");
    plan.transactions = vec![Transaction::new(["COPY lines TO STDOUT"])];
    let outcome = run(plan)?;
    let bytes = outcome.bytes_per_s.context("no bytes")? * outcome.seconds;
    ensure!((bytes - 4.0 * 4_000_000.0).abs() < 1.0, "{bytes} bytes");
    Ok(())
}

#[test]
fn failed_transactions_are_rolled_back_and_counted_by_code() -> Result<()> {
    let postgres = Postgres::shared()?;
    let failing = Transaction::new(["BEGIN", "SELECT 1 / :zero", "COMMIT"])
        .with("zero", Draw::Uniform { min: 0, max: 0 });
    let fine = Transaction::new(["SELECT 1"]);
    let mut plan = plan(postgres.port(), 50, vec![failing, fine]);
    for (protocol, pipeline) in [(Protocol::Simple, 1), (Protocol::Prepared, 3)] {
        plan.protocol = protocol;
        plan.pipeline = pipeline;
        let outcome = run(&plan)?;
        ensure!(outcome.transactions + outcome.errors == 200, "{outcome:?}");
        let codes: Vec<_> = outcome.errors_by_code.iter().collect();
        ensure!(
            codes == [(&"22012".to_owned(), &outcome.errors)],
            "{outcome:?}"
        );
        ensure!(
            outcome.transactions > 50 && outcome.errors > 50,
            "{outcome:?}"
        );
    }
    Ok(())
}

// === The null backend ===

#[test]
fn a_pooler_in_front_of_the_null_backend_serves_as_in_front_of_postgresql() -> Result<()> {
    let backend = NullBackend::start(&NullPlan {
        rows: 42,
        ..NullPlan::default()
    })?;
    let kind = Kind::from_env()?;
    let options = PoolOptions::default().pool_size(3);
    let mut target = Target::start_kind(kind, backend.address().port(), &options)?;
    let transactions = vec![
        Transaction::new(["SELECT :a"]).with("a", Draw::Uniform { min: 1, max: 9 }),
        Transaction::new(["BEGIN", "SELECT 1", "UPDATE t SET a = 1", "COMMIT"]),
        Transaction::new(["SET work_mem = '1MB'", "SELECT 1"]),
    ];
    let mut plan = plan(target.port(), 50, transactions);
    plan.parameters = vec![("application_name".to_owned(), "lab".to_owned())];
    // Debian's PgBouncer does not support prepared statements.
    let protocols = match kind {
        Kind::PgBouncer => &[Protocol::Simple, Protocol::Extended][..],
        _ => &[Protocol::Simple, Protocol::Extended, Protocol::Prepared],
    };
    let mut wanted = 0;
    for (protocol, reconnect) in protocols
        .iter()
        .flat_map(|one| [(*one, false), (*one, true)])
    {
        plan.protocol = protocol;
        plan.reconnect = reconnect;
        let outcome = run(&plan)?;
        ensure!(
            outcome.transactions == 200 && outcome.errors == 0,
            "{outcome:?}"
        );
        wanted += 200;
        wait_until(
            "the same count on both sides",
            Duration::from_secs(5),
            || {
                let count = backend.counts().transactions;
                // Weir sets a client's settings in separate transactions.
                Ok(count == wanted || kind == Kind::Weir && count > wanted)
            },
        )?;
        // Rows arrive complete.
        let bytes = outcome.bytes_per_s.context("no rows")? * outcome.seconds;
        ensure!(bytes > 200.0 * 42.0 * 106.0 * 0.9, "{bytes} bytes");
    }
    let logins = backend.counts().logins;
    ensure!(
        kind == Kind::Direct || logins <= 3,
        "{logins} logins for a pool of 3"
    );
    target.check_healthy()
}
