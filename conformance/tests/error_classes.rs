//! Drivers sort errors by their code. What they make of Weir's codes is what the reference page says, and what they make
//! of Weir's errors is what they make of PgBouncer's for the same events, with two exceptions.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Weir;
use weir_conformance::drivers;
use weir_conformance::frontend::message;
use weir_conformance::scripted::Scripted;
use weir_conformance::tools;

const DRIVERS: [&str; 3] = ["psycopg", "pgx", "pgjdbc"];

/// Program of a driver with its arguments, before it is told where to connect.
fn program(driver: &str, task: &str) -> Result<Command> {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "120"]);
    match driver {
        "psycopg" => {
            let built = drivers::python()?;
            command.arg(built.join("venv/bin/python"));
            command.args([built.join("with_errors.py")]).arg(task);
        }
        "pgx" => {
            command.arg(drivers::go()?.join("drivers"));
            command.args(["errors", task]);
        }
        _ => {
            let classpath = drivers::java()?;
            command.args(["java", "-Xmx256m", "-cp", &classpath, "Errors", task]);
        }
    }
    Ok(command)
}

/// Lines of a program as a map from the first word to the others.
fn answers(command: &mut Command, port: u16) -> Result<BTreeMap<String, String>> {
    drivers::connect_to(command, port, "postgres");
    let output = tools::run(command)?;
    let lines = output.lines().filter_map(|line| line.split_once(' '));
    Ok(lines
        .map(|(name, rest)| (name.to_owned(), rest.trim().to_owned()))
        .collect())
}

/// Rows of the table "What drivers make of a code": code, class in psycopg, next host of pgx, closed by HikariCP.
fn reactions() -> Result<Vec<[String; 4]>> {
    let page = tools::workspace().join("docs/reference/errors.md");
    let page = fs::read_to_string(page)?;
    let (_, section) = page
        .split_once("## What drivers make of a code")
        .context("the page has no such section")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let cells = |line: &str| {
        let cells = line.trim_matches('|').split('|');
        let cells: Vec<String> = cells.map(|cell| cell.trim().to_owned()).collect();
        <[String; 4]>::try_from(cells).map_err(|cells| anyhow!("{cells:?}"))
    };
    let rows = section.lines().filter(|line| line.starts_with("| "));
    rows.skip(1).map(cells).collect()
}

#[test]
fn drivers_make_of_each_code_what_the_page_says() -> Result<()> {
    let rows = reactions()?;
    ensure!(rows.len() > 20, "{rows:?}");
    let codes: Vec<&str> = rows.iter().map(|[code, ..]| code.as_str()).collect();
    let postgres = Postgres::shared()?;
    // Refuses each login with the code that is the client's application name.
    let refusing = Scripted::start(|conversation| {
        let startup = conversation.startup()?;
        let mut words = startup.split(|byte| *byte == 0);
        words.find(|word| *word == b"application_name");
        let code = words.next().context("no application_name")?;
        let body = [b"SFATAL\0VFATAL\0C", code, b"\0Mrefused\0\0"].concat();
        Ok(conversation.send(&message(b'E', &body))?)
    })?;
    let classes = answers(program("psycopg", "codes")?.args(&codes), postgres.port())?;
    let evicts = answers(program("pgjdbc", "codes")?.args(&codes), postgres.port())?;
    let ports = format!("{},{}", refusing.port(), postgres.port());
    let mut pgx = program("pgx", "hosts")?;
    let hosts = answers(pgx.arg(ports).args(&codes), postgres.port())?;
    for [code, class, host, evict] in &rows {
        let word = |cell: &str| if cell.is_empty() { "no" } else { "yes" }.to_owned();
        let found = [&classes, &hosts, &evicts].map(|answers| answers.get(code).cloned());
        let wanted = [class.clone(), word(host), word(evict)].map(Some);
        ensure!(found == wanted, "{code}: {found:?}, not {wanted:?}");
    }
    Ok(())
}

/// Something that happens to a client, and how the poolers tell it.
struct Event {
    name: &'static str,
    /// Alias in `[databases]`, and what the client does there: `\sleep`, `\console` or SQL; none connects only.
    database: &'static str,
    steps: &'static str,
    /// SQLSTATE from Weir. PgBouncer's is 08P01.
    code: &'static str,
    /// Class in psycopg, if it is not the one of PgBouncer's error.
    psycopg: Option<&'static str>,
}

const fn event(
    name: &'static str,
    database: &'static str,
    steps: &'static str,
    code: &'static str,
) -> Event {
    Event {
        name,
        database,
        steps,
        code,
        psycopg: None,
    }
}

/// Configuration with a database for each event at which a client does something.
fn config(port: u16) -> Config {
    let mut config = Config::new().set("ignore_startup_parameters", "extra_float_digits");
    for name in ["plain", "off", "kill_psycopg", "kill_pgx", "kill_pgjdbc"] {
        config = config.database(&format!(
            "{name} = host=127.0.0.1 port={port} dbname=postgres"
        ));
    }
    config
        .database(&format!(
            "statements = host=127.0.0.1 port={port} dbname=postgres pool_mode=statement"
        ))
        .database("down = host=127.0.0.1 port=1")
}

