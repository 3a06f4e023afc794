//! Message framing: split bytes, short messages, unknown types, and that no bytes are parsed after an error.

use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::scripted;
use weir_conformance::scripted::Scripted;

use crate::support;
use crate::support::MIB;
use crate::support::Meter;
use crate::support::SMUGGLED;

/// Message types that a client may send after its login.
const KNOWN: &[u8] = b"BCDEFHPQSXcdf";

#[test]
fn sec_27_nothing_is_parsed_after_an_error() -> Result<()> {
    let server = Scripted::honest()?;
    let mut target = support::start(server.port(), &PoolOptions::default().pool_size(3))?;
    let inside = [b"\0x\0".to_vec(), support::smuggled()].concat();
    let broken = [
        ("unknown type", frontend::message(b'y', &[])),
        (
            "unknown type holding a query",
            frontend::message(b'y', &support::smuggled()),
        ),
        ("length 0", support::head(b'Q', 0)),
        ("Close of neither", frontend::message(b'C', b"Zname\0")),
        ("Describe without an end", frontend::message(b'D', b"Sname")),
        ("Parse without an end", frontend::message(b'P', b"name")),
        ("Parse holding a query", frontend::message(b'P', &inside)),
        ("Bind holding a query", frontend::message(b'B', &inside)),
        (
            "password holding a query",
            frontend::message(b'p', &support::smuggled()),
        ),
    ];
    for (name, bytes) in &broken {
        for is_together in [true, false] {
            let mut raw = Raw::connect(target.port(), "postgres")?;
            if is_together {
                raw.send(&[bytes.clone(), support::smuggled()].concat())?;
            } else {
                raw.send(bytes)?;
                // The second send may find the connection closed.
                drop(raw.send(&support::smuggled()));
            }
            // A message that PostgreSQL itself would judge may be forwarded; it still ends at its own length.
            let is_passed_on = name.ends_with("holding a query") && matches!(bytes[0], b'P' | b'B');
            if is_passed_on {
                drop(raw);
                continue;
            }
            let words = support::last_words(&mut raw).with_context(|| (*name).to_owned())?;
            ensure!(
                support::codes(&words) == ["08P01"],
                "{name}: {}",
                support::describe(&words)
            );
            ensure!(words.len() == 1, "{name}: {}", support::describe(&words));
        }
    }
    support::check_serves(&mut target)?;
    for index in 0..server.connections() {
        let heard = server.heard(index);
        // No forwarded bytes contain it as a separate message either.
        let own = frontend::query("select 'smuggled'");
        let at = heard.windows(own.len()).position(|window| window == own);
        let allowed = [
            frontend::message(b'P', &inside),
            frontend::message(b'B', &inside),
        ];
        let is_inside = allowed.iter().any(|message| {
            heard
                .windows(message.len())
                .any(|window| window == *message)
        });
        ensure!(
            at.is_none() || is_inside,
            "server {index} saw the smuggled query"
        );
    }
    Ok(())
}

#[test]
fn cor_28_replies_do_not_depend_on_how_bytes_are_cut() -> Result<()> {
    let server = Scripted::start(|conversation| {
        conversation.login()?;
        loop {
            let Some(_) =
                conversation.serve_until(|message| message.body.starts_with(b"select 'bytes'"))?
            else {
                return Ok(());
            };
            for byte in cut_reply() {
                conversation.send(&[byte])?;
                std::thread::yield_now();
            }
        }
    })?;
    let mut target = support::start(server.port(), &PoolOptions::default())?;
    let mut raw = Raw::connect(target.port(), "postgres")?;
    for _ in 0..20 {
        for byte in frontend::query("select 'bytes'") {
            raw.send(&[byte])?;
            std::thread::yield_now();
        }
        let bytes: Vec<u8> = raw
            .read_until_ready()?
            .iter()
            .flat_map(weir_conformance::raw::Message::wire)
            .collect();
        ensure!(bytes == cut_reply(), "got {}", bytes.escape_ascii());
    }
    support::check_serves(&mut target)
}

fn cut_reply() -> Vec<u8> {
    [
        scripted::row_description(),
        frontend::message(b'N', b"SNOTICE\0C00000\0Mby the way\0\0"),
        scripted::row(b""),
        scripted::row(&[b'r'; 300]),
        scripted::complete("SELECT 2"),
        frontend::message(b'Z', b"I"),
    ]
    .concat()
}

