//! Probes of start-up packets, logins and their errors.

use anyhow::Result;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::frontend;
use weir_conformance::login;
use weir_conformance::login::Binding;

use super::Probe;
use super::Run::Does;
use super::bench::Bench;
use super::bench::PATIENCE;
use super::bench::Seen;
use super::bench::answer_to;
use super::bench::rest;
use super::bench::told;
use super::differs;
use super::same;
use super::why::CODES;
use super::why::LOGINS;
use super::why::NEWEST;
use super::why::NO_PACKET;
use super::why::PROTOCOL;
use super::why::PROTOCOL_3_2;
use super::why::START_UP;

pub(super) const PROBES: &[Probe] = &[
    same(
        "greeting: ParameterStatus, key",
        Does(|bench| trusted(bench, &[("database", "shop")])),
    ),
    differs(
        "a database that does not exist",
        Does(|bench| trusted(bench, &[("database", "nosuch")])),
        LOGINS,
    ),
    differs("start-up without a user", Does(without_user), CODES),
    differs(
        "an unknown start-up parameter",
        Does(|bench| trusted(bench, &[("database", "shop"), ("work_mem", "1MB")])),
        START_UP,
    ),
    differs(
        "the start-up parameter options",
        Does(|bench| {
            trusted(
                bench,
                &[("database", "shop"), ("options", "-c datestyle=German")],
            )
        }),
        START_UP,
    ),
    same(
        "a start-up parameter that is followed",
        Does(|bench| {
            trusted(
                bench,
                &[
                    ("database", "shop"),
                    ("datestyle", "German, DMY"),
                    ("TimeZone", "UTC"),
                    ("client_encoding", "LATIN1"),
                ],
            )
        }),
    ),
    differs(
        "replication=true",
        Does(|bench| trusted(bench, &[("database", "shop"), ("replication", "true")])),
        NEWEST,
    ),
    differs(
        "protocol 3.9",
        Does(|bench| version(bench, 3 << 16 | 9)),
        PROTOCOL_3_2,
    ),
    differs(
        "an unknown protocol extension",
        Does(|bench| trusted(bench, &[("database", "shop"), ("_pq_.nosuch", "1")])),
        PROTOCOL_3_2,
    ),
    differs("protocol 2.0", Does(|bench| version(bench, 2 << 16)), CODES),
    same(
        "SSLRequest without TLS",
        Does(|bench| raw(bench, &frontend::ssl_request())),
    ),
    same(
        "GSSENCRequest",
        Does(|bench| raw(bench, &frontend::gssenc_request())),
    ),
    same(
        "a cancel request with a wrong key",
        Does(|bench| raw(bench, &frontend::cancel_request(1, b"abcd"))),
    ),
    differs(
        "bytes that are no start-up packet",
        Does(|bench| raw(bench, b"GET / HTTP/1.1\r\n\r\n")),
        NO_PACKET,
    ),
    same(
        "a query before the login",
        Does(|bench| raw(bench, &frontend::query("select 1"))),
    ),
    differs("a disabled database", Does(disabled), CODES),
    same(
        "auth_type md5: challenge, right password",
        Does(|bench| with_password(bench, "md5", "postgres", "right")),
    ),
    differs(
        "auth_type md5: a wrong password",
        Does(|bench| with_password(bench, "md5", "postgres", "wrong")),
        LOGINS,
    ),
    differs(
        "auth_type md5: an unknown user",
        Does(|bench| with_password(bench, "md5", "drop_unknown", "any")),
        LOGINS,
    ),
    differs(
        "auth_type md5: an empty password message",
        Does(|bench| with_message(bench, "md5", &frontend::message(b'p', b"\0"))),
        CODES,
    ),
    same(
        "auth_type plain: challenge, right password",
        Does(|bench| with_message(bench, "plain", &frontend::message(b'p', b"right\0"))),
    ),
    differs(
        "auth_type plain: a wrong password",
        Does(|bench| with_message(bench, "plain", &frontend::message(b'p', b"wrong\0"))),
        LOGINS,
    ),
    same(
        "auth_type scram-sha-256: mechanisms, right password",
        Does(|bench| with_password(bench, "scram-sha-256", "postgres", "right")),
    ),
    differs(
        "auth_type scram-sha-256: a wrong password",
        Does(|bench| with_password(bench, "scram-sha-256", "postgres", "wrong")),
        LOGINS,
    ),
    same(
        "auth_type scram-sha-256: an unknown mechanism",
        Does(|bench| {
            with_message(
                bench,
                "scram-sha-256",
                &login::sasl_initial("SCRAM-SHA-1", "n,,n=,r=x"),
            )
        }),
    ),
    differs(
        "a query in place of a password",
        Does(|bench| with_message(bench, "md5", &frontend::query("select 1"))),
        PROTOCOL,
    ),
    differs("a user whom no HBA line lets in", Does(by_rules), LOGINS),
    same(
        "auth_type any: any name logs in as the forced user",
        Does(any),
    ),
    differs(
        "auth_type trust: an unknown user",
        Does(|bench| as_user(bench, "drop_unknown")),
        LOGINS,
    ),
    differs("client_login_timeout", Does(login_timeout), CODES),
];

