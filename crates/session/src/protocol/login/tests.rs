//! Tests of our login to a server: which servers we trust, and what we reveal before we do.

use weir_auth::kdf::{ITERATIONS_MAX, derive};
use weir_auth::scram::{MECHANISM, MECHANISM_PLUS, ScramServer};
use weir_auth::stored::ScramVerifier;

use super::*;

const HASH: &[u8] = &[0x5a; 32];
const SALT: &[u8] = b"sixteen salty by";
const ROUNDS: u32 = 2;

fn tls() -> Transport {
    Transport::Tls {
        end_point: Some(HASH.into()),
    }
}

fn plan(channel_binding: BindingPolicy, transport: Transport) -> LoginPlan {
    LoginPlan {
        user: "ada".into(),
        database: "db".into(),
        parameters: Vec::new(),
        version: Version::V3_0,
        credentials: Credentials {
            secret: Some(StoredSecret::Plain(Secret::from("pencil"))),
            pass_through: None,
        },
        nonce: Nonce::from_random([7; 18]),
        channel_binding,
        transport,
        iterations_max: ITERATIONS_MAX,
    }
}

fn keys(password: &str) -> ScramKeys {
    let request = KdfRequest::new(&Secret::from(password), SALT.to_vec(), ROUNDS);
    ScramKeys::from_salted(&derive(&request))
}

fn verifier(password: &str) -> ScramVerifier {
    ScramVerifier::from_keys(&keys(password), SALT.to_vec(), ROUNDS)
}

/// A login, message by message.
struct Talk {
    login: ServerLogin,
    sent: Vec<u8>,
}

impl Talk {
    fn start(plan: LoginPlan) -> Result<Self, LoginFault> {
        let mut sent = Vec::new();
        let login = ServerLogin::start(plan, &mut sent)?;
        sent.clear();
        Ok(Self { login, sent })
    }

    /// Processes a message of the server and derives keys if needed. Returns true when the login is done.
    fn hear(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
    ) -> Result<bool, LoginFault> {
        let mut message = Vec::new();
        encode(&mut message).unwrap();
        self.sent.clear();
        match self.login.handle(&message, &mut self.sent)? {
            (_, LoginStep::More) => Ok(false),
            (_, LoginStep::NeedKeys(request)) => {
                let keys = ScramKeys::from_salted(&derive(&request));
                self.login.provide_keys(&keys, &mut self.sent)?;
                Ok(false)
            }
            (_, LoginStep::Done(_)) => Ok(true),
        }
    }

    fn ok(&mut self) -> Result<bool, LoginFault> {
        self.hear(encode::authentication_ok)?;
        self.hear(|out| encode::backend_key_data(out, 1, &[0; 4]))?;
        self.hear(|out| encode::ready_for_query(out, TransactionStatus::Idle))
    }

    /// Returns the body of the last message sent, a `p` message.
    fn answer(&self) -> Vec<u8> {
        let message = frame(&self.sent, Side::Frontend).unwrap().unwrap();
        assert_eq!(message.header.tag, b'p');
        message.body.to_vec()
    }

    /// Returns the mechanism and the first message of the answer to AuthenticationSASL.
    fn initial(&self) -> (String, Vec<u8>) {
        let body = self.answer();
        let end = body.iter().position(|byte| *byte == 0).unwrap();
        let name = String::from_utf8(body[..end].to_vec()).unwrap();
        (name, body[end + 5..].to_vec())
    }

    /// Runs SCRAM with an honest server that knows `password` and shows `hash`.
    fn scram(&mut self, offer: &[&str], password: &str, hash: &[u8]) -> Result<(), LoginFault> {
        let names: Vec<_> = offer.iter().map(|name| name.as_bytes()).collect();
        self.hear(|out| encode::authentication_sasl(out, &names))?;
        let (name, first) = self.initial();
        let binding = match (name.as_str(), offer.contains(&MECHANISM_PLUS)) {
            (MECHANISM_PLUS, _) => ChannelBinding::EndPoint(hash.into()),
            (_, true) => ChannelBinding::Unused,
            (_, false) => ChannelBinding::None,
        };
        let nonce = Nonce::from_random([8; 18]);
        let mut server = ScramServer::new(SALT.to_vec(), ROUNDS, nonce, binding);
        let text = server.handle_first(&first)?;
        self.hear(|out| encode::authentication_sasl_continue(out, &text))?;
        let accepted = server
            .handle_final(&self.answer())?
            .check(&verifier(password))?;
        self.hear(|out| encode::authentication_sasl_final(out, &accepted.server_final))?;
        Ok(())
    }
}

