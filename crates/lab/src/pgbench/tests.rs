//! Tests of pgbench's command lines, and of the evaluation of its output and log.

use super::*;
use crate::experiment::{Tls, Work};

fn work(script: Script) -> Work {
    Work {
        protocol: "simple".to_owned(),
        clients: 4,
        tls: Tls::None,
        rate: None,
        batch: 1,
        script,
        writes: false,
        reconnect: false,
        idle: false,
        storm: 0,
    }
}

fn job<'a>(work: &'a Work, directory: &'a Path) -> Job<'a> {
    Job {
        host: "127.0.0.1".to_owned(),
        port: 6432,
        user: "bench".to_owned(),
        password: "secret".to_owned(),
        database: "pgbench".to_owned(),
        tls: false,
        work,
        rate: None,
        threads: 4,
        warm_up: Duration::from_secs(1),
        measure: Duration::from_secs(2),
        seed: 7,
        directory,
    }
}

fn line(job: &Job<'_>) -> String {
    let pgbench = Pgbench {
        program: "pgbench".into(),
    };
    format!("{:?}", pgbench.command(job, job.measure, &[]).unwrap())
}

#[test]
fn the_command_line_says_what_the_job_says() {
    let directory = tempfile::tempdir().unwrap();
    let simple = work(Script::Builtin("select-only".to_owned()));
    let plain = line(&job(&simple, directory.path()));
    for part in [
        "\"--time=2\"",
        "\"--client=4\"",
        "\"--jobs=4\"",
        "\"--protocol=simple\"",
        "\"--builtin=select-only\"",
        "\"-U\" \"bench\" \"pgbench\"",
        "PGSSLMODE=\"disable\"",
        "\"--random-seed=7\"",
    ] {
        assert!(plain.contains(part), "{part}: {plain}");
    }
    assert!(
        !plain.contains("--rate") && !plain.contains("--connect"),
        "{plain}"
    );
    let mut storm = work(Script::Pgbench("\\set x 1\n".to_owned()));
    storm.reconnect = true;
    let mut job = job(&storm, directory.path());
    job.rate = Some(250.0);
    job.tls = true;
    let more = line(&job);
    for part in [
        "\"--rate=250\"",
        "\"--connect\"",
        "PGSSLMODE=\"require\"",
        "script.sql",
    ] {
        assert!(more.contains(part), "{part}: {more}");
    }
    let script = fs::read_to_string(directory.path().join("script.sql")).unwrap();
    assert_eq!(script, "\\set x 1\n");
}

#[test]
fn a_plan_for_the_other_generator_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let plan = work(Script::Plan(serde_json::json!({})));
    let pgbench = Pgbench {
        program: "pgbench".into(),
    };
    let job = job(&plan, directory.path());
    assert!(pgbench.command(&job, job.measure, &[]).is_err());
}

fn second(n: u64, tps: f64) -> Second {
    Second {
        begin: Duration::from_secs(100 + n),
        end: Duration::from_secs(101 + n),
        tps,
        mean_us: 200.0,
        stddev_us: 0.0,
        failures: n,
    }
}

#[test]
fn few_transactions_are_all_logged_and_of_many_a_sample() {
    assert!((sampling_rate(900.0) - 1.0).abs() < 1e-12);
    assert!((sampling_rate(40_000.0) - 0.1).abs() < 1e-12);
    assert!((sampling_rate(0.0) - 1.0).abs() < 1e-12);
    assert_eq!(whole_seconds(Duration::from_millis(1500)), 2);
    assert_eq!(whole_seconds(Duration::ZERO), 1);
}

/// Log of two clients; the second does half as much. Each transaction takes as many microseconds as its number plus
/// one.
fn log() -> Vec<Transaction> {
    let line = |client, number, ms| Transaction {
        client,
        number,
        ended: Duration::from_millis(100_000 + ms),
        latency_us: Some(number + 1),
        lag_us: 10 * u64::from(client),
    };
    let first = (0..200).map(|n| line(0, n, 10 * n + 5));
    let second = (0..100).map(|n| line(1, n, 20 * n + 5));
    first.chain(second).collect()
}

#[test]
fn rate_and_mean_are_of_all_and_quantiles_of_the_log() {
    let seconds = [second(0, 100.0), second(1, 200.0)];
    let (window, outcome) = evaluate(&seconds, &log(), 1.0, false).unwrap();
    assert_eq!(window.begin, Duration::from_secs(100));
    assert!((outcome.tps - 150.0).abs() < 1e-9, "{outcome:?}");
    assert_eq!((outcome.transactions, outcome.errors), (300, 1));
    assert_eq!(outcome.per_second, [100.0, 200.0]);
    let latency = outcome.latency.unwrap();
    assert!((latency.mean - 200.0).abs() < 1e-9, "{latency:?}");
    assert_eq!((latency.p50, latency.max), (75.0, 200.0));
    let spread = outcome.per_client.unwrap();
    assert_eq!((spread.min, spread.max), (50.0, 100.0));
    assert_eq!(outcome.lag_us_p50, None);
    let counted: u64 = latency.histogram.unwrap().iter().map(|(_, n)| n).sum();
    assert_eq!(counted, 300);
}

#[test]
fn a_sample_has_no_histogram_and_a_schedule_has_a_lag() {
    let seconds = [second(0, 100.0), second(1, 200.0)];
    let (_, outcome) = evaluate(&seconds, &log(), 0.5, true).unwrap();
    assert_eq!(outcome.latency.unwrap().histogram, None);
    assert_eq!(outcome.lag_us_p50, Some(0.0));
}

#[test]
fn what_is_outside_of_the_printed_seconds_is_not_counted() {
    let seconds = [second(0, 100.0)];
    let (_, outcome) = evaluate(&seconds, &log(), 1.0, false).unwrap();
    assert_eq!(outcome.latency.unwrap().max, 100.0);
    assert!(evaluate(&[], &log(), 1.0, false).is_err());
}

#[test]
fn bounds_of_the_histogram_are_within_one_percent() {
    let times: Vec<u64> = (1..5000).collect();
    for latency in &times {
        let found = histogram(&[*latency]);
        let (bound, count) = found[0];
        assert!(
            count == 1 && bound >= *latency && bound * 100 <= latency * 102,
            "{latency} {bound}"
        );
    }
    assert_eq!(histogram(&times).iter().map(|(_, n)| n).sum::<u64>(), 4999);
}
