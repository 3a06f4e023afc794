//! Hazard SEC-40: once a login has begun, only the right proof lets a client in, and no client becomes another user.
//! Tests every order of two and of three messages: whole, joined and cut anywhere, during the exchange and while keys
//! are being derived.

use weir_auth::kdf::{KdfRequest, ScramKeys, derive};
use weir_auth::md5;
use weir_auth::scram::{MECHANISM, Nonce, ScramClient, Step};
use weir_auth::secret::Secret;
use weir_auth::stored::ScramVerifier;
use weir_testkit::cuts::Dice;
use weir_testkit::reading::{Message, messages, outline};
use weir_testkit::say::say;
use weir_wire::encode;
use weir_wire::startup::Version;

use super::world::{World, hold_up};
use crate::driver::memory::End;

const PASSWORD: &str = "pencil";

/// Message that a client may send, legal or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Bind,
    CancelRequest,
    Close,
    CopyData,
    CopyDone,
    CopyFail,
    /// Right proof without its last three bytes.
    Cut,
    Describe,
    Execute,
    Flush,
    FunctionCall,
    GssEncRequest,
    Parse,
    Query,
    /// Right proof.
    Right,
    SaslInitial,
    SslRequest,
    /// Start-up packet of another user with the same password.
    StartupMessage,
    Sync,
    Terminate,
    Unknown,
    /// Wrong proof.
    Wrong,
}

use Said::*;

const ALL: [Said; 22] = [
    Bind,
    CancelRequest,
    Close,
    CopyData,
    CopyDone,
    CopyFail,
    Cut,
    Describe,
    Execute,
    Flush,
    FunctionCall,
    GssEncRequest,
    Parse,
    Query,
    Right,
    SaslInitial,
    SslRequest,
    StartupMessage,
    Sync,
    Terminate,
    Unknown,
    Wrong,
];

/// Right and wrong proof of a client, at its point of the exchange.
struct Proofs {
    right: Vec<u8>,
    wrong: Vec<u8>,
}

impl Said {
    fn bytes(self, proofs: &Proofs) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Bind => out = say().bind("", "").into_bytes(),
            CancelRequest => encode::cancel_request(&mut out, 1, b"1234").unwrap(),
            Close => out = say().close_statement("s").into_bytes(),
            CopyData => out = say().copy_data("x").into_bytes(),
            CopyDone => out = say().copy_done().into_bytes(),
            CopyFail => out = say().copy_fail("x").into_bytes(),
            Cut => out.extend_from_slice(&proofs.right[..proofs.right.len() - 3]),
            Describe => out = say().describe_statement("").into_bytes(),
            Execute => out = say().execute("", 0).into_bytes(),
            Flush => out = say().flush().into_bytes(),
            FunctionCall => out = say().function_call(1).into_bytes(),
            GssEncRequest => encode::gssenc_request(&mut out).unwrap(),
            Parse => out = say().parse("", "row x").into_bytes(),
            Query => out = say().query("row x").into_bytes(),
            Right => out.clone_from(&proofs.right),
            SaslInitial => {
                encode::sasl_initial(&mut out, MECHANISM.as_bytes(), Some(b"n,,n=,r=abcdefgh"))
                    .unwrap();
            }
            SslRequest => encode::ssl_request(&mut out).unwrap(),
            StartupMessage => {
                let parameters = [(&b"user"[..], &b"bob"[..]), (b"database", b"shop")];
                encode::startup(&mut out, Version::V3_0, &parameters).unwrap();
            }
            Sync => out = say().sync().into_bytes(),
            Terminate => out = say().terminate().into_bytes(),
            Unknown => out.extend_from_slice(b"y\0\0\0\x04"),
            Wrong => out.clone_from(&proofs.wrong),
        }
        out
    }
}

/// Segmentation of the messages.
#[derive(Debug, Clone, Copy)]
enum Arrival {
    /// Each message after the answer to the last.
    Apart,
    /// All messages in one segment.
    Glued,
    /// Two segments, cut at a random place.
    TwoParts,
}

