//! Tests of the controller without a simulator: golden traces of its decisions, properties, and every rail.
#![expect(unreachable_pub, reason = "modules of a test are nobody's interface")]

mod curve;
mod golden;
mod properties;
mod rails;
mod stall;
mod weather;
