//! Tests of the dashboard's options: what an address beyond this machine needs.

use expect_test::{Expect, expect};

use crate::{ini, said};

const TLS: &str = "client_tls_sslmode=require\nclient_tls_key_file=k\nclient_tls_cert_file=c\n";

/// Checks the messages of a configuration that has none by itself.
fn check(auth_type: &str, global: &str, expect: Expect) {
    expect.assert_eq(&said(&format!(
        "[databases]\na = host=h user=u\n[pgbouncer]\nauth_type={auth_type}\nauth_file=u\n{global}"
    )));
}

#[test]
fn an_address_beyond_this_machine_needs_tls_and_passwords() {
    let users = "admin_users=ann\n";
    for address in ["*:1", "10.0.0.5:1", "127.0.0.1:1,[::]:1"] {
        let listen = format!("dashboard_listen={address}\n{users}");
        let open = said(&format!(
            "[databases]\na = host=h\n[pgbouncer]\nauth_type=trust\nauth_file=u\n{listen}"
        ));
        assert!(
            open.contains("pgbouncer.ini:6") && open.contains("needs TLS"),
            "{open}"
        );
        assert!(open.contains("needs logins"), "{open}");
        check("scram-sha-256", &format!("{listen}{TLS}"), expect![""]);
    }
    for address in ["127.0.0.1:1", "[::1]:1", "localhost:1", ""] {
        let listen = format!("dashboard_listen={address}\n{users}");
        check("scram-sha-256", &listen, expect![""]);
    }
}

#[test]
fn a_dashboard_that_admits_everybody_or_nobody_is_noted() {
    let listen = "dashboard_listen=127.0.0.1:1\n";
    check(
        "trust",
        listen,
        expect![[r#"
            auth_type trust asks for no password, so the dashboard lets everybody in who reaches its address and names a user of admin_users or stats_users
        "#]],
    );
    check(
        "scram-sha-256",
        listen,
        expect![[r#"
            admin_users and stats_users are empty, so nobody can sign in to the dashboard
        "#]],
    );
    check(
        "scram-sha-256",
        "dashboard_actions=1\n",
        expect![[r#"
            dashboard_actions has no effect: dashboard_listen is empty
        "#]],
    );
    check(
        "scram-sha-256",
        "admin_users=ann\nmetrics_listen=127.0.0.1:1\ndashboard_listen=127.0.0.1:1\n",
        expect![[r#"
            pgbouncer.ini:8: dashboard_listen and metrics_listen are both 127.0.0.1:1; give each its own port
        "#]],
    );
}

#[test]
fn the_dashboard_is_off_by_default() {
    let global = ini("[pgbouncer]\nauth_type=any\n").unwrap().settings.global;
    assert!(global.dashboard_listen.is_empty() && global.dashboard_hosts.is_empty());
    assert!(!global.dashboard_actions);
}
