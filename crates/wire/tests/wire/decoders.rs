//! Tests of body views: valid bodies, invalid ones, and parts that are not examined.

use weir_wire::MessageError;
use weir_wire::backend::{
    Authentication, BackendKeyData, CommandComplete, ErrorFields, NegotiateProtocolVersion,
    NotificationResponse, ParameterStatus, ReadyForQuery, TransactionStatus,
};
use weir_wire::encode;
use weir_wire::frontend::{
    Bind, Close, Describe, Execute, Kind, NAME_LEN_MAX, Parse, Password, Query, SaslInitialResponse,
};
use weir_wire::sqlstate::SqlState;

use crate::hex;

#[test]
fn query_is_one_string() {
    assert_eq!(Query::parse(b"select 1\0"), Ok(Query { sql: b"select 1" }));
    assert_eq!(Query::parse(b"\0"), Ok(Query { sql: b"" }));
    assert_eq!(Query::parse(b"select 1"), Err(MessageError::InvalidString));
    assert_eq!(Query::parse(b""), Err(MessageError::InvalidString));
    assert_eq!(Query::parse(b"a\0b\0"), Err(MessageError::TrailingData));
}

#[test]
fn parse_and_its_head() {
    let body = hex("'s1' 00 'select $1' 00 0001 00000017");
    let parse = Parse::parse(&body).unwrap();
    assert_eq!(
        (parse.name, parse.sql, parse.rest),
        (&b"s1"[..], &b"select $1"[..], &body[13..])
    );
    for len in 0..=body.len() {
        let head = Parse::head(&body[..len]).unwrap();
        assert_eq!(
            head.map(|head| (head.name, head.len_consumed)),
            (len >= 3).then_some((&b"s1"[..], 3))
        );
    }
    assert_eq!(
        Parse::parse(b"s1\0select"),
        Err(MessageError::InvalidString)
    );
}

#[test]
fn bind_and_its_head() {
    let body = hex("'p' 00 's1' 00 0000 0000 0000");
    let bind = Bind::parse(&body).unwrap();
    assert_eq!(
        (bind.portal, bind.statement, bind.rest),
        (&b"p"[..], &b"s1"[..], &[0; 6][..])
    );
    for len in 0..=body.len() {
        let head = Bind::head(&body[..len]).unwrap();
        let names = head.map(|head| (head.portal, head.statement, head.len_consumed));
        assert_eq!(
            names,
            (len >= 5).then_some((&b"p"[..], &b"s1"[..], 5)),
            "{len} bytes"
        );
    }
}

#[test]
fn a_name_is_bounded_before_it_ends() {
    let name = vec![b'n'; NAME_LEN_MAX];
    assert_eq!(Parse::head(&name), Ok(None));
    let longer = [&name[..], b"n"].concat();
    assert_eq!(Parse::head(&longer), Err(MessageError::NameTooLong));
    assert_eq!(Bind::head(&longer), Err(MessageError::NameTooLong));
    let second = [b"p\0", &longer[..]].concat();
    assert_eq!(Bind::head(&second), Err(MessageError::NameTooLong));
    let fits = [&name[..], b"\0\0"].concat();
    assert_eq!(
        Bind::head(&fits).unwrap().unwrap().len_consumed,
        NAME_LEN_MAX + 2
    );
    assert!(Bind::parse(&fits).is_ok());
    let whole = [&longer[..], b"\0\0"].concat();
    assert_eq!(Bind::parse(&whole), Err(MessageError::NameTooLong));
    assert_eq!(Parse::parse(&whole), Err(MessageError::NameTooLong));
}

#[test]
fn sec_25_what_follows_the_names_is_opaque() {
    // False counts: -1 formats, 65,535 parameters of negative length, nothing at all.
    for rest in [
        "ffff",
        "0000 ffff ffffffff",
        "7fff",
        "",
        "00 01",
        "0000 0001 80000000",
    ] {
        let rest = hex(rest);
        let body = [b"p\0s\0", &rest[..]].concat();
        let bind = Bind::parse(&body).unwrap();
        assert_eq!(bind.rest, rest);
        let mut buf = Vec::new();
        encode::bind_renamed(&mut buf, bind.portal, b"weir_1", bind.rest).unwrap();
        assert_eq!(&buf[5..], [b"p\0weir_1\0", &rest[..]].concat());
    }
}

