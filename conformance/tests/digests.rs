//! `SHOW DIGESTS` beside what PostgreSQL counts itself (pg_stat_statements).

#![allow(
    clippy::print_stdout,
    reason = "figures are for whoever runs the tests"
)]
#![allow(
    clippy::indexing_slicing,
    reason = "a panic in a test is a failure, and is wanted"
)]

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::postgres;
use weir_conformance::process;
use weir_conformance::tools;
use weir_sql::Fingerprint;

const DATABASE: &str = "digests";

/// Statement of a portal that is fetched in parts, of seven rows in all. PostgreSQL counted the rows of the last part only
/// until version 17.
const FETCHED: &str = "select id from notes where id < $1";

/// A cluster that counts statements, and Weir in front of it.
fn start(set: &[(&str, &str)]) -> Result<(Postgres, Weir)> {
    let postgres = Postgres::start(&postgres::Options {
        settings: vec!["shared_preload_libraries = 'pg_stat_statements'".to_owned()],
        ..postgres::Options::default()
    })?;
    postgres.create_database(DATABASE)?;
    let mut direct = Raw::connect(postgres.port(), DATABASE)?;
    direct.query("create extension pg_stat_statements")?;
    let mut config = Config::to(postgres.port())
        .workers(2)
        .set("admin_users", "postgres");
    for (key, value) in set {
        config = config.set(key, value);
    }
    let weir = Weir::start(&config)?;
    Ok((postgres, weir))
}

fn pgbench(port: u16, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(tools::postgres_bin_dir()?.join("pgbench"));
    command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port.to_string()]);
    command.args(arguments).arg(DATABASE);
    tools::run(&mut command).map(drop)
}

type Named = HashMap<String, String>;

fn digests(weir: &Weir, arguments: &str) -> Result<Vec<Named>> {
    let mut console = weir.connect("pgbouncer")?;
    console.query_named(&format!("SHOW DIGESTS {arguments}"))
}

fn number(row: &Named, column: &str) -> Result<u64> {
    let value = row.get(column).with_context(|| format!("no {column}"))?;
    Ok(value.parse()?)
}

/// Calls and rows by fingerprint, of statements about data.
type Counts = BTreeMap<Fingerprint, (u64, u64, String)>;

