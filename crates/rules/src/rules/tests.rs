//! Decisions of rules, in their order, and what they count.

use weir_sql::{Fingerprint, StatementKind};

use super::*;
use crate::conditions::Conditions;
use crate::rewrite::Rewriting;
use crate::rule::{Concurrency, Rejection, RouteTo};
use crate::text::TextPattern;

fn rule(name: &str, conditions: Conditions) -> Rule {
    let rejection = Rejection {
        rule: name.into(),
        message: format!("rejected by {name}"),
        code: *b"42501",
        hint: String::new(),
    };
    Rule::new(name, conditions, Action::Reject(Arc::new(rejection)))
}

fn printed(text: &str) -> Conditions {
    Conditions {
        fingerprints: vec![Fingerprint::exact(text).unwrap()],
        ..Conditions::default()
    }
}

fn fits() -> Fits {
    let mut fits = Fits::default();
    (0..10).for_each(|number| fits.insert(RuleId(number)));
    fits
}

fn all<const N: usize>(rules: [Rule; N]) -> Rules {
    Rules::new(rules, &mut |rule| {
        let limit = rule.concurrency?;
        Some(Bulkhead::new(limit.max, limit.queue_max))
    })
}

/// Name of the rule that rejects a text.
fn rejects(rules: &mut Rules, text: &str, unix: i64) -> Option<String> {
    let now = Now {
        unix,
        dice: 1,
        client: 1,
    };
    let shaper = Shaper::new(1);
    let verdict = rules.decide(&shaper, &fits(), (text.as_bytes(), true), Stage::Run, now);
    verdict
        .rejection
        .map(|rejection| rejection.rule.to_string())
}

#[test]
fn rt_46_a_statement_is_recognised_however_it_is_written() {
    let mut rules = all([rule(
        "stop",
        printed("SELECT * FROM report WHERE id = 42 AND name = 'x'"),
    )]);
    for text in [
        "SELECT * FROM report WHERE id = 42 AND name = 'x'",
        "select *\n  from REPORT -- comment\nwhere id=$1 and name = $2;",
        "/* app */ SELECT * FROM report WHERE id = 1 AND name = E'a\\'b'",
        "SELECT * FROM report WHERE id = 1 AND name = U&'\\0061'",
        "SELECT * FROM report WHERE id = 1 AND name = $$it's$$",
        "SELECT * FROM report WHERE id = 1 AND name = 'a\\'",
        "SELECT * FROM \"report\" WHERE id = 1 AND name = 'b'",
        "SELECT 1; SELECT * FROM report WHERE id = 42 AND name = 'x'",
    ] {
        assert_eq!(
            rejects(&mut rules, text, 0).as_deref(),
            Some("stop"),
            "{text}"
        );
    }
    for text in [
        "SELECT * FROM report WHERE id = 42",
        "SELECT * FROM reports WHERE id = 42 AND name = 'x'",
        "no SQL",
    ] {
        assert_eq!(rejects(&mut rules, text, 0), None, "{text}");
    }
    let (_, hits) = rules.iter().next().unwrap();
    assert_eq!((hits.hits, hits.dry_hits), (8, 0));
}

#[test]
fn rt_47_a_dry_or_ended_rule_changes_nothing() {
    let mut dry = rule("dry", printed("SELECT 1"));
    dry.is_dry = true;
    let mut ended = rule("ended", printed("SELECT 1"));
    ended.expires = Some(100);
    let mut never = rule("sampled", printed("SELECT 1"));
    never.sample = 0;
    let mut rules = all([dry, ended, never, rule("last", printed("SELECT 1"))]);
    assert_eq!(
        rejects(&mut rules, "SELECT 5", 99).as_deref(),
        Some("ended")
    );
    assert_eq!(
        rejects(&mut rules, "SELECT 5", 100).as_deref(),
        Some("last")
    );
    let counts: Vec<_> = rules
        .iter()
        .map(|(_, hits)| (hits.hits, hits.dry_hits, hits.last_hit))
        .collect();
    assert_eq!(counts, [(0, 2, 100), (1, 0, 99), (0, 0, 0), (1, 0, 100)]);
}

