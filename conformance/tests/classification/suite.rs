//! PostgreSQL's own regression suite, over a primary and a standby.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::{Arc, PoisonError};
use std::thread;

use anyhow::{Result, ensure};
use weir_conformance::cluster::LIMIT;
use weir_conformance::{Cluster, Raw, TempDir, psql, tools};

use super::report::{Fault, Report};
use super::session::{Shared, serve};

/// Hosts, and a unix socket in front of them whose clients' texts are judged and compared.
struct World {
    directory: TempDir,
    shared: Arc<Shared>,
    // Dropped last: the sessions end with their sockets.
    _cluster: Cluster,
}

impl World {
    fn start() -> Result<Self> {
        let cluster = Cluster::start(1, &["max_connections = 100"])?;
        cluster.set(1, "statement_timeout", "30s")?;
        cluster.set(1, "max_standby_streaming_delay", "0")?;
        let shared = Shared::new(cluster.primary().port(), cluster.replica(1).port())?;
        let shared = Arc::new(shared);
        let directory = TempDir::new()?;
        let socket = directory.path().join(".s.PGSQL.5432");
        let listener = UnixListener::bind(&socket)?;
        // The suite runs as another user if this one is root.
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o777))?;
        let all = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&all);
                thread::spawn(move || {
                    if let Err(error) = serve(client, shared) {
                        println!("session: {error:#}");
                    }
                });
            }
        });
        Ok(Self {
            directory,
            shared,
            _cluster: cluster,
        })
    }

    fn report(&self) -> Report {
        let mut report = self
            .shared
            .report
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut report)
    }
}

/// Scripts of the suite that run unless `WEIR_CLASSIFY_ALL` is set: the whole takes minutes.
const SOME: &str = "select select_distinct join aggregates subselect union case with window create_function_sql \
    rangefuncs jsonb strings numeric timestamp arrays rowtypes create_view sequence prepare portals";

/// True if all scripts of the suite run.
fn is_whole() -> bool {
    std::env::var_os("WEIR_CLASSIFY_ALL").is_some()
}

/// Runs the suite, and returns what the verdicts of its texts are worth.
fn run() -> Result<Report> {
    let world = World::start()?;
    let directory = &world.directory;
    let through = format!("{}:5432", directory.path().display());
    let mut script = Command::new("setpriv");
    script.args(["--pdeathsig", "TERM"]);
    script.arg(tools::workspace().join("conformance/regress/run"));
    script.args(["--through", &through, "--limit", "1800"]);
    if !is_whole() {
        script.args(["--tests", SOME]);
    }
    // The output of some tests is about their own connection; no test of this file looks at it.
    let (output, _) = tools::run_any(&mut script)?;
    println!("{}", output.lines().take(6).collect::<Vec<_>>().join("\n"));
    let mut own = psql::psql(5432, "postgres")?;
    own.arg("-h").arg(directory.path()).arg("-f");
    own.arg(tools::workspace().join("crates/sql/testdata/session.sql"));
    tools::run_any(&mut own)?;
    Ok(world.report())
}

/// PostgreSQL's regression suite and our own corpus: a text that is held to read runs on a standby, and does the same
/// there.
#[test]
fn rt_11_what_is_held_to_read_runs_on_a_standby() -> Result<()> {
    let report = run()?;
    report.print();
    let reads = report.verdicts.get("read").copied().unwrap_or_default();
    let enough = if is_whole() { 8_000 } else { 2_000 };
    ensure!(
        reads > enough && report.compared > enough,
        "the suite did not run: {reads} reads"
    );
    let findings = &report.findings;
    ensure!(
        findings.is_empty(),
        "{} texts are misjudged: {findings:#?}",
        findings.len()
    );
    Ok(())
}

