//! Tests of refused and accepted lines, and that a rule written out parses as the same rule.

use proptest::prelude::*;

use crate::Hba;

use super::*;

fn rule(line: &str) -> Rule {
    let hba = Hba::parse("hba", line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let [rule] = hba.rules() else {
        panic!("not one rule: {line}");
    };
    rule.clone()
}

fn mistake(line: &str) -> String {
    match Hba::parse("hba", line) {
        Ok(_) => panic!("accepted: {line}"),
        Err(error) => error.to_string(),
    }
}

/// Asserts that each line is refused with a message that begins like this (behind file and line).
fn refused(cases: &[(&str, &str)]) {
    for (line, error) in cases {
        let found = mistake(line);
        assert!(
            found.starts_with(&format!("hba:1: {error}")),
            "{line}: {found}"
        );
    }
}

#[test]
fn columns_that_are_missing_or_too_many_are_named() {
    refused(&[
        ("local", "the database is missing"),
        ("local all", "the user is missing"),
        ("local all all", "the authentication method is missing"),
        ("host all all", "the address is missing"),
        ("host all all md5", "the address is missing"),
        ("host all all ident", "the address is missing"),
        ("host all all 10.0.0.1", "the mask is missing"),
        ("host all all 10.0.0.1 md5", "bad IP mask \"md5\""),
        (
            "host all all 10.0.0.1/32",
            "the authentication method is missing",
        ),
        (
            "local all all 127.0.0.1/32 md5",
            "a local line has no address",
        ),
        (
            "local,host all all md5",
            "several values for the type of the line",
        ),
        (
            "host all all 10.0.0.1/32,10.0.0.2/32 md5",
            "several values for the address",
        ),
        (
            "local all all md5,trust",
            "several values for the authentication method",
        ),
        ("include a b", "the file name is missing"),
        ("include_dir", "the file name is missing"),
    ]);
}

#[test]
fn unknown_words_come_with_a_suggestion() {
    refused(&[
        (
            "hots all all all md5",
            "unknown type of line \"hots\"; did you mean \"host\"?",
        ),
        (
            "HOST all all all md5",
            "unknown type of line \"HOST\"; did you mean \"host\"?",
        ),
        (
            "includes x",
            "unknown type of line \"includes\"; did you mean \"include\"?",
        ),
        (
            "host all all all rejct",
            "unknown method \"rejct\"; did you mean \"reject\"?",
        ),
        (
            "host all all all MD5",
            "unknown method \"MD5\"; did you mean \"md5\"?",
        ),
        (
            "host all all all scram-sha256",
            "unknown method \"scram-sha256\"; did you mean \"scram-sha-256\"?",
        ),
        (
            "host all all all plain",
            "unknown method \"plain\"; did you mean \"password\"?",
        ),
        (
            "host all all all xyzzy",
            "unknown method \"xyzzy\"; use one of trust, ",
        ),
        (
            "local all all peer mpa=x",
            "unknown option \"mpa\"; did you mean \"map\"?",
        ),
        (
            "local all all peer include_realm=1",
            "unknown option \"include_realm\"; put",
        ),
    ]);
}

#[test]
fn methods_we_do_not_have_name_those_we_have() {
    for method in ["gss", "sspi", "ident", "radius", "bsd", "oauth"] {
        let found = mistake(&format!("host all all all {method} include_realm=0"));
        let expect = format!(
            "hba:1: method {method} is not supported; use one of trust, reject, md5, password, scram-sha-256, cert, peer, ldap, pam"
        );
        assert_eq!(found, expect);
    }
}

#[test]
fn methods_and_options_stand_only_where_they_can_work() {
    refused(&[
        (
            "host all all all peer",
            "method peer cannot work on a line of type host; use local",
        ),
        (
            "local all all cert",
            "method cert cannot work on a line of type local; use hostssl",
        ),
        (
            "hostnossl all all all cert",
            "method cert cannot work on a line of type hostnossl",
        ),
        (
            "host all all all md5 map=x",
            "option map belongs to the methods cert and peer only",
        ),
        (
            "host all all all md5 clientcert=verify-ca",
            "option clientcert belongs to lines of type hostssl",
        ),
        (
            "host all all all md5 clientname=DN",
            "option clientname belongs to lines of type hostssl",
        ),
        (
            "host all all all md5 pamservice=x",
            "option pamservice belongs to the method pam only",
        ),
        (
            "host all all all md5 ldaptls=1",
            "option ldaptls belongs to the method ldap only",
        ),
        (
            "host all all all pam ldaptls=1",
            "option ldaptls belongs to the method ldap only",
        ),
        (
            "hostssl all all all cert clientcert=verify-ca",
            "bad value \"verify-ca\" for option clientcert; it must be verify-full with",
        ),
        (
            "hostssl all all all md5 clientcert=1",
            "bad value \"1\" for option clientcert; it must be verify-ca or",
        ),
        (
            "hostssl all all all md5 clientname=cn",
            "bad value \"cn\" for option clientname",
        ),
        (
            "host all all all pam pam_use_hostname=yes",
            "bad value \"yes\" for option pam_use_hostname",
        ),
        (
            "local all all peer map=a map=b",
            "option map is given twice",
        ),
        ("local all all peer map", "something that is not name=value"),
        (
            "local all all peer map = a",
            "something that is not name=value",
        ),
        ("local all all peer map=", "empty map name"),
        ("local all all peer map=a#b", "the # inside an option"),
        ("host all all all ldap", "LDAP needs ldapbasedn"),
        (
            "host all all all ldap ldapserver=a ldapbasedn=dc=x,dc=y",
            "unknown option \"***\"; put double quotes",
        ),
    ]);
}

#[test]
fn names_and_expressions_are_checked() {
    refused(&[
        ("local \"\" all trust", "empty database name"),
        ("local all \"\" trust", "empty user name"),
        ("local all + trust", "empty role name behind +"),
        (
            "local all sameuser trust",
            "sameuser is a keyword in the database column only",
        ),
        ("local all / trust", "empty regular expression"),
        (
            "local /a(?=b) all trust",
            "bad regular expression \"a(?=b)\": look-around",
        ),
        (
            "local all \"/(a)\\1\" trust",
            "bad regular expression \"(a)\\1\": backreferences",
        ),
        ("local all /a{1000}{1000} trust", "bad regular expression"),
        (
            "local all \u{a0}all trust",
            "unexpected invisible character U+00A0",
        ),
        ("local all \"all trust", "a double quote is not closed"),
        ("local all @none trust", "cannot read \"none\""),
    ]);
}

#[test]
fn all_mistakes_of_a_file_are_told_at_once() {
    let found = mistake("local all all trust\nhots\n\nlocal all all rejct\n");
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("hba:2: unknown type") && lines[1].starts_with("hba:4: "));
}