const ARRIVALS: [Arrival; 3] = [Arrival::Apart, Arrival::Glued, Arrival::TwoParts];

/// Authentication method of the client, and its point in the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Md5,
    Plain,
    /// Password that a helper has to hash before it can be compared.
    PlainByKeys,
    Scram,
    /// SCRAM, before the client's first message.
    ScramFirst,
}

/// World, and state kept from login to login.
struct Stage {
    world: World,
    scheme: Scheme,
    keys: ScramKeys,
    dice: Dice,
}

fn request() -> KdfRequest {
    KdfRequest::new(&Secret::from(PASSWORD), b"0123456789abcdef".to_vec(), 1)
}

impl Stage {
    fn new(scheme: Scheme) -> Self {
        let request = request();
        let keys = ScramKeys::from_salted(&derive(&request));
        let verifier = ScramVerifier::from_keys(&keys, request.salt().to_vec(), 1).to_text();
        let verifier = String::from_utf8(verifier.expose().to_vec()).unwrap();
        let (auth_type, secret) = match scheme {
            Scheme::Md5 => ("md5", PASSWORD),
            Scheme::Plain => ("plain", PASSWORD),
            Scheme::PlainByKeys => ("plain", &*verifier),
            Scheme::Scram | Scheme::ScramFirst => ("scram-sha-256", &*verifier),
        };
        let users = format!("\"ann\" \"{secret}\"\n\"bob\" \"{secret}\"\n");
        let lines = format!(
            "auth_type = {auth_type}\nscram_iterations = 1\nauth_failures_per_minute = 0\n\
             default_pool_size = 2\nquery_wait_notify = 0"
        );
        Self {
            world: World::with_users(&lines, &users),
            scheme,
            keys,
            dice: Dice::new(40),
        }
    }

    /// Connects a client and goes as far as the scheme says. Returns the client and its proofs.
    fn begin(&mut self) -> (usize, Proofs) {
        let client = self.world.dial("ann", &[]);
        self.world.settle();
        let challenge = self.world.callers[client].got.clone();
        let challenge = messages(&challenge).0[0].body;
        let mut proofs = Proofs {
            right: Vec::new(),
            wrong: Vec::new(),
        };
        let Proofs { right, wrong } = &mut proofs;
        match self.scheme {
            Scheme::Md5 => {
                let salt = *challenge.last_chunk().unwrap();
                let answer = |password: &[u8]| md5::response(&md5::hash(password, b"ann"), salt);
                encode::password(right, &answer(PASSWORD.as_bytes())).unwrap();
                encode::password(wrong, &answer(b"pen")).unwrap();
            }
            Scheme::Plain | Scheme::PlainByKeys => {
                encode::password(right, PASSWORD.as_bytes()).unwrap();
                encode::password(wrong, b"pen").unwrap();
            }
            Scheme::ScramFirst => {
                // No message is a proof yet.
                encode::sasl_response(right, b"c=biws,r=abcdefgh,p=AAAA").unwrap();
                wrong.clone_from(right);
            }
            Scheme::Scram => {
                let mut scram = ScramClient::with_password(
                    Secret::from(PASSWORD),
                    Nonce::from_random(std::array::from_fn(|_| self.dice.roll().to_le_bytes()[0])),
                );
                let mut first = Vec::new();
                let text = scram.first_message().unwrap();
                encode::sasl_initial(&mut first, MECHANISM.as_bytes(), Some(&text)).unwrap();
                self.world.callers[client].say(&first);
                self.world.settle();
                let got = &self.world.callers[client].got;
                let reply = messages(got).0[1].body[4..].to_vec();
                let Ok(Step::NeedKeys(_)) = scram.handle_server_first(&reply) else {
                    panic!("no keys are needed");
                };
                let mut text = scram.provide_keys(&self.keys).unwrap();
                encode::sasl_response(right, &text).unwrap();
                // The last digit of the proof, not its padding.
                let at = text.len() - 3;
                text[at] = if text[at] == b'A' { b'E' } else { b'A' };
                encode::sasl_response(wrong, &text).unwrap();
            }
        }
        self.world.callers[client].heard();
        (client, proofs)
    }

