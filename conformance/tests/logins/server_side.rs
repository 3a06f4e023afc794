//! Weir's logins at PostgreSQL: every method with every source of the secret, and the clients' errors when they fail.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::Weak;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::postgres::Options;
use weir_conformance::psql::psql;
use weir_conformance::tools;

use crate::support::PASSWORD;
use crate::support::attempt;
use crate::support::inside;
use crate::support::outside;

const METHODS: [&str; 4] = ["trust", "password", "md5", "scram"];

/// Server with one role per method, shared by these tests while any of them runs.
fn server() -> Result<Arc<Postgres>> {
    static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(running) = shared.upgrade() {
        return Ok(running);
    }
    let started = Arc::new(start()?);
    *shared = Arc::downgrade(&started);
    Ok(started)
}

/// Starts the server; all roles have the same password.
fn start() -> Result<Postgres> {
    let mut options = Options::default();
    for (user, method) in [
        ("u_trust", "trust"),
        ("u_password", "password"),
        ("u_md5", "md5"),
        ("u_scram", "scram-sha-256"),
        ("u_reject", "reject"),
        ("u_other", "scram-sha-256"),
    ] {
        let line = format!("host all {user} 127.0.0.1/32 {method}");
        options.hba.push(line);
    }
    let postgres = Postgres::start(&options)?;
    let mut raw = Raw::connect(postgres.port(), "postgres")?;
    for method in METHODS.into_iter().chain(["reject", "other"]) {
        let stored = if method == "md5" {
            "md5"
        } else {
            "scram-sha-256"
        };
        raw.query(&format!("set password_encryption = '{stored}'"))?;
        raw.query(&format!(
            "create role u_{method} login password '{PASSWORD}'"
        ))?;
    }
    Ok(postgres)
}

fn secret(postgres: &Postgres, role: &str) -> Result<String> {
    let sql = format!("select rolpassword from pg_authid where rolname = '{role}'");
    Raw::connect(postgres.port(), "postgres")?.query_one(&sql)
}

fn line(role: &str, secret: &str) -> String {
    format!("\"{role}\" \"{secret}\"\n")
}

#[test]
fn every_method_works_with_the_secret_of_auth_file() -> Result<()> {
    let postgres = server()?;
    let users: String = METHODS
        .iter()
        .map(|method| line(&format!("u_{method}"), PASSWORD))
        .collect();
    for auth_type in ["trust", "md5", "scram-sha-256"] {
        let config = Config::to(postgres.port()).userlist(&users);
        let mut weir = Weir::start(&config.set("auth_type", auth_type))?;
        for method in METHODS {
            let user = format!("u_{method}");
            let output = attempt(weir.port(), &user, Some(PASSWORD), "postgres")?;
            ensure!(
                output.contains(&format!("inside as {user}")),
                "client by {auth_type}, server by {method}: {output}"
            );
        }
        weir.check_healthy()?;
    }
    Ok(())
}

/// Clients whom `auth_query` let in leave their secret for the servers of their own pool: a port with another pool mode has
/// one of its own.
#[test]
fn a_secret_of_auth_query_serves_the_pool_of_the_listener() -> Result<()> {
    let postgres = server()?;
    let plain = format!("'{PASSWORD}'");
    for (user, secret) in [("u_password", plain.as_str()), ("u_scram", "rolpassword")] {
        let port = tools::free_port()?;
        let query = format!("select rolname, {secret} from pg_authid where rolname = $1");
        let config = Config::to(postgres.port())
            .userlist("\"postgres\" \"known\"\n")
            .set("auth_type", "scram-sha-256")
            .set("auth_user", "postgres")
            .set("auth_query", &query)
            .section(&format!(
                "[listeners]\nsessions = listen_port={port} pool_mode=session"
            ));
        let mut weir = Weir::start(&config)?;
        // First by the listener, when no usual pool has the secret yet.
        for port in [port, weir.port()] {
            let output = attempt(port, user, Some(PASSWORD), "postgres")?;
            inside(&format!("{user} by port {port}"), &output)?;
        }
        let mut console = psql(weir.port(), "pgbouncer")?;
        console.env("PGPASSWORD", "known");
        console.args(["-U", "postgres", "-Axtc", "SHOW POOLS"]);
        let pools = tools::run(&mut console)?;
        let of_user = pools.split("\n\n").find(|pool| pool.contains(user));
        let is_usual = |pool: &str| pool.lines().any(|line| line == "pool_mode|transaction");
        ensure!(of_user.is_some_and(is_usual), "{user}: {pools}");
        weir.check_healthy()?;
    }
    Ok(())
}

#[test]
fn every_method_works_with_a_forced_user_and_password() -> Result<()> {
    let postgres = server()?;
    let mut config = Config::new().userlist("\"me\" \"\"\n\"u_scram\" \"not this\"\n");
    for method in METHODS {
        config = config.database(&format!(
            "db_{method} = host=127.0.0.1 port={} dbname=postgres user=u_{method} password='{PASSWORD}'",
            postgres.port()
        ));
    }
    let weir = Weir::start(&config)?;
    for method in METHODS {
        let output = attempt(weir.port(), "me", None, &format!("db_{method}"))?;
        ensure!(
            output.contains(&format!("inside as u_{method}")),
            "{method}: {output}"
        );
    }
    Ok(())
}

#[test]
fn a_forced_user_without_a_password_uses_the_one_in_auth_file() -> Result<()> {
    let postgres = server()?;
    let users = format!("{}{}", line("me", ""), line("u_scram", PASSWORD));
    let shop = format!(
        "shop = host=127.0.0.1 port={} dbname=postgres user=u_scram",
        postgres.port()
    );
    let weir = Weir::start(&Config::new().database(&shop).userlist(&users))?;
    let output = attempt(weir.port(), "me", None, "shop")?;
    ensure!(output.contains("inside as u_scram"), "{output}");
    Ok(())
}

