//! Runs every seed of every fuzz target, so that earlier findings stay found without fuzzing.

use std::fs;
use std::path::Path;

use weir_access::fuzzing;

fn run(target: &str, logic: fn(&[u8])) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/seeds")
        .join(target);
    let mut count = 0;
    for entry in fs::read_dir(&seeds).unwrap_or_else(|error| panic!("{}: {error}", seeds.display()))
    {
        let path = entry.expect("the directory can be read").path();
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let outcome = std::panic::catch_unwind(|| logic(&bytes));
        assert!(outcome.is_ok(), "{target} fails on {}", path.display());
        count += 1;
    }
    assert!(count > 0, "{target} has no seeds");
}

#[test]
fn hba_seeds() {
    run("hba", fuzzing::hba);
}

#[test]
fn ident_seeds() {
    run("ident", fuzzing::ident);
}

#[test]
fn ldap_seeds() {
    run("ldap", fuzzing::ldap);
}
