//! Query rules in whole workers.

use std::time::Duration;

use weir_stats::{Activity, RuleCounts, WaitReason};
use weir_testkit::say::say;

use super::world::World;
use crate::driver::memory::End;

const ROW: &str = "T D(x) C(SELECT 1) Z(I)";
const STOPPED: &str = "E(42501 statement rejected by rule stop)";

/// Lines with a rule that rejects what begins with `row stop`, with more lines of the rule.
fn lines(more: &[&str]) -> String {
    let rule = [
        "[[rules]]",
        "name = \"stop\"",
        "match.text = \"^row stop\"",
        "action = \"reject\"",
    ];
    let lines = rule
        .iter()
        .chain(more)
        .map(|line| format!("; rule {line}\n"));
    lines.collect()
}

fn hits(world: &World) -> RuleCounts {
    let snapshot = world.workers[0].describe(false);
    snapshot
        .rule_counts
        .get("stop")
        .copied()
        .unwrap_or_default()
}

fn assignments(world: &World) -> u64 {
    let snapshot = world.workers[0].describe(false);
    snapshot
        .databases
        .values()
        .map(|totals| totals.totals.server_assignments)
        .sum()
}

#[test]
fn rt_46_outside_of_a_transaction_a_rejection_needs_no_server() {
    let mut world = World::new(1, &lines(&[]));
    let client = world.login();
    let before = assignments(&world);
    let stopped = format!("{STOPPED} Z(I)");
    assert_eq!(world.ask(client, &say().query("row stop")), stopped);
    let batch = say()
        .parse("", "row stop")
        .bind("", "")
        .execute("", 0)
        .sync();
    assert_eq!(world.ask(client, &batch), stopped);
    let many = [
        say().query("row stop").into_bytes(),
        say().query("row stop").into_bytes(),
    ]
    .concat();
    assert_eq!(world.ask(client, &many), format!("{stopped} {stopped}"));
    assert_eq!(assignments(&world), before);
    assert_eq!(world.ask(client, &say().query("row x")), ROW);
    assert_eq!((hits(&world).hits, assignments(&world)), (4, before + 1));
}

#[test]
fn rt_46_in_a_transaction_the_block_fails_and_can_be_rolled_back() {
    let mut world = World::new(1, &lines(&[]));
    let client = world.login();
    world.ask(client, &say().query("begin"));
    assert_eq!(
        world.ask(client, &say().query("row stop")),
        format!("{STOPPED} Z(E)")
    );
    assert!(world.ask(client, &say().query("row x")).contains("25P02"));
    assert!(
        world
            .ask(client, &say().query("rollback"))
            .ends_with("Z(I)")
    );
    assert_eq!(world.ask(client, &say().query("row x")), ROW);
}

#[test]
fn rt_46_a_rule_of_a_reload_concerns_statements_that_are_prepared() {
    let mut world = World::new(1, "");
    let client = world.login();
    world.ask(client, &say().parse("s", "row stop").sync());
    let run = say().bind("", "s").execute("", 0).sync();
    assert!(world.ask(client, &run).contains("D(stop)"));
    world.reload(&lines(&[]));
    assert_eq!(world.ask(client, &run), format!("{STOPPED} Z(I)"));
    world.ask(client, &say().query("begin"));
    assert_eq!(world.ask(client, &run), format!("{STOPPED} Z(E)"));
    world.ask(client, &say().query("rollback"));
    world.reload("");
    assert!(world.ask(client, &run).contains("D(stop)"));
}

#[test]
fn rt_47_a_dry_or_ended_rule_lets_a_statement_run() {
    let run = say().bind("", "s").execute("", 0).sync();
    for (more, dry_hits) in [("dry_run = true", 2), ("expires = 2001-01-01T00:00:00Z", 0)] {
        let mut world = World::new(1, "");
        let client = world.login();
        let prepare = say().parse("s", "row stop").sync();
        let plain = [&say().query("row stop"), &prepare, &run].map(|it| world.ask(client, it));
        let mut world = World::new(1, &lines(&[more]));
        let client = world.login();
        let ruled = [&say().query("row stop"), &prepare, &run].map(|it| world.ask(client, it));
        assert_eq!(ruled, plain, "{more}");
        let hits = hits(&world);
        assert_eq!((hits.hits, hits.dry_hits), (0, dry_hits), "{more}");
    }
}