fn trusted(bench: &Bench, parameters: &[(&str, &str)]) -> Result<Seen> {
    let mut all = vec![("user", "postgres")];
    all.extend(parameters);
    let mut raw = Raw::tcp(bench.pooler.port(), PATIENCE)?;
    raw.send(&frontend::startup(frontend::VERSION_3_0, &all))?;
    let text = match raw.read_until_ready() {
        Ok(messages) => sorted(&told(&messages)),
        Err(error) => format!("{error:#}"),
    };
    Ok(bench.text(&text))
}

/// Greeting with its ParameterStatus messages in the order of their names.
fn sorted(text: &str) -> String {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_by_key(|line| line.starts_with("S ").then_some(*line));
    lines.join("\n")
}

fn as_user(bench: &Bench, user: &str) -> Result<Seen> {
    let text = super::bench::login(&bench.pooler, &[("user", user), ("database", "shop")])?;
    Ok(bench.text(&text))
}

fn without_user(bench: &Bench) -> Result<Seen> {
    let packet = frontend::startup(frontend::VERSION_3_0, &[("database", "shop")]);
    raw(bench, &packet)
}

fn version(bench: &Bench, version: i32) -> Result<Seen> {
    let startup = [("user", "postgres"), ("database", "shop")];
    let text = answer_to(&bench.pooler, &frontend::startup(version, &startup))?;
    Ok(bench.text(&sorted(&text)))
}

/// Bytes that answer a packet, and whether the connection is open afterwards.
fn raw(bench: &Bench, packet: &[u8]) -> Result<Seen> {
    let mut raw = Raw::tcp(bench.pooler.port(), PATIENCE / 20)?;
    raw.send(packet)?;
    let mut bytes = Vec::new();
    let end = loop {
        let mut next = [0];
        match std::io::Read::read(raw.reader(), &mut next) {
            Ok(0) => break "closed",
            Ok(_) => bytes.extend(next),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break "open",
            Err(_) => break "closed",
        }
    };
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    let text = text.replace("VFATAL ", "");
    Ok(bench.text(&format!("{text:?} ({end})")))
}

fn disabled(bench: &Bench) -> Result<Seen> {
    let mut console = bench.pooler.connect("pgbouncer")?;
    console.query("DISABLE two")?;
    let text = super::bench::login(&bench.pooler, &[("user", "postgres"), ("database", "two")])?;
    console.query("ENABLE two")?;
    Ok(bench.text(&text))
}

fn secured(bench: &Bench, auth_type: &str) -> Result<Weir> {
    let config = bench.config().set("auth_type", auth_type);
    bench.start(&config.userlist("\"postgres\" \"right\"\n"))
}

fn with_password(bench: &Bench, auth_type: &str, user: &str, password: &str) -> Result<Seen> {
    let pooler = secured(bench, auth_type)?;
    let mut raw = Raw::tcp(pooler.port(), PATIENCE)?;
    let outcome = login::login(&mut raw, user, "shop", password, Binding::No);
    let text = match outcome {
        Ok(method) => format!("{method:?}"),
        Err(error) => format!("{error:#}"),
    };
    Ok(bench.text_of(&text, &pooler))
}

fn with_message(bench: &Bench, auth_type: &str, message: &[u8]) -> Result<Seen> {
    let pooler = secured(bench, auth_type)?;
    let mut raw = Raw::tcp(pooler.port(), PATIENCE / 10)?;
    let startup = [("user", "postgres"), ("database", "pgbouncer")];
    raw.send(&frontend::startup(frontend::VERSION_3_0, &startup))?;
    let challenge = raw.read_message()?;
    raw.send(message)?;
    let text = format!("{}\n{}", told(&[challenge]), rest(&mut raw));
    Ok(bench.text_of(&text, &pooler))
}

fn by_rules(bench: &Bench) -> Result<Seen> {
    let files = super::bench::open_directory()?;
    let rules = files.write(
        "hba.conf",
        "host all postgres all trust\nhost all drop_other all reject\n",
    )?;
    let config = bench.config().set("auth_type", "hba");
    let pooler = bench.start(&config.set("auth_hba_file", &rules.to_string_lossy()))?;
    let mut text = String::new();
    for user in ["drop_other", "drop_stats"] {
        text += &super::bench::login(&pooler, &[("user", user), ("database", "shop")])?;
    }
    Ok(bench.text_of(&text, &pooler))
}

fn any(bench: &Bench) -> Result<Seen> {
    let port = bench.postgres_port;
    let entry = format!("one = host=127.0.0.1 port={port} dbname=drop_probes user=postgres");
    let config = Config::new().database(&entry).set("auth_type", "any");
    let pooler = bench.start(&config.set("pgbouncer_compat", "1.18"))?;
    let mut client = pooler.connect_as("whoever", "one")?;
    Ok(bench.text_of(&client.query_one("select current_user")?, &pooler))
}

fn login_timeout(bench: &Bench) -> Result<Seen> {
    let pooler = bench.start(&bench.config().set("client_login_timeout", "1"))?;
    let mut raw = Raw::tcp(pooler.port(), PATIENCE)?;
    Ok(bench.text_of(&rest(&mut raw), &pooler))
}
