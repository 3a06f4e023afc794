//! Tests of opening messages and of the switches inside `options`.

use weir_wire::encode::{self, EncodeError};
use weir_wire::options::{self, OptionsError};
use weir_wire::startup::{CancelRequest, Startup, StartupError, StartupMessage, Version, startup};

use crate::hex;

fn parsed(bytes: &[u8]) -> StartupMessage<'_> {
    match startup(bytes) {
        Ok(Some((Startup::Startup(message), len))) if len == bytes.len() => message,
        other => panic!("not one startup message: {other:?}"),
    }
}

/// Returns a startup message of version 3.0 around `params`, with a fitting length.
fn opening(params: &[u8]) -> Vec<u8> {
    let len = u32::try_from(8 + params.len()).unwrap();
    [&len.to_be_bytes(), &hex("0003 0000")[..], params].concat()
}

#[test]
fn requests_without_parameters() {
    assert_eq!(
        startup(&hex("00000008 04d2 162f")),
        Ok(Some((Startup::Ssl, 8)))
    );
    assert_eq!(
        startup(&hex("00000008 04d2 1630")),
        Ok(Some((Startup::GssEnc, 8)))
    );
    // Bytes behind the message belong to the next one.
    assert_eq!(
        startup(&hex("00000008 04d2 162f 16 03 01")),
        Ok(Some((Startup::Ssl, 8)))
    );
    // A body is refused.
    let long = Err(StartupError::BadLength { len: 9 });
    assert_eq!(startup(&hex("00000009 04d2 162f 00")), long);
}

