//! Tests of channel binding with clients (SEC-63), and of clients that begin without a first message.

use super::*;
use crate::crypto;
use crate::scram::ChannelBinding;
use crate::scram::MECHANISM_PLUS;
use crate::scram::ScramError;

/// Hash of Weir's certificate.
const HASH: &[u8] = &[0xa5; 32];

fn offered(binding: Option<&[u8]>) -> (Challenge, Box<Exchange>) {
    let opening = Exchange::begin(LoginInput {
        method: Method::Scram,
        user: USER,
        account: account("scram", "pencil"),
        random: LoginRandom {
            md5_salt: MD5_SALT,
            scram_nonce: [6; 18],
        },
        server_secret: &ServerSecret::new([3; 32]),
        iterations: 2,
        channel_binding: binding,
        population: &md5_population(),
    });
    let Opening::Ask {
        challenge,
        exchange,
    } = opening
    else {
        panic!("SCRAM asks");
    };
    (challenge, exchange)
}

/// Result for a client that knows the password and binds like this: the mechanism it names, its GS2 header, and the
/// data appended to that in `c=`.
fn outcome(
    binding: Option<&[u8]>,
    mechanism: &str,
    header: &str,
    data: &[u8],
) -> Result<(), LoginError> {
    let (_, mut exchange) = offered(binding);
    let bare = "n=,r=abc";
    let first = format!("{header}{bare}");
    let progress = exchange.handle_response(&initial_response(mechanism, first.as_bytes()))?;
    let Progress::Continue(server_first) = progress else {
        panic!("no server-first-message");
    };
    let server_first = String::from_utf8(server_first).unwrap();
    let nonce = server_first.split(',').next().unwrap();
    let repetition = crypto::base64_encode(&[header.as_bytes(), data].concat());
    let unsigned = format!("c={repetition},{nonce}");
    let request = KdfRequest::new(&Secret::from("pencil"), b"salt".to_vec(), 3);
    let keys = keys_for(&request);
    let signed = format!("{bare},{server_first},{unsigned}");
    let signature = crypto::hmac(keys.stored_key().expose(), &[signed.as_bytes()]);
    let proof = crypto::xor(keys.client_key.expose(), &signature);
    let proof = crypto::base64_encode(proof.as_slice());
    match exchange.handle_response(format!("{unsigned},p={proof}").as_bytes())? {
        Progress::Accepted(_) => Ok(()),
        _ => panic!("the password was right"),
    }
}

#[test]
fn sec_63_plus_is_offered_first_and_only_over_tls() {
    let mechanisms = |binding| match offered(binding).0 {
        Challenge::Sasl { mechanisms } => mechanisms,
        _ => panic!("not SASL"),
    };
    assert_eq!(mechanisms(None), ["SCRAM-SHA-256"]);
    assert_eq!(
        mechanisms(Some(HASH)),
        ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]
    );
}

/// The hash offered; the client's mechanism, header and data; the expected result.
type Case = (
    Option<&'static [u8]>,
    &'static str,
    &'static str,
    &'static [u8],
    Result<(), LoginError>,
);

#[test]
fn sec_63_all_combinations_of_offer_choice_and_flag() {
    const BIND: &str = "p=tls-server-end-point,,";
    let tls = Some(HASH);
    let unknown = Err(LoginError::UnknownMechanism);
    let scram = |error| Err(LoginError::Scram(error));
    let (downgrade, mismatch) = (
        scram(ScramError::ChannelBindingDowngrade),
        scram(ScramError::ChannelBindingMismatch),
    );
    let (missing, refused) = (
        scram(ScramError::ChannelBindingMissing),
        scram(ScramError::ChannelBindingRefused),
    );
    let kind = scram(ScramError::ChannelBindingType);
    let authzid = scram(ScramError::AuthorizationIdentity);
    let table: [Case; 24] = [
        // Offered and chosen.
        (tls, MECHANISM_PLUS, BIND, HASH, Ok(())),
        (tls, MECHANISM_PLUS, BIND, &[0xa6; 32], mismatch.clone()),
        (tls, MECHANISM_PLUS, BIND, &[0xa5; 31], mismatch.clone()),
        (tls, MECHANISM_PLUS, BIND, &[0xa5; 33], mismatch.clone()),
        (tls, MECHANISM_PLUS, BIND, b"", mismatch.clone()),
        (tls, MECHANISM_PLUS, "n,,", b"", missing.clone()),
        (tls, MECHANISM_PLUS, "y,,", b"", missing.clone()),
        (tls, MECHANISM_PLUS, "n,,", HASH, missing),
        (tls, MECHANISM_PLUS, "p=tls-unique,,", HASH, kind.clone()),
        (tls, MECHANISM_PLUS, "p=tls-exporter,,", HASH, kind.clone()),
        (
            tls,
            MECHANISM_PLUS,
            "p=TLS-server-end-point,,",
            HASH,
            kind.clone(),
        ),
        (tls, MECHANISM_PLUS, "p=,,", HASH, kind),
        (
            tls,
            MECHANISM_PLUS,
            "p=tls-server-end-point,a=bob,",
            HASH,
            authzid,
        ),
        // Offered and not chosen.
        (tls, MECHANISM, "n,,", b"", Ok(())),
        (tls, MECHANISM, "n,,", HASH, mismatch.clone()),
        (tls, MECHANISM, "y,,", b"", downgrade),
        (tls, MECHANISM, BIND, HASH, refused.clone()),
        // Not offered.
        (None, MECHANISM, "n,,", b"", Ok(())),
        (None, MECHANISM, "y,,", b"", Ok(())),
        (None, MECHANISM, "y,,", HASH, mismatch),
        (None, MECHANISM, BIND, HASH, refused),
        (None, MECHANISM_PLUS, BIND, HASH, unknown.clone()),
        (None, MECHANISM_PLUS, "n,,", b"", unknown.clone()),
        (None, MECHANISM_PLUS, "y,,", b"", unknown),
    ];
    for (binding, mechanism, header, data, expected) in table {
        let found = outcome(binding, mechanism, header, data);
        assert_eq!(found, expected, "{binding:?} {mechanism} {header} {data:?}");
    }
}

