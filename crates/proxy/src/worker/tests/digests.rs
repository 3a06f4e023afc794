//! Digests: what workers count of the statements of their clients.

use std::time::Duration;

use weir_stats::{DigestFigures, DigestRows};
use weir_testkit::say::say;

use super::world::World;

/// Digests of all workers.
fn digests(world: &World) -> DigestRows {
    let mut all = DigestRows::default();
    for worker in &world.workers {
        if let Some(rows) = worker.digests(true) {
            all.merge(*rows);
        }
    }
    all
}

/// Figures of the statement with this text.
fn figures(world: &World, text: &str) -> DigestFigures {
    let rows = digests(world).rows;
    let found = rows.values().find(|row| row.text == text);
    found.map(|row| row.figures.clone()).unwrap_or_default()
}

#[test]
fn statements_of_all_protocols_are_counted_together() {
    let mut world = World::new(2, "");
    let (one, other) = (world.login(), world.login());
    world.ask(one, &say().query("row 17"));
    world.ask(other, &say().query("ROW  18 -- comment"));
    let batch = say()
        .parse("", "row 'x'")
        .bind("", "")
        .execute("", 0)
        .sync();
    world.ask(one, &batch);
    world.ask(other, &say().parse("s", "row 19").sync());
    world.ask(other, &say().bind("", "s").execute("", 0).sync());
    let rows = digests(&world).rows;
    let calls: u64 = rows.values().map(|row| row.figures.calls).sum();
    let returned: u64 = rows.values().map(|row| row.figures.rows).sum();
    let shapes: std::collections::BTreeSet<u64> = rows.keys().map(|key| key.2).collect();
    assert_eq!((calls, returned, shapes.len()), (4, 4, 1));
}

#[test]
fn the_wait_for_a_server_belongs_to_the_statement_that_waited() {
    let mut world = World::new(1, "default_pool_size = 1\nquery_wait_notify = 0");
    let (busy, patient) = (world.login(), world.login());
    world.ask(busy, &say().query("begin"));
    world.callers[patient].say(&say().query("row x"));
    world.settle();
    world.advance(Duration::from_secs(5));
    world.ask(busy, &say().query("commit"));
    world.settle();
    assert_eq!(world.callers[patient].heard(), "T D(x) C(SELECT 1) Z(I)");
    let waited = figures(&world, "row x").wait_us;
    assert!((5_000_000..6_000_000).contains(&waited), "{waited}");
    assert_eq!(figures(&world, "commit").wait_us, 0);
}

#[test]
fn digests_are_counted_unless_they_are_off() {
    let mut world = World::new(1, "digests = 0");
    let client = world.login();
    world.ask(client, &say().query("row x"));
    assert!(world.workers[0].digests(true).is_none());
    world.reload("digests = 1");
    world.ask(client, &say().query("row x"));
    assert_eq!(figures(&world, "row x").calls, 1);
    world.reload("digests = 0");
    world.ask(client, &say().query("row x"));
    assert!(world.workers[0].digests(true).is_none());
}

#[test]
fn digest_max_bounds_the_statements_that_are_counted_apart() {
    let mut world = World::new(1, "digest_max = 10");
    let client = world.login();
    for number in 0..30 {
        world.ask(client, &say().query(&format!("row x{number}")));
    }
    let rows = digests(&world);
    let apart: u64 = rows.rows.values().map(|row| row.figures.calls).sum();
    assert_eq!((rows.rows.len(), apart, rows.other.calls), (10, 10, 20));
}

#[test]
fn digest_metrics_puts_statements_on_the_metrics_page() {
    for (lines, on_page) in [("", None), ("digest_metrics = 5", Some(5))] {
        let mut world = World::new(1, lines);
        let client = world.login();
        world.ask(client, &say().query("row x"));
        let digests = world.workers[0]
            .measure(crate::inspect::Detail::Metrics)
            .digests;
        assert_eq!(digests.map(|digests| digests.on_page), on_page);
    }
}

#[test]
fn a_reset_forgets_all_figures() {
    let mut world = World::new(2, "admin_users = ann");
    let (one, other) = (world.login(), world.login());
    for client in [one, other] {
        world.ask(client, &say().query("row x"));
    }
    let console = world.login_to_console();
    assert_eq!(world.ask(console, &say().query("RESET")), "C(done)");
    assert_eq!(digests(&world), DigestRows::default());
    world.ask(one, &say().query("row x"));
    assert_eq!(figures(&world, "row x").calls, 1);
}

#[test]
fn a_failed_statement_is_counted_with_its_code() {
    let mut world = World::new(1, "");
    let client = world.login();
    world.ask(client, &say().query("error now"));
    let rows = digests(&world).rows;
    let codes: Vec<_> = rows
        .values()
        .map(|row| (row.figures.errors, row.figures.last_error))
        .collect();
    assert_eq!(codes, [(1, Some(*b"22012"))]);
}
