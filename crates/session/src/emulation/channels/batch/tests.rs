//! Tests of batches with LISTEN and UNLISTEN, as drivers send them.

use weir_sql::Functions;
use weir_testkit::reading::outline;
use weir_testkit::say::{Say, say};
use weir_wire::encode;

use super::*;
use crate::channels::Channel;
use crate::relay::SequencePolicy;

const RULES: Rules = Rules {
    max_prepared: 10,
    tracks_unnamed: true,
    prepare_unnamed: 0,
    refuse_simple_query: false,
    message_max: u32::MAX,
    state: StatePolicy::Track,
    sequences: SequencePolicy::Learn,
};

fn client() -> (Client, Registry) {
    (Client::default(), Registry::new(0, 1))
}

fn judge() -> Judge {
    Judge::new(Functions::default())
}

fn look(input: &[u8]) -> Recognized<'_> {
    request(&client().0, &mut judge(), RULES, &Batch::scan(input))
}

fn one(requests: Vec<Request>) -> Request {
    assert_eq!(requests.len(), 1);
    requests.into_iter().next().unwrap()
}

/// Recognizes a request and applies it to the client.
fn take(client: &mut Client, registry: &mut Registry, batch: &[u8]) -> Option<(Request, Vec<u8>)> {
    match request(client, &mut judge(), RULES, &Batch::scan(batch)) {
        Recognized::Request(found) => {
            assert_eq!(found.consumed, batch.len());
            found.take(client, registry, &Arc::default());
            Some((one(found.requests), found.before))
        }
        _ => None,
    }
}

