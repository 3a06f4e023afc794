//! Settings fence: a client's settings precede its statement, and a cancel request hits the statement, never the
//! settings.

use std::time::Duration;

use weir_testkit::backend::Database;
use weir_testkit::say::say;

use super::world::World;
use crate::driver::memory::End;

/// Returns a world with one server that has other settings than the client. The client's query waits there for its
/// settings.
fn fenced() -> (World, usize) {
    let mut world = World::new(1, "default_pool_size = 1\nquery_wait_notify = 0");
    world.cancels_at_once = false;
    world.database = Some(Database::default());
    let one = world.dial("ann", &[("statement_timeout", "5s")]);
    world.settle();
    let other = world.dial("ann", &[]);
    world.settle();
    world.ask(other, &say().query("SELECT 'other'"));
    world.callers[one].heard();
    world.servers[0].asked.clear();
    world.callers[one].say(&say().query("SELECT 'one'"));
    world.callers[one].serve();
    world.turn(0);
    world.servers[0].hear();
    assert!(world.servers[0].begin());
    (world, one)
}

const SET: &str = "SET \"statement_timeout\" TO E'5s'";

#[test]
fn a_query_is_sent_when_its_settings_are_confirmed() {
    let (mut world, one) = fenced();
    assert_eq!(world.servers[0].asked, [SET]);
    world.settle();
    assert_eq!(world.servers[0].asked, [SET, "SELECT 'one'"]);
    assert_eq!(world.callers[one].heard(), "T D(one) C(SELECT 1) Z(I)");
}

#[test]
fn a_cancel_waits_for_the_turn_of_its_client() {
    let (mut world, one) = fenced();
    let asker = world.request_cancel(one);
    world.servers[0].stalled = true;
    world.advance(Duration::ZERO);
    assert!(world.cancels.is_empty(), "the settings run");
    assert!(!world.callers[asker].is_closed());
    world.servers[0].stalled = false;
    // The settings are confirmed, and the query comes.
    assert!(world.servers[0].finish());
    world.servers[0].speak(usize::MAX);
    world.turn(0);
    world.servers[0].hear();
    assert!(world.servers[0].begin());
    world.servers[0].stalled = true;
    world.advance(Duration::ZERO);
    assert_eq!(world.cancels.len(), 1);
    assert!(world.signal(0), "the query is hit");
    world.cancels.remove(0).peer.end(End::Orderly);
    world.servers[0].stalled = false;
    world.settle();
    assert!(world.callers[asker].is_closed());
    let heard = world.callers[one].heard();
    assert!(
        heard.starts_with("E(") && heard.ends_with("Z(I)"),
        "{heard}"
    );
    assert_eq!(world.servers[0].asked[..2], [SET, "SELECT 'one'"]);
}

#[test]
fn a_cancel_of_a_client_that_leaves_meanwhile_is_over() {
    let (mut world, one) = fenced();
    let asker = world.request_cancel(one);
    world.servers[0].stalled = true;
    world.advance(Duration::ZERO);
    world.callers[one].leave(End::Orderly);
    world.advance(Duration::ZERO);
    assert!(world.callers[asker].is_closed());
    world.servers[0].stalled = false;
    world.settle();
    assert!(
        !world.servers[0]
            .asked
            .iter()
            .any(|asked| asked.contains("'one'"))
    );
}
