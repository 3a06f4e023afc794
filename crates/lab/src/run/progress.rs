//! Progress reports to the user.

use std::time::Duration;

use crate::record::{Cell, Measure};

/// Receiver of progress lines.
pub trait Progress {
    /// Reports one line, without its end.
    fn line(&mut self, text: &str);
}

/// Discards all lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn line(&mut self, _text: &str) {}
}

/// Estimate of the remaining time, corrected by the ratio of actual to expected time so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remaining {
    expected_s: f64,
    done_expected_s: f64,
    done_s: f64,
}

impl Remaining {
    pub(crate) fn new(expected_s: f64) -> Self {
        Self {
            expected_s,
            done_expected_s: 0.0,
            done_s: 0.0,
        }
    }

    /// Records a step: its expected time, and the time that it took.
    pub(crate) fn done(&mut self, expected_s: f64, took: Duration) {
        self.done_expected_s += expected_s;
        self.done_s += took.as_secs_f64();
    }

    pub(crate) fn seconds(&self) -> f64 {
        let left = (self.expected_s - self.done_expected_s).max(0.0);
        if self.done_expected_s > 0.0 {
            left * self.done_s / self.done_expected_s
        } else {
            left
        }
    }

    pub(crate) fn text(&self) -> String {
        duration(self.seconds())
    }
}

/// Formats a duration: `45 s`, `12 min`, `3 h 20 min`.
pub(crate) fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round();
    if seconds < 90.0 {
        format!("{seconds:.0} s")
    } else if minutes < 90.0 {
        format!("{minutes:.0} min")
    } else {
        format!(
            "{:.0} h {:.0} min",
            (minutes / 60.0).floor(),
            minutes % 60.0
        )
    }
}

/// Describes a cell in one line, with the main metric of its experiment.
pub(super) fn describe(cell: &Cell, measure: Measure) -> String {
    let factors: Vec<&str> = cell.factors.values().map(String::as_str).collect();
    let head = format!(
        "{} {} [{}]",
        cell.experiment,
        cell.target,
        factors.join(" ")
    );
    let Some(outcome) = &cell.outcome else {
        let why = cell.failed.as_deref().unwrap_or("unknown");
        let line = why.lines().next().unwrap_or_default();
        return format!("{head}  failed: {line}");
    };
    if measure == Measure::Memory {
        let rss = cell.costs.pooler.and_then(|pooler| pooler.rss_bytes);
        let rss = rss.map_or_else(
            || "unknown".to_owned(),
            |bytes| format!("{} KiB", bytes >> 10),
        );
        return format!("{head}  {rss} resident");
    }
    let mut text = format!("{head}  {:.0}/s", outcome.tps);
    if let Some(bytes) = outcome
        .bytes_per_s
        .filter(|_| measure == Measure::Bandwidth)
    {
        text.push_str(&format!("  {:.1} MB/s", bytes / 1e6));
    }
    if let Some(latency) = &outcome.latency {
        text.push_str(&format!("  p99 {:.2} ms", latency.p99 / 1000.0));
    }
    if let Some(pooler) = cell.costs.pooler.filter(|_| outcome.tps > 0.0) {
        let each = pooler.cpu_us / (outcome.tps * outcome.seconds);
        text.push_str(&format!("  {each:.1} µs of CPU each"));
    }
    let flags = cell.flags.len();
    if flags > 0 {
        text.push_str(&format!(
            "  {flags} flag{}",
            if flags == 1 { "" } else { "s" }
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::{Costs, Outcome, Usage};

    #[test]
    fn what_is_left_is_learnt_from_what_was_done() {
        let mut remaining = Remaining::new(100.0);
        assert_eq!(remaining.text(), "100 s".replace("100 s", "2 min"));
        remaining.done(10.0, Duration::from_secs(20));
        assert!((remaining.seconds() - 180.0).abs() < 1e-9);
        remaining.done(200.0, Duration::from_secs(1));
        assert_eq!(remaining.text(), "0 s");
    }

    fn cell() -> Cell {
        let usage = Usage {
            cpu_us: 2e6,
            rss_bytes: Some(5 << 20),
            ..Usage::default()
        };
        Cell {
            experiment: "p1".to_owned(),
            target: "weir-1".to_owned(),
            block: 0,
            order: 0,
            factors: BTreeMap::from([("clients".to_owned(), "50".to_owned())]),
            generator: "pgbench".to_owned(),
            command: Vec::new(),
            configurations: String::new(),
            outcome: Some(Outcome {
                tps: 20_000.0,
                seconds: 10.0,
                bytes_per_s: Some(1.5e6),
                ..Outcome::default()
            }),
            failed: None,
            costs: Costs {
                pooler: Some(usage),
                ..Costs::default()
            },
            on_replicas: None,
            flags: Vec::new(),
            started_unix_s: 1,
        }
    }

    #[test]
    fn a_cell_is_told_by_what_its_experiment_is_about() {
        let line = describe(&cell(), Measure::Throughput);
        assert_eq!(line, "p1 weir-1 [50]  20000/s  10.0 µs of CPU each");
        let line = describe(&cell(), Measure::Memory);
        assert_eq!(line, "p1 weir-1 [50]  5120 KiB resident");
        assert!(describe(&cell(), Measure::Bandwidth).contains("  1.5 MB/s  "));
        let mut failed = cell();
        failed.outcome = None;
        failed.failed = Some("it ended\nlog".to_owned());
        let line = describe(&failed, Measure::Memory);
        assert_eq!(line, "p1 weir-1 [50]  failed: it ended");
    }

    #[test]
    fn durations_are_rounded_to_what_matters() {
        assert_eq!(duration(89.4), "89 s");
        assert_eq!(duration(5340.0), "89 min");
        assert_eq!(duration(12_000.0), "3 h 20 min");
    }
}
