//! Query rules in whole workers.

use weir_stats::RuleCounts;
use weir_testkit::say::say;

use super::world::World;

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
