//! False lengths: refused before memory is allocated, in every phase of a connection.

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
use weir_conformance::scripted::Scripted;

use crate::support;
use crate::support::MIB;
use crate::support::Meter;
use crate::support::SMUGGLED;

/// `PQ_SMALL_MESSAGE_LIMIT` of PostgreSQL.
const SMALL_MAX: u32 = 10_000;
/// `PQ_LARGE_MESSAGE_LIMIT` of PostgreSQL: `MaxAllocSize - 1`.
const LARGE_MAX: u32 = 0x3fff_fffe;
/// Message types with the largest length that PostgreSQL accepts.
const LIMITS: [(u8, u32); 13] = [
    (b'B', LARGE_MAX),
    (b'C', SMALL_MAX),
    (b'D', SMALL_MAX),
    (b'E', SMALL_MAX),
    (b'F', LARGE_MAX),
    (b'H', SMALL_MAX),
    (b'P', LARGE_MAX),
    (b'Q', LARGE_MAX),
    (b'S', SMALL_MAX),
    (b'X', SMALL_MAX),
    (b'c', SMALL_MAX),
    (b'd', LARGE_MAX),
    (b'f', SMALL_MAX),
];
/// Lengths that no message may have.
const NEVER: [u32; 7] = [0, 1, 3, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, 0xffff_ffff];

/// Phases after the login, with the statements that lead there.
const PHASES: [(&str, &[&str]); 4] = [
    ("idle", &[]),
    ("in a transaction", &["begin"]),
    ("in COPY", &["copy t from stdin"]),
    ("in a batch", &["batch"]),
];

#[test]
fn sec_21_hostile_lengths_are_refused_at_every_phase_after_login() -> Result<()> {
    let server = Scripted::honest()?;
    let mut target = support::start(server.port(), &PoolOptions::default().pool_size(4))?;
    // Lets buffers and tables reach their usual size.
    for (tag, length) in hostile().take(13) {
        refuse(&target, PHASES[0], tag, length)?;
    }
    let meter = Meter::begin(&target)?;
    let mut cases = 0;
    for phase in PHASES {
        for (tag, length) in hostile() {
            refuse(&target, phase, tag, length)
                .with_context(|| format!("'{}' of {length} {}", tag as char, phase.0))?;
            cases += 1;
        }
    }
    meter.check_growth(2 * MIB)?;
    meter.check_cpu(Duration::from_millis(10) * cases)?;
    ensure!(
        server.count(SMUGGLED) == 0,
        "a server saw the second message"
    );
    support::check_serves(&mut target)
}

/// Every message type with every impossible length, including one above its own limit.
fn hostile() -> impl Iterator<Item = (u8, u32)> {
    LIMITS.into_iter().flat_map(|(tag, max)| {
        NEVER
            .into_iter()
            .chain([max + 1])
            .map(move |length| (tag, length))
    })
}

fn refuse(target: &Target, phase: (&str, &[&str]), tag: u8, length: u32) -> Result<()> {
    let mut raw = Raw::connect(target.port(), "postgres")?;
    for sql in phase.1 {
        match *sql {
            "batch" => {
                let batch = [frontend::parse("", "select 1", &[]), frontend::flush()];
                raw.send(&batch.concat())?;
                raw.read_message()?;
            }
            "begin" => drop(raw.ask(&frontend::query(sql))?),
            _ => {
                raw.send(&frontend::query(sql))?;
                raw.read_message()?;
            }
        }
    }
    let begun = clock::now();
    let bytes = [support::head(tag, length), support::smuggled()].concat();
    raw.send(&bytes)?;
    support::refused(&mut raw, "08P01")?;
    ensure!(begun.elapsed() < SOON, "took {:?}", begun.elapsed());
    Ok(())
}

#[test]
fn sec_21_hostile_lengths_are_refused_at_startup() -> Result<()> {
    let server = Scripted::honest()?;
    let mut target = support::start(server.port(), &PoolOptions::default())?;
    support::check_serves(&mut target)?;
    let meter = Meter::begin(&target)?;
    let lengths = NEVER.into_iter().chain([4, 5, 7, 10_005, 0x7000_0000]);
    for length in lengths {
        for after_ssl in [false, true] {
            let mut raw = Raw::tcp(target.port(), Duration::from_secs(10))?;
            if after_ssl {
                raw.send(&frontend::ssl_request())?;
                std::io::Read::read_exact(raw.reader(), &mut [0])?;
            }
            let begun = clock::now();
            raw.send(&[&length.to_be_bytes()[..], &[0, 3, 0, 0], b"user\0x\0\0"].concat())?;
            support::closed_in_silence(&mut raw)
                .with_context(|| format!("a start-up packet of {length}"))?;
            ensure!(begun.elapsed() < SOON, "took {:?}", begun.elapsed());
        }
    }
    meter.check_growth(MIB)?;
    meter.check_cpu(Duration::from_millis(500))?;
    support::check_serves(&mut target)
}

