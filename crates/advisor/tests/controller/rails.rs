//! Tests of the other rails, one by one.

use std::time::Duration;

use weir_advisor::controller::{
    Cause, Controller, Decision, Journal, Mode, Phase, Settings, Stillness, Turns,
};

use crate::curve::{CHATTY, Curve, Pool, READS, TICK};

fn started(size: u32, size_max: u32) -> (Controller, Pool) {
    let settings = Settings {
        size,
        size_max,
        quiet_start: Duration::ZERO,
        ..Settings::default()
    };
    (Controller::new(settings, 3), Pool::new(CHATTY, 300, size))
}

fn causes(controller: &Controller, cause: Cause) -> usize {
    controller
        .journal()
        .iter()
        .filter(|entry| entry.cause == cause)
        .count()
}

#[test]
fn nothing_is_tried_right_after_the_start() {
    let mut controller = Controller::new(
        Settings {
            size: 8,
            ..Settings::default()
        },
        1,
    );
    let mut pool = Pool::new(CHATTY, 300, 8);
    assert!(pool.run(&mut controller, 4).iter().all(|&limit| limit == 8));
    assert_eq!(controller.status().phase, Phase::Frozen);
    assert_eq!(
        controller.status().frozen,
        Some("the pool has just started")
    );
    assert!(pool.run(&mut controller, 4).iter().any(|&limit| limit != 8));
}

#[test]
fn a_paused_pool_is_left_alone_and_goes_on_afterwards() {
    let (mut controller, mut pool) = started(4, 200);
    pool.seen.stillness = Some(Stillness::Paused);
    assert!(
        pool.run(&mut controller, 20)
            .iter()
            .all(|&limit| limit == 4)
    );
    assert_eq!(controller.status().frozen, Some("the pool is paused"));
    pool.seen.stillness = None;
    pool.run(&mut controller, 20);
    assert!(controller.status().size > 10, "{:?}", controller.status());
}

#[test]
fn clients_that_time_out_keep_it_still_for_ten_seconds_a_minute_at_most() {
    let (mut controller, mut pool) = started(1, 200);
    let mut frozen = 0;
    for _ in 0..1200 {
        pool.seen.totals.queue_timeouts += 1;
        pool.tick(&mut controller);
        frozen += u32::from(controller.status().phase == Phase::Frozen);
    }
    assert!((190..=210).contains(&frozen), "{frozen} of 1200 ticks");
    // They timed out because there was only one server.
    assert!(controller.status().size > 10, "{:?}", controller.status());
}

#[test]
fn a_pool_without_transactions_is_left_alone() {
    let (mut controller, mut pool) = started(20, 200);
    pool.clients = 0;
    pool.run(&mut controller, 15);
    assert_eq!(
        controller.status().frozen,
        Some("too few transactions to learn from")
    );
}

#[test]
fn a_slow_pool_with_a_queue_is_not_left_alone() {
    let (mut controller, mut pool) = started(1, 200);
    // Ten transactions a second with one server, and all clients wait.
    pool.curve.gamma = 10.0;
    pool.run(&mut controller, 120);
    assert!(controller.status().size >= 8, "{:?}", controller.status());
}

#[test]
fn a_refusal_of_the_host_cuts_the_size_and_is_remembered() {
    let (mut controller, mut pool) = started(40, 200);
    pool.tick(&mut controller);
    pool.limit = 40;
    pool.seen.totals.errors.too_many_connections += 3;
    let at = pool.limit;
    let decision = pool.tick(&mut controller);
    assert!(decision.limit <= at * 7 / 10 + 1, "{decision:?}");
    assert_eq!(causes(&controller, Cause::Errors), 1);
    // More errors of the same burst cause no second cut.
    pool.seen.totals.errors.too_many_connections += 3;
    pool.tick(&mut controller);
    assert_eq!(controller.status().counts.cuts, 1);
    // Even though more servers would pay, the limit does not return there for five minutes.
    pool.curve.kappa = 0.0;
    let limits = pool.run(&mut controller, 290);
    assert!(
        limits.iter().all(|&limit| limit < at),
        "{:?}",
        limits.iter().max()
    );
    let limits = pool.run(&mut controller, 120);
    assert!(
        limits.iter().any(|&limit| limit >= at),
        "{:?}",
        limits.iter().max()
    );
}

