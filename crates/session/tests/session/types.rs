//! Tests of parameter types: on every server, a prepared statement has the types of its client's own Parse.

use std::sync::Arc;

use weir_session::client::Client;
use weir_session::relay::StatePolicy;
use weir_testkit::say::say;
use weir_wire::frame::{Side, frame};

use crate::pooler::new_server;
use crate::prepared::{BOUND, CLOSED, DONE, PARSED, READY, Wire, error};

/// Returns a ParameterDescription of one parameter of this type.
fn parameter(type_oid: u32) -> Vec<u8> {
    [b"t\0\0\0\x0a\0\x01", &type_oid.to_be_bytes()[..]].concat()
}

const NO_ROWS: &[u8] = b"n\0\0\0\x04";
const DATE: u32 = 1082;
const TIMESTAMP: u32 = 1114;

/// Returns the parameter type that the last Parse to the server declares; 0 if none.
fn declared(sent: &[u8]) -> u32 {
    let mut rest = sent;
    let mut declared = 0;
    while let Some(frame) = frame(rest, Side::Frontend).unwrap() {
        if frame.header.tag == b'P' {
            let oid = frame.body.rsplitn(2, |byte| *byte == b'!').next().unwrap();
            declared = match oid {
                [0, 0, 1, oid @ ..] => u32::from_be_bytes(oid.try_into().unwrap()),
                _ => 0,
            };
        }
        rest = &rest[frame.raw.len()..];
    }
    declared
}

/// Returns a client that prepared an INSERT when its column was a date.
fn dated() -> Wire {
    let mut wire = Wire::new();
    assert_eq!(
        wire.asks(&say().parse("a", "insert $1!").run("a").sync()),
        "Pweir_1 Dweir_1 Bweir_1 E S"
    );
    assert_eq!(declared(&wire.sent), 0);
    let done = [PARSED, &parameter(DATE), NO_ROWS, BOUND, DONE, READY].concat();
    assert_eq!(wire.replies(&done), "1 2 C(DO) Z(I)");
    wire
}

#[test]
fn a_copy_on_another_server_has_the_types_of_the_clients_own_parse() {
    let mut wire = dated();
    wire.server = new_server();
    assert_eq!(wire.asks(&say().run("a").sync()), "Pweir_1 Bweir_1 E S");
    assert_eq!(declared(&wire.sent), DATE);
    assert_eq!(
        wire.replies(&[PARSED, BOUND, DONE, READY].concat()),
        "2 C(DO) Z(I)"
    );
    assert_eq!(wire.asks(&say().run("a").sync()), "Bweir_1 E S");
}

/// Returns a second client, which prepares the text after the column has become a timestamp, and the first client.
fn both() -> (Wire, Client) {
    let mut wire = dated();
    let fresh = Client::new(Arc::default(), Arc::clone(wire.server.reported()));
    let first = std::mem::replace(&mut wire.client, fresh);
    assert_eq!(
        wire.asks(&say().parse("b", "insert $1!").run("b").sync()),
        "Cweir_1 Pweir_1 Dweir_1 Bweir_1 E S"
    );
    assert_eq!(declared(&wire.sent), 0);
    let done = [
        CLOSED,
        PARSED,
        &parameter(TIMESTAMP),
        NO_ROWS,
        BOUND,
        DONE,
        READY,
    ];
    assert_eq!(wire.replies(&done.concat()), "1 2 C(DO) Z(I)");
    (wire, first)
}

#[test]
fn clients_whose_parses_found_different_types_share_no_copy() {
    let (mut wire, first) = both();
    // The later client gets a name of its own, with the types that its Parse has found.
    assert_eq!(wire.asks(&say().run("b").sync()), "Pweir_2 Bweir_2 E S");
    assert_eq!(declared(&wire.sent), TIMESTAMP);
    wire.replies(&[PARSED, BOUND, DONE, READY].concat());
    let second = std::mem::replace(&mut wire.client, first);
    // The earlier client keeps its type.
    assert_eq!(
        wire.asks(&say().run("a").sync()),
        "Cweir_1 Pweir_1 Bweir_1 E S"
    );
    assert_eq!(declared(&wire.sent), DATE);
    wire.replies(&[CLOSED, PARSED, BOUND, DONE, READY].concat());
    assert_eq!(wire.asks(&say().run("a").sync()), "Bweir_1 E S");
    wire.replies(&[BOUND, DONE, READY].concat());
    wire.client = second;
    assert_eq!(wire.asks(&say().run("b").sync()), "Bweir_2 E S");
}

