//! Tests of the hub: which client gets which notification, and what is sent on the listening connection.

use weir_testkit::reading::messages;
use weir_wire::backend::TransactionStatus;

use super::*;

mod model;

/// SQL in front of a LISTEN until lease marks are heard.
const MARKS: &str = "LISTEN \"weir_lease\";";

fn seat(id: u64) -> Seat {
    Seat {
        worker: usize::try_from(id % 2).unwrap(),
        client: id,
    }
}

fn channel(name: &str) -> Channel {
    name.as_bytes().into()
}

fn listen(name: &str) -> Request {
    Request::Listen(channel(name))
}

fn unlisten(name: &str) -> Request {
    Request::Unlisten(channel(name))
}

/// Returns the texts of all queries that the hub sends, including those about lease marks.
fn all_sent(hub: &mut Hub) -> Vec<String> {
    let output = hub.take_output();
    let mut rest = output.as_slice();
    let mut found = Vec::new();
    while let Ok(Some(frame)) = frame(rest, Side::Frontend) {
        let text = frame.body.strip_suffix(b"\0").unwrap();
        found.push(String::from_utf8(text.to_vec()).unwrap());
        rest = &rest[frame.raw.len()..];
    }
    assert!(rest.is_empty());
    found
}

/// Returns the texts without those about lease marks, which are treated as answered.
fn sent(hub: &mut Hub) -> Vec<String> {
    hub.asked
        .retain(|asked| !matches!(asked.what, What::NoLeases));
    let texts = all_sent(hub).into_iter();
    let texts = texts.filter(|text| text != "UNLISTEN \"weir_lease\"");
    texts
        .map(|text| text.trim_start_matches(MARKS).to_owned())
        .collect()
}

fn put(write: impl FnOnce(&mut Vec<u8>) -> Result<(), encode::EncodeError>) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    out
}

fn answer(tag: &str) -> Vec<u8> {
    let complete = put(|out| encode::command_complete(out, tag.as_bytes()));
    [complete, ready()].concat()
}

fn ready() -> Vec<u8> {
    put(|out| encode::ready_for_query(out, TransactionStatus::Idle))
}

fn error(severity: &str) -> Vec<u8> {
    let fields = [
        (b'S', severity.as_bytes()),
        (b'V', severity.as_bytes()),
        (b'M', b"no"),
    ];
    put(|out| encode::error_response(out, &fields))
}

fn notification(name: &str, payload: &str) -> Vec<u8> {
    let body = [
        &7_u32.to_be_bytes(),
        name.as_bytes(),
        b"\0",
        payload.as_bytes(),
        b"\0",
    ]
    .concat();
    let len = u32::try_from(body.len() + 4).unwrap();
    [b"A".as_slice(), &len.to_be_bytes(), &body].concat()
}

/// Returns events in words: `done 1`, `refused 1`, `1,3<-payload`.
fn told(hub: &mut Hub) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(event) = hub.poll() {
        found.push(match event {
            Event::Done(seat) => format!("done {}", seat.client),
            Event::Refused(seat, _) => format!("refused {}", seat.client),
            Event::Flushed(seat) => format!("flushed {}", seat.client),
            Event::Leased(seat, pid) => format!("leased {} {pid}", seat.client),
            Event::Deliver {
                worker,
                message,
                to,
            } => {
                assert!(to.iter().all(|seat| seat.worker == worker));
                let (messages, rest) = messages(&message);
                assert!(rest.is_empty() && messages.len() == 1);
                let payload = NotificationResponse::parse(messages[0].body).unwrap();
                let ids: Vec<_> = to.iter().map(|seat| seat.client.to_string()).collect();
                format!(
                    "{}<-{}",
                    ids.join(","),
                    String::from_utf8_lossy(payload.payload)
                )
            }
        });
    }
    found
}

fn hear(hub: &mut Hub, bytes: &[u8]) -> Vec<String> {
    assert_eq!(hub.handle(bytes), Ok(bytes.len()));
    told(hub)
}

/// Creates a connected hub on which these clients listen to `a`.
fn hub(ids: &[u64]) -> Hub {
    let mut hub = Hub::default();
    for id in ids {
        hub.request(seat(*id), listen("a"));
    }
    hub.connected();
    let asked = sent(&mut hub).len();
    for _ in 0..asked {
        hear(&mut hub, &answer("LISTEN"));
    }
    hub
}

#[test]
fn the_first_listener_asks_for_a_connection_and_is_answered_when_the_server_has() {
    let mut hub = Hub::default();
    hub.request(seat(1), listen("a \"b"));
    assert!(hub.wants_connection() && sent(&mut hub).is_empty());
    hub.connected();
    assert_eq!(sent(&mut hub), ["LISTEN \"a \"\"b\""]);
    assert!(told(&mut hub).is_empty() && !hub.wants_connection());
    assert_eq!(hear(&mut hub, &answer("LISTEN")), ["done 1"]);
    let heard = hear(&mut hub, &notification("a \"b", "x"));
    assert_eq!(heard, ["1<-x"]);
}