#[test]
fn describe_and_close_take_statements_and_portals() {
    let describe = Describe {
        kind: Kind::Statement,
        name: b"s",
    };
    assert_eq!(Describe::parse(b"Ss\0"), Ok(describe));
    assert_eq!(
        Close::parse(b"P\0"),
        Ok(Close {
            kind: Kind::Portal,
            name: b""
        })
    );
    let error = Describe::parse(b"xs\0").unwrap_err();
    assert_eq!(error.to_string(), "invalid DESCRIBE message subtype 120");
    let error = Close::parse(b"xs\0").unwrap_err();
    assert_eq!(error.to_string(), "invalid CLOSE message subtype 120");
    assert_eq!(Close::parse(b""), Err(MessageError::InsufficientData));
    assert_eq!(Close::parse(b"Ss"), Err(MessageError::InvalidString));
    assert_eq!(Close::parse(b"Ss\0x"), Err(MessageError::TrailingData));
}

#[test]
fn execute_has_a_row_limit() {
    let execute = Execute {
        portal: b"p",
        max_rows: -2,
    };
    assert_eq!(Execute::parse(&hex("'p' 00 fffffffe")), Ok(execute));
    assert_eq!(
        Execute::parse(&hex("'p' 00 0000")),
        Err(MessageError::InsufficientData)
    );
    assert_eq!(
        Execute::parse(&hex("'p' 00 00000000 00")),
        Err(MessageError::TrailingData)
    );
}

#[test]
fn password_messages() {
    assert_eq!(
        Password::parse(b"secret\0").unwrap().password(),
        Ok(&b"secret"[..])
    );
    assert_eq!(Password::parse(b"\0").unwrap().password(), Ok(&b""[..]));
    for bad in [&b""[..], b"secret", b"a\0b\0"] {
        let password = Password::parse(bad).unwrap().password();
        assert_eq!(password, Err(MessageError::InvalidPasswordSize));
    }
    let text = format!("{:?}", Password { body: b"secret\0" });
    assert_eq!(text, "Password { body_len: 7 }");
}

#[test]
fn sasl_initial_response_distinguishes_none_from_empty() {
    let data = |rest: &str| {
        let body = hex(&format!("'SCRAM-SHA-256' 00 {rest}"));
        SaslInitialResponse::parse(&body).map(|m| m.data.map(<[u8]>::to_vec))
    };
    assert_eq!(data("ffffffff"), Ok(None));
    assert_eq!(data("00000000"), Ok(Some(vec![])));
    assert_eq!(data("00000003 'n,,'"), Ok(Some(b"n,,".to_vec())));
    assert_eq!(data("00000004 'n,,'"), Err(MessageError::InsufficientData));
    assert_eq!(data("00000002 'n,,'"), Err(MessageError::TrailingData));
    assert_eq!(data("fffffffe"), Err(MessageError::InsufficientData));
    assert_eq!(data("7fffffff"), Err(MessageError::InsufficientData));
    assert_eq!(data("ffffffff 00"), Err(MessageError::TrailingData));
    assert_eq!(data(""), Err(MessageError::InsufficientData));
}

#[test]
fn authentication_requests() {
    let check =
        |body: &str, expect| assert_eq!(Authentication::parse(&hex(body)), expect, "{body}");
    check("00000000", Ok(Authentication::Ok));
    check("00000003", Ok(Authentication::CleartextPassword));
    check(
        "00000005 01020304",
        Ok(Authentication::Md5 { salt: [1, 2, 3, 4] }),
    );
    check("0000000b 'r=x'", Ok(Authentication::SaslContinue(b"r=x")));
    check("0000000c", Ok(Authentication::SaslFinal(b"")));
    check("00000007", Ok(Authentication::Unsupported(7)));
    check("00000000 00", Err(MessageError::TrailingData));
    check("00000005 010203", Err(MessageError::InsufficientData));
    check("000000", Err(MessageError::InsufficientData));
    check("0000000a", Err(MessageError::MissingTerminator));
    check("0000000a 'A' 00", Err(MessageError::MissingTerminator));
    check("0000000a 'A' 00 00 'B' 00", Err(MessageError::TrailingData));
}

