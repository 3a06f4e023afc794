//! Tests of prepared statements: sharing between clients, and requests that need no server.

use std::sync::Arc;

use weir_session::client::Client;
use weir_session::relay::{self, Link, Rules};
use weir_session::server::Server;
use weir_session::splice::Splice;
use weir_session::statement::{Proven, Registry};
use weir_sql::{Functions, Judge};
use weir_testkit::backend::Output;
use weir_testkit::reading::outline;
use weir_testkit::say::{Say, say};
use weir_wire::encode;
use weir_wire::frame::{Side, frame};

use crate::pooler::{Pooler, new_server, rules};

fn pooler(clients: usize, servers: usize) -> Pooler {
    Pooler::new(clients, servers, rules(10), Output::Buffered)
}

/// Sends bytes of a client and delivers everything. Returns what the client gets.
fn hears(pooler: &mut Pooler, client: usize, what: &Say) -> String {
    pooler.clients[client].got.clear();
    pooler.client_sends(client, what);
    pooler.deliver_all();
    outline(&pooler.clients[client].got)
}

#[test]
fn cor_15_clients_share_a_statement_only_under_settings_that_plan_it_alike() {
    let mut pooler = pooler(3, 1);
    let first = say().parse("s", "row x").run("s").sync();
    hears(&mut pooler, 1, &say().query("set TimeZone CET"));
    hears(&mut pooler, 2, &say().query("set application_name other"));
    for (client, held) in [(0, 1), (1, 2), (2, 2)] {
        let heard = hears(&mut pooler, client, &first);
        assert_eq!(heard, "1 2 D(x) C(SELECT 1) Z(I)");
        assert_eq!(pooler.servers[0].really_prepared().len(), held);
    }
}

#[test]
fn cor_15_a_statement_stays_when_only_its_literals_would_be_read_in_another_way() {
    let mut pooler = pooler(1, 1);
    hears(&mut pooler, 0, &say().parse("s", "row x").sync());
    for zone in ["CET", "EET", "UTC"] {
        let set = format!("set TimeZone {zone}");
        hears(&mut pooler, 0, &say().query(&set));
        let heard = hears(&mut pooler, 0, &say().run("s").sync());
        assert_eq!(heard, "2 D(x) C(SELECT 1) Z(I)");
        assert_eq!(pooler.servers[0].really_prepared().len(), 1, "{zone}");
    }
}

#[test]
fn names_that_clients_have_outlive_a_reload_that_takes_them_from_new_ones() {
    let mut pooler = pooler(1, 2);
    let one = "2 D(x) C(SELECT 1) Z(I)";
    hears(&mut pooler, 0, &say().parse("s", "row x").sync());
    pooler.rules.max_prepared = 0;
    for _ in 0..3 {
        assert_eq!(hears(&mut pooler, 0, &say().run("s").sync()), one);
    }
    let heard = hears(&mut pooler, 0, &say().parse("t", "row x").run("t").sync());
    assert_eq!(heard, format!("1 {one}"));
    pooler.rules.max_prepared = 10;
    for _ in 0..3 {
        assert_eq!(hears(&mut pooler, 0, &say().run("s").sync()), one);
        assert_eq!(hears(&mut pooler, 0, &say().run("t").sync()), one);
    }
}

/// Returns a pooler whose servers are all taken by other clients.
fn without_servers() -> Pooler {
    let mut pooler = pooler(3, 1);
    hears(
        &mut pooler,
        0,
        &say().parse("a", "row x").parse("b", "row y").sync(),
    );
    assert_eq!(
        hears(&mut pooler, 0, &say().query("begin")),
        "C(BEGIN) Z(T)"
    );
    pooler
}

#[test]
fn what_is_known_to_be_good_is_prepared_without_a_server() {
    let mut pooler = without_servers();
    let known = say().parse("s", "row x").parse("t", "row y").sync();
    assert_eq!(hears(&mut pooler, 1, &known), "1 1 Z(I)");
    let closed = say()
        .close_statement("s")
        .close_statement("x")
        .close_portal("s");
    assert_eq!(hears(&mut pooler, 1, &closed.sync()), "3 3 3 Z(I)");
    let again = say().parse("s", "row y").sync().sync();
    assert_eq!(hears(&mut pooler, 1, &again), "1 Z(I) Z(I)");

    hears(&mut pooler, 0, &say().query("commit"));
    let both = say().run("s").run("t").sync();
    let rows = "2 D(y) C(SELECT 1) 2 D(y) C(SELECT 1) Z(I)";
    assert_eq!(hears(&mut pooler, 1, &both), rows);
}

