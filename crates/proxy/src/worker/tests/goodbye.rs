//! Clients that send Terminate behind requests that still wait: PostgreSQL executes a request that precedes a
//! Terminate.

use std::time::Duration;

use weir_testkit::say::say;

use super::world::World;
use crate::driver::memory::End;

const HOWS: [End; 2] = [End::Orderly, End::Reset];

/// Returns a pool of one server in the middle of a transaction, the client that holds the server, and a client that
/// waits for it.
fn waiting(lines: &str) -> (World, usize, usize) {
    let mut world = World::new(1, &format!("default_pool_size = 1\n{lines}"));
    let holder = world.login();
    let leaver = world.login();
    assert_eq!(world.ask(holder, &say().query("begin")), "C(BEGIN) Z(T)");
    (world, holder, leaver)
}

#[test]
fn a_request_in_front_of_a_terminate_is_executed_though_its_client_has_left() {
    let batch = say().parse("", "row left").run("").sync();
    for requests in [say().query("row left"), batch] {
        for how in HOWS {
            let (mut world, holder, leaver) = waiting("");
            let said = requests.clone().terminate();
            assert_eq!(world.ask(leaver, &said), "");
            world.callers[leaver].leave(how);
            world.settle();
            assert_eq!(world.servers[0].asked, ["begin"]);
            world.ask(holder, &say().query("commit"));
            world.settle();
            assert!(world.servers[0].asked.iter().any(|text| text == "row left"));
            // Nothing of the client is left, and no client gets its answer.
            world.advance(Duration::from_secs(3));
            assert_eq!(
                world.ask(holder, &say().query("row mine")),
                "T D(mine) C(SELECT 1) Z(I)"
            );
            world.ask(holder, &say().terminate());
            world.check_empty();
        }
    }
}

#[test]
fn a_request_of_a_client_that_is_lost_is_not_executed() {
    let said = say().query("row left");
    let cut = &say().query("row left").terminate()[..said.len() + 3];
    for said in [&said[..], cut] {
        for how in HOWS {
            let (mut world, holder, leaver) = waiting("");
            assert_eq!(world.ask(leaver, said), "");
            world.callers[leaver].leave(how);
            world.settle();
            world.ask(holder, &say().query("commit"));
            world.settle();
            assert_eq!(world.servers[0].asked, ["begin", "commit"]);
            world.ask(holder, &say().terminate());
            world.check_empty();
        }
    }
}

#[test]
fn a_request_whose_client_has_left_waits_no_longer_than_others() {
    let (mut world, holder, leaver) = waiting("query_wait_timeout = 5");
    world.ask(leaver, &say().query("row left").terminate());
    world.callers[leaver].leave(End::Orderly);
    world.advance(Duration::from_secs(6));
    // A new connection may get the number of the one that is gone.
    let next = world.login();
    world.ask(holder, &say().query("commit"));
    world.settle();
    assert_eq!(
        world.ask(next, &say().query("row next")),
        "T D(next) C(SELECT 1) Z(I)"
    );
    assert!(!world.servers[0].asked.iter().any(|text| text == "row left"));
    for client in [holder, next] {
        world.ask(client, &say().terminate());
    }
    world.check_empty();
}

#[test]
fn nobody_hears_what_a_client_that_has_left_was_answered() {
    let (mut world, holder, leaver) = waiting("");
    world.ask(
        leaver,
        &say().query("rows 2 left").query("row left").terminate(),
    );
    world.callers[leaver].leave(End::Orderly);
    world.settle();
    // This connection may have the number of the one that is gone.
    let next = world.login();
    world.ask(next, &say().query("row next"));
    world.ask(holder, &say().query("commit"));
    world.advance(Duration::from_secs(3));
    assert_eq!(world.callers[next].heard(), "T D(next) C(SELECT 1) Z(I)");
    let asked = &world.servers[0].asked;
    assert!(asked.contains(&"rows 2 left".to_owned()) && asked.contains(&"row left".to_owned()));
    for client in [holder, next] {
        world.ask(client, &say().terminate());
    }
    world.check_empty();
}