/// Logs in to a server that offers these SCRAM mechanisms. Returns the chosen mechanism and channel-binding flag.
fn by_scram(
    policy: BindingPolicy,
    transport: Transport,
    offer: &[&str],
) -> Result<String, LoginFault> {
    let mut talk = Talk::start(plan(policy, transport))?;
    let names: Vec<_> = offer.iter().map(|name| name.as_bytes()).collect();
    talk.hear(|out| encode::authentication_sasl(out, &names))?;
    let (name, first) = talk.initial();
    let flag = String::from_utf8(first).unwrap();
    let flag = flag.split(",,").next().unwrap().to_owned();
    let mut talk = Talk::start(plan(policy, talk.login.plan.transport.clone()))?;
    talk.scram(offer, "pencil", HASH)?;
    assert_eq!(talk.ok(), Ok(true));
    Ok(format!("{name} {flag}"))
}

#[test]
fn sec_62_which_mechanism_and_flag_are_chosen() {
    use BindingPolicy::{Disable, Prefer, Require};
    const NO_HASH: Transport = Transport::Tls { end_point: None };
    let (both, old) = (&[MECHANISM_PLUS, MECHANISM][..], &[MECHANISM][..]);
    let bound = Ok("SCRAM-SHA-256-PLUS p=tls-server-end-point");
    let (could, cannot) = (Ok("SCRAM-SHA-256 y"), Ok("SCRAM-SHA-256 n"));
    let fault = |what: &'static str| Err(what);
    let table = [
        (Disable, tls(), both, cannot),
        (Disable, tls(), old, cannot),
        (Disable, NO_HASH, both, cannot),
        (Disable, Transport::Plain, old, cannot),
        (Prefer, tls(), both, bound),
        (Prefer, tls(), old, could),
        (Prefer, tls(), &[MECHANISM, MECHANISM_PLUS], bound),
        (Prefer, tls(), &[MECHANISM_PLUS], bound),
        (Prefer, NO_HASH, both, cannot),
        (Prefer, NO_HASH, old, cannot),
        (Prefer, Transport::Plain, old, cannot),
        (Prefer, Transport::Plain, both, fault("binding")),
        (Disable, Transport::Plain, both, fault("binding")),
        (Require, tls(), both, bound),
        (Require, tls(), old, fault("binding")),
        (Require, tls(), &["SCRAM-SHA-512"], fault("binding")),
        (Require, NO_HASH, both, fault("binding")),
        (Require, NO_HASH, old, fault("binding")),
        (Require, Transport::Plain, both, fault("binding")),
        (Require, Transport::Plain, old, fault("binding")),
        (Disable, tls(), &[MECHANISM_PLUS], fault("mechanisms")),
        (Prefer, NO_HASH, &[MECHANISM_PLUS], fault("mechanisms")),
        (Prefer, tls(), &["SCRAM-SHA-512"], fault("mechanisms")),
        (Prefer, tls(), &[], fault("mechanisms")),
    ];
    for (policy, transport, offer, expected) in table {
        let found = by_scram(policy, transport.clone(), offer);
        let found = match &found {
            Ok(choice) => Ok(choice.as_str()),
            Err(LoginFault::ChannelBinding(_)) => Err("binding"),
            Err(LoginFault::UnsupportedMechanisms) => Err("mechanisms"),
            Err(other) => panic!("{policy:?} {transport:?} {offer:?}: {other}"),
        };
        assert_eq!(found, expected, "{policy:?} {transport:?} {offer:?}");
    }
}

#[test]
fn sec_62_without_data_to_bind_to_nothing_is_sent_when_binding_is_required() {
    for transport in [Transport::Plain, Transport::Tls { end_point: None }] {
        let mut sent = Vec::new();
        let started = ServerLogin::start(plan(BindingPolicy::Require, transport), &mut sent);
        assert!(matches!(started, Err(LoginFault::ChannelBinding(_))));
        assert!(sent.is_empty());
    }
}

