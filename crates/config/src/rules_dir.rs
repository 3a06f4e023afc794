//! Query rules of the files in `rules_dir`, which come behind those of the configuration file.

use crate::directory;
use crate::files::Files;
use crate::native;
use crate::raw::Raw;

/// Name of the option.
pub(crate) const OPTION: &str = "rules_dir";

/// Reads all files of the directory, in the order of their names.
pub(crate) fn read(raw: &mut Raw, files: &mut dyn Files) {
    let advice = "put several rules into one file";
    directory::read(raw, files, (OPTION, advice), native::read_rules);
}

#[cfg(test)]
mod tests;
