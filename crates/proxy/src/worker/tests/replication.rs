//! Replication connections: the server that a client gets, what passes, and how each end of a connection ends the other.

use std::time::Duration;

use weir_testkit::say::say;

use super::postgres::LAST_WORD;
use super::world::{Host, TwoHosts, World};
use crate::console::Shutdown;
use crate::driver::memory::End;

const ROW: &str = "T D(x) C(SELECT 1) Z(I)";
/// Every option that ends, resets or checks ordinary connections.
const LINES: &str = "admin_users = ann\ndefault_pool_size = 2\nquery_timeout = 1\nclient_idle_timeout = 1\n\
    idle_transaction_timeout = 1\ntransaction_timeout = 1\nserver_lifetime = 1\nserver_idle_timeout = 1\n\
    server_reset_query_always = 1\nserver_check_delay = 0\nserver_check_query = select 1\n\
    query_wait_timeout = 5\nquery_wait_notify = 0";

/// Beginning of a stream, as a server sends it.
const STREAM: &[u8] = b"W\0\0\0\x07\0\0\0";
/// Data of a stream, in either direction.
const DATA: &[u8] = b"d\0\0\0\x09abcde";

/// Connects a client that asks for replication.
fn dial(world: &mut World, kind: &str) -> usize {
    let client = world.dial("ann", &[("replication", kind)]);
    world.settle();
    client
}

/// Logs such a client in. Returns its number, and its server's.
#[track_caller]
fn login(world: &mut World, kind: &str) -> (usize, usize) {
    let client = dial(world, kind);
    let greeting = world.callers[client].heard();
    assert!(
        greeting.starts_with("R S(") && greeting.ends_with("Z(I)"),
        "{greeting}"
    );
    let server = world.servers.len() - 1;
    assert_eq!(world.servers[server].parameter("replication"), Some(kind));
    (client, server)
}

/// Begins a stream: the server executes nothing any more, and a test says what it sends.
fn stream(world: &mut World, client: usize, server: usize) {
    world.servers[server].stalled = true;
    world.ask(client, &say().query("S"));
    speak(world, server, STREAM);
    assert_eq!(world.callers[client].new_bytes(), STREAM);
}

fn speak(world: &mut World, server: usize, bytes: &[u8]) {
    assert_eq!(world.servers[server].peer.send(bytes), bytes.len());
    world.settle();
}

/// Number of lanes of all workers.
fn lanes(world: &World) -> usize {
    world
        .workers
        .iter()
        .map(|worker| worker.tables.lanes.len())
        .sum()
}

/// Checks that nothing is left of replication, and that the places are free.
#[track_caller]
fn check_left(world: &mut World) {
    world.advance(Duration::from_millis(2_500));
    assert_eq!(world.live_servers(), 0);
    assert_eq!(lanes(world), 1, "the lane of the pool");
    world.check_empty();
    // Both places of the pool can be had.
    let both = [world.login(), world.login()];
    for client in both {
        assert_eq!(world.ask(client, &say().query("begin")), "C(BEGIN) Z(T)");
    }
}

#[test]
fn a_server_is_opened_with_the_clients_parameters_and_gets_nothing_else() {
    let tracking =
        format!("{LINES}\nsession_state = track\nrole_check_delay = 1\ncatalogue_refresh = 1");
    for (kind, lines) in [("true", LINES), ("database", LINES), ("true", &tracking)] {
        let mut world = World::new(1, lines);
        let parameters = [
            ("replication", kind),
            ("application_name", "follower"),
            ("options", "-c work_mem=1MB -x"),
            ("timezone", "CET"),
        ];
        let client = world.dial("ann", &parameters);
        world.settle();
        let greeting = world.callers[client].heard();
        assert!(greeting.ends_with("Z(I)"), "{greeting}");
        for (name, value) in parameters {
            assert_eq!(world.servers[0].parameter(name), Some(value));
        }
        assert_eq!(world.ask(client, &say().query("row x")), ROW);
        world.advance(Duration::from_secs(30));
        assert_eq!(world.ask(client, &say().query("row x")), ROW);
        assert_eq!(
            world.servers[0].asked,
            ["row x", "row x"],
            "nothing of Weir's own"
        );
        world.ask(client, &say().terminate());
        assert!(world.callers[client].is_closed());
        check_left(&mut world);
    }
}