#[test]
fn options_are_read() {
    let cert = rule("hostssl all all all cert map=corp clientname=DN");
    assert_eq!(cert.map(), Some("corp"));
    assert_eq!(cert.client_name(), ClientName::DistinguishedName);
    assert_eq!(cert.client_certificate(), ClientCertificate::VerifyFull);

    let scram = rule("hostssl all all all scram-sha-256 clientcert=verify-ca");
    assert_eq!(scram.client_certificate(), ClientCertificate::VerifyCa);
    assert!(scram.lacks_certificate(Transport::Tls));
    assert!(!scram.lacks_certificate(Transport::TlsVerified));
    assert!(!rule("local all all md5").lacks_certificate(Transport::Plain));

    let Method::Pam(pam) = rule("host all all all pam pamservice=db pam_use_hostname=1").method
    else {
        panic!("not pam");
    };
    assert_eq!(pam.service.as_deref(), Some("db"));
    assert!(pam.use_hostname);

    let line = "host all all all ldap ldapserver=a ldapprefix=\"cn=\", ldapsuffix=\", dc=x\"";
    let Method::Ldap(ldap) = rule(line).method else {
        panic!("not ldap");
    };
    assert_eq!(ldap.suffix.as_deref(), Some(", dc=x"));
}

#[test]
fn a_rule_says_which_facts_it_can_depend_on() {
    for (line, host_name, roles) in [
        ("host all all samenet md5", false, false),
        ("host samerole all all md5", false, true),
        ("host \"samerole\" \"+x\" \"db\" md5", true, false),
        ("host all a,+x .example md5", true, true),
    ] {
        assert_eq!(rule(line).depends_on(Fact::HostName), host_name, "{line}");
        assert_eq!(rule(line).depends_on(Fact::Roles), roles, "{line}");
    }
}

#[test]
fn a_client_of_pgbouncer_may_have_cert_on_a_host_line() {
    let rule = rule("host all all 10.0.0.0/8 cert");
    assert_eq!(rule.client_certificate(), ClientCertificate::VerifyFull);
    assert!(rule.lacks_certificate(Transport::Plain));
}

#[test]
fn sec_68_a_rule_never_shows_its_password() {
    let line =
        "host all all all ldap ldapserver=a ldapbasedn=x ldapbinddn=y ldapbind\"passwd\"=hunter2";
    let rule = rule(line);
    for text in [
        rule.to_string(),
        rule.text().to_owned(),
        format!("{rule:?}"),
    ] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert!(rule.text().ends_with("ldapbindpasswd=***"));
    let found = mistake(&format!("{line} ldapport=x"));
    assert!(!found.contains("hunter2"), "{found}");
}

