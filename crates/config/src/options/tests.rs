//! Tests of the table: defaults pass their own ranges, and fields keep the values that rows accept.

use super::*;
use crate::settings::{Format, default_of};
use crate::value::Dialect;

const SCOPES: [Scope; 7] = [
    Scope::Global,
    Scope::Database,
    Scope::Host,
    Scope::Listener,
    Scope::Pool,
    Scope::User,
    Scope::Peer,
];

/// Converts one value per row to the section's struct and back.
fn through_struct(scope: Scope, get: &dyn Fn(&str) -> Value) -> Vec<(&'static Opt, Value)> {
    match scope {
        Scope::Global => Global::from_values(get).values(),
        Scope::Database => Database::from_values(get).values(),
        Scope::Host => Host::from_values(get).values(),
        Scope::Listener => Listener::from_values(get).values(),
        Scope::Pool => PoolOptions::from_values(get).values(),
        Scope::User => UserSettings::from_values(get).values(),
        Scope::Peer => Peer::from_values(get).values(),
    }
}

#[test]
fn near_words_are_found_and_far_ones_are_not() {
    assert_eq!(Scope::Global.nearest("pool_modes"), Some("pool_mode"));
    assert_eq!(Scope::Global.nearest("listenport"), Some("listen_port"));
    assert_eq!(Scope::Database.nearest("reserve_pol"), Some("reserve_pool"));
    assert_eq!(Scope::Global.nearest("colour"), None);
    assert_eq!(distance("kitten", "sitting"), 3);
    assert_eq!(distance("", "abc"), 3);
    assert_eq!(distance("abc", ""), 3);
}

#[test]
fn rows_have_a_sentence_and_unique_names() {
    for scope in SCOPES {
        let mut names: Vec<_> = Vec::new();
        for opt in scope.options() {
            assert!(opt.doc.trim().ends_with('.'), "{}", opt.name);
            assert!(
                !opt.doc.contains('|'),
                "{} would break the page's table",
                opt.name
            );
            names.push(opt.name);
            names.extend(opt.aliases);
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}

#[test]
fn every_default_passes_its_own_range() {
    for scope in SCOPES {
        for opt in scope.options() {
            for text in [opt.default, opt.default_native].into_iter().flatten() {
                let parsed = opt.parse(text, Dialect::Ini);
                assert!(parsed.is_ok(), "{}: {parsed:?}", opt.name);
            }
        }
    }
}

#[test]
fn fields_keep_defaults_and_the_largest_values() {
    for scope in SCOPES {
        let default = |name: &str| default_of(scope.find(name).unwrap(), Format::Ini);
        for (opt, value) in through_struct(scope, &default) {
            assert_eq!(value, default(opt.name), "{}", opt.name);
        }
        let largest = |name: &str| {
            let opt = scope.find(name).unwrap();
            match opt.kind {
                Kind::Int | Kind::Mode | Kind::Size | Kind::Duration(_) => {
                    opt.number(opt.max).unwrap()
                }
                Kind::Enum(words) => opt.parse(words[words.len() - 1], Dialect::Ini).unwrap(),
                Kind::StateCheck => opt.parse("sample(100%)", Dialect::Ini).unwrap(),
                Kind::Patterns => opt.parse("a.\"B\"*, c.*", Dialect::Ini).unwrap(),
                Kind::Functions => opt.parse("a.\"B\"", Dialect::Ini).unwrap(),
                Kind::Hints => opt
                    .parse("etcd:http://[::1]:65535/a/b, http://x:1", Dialect::Ini)
                    .unwrap(),
                Kind::ListenPoints => opt.parse("[::1]:65535, *:1", Dialect::Ini).unwrap(),
                Kind::Networks => opt.parse("10.0.0.0/24, ::1", Dialect::Ini).unwrap(),
                _ => opt.parse("1", Dialect::Ini).unwrap(),
            }
        };
        for (opt, value) in through_struct(scope, &largest) {
            assert_eq!(value, largest(opt.name), "{}", opt.name);
        }
    }
}

#[test]
fn values_just_outside_the_range_are_refused() {
    for scope in SCOPES {
        for opt in scope.options() {
            if matches!(
                opt.kind,
                Kind::Int | Kind::Mode | Kind::Size | Kind::Duration(_)
            ) {
                assert!(opt.number(opt.max + 1).is_err(), "{}", opt.name);
                assert!(opt.number(opt.min - 1).is_err(), "{}", opt.name);
                assert!(opt.number(opt.min).is_ok(), "{}", opt.name);
            }
        }
    }
}

#[test]
fn numbers_are_read_as_each_dialect_reads_them() {
    let pool = Scope::Global.find("default_pool_size").unwrap();
    let check = |text: &str, dialect, expect: Option<i64>| {
        assert_eq!(
            pool.parse(text, dialect).ok(),
            expect.map(Value::Int),
            "{text}"
        );
    };
    check("0x10", Dialect::Ini, Some(16));
    check("010", Dialect::Ini, Some(8));
    check("010", Dialect::Entry, Some(10));
    check("0x10", Dialect::Entry, None);
    check("+7", Dialect::Ini, Some(7));
    for text in [
        "",
        "-",
        "--1",
        "+-1",
        "1 2",
        "1x",
        "08",
        "0x",
        "99999999999999999999",
        "-1",
    ] {
        check(text, Dialect::Ini, None);
    }
    let time = Scope::Global.find("query_timeout").unwrap();
    let check = |text: &str, dialect, micros: Option<u64>| {
        let expect = micros.map(|us| Value::Duration(Duration::from_micros(us)));
        assert_eq!(time.parse(text, dialect).ok(), expect, "{text}");
    };
    check("1.5", Dialect::Ini, Some(1_500_000));
    check("1e1", Dialect::Ini, Some(10_000_000));
    check("30s", Dialect::Ini, None);
    check("30s", Dialect::Native, Some(30_000_000));
    check("500ms", Dialect::Native, Some(500_000));
    check("5 min", Dialect::Native, Some(300_000_000));
    for text in [
        "",
        "s",
        "inf",
        "nan",
        "-1",
        "1m",
        "1e999",
        "1ss",
        ".",
        "9999999999",
    ] {
        check(text, Dialect::Native, None);
    }
    let size = Scope::Global.find("tcp_socket_buffer").unwrap();
    assert_eq!(size.parse("16KiB", Dialect::Native), Ok(Value::Int(16_384)));
    for text in ["16kB", "16K", "KiB", "-1B", "99999999999999GiB"] {
        assert!(size.parse(text, Dialect::Native).is_err(), "{text}");
    }
}

#[test]
fn a_listening_point_is_an_address_with_a_port() {
    let parse = |text: &str| {
        Scope::Global
            .find("metrics_listen")
            .unwrap()
            .parse(text, Dialect::Ini)
    };
    for (text, shown) in [
        ("127.0.0.1:9127", "127.0.0.1:9127"),
        ("[::1]:9127,localhost:1", "[::1]:9127"),
        ("*:9127", "*:9127"),
    ] {
        let Ok(Value::List(points)) = parse(text) else {
            panic!("{text} is refused")
        };
        assert_eq!(points[0], shown);
    }
    assert_eq!(parse(""), Ok(Value::List(Vec::new())));
    for text in [
        "9127",
        "127.0.0.1",
        "::1:9127",
        "a:0",
        "a:65536",
        ":9127",
        "/tmp:1",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}