#[test]
fn its_server_serves_nobody_else() {
    let mut world = World::new(1, LINES);
    let ordinary = world.login();
    assert_eq!(world.ask(ordinary, &say().query("row x")), ROW);
    let (client, server) = login(&mut world, "database");
    let (other, second) = (world.login(), world.servers.len());
    assert_eq!(world.ask(other, &say().query("row x")), ROW);
    assert_eq!(
        (server, second),
        (1, 2),
        "a server for each client that replicates"
    );
    world.ask(client, &say().terminate());
    assert_eq!(world.ask(other, &say().query("row x")), ROW);
    assert_eq!(world.servers[server].asked.len(), 0);
    assert_eq!(world.live_servers(), 1);
}

#[test]
fn a_stream_passes_both_ways_and_outlives_the_limits_of_queries() {
    let mut world = World::new(1, LINES);
    let (client, server) = login(&mut world, "true");
    stream(&mut world, client, server);
    for _ in 0..5 {
        speak(&mut world, server, &DATA[..3]);
        speak(&mut world, server, &DATA[3..]);
        assert_eq!(world.callers[client].new_bytes(), DATA);
        world.advance(Duration::from_secs(10));
    }
    let heard = world.servers[server].peer.receive(usize::MAX);
    assert!(heard.is_empty(), "no byte of Weir's own");
    world.ask(client, &say().raw(DATA).copy_done().query("T"));
    let mut expected = DATA.to_vec();
    expected.extend(say().copy_done().query("T").into_bytes());
    // A stalled server reads a few bytes itself.
    let rest = world.servers[server].peer.receive(usize::MAX);
    assert!(expected.ends_with(&rest) && rest.len() + 16 >= expected.len());
}

#[test]
fn the_end_of_the_server_is_the_end_of_the_client() {
    for (last_word, how) in [
        (true, End::Orderly),
        (false, End::Orderly),
        (false, End::Reset),
    ] {
        for in_stream in [false, true] {
            let mut world = World::new(1, LINES);
            let (client, server) = login(&mut world, "database");
            if in_stream {
                stream(&mut world, client, server);
            }
            world.servers[server].die(last_word, how);
            world.settle();
            let heard = world.callers[client].heard();
            let expected = match last_word {
                true => format!("E(FATAL 57P01 {LAST_WORD})"),
                false => String::new(),
            };
            assert!(
                heard.ends_with(&expected) && world.callers[client].is_closed(),
                "{heard}"
            );
            assert!(last_word || !heard.contains("E("), "{heard}");
            check_left(&mut world);
        }
    }
}

#[test]
fn the_end_of_the_client_is_the_end_of_the_server() {
    let ends: [(&[u8], bool); 5] = [
        (b"X\0\0\0\x04", true),
        (b"", true),
        (b"", false),
        (b"d\0\0\0\x09ab", true),
        (b"d\0", false),
    ];
    for (last, in_order) in ends {
        for in_stream in [false, true] {
            let mut world = World::new(1, LINES);
            let (client, server) = login(&mut world, "database");
            if in_stream {
                stream(&mut world, client, server);
                world.servers[server].stalled = false;
            }
            world.callers[client].say(last);
            world.callers[client].serve();
            world.callers[client].leave(if in_order { End::Orderly } else { End::Reset });
            world.settle();
            assert!(!world.servers[server].is_alive(), "{last:?}");
            check_left(&mut world);
        }
    }
}

#[test]
fn a_server_that_does_not_hear_its_end_is_closed_after_a_second() {
    let mut world = World::new(1, LINES);
    let (client, server) = login(&mut world, "database");
    stream(&mut world, client, server);
    world.ask(client, &say().raw(DATA).terminate());
    assert!(world.callers[client].is_closed());
    assert!(!world.servers[server].peer.is_closed(), "it may still read");
    // What it sends meanwhile is dropped.
    speak(&mut world, server, DATA);
    check_left(&mut world);
}

