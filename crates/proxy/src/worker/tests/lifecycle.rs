//! Logins, checks, resets and timeouts: everything around the transactions, by a clock that the test moves.

use std::time::Duration;

use weir_testkit::backend::Database;
use weir_testkit::say::say;

use super::world::{Host, World};
use crate::console::Shutdown;
use crate::driver::memory::End;

const ROW: &str = "T D(x) C(SELECT 1) Z(I)";

fn row() -> Vec<u8> {
    say().query("row x").into_bytes()
}

// === checks and resets ===

#[test]
fn a_server_that_was_idle_for_long_is_checked_before_its_next_client() {
    let mut world = World::new(1, "server_check_delay = 10\nserver_check_query = row alive");
    let client = world.login();
    world.ask(client, &row());
    world.advance(Duration::from_secs(11));
    assert_eq!(world.ask(client, &row()), ROW);
    assert_eq!(world.servers[0].asked, ["row x", "row alive", "row x"]);
}

#[test]
fn cor_22_a_server_that_fails_its_check_is_replaced_and_the_client_does_not_notice() {
    let mut world = World::new(1, "server_check_delay = 10\ndefault_pool_size = 1");
    let client = world.login();
    world.ask(client, &row());
    world.advance(Duration::from_secs(11));
    world.servers[0].stalled = true;
    assert_eq!(world.ask(client, &row()), "");
    world.servers[0].die(false, End::Reset);
    world.settle();
    assert_eq!(world.callers[client].heard(), ROW);
}

#[test]
fn a_check_that_is_never_answered_ends_with_its_time() {
    let mut world = World::new(
        1,
        "server_check_delay = 10\ndefault_pool_size = 1\nquery_wait_notify = 0",
    );
    let client = world.login();
    world.ask(client, &row());
    world.advance(Duration::from_secs(11));
    world.servers[0].stalled = true;
    world.ask(client, &row());
    world.advance(Duration::from_secs(16));
    assert_eq!(world.callers[client].heard(), ROW);
}

#[test]
fn a_client_that_leaves_during_the_check_leaves_the_server_to_the_next() {
    let mut world = World::new(1, "server_check_delay = 10\ndefault_pool_size = 1");
    let (client, other) = (world.login(), world.login());
    world.ask(client, &row());
    world.advance(Duration::from_secs(11));
    world.servers[0].stalled = true;
    world.ask(client, &row());
    world.callers[client].leave(End::Orderly);
    world.settle();
    world.servers[0].stalled = false;
    assert_eq!(world.ask(other, &row()), ROW);
    assert_eq!(world.live_servers(), 1);
}

#[test]
fn session_pooling_resets_the_server_between_clients() {
    let mut world = World::new(1, "pool_mode = session\ndefault_pool_size = 1");
    let (one, other) = (world.login(), world.login());
    world.ask(one, &say().query("set TimeZone CET"));
    world.callers[other].say(&row());
    world.ask(one, &say().terminate());
    assert_eq!(world.callers[other].heard(), ROW);
    assert_eq!(
        world.servers[0].asked,
        ["set TimeZone CET", "DISCARD ALL", "row x"]
    );
}

#[test]
fn connect_query_runs_once_on_each_new_server() {
    let mut world = World::new(
        1,
        "[databases]\nshop = host=10.0.0.1 connect_query='row hello'",
    );
    let client = world.login();
    world.ask(client, &row());
    world.ask(client, &row());
    assert_eq!(world.servers[0].asked, ["row hello", "row x", "row x"]);
}

#[test]
fn a_connect_query_that_fails_is_a_login_that_failed() {
    let mut world = World::new(
        1,
        "[databases]\nshop = host=10.0.0.1 connect_query='error no'",
    );
    let client = world.dial("ann", &[]);
    world.settle();
    let heard = world.callers[client].heard();
    assert!(
        heard.starts_with("E(FATAL 08001 server login has been failing"),
        "{heard}"
    );
    assert_eq!(world.live_servers(), 0);
}

// === logins ===

