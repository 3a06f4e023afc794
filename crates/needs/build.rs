//! Fails the build with the name of the package if libclang is missing. The build script of pg_query needs it, names no
//! package, and compiles C for minutes before it looks. This one must never change what is compiled.

#[path = "build/libclang.rs"]
mod libclang;

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build/libclang.rs");
    for name in libclang::VARIABLES {
        println!("cargo::rerun-if-env-changed={name}");
    }
    // Elsewhere libraries have other names and places; bindgen finds them or says what it missed.
    let is_linux = env::var_os("CARGO_CFG_TARGET_OS").is_some_and(|os| os == "linux");
    if is_linux && !libclang::is_there(&|name| env::var_os(name)) {
        println!("cargo::error={}", libclang::MISSING);
    }
}
