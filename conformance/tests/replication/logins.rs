//! Logins for replication: values, rules, parameters, refusals.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_conformance::clock::now;
use weir_conformance::frontend::{self, startup};
use weir_conformance::postgres::{Login, Options};
use weir_conformance::raw::Message;
use weir_conformance::{Config, Postgres, Raw, Weir, psql, tools};

use crate::fixture::{config, postgres, postgres_with, replicate};

/// Returns the error that a login with these parameters ends with: severity, code, text and hint.
fn refusal(port: u16, parameters: &[(&str, &str)]) -> Result<String> {
    let mut raw = Raw::tcp(port, Duration::from_secs(60))?;
    raw.send(&startup(frontend::VERSION_3_0, parameters))?;
    let messages = raw.read_until_ready()?;
    let error = messages.iter().find(|message| message.tag == b'E');
    let error = error.context("the login succeeds")?;
    let field = |code| Message::field(error, code).unwrap_or_default();
    Ok([b'S', b'C', b'M', b'H'].map(field).join(" | "))
}

fn parameters<'p>(user: &'p str, database: &'p str, value: &'p str) -> [(&'p str, &'p str); 3] {
    [
        ("user", user),
        ("database", database),
        ("replication", value),
    ]
}

#[test]
fn wrong_values_are_refused_as_by_postgresql() -> Result<()> {
    let postgres = postgres()?;
    let weir = Weir::start(&config(&postgres))?;
    for value in ["maybe", "", "2", "DATABASE", "o", "logical"] {
        let parameters = parameters("postgres", "postgres", value);
        let direct = refusal(postgres.port(), &parameters)?;
        ensure!(
            refusal(weir.port(), &parameters)? == direct,
            "{value}: {direct}"
        );
        ensure!(direct.starts_with("FATAL | 22023 | "), "{direct}");
    }
    for value in ["off", "f", "no", "0", "FALSE"] {
        let mut raw = replicate(weir.port(), "postgres", value)?;
        ensure!(raw.query_one("SELECT 1 + 1")? == "2", "{value}");
    }
    for value in ["on", "t", "yes", "1", "TRUE", "database"] {
        let mut raw = replicate(weir.port(), "postgres", value)?;
        ensure!(raw.query("IDENTIFY_SYSTEM")?.len() == 1, "{value}");
    }
    Ok(())
}

#[test]
fn what_the_server_refuses_is_told_in_its_words_and_fails_nobody_else() -> Result<()> {
    let rule = ["host replication barred 127.0.0.1/32 reject"];
    let postgres = postgres_with(&["max_wal_senders = 2"], &rule)?;
    let mut raw = Raw::connect(postgres.port(), "postgres")?;
    raw.query("CREATE ROLE barred LOGIN REPLICATION; CREATE ROLE plain LOGIN")?;
    let users = "\"postgres\" \"\"\n\"plain\" \"\"\n\"barred\" \"\"\n";
    let weir = Weir::start(&config(&postgres).userlist(users))?;
    let refused = |user, database, value| -> Result<()> {
        let parameters = parameters(user, database, value);
        let began = now();
        let direct = refusal(postgres.port(), &parameters)?;
        ensure!(
            refusal(weir.port(), &parameters)? == direct,
            "{user} {value}: {direct}"
        );
        ensure!(now() - began < Duration::from_secs(5), "at once");
        Ok(())
    };
    refused("barred", "postgres", "true")?;
    refused("plain", "postgres", "true")?;
    refused("plain", "postgres", "database")?;
    refused("postgres", "nowhere", "database")?;
    // The pools of these users serve on.
    let mut ordinary = weir.connect_as("plain", "postgres")?;
    ensure!(ordinary.query_one("SELECT current_user")? == "plain");
    let mut unknown = vec![("no_such_setting", "1")];
    unknown.extend(parameters("postgres", "postgres", "database"));
    ensure!(refusal(weir.port(), &unknown)? == refusal(postgres.port(), &unknown)?);
    // All walsenders are taken: two of ours.
    let all = [
        replicate(weir.port(), "postgres", "true")?,
        replicate(weir.port(), "postgres", "database")?,
    ];
    refused("postgres", "postgres", "true")?;
    drop(all);
    Ok(())
}

/// Configuration with these lines of an HBA file.
fn with_rules(postgres: &Postgres, weir: &std::path::Path, lines: &str) -> Result<Config> {
    let file = weir.join("hba.conf");
    std::fs::write(&file, lines)?;
    let file = file.to_str().context("UTF-8")?.to_owned();
    let config = config(postgres)
        .set("auth_type", "hba")
        .set("auth_hba_file", &file);
    Ok(config.userlist("\"postgres\" \"\"\n\"other\" \"\"\n"))
}

