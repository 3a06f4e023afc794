//! Tests of start values behind a DISCARD ALL in a batch, whatever follows in the batch.

use std::sync::Arc;

use weir_session::client::Client;
use weir_session::relay::StatePolicy;
use weir_session::settings::Settings;
use weir_testkit::say::say;

use crate::prepared::{BOUND, DONE, PARSED, READY, Wire, error};

const DISCARDED: &[u8] = b"C\0\0\0\x10DISCARD ALL\0";
const SET: &[u8] = b"C\0\0\0\x08SET\0Z\0\0\0\x05I";

/// Returns a client that began with a value of its own.
fn wire() -> Wire {
    let mut wire = Wire::new();
    wire.rules.state = StatePolicy::Track;
    let settings = Settings::from_pairs([("work_mem", "5MB")]);
    wire.client = Client::new(settings.into(), Arc::clone(wire.server.reported()));
    wire
}

#[test]
fn what_follows_a_discard_all_in_its_batch_waits_for_the_values_from_the_start() {
    let mut wire = wire();
    let batch = say().parse("", "discard all").run("").run("b").sync();
    assert_eq!(wire.asks(&batch), "P B E H");
    let done = [PARSED, BOUND, DISCARDED].concat();
    assert_eq!(wire.replies(&done), "1 2 C(DISCARD ALL)");
    assert_eq!(wire.goes_on(), "S Q");
    let sent = String::from_utf8_lossy(&wire.sent).into_owned();
    assert!(sent.contains("SET \"work_mem\" TO E'5MB'"), "{sent}");
    assert_eq!(wire.replies(&[READY, SET].concat()), "");
    assert_eq!(wire.goes_on(), "B E S");
    let failed = error("26000", "no b", "FetchPreparedStatement");
    assert_eq!(wire.replies(&failed), "E(26000 no b) Z(I)");
}

#[test]
fn a_discard_all_that_fails_sets_nothing() {
    let mut wire = wire();
    let batch = say().parse("", "discard all").run("").run("b").sync();
    assert_eq!(wire.asks(&batch), "P B E H");
    let failed = error("57014", "canceled", "ProcessInterrupts");
    let error_alone = &failed[..failed.len() - READY.len()];
    let replied = [PARSED, BOUND, error_alone].concat();
    assert_eq!(wire.replies(&replied), "1 2 E(57014 canceled)");
    assert_eq!(wire.goes_on(), "B E S");
    assert_eq!(wire.replies(READY), "Z(I)");
}

#[test]
fn a_discard_all_that_ends_its_batch_waits_for_nothing() {
    let mut wire = wire();
    let batch = say().parse("", "discard all").run("").sync();
    assert_eq!(wire.asks(&batch), "P B E S Q");
    let done = [PARSED, BOUND, DISCARDED, READY].concat();
    assert_eq!(wire.replies(&done), "1 2 C(DISCARD ALL)");
    assert_eq!(wire.replies(SET), "Z(I)");
    // Other batches wait for nothing either.
    assert_eq!(
        wire.asks(&say().parse("", "do!").run("").run("").sync()),
        "P B E B E S"
    );
    let done = [PARSED, BOUND, DONE, BOUND, DONE, READY].concat();
    assert_eq!(wire.replies(&done), "1 2 C(DO) 2 C(DO) Z(I)");
}
