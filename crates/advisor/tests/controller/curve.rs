//! A pool without randomness: clients that are always busy, and a database whose throughput is a curve of the servers
//! in use. A controller behaves here the same on every machine.

use std::time::Duration;

use weir_advisor::controller::{Controller, Decision, Observation};

pub const TICK: Duration = Duration::from_millis(50);

/// The Universal Scalability Law.
#[derive(Debug, Clone, Copy)]
pub struct Curve {
    pub gamma: f64,
    pub sigma: f64,
    pub kappa: f64,
}

impl Curve {
    pub fn tps(&self, servers: f64) -> f64 {
        let over = servers - 1.0;
        self.gamma * servers / (1.0 + self.sigma * over + self.kappa * servers * over)
    }

    /// Finds numerically where the elasticity falls to `goal`.
    pub fn knee(&self, goal: f64) -> f64 {
        let elasticity =
            |servers: f64| (self.tps(servers * 1.001) / self.tps(servers)).ln() / 1.001f64.ln();
        (10..3000)
            .map(|tenth| f64::from(tenth) / 10.0)
            .find(|servers| elasticity(*servers) <= goal)
            .unwrap_or(300.0)
    }
}

/// The pool. `seen` is the next observation for the controller; tests may change it.
pub struct Pool {
    pub curve: Curve,
    pub clients: u32,
    pub limit: u32,
    pub seen: Observation,
    /// Each hundredth transaction holds its server 200 times longer.
    pub is_heavy_tailed: bool,
    /// Share of the machine left by other programs, 1 for all of it.
    pub speed: f64,
    /// Fractional completions carried over.
    rest: f64,
}

impl Pool {
    pub fn new(curve: Curve, clients: u32, limit: u32) -> Self {
        Self {
            curve,
            clients,
            limit,
            seen: Observation {
                has_turn: true,
                ..Observation::default()
            },
            is_heavy_tailed: false,
            speed: 1.0,
            rest: 0.0,
        }
    }

    /// Advances by one tick and asks `controller`.
    pub fn tick(&mut self, controller: &mut Controller) -> Decision {
        let seconds = TICK.as_secs_f64();
        let in_use = self.limit.min(self.clients);
        let tps = self.speed * self.curve.tps(f64::from(in_use));
        self.rest += tps * seconds;
        while self.rest >= 1.0 {
            self.rest -= 1.0;
            let hold_s = f64::from(in_use) / tps;
            let is_long = self.is_heavy_tailed && self.seen.totals.completions.is_multiple_of(100);
            let (class, hold_s) = match self.is_heavy_tailed {
                false => (1, hold_s),
                true if is_long => (2, hold_s * 200.0 / 3.0),
                true => (1, hold_s / 3.0),
            };
            self.seen
                .totals
                .record(class, Duration::from_secs_f64(hold_s));
        }
        let waiting = self.clients - in_use;
        self.seen.totals.in_use_s += f64::from(in_use) * seconds;
        self.seen.totals.waiting_s += f64::from(waiting) * seconds;
        self.seen.now += TICK;
        self.seen.in_use = in_use;
        self.seen.waiting = waiting;
        let decision = controller.tick(&self.seen);
        self.limit = decision.limit;
        decision
    }

    /// Advances by this many seconds; returns the limit at each tick.
    pub fn run(&mut self, controller: &mut Controller, seconds: u32) -> Vec<u32> {
        (0..seconds * 20)
            .map(|_| self.tick(controller).limit)
            .collect()
    }
}

/// Similar to the chatty e-wallet: highest at 27.
pub const CHATTY: Curve = Curve {
    gamma: 178.5,
    sigma: 0.0,
    kappa: 0.00134,
};
/// Two cores with reads only.
pub const READS: Curve = Curve {
    gamma: 1000.0,
    sigma: 0.45,
    kappa: 0.001,
};
