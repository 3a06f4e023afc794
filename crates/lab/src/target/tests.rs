//! Tests of the built-in descriptions, and of mistakes in others.

use super::*;

const POOLER: &str = r#"
name = "pooler-{workers}"
title = "Pooler {{ workers }}"
fairness = "Fair."
tried = true
[program.pooler]
names = ["pooler"]
version = ["--version"]
[[file]]
path = "pooler.ini"
text = "port = {{ port }}\n"
[[process]]
program = "pooler"
arguments = ["{{ dir }}/pooler.ini"]
stop = ["TERM"]
"#;

fn parse(text: &str) -> Result<Definition, String> {
    Definition::parse("pooler.toml", text).map_err(|error| error.to_string())
}

#[test]
fn all_that_ship_are_read_and_can_be_filled_in() {
    let catalog = Catalog::builtin().unwrap();
    assert_eq!(catalog.definitions().len(), BUILTIN.len());
    for name in [
        "direct",
        "weir-1",
        "weir-4",
        "pgbouncer",
        "pgbouncer-x2",
        "pgbouncer-1.25",
        "pgpool",
        "haproxy",
        "pgpool-behind-pgbouncer",
        "odyssey-2",
        "pgdog-2",
        "pgcat-2",
        "pg_doorman-2",
        "pgagroal",
        "proxysql-4",
        "weir-any-1",
        "weir-slow-20",
        "weir-split-1",
        "weir-untracked-1",
        "weir-unnamed-1",
    ] {
        assert_eq!(catalog.find(name).unwrap().name, name);
    }
}

#[test]
fn titles_have_their_number_in_good_english() {
    let catalog = Catalog::builtin().unwrap();
    assert_eq!(catalog.find("weir-1").unwrap().title(), "Weir, 1 worker");
    assert_eq!(catalog.find("weir-2").unwrap().title(), "Weir, 2 workers");
    assert_eq!(
        catalog.find("pgbouncer-x4").unwrap().title(),
        "PgBouncer, 4 processes"
    );
}

#[test]
fn an_unknown_target_is_answered_with_those_that_there_are() {
    let catalog = Catalog::builtin().unwrap();
    for wrong in ["weir", "weir-0", "weir-x", "pgbouncer-1", ""] {
        let error = catalog.find(wrong).unwrap_err().to_string();
        assert!(error.contains("weir-N, "), "{wrong}: {error}");
    }
}

#[test]
fn an_unknown_key_is_an_error_with_its_line() {
    let error = parse(&POOLER.replace("stop =", "stopp =")).unwrap_err();
    assert!(error.starts_with("pooler.toml: "), "{error}");
    assert!(
        error.contains("line 15") && error.contains("stopp"),
        "{error}"
    );
}

#[test]
fn an_unknown_placeholder_is_an_error_before_anything_is_started() {
    let error = parse(&POOLER.replace("{{ port }}", "{{ prot }}")).unwrap_err();
    assert!(error.contains("pooler.ini: line 1: undefined"), "{error}");
    let error = parse(&POOLER.replace("{{ dir }}", "{{ directory }}")).unwrap_err();
    assert!(error.contains("arguments: line 1: undefined"), "{error}");
}

