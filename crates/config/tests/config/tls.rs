//! Tests of TLS options: requirements, contradictions, and overrides by a database.

use expect_test::{Expect, expect};
use weir_config::{ChannelBinding, SslMode, SslNegotiation, effective_text};

use crate::{ini, native, said};

/// Checks the messages of a configuration that has none by itself.
fn check(global: &str, expect: Expect) {
    expect.assert_eq(&said(&format!(
        "[databases]\na = host=h\n[pgbouncer]\nauth_type=scram-sha-256\nauth_file=u\n{global}"
    )));
}

fn check_database(options: &str, global: &str, expect: Expect) {
    expect.assert_eq(&said(&format!(
        "[pgbouncer]\nauth_type=scram-sha-256\nauth_file=u\n{global}[databases]\na = host=h {options}\n"
    )));
}

#[test]
fn tls_for_clients_needs_key_and_certificate() {
    for mode in ["allow", "prefer", "require"] {
        for files in ["", "client_tls_key_file=k\n", "client_tls_cert_file=c\n"] {
            let text = format!("[pgbouncer]\nclient_tls_sslmode={mode}\n{files}");
            let expect = format!(
                "pgbouncer.ini:2: client_tls_sslmode {mode} needs client_tls_key_file and client_tls_cert_file\n"
            );
            assert_eq!(said(&text), expect);
        }
        check(
            &format!("client_tls_sslmode={mode}\nclient_tls_key_file=k\nclient_tls_cert_file=c\n"),
            expect![""],
        );
    }
    check("client_tls_key_file=k\n", expect![""]);
}