fn add(counts: &mut Counts, text: &str, calls: u64, rows: u64) {
    let begins = |word: &&str| {
        let start = text.trim_start().get(..word.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let words = [
        "select", "insert", "update", "delete", "values", "copy", "with",
    ];
    let Some(fingerprint) = Fingerprint::of(text).filter(|_| words.iter().any(begins)) else {
        return;
    };
    let entry = counts.entry(fingerprint).or_default();
    entry.0 += calls;
    entry.1 += rows;
    text.clone_into(&mut entry.2);
}

#[test]
fn calls_and_rows_are_those_that_postgresql_counts() -> Result<()> {
    let (postgres, weir) = start(&[])?;
    pgbench(postgres.port(), &["-q", "-i", "-s", "2"])?;
    let mut direct = Raw::connect(postgres.port(), DATABASE)?;
    direct.query("create table notes (id int, text text)")?;
    direct.query("select pg_stat_statements_reset()")?;
    for mode in ["simple", "extended", "prepared"] {
        pgbench(weir.port(), &["-n", "-c", "8", "-t", "50", "-M", mode])?;
        pgbench(
            weir.port(),
            &["-n", "-S", "-c", "8", "-t", "50", "-M", mode],
        )?;
    }
    let mut client = weir.connect(DATABASE)?;
    for count in [1, 2, 5] {
        let rows: Vec<_> = (0..count)
            .map(|id| format!("({id}, 'note {id}')"))
            .collect();
        client.query(&format!("insert into notes values {}", rows.join(", ")))?;
        let ids: Vec<_> = (0..count).map(|id| id.to_string()).collect();
        client.query(&format!(
            "select text from notes where id in ({})",
            ids.join(",")
        ))?;
    }
    client.query("select count(*) from notes; update notes set text = 'x' where id = 1; delete from notes where id = 4")?;
    client.query("copy notes to stdout")?;
    let mut batch = frontend::parse("", FETCHED, &[]);
    batch.extend(frontend::bind("p", "", &[Some(b"100")]));
    for _ in 0..3 {
        batch.extend(frontend::execute("p", 3));
    }
    batch.extend(frontend::sync());
    client.ask(&batch)?;
    // Behind the failure nothing runs.
    client.ask(&frontend::query(
        "select 1 / (id - id) from notes; select text from notes",
    ))?;

    let mut ours = Counts::new();
    for row in digests(&weir, &format!("FOR {DATABASE} LIMIT 0"))? {
        add(
            &mut ours,
            &row["statement"],
            number(&row, "calls")?,
            number(&row, "rows")?,
        );
    }
    let theirs_of = direct.query_named(
        "select query, calls, rows from pg_stat_statements s join pg_database d on d.oid = s.dbid \
         where datname = current_database()",
    )?;
    let mut theirs = Counts::new();
    for row in &theirs_of {
        add(
            &mut theirs,
            &row["query"],
            number(row, "calls")?,
            number(row, "rows")?,
        );
    }
    ensure!(ours.len() > 12, "{ours:#?}");
    for (fingerprint, (calls, rows, text)) in &ours {
        // PostgreSQL does not count statements that fail.
        let mut theirs = theirs.get(fingerprint).cloned().unwrap_or_default();
        if text == FETCHED {
            theirs.1 = 7;
        }
        ensure!(
            (*calls, *rows) == (theirs.0, theirs.1),
            "{text}: {calls} calls, {rows} rows; PostgreSQL counted {theirs:?}"
        );
    }
    Ok(())
}

#[test]
fn failures_are_counted_with_their_code_and_no_literal_is_shown() -> Result<()> {
    let (_postgres, weir) = start(&[])?;
    let mut client = weir.connect(DATABASE)?;
    client.ask(&frontend::query("select 'secret-1' / 0"))?;
    client.ask(&frontend::query(
        "select nothing from nowhere where a = 'secret-2' /* secret-3 */",
    ))?;
    let mut batch = frontend::parse("s", "select nothing from nowhere where a = 'secret-4'", &[]);
    batch.extend(frontend::sync());
    client.ask(&batch)?;
    client.query("alter role postgres password 'secret-5'")?;
    let rows = digests(&weir, "ORDER BY errors")?;
    let first = &rows[0];
    assert_eq!(
        first["statement"],
        "select nothing from nowhere where a = $1"
    );
    assert_eq!((&*first["errors"], &*first["last_error"]), ("2", "42P01"));
    for row in &rows {
        ensure!(!row["statement"].contains("secret"), "{row:?}");
    }
    Ok(())
}

#[test]
fn a_reset_and_an_option_end_the_counting() -> Result<()> {
    let (_postgres, weir) = start(&[])?;
    let mut client = weir.connect(DATABASE)?;
    client.query("select 1")?;
    let mut console = weir.connect("pgbouncer")?;
    console.query("RESET DIGESTS")?;
    assert!(digests(&weir, "")?.is_empty());
    client.query("select 1")?;
    assert_eq!(digests(&weir, "")?.len(), 1);
    console.query("SET digests = 0")?;
    let told = console.ask(&frontend::query("SHOW DIGESTS"))?;
    let error = told[0].error();
    ensure!(
        error.contains("55000") && error.contains("SET digests = 1"),
        "{error}"
    );
    Ok(())
}

/// Expensive statements among many that are all different.
const HEAVY: usize = 20;

/// Runs of each of them.
const RUNS: usize = 40;

/// A statement that differs from all others in a name.
fn different(number: usize) -> String {
    let digits = number.to_string();
    let name: String = digits
        .chars()
        .filter_map(|digit| Some(letter(digit.to_digit(10)? as usize)))
        .collect();
    format!("select one_{name} from (select 1 as one_{name}) t")
}

/// Letter for a number: a fingerprint ignores digits in the names of tables.
fn letter(number: usize) -> char {
    ('a'..='z').nth(number).unwrap_or('z')
}

/// Time that an expensive statement sleeps, among this number of texts. A table of 500 statements finds what takes more than a
/// five-hundredth of all time, and more texts take more time.
fn millis(number: usize, texts: usize) -> u64 {
    2 * (number as u64 + 1) * (texts as u64 / 100_000).max(1)
}

/// `DIGEST_TEXTS=1000000` runs it as long as the issue asks for.
#[test]
fn rt_48_among_many_texts_the_expensive_ones_are_found_in_bounded_memory() -> Result<()> {
    let texts = std::env::var("DIGEST_TEXTS")
        .ok()
        .and_then(|number| number.parse().ok());
    let texts: usize = texts.unwrap_or(20_000);
    let (_postgres, weir) = start(&[("digest_max", "500")])?;
    let mut client = weir.connect(DATABASE)?;
    let chunk = texts / RUNS;
    let mut spent = [0; HEAVY];
    for number in 0..HEAVY {
        client.query(&format!(
            "create table heavy_{} as select 1",
            letter(number)
        ))?;
    }
    let send = |client: &mut Raw, from: usize| -> Result<()> {
        let numbers: Vec<usize> = (from..from + chunk).collect();
        for part in numbers.chunks(50) {
            let texts = part
                .iter()
                .map(|number| frontend::query(&different(*number)));
            client.send(&texts.flatten().collect::<Vec<u8>>())?;
            for _ in part {
                client.read_until_ready()?;
            }
        }
        Ok(())
    };
    send(&mut client, 0)?;
    let before = process::rss(weir.pid())?;
    for run in 1..RUNS {
        for (number, spent) in spent.iter_mut().enumerate() {
            let began = clock::now();
            client.query(&format!(
                "select pg_sleep({}) from heavy_{}",
                millis(number, texts) as f64 / 1e3,
                letter(number)
            ))?;
            *spent += u64::try_from((clock::now() - began).as_micros())?;
        }
        send(&mut client, run * chunk)?;
    }
    let grown = process::rss(weir.pid())?.saturating_sub(before);
    let rows = digests(
        &weir,
        &format!("FOR {DATABASE} ORDER BY server_us LIMIT {HEAVY}"),
    )?;
    assert_eq!(rows.len(), HEAVY);
    for row in &rows {
        let text = &row["statement"];
        let name = text.rsplit_once("heavy_");
        let name = name.with_context(|| format!("not heavy: {text}"))?.1;
        let place = (0..HEAVY).find(|number| letter(*number).to_string() == name);
        let place = place.with_context(|| format!("not heavy: {text}"))?;
        let (spent, slept) = (
            spent[place],
            (RUNS as u64 - 1) * millis(place, texts) * 1_000,
        );
        let (shown, error) = (number(row, "server_us")?, number(row, "server_us_error")?);
        ensure!(
            shown <= spent && shown + error >= slept,
            "{text}: {shown} us and at most {error} more; the client has waited for {spent}"
        );
    }
    // Two workers, each with 500 statements in 2 KiB, and buffers.
    ensure!(
        grown < 24 * 1024 * 1024,
        "{grown} bytes more for {texts} texts"
    );
    println!("{texts} texts: {grown} bytes more");
    Ok(())
}
