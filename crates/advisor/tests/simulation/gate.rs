//! Requirements on the results for a mix, and the table of results.

use std::collections::BTreeMap;

use crate::model::Outcome;

/// Requirements on the mean over seeds, each relative to the best fixed size.
#[derive(Debug, Clone, Copy)]
pub struct Gate {
    pub good_least: f64,
    pub tail_most: f64,
    pub response_most: f64,
    /// Maximum number of seconds to the first five good ones, after the quiet start.
    pub reached_most: usize,
    /// From starts above this size, throughput only must not be worse than that of the start itself.
    pub start_most: u32,
}

impl Gate {
    pub const NONE: Self = Self {
        good_least: 0.0,
        tail_most: f64::INFINITY,
        response_most: f64::INFINITY,
        reached_most: usize::MAX,
        start_most: u32::MAX,
    };
}

/// Number of seconds in which the controller may not try anything yet.
const QUIET_START: usize = 5;

/// Results of one mix from one start, with a figure for each seed.
#[derive(Debug, Clone)]
pub struct Row {
    pub letter: String,
    pub name: &'static str,
    pub best: u32,
    pub start: u32,
    pub good: Vec<f64>,
    pub tail: Vec<f64>,
    pub response: Vec<f64>,
    pub reached: Vec<Option<usize>>,
    /// Journal of the controller.
    pub said: Vec<String>,
    /// Throughput of the start itself, if the gate requires it.
    pub at_start: f64,
    /// Lowest and highest limit of each second after the time for finding the size.
    settled: (u32, u32),
}

impl Row {
    pub fn new(letter: String, name: &'static str, best: u32, start: u32) -> Self {
        Self {
            letter,
            name,
            best,
            start,
            good: Vec::new(),
            tail: Vec::new(),
            response: Vec::new(),
            reached: Vec::new(),
            said: Vec::new(),
            at_start: 0.0,
            settled: (u32::MAX, 0),
        }
    }

    pub fn note_limits(&mut self, outcome: &Outcome) {
        let (lowest, highest) = outcome.extremes;
        assert!(
            lowest >= 1 && highest <= 200,
            "{}: {lowest} to {highest}",
            self.letter
        );
        for &limit in &outcome.limits[crate::FOUND..] {
            self.settled = (self.settled.0.min(limit), self.settled.1.max(limit));
        }
    }

    /// Returns the worst over seeds; `None` if one never got there.
    fn reached_last(&self) -> Option<usize> {
        self.reached
            .iter()
            .copied()
            .try_fold(0, |last, at| Some(last.max(at?)))
    }
}

fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len().max(1) as f64
}

/// Formats the rows in Markdown, a line for each mix with the figures from each start in turn.
pub fn table(rows: &[Row]) -> String {
    let starts: Vec<String> = crate::STARTS.iter().map(u32::to_string).collect();
    let starts = starts.join("/");
    let mut text = format!(
        "| mix (best fixed size) | throughput from {starts} | p99 | mean response | first good | sizes held |\n\
         |---|---|---|---|---|---|\n"
    );
    for rows in rows.chunk_by(|one, other| one.letter == other.letter) {
        let first = &rows[0];
        let all =
            |figure: &dyn Fn(&Row) -> String| rows.iter().map(figure).collect::<Vec<_>>().join("/");
        let part = |figures: &[f64], factor: f64, digits: usize| {
            if figures.is_empty() {
                "-".to_owned()
            } else {
                format!("{:.digits$}", factor * mean(figures))
            }
        };
        let low = rows.iter().map(|row| row.settled.0).min().unwrap();
        let high = rows.iter().map(|row| row.settled.1).max().unwrap();
        let columns = [
            format!("{} {} ({})", first.letter, first.name, first.best),
            all(&|row| part(&row.good, 100.0, 0)) + " %",
            all(&|row| part(&row.tail, 1.0, 2)) + "x",
            all(&|row| part(&row.response, 1.0, 2)) + "x",
            all(&reached) + " s",
            format!("{low} to {high}"),
        ];
        let empty = |column: &String| column.starts_with("-/");
        let columns = columns.map(|column| {
            if empty(&column) {
                "-".to_owned()
            } else {
                column
            }
        });
        text += &format!("| {} |\n", columns.join(" | "));
    }
    text
}

fn reached(row: &Row) -> String {
    match row.reached_last() {
        _ if row.reached.is_empty() => "-".to_owned(),
        Some(seconds) => seconds.to_string(),
        None => "never".to_owned(),
    }
}

/// Panics with all rows that do not meet the gate of their mix, and the journal of each of their runs.
pub fn check(rows: &[Row], gates: &BTreeMap<String, Gate>) {
    let failed: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            Some(format!(
                "{}\n{}",
                fault(row, &gates[&row.letter])?,
                row.said.join("    ---\n")
            ))
        })
        .collect();
    assert!(
        failed.is_empty(),
        "the gate is not met:\n{}",
        failed.join("\n")
    );
}

fn fault(row: &Row, gate: &Gate) -> Option<String> {
    let mut faults = Vec::new();
    let (good, tail, response) = (mean(&row.good), mean(&row.tail), mean(&row.response));
    if row.start > gate.start_most {
        if good < row.at_start {
            faults.push(format!(
                "throughput {good:.3} of the best, less than {:.3} of the start",
                row.at_start
            ));
        }
    } else {
        if good < gate.good_least && !row.good.is_empty() {
            faults.push(format!("throughput {good:.3} of the best"));
        }
        if tail > gate.tail_most {
            faults.push(format!("p99 {tail:.2} of the best"));
        }
        if gate.reached_most < usize::MAX
            && row
                .reached_last()
                .is_none_or(|at| at > QUIET_START + gate.reached_most)
        {
            faults.push(format!("good after {:?} seconds", row.reached));
        }
    }
    if response > gate.response_most {
        faults.push(format!("mean response {response:.2} of the best"));
    }
    (!faults.is_empty())
        .then(|| format!("{} from {}: {}", row.letter, row.start, faults.join(", ")))
}
