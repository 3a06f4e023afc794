//! Options one by one, each shown by one conversation, and the effect of a reload on connected clients.

use std::time::Duration;

use weir_testkit::say::say;

use super::world::{Host, World};
use crate::driver::memory::End;

const ROW: &str = "T D(x) C(SELECT 1) Z(I)";

fn row() -> Vec<u8> {
    say().query("row x").into_bytes()
}

#[test]
fn login_notify_message_is_a_notice_before_the_first_query() {
    let mut world = World::new(1, "login_notify_message = be nice");
    let client = world.dial("ann", &[]);
    world.settle();
    let heard = world.callers[client].heard();
    assert!(heard.ends_with(" N(00000 be nice) Z(I)"), "{heard}");
    world.reload("login_notify_message =");
    let client = world.dial("ann", &[]);
    world.settle();
    let heard = world.callers[client].heard();
    assert!(!heard.contains(" N("), "{heard}");
}

#[test]
fn max_packet_size_limits_what_a_client_sends() {
    for lines in ["pool_mode = transaction", "pool_mode = session"] {
        let mut world = World::new(1, &format!("{lines}\nmax_packet_size = 1024"));
        let (small, large) = (world.login(), world.login());
        let text = |len: usize| {
            say()
                .query(&format!("row {}", "x".repeat(len)))
                .into_bytes()
        };
        // Tag, length, "row " and the final NUL are ten bytes.
        assert!(world.ask(small, &text(1000)).ends_with("Z(I)"), "{lines}");
        let told = world.ask(large, &text(1015));
        assert_eq!(
            told,
            "E(FATAL 54000 message of 1025 bytes is too long (max_packet_size))"
        );
        // Also later in a batch, when the client has a server already.
        let told = world.ask(small, &[row(), text(1015)].concat());
        assert!(told.contains("E(FATAL 54000"), "{told}");
    }
}

#[test]
fn max_packet_size_limits_what_a_server_sends_and_can_be_changed() {
    let mut world = World::new(1, "");
    let client = world.login();
    // The answer is a byte longer than the question.
    let text = "x".repeat(1014);
    let long = say().query(&format!("row {text}")).into_bytes();
    assert_eq!(long.len(), 1024);
    assert!(world.ask(client, &long).ends_with("Z(I)"));
    world.reload("max_packet_size = 1024");
    assert_eq!(world.ask(client, &row()), ROW);
    let told = world.ask(client, &long);
    assert!(
        told.contains("E(FATAL 08007 server conn crashed?"),
        "{told}"
    );
    assert_eq!(world.live_servers(), 0);
}

const SESSION: &str = "pool_mode = session\ndefault_pool_size = 3\n";
const MOVED: &str = "[databases]\n* = host=10.0.0.1 port=7000\n";

#[test]
fn server_fast_close_ends_sessions_whose_server_leads_elsewhere_now() {
    let lines = format!("{SESSION}server_fast_close = 1\n");
    let mut world = World::new(1, &lines);
    let (idle, busy) = (world.login(), world.login());
    assert_eq!(world.ask(idle, &row()), ROW);
    assert!(world.ask(busy, &say().query("begin")).ends_with("Z(T)"));
    world.reload(&format!("{lines}{MOVED}"));
    let told = "E(FATAL 57P01 database configuration changed)";
    assert_eq!(world.callers[idle].heard(), told);
    // Inside of a transaction the error waits for its end.
    assert_eq!(world.ask(busy, &row()), "T D(x) C(SELECT 1) Z(T)");
    let heard = world.ask(busy, &say().query("commit"));
    assert!(heard.contains(told), "{heard}");
    assert_eq!(world.live_servers(), 0);
}

#[test]
fn without_server_fast_close_a_session_keeps_its_server() {
    let mut world = World::new(1, SESSION);
    let client = world.login();
    assert_eq!(world.ask(client, &row()), ROW);
    world.reload(&format!("{SESSION}{MOVED}"));
    assert_eq!(world.ask(client, &row()), ROW);
    assert_eq!(world.live_servers(), 1);
    world.ask(client, &say().terminate());
    assert_eq!(world.live_servers(), 0, "obsolete");
}

