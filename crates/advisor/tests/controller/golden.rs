//! Golden traces of the controller's decisions, word by word. After an intended change `UPDATE_EXPECT=1 cargo test -p
//! weir-advisor` rewrites the texts.

use expect_test::{Expect, expect};

use weir_advisor::controller::{Controller, Goal, Mode, Settings};

use crate::curve::{CHATTY, Pool, READS};

fn told(settings: Settings, mut pool: Pool, seconds: u32) -> String {
    let mut controller = Controller::new(settings, 1);
    pool.run(&mut controller, seconds);
    controller
        .journal()
        .iter()
        .map(|entry| format!("{:.2} {entry}\n", entry.at.as_secs_f64()))
        .collect()
}

fn check(settings: Settings, pool: Pool, seconds: u32, expected: &Expect) {
    expected.assert_eq(&told(settings, pool, seconds));
}

#[test]
fn from_one_server_up_to_the_knee() {
    let settings = Settings {
        size: 1,
        ..Settings::default()
    };
    check(
        settings,
        Pool::new(CHATTY, 300, 1),
        40,
        &expect![[r#"
        0.10 stays 1: keeps still: the pool has just started
        5.05 stays 1: goes on
        6.05 1 -> 2: more servers still pay: elasticity 1.00 ± 0.05 (goal 0.12) over 1 pair, 215 transactions
        6.95 2 -> 4: more servers still pay: elasticity 0.99 ± 0.04 (goal 0.12) over 1 pair, 247 transactions
        7.55 4 -> 8: more servers still pay: elasticity 0.95 ± 0.04 (goal 0.12) over 1 pair, 373 transactions
        8.05 8 -> 16: more servers still pay: elasticity 0.81 ± 0.04 (goal 0.12) over 1 pair, 573 transactions
        8.60 16 -> 32: more servers still pay: elasticity 0.44 ± 0.03 (goal 0.12) over 1 pair, 879 transactions
        9.10 32 -> 16: fewer servers do as well: elasticity -0.14 ± 0.03 (goal 0.12) over 1 pair, 789 transactions
        9.60 16 -> 26: more servers still pay: elasticity 0.46 ± 0.04 (goal 0.12) over 1 pair, 814 transactions
        10.10 26 -> 19: fewer servers do as well: elasticity 0.06 ± 0.04 (goal 0.12) over 1 pair, 946 transactions
        10.60 19 -> 23: more servers still pay: elasticity 0.34 ± 0.05 (goal 0.12) over 1 pair, 922 transactions
        16.40 23 -> 26: more servers still pay: elasticity 0.18 ± 0.04 (goal 0.12) over 3 pairs, 3268 transactions
        16.90 26 -> 21: fewer servers do as well: elasticity 0.05 ± 0.05 (goal 0.12) over 1 pair, 970 transactions
        23.40 21 -> 24: more servers still pay: elasticity 0.27 ± 0.05 (goal 0.12) over 1 pair, 1062 transactions
        35.25 stays 24: neither more nor fewer servers are better: elasticity 0.12 ± 0.04 (goal 0.12) over 6 pairs, 6346 transactions
    "#]],
    );
}

#[test]
fn from_far_too_many_down_to_the_knee() {
    let settings = Settings {
        size: 200,
        cores: Some(2),
        ..Settings::default()
    };
    check(
        settings,
        Pool::new(READS, 300, 200),
        40,
        &expect![[r#"
        0.10 stays 200: keeps still: the pool has just started
        5.05 stays 200: goes on
        5.80 200 -> 100: fewer servers do as well: elasticity -0.23 ± 0.09 (goal 0.12) over 1 pair, 745 transactions
        6.55 100 -> 50: fewer servers do as well: elasticity -0.18 ± 0.04 (goal 0.12) over 1 pair, 776 transactions
        7.30 50 -> 25: fewer servers do as well: elasticity -0.08 ± 0.03 (goal 0.12) over 1 pair, 864 transactions
        8.05 25 -> 13: fewer servers do as well: elasticity -0.01 ± 0.03 (goal 0.12) over 1 pair, 887 transactions
        8.85 13 -> 7: fewer servers do as well: elasticity 0.06 ± 0.03 (goal 0.12) over 1 pair, 971 transactions
        12.70 stays 7: neither more nor fewer servers are better: elasticity 0.13 ± 0.01 (goal 0.12) over 6 pairs, 5187 transactions
        19.75 7 -> 11: more servers still pay: elasticity 0.15 ± 0.02 (goal 0.12) over 3 pairs, 3556 transactions
        21.30 11 -> 8: fewer servers do as well: elasticity 0.08 ± 0.03 (goal 0.12) over 2 pairs, 2146 transactions
        25.10 stays 8: neither more nor fewer servers are better: elasticity 0.11 ± 0.03 (goal 0.12) over 6 pairs, 5631 transactions
        34.15 stays 8: neither more nor fewer servers are better: elasticity 0.12 ± 0.04 (goal 0.12) over 6 pairs, 5316 transactions
    "#]],
    );
}

#[test]
fn more_room_than_clients_is_given_back() {
    let settings = Settings {
        size: 100,
        ..Settings::default()
    };
    check(
        settings,
        Pool::new(CHATTY, 5, 100),
        40,
        &expect![[r#"
        0.10 stays 100: keeps still: the pool has just started
        5.05 stays 100: goes on
        5.55 100 -> 50: nobody waits: at most 5 clients wanted a server lately
        6.05 50 -> 25: nobody waits: at most 5 clients wanted a server lately
        6.55 25 -> 12: nobody waits: at most 5 clients wanted a server lately
        7.05 12 -> 9: nobody waits: at most 5 clients wanted a server lately
    "#]],
    );
}

#[test]
fn advice_is_said_and_not_followed() {
    let settings = Settings {
        mode: Mode::Advise,
        elasticity: Goal::Throughput.elasticity(),
        size: 8,
        ..Settings::default()
    };
    check(
        settings,
        Pool::new(CHATTY, 300, 8),
        30,
        &expect![[r#"
        0.10 stays 8: keeps still: the pool has just started
        5.05 stays 8: goes on
        5.55 8 -> 10: advice: more servers still pay: elasticity 0.85 ± 0.05 (goal 0.06) over 1 pair, 525 transactions
    "#]],
    );
}
