//! Tests with made-up runs.

use expect_test::expect_file;

use super::*;
use crate::report::fixture;

fn of(first: &Results, second: &Results) -> Comparison {
    compare(first, second, "before", "after")
}

#[test]
fn a_run_with_itself_has_no_difference() {
    let run = fixture::results();
    let same = of(&run, &run);
    assert_eq!((same.better, same.worse, same.unjudged), (0, 0, 0));
    assert!(same.noise > 100);
}

#[test]
fn a_slowed_target_is_detected_and_the_others_are_not_accused() {
    let (before, after) = (fixture::small(), fixture::slowed());
    let found = of(&before, &after);
    let worse: Vec<Pair> = tables(&View::new(&before), &View::new(&after))
        .into_iter()
        .flat_map(|table| table.pairs)
        .filter(|pair| pair.verdict == Verdict::Worse)
        .collect();
    assert!(!worse.is_empty());
    assert!(
        worse.iter().all(|pair| pair.target == "weir-1"),
        "{worse:#?}"
    );
    assert_eq!(found.worse, worse.len());
    assert_eq!(found.better, 0);
    expect_file!["../../testdata/compare.txt"].assert_eq(&found.text);
    expect_file!["../../testdata/compare.md"].assert_eq(&found.markdown);
}

#[test]
fn a_machine_that_became_slower_is_no_change_of_a_target() {
    let before = fixture::small();
    let mut after = before.clone();
    for outcome in after
        .cells
        .iter_mut()
        .filter_map(|cell| cell.outcome.as_mut())
    {
        outcome.tps *= 0.8;
    }
    let pairs: Vec<Pair> = tables(&View::new(&before), &View::new(&after))
        .into_iter()
        .filter(|table| table.metric == Metric::Tps)
        .flat_map(|table| table.pairs)
        .collect();
    let accused = |pair: &&Pair| pair.verdict != Verdict::Noise;
    assert!(
        pairs
            .iter()
            .filter(accused)
            .all(|pair| pair.target == "pgbouncer")
    );
    assert!(
        of(&before, &after)
            .text
            .contains("PgBouncer is the same program in both runs and moved by -20 %")
    );
}

#[test]
fn one_block_without_a_noise_floor_is_not_judged() {
    let smoke = fixture::smoke();
    let found = of(&smoke, &smoke);
    assert_eq!((found.better, found.worse, found.noise), (0, 0, 0));
    assert!(found.unjudged > 0);
}

#[test]
fn runs_without_a_common_cell_say_so() {
    let mut other = fixture::small();
    other.run.experiments.clear();
    other.cells.clear();
    let found = of(&fixture::small(), &other);
    assert!(found.text.contains("no cell in common"), "{}", found.text);
    assert!(
        of(&other, &fixture::small())
            .text
            .contains("no cell in common")
    );
}

#[test]
fn other_programs_and_machines_are_named() {
    let before = fixture::small();
    let mut after = before.clone();
    after.run.targets[3].sha256 = Some("00ff".repeat(16));
    after
        .run
        .environment
        .get_mut("kernel")
        .unwrap()
        .insert("release".to_owned(), "6.2".to_owned());
    let text = of(&before, &after).text;
    assert!(
        text.contains("kernel: release") && text.contains("weir 0.1.0 (00ff00ff00ff)"),
        "{text}"
    );
}

#[test]
fn interrupted_runs_compare_what_they_have() {
    let found = of(&fixture::small(), &fixture::interrupted());
    assert!(found.text.contains("not finished"));
    assert!(
        found.text.contains("loads are in B alone."),
        "{}",
        found.text
    );
    assert!(found.noise > 0 && !found.text.contains("NaN"));
}