#[test]
fn the_ceiling_of_other_errors_rises_with_time() {
    let (mut controller, mut pool) = started(20, 200);
    pool.curve.kappa = 0.0;
    pool.tick(&mut controller);
    pool.seen.totals.errors.out_of_memory += 1;
    pool.tick(&mut controller);
    let early = pool.run(&mut controller, 60).into_iter().max().unwrap();
    let late = pool.run(&mut controller, 300).into_iter().max().unwrap();
    assert!(early < 60, "{early}");
    assert!(late > 150, "{late}");
}

#[test]
fn a_few_deadlocks_are_no_burst() {
    let (mut controller, mut pool) = started(20, 200);
    for _ in 0..10 {
        pool.seen.totals.errors.deadlocks += 1;
        pool.run(&mut controller, 5);
    }
    assert_eq!(controller.status().counts.cuts, 0);
    pool.curve.gamma = 1.0;
    pool.run(&mut controller, 60);
    pool.seen.totals.errors.deadlocks += 20;
    pool.tick(&mut controller);
    assert_eq!(controller.status().counts.cuts, 1);
}

#[test]
fn pinned_servers_get_room_beside_the_limit_up_to_a_quarter_of_the_most() {
    let settings = Settings {
        mode: Mode::Advise,
        size: 20,
        size_max: 100,
        ..Settings::default()
    };
    let mut controller = Controller::new(settings, 1);
    let mut pool = Pool::new(CHATTY, 300, 20);
    pool.tick(&mut controller);
    for (pinned, limit) in [(0, 20), (3, 23), (25, 45), (90, 45)] {
        pool.seen.pinned = pinned;
        assert_eq!(pool.tick(&mut controller).limit, limit);
    }
}

#[test]
fn without_its_turn_a_pool_tries_nothing() {
    let (mut controller, mut pool) = started(4, 200);
    pool.seen.has_turn = false;
    assert!(
        pool.run(&mut controller, 30)
            .iter()
            .all(|&limit| limit == 4)
    );
}

#[test]
fn two_pools_of_a_host_never_try_sizes_at_the_same_time() {
    let mut turns = Turns::default();
    let mut pools = [started(1, 200), started(150, 200)];
    let mut wants = [None, None];
    let mut tried = [0, 0];
    for _ in 0..2400 {
        let mut trying = 0;
        for (index, (controller, pool)) in pools.iter_mut().enumerate() {
            pool.seen.has_turn = turns.ask(index as u64, wants[index], pool.seen.now);
            wants[index] = pool.tick(controller).wants_turn;
            let is_trying = matches!(controller.status().phase, Phase::Probing | Phase::Ramping);
            trying += u32::from(is_trying);
            tried[index] += u32::from(is_trying);
        }
        assert!(trying <= 1);
    }
    assert!(tried.iter().all(|&ticks| ticks > 0), "{tried:?}");
    for (controller, _) in &pools {
        assert!(
            (14..=40).contains(&controller.status().size),
            "{:?}",
            controller.status()
        );
    }
}

#[test]
fn what_experiments_cost_stays_within_its_budget() {
    let settings = Settings {
        size: 2,
        cores: Some(2),
        ..Settings::default()
    };
    let mut controller = Controller::new(settings, 1);
    let mut pool = Pool::new(READS, 300, 2);
    pool.run(&mut controller, 60);
    let best = pool.curve.tps(f64::from(controller.status().size));
    let (mut lost_s, seconds) = (0.0, 300);
    for _ in 0..seconds * 20 {
        let limit = pool.tick(&mut controller).limit;
        lost_s += TICK.as_secs_f64() * (1.0 - pool.curve.tps(f64::from(limit)) / best).max(0.0);
    }
    assert!(
        lost_s <= 0.03 * f64::from(seconds),
        "{lost_s} s lost in {seconds}"
    );
}

#[test]
fn advice_stays_within_a_quarter_and_comes_back() {
    let settings = Settings {
        mode: Mode::Advise,
        size: 8,
        ..Settings::default()
    };
    let mut controller = Controller::new(settings, 1);
    let mut pool = Pool::new(CHATTY, 300, 8);
    let limits = pool.run(&mut controller, 120);
    assert!(limits.iter().all(|&limit| (6..=10).contains(&limit)));
    assert!(limits.iter().filter(|&&limit| limit == 8).count() > 1200);
    assert_eq!(
        controller.status().size,
        10,
        "it recommends as far as it can see"
    );
}

