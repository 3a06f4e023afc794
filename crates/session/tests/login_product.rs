//! SEC-40: runs every sequence of two and three messages with which a client can begin, over all types of messages.
//! Only the legal sequence logs in, and no client ends up as another user.
//!
//! The test repeats the gate between the two state machines as in the proxy: an opening until a start-up packet, then
//! `p` messages and nothing else.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that panics has failed, which is what it is for"
)]

use weir_auth::kdf::{KdfRequest, ScramKeys, derive};
use weir_auth::login::{Account, Exchange, LoginInput, LoginRandom, Method, Progress};
use weir_auth::md5;
use weir_auth::mock::Population;
use weir_auth::scram::{ChannelBinding, MECHANISM, MECHANISM_PLUS, Nonce, ScramClient, Step};
use weir_auth::secret::{Secret, ServerSecret};
use weir_auth::stored::StoredSecret;
use weir_session::hello::{Opened, Opening};
use weir_wire::encode::{self, EncodeError};
use weir_wire::frame::{Side, frame};
use weir_wire::frontend::Kind;
use weir_wire::startup::Version;

const MD5_SALT: [u8; 4] = [1, 2, 3, 4];
const HASH: &[u8] = &[9; 32];

/// Name of a message, and its bytes.
type Named = (&'static str, Vec<u8>);

fn random() -> LoginRandom {
    LoginRandom {
        md5_salt: MD5_SALT,
        scram_nonce: [6; 18],
    }
}

fn secret_of(user: &str) -> Account {
    match user {
        "alice" => Account::Known(StoredSecret::Plain(Secret::from("pencil"))),
        "bob" => Account::Known(StoredSecret::Plain(Secret::from("eraser"))),
        _ => Account::Unknown,
    }
}

fn begin(method: Method, user: &str) -> weir_auth::login::Opening {
    Exchange::begin(LoginInput {
        method,
        user: user.as_bytes(),
        account: secret_of(user),
        random: random(),
        server_secret: &ServerSecret::new([3; 32]),
        iterations: 1,
        channel_binding: Some(HASH),
        population: &Population::default(),
    })
}

fn keys_of(request: &KdfRequest) -> ScramKeys {
    ScramKeys::from_salted(&derive(request))
}

enum Gate {
    Opening(Opening),
    Authenticating {
        user: String,
        exchange: Box<Exchange>,
    },
    Ready {
        user: String,
    },
    Over,
}

impl Gate {
    /// Handles a complete message.
    fn handle(self, method: Method, bytes: &[u8]) -> Self {
        match self {
            Self::Opening(mut opening) => match opening.handle(bytes) {
                Ok((taken, Opened::Refuse)) if taken == bytes.len() => Self::Opening(opening),
                Ok((taken, Opened::Hello(hello))) if taken == bytes.len() => {
                    let user = hello.user;
                    match begin(method, &user) {
                        weir_auth::login::Opening::Ask { exchange, .. } => {
                            Self::Authenticating { user, exchange }
                        }
                        weir_auth::login::Opening::Accepted => Self::Ready { user },
                        weir_auth::login::Opening::Rejected => Self::Over,
                    }
                }
                _ => Self::Over,
            },
            Self::Authenticating { user, mut exchange } => {
                assert_eq!(exchange.user(), user.as_bytes());
                let Ok(Some(message)) = frame(bytes, Side::Frontend) else {
                    return Self::Over;
                };
                if message.header.tag != b'p' || message.raw.len() != bytes.len() {
                    return Self::Over;
                }
                let mut progress = exchange.handle_response(message.body);
                while let Ok(Progress::NeedKdf(request)) = progress {
                    progress = exchange.provide_keys(&keys_of(&request));
                }
                match progress {
                    Ok(Progress::Continue(_)) => Self::Authenticating { user, exchange },
                    Ok(Progress::Accepted(_)) => Self::Ready { user },
                    _ => Self::Over,
                }
            }
            done => done,
        }
    }
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes).unwrap();
    bytes
}

fn startup(user: &str) -> Vec<u8> {
    let parameters: [(&[u8], &[u8]); 1] = [(b"user", user.as_bytes())];
    encoded(|out| encode::startup(out, Version::V3_0, &parameters))
}

/// Returns both SCRAM messages of alice, who knows her password, for this mechanism.
fn scram(mechanism: &str) -> [Vec<u8>; 2] {
    let binding = match mechanism {
        MECHANISM_PLUS => ChannelBinding::EndPoint(HASH.into()),
        _ => ChannelBinding::None,
    };
    let nonce = Nonce::from_random([7; 18]);
    let mut client =
        ScramClient::with_password(Secret::from("pencil"), nonce).channel_binding(binding);
    let first = client.first_message().unwrap();
    let initial = encoded(|out| encode::sasl_initial(out, mechanism.as_bytes(), Some(&first)));
    let weir_auth::login::Opening::Ask { mut exchange, .. } = begin(Method::Scram, "alice") else {
        panic!("SCRAM asks");
    };
    let body = frame(&initial, Side::Frontend).unwrap().unwrap().body;
    let Ok(Progress::Continue(text)) = exchange.handle_response(body) else {
        panic!("no server-first-message");
    };
    let Ok(Step::NeedKeys(request)) = client.handle_server_first(&text) else {
        panic!("server-first-message refused");
    };
    let last = client.provide_keys(&keys_of(&request)).unwrap();
    [initial, encoded(|out| encode::sasl_response(out, &last))]
}