#[test]
fn sasl_mechanisms_in_the_servers_order() {
    let body = hex("0000000a 'SCRAM-SHA-256-PLUS' 00 'SCRAM-SHA-256' 00 00");
    let Ok(Authentication::Sasl { mechanisms }) = Authentication::parse(&body) else {
        panic!("not SASL")
    };
    assert_eq!(
        mechanisms.collect::<Vec<_>>(),
        [&b"SCRAM-SHA-256-PLUS"[..], b"SCRAM-SHA-256"]
    );
    let none = hex("0000000a 00");
    let Ok(Authentication::Sasl { mechanisms }) = Authentication::parse(&none) else {
        panic!("not SASL")
    };
    assert_eq!(mechanisms.count(), 0);
}

#[test]
fn backend_keys_have_4_to_256_bytes() {
    for len in [0, 3, 4, 32, 256, 257] {
        let body = [&[0, 0, 1, 0][..], &vec![9; len]].concat();
        let expect = if (4..=256).contains(&len) {
            Ok(BackendKeyData {
                pid: 256,
                key: &body[4..],
            })
        } else {
            Err(MessageError::InvalidKeyLength { len })
        };
        assert_eq!(BackendKeyData::parse(&body), expect);
    }
    assert_eq!(
        BackendKeyData::parse(&[0; 3]),
        Err(MessageError::InsufficientData)
    );
}

#[test]
fn transaction_status() {
    let status = |body| ReadyForQuery::parse(body).map(|ready| ready.0);
    assert_eq!(status(b"I"), Ok(TransactionStatus::Idle));
    assert_eq!(status(b"T"), Ok(TransactionStatus::InTransaction));
    assert_eq!(status(b"E"), Ok(TransactionStatus::Failed));
    assert_eq!(
        status(b"X"),
        Err(MessageError::InvalidTransactionStatus { status: b'X' })
    );
    assert_eq!(status(b""), Err(MessageError::InsufficientData));
    assert_eq!(status(b"II"), Err(MessageError::TrailingData));
}

#[test]
fn strings_of_other_backend_messages() {
    let parameter = ParameterStatus {
        name: b"TimeZone",
        value: b"UTC",
    };
    assert_eq!(ParameterStatus::parse(b"TimeZone\0UTC\0"), Ok(parameter));
    assert_eq!(
        ParameterStatus::parse(b"TimeZone\0UTC"),
        Err(MessageError::InvalidString)
    );
    assert_eq!(
        ParameterStatus::parse(b"a\0b\0c"),
        Err(MessageError::TrailingData)
    );
    let notification = NotificationResponse {
        pid: 5,
        channel: b"c",
        payload: b"",
    };
    assert_eq!(
        NotificationResponse::parse(&hex("00000005 'c' 00 00")),
        Ok(notification)
    );
    assert_eq!(
        CommandComplete::parse(b"SELECT 1\0"),
        Ok(CommandComplete { tag: b"SELECT 1" })
    );
    assert_eq!(
        CommandComplete::parse(b"SELECT 1"),
        Err(MessageError::InvalidString)
    );
}

