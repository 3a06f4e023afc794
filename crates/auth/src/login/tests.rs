//! Tests of the login exchange: the users and methods that are accepted.

mod external;
mod order;
mod plus;
mod unknown;

use super::*;
use crate::kdf::ScramKeys;
use crate::kdf::derive;
use crate::md5;
use crate::scram::MECHANISM;
use crate::scram::Nonce;
use crate::scram::ScramClient;
use crate::scram::Step;
use crate::stored::ScramVerifier;

const USER: &[u8] = b"alice";
const MD5_SALT: [u8; 4] = [1, 2, 3, 4];

fn keys_for(request: &KdfRequest) -> ScramKeys {
    ScramKeys::from_salted(&derive(request))
}

fn begin(method: Method, account: Account) -> Opening {
    begin_as(USER, method, account)
}

/// A population of one user with an MD5 hash.
fn md5_population() -> Population {
    let mut population = Population::default();
    population.add(&StoredSecret::Md5(md5::hash(b"", b"")));
    population
}

fn begin_as(user: &[u8], method: Method, account: Account) -> Opening {
    Exchange::begin(LoginInput {
        method,
        user,
        account,
        random: LoginRandom {
            md5_salt: MD5_SALT,
            scram_nonce: [6; 18],
        },
        server_secret: &ServerSecret::new([3; 32]),
        iterations: 2,
        channel_binding: None,
        population: &md5_population(),
    })
}

fn asked(method: Method, account: Account) -> (Challenge, Box<Exchange>) {
    match begin(method, account) {
        Opening::Ask {
            challenge,
            exchange,
        } => (challenge, exchange),
        Opening::Accepted | Opening::Rejected => panic!("the client was not asked"),
    }
}

/// Makes a stored secret of each kind for `password`.
fn stored(kind: &str, password: &str) -> StoredSecret {
    match kind {
        "empty" => StoredSecret::Empty,
        "md5" => StoredSecret::Md5(md5::hash(password.as_bytes(), USER)),
        "plain" => StoredSecret::Plain(Secret::from(password)),
        "scram" => {
            let request = KdfRequest::new(&Secret::from(password), b"salt".to_vec(), 3);
            StoredSecret::Scram(ScramVerifier::from_keys(
                &keys_for(&request),
                b"salt".to_vec(),
                3,
            ))
        }
        other => panic!("no such kind: {other}"),
    }
}

fn account(kind: &str, password: &str) -> Account {
    match kind {
        "unknown" => Account::Unknown,
        kind => Account::Known(stored(kind, password)),
    }
}

fn cstring(text: &[u8]) -> Vec<u8> {
    [text, b"\0"].concat()
}

fn initial_response(mechanism: &str, data: &[u8]) -> Vec<u8> {
    let len = i32::try_from(data.len()).unwrap().to_be_bytes();
    [mechanism.as_bytes(), b"\0", &len, data].concat()
}

/// Computes keys if the exchange asks for them.
fn settle(exchange: &mut Exchange, progress: Progress) -> Result<Progress, LoginError> {
    match progress {
        Progress::NeedKdf(request) => exchange.provide_keys(&keys_for(&request)),
        progress => Ok(progress),
    }
}

/// Runs a whole login as a client that knows `password`. The trace names every step that the client can see, so that
/// two logins can be compared.
fn log_in(method: Method, account: Account, password: &str) -> (Vec<String>, Option<Acceptance>) {
    let (challenge, mut exchange) = match begin(method, account) {
        Opening::Accepted => return (vec!["accepted".to_owned()], Some(nothing_to_send())),
        Opening::Rejected => return (vec!["rejected".to_owned()], None),
        Opening::Ask {
            challenge,
            exchange,
        } => (challenge, exchange),
    };
    let mut trace = vec![format!("{challenge:?}")];
    let progress = match challenge {
        Challenge::Cleartext => exchange
            .handle_response(&cstring(password.as_bytes()))
            .unwrap(),
        Challenge::Md5 { salt } => {
            let response = md5::response(&md5::hash(password.as_bytes(), USER), salt);
            exchange.handle_response(&cstring(&response)).unwrap()
        }
        Challenge::Sasl { .. } => {
            let nonce = Nonce::from_random([7; 18]);
            let mut client = ScramClient::with_password(Secret::from(password), nonce);
            let body = initial_response(MECHANISM, &client.first_message().unwrap());
            let progress = exchange.handle_response(&body).unwrap();
            let Ok(Progress::Continue(first)) = settle(&mut exchange, progress) else {
                panic!("no server-first-message");
            };
            trace.push(format!("{} bytes", first.len()));
            let Ok(Step::NeedKeys(request)) = client.handle_server_first(&first) else {
                panic!("server-first-message refused");
            };
            let last = client.provide_keys(&keys_for(&request)).unwrap();
            let progress = exchange.handle_response(&last).unwrap();
            if let Progress::Accepted(acceptance) = &progress {
                let text = acceptance.final_message.clone().unwrap();
                client.handle_server_final(&text).unwrap();
            }
            progress
        }
    };
    match settle(&mut exchange, progress).unwrap() {
        Progress::Accepted(acceptance) => {
            trace.push("accepted".to_owned());
            (trace, Some(acceptance))
        }
        Progress::Rejected => {
            trace.push("rejected".to_owned());
            (trace, None)
        }
        Progress::Continue(_) | Progress::NeedCheck(_) | Progress::NeedKdf(_) => {
            panic!("no verdict")
        }
    }
}