#[test]
fn cor_29_a_large_message_is_streamed_both_ways() -> Result<()> {
    let postgres = Postgres::shared()?;
    let mut target = support::start(postgres.port(), &PoolOptions::default())?;
    let mut raw = Raw::connect(target.port(), "postgres")?;
    raw.query("select 1")?;
    let meter = Meter::begin(&target)?;
    raw.send(&frontend::query("select repeat('x', 100000000)"))?;
    ensure!(raw.skim_until_ready()? > 100_000_000);
    let value = vec![b'y'; 50_000_000];
    let statement = [
        frontend::parse("", "select length($1::text)", &[]),
        frontend::bind("", "", &[Some(&value)]),
        frontend::execute("", 0),
        frontend::sync(),
    ];
    let answer = raw.ask(&statement.concat())?;
    let row = answer.iter().find(|message| message.tag == b'D');
    ensure!(row.context("no row")?.row()? == [Some("50000000".to_owned())]);
    let peak = target.rss_peak()?;
    ensure!(peak < 64 * MIB, "the peak is {} MiB", peak / MIB);
    meter.check_growth(4 * MIB)?;
    support::check_serves(&mut target)
}

#[test]
fn cor_30_unknown_message_types_are_refused_without_a_server() -> Result<()> {
    let server = Scripted::honest()?;
    let options = PoolOptions::default().pool_size(1);
    let mut target = support::start(server.port(), &options)?;
    support::warm_up(&target)?;
    let mut holder = Raw::connect(target.port(), "postgres")?;
    holder.query("begin")?;
    let before = server.heard_all().len();
    let meter = Meter::begin(&target)?;
    for tag in (0..=u8::MAX).filter(|tag| !KNOWN.contains(tag)) {
        for body in [&b""[..], b"xyz"] {
            // The only server is in use, so a request that needs one waits.
            let mut raw = Raw::connect(target.port(), "postgres")?;
            let begun = clock::now();
            raw.send(&frontend::message(tag, body))?;
            let text =
                support::refused(&mut raw, "08P01").with_context(|| format!("type {tag}"))?;
            ensure!(
                text == format!("invalid frontend message type {tag}"),
                "{text}"
            );
            ensure!(
                begun.elapsed() < SOON,
                "type {tag} took {:?}",
                begun.elapsed()
            );
        }
    }
    ensure!(
        server.heard_all().len() == before,
        "a server heard something"
    );
    meter.check_growth(2 * MIB)?;
    holder.query("rollback")?;
    support::check_serves(&mut target)
}

/// Empty and short messages get PostgreSQL's own answer or a FATAL 08P01: never silence, never a wrong answer.
#[test]
fn cor_30_short_messages_are_answered_and_leave_the_server_usable() -> Result<()> {
    let postgres = Postgres::shared()?;
    let mut target = support::start(postgres.port(), &PoolOptions::default().pool_size(2))?;
    for tag in *b"BCDEFPQ" {
        for body in [&b""[..], b"\0", b"x", b"\0\0", b"S", b"\0\0\0"] {
            let mut raw = Raw::tcp(target.port(), Duration::from_secs(10))?;
            let login = [("user", "postgres"), ("database", "postgres")];
            raw.ask(&frontend::startup(frontend::VERSION_3_0, &login))?;
            raw.send(&[frontend::message(tag, body), frontend::sync()].concat())?;
            let answer = raw
                .read_until_ready()
                .with_context(|| format!("'{}' with {body:?}", tag as char))?;
            let is_error = support::codes(&answer).len() == 1;
            // These are complete messages: an empty query, and Close, Describe or Execute of the unnamed object.
            let is_fine = matches!((tag, body), (b'Q', b"\0" | b"\0\0" | b"\0\0\0" | b"x"));
            ensure!(
                is_error || is_fine,
                "'{}' with {body:?}: {}",
                tag as char,
                support::describe(&answer)
            );
            drop(raw);
        }
    }
    support::check_serves(&mut target)
}