#[test]
fn a_third_client_shares_with_the_second() {
    let (mut wire, _) = both();
    wire.asks(&say().run("b").sync());
    wire.replies(&[PARSED, BOUND, DONE, READY].concat());
    let fresh = Client::new(Arc::default(), Arc::clone(wire.server.reported()));
    let second = std::mem::replace(&mut wire.client, fresh);
    let parse = wire.asks(&say().parse("c", "insert $1!").sync());
    assert_eq!(parse, "Cweir_2 Pweir_2 Dweir_2 S");
    wire.replies(&[CLOSED, PARSED, &parameter(TIMESTAMP), NO_ROWS, READY].concat());
    assert_eq!(wire.asks(&say().run("c").sync()), "Bweir_2 E S");
    wire.replies(&[BOUND, DONE, READY].concat());
    wire.client = second;
    assert_eq!(wire.asks(&say().run("b").sync()), "Bweir_2 E S");
}

#[test]
fn a_copy_that_is_older_than_the_clients_own_parse_is_prepared_anew() {
    let mut wire = dated();
    let other = std::mem::replace(&mut wire.server, new_server());
    let fresh = Client::new(Arc::default(), Arc::clone(wire.server.reported()));
    let first = std::mem::replace(&mut wire.client, fresh);
    wire.asks(&say().parse("b", "insert $1!").sync());
    wire.replies(&[PARSED, &parameter(DATE), NO_ROWS, READY].concat());
    // The types are the same, but the text may now refer to other objects.
    wire.server = other;
    assert_eq!(
        wire.asks(&say().run("b").sync()),
        "Cweir_1 Pweir_1 Bweir_1 E S"
    );
    assert_eq!(declared(&wire.sent), DATE);
    wire.replies(&[CLOSED, PARSED, BOUND, DONE, READY].concat());
    // Only once; and the earlier client may use the newer copy.
    assert_eq!(wire.asks(&say().run("b").sync()), "Bweir_1 E S");
    wire.replies(&[BOUND, DONE, READY].concat());
    wire.client = first;
    assert_eq!(wire.asks(&say().run("a").sync()), "Bweir_1 E S");
}

#[test]
fn two_names_of_one_text_in_one_batch_wait_for_what_the_second_is() {
    let mut wire = dated();
    // The first is bound behind the second's Parse, which has replaced its copy.
    let batch = say().parse("b", "insert $1!").run("a").sync();
    assert_eq!(wire.asks(&batch), "Cweir_1 Pweir_1 Dweir_1 H");
    let told = [CLOSED, PARSED, &parameter(TIMESTAMP), NO_ROWS].concat();
    assert_eq!(wire.replies(&told), "1");
    assert_eq!(wire.goes_on(), "Cweir_1 Pweir_1 Bweir_1 E S");
    assert_eq!(declared(&wire.sent), DATE);
}

#[test]
fn a_parse_whose_description_is_skipped_is_sent_again() {
    let mut wire = dated();
    wire.client = Client::new(Arc::default(), Arc::clone(wire.server.reported()));
    wire.asks(&say().parse("b", "insert $1!").run("b").sync());
    // A cancel hits the Describe.
    let heard = wire.replies(&[CLOSED, PARSED, &error("57014", "cancelled", "F")].concat());
    assert_eq!(heard, "1 E(57014 cancelled) Z(I)");
    assert_eq!(
        wire.asks(&say().run("b").sync()),
        "Cweir_1 Pweir_1 Dweir_1 Bweir_1 E S"
    );
    assert_eq!(declared(&wire.sent), 0);
    let told = [CLOSED, PARSED, &parameter(TIMESTAMP), NO_ROWS];
    wire.replies(&[&told.concat(), BOUND, DONE, READY].concat());
    assert_eq!(wire.asks(&say().run("b").sync()), "Pweir_2 Bweir_2 E S");
    assert_eq!(declared(&wire.sent), TIMESTAMP);
}

