//! Bytes of a TLS client of another protocol reach no parser (SEC-08).

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::frontend;
use weir_conformance::tls::Dial;
use weir_conformance::tls::client::ALPN;
use weir_conformance::tls::client::Options;

use crate::support::Front;
use crate::support::last_words;

/// True if a login inside TLS works.
fn works(front: &Front, direct: bool, alpn: &[&[u8]]) -> Result<bool> {
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let dial = Dial::with(&Options {
            authority: Some(&front.pki.authority),
            alpn,
            versions,
            ..Options::default()
        })?;
        let dialled = match direct {
            true => dial.direct(front.port()),
            false => dial.request(front.port()),
        };
        let Ok(mut raw) = dialled else {
            return Ok(false);
        };
        let login = [("user", "postgres"), ("database", "postgres")];
        let sent = raw.send(&frontend::startup(frontend::VERSION_3_0, &login));
        if sent.is_err() || raw.welcomed().is_err() {
            return Ok(false);
        }
        let agreed = raw.tls().and_then(|tls| tls.alpn_protocol());
        ensure!(agreed.is_none_or(|name| name == ALPN), "{agreed:?}");
    }
    Ok(true)
}

#[test]
fn sec_08_direct_tls_needs_the_protocols_name() -> Result<()> {
    for mode in ["prefer", "require"] {
        let mut front = Front::start_18(mode)?;
        let table: [(bool, &[&[u8]], bool); 9] = [
            (true, &[], false),
            (true, &[b"h2"], false),
            (true, &[b"http/1.1", b"h2"], false),
            (true, &[b"postgresql2"], false),
            (true, &[ALPN], true),
            (true, &[b"h2", ALPN], true),
            (false, &[], true),
            (false, &[ALPN], true),
            (false, &[b"h2"], false),
        ];
        for (direct, alpn, wanted) in table {
            let got = works(&front, direct, alpn)?;
            ensure!(got == wanted, "{mode}, direct {direct}, {alpn:?}: {got}");
        }
        front.target.check_healthy()?;
    }
    Ok(())
}

/// A server without TLS does not begin a handshake at the request of a client.
#[test]
fn sec_08_direct_tls_to_a_listener_without_tls_is_closed() -> Result<()> {
    let postgres = weir_conformance::Postgres18::start(&Default::default())?;
    let pool = weir_conformance::PoolOptions::default();
    let mut target = weir_conformance::Target::start(postgres.cluster(), &pool)?;
    let dial = Dial::with(&Options {
        alpn: &[ALPN],
        ..Options::default()
    })?;
    let text = crate::support::refusal(dial.direct(target.port()));
    ensure!(text.starts_with("handshake"), "{text}");
    let mut raw = weir_conformance::Raw::tcp(target.port(), std::time::Duration::from_secs(10))?;
    raw.send(&dial.hello()?)?;
    let words = last_words(&mut raw);
    ensure!(words.len() <= 1, "{words:?}");
    target.check_healthy().context("after a ClientHello")
}