#[test]
fn clients_of_a_database_that_is_removed_go_when_they_have_finished() {
    let mut world = World::new(1, "");
    let (idle, busy) = (world.login(), world.login());
    assert_eq!(world.ask(idle, &row()), ROW);
    assert!(world.ask(busy, &say().query("begin")).ends_with("Z(T)"));
    // Neither `*` nor the clients' database is configured any more.
    world.reload("; no others\n[databases]\nother = host=10.0.0.1\n");
    let told = "E(FATAL 57P01 database removed)";
    assert_eq!(world.callers[idle].heard(), told);
    let heard = world.ask(busy, &say().query("commit"));
    assert!(heard.contains(told), "{heard}");
    assert_eq!(world.live_servers(), 0);
}

#[test]
fn disable_pqexec_refuses_simple_queries_only() {
    let mut world = World::new(1, "disable_pqexec = 1");
    let (simple, extended) = (world.login(), world.login());
    let heard = world.ask(simple, &row());
    assert_eq!(heard, "E(FATAL 08P01 PQexec disallowed)");
    let heard = world.ask(
        extended,
        &say().parse("", "row x").bind("", "").execute("", 0).sync(),
    );
    assert!(heard.ends_with("D(x) C(SELECT 1) Z(I)"), "{heard}");
}

#[test]
fn application_name_add_host_tells_where_a_client_is() {
    let name = |lines: &str| {
        let mut world = World::new(1, lines);
        let client = world.dial_from("192.0.2.7", "ann", &[("application_name", "shop")]);
        world.settle();
        let heard = world.callers[client].heard();
        let at = heard.find("S(application_name=").unwrap();
        heard[at..].split(')').next().unwrap().to_owned()
    };
    assert_eq!(name(""), "S(application_name=shop");
    let told = name("application_name_add_host = 1");
    assert!(
        told.starts_with("S(application_name=shop - 192.0.2.7:"),
        "{told}"
    );
}

#[test]
fn max_pinned_ends_one_who_would_keep_a_server_more() {
    let lines = "session_state = track\ndefault_pool_size = 3\nmax_pinned = 1";
    let mut world = World::new(1, lines);
    let (one, other) = (world.login(), world.login());
    let set = say().query("load 'plpgsql'");
    let heard = world.ask(one, &set);
    assert!(heard.ends_with("Z(I)"), "{heard}");
    let heard = world.ask(other, &set);
    assert!(
        heard.contains("E(FATAL 53400 too many clients are pinned to their servers (max_pinned)"),
        "{heard}"
    );
    world.reload("session_state = track\ndefault_pool_size = 3\nmax_pinned = 2");
    let another = world.login();
    let heard = world.ask(another, &set);
    assert!(heard.ends_with("Z(I)"), "{heard}");
}

#[test]
fn by_default_the_last_server_of_a_pool_is_pinned_for_a_minute_at_most() {
    let lines = "session_state = track\ndefault_pool_size = 2\nquery_wait_notify = 0";
    let mut world = World::new(1, lines);
    let clients = [(); 4].map(|()| world.login());
    let [one, other, busy, waits] = clients;
    let set = say().query("load 'plpgsql'");
    for pinned in [one, other] {
        let heard = world.ask(pinned, &set);
        assert!(heard.ends_with("Z(I)"), "{heard}");
    }
    world.callers[waits].say(&row());
    world.advance(Duration::from_secs(30));
    world.ask(other, &say().query("begin"));
    // What it does is not cut off.
    world.advance(Duration::from_secs(31));
    assert_eq!(world.callers[waits].heard(), "");
    let heard = world.ask(other, &say().query("commit"));
    assert!(heard.ends_with("Z(I)"), "{heard}");
    world.advance(Duration::from_secs(1));
    let heard = world.callers[other].heard();
    assert!(heard.contains("E(FATAL 53400 "), "{heard}");
    assert_eq!(world.callers[waits].heard(), ROW);
    assert_eq!(world.ask(one, &row()), ROW);
    // A short pin costs nobody his connection.
    world.ask(busy, &set);
    world.advance(Duration::from_secs(59));
    world.ask(busy, &say().query("discard all"));
    world.advance(Duration::from_secs(59));
    assert_eq!(world.ask(busy, &row()), ROW);
}

