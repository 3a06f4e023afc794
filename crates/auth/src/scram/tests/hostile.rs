//! Tests of SCRAM with peers that break the rules, and with random input.

use proptest::prelude::*;

use super::*;

/// All texts with one attribute left out, repeated, or swapped with its neighbour.
fn disordered(header: &str, attributes: &str) -> Vec<String> {
    let parts: Vec<&str> = attributes.split(',').collect();
    let mut all = Vec::new();
    for index in 0..parts.len() {
        let mut removed = parts.clone();
        removed.remove(index);
        let mut doubled = parts.clone();
        doubled.insert(index, parts[index]);
        let mut apart = parts.clone();
        apart.push(parts[index]);
        let mut hollow = parts.clone();
        hollow[index] = &parts[index][..2];
        let mut bare = parts.clone();
        bare[index] = &parts[index][2..];
        let mut swapped = parts.clone();
        swapped.swap(index, (index + 1) % parts.len());
        let mut extended = parts.clone();
        extended.insert(index, "m=x");
        all.extend([removed, doubled, apart, bare, swapped, extended]);
        // libpq sends an empty name.
        if !parts[index].starts_with("n=") {
            all.push(hollow);
        }
    }
    let mut all: Vec<String> = all.iter().map(|parts| parts.join(",")).collect();
    all.retain(|text| text != attributes);
    all.extend([
        String::new(),
        format!("{attributes},"),
        format!(",{attributes}"),
    ]);
    all.extend([
        format!("{attributes}\0"),
        format!("{attributes},\0"),
        format!("{attributes},="),
    ]);
    all.into_iter()
        .map(|text| format!("{header}{text}"))
        .collect()
}

