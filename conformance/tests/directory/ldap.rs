//! Simple bind and search+bind: accepted and refused users, and faults of the directory.

use std::process::Command;

use anyhow::Result;
use weir_access::ldap::LdapOptions;
use weir_access::ldap::LdapScope;
use weir_auth::secret::Secret;
use weir_conformance::slapd::PEOPLE;
use weir_conformance::slapd::SEARCHER;
use weir_conformance::slapd::STAFF;
use weir_conformance::tools;
use weir_directory::DirectoryError;
use weir_directory::Failure;
use weir_directory::LdapTls;
use weir_directory::Refusal;
use weir_directory::Step;
use weir_directory::Verdict;
use weir_directory::check_ldap;

use crate::support::Directory;
use crate::support::PATIENCE;
use crate::support::ask;
use crate::support::direct;
use crate::support::searching;

const WRONG: Result<Verdict, DirectoryError> = Ok(Verdict::Refused(Refusal::WrongPassword));

fn refused(refusal: Refusal) -> Result<Verdict, DirectoryError> {
    Ok(Verdict::Refused(refusal))
}

#[test]
fn simple_bind_takes_the_right_password_only() -> Result<()> {
    let directory = Directory::shared()?;
    let options = direct(directory.slapd.port());
    assert_eq!(
        ask(&options, "alice", "alice's secret"),
        Ok(Verdict::Accepted)
    );
    assert_eq!(ask(&options, "alice", "alice's secreT"), WRONG);
    assert_eq!(ask(&options, "alice", "bob's secret"), WRONG);
    assert_eq!(ask(&options, "nobody", "alice's secret"), WRONG);
    Ok(())
}

#[test]
fn an_empty_password_is_refused_where_the_server_would_take_it() -> Result<()> {
    let directory = Directory::shared()?;
    let port = directory.slapd.port();
    // The server accepts a name without a password.
    let whoami = tools::require("ldapwhoami", "ldap-utils")?;
    tools::run(Command::new(whoami).args([
        "-x",
        "-H",
        &format!("ldap://127.0.0.1:{port}"),
        "-D",
        &format!("uid=alice,{PEOPLE}"),
        "-w",
        "",
    ]))?;
    for options in [direct(port), searching(port)] {
        assert_eq!(ask(&options, "alice", ""), refused(Refusal::EmptyPassword));
        assert_eq!(ask(&options, "nobody", ""), refused(Refusal::EmptyPassword));
    }
    Ok(())
}

#[test]
fn a_user_name_cannot_name_an_entry_elsewhere() -> Result<()> {
    let directory = Directory::shared()?;
    let options = direct(directory.slapd.port());
    // The entry uid=alice,ou=guests,ou=people exists and has this password.
    assert_eq!(ask(&options, "alice,ou=guests", "guest's secret"), WRONG);
    let guests = LdapOptions {
        suffix: Some(format!(",ou=guests,{PEOPLE}")),
        ..options.clone()
    };
    assert_eq!(
        ask(&guests, "alice", "guest's secret"),
        Ok(Verdict::Accepted)
    );
    // A name that needs escapes is accepted with them.
    assert_eq!(
        ask(&options, "o,neil+1", "o,neil's secret"),
        Ok(Verdict::Accepted)
    );
    Ok(())
}

#[test]
fn a_search_finds_exactly_one_user() -> Result<()> {
    let directory = Directory::shared()?;
    let options = searching(directory.slapd.port());
    assert_eq!(ask(&options, "bob", "bob's secret"), Ok(Verdict::Accepted));
    assert_eq!(ask(&options, "bob", "alice's secret"), WRONG);
    assert_eq!(
        ask(&options, "nobody", "bob's secret"),
        refused(Refusal::UnknownUser)
    );
    // Two entries match.
    for password in ["alice's secret", "guest's secret"] {
        assert_eq!(
            ask(&options, "alice", password),
            refused(Refusal::AmbiguousUser)
        );
    }
    let one_level = LdapOptions {
        basedn: Some(PEOPLE.to_owned()),
        scope: LdapScope::One,
        ..options
    };
    assert_eq!(
        ask(&one_level, "alice", "alice's secret"),
        Ok(Verdict::Accepted)
    );
    Ok(())
}

