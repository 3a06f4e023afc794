//! Options of both sides have their effect: versions, ciphers, direct TLS, overrides per database, no TLS on unix
//! sockets.

use std::io::Read;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use rustls::SupportedProtocolVersion;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Postgres18;
use weir_conformance::Raw;
use weir_conformance::TempDir;
use weir_conformance::Weir;
use weir_conformance::frontend;
use weir_conformance::postgres;
use weir_conformance::tls::Dial;
use weir_conformance::tls::Pki;
use weir_conformance::tls::Spec;
use weir_conformance::tls::authority::Key;
use weir_conformance::tls::client::Options;

const TLS12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
const TLS13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

fn dial(pki: &Pki, versions: &[&'static SupportedProtocolVersion]) -> Result<Dial> {
    Dial::with(&Options {
        authority: Some(&pki.authority),
        versions,
        ..Options::default()
    })
}

fn with_tls(pki: &Pki) -> Result<postgres::Options> {
    Ok(postgres::Options {
        settings: pki.postgres(&Spec::server())?,
        ..postgres::Options::default()
    })
}

#[test]
fn versions_and_ciphers_of_the_client_side_are_those_of_the_file() -> Result<()> {
    let pki = Pki::new()?;
    let rsa = pki.issue("rsa", &Spec::server().key(Key::Rsa))?;
    let config = || -> Result<Config> {
        let certificate = rsa.certificate.to_string_lossy().into_owned();
        Ok(Config::to(1)
            .set_all(pki.client_side("require")?)
            .set("client_tls_cert_file", &certificate)
            .set("client_tls_key_file", &rsa.key.to_string_lossy()))
    };
    for (protocols, has_12, has_13) in [
        ("secure", true, true),
        ("tlsv1.2", true, false),
        ("tlsv1.3", false, true),
    ] {
        let weir = Weir::start(&config()?.set("client_tls_protocols", protocols))?;
        let works =
            |versions| -> Result<bool> { Ok(dial(&pki, versions)?.request(weir.port()).is_ok()) };
        ensure!(works(TLS12)? == has_12, "{protocols}: TLS 1.2");
        ensure!(works(TLS13)? == has_13, "{protocols}: TLS 1.3");
    }
    let config = config()?
        .set("client_tls_ciphers", "ECDHE-RSA-CHACHA20-POLY1305")
        .set("client_tls13_ciphers", "TLS_AES_256_GCM_SHA384");
    let weir = Weir::start(&config)?;
    for (versions, wanted) in [
        (TLS12, "TLSv1.2/ECDHE-RSA-CHACHA20-POLY1305"),
        (TLS13, "TLSv1.3/TLS_AES_256_GCM_SHA384"),
    ] {
        let mut console = dial(&pki, versions)?.login(weir.port(), "postgres", "pgbouncer")?;
        let clients = console.query_named("SHOW CLIENTS")?;
        let shown = clients.first().and_then(|client| client.get("tls"));
        let shown = shown.context("no column tls")?;
        // OpenSSL's name or the standard's, for the same cipher.
        let same = shown.replace(
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            "ECDHE-RSA-CHACHA20-POLY1305",
        );
        ensure!(same == wanted, "{shown}, not {wanted}");
    }
    Ok(())
}

#[test]
fn the_server_side_can_be_set_for_each_database() -> Result<()> {
    let pki = Pki::new()?;
    let postgres = Postgres::start(&with_tls(&pki)?)?;
    let to = format!("host=127.0.0.1 port={} dbname=postgres", postgres.port());
    let ca = pki.ca_file();
    let stranger = pki.stranger_file();
    let config = Config::new()
        .database(&format!("clear = {to}"))
        .database(&format!("loose = {to} server_tls_sslmode=require"))
        .database(&format!(
            "strict = {to} server_tls_sslmode=verify-full server_tls_ca_file={}",
            ca.display()
        ))
        .database(&format!(
            "wrong = {to} server_tls_sslmode=verify-ca server_tls_ca_file={}",
            stranger.display()
        ))
        .database(&format!(
            "old = {to} server_tls_sslmode=require server_tls_protocols=tlsv1.2"
        ))
        .set("server_tls_sslmode", "disable");
    let mut weir = Weir::start(&config)?;
    let sql = "select ssl, version from pg_stat_ssl where pid = pg_backend_pid()";
    for (database, ssl, version) in [
        ("clear", "f", None),
        ("loose", "t", Some("TLSv1.3")),
        ("strict", "t", Some("TLSv1.3")),
        ("old", "t", Some("TLSv1.2")),
    ] {
        let rows = weir.connect(database)?.query(sql)?;
        let wanted = vec![Some(ssl.to_owned()), version.map(ToOwned::to_owned)];
        ensure!(rows == [wanted], "{database}: {rows:?}");
    }
    let refused = weir.connect("wrong").err().context("believed a stranger")?;
    ensure!(refused.to_string().contains("FATAL"), "{refused}");
    weir.check_healthy()
}

/// PostgreSQL 18 accepts direct TLS; 15 does not know it, which must be reported as a refusal.
#[test]
fn the_server_side_can_begin_with_tls_at_once() -> Result<()> {
    let pki = Pki::new()?;
    let new = Postgres18::start(&with_tls(&pki)?)?;
    let old = Postgres::start(&with_tls(&pki)?)?;
    for (port, works) in [(new.cluster().port(), true), (old.port(), false)] {
        let config = Config::to(port)
            .set_all(pki.server_side("verify-full"))
            .set("server_tls_sslnegotiation", "direct");
        let mut weir = Weir::start(&config)?;
        match weir.connect("postgres") {
            Ok(mut raw) => {
                ensure!(works, "PostgreSQL 15 cannot do this");
                crate::support::check_server_side(&mut raw)?;
                raw.send(&frontend::query("select pg_sleep(60)"))?;
                // The cancel request begins in the same way; it is repeated until it meets the query.
                raw.stream()
                    .set_read_timeout(Some(Duration::from_millis(200)))?;
                weir_conformance::wait_until("the cancel", Duration::from_secs(10), || {
                    raw.cancel(weir.port())?;
                    Ok(raw.stream().peek(&mut [0]).is_ok())
                })?;
                let answer = raw.read_until_ready()?;
                let codes: Vec<_> = answer.iter().filter_map(|word| word.field(b'C')).collect();
                ensure!(codes.iter().any(|code| code == "57014"), "{codes:?}");
            }
            Err(error) => {
                ensure!(!works, "{error:#}");
                ensure!(error.to_string().contains("FATAL"), "{error:#}");
            }
        }
        weir.check_healthy()?;
    }
    Ok(())
}

#[test]
fn unix_sockets_have_no_tls() -> Result<()> {
    let pki = Pki::new()?;
    let sockets = TempDir::new()?;
    let config = Config::to(1)
        .set_all(pki.client_side("verify-full")?)
        .set("unix_socket_dir", &sockets.path().to_string_lossy());
    let mut weir = Weir::start(&config)?;
    let patience = Duration::from_secs(10);
    let mut raw = Raw::unix(sockets.path(), weir.port(), patience)?;
    raw.send(&frontend::ssl_request())?;
    let mut answer = [0];
    raw.reader().read_exact(&mut answer)?;
    ensure!(answer == *b"N", "{}", answer.escape_ascii());
    // TLS is not required either.
    raw.login(&[("user", "postgres"), ("database", "pgbouncer")])?;
    // A ClientHello is not a start-up packet.
    let mut raw = Raw::unix(sockets.path(), weir.port(), patience)?;
    raw.send(&Dial::new(&pki.authority)?.hello()?)?;
    ensure!(raw.read_until_ready().is_err() || raw.read_to_close()?.is_empty());
    weir.check_healthy()
}