#[test]
fn rt_47_a_miss_among_ten_thousand_fingerprints_asks_nothing_but_a_look_up() {
    const COUNT: u32 = 10_000;
    let numbered = |number: u32| {
        let conditions = Conditions {
            fingerprints: vec![Fingerprint(u64::from(number) << 20)],
            ..Conditions::default()
        };
        rule(&format!("rule-{number}"), conditions)
    };
    let mut fits = Fits::default();
    (0..=COUNT).for_each(|number| fits.insert(RuleId(number)));
    let last = rule("last", printed("SELECT a FROM t WHERE b = 1"));
    let many = (0..COUNT).map(numbered).chain([last]);
    let mut rules = Rules::new(many, &mut |_| None);
    let shaper = Shaper::new(1);
    let now = Now {
        unix: 1,
        dice: 1,
        client: 1,
    };
    let ask = |rules: &mut Rules, text: &str| {
        let text = (text.as_bytes(), true);
        let verdict = rules.decide(&shaper, &fits, text, Stage::Run, now);
        verdict
            .rejection
            .map(|rejection| rejection.rule.to_string())
    };
    for number in 0..1_000 {
        let text = format!("SELECT a FROM other WHERE b = {number}");
        assert_eq!(ask(&mut rules, &text), None);
    }
    // The shape was parsed once, and no rule is left to ask.
    let known: Vec<_> = rules.plans.current.values().collect();
    let [plan] = known.as_slice() else {
        panic!("{}", known.len());
    };
    assert!(plan.others.is_empty() && plan.rewrites.is_empty());
    assert_eq!(
        ask(&mut rules, "SELECT a FROM t WHERE b = 7").as_deref(),
        Some("last")
    );
    let lens: Vec<_> = rules
        .plans
        .current
        .values()
        .map(|plan| plan.others.len())
        .collect();
    assert_eq!(lens.iter().sum::<usize>(), 1, "one rule of {COUNT}");
    assert_eq!(rules.iter().filter(|(_, hits)| hits.hits > 0).count(), 1);
}

#[test]
fn a_rule_that_passes_protects_from_the_ones_behind_it() {
    let mut pass = rule(
        "pass",
        Conditions {
            text: Some(TextPattern::new("route='/health'").unwrap()),
            ..Conditions::default()
        },
    );
    pass.action = Action::Pass;
    let selects = Conditions {
        kinds: vec![StatementKind::Select],
        ..Conditions::default()
    };
    let mut rules = all([pass, rule("stop", selects)]);
    assert_eq!(rejects(&mut rules, "SELECT 1 /*route='/health'*/", 0), None);
    assert_eq!(rejects(&mut rules, "SELECT 1", 0).as_deref(), Some("stop"));
}

#[test]
fn a_sample_is_the_share_that_was_asked_for() {
    for share in [1_000, 50_000, 500_000] {
        let sampled = (0..200_000).filter(|dice| Now::is_sampled(*dice, 3, share));
        let expected = f64::from(share) / 5.0;
        let off = (sampled.count() as f64 - expected).abs() / expected;
        assert!(off < 0.3, "{share}: {off}");
    }
}

#[test]
fn counts_go_on_by_name() {
    let mut before = all([
        rule("a", printed("SELECT 1")),
        rule("b", printed("SELECT a")),
    ]);
    rejects(&mut before, "SELECT 1", 7);
    let mut after = all([
        rule("b", printed("SELECT a")),
        rule("a", printed("SELECT 1")),
    ]);
    after.inherit(&before);
    let counts: Vec<_> = after
        .iter()
        .map(|(rule, hits)| (&*rule.name, hits.hits))
        .collect();
    assert_eq!(counts, [("b", 0), ("a", 1)]);
}

#[test]
fn plans_of_many_shapes_are_bounded() {
    let mut rules = all([rule("stop", printed("SELECT 1"))]);
    for number in 0..(3 * PLANS_MAX) {
        rejects(&mut rules, &format!("SELECT c{number}"), 0);
    }
    assert!(rules.plans.current.len() + rules.plans.before.len() <= 2 * PLANS_MAX);
    assert_eq!(rejects(&mut rules, "SELECT 2", 0).as_deref(), Some("stop"));
}

fn verdict(rules: &mut Rules, text: &str, stage: Stage) -> Verdict {
    let now = Now {
        unix: 0,
        dice: 1,
        client: 1,
    };
    rules.decide(
        &Shaper::new(1),
        &fits(),
        (text.as_bytes(), true),
        stage,
        now,
    )
}

