//! Tests of server messages that are passed on while they arrive: the client gets every byte of them, and nothing else
//! meanwhile.

use std::sync::Arc;

use weir_session::client::Client;
use weir_session::relay::{self, Link, STREAM_MIN};
use weir_session::server::Server;
use weir_session::splice::Splice;
use weir_session::statement::Registry;
use weir_sql::{Functions, Judge};
use weir_testkit::say::say;
use weir_wire::backend::TransactionStatus;
use weir_wire::encode;

use crate::pooler::{new_server, rules};

/// Returns a client that has sent a query to its server.
fn asked() -> (Client, Server) {
    let (mut client, mut server) = (Client::default(), new_server());
    let input = say().query("row x");
    let (mut buffer, mut answers) = (Vec::new(), Vec::new());
    let mut link = Link {
        client: &mut client,
        server: &mut server,
        registry: &mut Registry::new(0, 1),
        judge: &mut Judge::new(Functions::default()),
        proven: &Arc::default(),
        rules: rules(1),
        digests: None,
        ruling: None,
    };
    let mut out = Splice::new(&input, &mut buffer);
    relay::requests(&mut link, &input, &mut out, &mut answers).unwrap();
    (client, server)
}

/// Delivers a part of the reply. Returns what the client gets of it.
fn arrives(client: &mut Client, server: &mut Server, bytes: &[u8]) -> Vec<u8> {
    let mut buffer = Vec::new();
    let mut out = Splice::new(bytes, &mut buffer);
    let replied = relay::replies(client, server, bytes, &mut out).unwrap();
    assert_eq!(replied.consumed, bytes.len());
    out.finish().to_vec()
}

fn ready(answer: &mut Vec<u8>) {
    encode::command_complete(answer, b"SELECT 1").unwrap();
    encode::ready_for_query(answer, TransactionStatus::Idle).unwrap();
}

fn long_notice() -> Vec<u8> {
    let mut notice = Vec::new();
    let text = vec![b'n'; 2 * STREAM_MIN];
    encode::notice_response(&mut notice, &[(b'S', b"NOTICE"), (b'M', &text)]).unwrap();
    notice
}

#[test]
fn a_long_row_reaches_the_client_whole_in_parts_of_any_size() {
    let mut answer = Vec::new();
    let value: Vec<u8> = (0..=u8::MAX).cycle().take(3 * STREAM_MIN).collect();
    encode::data_row(&mut answer, &[Some(&value)]).unwrap();
    let row = answer.len();
    ready(&mut answer);
    for size in [100, 4096, STREAM_MIN, STREAM_MIN + 7, row - 1, row] {
        let (mut client, mut server) = asked();
        let (mut got, mut sent) = (Vec::new(), 0);
        let (parts, end) = answer.split_at(row);
        for part in parts.chunks(size) {
            got.extend(arrives(&mut client, &mut server, part));
            sent += part.len();
            assert_eq!(got.len(), sent, "nothing is held back, in parts of {size}");
            assert!(!server.is_free(), "after {sent} bytes in parts of {size}");
        }
        got.extend(arrives(&mut client, &mut server, end));
        assert!(got == answer, "in parts of {size}");
        assert!(server.is_free());
    }
}

#[test]
fn a_server_in_the_middle_of_its_long_message_is_not_free() {
    let mut answer = Vec::new();
    ready(&mut answer);
    answer.extend(long_notice());
    let (begin, rest) = answer.split_at(answer.len() - 10);
    let (mut client, mut server) = asked();
    let mut got = arrives(&mut client, &mut server, begin);
    assert!(!server.is_free() && server.is_mid_message());
    got.extend(arrives(&mut client, &mut server, rest));
    assert!(server.is_free() && !server.is_mid_message());
    assert!(got == answer);
}

#[test]
fn a_long_row_of_an_answer_to_us_reaches_nobody_in_parts_of_any_size() {
    let mut answer = Vec::new();
    let value = vec![b'o'; 3 * STREAM_MIN];
    encode::data_row(&mut answer, &[Some(&value)]).unwrap();
    let row = answer.len();
    ready(&mut answer);
    for size in [100, STREAM_MIN + 7, row - 1] {
        let mut server = new_server();
        let mut client = Client::new(Arc::default(), Arc::clone(server.reported()));
        let mut sent = Vec::new();
        server.ask("row of our own", &mut sent).unwrap();
        let (parts, end) = answer.split_at(row);
        for part in parts.chunks(size).chain([end]) {
            assert!(!server.is_free(), "in parts of {size}");
            assert_eq!(
                arrives(&mut client, &mut server, part),
                b"",
                "in parts of {size}"
            );
        }
        assert!(server.is_free(), "in parts of {size}");
    }
}
