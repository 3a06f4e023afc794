//! Encryption requested repeatedly, or inside itself (SEC-06), and renegotiated or resumed (SEC-09).

use std::io::Read;
use std::io::Write;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use rustls::HandshakeKind;
use weir_conformance::Kind;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres18;
use weir_conformance::Raw;
use weir_conformance::Target;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::tls::Dial;
use weir_conformance::tls::client::ALPN;
use weir_conformance::tls::client::Options;
use weir_conformance::tools;

use crate::support::Front;
use crate::support::check_refused;
use crate::support::last_words;

const PATIENCE: Duration = Duration::from_secs(10);

/// Sends packets one by one, each after the answer to the previous one; returns the answers.
fn ask_each(raw: &Raw, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut answers = Vec::new();
    let mut stream = raw.stream();
    for packet in packets {
        let mut answer = [0];
        if stream.write_all(packet).is_err() || stream.read_exact(&mut answer).is_err() {
            break;
        }
        answers.extend(answer);
        if answer == *b"E" {
            break;
        }
    }
    answers
}

#[test]
fn sec_06_each_encryption_is_asked_for_at_most_once() -> Result<()> {
    let begun = clock::now();
    // Without TLS, so that both are answered with `N` and the conversation could continue endlessly. (Debian's
    // PostgreSQL 15 offers GSS encryption; this 18 does not.)
    let postgres = Postgres18::start(&Default::default())?;
    let mut plain = Target::start(postgres.cluster(), &PoolOptions::default())?;
    let (ssl, gss) = (frontend::ssl_request(), frontend::gssenc_request());
    for first in [&ssl, &gss] {
        let many: Vec<Vec<u8>> = vec![first.clone(); 10_000];
        let answers = ask_each(&Raw::tcp(plain.port(), PATIENCE)?, &many);
        ensure!(answers.len() <= 2, "{} answers", answers.len());
        for second in [&ssl, &gss] {
            for third in [&ssl, &gss] {
                let packets = [first.clone(), second.clone(), third.clone()];
                let answers = ask_each(&Raw::tcp(plain.port(), PATIENCE)?, &packets);
                let yes = answers
                    .iter()
                    .filter(|answer| matches!(answer, b'N' | b'S' | b'G'));
                ensure!(yes.count() <= 2, "{}", answers.escape_ascii());
            }
        }
    }
    // All in one segment: only the first one is processed.
    let mut raw = Raw::tcp(plain.port(), PATIENCE)?;
    drop(raw.send(&ssl.repeat(10_000)));
    let all = raw.read_to_close()?;
    let answers = all.iter().filter(|byte| **byte == b'N' || **byte == b'S');
    ensure!(
        all.windows(5).any(|word| word == b"FATAL") || answers.count() <= 2,
        "{all:?}"
    );
    ensure!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    plain.check_healthy()
}

#[test]
fn sec_06_no_encryption_is_asked_for_inside_tls() -> Result<()> {
    let mut front = Front::start_18("prefer")?;
    let dial = Dial::new(&front.pki.authority)?;
    for packet in [frontend::ssl_request(), frontend::gssenc_request()] {
        for direct in [false, true] {
            // PostgreSQL 18 answers `N` to an SSLRequest inside direct TLS, and continues.
            if direct && front.target.kind() == Kind::Direct {
                continue;
            }
            let mut raw = match direct {
                true => dial.direct(front.port()),
                false => dial.request(front.port()),
            }
            .with_context(|| format!("direct {direct}"))?;
            raw.send(&packet)?;
            let words = last_words(&mut raw);
            let log = front.log();
            ensure!(
                !words.is_empty(),
                "direct {direct}, {packet:?}: no word\n{log}"
            );
            check_refused(&words).with_context(|| format!("direct {direct}"))?;
        }
    }
    // A ClientHello inside TLS is not a packet.
    let mut raw = dial.request(front.port())?;
    raw.send(&dial.hello()?)?;
    check_refused(&last_words(&mut raw))?;
    front.target.check_healthy()
}

#[test]
fn sec_09_sessions_are_never_resumed() -> Result<()> {
    let mut front = Front::start("prefer")?;
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let dial = Dial::with(&Options {
            authority: Some(&front.pki.authority),
            alpn: &[ALPN],
            versions,
            resumes: true,
            ..Options::default()
        })?;
        for _ in 0..3 {
            let mut raw = dial.login(front.port(), "postgres", "postgres")?;
            raw.query("select 1")?;
            let kind = raw.tls().and_then(|tls| tls.handshake_kind());
            ensure!(
                !matches!(kind, None | Some(HandshakeKind::Resumed)),
                "{versions:?}: {kind:?}"
            );
            raw.terminate();
        }
    }
    front.target.check_healthy()
}

/// OpenSSL's client renegotiates at a line with an `R`.
#[test]
fn sec_09_renegotiation_is_refused() -> Result<()> {
    tools::require("openssl", "openssl")?;
    let mut front = Front::start("prefer")?;
    let mut client = Command::new("timeout")
        .args([
            "20",
            "openssl",
            "s_client",
            "-starttls",
            "postgres",
            "-tls1_2",
        ])
        .args(["-connect", &format!("127.0.0.1:{}", front.port())])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = client.stdin.take().context("a pipe")?;
    input.write_all(b"R\n")?;
    let output = client.wait_with_output()?;
    drop(input);
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    ensure!(text.contains("RENEGOTIATING"), "{text}");
    ensure!(!output.status.success(), "{text}");
    ensure!(
        output.status.code() != Some(124),
        "neither refused nor closed: {text}"
    );
    front.target.check_healthy()
}
