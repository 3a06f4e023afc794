//! Tests of the beginning and the end of conditions, of gaps, of clocks that are set, and of bounds.

use proptest::prelude::*;
use weir_stats::{
    Activity, Blame, EventKind, EventRow, PoolRow, Severity, Snapshot, Times, WaitReason,
};

use super::*;
use crate::fixture::{START, application, calm, fail_logins, holder, host, wait, with, with_pool};

/// Snapshot with a transaction that has been open for so long; `long_transaction` takes two samples.
fn open(second: u64, seconds: u64) -> Snapshot {
    with(second, |snapshot| {
        let row = holder(17, Activity::InTransaction, seconds);
        snapshot.holders.push(row);
    })
}

/// Snapshot with a crowded pool; `pool_too_small` takes ten samples.
fn crowded(second: u64) -> Snapshot {
    with(second, |snapshot| wait(snapshot, WaitReason::PoolFull, 2))
}

fn names(changes: &[Change]) -> Vec<(&'static str, &'static str)> {
    let name = |change: &Change| match change {
        Change::Began(row) => ("began", row.condition),
        Change::Ended(row, _) => ("ended", row.condition),
    };
    changes.iter().map(name).collect()
}

/// Observes the snapshots, and returns the changes with the number of the sample.
fn run(watch: &mut Watch, snapshots: impl Iterator<Item = Snapshot>) -> Vec<(usize, Change)> {
    let samples = snapshots.enumerate();
    let changes = samples.flat_map(|(number, snapshot)| {
        let changes = watch.observe(&snapshot);
        changes.into_iter().map(move |change| (number, change))
    });
    changes.collect()
}

#[test]
fn a_condition_begins_after_ten_samples_and_ends_after_thirty_without_it() {
    let mut watch = Watch::new();
    let changes = run(&mut watch, (0..20).map(crowded));
    let [(9, Change::Began(row))] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!((row.since, row.scope.as_str()), (START, "shop/app"));
    assert_eq!(watch.worst(), Some(Severity::Warning));
    let changes = run(&mut watch, (20..60).map(calm));
    let [(29, Change::Ended(row, 49))] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert!(row.advice.contains("pool_size = 6"), "{}", row.advice);
    assert_eq!((watch.conditions(), watch.worst()), (vec![], None));
    assert!(watch.states.is_empty());
}

#[test]
fn a_sample_without_it_starts_the_row_anew_and_one_with_it_keeps_the_condition() {
    let mut watch = Watch::new();
    let flicker = (0..60).map(|s| if s % 10 == 9 { calm(s) } else { crowded(s) });
    assert_eq!(run(&mut watch, flicker), []);
    let changes = run(&mut watch, (60..70).map(crowded));
    assert_eq!(changes.len(), 1);
    let rare = (70_u64..200).map(|s| {
        if s.is_multiple_of(20) {
            crowded(s)
        } else {
            calm(s)
        }
    });
    assert_eq!(run(&mut watch, rare), []);
}

#[test]
fn evidence_follows_the_figures_without_a_new_beginning() {
    let mut watch = Watch::new();
    run(&mut watch, (0..3).map(|s| open(s, 400)));
    let before = watch.conditions();
    assert_eq!(run(&mut watch, (3..4).map(|s| open(s, 500))), []);
    let after = watch.conditions();
    assert_eq!(after[0].since, before[0].since);
    assert!(after[0].evidence.contains("8 min 20 s"), "{after:?}");
}

#[test]
fn severity_follows_without_a_new_beginning() {
    let mut watch = Watch::new();
    let used = |s, used| with(s, |snapshot| snapshot.limits[0].used = used);
    run(&mut watch, (0..10).map(|s| used(s, 95)));
    assert_eq!(watch.worst(), Some(Severity::Warning));
    assert_eq!(run(&mut watch, (10..11).map(|s| used(s, 100))), []);
    assert_eq!(watch.worst(), Some(Severity::Critical));
}

#[test]
fn missing_samples_are_neither_presence_nor_absence() {
    let mut watch = Watch::new();
    // Nine samples, five seconds without, and the tenth sample.
    assert_eq!(run(&mut watch, (0..9).map(crowded)), []);
    let changes = watch.observe(&crowded(14));
    assert_eq!(names(&changes), [("began", "pool_too_small")]);
    // 29 samples without it, then a gap of five seconds: the thirtieth sample ends it.
    assert_eq!(run(&mut watch, (15..44).map(calm)), []);
    let changes = watch.observe(&calm(49));
    assert_eq!(names(&changes), [("ended", "pool_too_small")]);
}

