//! A real difference is found and an absent one is not, however busy the machine is.
//!
//! The test asserts a verdict and never a figure. The judged measure is CPU time per transaction, which is reliable
//! even if other programs use the machine; throughput is rightly `~` then. Only a cell with hardly any transaction says
//! nothing: the run is repeated until the machine has let every cell measure something.

use std::fs;
use std::path::Path;

use serde_json::Value;
use weir_conformance::TempDir;
use weir_conformance::tools;

use super::bench;
use super::cells;
use super::json;

const SLOW: &str = "weir-slow-1000";

/// Minimum number of transactions of a cell, and of one of the slowed Weir.
const TRANSACTIONS_MIN: (u64, u64) = (200, 10);
/// Maximum number of runs; each takes half a minute.
const RUNS_MAX: usize = 20;

#[test]
fn the_same_program_twice_is_noise_and_a_slowed_weir_is_found() {
    let directory = TempDir::new().unwrap();
    let mut text = String::new();
    let has_measured = (0..RUNS_MAX).any(|_| {
        let (has_measured, said) = measure(directory.path());
        text = said;
        has_measured
    });
    assert!(has_measured && text.contains("0 of them failed"), "{text}");

    // Checks the rule for all comparisons and its text. With this few blocks the noise floor is as wide as the data
    // it was estimated from, so luck does not decide.
    let (good, report) = bench(&["report", "result"], directory.path());
    let flat = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        good && flat.contains("PgBouncer ran twice under two names"),
        "{report}"
    );
    assert!(flat.contains("0 of these differ"), "{report}");
    assert!(
        flat.contains("which is slower on purpose, stands to Weir, 1 worker"),
        "{report}"
    );

    // Presents the data as two runs of which the second has the slower Weir.
    let result = directory.path().join("result");
    part(&result, &directory.path().join("before"), SLOW);
    part(&result, &directory.path().join("after"), "weir-1");
    let (good, compared) = bench(&["compare", "before", "after"], directory.path());
    assert!(good, "{compared}");
    let cpu = compared
        .split(": Pooler CPU per transaction")
        .nth(1)
        .unwrap();
    let change = |target: &str| {
        let line = cpu.lines().find(|line| line.starts_with(target)).unwrap();
        line.rsplit_once('%')
            .unwrap()
            .0
            .rsplit_once("  ")
            .unwrap()
            .1
            .trim()
            .to_owned()
    };
    assert_eq!(change("PgBouncer  "), "~ +0.0", "{compared}");
    assert_eq!(change("PgBouncer (again)"), "~ +0.0", "{compared}");
    let slower: f64 = change("Weir, 1 worker")
        .parse()
        .unwrap_or_else(|_| panic!("{compared}"));
    assert!(slower > 100.0, "{compared}");
}

/// Runs the experiment. Returns false if the machine was too busy for one of its cells, and what the program said.
fn measure(directory: &Path) -> (bool, String) {
    let result = directory.join("result");
    if result.exists() {
        fs::remove_dir_all(&result).unwrap();
    }
    let experiment = tools::workspace().join("conformance/tests/bench/noise.toml");
    let experiment = experiment.to_str().unwrap();
    let arguments = [
        "run",
        "smoke",
        "-e",
        "noise",
        "--experiment-file",
        experiment,
        "-o",
        "result",
    ];
    let (good, text) = bench(&arguments, directory);
    let is_starved = |cell: &Value| {
        let (min, of_slow) = TRANSACTIONS_MIN;
        let min = if cell["target"] == SLOW { of_slow } else { min };
        match cell["failed"].as_str() {
            Some(reason) => reason.contains("no transaction was over"),
            None => cell["outcome"]["transactions"].as_u64().unwrap() < min,
        }
    };
    let is_starved = cells(&result).iter().any(is_starved);
    assert!(good || is_starved, "{text}");
    (!is_starved, text)
}

/// Writes a result without the cells of `left_out`; the slowed Weir gets the name of the other.
fn part(whole: &Path, part: &Path, left_out: &str) {
    fs::create_dir(part).unwrap();
    let mut run = json(&whole.join("run.json"));
    run["targets"]
        .as_array_mut()
        .unwrap()
        .retain(|target| target["name"] != SLOW);
    let plan = run["experiments"][0]["plan"].as_array_mut().unwrap();
    plan.retain(|cell| cell["target"] != SLOW);
    fs::write(part.join("run.json"), run.to_string()).unwrap();
    let mut lines = String::new();
    for mut cell in cells(whole)
        .into_iter()
        .filter(|cell| cell["target"] != left_out)
    {
        if cell["target"] == SLOW {
            cell["target"] = Value::from("weir-1");
        }
        lines.push_str(&format!("{cell}\n"));
    }
    fs::write(part.join("cells.jsonl"), lines).unwrap();
}
