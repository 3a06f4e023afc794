//! Query rules in front of a real PostgreSQL, beside the same conversation on a direct connection.

#![allow(
    clippy::indexing_slicing,
    reason = "a panic in a test is a failure, and is wanted"
)]

use std::sync::Arc;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::frontend;
use weir_conformance::tools;

#[path = "rules/actions.rs"]
mod actions;
#[path = "rules/lists.rs"]
mod lists;

#[path = "rules/databases.rs"]
mod databases;

#[path = "rules/examples.rs"]
mod examples;

#[path = "rules/mirrors.rs"]
mod mirrors;

const RULES: &str = r#"
[[rules]]
name = "stop-report"
match.fingerprint = "SELECT * FROM report WHERE id = 42"
action = "reject"
message = "the report is disabled until Monday"
sqlstate = "57014"
hint = "ask the DBA"

[[rules]]
name = "no-truncate"
match.kind = "ddl"
match.tables = "audit"
action = "reject"
"#;

/// Error of the first rule.
const STOPPED: &str = "ERROR 57014 the report is disabled until Monday";

/// A message in a line: its tag, and what tells answers apart.
fn line(message: &weir_conformance::raw::Message) -> String {
    match message.tag {
        b'E' => message.error(),
        tag => format!(
            "{} {}",
            char::from(tag),
            String::from_utf8_lossy(&message.body)
        ),
    }
}

struct World {
    _postgres: Arc<Postgres>,
    weir: Weir,
    port: u16,
    database: String,
}

impl World {
    fn start(database: &str) -> Result<Self> {
        Self::with_rules(database, RULES)
    }

    /// Starts Weir with these rules in front of a database of this name.
    fn with_rules(database: &str, rules: &str) -> Result<Self> {
        let postgres = Postgres::shared()?;
        postgres.create_database(database)?;
        let mut direct = Raw::connect(postgres.port(), database)?;
        direct.query("create table report (id int, name text)")?;
        direct.query("create table audit (id int)")?;
        let port = tools::free_port()?;
        let text = format!(
            "listen_addr = \"127.0.0.1\"\nlisten_port = {port}\nunix_socket_dir = \"\"\nauth_type = \"any\"\n\
             pool_mode = \"transaction\"\nadmin_users = [\"postgres\"]\n\
             [databases.\"*\"]\nhost = \"127.0.0.1\"\nport = {}\nuser = \"postgres\"\n{rules}",
            postgres.port()
        );
        let weir = Weir::start_text("weir.toml", &text, port)?;
        Ok(Self {
            port: postgres.port(),
            _postgres: postgres,
            weir,
            database: database.to_owned(),
        })
    }

    /// Answers to some requests, sent one by one, through Weir and directly. Directly, a statement that fails with 22P02 stands
    /// in the place of one that is rejected.
    fn both(&self, requests: &[Vec<u8>], direct: &[Vec<u8>]) -> Result<(Vec<String>, Vec<String>)> {
        let answers = |mut raw: Raw, requests: &[Vec<u8>]| -> Result<Vec<String>> {
            let mut lines = Vec::new();
            for request in requests {
                lines.extend(raw.ask(request)?.iter().map(line));
            }
            Ok(lines)
        };
        let through = answers(self.weir.connect(&self.database)?, requests)?;
        let direct = answers(Raw::connect(self.port, &self.database)?, direct)?;
        Ok((through, direct))
    }
}

const REPORT: &str = "select *\n  from Report -- of the month\n where id = 7";
const FAILS: &str = "select ''::int4";

fn query(text: &str) -> Vec<u8> {
    frontend::query(text)
}

fn batch(text: &str) -> Vec<u8> {
    let mut batch = frontend::parse("", text, &[]);
    batch.extend(frontend::bind("", "", &[]));
    batch.extend(frontend::execute("", 0));
    batch.extend(frontend::sync());
    batch
}

/// Replaces the error of the statement that fails directly.
fn stopped(lines: Vec<String>) -> Vec<String> {
    let replaced = lines.into_iter().map(|line| match line.contains("22P02") {
        true => STOPPED.to_owned(),
        false => line,
    });
    replaced.collect()
}

