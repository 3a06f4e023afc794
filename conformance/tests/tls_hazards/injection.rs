//! Bytes received in clear text before the handshake never count, on either side (SEC-01, SEC-02,
//! SEC-03).

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::frontend;
use weir_conformance::scripted::Scripted;
use weir_conformance::scripted::authentication_ok;
use weir_conformance::scripted::complete;
use weir_conformance::scripted::error;
use weir_conformance::scripted::key_data;
use weir_conformance::scripted::parameters;
use weir_conformance::scripted::row;
use weir_conformance::scripted::row_description;
use weir_conformance::tls::Dial;
use weir_conformance::tls::Pki;

use crate::support::Front;
use crate::support::check_refused;
use crate::support::last_words;
use crate::support::server_tls;
use crate::support::weir_before;

const PATIENCE: Duration = Duration::from_secs(10);

/// A complete session that would create a table.
fn attack() -> Vec<u8> {
    let login = [("user", "postgres"), ("database", "postgres")];
    [
        frontend::startup(frontend::VERSION_3_0, &login),
        frontend::query("create table pwned (n int)"),
    ]
    .concat()
}

fn answer(stream: &mut &TcpStream) -> Result<u8> {
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    Ok(answer[0])
}

/// Continues like a conforming client: handshake, then any answer.
fn go_on(dial: &Dial, raw: Raw) -> Result<()> {
    let Ok(mut raw) = dial.handshake(raw.into_stream()?) else {
        return Ok(());
    };
    // PostgreSQL 15 does the handshake and then reports the error inside it.
    check_refused(&last_words(&mut raw))
}

fn check_untouched(front: &mut Front) -> Result<()> {
    let made = front
        .beside()?
        .query_one("select to_regclass('pwned') is null")?;
    ensure!(made == "t", "the smuggled query has run");
    front.target.check_healthy()?;
    let mut raw = Dial::new(&front.pki.authority)?.login(front.port(), "postgres", "postgres")?;
    ensure!(raw.query_one("select 1")? == "1");
    Ok(())
}

#[test]
fn sec_01_bytes_in_the_segment_of_the_ssl_request_end_the_connection() -> Result<()> {
    for mode in ["prefer", "require"] {
        let mut front = Front::start(mode)?;
        let dial = Dial::new(&front.pki.authority)?;
        let attack = attack();
        // From one byte too much to the whole session.
        for length in (1..=attack.len()).step_by(if mode == "prefer" { 1 } else { 16 }) {
            let mut raw = Raw::tcp(front.port(), PATIENCE)?;
            let extra = attack.get(..length).context("in range")?;
            raw.send(&[&frontend::ssl_request(), extra].concat())?;
            match answer(&mut raw.stream()) {
                Ok(b'S') => go_on(&dial, raw).with_context(|| format!("{length} bytes"))?,
                // The beginning of an error, or the end.
                Ok(b'E') | Err(_) => {}
                Ok(other) => anyhow::bail!("{} after {length} bytes", other.escape_ascii()),
            }
        }
        front.wait_log("received unencrypted data after SSL request")?;
        check_untouched(&mut front)?;
    }
    Ok(())
}

/// Sends the bytes in two pieces, split at every position, with and without waiting for the answer.
#[test]
fn sec_01_bytes_behind_the_ssl_request_never_count_wherever_they_are_cut() -> Result<()> {
    let mut front = Front::start("prefer")?;
    let dial = Dial::new(&front.pki.authority)?;
    let bytes = [frontend::ssl_request(), attack()].concat();
    for cut in 1..bytes.len() {
        let (first, second) = bytes.split_at(cut);
        let mut raw = Raw::tcp(front.port(), PATIENCE)?;
        raw.send(first)?;
        let waits = cut >= 8 && cut % 2 == 0;
        if waits {
            // An answer shows that the request was read from the socket alone.
            drop(answer(&mut raw.stream()));
        }
        drop(raw.send(second));
        if !waits && answer(&mut raw.stream()).is_ok_and(|byte| byte == b'S') {
            go_on(&dial, raw).with_context(|| format!("cut at {cut}"))?;
            continue;
        }
        // Any clear-text answer is a TLS alert or an error, followed by the end.
        let rest = raw.read_to_close().unwrap_or_default();
        let is_alert = rest.first().is_none_or(|byte| *byte == 21);
        let is_error = rest.windows(5).any(|window| window == b"FATAL");
        ensure!(
            is_alert || is_error,
            "cut at {cut}: {}",
            rest.escape_ascii()
        );
        ensure!(
            !rest.windows(5).any(|window| window == b"CREAT"),
            "cut at {cut}: it ran"
        );
    }
    check_untouched(&mut front)
}