#[test]
fn who_has_something_temporary_shares_no_statement() {
    let mut wire = dated();
    wire.rules.state = StatePolicy::Track;
    let create = say().query("begin; create temp table t (v timestamp) on commit drop");
    wire.asks(&create);
    wire.replies(b"C\0\0\0\x0aBEGIN\0C\0\0\0\x11CREATE TABLE\0Z\0\0\0\x05T");
    let asked = wire.asks(&say().parse("b", "insert $1!").sync());
    assert!(
        asked.starts_with("Pweir_") && !asked.contains("weir_1 "),
        "{asked}"
    );
}

#[test]
fn a_description_that_is_too_long_to_be_read_keeps_its_client_on_its_server() {
    let mut wire = Wire::new();
    wire.asks(&say().parse("a", "insert $1!").sync());
    let many = 10_000_u16;
    let mut long = [b"t".as_slice(), &(6 + 4 * u32::from(many)).to_be_bytes()].concat();
    long.extend(many.to_be_bytes());
    long.extend((0..many).flat_map(|_| DATE.to_be_bytes()));
    wire.replies(PARSED);
    let (head, rest) = long.split_at(33 * 1024);
    wire.replies(head);
    wire.replies(&[rest, NO_ROWS, READY].concat());
    assert!(wire.client.pin().is_some());
    assert_eq!(wire.asks(&say().run("a").sync()), "Bweir_1 E S");
}

/// PostgreSQL may have resolved the copy, inside the transaction, to definitions that were never committed, and keeps
/// that result.
#[test]
fn a_copy_that_was_used_beside_definitions_that_were_undone_is_used_by_nobody() {
    const DROPPED: &[u8] = b"C\0\0\0\x0eDROP VIEW\0";
    const ROLLED_BACK: &[u8] = b"C\0\0\0\x0dROLLBACK\0";
    const COMMITTED: &[u8] = b"C\0\0\0\x0bCOMMIT\0";
    const OPEN: &[u8] = b"Z\0\0\0\x05T";
    for (end, tag, again) in [
        ("ROLLBACK", ROLLED_BACK, "Cweir_1 Pweir_1 Bweir_1 E S"),
        ("COMMIT", COMMITTED, "Bweir_1 E S"),
        ("", ROLLED_BACK, "Cweir_1 Pweir_1 Bweir_1 E S"),
    ] {
        let mut wire = dated();
        wire.asks(&say().query("BEGIN"));
        wire.replies(&[b"C\0\0\0\x0aBEGIN\0", OPEN].concat());
        wire.asks(&say().query("DROP VIEW v"));
        wire.replies(&[DROPPED, OPEN].concat());
        if end.is_empty() {
            // The client left, so Weir rolls the transaction back.
            assert!(wire.server.roll_back(&mut Vec::new()));
        } else {
            wire.asks(&say().query(end));
        }
        wire.replies(&[tag, READY].concat());
        assert_eq!(wire.asks(&say().run("a").sync()), again, "{end}");
    }
}