#[test]
fn parts_that_contradict_each_other_are_found() {
    for (from, to, words) in [
        (
            "[program.pooler]",
            "[program.bouncer]",
            "no [program.pooler]",
        ),
        (
            "pooler.ini\"\ntext",
            "../pooler.ini\"\ntext",
            "not a plain file name",
        ),
        ("tried = true", "tried = false", "no note"),
        ("pooler-{workers}", "pooler-{workers", "is no name"),
    ] {
        let error = parse(&POOLER.replace(from, to)).unwrap_err();
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn a_file_of_the_user_takes_the_place_of_ours() {
    let mut catalog = Catalog::builtin().unwrap();
    let text = POOLER.replace("pooler-{workers}", "weir-{workers}");
    catalog.add(parse(&text).unwrap());
    assert_eq!(catalog.find("weir-3").unwrap().title(), "Pooler 3");
}

fn request(protocol: &str) -> Request<'_> {
    Request {
        auth: Auth::Trust,
        protocol,
        client_tls: false,
        server_tls: false,
    }
}

#[test]
fn an_old_pgbouncer_gets_the_extended_protocol_instead_of_prepared() {
    let target = Catalog::builtin().unwrap().find("pgbouncer").unwrap();
    let instead = |minor, protocol| {
        let version = Version { major: 1, minor };
        let found = target.substitute(&version, request(protocol)).unwrap();
        found.map(|(protocol, _)| protocol)
    };
    assert_eq!(instead(18, "prepared").as_deref(), Some("extended"));
    assert_eq!(instead(18, "extended"), None);
    assert_eq!(instead(25, "prepared"), None);
}

#[test]
fn what_a_target_cannot_do_is_refused_with_the_reason() {
    let target = Catalog::builtin().unwrap().find("pgcat-2").unwrap();
    let refusal = |auth| {
        let request = Request {
            auth,
            ..request("simple")
        };
        target.refusal(&Version::default(), request).unwrap()
    };
    assert!(refusal(Auth::Scram).unwrap().contains("MD5"));
    assert_eq!(refusal(Auth::Trust), None);
}

#[test]
fn pgagroal_is_not_asked_for_what_it_was_seen_to_fail_at() {
    let target = Catalog::builtin().unwrap().find("pgagroal").unwrap();
    let refusal = |protocol, server_tls| {
        let request = Request {
            client_tls: true,
            server_tls,
            ..request(protocol)
        };
        target.refusal(&Version::default(), request).unwrap()
    };
    assert_eq!(refusal("extended", false), None);
    assert!(refusal("extended", true).unwrap().contains("TLS"));
    assert!(refusal("prepared", false).unwrap().contains("prepared"));
}

/// Renders all files of a target, for TLS on both sides or none.
fn files(name: &str, auth: Auth, tls: bool) -> String {
    let target = Catalog::builtin().unwrap().find(name).unwrap();
    let site = Site::sample(auth, tls);
    let ports = [1; site::INNER_PORTS];
    let version = Version::default();
    let values = site.values(&target, &version, Path::new("/run"), 6432, &ports);
    let files = target.definition.file.iter();
    files
        .map(|file| template::render(&file.path, &file.text, &values).unwrap())
        .collect()
}

#[test]
fn peers_get_the_settings_that_their_runs_were_seen_to_need() {
    for (name, tls, needed) in [
        ("odyssey-1", true, "tls_ca_file \"/run/authority.crt\""),
        ("odyssey-1", false, "locks_dir \"/run\""),
        ("odyssey-1", false, "enable_online_restart no"),
        ("odyssey-1", false, "pool_timeout 0"),
        ("pg_doorman-1", false, "query_wait_timeout = 120000"),
        (
            "pg_doorman-1",
            true,
            "pg_hba = { content = \"host all all 127.0.0.1/32 trust\" }",
        ),
        ("pgdog-1", false, "checkout_timeout = 120000"),
        ("pgdog-1", true, "tls_verify = \"prefer\""),
        ("pgcat-1", false, "connect_timeout = 120000"),
        ("pgagroal", false, "blocking_timeout = 0"),
        ("pgbouncer-1.25", false, "max_prepared_statements = 200"),
    ] {
        let text = files(name, Auth::Trust, tls);
        assert!(text.contains(needed), "{name}: no {needed} in {text}");
    }
    // The hash of PostgreSQL for the password `password` of the user `bench`.
    let doorman = files("pg_doorman-1", Auth::Trust, true);
    let hash = "password = \"md52f9f1e7927bc0fbc852e4174ecfa44e0\"";
    assert!(doorman.contains(hash), "{doorman}");
    assert!(!files("odyssey-1", Auth::Trust, false).contains("tls"));
}

#[test]
fn what_is_in_the_way_of_a_target_is_said_with_the_time() {
    let within = Duration::from_secs(30);
    let silent = Obstacle::DoesNotListen {
        program: "odyssey".to_owned(),
        within,
    };
    assert_eq!(silent.to_string(), "odyssey did not listen within 30s");
    let closed = Obstacle::NoLogin { within };
    let words = "no login and query succeeded within 30s";
    assert_eq!(closed.to_string(), words);
}

#[test]
fn a_target_that_is_not_ready_is_reported_with_its_words_and_those_of_psql() {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    let log = |name: &str, lines: &str| deployment::Log {
        name: name.to_owned(),
        lines: lines.to_owned(),
    };
    let report = NotReady {
        target: "odyssey-1".to_owned(),
        obstacle: Obstacle::Ended {
            program: "odyssey".to_owned(),
            status: ExitStatus::from_raw(3 << 8),
        },
        login: Some("psql: error: no SSL\nor so\n".to_owned()),
        logs: vec![
            log("odyssey-0.log", "  | error: bad tls_ca_file\n"),
            log("odyssey-1.log", ""),
        ],
    };
    expect_test::expect![[r"
        odyssey-1 did not start: odyssey ended (exit status: 3)
        The last login by psql said:
          | psql: error: no SSL
          | or so
        odyssey-0.log ends with:
          | error: bad tls_ca_file
        odyssey-1.log is empty."]]
    .assert_eq(&report.to_string());
}

#[test]
fn tls_lines_are_there_only_with_tls_and_every_server_is_listed() {
    let render = |name: &str, file: usize, tls| {
        let target = Catalog::builtin().unwrap().find(name).unwrap();
        let site = Site::sample(Auth::Scram, tls);
        let ports = [1; site::INNER_PORTS];
        let values = site.values(
            &target,
            &Version::default(),
            Path::new("/run"),
            6432,
            &ports,
        );
        let file = &target.definition.file[file];
        template::render(&file.path, &file.text, &values).unwrap()
    };
    let plain = render("pgbouncer", 1, false);
    assert!(!plain.contains("client_tls"), "{plain}");
    assert!(
        plain.contains("\nserver_tls_sslmode = disable\n"),
        "{plain}"
    );
    assert!(!plain.contains("max_prepared_statements"), "{plain}");
    let tls = render("pgbouncer", 1, true);
    assert!(
        tls.contains("\nclient_tls_key_file = /run/server.key\n"),
        "{tls}"
    );
    assert!(tls.contains("\nserver_tls_sslmode = require\n"), "{tls}");
    let users = render("pgbouncer", 0, false);
    assert_eq!(users, "\"bench\" \"SCRAM-SHA-256$4096:...\"\n");
    let pgpool = render("pgpool", 0, false);
    assert!(pgpool.contains("\nbackend_port1 = 5433\n"), "{pgpool}");
    assert!(
        pgpool.contains("'ALWAYS_PRIMARY|DISALLOW_TO_FAILOVER'\n"),
        "{pgpool}"
    );
    let halves = render("pgbouncer-x40", 1, false);
    assert!(halves.contains("\ndefault_pool_size = 1\n"), "{halves}");
    let haproxy = render("haproxy", 0, false);
    assert!(
        haproxy.ends_with("    server s1 127.0.0.1:5433\n"),
        "{haproxy}"
    );
}
