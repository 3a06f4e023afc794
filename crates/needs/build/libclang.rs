//! Search for libclang in the places where bindgen (crate clang-sys) looks for it. Compiled into the build script and its
//! test. It must never load the library.

use std::env::split_paths;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Environment variables that change the result.
pub(crate) const VARIABLES: [&str; 3] = ["LIBCLANG_PATH", "LLVM_CONFIG_PATH", "LD_LIBRARY_PATH"];

/// Message for a machine without libclang.
pub(crate) const MISSING: &str = "libclang is missing, which pg_query needs to build PostgreSQL's grammar: on Debian 12 install \
    the packages libclang1-14 and libclang-common-14-dev (`make build` does), or set LIBCLANG_PATH to the directory of \
    libclang.so";

/// Roots of the system's libraries, whose names may go on, as in `/usr/lib64`. Searched two levels deep.
const ROOTS: [(&str, &str); 2] = [("/usr", "lib"), ("/usr/local", "lib")];

/// True if bindgen will find libclang. `LIBCLANG_PATH` alone is searched if it is set.
pub(crate) fn is_there(variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    if let Some(path) = variable("LIBCLANG_PATH").map(PathBuf::from) {
        return is_library(&path) && path.is_file() || holds_library(&path);
    }
    let listed = variable("LD_LIBRARY_PATH").unwrap_or_default();
    llvm_prefix(variable).is_some_and(|prefix| {
        ["bin", "lib", "lib64"]
            .iter()
            .any(|name| holds_library(&prefix.join(name)))
    }) || split_paths(&listed).any(|path| holds_library(&path))
        || ROOTS
            .iter()
            .any(|(parent, name)| below(Path::new(parent), name))
        || below(Path::new("/usr/local"), "llvm")
}

/// Asks llvm-config where LLVM is installed; None without one.
fn llvm_prefix(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let program = variable("LLVM_CONFIG_PATH").unwrap_or_else(|| "llvm-config".into());
    let output = Command::new(program).arg("--prefix").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output
        .status
        .success()
        .then(|| PathBuf::from(text.trim_end()))
}

/// Searches the directories of `parent` whose names begin with `name`, and two levels below them.
fn below(parent: &Path, name: &str) -> bool {
    let named = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(name)
    };
    directories(parent).filter(named).any(|root| {
        holds_library(&root)
            || directories(&root).any(|first| {
                holds_library(&first) || directories(&first).any(|second| holds_library(&second))
            })
    })
}

fn directories(parent: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
}

fn holds_library(directory: &Path) -> bool {
    let mut entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.any(|entry| is_library(&entry.path()))
}

/// True for `libclang.so`, `libclang-14.so`, `libclang.so.1` and `libclang-14.so.13`, but not for libclang-cpp.
fn is_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some(rest) = name.strip_prefix("libclang") else {
        return false;
    };
    let starts = rest.starts_with(".so") || rest.starts_with('-') && !rest.contains("-cpp.");
    starts && (rest.ends_with(".so") || rest.contains(".so."))
}