#[test]
fn a_later_listener_hears_nothing_that_was_said_before_it_asked() {
    let mut hub = hub(&[1]);
    hub.request(seat(3), listen("a"));
    assert_eq!(sent(&mut hub), ["LISTEN \"a\""]);
    // The server sends what it has before it answers.
    assert_eq!(hear(&mut hub, &notification("a", "old")), ["1<-old"]);
    assert_eq!(hear(&mut hub, &answer("LISTEN")), ["done 3"]);
    assert_eq!(hear(&mut hub, &notification("a", "new")), ["1,3<-new"]);
}

#[test]
fn one_that_stops_hears_what_was_said_before_it_asked_to_stop() {
    let mut hub = hub(&[1, 3]);
    hub.request(seat(3), unlisten("a"));
    assert_eq!(sent(&mut hub), [""]);
    assert_eq!(hear(&mut hub, &notification("a", "old")), ["1,3<-old"]);
    assert_eq!(hear(&mut hub, &answer("")), ["done 3"]);
    assert!(sent(&mut hub).is_empty(), "another one listens");
    assert_eq!(hear(&mut hub, &notification("a", "new")), ["1<-new"]);
    hub.request(seat(1), Request::UnlistenAll);
    sent(&mut hub);
    assert_eq!(hear(&mut hub, &answer("")), ["done 1"]);
    assert_eq!(sent(&mut hub), ["UNLISTEN \"a\""]);
    assert!(!hub.is_idle());
    hear(&mut hub, &answer("UNLISTEN"));
    assert!(hub.is_idle() && hub.give_back());
}

#[test]
fn what_changes_nothing_is_answered_at_once() {
    let mut hub = hub(&[1]);
    hub.request(seat(1), listen("a"));
    hub.request(seat(1), unlisten("b"));
    hub.request(seat(3), unlisten("a"));
    hub.request(seat(3), Request::UnlistenAll);
    assert_eq!(told(&mut hub), ["done 1", "done 1", "done 3", "done 3"]);
    assert!(sent(&mut hub).is_empty());
}

#[test]
fn a_refused_listen_is_the_askers_error_and_nobody_elses() {
    let mut hub = hub(&[1]);
    hub.request(seat(3), listen("b"));
    hub.request(seat(5), listen("c"));
    let heard = hear(
        &mut hub,
        &[error("ERROR"), ready(), answer("LISTEN")].concat(),
    );
    assert_eq!(heard, ["refused 3", "done 5"]);
    assert_eq!((hub.channel_count(), hub.seat_count()), (2, 2));
    assert_eq!(sent(&mut hub), ["LISTEN \"b\"", "LISTEN \"c\""]);
}

#[test]
fn one_that_leaves_hears_nothing_more_whatever_is_on_its_way() {
    let mut hub = hub(&[1]);
    hub.request(seat(3), listen("b"));
    hub.leave(seat(3));
    hub.leave(seat(1));
    hub.leave(seat(99));
    assert_eq!(sent(&mut hub), ["LISTEN \"b\"", "UNLISTEN \"a\""]);
    assert!(hear(&mut hub, &notification("a", "x")).is_empty());
    hear(&mut hub, &answer("LISTEN"));
    assert_eq!(sent(&mut hub), ["UNLISTEN \"b\""]);
    hear(&mut hub, &[answer("UNLISTEN"), answer("UNLISTEN")].concat());
    assert!(hub.is_idle());
}

#[test]
fn one_that_leaves_before_there_is_a_connection_leaves_nothing() {
    let mut hub = Hub::default();
    hub.request(seat(1), listen("a"));
    hub.leave(seat(1));
    assert!(hub.is_idle() && !hub.wants_connection());
}

#[test]
fn a_channel_is_listened_to_again_behind_its_end() {
    let mut hub = hub(&[1]);
    hub.leave(seat(1));
    hub.request(seat(3), listen("a"));
    assert_eq!(sent(&mut hub), ["UNLISTEN \"a\"", "LISTEN \"a\""]);
    let heard = hear(&mut hub, &[answer("UNLISTEN"), answer("LISTEN")].concat());
    assert_eq!(heard, ["done 3"]);
    assert_eq!(hear(&mut hub, &notification("a", "x")), ["3<-x"]);
}

#[test]
fn a_lost_connection_names_everybody_who_listens_or_waits_once() {
    let mut hub = hub(&[1, 2]);
    hub.request(seat(2), listen("b"));
    hub.request(seat(3), listen("b"));
    hear(&mut hub, &error("FATAL"));
    assert!(hub.take_last_words().is_some());
    assert_eq!(hub.disconnected(), [seat(2), seat(1), seat(3)]);
    assert!(hub.is_idle());
    assert_eq!((hub.channel_count(), hub.seat_count()), (0, 0));
    // A new start.
    hub.request(seat(1), listen("a"));
    hub.connected();
    assert_eq!(sent(&mut hub), ["LISTEN \"a\""]);
    assert_eq!(hear(&mut hub, &answer("LISTEN")), ["done 1"]);
}

