//! Path of the Weir that tasks run.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::workspace;

/// Path of the release binary: `WEIR_BIN`, else cargo's target directory. Fails with the build command if it is
/// missing.
pub(crate) fn weir_binary() -> Result<PathBuf> {
    let built = || workspace::target_directory().join("release").join("weir");
    let binary = std::env::var_os("WEIR_BIN").map_or_else(built, PathBuf::from);
    if !binary.is_file() {
        bail!(
            "{} is not there; build it with: cargo build --release -p weir-cli",
            binary.display()
        );
    }
    Ok(binary)
}