#[test]
fn clients_wait_for_a_host_that_has_never_answered() {
    for host in [Host::Refuses, Host::Silent] {
        let lines = "server_login_retry = 2\nserver_connect_timeout = 3\nquery_wait_notify = 0";
        let mut world = World::new(2, lines);
        world.host = host;
        let clients = [(); 2].map(|()| world.dial("ann", &[]));
        world.advance(Duration::from_secs(20));
        let late = world.dial("ann", &[]);
        world.advance(Duration::from_secs(20));
        for client in [clients[0], clients[1], late] {
            assert_eq!(world.callers[client].heard(), "", "{host:?}");
        }
        world.host = Host::Accepts;
        world.advance(Duration::from_secs(6));
        for client in [clients[0], clients[1], late] {
            let heard = world.callers[client].heard();
            assert!(heard.ends_with("Z(I)"), "{host:?}: {heard}");
        }
    }
}

#[test]
fn a_wait_for_a_host_that_never_answers_ends_with_its_reason() {
    let lines = "server_login_retry = 2\nquery_wait_timeout = 7\nquery_wait_notify = 0";
    let mut world = World::new(1, lines);
    world.host = Host::Refuses;
    let client = world.dial("ann", &[]);
    world.advance(Duration::from_secs(8));
    let heard = world.callers[client].heard();
    assert_eq!(heard, "E(FATAL 53300 query_wait_timeout)");
    let got = String::from_utf8_lossy(&world.callers[client].got);
    assert!(got.contains("Dconnect failed: "), "{got}");
}

#[test]
fn a_reload_ends_the_pause_after_a_rejected_login() {
    let lines = "server_login_retry = 60\nquery_wait_notify = 0";
    let mut world = World::new(2, lines);
    world.host = Host::Rejects("28P01");
    let client = world.dial("ann", &[]);
    world.settle();
    assert!(world.callers[client].heard().contains("28P01"));
    world.host = Host::Accepts;
    let client = world.dial("ann", &[]);
    world.settle();
    assert!(world.callers[client].heard().contains("28P01"), "cached");
    world.reload(lines);
    let client = world.login();
    assert_eq!(world.ask(client, &row()), ROW);
}

#[test]
fn a_refused_connection_is_told_without_a_hold_and_tried_again_later() {
    let mut world = World::new(1, "server_login_retry = 2\nfailover_hold = 0");
    world.host = Host::Refuses;
    let client = world.dial("ann", &[]);
    world.settle();
    let heard = world.callers[client].heard();
    assert!(
        heard.contains("FATAL 08001") && heard.contains("connect failed"),
        "{heard}"
    );
    world.host = Host::Accepts;
    world.advance(Duration::from_secs(3));
    let again = world.login();
    assert_eq!(world.ask(again, &row()), ROW);
}

#[test]
fn cor_50_a_server_that_is_starting_up_is_waited_for() {
    let mut world = World::new(1, "server_login_retry = 2\nquery_wait_notify = 0");
    world.host = Host::Rejects("57P03");
    let client = world.dial("ann", &[]);
    world.settle();
    assert_eq!(world.callers[client].heard(), "");
    world.host = Host::Accepts;
    world.advance(Duration::from_secs(3));
    let heard = world.callers[client].heard();
    assert!(heard.ends_with("Z(I)"), "{heard}");
}

#[test]
fn cor_50_a_server_that_refuses_the_user_is_quoted() {
    let mut world = World::new(1, "");
    world.host = Host::Rejects("28P01");
    let client = world.dial("ann", &[]);
    world.settle();
    assert_eq!(world.callers[client].heard(), "E(FATAL 28P01 not now)");
}

#[test]
fn an_unknown_user_is_refused_without_a_server() {
    let mut world = World::new(1, "");
    let client = world.dial("eve", &[]);
    world.settle();
    let heard = world.callers[client].heard();
    assert_eq!(
        heard,
        "E(FATAL 28000 \"trust\" authentication failed for user \"eve\")"
    );
    assert!(world.servers.is_empty());
    world.check_empty();
}

#[test]
fn a_host_that_does_not_answer_ends_with_server_connect_timeout() {
    let lines = "server_connect_timeout = 5\nquery_wait_notify = 0\nfailover_hold = 0";
    let mut world = World::new(1, lines);
    world.host = Host::Silent;
    let client = world.dial("ann", &[]);
    world.advance(Duration::from_millis(4_900));
    assert_eq!(world.callers[client].heard(), "");
    world.advance(Duration::from_millis(200));
    let heard = world.callers[client].heard();
    assert!(heard.contains("connect timeout"), "{heard}");
    assert!(world.unanswered[0].is_closed());
}

