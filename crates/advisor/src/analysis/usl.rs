//! The Universal Scalability Law, X(N) = γN / (1 + σ(N-1) + κN(N-1)): contention σ bends the curve, coherency κ turns
//! it down. N/X is linear in three unknowns, so a weighted least squares fit is exact and needs no start value.

use thiserror::Error;

use crate::analysis::sweep::Sweep;
use crate::random::Random;

/// Results are limited to this multiple of the highest measured number of connections.
pub const REACH: f64 = 1.5;

/// Three unknowns, and one point to check the fit.
const POINTS_MIN: usize = 4;
const BOOTSTRAPS: usize = 500;

/// Reason for which there is no fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FitError {
    /// The points do not determine the curve.
    #[error("the points do not determine a curve")]
    Degenerate,
    /// There are fewer than four points.
    #[error("{0} points are too few for a curve of three unknowns")]
    TooFew(usize),
}

/// A fitted curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// Throughput of one connection, transactions per second.
    pub gamma: f64,
    /// Contention, 0 or more.
    pub sigma: f64,
    /// Coherency, 0 or more.
    pub kappa: f64,
    /// The largest relative distance of a point from the curve.
    pub residual_max: f64,
    /// The highest number of connections that was measured.
    pub connections_max: u32,
}

/// A value and the interval that holds 95 % of its bootstrap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// Value of the fit itself.
    pub value: f64,
    /// Lower end: 2.5 % of the bootstrap lie below.
    pub low: f64,
    /// Upper end: 2.5 % of the bootstrap lie above.
    pub high: f64,
}

/// A fit with bands.
#[derive(Debug, Clone, PartialEq)]
pub struct Banded {
    /// The curve.
    pub fit: Fit,
    /// Number of connections with the highest throughput; `None` beyond [`REACH`].
    pub peak: Option<Band>,
    /// Fewest connections with 95 % of the highest throughput; `None` beyond [`REACH`].
    pub near_peak: Option<Band>,
    /// Throughput of one connection.
    pub gamma: Band,
}

impl Fit {
    /// Fits N/X with weights (X/N)², so that every point counts by its relative distance. A negative σ or κ is set to 0
    /// and the rest is fitted again.
    ///
    /// # Errors
    /// There are fewer than four points, or they do not determine a curve.
    pub fn of(sweep: &Sweep) -> Result<Self, FitError> {
        let points: Vec<(f64, f64)> = sweep
            .points()
            .iter()
            .map(|point| (f64::from(point.connections), point.tps))
            .collect();
        Self::of_points(&points, sweep.connections_max())
    }

    fn of_points(points: &[(f64, f64)], connections_max: u32) -> Result<Self, FitError> {
        if points.len() < POINTS_MIN {
            return Err(FitError::TooFew(points.len()));
        }
        let (mut has_sigma, mut has_kappa) = (true, true);
        loop {
            let (gamma, sigma, kappa) =
                solve(points, has_sigma, has_kappa).ok_or(FitError::Degenerate)?;
            if sigma < 0.0 && (sigma <= kappa || kappa >= 0.0) {
                has_sigma = false;
            } else if kappa < 0.0 {
                has_kappa = false;
            } else {
                let mut fit = Self {
                    gamma,
                    sigma,
                    kappa,
                    residual_max: 0.0,
                    connections_max,
                };
                fit.residual_max = points
                    .iter()
                    .map(|(connections, tps)| (tps / fit.tps(*connections) - 1.0).abs())
                    .fold(0.0, f64::max);
                return Ok(fit);
            }
        }
    }

    /// Throughput at `connections`, in transactions per second.
    pub fn tps(&self, connections: f64) -> f64 {
        self.gamma * connections
            / (1.0
                + self.sigma * (connections - 1.0)
                + self.kappa * connections * (connections - 1.0))
    }

    /// Elasticity at `connections`: growth of throughput in per cent per per cent of connections.
    pub fn elasticity(&self, connections: f64) -> f64 {
        // d ln X / d ln N = 1 - N (σ + κ(2N - 1)) / (1 + σ(N-1) + κN(N-1))
        let below =
            1.0 + self.sigma * (connections - 1.0) + self.kappa * connections * (connections - 1.0);
        1.0 - connections * (self.sigma + self.kappa * (2.0 * connections - 1.0)) / below
    }

    /// Number of connections with the highest throughput; `None` if the curve has no peak within [`REACH`].
    pub fn peak(&self) -> Option<f64> {
        self.within_reach(((1.0 - self.sigma).max(0.0) / self.kappa).sqrt().max(1.0))
    }

    /// Fewest connections with `part` of the throughput of the peak; `None` beyond [`REACH`].
    pub fn part_of_peak(&self, part: f64) -> Option<f64> {
        let best = self.tps(self.peak()?);
        self.first(|connections| self.tps(connections) >= part * best)
    }

    /// Highest number of connections at which the elasticity is above `least`; `None` beyond [`REACH`].
    pub fn last_elastic(&self, least: f64) -> Option<f64> {
        self.first(|connections| self.elasticity(connections) <= least)
    }

    fn within_reach(&self, connections: f64) -> Option<f64> {
        (connections <= REACH * f64::from(self.connections_max)).then_some(connections)
    }

