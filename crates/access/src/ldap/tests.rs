//! Tests of the options, their conflicts and URLs, and that the password stays hidden.

use super::*;

fn parse(text: &str) -> LdapOptions {
    LdapOptions::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn mistake(text: &str) -> String {
    LdapOptions::parse(text).unwrap_err().to_string()
}

#[test]
fn options_say_how_to_bind_at_once() {
    let options =
        parse("ldapserver=ldap.example.net ldapprefix=\"cn=\" ldapsuffix=\", dc=example, dc=net\"");
    assert_eq!(options.servers, ["ldap.example.net"]);
    assert_eq!(options.prefix.as_deref(), Some("cn="));
    assert_eq!(options.suffix.as_deref(), Some(", dc=example, dc=net"));
    assert!(!options.searches());
    assert_eq!(options.effective_port(), 389);
}

#[test]
fn options_say_how_to_search_first() {
    let options = parse(
        "ldapserver=\"one two\" ldapscheme=ldaps ldapbasedn=\"dc=example,dc=net\" ldapsearchattribute=uid \
         ldapbinddn=cn=reader ldapbindpasswd=hunter#2",
    );
    assert_eq!(options.servers, ["one", "two"]);
    assert_eq!(options.basedn.as_deref(), Some("dc=example,dc=net"));
    assert_eq!(options.searchattribute.as_deref(), Some("uid"));
    assert_eq!(options.binddn.as_deref(), Some("cn=reader"));
    assert_eq!(
        options.bindpasswd.as_ref().map(BindPassword::expose),
        Some("hunter#2")
    );
    assert_eq!(options.scope, LdapScope::Subtree);
    assert!(options.searches());
    assert_eq!(options.effective_port(), 636);
}

#[test]
fn a_url_says_the_same_as_the_options() {
    let options = parse("ldapurl=\"ldap://127.0.0.1:12345/dc=example,dc=net?uid?sub\"");
    assert_eq!(options.servers, ["127.0.0.1"]);
    assert_eq!(options.port, Some(12345));
    assert_eq!(options.basedn.as_deref(), Some("dc=example,dc=net"));
    assert_eq!(options.searchattribute.as_deref(), Some("uid"));
    assert_eq!(options.scope, LdapScope::Subtree);

    let options =
        parse("ldapurl=\"LDAPS://h/ou=a%20b,dc=%C3%A4??one?(&(uid=$username)(x=%3f))\" ldaptls=0");
    assert_eq!(options.scheme, LdapScheme::Ldaps);
    assert_eq!(options.basedn.as_deref(), Some("ou=a b,dc=ä"));
    assert_eq!(options.scope, LdapScope::One);
    assert_eq!(options.searchattribute, None);
    assert_eq!(
        options.searchfilter.as_deref(),
        Some("(&(uid=$username)(x=?))")
    );

    let options = parse("ldapurl=ldap://[::1]:389/dc=x");
    assert_eq!(options.servers, ["[::1]"]);
    assert_eq!(options.scope, LdapScope::Base);
}

#[test]
fn of_a_url_and_an_option_the_later_wins() {
    let options = parse("ldapserver=a ldapport=1 ldapurl=ldap://b/dc=x ldapbasedn=dc=y");
    assert_eq!(options.servers, ["b"]);
    assert_eq!(options.port, None);
    assert_eq!(options.basedn.as_deref(), Some("dc=y"));
    let options = parse("ldapurl=ldap://b/dc=x?uid?sub ldapserver=a ldapport=1 ldapbasedn=dc=y");
    assert_eq!(options.servers, ["a"]);
    assert_eq!(options.port, Some(1));
    // PostgreSQL forgets the scope of a URL at the next option; here it stays.
    assert_eq!(
        parse("ldapurl=ldap://b/dc=x??one ldapport=1").scope,
        LdapScope::One
    );
    // A URL without a host keeps the server.
    assert_eq!(parse("ldapserver=a ldapurl=ldap:///dc=x").servers, ["a"]);
}

#[test]
fn commas_separate_options_as_in_pgbouncer() {
    let options = parse("ldapserver=a, ldapprefix=\"uid=\" , ldapsuffix=\",dc=x\"\n");
    assert_eq!(options.prefix.as_deref(), Some("uid="));
    assert_eq!(options.suffix.as_deref(), Some(",dc=x"));
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    for (text, error) in [
        ("ldapserver=a", "LDAP needs ldapbasedn"),
        ("ldapprefix=x", "LDAP needs ldapserver"),
        ("ldapserver=\" \" ldapprefix=x", "LDAP needs ldapserver"),
        (
            "ldapserver=a ldapprefix=x ldapbasedn=y",
            "ldapprefix and ldapsuffix exclude",
        ),
        (
            "ldapsuffix=x ldapurl=ldap://a",
            "ldapprefix and ldapsuffix exclude",
        ),
        (
            "ldapserver=a ldapprefix=x ldapbindpasswd=y",
            "ldapprefix and ldapsuffix exclude",
        ),
        (
            "ldapserver=a ldapbasedn=b ldapsearchattribute=c ldapsearchfilter=d",
            "ldapsearchattribute and ldapsearchfilter",
        ),
        (
            "ldapserver=a ldapprefix=x ldapscheme=ldaps ldaptls=1",
            "ldaptls=1 (StartTLS)",
        ),
        (
            "ldapserver=a ldapbasedn=x ldapbindpasswd=y",
            "ldapbindpasswd needs ldapbinddn",
        ),
        (
            "ldapserver=a ldapserver=b",
            "option ldapserver is given twice",
        ),
        ("ldapserver", "something that is not name=value"),
        ("ldapport=0", "bad value \"0\" for option ldapport"),
        ("ldapport=+1", "bad value \"+1\" for option ldapport"),
        ("ldapport=65536", "bad value \"65536\" for option ldapport"),
        ("ldaptls=yes", "bad value \"yes\" for option ldaptls"),
        (
            "ldapscheme=ldapi",
            "bad value \"ldapi\" for option ldapscheme",
        ),
        (
            "ldapsever=a",
            "unknown option \"ldapsever\"; did you mean \"ldapserver\"?",
        ),
        ("pamservice=a", "unknown option \"***\""),
    ] {
        let found = mistake(text);
        assert!(found.starts_with(error), "{text}: {found}");
    }
}

#[test]
fn bad_urls_are_refused() {
    for (url, error) in [
        ("x", "it has no scheme"),
        ("ldapi:///", "its scheme is neither"),
        ("ldap://h:0/dc=x", "its port"),
        ("ldap://h:/dc=x", "its port"),
        ("ldap://[::1/dc=x", "a bracket is not closed"),
        ("ldap://[::1]x/dc=x", "only a port"),
        ("ldap://h?dc=x", "its host"),
        ("ldap://h/dc=%4", "a % is not"),
        ("ldap://h/dc=%ff", "a % is not"),
        ("ldap://h/dc=x?uid?deep", "its scope"),
        ("ldap://h/dc=x?uid?sub?(a=b)?!ext", "extensions"),
    ] {
        let found = mistake(&format!("ldapurl=\"{url}\""));
        assert!(
            found.starts_with(&format!("bad ldapurl: {error}")),
            "{url}: {found}"
        );
    }
}

#[test]
fn sec_68_the_password_is_never_shown() {
    let options = parse("ldapserver=a ldapbasedn=x ldapbinddn=y ldapbindpasswd=hunter2");
    for text in [options.to_string(), format!("{options:?}")] {
        assert!(text.contains("ldapbindpasswd=***"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
    for text in [
        "ldapbindpasswd hunter2",
        "ldapbindpasswd = hunter2",
        "ldapbindpasswd=a,hunter2=b",
        "ldapbindpasswd=\"hunter2",
        "ldapbindpassword=hunter2",
        "ldapbindpasswd=hunter2",
    ] {
        let found = mistake(text);
        assert!(!found.contains("hunter2"), "{found}");
    }
}

#[test]
fn options_written_out_are_read_back() {
    for text in [
        "ldapserver=\"a b\" ldapport=1 ldapscheme=ldaps ldapprefix=\"a\"\"b\" ldapsuffix=\"\"",
        "ldapserver=a ldaptls=1 ldapbasedn=\"\" ldapsearchfilter=\"(uid=$username)\"",
        "ldapurl=ldaps://h:7/dc=x?mail?one ldapbinddn=y",
        "ldapurl=ldap://h/dc=x",
    ] {
        let written = parse(text).to_string();
        assert_eq!(parse(&written).to_string(), written);
    }
    let one = parse(&parse("ldapurl=ldaps://h:7/dc=x?mail?one").to_string());
    assert_eq!((one.scope, one.port), (LdapScope::One, Some(7)));
    assert_eq!(one.basedn.as_deref(), Some("dc=x"));
}
