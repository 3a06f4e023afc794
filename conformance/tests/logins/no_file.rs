//! `weir run --upstream HOST:PORT`, without a configuration file.

use std::fs;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::login;
use weir_conformance::login::Binding;
use weir_conformance::postgres;
use weir_conformance::postgres::Login;

use crate::support::PATIENCE;
use crate::support::attempt;
use crate::support::inside;
use crate::support::outside;

/// Local addresses at which a TCP port is open, in the kernel's format.
fn listening(port: u16) -> Result<Vec<String>> {
    let suffix = format!(":{port:04X}");
    let mut found = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in fs::read_to_string(table).unwrap_or_default().lines() {
            let mut fields = line.split_whitespace().skip(1);
            let (local, state) = (fields.next().unwrap_or(""), fields.nth(1).unwrap_or(""));
            if state == "0A" && local.ends_with(&suffix) {
                found.push(local.trim_end_matches(&suffix).to_owned());
            }
        }
    }
    Ok(found)
}

#[test]
fn an_upstream_is_all_it_needs() -> Result<()> {
    let postgres = Postgres::shared()?;
    let upstream = format!("127.0.0.1:{}", postgres.port());
    let mut weir = Weir::start_without_file(&["run", "--upstream", &upstream])?;
    // 127.0.0.1 and ::1 in the kernel's format.
    let loopback = ["0100007F", "00000000000000000000000001000000"];
    let listening = listening(weir.port())?;
    ensure!(
        !listening.is_empty() && listening.iter().all(|at| loopback.contains(&at.as_str())),
        "listens on {listening:?}"
    );
    let mut direct = Raw::connect(postgres.port(), "postgres")?;
    direct.query("drop role if exists newcomer")?;
    direct.query("create role newcomer login")?;
    for user in ["postgres", "newcomer"] {
        let output = attempt(weir.port(), user, None, "postgres")?;
        ensure!(output.contains(&format!("inside as {user}")), "{output}");
    }
    // Transaction pooling: two clients, one after the other, get the same server.
    let (mut first, mut second) = (weir.connect("postgres")?, weir.connect("postgres")?);
    let mode = weir.connect("pgbouncer")?.query_named("SHOW POOLS")?;
    let modes: Vec<_> = mode
        .iter()
        .filter(|pool| pool.get("database").is_some_and(|name| name == "postgres"))
        .filter_map(|pool| pool.get("pool_mode").cloned())
        .collect();
    ensure!(
        !modes.is_empty() && modes.iter().all(|mode| mode == "transaction"),
        "{modes:?}"
    );
    ensure!(first.query_one("select 1")? == "1" && second.query_one("select 1")? == "1");
    let unknown = attempt(weir.port(), "stranger", None, "postgres")?;
    ensure!(
        unknown.contains("role \"stranger\" does not exist"),
        "{unknown}"
    );
    weir.check_healthy()
}

#[test]
fn a_user_of_the_url_logs_in_with_the_password_that_postgresql_has() -> Result<()> {
    let postgres = Postgres::start(&postgres::Options {
        login: Login::ScramSha256,
        ..postgres::Options::default()
    })?;
    let password = Postgres::PASSWORD;
    let in_url = password.replace(' ', "%20");
    let url = format!(
        "postgresql://postgres:{in_url}@127.0.0.1:{}",
        postgres.port()
    );
    let mut weir = Weir::start_without_file(&["run", "--upstream", &url])?;
    for database in ["postgres", "pgbouncer"] {
        let refused = attempt(weir.port(), "postgres", Some("wrong"), database)?;
        outside(database, &refused, "password authentication failed")?;
        let refused = attempt(weir.port(), "nobody", Some(password), database)?;
        outside(database, &refused, "password authentication failed")?;
    }
    inside(
        "the user",
        &attempt(weir.port(), "postgres", Some(password), "postgres")?,
    )?;
    // The console's administrator.
    let mut console = Raw::tcp(weir.port(), PATIENCE)?;
    login::login(&mut console, "postgres", "pgbouncer", password, Binding::No)?;
    console.query("SET default_pool_size = 5")?;
    console.query("RELOAD")?;
    inside(
        "after a reload",
        &attempt(weir.port(), "postgres", Some(password), "postgres")?,
    )?;
    ensure!(!weir.log().contains(password), "the log has the password");
    weir.check_healthy()
}

#[test]
fn an_upstream_that_is_not_there_is_told_to_the_client() -> Result<()> {
    let port = weir_conformance::tools::free_port()?;
    let upstream = format!("127.0.0.1:{port}");
    let weir = Weir::start_without_file(&["run", "--upstream", &upstream])?;
    let refused = attempt(weir.port(), "postgres", None, "postgres")?;
    ensure!(
        refused.contains("server login has been failing") && refused.contains("refused"),
        "{refused}"
    );
    Ok(())
}