#[test]
fn mode_off_does_nothing_and_on_begins_anew() {
    let (mut controller, mut pool) = started(4, 200);
    let off = Settings {
        mode: Mode::Off,
        size: 4,
        ..Settings::default()
    };
    controller.configure(off);
    assert!(
        pool.run(&mut controller, 30)
            .iter()
            .all(|&limit| limit == 4)
    );
    assert_eq!(controller.status().phase, Phase::Off);
    controller.configure(Settings {
        mode: Mode::On,
        ..off
    });
    pool.run(&mut controller, 60);
    assert!(controller.status().size > 10, "{:?}", controller.status());
}

#[test]
fn new_bounds_hold_at_once() {
    let (mut controller, mut pool) = started(4, 200);
    pool.run(&mut controller, 60);
    let size = controller.status().size;
    controller.configure(Settings {
        size: 4,
        size_max: size - 5,
        quiet_start: Duration::ZERO,
        ..Settings::default()
    });
    assert_eq!(pool.tick(&mut controller).limit, size - 5);
    assert_eq!(
        controller
            .journal()
            .iter()
            .rev()
            .find(|entry| entry.cause == Cause::Settings)
            .unwrap()
            .to,
        size - 5
    );
}

#[test]
fn short_transactions_keep_room_beside_long_ones() {
    let run = |room_for_short| {
        let settings = Settings {
            size: 32,
            cores: Some(4),
            room_for_short,
            quiet_start: Duration::ZERO,
            ..Settings::default()
        };
        let mut controller = Controller::new(settings, 5);
        let mut pool = Pool::new(READS, 300, 32);
        pool.is_heavy_tailed = true;
        pool.run(&mut controller, 240);
        controller.status().size
    };
    let (with, without) = (run(true), run(false));
    assert!(
        (11..=16).contains(&with) && without < 11,
        "{with}, {without}"
    );
}

#[test]
fn a_pool_at_its_bound_that_cannot_tell_goes_half_the_way() {
    let (mut controller, mut pool) = started(100, 100);
    // From 50 to 100 the average elasticity is 0.12, the goal.
    pool.curve = Curve {
        gamma: 100.0,
        sigma: 0.0955,
        kappa: 0.0,
    };
    pool.run(&mut controller, 10);
    let journal: Vec<_> = controller.journal().iter().collect();
    let undecided = journal
        .iter()
        .find(|entry| entry.reason.starts_with("neither more nor fewer"));
    let moved = undecided.map(|entry| (entry.from, entry.to));
    assert_eq!(moved, Some((100, 71)), "{journal:?}");
}

#[test]
fn a_load_that_changes_is_searched_anew() {
    let (mut controller, mut pool) = started(20, 200);
    pool.run(&mut controller, 60);
    while controller.status().phase != Phase::Holding {
        pool.tick(&mut controller);
    }
    pool.run(&mut controller, 2);
    pool.curve = Curve {
        gamma: 2.0 * READS.gamma,
        ..READS
    };
    pool.run(&mut controller, 30);
    assert_eq!(controller.status().counts.shifts, 1);
    assert!(controller.status().size <= 12, "{:?}", controller.status());
}

#[test]
fn a_controller_that_runs_for_hours_remembers_little() {
    let (mut controller, mut pool) = started(20, 200);
    let mut entries = 0;
    for hour in 0..2 {
        pool.curve = if hour % 2 == 0 { CHATTY } else { READS };
        for _ in 0..3600 * 20 {
            entries += pool.tick(&mut controller).entries;
        }
    }
    assert!(entries as usize > Journal::ENTRIES_MAX, "{entries}");
    assert_eq!(controller.journal().len(), Journal::ENTRIES_MAX);
    assert!(
        controller
            .journal()
            .iter()
            .all(|entry| !entry.reason.is_empty() && entry.reason.len() < 200)
    );
}

#[test]
fn nobody_controls_a_still_decision() {
    let decision = Decision::still(7);
    assert_eq!(
        (decision.limit, decision.wants_turn, decision.entries),
        (7, None, 0)
    );
}
