//! A client's login: every message in every state, and SCRAM with missing parts.

use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::Target;
use weir_conformance::frontend;
use weir_conformance::scripted::Scripted;

use crate::support;
use crate::support::MIB;
use crate::support::Meter;
use crate::support::SMUGGLED;

const USERS: &str = "\"postgres\" \"secret\"\n";

fn login(target: &Target) -> Result<Raw> {
    let mut raw = Raw::tcp(target.port(), Duration::from_secs(10))?;
    raw.send(&frontend::startup(
        frontend::VERSION_3_0,
        &[("user", "postgres"), ("database", "postgres")],
    ))?;
    let asked = raw.read_message()?;
    ensure!(asked.tag == b'R', "{}", asked.error());
    Ok(raw)
}

fn sasl_initial(mechanism: &[u8], first: &[u8]) -> Vec<u8> {
    let length = u32::try_from(first.len()).unwrap_or(0).to_be_bytes();
    frontend::message(b'p', &[mechanism, b"\0", &length[..], first].concat())
}

/// Logs in up to the server's first SCRAM message; returns its text.
fn scram(target: &Target) -> Result<(Raw, String)> {
    let mut raw = login(target)?;
    raw.send(&sasl_initial(
        b"SCRAM-SHA-256",
        b"n,,n=,r=rOprNGfwEbeRWgbNEkqO",
    ))?;
    let answer = raw.read_message()?;
    ensure!(answer.tag == b'R', "{}", answer.error());
    let text = String::from_utf8(answer.body.get(4..).unwrap_or_default().to_vec())?;
    Ok((raw, text))
}

/// Checks for a single FATAL and then the end of the connection.
fn check_out(raw: &mut Raw) -> Result<()> {
    let words = support::last_words(raw)?;
    match words.as_slice() {
        [only] if only.field(b'S').as_deref() == Some("FATAL") => Ok(()),
        _ => bail!("wanted one FATAL, got {}", support::describe(&words)),
    }
}

#[test]
fn sec_26_only_a_password_may_answer_the_question_for_one() -> Result<()> {
    let server = Scripted::honest()?;
    for auth_type in ["md5", "scram-sha-256"] {
        let guard = support::start_with_users(server.port(), auth_type, USERS, &[])?;
        let mut target = guard.target;
        for tag in (0..=u8::MAX).filter(|tag| *tag != b'p') {
            for is_late in [false, true] {
                let mut raw = match (is_late, auth_type) {
                    (true, "md5") => continue,
                    (true, _) => scram(&target)?.0,
                    (false, _) => login(&target)?,
                };
                raw.send(&[frontend::message(tag, b"select 1\0"), support::smuggled()].concat())?;
                if tag == b'X' {
                    let words = support::last_words(&mut raw)?;
                    ensure!(words.len() <= 1, "{}", support::describe(&words));
                    continue;
                }
                check_out(&mut raw).with_context(|| format!("type {tag} in {auth_type}"))?;
            }
        }
        target.check_healthy()?;
    }
    ensure!(
        server.connections() == 0,
        "a server was asked for a stranger"
    );
    Ok(())
}

#[test]
fn sec_26_typed_messages_before_startup_are_refused() -> Result<()> {
    let server = Scripted::honest()?;
    let mut target = support::start(server.port(), &weir_conformance::PoolOptions::default())?;
    for tag in 1..=u8::MAX {
        let mut raw = Raw::tcp(target.port(), Duration::from_secs(10))?;
        // Read as a start-up packet, its length is above 16 million.
        raw.send(&frontend::message(tag, b"secret\0"))?;
        support::closed_in_silence(&mut raw).with_context(|| format!("type {tag}"))?;
    }
    ensure!(server.connections() == 0, "a server was asked");
    support::check_serves(&mut target)
}

/// A second start-up packet, an encryption request or a cancel request is not accepted as such during
/// authentication.
#[test]
fn sec_26_a_second_startup_during_authentication_is_refused() -> Result<()> {
    let server = Scripted::honest()?;
    let guard = support::start_with_users(server.port(), "scram-sha-256", USERS, &[])?;
    let mut target = guard.target;
    let again = frontend::startup(
        frontend::VERSION_3_0,
        &[("user", "admin"), ("database", "postgres")],
    );
    for packet in [
        again,
        frontend::ssl_request(),
        frontend::cancel_request(1, &[0; 4]),
    ] {
        let mut raw = login(&target)?;
        raw.send(&packet)?;
        check_out(&mut raw)?;
        let mut raw = scram(&target)?.0;
        raw.send(&packet)?;
        check_out(&mut raw)?;
    }
    ensure!(
        server.connections() == 0,
        "a server was asked for a stranger"
    );
    target.check_healthy()
}

