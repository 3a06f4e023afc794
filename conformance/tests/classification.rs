//! Verdicts of `weir_sql::access` on real servers: what is held to read runs on a hot standby and changes nothing.

#![allow(
    clippy::print_stdout,
    reason = "the tables of misjudged texts are read by people"
)]

#[path = "classification/generated.rs"]
mod generated;
#[path = "classification/mirror.rs"]
mod mirror;
#[path = "classification/objects.rs"]
mod objects;
#[path = "classification/report.rs"]
mod report;
#[path = "classification/session.rs"]
mod session;
#[path = "classification/suite.rs"]
mod suite;