/// Returns every type of message that a client can send, and several variants of login messages.
fn messages() -> Vec<Named> {
    let [initial, last] = scram(MECHANISM);
    let [plus, plus_last] = scram(MECHANISM_PLUS);
    let response = |password: &[u8], user: &[u8]| {
        let response = md5::response(&md5::hash(password, user), MD5_SALT);
        encoded(|out| encode::password(out, &response))
    };
    let bind = [b"B\0\0\0\x0c".to_vec(), vec![0; 8]].concat();
    vec![
        ("alice", startup("alice")),
        ("bob", startup("bob")),
        ("nobody", startup("nobody")),
        ("ssl", encoded(encode::ssl_request)),
        ("gss", encoded(encode::gssenc_request)),
        (
            "cancel",
            encoded(|out| encode::cancel_request(out, 1, &[0; 4])),
        ),
        ("pencil", encoded(|out| encode::password(out, b"pencil"))),
        ("eraser", encoded(|out| encode::password(out, b"eraser"))),
        ("empty", encoded(|out| encode::password(out, b""))),
        ("md5 alice", response(b"pencil", b"alice")),
        ("md5 bob", response(b"eraser", b"bob")),
        ("initial", initial),
        ("final", last),
        ("plus", plus),
        ("plus final", plus_last),
        (
            "no first",
            encoded(|out| encode::sasl_initial(out, MECHANISM.as_bytes(), None)),
        ),
        ("query", encoded(|out| encode::query(out, b"select 1"))),
        (
            "parse",
            encoded(|out| encode::parse(out, b"", b"select 1", &[0; 2])),
        ),
        ("bind", bind),
        (
            "describe",
            encoded(|out| encode::describe(out, Kind::Statement, b"")),
        ),
        (
            "close",
            encoded(|out| encode::close(out, Kind::Statement, b"")),
        ),
        ("execute", encoded(|out| encode::execute(out, b"", 0))),
        ("sync", encoded(encode::sync)),
        ("flush", encoded(encode::flush)),
        ("terminate", encoded(encode::terminate)),
        ("function", b"F\0\0\0\x0e\0\0\0\x01\0\0\0\0\0\0".to_vec()),
        ("copy data", encoded(|out| encode::copy_data(out, b"x"))),
        ("copy done", encoded(encode::copy_done)),
        ("copy fail", encoded(|out| encode::copy_fail(out, b"x"))),
    ]
}

/// Returns the user that this sequence logs in, if any. Written independently of the code.
fn oracle(method: Method, names: &[&str]) -> Option<&'static str> {
    // Each kind of encryption may be requested once, before the login.
    let names = match names {
        ["ssl", "gss", rest @ ..] | ["gss", "ssl", rest @ ..] => rest,
        ["ssl" | "gss", rest @ ..] => rest,
        all => all,
    };
    match (method, names) {
        (Method::Plain, ["alice", "pencil"]) | (Method::Md5, ["alice", "md5 alice"]) => {
            Some("alice")
        }
        (Method::Plain, ["bob", "eraser"]) | (Method::Md5, ["bob", "md5 bob"]) => Some("bob"),
        (Method::Scram, ["alice", "initial", "final"] | ["alice", "plus", "plus final"]) => {
            Some("alice")
        }
        _ => None,
    }
}

/// Checks that the sequence logs in exactly the user that the oracle allows. Returns true if there was a login;
/// messages behind it are not examined.
fn check(method: Method, messages: &[Named], sequence: &[usize]) -> bool {
    let mut gate = Gate::Opening(Opening::default());
    let mut seen = Vec::new();
    for index in sequence {
        let (name, bytes) = &messages[*index];
        seen.push(*name);
        gate = gate.handle(method, bytes);
        if let Gate::Ready { user } = &gate {
            assert_eq!(
                oracle(method, &seen),
                Some(user.as_str()),
                "{method:?} {seen:?}"
            );
            return true;
        }
        assert_eq!(oracle(method, &seen), None, "{method:?} {seen:?}");
    }
    false
}

#[test]
fn sec_40_no_sequence_of_messages_but_the_legal_one_logs_in() {
    let messages = messages();
    let count = messages.len();
    for (method, expected) in [(Method::Plain, 2), (Method::Md5, 2), (Method::Scram, 2)] {
        let mut accepted = 0;
        for first in 0..count {
            for second in 0..count {
                let pair = [first, second];
                let by_two = check(method, &messages, &pair);
                accepted += usize::from(by_two);
                if by_two {
                    continue;
                }
                for third in 0..count {
                    let by_three = check(method, &messages, &[first, second, third]);
                    accepted += usize::from(by_three);
                }
            }
        }
        // Logins by two messages also succeed behind either of two encryption requests; SCRAM needs all three messages
        // itself.
        let expected = match method {
            Method::Scram => expected,
            _ => expected * 3,
        };
        assert_eq!(accepted, expected, "{method:?}");
    }
}

#[test]
fn sec_40_a_second_start_up_packet_in_any_state_ends_the_login() {
    let all = messages();
    let bytes = |name: &str| &all.iter().find(|(found, _)| *found == name).unwrap().1;
    for again in ["alice", "bob", "ssl", "gss", "cancel", "query", "terminate"] {
        for (method, before) in [
            (Method::Plain, &["alice"][..]),
            (Method::Md5, &["alice"]),
            (Method::Scram, &["alice"]),
            (Method::Scram, &["alice", "initial"]),
            (Method::Scram, &["alice", "no first"]),
        ] {
            let mut gate = Gate::Opening(Opening::default());
            for name in before {
                gate = gate.handle(method, bytes(name));
            }
            assert!(matches!(gate, Gate::Authenticating { .. }), "{before:?}");
            gate = gate.handle(method, bytes(again));
            assert!(matches!(gate, Gate::Over), "{method:?} {before:?} {again}");
        }
    }
}