#[test]
fn sec_01_bytes_in_the_segment_of_the_gssenc_request_end_the_connection() -> Result<()> {
    for mode in ["prefer", "require"] {
        // Debian's PostgreSQL 15 offers GSS encryption; this 18 does not.
        let mut front = Front::start_18(mode)?;
        let attack = attack();
        for length in (1..=attack.len()).step_by(7).chain([attack.len()]) {
            let mut raw = Raw::tcp(front.port(), PATIENCE)?;
            let extra = attack.get(..length).context("in range")?;
            raw.send(&[&frontend::gssenc_request(), extra].concat())?;
            let all = raw.read_to_close()?;
            let is_refused = all.len() <= 1 || all.windows(5).any(|window| window == b"FATAL");
            ensure!(is_refused, "{mode}, {length} bytes: {}", all.escape_ascii());
        }
        check_untouched(&mut front)?;
    }
    Ok(())
}

/// Messages that a man in the middle would insert after the server's `S`: a whole login and an
/// answer.
fn forged() -> Vec<u8> {
    [
        authentication_ok(),
        parameters(),
        key_data(0),
        frontend::message(b'Z', b"I"),
        row_description(),
        row(b"forged"),
        complete("SELECT 1"),
        frontend::message(b'Z', b"I"),
    ]
    .concat()
}

#[test]
fn sec_02_bytes_behind_the_servers_s_reach_nobody() -> Result<()> {
    for mode in ["prefer", "require", "verify-full"] {
        for together in [true, false] {
            let pki = Pki::new()?;
            let config = server_tls(&pki)?;
            let server = Scripted::start(move |conversation| {
                conversation.read(8)?;
                if together {
                    conversation.send(&[b"S".to_vec(), forged()].concat())?;
                } else {
                    conversation.send(b"S")?;
                    // The ClientHello has been sent; these bytes are not a TLS record.
                    conversation.send(&forged())?;
                }
                conversation.begin_tls(&config)?;
                conversation.login()?;
                conversation.serve()
            })?;
            let mut weir = weir_before(&pki, server.port(), mode)?;
            let mut raw = Raw::tcp(weir.port(), PATIENCE)?;
            let login = [("user", "postgres"), ("database", "postgres")];
            raw.send(&frontend::startup(frontend::VERSION_3_0, &login))?;
            let words = last_words(&mut raw);
            check_refused(&words).with_context(|| format!("{mode}, together {together}"))?;
            ensure!(!words.is_empty(), "{mode}: no word about it");
            let heard = server.heard_all();
            let user = heard.windows(8).any(|window| window == b"postgres");
            ensure!(!user, "{mode}: the start-up packet went out in clear");
            weir.check_healthy()?;
        }
    }
    Ok(())
}

#[test]
fn sec_03_an_error_before_tls_is_not_passed_on() -> Result<()> {
    let forged = "your password has expired, call 555-0100";
    for length in [0, 60_000] {
        for mode in ["prefer", "require", "verify-full"] {
            let pki = Pki::new()?;
            let text = format!("{forged}{}", "!".repeat(length));
            let server = Scripted::start(move |conversation| {
                conversation.read(8)?;
                let fields = [(b'S', "FATAL"), (b'C', "28P01"), (b'M', text.as_str())];
                conversation.send(&error(&fields))?;
                conversation.read_to_close()?;
                Ok(())
            })?;
            let mut weir = weir_before(&pki, server.port(), mode)?;
            let mut raw = Raw::tcp(weir.port(), PATIENCE)?;
            let login = [("user", "postgres"), ("database", "postgres")];
            raw.send(&frontend::startup(frontend::VERSION_3_0, &login))?;
            let words = last_words(&mut raw);
            check_refused(&words)?;
            let text = words.first().map(|word| word.error()).unwrap_or_default();
            ensure!(
                text.len() > 10 && !text.contains("555-01"),
                "{mode}: {text}"
            );
            ensure!(!text.contains("28P01"), "{mode}: {text}");
            ensure!(!weir.log().contains("555-01"), "{mode}: {}", weir.log());
            weir.check_healthy()?;
        }
    }
    Ok(())
}
