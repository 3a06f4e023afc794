//! Tests of both roles of SCRAM: the RFC's vector, and the roles against each other.

mod hostile;

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

/// A server and the verifier that it checks proofs against.
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

/// Runs one whole exchange in which `tamper` may change each message, numbered from 0.
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
    // Header of the first message, c= of the last one, expected result.
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

/// Logs in with a right proof over any `c=` and `r=`.
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
