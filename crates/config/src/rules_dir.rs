//! Query rules of the files in `rules_dir`, which come behind those of the configuration file.

use std::path::Path;

use crate::error::ErrorKind;
use crate::files::{Files, native_files};
use crate::native;
use crate::raw::{Origin, Raw, error_at, quoted};
use crate::value::Value;

/// Name of the option.
pub(crate) const OPTION: &str = "rules_dir";

/// Maximum number of files in the directory.
const FILES_MAX: usize = 1_000;

/// Reads all files of the directory, in the order of their names.
pub(crate) fn read(raw: &mut Raw, files: &mut dyn Files) {
    let Some((Value::Text(directory), at)) = raw.global.get(OPTION).cloned() else {
        return;
    };
    if directory.is_empty() {
        return;
    }
    let found = match native_files(files, Path::new(&directory)) {
        Ok(found) => found,
        Err(why) => {
            let message = format!(
                "cannot read the directory {} of {OPTION}: {why}; create it, or remove {OPTION}",
                quoted(&directory)
            );
            return fail(raw, &at, ErrorKind::Read, message);
        }
    };
    if found.len() > FILES_MAX {
        let message = format!(
            "{OPTION} {} has {} files, and at most {FILES_MAX} are read; put several rules into one file",
            quoted(&directory),
            found.len()
        );
        return fail(raw, &at, ErrorKind::Conflict, message);
    }
    for file in found {
        native::read_rules(raw, &file, files);
    }
}

fn fail(raw: &mut Raw, at: &Origin, kind: ErrorKind, message: String) {
    let mut error = error_at(at, kind, message);
    error.key = Some(OPTION.to_owned());
    raw.fail(error);
}

#[cfg(test)]
mod tests;
