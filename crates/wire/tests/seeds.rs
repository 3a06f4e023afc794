//! Runs every seed of every fuzz target, so that past findings are checked without fuzzing.

use std::fs;
use std::path::Path;

use weir_wire::fuzzing;

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
fn frame_seeds() {
    run("frame", fuzzing::frame);
}

#[test]
fn startup_seeds() {
    run("startup", fuzzing::startup);
}

#[test]
fn sec_24_options_seeds() {
    run("options", fuzzing::options);
}

#[test]
fn frontend_seeds() {
    run("frontend", fuzzing::frontend);
}

#[test]
fn backend_seeds() {
    run("backend", fuzzing::backend);
}