#[test]
fn rules_know_physical_replication_by_its_keyword_alone() -> Result<()> {
    let postgres = postgres()?;
    let directory = crate::fixture::directory()?;
    let lines = "host all all 127.0.0.1/32 trust\n";
    let mut config = with_rules(&postgres, directory.path(), lines)?;
    let weir = Weir::start(&config)?;
    let physical = parameters("postgres", "replication", "true");
    let expected = "FATAL | 28000 | no pg_hba.conf entry for replication connection from host \"127.0.0.1\", \
                    user \"postgres\", no encryption | ";
    ensure!(refusal(weir.port(), &physical)? == expected);
    replicate(weir.port(), "postgres", "database")?;
    let lines = "host all all 127.0.0.1/32 reject\nhost replication postgres 127.0.0.1/32 trust\n\
                 host replication other 127.0.0.1/32 reject\n";
    config = with_rules(&postgres, directory.path(), lines)?;
    drop(weir);
    let weir = Weir::start(&config)?;
    replicate(weir.port(), "replication", "true")?;
    let logical = refusal(weir.port(), &parameters("postgres", "postgres", "database"))?;
    let expected = "FATAL | 28000 | pg_hba.conf rejects connection for host \"127.0.0.1\", user \"postgres\", \
                    database \"postgres\", no encryption | ";
    ensure!(logical == expected, "{logical}");
    let other = refusal(weir.port(), &parameters("other", "replication", "true"))?;
    let expected = "FATAL | 28000 | pg_hba.conf rejects replication connection for host \"127.0.0.1\", \
                    user \"other\", no encryption | ";
    ensure!(other == expected, "{other}");
    Ok(())
}

#[test]
fn parameters_of_the_client_are_those_of_its_server() -> Result<()> {
    let postgres = postgres()?;
    let one = config(&postgres)
        .set("ignore_startup_parameters", "extra_float_digits")
        .set("application_name_add_host", "1");
    let weir = Weir::start(&one)?;
    let mut all = vec![
        ("options", "-c datestyle=german -c work_mem=3MB"),
        ("application_name", "follower"),
        ("TimeZone", "Europe/Berlin"),
        ("extra_float_digits", "nonsense"),
    ];
    all.extend(parameters("postgres", "postgres", "database"));
    let mut raw = Raw::connect_with(weir.port(), &all)?;
    for (name, wanted) in [
        ("datestyle", "German, DMY"),
        ("work_mem", "3MB"),
        ("timezone", "Europe/Berlin"),
        ("extra_float_digits", "1"),
    ] {
        let value = raw.query_one(&format!("SHOW {name}"))?;
        ensure!(value == wanted, "{name}: {value}");
    }
    let name = raw.query_one("SHOW application_name")?;
    ensure!(name.starts_with("follower - 127.0.0.1:"), "{name}");
    Ok(())
}

#[test]
fn a_clients_scram_login_serves_its_server_too() -> Result<()> {
    let postgres = Postgres::start(&Options {
        login: Login::ScramSha256,
        settings: vec!["wal_level = logical".to_owned()],
        hba: vec!["host replication all 127.0.0.1/32 scram-sha-256".to_owned()],
        ..Options::default()
    })?;
    let ask = |port: u16, database: &str, kind: &str, command: &str| {
        let mut psql = psql::psql(port, "x")?;
        let target = format!(
            "host=127.0.0.1 port={port} user=postgres dbname={database} replication={kind}"
        );
        psql.args(["-Atd", &target, "-c", command]);
        tools::run(psql.env("PGPASSWORD", Postgres::PASSWORD))
    };
    let secret = "SELECT rolpassword FROM pg_authid WHERE rolname = 'postgres'";
    let secret = ask(postgres.port(), "postgres", "off", secret)?;
    let weir = Weir::start(
        &config(&postgres)
            .set("auth_type", "scram-sha-256")
            .userlist(&format!("\"postgres\" \"{}\"\n", secret.trim())),
    )?;
    for (database, kind) in [("postgres", "database"), ("replication", "true")] {
        for _ in 0..2 {
            let size = ask(weir.port(), database, kind, "SHOW wal_segment_size")?;
            ensure!(size == "16MB\n", "{kind}: {size}");
        }
        let mut psql = psql::psql(weir.port(), "x")?;
        psql.args([
            "-d",
            &format!("dbname={database} replication={kind}"),
            "-c",
            "SHOW port",
        ]);
        let (refused, is_in) = tools::run_any(psql.env("PGPASSWORD", "wrong"))?;
        ensure!(
            !is_in && refused.contains("authentication failed"),
            "{refused}"
        );
    }
    Ok(())
}

#[test]
fn the_log_and_the_console_tell_the_kind() -> Result<()> {
    let postgres = postgres()?;
    let weir = Weir::start(&config(&postgres).set("log_connections", "1"))?;
    let ordinary = weir.connect("postgres")?;
    let logical = replicate(weir.port(), "postgres", "database")?;
    let physical = replicate(weir.port(), "replication", "true")?;
    let line = |database: &str, kind: &str| {
        format!("login attempt: db={database} user=postgres tls=no replication={kind}")
    };
    weir.wait_log(&line("postgres", "no"))?;
    weir.wait_log(&line("postgres", "database"))?;
    weir.wait_log(&line("replication", "yes"))?;
    for (command, kind) in [("SHOW CLIENTS", "C"), ("SHOW SERVERS", "S")] {
        let mut shown = crate::fixture::connections(&weir, command)?;
        shown.sort();
        let expected = [
            format!("{kind} postgres postgres logical active"),
            format!("{kind} postgres replication physical active"),
        ];
        ensure!(shown == expected, "{shown:?}");
    }
    drop((ordinary, logical, physical));
    crate::fixture::wait_servers(&weir, 0)
}