    /// Returns the number of servers, and of bytes that they have received.
    fn heard_by_servers(&self) -> (usize, usize) {
        let heard = self.world.servers.iter().map(|server| server.heard);
        (self.world.servers.len(), heard.sum())
    }

    /// Sends this sequence after the start-up packet of a client, and checks if the client is let in.
    #[track_caller]
    fn run(&mut self, sequence: &[Said], arrival: Arrival) {
        let before = self.heard_by_servers();
        let (client, proofs) = self.begin();
        let parts: Vec<_> = sequence.iter().map(|said| said.bytes(&proofs)).collect();
        let whole = parts.concat();
        let parts = match arrival {
            Arrival::Apart => parts,
            Arrival::Glued => vec![whole],
            Arrival::TwoParts => {
                let (one, other) = whole.split_at(self.dice.below(whole.len()));
                vec![one.to_vec(), other.to_vec()]
            }
        };
        for part in parts {
            self.world.callers[client].say(&part);
            self.settle();
        }
        let is_proof = sequence[0] == Right && self.scheme != Scheme::ScramFirst;
        self.check(client, sequence, is_proof, before);
        self.end(client, is_proof);
    }

    fn settle(&mut self) {
        self.world.settle();
        let waits = |world: &World| {
            world.workers[0].tables.clients.iter().any(|(_, client)| {
                matches!(
                    &client.phase,
                    crate::worker::slots::Phase::Authenticating(login)
                        if matches!(login.busy, crate::worker::slots::Busy::Waiting)
                )
            })
        };
        while waits(&self.world) {
            self.world.settle_with_helpers();
        }
    }

    #[track_caller]
    fn check(&self, client: usize, sequence: &[Said], is_proof: bool, before: (usize, usize)) {
        let (scheme, caller) = (self.scheme, &self.world.callers[client]);
        let got = &caller.got;
        let line = outline(got);
        let case = || format!("{scheme:?} {sequence:?}: {line}");
        let (found, rest) = messages(got);
        assert!(rest.is_empty(), "{}", case());
        let is_welcome = |message: &Message<'_>| message.tag == b'R' && message.body == [0; 4];
        let is_in = found.iter().any(is_welcome);
        assert_eq!(is_in, is_proof, "{}", case());
        for server in &self.world.servers {
            assert_eq!(server.user(), "ann", "{}", case());
        }
        for (_, client) in &self.world.workers[0].tables.clients {
            assert_eq!(&*client.identity.user, "ann", "{}", case());
            assert_eq!(&*client.identity.database, "shop", "{}", case());
        }
        if is_proof {
            return;
        }
        assert_eq!(self.heard_by_servers(), before, "I-13: {}", case());
        assert!(
            found.iter().all(|message| b"RE".contains(&message.tag)),
            "{}",
            case()
        );
        let errors = line.matches("E(FATAL").count();
        match sequence[0] {
            // The message may be incomplete.
            Cut if !caller.is_closed() => assert_eq!(errors, 0, "{}", case()),
            Terminate => assert!(errors == 0 && caller.is_closed(), "{}", case()),
            // The message is legal; after it, only its continuation is.
            SaslInitial if scheme == Scheme::ScramFirst => assert!(errors <= 1, "{}", case()),
            _ => assert!(errors == 1 && caller.is_closed(), "{}", case()),
        }
    }

    fn end(&mut self, client: usize, was_in: bool) {
        self.world.callers[client].leave(End::Orderly);
        self.world.settle();
        if was_in {
            // The client's server may have to be cleaned or closed.
            self.world.advance(std::time::Duration::from_secs(3));
        }
        self.world.callers.clear();
        self.world
            .servers
            .retain(super::postgres::Postgres::is_alive);
        self.world.check_empty();
    }
}

