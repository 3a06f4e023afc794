//! Secrets fetched from a server: used no longer than they are valid (SEC-42), and queried only under Weir's own
//! settings (SEC-43). Uses a real PostgreSQL, because its answers matter.

use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::login::Binding;
use weir_conformance::login::login;
use weir_conformance::login::scram_secret;
use weir_conformance::postgres::Options;
use weir_conformance::wait_until;

const PASSWORD: &str = "correct horse";
const WITH_END: &str = "select rolname, rolpassword, rolvaliduntil from pg_catalog.pg_authid \
     where rolname = $1 and rolcanlogin";
const PATIENCE: Duration = Duration::from_secs(20);

/// Logs in at the database `pool`, whose servers every user may use.
fn attempt(weir: &Weir, user: &str, password: &str) -> Result<()> {
    let mut raw = Raw::tcp(weir.port(), PATIENCE)?;
    login(&mut raw, user, "pool", password, Binding::No)?;
    raw.query("select 1").map(drop)
}

fn config(postgres: &Postgres) -> Config {
    let to = format!("host=127.0.0.1 port={} dbname=postgres", postgres.port());
    Config::new()
        .database(&format!("pool = {to} user=postgres"))
        .database(&format!("asked = {to}"))
        .set("auth_type", "scram-sha-256")
        .set("auth_user", "postgres")
        .set("auth_dbname", "asked")
        .set("auth_failure_delay", "0")
        .set("auth_failures_per_minute", "0")
        .userlist("\"postgres\" \"\"\n")
}

#[test]
fn sec_42_a_secret_works_as_long_as_it_is_valid() -> Result<()> {
    let postgres = Postgres::start(&Options::default())?;
    let mut beside = Raw::connect(postgres.port(), "postgres")?;
    let ends = [
        ("never", "'infinity'", true),
        ("over", "'2001-01-01'", false),
        ("long_over", "'-infinity'", false),
        ("later", "'2100-01-01'", true),
    ];
    for (user, end, _) in ends {
        let sql = format!("create role {user} login password '{PASSWORD}' valid until {end}");
        beside.query(&sql)?;
    }
    beside.query(&format!("create role locked nologin password '{PASSWORD}'"))?;
    // Without a cache; with a cache that queries the end of validity; with a query that returns it in a third
    // column.
    for (case, ttl, query) in [
        ("each", "0", None),
        ("kept", "60", None),
        ("told", "60", Some(WITH_END)),
    ] {
        let mut config = config(&postgres).set("auth_query_cache_ttl", ttl);
        if let Some(query) = query {
            config = config.set("auth_query", query);
        }
        let weir = Weir::start(&config)?;
        // Twice, because the second answer may come from the cache.
        for _ in 0..2 {
            for (user, _, wanted) in ends {
                let got = attempt(&weir, user, PASSWORD);
                ensure!(got.is_ok() == wanted, "{user}, {case}: {got:?}");
            }
            ensure!(
                attempt(&weir, "locked", PASSWORD).is_err(),
                "a role without login got in"
            );
        }
        // A user whose validity ends while it is in the cache.
        let end = "to_char(now() + interval '8 seconds', 'YYYY-MM-DD HH24:MI:SS.US')";
        let end = beside.query_one(&format!("select {end}"))?;
        let name = format!("ending_{case}");
        beside.query(&format!(
            "create role {name} login password '{PASSWORD}' valid until '{end}'"
        ))?;
        attempt(&weir, &name, PASSWORD).with_context(|| format!("{name}, before its end"))?;
        let begun = clock::now();
        wait_until("the end of the secret", PATIENCE, || {
            Ok(attempt(&weir, &name, PASSWORD).is_err())
        })
        .with_context(|| case)?;
        let lasted = begun.elapsed();
        ensure!(
            lasted < Duration::from_secs(30),
            "{case}: it lasted {lasted:?}"
        );
    }
    Ok(())
}

