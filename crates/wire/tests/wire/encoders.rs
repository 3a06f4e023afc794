//! Tests of encoders: exact bytes, and refused input.

use weir_wire::backend::TransactionStatus;
use weir_wire::encode::{self, Column, EncodeError, ErrorReport, Format, Severity, checked_len};
use weir_wire::frame::{FRONTEND_LARGE_MAX, Side, header};
use weir_wire::frontend::Kind;
use weir_wire::sqlstate::SqlState;
use weir_wire::startup::Version;

use crate::hex;

fn check(encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>, expect: &str) {
    let mut buf = b"before".to_vec();
    encode(&mut buf).unwrap();
    assert_eq!(buf[..6], b"before"[..], "an encoder appends");
    let expect = hex(expect);
    assert_eq!(
        buf[6..],
        expect[..],
        "{} / {}",
        buf[6..].escape_ascii(),
        expect.escape_ascii()
    );
}

fn check_refused(
    encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
    expect: EncodeError,
) {
    let mut buf = b"before".to_vec();
    assert_eq!(encode(&mut buf), Err(expect));
    assert_eq!(
        buf, b"before",
        "a failed encoder leaves the buffer as it was"
    );
}

#[test]
fn frontend_bytes() {
    check(encode::ssl_request, "00000008 04d2 162f");
    check(encode::gssenc_request, "00000008 04d2 1630");
    check(
        |buf| encode::startup(buf, Version::V3_2, &[(b"user", b"joe")]),
        "00000012 0003 0002 'user' 00 'joe' 00 00",
    );
    check(
        |buf| encode::query(buf, b"select 1"),
        "'Q' 0000000d 'select 1' 00",
    );
    check(
        |buf| encode::parse(buf, b"s", b"select $1", &hex("0001 00000017")),
        "'P' 00000016  's' 00  'select $1' 00  0001 00000017",
    );
    check(
        |buf| encode::bind_renamed(buf, b"", b"weir_1", &[0; 6]),
        "'B' 00000012  00  'weir_1' 00  0000 0000 0000",
    );
    check(
        |buf| encode::describe(buf, Kind::Statement, b"s"),
        "'D' 00000007 'S' 's' 00",
    );
    check(
        |buf| encode::close(buf, Kind::Portal, b""),
        "'C' 00000006 'P' 00",
    );
    check(
        |buf| encode::execute(buf, b"", 50),
        "'E' 00000009 00 00000032",
    );
    check(encode::sync, "'S' 00000004");
    check(encode::flush, "'H' 00000004");
    check(encode::terminate, "'X' 00000004");
    check(encode::copy_done, "'c' 00000004");
    check(|buf| encode::copy_fail(buf, b"no"), "'f' 00000007 'no' 00");
    check(|buf| encode::password(buf, b"pw"), "'p' 00000007 'pw' 00");
    check(
        |buf| encode::sasl_initial(buf, b"X", None),
        "'p' 0000000a 'X' 00 ffffffff",
    );
    check(
        |buf| encode::sasl_response(buf, b"c=biws"),
        "'p' 0000000a 'c=biws'",
    );
}

#[test]
fn backend_bytes() {
    check(encode::authentication_ok, "'R' 00000008 00000000");
    check(
        |buf| encode::authentication_md5(buf, [1, 2, 3, 4]),
        "'R' 0000000c 00000005 01020304",
    );
    check(
        |buf| encode::authentication_sasl(buf, &[b"SCRAM-SHA-256"]),
        "'R' 00000017 0000000a 'SCRAM-SHA-256' 00 00",
    );
    check(
        |buf| encode::backend_key_data(buf, 7, &[1, 2, 3, 4]),
        "'K' 0000000c 00000007 01020304",
    );
    check(
        |buf| encode::parameter_status(buf, b"a", b"b"),
        "'S' 00000008 'a' 00 'b' 00",
    );
    check(
        |buf| encode::ready_for_query(buf, TransactionStatus::Failed),
        "'Z' 00000005 'E'",
    );
    check(
        |buf| encode::command_complete(buf, b"BEGIN"),
        "'C' 0000000a 'BEGIN' 00",
    );
    check(
        |buf| encode::negotiate_protocol_version(buf, 2, &[b"_pq_.x"]),
        "'v' 00000013 0003 0002 00000001 '_pq_.x' 00",
    );
    check(
        |buf| encode::data_row(buf, &[Some(b"1"), None, Some(b"")]),
        "'D' 00000013 0003  00000001 '1'  ffffffff  00000000",
    );
    let column = Column {
        name: "n",
        type_oid: 23,
        type_len: 4,
    };
    check(
        |buf| encode::row_description(buf, &[column]),
        "'T' 0000001a 0001  'n' 00  00000000 0000  00000017 0004  ffffffff  0000",
    );
    check(
        |buf| encode::row_description_in(buf, &[column], |_| Format::Binary),
        "'T' 0000001a 0001  'n' 00  00000000 0000  00000017 0004  ffffffff  0001",
    );
    check(encode::no_parameters, "'t' 00000006 0000");
    check(
        |buf| encode::notification_response(buf, 1, b"c", b""),
        "'A' 0000000b 00000001 'c' 00 00",
    );
}

#[test]
fn an_error_report_has_severity_twice() {
    let mut report = ErrorReport::new(Severity::Fatal, SqlState::PROTOCOL_VIOLATION, "bad");
    check(
        |buf| report.encode(buf),
        "'E' 0000001f 'SFATAL' 00 'VFATAL' 00 'C08P01' 00 'Mbad' 00 00",
    );
    report.hint = Some("h");
    report.detail = Some("d");
    check(
        |buf| report.encode_notice(buf),
        "'N' 00000025 'SFATAL' 00 'VFATAL' 00 'C08P01' 00 'Mbad' 00 'Dd' 00 'Hh' 00 00",
    );
}