#[test]
fn cor_31_a_function_call_is_a_cycle_of_its_own() -> Result<()> {
    let postgres = Postgres::shared()?;
    let mut target = support::start(postgres.port(), &PoolOptions::default().pool_size(1))?;
    let mut raw = Raw::connect(target.port(), "postgres")?;
    // int4pl is 177, textlen is 1257.
    for _ in 0..3 {
        let answer = raw.ask(&frontend::function_call(
            177,
            &[&[0, 0, 0, 2], &[0, 0, 0, 3]],
        ))?;
        ensure!(
            support::tags(&answer) == "VZ",
            "{}",
            support::describe(&answer)
        );
        ensure!(
            answer[0].body == [0, 0, 0, 4, 0, 0, 0, 5],
            "{:?}",
            answer[0]
        );
        // An oid below 16,384, because the database's own functions pin the server.
        let error = raw.ask(&frontend::function_call(16_000, &[]))?;
        ensure!(
            support::tags(&error) == "EZ",
            "{}",
            support::describe(&error)
        );
        // Longer than any message that is buffered as a whole.
        let text = vec![b'x'; 300_000];
        let answer = raw.ask(&frontend::function_call(1257, &[&text]))?;
        ensure!(
            answer[0].body == [0, 0, 0, 4, 0, 4, 0x93, 0xe0],
            "{:?}",
            answer[0]
        );
    }
    // The server was released: another client is served while the first one stays connected.
    support::check_serves(&mut target)?;
    ensure!(raw.query_one("select 'same'")? == "same");
    Ok(())
}

#[test]
fn sec_25_what_is_inside_bind_is_passed_on_untouched() -> Result<()> {
    let server = Scripted::honest()?;
    let options = PoolOptions::default().setting("max_prepared_statements = 100");
    let mut target = support::start(server.port(), &options)?;
    let tails: [&[u8]; 8] = [
        b"",
        b"\xff\xff",
        b"\0\0\xff\xff",
        b"\0\x01\xff\xff\0\x01\x80\0\0\0",
        b"\0\0\0\x01\xff\xff\xff\xfe\0\0",
        b"\0\0\0\x02\x7f\xff\xff\xff",
        b"\x80\0\x80\0\x80\0",
        b"\0\0\0\0\0\0trailing bytes",
    ];
    for statement in ["", "named"] {
        for (number, tail) in tails.into_iter().enumerate() {
            let mut raw = Raw::connect(target.port(), "postgres")?;
            let marker = format!("portal{}{number}", statement.len());
            let bind = [marker.as_bytes(), b"\0", statement.as_bytes(), b"\0", tail].concat();
            let batch = [
                frontend::parse(statement, "select $1", &[]),
                frontend::message(b'B', &bind),
                frontend::sync(),
            ];
            raw.ask(&batch.concat())?;
            raw.terminate();
            let portal = [marker.as_bytes(), b"\0"].concat();
            let heard = server.heard_all();
            let at = heard
                .windows(portal.len())
                .position(|window| window == portal)
                .with_context(|| format!("Bind {number} of '{statement}' did not arrive"))?;
            let length = u32::from_be_bytes(heard[at - 4..at].try_into()?);
            let body = &heard[at..at + usize::try_from(length)? - 4];
            ensure!(
                heard[at - 5] == b'B' && body.ends_with(tail),
                "{}",
                body.escape_ascii()
            );
            let name = &body[portal.len()..body.len() - tail.len()];
            let zeros = name.iter().filter(|byte| **byte == 0).count();
            ensure!(
                zeros == 1 && name.ends_with(&[0]),
                "{}",
                body.escape_ascii()
            );
        }
    }
    support::check_serves(&mut target)
}

#[test]
fn sec_25_what_is_inside_rows_is_passed_on_untouched() -> Result<()> {
    let server = Scripted::start(|conversation| {
        conversation.login()?;
        while conversation
            .serve_until(|message| message.body.starts_with(b"select 'rows'"))?
            .is_some()
        {
            conversation.send(&strange_reply())?;
        }
        Ok(())
    })?;
    let mut target = support::start(server.port(), &PoolOptions::default())?;
    let mut raw = Raw::connect(target.port(), "postgres")?;
    let answer = raw.ask(&frontend::query("select 'rows'"))?;
    let bytes: Vec<u8> = answer
        .iter()
        .flat_map(weir_conformance::raw::Message::wire)
        .collect();
    ensure!(bytes == strange_reply(), "got {}", bytes.escape_ascii());
    ensure!(server.count(SMUGGLED) == 0);
    support::check_serves(&mut target)
}

/// Rows with inconsistent contents: negative lengths, fewer columns than described, counts beyond the end.
fn strange_reply() -> Vec<u8> {
    [
        scripted::row_description(),
        frontend::message(b'D', b""),
        frontend::message(b'D', b"\0\x01\xff\xff\xff\xfe"),
        frontend::message(b'D', b"\xff\xff"),
        frontend::message(b'D', b"\0\x01\x7f\xff\xff\xff"),
        frontend::message(b'T', b"\xff\xff"),
        frontend::message(b't', b"\xff\xff"),
        scripted::complete("SELECT 4"),
        frontend::message(b'Z', b"I"),
    ]
    .concat()
}