#[test]
fn sec_62_required_binding_gives_no_password_away_and_trusts_nobody() {
    type Ask = fn(&mut Vec<u8>) -> Result<(), EncodeError>;
    let asks: [Ask; 3] = [
        encode::authentication_ok,
        encode::authentication_cleartext,
        |out| encode::authentication_md5(out, [1; 4]),
    ];
    for ask in asks {
        let mut talk = Talk::start(plan(BindingPolicy::Require, tls())).unwrap();
        let heard = talk.hear(ask);
        assert!(
            matches!(heard, Err(LoginFault::ChannelBinding(_))),
            "{heard:?}"
        );
        assert!(talk.sent.is_empty());
        // There is no second attempt.
        assert_eq!(
            talk.hear(encode::authentication_ok),
            Err(LoginFault::OutOfPlace(b'R'))
        );
        // The same request succeeds otherwise.
        let mut talk = Talk::start(plan(BindingPolicy::Prefer, tls())).unwrap();
        assert_eq!(talk.hear(ask), Ok(false));
    }
}

#[test]
fn sec_62_a_server_with_another_certificate_than_we_saw_lets_nobody_in() {
    let mut talk = Talk::start(plan(BindingPolicy::Prefer, tls())).unwrap();
    let ended = talk.scram(&[MECHANISM_PLUS, MECHANISM], "pencil", &[0x5b; 32]);
    let mismatch = LoginFault::Scram(ScramError::ChannelBindingMismatch);
    assert_eq!(ended, Err(mismatch));
}

#[test]
fn sec_22_a_server_that_does_not_prove_itself_is_not_believed() {
    let offer = |out: &mut Vec<u8>| encode::authentication_sasl(out, &[MECHANISM.as_bytes()]);
    let begin = || {
        let mut talk = Talk::start(plan(BindingPolicy::Prefer, Transport::Plain)).unwrap();
        talk.hear(offer).unwrap();
        talk
    };
    let refused = Err(LoginFault::OutOfPlace(b'R'));
    // Immediately after our first message.
    assert_eq!(begin().hear(encode::authentication_ok), refused);
    // After our proof, but without the server's own.
    let mut talk = begin();
    let nonce = Nonce::from_random([8; 18]);
    let mut server = ScramServer::new(SALT.to_vec(), ROUNDS, nonce, ChannelBinding::None);
    let text = server.handle_first(&talk.initial().1).unwrap();
    talk.hear(|out| encode::authentication_sasl_continue(out, &text))
        .unwrap();
    assert_eq!(talk.hear(encode::authentication_ok), refused);
    // A server that knows another password is not trusted either, even if it continues as if nothing had happened.
    let mut talk = begin();
    talk.hear(|out| encode::authentication_sasl_continue(out, &text))
        .unwrap();
    let forged = b"v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let fault = LoginFault::Scram(ScramError::SignatureMismatch);
    let heard = talk.hear(|out| encode::authentication_sasl_final(out, forged));
    assert_eq!(heard, Err(fault));
    assert_eq!(talk.hear(encode::authentication_ok), refused);
    // A final message before its turn is not accepted.
    let heard = begin().hear(|out| encode::authentication_sasl_final(out, forged));
    assert_eq!(heard, Err(LoginFault::Scram(ScramError::OutOfOrder)));
}

#[test]
fn sec_22_a_server_asks_for_one_proof_of_one_kind() {
    type Ask = fn(&mut Vec<u8>) -> Result<(), EncodeError>;
    let asks: [Ask; 3] = [
        encode::authentication_cleartext,
        |out| encode::authentication_md5(out, [1; 4]),
        |out| encode::authentication_sasl(out, &[MECHANISM.as_bytes()]),
    ];
    for first in asks {
        for second in asks {
            let mut talk = Talk::start(plan(BindingPolicy::Prefer, Transport::Plain)).unwrap();
            assert_eq!(talk.hear(first), Ok(false));
            assert_eq!(talk.hear(second), Err(LoginFault::OutOfPlace(b'R')));
            assert!(talk.sent.is_empty());
        }
    }
}