    /// Finds the first number of connections for which a monotone condition holds, by bisection.
    fn first(&self, holds: impl Fn(f64) -> bool) -> Option<f64> {
        let reach = REACH * f64::from(self.connections_max);
        let (mut low, mut high) = (1.0, self.peak().unwrap_or(reach));
        if holds(low) {
            return Some(low);
        }
        if !holds(high) {
            return None;
        }
        while high - low > 1e-3 {
            let middle = f64::midpoint(low, high);
            if holds(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(high)
    }

    /// Adds bands by a bootstrap. If every point has several repetitions, these are resampled; else the distances of
    /// points from the curve are.
    pub fn banded(self, sweep: &Sweep, seed: u64) -> Banded {
        let mut random = Random::new(seed);
        let fits: Vec<Self> = (0..BOOTSTRAPS)
            .filter_map(|_| {
                let points = self.draw(sweep, &mut random);
                Self::of_points(&points, self.connections_max).ok()
            })
            .collect();
        let band = |figure: fn(&Self) -> Option<f64>| {
            let value = figure(&self)?;
            let limit = REACH * f64::from(self.connections_max);
            let mut figures: Vec<f64> = fits
                .iter()
                .map(|fit| figure(fit).unwrap_or(limit))
                .collect();
            figures.sort_by(f64::total_cmp);
            let at = |part: f64| {
                figures
                    .get(crate::rounding::slot(
                        part * figures.len() as f64,
                        figures.len(),
                    ))
                    .copied()
            };
            Some(Band {
                value,
                low: at(0.025).unwrap_or(value).min(value),
                high: at(0.975).unwrap_or(value).max(value),
            })
        };
        let none = Band {
            value: self.gamma,
            low: self.gamma,
            high: self.gamma,
        };
        Banded {
            fit: self,
            peak: band(Self::peak),
            near_peak: band(|fit| fit.part_of_peak(0.95)),
            gamma: band(|fit| Some(fit.gamma)).unwrap_or(none),
        }
    }

    fn draw(&self, sweep: &Sweep, random: &mut Random) -> Vec<(f64, f64)> {
        let points = sweep.points();
        let is_repeated = points.iter().all(|point| point.repetitions.len() > 1);
        // Three unknowns fitted to few points make the distances too small, so they are widened.
        let freedom = points.len().saturating_sub(3).max(1) as f64;
        let widen = (points.len() as f64 / freedom).sqrt();
        points
            .iter()
            .map(|point| {
                let connections = f64::from(point.connections);
                let tps = if is_repeated {
                    let count = point.repetitions.len();
                    let drawn =
                        (0..count).filter_map(|_| point.repetitions.get(random.below(count)));
                    drawn.sum::<f64>() / count as f64
                } else {
                    let fitted = self.tps(connections);
                    let other = points.get(random.below(points.len())).unwrap_or(point);
                    let distance = other.tps / self.tps(f64::from(other.connections)) - 1.0;
                    fitted * (1.0 + widen * distance).max(0.05)
                };
                (connections, tps)
            })
            .collect()
    }
}

/// Computes γ, σ, κ by weighted least squares; σ or κ is 0 if left out.
fn solve(points: &[(f64, f64)], has_sigma: bool, has_kappa: bool) -> Option<(f64, f64, f64)> {
    // N/X = a + b(N-1) + cN(N-1), with γ = 1/a, σ = b/a, κ = c/a.
    let mut matrix = [[0.0; 4]; 3];
    for &(connections, tps) in points {
        let weight = (tps / connections).powi(2);
        let row = [
            1.0,
            if has_sigma { connections - 1.0 } else { 0.0 },
            if has_kappa {
                connections * (connections - 1.0)
            } else {
                0.0
            },
        ];
        for (line, left) in matrix.iter_mut().zip(row) {
            let right = row.into_iter().chain(std::iter::once(connections / tps));
            for (cell, right) in line.iter_mut().zip(right) {
                *cell += weight * left * right;
            }
        }
    }
    // Sets an unknown that is left out to 0 by its own equation.
    for (index, is_there) in [(1, has_sigma), (2, has_kappa)] {
        if !is_there && let Some(cell) = matrix.get_mut(index).and_then(|line| line.get_mut(index))
        {
            *cell = 1.0;
        }
    }
    let [a, b, c] = eliminate(matrix)?;
    (a > 0.0).then(|| (1.0 / a, b / a, c / a))
}

/// Solves three equations by Gaussian elimination with pivots.
fn eliminate(mut matrix: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let size = |line: &[f64; 4]| line.get(column).copied().unwrap_or(0.0).abs();
        let pivot = (column..3).max_by(|&one, &other| {
            let of = |index: usize| matrix.get(index).map_or(0.0, size);
            of(one).total_cmp(&of(other))
        })?;
        matrix.swap(column, pivot);
        let line = *matrix.get(column)?;
        let head = *line.get(column)?;
        if head.abs() < 1e-30 {
            return None;
        }
        for (index, other) in matrix.iter_mut().enumerate() {
            if index == column {
                continue;
            }
            let factor = other.get(column)? / head;
            for (cell, above) in other.iter_mut().zip(line) {
                *cell -= factor * above;
            }
        }
    }
    let solution = |index: usize| Some(matrix.get(index)?.get(3)? / matrix.get(index)?.get(index)?);
    Some([solution(0)?, solution(1)?, solution(2)?])
}
