//! psql scripts have the same output through the target and from PostgreSQL itself; Ctrl-C cancels.

use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use anyhow::ensure;
use rustix::pty::OpenptFlags;
use rustix::pty::grantpt;
use rustix::pty::openpt;
use rustix::pty::ptsname;
use rustix::pty::unlockpt;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Target;
use weir_conformance::TempDir;
use weir_conformance::psql::psql;
use weir_conformance::tools;
use weir_conformance::wait_until;

#[test]
fn basics_look_the_same() -> Result<()> {
    compare("basics")
}

#[test]
fn copy_looks_the_same() -> Result<()> {
    compare("copy")
}

#[test]
fn cursors_look_the_same() -> Result<()> {
    compare("cursors")
}

#[test]
fn transactions_look_the_same() -> Result<()> {
    compare("transactions")
}

#[test]
fn large_objects_look_the_same() -> Result<()> {
    compare("large_objects")
}

#[test]
fn big_results_look_the_same() -> Result<()> {
    compare("big")
}

#[test]
fn interrupt_cancels_the_statement_and_keeps_the_connection() -> Result<()> {
    let postgres = Postgres::shared()?;
    let mut target = Target::start(&postgres, &PoolOptions::default().pool_size(2))?;
    let mut terminal = Terminal::start(target.port())?;
    terminal.write("select 'rea' || 'dy';\n")?;
    terminal.read_past("ready")?;
    terminal.write("select pg_sleep(30);\n")?;
    wait_for_sleep(postgres.port())?;

    terminal.write("\u{3}")?;
    // Without the cancel the result would arrive after half a minute.
    terminal.read_past("canceling statement due to user request")?;
    terminal.write("select 'still ' || 'usable';\n")?;
    terminal.read_past("still usable")?;
    terminal.write("\\q\n")?;
    let status = terminal.child.wait()?;
    ensure!(status.success(), "psql ended with {status}");
    target.check_healthy()
}

/// psql on a pseudo terminal, because only there it continues after Ctrl-C.
struct Terminal {
    child: Child,
    input: fs::File,
    output: BufReader<fs::File>,
}

impl Terminal {
    fn start(port: u16) -> Result<Self> {
        tools::require("setsid", "util-linux")?;
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&keyboard)?;
        unlockpt(&keyboard)?;
        let name = ptsname(&keyboard, Vec::new())?.into_string()?;
        let screen = fs::File::options().read(true).write(true).open(name)?;
        let psql = psql(port, "postgres")?;
        // setsid becomes psql, which then leads a session of its own on the terminal: its status is psql's.
        let child = Command::new("setsid")
            .args(["--ctty", "psql", "-n", "-A", "-t", "-P", "pager=off"])
            .args(psql.get_args())
            .env("LC_ALL", "C")
            .stdin(screen.try_clone()?)
            .stdout(screen.try_clone()?)
            .stderr(screen)
            .spawn()?;
        let input = fs::File::from(keyboard);
        let output = BufReader::new(input.try_clone()?);
        Ok(Self {
            child,
            input,
            output,
        })
    }

    fn write(&mut self, keys: &str) -> Result<()> {
        self.input.write_all(keys.as_bytes())?;
        Ok(self.input.flush()?)
    }

    /// Reads lines until one contains `text`; the echo of the input never does. Bounded by `pg_sleep(30)`.
    fn read_past(&mut self, text: &str) -> Result<()> {
        let mut seen = String::new();
        while !seen.contains(text) {
            let read = self.output.read_line(&mut seen)?;
            ensure!(read > 0, "psql ended without {text:?}:\n{seen}");
        }
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn wait_for_sleep(postgres_port: u16) -> Result<()> {
    let mut watcher = Raw::connect(postgres_port, "postgres")?;
    let active = "select count(*) from pg_stat_activity where query like 'select pg_sleep%' \
                  and state = 'active'";
    wait_until("the start of pg_sleep", Duration::from_secs(10), || {
        Ok(watcher.query_one(active)? == "1")
    })
}

/// Runs `psql/NAME.sql` in a fresh database directly and in another through the target.
fn compare(name: &str) -> Result<()> {
    let postgres = Postgres::shared()?;
    let mut target = Target::start(&postgres, &PoolOptions::default().pool_size(2))?;
    let database = format!("psql_{name}");
    let run = |port| -> Result<String> {
        postgres.create_database(&database)?;
        transcript(port, &database, name)
    };
    let expected = run(postgres.port())?;
    // The pooler still holds servers of the old database when names repeat, so the second run has its own.
    let database = format!("psql_{name}_again");
    postgres.create_database(&database)?;
    let actual = transcript(target.port(), &database, name)?;
    for transcript in [&expected, &actual] {
        ensure!(
            transcript.contains("\nend of script\n"),
            "psql ended early:\n{transcript}"
        );
    }
    target.check_healthy()?;
    ensure!(
        expected == actual,
        "{name} differs:\n{}",
        difference(&expected, &actual)?
    );
    Ok(())
}

fn transcript(port: u16, database: &str, name: &str) -> Result<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("psql")
        .join(name)
        .with_extension("sql");
    let scratch = TempDir::new()?;
    let log = scratch.path().join("transcript");
    let file = fs::File::create(&log)?;
    let mut psql = psql(port, database)?;
    // Relative names, so that file names in messages are equal in both runs.
    psql.args(["-a", "-v", "out=object"])
        .current_dir(scratch.path());
    psql.stdin(fs::File::open(script)?)
        .stdout(file.try_clone()?)
        .stderr(file);
    psql.status()?;
    let text = String::from_utf8_lossy(&fs::read(log)?).into_owned();
    Ok(text.lines().map(mask).collect())
}

/// Masks text that differs between two databases: oids that the server chose.
fn mask(line: &str) -> String {
    match line.strip_prefix("lo_import ") {
        Some(_) => "lo_import OID\n".to_owned(),
        None => format!("{line}\n"),
    }
}

fn difference(expected: &str, actual: &str) -> Result<String> {
    let scratch = TempDir::new()?;
    let (direct, through) = (
        scratch.write("direct", expected)?,
        scratch.write("through", actual)?,
    );
    tools::require("diff", "diffutils")?;
    let (text, _) = tools::run_any(Command::new("diff").arg("-u").arg(direct).arg(through))?;
    Ok(text.chars().take(4000).collect())
}