#[test]
fn asking_for_client_certificates_needs_a_ca() {
    let files = "client_tls_key_file=k\nclient_tls_cert_file=c\n";
    check(
        &format!("client_tls_sslmode=verify-ca\n{files}"),
        expect![[r#"
            pgbouncer.ini:6: client_tls_sslmode verify-ca needs client_tls_ca_file
        "#]],
    );
    check(
        &format!("client_tls_sslmode=verify-full\n{files}client_tls_ca_file=system\n"),
        expect![[r#"
            pgbouncer.ini:9: client_tls_ca_file must be a file; system is for servers only
        "#]],
    );
    check(
        &format!(
            "client_tls_sslmode=verify-full\n{files}client_tls_ca_file=a\nclient_tls_crl_file=r\n"
        ),
        expect![""],
    );
    check(
        &format!(
            "client_tls_sslmode=require\n{files}client_tls_crl_file=r\nclient_tls_dheparams=legacy\n"
        ),
        expect![[r#"
            client_tls_crl_file is not used without client_tls_ca_file
            client_tls_dheparams has no effect: keys are exchanged by elliptic curves only
        "#]],
    );
}

#[test]
fn checking_servers_needs_something_to_check_them_against() {
    check(
        "server_tls_sslmode=verify-ca\n",
        expect![[r#"
            pgbouncer.ini:6: server_tls_sslmode verify-ca needs server_tls_ca_file; only verify-full can use the certificates that this machine trusts
        "#]],
    );
    check(
        "server_tls_sslmode=verify-ca\nserver_tls_ca_file=system\n",
        expect![[r#"
            pgbouncer.ini:7: server_tls_ca_file system needs server_tls_sslmode verify-full
        "#]],
    );
    check("server_tls_sslmode=verify-full\n", expect![""]);
    check(
        "server_tls_ca_file=a\nserver_tls_crl_file=r\nserver_tls_key_file=k\n",
        expect![[r#"
            pgbouncer.ini:8: server_tls_key_file and server_tls_cert_file need each other
        "#]],
    );
    check(
        "server_tls_ca_file=a\nserver_tls_crl_file=r\n",
        expect![[r#"
            server_tls_ca_file is not used: sslmode prefer checks no certificate
            server_tls_crl_file is not used: sslmode prefer checks no certificate
        "#]],
    );
}

#[test]
fn sec_62_channel_binding_cannot_be_required_without_tls() {
    check(
        "server_channel_binding=require\nserver_tls_sslmode=disable\n",
        expect![[r#"
            pgbouncer.ini:6: server_channel_binding require contradicts server_tls_sslmode disable
        "#]],
    );
    check("server_channel_binding=require\n", expect![""]);
    check_database(
        "server_channel_binding=require",
        "server_tls_sslmode=disable\n",
        expect![[r#"
            pgbouncer.ini:6: database "a": server_channel_binding require contradicts server_tls_sslmode disable
        "#]],
    );
}

#[test]
fn direct_tls_has_nothing_to_fall_back_to() {
    check(
        "server_tls_sslnegotiation=direct\n",
        expect![[r#"
            pgbouncer.ini:6: server_tls_sslnegotiation direct needs server_tls_sslmode require or above, not prefer
        "#]],
    );
    check(
        "server_tls_sslnegotiation=direct\nserver_tls_sslmode=require\n",
        expect![""],
    );
}

#[test]
fn a_database_is_judged_by_what_it_gets() {
    // Overridden and inherited options.
    check_database(
        "server_tls_sslmode=verify-ca",
        "",
        expect![[r#"
            pgbouncer.ini:5: database "a": server_tls_sslmode verify-ca needs server_tls_ca_file; only verify-full can use the certificates that this machine trusts
        "#]],
    );
    check_database(
        "server_tls_ca_file=''",
        "server_tls_sslmode=verify-ca\nserver_tls_ca_file=x\n",
        expect![[r#"
            pgbouncer.ini:7: database "a": server_tls_sslmode verify-ca needs server_tls_ca_file; only verify-full can use the certificates that this machine trusts
        "#]],
    );
    check_database(
        "server_tls_sslmode=verify-ca server_tls_ca_file=x",
        "",
        expect![""],
    );
    // verify-full's own default does not become the CA of a weaker mode.
    check_database(
        "server_tls_sslmode=require",
        "server_tls_sslmode=verify-full\n",
        expect![""],
    );
}

#[test]
fn overrides_of_a_database_reach_its_pools_only() {
    let settings = ini("[databases]
plain = host=h
own = host=h server_tls_sslmode=verify-full server_tls_ca_file=ca2 server_tls_cert_file=c server_tls_key_file=k \
 server_tls_crl_file=r server_tls_protocols=tlsv1.3 server_tls_ciphers=x server_tls13_ciphers=y \
 server_channel_binding=require server_tls_sslnegotiation=direct
[pgbouncer]
auth_file=u
server_tls_sslmode=verify-ca
server_tls_ca_file=ca1
server_tls_ciphers=z
")
    .unwrap()
    .settings;
    let plain = settings.pool("plain", "x").unwrap().tls;
    assert_eq!(plain, settings.global.server_tls());
    assert_eq!(
        (
            plain.sslmode,
            plain.ca_file.as_str(),
            plain.ciphers.as_str()
        ),
        (SslMode::VerifyCa, "ca1", "z")
    );
    let own = settings.pool("own", "x").unwrap().tls;
    assert_eq!(
        (own.sslmode, own.sslnegotiation, own.channel_binding),
        (
            SslMode::VerifyFull,
            SslNegotiation::Direct,
            ChannelBinding::Require
        )
    );
    let texts = [
        &own.ca_file,
        &own.cert_file,
        &own.key_file,
        &own.crl_file,
        &own.protocols,
        &own.ciphers,
        &own.tls13_ciphers,
    ];
    assert_eq!(texts, ["ca2", "c", "k", "r", "tlsv1.3", "x", "y"]);
    assert_eq!(
        settings.server_tls(),
        [(String::new(), plain), ("own".to_owned(), own)]
    );
}

#[test]
fn verify_full_without_a_file_means_the_machines_certificates() {
    let settings =
        ini("[databases]\na = server_tls_sslmode=verify-full\n[pgbouncer]\nauth_file=u\n")
            .unwrap()
            .settings;
    assert!(settings.pool("a", "x").unwrap().tls.uses_system_roots());
    assert_eq!(settings.global.server_tls().ca_file, "");
}

#[test]
fn effective_tls_options_load_again() {
    let first = ini("[databases]\na = host=h server_tls_sslmode=require server_tls_sslnegotiation=direct\n\
        [pgbouncer]\nauth_file=u\nclient_tls_sslmode=verify-full\nclient_tls_ca_file=a\n\
        client_tls_key_file=k\nclient_tls_cert_file=c\nserver_tls_key_file=k\nserver_tls_cert_file=c\n\
        auth_failure_delay=0.5\nconffile=x\n")
    .unwrap();
    let second = native(&effective_text(&first)).unwrap();
    assert_eq!(first.settings, second.settings);
}
