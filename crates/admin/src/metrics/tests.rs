//! Tests of the page's text.

use std::collections::BTreeSet;

use weir_stats::{
    Blame, DatabaseHostRow, DriverInUse, DriverName, HostCounters, LimitRow, Totals, WorkerRow,
};

use super::figures::{OTHER, POOLS_MAX};
use super::*;

fn page(snapshot: Snapshot) -> String {
    metrics("1.2.3").metrics(snapshot)
}

fn pool(snapshot: &mut Snapshot, database: &str, queries: u64) {
    let mut times = Times::default();
    times.query.record_many(200, queries);
    let row = PoolRow {
        size: 20,
        totals: Counters {
            queries,
            ..Counters::default()
        },
        times: Some(times.into()),
        ..PoolRow::default()
    };
    let name = (database.to_owned(), "ann".to_owned());
    snapshot.pools.insert(name, row);
}

/// Lines of the page that begin with `start`.
fn lines<'a>(page: &'a str, start: &str) -> Vec<&'a str> {
    page.lines()
        .filter(|line| line.starts_with(start))
        .collect()
}

#[test]
fn counters_have_the_name_of_their_samples() {
    let mut snapshot = Snapshot::default();
    pool(&mut snapshot, "shop", 7);
    let page = page(snapshot);
    assert_eq!(
        lines(&page, "# TYPE weir_pool_queries_total"),
        ["# TYPE weir_pool_queries_total counter"]
    );
    assert_eq!(
        lines(&page, "weir_pool_queries_total"),
        ["weir_pool_queries_total{database=\"shop\",user=\"ann\"} 7"]
    );
    assert!(!page.contains("# EOF"));
}

#[test]
fn histograms_are_cumulative_and_end_with_everything() {
    let mut snapshot = Snapshot::default();
    pool(&mut snapshot, "shop", 7);
    let page = page(snapshot);
    let buckets = lines(&page, "weir_pool_query_seconds_bucket");
    let count = |index: usize| buckets[index].rsplit_once(' ').unwrap().1;
    assert_eq!(buckets.len(), EXPONENTS.count() + 1);
    assert!(buckets[0].contains("le=\"0.000128\""), "{}", buckets[0]);
    assert_eq!((count(0), count(1)), ("0", "7"));
    assert!(buckets[20].contains("le=\"+Inf\""), "{}", buckets[20]);
    assert_eq!(count(20), "7");
    let sum = lines(&page, "weir_pool_query_seconds_sum");
    assert!(sum[0].ends_with(" 0.0014"), "{}", sum[0]);
}

