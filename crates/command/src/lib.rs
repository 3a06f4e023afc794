//! Parts of a command line that the binaries `weir` and `weir-lab` share: exit codes, text to the standard streams,
//! manual pages and completions. It knows no command of either.

pub mod exit;
pub mod pages;
