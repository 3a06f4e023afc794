//! Tests of the answers: who leads, and when nobody does.

use expect_test::expect;

use super::*;
use crate::record::{Cell, Flag, FlagKind};
use crate::report::fixture;
use crate::report::prose::Part;
use crate::report::results::Results;

fn answers(results: &Results) -> String {
    let mut text = String::new();
    for block in blocks(&View::new(results)) {
        match block {
            Block::List(list) => list
                .iter()
                .for_each(|prose| text.push_str(&format!("{}\n", prose.plain()))),
            Block::Prose(prose) => text.push_str(&format!("{}\n", prose.plain())),
            _ => {}
        }
    }
    text
}

fn answer(results: &Results, question: Question) -> Prose {
    words::sentence(&Contest::new(&View::new(results), question))
}

fn plain(results: &Results, question: Question) -> String {
    answer(results, question).plain()
}

fn of<'r>(results: &'r mut Results, target: &'r str) -> impl Iterator<Item = &'r mut Cell> {
    results
        .cells
        .iter_mut()
        .filter(move |cell| cell.target == target)
}

#[test]
fn each_question_has_one_sentence() {
    expect![[r#"
        With few clients (1 to 50), one worker or process each, throughput is not decided: Odyssey 1.3 has 1.06 times that of Weir 0.1.0 (95 % interval 1.05 to 1.07, behind at 3 loads), and a lead over PgBouncer 1.18.0; Weir 0.1.0 needs the least CPU time per transaction, 0.72 of that of Odyssey 1.3 and 0.58 of that of PgBouncer 1.18.0 (6 loads, 1 flagged).
        With many clients (500 to 1,000), one worker or process each, Weir 0.1.0 is the fastest, at 1.20 times the throughput of Odyssey 1.3 and 1.28 times that of PgBouncer 1.18.0, and needs the least CPU time per transaction, 0.73 of that of Odyssey 1.3 and 0.59 of that of PgBouncer 1.18.0 (6 loads, 3 flagged).
        Over TLS, one worker or process each, throughput is not decided: Weir 0.1.0 has 1.06 times that of Odyssey 1.3 (95 % interval 1.06 to 1.07, behind at 3 loads), no known lead over PgBouncer 1.18.0; Weir 0.1.0 needs the least CPU time per transaction, 0.73 of that of Odyssey 1.3 and 0.58 of that of PgBouncer 1.18.0 (15 loads, 4 flagged).
        With prepared statements, one worker or process each, throughput is not decided: Weir 0.1.0 has 1.08 times that of Odyssey 1.3 (95 % interval 1.06 to 1.09, behind at 1 load), no known lead over PgBouncer 1.18.0; Weir 0.1.0 needs the least CPU time per transaction, 0.73 of that of Odyssey 1.3 and 0.58 of that of PgBouncer 1.18.0 (5 loads, 1 flagged).
        Behind HAProxy: not measured in this run.
    "#]].assert_eq(&answers(&fixture::results()));
}

#[test]
fn a_spread_wider_than_the_difference_decides_nothing() {
    let mut results = fixture::small();
    for cell in of(&mut results, "weir-1") {
        let factor = if cell.block % 2 == 0 { 0.6 } else { 1.5 };
        let outcome = cell.outcome.as_mut().unwrap();
        outcome.tps *= factor;
        if let Some(pooler) = &mut cell.costs.pooler {
            pooler.cpu_us *= factor * 1.6;
        }
    }
    let said = plain(&results, Question::ManyClients);
    assert!(said.contains("throughput is not decided: "), "{said}");
    assert!(
        said.contains("CPU time per transaction is not decided"),
        "{said}"
    );
    assert!(
        !said.contains("fastest") && !said.contains("least"),
        "{said}"
    );
}

#[test]
fn a_lead_that_a_load_contradicts_is_none() {
    // Ahead at two places, and behind at one.
    let results = fixture::small();
    let said = plain(&results, Question::Tls);
    assert!(
        said.contains(
            "throughput is not decided: Weir 0.1.0 has 1.14 times that of PgBouncer 1.18.0 (95 % interval 1.13 to 1.15, behind at 1 load); Weir 0.1.0 needs the least CPU time"
        ),
        "{said}"
    );
}

#[test]
fn one_block_decides_nothing() {
    let said = answers(&fixture::smoke());
    assert!(
        said.contains("is not decided by a single block: "),
        "{said}"
    );
    assert!(
        !said.contains("fastest") && !said.contains("least"),
        "{said}"
    );
}

#[test]
fn the_ratio_of_one_load_is_that_of_its_map() {
    let results = fixture::small();
    let view = View::new(&results);
    let experiment = &view.experiments[0];
    let panel = &experiment.panels[0];
    let row = panel.row("weir-1").unwrap();
    let judge = |metric| experiment.judge(metric, panel, row, 2).unwrap().ratio.mean;
    let shown: Vec<f64> = answer(&results, Question::ManyClients)
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Figure { value, .. } => Some(*value),
            _ => None,
        })
        .collect();
    use crate::report::metric::Metric;
    let expected = [judge(Metric::Tps), judge(Metric::CpuPerTransaction)];
    assert_eq!(shown[0], 1000.0);
    let close = |one: f64, two: f64| (one - two).abs() < 1e-9;
    assert!(
        close(shown[1], expected[0]) && close(shown[2], expected[1]),
        "{shown:?} {expected:?}"
    );
}

