//! Tests of authentication options: requirements of each method, the database of `auth_query`, and warnings.

use expect_test::{Expect, expect};

use crate::{ini, said};

fn check(global: &str, expect: Expect) {
    expect.assert_eq(&said(&format!(
        "[databases]\na = host=h\n[pgbouncer]\n{global}"
    )));
}

#[test]
fn methods_without_their_means_are_refused() {
    check(
        "auth_type=cert\nauth_file=u\n",
        expect![[r#"
            pgbouncer.ini:4: auth_type cert needs client_tls_sslmode verify-ca or verify-full
        "#]],
    );
    check(
        "auth_type=cert\nclient_tls_sslmode=require\nclient_tls_key_file=k\nclient_tls_cert_file=c\n",
        expect![[r#"
            pgbouncer.ini:4: auth_type cert needs client_tls_sslmode verify-ca or verify-full
        "#]],
    );
    check(
        "auth_type=cert\nclient_tls_sslmode=verify-ca\nclient_tls_key_file=k\nclient_tls_cert_file=c\n\
         client_tls_ca_file=a\n",
        expect![""],
    );
    check(
        "auth_type=hba\n",
        expect![[r#"
            pgbouncer.ini:4: auth_type hba needs auth_hba_file
        "#]],
    );
    check(
        "auth_type=hba\nauth_hba_file=h\nauth_ident_file=i\n",
        expect![""],
    );
    check(
        "auth_type=ldap\n",
        expect![[r#"
            pgbouncer.ini:4: auth_type ldap needs auth_ldap_options
        "#]],
    );
    check(
        "auth_type=ldap\nauth_ldap_options=ldapserver=x\n",
        expect![""],
    );
    check("auth_type=pam\n", expect![""]);
}

#[test]
fn sec_65_md5_is_noted() {
    check(
        "auth_file=u\n",
        expect![[r#"
            auth_type md5: an md5 secret is enough to log in, without the password; prefer scram-sha-256
        "#]],
    );
}

#[test]
fn clear_text_over_the_network_is_noted() {
    check(
        "auth_type=plain\nauth_file=u\nlisten_addr=*\n",
        expect![[r#"
            auth_type plain takes passwords in clear text from clients without TLS; client_tls_sslmode require refuses those
        "#]],
    );
    let tls = "client_tls_sslmode=require\nclient_tls_key_file=k\nclient_tls_cert_file=c\n";
    check(&format!("auth_type=pam\nlisten_addr=*\n{tls}"), expect![""]);
    check("auth_type=pam\nlisten_addr=127.0.0.1\n", expect![""]);
}

#[test]
fn files_of_rules_need_auth_type_hba() {
    check(
        "auth_type=scram-sha-256\nauth_file=u\nauth_hba_file=h\nauth_ident_file=i\n",
        expect![[r#"
            auth_hba_file is only used with auth_type hba
            auth_ident_file is only used with auth_type hba
        "#]],
    );
}

#[test]
fn auth_query_is_asked_where_it_says() {
    let settings = ini("[databases]
plain = host=h
own = host=h auth_user=o auth_query='SELECT $1, own' auth_dbname=plain
none = host=h auth_user=''
here = host=h auth_dbname=''
[pgbouncer]
auth_type = scram-sha-256
auth_user = asker
auth_query = SELECT $1, global
")
    .unwrap()
    .settings;
    let lookup = |database| {
        settings
            .auth_lookup(database)
            .map(|l| format!("{} {} {}", l.user, l.query, l.dbname))
    };
    assert_eq!(lookup("plain").unwrap(), "asker SELECT $1, global plain");
    assert_eq!(lookup("own").unwrap(), "o SELECT $1, own plain");
    assert_eq!(lookup("none"), None);
    // The console and unknown databases have no database of their own to query.
    assert_eq!(lookup("pgbouncer"), None);
    assert_eq!(lookup("unknown"), None);
    assert_eq!(
        settings.pool("own", "x").unwrap().auth,
        settings.auth_lookup("own")
    );

    let settings = ini(
        "[databases]\na = host=h\nhere = host=h auth_dbname=''\n[pgbouncer]\n\
        auth_type=scram-sha-256\nauth_user = u\nauth_dbname = a\n",
    )
    .unwrap()
    .settings;
    for (database, asked) in [
        ("a", "a"),
        ("here", "here"),
        ("pgbouncer", "a"),
        ("unknown", "a"),
    ] {
        assert_eq!(settings.auth_lookup(database).unwrap().dbname, asked);
    }
    let settings = ini("[databases]\n* = host=h\n[pgbouncer]\nauth_user = u\n").unwrap();
    assert_eq!(settings.settings.auth_lookup("x").unwrap().dbname, "x");
    assert_eq!(settings.settings.auth_lookup("pgbouncer"), None);
}

#[test]
fn the_console_cannot_answer_auth_query() {
    expect![[r#"
        pgbouncer.ini:2: auth_dbname cannot be "pgbouncer", the console
        pgbouncer.ini:4: auth_dbname cannot be "pgbouncer", the console
    "#]]
    .assert_eq(&said(
        "[databases]\na = host=h auth_dbname=pgbouncer\n[pgbouncer]\nauth_dbname=pgbouncer\n",
    ));
}

#[test]
fn an_auth_query_that_cannot_work_is_noted() {
    check(
        "auth_type=scram-sha-256\nauth_file=u\nauth_query=SELECT 1\n",
        expect![[r#"
            auth_query has no $1 for the user's name, so every look-up will fail
            auth_query is never run: auth_user is not set
        "#]],
    );
    check(
        "auth_type=scram-sha-256\nauth_user=u\nauth_dbname=gone\n",
        expect![[r#"
            auth_dbname "gone" is not in [databases], so auth_query cannot run there
        "#]],
    );
    expect![[r#"
        database "a": auth_query is not run for the forced user "app"; set its password in the entry or in auth_file
    "#]]
    .assert_eq(&said(
        "[databases]\na = host=h user=app\nb = host=h user=app password=x\n[pgbouncer]\nauth_type=scram-sha-256\nauth_user=u\n",
    ));
}
