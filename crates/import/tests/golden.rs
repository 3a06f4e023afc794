//! Golden files: configurations of the other products, what becomes of them, and what is said about them. The results must
//! load. `UPDATE_EXPECT=1` writes the expected files again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use weir_import::{FileNames, Imported, Outcome, Product, Source, import};

/// Product, directory of the files, and their names.
const CASES: [(Product, &str, &[&str]); 7] = [
    (Product::PgCat, "pgcat", &["pgcat.toml"]),
    (Product::PgDog, "pgdog", &["pgdog.toml", "users.toml"]),
    (
        Product::Pgpool,
        "pgpool",
        &["pgpool.conf", "pool_hba.conf", "pool_passwd", "pcp.conf"],
    ),
    (Product::Odyssey, "odyssey", &["odyssey.conf"]),
    (Product::ProxySql, "proxysql", &["proxysql.cnf"]),
    (Product::HaProxy, "haproxy", &["haproxy.cfg"]),
    (Product::HaProxy, "haproxy_plain", &["haproxy.cfg"]),
];

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn sources(name: &str, files: &[&str]) -> Vec<Source> {
    let read = |file: &&str| Source {
        name: (*file).to_owned(),
        text: fs::read_to_string(directory(name).join(file)).expect("a golden file"),
    };
    files.iter().map(read).collect()
}

/// Loads a result; returns its notes and settings.
fn load(imported: &Imported) -> Result<weir_config::Loaded, String> {
    let mut read = |path: &Path| match path.to_str() {
        Some("weir.toml") => Ok(imported.text.clone()),
        _ => Ok(imported.userlist.clone()),
    };
    let loaded = weir_config::load(Path::new("weir.toml"), &mut read, std::iter::empty());
    weir_access::Hba::parse("hba.conf", &imported.hba).map_err(|problems| problems.to_string())?;
    loaded.map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        format!("{}\n{}", errors.join("\n"), imported.text)
    })
}

/// Imports a text that stands alone.
fn one(product: Product, file: &str, text: &str) -> Imported {
    let source = Source {
        name: file.to_owned(),
        text: text.to_owned(),
    };
    import(product, &[source], &FileNames::default()).expect("a valid file")
}

fn finding<'a>(imported: &'a Imported, key: &str) -> &'a Outcome {
    let mut findings = imported.findings.iter();
    let found = findings.find(|finding| finding.key == key);
    &found
        .unwrap_or_else(|| panic!("no finding for {key}"))
        .outcome
}

#[test]
fn golden_files_become_what_is_expected_and_load() {
    for (product, name, files) in CASES {
        let imported = import(product, &sources(name, files), &FileNames::default()).unwrap();
        let mut findings: Vec<String> = imported.findings.iter().map(ToString::to_string).collect();
        findings.extend(imported.notes.iter().map(|note| format!("note: {note}")));
        expect_file![directory(name).join("expected.weir.toml")].assert_eq(&imported.text);
        expect_file![directory(name).join("expected.findings")]
            .assert_eq(&(findings.join("\n") + "\n"));
        expect_file![directory(name).join("expected.userlist")].assert_eq(&imported.userlist);
        expect_file![directory(name).join("expected.hba")].assert_eq(&imported.hba);
        load(&imported).unwrap();
        let shown = format!("{}{}{}", imported.text, imported.hba, findings.join("\n"));
        assert!(!shown.contains("secret of"), "a secret is shown: {shown}");
        for line in imported.userlist.lines() {
            let secret = line.split('"').nth(3).unwrap();
            assert!(!shown.contains(secret), "a secret is shown: {secret}");
        }
        assert!(
            !shown.contains("0123456789abcdef"),
            "a hash is shown: {shown}"
        );
    }
}

/// True for a line that sets something, in any of the formats.
fn is_setting(product: Product, line: &str) -> bool {
    let line = line.trim();
    let is_empty = line.is_empty() || line.starts_with('#');
    let ends = ['{', '(', '[', '=', ':'];
    match product {
        Product::PgCat | Product::PgDog => line.contains(" = ") && !line.ends_with('['),
        Product::ProxySql => !is_empty && line.contains('=') && !line.ends_with(ends),
        Product::Odyssey => {
            !is_empty && line != "}" && !matches!(line, "options {" | "listen {" | "watchdog {")
        }
        _ => !is_empty,
    }
}

