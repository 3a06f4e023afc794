//! What a result depends on besides the programs under test.

pub mod negotiated;
