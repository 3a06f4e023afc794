//! Rules with their actions, and what each has done so far.

use std::collections::HashMap;
use std::sync::Arc;

use weir_sql::{Facts, ShapeKey, Shaper, sample};

use crate::book::{Book, Fits, Plan, RuleId};
use crate::conditions::Conditions;

/// Parts of a million that stand for every statement.
pub const ALWAYS: u32 = 1_000_000;

/// Number of shapes whose plans are kept in each of two generations.
const PLANS_MAX: usize = 5_000;

/// Error that a rule gives in place of a statement's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Name of the rule.
    pub rule: Arc<str>,
    /// Message of the error.
    pub message: String,
    /// SQLSTATE of the error.
    pub code: [u8; 5],
    /// Hint of the error; empty without one.
    pub hint: String,
}

/// Effect of a rule on the statements that meet it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// No effect: later rules are not asked.
    Pass,
    /// The statement fails.
    Reject(Arc<Rejection>),
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Name, unique among the rules.
    pub name: Arc<str>,
    /// Conditions about the statement.
    pub conditions: Conditions,
    /// Effect of the rule.
    pub action: Action,
    /// True if the rule only counts what it would do.
    pub is_dry: bool,
    /// Unix time in seconds at which the rule ends.
    pub expires: Option<i64>,
    /// Share of the statements for which the rule is in force, in parts of a million.
    pub sample: u32,
    /// True if later rules may be met too.
    pub goes_on: bool,
}

/// Counts of a rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hits {
    /// Statements that met the rule while it was in force.
    pub hits: u64,
    /// Statements that met the rule while it only counted.
    pub dry_hits: u64,
    /// Unix time in seconds of the last of either.
    pub last_hit: i64,
}

/// Rules of a group of clients, and what they have done on one worker.
#[derive(Debug, Default)]
pub struct Rules {
    book: Book,
    states: Vec<(Rule, Hits)>,
    plans: Plans,
}

/// Plans of the shapes that were seen last.
#[derive(Debug, Default)]
struct Plans {
    current: HashMap<ShapeKey, Plan>,
    before: HashMap<ShapeKey, Plan>,
}

impl Plans {
    fn find(&mut self, shape: ShapeKey) -> Option<Plan> {
        if let Some(plan) = self.current.get(&shape) {
            return Some(plan.clone());
        }
        let plan = self.before.remove(&shape)?;
        self.keep(shape, plan.clone());
        Some(plan)
    }

    fn keep(&mut self, shape: ShapeKey, plan: Plan) {
        if self.current.len() >= PLANS_MAX {
            self.before = std::mem::take(&mut self.current);
        }
        self.current.insert(shape, plan);
    }
}

/// Circumstances of a decision.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Unix time in seconds.
    pub unix: i64,
    /// Random number, another one for each decision.
    pub dice: u64,
}

impl Now {
    /// True for this share of the decisions about a rule, in parts of a million.
    fn is_sampled(self, rule: u32, share: u32) -> bool {
        // The finalizer of SplitMix64: rules with the same share do not choose the same statements.
        let mut mixed = self.dice ^ u64::from(rule).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % u64::from(ALWAYS) < u64::from(share)
    }
}