#[test]
fn a_reload_keeps_the_counts_of_rules_by_name() {
    let mut world = World::new(1, &lines(&[]));
    let client = world.login();
    world.ask(client, &say().query("row stop"));
    world.reload(&lines(&["dry_run = true"]));
    assert_eq!(
        world.ask(client, &say().query("row stop")),
        "T D(stop) C(SELECT 1) Z(I)"
    );
    assert_eq!((hits(&world).hits, hits(&world).dry_hits), (1, 1));
}

#[test]
fn a_rule_concerns_the_clients_that_it_names() {
    for (condition, is_met) in [
        ("match.user = \"ann\"", true),
        ("match.user = \"bob\"", false),
        ("match.database = \"sh*\"", true),
        ("match.database = \"weir\"", false),
        ("match.application_name = \"billing*\"", true),
        ("match.application_name = \"web\"", false),
        ("match.client_addr = \"192.0.2.0/24\"", true),
        ("match.client_addr = \"10.0.0.0/8\"", false),
    ] {
        let mut world = World::new(1, &lines(&[condition]));
        let client = world.dial_from("192.0.2.7", "ann", &[("application_name", "billing-7")]);
        world.settle();
        world.callers[client].heard();
        let heard = world.ask(client, &say().query("row stop"));
        assert_eq!(heard.starts_with(STOPPED), is_met, "{condition}: {heard}");
    }
}

/// Lines with one rule of these keys.
fn rule(keys: &[&str]) -> String {
    let head = ["[[rules]]", "name = \"r\""];
    let lines = head.iter().chain(keys);
    lines.map(|line| format!("; rule {line}\n")).collect()
}

const REPORT: &str = "match.text = \"^row report\"";
const SLOW: &str = "T D(report) C(SELECT 1) Z(I)";

fn refused(max: u32) -> String {
    format!("E(53400 {max} statements of rule r run already (max_concurrency)) Z(I)")
}

fn counts(world: &World) -> RuleCounts {
    let snapshot = world.workers[0].describe(false);
    snapshot.rule_counts.get("r").copied().unwrap_or_default()
}

/// Lets clients and workers run, but no server, for a time.
fn without_servers(world: &mut World, time: Duration) {
    for server in &mut world.servers {
        server.stalled = true;
    }
    world.advance(time);
    for server in &mut world.servers {
        server.stalled = false;
    }
}

fn say_now(world: &mut World, client: usize, bytes: &[u8]) {
    world.callers[client].say(bytes);
    world.callers[client].serve();
}

#[test]
fn a_text_is_rewritten_in_all_protocols_with_its_values() {
    let mut world = World::new(
        1,
        &rule(&[
            "match.fingerprint = \"SELECT note($1)\"",
            "action = \"rewrite\"",
            "to = \"SELECT $1\"",
        ]),
    );
    let client = world.login();
    let simple = world.ask(client, &say().query("select note('z') -- a"));
    assert_eq!(simple, "T D(z) C(SELECT 1) Z(I)");
    let batch = say().parse("", "SELECT note('y')").run("").sync();
    assert_eq!(world.ask(client, &batch), "1 2 D(y) C(SELECT 1) Z(I)");
    world.ask(client, &say().parse("s", "SELECT note('x')").sync());
    let run = say().run("s").sync();
    assert_eq!(world.ask(client, &run), "2 D(x) C(SELECT 1) Z(I)");
    assert_eq!(counts(&world).hits, 3);
    // A statement that is prepared keeps the text that it has.
    world.reload("");
    assert_eq!(world.ask(client, &run), "2 D(x) C(SELECT 1) Z(I)");
}

#[test]
fn a_text_in_pieces_is_rewritten_and_one_that_was_cut_by_a_reload_is_not_lost() {
    let lines = rule(&[
        "match.fingerprint = \"SELECT note($1)\"",
        "action = \"rewrite\"",
        "to = \"SELECT $1\"",
    ]);
    let mut world = World::new(1, &lines);
    let client = world.login();
    let message = say().query("SELECT note('z')").into_bytes();
    for cut in 1..message.len() {
        say_now(&mut world, client, &message[..cut]);
        world.settle();
        let rest = world.ask(client, &message[cut..]);
        assert_eq!(rest, "T D(z) C(SELECT 1) Z(I)", "{cut}");
    }
    for cut in [3, 9, 20] {
        world.reload(&lines);
        say_now(&mut world, client, &message[..cut]);
        world.settle();
        world.reload("");
        let text = say().query("row x").into_bytes();
        let rest = [&message[cut..], &text].concat();
        let heard = world.ask(client, &rest);
        assert!(heard.ends_with("Z(I) T D(x) C(SELECT 1) Z(I)"), "{heard}");
    }
}

