//! Lists of the statements that a user may run: learnt from a real session, exported, and enforced by a reload.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use weir_conformance::{Postgres, Raw, TempDir, Weir, frontend, tools, weir_bin};

use super::{FAILS, batch, line, query};

const REFUSED: &str = "ERROR 42501 statement is not in the list of user postgres";

/// Statements of an application, in all protocols.
const LEARNT: [&str; 9] = [
    "insert into report values (1, 'one'), (2, 'it''s two')",
    "select name from report where id = 1 and name = 'one'",
    "begin; savepoint a; rollback",
    "do $$ begin perform 1; end $$",
    "create or replace function twice(int) returns int language sql as $$ select 2 * $1 $$",
    "select twice(4)",
    "set standard_conforming_strings = off",
    "set standard_conforming_strings = on",
    "select 1; select 2, 3",
];

/// Statements that are not in the list, however much they look like those that are.
const OTHERS: [&str; 9] = [
    "select secret from hidden",
    "select name from report where id = 1 and name = 'one' union select secret from hidden",
    "select 1; select secret from hidden",
    "do $$ begin perform secret from hidden; end $$",
    "create or replace function twice(int) returns int language sql as $$ select 3 * $1 $$",
    "/* select 1 */ select/**/secret from hidden",
    "copy hidden to stdout",
    "prepare p as select secret from hidden",
    "with a as (select secret from hidden) select 1 from a",
];

struct Listed {
    _postgres: std::sync::Arc<Postgres>,
    weir: Weir,
    lists: TempDir,
    file: PathBuf,
    port: u16,
    weir_port: u16,
    database: String,
}

impl Listed {
    /// Starts a Weir that learns.
    fn learning(database: &str, mode: &str) -> Result<Self> {
        let postgres = Postgres::shared()?;
        postgres.create_database(database)?;
        let mut direct = Raw::connect(postgres.port(), database)?;
        direct.query("create table report (id int, name text)")?;
        direct.query("create table hidden (secret text)")?;
        direct.query("insert into hidden values ('SECRET')")?;
        let (lists, weir_port) = (TempDir::new()?, tools::free_port()?);
        let text = format!(
            "listen_addr = \"127.0.0.1\"\nlisten_port = {weir_port}\nunix_socket_dir = \"\"\nauth_type = \"any\"\n\
             pool_mode = \"{mode}\"\nadmin_users = [\"postgres\"]\nstatement_list_dir = \"{}\"\n\
             [databases.\"*\"]\nhost = \"127.0.0.1\"\nport = {}\nuser = \"postgres\"\n\
             [users.postgres]\nstatement_policy = \"learn\"\n",
            lists.path().display(),
            postgres.port()
        );
        let weir = Weir::start_text("weir.toml", &text, weir_port)?;
        Ok(Self {
            port: postgres.port(),
            _postgres: postgres,
            file: weir.directory().join("weir.toml"),
            weir,
            lists,
            weir_port,
            database: database.to_owned(),
        })
    }

    fn connect(&self) -> Result<Raw> {
        self.weir.connect(&self.database)
    }