#[test]
fn max_waiting_refuses_one_more_at_once() {
    for workers in [1, 2] {
        let lines = "default_pool_size = 1\nmax_waiting = 1";
        let mut world = World::new(workers, lines);
        let (busy, waits, refused) = (world.login(), world.login(), world.login());
        world.ask(busy, &say().query("begin"));
        world.callers[waits].say(&row());
        world.settle();
        let refusal = "E(53300 too many clients wait for a server (max_waiting)) Z(I)";
        assert_eq!(world.ask(refused, &row()), refusal);
        // The rest of its batch is dropped, up to Sync.
        let batch = say().parse("", "select 1").run("").sync();
        assert_eq!(world.ask(refused, &batch), refusal);
        world.ask(busy, &say().query("commit"));
        assert_eq!(world.callers[waits].heard(), ROW);
        assert_eq!(world.ask(refused, &row()), ROW);
        world.reload("default_pool_size = 1");
        world.ask(busy, &say().query("begin"));
        world.callers[waits].say(&row());
        world.callers[refused].say(&row());
        world.settle();
        world.ask(busy, &say().query("commit"));
        assert_eq!(world.callers[waits].heard(), ROW);
        assert_eq!(world.callers[refused].heard(), ROW);
    }
}

#[test]
fn max_pools_is_how_many_users_of_a_database_there_may_be() {
    let mut world = World::new(1, "max_pools = 1");
    let ann = world.login();
    let bob = world.dial("bob", &[]);
    world.settle();
    let heard = world.callers[bob].heard();
    assert!(heard.ends_with("(max_pools))"), "{heard}");
    assert_eq!(world.ask(ann, &row()), ROW);
}

#[test]
fn limits_on_clients_refuse_the_one_too_many_and_let_in_the_next_when_one_has_gone() {
    for limit in [
        "max_client_conn",
        "max_db_client_connections",
        "max_user_client_connections",
    ] {
        let mut world = World::new(1, &format!("{limit} = 2"));
        let (first, second) = (world.login(), world.login());
        let third = world.dial("ann", &[]);
        world.settle();
        let heard = world.callers[third].heard();
        assert!(heard.ends_with(&format!("({limit}))")), "{heard}");
        assert_eq!(world.ask(first, &row()), ROW);
        world.ask(first, &say().terminate());
        let next = world.login();
        assert_eq!(world.ask(next, &row()), ROW, "{limit}");
        assert_eq!(world.ask(second, &row()), ROW, "{limit}");
    }
}

#[test]
fn server_reset_query_runs_between_sessions_and_always_if_that_is_wished() {
    let lines = "pool_mode = session\ndefault_pool_size = 1\nserver_reset_query = row clean";
    let mut world = World::new(1, lines);
    let (one, other) = (world.login(), world.login());
    world.ask(one, &row());
    world.ask(one, &say().terminate());
    world.ask(other, &row());
    assert_eq!(world.servers[0].asked, ["row x", "row clean", "row x"]);
    for always in [false, true] {
        let lines = format!(
            "server_reset_query = row clean\nserver_reset_query_always = {}",
            u8::from(always)
        );
        let mut world = World::new(1, &lines);
        let client = world.login();
        world.ask(client, &row());
        let last = world.servers[0].asked.last().unwrap();
        assert_eq!(last == "row clean", always);
    }
}

#[test]
fn server_connect_concurrency_bounds_the_logins_at_once() {
    for (lines, at_once) in [("server_connect_concurrency = 1", 1), ("", 3)] {
        let mut world = World::new(1, lines);
        world.host = Host::Silent;
        for _ in 0..3 {
            world.dial("ann", &[]);
        }
        world.settle();
        assert_eq!(world.unanswered.len(), at_once, "{lines}");
    }
}