/// Objects that write, lock or look at the host where no name shows it. All functions that do so directly are VOLATILE;
/// `sly` and the others are declared STABLE or are called without their names.
const PLANTED: &str = "
    CREATE TABLE calls (a int); CREATE TABLE t AS SELECT 1 AS a; CREATE TABLE guarded AS SELECT 1 AS a;
    CREATE SEQUENCE s;
    CREATE FUNCTION put(a int) RETURNS int LANGUAGE sql AS 'INSERT INTO calls VALUES ($1) RETURNING 1';
    CREATE FUNCTION put(state int, a int) RETURNS int LANGUAGE sql AS 'INSERT INTO calls VALUES ($2) RETURNING 1';
    CREATE FUNCTION of_row(t) RETURNS int LANGUAGE sql AS 'INSERT INTO calls VALUES (1) RETURNING 1';
    CREATE FUNCTION sly(a int) RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN put(a); END';
    CREATE FUNCTION fixed() RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN nextval(''s''); END';
    CREATE FUNCTION locks() RETURNS text LANGUAGE plpgsql STABLE
        AS 'BEGIN PERFORM pg_advisory_lock_shared(5); RETURN ''locked''; END';
    CREATE FUNCTION place() RETURNS bool LANGUAGE plpgsql STABLE AS 'BEGIN RETURN pg_is_in_recovery(); END';
    CREATE OPERATOR !! (rightarg = int, function = put);
    CREATE TYPE made AS (a int);
    CREATE FUNCTION to_made(a int) RETURNS made LANGUAGE sql AS 'INSERT INTO calls VALUES ($1) RETURNING ROW(1)::made';
    CREATE CAST (int AS made) WITH FUNCTION to_made(int);
    CREATE DOMAIN checked AS int CHECK (put(VALUE) > 0);
    CREATE AGGREGATE putting(int) (sfunc = put, stype = int, initcond = 0);
    CREATE VIEW view_of_operator AS SELECT !! a AS a FROM t;
    CREATE ROLE reader; GRANT ALL ON ALL TABLES IN SCHEMA public TO reader;
    ALTER TABLE guarded ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON guarded USING (put(a) > 0);
    SELECT nextval('s')";

/// Texts that are held to read and do something else, by cause. On a standby those that write fail without an effect, so
/// they can be repeated on the primary. Nothing helps against a lock or a look at the host in a function that is declared
/// STABLE, except the list `primary_functions`.
const UNSEEN: [(&str, &str, Fault); 10] = [
    ("STABLE function", "SELECT sly(1)", Fault::Refused),
    ("IMMUTABLE function", "SELECT fixed()", Fault::Refused),
    ("operator", "SELECT !! 1", Fault::Refused),
    ("cast", "SELECT 1::made", Fault::Refused),
    ("domain", "SELECT 1::checked", Fault::Refused),
    ("aggregate", "SELECT putting(a) FROM t", Fault::Refused),
    ("attribute", "SELECT t.of_row FROM t", Fault::Refused),
    ("view", "SELECT * FROM view_of_operator", Fault::Refused),
    (
        "STABLE function with a lock",
        "SELECT locks()",
        Fault::Locks,
    ),
    (
        "STABLE function of the host",
        "SELECT place()",
        Fault::Differs,
    ),
];

/// Proves that the comparison sees each kind of misjudgement, and lists the causes that no text shows.
#[test]
fn what_no_text_shows_is_seen_by_the_comparison() -> Result<()> {
    let world = World::start()?;
    let mut client = Raw::unix(world.directory.path(), 5432, LIMIT)?;
    client.login(&[("user", "postgres"), ("database", "postgres")])?;
    client.query(PLANTED)?;
    // A text is compared when its answer has been sent, and before the next text is read.
    for (cause, text, fault) in UNSEEN {
        client.query(text)?;
        client.query("")?;
        let report = world.report();
        let found: Vec<Fault> = report
            .findings
            .iter()
            .map(|finding| finding.fault)
            .collect();
        ensure!(found.contains(&fault), "{cause}: {text}: {report:?}");
    }
    client.query("SET ROLE reader")?;
    client.query("SELECT * FROM guarded")?;
    client.query("")?;
    let report = world.report();
    ensure!(report.findings.len() == 2, "policy: {report:?}");
    client.query("RESET ROLE")?;
    client.query("SELECT a FROM t; SELECT upper('a')")?;
    client.query("")?;
    let report = world.report();
    ensure!(
        report.findings.is_empty() && report.compared == 1,
        "{report:?}"
    );
    Ok(())
}
