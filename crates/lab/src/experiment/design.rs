//! An experiment in a profile: its cells, and the time that they take.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Point;
use crate::record;

/// Changes that a user makes to a profile.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Changes {
    /// Targets to run, instead of the profile's.
    pub targets: Vec<String>,
    /// Other values of a factor, for experiments that have the factor.
    pub factors: BTreeMap<String, Vec<String>>,
    /// Another number of blocks.
    pub blocks: Option<u32>,
    /// Other seconds of warm-up.
    pub warm_up_s: Option<f64>,
    /// Other seconds of measuring.
    pub measure_s: Option<f64>,
    /// Another size of pgbench's tables.
    pub scale: Option<u32>,
}

/// Cells and durations of an experiment in one profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// Names of targets and aliases.
    pub targets: Vec<String>,
    /// All combinations of the factors' values.
    pub points: Vec<Point>,
    /// Seconds of warm-up of a cell.
    pub warm_up_s: f64,
    /// Seconds of measuring of a cell.
    pub measure_s: f64,
    /// Number of repetitions of all cells.
    pub blocks: u32,
    /// Size of pgbench's tables.
    pub scale: u32,
}

/// Seconds per cell to start, probe and stop a target, and to connect pgbench twice.
const CELL_SECONDS: f64 = 2.0;
/// Additional seconds per client.
const CLIENT_SECONDS: f64 = 0.002;
/// Seconds per block to start, fill and restart PostgreSQL.
const BLOCK_SECONDS: f64 = 3.0;

impl Design {
    /// Estimates the duration in seconds with this number of targets.
    #[must_use]
    pub fn seconds(&self, targets: usize) -> f64 {
        let clients = |point: &Point| point.get("clients").and_then(|text| text.parse().ok());
        let round: f64 = self
            .points
            .iter()
            .map(|point| {
                let clients: f64 = clients(point).unwrap_or(1.0);
                self.warm_up_s + self.measure_s + CELL_SECONDS + clients * CLIENT_SECONDS
            })
            .sum();
        let targets: f64 = u32::try_from(targets).unwrap_or(u32::MAX).into();
        (round * targets + BLOCK_SECONDS) * f64::from(self.blocks)
    }

    /// Returns the cells of one block.
    #[must_use]
    pub fn plan(&self) -> Vec<record::Planned> {
        let cells = |target: &String| {
            let target = target.clone();
            self.points.iter().map(move |point| record::Planned {
                target: target.clone(),
                factors: point.clone(),
            })
        };
        self.targets.iter().flat_map(cells).collect()
    }

    /// Returns the largest number of clients of any cell.
    #[must_use]
    pub fn clients_max(&self) -> u32 {
        let clients = self.points.iter().filter_map(|point| point.get("clients"));
        let numbers = clients.filter_map(|text| text.parse().ok());
        numbers.max().unwrap_or(1)
    }
}

/// Returns all combinations of the factors' values; the last factor varies fastest.
pub(super) fn combinations(factors: &BTreeMap<String, Vec<String>>) -> Vec<Point> {
    let mut points = vec![Point::new()];
    for (name, values) in factors {
        points = points
            .iter()
            .flat_map(|point| {
                values.iter().map(|value| {
                    let mut point = point.clone();
                    point.insert(name.clone(), value.clone());
                    point
                })
            })
            .collect();
    }
    points
}