#[test]
fn startup_message_with_parameters() {
    let bytes = hex("00000026        # length
        0003 0002                   # protocol 3.2
        'user' 00 'joe' 00
        'database' 00 'shop' 00
        '_pq_.x' 00 00              # an empty value is a value
        00                          # end of the list");
    let bytes = [
        &u32::try_from(bytes.len()).unwrap().to_be_bytes(),
        &bytes[4..],
    ]
    .concat();
    let message = parsed(&bytes);
    assert_eq!(message.version, Version::V3_2);
    let params: Vec<_> = message.params().collect();
    let expect: [(&[u8], &[u8]); 3] = [(b"user", b"joe"), (b"database", b"shop"), (b"_pq_.x", b"")];
    assert_eq!(params, expect);
    assert_eq!(message.get("database"), Some(&b"shop"[..]));
    assert_eq!(message.get("databas"), None);
    for len in 0..bytes.len() {
        assert_eq!(startup(&bytes[..len]), Ok(None), "{len} bytes");
    }
}

#[test]
fn of_an_ordinary_parameter_sent_twice_the_last_counts() {
    let bytes = opening(b"user\0u\0DateStyle\0ISO\0DateStyle\0SQL\0\0");
    assert_eq!(parsed(&bytes).get("DateStyle"), Some(&b"SQL"[..]));
}

#[test]
fn any_minor_version_parses_and_other_majors_are_named() {
    assert_eq!(
        parsed(&hex("00000009 0003 270f 00")).version,
        Version {
            major: 3,
            minor: 9999
        }
    );
    for (code, major, minor) in [
        ("0002 0000", 2, 0),
        ("0004 0000", 4, 0),
        ("04d2 1631", 1234, 5681),
    ] {
        let error = startup(&hex(&format!("00000009 {code}"))).unwrap_err();
        assert_eq!(error, StartupError::UnsupportedVersion { major, minor });
    }
    let error = startup(&hex("00000128 0002 0000")).unwrap_err();
    let text = "unsupported frontend protocol 2.0: server supports 3.0 to 3.2";
    assert_eq!(error.to_string(), text);
}

#[test]
fn sec_21_startup_length_is_judged_with_four_bytes() {
    for len in [
        0u32,
        1,
        3,
        4,
        5,
        7,
        10_005,
        (1 << 31) - 1,
        1 << 31,
        (1 << 31) + 1,
        u32::MAX,
    ] {
        assert_eq!(
            startup(&len.to_be_bytes()),
            Err(StartupError::BadLength { len }),
            "{len}"
        );
    }
    for len in [8u32, 10_004] {
        assert_eq!(startup(&len.to_be_bytes()), Ok(None), "{len}");
    }
    // Other protocols that may connect here: HTTP, TLS.
    assert!(startup(b"GET / HTTP/1.1").is_err());
    assert!(startup(&hex("16 03 01 00 c8 01")).is_err());
}

#[test]
fn sec_29_layout_is_exact() {
    let bad: [&[u8]; 9] = [
        b"",                      // not even a terminator
        b"user\0joe\0",           // no terminator
        b"user\0joe",             // a value without NUL
        b"user\0",                // a name without value
        b"user",                  // a name without NUL
        b"user\0joe\0\0x",        // a byte behind the terminator
        b"user\0joe\0\0\0",       // a NUL behind it
        b"\0user\0admin\0\0",     // a list behind it
        b"x\0\0user\0admin\0\0x", // both
    ];
    for params in bad {
        let result = startup(&opening(params)).map(|_| ());
        assert_eq!(
            result,
            Err(StartupError::BadLayout),
            "{}",
            params.escape_ascii()
        );
    }
    assert_eq!(parsed(&opening(b"\0")).params().count(), 0);
}

#[test]
fn sec_29_identity_parameters_come_once() {
    for name in ["user", "database", "options"] {
        let bytes = opening(format!("{name}\0a\0x\0y\0{name}\0a\0\0").as_bytes());
        assert_eq!(
            startup(&bytes),
            Err(StartupError::DuplicateParameter { name })
        );
    }
}

#[test]
fn sec_29_encoder_refuses_a_nul_in_names_and_values() {
    let hostile: [(&[u8], &[u8]); 2] = [
        (b"application_name", b"x\0user\0admin"),
        (b"x\0user\0admin", b""),
    ];
    for param in hostile {
        let mut buf = b"kept".to_vec();
        let result = encode::startup(&mut buf, Version::V3_0, &[(b"user", b"joe"), param]);
        assert_eq!(result, Err(EncodeError::EmbeddedNul));
        assert_eq!(buf, b"kept");
    }
    let mut buf = Vec::new();
    let result = encode::startup(&mut buf, Version::V3_0, &[(b"", b"x")]);
    assert_eq!(result, Err(EncodeError::EmptyEntry));
}

#[test]
fn startup_encoder_stops_at_postgresqls_limit() {
    let mut buf = Vec::new();
    // Version, "user", NUL, value, NUL, terminator.
    let value = vec![b'x'; 10_000 - 4 - 5 - 1 - 1];
    encode::startup(&mut buf, Version::V3_0, &[(b"user", &value)]).unwrap();
    assert_eq!(parsed(&buf).get("user"), Some(&value[..]));
    let value = [&value[..], b"x"].concat();
    let result = encode::startup(&mut buf, Version::V3_0, &[(b"user", &value)]);
    assert_eq!(result, Err(EncodeError::TooLong));
}

#[test]
fn cancel_keys_have_4_to_256_bytes() {
    let request = hex("00000010 04d2 162e 00000102 01020304");
    let expect = CancelRequest {
        pid: 258,
        key: &[1, 2, 3, 4],
    };
    assert_eq!(startup(&request), Ok(Some((Startup::Cancel(expect), 16))));
    for len in [0, 3, 4, 32, 256, 257] {
        let key = vec![7; len];
        let total = u32::try_from(12 + len).unwrap();
        let bytes = [&total.to_be_bytes(), &hex("04d2 162e 00000001")[..], &key].concat();
        let mut buf = Vec::new();
        let encoded = encode::cancel_request(&mut buf, 1, &key);
        if (4..=256).contains(&len) {
            let cancel = CancelRequest { pid: 1, key: &key };
            assert_eq!(
                startup(&bytes),
                Ok(Some((Startup::Cancel(cancel), bytes.len())))
            );
            assert_eq!((encoded, buf), (Ok(()), bytes));
        } else {
            assert_eq!(
                startup(&bytes),
                Err(StartupError::BadCancelKeyLength { len })
            );
            assert_eq!((encoded, buf), (Err(EncodeError::BadKeyLength), vec![]));
        }
    }
    let short = Err(StartupError::BadLength { len: 10 });
    assert_eq!(startup(&hex("0000000a 04d2 162e 0000")), short);
}

#[test]
fn secrets_are_not_shown() {
    let text = format!(
        "{:?}",
        CancelRequest {
            pid: 1,
            key: b"hush"
        }
    );
    assert_eq!(text, "CancelRequest { pid: 1, key_len: 4 }");
}

fn settings(text: &str) -> Vec<(String, String)> {
    let settings = options::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    settings
        .into_iter()
        .map(|setting| (text(setting.name), text(setting.value)))
        .collect()
}

fn check_options(text: &str, expect: &[(&str, &str)]) {
    let expect: Vec<_> = expect
        .iter()
        .map(|(n, v)| (String::from(*n), String::from(*v)))
        .collect();
    assert_eq!(settings(text), expect, "{text}");
}

#[test]
fn options_forms() {
    check_options("", &[]);
    check_options(" \t\n\x0b\x0c\r", &[]);
    check_options("-c a=b", &[("a", "b")]);
    check_options("-ca=b", &[("a", "b")]);
    check_options("--a=b", &[("a", "b")]);
    check_options("  -c  a=b\t--c-d=e  ", &[("a", "b"), ("c_d", "e")]);
    check_options("-c a-b=c-d", &[("a_b", "c-d")]);
    check_options("-c a=", &[("a", "")]);
    check_options("-c a=b=c", &[("a", "b=c")]);
    check_options("-c a=b -c a=c", &[("a", "b"), ("a", "c")]);
    // `-c` takes the next word whatever it is, like getopt.
    check_options("-c --a=b", &[("__a", "b")]);
}

#[test]
fn options_escapes() {
    check_options(r"-c search_path=a,\ b", &[("search_path", "a, b")]);
    check_options(r"-c a=b\\c", &[("a", r"b\c")]);
    check_options(r"-c a=\b", &[("a", "b")]);
    check_options("-c a=b\\", &[("a", "b")]);
    check_options(r"-c a='b", &[("a", "'b")]);
    // An escaped blank does not separate words, even at the start of a word.
    check_options(r"\-c a=b", &[("a", "b")]);
}

#[test]
fn options_errors_name_the_word() {
    let check = |text: &str, expect: &str| {
        let error = options::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expect, "{text}");
    };
    check("-c", "-c requires a value");
    check("-c a", "-c a requires a value");
    check("-ca", "-ca requires a value");
    check("--a", "--a requires a value");
    check("-c =", "-c = names no parameter");
    check("--=x", "--=x names no parameter");
    check("--", "unsupported startup option --");
    check("-c a=b -d 5", "unsupported startup option -d");
    check("-", "unsupported startup option -");
    check("a=b", "unsupported startup option a=b");
    check("\\", "unsupported startup option ");
}

#[test]
fn sec_24_options_parser_always_advances() {
    let seeds = [
        "-c=", "-c", "--", "\\", "-c a=b\\", "'\"'", "-c=\\", "--=", "- - -", "\\ \\ ",
    ];
    for seed in seeds {
        let _ = options::parse(seed.as_bytes());
        let _ = options::parse(seed.repeat(1_000).as_bytes());
    }
    assert_eq!(options::parse(&[b' '; 10_000]), Ok(vec![]));
    assert_eq!(
        options::parse("-c a=b ".repeat(1_400).as_bytes())
            .unwrap()
            .len(),
        1_400
    );
    let error = OptionsError::MissingName {
        option: "-c=".to_owned(),
    };
    assert_eq!(options::parse(b"-c="), Err(error));
}
