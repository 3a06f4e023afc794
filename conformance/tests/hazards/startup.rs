//! The start-up packet: options, names, duplicates, versions and encryption requests.

use std::io::Read;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::PoolOptions;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::Target;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::raw::Message;
use weir_conformance::scripted::Scripted;

use crate::support;
use crate::support::MIB;
use crate::support::Meter;

const LOGIN: [(&str, &str); 2] = [("user", "postgres"), ("database", "postgres")];

#[test]
fn sec_24_no_options_string_keeps_the_parser_busy() -> Result<()> {
    let server = Scripted::honest()?;
    let mut target = support::start(server.port(), &PoolOptions::default())?;
    support::check_serves(&mut target)?;
    let long = [
        " ".repeat(9_000),
        "-c ".repeat(3_000),
        "-c=".repeat(3_000),
        "\\".repeat(9_000),
        "-".repeat(9_000),
        "-c a=b ".repeat(1_200),
        format!("-c a={}", "'\"".repeat(4_000)),
    ];
    let short = [
        "-c=",
        "-c",
        "--",
        "\\",
        "-c a=b\\",
        "-c  =",
        "--=",
        "--a",
        "-c a",
        "-c a=b -c a=b",
        "=",
        "a=b",
        "-c a='b",
        "-c a=\"b c\"",
        "\\ \\ ",
        "-",
        "-c a=\\\\",
        "\t\n",
        "-ca=b",
        "--a-b=c",
        "-z",
    ];
    let meter = Meter::begin(&target)?;
    let mut count = 0;
    for options in short.iter().copied().chain(long.iter().map(String::as_str)) {
        let begun = clock::now();
        let mut raw = Raw::tcp(target.port(), Duration::from_secs(10))?;
        let parameters = [LOGIN[0], LOGIN[1], ("options", options)];
        raw.send(&frontend::startup(frontend::VERSION_3_0, &parameters))?;
        // Accepted or refused: both are an answer.
        raw.read_until_ready()
            .with_context(|| format!("options {:.40}", options.escape_debug()))?;
        ensure!(
            begun.elapsed() < SOON,
            "{options:.40} took {:?}",
            begun.elapsed()
        );
        count += 1;
    }
    meter.check_cpu(Duration::from_millis(50) * count)?;
    meter.check_growth(2 * MIB)?;
    support::check_serves(&mut target)
}

#[test]
fn sec_26_long_names_are_refused_or_served_but_harm_nothing() -> Result<()> {
    let server = Scripted::honest()?;
    let mut target = support::start(server.port(), &PoolOptions::default())?;
    support::check_serves(&mut target)?;
    let meter = Meter::begin(&target)?;
    for length in [1, 63, 64, 127, 128, 129, 1000, 4000, 9900] {
        let name = "n".repeat(length);
        for parameters in [
            [("user", "postgres"), ("database", name.as_str())],
            [("user", name.as_str()), ("database", "postgres")],
            [("user", "postgres"), (name.as_str(), "x")],
        ] {
            let mut raw = Raw::tcp(target.port(), Duration::from_secs(10))?;
            raw.send(&frontend::startup(frontend::VERSION_3_0, &parameters))?;
            raw.read_until_ready()
                .with_context(|| format!("a name of {length}"))?;
        }
    }
    meter.check_growth(4 * MIB)?;
    support::check_serves(&mut target)
}

