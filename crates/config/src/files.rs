//! Access to files, provided by the caller: this crate opens nothing itself.

use std::io;
use std::path::{Path, PathBuf};

use crate::load::is_native;

/// Source of files and directories. A closure that returns the text of a file is a source without directories.
pub trait Files {
    /// Returns the text of a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not UTF-8.
    fn read(&mut self, path: &Path) -> io::Result<String>;

    /// Returns the paths of all entries of a directory that are no directories, in any order.
    ///
    /// # Errors
    /// The directory cannot be read.
    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>>;
}

impl<F: FnMut(&Path) -> io::Result<String>> Files for F {
    fn read(&mut self, path: &Path) -> io::Result<String> {
        self(path)
    }

    fn list(&mut self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Returns the files named `*.toml` in a directory, sorted by name. Hidden files belong to editors and are skipped, as are
/// backups such as `a.toml~`, whose names end in another way.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn native_files(files: &mut dyn Files, directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = files.list(directory)?;
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        is_native(path) && !name.starts_with('.')
    });
    found.sort_unstable();
    Ok(found)
}
