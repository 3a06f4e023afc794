//! Golden files: configurations of the other products, what becomes of them, and what is said about them. The results must
//! load. `UPDATE_EXPECT=1` writes the expected files again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use weir_import::{Imported, Outcome, Product, Source, import};

const PRODUCTS: [(Product, &str, &[&str]); 2] = [
    (Product::PgCat, "pgcat", &["pgcat.toml"]),
    (Product::PgDog, "pgdog", &["pgdog.toml", "users.toml"]),
];

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn sources(name: &str, files: &[&str]) -> Vec<Source> {
    let read = |file: &&str| Source {
        name: (*file).to_owned(),
        text: fs::read_to_string(directory(name).join(file)).unwrap(),
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
    loaded.map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        format!("{}\n{}", errors.join("\n"), imported.text)
    })
}

/// Imports a text that stands alone.
fn one(product: Product, text: &str) -> Imported {
    let source = Source {
        name: "file".to_owned(),
        text: text.to_owned(),
    };
    import(product, &[source], "userlist.txt").unwrap()
}

#[test]
fn golden_files_become_what_is_expected_and_load() {
    for (product, name, files) in PRODUCTS {
        let imported = import(product, &sources(name, files), "userlist.txt").unwrap();
        let findings: Vec<String> = imported.findings.iter().map(ToString::to_string).collect();
        expect_file![directory(name).join("expected.weir.toml")].assert_eq(&imported.text);
        expect_file![directory(name).join("expected.findings")]
            .assert_eq(&(findings.join("\n") + "\n"));
        expect_file![directory(name).join("expected.userlist")].assert_eq(&imported.userlist);
        load(&imported).unwrap();
        let shown = format!("{}{}", imported.text, findings.join("\n"));
        assert!(!shown.contains("secret of"), "a secret is shown: {shown}");
    }
}

/// Each setting of the files has exactly one finding: none is dropped.
#[test]
fn every_setting_has_a_finding() {
    for (product, name, files) in PRODUCTS {
        let sources = sources(name, files);
        let imported = import(product, &sources, "userlist.txt").unwrap();
        let mut lines: BTreeMap<(&str, usize), usize> = BTreeMap::new();
        for finding in &imported.findings {
            *lines.entry((&finding.file, finding.line)).or_default() += 1;
        }
        for source in &sources {
            for (at, line) in source.text.lines().enumerate() {
                let is_setting = line.contains(" = ") && !line.ends_with('[');
                let found = lines.contains_key(&(source.name.as_str(), at + 1));
                assert!(found || !is_setting, "{}:{}: {line}", source.name, at + 1);
            }
        }
    }
}

#[test]
fn unknown_settings_are_named_and_refuse() {
    for (product, section) in [(Product::PgCat, "general"), (Product::PgDog, "general")] {
        let imported = one(product, &format!("[{section}]\nprot = 1\n"));
        let finding = imported
            .findings
            .iter()
            .find(|finding| finding.key == "general.prot")
            .unwrap();
        assert!(matches!(finding.outcome, Outcome::Unknown(_)) && finding.blocks());
    }
}

#[test]
fn other_defaults_are_written() {
    let cat = load(&one(Product::PgCat, "[general]\n"))
        .unwrap()
        .settings
        .global;
    assert_eq!(cat.pool_mode, weir_config::PoolMode::Transaction);
    assert_eq!((cat.listen_port, cat.workers), (5432, 4));
    let dog = load(&one(Product::PgDog, "[general]\n"))
        .unwrap()
        .settings
        .global;
    assert_eq!(dog.pool_mode, weir_config::PoolMode::Transaction);
    assert_eq!(dog.query_wait_timeout.map(|time| time.as_secs()), Some(5));
}

#[test]
fn syntax_errors_name_the_line_and_show_no_secret() {
    let source = Source {
        name: "pgcat.toml".to_owned(),
        text: "[general]\nadmin_password = \"hidden\n".to_owned(),
    };
    let errors = import(Product::PgCat, &[source], "userlist.txt").unwrap_err();
    assert!(errors[0].starts_with("pgcat.toml:2: "), "{errors:?}");
    assert!(
        !errors.iter().any(|error| error.contains("hidden")),
        "{errors:?}"
    );
}

/// Golden files cut at every byte, and with bytes replaced: an answer or an error, never a panic. What is converted has no
/// syntax error.
#[test]
fn no_text_panics() {
    for (product, name, files) in PRODUCTS {
        for source in sources(name, files) {
            let bytes = source.text.as_bytes();
            for at in 0..bytes.len() {
                try_bytes(product, &bytes[..at]);
                for other in *b"\"[=0\n\xff" {
                    let mut changed = bytes.to_vec();
                    changed[at] = other;
                    try_bytes(product, &changed);
                }
            }
        }
    }
}

fn try_bytes(product: Product, bytes: &[u8]) {
    let source = Source {
        name: "file".to_owned(),
        text: String::from_utf8_lossy(bytes).into_owned(),
    };
    if let Ok(imported) = import(product, &[source], "userlist.txt") {
        imported
            .findings
            .iter()
            .for_each(|finding| drop(finding.to_string()));
        toml::from_str::<toml::Table>(&imported.text).unwrap();
    }
}
