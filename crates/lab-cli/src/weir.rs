//! Location of the Weir that is measured.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use weir_lab::error::Error;
use weir_lab::process::find_program;

/// Returns the absolute path of Weir: what `WEIR_BIN` names, else the program beside this one, else the one on `PATH`.
///
/// # Errors
/// If there is none.
pub(crate) fn find() -> Result<PathBuf, Error> {
    let ourselves = std::env::current_exe().ok();
    locate(
        std::env::var_os("WEIR_BIN"),
        ourselves.as_deref().and_then(Path::parent),
    )
}

fn locate(named: Option<OsString>, beside: Option<&Path>) -> Result<PathBuf, Error> {
    let found = match named.filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => find_program(
            "weir",
            &beside.map(Path::to_owned).into_iter().collect::<Vec<_>>(),
        )?,
    };
    // Measured programs are started in directories of their own.
    Ok(std::path::absolute(&found).unwrap_or(found))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_named_wins_over_what_is_beside() {
        let directory = tempfile::tempdir().unwrap();
        let weir = directory.path().join("weir");
        fs::write(&weir, "").unwrap();
        let beside = Some(directory.path());
        assert_eq!(locate(None, beside).unwrap(), weir);
        assert_eq!(locate(Some("".into()), beside).unwrap(), weir);
        let named = locate(Some("/opt/weir".into()), beside).unwrap();
        assert_eq!(named, Path::new("/opt/weir"));
        let relative = locate(Some("target/weir".into()), beside).unwrap();
        assert!(relative.is_absolute() && relative.ends_with("target/weir"));
    }
}
