//! Start-up packets and refused logins.

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::TempDir;
use weir_conformance::Weir;
use weir_conformance::frontend;

use crate::support::PATIENCE;
use crate::support::both;
use crate::support::database;
use crate::support::refusal;
use crate::support::role;

#[test]
fn ignored_options_may_hold_anything() -> Result<()> {
    let postgres = database("drop_options")?;
    let port = postgres.port();
    let config = Config::to(port).set("ignore_startup_parameters", "options");
    both(&config, |pooler| {
        for options in ["-d 5 -S 100", "-c", "nonsense", "-c geqo=off"] {
            let startup = [
                ("user", "postgres"),
                ("database", "drop_options"),
                ("options", options),
            ];
            let client = Raw::connect_with(pooler.port(), &startup);
            let mut client = client.with_context(|| options.to_owned())?;
            ensure!(client.query_one("show geqo")? == "on", "{options}");
        }
        Ok(())
    })
}

/// Configuration whose users are looked up in PostgreSQL.
fn looked_up(port: u16) -> Config {
    Config::to(port).set("auth_user", "postgres").set(
        "auth_query",
        "select rolname, '' from pg_roles where rolname = $1",
    )
}

#[test]
fn a_disabled_auth_dbname_refuses_logins() -> Result<()> {
    let postgres = database("drop_auth")?;
    let port = postgres.port();
    postgres.create_database("drop_served")?;
    role(port, "drop_ann")?;
    let config = looked_up(port)
        .userlist("\"postgres\" \"known\"\n")
        .set("auth_dbname", "drop_auth")
        .set("auth_query_cache_ttl", "60");
    let mut weir = Weir::start(&config)?;
    drop(weir.connect_as("drop_ann", "drop_served")?);
    let mut console = weir.connect("pgbouncer")?;
    console.query("DISABLE drop_auth")?;
    let refused = refusal(weir.connect_as("drop_ann", "drop_served"));
    let text = "FATAL 55000 authentication database \"drop_auth\" is disabled";
    ensure!(refused.contains(text), "{refused:?}");
    // Nobody has to be looked up for a user of auth_file.
    drop(weir.connect("drop_served")?);
    console.query("ENABLE drop_auth")?;
    drop(weir.connect_as("drop_ann", "drop_served")?);
    weir.check_healthy()
}

#[test]
fn a_database_that_postgresql_does_not_have_is_named() -> Result<()> {
    let postgres = Postgres::shared()?;
    let port = postgres.port();
    role(port, "drop_ben")?;
    let direct = refusal(Raw::connect(port, "drop_nowhere"));
    ensure!(direct.contains("3D000 database \"drop_nowhere\" does not exist"));
    let mut weir = Weir::start(&looked_up(port))?;
    for user in ["drop_ben", "postgres", "drop_unknown"] {
        let refused = refusal(weir.connect_as(user, "drop_nowhere"));
        ensure!(refused == direct, "{user}: {refused:?}, not {direct:?}");
    }
    weir.check_healthy()?;
    // A database without an entry is refused in the same words.
    let weir = Weir::start(&Config::new().database("only = host=127.0.0.1"))?;
    let refused = refusal(weir.connect("drop_nowhere"));
    ensure!(refused == direct, "{refused:?}, not {direct:?}");
    Ok(())
}

#[test]
fn clients_whom_no_rule_lets_in_are_refused_as_by_postgresql() -> Result<()> {
    let postgres = database("drop_rules")?;
    let port = postgres.port();
    let files = TempDir::new()?;
    let rules = "host drop_rules drop_barred all reject\nhost all postgres all trust\n";
    let rules = files.write("hba.conf", rules)?;
    let config = Config::to(port)
        .set("auth_type", "hba")
        .set("auth_hba_file", &rules.to_string_lossy())
        .userlist("\"postgres\" \"\"\n\"drop_barred\" \"\"\n");
    let mut weir = Weir::start(&config)?;
    drop(weir.connect("drop_rules")?);
    for (user, words) in [
        ("drop_barred", "pg_hba.conf rejects connection"),
        ("drop_stranger", "no pg_hba.conf entry"),
    ] {
        let refused = refusal(weir.connect_as(user, "drop_rules"));
        let text = format!(
            "FATAL 28000 {words} for host \"127.0.0.1\", user \"{user}\", database \"drop_rules\", no encryption"
        );
        ensure!(refused.contains(&text), "{refused:?}, not {text:?}");
    }
    // The log names the line that rejects.
    let line = "hba.conf:1: host drop_rules drop_barred all reject rejects host \"127.0.0.1\"";
    ensure!(weir.log().contains(line), "{}", weir.log());
    weir.check_healthy()
}

#[test]
fn what_cannot_be_a_start_up_packet_is_closed_without_an_answer() -> Result<()> {
    let postgres = database("drop_malformed")?;
    let port = postgres.port();
    let mut weir = Weir::start(&Config::to(port))?;
    for (name, bytes) in [
        (
            "a request for a page",
            &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        ),
        ("a length of 0", b"\0\0\0\0\0\0\0\0"),
        ("a length of 7", b"\0\0\0\x07\0\x03\0\0"),
        ("a length of 1 GiB", b"\x40\0\0\0\0\x03\0\0"),
    ] {
        for (who, port) in [("PostgreSQL", port), ("Weir", weir.port())] {
            let mut raw = Raw::tcp(port, PATIENCE)?;
            raw.send(bytes)?;
            // A server that closes with unread bytes resets the connection.
            let answer = raw.read_to_close().unwrap_or_default();
            ensure!(answer.is_empty(), "{who} answers {name}: {answer:?}");
        }
    }
    weir.wait_log("invalid length of startup packet")?;
    weir.check_healthy()
}

/// Notices that a client gets with its login under this application_name, and with a SET of it.
fn notices(port: u16, name: &str) -> Result<Vec<String>> {
    let mut raw = Raw::tcp(port, PATIENCE)?;
    let startup = [
        ("user", "postgres"),
        ("database", "drop_notice"),
        ("application_name", name),
    ];
    raw.send(&frontend::startup(frontend::VERSION_3_0, &startup))?;
    let mut messages = raw.read_until_ready()?;
    messages.extend(raw.ask(&frontend::query(&format!(
        "SET application_name = '{name}'"
    )))?);
    let notices = messages.iter().filter(|message| message.tag == b'N');
    Ok(notices.map(|notice| notice.error()).collect())
}

#[test]
fn the_notice_for_a_long_application_name_is_postgresqls() -> Result<()> {
    let postgres = database("drop_notice")?;
    let mut weir = Weir::start(&Config::to(postgres.port()))?;
    let long = "a".repeat(70);
    let two_bytes = "\u{e9}".repeat(40);
    for name in [long.as_str(), &two_bytes, "short"] {
        // A new pool learns the name from its server, a known one does not.
        for _ in 0..2 {
            let (direct, through) = (notices(postgres.port(), name)?, notices(weir.port(), name)?);
            ensure!(direct == through, "{name}: {through:?}, not {direct:?}");
        }
    }
    weir.check_healthy()
}
