//! Tests of the reader of logs: prefixes, ways to log an execution, and what is no statement.

use std::io::{BufReader, Read};

use super::*;

/// Texts of a log with their times.
fn texts(log: &str) -> Vec<(String, Option<u64>)> {
    let mut texts = Vec::new();
    // A small buffer, so that lines are in parts.
    let mut input = BufReader::with_capacity(7, log.as_bytes());
    read(&mut input, &mut |seen| {
        assert_eq!((seen.calls, seen.client.database), (1, None));
        let text = String::from_utf8_lossy(seen.text).into_owned();
        texts.push((text, seen.server_us));
    })
    .unwrap();
    texts
}

fn check(log: &str, expected: &[(&str, Option<u64>)]) {
    let found = texts(log);
    let found: Vec<_> = found
        .iter()
        .map(|(text, time)| (text.as_str(), *time))
        .collect();
    assert_eq!(found, expected, "{log}");
}

#[test]
fn statements_follow_any_prefix() {
    for prefix in [
        "",
        "2026-11-01 10:00:00.123 UTC [77] ",
        "user=ann,db=shop,app=CATALOG: x:  ",
        "[local]:",
    ] {
        check(
            &format!("{prefix}LOG:  statement: SELECT 1\n"),
            &[("SELECT 1", None)],
        );
    }
}

#[test]
fn each_way_to_log_an_execution_is_read() {
    check(
        "a LOG:  execute <unnamed>: SELECT $1: 2\n\
         a LOG:  execute s1/portal: SELECT 2\n\
         a LOG:  duration: 1.200 ms  statement: SELECT 3\n\
         a LOG:  duration: 12.5 ms  execute s1: SELECT 4\n\
         a LOG:  duration: 7 ms  statement: SELECT 5",
        &[
            ("SELECT $1: 2", None),
            ("SELECT 2", None),
            ("SELECT 3", Some(1_200)),
            ("SELECT 4", Some(12_500)),
            ("SELECT 5", Some(7_000)),
        ],
    );
}

#[test]
fn what_is_no_execution_is_passed_over() {
    check(
        "a LOG:  duration: 0.100 ms  parse s1: SELECT 1\n\
         a LOG:  duration: 0.100 ms  bind s1: SELECT 1\n\
         a LOG:  execute fetch from s1/c: SELECT 1\n\
         a LOG:  duration: 0.100 ms\n\
         a LOG:  connection received: host=[local]\n\
         a ERROR:  relation \"t\" does not exist\n\
         a STATEMENT:  SELECT 'LOG:  statement: SELECT 1'\n\
         a DETAIL:  parameters: $1 = 'LOG:  statement: x'\n\
         a SYSLOG:  statement: SELECT 1\n\
         a LOG:  duration: x ms  statement: SELECT 1\n",
        &[],
    );
}

#[test]
fn further_lines_begin_with_a_tab() {
    check(
        "\tof a message before\n\
         a LOG:  statement: SELECT a,\n\
         \t\tb\n\
         \tFROM t\n\
         a DETAIL:  parameters: $1 = 'a\n\
         \tb'\n\
         a LOG:  statement: SELECT 2\n",
        &[("SELECT a,\n\tb\nFROM t", None), ("SELECT 2", None)],
    );
}

#[test]
fn long_texts_are_cut() {
    let filler = "x".repeat(TEXT_MAX);
    let logs = [
        format!("LOG:  statement: SELECT {filler}\nLOG:  statement: SELECT 1\n"),
        format!("LOG:  statement: SELECT\n\t{filler}\n\t{filler}\nLOG:  statement: SELECT 1\n"),
    ];
    for log in logs {
        let mut found = Vec::new();
        let mut input = BufReader::new(log.as_bytes());
        read(&mut input, &mut |seen| {
            found.push((seen.text.len() <= TEXT_MAX, seen.is_whole));
        })
        .unwrap();
        assert_eq!(found, [(true, false), (true, true)]);
    }
}

#[test]
fn a_read_that_fails_is_told() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let mut input = BufReader::new("LOG:  statement: SELECT 1\n".as_bytes().chain(Broken));
    let mut count = 0;
    let told = read(&mut input, &mut |_| count += 1).unwrap_err();
    assert_eq!(told.to_string(), "the disk is gone");
    assert_eq!(count, 0);
}