/// Start-up packets that are not a list of pairs, or repeat a name.
#[test]
fn sec_29_malformed_startup_packets_are_refused() -> Result<()> {
    let server = Scripted::honest()?;
    let mut target = support::start(server.port(), &PoolOptions::default())?;
    let packets: [(&str, &[u8]); 10] = [
        ("no terminator", b"user\0postgres\0"),
        ("a key without a value", b"user\0postgres\0database\0\0x"),
        ("a value without an end", b"user\0postgres"),
        ("a key without an end", b"user"),
        ("trailing bytes", b"user\0postgres\0\0trailing"),
        ("trailing pairs", b"user\0postgres\0\0user\0admin\0\0"),
        ("two users", b"user\0postgres\0user\0admin\0\0"),
        (
            "two databases",
            b"user\0postgres\0database\0a\0database\0b\0\0",
        ),
        (
            "two options",
            b"user\0postgres\0options\0-c a=b\0options\0-c a=c\0\0",
        ),
        ("nothing at all", b""),
    ];
    let mut wrong = Vec::new();
    for (name, pairs) in packets {
        let mut raw = Raw::tcp(target.port(), Duration::from_secs(5))?;
        let length = u32::try_from(pairs.len())? + 8;
        raw.send(&[&length.to_be_bytes()[..], &[0, 3, 0, 0], pairs].concat())?;
        if let Err(error) = support::refused(&mut raw, "08P01") {
            wrong.push(format!("{name}: {error:#}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    ensure!(server.connections() == 0, "a server was asked");
    support::check_serves(&mut target)
}

/// The server's start-up packet is a list of pairs with the client's requested values and nothing
/// else.
#[test]
fn sec_29_a_servers_startup_packet_holds_only_what_was_asked() -> Result<()> {
    let server = Scripted::honest()?;
    let options = PoolOptions::default().setting("server_tls_sslmode = disable");
    let target = support::start(server.port(), &options)?;
    let strange = "x' user=admin \\ \"options\" = \u{e9}";
    let mut raw = Raw::connect_with(
        target.port(),
        &[("user", "postgres"), ("database", strange)],
    )?;
    raw.query("select 1")?;
    let heard = server.heard(0);
    let length = usize::try_from(u32::from_be_bytes(heard[..4].try_into()?))?;
    let pairs: Vec<&[u8]> = heard[8..length].split(|byte| *byte == 0).collect();
    let value = |key: &[u8]| {
        let at = pairs.iter().position(|text| *text == key)?;
        pairs.get(at + 1).copied()
    };
    ensure!(
        value(b"user") == Some(b"postgres"),
        "{}",
        heard[..length].escape_ascii()
    );
    ensure!(value(b"database") == Some(strange.as_bytes()));
    for key in [&b"user"[..], b"database"] {
        let count = pairs.iter().step_by(2).filter(|text| **text == key).count();
        ensure!(count == 1, "{}", heard[..length].escape_ascii());
    }
    Ok(())
}

fn open(target: &Target, version: i32, more: &[(&str, &str)]) -> Result<Vec<Message>> {
    let mut raw = Raw::tcp(target.port(), Duration::from_secs(10))?;
    let parameters = [&LOGIN[..], more].concat();
    raw.send(&frontend::startup(version, &parameters))?;
    raw.read_until_ready()
}

fn key_length(messages: &[Message]) -> Result<usize> {
    let key = messages.iter().find(|message| message.tag == b'K');
    Ok(key.context("no key")?.body.len() - 4)
}

#[test]
fn cor_32_versions_are_negotiated_as_postgresql_does() -> Result<()> {
    let server = Scripted::honest()?;
    let mut target = support::start(server.port(), &PoolOptions::default())?;
    let version = |minor: i32| (3 << 16) + minor;
    for (minor, key) in [(0, 4), (1, 4), (2, 32)] {
        let answer = open(&target, version(minor), &[])?;
        ensure!(
            answer.iter().all(|message| message.tag != b'v'),
            "3.{minor} was negotiated"
        );
        ensure!(
            key_length(&answer)? == key,
            "3.{minor} got a key of {}",
            key_length(&answer)?
        );
    }
    for (minor, more, names) in [
        (9999, &[][..], 0_u8),
        (3, &[][..], 0),
        (0, &[("_pq_.x", "1")][..], 1),
        (9999, &[("_pq_.x", "1"), ("_pq_.y", "2")][..], 2),
    ] {
        let answer = open(&target, version(minor), more)?;
        let told = answer.first().context("no answer")?;
        ensure!(
            told.tag == b'v',
            "3.{minor} {more:?}: {}",
            support::describe(&answer)
        );
        ensure!(told.body[4..8] == [0, 0, 0, names], "{:?}", told.body);
        ensure!(answer.last().is_some_and(|last| last.tag == b'Z'));
    }
    for major in [0, 1, 2, 4, 1234] {
        let answer = open(&target, (major << 16) + 7, &[])?;
        ensure!(
            support::codes(&answer) == ["0A000"],
            "{major}.7: {}",
            support::describe(&answer)
        );
    }
    support::check_serves(&mut target)
}

#[test]
fn cor_33_encryption_requests_get_one_byte_and_only_once_each() -> Result<()> {
    let server = Scripted::honest()?;
    let mut target = support::start(server.port(), &PoolOptions::default())?;
    for (first, second) in [
        (frontend::ssl_request(), frontend::gssenc_request()),
        (frontend::gssenc_request(), frontend::ssl_request()),
    ] {
        for is_logging_in in [true, false] {
            let mut raw = Raw::tcp(target.port(), Duration::from_secs(10))?;
            for request in [&first, &second] {
                raw.send(request)?;
                let mut answer = [0];
                raw.reader().read_exact(&mut answer)?;
                ensure!(&answer == b"N");
            }
            if is_logging_in {
                let answer = raw.ask(&frontend::startup(frontend::VERSION_3_0, &LOGIN))?;
                ensure!(answer.last().is_some_and(|last| last.tag == b'Z'));
            } else {
                raw.send(&first)?;
                let words = support::last_words(&mut raw)?;
                ensure!(
                    support::codes(&words).len() == 1 && words.len() == 1,
                    "{words:?}"
                );
            }
        }
    }
    support::check_serves(&mut target)
}