#[test]
fn a_delayed_statement_waits_without_a_server() {
    let mut world = World::new(1, &rule(&[REPORT, "action = \"delay\"", "delay = \"2s\""]));
    let client = world.login();
    let batch = say().parse("", "row report").run("").sync();
    for said in [say().query("row report").into_bytes(), batch.into_bytes()] {
        let before = assignments(&world);
        say_now(&mut world, client, &said);
        world.settle();
        assert_eq!(assignments(&world), before);
        world.advance(Duration::from_millis(1_999));
        assert_eq!(world.callers[client].heard(), "");
        world.advance(Duration::from_millis(1));
        assert!(
            world.callers[client]
                .heard()
                .ends_with("D(report) C(SELECT 1) Z(I)")
        );
        assert_eq!(assignments(&world), before + 1);
    }
    assert_eq!(counts(&world).hits, 2);
}

#[test]
fn a_client_that_a_rule_lets_wait_is_shown_as_such() {
    let mut world = World::new(1, &rule(&[REPORT, "action = \"delay\"", "delay = \"2s\""]));
    let client = world.login();
    let activity = |world: &World| {
        let clients = world.workers[0].describe(false).clients;
        clients
            .iter()
            .map(|row| (row.activity, row.activity_us))
            .next()
    };
    assert_eq!(activity(&world).unwrap().0, Some(Activity::Idle));
    world.ask(client, &say().query("row report"));
    world.advance(Duration::from_secs(1));
    let waiting = Activity::Waiting(WaitReason::Rule);
    assert_eq!(activity(&world), Some((Some(waiting), 1_000_000)));
    world.advance(Duration::from_secs(1));
    assert_eq!(activity(&world).unwrap().0, Some(Activity::Idle));
}

#[test]
fn a_client_that_leaves_or_cancels_while_it_is_delayed_leaves_nothing() {
    let mut world = World::new(1, &rule(&[REPORT, "action = \"delay\"", "delay = \"2s\""]));
    let (leaver, client) = (world.login(), world.login());
    say_now(&mut world, leaver, &say().query("row report").into_bytes());
    say_now(&mut world, client, &say().query("row report").into_bytes());
    world.settle();
    world.callers[leaver].leave(End::Reset);
    world.request_cancel(client);
    world.settle();
    let cancelled = "E(57014 canceling statement due to user request) Z(I)";
    assert_eq!(world.callers[client].heard(), cancelled);
    world.advance(Duration::from_secs(3));
    assert_eq!(world.ask(client, &say().query("row x")), ROW);
}

/// A world in which one client runs the rule's statement, and others want to.
fn crowded(more: &[&str], clients: usize) -> (World, Vec<usize>) {
    let keys = [REPORT, "action = \"pass\"", "max_concurrency = 1"];
    let keys: Vec<&str> = keys.iter().chain(more).copied().collect();
    let lines = format!("query_wait_timeout = 10\n{}", rule(&keys));
    let mut world = World::new(2, &lines);
    let clients: Vec<usize> = (0..clients).map(|_| world.login()).collect();
    for client in &clients {
        world.ask(*client, &say().query("row x"));
    }
    for client in &clients {
        say_now(&mut world, *client, &say().query("row report").into_bytes());
        without_servers(&mut world, Duration::ZERO);
    }
    (world, clients)
}

#[test]
fn as_many_statements_run_on_all_workers_as_a_bulkhead_lets() {
    let (mut world, clients) = crowded(&[], 3);
    assert_eq!(leased(&world), 1);
    // The first one ends, and each of the others has its turn.
    world.settle();
    for client in clients {
        assert_eq!(world.callers[client].heard(), SLOW);
        assert_eq!(world.ask(client, &say().query("row x")), ROW);
    }
    assert_eq!(leased(&world), 0);
    assert!(
        world.workers[0]
            .bulkheads
            .iter()
            .all(|it| it.occupancy().running == 0)
    );
}

