//! Published study of the e-wallet (P3): its figures, and their analysis by the same method.

use serde::{Deserialize, Serialize};
use weir_advisor::analysis::{Kind, Point, Sweep};
use weir_advisor::controller::Goal;

use super::judge::{self, Judgement, Question};
use crate::wallet::Mode;

/// Connections, transactions per second, mean and standard deviation of the latency in milliseconds.
type Row = (u32, f64, f64, f64);

const CHATTY: [Row; 5] = [
    (2, 356.81, 5.605, 9.844),
    (4, 676.74, 5.908, 5.584),
    (8, 1357.28, 5.891, 4.872),
    (16, 2204.81, 7.248, 6.402),
    (32, 2421.58, 13.197, 13.453),
];
const PIPELINED: [Row; 5] = [
    (2, 1111.25, 1.799, 1.086),
    (4, 1941.22, 2.059, 1.561),
    (8, 3349.19, 2.383, 2.108),
    (16, 4558.39, 3.502, 5.027),
    (32, 4612.74, 6.920, 8.483),
];
/// Cores of the study's server; its load had as many.
const CORES: u32 = 2;

/// Conditions of the study.
pub const SETUP: &str = "Published: PostgreSQL 18 on a managed server with 2 vCPU, 1 GB and 90 MB of shared buffers; \
    pgbench on another machine with 2 vCPU; 180 seconds each, once, the data not put back in between.";

/// A published study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// Connections, transactions per second, mean and standard deviation of the latency in milliseconds.
    pub rows: Vec<Row>,
    /// Analysis by the same method.
    pub judgement: Judgement,
}

/// Returns the published figures for a workload, if there are any.
#[must_use]
pub fn study(workload: &str) -> Option<Study> {
    let rows = match workload {
        name if name == Mode::Chatty.name() => CHATTY,
        name if name == Mode::Pipelined.name() => PIPELINED,
        _ => return None,
    };
    let points = rows.iter().map(|&(connections, tps, mean, stddev)| Point {
        latency_stddev_s: Some(stddev / 1000.0),
        ..Point::new(connections, tps, mean / 1000.0)
    });
    let sweep = Sweep::new(Kind::Connections, points.collect()).ok()?;
    let question = Question {
        kind: Kind::Connections,
        cores: Some(CORES),
        spindles: 0,
        goal: Goal::Balanced,
        seed: 1,
        wrong_books: 0,
        doubts: &[],
    };
    Some(Study {
        rows: rows.to_vec(),
        judgement: judge::of(&sweep, &question),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_rows_give_the_known_knees() {
        let knee = |workload: &str| {
            let study = study(workload).unwrap();
            let mut rules = study.judgement.rules.iter();
            let rule = rules.find(|rule| rule.name == "bandwidth-delay knee");
            rule.unwrap().connections.unwrap()
        };
        assert!((knee("chatty") - 13.6).abs() < 0.05);
        assert!((knee("pipelined") - 8.3).abs() < 0.05);
        assert_eq!(study("scripts"), None);
    }
}
