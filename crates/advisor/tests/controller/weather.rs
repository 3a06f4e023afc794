//! Tests with other load on the machine: its variation must not be taken for an effect of the size.

use weir_advisor::controller::{Controller, Settings};
use weir_advisor::random::Random;

use crate::curve::{Curve, Pool};

/// Two busy cores: best at 4, 3 % less at 3, 6 % at 6.
const FLAT: Curve = Curve {
    gamma: 10_000.0,
    sigma: 0.2,
    kappa: 0.05,
};
/// The share left by others changes every quarter of a second.
const TICKS: u32 = 5;

/// Advances by this many seconds. As on busy virtual machines, throughput differs by 15 % from one quarter of a second
/// to the next.
fn seconds(pool: &mut Pool, controller: &mut Controller, weather: &mut Random, seconds: u32) {
    for _ in 0..seconds * 20 / TICKS {
        pool.speed = 1.0 - 0.4 * weather.fraction();
        for _ in 0..TICKS {
            pool.tick(controller);
        }
    }
}

#[test]
fn weather_is_neither_a_change_of_load_nor_a_reason_to_move() {
    let (mut shifts, mut moves) = (0, 0);
    for seed in 0..5 {
        let settings = Settings {
            size: 4,
            ..Settings::default()
        };
        let mut controller = Controller::new(settings, seed);
        let mut pool = Pool::new(FLAT, 100, 4);
        let mut weather = Random::new(seed);
        seconds(&mut pool, &mut controller, &mut weather, 60);
        let before = controller.status().counts;
        seconds(&mut pool, &mut controller, &mut weather, 600);
        let after = controller.status().counts;
        shifts += after.shifts - before.shifts;
        moves += after.moves - before.moves;
    }
    assert_eq!(shifts, 0);
    // Sizes 3 and 4 are equally good, so the size may alternate. It did so 2.3 times a minute, and 4 times when single
    // pairs were believed.
    assert!(moves <= 140, "{moves} in 50 minutes");
}