/// Tests every order of two messages with each segmentation, and every order of three with one segmentation.
fn all_orders(scheme: Scheme) {
    let mut stage = Stage::new(scheme);
    for one in ALL {
        for two in ALL {
            for arrival in ARRIVALS {
                stage.run(&[one, two], arrival);
            }
            for three in ALL {
                let arrival = ARRIVALS[stage.dice.below(ARRIVALS.len())];
                stage.run(&[one, two, three], arrival);
            }
        }
    }
}

#[test]
fn sec_40_nothing_but_the_right_proof_lets_anybody_in_by_md5() {
    all_orders(Scheme::Md5);
}

#[test]
fn sec_40_nothing_but_the_right_proof_lets_anybody_in_by_a_password() {
    all_orders(Scheme::Plain);
}

#[test]
fn sec_40_nothing_but_the_right_proof_lets_anybody_in_by_scram() {
    all_orders(Scheme::Scram);
}

#[test]
fn sec_40_nothing_lets_anybody_in_ahead_of_the_first_scram_message() {
    all_orders(Scheme::ScramFirst);
}

#[test]
fn sec_40_nothing_that_is_said_while_keys_are_derived_counts_before_they_are() {
    let mut stage = Stage::new(Scheme::PlainByKeys);
    for first in [Right, Wrong] {
        for one in ALL {
            for two in ALL {
                stage.run_while_deriving(&[first, one, two]);
            }
        }
    }
}

impl Stage {
    /// Sends a first message that needs keys; the others arrive before the keys are derived.
    #[track_caller]
    fn run_while_deriving(&mut self, sequence: &[Said]) {
        let before = self.heard_by_servers();
        let (client, proofs) = self.begin();
        let held_up = hold_up(&self.world.global.helpers.derivers);
        for said in sequence {
            self.world.callers[client].say(&said.bytes(&proofs));
            self.world.settle();
            let caller = &mut self.world.callers[client];
            assert!(!caller.is_closed(), "{sequence:?}");
            assert_eq!(caller.heard(), "", "{sequence:?}");
            assert_eq!(self.heard_by_servers(), before, "I-13: {sequence:?}");
        }
        drop(held_up);
        self.settle();
        let is_proof = sequence[0] == Right;
        self.check(client, sequence, is_proof, before);
        self.end(client, is_proof);
    }
}

#[test]
fn sec_21_a_client_that_sends_without_end_while_it_waits_is_not_listened_to() {
    let mut stage = Stage::new(Scheme::PlainByKeys);
    let (client, proofs) = stage.begin();
    let held_up = hold_up(&stage.world.global.helpers.derivers);
    stage.world.callers[client].say(&proofs.right);
    stage.world.settle();
    stage.world.callers[client].say(&vec![b'x'; 8 << 20]);
    stage.world.settle();
    assert!(stage.world.buffered_max() <= 256 * 1024);
    assert!(stage.world.callers[client].unsent() > 0);
    // Once the keys are derived, the bytes behind the proof are read, and they are nonsense.
    drop(held_up);
    stage.settle();
    assert!(stage.world.callers[client].is_closed());
    stage.end(client, true);
}

#[test]
fn sec_41_whoever_no_line_of_the_hba_file_is_for_is_refused() {
    let rules = "auth_type = hba\nauth_hba_file = hba\n; hba local all bob trust";
    let mut world = World::new(1, rules);
    for (user, expected) in [
        ("bob", "Z(I)"),
        (
            "ann",
            "E(FATAL 28000 no pg_hba.conf entry for host \"[local]\", user \"ann\", database \"shop\", no encryption)",
        ),
    ] {
        let client = world.dial(user, &[]);
        world.settle();
        let heard = world.callers[client].heard();
        assert!(heard.ends_with(expected), "{user}: {heard}");
    }
}