    /// Prints the list.
    fn export(&self) -> Result<String> {
        let address = format!("127.0.0.1:{}", self.weir_port);
        let mut command = Command::new(weir_bin()?);
        command.args([
            "statements",
            "export",
            "postgres",
            &address,
            "--user",
            "postgres",
        ]);
        let output = command.output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{told}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Puts the list into the directory, and enforces it.
    fn enforce(&self) -> Result<()> {
        self.lists.write("postgres.toml", &self.export()?)?;
        let text = fs::read_to_string(&self.file)?;
        fs::write(&self.file, text.replace("\"learn\"", "\"enforce\""))?;
        self.weir.signal("HUP")?;
        self.weir.wait_log("reload done")
    }

    fn learn(&self) -> Result<()> {
        let mut client = self.connect()?;
        for text in LEARNT {
            client.ask(&query(text))?;
            if !text.contains(';') {
                client.ask(&batch(text))?;
            }
        }
        Ok(())
    }
}

fn lines(raw: &mut Raw, request: &[u8]) -> Result<Vec<String>> {
    Ok(raw.ask(request)?.iter().map(line).collect())
}

#[test]
fn what_was_learnt_runs_and_everything_else_fails_as_in_postgresql() -> Result<()> {
    let world = Listed::learning("lists_enforced", "transaction")?;
    world.learn()?;
    let mut older = world.connect()?;
    let mut prepare = frontend::parse("older", "select secret from hidden", &[]);
    prepare.extend(frontend::sync());
    older.ask(&prepare)?;
    let list = world.export()?;
    ensure!(
        !list.contains("it's two") && list.contains("perform 1"),
        "{list}"
    );
    // What was only prepared is not meant to be listed here.
    let listed: String = list
        .split_inclusive("\n\n")
        .filter(|entry| !entry.contains("secret from hidden"))
        .collect();
    world.enforce()?;
    world.lists.write("postgres.toml", &listed)?;
    world.weir.signal("HUP")?;
    world.weir.wait_log("reload done, 1 changes")?;
    let (mut through, mut direct) = (world.connect()?, Raw::connect(world.port, &world.database)?);
    for text in LEARNT {
        let (ours, theirs) = (
            lines(&mut through, &query(text))?,
            lines(&mut direct, &query(text))?,
        );
        assert_eq!(ours, theirs, "{text}");
    }
    for request in [query, batch] {
        for text in OTHERS {
            for script in [vec![text], vec!["begin", text, "select 1", "rollback"]] {
                for (number, text) in script.iter().enumerate() {
                    let is_other = script.len() == 1 || number == 1;
                    let ours = lines(&mut through, &request(text))?;
                    let stand_in = if is_other { FAILS } else { text };
                    let theirs = lines(&mut direct, &request(stand_in))?.into_iter();
                    let theirs: Vec<_> = theirs
                        .map(|line| match line.contains("22P02") {
                            true => REFUSED.to_owned(),
                            false => line,
                        })
                        .collect();
                    assert_eq!(ours, theirs, "{text}");
                }
            }
        }
    }
    // Prepared before the list was enforced.
    let mut run = frontend::bind("", "older", &[]);
    run.extend(frontend::execute("", 0));
    run.extend(frontend::sync());
    assert_eq!(lines(&mut older, &run)?[0], REFUSED);
    // A constant that ends earlier than it seems.
    through.query("set standard_conforming_strings = off")?;
    let hidden = r"select name from report where id = 1 and name = 'a\'' union select secret from hidden --'";
    assert_eq!(lines(&mut through, &query(hidden))?[0], REFUSED);
    through.query("set standard_conforming_strings = on")?;
    // pg_backend_pid()
    let call = frontend::function_call(2026, &[]);
    let told = &lines(&mut through, &call)?[0];
    ensure!(told.starts_with("ERROR 42501 a function call"), "{told}");
    let log = world.weir.log();
    let told = log
        .matches("statement is refused that is not in the list of user postgres")
        .count();
    // Two of the texts have the first one in them.
    assert_eq!(told, OTHERS.len() - 2 + 1, "once for each statement\n{log}");
    ensure!(!log.contains("perform"), "literals are not logged\n{log}");
    Ok(())
}

#[test]
fn in_session_pooling_names_that_only_the_server_knows_are_decided_on_too() -> Result<()> {
    let world = Listed::learning("lists_session", "session")?;
    world.learn()?;
    let mut older = world.connect()?;
    let named = |text: &str| {
        let mut request = frontend::parse("n", text, &[]);
        request.extend(frontend::bind("", "n", &[]));
        request.extend(frontend::execute("", 0));
        request.extend(frontend::close(b'S', "n"));
        request.extend(frontend::sync());
        request
    };
    older.ask(&named("select 1"))?;
    world.enforce()?;
    let told = lines(&mut older, &named("select 1"))?;
    ensure!(
        told.iter()
            .any(|line| line.contains("was prepared before the list was enforced")),
        "{told:?}"
    );
    let mut client = world.connect()?;
    let rows = client.ask(&named("select 1"))?;
    rows.iter()
        .find(|message| message.tag == b'D')
        .context("no row")?;
    for text in OTHERS {
        let told = lines(&mut client, &named(text))?;
        assert_eq!(told[0], REFUSED, "{text}");
    }
    client.query("select 1; select 2, 3")?;
    Ok(())
}