#[test]
fn an_md5_secret_serves_both_sides() -> Result<()> {
    let postgres = server()?;
    let users = line("u_md5", &secret(&postgres, "u_md5")?);
    let config = Config::to(postgres.port()).userlist(&users);
    let weir = Weir::start(&config.set("auth_type", "md5"))?;
    let output = attempt(weir.port(), "u_md5", Some(PASSWORD), "postgres")?;
    ensure!(output.contains("inside as u_md5"), "{output}");
    Ok(())
}

#[test]
fn scram_is_passed_through_when_the_verifier_is_the_same() -> Result<()> {
    let postgres = server()?;
    let users = line("u_scram", &secret(&postgres, "u_scram")?);
    for auth_type in ["scram-sha-256", "md5"] {
        let config = Config::to(postgres.port()).userlist(&users);
        let weir = Weir::start(&config.set("auth_type", auth_type))?;
        let output = attempt(weir.port(), "u_scram", Some(PASSWORD), "postgres")?;
        ensure!(
            output.contains("inside as u_scram"),
            "{auth_type}: {output}"
        );
    }
    Ok(())
}

#[test]
fn scram_with_another_verifier_of_the_same_password_fails_clearly() -> Result<()> {
    let postgres = server()?;
    let users = line("u_other", &secret(&postgres, "u_other")?);
    // Same password, different salt: the client can log in to Weir, but Weir cannot log in to the server.
    let mut raw = Raw::connect(postgres.port(), "postgres")?;
    raw.query("set password_encryption = 'scram-sha-256'")?;
    raw.query(&format!("alter role u_other password '{PASSWORD}'"))?;
    let config = Config::to(postgres.port()).userlist(&users);
    let mut weir = Weir::start(&config.set("auth_type", "scram-sha-256"))?;
    let output = attempt(weir.port(), "u_other", Some(PASSWORD), "postgres")?;
    outside("another verifier", &output, "FATAL")?;
    let clear = [
        "verifier",
        "SCRAM secret",
        "password authentication failed for user",
    ];
    ensure!(
        clear.iter().any(|text| output.contains(text)),
        "the text does not say why: {output}"
    );
    weir.check_healthy()
}

#[test]
fn a_verifier_without_a_scram_login_is_of_no_use_and_said_to_be() -> Result<()> {
    let postgres = server()?;
    let users = line("u_scram", &secret(&postgres, "u_scram")?);
    let weir = Weir::start(&Config::to(postgres.port()).userlist(&users))?;
    let output = attempt(weir.port(), "u_scram", None, "postgres")?;
    outside(
        "trust, then scram",
        &output,
        "Weir has no such secret of this user",
    )
}

/// Error that a client gets from Weir, and the one that it would get from PostgreSQL.
fn both(postgres: &Postgres, weir: &Weir, user: &str, database: &str) -> Result<(String, String)> {
    let tell = |port| -> Result<String> {
        let parameters = [("user", user), ("database", database)];
        let refused = Raw::connect_with(port, &parameters).err();
        Ok(refused.map(|error| error.to_string()).unwrap_or_default())
    };
    Ok((tell(weir.port())?, tell(postgres.port())?))
}

#[test]
fn a_refused_login_is_told_in_the_servers_own_words() -> Result<()> {
    let postgres = server()?;
    let users: String = ["u_trust", "ghost", "u_reject"]
        .map(|user| line(user, ""))
        .concat();
    let users = format!("{users}{}", line("u_scram", "incorrect horse"));
    let config = Config::to(postgres.port()).userlist(&users);
    let mut weir = Weir::start(&config)?;
    for (user, database, code) in [
        ("ghost", "postgres", "28000"),
        ("u_trust", "nowhere", "3D000"),
        ("u_reject", "postgres", "28000"),
    ] {
        let (ours, theirs) = both(&postgres, &weir, user, database)?;
        ensure!(theirs.contains(code), "the suite is wrong: {theirs}");
        // The connection's port is not part of the text; everything else is.
        ensure!(
            ours == theirs,
            "{user}, {database}: {ours:?}, not {theirs:?}"
        );
    }
    let refused = weir.connect_as("u_scram", "postgres").err();
    let text = refused.map(|error| error.to_string()).unwrap_or_default();
    ensure!(
        text.contains("FATAL 28P01 password authentication failed for user \"u_scram\""),
        "{text:?}"
    );
    // A failure of one pool does not affect another one.
    let mut raw = weir.connect_as("u_trust", "postgres")?;
    ensure!(raw.query_one("select 1")? == "1");
    weir.check_healthy()
}

#[test]
fn all_waiting_clients_hear_why_the_server_refuses() -> Result<()> {
    let postgres = server()?;
    let weir = Weir::start(&Config::to(postgres.port()).userlist(&line("ghost", "")))?;
    let waiting: Vec<_> = (0..10)
        .map(|_| {
            let mut raw = Raw::tcp(weir.port(), crate::support::PATIENCE)?;
            let parameters = [("user", "ghost"), ("database", "postgres")];
            raw.send(&weir_conformance::frontend::startup(
                weir_conformance::frontend::VERSION_3_0,
                &parameters,
            ))?;
            Ok(raw)
        })
        .collect::<Result<_>>()?;
    for mut raw in waiting {
        let words = raw.read_until_ready()?;
        let last = words.last().map(weir_conformance::raw::Message::error);
        let last = last.unwrap_or_default();
        ensure!(
            last.contains("FATAL") && last.contains("role \"ghost\" does not exist"),
            "{last}"
        );
    }
    Ok(())
}
