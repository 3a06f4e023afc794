//! Trials of clients that have inserted for the first time: they keep their server for a moment, to read the value of a
//! sequence.

use std::time::Duration;

use weir_testkit::say::say;

use super::world::World;
use crate::driver::memory::End;

const ONE_SERVER: &str = "default_pool_size = 1\nsession_state = track\nquery_wait_notify = 0";
const INSERT: &str = "INSERT INTO public.sink VALUES ('x')";
const DONE: &str = "C(INSERT 0 1) Z(I)";
const SEEN: &str = "D(y) C(SELECT 1) Z(I)";

/// Returns two clients; the first has inserted while the second waits.
fn waiting() -> (World, usize, usize) {
    let mut world = World::new(1, ONE_SERVER);
    let (one, other) = (world.login(), world.login());
    assert_eq!(world.ask(one, &say().query(INSERT)), DONE);
    assert_eq!(world.ask(other, &say().query("SELECT 'y'")), "");
    (world, one, other)
}

#[test]
fn a_client_on_trial_keeps_its_server_for_its_next_request() {
    let (mut world, one, other) = waiting();
    assert!(world.ask(one, &say().query("SELECT 'z'")).contains("D(z)"));
    assert!(world.callers[other].heard().contains("D(y)"));
    // The client did not read, so it gets no further trial.
    assert_eq!(world.ask(one, &say().query(INSERT)), DONE);
    assert!(world.ask(other, &say().query("SELECT 'y'")).contains(SEEN));
    world.check();
}

#[test]
fn a_client_that_reads_keeps_it() {
    let (mut world, one, other) = waiting();
    let read = world.ask(one, &say().query("SELECT lastval()"));
    assert!(
        read.contains("55000"),
        "the model's table moves none: {read}"
    );
    assert_eq!(world.callers[other].heard(), "");
    world.ask(one, &say().query("DISCARD SEQUENCES"));
    assert!(world.callers[other].heard().contains("D(y)"));
}

#[test]
fn a_client_on_trial_that_says_nothing_keeps_nobody_waiting_for_long() {
    let (mut world, one, other) = waiting();
    world.advance(Duration::from_millis(300));
    assert!(world.callers[other].heard().contains("D(y)"));
    assert!(world.ask(one, &say().query("SELECT 'y'")).contains(SEEN));
}

#[test]
fn all_trials_together_keep_others_waiting_for_a_bounded_time() {
    let mut world = World::new(1, ONE_SERVER);
    let other = world.login();
    let mut waited = 0;
    for _ in 0..20 {
        let one = world.login();
        assert_eq!(world.ask(one, &say().query(INSERT)), DONE);
        if world.ask(other, &say().query("SELECT 'y'")).is_empty() {
            waited += 1;
            world.advance(Duration::from_millis(300));
            assert!(world.callers[other].heard().contains("D(y)"));
        }
    }
    assert!((7..=9).contains(&waited), "{waited}");
}

/// Weir's own request precedes the INSERT, and the server is lost with it.
#[test]
fn an_insert_that_waits_for_a_clean_server_runs_on_the_next_one() {
    let ends = [
        (true, End::Orderly),
        (false, End::Orderly),
        (false, End::Reset),
    ];
    for (last_word, how) in ends {
        for lines in ["", "\nserver_login_retry = 1"] {
            let mut world = World::new(1, &format!("{ONE_SERVER}{lines}"));
            let (one, other) = (world.login(), world.login());
            assert_eq!(world.ask(one, &say().query(INSERT)), DONE);
            world.advance(Duration::from_secs(2));
            world.servers[0].stalled = true;
            assert_eq!(world.ask(other, &say().query(INSERT)), "");
            world.servers[0].die(last_word, how);
            world.settle();
            assert_eq!(world.callers[other].heard(), DONE, "{last_word} {how:?}");
            let inserts = |server: &usize| {
                let asked = world.servers[*server].asked.iter();
                asked.filter(|text| *text == INSERT).count()
            };
            assert_eq!(
                (0..2).map(|server| inserts(&server)).collect::<Vec<_>>(),
                [1, 1]
            );
            world.check();
        }
    }
}
