//! Tests of the settings fence: nothing of a client's runs before all requests that must precede it have succeeded.

use std::sync::Arc;

use weir_session::client::Client;
use weir_session::relay::{self, Link, ServerFault, StatePolicy};
use weir_session::server::{Abandoned, Server};
use weir_session::settings::Settings;
use weir_session::splice::Splice;
use weir_session::statement::{Proven, Registry};
use weir_sql::{Functions, Judge};
use weir_testkit::reading::outline;
use weir_testkit::say::say;
use weir_wire::encode;
use weir_wire::frame::{Side, frame};

use crate::pooler::{new_server, rules};

type Begin =
    fn(&mut Client, &mut Server, &mut Splice<'_>, &mut Vec<u8>) -> Result<(), encode::EncodeError>;

/// A client with settings of its own, and the server that it gets.
struct Pair {
    client: Client,
    server: Server,
    registry: Registry,
    proven: Arc<Proven>,
    input: Vec<u8>,
}

impl Pair {
    fn new(settings: &[(&str, &str)]) -> Self {
        let server = new_server();
        let settings = Settings::from_pairs(settings.iter().copied());
        Self {
            client: Client::new(settings.into(), Arc::clone(server.reported())),
            server,
            registry: Registry::new(0, 1),
            proven: Arc::default(),
            input: Vec::new(),
        }
    }

    /// Sends bytes of the client on a new lease. Returns the texts that the server gets.
    fn begins(&mut self, bytes: &[u8]) -> Vec<String> {
        self.input.extend_from_slice(bytes);
        self.pass(true)
    }

    /// Passes on what has waited. Returns the texts that the server gets.
    fn goes_on(&mut self) -> Vec<String> {
        self.pass(false)
    }

    /// Does the same as [`Pair::begins`], with the settings in the same write where that is possible.
    fn begins_at_once(&mut self, bytes: &[u8]) -> Vec<String> {
        self.input.extend_from_slice(bytes);
        self.send(relay::begin_in_front)
    }

    fn pass(&mut self, fresh: bool) -> Vec<String> {
        if fresh {
            self.send(relay::begin)
        } else {
            self.send(|_, _, _, _| Ok(()))
        }
    }

    fn send(&mut self, begin: Begin) -> Vec<String> {
        let sent = self.send_raw(begin);
        let mut rest = &sent[..];
        let mut texts = Vec::new();
        while let Some(frame) = frame(rest, Side::Frontend).unwrap() {
            let body = frame.body.strip_suffix(b"\0").unwrap_or(frame.body);
            let text = match frame.header.tag {
                b'Q' | b'P' => String::from_utf8_lossy(body).into_owned(),
                tag => char::from(tag).to_string(),
            };
            texts.push(text);
            rest = &rest[frame.raw.len()..];
        }
        texts
    }

    fn send_raw(&mut self, begin: Begin) -> Vec<u8> {
        let input = std::mem::take(&mut self.input);
        let (mut buffer, mut answers) = (Vec::new(), Vec::new());
        let mut out = Splice::new(&input, &mut buffer);
        let (client, server) = (&mut self.client, &mut self.server);
        begin(client, server, &mut out, &mut answers).unwrap();
        let mut rules = rules(10);
        rules.state = StatePolicy::Track;
        let mut link = Link {
            client,
            server,
            registry: &mut self.registry,
            judge: &mut Judge::new(Functions::default()),
            proven: &self.proven,
            rules,
            digests: None,
            ruling: None,
        };
        let taken = relay::requests(&mut link, &input, &mut out, &mut answers).unwrap();
        self.input = input[taken.consumed..].to_vec();
        out.finish().to_vec()
    }

    fn replies(&mut self, bytes: &[u8]) -> Result<String, ServerFault> {
        let mut buffer = Vec::new();
        let mut out = Splice::new(bytes, &mut buffer);
        relay::replies(&mut self.client, &mut self.server, bytes, &mut out)?;
        Ok(outline(out.finish()))
    }
}

const SET: &str = "SET \"role\" TO E'tenant'";
const DONE: &[u8] = b"C\0\0\0\x08SET\0Z\0\0\0\x05I";

fn error(code: &str) -> Vec<u8> {
    let fields = [
        (b'S', &b"ERROR"[..]),
        (b'V', b"ERROR"),
        (b'C', code.as_bytes()),
        (b'M', b"no"),
    ];
    let mut bytes = Vec::new();
    encode::error_response(&mut bytes, &fields).unwrap();
    [&bytes[..], b"Z\0\0\0\x05I"].concat()
}

#[test]
fn a_statement_waits_until_its_settings_are_confirmed() {
    for (said, texts) in [
        (say().query("insert"), vec!["insert"]),
        (
            say().parse("", "insert").run("").sync(),
            vec!["\0insert\0\0", "B", "E", "S"],
        ),
    ] {
        let mut pair = Pair::new(&[("role", "tenant")]);
        assert_eq!(pair.begins(&said), [SET]);
        assert_eq!(pair.goes_on(), [""; 0]);
        assert!(pair.server.awaits_required() && !pair.server.is_busy());
        assert_eq!(pair.replies(DONE).unwrap(), "");
        assert_eq!(pair.goes_on(), texts);
    }
}

#[test]
fn a_client_whose_settings_are_refused_has_run_nothing() {
    for code in ["42501", "22023", "42704", "25P02", "XX000"] {
        let mut pair = Pair::new(&[("role", "tenant")]);
        assert_eq!(pair.begins(&say().query("insert")), [SET]);
        assert!(matches!(
            pair.replies(&error(code)),
            Err(ServerFault::Refused(_))
        ));
        assert!(!pair.server.is_free());
    }
}

#[test]
fn interrupted_settings_are_sent_again_before_anything_else() {
    for code in ["57014", "55P03"] {
        let mut pair = Pair::new(&[("role", "tenant")]);
        pair.begins(&say().query("insert"));
        for _ in 0..8 {
            assert_eq!(pair.replies(&error(code)).unwrap(), "");
            assert!(pair.server.has_to_repeat() && !pair.server.is_free());
            assert_eq!(pair.goes_on(), [SET]);
        }
        assert!(pair.replies(&error(code)).is_err(), "not for ever");
    }
    let mut pair = Pair::new(&[("role", "tenant")]);
    pair.begins(&say().query("insert"));
    pair.replies(&error("57014")).unwrap();
    pair.goes_on();
    pair.replies(DONE).unwrap();
    assert_eq!(pair.goes_on(), ["insert"]);
}

#[test]
fn a_server_whose_settings_are_unknown_serves_nobody_else() {
    // The client leaves while its settings are in flight, and they fail.
    let mut pair = Pair::new(&[("role", "tenant")]);
    pair.begins(&say().query("insert"));
    let abandoned = pair.server.abandon(&pair.client, &mut Vec::new());
    assert!(matches!(abandoned, Abandoned::Drain { .. }));
    assert!(pair.replies(&error("57014")).is_err());
    // The client leaves after its settings were interrupted.
    let mut pair = Pair::new(&[("role", "tenant")]);
    pair.begins(&say().query("insert"));
    pair.replies(&error("57014")).unwrap();
    let abandoned = pair.server.abandon(&pair.client, &mut Vec::new());
    assert_eq!(abandoned, Abandoned::Close);
}

#[test]
fn what_comes_behind_discard_all_waits_for_the_values_from_the_start() {
    let mut pair = Pair::new(&[("work_mem", "5MB")]);
    pair.begins(&say().query("discard all").query("insert"));
    pair.replies(DONE).unwrap();
    let set = "SET \"work_mem\" TO E'5MB'";
    assert_eq!(pair.goes_on(), ["discard all", set]);
    let discarded = b"C\0\0\0\x10DISCARD ALL\0Z\0\0\0\x05I";
    pair.replies(discarded).unwrap();
    assert_eq!(pair.goes_on(), [""; 0]);
    assert_eq!(pair.replies(&error("57014")).unwrap(), "");
    assert_eq!(pair.goes_on(), [set]);
    assert_eq!(pair.replies(DONE).unwrap(), "Z(I)");
    assert_eq!(pair.goes_on(), ["insert"]);
}

#[test]
fn a_discard_all_that_cannot_succeed_is_followed_by_nothing() {
    let mut pair = Pair::new(&[("work_mem", "5MB")]);
    pair.begins(&say().query("begin").query("discard all"));
    pair.replies(DONE).unwrap();
    assert_eq!(pair.goes_on(), ["begin"], "its outcome decides");
    pair.replies(b"C\0\0\0\x0aBEGIN\0Z\0\0\0\x05T").unwrap();
    assert_eq!(pair.goes_on(), ["discard all"]);
    let mut pair = Pair::new(&[("work_mem", "5MB")]);
    pair.begins(&say().query("select 1; discard all"));
    pair.replies(DONE).unwrap();
    assert_eq!(pair.goes_on(), ["select 1; discard all"]);
}

#[test]
fn a_sync_that_a_failed_copy_may_have_eaten_keeps_no_server() {
    let mut pair = Pair::new(&[]);
    pair.begins(&say().parse("", "copy").run("").sync());
    pair.replies(b"1\0\0\0\x04\x32\0\0\0\x04G\0\0\0\x07\0\0\0")
        .unwrap();
    pair.input = say().copy_fail("no").sync().to_vec();
    assert_eq!(pair.goes_on(), ["f", "S"]);
    pair.replies(&error("57014")).unwrap();
    assert!(!pair.server.is_free() && pair.server.has_to_repeat());
    assert_eq!(pair.goes_on(), [""]);
    pair.replies(b"I\0\0\0\x04Z\0\0\0\x05I").unwrap();
    assert!(pair.server.is_free());
}

// --- settings in the same write ---

const ZONE: &str = "SET \"timezone\" TO E'CET'";

/// Returns the messages of a fence: each statement parsed, bound and executed.
fn fence(set: &[&str]) -> Vec<String> {
    let all = ["BEGIN"].into_iter().chain(set.iter().copied());
    let texts = all.chain(["COMMIT"]).flat_map(|sql| {
        let parsed = format!("\0{sql}\0\0");
        [parsed, "B".to_owned(), "E".to_owned()]
    });
    texts.chain(["C".to_owned()]).collect()
}

/// Returns a server's replies to a whole fence of one statement.
fn passed() -> Vec<u8> {
    let mut bytes = Vec::new();
    for tag in ["BEGIN", "SET", "COMMIT"] {
        bytes.extend_from_slice(b"1\0\0\0\x042\0\0\0\x04");
        encode::command_complete(&mut bytes, tag.as_bytes()).unwrap();
    }
    bytes.extend_from_slice(b"3\0\0\0\x04");
    bytes
}

#[test]
fn settings_go_in_front_of_a_request_that_their_failure_skips() {
    for (said, texts) in [
        (say().query("insert"), vec!["insert"]),
        (
            say().parse("", "insert").run("").sync(),
            vec!["\0insert\0\0", "B", "E", "S"],
        ),
    ] {
        let mut pair = Pair::new(&[("timezone", "CET")]);
        let sent = pair.begins_at_once(&said);
        let theirs: Vec<_> = texts.into_iter().map(str::to_owned).collect();
        assert_eq!(sent, [fence(&[ZONE]), theirs].concat());
        assert!(pair.server.is_busy(), "a cancel hits fence or request");
        pair.replies(&passed()).unwrap();
        assert!(!pair.server.is_free());
    }
}

#[test]
fn what_says_who_the_session_is_is_awaited_and_so_are_timeouts() {
    for name in [
        "role",
        "session_authorization",
        "statement_timeout",
        "lock_timeout",
    ] {
        let mut pair = Pair::new(&[("timezone", "CET"), (name, "5")]);
        let sent = pair.begins_at_once(&say().query("insert"));
        assert_eq!(sent.len(), 1, "{name}: {sent:?}");
        assert!(sent[0].contains("SET"), "{sent:?}");
    }
}

#[test]
fn one_batch_follows_a_fence_and_the_next_waits_for_it() {
    let mut pair = Pair::new(&[("timezone", "CET")]);
    let sent = pair.begins_at_once(&say().query("one").query("two"));
    assert_eq!(sent.last().map(String::as_str), Some("one"));
    assert_eq!(pair.goes_on(), [""; 0]);
    pair.replies(&passed()).unwrap();
    assert_eq!(pair.goes_on(), ["two"]);
}

#[test]
fn a_refused_fence_ends_the_client() {
    for code in ["42501", "22023", "42704"] {
        let mut pair = Pair::new(&[("timezone", "CET")]);
        pair.begins_at_once(&say().query("insert"));
        assert!(matches!(
            pair.replies(&error(code)[..]),
            Err(ServerFault::Refused(_))
        ));
    }
}

/// Returns an error without a ReadyForQuery.
fn only_error(code: &str) -> Vec<u8> {
    let mut bytes = error(code);
    bytes.truncate(bytes.len() - 6);
    bytes
}

#[test]
fn an_interrupted_fence_interrupts_its_query_and_is_sent_again_before_the_next() {
    let begun = b"1\0\0\0\x042\0\0\0\x04C\0\0\0\x0aBEGIN\0";
    let mut pair = Pair::new(&[("timezone", "CET")]);
    pair.begins_at_once(&say().query("one").query("two"));
    pair.replies(begun).unwrap();
    assert_eq!(pair.replies(&only_error("57014")).unwrap(), "E(57014 no)");
    assert!(pair.server.has_to_repeat() && !pair.server.is_free());
    // The server skips the query too, up to a Sync.
    assert_eq!(pair.goes_on(), ["S"]);
    assert_eq!(pair.replies(b"Z\0\0\0\x05E").unwrap(), "Z(I)");
    assert_eq!(pair.goes_on(), ["ROLLBACK"]);
    // The ROLLBACK is interrupted as well.
    let mut interrupted = only_error("57014");
    interrupted.extend_from_slice(b"Z\0\0\0\x05E");
    assert_eq!(pair.replies(&interrupted).unwrap(), "");
    assert_eq!(pair.goes_on(), ["ROLLBACK"]);
    pair.replies(b"C\0\0\0\x0dROLLBACK\0Z\0\0\0\x05I").unwrap();
    assert_eq!(pair.goes_on(), [ZONE]);
    assert_eq!(
        pair.goes_on(),
        [""; 0],
        "not before the settings are confirmed"
    );
    pair.replies(DONE).unwrap();
    assert_eq!(pair.goes_on(), ["two"]);
}

#[test]
fn an_interrupted_fence_skips_the_batch_of_its_client_up_to_the_sync() {
    let mut pair = Pair::new(&[("timezone", "CET")]);
    pair.begins_at_once(&say().parse("", "one").run("").sync().query("two"));
    assert_eq!(pair.replies(&error("57014")).unwrap(), "E(57014 no) Z(I)");
    // The fence had not begun a transaction.
    assert_eq!(pair.goes_on(), [ZONE]);
    pair.replies(DONE).unwrap();
    assert_eq!(pair.goes_on(), ["two"]);
}

#[test]
fn a_server_with_an_interrupted_fence_is_closed_if_its_client_leaves() {
    let mut pair = Pair::new(&[("timezone", "CET")]);
    pair.begins_at_once(&say().query("one"));
    pair.replies(&only_error("57014")).unwrap();
    let abandoned = pair.server.abandon(&pair.client, &mut Vec::new());
    assert_eq!(abandoned, Abandoned::Close);
    // The client leaves first.
    let mut pair = Pair::new(&[("timezone", "CET")]);
    pair.begins_at_once(&say().query("one"));
    pair.server.abandon(&pair.client, &mut Vec::new());
    assert!(pair.replies(&only_error("57014")).is_err());
}

#[test]
fn nothing_of_ours_stands_inside_of_a_long_query() {
    let mut pair = Pair::new(&[("timezone", "CET")]);
    let long = say()
        .query(&format!("select {}", "x".repeat(40_000)))
        .to_vec();
    let (first, rest) = long.split_at(36_000);
    pair.input = first.to_vec();
    pair.send_raw(relay::begin_in_front);
    assert_eq!(pair.replies(&only_error("57014")).unwrap(), "E(57014 no)");
    pair.input = rest[..1000].to_vec();
    assert_eq!(pair.send_raw(|_, _, _, _| Ok(())), rest[..1000]);
    pair.input = rest[1000..].to_vec();
    let sent = pair.send_raw(|_, _, _, _| Ok(()));
    assert_eq!(sent, [&rest[1000..], b"S\0\0\0\x04"].concat());
}

#[test]
fn what_waits_for_a_fence_behind_a_part_of_a_batch_gets_it_answered() {
    let mut pair = Pair::new(&[("timezone", "CET")]);
    let said = say()
        .parse("", "insert")
        .run("")
        .query("PREPARE s AS SELECT 1");
    let sent = pair.begins_at_once(&said);
    assert_eq!(sent.last().map(String::as_str), Some("H"), "{sent:?}");
}
