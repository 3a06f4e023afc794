//! Access to files, provided by the caller: this crate opens nothing itself.

use std::path::Path;

/// Source of the text of files.
pub trait Files {
    /// Returns the bytes of the file.
    ///
    /// Reading may stop after [`FILE_BYTES_MAX`](crate::limits::FILE_BYTES_MAX) + 1 bytes, because a longer file is
    /// refused anyway.
    ///
    /// # Errors
    ///
    /// [`FileError::Missing`] if there is no such file (which `include_if_exists` allows), else [`FileError::Failed`]
    /// with the reason of the operating system.
    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError>;

    /// Returns the names of all entries of the directory, in any order. Names that are not UTF-8 may be left out.
    ///
    /// # Errors
    ///
    /// As for [`Self::read`].
    fn list(&self, directory: &Path) -> Result<Vec<String>, FileError>;
}

/// Reason for which a file could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The read failed; the text says why.
    #[error("{0}")]
    Failed(String),
    /// There is no such file.
    #[error("no such file")]
    Missing,
}

/// Source without files: every `include` and `@file` is a mistake.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &Path) -> Result<Vec<u8>, FileError> {
        Err(FileError::Missing)
    }

    fn list(&self, _directory: &Path) -> Result<Vec<String>, FileError> {
        Err(FileError::Missing)
    }
}