impl Rules {
    /// Creates the rules in this order.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut all = Self::default();
        for rule in rules {
            all.book.push(rule.conditions.clone(), rule.goes_on);
            all.states.push((rule, Hits::default()));
        }
        all
    }

    /// True if there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Iterates over the rules with their counts, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&Rule, Hits)> {
        self.states.iter().map(|(rule, hits)| (rule, *hits))
    }

    /// Takes over the counts of rules that had the same names.
    pub fn inherit(&mut self, before: &Self) {
        let counts: HashMap<&str, Hits> = before
            .iter()
            .map(|(rule, hits)| (&*rule.name, hits))
            .collect();
        for (rule, hits) in &mut self.states {
            if let Some(counted) = counts.get(&*rule.name) {
                *hits = *counted;
            }
        }
    }

    /// Decides on a text of one or more statements. Returns the error of the first statement that is rejected. A text that is
    /// not whole is judged by its beginning, and has no facts.
    pub fn decide(
        &mut self,
        shaper: &Shaper,
        fits: &Fits,
        text: &[u8],
        is_whole: bool,
        now: Now,
    ) -> Option<Arc<Rejection>> {
        let mut rejected = None;
        shaper.shapes(text, is_whole, &mut |shape, place| {
            if rejected.is_none() {
                let statement = text.get(place).unwrap_or_default();
                rejected = self.decide_one(shape, fits, statement, text, now);
            }
        });
        rejected
    }

    /// Decides on one statement of a known shape. Conditions about a text see `whole`, which has the comments around the
    /// statement.
    pub fn decide_one(
        &mut self,
        shape: ShapeKey,
        fits: &Fits,
        statement: &[u8],
        whole: &[u8],
        now: Now,
    ) -> Option<Arc<Rejection>> {
        let plan = match self.plans.find(shape) {
            Some(plan) => plan,
            None => {
                let plan = self.book.plan(Facts::of(&sample(statement)).as_ref());
                self.plans.keep(shape, plan.clone());
                plan
            }
        };
        if plan.is_empty() {
            return None;
        }
        let mut rejected = None;
        let states = &mut self.states;
        self.book.met(&plan, fits, whole, &mut |RuleId(number)| {
            let Some((rule, hits)) = states.get_mut(number as usize) else {
                return false;
            };
            let has_ended = rule.expires.is_some_and(|end| end <= now.unix);
            let is_sampled = || rule.sample >= ALWAYS || now.is_sampled(number, rule.sample);
            if has_ended || !is_sampled() {
                return false;
            }
            hits.last_hit = now.unix;
            if rule.is_dry {
                hits.dry_hits += 1;
                return false;
            }
            hits.hits += 1;
            if let (Action::Reject(rejection), None) = (&rule.action, &rejected) {
                rejected = Some(Arc::clone(rejection));
            }
            true
        });
        rejected
    }
}

#[cfg(test)]
mod tests {
    use weir_sql::{Fingerprint, StatementKind};

    use super::*;
    use crate::text::TextPattern;

    fn rule(name: &str, conditions: Conditions) -> Rule {
        let rejection = Rejection {
            rule: name.into(),
            message: format!("rejected by {name}"),
            code: *b"42501",
            hint: String::new(),
        };
        Rule {
            name: name.into(),
            conditions,
            action: Action::Reject(Arc::new(rejection)),
            is_dry: false,
            expires: None,
            sample: ALWAYS,
            goes_on: false,
        }
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

    /// Name of the rule that rejects a text.
    fn rejects(rules: &mut Rules, text: &str, unix: i64) -> Option<String> {
        let now = Now { unix, dice: 1 };
        let shaper = Shaper::new(1);
        let rejected = rules.decide(&shaper, &fits(), text.as_bytes(), true, now);
        rejected.map(|rejection| rejection.rule.to_string())
    }

    #[test]
    fn rt_46_a_statement_is_recognised_however_it_is_written() {
        let mut rules = Rules::new([rule(
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
        let mut rules = Rules::new([dry, ended, never, rule("last", printed("SELECT 1"))]);
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
        let mut rules = Rules::new([pass, rule("stop", selects)]);
        assert_eq!(rejects(&mut rules, "SELECT 1 /*route='/health'*/", 0), None);
        assert_eq!(rejects(&mut rules, "SELECT 1", 0).as_deref(), Some("stop"));
    }

    #[test]
    fn a_sample_is_the_share_that_was_asked_for() {
        for share in [1_000, 50_000, 500_000] {
            let sampled = (0..200_000).filter(|dice| {
                let now = Now {
                    unix: 0,
                    dice: *dice,
                };
                now.is_sampled(3, share)
            });
            let expected = f64::from(share) / 5.0;
            let off = (sampled.count() as f64 - expected).abs() / expected;
            assert!(off < 0.3, "{share}: {off}");
        }
    }

    #[test]
    fn counts_go_on_by_name() {
        let mut before = Rules::new([
            rule("a", printed("SELECT 1")),
            rule("b", printed("SELECT a")),
        ]);
        rejects(&mut before, "SELECT 1", 7);
        let mut after = Rules::new([
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
        let mut rules = Rules::new([rule("stop", printed("SELECT 1"))]);
        for number in 0..(3 * PLANS_MAX) {
            rejects(&mut rules, &format!("SELECT c{number}"), 0);
        }
        assert!(rules.plans.current.len() + rules.plans.before.len() <= 2 * PLANS_MAX);
        assert_eq!(rejects(&mut rules, "SELECT 2", 0).as_deref(), Some("stop"));
    }
}
