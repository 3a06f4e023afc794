//! Snapshots for tests: a calm process with one pool, to which a test adds what is wrong.

use weir_stats::{
    Activity, ApplicationRow, DatabaseHostRow, HolderRow, HostLogins, LimitRow, PoolRow,
    ProcessRow, Snapshot, WorkerRow,
};

/// Unix time of second 0.
pub(crate) const START: i64 = 1_795_737_600;

/// Database and user of the only pool.
pub(crate) fn key() -> (String, String) {
    ("shop".to_owned(), "app".to_owned())
}

/// Snapshot of a process without any condition, `second` seconds after the start of the test.
pub(crate) fn calm(second: u64) -> Snapshot {
    let mut snapshot = Snapshot {
        unix: START + i64::try_from(second).unwrap(),
        process: ProcessRow {
            cpu_us: second * 400_000,
            resident_bytes: 50 << 20,
            open_files: 30,
            open_files_max: 1024,
            memory_max: 1 << 30,
            ..ProcessRow::default()
        },
        limits: vec![limit("max_client_conn", "", 10, 100)],
        ..Snapshot::default()
    };
    snapshot.pools.insert(key(), calm_pool(second));
    snapshot.workers = (0..2)
        .map(|worker| WorkerRow {
            worker,
            clients: 5,
            servers: 2,
            cpu_us: second * 200_000,
            turn_max_us: 3_000,
            ..WorkerRow::default()
        })
        .collect();
    let logins = HostLogins {
        succeeded: 4,
        last_success: START - 60,
        ..HostLogins::default()
    };
    snapshot.logins.insert("db1:5432".to_owned(), logins);
    snapshot
}

/// Pool of 4 servers with 100 transactions a second.
fn calm_pool(second: u64) -> PoolRow {
    let mut row = PoolRow {
        pool_mode: "transaction",
        size: 4,
        servers: 4,
        leased: 1,
        clients: 10,
        ..PoolRow::default()
    };
    row.activity.idle = 9;
    row.activity.in_query = 1;
    row.totals.transactions = second * 100;
    row.totals.queries = second * 200;
    row.totals.query_us = second * 200 * 5_000;
    row.totals.binds = second * 100;
    row.totals.client_logins = 10;
    row.totals.server_logins = 4;
    row
}

/// Changes a calm snapshot.
pub(crate) fn with(second: u64, change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = calm(second);
    change(&mut snapshot);
    snapshot
}

/// Changes the pool of a calm snapshot.
pub(crate) fn with_pool(second: u64, change: impl FnOnce(&mut PoolRow)) -> Snapshot {
    with(second, |snapshot| change(pool(snapshot)))
}

/// The only pool.
pub(crate) fn pool(snapshot: &mut Snapshot) -> &mut PoolRow {
    snapshot.pools.get_mut(&key()).unwrap()
}

/// Lets clients of the only pool wait for 2.5 seconds, for a reason.
pub(crate) fn wait(snapshot: &mut Snapshot, reason: weir_stats::WaitReason, clients: u64) {
    let row = pool(snapshot);
    row.leased = row.size;
    row.counts.cl_waiting = clients;
    row.maxwait_us = 2_500_000;
    row.activity.waits.insert(reason, clients);
}

/// Holder in the only pool, of the application `billing`.
pub(crate) fn holder(client: u64, activity: Activity, seconds: u64) -> HolderRow {
    HolderRow {
        client,
        server: client + 100,
        backend_pid: 4000 + u32::try_from(client).unwrap(),
        database: "shop".to_owned(),
        user: "app".to_owned(),
        application: "billing".to_owned(),
        activity,
        activity_us: seconds * 1_000_000,
        transaction_us: seconds * 1_000_000,
        pin: String::new(),
        unsent: 0,
    }
}

/// Limit with its usage.
pub(crate) fn limit(name: &'static str, scope: &str, used: u64, max: u64) -> LimitRow {
    LimitRow {
        name,
        scope: scope.to_owned(),
        used,
        max,
        peak: None,
    }
}

/// Application of the only pool, with its clients.
pub(crate) fn application<'a>(
    snapshot: &'a mut Snapshot,
    name: &str,
    clients: u64,
) -> &'a mut ApplicationRow {
    let (database, user) = key();
    let row = snapshot
        .applications
        .entry((database, user, name.to_owned()))
        .or_default();
    row.clients = clients;
    row
}

/// Host of the database `shop`.
pub(crate) fn host(name: &str, role: &'static str, takes_writes: bool) -> DatabaseHostRow {
    DatabaseHostRow {
        database: "shop".to_owned(),
        host: name.to_owned(),
        role,
        state: "up",
        takes_writes,
        takes_reads: true,
        timeline: 7,
        ..DatabaseHostRow::default()
    }
}

/// Lets logins at the only host fail, one every five seconds, since second 5.
pub(crate) fn fail_logins(snapshot: &mut Snapshot, second: u64, code: &str, reason: &str) {
    let row = snapshot.logins.get_mut("db1:5432").unwrap();
    row.failed = second / 5;
    row.failed_since = second / 5;
    row.last_failure = snapshot.unix;
    code.clone_into(&mut row.code);
    reason.clone_into(&mut row.reason);
}
