//! `weir tune`: a short run through Weir, an interrupted one, and a watch, from the command line to the report; each
//! on a real PostgreSQL.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic in a test is a failure, and is wanted"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use weir_conformance::TempDir;
use weir_conformance::weir_bin;
use weir_lab::collector::psql::{Address, Psql};
use weir_lab::postgres::{Cluster, Programs, Settings, USER};

fn command(line: &str, directory: &Path) -> Command {
    let mut command = Command::new(weir_bin().unwrap());
    command
        .arg("tune")
        .args(line.split_whitespace())
        .stdin(Stdio::null());
    // Reveals files that are not removed and processes that are not stopped.
    command.current_dir(directory).env("TMPDIR", directory);
    command
}

fn tune(line: &str, directory: &Path) -> Output {
    let output = command(line, directory).output().unwrap();
    assert!(output.status.success(), "{line}: {}", text(&output));
    output
}

fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn finding(result: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(result.join("finding.json")).unwrap()).unwrap()
}

/// Runs until a cell is measured, then does what Ctrl-C at a terminal does.
fn interrupted(line: &str, directory: &Path) -> Output {
    let mut child = command(line, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut told = String::new();
    for line in lines.by_ref().map(Result::unwrap) {
        told += &format!("{line}\n");
        if line.contains(", books balance (") {
            break;
        }
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    lines.for_each(|line| told += &line.unwrap());
    let output = child.wait_with_output().unwrap();
    Output {
        stderr: told.into_bytes(),
        ..output
    }
}

/// Number of the tool's own databases.
fn databases(cluster: &Cluster) -> String {
    let count = "SELECT count(*) FROM pg_database WHERE datname LIKE 'weir%'";
    cluster.query(USER, count).unwrap()
}

/// Directories of servers and poolers, and processes with such a directory in their command line.
fn left_behind(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut found: Vec<String> = names.filter(|name| name != "result").collect();
    for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(&*directory.to_string_lossy()) {
            found.push(line);
        }
    }
    found
}

#[test]
fn a_run_through_weir_has_its_own_times_and_balanced_books_and_leaves_nothing_behind() {
    let directory = TempDir::new().unwrap();
    let result = directory.path().join("result");
    let line = "run p3 --mode chatty -c 1,2,4 --weir --clients 6 --repetitions 1 --warm-up 0 --measure 2.5 --seed 3 -o result";
    let output = tune(line, directory.path());
    let finding = finding(&result);
    assert_eq!(finding["measured"], 3, "{}", text(&output));
    assert_eq!(finding["wrong_books"], Value::Array(Vec::new()));
    let series = &finding["series"][0];
    for (spot, connections) in series["spots"]
        .as_array()
        .unwrap()
        .iter()
        .zip([1.0, 2.0, 4.0])
    {
        assert_eq!(spot["connections"], connections);
        assert!(spot["tps"]["mean"].as_f64().unwrap() > 0.0);
        assert!(spot["snapshots"].as_u64().unwrap() > 5);
        assert!(!spot["waits"].as_array().unwrap().is_empty());
        let pool = |part: &str| spot["pool"][part].as_f64().unwrap();
        // The six clients are always in some state, and no more of them hold a server than there are servers.
        let held = pool("server") + pool("client");
        // On a busy machine the looks at the states miss the ends of the run by some tenths.
        assert!(held <= connections * 1.3 && held > 0.0, "{spot}");
        assert!((2.0..=7.0).contains(&(held + pool("queue"))), "{spot}");
    }
    // Three points of a few seconds: no verdict can have high confidence.
    assert_ne!(series["judgement"]["verdict"]["confidence"], "high");
    let html = fs::read_to_string(result.join("report.html")).unwrap();
    assert_eq!(
        html.matches("<svg").count() - html.matches("class=\"legend\"").count(),
        4
    );
    assert!(!html.contains("<script") && !html.contains("src="));
    assert_eq!(left_behind(directory.path()), Vec::<String>::new());
}

#[test]
fn a_server_with_too_few_connections_is_told_of_before_anything_is_made() {
    let cluster = Cluster::start(&Programs::find().unwrap(), Settings::new(30)).unwrap();
    let directory = TempDir::new().unwrap();
    let url = format!("postgresql://{USER}@{}/postgres", cluster.address());
    let line = format!("run p3 --server {url} -o result");
    let output = command(&line, directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let words = "weir tune: the server has 30 connections left, and 32 are asked for";
    assert!(text(&output).contains(words), "{}", text(&output));
    assert_eq!(databases(&cluster), "0");
}

#[test]
fn a_run_that_is_stopped_leaves_a_report_of_what_it_did_and_nothing_on_the_server() {
    let cluster = Cluster::start(&Programs::find().unwrap(), Settings::new(30)).unwrap();
    let directory = TempDir::new().unwrap();
    let url = format!("postgresql://{USER}@{}/postgres", cluster.address());
    let line =
        format!("run p3 -c 2,4,8 --repetitions 1 --warm-up 0 --measure 1 --server {url} -o result");
    let output = interrupted(&line, directory.path());
    assert!(output.status.success(), "{}", text(&output));
    let finding = finding(&directory.path().join("result"));
    let measured = finding["measured"].as_u64().unwrap();
    assert!((1..6).contains(&measured), "{}", text(&output));
    assert_eq!(
        finding["series"][0]["judgement"]["verdict"]["answer"],
        "refused"
    );
    assert_eq!(databases(&cluster), "0");
    assert_eq!(left_behind(directory.path()), Vec::<String>::new());
    let report = tune("report result --json", directory.path());
    let again: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(again, finding);
}

#[test]
fn a_watch_sees_the_sessions_that_are_there_and_says_that_it_saw_too_little() {
    let cluster = Cluster::start(&Programs::find().unwrap(), Settings::new(30)).unwrap();
    let directory = TempDir::new().unwrap();
    let address = Address::parse(&format!(
        "postgresql://{USER}@{}/postgres",
        cluster.address()
    ))
    .unwrap();
    // The tool's own sessions are not counted, so this one belongs to another application.
    let mut held = Psql::connect(&address).unwrap();
    held.execute("SET application_name = 'shop'; BEGIN; SELECT 1")
        .unwrap();
    let line = format!(
        "watch postgresql://{USER}@{}/postgres --time 2 -o result",
        cluster.address()
    );
    let output = tune(&line, directory.path());
    let finding = finding(&directory.path().join("result"));
    assert_eq!(
        (&finding["kind"], &finding["measured"]),
        (&"watch".into(), &1.into())
    );
    assert_eq!(
        finding["series"][0]["judgement"]["verdict"]["answer"],
        "refused",
        "{}",
        text(&output)
    );
    let file = directory.path().join("result/tune.sqlite");
    let database = weir_lab::collector::database::Database::open(&file).unwrap();
    let snapshots = database.snapshots(1).unwrap();
    assert!(snapshots.len() > 5);
    for (_, sessions) in &snapshots {
        assert!(
            sessions
                .keys()
                .any(|(_, event)| event == "Client:ClientRead")
        );
    }
}