#[test]
fn cut_anywhere_it_needs_no_server_either() {
    let known = say().parse("s", "row x").close_statement("s").sync();
    for cut in 1..known.len() {
        let mut pooler = without_servers();
        let first = hears(&mut pooler, 1, &say().raw(&known[..cut]));
        let second = hears(&mut pooler, 1, &say().raw(&known[cut..]));
        let both = [first, second].join(" ");
        assert_eq!(both.trim(), "1 3 Z(I)", "at {cut}");
    }
}

#[test]
fn what_is_not_known_to_be_good_waits_for_a_server() {
    let batches = [
        say().parse("s", "row z").sync(),
        say().parse("s", "row x").parse("s", "row x").sync(),
        say().parse("s", "row x").describe_statement("s").sync(),
        say().parse("s", "row x").run("s").sync(),
        say().parse("", "row x").sync(),
        say().parse("s", "error parse").sync(),
    ];
    for batch in batches {
        let mut pooler = without_servers();
        let early = hears(&mut pooler, 1, &batch);
        assert!(!early.contains('Z'), "{early}");
        hears(&mut pooler, 0, &say().query("commit"));
        let direct = weir_testkit::backend::Backend::default().converse(&batch);
        assert_eq!(outline(&pooler.clients[1].got), outline(&direct));
    }
}

#[test]
fn a_statement_that_failed_is_not_known_to_be_good() {
    let mut pooler = without_servers();
    let refused = say().parse("s", "error parse").sync();
    hears(&mut pooler, 0, &refused);
    hears(&mut pooler, 0, &say().query("rollback").query("begin"));
    assert_eq!(hears(&mut pooler, 1, &refused), "");
}

#[test]
fn other_settings_prove_nothing() {
    let mut pooler = pooler(2, 1);
    hears(&mut pooler, 1, &say().query("set TimeZone CET"));
    hears(
        &mut pooler,
        0,
        &say().parse("a", "row x").sync().query("begin"),
    );
    assert_eq!(hears(&mut pooler, 1, &say().parse("a", "row x").sync()), "");
}

#[test]
fn the_unnamed_statement_is_gone_after_a_close_without_a_server() {
    let mut pooler = pooler(2, 1);
    hears(&mut pooler, 1, &say().parse("", "row x").sync());
    hears(&mut pooler, 0, &say().query("begin"));
    assert_eq!(
        hears(&mut pooler, 1, &say().close_statement("").sync()),
        "3 Z(I)"
    );
    hears(&mut pooler, 0, &say().query("commit"));
    let heard = hears(&mut pooler, 1, &say().run("").sync());
    assert_eq!(
        heard,
        "E(26000 unnamed prepared statement does not exist) Z(I)"
    );
}

// --- unnamed statements that come often ---

#[test]
fn an_unnamed_statement_that_comes_often_keeps_its_plan() {
    let mut wire = Wire::new();
    wire.rules.prepare_unnamed = 1;
    let batch = || say().parse("", "row x").run("").sync();
    let done = [PARSED, BOUND, DONE, READY].concat();
    assert_eq!(wire.asks(&batch()), "P B E S");
    assert_eq!(wire.replies(&done), outline(&done));
    // The second time, the statement also gets a name of ours, behind its own Parse.
    let second = wire.asks(&batch());
    let ours = second
        .split(' ')
        .nth(1)
        .unwrap()
        .strip_prefix('P')
        .unwrap()
        .to_owned();
    assert_eq!(second, format!("P P{ours} D{ours} B E S"));
    let twice = [PARSED, PARSED, PARAMETERS, &columns(23), BOUND, DONE, READY].concat();
    assert_eq!(wire.replies(&twice), outline(&done));
    // From then on no Parse is sent.
    for _ in 0..3 {
        assert_eq!(wire.asks(&batch()), format!("B{ours} E S"));
        assert_eq!(wire.replies(&[BOUND, DONE, READY].concat()), "2 C(DO) Z(I)");
    }
    // A request that drops the unnamed statement drops it for the client too.
    assert_eq!(wire.asks(&say().query("row y")), "Q");
    assert_eq!(wire.replies(&[DONE, READY].concat()), "C(DO) Z(I)");
    assert_eq!(wire.asks(&say().run("").sync()), "B E S");
}