#[test]
fn sec_07_a_client_that_does_not_log_in_is_ended_wherever_it_stops() {
    let mut packet = Vec::new();
    weir_wire::encode::ssl_request(&mut packet).unwrap();
    let all: [(&[u8], &[u8]); 1] = [(b"user", b"ann")];
    weir_wire::encode::startup(&mut packet, weir_wire::startup::Version::V3_0, &all).unwrap();
    for cut in 0..packet.len() {
        let mut world = World::new(1, "client_login_timeout = 5");
        let client = world.connect();
        world.settle();
        for byte in &packet[..cut] {
            world.ask(client, &[*byte]);
        }
        world.advance(Duration::from_millis(4_900));
        assert!(!world.callers[client].is_closed(), "at {cut}");
        world.advance(Duration::from_millis(200));
        assert!(world.callers[client].is_closed(), "at {cut}");
        world.check_empty();
    }
}

#[test]
fn a_login_is_not_refused_for_what_an_earlier_client_has_set() {
    let name = "statement_timeout";
    let mut world = World::new(1, "default_pool_size = 1\nquery_wait_notify = 0");
    world.database = Some(Database::default());
    let one = world.dial("ann", &[(name, "5s")]);
    world.settle();
    world.ask(one, &say().query("SELECT 1"));
    world.servers[0].denied = Some(name);
    let other = world.dial("ann", &[("TimeZone", "Z1")]);
    world.settle();
    let heard = world.callers[other].heard();
    assert!(heard.ends_with("Z(I)"), "{heard}");
    assert_eq!(world.servers.len(), 2);
    // A setting that the client itself asked for ends its login.
    world.servers[1].denied = Some(name);
    let own = world.dial("ann", &[(name, "6s")]);
    world.settle();
    let heard = world.callers[own].heard();
    let refusal = "E(FATAL 42501 permission denied to set parameter \"statement_timeout\")";
    assert_eq!(heard, refusal);
}

// === waiting ===

#[test]
fn query_wait_timeout_ends_who_waits_and_nobody_else() {
    let mut world = World::new(
        1,
        "default_pool_size = 1\nquery_wait_timeout = 5\nquery_wait_notify = 2",
    );
    let (holder, waiter) = (world.login(), world.login());
    world.ask(holder, &say().query("begin"));
    world.ask(waiter, &row());
    world.advance(Duration::from_secs(3));
    let notice = world.callers[waiter].heard();
    assert!(
        notice.starts_with("N(00000 No server connection available"),
        "{notice}"
    );
    world.advance(Duration::from_secs(3));
    assert_eq!(
        world.callers[waiter].heard(),
        "E(FATAL 53300 query_wait_timeout)"
    );
    assert!(world.callers[waiter].is_closed());
    assert_eq!(world.ask(holder, &say().query("commit")), "C(COMMIT) Z(I)");
}

#[test]
fn query_timeout_ends_a_query_and_frees_its_server() {
    let mut world = World::new(1, "default_pool_size = 1\nquery_timeout = 5");
    let (client, other) = (world.login(), world.login());
    world.ask(client, &row());
    world.servers[0].stalled = true;
    world.ask(client, &row());
    world.advance(Duration::from_secs(11));
    assert_eq!(
        world.callers[client].heard(),
        "E(FATAL 57014 query timeout)"
    );
    assert_eq!(world.ask(other, &row()), ROW);
}

#[test]
fn idle_transaction_timeout_ends_who_holds_a_server_for_nothing() {
    let mut world = World::new(1, "default_pool_size = 1\nidle_transaction_timeout = 5");
    let (client, other) = (world.login(), world.login());
    world.ask(client, &say().query("begin"));
    world.advance(Duration::from_secs(11));
    assert_eq!(
        world.callers[client].heard(),
        "E(FATAL 25P03 idle transaction timeout)"
    );
    assert_eq!(world.ask(other, &row()), ROW);
    assert_eq!(world.live_servers(), 1, "rolled back, not closed");
}

#[test]
fn servers_go_after_server_idle_timeout_and_min_pool_size_stays() {
    let mut world = World::new(1, "server_idle_timeout = 20\nmin_pool_size = 1");
    let clients: Vec<_> = (0..3).map(|_| world.login()).collect();
    for client in &clients {
        world.ask(*client, &say().query("begin"));
    }
    assert_eq!(world.live_servers(), 3);
    for client in &clients {
        world.ask(*client, &say().query("commit"));
    }
    world.advance(Duration::from_secs(60));
    assert_eq!(world.live_servers(), 1);
}

