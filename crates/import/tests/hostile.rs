//! Texts that nobody would write: an import answers with a configuration that loads or with an error that names a place. It
//! never panics, and reads every file to its end.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use weir_import::{FileNames, Imported, Product, Source, import};

/// Product, a file of its own, and a setting that it does not know.
const CASES: [(Product, &str, &str); 8] = [
    (Product::PgCat, "pgcat/pgcat.toml", "zz_marker = 1"),
    (Product::PgDog, "pgdog/pgdog.toml", "zz_marker = 1"),
    (Product::PgDog, "pgdog/users.toml", "zz_marker = 1"),
    (Product::Pgpool, "pgpool/pgpool.conf", "zz_marker = 1"),
    (Product::Odyssey, "odyssey/odyssey.conf", "zz_marker 1"),
    (Product::ProxySql, "proxysql/proxysql.cnf", "zz_marker = 1"),
    (Product::HaProxy, "haproxy/haproxy.cfg", "zz_marker 1"),
    (Product::HaProxy, "haproxy_plain/haproxy.cfg", "zz_marker 1"),
];
/// Other files of Pgpool-II and Odyssey, which have an entry per line.
const LISTS: [(Product, &str); 4] = [
    (Product::Pgpool, "pool_hba.conf"),
    (Product::Pgpool, "pool_passwd"),
    (Product::Pgpool, "pcp.conf"),
    (Product::Odyssey, "odyssey_hba.conf"),
];

fn golden(name: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    fs::read_to_string(directory.join(name)).expect("a golden file")
}

/// Imports a text. What comes out must load, or say that it does not.
fn attempt(product: Product, name: &str, text: &str) -> Option<Imported> {
    let source = Source {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    let imported = match import(product, &[source], &FileNames::default()) {
        Ok(imported) => imported,
        Err(errors) => {
            let [error] = errors.as_slice() else {
                panic!("one error per file: {errors:?}");
            };
            let lines = text.lines().count().max(1) + 1;
            assert!((1..=lines).contains(&error.line), "{error}");
            assert!(error.column >= 1 && !error.message.is_empty(), "{error}");
            return None;
        }
    };
    let texts: Vec<String> = imported.findings.iter().map(ToString::to_string).collect();
    let mut read = |path: &Path| match path.to_str() {
        Some("weir.toml") => Ok(imported.text.clone()),
        _ => Ok(String::new()),
    };
    let loaded = weir_config::load(Path::new("weir.toml"), &mut read, std::iter::empty());
    if let Err(errors) = loaded {
        let is_told = texts
            .iter()
            .any(|text| text.contains("Weir refuses the result"));
        assert!(is_told, "{errors:?}\n{}", imported.text);
    }
    if let Err(problems) = weir_access::Hba::parse("hba.conf", &imported.hba) {
        panic!("{problems}\n{}", imported.hba);
    }
    Some(imported)
}

/// Changes of a text: at a share of its length, a number of characters is replaced by others.
fn edits() -> impl Strategy<Value = Vec<(f64, usize, String)>> {
    let words = prop_oneof![
        "[ -~\n\"'{}()=#\\\\]{0,4}",
        "\\PC{0,3}",
        Just("-1".to_owned()),
        Just("99999999999999999999".to_owned()),
        Just("${HOME}".to_owned()),
        Just("\n".to_owned()),
    ];
    proptest::collection::vec((0.0..1.0, 0_usize..12, words), 0..5)
}

fn edited(text: &str, edits: &[(f64, usize, String)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (place, count, new) in edits {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a place in a short text"
        )]
        let at = (place * chars.len() as f64) as usize;
        let end = (at + count).min(chars.len());
        chars.splice(at.min(end)..end, new.chars());
    }
    chars.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in "[ -~\n\t\"'{}()=#\\\\\\[\\]é]{0,300}") {
        for (product, name, _) in CASES {
            attempt(product, name, &text);
        }
        for (product, name) in LISTS {
            attempt(product, name, &text);
        }
    }

    #[test]
    fn no_change_of_a_real_file_panics(case in 0..CASES.len(), edits in edits()) {
        let (product, name, _) = CASES[case];
        attempt(product, name, &edited(&golden(name), &edits));
    }

    #[test]
    fn a_file_is_read_to_its_end(case in 0..CASES.len(), edits in edits()) {
        let (product, name, marker) = CASES[case];
        let text = format!("{}\n{marker}\n", edited(&golden(name), &edits));
        if let Some(imported) = attempt(product, name, &text) {
            let is_read = imported.findings.iter().any(|finding| {
                finding.key.contains("zz_marker") && finding.line + 1 >= text.lines().count()
            });
            prop_assert!(is_read, "the last line is not read: {text}");
        }
    }
}
