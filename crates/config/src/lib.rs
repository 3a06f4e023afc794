//! One table of options: parser, defaults, ranges, reference page, SHOW CONFIG.
