//! Servers that are away, silent or false, and TLS: no password is ever sent to a server that could not prove its
//! identity.

use std::net::TcpListener;
use std::time::Duration;

use anyhow::Result;
use weir_access::ldap::LdapOptions;
use weir_access::ldap::LdapScheme;
use weir_auth::secret::Secret;
use weir_conformance::clock;
use weir_conformance::slapd::Slapd;
use weir_conformance::slapd::Transport;
use weir_conformance::tls::Spec;
use weir_conformance::tools;
use weir_directory::DirectoryError;
use weir_directory::Failure;
use weir_directory::LdapTls;
use weir_directory::Refusal;
use weir_directory::ServerFailure;
use weir_directory::Step;
use weir_directory::Verdict;
use weir_directory::check_ldap;

use crate::support::Directory;
use crate::support::ask;
use crate::support::ask_with;
use crate::support::direct;
use crate::support::searching;

fn over_tls(port: u16) -> LdapOptions {
    LdapOptions {
        scheme: LdapScheme::Ldaps,
        ..direct(port)
    }
}

fn with_starttls(port: u16) -> LdapOptions {
    LdapOptions {
        tls: true,
        ..direct(port)
    }
}

/// Failures of all servers; panics with any other result.
#[track_caller]
fn unreachable(told: Result<Verdict, DirectoryError>) -> Vec<ServerFailure> {
    match told {
        Err(DirectoryError::Unreachable(failures)) => failures,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tls_from_the_first_byte_and_starttls_work() -> Result<()> {
    let directory = Directory::start(Transport::TlsOnly, &Spec::server())?;
    let tls = directory.tls()?;
    let (port, tls_port) = (directory.slapd.port(), directory.slapd.tls_port());
    for options in [with_starttls(port), over_tls(tls_port)] {
        let told = ask_with(&tls, &options, "alice", "alice's secret");
        assert_eq!(told, Ok(Verdict::Accepted));
        let told = ask_with(&tls, &options, "alice", "bob's secret");
        assert_eq!(told, Ok(Verdict::Refused(Refusal::WrongPassword)));
    }
    // This server accepts no request without TLS, so TLS was used before.
    let told = ask(&direct(port), "alice", "alice's secret").unwrap_err();
    let DirectoryError::Server(failure) = &told else {
        panic!("{told}")
    };
    assert!(
        matches!(failure.failure, Failure::Code { code: 13, .. }),
        "{told}"
    );
    let search = LdapOptions {
        tls: true,
        ..searching(port)
    };
    assert_eq!(
        ask_with(&tls, &search, "bob", "bob's secret"),
        Ok(Verdict::Accepted)
    );
    Ok(())
}

#[test]
fn a_server_of_another_authority_hears_nothing() -> Result<()> {
    let directory = Directory::start(Transport::Tls, &Spec::server())?;
    let stranger = LdapTls::from_ca_file(&directory.pki.stranger_file())?;
    let (port, tls_port) = (directory.slapd.port(), directory.slapd.tls_port());
    for options in [with_starttls(port), over_tls(tls_port)] {
        let told = ask_with(&stranger, &options, "alice", "alice's secret");
        let failures = unreachable(told);
        assert_eq!(failures[0].step, Step::Connect);
        assert!(
            failures[0].to_string().contains("certificate"),
            "{}",
            failures[0]
        );
    }
    assert!(
        !directory.slapd.log().contains("BIND"),
        "{}",
        directory.slapd.log()
    );
    Ok(())
}

#[test]
fn a_server_of_another_name_hears_nothing() -> Result<()> {
    let spec = Spec::new(
        "elsewhere.test",
        weir_conformance::tls::authority::Usage::Server,
    );
    let directory = Directory::start(Transport::Tls, &spec.dns("elsewhere.test"))?;
    let tls = directory.tls()?;
    let told = ask_with(
        &tls,
        &over_tls(directory.slapd.tls_port()),
        "alice",
        "alice's secret",
    );
    assert_eq!(unreachable(told)[0].step, Step::Connect);
    assert!(
        !directory.slapd.log().contains("BIND"),
        "{}",
        directory.slapd.log()
    );
    Ok(())
}

#[test]
fn starttls_that_is_refused_is_not_done_without() -> Result<()> {
    let slapd = Slapd::start(&Transport::Clear)?;
    let directory = Directory::shared()?;
    let options = with_starttls(slapd.port());
    let told = ask_with(&directory.tls()?, &options, "alice", "alice's secret");
    assert!(told.is_err(), "{told:?}");
    assert!(!slapd.log().contains("BIND"), "{}", slapd.log());
    Ok(())
}

#[test]
fn a_missing_authority_file_is_told_when_it_is_needed() -> Result<()> {
    let told = LdapTls::from_ca_file("/nonexistent/ca.pem".as_ref()).unwrap_err();
    assert!(told.to_string().contains("/nonexistent/ca.pem"), "{told}");
    Ok(())
}

#[test]
fn servers_are_asked_in_turn_until_one_answers() -> Result<()> {
    let directory = Directory::shared()?;
    // The first port is closed, the second server never answers.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let options = LdapOptions {
        servers: vec![
            format!("127.0.0.1:{}", tools::free_port()?),
            silent.local_addr()?.to_string(),
            format!("localhost:{}", directory.slapd.port()),
        ],
        ..direct(1)
    };
    let password = Secret::from("alice's secret");
    let limit = Duration::from_secs(6);
    let told = check_ldap(&options, "alice", &password, limit, &LdapTls::system());
    assert_eq!(told, Ok(Verdict::Accepted));
    // A refusal is final: the last server is not asked.
    let options = LdapOptions {
        servers: vec![
            format!("127.0.0.1:{}", directory.slapd.port()),
            silent.local_addr()?.to_string(),
        ],
        ..options
    };
    let told = ask(&options, "alice", "not it");
    assert_eq!(told, Ok(Verdict::Refused(Refusal::WrongPassword)));
    Ok(())
}

#[test]
fn all_servers_together_have_one_deadline() -> Result<()> {
    let slapd = Slapd::start(&Transport::Clear)?;
    let silent = TcpListener::bind("127.0.0.1:0")?;
    slapd.freeze()?;
    let options = LdapOptions {
        servers: vec![
            silent.local_addr()?.to_string(),
            format!("127.0.0.1:{}", slapd.port()),
        ],
        ..direct(1)
    };
    let limit = Duration::from_millis(800);
    let password = Secret::from("alice's secret");
    let began = clock::now();
    let told = check_ldap(&options, "alice", &password, limit, &LdapTls::system());
    let took = began.elapsed();
    let failures = unreachable(told);
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(
        failures
            .iter()
            .all(|failure| failure.failure == Failure::Timeout),
        "{failures:?}"
    );
    assert!(took >= limit && took < limit * 15, "{took:?}");
    // Silence during StartTLS and the handshake counts as silence, too.
    for options in [
        with_starttls(slapd.port()),
        over_tls(silent.local_addr()?.port()),
    ] {
        let tls = Directory::shared()?.tls()?;
        let told = check_ldap(&options, "alice", &password, limit, &tls);
        assert_eq!(unreachable(told)[0].failure, Failure::Timeout);
    }
    Ok(())
}

#[test]
fn a_server_that_talks_nonsense_is_no_panic() -> Result<()> {
    let directory = Directory::shared()?;
    let password = Secret::from("alice's secret");
    // Well-formed BER of the wrong structure, and random bytes.
    let answers: [&'static [u8]; 4] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x30\x05\x02\x01\x01\x61\x00",
        b"\x30\x84\xff\xff\xff\xff",
        b"\x30\x03\x04\x01\x01",
    ];
    for answer in answers {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let options = direct(listener.local_addr()?.port());
        let server = std::thread::spawn(move || -> std::io::Result<()> {
            use std::io::Read;
            use std::io::Write;
            let (mut stream, _) = listener.accept()?;
            let mut heard = [0; 512];
            let _ = stream.read(&mut heard)?;
            stream.write_all(answer)?;
            let _ = stream.read(&mut heard)?;
            Ok(())
        });
        let limit = Duration::from_secs(2);
        let told = check_ldap(&options, "alice", &password, limit, &directory.tls()?);
        assert!(told.is_err(), "{}: {told:?}", answer.escape_ascii());
        drop(server.join());
    }
    Ok(())
}