#[test]
fn a_search_goes_by_attribute_or_filter() -> Result<()> {
    let directory = Directory::shared()?;
    let options = searching(directory.slapd.port());
    let by_mail = LdapOptions {
        searchattribute: Some("mail".to_owned()),
        ..options.clone()
    };
    assert_eq!(
        ask(&by_mail, "alice@weir.test", "alice's secret"),
        Ok(Verdict::Accepted)
    );
    assert_eq!(
        ask(&by_mail, "office@weir.test", "bob's secret"),
        refused(Refusal::AmbiguousUser)
    );
    let filter = "(|(uid=$username)(mail=$username@weir.test))";
    let by_filter = LdapOptions {
        searchfilter: Some(filter.to_owned()),
        ..options.clone()
    };
    assert_eq!(
        ask(&by_filter, "oneil", "o,neil's secret"),
        Ok(Verdict::Accepted)
    );
    assert_eq!(
        ask(&by_filter, "bob", "bob's secret"),
        Ok(Verdict::Accepted)
    );
    let bare = LdapOptions {
        searchfilter: Some("uid=$username".to_owned()),
        ..options
    };
    assert_eq!(ask(&bare, "bob", "bob's secret"), Ok(Verdict::Accepted));
    Ok(())
}

#[test]
fn a_user_name_cannot_widen_a_search() -> Result<()> {
    let directory = Directory::shared()?;
    let options = searching(directory.slapd.port());
    for user in ["b*", "*", "bob)(uid=*", "bo\\62", "bob/", "b(b"] {
        let told = ask(&options, user, "bob's secret");
        assert_eq!(told, refused(Refusal::UserName), "{user}");
    }
    Ok(())
}

#[test]
fn the_searcher_sees_what_others_do_not() -> Result<()> {
    let directory = Directory::shared()?;
    let anonymous = LdapOptions {
        basedn: Some(STAFF.to_owned()),
        ..searching(directory.slapd.port())
    };
    assert_eq!(
        ask(&anonymous, "dave", "dave's secret"),
        refused(Refusal::UnknownUser)
    );
    // The options are parsed from text as in the HBA file, which is the only way to set the searcher's
    // password.
    let (name, password) = SEARCHER;
    let text = |password: &str| {
        LdapOptions::parse(&format!(
            "ldapserver=127.0.0.1 ldapport={} ldapbasedn=\"{STAFF}\" ldapbinddn=\"{name}\" \
             ldapbindpasswd=\"{password}\"",
            directory.slapd.port()
        ))
        .map_err(|mistake| anyhow::anyhow!("{mistake}"))
    };
    assert_eq!(
        ask(&text(password)?, "dave", "dave's secret"),
        Ok(Verdict::Accepted)
    );
    assert_eq!(ask(&text(password)?, "dave", "alice's secret"), WRONG);
    // Reported as the administrator's mistake.
    let told = ask(&text("not it")?, "dave", "dave's secret").unwrap_err();
    let DirectoryError::Server(failure) = &told else {
        panic!("{told}")
    };
    assert_eq!(failure.step, Step::SearchBind);
    assert!(
        matches!(failure.failure, Failure::Code { code: 49, .. }),
        "{told}"
    );
    assert!(!told.to_string().contains("not it"), "{told}");
    Ok(())
}

#[test]
fn mistakes_of_the_configuration_are_told_from_wrong_passwords() -> Result<()> {
    let directory = Directory::shared()?;
    let options = searching(directory.slapd.port());
    let nowhere = LdapOptions {
        basedn: Some("dc=nowhere".to_owned()),
        ..options.clone()
    };
    let told = ask(&nowhere, "bob", "bob's secret").unwrap_err();
    let DirectoryError::Server(failure) = &told else {
        panic!("{told}")
    };
    assert_eq!(failure.step, Step::Search);
    assert!(
        matches!(failure.failure, Failure::Code { code: 32, .. }),
        "{told}"
    );
    let filter = LdapOptions {
        searchfilter: Some("(uid=$username".to_owned()),
        ..options.clone()
    };
    let told = ask(&filter, "bob", "bob's secret");
    assert_eq!(
        told,
        Err(DirectoryError::Filter {
            filter: "(uid=bob".to_owned()
        })
    );
    let nobody = LdapOptions {
        servers: Vec::new(),
        ..options
    };
    assert_eq!(
        ask(&nobody, "bob", "bob's secret"),
        Err(DirectoryError::NoServer)
    );
    Ok(())
}

#[test]
fn passwords_that_ldap_cannot_carry_are_refused() -> Result<()> {
    let directory = Directory::shared()?;
    let options = direct(directory.slapd.port());
    let password = Secret::new(vec![0xff, 0xfe]);
    let told = check_ldap(&options, "alice", &password, PATIENCE, &LdapTls::system());
    assert_eq!(told, refused(Refusal::Password));
    Ok(())
}