/// A client that listens without them would take its own notifications for those of others.
#[test]
fn marks_of_leases_are_asked_for_until_a_listen_succeeds() {
    let mut hub = Hub::default();
    hub.request(seat(1), listen("a"));
    hub.request(seat(3), listen("b"));
    hub.connected();
    let both = ["a", "b"].map(|name| format!("{MARKS}LISTEN \"{name}\""));
    assert_eq!(all_sent(&mut hub), both);
    let refusal = [error("ERROR"), ready()].concat();
    assert_eq!(hear(&mut hub, &refusal), ["refused 1"]);
    hub.request(seat(1), listen("a"));
    assert_eq!(all_sent(&mut hub), [format!("{MARKS}LISTEN \"a\"")]);
    assert_eq!(hear(&mut hub, &answer("LISTEN")), ["done 3"]);
    hub.request(seat(5), listen("c"));
    assert_eq!(all_sent(&mut hub), ["LISTEN \"c\""]);
}

#[test]
fn marks_of_leases_are_heard_as_long_as_anybody_listens() {
    let mut hub = Hub::default();
    hub.request(seat(1), listen("a"));
    hub.connected();
    let with_marks = format!("{MARKS}LISTEN \"a\"");
    assert_eq!(all_sent(&mut hub), [with_marks]);
    assert_eq!(hear(&mut hub, &answer("LISTEN")), ["done 1"]);
    hub.request(seat(3), listen("b"));
    assert_eq!(all_sent(&mut hub), ["LISTEN \"b\""]);
    assert_eq!(hear(&mut hub, &answer("LISTEN")), ["done 3"]);
    let said = [
        notification("a", "old"),
        notification("weir_lease", "1.3"),
        notification("weir_lease", "nonsense"),
        notification("a", "own"),
    ];
    let heard = hear(&mut hub, &said.concat());
    assert_eq!(heard, ["1<-old", "leased 3 7", "1<-own"]);
    hub.leave(seat(1));
    assert_eq!(all_sent(&mut hub), ["UNLISTEN \"a\""]);
    hub.leave(seat(3));
    let rest = ["UNLISTEN \"b\"", "UNLISTEN \"weir_lease\""];
    assert_eq!(all_sent(&mut hub), rest);
    assert!(!hub.is_idle());
    hear(&mut hub, &answer("UNLISTEN").repeat(3));
    assert!(hub.is_idle() && hub.give_back());
}

#[test]
fn what_was_said_before_a_flush_is_told_before_its_answer() {
    let mut hub = hub(&[1]);
    hub.flush(seat(1));
    hub.flush(seat(3));
    assert_eq!(sent(&mut hub), ["", ""]);
    let said = [notification("a", "x"), answer("")].concat();
    assert_eq!(hear(&mut hub, &said), ["1<-x", "flushed 1"]);
    // Without the connection, nothing is left.
    assert_eq!(hub.disconnected(), [seat(1)]);
    assert_eq!(told(&mut hub), ["flushed 3"]);
    hub.flush(seat(1));
    assert_eq!(told(&mut hub), ["flushed 1"]);
}

#[test]
fn a_connection_that_does_not_answer_is_found_out() {
    let mut hub = hub(&[1]);
    assert!(hub.check(), "asks");
    assert_eq!(sent(&mut hub), [""]);
    hear(&mut hub, &answer(""));
    assert!(hub.check() && !hub.check());
}

#[test]
fn what_has_no_place_is_a_fault() {
    for bytes in [
        ready(),
        put(encode::authentication_ok),
        put(|out| encode::data_row(out, &[None])),
        b"A\0\0\0\x08\0\0\0\0".to_vec(),
    ] {
        assert!(hub(&[1]).handle(&bytes).is_err(), "{bytes:?}");
    }
    let in_transaction = put(|out| encode::ready_for_query(out, TransactionStatus::InTransaction));
    let mut hub = hub(&[1]);
    hub.check();
    assert!(hub.handle(&in_transaction).is_err());
}

#[test]
fn a_connection_that_refused_an_unlisten_is_not_given_back() {
    let mut hub = hub(&[1]);
    hub.leave(seat(1));
    assert_eq!(sent(&mut hub), ["UNLISTEN \"a\""]);
    let fields = [(b'S', &b"ERROR"[..]), (b'V', b"ERROR"), (b'C', b"57014")];
    let mut refusal = put(|out| encode::error_response(out, &fields));
    refusal.extend(put(|out| {
        encode::ready_for_query(out, TransactionStatus::Idle)
    }));
    hear(&mut hub, &refusal);
    assert!(hub.is_idle() && !hub.give_back());
}

#[test]
fn a_changed_session_is_not_given_back_as_it_was() {
    let mut hub = hub(&[1]);
    hear(
        &mut hub,
        &put(|out| encode::parameter_status(out, b"a", b"b")),
    );
    hub.leave(seat(1));
    sent(&mut hub);
    hear(&mut hub, &answer("UNLISTEN"));
    assert!(hub.is_idle() && !hub.give_back());
}