// === stopping ===

#[test]
fn draining_for_servers_lets_transactions_finish_and_ends_idle_clients() {
    let mut world = World::new(2, "");
    let (busy, idle) = (world.login(), world.login());
    world.ask(busy, &say().query("begin"));
    world.shut_down(Shutdown::WaitForServers);
    assert_eq!(
        world.callers[idle].heard(),
        "E(FATAL 57P01 pooler is shutting down)"
    );
    assert_eq!(
        world.ask(busy, &say().query("row x")),
        "T D(x) C(SELECT 1) Z(T)"
    );
    let last = world.ask(busy, &say().query("commit"));
    assert_eq!(
        last,
        "C(COMMIT) Z(I) E(FATAL 57P01 pooler is shutting down)"
    );
    assert!(world.workers.iter().all(|worker| worker.ending.is_over()));
    assert_eq!(world.live_servers(), 0);
}

#[test]
fn draining_for_servers_lets_sessions_of_session_pooling_go_on_until_their_clients_leave() {
    let mut world = World::new(2, "pool_mode = session");
    let (session, idle) = (world.login(), world.login());
    assert_eq!(world.ask(session, &row()), ROW);
    world.shut_down(Shutdown::WaitForServers);
    let heard = world.callers[idle].heard();
    assert_eq!(heard, "E(FATAL 57P01 pooler is shutting down)");
    for _ in 0..3 {
        assert_eq!(world.ask(session, &row()), ROW);
    }
    assert!(!world.workers.iter().all(|worker| worker.ending.is_over()));
    world.ask(session, &say().terminate());
    world.settle();
    assert!(world.workers.iter().all(|worker| worker.ending.is_over()));
    assert_eq!(world.live_servers(), 0);
}

#[test]
fn draining_for_clients_lets_them_stay_and_is_bounded_by_drain_timeout() {
    for leaves in [true, false] {
        let mut world = World::new(2, "drain_timeout = 5");
        let client = world.login();
        world.shut_down(Shutdown::WaitForClients);
        assert_eq!(world.ask(client, &row()), ROW);
        if leaves {
            world.ask(client, &say().terminate());
        } else {
            world.advance(Duration::from_millis(4_900));
            assert!(!world.workers.iter().all(|worker| worker.ending.is_over()));
            world.advance(Duration::from_millis(200));
            assert_eq!(
                world.callers[client].heard(),
                "E(FATAL 57P01 pooler is shutting down)"
            );
        }
        assert!(world.workers.iter().all(|worker| worker.ending.is_over()));
        assert_eq!(world.live_servers(), 0);
    }
}

/// Another worker may have sent a client before it knew of the end.
#[test]
fn a_client_that_comes_after_the_end_of_its_worker_is_told() {
    let mut world = World::new(2, "");
    let stays = world.login();
    let busy = usize::from(world.workers[0].tables.clients.is_empty());
    world.shut_down(Shutdown::WaitForClients);
    let is_over = |world: &World, worker: usize| world.workers[worker].ending.is_over();
    assert!(is_over(&world, 1 - busy) && !is_over(&world, busy));

    let late = world.connect_to(1 - busy);
    world.settle();
    assert_eq!(
        world.callers[late].heard(),
        "E(FATAL 57P01 pooler is shutting down)"
    );
    assert!(is_over(&world, 1 - busy));
    assert_eq!(world.ask(stays, &row()), ROW);
    world.ask(stays, &say().terminate());
    assert!(world.workers.iter().all(|worker| worker.has_ended()));
}

#[test]
fn statements_of_clients_that_left_are_forgotten_without_a_new_one() {
    let mut world = World::new(1, "default_pool_size = 1\nmax_prepared_statements = 20");
    let (leaves, stays) = (world.login(), world.login());
    for client in [leaves, stays] {
        for number in 0..40 {
            let text = format!("row {client} {number}");
            world.ask(client, &say().parse(&format!("s{number}"), &text).sync());
        }
    }
    assert_eq!(world.workers[0].tables.registry.len(), 80);
    world.ask(leaves, &say().terminate());
    world.ask(stays, &say().query("deallocate all"));
    world.advance(Duration::from_secs(61));
    let known = world.workers[0].tables.registry.len();
    assert!(known <= 20, "{known} are known");
}