#[test]
fn rules_that_go_on_add_to_one_decision() {
    let secs = Duration::from_secs;
    let mut slow = Rule::new("slow", Conditions::default(), Action::Log);
    (slow.log, slow.goes_on) = (Some(secs(1)), true);
    let mut short = Rule::new("short", printed("SELECT 1"), Action::Delay(secs(3)));
    (short.timeout, short.goes_on) = (Some(secs(2)), true);
    let mut few = Rule::new(
        "few",
        Conditions::default(),
        Action::Route(RouteTo::Replica),
    );
    few.timeout = Some(secs(5));
    few.concurrency = Some(Concurrency {
        max: 5,
        queue_max: 9,
    });
    let mut rules = all([slow, short, few, rule("never", Conditions::default())]);
    let decided = verdict(&mut rules, "SELECT 7", Stage::Run);
    assert_eq!(decided.watch.timeout.unwrap().value, secs(2));
    assert_eq!(decided.watch.log.unwrap().value, secs(1));
    assert_eq!(decided.watch.text.as_deref(), Some("SELECT ?"));
    assert_eq!(decided.delay.unwrap().value, secs(3));
    assert_eq!(decided.route.unwrap().value, RouteTo::Replica);
    assert_eq!(decided.limit.map(|limit| limit.max), Some(5));
    assert!(decided.rejection.is_none());
    let decided = verdict(&mut rules, "SELECT a", Stage::Run);
    assert_eq!(decided.watch.timeout.unwrap().value, secs(5));
    assert!(decided.delay.is_none());
}

#[test]
fn preparing_a_statement_counts_only_what_is_rejected() {
    let mut dry = rule("dry", printed("SELECT 1"));
    dry.is_dry = true;
    let mut some = rule("some", printed("SELECT a"));
    some.sample = 1;
    let mut rules = all([
        dry,
        some,
        rule(
            "stop",
            Conditions {
                kinds: vec![StatementKind::Select],
                ..Conditions::default()
            },
        ),
    ]);
    let stopped = |rules: &mut Rules, text| {
        let rejection = verdict(rules, text, Stage::Prepare).rejection;
        rejection.map(|rejection| rejection.rule.to_string())
    };
    assert_eq!(stopped(&mut rules, "SELECT 1").as_deref(), Some("stop"));
    assert_eq!(
        stopped(&mut rules, "SELECT a"),
        None,
        "decided when it runs"
    );
    assert_eq!(rejects(&mut rules, "SELECT a", 0).as_deref(), Some("stop"));
    let hits: Vec<_> = rules
        .iter()
        .map(|(_, hits)| hits.hits + hits.dry_hits)
        .collect();
    assert_eq!(hits, [0, 0, 2]);
}

#[test]
fn the_first_rewriting_that_is_like_the_text_changes_it() {
    let rewrite = |name: &str, pairs: &[(&str, &str)]| {
        let conditions = Conditions {
            fingerprints: pairs
                .iter()
                .map(|(from, _)| Fingerprint::exact(from).unwrap())
                .collect(),
            ..Conditions::default()
        };
        let pairs = pairs
            .iter()
            .map(|(from, to)| Rewriting::new(from, to).unwrap());
        Rule::new(name, conditions, Action::Rewrite(pairs.collect()))
    };
    let mut dry = rewrite("dry", &[("SELECT $1", "SELECT $1 + 9")]);
    dry.is_dry = true;
    let mut rules = all([
        rule("stop", printed("SELECT 1")),
        dry,
        rewrite(
            "a",
            &[("SELECT $1", "SELECT $1 + 1"), ("SELECT b", "SELECT c")],
        ),
        rewrite("b", &[("SELECT $1", "SELECT $1 + 2")]),
    ]);
    let now = Now {
        unix: 0,
        dice: 1,
        client: 1,
    };
    let fits = fits();
    assert!(rules.have_rewrites(&fits));
    let mut new = |text: &str| {
        let new = rules.rewrite(&Shaper::new(1), &fits, text.as_bytes(), now);
        new.map(|text| String::from_utf8(text).unwrap())
    };
    assert_eq!(new("select 7").as_deref(), Some("SELECT 7 + 1"));
    assert_eq!(new("SELECT b").as_deref(), Some("SELECT c"));
    assert_eq!(new("SELECT 7, 8"), None);
    let hits: Vec<_> = rules
        .iter()
        .map(|(_, hits)| (hits.hits, hits.dry_hits))
        .collect();
    assert_eq!(hits, [(0, 0), (0, 1), (2, 0), (0, 0)]);
}