#[test]
fn a_rule_is_written_as_a_line() {
    for (line, written) in [
        ("local all all trust", "local all all trust"),
        (
            "host  a, b  +r  10.0.0.1 255.0.0.0  md5 # c",
            "host a,b +r 10.0.0.1/8 md5",
        ),
        (
            "host samegroup \"+r\" 10.0.0.1 255.0.0.255 md5",
            "host samerole \"+r\" 10.0.0.1 255.0.0.255 md5",
        ),
        (
            "host \"all\" \"a b\" \"all\" md5",
            "host \"all\" \"a b\" \"all\" md5",
        ),
        (
            "host /^a\\d$ /b .x reject",
            "host \"/^a\\d$\" \"/b\" .x reject",
        ),
        (
            "hostssl all all ::1/128 cert clientcert=verify-full",
            "hostssl all all ::1/128 cert",
        ),
    ] {
        assert_eq!(rule(line).to_string(), written);
    }
}

/// Names with all characters that need quotes.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("all".to_owned()),
        Just("sameuser".to_owned()),
        Just("replication".to_owned()),
        "[a-z0-9_]{1,8}",
        "[-a-zäß+@#, \"=\\\\/]{1,8}",
    ]
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// An entry of a column. A quoted name that begins with a slash would be a regular expression.
fn entry(keywords: &'static [&'static str]) -> impl Strategy<Value = String> {
    let literal = name().prop_map(|name| quoted(name.trim_start_matches('/')));
    prop_oneof![
        proptest::sample::select(keywords).prop_map(str::to_owned),
        literal.prop_filter("a name is not empty", |name| name != "\"\""),
        "[a-z(.*)|,]{0,5}"
            .prop_map(|text| format!("\"/x({}).\"", text.replace(['(', ')', '*'], ""))),
    ]
}

fn list(keywords: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::collection::vec(entry(keywords), 1..4).prop_map(|entries| entries.join(","))
}

fn address() -> impl Strategy<Value = String> {
    let v4 = (any::<[u8; 4]>(), 0..=32_u8);
    let v6 = (any::<[u8; 16]>(), 0..=128_u8);
    prop_oneof![
        proptest::sample::select(
            &[
                "all",
                "samehost",
                "samenet",
                "\"all\"",
                ".x.example",
                "db-1"
            ][..]
        )
        .prop_map(str::to_owned),
        v4.prop_map(|(ip, bits)| format!("{}/{bits}", std::net::IpAddr::from(ip))),
        v6.prop_map(|(ip, bits)| format!("{}/{bits}", std::net::IpAddr::from(ip))),
        any::<[[u8; 4]; 2]>().prop_map(|[ip, mask]| {
            format!(
                "{} {}",
                std::net::IpAddr::from(ip),
                std::net::IpAddr::from(mask)
            )
        }),
    ]
}

fn line() -> impl Strategy<Value = String> {
    let databases = list(&[
        "all",
        "sameuser",
        "samerole",
        "samegroup",
        "replication",
        "shop",
    ]);
    let users = list(&["all", "ann", "+staff", "+\"big, boss\""]);
    let rest = proptest::sample::select(
        &[
            "trust",
            "reject",
            "scram-sha-256",
            "scram-sha-256 clientcert=verify-ca",
            "md5 clientname=DN clientcert=verify-full",
            "cert map=\"a b\"",
            "pam pamservice=x pam_use_hostname=1",
            "ldap ldapserver=\"a b\" ldaptls=1 ldapprefix=\"cn=\"\"\"",
            "ldap ldapurl=\"ldaps://h/dc=x,dc=y?uid?one\"",
        ][..],
    );
    (databases, users, address(), rest).prop_map(|(databases, users, address, rest)| {
        format!("hostssl {databases} {users} {address} {rest}")
    })
}

proptest! {
    #[test]
    fn a_rule_written_out_is_the_same_rule(line in line()) {
        let first = rule(&line);
        let again = rule(&first.to_string());
        prop_assert_eq!(first.kind, again.kind);
        prop_assert_eq!(&first.databases, &again.databases);
        prop_assert_eq!(&first.users, &again.users);
        prop_assert_eq!(&first.address, &again.address);
        prop_assert_eq!(format!("{:?}", first.method), format!("{:?}", again.method));
        prop_assert_eq!(&first.map, &again.map);
        prop_assert_eq!(first.client_certificate, again.client_certificate);
        prop_assert_eq!(first.client_name, again.client_name);
        prop_assert_eq!(first.to_string(), again.to_string());
    }

    #[test]
    fn no_file_makes_the_parser_panic(
        text in "((local|host|hostssl|all|md5|cert|ldap|include|@x|/a|\\+r|map=x|10\\.0\\.0\\.1/8|::1|\"|,|#|\\\\)[ \n]?){0,12}",
    ) {
        let _ = Hba::parse("hba", &text);
    }
}
