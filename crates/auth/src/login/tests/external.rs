//! Tests of passwords that LDAP or PAM check.

use super::*;

fn password_asked_for(account: Account) -> (Secret, Box<Exchange>) {
    let (challenge, mut exchange) = asked(Method::External, account);
    assert_eq!(challenge, Challenge::Cleartext);
    match exchange.handle_response(&cstring(b"pencil")) {
        Ok(Progress::NeedCheck(password)) => (password, exchange),
        _ => panic!("nobody was asked"),
    }
}

#[test]
fn the_verdict_on_an_external_password_is_somebody_elses() {
    for kind in ["unknown", "empty", "md5", "plain", "scram"] {
        for fits in [true, false] {
            let (password, mut exchange) = password_asked_for(account(kind, "other"));
            assert!(password.ct_eq(b"pencil"));
            let progress = exchange.provide_verdict(fits).unwrap();
            match progress {
                Progress::Accepted(acceptance) => {
                    assert!(fits);
                    assert!(acceptance.final_message.is_none());
                    assert!(acceptance.pass_through.is_none());
                }
                Progress::Rejected => assert!(!fits),
                _ => panic!("no verdict"),
            }
        }
    }
}

#[test]
fn an_empty_password_is_refused_before_anybody_is_asked() {
    // A directory treats an empty password as an anonymous bind, which succeeds (RFC 4513, 5.1.2).
    let (_, mut exchange) = asked(Method::External, Account::Unknown);
    let error = exchange.handle_response(b"\0").err();
    assert_eq!(error, Some(LoginError::EmptyPassword));
    assert_eq!(
        LoginError::EmptyPassword.to_string(),
        "empty password returned by client"
    );
    assert_eq!(
        exchange.provide_verdict(true).err(),
        Some(LoginError::OutOfOrder)
    );
}

#[test]
fn sec_40_a_verdict_counts_once_and_only_when_it_was_asked_for() {
    for method in [Method::External, Method::Plain, Method::Md5, Method::Scram] {
        let (_, mut exchange) = asked(method, account("plain", "pencil"));
        let error = exchange.provide_verdict(true).err();
        assert_eq!(error, Some(LoginError::OutOfOrder));
    }
    let (_, mut exchange) = password_asked_for(Account::Unknown);
    assert!(exchange.provide_verdict(false).is_ok());
    let error = exchange.provide_verdict(true).err();
    assert_eq!(error, Some(LoginError::OutOfOrder));
}

#[test]
fn sec_40_a_second_password_while_the_first_is_checked_ends_the_login() {
    let (_, mut exchange) = password_asked_for(Account::Unknown);
    let error = exchange.handle_response(&cstring(b"pencil")).err();
    assert_eq!(error, Some(LoginError::OutOfOrder));
    let error = exchange.provide_verdict(true).err();
    assert_eq!(error, Some(LoginError::OutOfOrder));
}
