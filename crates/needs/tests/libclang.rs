//! The build script's search for libclang.

#[path = "../build/libclang.rs"]
mod libclang;

use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// Searches with `LIBCLANG_PATH` set to a path and nothing else.
fn is_in(path: &Path) -> bool {
    let path = OsString::from(path);
    libclang::is_there(&move |name| (name == "LIBCLANG_PATH").then(|| path.clone()))
}

#[test]
fn only_the_place_that_the_variable_names_is_searched() {
    let directory = std::env::temp_dir().join(format!("weir-libclang-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    assert!(!is_in(&directory), "an empty directory");
    fs::write(directory.join("libclang-cpp.so.14"), "").unwrap();
    assert!(!is_in(&directory), "libclang-cpp is another library");
    let library = directory.join("libclang-14.so.13");
    fs::write(&library, "").unwrap();
    assert!(is_in(&directory));
    assert!(is_in(&library), "the variable may name the file");
    fs::remove_dir_all(&directory).unwrap();
    assert!(!is_in(&directory));
}

#[test]
fn the_message_names_packages_and_variable() {
    for word in [
        "libclang1-14",
        "libclang-common-14-dev",
        "LIBCLANG_PATH",
        "make build",
    ] {
        assert!(libclang::MISSING.contains(word), "{word}");
    }
    assert!(libclang::VARIABLES.contains(&"LIBCLANG_PATH"));
}
