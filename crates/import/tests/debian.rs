//! Examples of Debian's packages pgpool2 and haproxy, where they are installed: all their settings are known.

use std::fs;

use weir_import::{FileNames, Imported, Outcome, Product, Source, import};

fn unknown(imported: &Imported) -> Vec<String> {
    let findings = imported.findings.iter();
    let unknown = findings.filter(|finding| matches!(finding.outcome, Outcome::Unknown(_)));
    unknown.map(ToString::to_string).collect()
}

fn read(product: Product, name: &str, text: &str) -> Imported {
    let source = Source {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    import(product, &[source], &FileNames::default()).expect("a valid file")
}

/// Removes the comment sign in front of each example of a setting.
fn uncommented(text: &str) -> String {
    let line = |line: &str| {
        let rest = line.strip_prefix('#').unwrap_or(line);
        let name = rest.split(' ').next().unwrap_or_default();
        let is_name =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match is_name && rest[name.len()..].starts_with(" = ") {
            true => format!("{rest}\n"),
            false => "\n".to_owned(),
        }
    };
    text.lines().map(line).collect()
}

#[test]
fn every_setting_of_pgpools_example_is_known() {
    let Ok(text) = fs::read_to_string("/etc/pgpool2/pgpool.conf") else {
        return;
    };
    let plain = read(Product::Pgpool, "pgpool.conf", &text);
    assert_eq!(unknown(&plain), Vec::<String>::new());
    let all = read(Product::Pgpool, "pgpool.conf", &uncommented(&text));
    assert_eq!(unknown(&all), Vec::<String>::new());
    assert!(all.findings.len() > 150, "{}", all.findings.len());
}

#[test]
fn every_setting_of_haproxys_example_is_known() {
    let Ok(text) = fs::read_to_string("/etc/haproxy/haproxy.cfg") else {
        return;
    };
    let imported = read(Product::HaProxy, "haproxy.cfg", &text);
    assert_eq!(unknown(&imported), Vec::<String>::new());
}