fn nothing_to_send() -> Acceptance {
    Acceptance {
        final_message: None,
        pass_through: None,
    }
}

/// Expected verdicts, written independently of the code: refused unless listed.
fn oracle(method: Method, kind: &str, is_right: bool) -> bool {
    matches!(
        (method, kind, is_right),
        (Method::Trust, "empty" | "md5" | "plain" | "scram", _)
            | (Method::Plain | Method::Md5, "md5" | "plain" | "scram", true)
            | (Method::Scram, "plain" | "scram", true)
    )
}

#[test]
fn sec_41_the_matrix_of_methods_and_secrets_has_no_hole() {
    for method in [
        Method::Md5,
        Method::Plain,
        Method::Reject,
        Method::Scram,
        Method::Trust,
    ] {
        for kind in ["unknown", "empty", "md5", "plain", "scram"] {
            for password in ["pencil", "pencim", "PENCIL", " ", "md5"] {
                let (trace, accepted) = log_in(method, account(kind, "pencil"), password);
                let expected = oracle(method, kind, password == "pencil");
                assert_eq!(
                    accepted.is_some(),
                    expected,
                    "{method:?} {kind} {password} {trace:?}"
                );
            }
        }
    }
}

#[test]
fn the_challenge_follows_the_method_and_the_stored_secret() {
    let sasl = Challenge::Sasl {
        mechanisms: &["SCRAM-SHA-256"],
    };
    let md5 = Challenge::Md5 { salt: MD5_SALT };
    for kind in ["unknown", "empty", "md5", "plain", "scram"] {
        let challenge = |method| asked(method, account(kind, "pencil")).0;
        assert_eq!(challenge(Method::Plain), Challenge::Cleartext);
        assert_eq!(challenge(Method::Scram), sasl);
        assert_eq!(
            challenge(Method::Md5),
            if kind == "scram" {
                sasl.clone()
            } else {
                md5.clone()
            }
        );
    }
}

#[test]
fn sec_64_a_login_that_shows_the_client_key_allows_pass_through() {
    for (method, kind, expected) in [
        (Method::Md5, "scram", true),
        (Method::Scram, "scram", true),
        (Method::Plain, "scram", true),
        (Method::Scram, "plain", true),
        (Method::Plain, "plain", false),
        (Method::Md5, "md5", false),
        (Method::Trust, "scram", false),
    ] {
        let (_, accepted) = log_in(method, account(kind, "pencil"), "pencil");
        let pass_through = accepted.unwrap().pass_through;
        assert_eq!(pass_through.is_some(), expected, "{method:?} {kind}");
        if let (Some(pass), StoredSecret::Scram(known)) = (pass_through, stored(kind, "pencil")) {
            assert!(pass.verifier().ct_eq(&known));
        }
    }
}

/// Returns the error for `body` as the first answer to a challenge.
fn first_error(method: Method, body: &[u8]) -> Option<LoginError> {
    let (_, mut exchange) = asked(method, account("plain", "pencil"));
    let error = exchange.handle_response(body).err();
    if error.is_some() {
        let again = exchange.handle_response(&cstring(b"pencil")).err();
        assert_eq!(
            again,
            Some(LoginError::OutOfOrder),
            "an error ends the exchange"
        );
    }
    error
}

#[test]
fn passwords_have_to_be_one_text_that_is_not_empty() {
    for method in [Method::Plain, Method::Md5] {
        let error = |body: &[u8]| first_error(method, body);
        assert_eq!(error(b""), Some(LoginError::MalformedPassword));
        assert_eq!(error(b"pencil"), Some(LoginError::MalformedPassword));
        assert_eq!(error(b"pencil\0x\0"), Some(LoginError::MalformedPassword));
        assert_eq!(error(b"pencil\0\0"), Some(LoginError::MalformedPassword));
        assert_eq!(error(b"\0"), Some(LoginError::EmptyPassword));
        assert_eq!(error(&cstring(&[b'x'; 65_530])), None);
        assert_eq!(
            error(&cstring(&[b'x'; 65_531])),
            Some(LoginError::PasswordTooLong)
        );
        let len = 65_536;
        assert_eq!(
            error(&vec![b'x'; len]),
            Some(LoginError::BodyTooLong { len })
        );
    }
}

#[test]
fn sec_21_the_declared_length_of_an_initial_response_is_checked() {
    let first = b"n,,n=,r=abc";
    assert_eq!(
        first_error(Method::Scram, &initial_response(MECHANISM, first)),
        None
    );
    for len in [i32::MIN, -2, -1, 0, 1, 10, 12, i32::MAX] {
        let body = [MECHANISM.as_bytes(), b"\0", &len.to_be_bytes(), first].concat();
        let error = first_error(Method::Scram, &body);
        assert_eq!(error, Some(LoginError::MalformedSaslInitial), "{len}");
    }
    for body in [
        &b""[..],
        b"SCRAM-SHA-256",
        b"SCRAM-SHA-256\0",
        b"SCRAM-SHA-256\0\0\0\0",
    ] {
        let error = first_error(Method::Scram, body);
        assert_eq!(error, Some(LoginError::MalformedSaslInitial), "{body:?}");
    }
    for mechanism in [
        "",
        "SCRAM-SHA-1",
        "SCRAM-SHA-256-PLUS",
        "scram-sha-256",
        "PLAIN",
    ] {
        let error = first_error(Method::Scram, &initial_response(mechanism, first));
        assert_eq!(error, Some(LoginError::UnknownMechanism), "{mechanism}");
    }
}