#[test]
fn rt_46_a_rejected_statement_is_like_one_that_fails_in_all_protocols() -> Result<()> {
    let world = World::start("rules_reject")?;
    for request in [query, batch] {
        for script in [
            vec!["STOP"],
            vec![
                "begin",
                "insert into audit values (1)",
                "STOP",
                "select 1",
                "rollback",
                "select count(*) from audit",
            ],
            vec![
                "begin",
                "savepoint a",
                "STOP",
                "select 1",
                "rollback to a",
                "select 2",
                "commit",
            ],
            vec!["begin", "STOP", "commit", "select 3"],
        ] {
            let requests = |stop: &str| -> Vec<Vec<u8>> {
                let texts = script
                    .iter()
                    .map(|text| if *text == "STOP" { stop } else { text });
                texts.map(request).collect()
            };
            let (through, direct) = world.both(&requests(REPORT), &requests(FAILS))?;
            assert_eq!(through, stopped(direct), "{script:?}");
        }
    }
    Ok(())
}

#[test]
fn rt_46_in_a_pipeline_the_batches_around_it_succeed() -> Result<()> {
    let world = World::start("rules_pipeline")?;
    for script in [
        ["select 1", "STOP", "select 2"],
        ["STOP", "select 1", "STOP"],
    ] {
        let pipeline = |stop: &str| -> Vec<u8> {
            let texts = script
                .iter()
                .map(|text| if *text == "STOP" { stop } else { text });
            texts.flat_map(batch).collect()
        };
        let read = |mut raw: Raw, bytes: Vec<u8>| -> Result<Vec<String>> {
            raw.send(&bytes)?;
            let mut lines = Vec::new();
            for _ in 0..3 {
                lines.extend(raw.read_until_ready()?.iter().map(line));
            }
            Ok(lines)
        };
        let through = read(world.weir.connect(&world.database)?, pipeline(REPORT))?;
        let direct = read(Raw::connect(world.port, &world.database)?, pipeline(FAILS))?;
        assert_eq!(through, stopped(direct), "{script:?}");
    }
    Ok(())
}

#[test]
fn rt_46_however_the_statement_is_written_and_nothing_else() -> Result<()> {
    let world = World::start("rules_written")?;
    let mut client = world.weir.connect(&world.database)?;
    for text in [
        "SELECT * FROM report WHERE id = 42",
        "select*from report where id=$$42$$",
        "/* a */ select * from \"report\" where id = E'4\\x32';",
        "select * from report where id = U&'4\\0032'",
        "select 1; select * from report where id = 1",
    ] {
        let answer = client.ask(&query(text))?;
        assert_eq!(line(&answer[0]), STOPPED, "{text}");
        assert_eq!(answer[0].field(b'H').as_deref(), Some("ask the DBA"));
    }
    for text in [
        "select * from report",
        "select * from report where id = 1 limit 1",
        "truncate report",
    ] {
        client.query(text)?;
    }
    let refused = client.ask(&query("truncate audit"))?;
    assert_eq!(
        line(&refused[0]),
        "ERROR 42501 statement rejected by rule no-truncate"
    );
    let mut console = world.weir.connect("pgbouncer")?;
    let rules = console.query_named("SHOW RULES")?;
    let hits: Vec<_> = rules
        .iter()
        .map(|rule| (&*rule["name"], &*rule["hits"]))
        .collect();
    assert_eq!(hits, [("stop-report", "5"), ("no-truncate", "1")]);
    Ok(())
}

