//! Bytes to PostgreSQL protocol messages and back, in both directions, and nothing else.
