//! PAM: authentication and account management, and the values that modules receive.

use std::path::Path;

use anyhow::Result;
use weir_conformance::pam::Pam;

const ASK: &str = env!("CARGO_BIN_EXE_ask-pam");

#[track_caller]
fn check(pam: &Pam, arguments: &[&str], expect: &str) {
    let told = pam.run(Path::new(ASK), arguments).expect("ask-pam runs");
    assert!(told.contains(expect), "{arguments:?}: {told}");
    assert!(!told.contains("secret"), "{told}");
}

#[test]
fn the_right_password_is_accepted_and_no_other() -> Result<()> {
    let pam = Pam::new()?;
    check(
        &pam,
        &["pgbouncer", "alice", "alice's secret"],
        "Ok(Accepted)",
    );
    check(
        &pam,
        &["pgbouncer", "alice", "bob's secret"],
        "Ok(Refused(WrongPassword))",
    );
    check(
        &pam,
        &["pgbouncer", "alice", ""],
        "Ok(Refused(EmptyPassword))",
    );
    check(
        &pam,
        &["pgbouncer", "", "alice's secret"],
        "Ok(Refused(UserName))",
    );
    let told = pam.run(Path::new(ASK), &["pgbouncer", "nobody", "alice's secret"])?;
    assert!(told.contains("Ok(Refused("), "{told}");
    Ok(())
}

#[test]
fn modules_learn_user_service_and_address() -> Result<()> {
    let pam = Pam::new()?;
    check(
        &pam,
        &["pgbouncer", "alice", "alice's secret", "192.0.2.7"],
        "Ok(Accepted)",
    );
    check(
        &pam,
        &["pgbouncer", "alice", "alice's secret"],
        "Ok(Accepted)",
    );
    assert_eq!(
        pam.asked(),
        "auth pgbouncer alice 192.0.2.7\nauth pgbouncer alice \n"
    );
    Ok(())
}

#[test]
fn an_account_that_is_closed_is_refused_after_the_right_password() -> Result<()> {
    let pam = Pam::new()?;
    let account = "Ok(Refused(Account {";
    check(
        &pam,
        &["closed", "alice", "bob's secret"],
        "Ok(Refused(WrongPassword))",
    );
    check(&pam, &["closed", "alice", "alice's secret"], account);
    // Bob may log in, but not with this service.
    check(&pam, &["pgbouncer", "bob", "bob's secret"], account);
    Ok(())
}

#[test]
fn modules_that_talk_are_listened_to() -> Result<()> {
    let pam = Pam::new()?;
    check(
        &pam,
        &["talkative", "alice", "alice's secret"],
        "Ok(Accepted)",
    );
    check(
        &pam,
        &["talkative", "alice", "not it"],
        "Ok(Refused(WrongPassword))",
    );
    Ok(())
}

#[test]
fn a_question_that_is_not_for_a_password_is_not_answered_with_one() -> Result<()> {
    let pam = Pam::new()?;
    let told = pam.run(Path::new(ASK), &["visible", "alice", "alice's secret"])?;
    assert!(!told.contains("Accepted"), "{told}");
    Ok(())
}

#[test]
fn a_broken_service_is_the_administrators_fault() -> Result<()> {
    let pam = Pam::new()?;
    check(
        &pam,
        &["broken", "alice", "alice's secret"],
        "Err(Pam { service: \"broken\"",
    );
    check(
        &pam,
        &["../pgbouncer", "alice", "alice's secret"],
        "Err(Pam { service: ",
    );
    // A service without a file uses `other`, which should refuse on every system.
    let told = pam.run(Path::new(ASK), &["nowhere", "alice", "alice's secret"])?;
    assert!(!told.contains("Accepted"), "{told}");
    Ok(())
}
