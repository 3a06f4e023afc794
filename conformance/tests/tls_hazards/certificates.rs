//! Acceptance of server certificates by mode (SEC-10).

use std::sync::Arc;

use anyhow::Result;
use anyhow::ensure;
use expect_test::expect;
use rustls::ServerConfig;
use weir_conformance::Config;
use weir_conformance::Weir;
use weir_conformance::scripted::Scripted;
use weir_conformance::tls;
use weir_conformance::tls::Dial;
use weir_conformance::tls::Identity;
use weir_conformance::tls::Pki;
use weir_conformance::tls::Spec;
use weir_conformance::tls::authority::Usage;

/// All kinds of certificates, the right one first.
fn identities(pki: &Pki) -> Result<Vec<(&'static str, Identity)>> {
    let ours = |spec: Spec| pki.authority.issue(&spec);
    let server = |name: &str| Spec::new(name, Usage::Server);
    Ok(vec![
        ("right", ours(Spec::server())?),
        ("another name", ours(server("other").dns("other.example"))?),
        ("name as common name only", ours(server("localhost"))?),
        ("wildcard", ours(server("any").dns("*.localhost"))?),
        ("wildcard alone", ours(server("any").dns("*"))?),
        (
            "name as a part",
            ours(server("any").dns("localhost.example"))?,
        ),
        (
            "NUL in the common name",
            ours(server("localhost\0.example"))?,
        ),
        ("expired", ours(Spec::server().expired())?),
        ("not yet valid", ours(Spec::server().not_yet_valid())?),
        (
            "for clients",
            ours(
                Spec::client("localhost")
                    .dns("localhost")
                    .ip([127, 0, 0, 1].into()),
            )?,
        ),
        ("of a stranger", pki.stranger.issue(&Spec::server())?),
        ("revoked", ours(Spec::server())?),
    ])
}

fn outcome(pki: &Pki, server: &Scripted, mode: &str, host: &str, crl: &str) -> Result<String> {
    let line = format!("* = host={host} port={}", server.port());
    let config = Config::new()
        .database(&line)
        .set_all(pki.server_side(mode))
        .set("server_tls_crl_file", crl);
    let mut weir = Weir::start(&config)?;
    let login = weir.connect("postgres");
    weir.check_healthy()?;
    Ok(match login {
        Ok(_) => "yes".to_owned(),
        Err(error) => {
            let text = format!("{error:#}");
            ensure!(text.contains("FATAL"), "{text}");
            "no".to_owned()
        }
    })
}

/// As in libpq: a common name counts only without alternative names, and never for an address.
#[test]
fn sec_10_verify_full_believes_the_right_name_only() -> Result<()> {
    let pki = Pki::new()?;
    let identities = identities(&pki)?;
    let revoked: Vec<&Identity> = identities
        .iter()
        .filter(|(what, _)| *what == "revoked")
        .map(|(_, identity)| identity)
        .collect();
    let crl = pki.directory().join("ca.crl");
    std::fs::write(&crl, pki.authority.revoke(&revoked)?)?;
    let crl = crl.to_string_lossy();
    let mut table =
        "certificate | require | verify-ca | full, by name | full, by address\n".to_owned();
    for (what, identity) in &identities {
        let config: Arc<ServerConfig> = tls::server::config(identity)?;
        let server = Scripted::honest_tls(config)?;
        let require = outcome(&pki, &server, "require", "127.0.0.1", "")?;
        let mut row = format!("{what} | {require}");
        let modes = [
            ("verify-ca", "127.0.0.1"),
            ("verify-full", "localhost"),
            ("verify-full", "127.0.0.1"),
        ];
        for (mode, host) in modes {
            row.push_str(&format!(" | {}", outcome(&pki, &server, mode, host, &crl)?));
        }
        table.push_str(&format!("{row}\n"));
    }
    expect![[r#"
        certificate | require | verify-ca | full, by name | full, by address
        right | yes | yes | yes | yes
        another name | yes | yes | no | no
        name as common name only | yes | yes | yes | no
        wildcard | yes | yes | no | no
        wildcard alone | yes | yes | no | no
        name as a part | yes | yes | no | no
        NUL in the common name | yes | yes | no | no
        expired | yes | no | no | no
        not yet valid | yes | no | no | no
        for clients | yes | no | no | no
        of a stranger | yes | no | no | no
        revoked | yes | no | no | no
    "#]]
    .assert_eq(&table);
    Ok(())
}

/// Client side: of the clients' certificates a listener accepts exactly one.
#[test]
fn sec_10_a_listener_believes_exactly_one_kind_of_client_certificate() -> Result<()> {
    let pki = Pki::new()?;
    let ours = |spec: Spec| pki.authority.issue(&spec);
    let revoked = ours(Spec::client("postgres"))?;
    let crl = pki.directory().join("clients.crl");
    std::fs::write(&crl, pki.authority.revoke(&[&revoked])?)?;
    let config = Config::to(1)
        .set("failover_hold", "0")
        .set_all(pki.client_side("verify-full")?)
        .set("auth_type", "cert")
        .set("auth_failure_delay", "0")
        .set("client_tls_crl_file", &crl.to_string_lossy());
    let mut weir = Weir::start(&config)?;
    let table = [
        ("right", Some(ours(Spec::client("postgres"))?), true),
        ("none", None, false),
        (
            "another name",
            Some(ours(Spec::client("postgresql"))?),
            false,
        ),
        (
            "a beginning of the name",
            Some(ours(Spec::client("postgre"))?),
            false,
        ),
        ("another case", Some(ours(Spec::client("Postgres"))?), false),
        (
            "NUL in the name",
            Some(ours(Spec::client("postgres\0x"))?),
            false,
        ),
        ("empty name", Some(ours(Spec::client(""))?), false),
        (
            "expired",
            Some(ours(Spec::client("postgres").expired())?),
            false,
        ),
        (
            "not yet valid",
            Some(ours(Spec::client("postgres").not_yet_valid())?),
            false,
        ),
        (
            "for servers",
            Some(ours(Spec::new("postgres", Usage::Server))?),
            false,
        ),
        (
            "of a stranger",
            Some(pki.stranger.issue(&Spec::client("postgres"))?),
            false,
        ),
        ("revoked", Some(revoked), false),
    ];
    for (what, identity, wanted) in table {
        let dial = match &identity {
            Some(identity) => Dial::as_client(&pki.authority, identity)?,
            None => Dial::new(&pki.authority)?,
        };
        // The console needs no server.
        let login = dial.login(weir.port(), "postgres", "pgbouncer");
        ensure!(login.is_ok() == wanted, "{what}: {:?}", login.err());
    }
    weir.check_healthy()
}
