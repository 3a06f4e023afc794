//! Prints the cost of rules: nanoseconds per statement that meets none of them, the best of several rounds.
#![expect(clippy::print_stdout, reason = "its only purpose")]
#![expect(clippy::disallowed_methods, reason = "it measures")]
#![expect(clippy::unwrap_used, reason = "a panic ends it")]

use std::hint::black_box;
use std::time::Instant;

use weir_rules::{Action, Conditions, Fits, Now, Rule, RuleId, Rules, Stage, TextPattern};
use weir_sql::{Fingerprint, Shaper};

const TEXT: &str = "SELECT abalance FROM pgbench_accounts WHERE aid = 4711;";
const OTHER_TEXT: &str = "SELECT abalance FROM pgbench_accounts WHERE aid = 4712;";

fn main() {
    println!("{:>24} {:>6} {:>9}", "rules", "number", "ns/text");
    let none = cost(Vec::new());
    println!("{:>24} {:>6} {none:>9}", "none", 0);
    let shaper = Shaper::new(1);
    let shape = best_of(|| shaper.first(black_box(TEXT.as_bytes()), true));
    println!("{:>24} {:>6} {shape:>9}", "shape alone", 0);
    for number in [1, 100, 10_000] {
        let rules = (0..number).map(by_fingerprint).collect();
        println!("{:>24} {number:>6} {:>9}", "by fingerprint", cost(rules));
    }
    for number in [1, 10, 100] {
        let mut rules: Vec<Rule> = (0..number).map(by_text).collect();
        println!(
            "{:>24} {number:>6} {:>9}",
            "by text, alone",
            cost(rules.clone())
        );
        let conditions = rules.iter_mut().map(|rule| &mut rule.conditions);
        TextPattern::join(conditions.filter_map(|it| it.text.as_mut()));
        println!("{:>24} {number:>6} {:>9}", "by text", cost(rules));
    }
}

fn by_fingerprint(number: u32) -> Rule {
    let conditions = Conditions {
        fingerprints: vec![Fingerprint(u64::from(number) << 20)],
        ..Conditions::default()
    };
    Rule::new(&format!("rule-{number}"), conditions, Action::Pass)
}

fn by_text(number: u32) -> Rule {
    let pattern = format!("(?i)from\\s+report_{number}\\b.*order\\s+by");
    let conditions = Conditions {
        text: Some(TextPattern::new(&pattern).unwrap()),
        ..Conditions::default()
    };
    Rule::new(&format!("rule-{number}"), conditions, Action::Pass)
}

fn cost(rules: Vec<Rule>) -> u128 {
    let mut fits = Fits::default();
    (0..)
        .take(rules.len())
        .for_each(|number| fits.insert(RuleId(number)));
    let is_off = rules.is_empty();
    let mut rules = Rules::new(rules, &mut |_| None);
    let shaper = Shaper::new(1);
    // Two texts by turns: a worker seldom gets the same text twice in a row.
    let mut texts = [TEXT, OTHER_TEXT].iter().cycle();
    let mut turn = 0;
    best_of(|| {
        turn += 1;
        let text = texts.next().map_or("", |text| text);
        let text = (black_box(text.as_bytes()), true);
        if is_off {
            return true;
        }
        let dice = turn;
        let verdict = rules.decide(
            &shaper,
            &fits,
            text,
            Stage::Run,
            Now {
                unix: 0,
                dice,
                client: 0,
            },
        );
        verdict.is_empty()
    })
}

/// Returns the nanoseconds of the fastest round.
fn best_of<T>(mut work: impl FnMut() -> T) -> u128 {
    const CALLS: u32 = 20_000;
    let round = |_| {
        let began = Instant::now();
        (0..CALLS).for_each(|_| {
            black_box(work());
        });
        began.elapsed().as_nanos() / u128::from(CALLS)
    };
    (0..50).map(round).min().unwrap()
}
