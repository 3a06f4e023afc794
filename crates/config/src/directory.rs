//! Directories that an option names, with files of one kind.

use std::path::Path;

use crate::error::ErrorKind;
use crate::files::{Files, native_files};
use crate::raw::{Raw, error_at, quoted};
use crate::value::Value;

/// Maximum number of files in a directory.
pub(crate) const FILES_MAX: usize = 1_000;

/// Reads all files of the directory that an option names, if it does, in the order of their names. `advice` is for a directory
/// with too many files.
pub(crate) fn read(
    raw: &mut Raw,
    files: &mut dyn Files,
    (option, advice): (&str, &str),
    read: fn(&mut Raw, &Path, &mut dyn Files),
) {
    let Some((Value::Text(directory), at)) = raw.global.get(option).cloned() else {
        return;
    };
    if directory.is_empty() {
        return;
    }
    let (kind, message) = match native_files(files, Path::new(&directory)) {
        Ok(found) if found.len() <= FILES_MAX => {
            return found.iter().for_each(|file| read(raw, file, files));
        }
        Ok(found) => {
            let message = format!(
                "{option} {} has {} files, and at most {FILES_MAX} are read; {advice}",
                quoted(&directory),
                found.len()
            );
            (ErrorKind::Conflict, message)
        }
        Err(why) => {
            let message = format!(
                "cannot read the directory {} of {option}: {why}; create it, or remove {option}",
                quoted(&directory)
            );
            (ErrorKind::Read, message)
        }
    };
    let mut error = error_at(&at, kind, message);
    error.key = Some(option.to_owned());
    raw.fail(error);
}