/// Runs a whole login by Weir's client role, bound to `theirs`; `None` if it succeeded.
fn log_in_bound(ours: &[u8], theirs: &[u8]) -> Option<LoginError> {
    let (_, mut exchange) = offered(Some(ours));
    let nonce = Nonce::from_random([7; 18]);
    let mut client = ScramClient::with_password(Secret::from("pencil"), nonce)
        .channel_binding(ChannelBinding::EndPoint(theirs.into()));
    let body = initial_response(MECHANISM_PLUS, &client.first_message().unwrap());
    let Ok(Progress::Continue(first)) = exchange.handle_response(&body) else {
        panic!("no server-first-message");
    };
    let Ok(Step::NeedKeys(request)) = client.handle_server_first(&first) else {
        panic!("server-first-message refused");
    };
    let last = client.provide_keys(&keys_for(&request)).unwrap();
    match exchange.handle_response(&last) {
        Ok(Progress::Accepted(acceptance)) => {
            let text = acceptance.final_message.unwrap_or_default();
            client.handle_server_final(&text).unwrap();
            None
        }
        Ok(_) => panic!("the password was right"),
        Err(error) => Some(error),
    }
}

#[test]
fn sec_63_both_roles_agree_when_both_see_the_same_certificate() {
    for len in [28, 32, 48, 64] {
        let hash = vec![7; len];
        assert_eq!(log_in_bound(&hash, &hash), None);
        // An attacker in between shows a certificate of its own.
        let mut other = hash.clone();
        other[0] ^= 1;
        let mismatch = LoginError::Scram(ScramError::ChannelBindingMismatch);
        assert_eq!(log_in_bound(&hash, &other), Some(mismatch));
    }
}

#[test]
fn a_client_that_begins_without_a_message_is_asked_for_it() {
    let empty = |mechanism: &str| [mechanism.as_bytes(), b"\0\xff\xff\xff\xff"].concat();
    for kind in ["scram", "plain", "unknown"] {
        let (_, mut exchange) = asked(Method::Scram, account(kind, "pencil"));
        let progress = exchange.handle_response(&empty(MECHANISM));
        assert!(matches!(progress, Ok(Progress::Continue(text)) if text.is_empty()));
        let progress = exchange.handle_response(b"n,,n=,r=abc");
        assert!(matches!(progress, Ok(Progress::Continue(text)) if text.starts_with(b"r=abc")));
    }
    // Only one empty message is allowed; the next one must be the bare first message.
    let bodies = [
        empty(MECHANISM),
        Vec::new(),
        initial_response(MECHANISM, b"n,,n=,r=abc"),
    ];
    for body in bodies {
        let (_, mut exchange) = asked(Method::Scram, account("scram", "pencil"));
        assert!(exchange.handle_response(&empty(MECHANISM)).is_ok());
        let error = exchange.handle_response(&body).err();
        assert!(matches!(error, Some(LoginError::Scram(_))), "{body:?}");
    }
    let (_, mut exchange) = offered(None);
    let error = exchange.handle_response(&empty(MECHANISM_PLUS)).err();
    assert_eq!(error, Some(LoginError::UnknownMechanism));
}