#[test]
fn a_pooler_that_did_other_work_is_left_out_and_named() {
    let mut results = fixture::results();
    for name in ["pgbouncer", "pgbouncer-again", "pgbouncer-x2"] {
        for cell in of(&mut results, name) {
            if cell
                .factors
                .get("protocol")
                .is_some_and(|name| name == "prepared")
            {
                cell.flags.push(Flag {
                    kind: FlagKind::Substituted,
                    detail: "no prepared statements".to_owned(),
                });
            }
        }
    }
    let said = plain(&results, Question::Prepared);
    assert!(
        said.contains("PgBouncer 1.18.0 did other work than was asked for"),
        "{said}"
    );
    assert!(said.contains("Odyssey 1.3"), "{said}");
    // Without any other pooler there is nothing to say.
    results.cells.retain(|cell| cell.target != "odyssey");
    let said = plain(&results, Question::Prepared);
    assert!(
        said.contains("nothing is decided, because Weir 0.1.0 has nothing to be compared with"),
        "{said}"
    );
    assert!(said.contains("PgBouncer 1.18.0 did other work"), "{said}");
}

#[test]
fn a_pooler_that_does_not_start_is_named() {
    let mut results = fixture::small();
    for cell in of(&mut results, "pgbouncer") {
        cell.outcome = None;
        cell.failed = Some("it ended".to_owned());
    }
    let said = plain(&results, Question::Tls);
    assert!(said.contains("PgBouncer 1.18.0 could not be run"), "{said}");
    assert!(
        said.contains("Weir 0.1.0 has nothing to be compared with"),
        "{said}"
    );
}

#[test]
fn loads_behind_haproxy_answer_their_own_question_only() {
    let mut results = fixture::small();
    for experiment in &mut results.run.experiments {
        let setting = experiment.setting.as_mut().unwrap();
        setting.front = Some("haproxy".to_owned());
        setting.replicas = 1;
    }
    let said = plain(&results, Question::BehindHaproxy);
    assert!(
        said.starts_with("Behind HAProxy, one worker or process each, throughput "),
        "{said}"
    );
    for question in [Question::FewClients, Question::Tls] {
        let said = plain(&results, question);
        assert!(said.ends_with(": not measured in this run."), "{said}");
    }
}

#[test]
fn without_a_database_nothing_is_answered() {
    let mut results = fixture::small();
    for experiment in &mut results.run.experiments {
        experiment.setting.as_mut().unwrap().database = false;
    }
    let said = answers(&results);
    assert!(said.starts_with("This run does not answer it:"), "{said}");
}

#[test]
fn results_of_earlier_versions_are_of_the_built_in_experiment_of_their_name() {
    let mut results = fixture::small();
    let recorded = answers(&results);
    results.run.experiments[0].setting = None;
    assert_eq!(answers(&results), recorded);
    results.run.experiments[0].name = "of-a-user".to_owned();
    for cell in &mut results.cells {
        cell.experiment = "of-a-user".to_owned();
    }
    assert!(answers(&results).starts_with("This run does not answer it:"));
}

#[test]
fn what_is_not_on_the_machine_is_said_below() {
    let results = fixture::small();
    let said = absent(&View::new(&results)).unwrap().plain();
    assert_eq!(said, "Not on the machine, and so in no answer: PgCat.");
}
