//! Helpers that start real PostgreSQL servers, Weir and clients for the suites in `tests/`.