/// Returns true if we derive keys for this server-first-message.
fn server_first(iterations_max: u32, text: &[u8]) -> Result<bool, LoginFault> {
    let mut plan = plan(BindingPolicy::Prefer, Transport::Plain);
    plan.iterations_max = iterations_max;
    let mut talk = Talk::start(plan).unwrap();
    talk.hear(|out| encode::authentication_sasl(out, &[MECHANISM.as_bytes()]))
        .unwrap();
    let mut message = Vec::new();
    encode::authentication_sasl_continue(&mut message, text).unwrap();
    let (_, step) = talk.login.handle(&message, &mut talk.sent)?;
    Ok(matches!(step, LoginStep::NeedKeys(_)))
}

#[test]
fn sec_61_a_server_demands_no_more_rounds_than_configured() {
    // "BwcH…" is our nonce.
    let demand = |rounds: u32| format!("r=BwcHBwcHBwcHBwcHBwcHBwcHX,s=c2FsdA==,i={rounds}");
    for (max, rounds, granted) in [
        (ITERATIONS_MAX, 100_000, true),
        (ITERATIONS_MAX, 100_001, false),
        (ITERATIONS_MAX, 1_000_000_000, false),
        (4096, 4096, true),
        (4096, 4097, false),
        (1_000_000, 1_000_000, true),
    ] {
        let found = server_first(max, demand(rounds).as_bytes());
        if granted {
            assert_eq!(found, Ok(true), "{max} {rounds}");
        } else {
            let (iterations, max) = (rounds, max);
            let fault = ScramError::IterationsTooMany { iterations, max };
            assert_eq!(found, Err(LoginFault::Scram(fault)));
        }
    }
}

#[test]
fn sec_22_hostile_nonces_and_salts_are_refused_before_any_keys_are_derived() {
    const OURS: &str = "BwcHBwcHBwcHBwcHBwcHBwcH";
    let long = "x".repeat(20_000);
    for text in [
        String::new(),
        "r=,s=c2FsdA==,i=1".to_owned(),
        "r=other,s=c2FsdA==,i=1".to_owned(),
        format!("r={OURS},s=c2FsdA==,i=1"),
        format!("r={OURS}\u{1},s=c2FsdA==,i=1"),
        format!("r={OURS}{long},s=c2FsdA==,i=1"),
        format!("r={OURS}X,s=,i=1"),
        format!("r={OURS}X,s=****,i=1"),
        format!("r={OURS}X,s={},i=1", "AAAA".repeat(5000)),
        format!("r={OURS}X,i=1"),
        format!("s=c2FsdA==,r={OURS}X,i=1"),
        format!("r={OURS}X,s=c2FsdA==,i=0"),
        format!("r={OURS}X,s=c2FsdA==,i=-1"),
        format!("r={OURS}X,s=c2FsdA==,i=2147483648"),
        format!("r={OURS}X,s=c2FsdA==,i=1,m=x"),
    ] {
        let found = server_first(ITERATIONS_MAX, text.as_bytes());
        assert!(
            matches!(found, Err(LoginFault::Scram(_))),
            "{found:?} {text:.60}"
        );
    }
}

#[test]
fn sec_64_pass_through_is_used_only_while_the_secret_is_the_same() {
    let pass = PassThrough::new(keys("pencil").client_key, verifier("pencil")).unwrap();
    let login = |secret: Option<StoredSecret>| {
        let mut plan = plan(BindingPolicy::Prefer, tls());
        plan.credentials = Credentials {
            secret,
            pass_through: Some(pass.clone()),
        };
        let mut talk = Talk::start(plan)?;
        // The login is bound to the server's certificate, not to the client's.
        talk.scram(&[MECHANISM_PLUS, MECHANISM], "pencil", HASH)?;
        talk.ok()
    };
    assert_eq!(login(None), Ok(true));
    assert_eq!(
        login(Some(StoredSecret::Scram(verifier("pencil")))),
        Ok(true)
    );
    let changed = login(Some(StoredSecret::Scram(verifier("pencim"))));
    assert!(matches!(changed, Err(LoginFault::NoSecret(_))));
}