#[test]
fn sec_42_a_changed_secret_counts_at_once_without_a_cache() -> Result<()> {
    let postgres = Postgres::start(&Options::default())?;
    let mut beside = Raw::connect(postgres.port(), "postgres")?;
    beside.query(&format!("create role changing login password '{PASSWORD}'"))?;
    let weir = Weir::start(&config(&postgres))?;
    attempt(&weir, "changing", PASSWORD)?;
    beside.query("alter role changing password 'another'")?;
    ensure!(
        attempt(&weir, "changing", PASSWORD).is_err(),
        "the old password works"
    );
    attempt(&weir, "changing", "another")?;
    beside.query("drop role changing")?;
    ensure!(
        attempt(&weir, "changing", "another").is_err(),
        "a dropped role works"
    );
    Ok(())
}

/// Creates a schema in which the attacker controls everything that the query could use.
fn lay_trap(beside: &mut Raw) -> Result<()> {
    let secret = scram_secret(PASSWORD, b"sixteen letters.", 64);
    beside.query("create schema evil; create table evil.sprung (how text)")?;
    beside.query(&format!(
        "create view evil.pg_authid as select 'intruder'::name as rolname, '{secret}'::text as rolpassword, \
         null::timestamptz as rolvaliduntil, true as rolcanlogin"
    ))?;
    beside.query("create view evil.pg_shadow as select rolname as usename, rolpassword as passwd from evil.pg_authid")?;
    beside.query(
        "create function evil.same(name, text) returns bool language plpgsql as \
         $$ begin insert into evil.sprung values ('operator'); return true; end $$; \
         create operator evil.= (leftarg = name, rightarg = text, function = evil.same)",
    )?;
    beside.query(
        "create function evil.now() returns timestamptz language plpgsql as \
         $$ begin insert into evil.sprung values ('now'); return '2000-01-01'; end $$",
    )?;
    Ok(())
}

#[test]
fn sec_43_nothing_of_the_client_reaches_the_connection_that_asks() -> Result<()> {
    let options = Options {
        settings: vec![
            "log_statement = 'all'".to_owned(),
            "log_line_prefix = '%a|%u|'".to_owned(),
        ],
        ..Options::default()
    };
    let postgres = Postgres::start(&options)?;
    let mut beside = Raw::connect(postgres.port(), "postgres")?;
    lay_trap(&mut beside)?;
    let unqualified = "select rolname, rolpassword from pg_authid where rolname = $1";
    for query in [None, Some(unqualified)] {
        let mut config = config(&postgres);
        if let Some(query) = query {
            config = config.set("auth_query", query);
        }
        let config = config.set(
            "ignore_startup_parameters",
            "search_path,role,session_authorization",
        );
        let mut weir = Weir::start(&config)?;
        let tricks: [&[(&str, &str)]; 6] = [
            &[("search_path", "evil,pg_catalog")],
            &[("options", "-c search_path=evil,pg_catalog")],
            &[("options", "--search_path=evil,pg_catalog")],
            &[("role", "intruder"), ("search_path", "evil,pg_catalog")],
            &[("session_authorization", "intruder")],
            &[("application_name", "client-marker"), ("DateStyle", "SQL")],
        ];
        for trick in tricks {
            for user in [
                "intruder",
                "'; insert into evil.sprung values ('name') --",
                "$1",
                "\\'",
            ] {
                let mut raw = Raw::tcp(weir.port(), PATIENCE)?;
                let start = [&[("user", user), ("database", "pool")], trick].concat();
                raw.send(&frontend::startup(frontend::VERSION_3_0, &start))?;
                let first = raw.read_message()?;
                if first.tag == b'R' {
                    let scram = weir_conformance::login::Scram::new("SCRAM-SHA-256", "n,,");
                    let outcome = scram.exchange(&mut raw, PASSWORD);
                    ensure!(outcome.is_err(), "{user} got in by {trick:?}");
                }
            }
        }
        weir.check_healthy()?;
    }
    ensure!(
        beside.query_one("select count(*) from evil.sprung")? == "0",
        "a trap was sprung"
    );
    let log = postgres.log().to_lowercase();
    let asked: Vec<&str> = log.lines().filter(|line| line.contains("authid")).collect();
    // The trap itself, then each query.
    ensure!(asked.len() > 10, "the questions are not in the log");
    let marked: Vec<_> = asked
        .iter()
        .filter(|line| line.starts_with("client-marker"))
        .collect();
    ensure!(marked.is_empty(), "{marked:?}");
    Ok(())
}