#[test]
fn sec_21_hostile_lengths_are_refused_during_authentication() -> Result<()> {
    let server = Scripted::honest()?;
    for auth_type in ["md5", "scram-sha-256"] {
        let guard =
            support::start_with_users(server.port(), auth_type, "\"postgres\" \"secret\"\n", &[])?;
        let mut target = guard.target;
        let meter = Meter::begin(&target)?;
        for length in NEVER.into_iter().chain([65_536, 0x3fff_fffe]) {
            let mut raw = Raw::tcp(target.port(), Duration::from_secs(10))?;
            raw.send(&frontend::startup(
                frontend::VERSION_3_0,
                &[("user", "postgres"), ("database", "postgres")],
            ))?;
            ensure!(raw.read_message()?.tag == b'R');
            let begun = clock::now();
            raw.send(&[support::head(b'p', length), support::smuggled()].concat())?;
            support::refused(&mut raw, "08P01")
                .with_context(|| format!("a password of {length} with {auth_type}"))?;
            ensure!(begun.elapsed() < SOON, "took {:?}", begun.elapsed());
        }
        meter.check_growth(2 * MIB)?;
        meter.check_cpu(Duration::from_millis(500))?;
        target.check_healthy()?;
    }
    ensure!(
        server.connections() == 0,
        "a server was asked for a stranger"
    );
    Ok(())
}

/// A Bind's statement name is replaced by a longer one: the length must grow with it, or the message be refused.
#[test]
fn sec_20_a_rewritten_length_never_wraps() -> Result<()> {
    let server = Scripted::honest()?;
    let options = PoolOptions::default()
        .pool_size(40)
        .setting("max_prepared_statements = 100")
        .setting("server_tls_sslmode = disable");
    let mut target = support::start(server.port(), &options)?;
    let payload = support::smuggled().repeat(2000);
    for missing in [0, 1, 2, 4, 8, 16, 32] {
        let declared = LARGE_MAX - missing;
        let mut raw = Raw::connect(target.port(), "postgres")?;
        let prepare = [frontend::parse("s", "select $1", &[]), frontend::sync()];
        raw.ask(&prepare.concat())?;
        raw.send(
            &[
                support::head(b'B', declared),
                b"\0s\0".to_vec(),
                payload.clone(),
            ]
            .concat(),
        )?;
        drop(raw);
    }
    weir_conformance::wait_until("the closing of cut servers", SOON, || {
        Ok(server.connections() > 0)
    })?;
    support::check_serves(&mut target)?;
    // A connection that was just accepted to replace a closed one has received nothing yet.
    let said: Vec<_> = (0..server.connections())
        .map(|index| (index, server.heard(index)))
        .filter(|(_, heard)| !heard.is_empty())
        .collect();
    ensure!(!said.is_empty(), "no server heard anything");
    for (index, heard) in said {
        check_frames(&heard).with_context(|| format!("server {index}"))?;
    }
    Ok(())
}

/// Checks that the server would split these bytes into messages within PostgreSQL's limits, none of them the smuggled
/// one.
fn check_frames(heard: &[u8]) -> Result<()> {
    let word = |at: usize| -> Option<u32> {
        Some(u32::from_be_bytes(heard.get(at..at + 4)?.try_into().ok()?))
    };
    let mut at = usize::try_from(word(0).context("no start-up packet")?)?;
    while let (Some(tag), Some(length)) = (heard.get(at), word(at + 1)) {
        ensure!(
            (4..=LARGE_MAX).contains(&length),
            "'{}' of {length}",
            *tag as char
        );
        let end = at + 1 + usize::try_from(length)?;
        let body = heard.get(at + 5..end.min(heard.len())).unwrap_or_default();
        ensure!(
            *tag != b'Q' || !body.starts_with(SMUGGLED),
            "the smuggled query ran"
        );
        at = end;
    }
    Ok(())
}

/// Lengths that a server declares are not trusted either.
#[test]
fn sec_20_hostile_lengths_of_a_server_cost_nothing() -> Result<()> {
    let server = Scripted::start(|conversation| {
        conversation.login()?;
        let asked = conversation.serve_until(|message| message.body.starts_with(b"!"))?;
        let Some(request) = asked else {
            return Ok(());
        };
        // "!" and then the five bytes to send, in hexadecimal.
        let text = String::from_utf8(request.body)?;
        let number = text.trim_matches(|letter| letter == '!' || letter == '\0');
        let bytes = u64::from_str_radix(number, 16)?.to_be_bytes();
        conversation.send(bytes.get(3..).unwrap_or_default())?;
        conversation.send(&support::smuggled())?;
        Ok(conversation.read_to_close()?)
    })?;
    let options = PoolOptions::default().setting("server_login_retry = 0");
    let mut target = support::start(server.port(), &options)?;
    support::check_serves(&mut target)?;
    for length in NEVER {
        for tag in *b"DTENSdAVZC" {
            hostile_reply(&mut target, tag, length)
                .with_context(|| format!("'{}' of {length}", tag as char))?;
        }
    }
    Ok(())
}

fn hostile_reply(target: &mut Target, tag: u8, length: u32) -> Result<()> {
    let meter = Meter::begin(target)?;
    let mut raw = Raw::connect(target.port(), "postgres")?;
    raw.send(&frontend::query(&format!("!{tag:02x}{length:08x}")))?;
    support::refused(&mut raw, "08007")?;
    ensure!(meter.elapsed() < SOON, "took {:?}", meter.elapsed());
    // The declared length is a thousand times as much; the log and the allocator need a little.
    meter.check_growth(4 * MIB)?;
    support::check_serves(target)
}
