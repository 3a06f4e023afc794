//! Counters of workers: waits, errors, periods; no total falls when a pool is forgotten.

use std::time::Duration;

use weir_stats::{Activity, Blame, PoolActivity, PoolRow, Snapshot, WaitReason};
use weir_testkit::say::say;

use super::world::World;
use crate::driver::memory::End;
use crate::inspect::Detail;

const SECOND: Duration = Duration::from_secs(1);

/// Returns the figures of all workers.
fn figures(world: &World) -> Snapshot {
    let mut all = Snapshot::default();
    for worker in &world.workers {
        all.merge(worker.measure(Detail::Metrics));
    }
    all
}

/// Returns the figures of the only pool.
fn pool(world: &World) -> PoolRow {
    let pools = figures(world).pools;
    assert_eq!(pools.len(), 1);
    pools.into_values().next().unwrap()
}

#[test]
fn every_transaction_is_in_the_histograms() {
    let mut world = World::new(2, "");
    for _ in 0..4 {
        let client = world.login();
        world.ask(client, &say().query("row x"));
    }
    let row = pool(&world);
    let times = row.times.unwrap();
    assert_eq!((row.totals.queries, times.query.count()), (4, 4));
    assert_eq!(times.transaction.count(), row.totals.transactions);
    assert_eq!(times.wait.count(), row.totals.server_assignments);
    assert_eq!((row.clients, row.leased), (4, 0));
    assert!(row.totals.server_logins >= 1, "{:?}", row.totals);
    assert_eq!((row.totals.servers_lost, row.totals.wait_timeouts), (0, 0));
}

#[test]
fn who_gives_up_has_waited_too() {
    let mut world = World::new(1, "default_pool_size = 1\nquery_wait_timeout = 30");
    let (busy, hasty, patient) = (world.login(), world.login(), world.login());
    world.ask(busy, &say().query("begin"));
    let before = pool(&world).times.unwrap().wait.clone();
    world.callers[hasty].say(&say().query("row x"));
    world.callers[patient].say(&say().query("row x"));
    world.settle();
    world.advance(5 * SECOND);
    world.callers[hasty].leave(End::Orderly);
    world.settle();
    world.advance(26 * SECOND);
    let row = pool(&world);
    assert_eq!(row.totals.wait_timeouts, 1, "of the patient one only");
    let waits = &row.times.unwrap().wait - &before;
    // The waits were five and thirty seconds.
    assert_eq!((waits.count(), waits.below(22), waits.below(23)), (2, 0, 1));
    assert!(waits.sum_us() >= 35_000_000, "{}", waits.sum_us());
    let errors = figures(&world).errors;
    assert_eq!(errors.get(&(Blame::Pooler, "53300")), Some(&1));
}

#[test]
fn a_forgotten_pool_keeps_its_totals_and_its_row_on_the_page_alone() {
    let mut world = World::new(1, "pool_idle_timeout = 100\nserver_idle_timeout = 10");
    let client = world.login();
    world.ask(client, &say().query("row x"));
    let before = pool(&world);
    world.callers[client].leave(End::Orderly);
    world.settle();
    for _ in 0..5 {
        world.advance(61 * SECOND);
    }
    assert!(world.workers[0].describe(false).pools.is_empty());
    let after = pool(&world);
    assert_eq!(after.totals.queries, before.totals.queries);
    assert_eq!(after.times, before.times);
    let databases = world.workers[0].describe(false).databases;
    assert_eq!(databases.values().next().unwrap().totals.queries, 1);
    let client = world.login();
    world.ask(client, &say().query("row x"));
    assert_eq!(pool(&world).totals.queries, before.totals.queries + 1);
}

#[test]
fn percentiles_are_of_the_last_full_period() {
    let mut world = World::new(1, "stats_period = 60");
    let client = world.login();
    world.ask(client, &say().query("row x"));
    let recent = |world: &World| pool(world).recent.unwrap().query.count();
    assert_eq!(recent(&world), 1, "no period is over yet");
    world.advance(61 * SECOND);
    assert_eq!(recent(&world), 1);
    world.advance(61 * SECOND);
    assert_eq!(recent(&world), 0);
}

#[test]
fn work_counts_for_the_client_and_for_its_application() {
    let mut world = World::new(1, "");
    let client = world.login();
    world.ask(client, &say().query("set application_name = 'billing'"));
    for _ in 0..3 {
        world.ask(client, &say().query("row x"));
    }
    let rows = figures(&world).applications;
    let of = |name: &str| {
        let found = rows.iter().find(|(key, _)| key.2 == name);
        found.map(|(_, row)| *row).unwrap_or_default()
    };
    let billing = of("billing");
    assert_eq!((billing.clients, billing.logins), (1, 1));
    assert!(billing.counters.queries >= 3, "{billing:?}");
    assert!(billing.counters.bytes_received > 0 && billing.counters.bytes_sent > 0);
    let all: u64 = rows.values().map(|row| row.counters.queries).sum();
    let snapshot = world.workers[0].measure(Detail::Rows);
    assert_eq!(snapshot.clients[0].counters.queries, all);
    assert_eq!(rows.values().map(|row| row.clients).sum::<u64>(), 1);
    world.callers[client].leave(End::Orderly);
    world.settle();
    let rows = figures(&world).applications;
    assert_eq!(rows.values().map(|row| row.clients).sum::<u64>(), 0);
    assert_eq!(
        rows.values().map(|row| row.counters.queries).sum::<u64>(),
        all
    );
}

#[test]
fn a_pool_tells_what_its_clients_do_and_who_has_held_its_servers_for_long() {
    let mut world = World::new(1, "default_pool_size = 1");
    let (holder, waiter, _idle) = (world.login(), world.login(), world.login());
    world.ask(holder, &say().query("begin"));
    world.callers[waiter].say(&say().query("row x"));
    world.settle();
    assert_eq!(figures(&world).holders, [], "not for long");
    world.advance(2 * SECOND);
    let all = figures(&world);
    let [row] = &all.holders[..] else {
        panic!("{:?}", all.holders)
    };
    assert_eq!(row.activity, Activity::InTransaction);
    assert!(row.transaction_us >= 2_000_000, "{row:?}");
    let activity = pool(&world).activity;
    let waits = [(WaitReason::PoolFull, 1)].into();
    let expected = PoolActivity {
        idle: 1,
        in_transaction: 1,
        waits,
        ..PoolActivity::default()
    };
    assert_eq!(activity, expected);
}

#[test]
fn a_server_that_ends_by_itself_is_lost_and_one_that_weir_closes_is_not() {
    let mut world = World::new(1, "server_idle_timeout = 5");
    let client = world.login();
    world.ask(client, &say().query("row x"));
    world.advance(10 * SECOND);
    assert_eq!(
        pool(&world).totals.servers_lost,
        0,
        "it was idle for too long"
    );
    world.ask(client, &say().query("row x"));
    world.servers.iter_mut().for_each(|server| {
        server.die(false, End::Reset);
    });
    world.settle();
    assert_eq!(pool(&world).totals.servers_lost, 1);
}

#[test]
fn statements_that_a_server_forgets_to_make_room_are_counted() {
    let mut world = World::new(1, "default_pool_size = 1\nmax_prepared_statements = 1");
    let client = world.login();
    for (name, text) in [("a", "row x"), ("b", "row y")] {
        let batch = say().parse(name, text).run(name).sync();
        world.ask(client, &batch);
    }
    assert_eq!(pool(&world).totals.statement_evictions, 1);
    let workers = figures(&world).workers;
    assert_eq!(workers[0].statements, 2, "both are prepared by the client");
}
