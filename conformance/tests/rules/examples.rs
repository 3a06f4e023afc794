//! The guide's examples for users of ProxySQL, as they stand there.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use weir_conformance::{Cluster, Raw, Weir, tools, wait_until};

use super::query;

/// Longest time that a test waits for something to happen.
const NOTICED: std::time::Duration = std::time::Duration::from_secs(60);

/// An example of the page.
struct Example {
    title: String,
    rules: String,
    statements: Vec<String>,
    /// Rows of its table, with the cells that SHOW RULES has too.
    rows: Vec<Vec<String>>,
}

/// Reads the examples of the page.
fn examples() -> Result<Vec<Example>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/rules-examples.md");
    let page = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let block = |section: &str, kind: &str| -> Option<String> {
        let (_, rest) = section.split_once(&format!("```{kind}\n"))?;
        Some(rest.split_once("```")?.0.to_owned())
    };
    page.split("\n## ")
        .skip(1)
        .map(|section| {
            let title = section.lines().next().unwrap_or_default().to_owned();
            let statements = block(section, "sql").context("no statements")?;
            let table = section
                .lines()
                .skip_while(|line| *line != "| name | action | state | hits |");
            let rows = table.skip(2).take_while(|line| line.starts_with('|'));
            let cells = |row: &str| -> Vec<String> {
                row.trim_matches('|')
                    .split('|')
                    .map(|cell| cell.trim().to_owned())
                    .collect()
            };
            Ok(Example {
                rules: block(section, "toml").context("no rules")?,
                statements: statements.lines().map(str::to_owned).collect(),
                rows: rows.map(cells).collect(),
                title,
            })
        })
        .collect()
}

/// Creates the databases of the page.
fn databases(cluster: &Cluster) -> Result<()> {
    let port = cluster.primary().port();
    for name in ["shop", "shop_next"] {
        Raw::connect(port, "postgres")?.query(&format!("create database {name}"))?;
        let mut direct = Raw::connect(port, name)?;
        direct.query(
            "create table report as select id, 'name ' || id as name from generate_series(1, 9) id",
        )?;
        direct.query(
            "create function export(int) returns int language sql as $$ select $1 $$; \
             create table archive as select 1 as id",
        )?;
    }
    Raw::connect(port, "shop")?.query("drop table archive")?;
    cluster.wait_until_replayed(1)
}

fn start(cluster: &Cluster, rules: &str) -> Result<Weir> {
    let port = tools::free_port()?;
    let (primary, replica) = (cluster.primary().port(), cluster.replica(1).port());
    let text = format!(
        "listen_addr = \"127.0.0.1\"\nlisten_port = {port}\nunix_socket_dir = \"\"\nauth_type = \"any\"\n\
         pool_mode = \"transaction\"\nadmin_users = [\"postgres\"]\n\
         [databases.shop]\nhost = \"127.0.0.1\"\nport = {primary}\nuser = \"postgres\"\n\
         replicas = [\"127.0.0.1:{replica}\"]\nread_write_split = \"off\"\n\
         [databases.shop_next]\nhost = \"127.0.0.1\"\nport = {primary}\nuser = \"postgres\"\n{rules}"
    );
    let weir = Weir::start_text("weir.toml", &text, port)?;
    wait_until("both hosts to be known", NOTICED, || {
        let hosts = weir.connect("pgbouncer")?.query_named("SHOW HOSTS")?;

        Ok(hosts.len() == 2 && hosts.iter().all(|host| host["state"] == "up"))
    })
    .with_context(|| weir.log())?;
    Ok(weir)
}

#[test]
fn the_examples_of_the_guide_do_what_it_says() -> Result<()> {
    let cluster = Cluster::start(1, &["log_statement = all"])?;
    databases(&cluster)?;
    let examples = examples()?;
    ensure!(examples.len() == 7, "{} examples", examples.len());
    for example in examples {
        let title = &example.title;
        let weir = start(&cluster, &example.rules).with_context(|| title.clone())?;
        let mut client = weir.connect("shop")?;
        let mut answers = Vec::new();
        for statement in &example.statements {
            let answer = client.ask(&query(statement))?;
            let told = answer.iter().find_map(|message| match message.tag {
                b'E' => Some(message.error()),
                b'D' => message.row().ok()?[0].clone(),
                _ => None,
            });
            answers.push(told.unwrap_or_default());
        }
        let shown = weir.connect("pgbouncer")?.query_named("SHOW RULES")?;
        ensure!(
            shown.len() == example.rows.len() && !shown.is_empty(),
            "{title}: {shown:?}"
        );
        for (row, told) in shown.iter().zip(&example.rows) {
            for (name, cell) in ["name", "action", "state", "hits"].iter().zip(told) {
                let mut right = cell.split(" or ");
                ensure!(
                    right.any(|right| right == row[*name]),
                    "{title}: {name} is {}",
                    row[*name]
                );
            }
        }
        check(title, &cluster, &weir, &answers)?;
    }
    Ok(())
}

/// Checks what the page says about the answers.
fn check(title: &str, cluster: &Cluster, weir: &Weir, answers: &[String]) -> Result<()> {
    let told = answers.iter().map(String::as_str).collect::<Vec<_>>();
    match (title, &told[..]) {
        ("Block a digest", [one, two, "5"]) => {
            let error = "ERROR 42501 the full report is switched off, use the daily one";
            ensure!(*one == error && *two == error, "{told:?}");
        }
        ("Route reports to a replica", ["9", "", "8"]) => {
            let replica = cluster.replica(1);
            ensure!(replica.count_statements("count(*) from report /*route") == 1);
            ensure!(replica.count_statements("from report where id > 1") == 0);
        }
        ("Route to a hostgroup", ["1", "9"])
        | ("Rewrite a hint", ["3", "4"])
        | ("Limit one query to 5 at a time", ["1", "2"]) => {}
        ("Slow log", ["", "1"]) => {
            weir.wait_log("select pg_sleep(?)")?;
            let log = weir.log();
            let lines = log
                .lines()
                .filter(|line| line.contains("rule slow: "))
                .count();
            ensure!(lines == 1, "{lines} lines");
        }
        ("Mirror 5 % to a new version", ["9", "1"]) => {}
        _ => anyhow::bail!("{title}: {told:?}"),
    }
    Ok(())
}
