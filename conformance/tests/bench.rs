//! `weir bench run`: a very short run against every pooler in Debian, from the command line to the result directory.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic in a test is a failure, and is wanted"
)]

#[path = "bench/noise.rs"]
mod noise;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use weir_conformance::TempDir;
use weir_conformance::weir_bin;

/// Targets of a run with one block of short cells: the test checks that everything works, not the figures.
const TARGETS: &str = "direct,weir-1,pgbouncer,haproxy,pgpool";

fn command(arguments: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(weir_bin().unwrap());
    command.arg("bench").args(arguments).stdin(Stdio::null());
    // Reveals files that are not removed and processes that are not stopped.
    command.current_dir(directory).env("TMPDIR", directory);
    command
}

fn bench(arguments: &[&str], directory: &Path) -> (bool, String) {
    let output = command(arguments, directory).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output.status.success(), text)
}

/// Runs until the first cell is done, then does what Ctrl-C at a terminal does.
fn interrupted(arguments: &[&str], directory: &Path) -> (bool, String) {
    let mut child = command(arguments, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut text = String::new();
    for line in lines.by_ref() {
        text.push_str(&(line.unwrap() + "\n"));
        if text.ends_with(" left)\n") {
            break;
        }
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    text.extend(lines.map(|line| line.unwrap() + "\n"));
    let output = child.wait_with_output().unwrap();
    text.push_str(&String::from_utf8_lossy(&output.stdout));
    (output.status.success(), text)
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn cells(result: &Path) -> Vec<Value> {
    let text = fs::read_to_string(result.join("cells.jsonl")).unwrap();
    let cells = text.lines().map(serde_json::from_str);
    cells.collect::<Result<_, _>>().unwrap()
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
fn a_run_that_is_stopped_and_taken_up_again_leaves_a_whole_result_and_no_process() {
    let directory = TempDir::new().unwrap();
    let result = directory.path().join("result");
    let arguments = [
        "run",
        "smoke",
        "-e",
        "p1",
        "-t",
        TARGETS,
        "--scale",
        "1",
        "--set",
        "clients=4",
        "--warm-up",
        "0",
        "--measure",
        "1",
        "--seed",
        "7",
        "-o",
        "result",
    ];
    let (good, text) = interrupted(&arguments, directory.path());
    assert!(good && text.contains("--resume result"), "{text}");
    assert_eq!(left_behind(directory.path()), Vec::<String>::new());
    let before = cells(&result);
    assert!((1..5).contains(&before.len()), "{text}");
    assert_eq!(json(&result.join("run.json"))["ended_unix_s"], Value::Null);
    assert!(result.join("report.html").is_file(), "{text}");

    let (good, text) = bench(&["run", "--resume", "result"], directory.path());
    assert!(
        good && text.contains(&format!("{} of 5 cells are done", before.len())),
        "{text}"
    );
    assert_eq!(left_behind(directory.path()), Vec::<String>::new());
    let cells = cells(&result);
    assert_eq!(cells[..before.len()], before);
    let targets: BTreeSet<&str> = cells
        .iter()
        .map(|cell| cell["target"].as_str().unwrap())
        .collect();
    assert_eq!((cells.len(), targets), (5, TARGETS.split(',').collect()));
    for cell in &cells {
        check(cell, &result);
    }
    let has_latency = |cell: &Value| cell["outcome"]["latency"].is_object();
    assert!(cells.iter().any(has_latency), "{cells:?}");

    let run = json(&result.join("run.json"));
    assert_eq!(run["seed"], 7);
    assert!(run["ended_unix_s"].is_u64(), "{run}");
    assert_eq!(run["experiments"][0]["plan"].as_array().unwrap().len(), 5);
    assert!(
        run["environment"]["postgres settings"]["fsync"] == "off",
        "{run}"
    );
    let tls = run["environment"]["tls"]["weir-1"].as_str().unwrap();
    assert!(tls.contains("TLSv1.3"), "{tls}");

    let (good, text) = bench(&["report", "result"], directory.path());
    assert!(good && text.contains("Weir, 1 worker"), "{text}");
    let (good, text) = bench(&["compare", "result", "result"], directory.path());
    assert!(good && text.contains("weir bench compare"), "{text}");

    // A finished run is not overwritten.
    let (good, text) = bench(&arguments, directory.path());
    assert!(!good && text.contains("has a run already"), "{text}");
}

#[test]
fn a_run_with_replicas_counts_what_they_have_served() {
    let directory = TempDir::new().unwrap();
    let targets = "weir-1,weir-split-1,weir-any-1,pgpool";
    let arguments = [
        "run",
        "smoke",
        "-e",
        "split",
        "-t",
        targets,
        "--set",
        "clients=4",
        "--set",
        "workload=reads",
        "--warm-up",
        "1",
        "--measure",
        "1",
        "-o",
        "result",
    ];
    let (good, text) = bench(&arguments, directory.path());
    assert!(good, "{text}");
    assert_eq!(left_behind(directory.path()), Vec::<String>::new());
    let result = directory.path().join("result");
    let cells = cells(&result);
    assert_eq!(cells.len(), 4, "{text}");
    for cell in &cells {
        check(cell, &result);
        let share = cell["on_replicas"].as_f64().unwrap();
        let expected = match cell["target"].as_str().unwrap() {
            "weir-1" => 0.0..=0.0,
            // Pgpool-II chooses a host for each of the few sessions.
            "pgpool" => 0.01..=1.0,
            _ => 0.3..=1.0,
        };
        assert!(expected.contains(&share), "{cell}");
    }
}

fn check(cell: &Value, result: &Path) {
    assert_eq!(cell["failed"], Value::Null, "{cell}");
    let outcome = &cell["outcome"];
    assert!(outcome["tps"].as_f64().unwrap() > 0.0, "{cell}");
    assert_eq!(outcome["errors"], 0, "{cell}");
    // On a busy machine neither a line of pgbench's log nor a sample may fall into the measured second: then the value is
    // unknown, never zero.
    let p99 = outcome["latency"]["p99"].as_f64();
    assert!(p99.is_none_or(|us| us > 0.0), "{cell}");
    let used = |who: &str| cell["costs"][who]["cpu_us"].as_f64();
    for who in ["server", "generator", "pooler"] {
        assert!(used(who).is_none_or(|cpu_us| cpu_us > 0.0), "{who}: {cell}");
    }
    let direct = cell["target"] == "direct";
    assert!(!direct || used("pooler").is_none(), "{cell}");
    assert!(
        cell["costs"]["machine"]["cpus"].as_u64().unwrap() > 0,
        "{cell}"
    );
    if direct {
        return;
    }
    let rss = cell["costs"]["pooler"]["rss_bytes"].as_u64();
    assert!(rss.is_none_or(|bytes| bytes > 1 << 20), "{cell}");
    let configurations = result.join(cell["configurations"].as_str().unwrap());
    assert!(
        fs::read_dir(configurations.join("target-0"))
            .unwrap()
            .count()
            > 0,
        "{cell}"
    );
}

/// Target that prints why it does not start, and ends.
const ENDS: &str = r#"
name = "ends"
title = "Stand-in that ends"
fairness = "It does not start."
tried = true
[program.ends]
names = ["stand-in-that-ends"]
version = ["--version"]
[[file]]
path = "ends.conf"
text = "certificate = {{ certificate }}\n"
[[process]]
program = "ends"
arguments = ["{{ dir }}/ends.conf"]
stop = ["TERM"]
"#;

/// Program of the target that ends.
const ENDS_PROGRAM: &str = "#!/bin/sh
if [ \"$1\" = --version ]; then echo 'stand-in 9.9'; exit; fi
echo 'reading the configuration'
echo 'cannot load the certificate: no such format' >&2
exit 3
";

/// Target that listens, writes a line for each connection, and serves none.
const SERVES_NOBODY: &str = r#"
name = "deaf"
title = "HAProxy without a server"
fairness = "It does not start."
tried = true
ready_within_s = 2
[program.haproxy]
names = ["haproxy"]
version = ["-v"]
[[file]]
path = "haproxy.cfg"
text = """
global
    log stdout format raw local0
defaults
    mode tcp
    log global
    option tcplog
    timeout connect 1s
    timeout client 1s
    timeout server 1s
listen postgres
    bind 127.0.0.1:{{ port }}
    server nowhere 127.0.0.1:{{ ports[0] }}
"""
[[process]]
program = "haproxy"
arguments = ["-db", "-f", "{{ dir }}/haproxy.cfg"]
unprivileged = true
stop = ["TERM"]
"#;

/// Writes the descriptions of both targets, and the program of the first; returns the directory of the program.
fn write_stand_ins(directory: &Path) -> PathBuf {
    fs::write(directory.join("ends.toml"), ENDS).unwrap();
    fs::write(directory.join("deaf.toml"), SERVES_NOBODY).unwrap();
    let programs = directory.join("programs");
    fs::create_dir(&programs).unwrap();
    let program = programs.join("stand-in-that-ends");
    fs::write(&program, ENDS_PROGRAM).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    programs
}

#[test]
fn a_target_that_does_not_start_is_reported_with_its_own_words_and_psqls() {
    let directory = TempDir::new().unwrap();
    let file = |name: &str| directory.path().join(name);
    let programs = write_stand_ins(directory.path());
    let arguments = "run smoke -e p1 -t weir-1,pgbouncer,ends,deaf --target-file ends.toml --target-file deaf.toml --scale 1 \
                     --set clients=2 --warm-up 0 --measure 1 -o result";
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let output = command(&arguments, directory.path())
        .env("WEIR_BENCH_BIN_DIR", &programs)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = fs::read_to_string(file("result/report.md")).unwrap();
    let failed = |target: &str| {
        let cells = cells(&file("result"));
        let cell = cells
            .into_iter()
            .find(|cell| cell["target"] == target)
            .unwrap();
        let words = cell["failed"].as_str().unwrap().to_owned();
        (
            words,
            file("result").join(cell["configurations"].as_str().unwrap()),
        )
    };
    for (target, expected) in [
        (
            "ends",
            &[
                "ends did not start: ends ended (exit status: 3)",
                "  | reading the configuration",
                "  | cannot load the certificate: no such format",
                "change targets/ends.toml",
            ][..],
        ),
        (
            "deaf",
            &[
                "deaf did not start: no login and query succeeded within 2s",
                "  | psql: error: connection to server at \"127.0.0.1\"",
                " postgres postgres/nowhere ",
                "change targets/deaf.toml",
            ],
        ),
    ] {
        let (words, kept) = failed(target);
        for words_expected in expected {
            // In the record, at the terminal, and in the report.
            for place in [&words, &errors, &report] {
                assert!(
                    place.contains(words_expected),
                    "{target}, {words_expected}: {place}"
                );
            }
        }
        let kept = fs::read_dir(kept.join("target-0")).unwrap().count();
        assert_eq!(kept, 2, "{target}: a configuration and a log");
    }
    // No child gets the variable with the directories: Weir would refuse it.
    let cells = cells(&file("result"));
    let measured = cells.iter().filter(|cell| cell["failed"].is_null());
    let measured: BTreeSet<&str> = measured
        .map(|cell| cell["target"].as_str().unwrap())
        .collect();
    assert_eq!(measured, ["weir-1", "pgbouncer"].into(), "{errors}");
    // The descriptions are there to be changed, also that of a target which comes with the program.
    for name in ["ends.toml", "deaf.toml", "pgbouncer.toml"] {
        assert!(file("result/targets").join(name).is_file(), "{name}");
    }
    assert!(report.contains("stand-in 9.9"), "{report}");
}

#[test]
fn a_mistake_is_told_before_anything_is_started() {
    let directory = TempDir::new().unwrap();
    for (arguments, words) in [
        (&["run", "-e", "p9"][..], "there is no experiment `p9`"),
        (
            &["run", "-e", "p1", "-t", "weir"],
            "there is no target `weir`; there are direct, weir-N",
        ),
        (
            &["run", "huge", "-e", "p1"],
            "`p1` has no profile `huge`; it has full, quick, smoke",
        ),
        (
            &["run", "-e", "p1", "--set", "clients=none"],
            "`none` is not a number above zero",
        ),
        (
            &["run", "-e", "p1", "-t", "pgcat-1"],
            "--target-bin pgcat=PATH",
        ),
    ] {
        let (good, text) = bench(arguments, directory.path());
        assert!(!good && text.contains(words), "{arguments:?}: {text}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn the_list_says_what_is_here() {
    let (good, text) = bench(&["list"], Path::new("/"));
    assert!(
        good && text.contains("p5") && text.contains("PgBouncer 1."),
        "{text}"
    );
}