/// Number of pools after this many seconds without use.
fn pools_after(lines: &str, seconds: u64) -> usize {
    let mut world = World::new(
        1,
        &format!("server_idle_timeout = 1\nstats_period = 1\n{lines}"),
    );
    let client = world.login();
    world.ask(client, &row());
    world.callers[client].leave(End::Orderly);
    world.settle();
    world.advance(Duration::from_secs(3));
    assert_eq!(world.live_servers(), 0);
    world.advance(Duration::from_secs(seconds));
    world.workers[0].tables.group_index.len()
}

#[test]
fn pools_go_after_pool_idle_timeout_and_those_of_the_fallback_after_autodb_idle_timeout() {
    let own = "[databases]\nshop = host=10.0.0.1\n";
    assert_eq!(pools_after(&format!("pool_idle_timeout = 10\n{own}"), 5), 1);
    assert_eq!(
        pools_after(&format!("pool_idle_timeout = 10\n{own}"), 20),
        0
    );
    assert_eq!(
        pools_after(&format!("autodb_idle_timeout = 10\n{own}"), 20),
        1
    );
    assert_eq!(pools_after("autodb_idle_timeout = 10", 5), 1);
    assert_eq!(pools_after("autodb_idle_timeout = 10", 20), 0);
    assert_eq!(pools_after("autodb_idle_timeout = 0", 20), 1);
}

/// True if the result for a name is still cached this many seconds after the lookup, successful or not.
fn is_known(name: &str, lines: &str, seconds: u64) -> bool {
    let mut world = World::new(1, &format!("{lines}\n[databases]\nshop = host={name}\n"));
    world.dial("ann", &[]);
    world.settle_until(|world| world.global.resolver.len() > 0);
    world.pass(Duration::from_secs(seconds));
    world.global.resolver.cached(name, world.now()).is_some()
}

#[test]
fn names_are_believed_for_dns_max_ttl_and_failures_for_dns_nxdomain_ttl() {
    let lines = "dns_max_ttl = 10\ndns_nxdomain_ttl = 100";
    assert!(is_known("localhost", lines, 9));
    assert!(!is_known("localhost", lines, 11));
    // RFC 6761, 6.4: names under `.invalid` do not exist.
    assert!(is_known("no.such.host.invalid", lines, 99));
    assert!(!is_known("no.such.host.invalid", lines, 101));
}

#[test]
fn scram_iterations_are_those_of_verifiers_made_here() {
    for iterations in [4096, 777] {
        let lines = format!("auth_type = scram-sha-256\nscram_iterations = {iterations}");
        let mut world = World::with_users(&lines, "\"ann\" \"pencil\"\n");
        let client = world.dial("ann", &[]);
        world.settle();
        let first = b"n,,n=,r=abcdefgh";
        let mut message = Vec::new();
        weir_wire::encode::sasl_initial(&mut message, b"SCRAM-SHA-256", Some(first)).unwrap();
        world.callers[client].say(&message);
        let wanted = format!(",i={iterations}");
        world.settle_until(|world| {
            String::from_utf8_lossy(&world.callers[client].got).contains(&wanted)
        });
    }
}

#[test]
fn cancel_requests_per_second_bounds_those_of_one_address() {
    let reached = |limit: u32| {
        let peers = "peer_id = 1\n[peers]\n2 = host=10.0.0.2 pool_size=100";
        let mut world = World::new(1, &format!("cancel_requests_per_second = {limit}\n{peers}"));
        world.cancels_at_once = false;
        let mut packet = Vec::new();
        let pid = crate::peering::mark(2, 0x4000_0005, &mut []);
        weir_wire::encode::cancel_request(&mut packet, pid, &[9, 8, 7, 0x43]).unwrap();
        for _ in 0..20 {
            let asker = world.connect();
            world.callers[asker].say(&packet);
            world.settle();
        }
        world.cancels.len()
    };
    // The burst is five times the rate.
    assert_eq!(reached(1), 5);
    assert!(reached(0) > 5, "{} without a limit", reached(0));
}