/// Names come from clients and must not be able to add lines.
#[test]
fn names_are_escaped() {
    let mut snapshot = Snapshot::default();
    pool(&mut snapshot, "a\"} 1\nweir_up 1\\", 1);
    let page = page(snapshot);
    assert!(lines(&page, "weir_up").is_empty());
    let line = lines(&page, "weir_pool_size")[0];
    assert!(
        line.contains(r#"database="a\"} 1\nweir_up 1\\","#),
        "{line}"
    );
}

#[test]
fn who_came_first_keeps_its_rows_and_the_rest_is_told_together() {
    let maker = metrics("1");
    let mut first = Snapshot::default();
    for i in 0..POOLS_MAX {
        pool(&mut first, &format!("m{i}"), 1);
    }
    let page = maker.metrics(first.clone());
    assert!(!page.contains(OTHER));
    let mut more = first;
    pool(&mut more, "a", 3);
    pool(&mut more, "z", 4);
    let page = maker.metrics(more);
    let rows = lines(&page, "weir_pool_queries_total");
    assert_eq!(rows.len(), POOLS_MAX + 1);
    assert!(rows.contains(&"weir_pool_queries_total{database=\"(other)\",user=\"(other)\"} 7"));
    assert!(page.contains("weir_pool_size{database=\"(other)\",user=\"(other)\"} 40"));
    assert!(rows.contains(&"weir_pool_queries_total{database=\"m0\",user=\"ann\"} 1"));
}

#[test]
fn every_metric_is_well_named_and_has_a_meaning() {
    let names: BTreeSet<_> = table::metrics().map(|metric| metric.name).collect();
    assert_eq!(names.len(), table::metrics().count());
    for metric in table::metrics() {
        let name = metric.name;
        assert_eq!(
            metric.kind == Kind::Counter,
            name.ends_with("_total"),
            "{name}"
        );
        assert!(
            metric.help.ends_with('.') && !metric.help.contains('\n'),
            "{name}"
        );
        assert!(
            name.starts_with("weir_") || name.starts_with("process_"),
            "{name}"
        );
    }
}

#[test]
fn board_and_alerts_name_every_metric_and_no_other() {
    let mut series = board::series();
    assert!(series.len() > 50, "{series:?}");
    series.extend(alerts::series());
    let unknown = series.iter().filter(|name| promql::find(name).is_none());
    assert_eq!(unknown.collect::<Vec<_>>(), [""; 0], "not in the table");
    let named: BTreeSet<_> = series
        .iter()
        .filter_map(|name| promql::find(name))
        .map(|metric| metric.name)
        .collect();
    let unseen = table::metrics().filter(|metric| !named.contains(metric.name));
    let unseen: Vec<_> = unseen.map(|metric| metric.name).collect();
    assert_eq!(unseen, [""; 0], "on no panel and in no alert");
}

#[test]
fn errors_limits_and_workers_have_their_rows() {
    let mut snapshot = Snapshot::default();
    snapshot.errors.insert((Blame::Pooler, "53300"), 2);
    snapshot.limits.push(LimitRow {
        name: "max_client_conn",
        scope: String::new(),
        used: 3,
        max: 100,
        peak: None,
    });
    snapshot.workers.push(WorkerRow {
        worker: 1,
        cpu_us: 1_500_000,
        ..WorkerRow::default()
    });
    snapshot.driver = Some(DriverInUse {
        name: DriverName::IoUring,
        reason: "io = auto".to_owned(),
    });
    let mut totals = Totals::default();
    totals.pins.insert("temporary object", 5);
    snapshot.databases.insert("shop".to_owned(), totals);
    let page = page(snapshot);
    for line in [
        "weir_errors_total{origin=\"pooler\",sqlstate=\"53300\"} 2",
        "weir_limit_used{limit=\"max_client_conn\",scope=\"\"} 3",
        "weir_limit_max{limit=\"max_client_conn\",scope=\"\"} 100",
        "weir_worker_cpu_seconds_total{worker=\"1\"} 1.5",
        "weir_pins_total{database=\"(other)\",reason=\"temporary object\"} 5",
        "weir_build_info{version=\"1.2.3\"} 1",
        "weir_io_driver{driver=\"io_uring\"} 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
}

#[test]
fn hosts_have_rows_with_what_is_known_of_them() {
    let host = |host: &str| DatabaseHostRow {
        database: "shop".to_owned(),
        host: host.to_owned(),
        role: "replica",
        state: "up",
        takes_reads: true,
        ..DatabaseHostRow::default()
    };
    let known = DatabaseHostRow {
        lag_bytes: Some(4096),
        lag_us: Some(1_500_000),
        probe_us: Some(250),
        servers: 3,
        counters: HostCounters {
            reads: 7,
            writes: 1,
            retries: 2,
        },
        ..host("a:5432")
    };
    let page = page(Snapshot {
        database_hosts: vec![known, host("b:5432")],
        ..Snapshot::default()
    });
    let labels = r#"{database="shop",host="a:5432""#;
    for line in [
        format!(r#"weir_host_role{labels},role="replica"}} 1"#),
        format!(r#"weir_host_role{labels},role="primary"}} 0"#),
        format!(r#"weir_host_state{labels},state="up"}} 1"#),
        format!(r#"weir_host_state{labels},state="down"}} 0"#),
        format!("weir_host_takes_reads{labels}}} 1"),
        format!("weir_host_takes_writes{labels}}} 0"),
        format!("weir_host_lag_bytes{labels}}} 4096"),
        format!("weir_host_lag_seconds{labels}}} 1.5"),
        format!("weir_host_probe_seconds{labels}}} 0.00025"),
        format!("weir_host_servers{labels}}} 3"),
        format!("weir_host_reads_total{labels}}} 7"),
        format!("weir_host_writes_total{labels}}} 1"),
        format!("weir_host_retries_total{labels}}} 2"),
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
    // What is not known is not zero.
    for name in ["lag_bytes", "lag_seconds", "probe_seconds"] {
        assert_eq!(lines(&page, &format!("weir_host_{name}{{")).len(), 1);
    }
    assert_eq!(lines(&page, "weir_host_servers{").len(), 2);
}
