//! Tests of messages and calls out of turn.

use proptest::prelude::*;

use super::*;
use crate::scram::ScramError;

#[test]
fn sec_40_a_second_initial_response_is_refused() {
    for kind in ["scram", "plain", "unknown"] {
        let (_, mut exchange) = asked(Method::Scram, account(kind, "pencil"));
        let body = initial_response(MECHANISM, b"n,,n=,r=abc");
        let progress = exchange.handle_response(&body).unwrap();
        assert!(settle(&mut exchange, progress).is_ok());
        let error = exchange.handle_response(&body).err();
        assert!(matches!(
            error,
            Some(LoginError::Scram(ScramError::TrailingBytes { .. }))
        ));
        assert_eq!(
            exchange.handle_response(&body).err(),
            Some(LoginError::OutOfOrder)
        );
        assert_eq!(exchange.user(), USER);
    }
}

#[test]
fn sec_40_a_message_while_keys_are_computed_is_refused() {
    for (method, kind) in [(Method::Scram, "plain"), (Method::Plain, "scram")] {
        let (challenge, mut exchange) = asked(method, account(kind, "pencil"));
        let body = match challenge {
            Challenge::Cleartext => cstring(b"pencil"),
            _ => {
                let nonce = Nonce::from_random([7; 18]);
                let mut client = ScramClient::with_password(Secret::from("pencil"), nonce);
                let body = initial_response(MECHANISM, &client.first_message().unwrap());
                let Ok(Progress::Continue(first)) = exchange.handle_response(&body) else {
                    panic!("no server-first-message");
                };
                let Ok(Step::NeedKeys(request)) = client.handle_server_first(&first) else {
                    panic!("server-first-message refused");
                };
                client.provide_keys(&keys_for(&request)).unwrap()
            }
        };
        let Ok(Progress::NeedKdf(request)) = exchange.handle_response(&body) else {
            panic!("keys were not asked for");
        };
        assert_eq!(
            exchange.handle_response(&body).err(),
            Some(LoginError::OutOfOrder)
        );
        let late = exchange.provide_keys(&keys_for(&request)).err();
        assert_eq!(late, Some(LoginError::OutOfOrder));
    }
}

#[test]
fn sec_40_nothing_is_accepted_after_the_verdict() {
    for password in ["pencil", "wrong"] {
        let (_, mut exchange) = asked(Method::Plain, account("plain", "pencil"));
        assert!(
            exchange
                .handle_response(&cstring(password.as_bytes()))
                .is_ok()
        );
        let again = exchange.handle_response(&cstring(b"pencil")).err();
        assert_eq!(again, Some(LoginError::OutOfOrder));
    }
}

#[test]
fn keys_that_nobody_asked_for_are_refused() {
    let request = KdfRequest::new(&Secret::from("pencil"), b"salt".to_vec(), 1);
    for method in [Method::Plain, Method::Md5, Method::Scram] {
        let (_, mut exchange) = asked(method, account("plain", "pencil"));
        let error = exchange.provide_keys(&keys_for(&request)).err();
        assert_eq!(error, Some(LoginError::OutOfOrder));
    }
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80),
        prop::collection::vec(prop::sample::select(b"n,=rcpSCRAM\0".to_vec()), 0..40),
        Just(cstring(b"wrong")),
        Just(initial_response(MECHANISM, b"n,,n=,r=abc")),
        Just(b"c=biws,r=abcBgYGBgYGBgYGBgYGBgYGBgYG,p=AAAA".to_vec()),
        Just(initial_response(MECHANISM, b"y,,n=x,r=abc")),
    ]
}

proptest! {
    #[test]
    fn sec_26_no_order_of_messages_lets_in_who_does_not_know_the_password(
        method in prop::sample::select(vec![Method::Md5, Method::Plain, Method::Scram]),
        kind in prop::sample::select(vec!["unknown", "empty", "md5", "plain", "scram"]),
        steps in prop::collection::vec(prop::option::of(body()), 1..6),
    ) {
        let (_, mut exchange) = asked(method, account(kind, "pencil"));
        let foreign = KdfRequest::new(&Secret::from("wrong"), b"salt".to_vec(), 3);
        for step in steps {
            let progress = match step {
                Some(body) => exchange.handle_response(&body),
                None => exchange.provide_keys(&keys_for(&foreign)),
            };
            prop_assert!(!matches!(progress, Ok(Progress::Accepted(_))));
        }
    }
}
