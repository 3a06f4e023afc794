//! Files that the configuration names: missing, readable by all users, and replaced one after the other.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use rustls::pki_types::CertificateDer;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::TempDir;
use weir_conformance::Weir;
use weir_conformance::tls::Dial;
use weir_conformance::tls::Pki;
use weir_conformance::tls::Spec;
use weir_conformance::tools;

use crate::support::PATIENCE;
use crate::support::both;
use crate::support::database;
use crate::support::refusal;

/// Certificate that a new client sees.
fn seen(pki: &Pki, weir: &Weir) -> Result<CertificateDer<'static>> {
    let raw = Dial::new(&pki.authority)?.request(weir.port())?;
    let chain = raw.tls().and_then(|tls| tls.peer_certificates());
    let first = chain
        .and_then(|chain| chain.first())
        .context("no certificate")?;
    Ok(first.clone().into_owned())
}

#[test]
fn key_and_certificate_are_set_one_after_the_other() -> Result<()> {
    let pki = Pki::new()?;
    let (first, second) = (
        pki.issue("first", &Spec::server())?,
        pki.issue("second", &Spec::server())?,
    );
    let key = format!("SET client_tls_key_file = '{}'", second.key.display());
    let certificate = format!(
        "SET client_tls_cert_file = '{}'",
        second.certificate.display()
    );
    for orders in [[&key, &certificate], [&certificate, &key]] {
        let config = Config::to(1)
            .set_all(pki.client_side("allow")?)
            .set("client_tls_key_file", &first.key.to_string_lossy())
            .set("client_tls_cert_file", &first.certificate.to_string_lossy());
        let mut weir = Weir::start(&config)?;
        let before = seen(&pki, &weir)?;
        let mut console = weir.connect("pgbouncer")?;
        console.query(orders[0])?;
        weir.wait_log("takes effect once the other of key and certificate is set")?;
        // Another option does not depend on them.
        console.query("SET max_client_conn = 300")?;
        ensure!(seen(&pki, &weir)? == before, "half of a pair is in force");
        console.query(orders[1])?;
        ensure!(seen(&pki, &weir)? != before, "{orders:?} changed nothing");
        let missing = console.query("SET client_tls_key_file = '/nonexistent'");
        ensure!(refusal(missing).contains("/nonexistent"));
        weir.check_healthy()?;
    }
    Ok(())
}

#[test]
fn set_reads_no_file_that_the_option_does_not_name() -> Result<()> {
    let postgres = database("drop_set")?;
    let files = TempDir::new()?;
    let (users, rules) = (files.path().join("users"), files.path().join("hba"));
    fs::write(&users, "\"postgres\" \"\"\n")?;
    fs::write(&rules, "host all all 127.0.0.1/32 trust\n")?;
    let config = Config::to(postgres.port())
        .set("auth_type", "hba")
        .set("auth_hba_file", &rules.to_string_lossy())
        .auth_file(&users.to_string_lossy());
    let mut weir = Weir::start(&config)?;
    let mut console = weir.connect("pgbouncer")?;
    // Whatever stands in the files since, the order is about something else.
    fs::write(&rules, "host all all 127.0.0.1/32 reject\n")?;
    fs::write(&users, "no user list")?;
    console.query("SET max_client_conn = 300")?;
    weir.connect("drop_set")?.query("select 1")?;
    fs::remove_file(&rules)?;
    console.query("SET max_client_conn = 301")?;
    let missing = console.query(&format!("SET auth_hba_file = '{}'", rules.display()));
    ensure!(refusal(missing).contains("hba"));
    let wrong = console.query(&format!("SET auth_file = '{}'", users.display()));
    ensure!(refusal(wrong).contains("users:1"));
    // Named by the option, a file is read again, and another one is not.
    fs::write(&users, "\"postgres\" \"\"\n\"second\" \"\"\n")?;
    console.query(&format!("SET auth_file = '{}'", users.display()))?;
    weir.connect("drop_set")?.query("select 1")?;
    weir.check_healthy()
}

#[test]
fn a_missing_auth_file_is_a_warning_unless_files_are_strict() -> Result<()> {
    let postgres = database("drop_users")?;
    let config = Config::new()
        .database(&format!(
            "drop_users = host=127.0.0.1 port={} user=postgres",
            postgres.port()
        ))
        .set("auth_type", "any")
        .auth_file("/nonexistent/users.txt");
    both(&config, |pooler| {
        let mut client = Raw::connect(pooler.port(), "drop_users")?;
        ensure!(client.query_one("select 1")? == "1");
        Ok(())
    })?;
    Weir::start(&config)?.wait_log("cannot read auth_file")?;
    let strict = config.set("strict_files", "1");
    let mut weir = Weir::spawn(&strict, tools::free_port()?)?;
    ensure!(!weir.wait_exit(PATIENCE)?.success());
    ensure!(
        weir.log().contains("cannot read auth_file"),
        "{}",
        weir.log()
    );
    Ok(())
}

#[test]
fn a_reload_without_the_auth_file_keeps_its_users() -> Result<()> {
    let postgres = database("drop_users_kept")?;
    let config = Config::to(postgres.port());
    let weir = Weir::start(&config)?;
    weir.reload(&config.auth_file("/nonexistent/users.txt"))?;
    weir.wait_log("reload failed, the running configuration stays as it was")?;
    ensure!(
        weir.log().contains("cannot read auth_file"),
        "{}",
        weir.log()
    );
    let mut client = weir.connect("drop_users_kept")?;
    ensure!(client.query_one("select 1")? == "1");
    Ok(())
}

#[test]
fn a_key_that_others_may_read_is_a_warning_unless_files_are_strict() -> Result<()> {
    let pki = Pki::new()?;
    let own = pki.issue("open", &Spec::server())?;
    fs::set_permissions(&own.key, fs::Permissions::from_mode(0o644))?;
    let config = Config::to(1)
        .set_all(pki.client_side("allow")?)
        .set("client_tls_key_file", &own.key.to_string_lossy())
        .set("client_tls_cert_file", &own.certificate.to_string_lossy());
    let mut weir = Weir::start(&config)?;
    seen(&pki, &weir)?;
    let warning = "may be read or written by others (mode 0644)";
    weir.wait_log(warning)?;
    weir.check_healthy()?;
    let strict = config.set("strict_files", "1");
    let mut weir = Weir::spawn(&strict, tools::free_port()?)?;
    ensure!(!weir.wait_exit(PATIENCE)?.success());
    ensure!(weir.log().contains(warning), "{}", weir.log());
    Ok(())
}