#[test]
fn sec_23_every_disorder_in_a_message_is_refused() {
    for text in disordered("n,,", &CLIENT_FIRST[3..]) {
        assert!(
            rfc_server().handle_first(text.as_bytes()).is_err(),
            "{text}"
        );
    }
    for text in disordered("", CLIENT_FINAL) {
        let mut server = rfc_server();
        server.handle_first(CLIENT_FIRST.as_bytes()).unwrap();
        assert!(server.handle_final(text.as_bytes()).is_err(), "{text}");
    }
    let mut server_first = cheap_server();
    let first = client("pencil").first_message().unwrap();
    let text = String::from_utf8(server_first.handle_first(&first).unwrap()).unwrap();
    for text in disordered("", &text) {
        let mut client = client("pencil");
        client.first_message().unwrap();
        assert!(
            client.handle_server_first(text.as_bytes()).is_err(),
            "{text}"
        );
    }
    for text in disordered("", SERVER_FINAL) {
        assert!(message::server_final(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn optional_extensions_of_a_client_are_ignored_as_rfc_5802_wants() {
    let mut server = cheap_server();
    assert!(server.handle_first(b"n,,n=user,r=abc,x=1,y=2").is_ok());
}

fn server_first_error(text: &[u8]) -> Option<ScramError> {
    let mut client = client("pencil");
    client.first_message().unwrap();
    client.handle_server_first(text).err()
}

#[test]
fn sec_22_hostile_server_first_messages_are_typed_errors() {
    let message = ScramMessage::ServerFirst;
    let bad = |attribute| ScramError::BadValue { message, attribute };
    let missing = |attribute| ScramError::Attribute { message, attribute };
    let table = [
        ("s=c2FsdA==,i=1", missing('r')),
        ("r=,s=c2FsdA==,i=1", ScramError::NonceLength { len: 0 }),
        ("r=other,s=c2FsdA==,i=1", ScramError::NonceMismatch),
        ("r=clientnonce,s=c2FsdA==,i=1", ScramError::NonceMismatch),
        ("r=clientnonc,s=c2FsdA==,i=1", ScramError::NonceMismatch),
        (
            "r=clientnonce\u{e9},s=c2FsdA==,i=1",
            ScramError::NonceNotPrintable,
        ),
        (
            "r=clientnonce x,s=c2FsdA==,i=1",
            ScramError::NonceNotPrintable,
        ),
        ("r=clientnonceX,i=1", missing('s')),
        ("r=clientnonceX,s=,i=1", bad('s')),
        ("r=clientnonceX,s=c2FsdA,i=1", bad('s')),
        ("r=clientnonceX,s=c2Fs dA==,i=1", bad('s')),
        ("r=clientnonceX,s=***,i=1", bad('s')),
        ("r=clientnonceX,s=c2FsdA==", missing('i')),
        ("r=clientnonceX,s=c2FsdA==,i=", bad('i')),
        ("r=clientnonceX,s=c2FsdA==,i=0", bad('i')),
        ("r=clientnonceX,s=c2FsdA==,i=-1", bad('i')),
        ("r=clientnonceX,s=c2FsdA==,i=+1", bad('i')),
        ("r=clientnonceX,s=c2FsdA==,i=01", bad('i')),
        ("r=clientnonceX,s=c2FsdA==,i=1x", bad('i')),
        ("r=clientnonceX,s=c2FsdA==,i=2147483648", bad('i')),
        ("r=clientnonceX,s=c2FsdA==,i=18446744073709551617", bad('i')),
        (
            "r=clientnonceX,s=c2FsdA==,i=1,x=1",
            ScramError::TrailingBytes { message },
        ),
        (
            "m=x,r=clientnonceX,s=c2FsdA==,i=1",
            ScramError::MandatoryExtension { message },
        ),
    ];
    for (text, expected) in table {
        assert_eq!(
            server_first_error(text.as_bytes()),
            Some(expected),
            "{text}"
        );
    }
}

#[test]
fn sec_22_nonces_and_salts_have_a_longest_length() {
    let text = |nonce: usize, salt: usize| {
        let added = "x".repeat(nonce - CLIENT_NONCE.len());
        let salt = crypto::base64_encode(&vec![0; salt]);
        format!("r={CLIENT_NONCE}{added},s={salt},i=1").into_bytes()
    };
    assert_eq!(server_first_error(&text(NONCE_LEN_MAX, 16)), None);
    for len in [NONCE_LEN_MAX + 1, 1 << 20] {
        let error = server_first_error(&text(len, 16));
        assert_eq!(error, Some(ScramError::NonceLength { len }));
    }
    assert_eq!(server_first_error(&text(20, SALT_LEN_MAX)), None);
    let bad = ScramError::BadValue {
        message: ScramMessage::ServerFirst,
        attribute: 's',
    };
    assert_eq!(server_first_error(&text(20, SALT_LEN_MAX + 100)), Some(bad));
}

#[test]
fn sec_61_a_server_cannot_choose_unbounded_work() {
    for (demanded, granted) in [(100_000, true), (100_001, false)] {
        let nonce = Nonce::from_printable(b"abc").unwrap();
        let mut client = ScramClient::with_password(Secret::from("pencil"), nonce);
        client.first_message().unwrap();
        let text = format!("r=abcX,s=c2FsdA==,i={demanded}");
        let step = client.handle_server_first(text.as_bytes());
        assert_eq!(step.is_ok(), granted, "{demanded}");
    }
    let demand = b"r=clientnonceX,s=c2FsdA==,i=1000000000";
    let expected = ScramError::IterationsTooMany {
        iterations: 1_000_000_000,
        max: 1000,
    };
    assert_eq!(server_first_error(demand), Some(expected));
}

#[test]
fn sec_22_a_server_that_does_not_know_the_verifier_is_found_out() {
    for (text, expected) in [
        (SERVER_FINAL, ScramError::SignatureMismatch),
        ("e=other-error", ScramError::ServerReported),
        (
            "",
            ScramError::TrailingBytes {
                message: ScramMessage::ServerFinal,
            },
        ),
        (
            "v=AAAA",
            ScramError::BadValue {
                message: ScramMessage::ServerFinal,
                attribute: 'v',
            },
        ),
    ] {
        let tamper = |number, message: Vec<u8>| {
            if number == 3 {
                text.as_bytes().to_vec()
            } else {
                message
            }
        };
        let ended = converse(&mut cheap_server(), &mut client("pencil"), &tamper).map(|_| ());
        assert_eq!(ended, Err(expected), "{text}");
    }
}

#[test]
fn sec_40_every_call_out_of_turn_is_refused_and_ends_the_exchange() {
    let mut server = cheap_server();
    assert_eq!(
        server.handle_final(b"").map(|_| ()),
        Err(ScramError::OutOfOrder)
    );
    assert_eq!(
        server.handle_first(CLIENT_FIRST.as_bytes()),
        Err(ScramError::OutOfOrder)
    );

    let mut server = cheap_server();
    assert!(server.handle_first(CLIENT_FIRST.as_bytes()).is_ok());
    assert_eq!(
        server.handle_first(CLIENT_FIRST.as_bytes()),
        Err(ScramError::OutOfOrder)
    );

    let first = b"r=clientnonceX,s=c2FsdA==,i=1";
    let mut idle = client("pencil");
    assert_eq!(
        idle.handle_server_first(first).map(|_| ()),
        Err(ScramError::OutOfOrder)
    );
    assert_eq!(idle.first_message(), Err(ScramError::OutOfOrder));

    // A server that skips its proof of knowledge is rejected.
    let mut hasty = client("pencil");
    hasty.first_message().unwrap();
    assert_eq!(
        hasty.handle_server_final(b"v="),
        Err(ScramError::OutOfOrder)
    );

    let mut waiting = client("pencil");
    waiting.first_message().unwrap();
    assert!(matches!(
        waiting.handle_server_first(first),
        Ok(Step::NeedKeys(_))
    ));
    assert_eq!(
        waiting.handle_server_final(b"v="),
        Err(ScramError::OutOfOrder)
    );
    assert_eq!(
        waiting.provide_keys(&keys("", b"", 1)),
        Err(ScramError::OutOfOrder)
    );
}

/// A small change to a message.
#[derive(Clone, Debug)]
enum Mutation {
    CutAt(usize),
    Duplicate(usize, usize),
    Insert(usize, u8),
    Remove(usize),
    Replace(usize, u8),
    SwapAttributes(usize, usize),
}

fn mutate(mutation: &Mutation, mut text: Vec<u8>) -> Vec<u8> {
    let len = text.len();
    match *mutation {
        Mutation::CutAt(at) => text.truncate(at % len),
        Mutation::Duplicate(from, to) => {
            let (from, to) = (from % len, to % len);
            let part = text[from.min(to)..from.max(to)].to_vec();
            text.splice(from..from, part);
        }
        Mutation::Insert(at, byte) => text.insert(at % (len + 1), byte),
        Mutation::Remove(at) => {
            text.remove(at % len);
        }
        Mutation::Replace(at, byte) => text[at % len] = byte,
        Mutation::SwapAttributes(one, two) => {
            let mut parts: Vec<&[u8]> = text.split(|byte| *byte == b',').collect();
            let count = parts.len();
            parts.swap(one % count, two % count);
            text = parts.join(&b',');
        }
    }
    text
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = any::<usize>();
    let byte = prop_oneof![
        any::<u8>(),
        prop::sample::select(b",=nyparscvime019+/\0".to_vec())
    ];
    prop_oneof![
        at.prop_map(Mutation::CutAt),
        (at, at).prop_map(|(from, to)| Mutation::Duplicate(from, to)),
        (at, byte.clone()).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        at.prop_map(Mutation::Remove),
        (at, byte).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        (at, at).prop_map(|(one, two)| Mutation::SwapAttributes(one, two)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn sec_22_sec_23_no_changed_message_is_ever_accepted(
        which in 0..4_usize,
        mutation in mutation(),
    ) {
        let changed = std::cell::Cell::new(false);
        let tamper = |number: usize, text: Vec<u8>| {
            if number != which {
                return text;
            }
            let mutated = mutate(&mutation, text.clone());
            changed.set(mutated != text);
            mutated
        };
        let ended = converse(&mut cheap_server(), &mut client("pencil"), &tamper);
        prop_assert_eq!(ended.is_err(), changed.get());
    }

    #[test]
    fn sec_22_sec_23_any_bytes_are_refused_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        prop_assert!(cheap_server().handle_first(&bytes).is_err());
        let mut server = cheap_server();
        server.handle_first(CLIENT_FIRST.as_bytes()).unwrap();
        prop_assert!(server.handle_final(&bytes).is_err());
        prop_assert!(server_first_error(&bytes).is_some());
        prop_assert!(message::server_final(&bytes).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn both_roles_agree_for_any_password_salt_and_nonce(
        password in "\\PC{1,20}",
        salt in prop::collection::vec(any::<u8>(), 1..40),
        iterations in 1..5_u32,
        nonces in any::<[[u8; 18]; 2]>(),
    ) {
        let known = verifier(&password, &salt, iterations);
        let nonce = Nonce::from_random(nonces[0]);
        let mut server = server_of(&known, nonce);
        let nonce = Nonce::from_random(nonces[1]);
        let mut client = ScramClient::with_password(Secret::from(password.as_str()), nonce);
        prop_assert!(converse(&mut server, &mut client, &honest).is_ok());
    }
}