#[test]
fn what_meets_no_rule_is_answered_byte_for_byte_as_directly() -> Result<()> {
    let world = World::start("rules_else")?;
    let requests: Vec<_> = [
        "select 1 as a",
        "insert into report values (1, 'x')",
        "select * from report",
        "select 1/0",
    ]
    .iter()
    .flat_map(|text| [query(text), batch(text)])
    .collect();
    let (through, direct) = world.both(&requests, &requests)?;
    // The second conversation finds the rows of the first one.
    let alike = |lines: &[String]| {
        lines
            .iter()
            .filter(|line| !line.starts_with("C SELECT") && !line.starts_with("D "))
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(alike(&through), alike(&direct));
    ensure!(through.len() > 20, "{through:?}");
    Ok(())
}

#[test]
fn rt_47_a_reload_of_rules_with_a_mistake_changes_nothing() -> Result<()> {
    let world = World::start("rules_reload")?;
    let mut client = world.weir.connect(&world.database)?;
    let mut console = world.weir.connect("pgbouncer")?;
    let file = world.weir.directory().join("weir.toml");
    let good = std::fs::read_to_string(&file)?;
    let mut first = |text: &str| -> Result<String> { Ok(line(&client.ask(&query(text))?[0])) };
    // The rules in front of the mistake would let the report run, and reject all else.
    let other = "[[rules]]\nname = \"other\"\nmatch.kind = \"select\"\naction = \"reject\"\n";
    let open = good
        .replace("stop-report", "open")
        .replace("SELECT * FROM report WHERE id = 42", "SELECT 3");
    let bad = format!(
        "{open}{other}[[rules]]\nname = \"bad\"\nmatch.text = \"(\"\naction = \"reject\"\n"
    );
    std::fs::write(&file, bad)?;
    let told = line(&console.ask(&query("RELOAD"))?[0]);
    ensure!(told.starts_with("ERROR"), "{told}");
    assert_eq!(first("select * from report where id = 7")?, STOPPED);
    assert_eq!(
        first("truncate audit")?,
        "ERROR 42501 statement rejected by rule no-truncate"
    );
    assert_ne!(
        first("select 1")?,
        "ERROR 42501 statement rejected by rule other"
    );
    let names = |console: &mut Raw| -> Result<Vec<String>> {
        let rows = console.query_named("SHOW RULES")?;
        Ok(rows.iter().map(|row| row["name"].clone()).collect())
    };
    assert_eq!(names(&mut console)?, ["stop-report", "no-truncate"]);
    std::fs::write(&file, format!("{open}{other}"))?;
    console.query("RELOAD")?;
    assert_eq!(names(&mut console)?, ["open", "no-truncate", "other"]);
    assert_eq!(
        first("select now()")?,
        "ERROR 42501 statement rejected by rule other"
    );
    Ok(())
}

#[test]
fn the_console_changes_rules_while_clients_work() -> Result<()> {
    let world = World::start("rules_live")?;
    let mut client = world.weir.connect(&world.database)?;
    let mut prepared = frontend::parse("s", "select name from report", &[]);
    prepared.extend(frontend::sync());
    client.ask(&prepared)?;
    let mut run = frontend::bind("", "s", &[]);
    run.extend(frontend::execute("", 0));
    run.extend(frontend::sync());
    let mut first = || -> Result<String> { Ok(line(&client.ask(&run)?[0])) };
    let mut console = world.weir.connect("pgbouncer")?;
    assert_eq!(first()?, "2 ");
    let rule =
        "name = \"incident\"\nmatch.tables = \"report\"\naction = \"reject\"\nmessage = \"later\"";
    console.query(&format!("RULE ADD $$ {rule} $$ FOR 30min"))?;
    assert_eq!(first()?, "ERROR 42501 later");
    console.query("RELOAD")?;
    assert_eq!(first()?, "ERROR 42501 later");
    console.query("RULE DRY incident")?;
    assert_eq!(first()?, "2 ");
    let rules = console.query_named("SHOW RULES")?;
    let shown = |column: &str| rules[0][column].clone();
    let counts = [
        shown("name"),
        shown("state"),
        shown("hits"),
        shown("dry_hits"),
        shown("place"),
    ];
    assert_eq!(counts, ["incident", "dry run", "2", "1", "console:1"]);
    console.query("RULE LIVE incident")?;
    assert_eq!(first()?, "ERROR 42501 later");
    console.query("RULE DROP incident")?;
    assert_eq!(first()?, "2 ");
    for (order, expected) in [
        ("RULE DROP incident", "ERROR 42704 no such rule: incident"),
        (
            "RULE ADD $$ name = \"no-truncate\"\nmatch.kind = \"ddl\"\naction = \"reject\" $$",
            "ERROR 42710 there is a rule no-truncate already",
        ),
        (
            "RULE ADD $$ name = \"x\"\naction = \"reject\" $$",
            "ERROR 22023 console:1: rule \"x\" would reject every statement",
        ),
    ] {
        let told = line(&console.ask(&query(order))?[0]);
        ensure!(told.starts_with(expected), "{told}");
    }
    world
        .weir
        .wait_log("RULE ADD incident (reject) for 1800 s command issued")
}