// --- lost statements, with replies written by hand ---

/// A client and a server whose messages are written by hand.
pub(crate) struct Wire {
    pub(crate) client: Client,
    pub(crate) server: Server,
    registry: Registry,
    proven: Arc<Proven>,
    pub(crate) rules: Rules,
    /// Bytes that the client has sent and the session has not consumed.
    input: Vec<u8>,
    /// Bytes that the server got last.
    pub(crate) sent: Vec<u8>,
}

impl Wire {
    pub(crate) fn new() -> Self {
        let server = new_server();
        Self {
            client: Client::new(Arc::default(), Arc::clone(server.reported())),
            server,
            registry: Registry::new(0, 1),
            proven: Arc::default(),
            rules: rules(10),
            input: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Sends bytes of the client. Returns the messages that the server gets: tags, and names of ours that are closed,
    /// prepared or used.
    pub(crate) fn asks(&mut self, what: &Say) -> String {
        let (mut buffer, mut answers) = (Vec::new(), Vec::new());
        self.input.extend_from_slice(what);
        let input = std::mem::take(&mut self.input);
        let mut out = Splice::new(&input, &mut buffer);
        let mut link = Link {
            client: &mut self.client,
            server: &mut self.server,
            registry: &mut self.registry,
            judge: &mut Judge::new(Functions::default()),
            proven: &self.proven,
            rules: self.rules,
            digests: None,
            ruling: None,
        };
        let taken = relay::requests(&mut link, &input, &mut out, &mut answers).unwrap();
        self.input = input[taken.consumed..].to_vec();
        let mut heard = Vec::new();
        self.sent = out.finish().to_vec();
        let mut rest = &self.sent[..];
        while let Some(frame) = frame(rest, Side::Frontend).unwrap() {
            let body = String::from_utf8_lossy(frame.body);
            let ours = body.find("weir_").map_or("", |at| &body[at..]);
            let name = ours.split('\0').next().unwrap_or_default();
            heard.push(format!("{}{name}", char::from(frame.header.tag)));
            rest = &rest[frame.raw.len()..];
        }
        heard.join(" ")
    }

    /// Passes on waiting or repeated messages. Returns those that the server gets.
    pub(crate) fn goes_on(&mut self) -> String {
        self.asks(&say())
    }

    pub(crate) fn replies(&mut self, bytes: &[u8]) -> String {
        let mut buffer = Vec::new();
        let mut out = Splice::new(bytes, &mut buffer);
        relay::replies(&mut self.client, &mut self.server, bytes, &mut out).unwrap();
        outline(out.finish())
    }
}

pub(crate) const PARSED: &[u8] = b"1\0\0\0\x04";
pub(crate) const BOUND: &[u8] = b"2\0\0\0\x04";
pub(crate) const CLOSED: &[u8] = b"3\0\0\0\x04";
pub(crate) const DONE: &[u8] = b"C\0\0\0\x07DO\0";
pub(crate) const READY: &[u8] = b"Z\0\0\0\x05I";

pub(crate) fn error(code: &str, text: &str, routine: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let fields = [
        (b'S', &b"ERROR"[..]),
        (b'V', b"ERROR"),
        (b'C', code.as_bytes()),
        (b'M', text.as_bytes()),
        (b'R', routine.as_bytes()),
    ];
    encode::error_response(&mut bytes, &fields).unwrap();
    [&bytes, READY].concat()
}

fn not_there(name: &str) -> Vec<u8> {
    let text = format!("prepared statement \"{name}\" does not exist");
    error("26000", &text, "FetchPreparedStatement")
}

fn changed() -> Vec<u8> {
    let text = "cached plan must not change result type";
    error("0A000", text, "RevalidateCachedQuery")
}

/// Error that the client gets in both cases.
const CHANGED: &str = "E(0A000 cached plan must not change result type) Z(I)";

/// Returns a client that has prepared two statements and used them.
fn two_prepared() -> Wire {
    let mut wire = Wire::new();
    let both = say()
        .parse("a", "do x")
        .parse("b", "do y")
        .run("a")
        .run("b")
        .sync();
    assert_eq!(wire.asks(&both), "Pweir_1 Pweir_2 Bweir_1 E Bweir_2 E S");
    wire.replies(&[PARSED, PARSED, BOUND, DONE, BOUND, DONE, READY].concat());
    wire
}

#[test]
fn cor_16_a_change_of_the_result_is_told_as_long_as_it_lasts() {
    let mut wire = two_prepared();
    let run = say().run("a").sync();
    for _ in 0..2 {
        assert_eq!(wire.asks(&run), "Bweir_1 E S");
        assert_eq!(wire.replies(&changed()), CHANGED);
    }
    assert_eq!(wire.asks(&run), "Bweir_1 E S");
    assert_eq!(wire.replies(&[BOUND, DONE, READY].concat()), "2 C(DO) Z(I)");
}

#[test]
fn other_things_that_are_not_supported_leave_the_statement_alone() {
    let mut wire = two_prepared();
    wire.asks(&say().run("a").sync());
    wire.replies(&error("0A000", "cannot do that", "ExecutorStart"));
    assert_eq!(wire.asks(&say().run("a").sync()), "Bweir_1 E S");
}

#[test]
fn cor_16_what_a_server_has_lost_in_silence_is_prepared_again() {
    let mut wire = two_prepared();
    wire.asks(&say().run("a").sync());
    // The client has not caused this, and gets no error.
    assert_eq!(wire.replies(&not_there("weir_1")), "");
    assert!(wire.server.has_to_repeat() && !wire.server.is_free());
    // The other statement may be gone too.
    let asked = wire.asks(&say().run("b").sync());
    let one = asked.replace("Cweir_2 Cweir_1", "Cweir_1 Cweir_2");
    assert_eq!(
        one,
        "Cweir_1 Cweir_2 Pweir_1 Bweir_1 E S Cweir_2 Pweir_2 Bweir_2 E S"
    );
    let first = [CLOSED, CLOSED, PARSED, BOUND, DONE, READY].concat();
    assert_eq!(wire.replies(&first), "2 C(DO) Z(I)");
    let second = [CLOSED, PARSED, BOUND, DONE, READY].concat();
    assert_eq!(wire.replies(&second), "2 C(DO) Z(I)");
    assert!(wire.server.is_free());
    assert_eq!(
        wire.asks(&say().run("b").run("a").sync()),
        "Bweir_2 E Bweir_1 E S"
    );
}

#[test]
fn cor_16_a_loss_is_not_forgotten_by_a_batch_that_fails() {
    let mut wire = two_prepared();
    wire.asks(&say().run("a").sync());
    wire.replies(&not_there("weir_1"));
    wire.goes_on();
    // The server refuses again, and the client gets that error.
    let heard = wire.replies(&[CLOSED, CLOSED, &error("53100", "disk full", "mdextend")].concat());
    assert_eq!(heard, "E(53100 disk full) Z(I)");
    let asked = wire.asks(&say().run("b").sync());
    assert_eq!(asked, "Pweir_2 Bweir_2 E S");
}

// --- batches that are sent again ---

#[test]
fn cor_16_a_new_parse_never_meets_an_old_copy() {
    let ways = [
        say().run("c").sync(),
        say().describe_statement("c").sync(),
        say()
            .bind("p", "c")
            .describe_portal("p")
            .execute("p", 0)
            .sync(),
    ];
    for way in ways {
        let mut wire = two_prepared();
        let asked = wire.asks(&say().parse("c", "do x").raw(&way));
        assert!(asked.starts_with("Cweir_1 Pweir_1 "), "{asked}");
    }
}

#[test]
fn a_batch_without_its_sync_is_said_again_behind_ours() {
    let mut wire = two_prepared();
    let batch = say().run("a").flush();
    assert_eq!(wire.asks(&batch), "Bweir_1 E H");
    let failed = not_there("weir_1");
    assert_eq!(wire.replies(&failed[..failed.len() - READY.len()]), "");
    let again = wire.asks(&say().sync());
    let one = again.replace("Cweir_2 Cweir_1", "Cweir_1 Cweir_2");
    assert_eq!(one, "S Cweir_1 Cweir_2 Pweir_1 Bweir_1 E H S");
    let replies = [READY, CLOSED, CLOSED, PARSED, BOUND, DONE];
    assert_eq!(wire.replies(&replies.concat()), "2 C(DO)");
    assert_eq!(wire.replies(READY), "Z(I)");
    assert!(wire.server.is_free());
}

#[test]
fn a_batch_that_did_something_is_not_said_again() {
    let text = "E(26000 prepared statement \"b\" does not exist) Z(I)";
    let mut wire = two_prepared();
    wire.asks(&say().run("a").run("b").sync());
    let heard = wire.replies(&[BOUND, DONE, &not_there("weir_2")].concat());
    assert_eq!(heard, format!("2 C(DO) {text}"));
    // Inside a transaction it is not repeated either.
    let mut wire = two_prepared();
    wire.asks(&say().query("begin"));
    wire.replies(b"C\0\0\0\x0aBEGIN\0Z\0\0\0\x05T");
    wire.asks(&say().run("b").sync());
    assert_eq!(wire.replies(&not_there("weir_2")), text);
    // Nor is it repeated if more requests are in flight.
    let mut wire = two_prepared();
    wire.asks(&say().run("b").sync().query("x"));
    assert_eq!(wire.replies(&not_there("weir_2")), text);
    assert!(!wire.server.has_to_repeat());
}

#[test]
fn an_old_copy_is_found_behind_an_unnamed_statement_too() {
    let mut wire = Wire::new();
    wire.rules.prepare_unnamed = 1;
    let batch = || say().parse("", "do x").run("").sync();
    for replies in [
        [PARSED, BOUND, DONE, READY].concat(),
        [PARSED, PARSED, BOUND, DONE, READY].concat(),
    ] {
        wire.asks(&batch());
        wire.replies(&replies);
    }
    let old = wire.asks(&batch());
    let name = old.split(' ').next().unwrap().strip_prefix('B').unwrap();
    assert_eq!(wire.replies(&changed()), "");
    // The unnamed statement is the client's own again.
    assert_eq!(wire.goes_on(), "P B E S", "{name}");
    let replies = [PARSED, BOUND, DONE, READY].concat();
    assert_eq!(wire.replies(&replies), "2 C(DO) Z(I)");
}

#[test]
fn who_leaves_has_nothing_said_again() {
    let mut wire = two_prepared();
    wire.asks(&say().run("a").sync());
    wire.replies(&not_there("weir_1"));
    let mut out = Vec::new();
    wire.server.abandon(&wire.client, &mut out);
    assert!(!wire.server.has_to_repeat());
    assert!(wire.server.is_free(), "nothing is left to be done");
}

#[test]
fn a_name_that_is_taken_is_refused_whatever_has_become_of_its_statement() {
    let mut wire = two_prepared();
    // The statement with that name is not sent to the server again: it might now fail with another error.
    let parse = say().parse("a", "select 'another'").sync();
    assert_eq!(wire.asks(&parse), "Cweir_taken Pweir_taken Pweir_taken S");
}

// --- DEALLOCATE by the extended protocol ---

#[test]
fn cor_14_deallocate_by_the_extended_protocol_takes_the_name_and_nothing_else() {
    let mut wire = two_prepared();
    let deallocate = say()
        .parse("", "DEALLOCATE \"a\"")
        .run("")
        .describe_portal("")
        .sync();
    assert_eq!(
        wire.asks(&deallocate),
        "Pweir_deallocate B Cweir_deallocate Pweir_deallocate E D S"
    );
    let done = b"C\0\0\0\x0fDEALLOCATE\0";
    let no_data = b"n\0\0\0\x04";
    let replies = [PARSED, BOUND, CLOSED, PARSED, done, no_data, READY];
    assert_eq!(wire.replies(&replies.concat()), "1 2 C(DEALLOCATE) n Z(I)");
    // The server still has the statement, for other clients.
    assert_eq!(
        wire.asks(&say().run("a").run("b").sync()),
        "B E Bweir_2 E S"
    );
    wire.replies(&error(
        "26000",
        "prepared statement \"a\" does not exist",
        "F",
    ));
    assert_eq!(
        wire.asks(&say().parse("c", "do x").run("c").sync()),
        "Cweir_1 Pweir_1 Bweir_1 E S"
    );
}

#[test]
fn cor_14_a_second_deallocate_fails_in_the_clients_words() {
    let mut wire = two_prepared();
    let twice = say().parse("", "deallocate a").run("").run("").sync();
    assert_eq!(
        wire.asks(&twice),
        "Pweir_deallocate B Cweir_deallocate Pweir_deallocate E B E S"
    );
    let done = b"C\0\0\0\x0fDEALLOCATE\0";
    let text = "prepared statement \"weir_deallocate\" does not exist";
    let failed = error("26000", text, "FetchPreparedStatement");
    let heard = wire.replies(&[PARSED, BOUND, CLOSED, PARSED, done, BOUND, &failed].concat());
    let theirs = "26000 prepared statement \"a\" does not exist";
    assert_eq!(heard, format!("1 2 C(DEALLOCATE) 2 E({theirs}) Z(I)"));
}

#[test]
fn a_wrong_number_of_parameters_is_told_under_the_clients_name() {
    let mut wire = two_prepared();
    assert_eq!(wire.asks(&say().run("a").sync()), "Bweir_1 E S");
    let told = |name| {
        format!("bind message supplies 0 parameters, but prepared statement \"{name}\" requires 1")
    };
    let heard = wire.replies(&error("08P01", &told("weir_1"), "exec_bind_message"));
    assert_eq!(heard, format!("E(08P01 {}) Z(I)", told("a")));
}

#[test]
fn cor_14_a_deallocate_that_is_skipped_takes_nothing() {
    let mut wire = two_prepared();
    let deallocate = say().parse("", "deallocate a").bind("", "");
    wire.asks(&deallocate.bind("", "x").execute("", 0).sync());
    let failed = error("26000", "prepared statement \"x\" does not exist", "F");
    wire.replies(&[PARSED, BOUND, &failed].concat());
    assert_eq!(wire.asks(&say().run("a").sync()), "Bweir_1 E S");
}

#[test]
fn cor_14_the_name_can_be_given_again_in_the_same_batch() {
    let mut wire = two_prepared();
    let again = say().parse("", "deallocate a").run("").parse("a", "do z");
    let asked = wire.asks(&again.run("a").sync());
    assert_eq!(
        asked,
        "Pweir_deallocate B Cweir_deallocate Pweir_deallocate E Pweir_4 Bweir_4 E S"
    );
}

#[test]
fn cor_14_a_named_statement_deallocates_too() {
    let mut wire = two_prepared();
    wire.asks(&say().parse("d", "deallocate a").sync());
    wire.replies(&[PARSED, READY].concat());
    let run = say().bind("p", "d").execute("p", 0).sync();
    // Another statement, of ours, takes its place.
    assert_eq!(
        wire.asks(&run),
        "Pweir_4 Bweir_4 Cweir_deallocate Pweir_deallocate E S"
    );
    let done = b"C\0\0\0\x0fDEALLOCATE\0";
    let replies = [PARSED, BOUND, CLOSED, PARSED, done, READY];
    assert_eq!(wire.replies(&replies.concat()), "2 C(DEALLOCATE) Z(I)");
    // Now there is nothing to deallocate, and the server can report that.
    assert_eq!(wire.asks(&run), "Bweir_3 E S");
}

#[test]
fn cor_14_a_name_that_is_not_of_the_protocol_is_deallocated_by_the_server() {
    let mut wire = two_prepared();
    let other = say().parse("", "deallocate x").run("").sync();
    assert_eq!(wire.asks(&other), "P B E S");
}

// --- columns that clients know ---

const PARAMETERS: &[u8] = b"t\0\0\0\x06\0\0";

/// Returns a RowDescription of one column of this type.
pub(crate) fn columns(type_oid: u32) -> Vec<u8> {
    let column = encode::Column {
        name: "a",
        type_oid,
        type_len: 4,
    };
    let mut message = Vec::new();
    encode::row_description(&mut message, &[column]).unwrap();
    message
}

/// Returns a client that has prepared a statement and knows its columns, on another server than its present one.
fn described() -> Wire {
    let mut wire = Wire::new();
    wire.asks(&say().parse("a", "row x").describe_statement("a").sync());
    wire.replies(&[PARSED, PARAMETERS, &columns(23), READY].concat());
    wire.server = new_server();
    wire
}

#[test]
fn another_server_has_to_return_what_the_client_was_told() {
    let mut wire = described();
    // The rest waits for the reply.
    assert_eq!(wire.asks(&say().run("a").sync()), "Pweir_1 Dweir_1 H");
    let replies = [PARSED, PARAMETERS, &columns(23)];
    for reply in replies {
        assert_eq!(wire.goes_on(), "");
        assert_eq!(wire.replies(reply), "");
    }
    assert_eq!(wire.goes_on(), "Bweir_1 E S");
    assert_eq!(wire.replies(&[BOUND, DONE, READY].concat()), "2 C(DO) Z(I)");
    assert_eq!(wire.asks(&say().run("a").sync()), "Bweir_1 E S");
}

#[test]
fn cor_16_no_row_is_read_by_an_old_description() {
    let mut wire = described();
    assert_eq!(wire.asks(&say().run("a").sync()), "Pweir_1 Dweir_1 H");
    wire.replies(&[PARSED, PARAMETERS, &columns(25)].concat());
    assert_eq!(wire.goes_on(), "Bweir_1 Bweir_outdated E S");
    assert_eq!(wire.replies(BOUND), "");
    assert_eq!(wire.replies(&not_there("weir_outdated")), CHANGED);
    // The client gets this error until the columns are the old ones again.
    for _ in 0..2 {
        let again = wire.asks(&say().run("a").sync());
        assert_eq!(again, "Cweir_1 Pweir_1 Dweir_1 H");
        wire.replies(&[CLOSED, PARSED, PARAMETERS, &columns(25)].concat());
        assert_eq!(wire.goes_on(), "Bweir_1 Bweir_outdated E S");
        assert_eq!(wire.replies(BOUND), "");
        assert_eq!(wire.replies(&not_there("weir_outdated")), CHANGED);
    }
    // PostgreSQL reads the parameters first.
    let text = "invalid input syntax for type integer: \"x\"";
    wire.asks(&say().run("a").sync());
    wire.replies(&[CLOSED, PARSED, PARAMETERS, &columns(25)].concat());
    assert_eq!(wire.goes_on(), "Bweir_1 Bweir_outdated E S");
    let failed = error("22P02", text, "pg_strtoint32");
    assert_eq!(wire.replies(&failed), format!("E(22P02 {text}) Z(I)"));
    wire.asks(&say().run("a").sync());
    wire.replies(&[CLOSED, PARSED, PARAMETERS, &columns(23)].concat());
    assert_eq!(wire.goes_on(), "Bweir_1 E S");
}

#[test]
fn what_cannot_be_prepared_any_more_fails_for_the_reason_that_the_server_gives() {
    let mut wire = described();
    wire.asks(&say().run("a").sync());
    let text = "relation \"x\" does not exist";
    let failed = error("42P01", text, "parserOpenTable");
    let failed = &failed[..failed.len() - READY.len()];
    assert_eq!(wire.replies(failed), format!("E(42P01 {text})"));
    // The server skips the rest.
    assert_eq!(wire.goes_on(), "B E S");
    assert_eq!(wire.replies(READY), "Z(I)");
    assert!(wire.server.is_free());
}

#[test]
fn cor_16_who_was_told_something_else_hears_of_the_change_and_others_do_not() {
    let mut wire = described();
    // Another client of the same worker prepares the text after the change, and gets the new columns.
    let first = std::mem::take(&mut wire.client);
    wire.asks(&say().parse("b", "row x").describe_statement("b").sync());
    let changed = [PARAMETERS, &columns(25)].concat();
    let heard = wire.replies(&[PARSED, &changed, READY].concat());
    assert_eq!(heard, "1 t T Z(I)");
    let second = std::mem::replace(&mut wire.client, first);
    assert_eq!(
        wire.asks(&say().run("a").sync()),
        "Cweir_1 Pweir_1 Dweir_1 H"
    );
    wire.replies(&[CLOSED, PARSED, &changed].concat());
    assert_eq!(wire.goes_on(), "Bweir_1 Bweir_outdated E S");
    assert_eq!(wire.replies(BOUND), "");
    assert_eq!(wire.replies(&not_there("weir_outdated")), CHANGED);
    wire.client = second;
    assert_eq!(wire.asks(&say().run("b").sync()), "Pweir_2 Dweir_2 H");
    wire.replies(&[PARSED, &changed].concat());
    assert_eq!(wire.goes_on(), "Bweir_2 E S");
}
