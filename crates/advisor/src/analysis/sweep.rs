//! Throughput and latency at several numbers of connections.

use thiserror::Error;

/// Quantity that a sweep varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As many clients as connections, each always busy.
    Connections,
    /// The size of a pool. A fixed number of clients is always busy; those without a server wait.
    Pool {
        /// Number of clients.
        clients: u32,
    },
}

/// Measurement at one number of connections.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Connections to the database.
    pub connections: u32,
    /// Transactions per second.
    pub tps: f64,
    /// Mean latency as the client sees it, in seconds.
    pub latency_s: f64,
    /// Standard deviation of the latency, in seconds.
    pub latency_stddev_s: Option<f64>,
    /// 99th percentile of the latency, in seconds.
    pub p99_s: Option<f64>,
    /// Transactions per second of each repetition, if there were several; `tps` is then their mean.
    pub repetitions: Vec<f64>,
}

impl Point {
    /// A point that was measured once, without percentiles.
    pub const fn new(connections: u32, tps: f64, latency_s: f64) -> Self {
        Self {
            connections,
            tps,
            latency_s,
            latency_stddev_s: None,
            p99_s: None,
            repetitions: Vec::new(),
        }
    }
}

/// Reason for which points do not form a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SweepError {
    /// Two points have this number of connections.
    #[error("two points have {0} connections")]
    Duplicate(u32),
    /// A figure at this number of connections is zero, negative or not a number.
    #[error("a figure at {0} connections is not positive")]
    NotPositive(u32),
    /// There is one point, or none.
    #[error("{0} points are too few: a sweep has at least two")]
    TooFew(usize),
}

/// Check of Little's law at a point: clients = throughput x latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LittleCheck {
    /// Connections of the point.
    pub connections: u32,
    /// Number of clients.
    pub clients: f64,
    /// Throughput times latency.
    pub reckoned: f64,
}

impl LittleCheck {
    /// Relative error above which throughput or latency was measured wrongly.
    pub const OFF_MAX: f64 = 0.02;

    /// Relative error, 0 or more.
    pub fn off(&self) -> f64 {
        (self.clients - self.reckoned).abs() / self.clients
    }
}

/// Points in the order of connections, at least two.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    kind: Kind,
    points: Vec<Point>,
}

impl Sweep {
    /// Sorts and checks the points.
    ///
    /// # Errors
    /// There are too few points, a figure is not positive, or two points have the same number of connections.
    pub fn new(kind: Kind, mut points: Vec<Point>) -> Result<Self, SweepError> {
        points.sort_by_key(|point| point.connections);
        if points.len() < 2 {
            return Err(SweepError::TooFew(points.len()));
        }
        for (point, next) in points.iter().zip(points.iter().skip(1)) {
            if point.connections == next.connections {
                return Err(SweepError::Duplicate(point.connections));
            }
        }
        let is_good = |figure: f64| figure.is_finite() && figure > 0.0;
        for point in &points {
            if point.connections == 0 || !is_good(point.tps) || !is_good(point.latency_s) {
                return Err(SweepError::NotPositive(point.connections));
            }
        }
        Ok(Self { kind, points })
    }

    /// Quantity that was varied.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The points, fewest connections first.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The highest number of connections that was measured.
    pub fn connections_max(&self) -> u32 {
        self.points.last().map_or(0, |point| point.connections)
    }

    /// The highest throughput, transactions per second.
    pub fn tps_max(&self) -> f64 {
        self.points
            .iter()
            .map(|point| point.tps)
            .fold(0.0, f64::max)
    }

    /// Time for which a transaction has a connection at `point`, in seconds, without the wait for one.
    pub fn hold_s(&self, point: &Point) -> f64 {
        match self.kind {
            Kind::Connections => point.latency_s,
            // All servers of a pool are busy while clients wait for them.
            Kind::Pool { clients } => f64::from(point.connections.min(clients)) / point.tps,
        }
    }

    /// Returns the elasticity between neighbouring points: growth of throughput in per cent per per cent of
    /// connections.
    pub fn elasticities(&self) -> Vec<(u32, u32, f64)> {
        self.points
            .iter()
            .zip(self.points.iter().skip(1))
            .map(|(from, to)| {
                let growth = (to.tps / from.tps).ln();
                let step = (f64::from(to.connections) / f64::from(from.connections)).ln();
                (from.connections, to.connections, growth / step)
            })
            .collect()
    }

    pub(super) fn little(&self) -> Vec<LittleCheck> {
        self.points
            .iter()
            .map(|point| LittleCheck {
                connections: point.connections,
                clients: f64::from(match self.kind {
                    Kind::Connections => point.connections,
                    Kind::Pool { clients } => clients,
                }),
                reckoned: point.tps * point.latency_s,
            })
            .collect()
    }
}
