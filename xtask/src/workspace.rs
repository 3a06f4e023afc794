//! Paths of the workspace: the root of the repository and cargo's target directory.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Root of the repository, derived from the path where this crate was compiled.
pub(crate) fn root() -> &'static Path {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_directory.parent().unwrap_or(crate_directory)
}

/// Target directory: `CARGO_TARGET_DIR`, else `target` in the root.
pub(crate) fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |directory| root().join(directory))
}

/// Command for the cargo that runs this program, in the root of the repository.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}
