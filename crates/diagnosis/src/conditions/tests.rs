//! Tests of the conditions: each has a case that makes it appear, and one that just does not.
//!
//! `tests/rows.txt` has the row of each condition. After a change of texts, run the tests with UPDATE_EXPECT=1 and read
//! the difference.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use expect_test::expect_file;
use weir_stats::{ConditionRow, Snapshot};

use crate::conditions::CONDITIONS;
use crate::fixture::calm;
use crate::{Change, Watch};

mod hosts;
mod pools;
mod process;
mod waits;

/// Seconds for which a case lasts: long enough for a baseline of minutes, and for what lasts five minutes.
const SECONDS: u64 = 480;
/// Seconds after which each condition has ended: its window, and the samples of absence.
const END_SECONDS: u64 = 60 + 31;

/// Pair of situations of a condition.
struct Case {
    condition: &'static str,
    /// Snapshot at a second of a situation with the condition.
    sick: fn(u64) -> Snapshot,
    /// Snapshot at a second of a situation that is just not the condition.
    well: fn(u64) -> Snapshot,
}

fn cases() -> Vec<Case> {
    [waits::CASES, pools::CASES, hosts::CASES, process::CASES]
        .into_iter()
        .flatten()
        .map(|(condition, sick, well)| Case {
            condition,
            sick: *sick,
            well: *well,
        })
        .collect()
}

/// Pair of situations, as the files list them.
type Pair = (&'static str, fn(u64) -> Snapshot, fn(u64) -> Snapshot);

/// Names of the conditions that hold.
fn held(watch: &Watch) -> Vec<&'static str> {
    let rows = watch.conditions();
    rows.iter().map(|row| row.condition).collect()
}

fn observe(watch: &mut Watch, seconds: std::ops::Range<u64>, snapshot: fn(u64) -> Snapshot) {
    for second in seconds {
        watch.observe(&snapshot(second));
    }
}

#[test]
fn a_calm_process_has_no_condition() {
    let mut watch = Watch::new();
    observe(&mut watch, 0..SECONDS, calm);
    assert_eq!(held(&watch), Vec::<&str>::new());
    assert_eq!(watch.worst(), None);
    assert_eq!(watch.events().count(), 0);
}

#[test]
fn every_condition_has_a_pair_of_cases() {
    let tested: BTreeSet<_> = cases().iter().map(|case| case.condition).collect();
    let table: BTreeSet<_> = CONDITIONS.iter().map(|condition| condition.name).collect();
    assert_eq!(tested, table);
    assert_eq!(cases().len(), CONDITIONS.len());
}

#[test]
fn every_condition_appears_alone_and_vanishes() {
    let mut rows = String::new();
    for case in cases() {
        let name = case.condition;
        let mut watch = Watch::new();
        observe(&mut watch, 0..SECONDS, case.sick);
        let names: BTreeSet<_> = held(&watch).into_iter().collect();
        assert_eq!(names, [name].into(), "{name}: {:#?}", watch.conditions());
        for row in watch.conditions() {
            render(&mut rows, &row);
        }
        let end = SECONDS + END_SECONDS;
        observe(&mut watch, SECONDS..end, calm);
        assert_eq!(held(&watch), Vec::<&str>::new(), "{name} does not end");
    }
    expect_file!["tests/rows.txt"].assert_eq(&rows);
}

#[test]
fn no_condition_appears_below_its_thresholds() {
    for case in cases() {
        let mut watch = Watch::new();
        for second in 0..SECONDS {
            let changes = watch.observe(&(case.well)(second));
            assert_eq!(changes, [], "{} at second {second}", case.condition);
        }
    }
}

#[test]
fn a_condition_begins_after_its_samples_and_not_before() {
    let mut watch = Watch::new();
    let case = cases().into_iter();
    let mut case = case.filter(|case| case.condition == "pool_violation");
    let case = case.next().unwrap();
    observe(&mut watch, 0..5, calm);
    assert_eq!(watch.observe(&(case.sick)(5)), []);
    let began = watch.observe(&(case.sick)(6));
    let [Change::Began(row)] = began.as_slice() else {
        panic!("{began:?}");
    };
    assert_eq!(row.since, crate::fixture::START + 5);
}

#[test]
fn the_table_is_consistent() {
    let names: BTreeSet<_> = CONDITIONS.iter().map(|condition| condition.name).collect();
    assert_eq!(names.len(), CONDITIONS.len());
    for condition in CONDITIONS {
        let is_plain = |c: char| c.is_ascii_lowercase() || c == '_';
        assert!(condition.name.chars().all(is_plain), "{}", condition.name);
        assert!(condition.sustain > 0, "{}", condition.name);
        assert!(!condition.severities.is_empty(), "{}", condition.name);
        for text in [condition.meaning, condition.evidence, condition.advice] {
            assert!(text.ends_with('.'), "{}: {text}", condition.name);
        }
        for name in condition.explains {
            assert!(names.contains(name), "{name}");
            assert_ne!(*name, condition.name);
        }
    }
}

fn render(out: &mut String, row: &ConditionRow) {
    let severities = CONDITIONS.iter().find(|one| one.name == row.condition);
    assert!(
        severities.unwrap().severities.contains(&row.severity),
        "{row:?}"
    );
    let scope = if row.scope.is_empty() {
        "the process"
    } else {
        &row.scope
    };
    writeln!(out, "{} of {scope}: {}", row.condition, row.severity.name()).unwrap();
    writeln!(out, "    {}", row.evidence).unwrap();
    writeln!(out, "    {}", row.advice).unwrap();
    writeln!(out, "    > {}\n", row.command).unwrap();
}