/// Each setting of the files has a finding: none is dropped.
#[test]
fn every_setting_has_a_finding() {
    for (product, name, files) in CASES {
        let sources = sources(name, files);
        let imported = import(product, &sources, &FileNames::default()).unwrap();
        let mut lines: BTreeMap<(&str, usize), usize> = BTreeMap::new();
        for finding in &imported.findings {
            *lines.entry((&finding.file, finding.line)).or_default() += 1;
        }
        for source in &sources {
            for (at, line) in source.text.lines().enumerate() {
                let found = lines.contains_key(&(source.name.as_str(), at + 1));
                assert!(
                    found || !is_setting(product, line),
                    "{}:{}: {line}",
                    source.name,
                    at + 1
                );
            }
        }
    }
}

#[test]
fn unknown_settings_are_named_and_refuse() {
    let cases = [
        (Product::PgCat, "[general]\nprot = 1\n", "general.prot"),
        (Product::PgDog, "[general]\nprot = 1\n", "general.prot"),
        (Product::Pgpool, "prot = 1\n", "prot"),
        (Product::Odyssey, "prot 1\n", "prot"),
        (Product::Odyssey, "listen { prot 1 }\n", "listen.0.prot"),
        (
            Product::ProxySql,
            "pgsql_variables = { prot = 1 }\n",
            "pgsql_variables.prot",
        ),
        (Product::HaProxy, "global\n prot 1\n", "global.prot"),
        (
            Product::HaProxy,
            "listen x\n server a b:5432 prot\n",
            "listen x.server a.prot",
        ),
    ];
    for (product, text, key) in cases {
        let imported = one(product, "file", text);
        assert!(
            matches!(finding(&imported, key), Outcome::Unknown(_)),
            "{key}"
        );
        assert!(imported.findings.iter().any(weir_import::Finding::blocks));
    }
}

#[test]
fn other_defaults_are_written() {
    let settings =
        |product: Product, text: &str| load(&one(product, "file", text)).unwrap().settings.global;
    let cat = settings(Product::PgCat, "[general]\n");
    assert_eq!(cat.pool_mode, weir_config::PoolMode::Transaction);
    assert_eq!((cat.listen_port, cat.workers), (5432, 4));
    let dog = settings(Product::PgDog, "[general]\n");
    assert_eq!(dog.pool_mode, weir_config::PoolMode::Transaction);
    assert_eq!(dog.query_wait_timeout.map(|time| time.as_secs()), Some(5));
    let pool = settings(Product::Pgpool, "port = 5432\n");
    assert_eq!(pool.pool_mode, weir_config::PoolMode::Session);
    assert_eq!((pool.max_client_conn, pool.listen_port), (96, 5432));
    let odyssey = settings(Product::Odyssey, "daemonize no\n");
    assert_eq!((odyssey.max_client_conn, odyssey.workers), (1_000_000, 1));
    let sql = settings(Product::ProxySql, "datadir=\"/x\"\n");
    assert_eq!((sql.max_client_conn, sql.listen_port), (10_000, 6133));
}

/// Each text has a mistake; the error names the place and what is expected, and shows no secret.
#[test]
fn syntax_errors_name_the_place_and_show_no_secret() {
    let cases = [
        (
            Product::PgCat,
            "[general]\nadmin_password = \"hidden\n",
            "file:2:",
        ),
        (
            Product::Pgpool,
            "a = 1\nsr_check_password = 'hidden\n",
            "file:2:21: expected a closing quote",
        ),
        (
            Product::Odyssey,
            "listen {\n password \"hidden\" x 1\n",
            "file:3:1: expected a closing brace",
        ),
        (
            Product::ProxySql,
            "a = {\n password = \"hidden\n}",
            "file:2:13: expected a closing quote",
        ),
        (
            Product::HaProxy,
            "global\n stats auth \"hidden\n",
            "file:2:13: expected a closing quote",
        ),
    ];
    for (product, text, begin) in cases {
        let source = Source {
            name: "file".to_owned(),
            text: text.to_owned(),
        };
        let errors = import(product, &[source], &FileNames::default()).unwrap_err();
        let text = errors[0].to_string();
        assert!(
            errors.len() == 1 && text.starts_with(begin),
            "{product:?}: {text}"
        );
        assert!(!text.contains("hidden"), "{text}");
    }
}

/// An option that Weir refuses is taken out, and its setting refuses the import.
#[test]
fn values_that_weir_refuses_are_reported_and_left_out() {
    let imported = one(
        Product::PgCat,
        "file",
        "[general]\nport = 70000\nworker_threads = 5000\n",
    );
    for key in ["general.port", "general.worker_threads"] {
        let Outcome::NotMapped(why) = finding(&imported, key) else {
            panic!("{key}");
        };
        assert!(why.starts_with("Weir refuses "), "{why}");
    }
    load(&imported).unwrap();
}
