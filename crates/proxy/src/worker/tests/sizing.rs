//! Pools that find their own size: the limit is exact, the stall valve opens in time, and `off` does nothing.

use std::time::Duration;

use weir_testkit::say::say;

use super::world::{Host, World};
use crate::driver::memory::End;

const AUTO: &str = "default_pool_size = auto\nquery_wait_notify = 0\nserver_idle_timeout = 0";

/// Returns the row of the only pool.
fn row(world: &World) -> weir_stats::SizingRow {
    let mut rows = world.global.sizings(world.now());
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

#[test]
fn a_pool_of_automatic_size_assigns_as_many_servers_as_its_limit_says() {
    for workers in [1, 2] {
        let mut world = World::new(workers, &format!("{AUTO}\npool_size_start = 2"));
        let clients: Vec<_> = (0..6).map(|_| world.login()).collect();
        for client in &clients {
            world.ask(*client, &say().query("begin"));
        }
        assert_eq!((row(&world).limit, row(&world).assigned), (2, 2));
        let mut served = 0;
        for client in &clients {
            let heard = world.ask(*client, &say().query("commit"));
            served += usize::from(heard.contains("Z(I)"));
        }
        world.settle();
        assert_eq!(row(&world).assigned, 0, "{served} were told");
    }
}

#[test]
fn a_stalled_pool_moves_again_within_a_second() {
    for workers in [1, 2] {
        let mut world = World::new(workers, &format!("{AUTO}\npool_size_start = 3"));
        let holders: Vec<_> = (0..3).map(|_| world.login()).collect();
        let saviour = world.login();
        for holder in &holders {
            // Each waits for its application, which waits for the answer to its second connection.
            assert_eq!(world.ask(*holder, &say().query("begin")), "C(BEGIN) Z(T)");
        }
        // The quiet start is over by then.
        world.advance(Duration::from_secs(6));
        assert_eq!(world.ask(saviour, &say().query("row x")), "");
        world.advance(Duration::from_secs(1));
        let heard = world.callers[saviour].heard();
        assert_eq!(heard, "T D(x) C(SELECT 1) Z(I)", "{:?}", row(&world));
        assert!(row(&world).stalls > 0 && row(&world).limit > 3);
    }
}

#[test]
fn a_stall_in_the_first_seconds_is_ended_too() {
    let mut world = World::new(1, &format!("{AUTO}\npool_size_start = 1"));
    let (holder, saviour) = (world.login(), world.login());
    world.ask(holder, &say().query("begin"));
    assert_eq!(world.ask(saviour, &say().query("row x")), "");
    world.advance(Duration::from_secs(1));
    assert_eq!(world.callers[saviour].heard(), "T D(x) C(SELECT 1) Z(I)");
}

#[test]
fn a_reload_switches_it_on_and_off_while_clients_work() {
    let fixed = "default_pool_size = 5\nquery_wait_notify = 0";
    let mut world = World::new(2, fixed);
    let clients: Vec<_> = (0..4).map(|_| world.login()).collect();
    for client in &clients[..3] {
        world.ask(*client, &say().query("begin"));
    }
    assert!(world.global.sizings(world.now()).is_empty());
    world.reload(&format!(
        "{AUTO}\npool_size_start = 2\npool_size_mode = advise\npool_size_max = 2"
    ));
    assert_eq!(
        (row(&world).limit, row(&world).assigned),
        (2, 3),
        "nobody loses a server"
    );
    assert_eq!(world.ask(clients[3], &say().query("row x")), "");
    world.ask(clients[0], &say().query("commit"));
    assert_eq!(
        world.callers[clients[3]].heard(),
        "",
        "still as many as may be"
    );
    world.reload(fixed);
    assert_eq!(world.callers[clients[3]].heard(), "T D(x) C(SELECT 1) Z(I)");
    assert!(world.global.sizings(world.now()).is_empty());
}

#[test]
fn a_pool_that_needs_far_fewer_servers_lets_the_rest_go_soon() {
    for workers in [1, 2] {
        let options = format!("{AUTO}\nserver_idle_timeout = 600\npool_size_start = 8");
        let mut world = World::new(workers, &options);
        let clients: Vec<_> = (0..8).map(|_| world.login()).collect();
        for statement in ["begin", "commit"] {
            for client in &clients {
                world.ask(*client, &say().query(statement));
            }
        }
        assert_eq!((row(&world).size, row(&world).servers), (8, 8));
        world.advance(Duration::from_secs(60));
        let found = row(&world);
        assert!(found.size < 4, "nobody waits: {found:?}");
        assert_eq!(found.servers, 2 * found.size, "enough for any comparison");
    }
}

#[test]
fn it_keeps_still_while_paused_and_after_a_reload() {
    let mut world = World::new(1, AUTO);
    let client = world.login();
    world.advance(Duration::from_secs(6));
    world.ask(client, &say().query("row x"));
    world.global.all_pools()[0].shared.set_paused(true);
    world.advance(Duration::from_millis(200));
    assert_eq!(row(&world).state, "the pool is paused");
    world.global.all_pools()[0].shared.set_paused(false);
    world.reload(AUTO);
    world.advance(Duration::from_millis(200));
    assert_eq!(row(&world).state, "the configuration was reloaded");
}

#[test]
fn it_keeps_still_while_logins_fail_and_for_a_while_after_the_last_one() {
    let mut world = World::new(1, &format!("{AUTO}\nserver_login_retry = 1"));
    let clients = [world.login(), world.login()];
    world.advance(Duration::from_secs(6));
    world.ask(clients[0], &say().query("begin"));
    world.host = Host::Refuses;
    // This query needs a second server.
    world.ask(clients[1], &say().query("row x"));
    world.advance(Duration::from_millis(200));
    assert_eq!(row(&world).state, "logins to the host fail");
    // No client needs it any more: an old failure does not hold the size for ever.
    world.ask(clients[0], &say().query("commit"));
    world.advance(Duration::from_secs(8));
    assert_ne!(row(&world).state, "logins to the host fail");
}

#[test]
fn nobody_looks_at_a_pool_without_clients() {
    let mut world = World::new(1, AUTO);
    let client = world.login();
    world.ask(client, &say().query("row x"));
    world.callers[client].leave(End::Orderly);
    world.advance(Duration::from_secs(1));
    assert!(!world.workers[0].is_sizing);
    let client = world.login();
    world.ask(client, &say().query("row x"));
    assert!(world.workers[0].is_sizing);
}
