//! A server that sends anything: no panic, and after an error nothing more is believed.

use proptest::prelude::*;
use weir_auth::scram::{NONCE_RANDOM_LEN, Nonce};
use weir_session::client::Client;
use weir_session::login::{
    BindingPolicy, Credentials, LoginPlan, LoginStep, ServerLogin, Transport,
};
use weir_session::relay::{self, Link};
use weir_session::splice::Splice;
use weir_session::statement::Registry;
use weir_sql::{Functions, Judge};
use weir_testkit::say::say;
use weir_wire::startup::Version;

use crate::pooler::{new_server, rules};

/// Bytes that often begin like messages of a server.
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