#[test]
fn a_client_that_does_not_read_holds_its_server_back() {
    let mut world = World::with_room(1, LINES, 4096);
    let (client, server) = login(&mut world, "database");
    world.callers[client].deaf = true;
    let rows = format!("rows 100 {}", "x".repeat(1000));
    world.ask(client, &say().query(&rows));
    assert!(world.servers[server].unsent() > 0, "it could send more");
    assert!(
        world.buffered_max() <= 128 * 1024,
        "{}",
        world.buffered_max()
    );
    world.callers[client].deaf = false;
    world.settle();
    assert!(
        world.callers[client]
            .heard()
            .ends_with("C(SELECT 100) Z(I)")
    );
    // The other direction.
    world.ask(client, &say().query("copy in"));
    world.servers[server].stalled = true;
    let line = "y".repeat(1000);
    let data = (0..300).fold(say(), |said, _| said.copy_data(&line));
    world.ask(client, &data.copy_done());
    assert!(world.callers[client].unsent() > 0, "it could send more");
    assert!(
        world.buffered_max() <= 128 * 1024,
        "{}",
        world.buffered_max()
    );
    world.servers[server].stalled = false;
    world.settle();
    assert_eq!(world.callers[client].heard(), "C(COPY 300) Z(I)");
}

#[test]
fn a_full_pool_lets_the_client_wait_and_an_idle_server_makes_room() {
    let lines = "default_pool_size = 2\nquery_wait_timeout = 5\nquery_wait_notify = 0";
    let mut world = World::new(1, lines);
    let holders = [world.login(), world.login()];
    for holder in holders {
        world.ask(holder, &say().query("begin"));
    }
    let late = dial(&mut world, "database");
    world.advance(Duration::from_secs(6));
    let heard = world.callers[late].heard();
    assert_eq!(heard, "E(FATAL 53300 query_wait_timeout)");
    let mut world = World::new(1, lines);
    let holders = [world.login(), world.login()];
    for holder in holders {
        world.ask(holder, &say().query("begin"));
    }
    let early = dial(&mut world, "database");
    assert_eq!(world.callers[early].heard(), "");
    world.ask(holders[0], &say().query("commit"));
    world.advance(Duration::from_millis(200));
    assert!(world.callers[early].heard().ends_with("Z(I)"));
    assert_eq!(world.live_servers(), 2, "the idle one is gone");
}

#[test]
fn a_busy_pool_gives_its_next_free_place_to_the_client_that_replicates() {
    let lines = "default_pool_size = 2\nquery_wait_notify = 0";
    let mut world = World::new(1, lines);
    let holders = [world.login(), world.login()];
    let waiters = [world.login(), world.login()];
    for holder in holders {
        world.ask(holder, &say().query("begin"));
    }
    let client = dial(&mut world, "database");
    let leaver = dial(&mut world, "database");
    for waiter in waiters {
        assert_eq!(world.ask(waiter, &say().query("begin")), "");
    }
    world.advance(Duration::from_millis(200));
    // One that gives up claims nothing any more.
    world.callers[leaver].leave(End::Reset);
    world.settle();
    for holder in holders {
        world.ask(holder, &say().query("commit"));
    }
    world.advance(Duration::from_millis(200));
    assert!(world.callers[client].heard().ends_with("Z(I)"));
    assert_eq!(world.callers[waiters[0]].heard(), "C(BEGIN) Z(T)");
    assert_eq!(world.callers[waiters[1]].heard(), "", "the pool is full");
    assert_eq!(world.live_servers(), 2);
    world.ask(client, &say().terminate());
    world.advance(Duration::from_millis(200));
    assert_eq!(world.callers[waiters[1]].heard(), "C(BEGIN) Z(T)");
    assert_eq!(world.live_servers(), 2);
}

#[test]
fn a_client_that_leaves_while_it_waits_leaves_nothing_behind() {
    for host in [Host::Accepts, Host::Silent] {
        let mut world = World::new(1, LINES);
        world.host = host;
        let client = world.dial("ann", &[("replication", "true")]);
        world.callers[client].serve();
        world.turn(0);
        world.callers[client].leave(End::Reset);
        world.host = Host::Accepts;
        world.settle();
        world.unanswered.clear();
        check_left(&mut world);
    }
}