/// Number of servers that clients have, on all workers.
fn leased(world: &World) -> usize {
    let servers = world
        .workers
        .iter()
        .flat_map(|worker| worker.tables.servers.iter());
    servers.filter(|(_, server)| server.lease.is_some()).count()
}

#[test]
fn who_finds_the_queue_of_a_bulkhead_full_or_waits_too_long_is_told_so() {
    let (mut world, clients) = crowded(&["max_waiting = 1"], 3);
    assert_eq!(world.callers[clients[2]].heard(), refused(1));
    // Other statements pass.
    say_now(&mut world, clients[2], &say().query("row x").into_bytes());
    assert_eq!(leased(&world), 1);
    without_servers(&mut world, Duration::from_secs(10));
    assert_eq!(world.callers[clients[1]].heard(), refused(1));
    world.settle();
    assert_eq!(world.callers[clients[0]].heard(), SLOW);
    assert_eq!(world.callers[clients[2]].heard(), ROW);
    for client in clients {
        assert_eq!(world.ask(client, &say().query("row report")), SLOW);
    }
}

#[test]
fn a_client_that_leaves_gives_its_place_in_a_bulkhead_to_the_next() {
    for leaver in [0, 1] {
        let (mut world, clients) = crowded(&[], 3);
        world.callers[clients[leaver]].leave(End::Reset);
        world.settle();
        world.advance(Duration::from_secs(60));
        for (number, client) in clients.iter().enumerate() {
            if number != leaver {
                assert_eq!(world.callers[*client].heard(), SLOW, "{leaver} {number}");
            }
        }
        assert!(
            world.workers[0]
                .bulkheads
                .iter()
                .all(|it| it.occupancy().running == 0)
        );
    }
}

#[test]
fn in_a_transaction_a_full_bulkhead_fails_the_statement() {
    let (mut world, clients) = crowded(&[], 1);
    for server in &mut world.servers {
        server.stalled = true;
    }
    let other = world.login();
    assert!(world.ask(other, &say().query("begin")).ends_with("Z(T)"));
    let heard = world.ask(other, &say().query("row report"));
    assert_eq!(heard, refused(1).replace("Z(I)", "Z(E)"));
    world.ask(other, &say().query("rollback"));
    for server in &mut world.servers {
        server.stalled = false;
    }
    world.settle();
    assert_eq!(world.callers[clients[0]].heard(), SLOW);
    assert!(world.ask(other, &say().query("begin")).ends_with("Z(T)"));
    let heard = world.ask(other, &say().query("row report"));
    assert_eq!(heard, SLOW.replace("Z(I)", "Z(T)"));
    world.ask(other, &say().query("rollback"));
}

#[test]
fn a_statement_that_runs_for_longer_than_its_rule_lets_is_cancelled() {
    let mut world = World::new(1, &rule(&[REPORT, "action = \"pass\"", "timeout = \"2s\""]));
    world.cancels_at_once = false;
    let client = world.login();
    for said in [
        say().query("row report").into_bytes(),
        say().parse("", "row report").run("").sync().into_bytes(),
    ] {
        say_now(&mut world, client, &said);
        world.turn(0);
        let server = world.servers.iter().rposition(|server| server.is_alive());
        let server = server.expect("a server");
        world.servers[server].hear();
        while !world.servers[server].begin() {
            assert!(world.servers[server].work(), "begins");
        }
        without_servers(&mut world, Duration::from_millis(1_999));
        assert_eq!(world.cancels.len(), 0);
        without_servers(&mut world, Duration::from_millis(2));
        assert_eq!(world.cancels.len(), 1);
        assert!(world.signal(0));
        world.cancels.remove(0).peer.end(End::Orderly);
        world.settle();
        let heard = world.callers[client].heard();
        let told = "E(57014 canceling statement due to rule r (timeout 2 s)) Z(I)";
        assert!(heard.ends_with(told), "{heard}");
        assert_eq!(world.ask(client, &say().query("row x")), ROW);
        world.advance(Duration::from_secs(5));
    }
    assert_eq!(counts(&world).hits, 2);
}
