//! Properties that hold for every load.

use std::time::Duration;

use proptest::prelude::*;

use weir_advisor::controller::{Cause, Controller, Mode, Observation, Settings, Stillness};

use crate::curve::{Curve, Pool};

fn curves() -> impl Strategy<Value = Curve> {
    (100.0..2000.0f64, 0.0..0.5f64, 0.0005..0.01f64).prop_map(|(gamma, sigma, kappa)| Curve {
        gamma,
        sigma,
        kappa,
    })
}

/// Returns the mean limit of the last two of four minutes.
fn settled(curve: Curve, start: u32, elasticity: f64, seed: u64) -> f64 {
    let settings = Settings {
        size: start,
        elasticity,
        ..Settings::default()
    };
    let mut controller = Controller::new(settings, seed);
    let mut pool = Pool::new(curve, 300, start);
    pool.run(&mut controller, 120);
    let limits = pool.run(&mut controller, 120);
    limits.iter().map(|&limit| f64::from(limit)).sum::<f64>() / limits.len() as f64
}

/// Observation of a pool in any state.
#[derive(Debug, Clone)]
struct Look {
    completions: u64,
    hold_us: u64,
    in_use: u32,
    waiting: u32,
    idle: u32,
    pinned: u32,
    errors: u64,
    kind: u8,
}

fn looks() -> impl Strategy<Value = Look> {
    let gauges = (0..300u32, 0..300u32, 0..300u32, 0..50u32);
    (0..200u64, 1..10_000_000u64, gauges, 0..40u64, any::<u8>()).prop_map(
        |(completions, hold_us, (in_use, waiting, idle, pinned), errors, kind)| Look {
            completions,
            hold_us,
            in_use,
            waiting,
            idle: idle.min(in_use),
            pinned: pinned.min(in_use),
            errors: errors.saturating_sub(35),
            kind,
        },
    )
}

impl Look {
    fn show(&self, seen: &mut Observation) {
        seen.now += Duration::from_millis(50);
        for _ in 0..self.completions {
            seen.totals
                .record(usize::from(self.kind), Duration::from_micros(self.hold_us));
        }
        seen.totals.in_use_s += 0.05 * f64::from(self.in_use);
        seen.totals.waiting_s += 0.05 * f64::from(self.waiting);
        match self.kind % 4 {
            0 => seen.totals.errors.too_many_connections += self.errors,
            1 => seen.totals.errors.deadlocks += self.errors,
            2 => seen.totals.queue_timeouts += self.errors,
            _ => seen.totals.errors.cannot_connect += self.errors,
        }
        (seen.in_use, seen.waiting, seen.pinned) = (self.in_use, self.waiting, self.pinned);
        seen.idle_in_transaction = self.idle;
        seen.lock_waits = self.kind.is_multiple_of(3).then(|| self.in_use - self.idle);
        seen.stillness = (self.kind == 17).then_some(Stillness::Paused);
        seen.has_turn = !self.kind.is_multiple_of(8);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_constant_load_lets_the_size_drift_only_around_its_knee(curve in curves(), start in 1..200u32, seed: u64) {
        let mean = settled(curve, start, 0.12, seed);
        let knee = curve.knee(0.12);
        prop_assert!(mean >= 0.5 * knee - 1.0 && mean <= 2.0 * knee + 1.0, "{mean} for a knee at {knee}");
        prop_assert!(curve.tps(mean) >= 0.85 * curve.tps(curve.knee(0.0)), "{mean} for a knee at {knee}");
    }

    #[test]
    fn a_goal_that_asks_more_never_gives_a_larger_pool(curve in curves(), seed: u64) {
        let sizes: Vec<f64> = [0.06, 0.12, 0.25].into_iter().map(|goal| settled(curve, 20, goal, seed)).collect();
        for (more, less) in sizes.iter().zip(&sizes[1..]) {
            prop_assert!(*less <= more * 1.15 + 1.0, "{sizes:?}");
        }
    }

    #[test]
    fn no_load_moves_the_limit_out_of_its_bounds(
        looks in prop::collection::vec(looks(), 1..400),
        (min, spread, start) in (1..50u32, 0..150u32, 0..250u32),
        mode in prop::sample::select(vec![Mode::Advise, Mode::Off, Mode::On]),
        seed: u64,
    ) {
        let max = min + spread;
        let settings = Settings { mode, size: start, size_min: min, size_max: max, quiet_start: Duration::ZERO, ..Settings::default() };
        let mut controller = Controller::new(settings, seed);
        let mut seen = Observation::default();
        let size = start.clamp(min, max);
        let mut moves = 0;
        for look in &looks {
            look.show(&mut seen);
            let decision = controller.tick(&seen);
            prop_assert!((min..=max).contains(&decision.limit), "{decision:?} for {min} to {max}");
            if mode == Mode::Off {
                prop_assert_eq!(decision.limit, size);
            }
            for entry in controller.journal().iter().rev().take(decision.entries as usize) {
                prop_assert!((min..=max).contains(&entry.to), "{entry}");
                if entry.cause == Cause::Experiment && entry.from != entry.to {
                    moves += 1;
                    if mode == Mode::On {
                        let ratio = f64::from(entry.to.max(entry.from)) / f64::from(entry.to.min(entry.from));
                        prop_assert!(ratio <= 2.0 || entry.from.abs_diff(entry.to) <= 1, "{entry}");
                    }
                }
            }
            // Each move came from a pair of blocks at least.
            prop_assert!(controller.status().counts.pairs >= moves);
        }
        prop_assert!(controller.journal().len() <= 200);
    }
}