#[test]
fn a_refused_login_is_told_in_the_servers_words_and_fails_nobody_else() {
    for code in ["28000", "28P01", "42501", "53300", "57P03", "3D000"] {
        let mut world = World::new(1, LINES);
        let ordinary = world.login();
        world.host = Host::Rejects(code);
        let refused = dial(&mut world, "true");
        assert_eq!(
            world.callers[refused].heard(),
            format!("E(FATAL {code} not now)")
        );
        assert!(world.callers[refused].is_closed());
        world.host = Host::Accepts;
        world.ask(ordinary, &say().query("begin"));
        let other = world.login();
        assert_eq!(world.ask(other, &say().query("row x")), ROW, "{code}");
        // The next one is not told of the one before.
        login(&mut world, "true");
    }
    let mut world = World::new(1, LINES);
    world.login();
    world.host = Host::Refuses;
    let refused = dial(&mut world, "true");
    let heard = world.callers[refused].heard();
    assert!(heard.starts_with("E(FATAL 08001 "), "{heard}");
}

#[test]
fn rules_and_values_decide_before_a_server_is_asked() {
    let rules = format!(
        "{LINES}\nauth_type = hba\nauth_hba_file = hba\n; hba host all all 10.0.0.0/8 trust"
    );
    let mut world = World::new(1, &rules);
    for (kind, heard) in [
        ("database", "Z(I)"),
        (
            "true",
            "E(FATAL 28000 no pg_hba.conf entry for replication connection from host \"10.0.0.9\", user \"ann\", no encryption)",
        ),
        (
            "maybe",
            "E(FATAL 22023 invalid value for parameter \"replication\": \"maybe\")",
        ),
    ] {
        let client = world.dial_from("10.0.0.9", "ann", &[("replication", kind)]);
        world.settle();
        world.advance(Duration::from_secs(1));
        let said = world.callers[client].heard();
        assert!(said.ends_with(heard), "{said}");
    }
    assert_eq!(world.servers.len(), 1);
    let rules = format!(
        "{LINES}\nauth_type = hba\nauth_hba_file = hba\n; hba host replication ann 10.0.0.0/8 trust"
    );
    let mut world = World::new(1, &rules);
    let client = world.dial_from("10.0.0.9", "ann", &[("replication", "on")]);
    world.settle();
    assert!(world.callers[client].heard().ends_with("Z(I)"));
}

#[test]
fn a_cancel_goes_to_the_server_of_the_client() {
    let mut world = World::new(1, LINES);
    let (client, server) = login(&mut world, "database");
    world.servers[server].stalled = true;
    world.ask(client, &say().query("row x"));
    world.servers[server].hear();
    world.servers[server].begin();
    world.request_cancel(client);
    world.settle();
    world.servers[server].stalled = false;
    world.settle();
    let heard = world.callers[client].heard();
    assert_eq!(
        heard,
        "E(57014 canceling statement due to user request) Z(I)"
    );
    // A cancel of nothing changes nothing.
    world.request_cancel(client);
    world.settle();
    assert_eq!(world.ask(client, &say().query("row x")), ROW);
}

#[test]
fn orders_reach_the_connection() {
    let order = |text: &str| say().query(text).into_bytes();
    let mut world = World::new(1, LINES);
    let console = world.login_to_console();
    let (client, server) = login(&mut world, "database");
    stream(&mut world, client, server);
    for text in ["RELOAD", "RECONNECT"] {
        world.ask(console, &order(text));
        speak(&mut world, server, DATA);
        assert_eq!(world.callers[client].new_bytes(), DATA, "{text}");
    }
    assert_eq!(world.ask(console, &order("WAIT_CLOSE")), "", "it waits");
    world.callers[client].leave(End::Reset);
    world.advance(Duration::from_secs(2));
    assert_eq!(world.callers[console].heard(), "C(done)");
    let (client, server) = login(&mut world, "database");
    stream(&mut world, client, server);
    // An error never stands inside a message.
    for part in [&DATA[..4], &DATA[4..]] {
        speak(&mut world, server, part);
        if part.len() == 4 {
            continue;
        }
        world.ask(console, &order("KILL shop"));
        let said = world.callers[client].new_bytes().to_vec();
        assert!(said.starts_with(DATA) && said[DATA.len()] == b'E');
        assert!(world.callers[client].is_closed());
    }
}

