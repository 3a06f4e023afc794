//! Restart of PostgreSQL: which clients wait, which fail, and with which error.

use std::time::Duration;

use weir_testkit::say::say;

use super::world::{Host, World};
use crate::driver::memory::End;

const ROW: &str = "T D(x) C(SELECT 1) Z(I)";

fn row() -> Vec<u8> {
    say().query("row x").into_bytes()
}

/// True if any client was told that PostgreSQL takes no connection for now.
fn somebody_heard_57p03(world: &World) -> bool {
    let told = |got: &[u8]| got.windows(5).any(|code| code == b"57P03");
    world.callers.iter().any(|caller| told(&caller.got))
}

#[test]
fn nobody_who_comes_while_postgresql_starts_up_is_told_so() {
    let lines = "server_login_retry = 2\nquery_wait_notify = 0\nfailover_hold = 0";
    let mut world = World::new(2, lines);
    let before = world.login();
    world.host = Host::Refuses;
    world.servers[0].die(true, End::Orderly);
    world.settle();
    // Connections are refused, and the client is told.
    assert!(world.ask(before, &row()).contains("FATAL 08001"));
    // The postmaster runs again, and recovers. Some client's login finds that out.
    world.host = Host::Rejects("57P03");
    world.advance(Duration::from_millis(200));
    let finder = world.login();
    assert!(world.ask(finder, &row()).contains("FATAL 08001"));
    let late: Vec<_> = (0..8).map(|_| world.login()).collect();
    for client in &late {
        assert_eq!(world.ask(*client, &row()), "");
    }
    world.advance(Duration::from_secs(5));
    world.host = Host::Accepts;
    world.advance(Duration::from_secs(3));
    for client in late {
        assert_eq!(world.callers[client].heard(), ROW);
    }
    assert!(!somebody_heard_57p03(&world));
}

#[test]
fn a_login_that_a_shutdown_ends_is_tried_again() {
    for code in ["57P01", "57P02"] {
        let mut world = World::new(1, "server_login_retry = 2\nquery_wait_notify = 0");
        world.host = Host::Rejects(code);
        let client = world.dial("ann", &[]);
        world.settle();
        assert_eq!(world.callers[client].heard(), "", "{code}");
        world.host = Host::Accepts;
        world.advance(Duration::from_secs(3));
        let heard = world.callers[client].heard();
        assert!(heard.ends_with("Z(I)"), "{code}: {heard}");
    }
}

#[test]
fn a_wait_for_a_server_that_starts_up_ends_with_the_servers_words() {
    let lines = "server_login_retry = 2\nquery_wait_notify = 0\nquery_wait_timeout = 5\ndefault_pool_size = 1";
    let mut world = World::new(1, lines);
    let client = world.login();
    world.host = Host::Rejects("57P03");
    world.servers[0].die(false, End::Orderly);
    world.settle();
    assert_eq!(world.ask(client, &row()), "");
    world.advance(Duration::from_secs(6));
    assert_eq!(
        world.callers[client].heard(),
        "E(FATAL 53300 query_wait_timeout)"
    );
    let got = String::from_utf8_lossy(&world.callers[client].got);
    assert!(got.contains("Dserver login failed: FATAL not now"), "{got}");
    // After a successful login, that is no reason for waiting any more.
    world.host = Host::Accepts;
    world.advance(Duration::from_secs(3));
    let (holder, waiter) = (world.login(), world.login());
    world.ask(holder, &say().query("begin"));
    world.ask(waiter, &row());
    world.advance(Duration::from_secs(6));
    let heard = world.callers[waiter].heard();
    assert_eq!(heard, "E(FATAL 53300 query_wait_timeout)");
    let got = String::from_utf8_lossy(&world.callers[waiter].got);
    assert!(!got.contains("server login failed"), "{got}");
}

#[test]
fn clients_wait_for_postgresql_while_it_restarts() {
    let mut world = World::new(2, "server_login_retry = 2\nquery_wait_notify = 0");
    let (busy, idle) = (world.login(), world.login());
    assert_eq!(world.ask(busy, &row()), ROW);
    world.host = Host::Refuses;
    world.servers[0].die(true, End::Orderly);
    world.settle();
    assert_eq!(world.ask(busy, &row()), "");
    // Known parameters: a new client is greeted without a server.
    let newcomer = world.login();
    assert_eq!(world.ask(newcomer, &row()), "");
    world.advance(Duration::from_secs(20));
    world.host = Host::Rejects("57P03");
    world.advance(Duration::from_secs(5));
    world.host = Host::Accepts;
    world.advance(Duration::from_millis(300));
    for client in [busy, newcomer] {
        assert_eq!(world.callers[client].heard(), ROW);
    }
    assert_eq!(world.ask(idle, &row()), ROW);
    assert!(!somebody_heard_57p03(&world));
}

#[test]
fn clients_of_a_host_that_stays_away_are_told_after_failover_hold() {
    let lines = "server_login_retry = 2\nquery_wait_notify = 0\nfailover_hold = 5\nmin_time_between_holds = 100";
    let mut world = World::new(1, lines);
    let client = world.login();
    world.host = Host::Refuses;
    world.servers[0].die(true, End::Orderly);
    world.settle();
    assert_eq!(world.ask(client, &row()), "");
    world.advance(Duration::from_secs(6));
    let heard = world.callers[client].heard();
    assert!(heard.contains("FATAL 08001"), "{heard}");
    world.host = Host::Accepts;
    world.advance(Duration::from_secs(3));
    let client = world.login();
    assert_eq!(world.ask(client, &row()), ROW);
    // The next outage comes too soon for a hold: it ends with the client's own limit.
    world.host = Host::Refuses;
    world.servers.last_mut().unwrap().die(true, End::Orderly);
    world.settle();
    assert_eq!(world.ask(client, &row()), "");
    world.advance(Duration::from_secs(60));
    assert_eq!(world.callers[client].heard(), "");
    world.host = Host::Accepts;
    world.advance(Duration::from_secs(3));
    assert_eq!(world.callers[client].heard(), ROW);
}