#[test]
fn sec_20_lengths_beyond_four_gigabytes_do_not_wrap() {
    let four_gib = 1_usize << 32;
    for parts in [
        vec![four_gib + 1],
        vec![four_gib - 4],
        vec![four_gib / 2, four_gib / 2],
        vec![usize::MAX, 1],
        vec![usize::MAX, usize::MAX],
        vec![i32::MAX as usize - 3],
    ] {
        assert_eq!(checked_len(parts.into_iter()), Err(EncodeError::TooLong));
    }
    assert_eq!(
        checked_len([i32::MAX as usize - 5, 1].into_iter()),
        Ok(i32::MAX)
    );
    assert_eq!(checked_len(std::iter::empty()), Ok(4));
}

#[test]
fn sec_20_heads_of_streamed_messages_stop_at_postgresqls_limit() {
    // Length word, "s" and its NUL.
    let fits = FRONTEND_LARGE_MAX as usize - 4 - 2;
    check(
        |buf| encode::parse_head(buf, b"s", fits),
        "'P' 3ffffffe 's' 00",
    );
    check(
        |buf| encode::bind_head(buf, b"", b"s", fits - 1),
        "'B' 3ffffffe 00 's' 00",
    );
    for len in [fits + 1, 1 << 32, (1 << 32) + 1, usize::MAX - 5, usize::MAX] {
        check_refused(
            |buf| encode::parse_head(buf, b"s", len),
            EncodeError::TooLong,
        );
        check_refused(
            |buf| encode::bind_head(buf, b"", b"s", len),
            EncodeError::TooLong,
        );
    }
}

#[test]
fn a_message_longer_than_its_reader_accepts_is_refused() {
    let long = vec![b'x'; 70_000];
    check_refused(
        |buf| encode::close(buf, Kind::Portal, &long),
        EncodeError::TooLong,
    );
    check_refused(|buf| encode::execute(buf, &long, 0), EncodeError::TooLong);
    check_refused(|buf| encode::password(buf, &long), EncodeError::TooLong);
    check_refused(|buf| encode::copy_fail(buf, &long), EncodeError::TooLong);
    check_refused(
        |buf| encode::parameter_status(buf, b"a", &vec![b'x'; 1 << 20]),
        EncodeError::TooLong,
    );
    let mut buf = Vec::new();
    // The longest name that fits: kind, name, NUL and the length word make 10,000.
    encode::describe(&mut buf, Kind::Statement, &long[..9_994]).unwrap();
    assert_eq!(header(&buf, Side::Frontend).unwrap().unwrap().len, 10_000);
    let name = &long[..9_995];
    check_refused(
        |buf| encode::describe(buf, Kind::Statement, name),
        EncodeError::TooLong,
    );
}

#[test]
fn sec_29_a_nul_in_any_string_is_refused() {
    let nul = b"a\0b";
    let refused = EncodeError::EmbeddedNul;
    check_refused(|buf| encode::query(buf, nul), refused);
    check_refused(|buf| encode::parse(buf, nul, b"", b""), refused);
    check_refused(|buf| encode::parse(buf, b"", nul, b""), refused);
    check_refused(|buf| encode::parse_head(buf, nul, 0), refused);
    check_refused(|buf| encode::bind_renamed(buf, nul, b"", b""), refused);
    check_refused(|buf| encode::bind_renamed(buf, b"", nul, b""), refused);
    check_refused(|buf| encode::bind_head(buf, b"", nul, 0), refused);
    check_refused(|buf| encode::describe(buf, Kind::Portal, nul), refused);
    check_refused(|buf| encode::close(buf, Kind::Portal, nul), refused);
    check_refused(|buf| encode::execute(buf, nul, 0), refused);
    check_refused(|buf| encode::password(buf, nul), refused);
    check_refused(|buf| encode::sasl_initial(buf, nul, None), refused);
    check_refused(|buf| encode::copy_fail(buf, nul), refused);
    check_refused(
        |buf| encode::authentication_sasl(buf, &[b"x", nul]),
        refused,
    );
    check_refused(|buf| encode::parameter_status(buf, b"x", nul), refused);
    check_refused(|buf| encode::command_complete(buf, nul), refused);
    check_refused(
        |buf| encode::error_response(buf, &[(b'C', b"x"), (b'M', nul)]),
        refused,
    );
    check_refused(
        |buf| encode::negotiate_protocol_version(buf, 0, &[nul]),
        refused,
    );
    check_refused(
        |buf| encode::notification_response(buf, 1, b"x", nul),
        refused,
    );
    let column = Column {
        name: "a\0b",
        type_oid: 25,
        type_len: -1,
    };
    check_refused(|buf| encode::row_description(buf, &[column]), refused);
    let report = ErrorReport::new(Severity::Error, SqlState::INTERNAL_ERROR, "a\0b");
    check_refused(|buf| report.encode(buf), refused);
}

#[test]
fn an_entry_that_would_end_its_list_is_refused() {
    check_refused(
        |buf| encode::authentication_sasl(buf, &[b""]),
        EncodeError::EmptyEntry,
    );
    check_refused(
        |buf| encode::error_response(buf, &[(0, b"x")]),
        EncodeError::EmptyEntry,
    );
}

#[test]
fn more_columns_than_the_count_holds_are_refused() {
    let values = vec![None; 32_768];
    check_refused(
        |buf| encode::data_row(buf, &values),
        EncodeError::TooManyEntries,
    );
    let columns = vec![
        Column {
            name: "",
            type_oid: 25,
            type_len: -1
        };
        32_768
    ];
    check_refused(
        |buf| encode::row_description(buf, &columns),
        EncodeError::TooManyEntries,
    );
}