/// Returns the replies that a client gets before the end of the command.
#[track_caller]
fn before(input: &Say, sent: usize) -> String {
    match look(input) {
        Recognized::Request(found) => {
            assert_eq!(found.consumed, sent);
            outline(&found.before)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_query_is_recognized_and_what_follows_it_is_left() {
    let one = say().query("listen a");
    let len = one.len();
    assert_eq!(before(&one.query("select 1"), len), "");
    assert_eq!(look(&say().query("select 1")), Recognized::Nothing);
    assert_eq!(look(&say().sync()), Recognized::Nothing);
}

#[test]
fn several_in_a_query_are_one_request() {
    let text = say().query("listen a; unlisten *;listen \"B\"");
    let Recognized::Request(found) = look(&text) else {
        panic!("it is one");
    };
    let listen = |name: &str| Request::Listen(name.as_bytes().into());
    assert_eq!(
        found.requests,
        [listen("a"), Request::UnlistenAll, listen("B")]
    );
    let text = say().query("listen a; listen b; select 1");
    assert_eq!(look(&text), Recognized::Nothing);
}

#[test]
fn batches_as_drivers_send_them_are_recognized() {
    let listen = || say().parse("", "LISTEN a");
    let whole = |batch: Say| {
        let len = batch.len();
        before(&batch.query("x"), len)
    };
    assert_eq!(whole(listen().run("").sync()), "1 2");
    let batch = listen().bind("", "").describe_portal("");
    assert_eq!(whole(batch.execute("", 0).sync()), "1 2 n");
    let batch = listen().describe_statement("").bind("", "").execute("", 1);
    assert_eq!(whole(batch.sync()), "1 t n 2");
    assert_eq!(whole(say().parse("", "unlisten *").run("").sync()), "1 2");
    let batch = say().parse("s", "listen a").describe_statement("s");
    assert_eq!(whole(batch.run("s").sync()), "1 t n 2");
}

#[test]
fn a_name_is_given_once() {
    let (mut client, mut registry) = client();
    let batch = say().parse("s", "listen a").run("s").sync();
    assert!(take(&mut client, &mut registry, &batch).is_some());
    assert_eq!(client.statement_count(), 1);
    // PostgreSQL reports that the name is taken.
    assert!(take(&mut client, &mut registry, &batch).is_none());
    assert!(take(&mut client, &mut registry, &say().run("s").sync()).is_some());
}

#[test]
fn a_format_for_all_of_no_values_is_no_value() {
    let mut batch = say().parse("", "listen x").to_vec();
    encode::bind_head(&mut batch, b"", b"", 10).unwrap();
    batch.extend_from_slice(&[0, 1, 0, 1, 0, 0, 0, 1, 0, 1]);
    encode::execute(&mut batch, b"", 0).unwrap();
    encode::sync(&mut batch).unwrap();
    assert!(matches!(look(&batch), Recognized::Request(_)));
}

#[test]
fn every_beginning_of_a_batch_waits_for_the_rest() {
    let batch = say().parse("", "listen a").bind("", "").describe_portal("");
    let batch = batch.execute("", 0).sync();
    let parse = say().parse("", "listen a").len();
    for len in parse..batch.len() {
        assert_eq!(look(&batch[..len]), Recognized::More, "{len}");
    }
}

#[test]
fn everything_else_is_for_a_server() {
    let listen = || say().parse("", "listen a");
    for batch in [
        listen().flush(),
        listen().sync(),
        listen().run("").flush(),
        listen().run("").run("").sync(),
        listen().run("").parse("", "select 1").run("").sync(),
        listen().bind("p", "").execute("p", 0).sync(),
        listen().bind("", "").execute("p", 0).sync(),
        listen().bind("", "other").execute("", 0).sync(),
        listen().bind("", "").describe_portal("p").execute("", 0),
        say().parse("", "select 1").run("").sync(),
        say().parse("s", "listen a").run("").sync(),
        say().run("unknown").sync(),
        say().run("").sync(),
        listen().query("x"),
        say().parse("", "listen a").raw(b"B\x3f\0\0\0"),
    ] {
        assert_eq!(look(&batch), Recognized::Nothing, "{batch:?}");
    }
}

#[test]
fn statements_are_defined_and_dropped_as_by_a_server() {
    let (mut client, mut registry) = client();
    let mut look = |batch: Say| Some(take(&mut client, &mut registry, &batch)?.0);
    let a = Some(Request::Listen(b"a".as_slice().into()));
    assert_eq!(look(say().parse("", "listen a").run("").sync()), a);
    assert_eq!(look(say().run("").sync()), a, "it survives the Sync");
    assert!(look(say().query("unlisten a")).is_some());
    assert_eq!(look(say().run("").sync()), None, "a Query drops it");
}

#[test]
fn the_rules_of_the_pool_hold() {
    let rules = Rules {
        max_prepared: 0,
        tracks_unnamed: false,
        prepare_unnamed: 0,
        refuse_simple_query: true,
        ..RULES
    };
    let pins = Rules {
        state: StatePolicy::Pin,
        ..RULES
    };
    for batch in [
        say().query("listen a"),
        say().parse("", "listen a").run("").sync(),
        say().parse("s", "listen a").run("s").sync(),
    ] {
        for rules in [rules, pins] {
            let found = request(&client().0, &mut judge(), rules, &Batch::scan(&batch));
            assert_eq!(found, Recognized::Nothing, "{batch:?}");
        }
    }
}

#[test]
fn texts_are_read_as_postgresql_reads_them() {
    let name = |name: &str| Channel::from(name.as_bytes());
    let long = format!("listen {}", "x".repeat(64));
    for (sql, expected) in [
        ("  listen\n\tFoo ; ", Some(Request::Listen(name("foo")))),
        (
            "listen \"A \"\"b\" -- so",
            Some(Request::Listen(name("A \"b"))),
        ),
        ("UNLISTEN/* all */* ;", Some(Request::UnlistenAll)),
        ("unlisten \"*\"", Some(Request::Unlisten(name("*")))),
        (
            "listen \"b\u{e4}r\"",
            Some(Request::Listen(name("b\u{e4}r"))),
        ),
        ("listen listen", Some(Request::Listen(name("listen")))),
        ("listen table", None),
        ("listen *", None),
        ("listen a, b", None),
        ("unlisten", None),
        ("unlistened", None),
        (&long, None),
    ] {
        let found = match look(&say().query(sql)) {
            Recognized::Request(found) => Some(one(found.requests)),
            _ => None,
        };
        assert_eq!(found, expected, "{sql}");
    }
    let latin = say().raw(b"Q\0\0\0\x0elisten \"\xe4\"\0");
    assert_eq!(look(&latin), Recognized::Nothing);
}
