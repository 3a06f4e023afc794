//! Tests of both roles of SCRAM: the RFC's vector, the roles against each other, hostile peers.

use proptest::prelude::*;

use super::*;
use crate::kdf::KdfRequest;
use crate::kdf::ScramKeys;
use crate::kdf::derive;
use crate::secret::Secret;
use crate::secret::ServerSecret;
use crate::stored::ScramVerifier;

// RFC 7677 section 3.
const CLIENT_FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
    s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
const CLIENT_FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
const SERVER_FINAL: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

const CLIENT_NONCE: &str = "clientnonce";

fn keys(password: &str, salt: &[u8], iterations: u32) -> ScramKeys {
    let request = KdfRequest::new(&Secret::from(password), salt.to_vec(), iterations);
    ScramKeys::from_salted(&derive(&request))
}

fn verifier(password: &str, salt: &[u8], iterations: u32) -> ScramVerifier {
    ScramVerifier::from_keys(&keys(password, salt, iterations), salt.to_vec(), iterations)
}

/// A server and what it checks proofs against.
struct Checker {
    server: ScramServer,
    verifier: ScramVerifier,
}

impl Checker {
    fn handle_first(&mut self, text: &[u8]) -> Result<Vec<u8>, ScramError> {
        self.server.handle_first(text)
    }

    fn handle_final(&mut self, text: &[u8]) -> Result<Accepted, ScramError> {
        self.server.handle_final(text)?.check(&self.verifier)
    }

    fn verifier(&self) -> &ScramVerifier {
        &self.verifier
    }
}

fn server_of(verifier: &ScramVerifier, nonce: Nonce) -> Checker {
    bound_server(verifier, nonce, ChannelBinding::None)
}

fn bound_server(verifier: &ScramVerifier, nonce: Nonce, binding: ChannelBinding) -> Checker {
    let (salt, iterations) = (verifier.salt().to_vec(), verifier.iterations());
    Checker {
        server: ScramServer::new(salt, iterations, nonce, binding),
        verifier: verifier.clone(),
    }
}

fn rfc_server() -> Checker {
    let salt = crypto::base64_decode(b"W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    let nonce = Nonce::from_printable(b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0").unwrap();
    server_of(&verifier("pencil", &salt, 4096), nonce)
}

/// A server with cheap keys for "pencil".
fn cheap_server() -> Checker {
    let nonce = Nonce::from_random([9; 18]);
    server_of(&verifier("pencil", b"salt", 1), nonce)
}

fn client(password: &str) -> ScramClient {
    let nonce = Nonce::from_printable(CLIENT_NONCE.as_bytes()).unwrap();
    ScramClient::with_password(Secret::from(password), nonce).iterations_max(1000)
}

/// Answers the server's first message, deriving keys in place.
fn answer(client: &mut ScramClient, server_first: &[u8]) -> Result<Vec<u8>, ScramError> {
    match client.handle_server_first(server_first)? {
        Step::Send(text) => Ok(text),
        Step::NeedKeys(request) => client.provide_keys(&ScramKeys::from_salted(&derive(&request))),
    }
}

/// One whole exchange in which `tamper` may change each message, numbered from 0.
fn converse(
    server: &mut Checker,
    client: &mut ScramClient,
    tamper: &dyn Fn(usize, Vec<u8>) -> Vec<u8>,
) -> Result<Accepted, ScramError> {
    let first = tamper(0, client.first_message()?);
    let server_first = tamper(1, server.handle_first(&first)?);
    let last = tamper(2, answer(client, &server_first)?);
    let mut accepted = server.handle_final(&last)?;
    accepted.server_final = tamper(3, accepted.server_final);
    client.handle_server_final(&accepted.server_final)?;
    Ok(accepted)
}

fn honest(_: usize, text: Vec<u8>) -> Vec<u8> {
    text
}

#[test]
fn the_server_reproduces_the_example_of_rfc_7677() {
    let mut server = rfc_server();
    let first = server.handle_first(CLIENT_FIRST.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(first).unwrap(), SERVER_FIRST);
    let accepted = server.handle_final(CLIENT_FINAL.as_bytes());
    let text = accepted.map(|accepted| accepted.server_final);
    assert_eq!(text, Ok(SERVER_FINAL.as_bytes().to_vec()));
}

#[test]
fn sec_64_the_recovered_client_key_is_that_of_the_password() {
    let mut server = cheap_server();
    let accepted = converse(&mut server, &mut client("pencil"), &honest);
    let Ok(accepted) = accepted else {
        panic!("not accepted")
    };
    assert!(
        accepted
            .client_key
            .ct_eq(&keys("pencil", b"salt", 1).client_key)
    );
}

#[test]
fn sec_64_pass_through_logs_in_to_a_server_with_the_same_verifier() {
    let mut front = cheap_server();
    let Ok(accepted) = converse(&mut front, &mut client("pencil"), &honest) else {
        panic!("not accepted")
    };
    let pass = PassThrough::new(accepted.client_key, front.verifier().clone()).unwrap();
    let mut back = ScramClient::with_pass_through(pass, Nonce::from_random([1; 18]));
    assert!(converse(&mut cheap_server(), &mut back, &honest).is_ok());
}

