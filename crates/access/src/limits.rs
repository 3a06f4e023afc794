//! Every limit on what a file may make us hold.

/// How deep `include` and `@file` may nest below the first file; PostgreSQL's own limit.
pub const DEPTH_MAX: usize = 10;
/// Bytes of one file.
pub const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of one line, after its continuation lines were joined.
pub const LINE_BYTES_MAX: usize = 64 * 1024;
/// Files that one load may read, counting a file as often as it is included.
pub const FILES_MAX: usize = 1_000;
/// Bytes of all files of one load together.
pub const TOTAL_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes that one compiled regular expression may take.
pub const REGEX_BYTES_MAX: usize = 256 * 1024;
/// Regular expressions in one load.
pub const REGEXES_MAX: usize = 1_000;
/// Mistakes that one load reports.
pub const PROBLEMS_MAX: usize = 100;
