//! Settings of the controller that an operator may choose.

use std::time::Duration;

/// Permission of the controller to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The controller does nothing. Pools in session mode are always off.
    Off,
    /// The controller tries sizes within a quarter of the configured one, comes back, and reports what it would do.
    Advise,
    /// The controller finds the size and holds it.
    #[default]
    On,
}

/// Benefit that a larger pool must bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Goal {
    /// The last per cent of throughput, with more servers and longer tails.
    Throughput,
    /// Nearly all throughput with short tails.
    #[default]
    Balanced,
    /// Short tails, at the price of some throughput.
    Latency,
}

impl Goal {
    /// Elasticity at which growing stops: one per cent more servers must bring this many per cent more throughput.
    pub const fn elasticity(self) -> f64 {
        match self {
            Self::Throughput => 0.06,
            Self::Balanced => 0.12,
            Self::Latency => 0.25,
        }
    }
}

/// The controller's settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Permission to act.
    pub mode: Mode,
    /// Elasticity at which growing stops, mostly [`Goal::elasticity`]; 0.01 to 0.9.
    pub elasticity: f64,
    /// Initial size, and the size to stay at in modes off and advise.
    pub size: u32,
    /// Minimum number of servers; at least 1.
    pub size_min: u32,
    /// Maximum number of servers: `max_connections` of the host, without reserved ones and other pools' share.
    pub size_max: u32,
    /// Number of cores of the host, if known.
    pub cores: Option<u32>,
    /// Keeps room for short transactions beside long ones (the variability floor), at some cost in throughput.
    pub room_for_short: bool,
    /// Time after the start without experiments, because caches are cold.
    pub quiet_start: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::On,
            elasticity: Goal::Balanced.elasticity(),
            size: 20,
            size_min: 1,
            size_max: 200,
            cores: None,
            room_for_short: true,
            quiet_start: Duration::from_secs(5),
        }
    }
}

impl Settings {
    /// Returns the settings with every value in its range.
    pub(crate) fn in_range(mut self) -> Self {
        self.size_min = self.size_min.max(1);
        self.size_max = self.size_max.max(self.size_min);
        self.size = self.size.clamp(self.size_min, self.size_max);
        self.elasticity = self.elasticity.clamp(0.01, 0.9);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_brought_into_their_range() {
        let settings = Settings {
            size: 500,
            size_min: 0,
            size_max: 0,
            elasticity: 0.0,
            ..Settings::default()
        }
        .in_range();
        assert_eq!(
            (settings.size_min, settings.size_max, settings.size),
            (1, 1, 1)
        );
        assert!(settings.elasticity > 0.0);
    }

    #[test]
    fn goals_are_ordered_by_what_they_ask() {
        assert!(Goal::Throughput.elasticity() < Goal::Balanced.elasticity());
        assert!(Goal::Balanced.elasticity() < Goal::Latency.elasticity());
    }
}
