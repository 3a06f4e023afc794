//! Tests with a server that sends arbitrary bytes: no panic, and nothing is trusted after an error.

use proptest::prelude::*;
use weir_auth::scram::{NONCE_RANDOM_LEN, Nonce};
use weir_session::client::Client;
use weir_session::login::{
    BindingPolicy, Credentials, LoginPlan, LoginStep, ServerLogin, Transport,
};
use weir_session::relay::{self, Link, ServerFault};
use weir_session::server::Server;
use weir_session::splice::Splice;
use weir_session::statement::Registry;
use weir_sql::{Functions, Judge};
use weir_testkit::say::say;
use weir_wire::startup::Version;

use crate::pooler::{new_server, rules};

/// Generates bytes that often begin like messages of a server.
fn server_bytes() -> impl Strategy<Value = Vec<u8>> {
    let tag = prop::sample::select(b"RKZ123CDEGHINSTVWcdnstvA?\0".to_vec());
    let body = prop_oneof![
        Just(b"I".to_vec()),
        Just(b"SERROR\0C42601\0Mno\0\0".to_vec()),
        Just(b"VFATAL\0\0".to_vec()),
        Just(b"DEALLOCATE ALL\0".to_vec()),
        Just(b"TimeZone\0CET\0".to_vec()),
        Just(vec![0, 0, 0, 0]),
        Just(vec![
            0, 0, 0, 10, b'S', b'C', b'R', b'A', b'M', b'-', b'S', 0, 0
        ]),
        prop::collection::vec(any::<u8>(), 0..12),
    ];
    let message = (tag, body, prop::bool::weighted(0.1)).prop_map(|(tag, body, lies)| {
        let len = u32::try_from(body.len() + 4).unwrap() + u32::from(lies);
        [&[tag][..], &len.to_be_bytes(), &body].concat()
    });
    prop::collection::vec(message, 0..12).prop_map(|messages| messages.concat())
}

/// Returns a message of a server.
fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len() + 4).unwrap();
    [&[tag][..], &len.to_be_bytes(), body].concat()
}

#[test]
fn a_reply_to_another_request_than_the_one_in_front_is_a_fault_and_reaches_nobody() {
    let replies: [(u8, &[u8]); 6] = [
        (b'2', b""),
        (b'3', b""),
        (b'n', b""),
        (b's', b""),
        (b'C', b"SELECT 1\0"),
        (b'Z', b"I"),
    ];
    for (tag, body) in replies {
        let (mut client, mut server) = (Client::default(), new_server());
        let mut link = Link {
            client: &mut client,
            server: &mut server,
            registry: &mut Registry::new(0, 1),
            judge: &mut Judge::new(Functions::default()),
            proven: &std::sync::Arc::default(),
            rules: rules(1),
            digests: None,
            ruling: None,
        };
        let input = say().parse("a", "row x").run("a").sync();
        let (mut buffer, mut answers) = (Vec::new(), Vec::new());
        let mut out = Splice::new(&input, &mut buffer);
        relay::requests(&mut link, &input, &mut out, &mut answers).unwrap();
        let reply = message(tag, body);
        let mut buffer = Vec::new();
        let mut out = Splice::new(&reply, &mut buffer);
        let result = relay::replies(&mut client, &mut server, &reply, &mut out);
        assert_eq!(result, Err(ServerFault::OutOfPlace(tag)));
        assert!(out.finish().is_empty(), "{}", char::from(tag));
        assert!(!server.is_free());
    }
}

/// Processes unasked messages of an idle server. Returns the number of bytes consumed.
fn unasked(server: &mut Server, input: &[u8]) -> Result<usize, ServerFault> {
    let mut buffer = Vec::new();
    let mut out = Splice::new(input, &mut buffer);
    let replied = relay::replies(&mut Client::default(), server, input, &mut out)?;
    Ok(replied.consumed)
}

#[test]
fn a_server_that_announces_its_end_or_is_not_understood_is_not_free() {
    let mut ending = new_server();
    let last_word = message(b'E', b"SFATAL\0VFATAL\0C57P01\0Mbye\0\0");
    assert_eq!(unasked(&mut ending, &last_word), Ok(last_word.len()));
    assert!(ending.is_dying() && !ending.is_free());
    let mut strange = new_server();
    let row = message(b'D', &[0, 0]);
    assert!(unasked(&mut strange, &row).is_err());
    assert!(!strange.is_free());
}

#[test]
fn a_server_whose_long_notice_has_not_ended_is_not_free() {
    let mut server = new_server();
    let text = "x".repeat(3 * relay::STREAM_MIN);
    let notice = message(b'N', format!("SNOTICE\0M{text}\0\0").as_bytes());
    let (most, last) = notice.split_at(notice.len() - 1);
    assert_eq!(unasked(&mut server, most), Ok(most.len()));
    assert!(!server.is_free(), "one byte is to come");
    assert_eq!(unasked(&mut server, last), Ok(1));
    assert!(server.is_free());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_reply_of_a_server_can_panic(bytes in server_bytes(), cut in any::<prop::sample::Index>()) {
        let (mut client, mut server) = (Client::default(), new_server());
        let mut registry = Registry::new(0, 1);
        let mut judge = Judge::new(Functions::default());
        let input = say().parse("a", "row x").run("a").query("copy in").copy_done().run("").sync();
        let (mut buffer, mut answers) = (Vec::new(), Vec::new());
        let mut link = Link {
            client: &mut client,
            server: &mut server,
            registry: &mut registry,
            judge: &mut judge,
            proven: &std::sync::Arc::default(),
            rules: rules(1),
            digests: None,
            ruling: None,
        };
        relay::requests(&mut link, &input, &mut Splice::new(&input, &mut buffer), &mut answers).unwrap();
        let (first, second) = bytes.split_at(cut.index(bytes.len() + 1));
        let mut pending = Vec::new();
        for piece in [first, second] {
            pending.extend_from_slice(piece);
            let mut buffer = Vec::new();
            let mut out = Splice::new(&pending, &mut buffer);
            let Ok(replied) = relay::replies(&mut client, &mut server, &pending, &mut out) else {
                prop_assert!(!server.is_free(), "a server that is not understood never goes back");
                return Ok(());
            };
            prop_assert!(replied.consumed <= pending.len());
            pending.drain(..replied.consumed);
        }
    }

    #[test]
    fn no_login_of_a_server_can_panic(bytes in server_bytes()) {
        let plan = LoginPlan {
            user: "u".into(),
            database: "d".into(),
            parameters: Vec::new(),
            version: Version::V3_0,
            credentials: Credentials::default(),
            nonce: Nonce::from_random([7; NONCE_RANDOM_LEN]),
            channel_binding: BindingPolicy::default(),
            transport: Transport::default(),
            iterations_max: weir_auth::kdf::ITERATIONS_MAX,
        };
        let mut out = Vec::new();
        let mut login = ServerLogin::start(plan, &mut out).unwrap();
        let mut at = 0;
        while let Ok((consumed, step)) = login.handle(&bytes[at..], &mut out) {
            at += consumed;
            if consumed == 0 || matches!(step, LoginStep::Done(_)) {
                break;
            }
        }
    }
}