#[test]
fn protocol_negotiation_reads_both_ways_of_writing_the_version() {
    for version in ["0003 0002", "0000 0002"] {
        let body = hex(&format!("{version} 00000002 '_pq_.a' 00 '_pq_.b' 00"));
        let negotiate = NegotiateProtocolVersion::parse(&body).unwrap();
        assert_eq!(negotiate.newest_minor, 2);
        assert_eq!(
            negotiate.options.collect::<Vec<_>>(),
            [&b"_pq_.a"[..], b"_pq_.b"]
        );
    }
    let parse = |body: &str| NegotiateProtocolVersion::parse(&hex(body)).map(|_| ());
    assert_eq!(
        parse("0004 0000 00000000"),
        Err(MessageError::InvalidVersion { version: 4 << 16 })
    );
    assert_eq!(
        parse("0003 0000 ffffffff"),
        Err(MessageError::InvalidString)
    );
    assert_eq!(
        parse("0003 0000 00000000 'a' 00"),
        Err(MessageError::TrailingData)
    );
    assert_eq!(
        parse("0003 0000 00000002 'a' 00"),
        Err(MessageError::InvalidString)
    );
}

#[test]
fn sec_23_error_with_every_subset_of_fields() {
    let all: [(u8, &[u8]); 6] = [
        (b'S', b"FEHLER"),
        (b'V', b"ERROR"),
        (b'C', b"42601"),
        (b'M', b"syntax error"),
        (b'D', b"d"),
        (b'H', b""),
    ];
    for subset in 0..1 << all.len() {
        let chosen: Vec<_> = all
            .iter()
            .enumerate()
            .filter(|(i, _)| subset >> i & 1 == 1)
            .map(|(_, f)| *f)
            .collect();
        let mut buf = Vec::new();
        encode::error_response(&mut buf, &chosen).unwrap();
        let fields = ErrorFields::parse(&buf[5..]).unwrap();
        assert_eq!(fields.collect::<Vec<_>>(), chosen);
        let find = |code| chosen.iter().find(|f| f.0 == code).map(|f| f.1);
        for (code, _) in all {
            assert_eq!(fields.get(code), find(code));
        }
        assert_eq!(fields.severity(), find(b'V').or_else(|| find(b'S')));
        assert_eq!(
            fields.sqlstate(),
            find(b'C').map(|_| SqlState::SYNTAX_ERROR)
        );
    }
}

#[test]
fn sec_23_malformed_error_fields_are_errors() {
    let check = |body: &[u8], expect| {
        assert_eq!(
            ErrorFields::parse(body).map(|_| ()),
            expect,
            "{}",
            body.escape_ascii()
        );
    };
    check(b"", Err(MessageError::MissingTerminator));
    check(b"\0", Ok(()));
    check(b"C42601\0", Err(MessageError::MissingTerminator));
    check(b"C42601", Err(MessageError::InvalidString));
    check(b"C", Err(MessageError::InvalidString));
    check(b"C42601\0\0\0", Err(MessageError::TrailingData));
    check(b"\0C42601\0\0", Err(MessageError::TrailingData));
    // The first of a repeated field counts; an invalid code is kept as text and is no SQLSTATE.
    let twice = ErrorFields::parse(b"C42601\0C00000\0\0").unwrap();
    assert_eq!((twice.get(b'C'), twice.count()), (Some(&b"42601"[..]), 2));
    for strange in [&b"C\0\0"[..], b"C4260\0\0", b"C426011\0\0", b"C4260a\0\0"] {
        assert_eq!(ErrorFields::parse(strange).unwrap().sqlstate(), None);
    }
}

#[test]
fn sqlstates_have_postgresqls_names() {
    assert_eq!(
        SqlState::from_bytes(*b"08P01"),
        Some(SqlState::PROTOCOL_VIOLATION)
    );
    assert_eq!(SqlState::PROTOCOL_VIOLATION.to_string(), "08P01");
    assert_eq!(
        SqlState::PROTOCOL_VIOLATION.condition(),
        Some("protocol_violation")
    );
    assert_eq!(SqlState::ADMIN_SHUTDOWN.as_bytes(), b"57P01");
    assert_eq!(SqlState::ADMIN_SHUTDOWN.class(), *b"57");
    assert_eq!(SqlState::from_bytes(*b"ZZZZZ").unwrap().condition(), None);
    assert_eq!(SqlState::from_bytes(*b"57p01"), None);
    assert_eq!(SqlState::from_slice(b"57P0"), None);
}