/// PostgreSQL resolves the statement again at its first use after the rollback, not before.
#[test]
fn a_statement_that_was_parsed_beside_undone_definitions_is_prepared_anew_when_it_is_used() {
    const CREATED: &[u8] = b"C\0\0\0\x10CREATE VIEW\0";
    const ROLLED_BACK: &[u8] = b"C\0\0\0\x0dROLLBACK\0";
    const OPEN: &[u8] = b"Z\0\0\0\x05T";
    let mut wire = Wire::new();
    let described = [PARSED, &parameter(DATE), NO_ROWS].concat();
    wire.asks(&say().query("BEGIN").query("CREATE VIEW v AS SELECT 1"));
    wire.replies(&[b"C\0\0\0\x0aBEGIN\0", OPEN, CREATED, OPEN].concat());
    wire.asks(&say().parse("a", "insert $1!").sync());
    wire.replies(&[&described, OPEN].concat());
    wire.asks(&say().query("ROLLBACK"));
    wire.replies(&[ROLLED_BACK, READY].concat());
    // Another client prepares the text, and then the view is created.
    let fresh = Client::new(Arc::default(), Arc::clone(wire.server.reported()));
    let first = std::mem::replace(&mut wire.client, fresh);
    wire.asks(&say().parse("b", "insert $1!").sync());
    wire.replies(&[b"3\0\0\0\x04", described.as_slice(), READY].concat());
    wire.client = first;
    let run = say().run("a").sync();
    assert_eq!(wire.asks(&run), "Cweir_1 Pweir_1 Bweir_1 E S");
    wire.replies(
        &[
            b"3\0\0\0\x04",
            PARSED,
            b"2\0\0\0\x04C\0\0\0\x0fINSERT 0 1\0",
            READY,
        ]
        .concat(),
    );
    assert_eq!(wire.asks(&run), "Bweir_1 E S", "once");
}

/// Between two changes of definitions, PostgreSQL also resolves statements to something that was never committed.
#[test]
fn a_copy_that_was_used_between_two_changes_of_definitions_is_used_by_nobody() {
    const DROPPED: &[u8] = b"C\0\0\0\x0eDROP VIEW\0";
    const CREATED: &[u8] = b"C\0\0\0\x10CREATE VIEW\0";
    const COMMITTED: &[u8] = b"C\0\0\0\x0bCOMMIT\0";
    const OPEN: &[u8] = b"Z\0\0\0\x05T";
    for (is_used, again) in [
        (true, "Cweir_1 Pweir_1 Bweir_1 E S"),
        (false, "Bweir_1 E S"),
    ] {
        let mut wire = dated();
        wire.asks(&say().query("BEGIN").query("DROP VIEW v"));
        wire.replies(&[b"C\0\0\0\x0aBEGIN\0", OPEN, DROPPED, OPEN].concat());
        if is_used {
            wire.asks(&say().run("a").sync());
            wire.replies(&[b"2\0\0\0\x04C\0\0\0\x0fINSERT 0 1\0", OPEN].concat());
        }
        wire.asks(&say().query("CREATE VIEW v AS SELECT 1").query("COMMIT"));
        wire.replies(&[CREATED, OPEN, COMMITTED, READY].concat());
        assert_eq!(wire.asks(&say().run("a").sync()), again, "{is_used}");
    }
}

/// A view that the transaction made is found by its own Parse, and by no other until the transaction commits.
#[test]
fn a_copy_that_was_parsed_before_the_clients_transaction_committed_is_prepared_anew() {
    const BEGUN: &[u8] = b"C\0\0\0\x0aBEGIN\0";
    const COMMITTED: &[u8] = b"C\0\0\0\x0bCOMMIT\0";
    const OPEN: &[u8] = b"Z\0\0\0\x05T";
    let mut wire = Wire::new();
    wire.asks(&say().query("BEGIN"));
    wire.replies(&[BEGUN, OPEN].concat());
    wire.asks(&say().parse("a", "insert $1!").sync());
    let described = [PARSED, &parameter(DATE), NO_ROWS].concat();
    wire.replies(&[&described, OPEN].concat());
    let own = std::mem::replace(&mut wire.server, new_server());
    let fresh = Client::new(Arc::default(), Arc::clone(wire.server.reported()));
    let first = std::mem::replace(&mut wire.client, fresh);
    wire.asks(&say().parse("b", "insert $1!").sync());
    wire.replies(&[&described, READY].concat());
    let other = std::mem::replace(&mut wire.server, own);
    wire.client = first;
    wire.asks(&say().query("COMMIT"));
    wire.replies(&[COMMITTED, READY].concat());
    wire.server = other;
    assert_eq!(
        wire.asks(&say().run("a").sync()),
        "Cweir_1 Pweir_1 Bweir_1 E S"
    );
}