#[test]
fn sec_64_pass_through_refuses_another_salt_or_iteration_count() {
    for (salt, iterations) in [(b"sald", 1), (b"salt", 2)] {
        let known = verifier("pencil", b"salt", 1);
        let pass = PassThrough::new(keys("pencil", b"salt", 1).client_key, known).unwrap();
        let mut back = ScramClient::with_pass_through(pass, Nonce::from_random([1; 18]));
        let other = verifier("pencil", salt, iterations);
        let mut server = server_of(&other, Nonce::from_random([9; 18]));
        let ended = converse(&mut server, &mut back, &honest).map(|_| ());
        assert_eq!(ended, Err(ScramError::VerifierMismatch));
    }
}

#[test]
fn sec_64_a_client_key_of_another_verifier_makes_no_pass_through() {
    let other = keys("pencil", b"other", 1).client_key;
    assert!(PassThrough::new(other, verifier("pencil", b"salt", 1)).is_none());
}

#[test]
fn a_wrong_password_ends_in_a_proof_mismatch() {
    let ended = converse(&mut cheap_server(), &mut client("pencim"), &honest).map(|_| ());
    assert_eq!(ended, Err(ScramError::ProofMismatch));
}

#[test]
fn sec_49_a_mock_verifier_looks_real_and_fits_no_proof() {
    let shape = crate::mock::Shape {
        iterations: 4096,
        salt_len: 16,
    };
    let made = crate::mock::verifier(&ServerSecret::new([5; 32]), b"nobody", shape);
    let mut mock = server_of(&made, Nonce::from_random([9; 18]));
    let ended = converse(
        &mut mock,
        &mut client("pencil").iterations_max(4096),
        &honest,
    );
    assert_eq!(ended.map(|_| ()), Err(ScramError::ProofMismatch));

    let mut mock = server_of(&made, Nonce::from_random([9; 18]));
    let first = mock.handle_first(CLIENT_FIRST.as_bytes()).unwrap();
    let real = rfc_server_with_random_nonce()
        .handle_first(CLIENT_FIRST.as_bytes())
        .unwrap();
    assert_eq!(first.len(), real.len());
}

fn rfc_server_with_random_nonce() -> Checker {
    let known = verifier("pencil", &[7; crate::mock::SALT_LEN], 4096);
    server_of(&known, Nonce::from_random([8; 18]))
}

#[test]
fn sec_63_the_header_and_its_repetition_have_to_agree() {
    // Header of the first message, c= of the last one, what has to come out.
    let refused = Some(ScramError::ChannelBindingRefused);
    let mismatch = Some(ScramError::ChannelBindingMismatch);
    let authzid = Some(ScramError::AuthorizationIdentity);
    let bad = Some(ScramError::Attribute {
        message: ScramMessage::ClientFirst,
        attribute: 'n',
    });
    let table = [
        ("n,,", "biws", None),
        ("y,,", "eSws", None),
        ("n,,", "eSws", mismatch.clone()),
        ("y,,", "biws", mismatch.clone()),
        ("n,,", "", mismatch.clone()),
        ("n,,", "biwsAAAA", mismatch),
        (
            "p=tls-server-end-point,,",
            "cD10bHMtc2VydmVyLWVuZC1wb2ludCws",
            refused.clone(),
        ),
        ("p=,,", "cD0sLA==", refused),
        ("n,a=admin,", "bixhPWFkbWluLA==", authzid),
        ("x,,", "eCws", bad.clone()),
        ("N,,", "Tiws", bad.clone()),
        ("n,", "biw=", bad),
    ];
    for (header, repetition, expected) in table {
        assert_eq!(
            with_header(header, repetition),
            expected,
            "{header} {repetition}"
        );
    }
}

#[test]
fn sec_22_a_correctly_signed_final_message_with_another_nonce_is_refused() {
    let sign = |nonce: &dyn Fn(&str) -> String| signed_login("n,,", "biws", nonce);
    assert_eq!(sign(&str::to_owned), None);
    assert_eq!(
        sign(&|nonce| format!("{nonce}X")),
        Some(ScramError::NonceMismatch)
    );
    assert_eq!(
        sign(&|_| "r=abc".to_owned()),
        Some(ScramError::NonceMismatch)
    );
    assert_eq!(sign(&|_| "r=".to_owned()), Some(ScramError::NonceMismatch));
}

/// Logs in with the right password under that header and `c=`.
fn with_header(header: &str, repetition: &str) -> Option<ScramError> {
    signed_login(header, repetition, &str::to_owned)
}

/// Logs in with a right proof over whatever `c=` and `r=` the caller likes.
fn signed_login(
    header: &str,
    repetition: &str,
    nonce: &dyn Fn(&str) -> String,
) -> Option<ScramError> {
    let mut server = cheap_server();
    let bare = "n=,r=abc";
    let server_first = match server.handle_first(format!("{header}{bare}").as_bytes()) {
        Ok(text) => String::from_utf8(text).unwrap(),
        Err(error) => return Some(error),
    };
    let nonce = nonce(server_first.split(',').next().unwrap());
    let unsigned = format!("c={repetition},{nonce}");
    let keys = keys("pencil", b"salt", 1);
    let signed = format!("{bare},{server_first},{unsigned}");
    let signature = crypto::hmac(keys.stored_key().expose(), &[signed.as_bytes()]);
    let proof = crypto::xor(keys.client_key.expose(), &signature);
    let proof = crypto::base64_encode(proof.as_slice());
    server
        .handle_final(format!("{unsigned},p={proof}").as_bytes())
        .err()
}

/// All texts with one attribute left out, said twice, or swapped with its neighbour.
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
        // An empty name is what libpq sends.
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

    // A server that skips its proof of knowledge is not believed.
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