#[test]
fn a_stream_that_is_killed_in_the_middle_of_a_message_ends_without_a_word() {
    let mut world = World::new(1, LINES);
    let console = world.login_to_console();
    let (client, server) = login(&mut world, "database");
    stream(&mut world, client, server);
    speak(&mut world, server, &DATA[..7]);
    world.ask(console, &say().query("KILL shop"));
    assert_eq!(world.callers[client].new_bytes(), &DATA[..7]);
    assert!(world.callers[client].is_closed());
}

#[test]
fn a_shutdown_waits_for_streams_and_not_for_idle_connections() {
    let mut world = World::new(1, &format!("{LINES}\ndrain_timeout = 20"));
    let (client, server) = login(&mut world, "database");
    let (idle, _) = login(&mut world, "true");
    stream(&mut world, client, server);
    world.shut_down(Shutdown::WaitForServers);
    assert!(world.callers[idle].is_closed() && !world.callers[client].is_closed());
    speak(&mut world, server, DATA);
    assert_eq!(world.callers[client].new_bytes(), DATA);
    world.advance(Duration::from_secs(21));
    assert_eq!(
        world.callers[client].heard(),
        "E(FATAL 57P01 pooler is shutting down)"
    );
    assert!(world.callers[client].is_closed());
    assert!(world.workers[0].has_ended());
}

#[test]
fn of_several_hosts_the_primary_serves_and_a_former_one_does_not() {
    let mut hosts = TwoHosts::new();
    let (client, server) = login(&mut hosts.world, "database");
    let host_of = |world: &World, server: usize| {
        let site = world.servers[server].site.as_ref();
        site.map(|site| site.host())
    };
    assert_eq!(host_of(&hosts.world, server), Some(0));
    let heard = hosts.world.ask(client, &say().query("SELECT 'x'"));
    assert!(heard.ends_with("D(x) C(SELECT 1) Z(I)"), "{heard}");
    for server in &mut hosts.world.servers {
        server.stalled = true;
    }
    hosts.cluster.crash(0);
    hosts.watch_until(|sentry| sentry.primary().is_none());
    assert!(
        !hosts.world.callers[client].is_closed(),
        "nobody has taken over"
    );
    // A client that comes now waits for a primary.
    let early = dial(&mut hosts.world, "true");
    assert_eq!(hosts.world.callers[early].heard(), "");
    hosts.cluster.promote(1);
    hosts.watch_until(|sentry| sentry.primary() == Some(1));
    assert!(hosts.world.callers[client].is_closed());
    let greeting = hosts.world.callers[early].heard();
    assert!(greeting.ends_with("Z(I)"), "{greeting}");
    assert_eq!(
        host_of(&hosts.world, hosts.world.servers.len() - 1),
        Some(1)
    );
}

#[test]
fn bytes_that_are_no_messages_end_both_connections() {
    let mut world = World::new(1, LINES);
    let (client, server) = login(&mut world, "database");
    stream(&mut world, client, server);
    let heard = world.ask(client, b"\x01\x02\x03\x04\x05");
    assert!(heard.starts_with("E(FATAL 08P01 "), "{heard}");
    assert!(world.callers[client].is_closed());
    check_left(&mut world);
    let mut world = World::new(1, LINES);
    let (client, server) = login(&mut world, "database");
    stream(&mut world, client, server);
    speak(&mut world, server, b"d\0\0\0\x01");
    assert!(world.callers[client].is_closed());
    check_left(&mut world);
}

#[test]
fn a_client_stays_with_the_old_process_of_an_upgrade() {
    let mut world = World::new(1, LINES);
    let (client, _) = login(&mut world, "database");
    assert!(world.upgrade(LINES));
    world.advance(Duration::from_secs(1));
    assert_eq!((world.arrivals(), world.processes()), (0, 2));
    assert_eq!(world.ask(client, &say().query("row x")), ROW);
    world.ask(client, &say().terminate());
    world.advance(Duration::from_secs(2));
    assert_eq!(world.processes(), 1);
}