/// Lets each driver meet the events, and compares what it makes of them with PgBouncer's.
fn compare(config: &Config, events: &[Event], prepare: impl Fn(&Weir) -> Result<()>) -> Result<()> {
    let pgbouncer = Weir::start_pgbouncer(config)?;
    let mut weir = Weir::start(config)?;
    prepare(&pgbouncer).context("PgBouncer")?;
    prepare(&weir).context("Weir")?;
    thread::scope(|scope| {
        let threads = DRIVERS.map(|driver| {
            let (pgbouncer, weir) = (&pgbouncer, &weir);
            scope.spawn(move || {
                let theirs = meet(driver, pgbouncer, events).context("PgBouncer")?;
                let ours = meet(driver, weir, events).context("Weir")?;
                judge(driver, events, &theirs, &ours)
            })
        });
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a driver panicked"))??;
        }
        anyhow::Ok(())
    })
    .with_context(|| tools::tail(&weir.log(), 20))?;
    weir.check_healthy()
}

fn meet(driver: &str, pooler: &Weir, events: &[Event]) -> Result<BTreeMap<String, String>> {
    let mut command = program(driver, "events")?;
    for event in events {
        let port = pooler.port();
        let database = event.database.replace("DRIVER", driver);
        let steps = event.steps.replace("DRIVER", driver);
        command.arg(format!("{}/{port}/{database}/{steps}", event.name));
    }
    answers(&mut command, pooler.port())
}

fn judge(
    driver: &str,
    events: &[Event],
    theirs: &BTreeMap<String, String>,
    ours: &BTreeMap<String, String>,
) -> Result<()> {
    for event in events {
        let words = |answers: &BTreeMap<String, String>| {
            let answer = answers.get(event.name).context("no answer")?;
            let (class, code) = answer.split_once(' ').unwrap_or((answer.as_str(), "None"));
            anyhow::Ok((class.to_owned(), code.to_owned()))
        };
        let (theirs, ours) = (words(theirs)?, words(ours)?);
        let about = format!(
            "{driver}, {}: {theirs:?} by PgBouncer, {ours:?}",
            event.name
        );
        let wanted = event
            .psycopg
            .filter(|_| driver == "psycopg")
            .unwrap_or(&theirs.0);
        ensure!(ours.0 == wanted, "{about}");
        // psycopg has no code of a failed login.
        ensure!(["08P01", "None"].contains(&theirs.1.as_str()), "{about}");
        ensure!(
            ours.1 == event.code || theirs.1 == "None" && ours.1 == "None",
            "{about}"
        );
        if driver == "psycopg" {
            ensure!(theirs.0 == "OperationalError", "{about}");
        }
    }
    Ok(())
}

#[test]
fn refused_logins_and_orders_of_operators_keep_their_class() -> Result<()> {
    let postgres = Postgres::shared()?;
    let config = config(postgres.port()).set("query_wait_timeout", "2");
    let events = [
        event("unknown", "nowhere", "select 1", "3D000"),
        event("disabled", "off", "select 1", "55000"),
        event("down", "down", "select 1", "53300"),
        event(
            "killed",
            "kill_DRIVER",
            "select 1;\\console KILL kill_DRIVER;select 1",
            "57P01",
        ),
        Event {
            psycopg: Some("NotSupportedError"),
            ..event("statements", "statements", "begin", "0A000")
        },
    ];
    compare(&config, &events, |pooler| {
        let mut console = pooler.connect("pgbouncer")?;
        console.query("DISABLE off").map(drop)
    })
}

/// Compares an event of a client that comes while another one has logged in and sent these statements.
fn compare_beside(config: &Config, first: &[&str], event: Event) -> Result<()> {
    let holders = Mutex::new(Vec::new());
    compare(config, &[event], |pooler| {
        let mut holder = pooler.connect("plain")?;
        for sql in first {
            holder.query(sql)?;
        }
        holders
            .lock()
            .map_err(|_| anyhow!("poisoned"))?
            .push(holder);
        Ok(())
    })
}

#[test]
fn a_full_pooler_keeps_its_class() -> Result<()> {
    let postgres = Postgres::shared()?;
    let config = config(postgres.port()).set("max_client_conn", "1");
    compare_beside(&config, &[], event("full", "plain", "select 1", "53300"))
}

#[test]
fn a_pool_without_a_free_server_keeps_its_class() -> Result<()> {
    let postgres = Postgres::shared()?;
    let config = config(postgres.port())
        .set("default_pool_size", "1")
        .set("query_wait_timeout", "1");
    let event = event("no_server", "plain", "select 1", "53300");
    compare_beside(&config, &["begin"], event)
}

#[test]
fn time_limits_keep_their_class_where_postgresql_has_no_code_of_its_own() -> Result<()> {
    let postgres = Postgres::shared()?;
    let config = config(postgres.port())
        .set("query_timeout", "1")
        .set("idle_transaction_timeout", "1")
        .set("client_idle_timeout", "3");
    let events = [
        event("slow", "plain", "select pg_sleep(30)", "57014"),
        event("idle", "plain", "select 1;\\sleep 5;select 1", "57P05"),
        Event {
            psycopg: Some("InternalError"),
            ..event("idle_block", "plain", "begin;\\sleep 2.5;select 1", "25P03")
        },
    ];
    compare(&config, &events, |_| Ok(()))
}