#[test]
fn sec_23_a_first_scram_message_with_pieces_missing_is_refused() -> Result<()> {
    let server = Scripted::honest()?;
    let guard = support::start_with_users(server.port(), "scram-sha-256", USERS, &[])?;
    let mut target = guard.target;
    let long = format!("n,,n=,r={}", "r".repeat(60_000));
    let firsts: [&[u8]; 19] = [
        b"",
        b"n",
        b"n,",
        b"n,,",
        b"n,,n=",
        b"n,,n=,",
        b"n,,r=abc",
        b"n,,r=abc,n=",
        b"n,,n=,r=",
        b"n,,n=,n=,r=abc",
        b"n,,m=x,n=,r=abc",
        b"p=tls-unique,,n=,r=abc",
        b"p=tls-server-end-point,,n=,r=abc",
        b"x,,n=,r=abc",
        b"n,a=someone,n=,r=abc",
        b"n,,n=,r=a\0c",
        b"n,,n=,r=\x7f\x80",
        b",,,,",
        b"=,=,=",
    ];
    // The very first login initializes code and threads; only later growth counts.
    let mut raw = login(&target)?;
    raw.send(&sasl_initial(b"SCRAM-SHA-256", b"n"))?;
    check_out(&mut raw)?;
    let meter = Meter::begin(&target)?;
    for (number, first) in firsts.into_iter().enumerate() {
        let mut raw = login(&target)?;
        raw.send(&sasl_initial(b"SCRAM-SHA-256", first))?;
        check_out(&mut raw).with_context(|| format!("first message {number}"))?;
    }
    let lying: [&[u8]; 6] = [
        b"",
        b"SCRAM-SHA-256",
        b"SCRAM-SHA-256\0",
        b"SCRAM-SHA-256\0\0\0\0",
        b"SCRAM-SHA-256\0\x7f\xff\xff\xffn,,n=,r=abc",
        b"SCRAM-SHA-256\0\0\0\0\x01n,,n=,r=abc",
    ];
    for (number, body) in lying.into_iter().enumerate() {
        let mut raw = login(&target)?;
        raw.send(&frontend::message(b'p', body))?;
        check_out(&mut raw).with_context(|| format!("lying message {number}"))?;
    }
    for mechanism in [&b"SCRAM-SHA-256-PLUS"[..], b"SCRAM-SHA-1", b"", b"PLAIN"] {
        let mut raw = login(&target)?;
        raw.send(&sasl_initial(mechanism, b"n,,n=,r=abc"))?;
        check_out(&mut raw).with_context(|| mechanism.escape_ascii().to_string())?;
    }
    // Within the limit of a token: an answer or a refusal, no third possibility.
    let mut raw = login(&target)?;
    raw.send(&sasl_initial(b"SCRAM-SHA-256", long.as_bytes()))?;
    ensure!(matches!(raw.read_message()?.tag, b'R' | b'E'));
    meter.check_growth(2 * MIB)?;
    ensure!(
        server.connections() == 0,
        "a server was asked for a stranger"
    );
    target.check_healthy()
}

#[test]
fn sec_23_a_last_scram_message_with_pieces_missing_is_refused() -> Result<()> {
    let server = Scripted::honest()?;
    let guard = support::start_with_users(server.port(), "scram-sha-256", USERS, &[])?;
    let mut target = guard.target;
    let proof = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let finals: [fn(&str, &str) -> String; 16] = [
        |_, _| String::new(),
        |_, _| "c=biws".to_owned(),
        |nonce, _| format!("c=biws,r={nonce}"),
        |nonce, _| format!("c=biws,r={nonce},p="),
        |nonce, proof| format!("r={nonce},p={proof}"),
        |_, proof| format!("c=biws,p={proof}"),
        |nonce, proof| format!("r={nonce},c=biws,p={proof}"),
        |nonce, proof| format!("p={proof},c=biws,r={nonce}"),
        |nonce, proof| format!("c=biws,r={nonce},r={nonce},p={proof}"),
        |nonce, proof| format!("c=biws,c=biws,r={nonce},p={proof}"),
        |nonce, proof| format!("c=biws,r={nonce},p={proof},p={proof}"),
        |nonce, proof| format!("c=eSws,r={nonce},p={proof}"),
        |nonce, _| format!("c=biws,r={nonce},p=!!!!"),
        |nonce, proof| format!("c=biws,r={nonce}x,p={proof}"),
        |nonce, _| format!("c=biws,r={nonce},p={}", "A".repeat(60_000)),
        // Well formed, but wrong.
        |nonce, proof| format!("c=biws,r={nonce},p={proof}"),
    ];
    // The first round starts the threads that derive keys.
    let rounds = finals.iter().chain(&finals).enumerate();
    let mut meter = Meter::begin(&target)?;
    for (number, last) in rounds {
        if number == finals.len() {
            meter = Meter::begin(&target)?;
        }
        let (mut raw, first) = scram(&target)?;
        let nonce = first
            .split(',')
            .find_map(|part| part.strip_prefix("r="))
            .context("no nonce")?;
        let last = last(nonce, proof);
        raw.send(
            &[
                frontend::message(b'p', last.as_bytes()),
                support::smuggled(),
            ]
            .concat(),
        )?;
        check_out(&mut raw).with_context(|| format!("last message {number}"))?;
    }
    meter.check_growth(MIB)?;
    ensure!(server.connections() == 0 && server.count(SMUGGLED) == 0);
    target.check_healthy()
}
