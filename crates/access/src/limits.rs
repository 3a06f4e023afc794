//! Limits on the resources that a file may take.

/// Maximum depth of `include` and `@file` below the first file; PostgreSQL's own limit.
pub const DEPTH_MAX: usize = 10;
/// Maximum bytes of one file.
pub const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum bytes of one line, after its continuation lines were joined.
pub const LINE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of files of one load, counting a file as often as it is included.
pub const FILES_MAX: usize = 1_000;
/// Maximum bytes of all files of one load together.
pub const TOTAL_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum bytes of one compiled regular expression.
pub const REGEX_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of regular expressions of one load.
pub const REGEXES_MAX: usize = 1_000;
/// Maximum number of mistakes that one load reports.
pub const PROBLEMS_MAX: usize = 100;