#[test]
fn after_a_long_gap_rows_of_samples_begin_anew() {
    let mut watch = Watch::new();
    assert_eq!(run(&mut watch, (0..9).map(crowded)), []);
    assert_eq!(run(&mut watch, (600..609).map(crowded)), []);
    let changes = watch.observe(&crowded(609));
    let [Change::Began(row)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(row.since, START + 600);
    // Held, 29 samples without it, a night's sleep, and 29 more.
    assert_eq!(run(&mut watch, (610..639).map(calm)), []);
    assert_eq!(run(&mut watch, (40_000..40_029).map(calm)), []);
    let changes = watch.observe(&calm(40_029));
    assert_eq!(names(&changes), [("ended", "pool_too_small")]);
}

#[test]
fn a_clock_that_is_set_ends_nothing() {
    let mut watch = Watch::new();
    run(&mut watch, (100..115).map(crowded));
    for at in [0, 1_000_000, 50] {
        assert_eq!(run(&mut watch, (at..at + 15).map(crowded)), []);
        assert_eq!(watch.conditions().len(), 1);
    }
    let changes = run(&mut watch, (65..95).map(calm));
    let [(29, Change::Ended(_, seconds))] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    // 15 + 3 x 15 + 30 samples, and not the leaps of the clock.
    assert_eq!(*seconds, 89);
}

#[test]
fn a_more_specific_condition_replaces_the_general_one() {
    let idle = |s| {
        let mut snapshot = crowded(s);
        snapshot.holders = (0..3)
            .map(|n| holder(n, Activity::InTransaction, 48))
            .collect();
        snapshot
    };
    let mut watch = Watch::new();
    let changes = run(&mut watch, (0..30).map(idle));
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(
        watch.conditions()[0].condition,
        "idle_transactions_fill_pool"
    );
    // The general one holds, then the specific one begins and ends it.
    let mut watch = Watch::new();
    run(&mut watch, (0..20).map(crowded));
    let changes = run(&mut watch, (20..40).map(idle));
    let names: Vec<_> = changes.iter().map(|(_, change)| change.clone()).collect();
    assert_eq!(
        self::names(&names),
        [
            ("began", "idle_transactions_fill_pool"),
            ("ended", "pool_too_small")
        ]
    );
    // If both take turns, the samples of the general one still add up.
    let mut watch = Watch::new();
    let turns = (0_u64..30).map(|s| {
        if s.is_multiple_of(2) {
            crowded(s)
        } else {
            idle(s)
        }
    });
    let changes = run(&mut watch, turns);
    assert_eq!(changes.len(), 1, "{changes:?}");
}

#[test]
fn conditions_are_sorted_by_severity_then_age() {
    let mut watch = Watch::new();
    let both = |s: u64| {
        let mut snapshot = open(s, 400);
        if s > 10 {
            fail_logins(&mut snapshot, s, "28P01", "no");
        }
        if s > 5 {
            snapshot.process.open_files = 900;
        }
        snapshot
    };
    run(&mut watch, (0..60).map(both));
    let rows = watch.conditions();
    let names: Vec<_> = rows.iter().map(|row| row.condition).collect();
    let sorted = [
        "server_logins_fail",
        "long_transaction",
        "file_descriptors_near",
    ];
    assert_eq!(names, sorted);
}

#[test]
fn beginnings_and_ends_are_events() {
    let mut watch = Watch::new();
    run(&mut watch, (0..3).map(|s| open(s, 400)));
    run(&mut watch, (3..40).map(calm));
    let rows: Vec<_> = watch.events().collect();
    let [ended, began] = rows.as_slice() else {
        panic!("{rows:?}");
    };
    assert_eq!(
        (began.kind, ended.kind),
        (EventKind::Began, EventKind::Ended)
    );
    assert_eq!(began.at, START + 1);
    let text = "long_transaction on shop/app: 1 transaction older than 5 min, the oldest 6 min 40 s, idle for 6 min 40 s";
    assert_eq!(began.text, text);
    assert_eq!(ended.text, "long_transaction on shop/app after 32 s");
}

#[test]
fn changes_of_hosts_and_certificates_are_events() {
    let mut watch = Watch::new();
    let state = |s, primary: &str, not_after| {
        with(s, |snapshot| {
            let role = |name: &str| {
                if name == primary {
                    "primary"
                } else {
                    "replica"
                }
            };
            snapshot.database_hosts = ["db1:5432", "db2:5432"]
                .map(|name| host(name, role(name), name == primary))
                .into();
            snapshot.tls.push(weir_stats::TlsRow {
                side: "client".to_owned(),
                file: "server.crt".to_owned(),
                subject: "CN=a".to_owned(),
                not_after,
                days_left: 90,
                ..Default::default()
            });
        })
    };
    watch.observe(&state(0, "db1:5432", START));
    watch.observe(&state(1, "db1:5432", START));
    assert_eq!(watch.events().count(), 0);
    watch.observe(&state(2, "db2:5432", START + 86_400));
    let rows: Vec<_> = watch
        .events()
        .map(|row| (row.kind, row.text.as_str()))
        .collect();
    let failover = EventKind::Failover;
    let certificate = "certificate of the client side was replaced: server.crt, subject CN=a, valid until 2026-11-28";
    let expected = [
        (EventKind::Certificate, certificate),
        (failover, "host db2:5432 takes the writes of shop"),
        (
            failover,
            "host db2:5432 of shop has the role primary, had replica",
        ),
        (failover, "host db1:5432 no longer takes the writes of shop"),
        (
            failover,
            "host db1:5432 of shop has the role replica, had primary",
        ),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn events_are_bounded() {
    let mut watch = Watch::new();
    for at in 0..2_000 {
        watch.push_event(EventRow {
            at,
            kind: EventKind::Order,
            text: "é".repeat(5_000),
        });
    }
    let rows: Vec<_> = watch.events().collect();
    assert_eq!((rows.len(), rows[0].at, rows[499].at), (500, 1_999, 1_500));
    assert_eq!(rows[0].text.len(), 1024);
}

/// Snapshot of many pools whose books are all broken.
fn broken(second: u64, pools: u64) -> Snapshot {
    with(second, |snapshot| {
        for number in 0..pools {
            let mut row = PoolRow::default();
            "broken".clone_into(&mut row.violation);
            snapshot
                .pools
                .insert((format!("db{number:05}"), "app".to_owned()), row);
        }
    })
}

#[test]
fn ten_thousand_broken_pools_keep_a_hundred_states() {
    let mut watch = Watch::new();
    run(&mut watch, (0..12).map(|s| broken(s, 10_000)));
    assert_eq!(watch.states.len(), FINDINGS_MAX);
    assert_eq!(watch.conditions().len(), FINDINGS_MAX);
    assert!(watch.series_scopes().count() <= 50);
    // The kept objects stay, whichever others come.
    run(&mut watch, (12..20).map(|s| broken(s, 10_000)));
    assert_eq!(watch.events().count(), 100);
}

#[test]
fn a_forced_user_has_the_holders_of_all_users() {
    let snapshot = |s| {
        let mut snapshot = crowded(s);
        snapshot.holders = (0..3)
            .map(|n| holder(n, Activity::InTransaction, 48))
            .collect();
        for row in &mut snapshot.holders {
            "alice".clone_into(&mut row.user);
        }
        snapshot
    };
    let mut watch = Watch::new();
    run(&mut watch, (0..20).map(snapshot));
    assert_eq!(
        watch.conditions()[0].condition,
        "idle_transactions_fill_pool"
    );
    // With two pools in the database, nobody knows whose they are.
    let two = |s| {
        let mut snapshot = snapshot(s);
        let key = ("shop".to_owned(), "zoe".to_owned());
        snapshot.pools.insert(key, PoolRow::default());
        snapshot
    };
    let mut watch = Watch::new();
    run(&mut watch, (0..20).map(two));
    assert_eq!(watch.conditions()[0].condition, "pool_too_small");
}

#[test]
fn applications_that_are_counted_together_are_no_hog() {
    let snapshot = |s| {
        let mut snapshot = crowded(s);
        let row = application(&mut snapshot, "(other)", 3);
        row.counters.transaction_us = s * 900_000;
        application(&mut snapshot, "web", 3).counters.transaction_us = s * 50_000;
        application(&mut snapshot, "billing", 3)
            .counters
            .transaction_us = s * 50_000;
        snapshot
    };
    let mut watch = Watch::new();
    run(&mut watch, (0..20).map(snapshot));
    assert_eq!(watch.conditions().len(), 1);
    assert_eq!(watch.conditions()[0].condition, "pool_too_small");
}

#[test]
fn counters_that_fall_are_no_change() {
    let mut watch = Watch::new();
    let lost = |s, lost| with_pool(s, |row| row.totals.servers_lost = lost);
    run(&mut watch, (0..5).map(|s| lost(s, 1_000_000)));
    assert_eq!(run(&mut watch, (5..10).map(|s| lost(s, 2))), []);
    let changes = run(&mut watch, (10..11).map(|s| lost(s, 5)));
    assert_eq!(changes.len(), 1);
}

prop_compose! {
    fn any_pool()(
        figures in proptest::array::uniform12(any::<u64>()),
        small in proptest::array::uniform8(0_u64..20),
        is_session: bool,
        violation in "[a-é]{0,3}",
    ) -> PoolRow {
        let mut row = PoolRow { violation, ..PoolRow::default() };
        row.pool_mode = if is_session { "session" } else { "transaction" };
        [row.size, row.servers, row.leased, row.clients, row.pinned, ..] = small;
        row.counts.cl_waiting = small[5];
        row.activity.waits.insert(WaitReason::PoolFull, small[6]);
        row.activity.waits.insert(WaitReason::DatabaseLimit, small[7]);
        row.activity.in_query = figures[0] % 1000;
        row.maxwait_us = figures[1];
        row.totals.transactions = figures[2];
        row.totals.queries = figures[3];
        row.totals.query_us = figures[4];
        row.totals.client_logins = figures[5];
        row.totals.server_logins = figures[6];
        row.totals.servers_lost = figures[7];
        row.totals.server_parses = figures[8];
        row.totals.binds = figures[9];
        row.totals.wait_timeouts = figures[10];
        row.totals.bytes_received = figures[11];
        let mut times = Times::default();
        times.query.record_many(figures[0], 3);
        row.times = Some(Box::new(times));
        row
    }
}

prop_compose! {
    fn any_snapshot()(
        unix in prop_oneof![START..START + 20, any::<i64>()],
        pools in proptest::collection::btree_map(("[ab]", "[a-d]"), any_pool(), 0..8),
        holders in proptest::collection::vec((any::<u64>(), any::<u64>(), "[ab]", "[a-d]", 0..4_u8), 0..6),
        figures in proptest::array::uniform8(any::<u64>()),
        code in 0..4_usize,
        reason in "[a-zé]{0,2000}",
    ) -> Snapshot {
        let mut snapshot = calm(0);
        snapshot.unix = unix;
        snapshot.pools.extend(pools);
        for (client, age, database, user, kind) in holders {
            let activity = match kind {
                0 => Activity::InQuery,
                1 => Activity::InTransaction,
                2 => Activity::Pinned,
                _ => Activity::Waiting(WaitReason::Server),
            };
            let mut row = holder(0, activity, 0);
            (row.client, row.activity_us, row.transaction_us, row.unsent) = (client, age, age, age);
            (row.database, row.user) = (database, user);
            reason.clone_into(&mut row.pin);
            snapshot.holders.push(row);
        }
        let code = ["", "53300", "57P03", "28P01"][code];
        fail_logins(&mut snapshot, figures[0], code, &reason);
        snapshot.errors.insert((Blame::Server, "42P01"), figures[1]);
        snapshot.limits[0].used = figures[2];
        snapshot.limits[0].max = figures[3];
        snapshot.process.open_files = figures[4] / 4;
        snapshot.process.resident_bytes = figures[5];
        snapshot.workers[0].cpu_us = figures[6];
        snapshot.workers[0].turn_max_us = figures[7];
        snapshot.draining = Some(weir_stats::Draining { since: unix, until: i64::MAX });
        snapshot
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any snapshots in any order cause no panic, and keep all bounds.
    #[test]
    fn any_snapshots_are_observed(snapshots in proptest::collection::vec(any_snapshot(), 1..20)) {
        let mut watch = Watch::new();
        for snapshot in &snapshots {
            for change in watch.observe(snapshot) {
                let (Change::Began(row) | Change::Ended(row, _)) = change;
                prop_assert!(row.advice.len() <= 1024 && row.evidence.len() <= 1024);
            }
            for state in watch.states.values() {
                prop_assert!(state.is_held || state.run > 0);
            }
            prop_assert!(watch.events().count() <= 500);
        }
        for (window, points) in [(0, 0), (60, 7), (3600, 100), (u32::MAX, 10), (86_400, usize::MAX)] {
            let series = watch.series("", window, points).unwrap();
            for line in series.lines {
                prop_assert!(line.values.len() <= points.max(1));
            }
        }
    }
}
