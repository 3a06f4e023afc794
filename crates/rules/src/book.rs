//! All rules of a group of clients, with an index.

use std::collections::HashMap;
use std::sync::Arc;

use weir_sql::{Facts, Fingerprint};

use crate::conditions::Conditions;
use crate::text::Look;

/// Number of a rule in a [`Book`], in the order of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub u32);

/// Rules in the order of the file.
#[derive(Debug, Default)]
pub struct Book {
    rules: Vec<Option<Entry>>,
    /// Rules that ask for one of some fingerprints.
    by_fingerprint: HashMap<Fingerprint, Vec<RuleId>>,
    /// All other rules.
    others: Vec<RuleId>,
}

#[derive(Debug)]
struct Entry {
    conditions: Conditions,
    goes_on: bool,
}

/// Rules that the statements of one shape may meet, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan(Arc<[Step]>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    rule: RuleId,
    asks_for_text: bool,
}

impl Plan {
    /// Number of rules that a statement of the shape may meet.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// True if no statement of the shape meets a rule.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Rules whose conditions about the client hold for one client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fits(Vec<u64>);

impl Fits {
    /// Adds a rule.
    pub fn insert(&mut self, rule: RuleId) {
        let (word, bit) = place(rule);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    /// True if the rule is one of them.
    #[must_use]
    pub fn contains(&self, rule: RuleId) -> bool {
        let (word, bit) = place(rule);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// True if no rule fits the client.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

fn place(RuleId(number): RuleId) -> (usize, u64) {
    (number as usize / 64, 1 << (number % 64))
}

impl Book {
    /// Adds a rule behind the others, with the next number. If it `goes_on`, later rules may be met too.
    pub fn push(&mut self, conditions: Conditions, goes_on: bool) -> RuleId {
        let id = RuleId(u32::try_from(self.rules.len()).unwrap_or(u32::MAX));
        self.insert(id, conditions, goes_on);
        id
    }

    /// Adds a rule behind the others, with a number that is higher than theirs.
    pub fn insert(&mut self, id: RuleId, conditions: Conditions, goes_on: bool) {
        match conditions.fingerprints.as_slice() {
            [] => self.others.push(id),
            fingerprints => {
                for fingerprint in fingerprints {
                    let rules = self.by_fingerprint.entry(*fingerprint).or_default();
                    if rules.last() != Some(&id) {
                        rules.push(id);
                    }
                }
            }
        }
        self.rules.resize_with(id.0 as usize, || None);
        self.rules.push(Some(Entry {
            conditions,
            goes_on,
        }));
    }

    /// Iterates over the numbers of the rules.
    pub(crate) fn ids(&self) -> impl Iterator<Item = RuleId> {
        let numbered = (0..).map(RuleId).zip(&self.rules);
        numbered
            .filter(|(_, rule)| rule.is_some())
            .map(|(id, _)| id)
    }

    /// Number of rules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rules.iter().flatten().count()
    }

    /// True if there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the rules that statements with these facts may meet; without facts, statements that PostgreSQL's grammar
    /// rejects. The answer is the same for all statements of one shape.
    #[must_use]
    pub fn plan(&self, facts: Option<&Facts>) -> Plan {
        let fingerprint = facts.and_then(|facts| facts.fingerprint);
        let printed = fingerprint.and_then(|fingerprint| self.by_fingerprint.get(&fingerprint));
        let mut steps = Vec::new();
        for rule in printed.into_iter().flatten().chain(&self.others) {
            let Some(entry) = self.entry(*rule) else {
                continue;
            };
            if entry.conditions.hold_for(facts) {
                steps.push(Step {
                    rule: *rule,
                    asks_for_text: entry.conditions.asks_for_text(),
                });
            }
        }
        steps.sort_by_key(|step| step.rule);
        // Behind a rule that every statement of the shape meets, none matters; but it may not fit the client.
        Plan(steps.into())
    }

    /// Calls `visit` with each rule that a text of the plan's shape meets, in the order of the file, up to the first one
    /// that does not go on. `visit` returns false if the rule is not in force, such as one that has expired.
    pub fn met(
        &self,
        plan: &Plan,
        fits: &Fits,
        text: &[u8],
        visit: &mut dyn FnMut(RuleId) -> bool,
    ) {
        let mut look = Look::at(text);
        for step in plan.0.iter().filter(|step| fits.contains(step.rule)) {
            let Some(entry) = self.entry(step.rule) else {
                continue;
            };
            let is_met = !step.asks_for_text || entry.conditions.hold_for_text(&mut look);
            if is_met && visit(step.rule) && !entry.goes_on {
                return;
            }
        }
    }

    fn entry(&self, RuleId(number): RuleId) -> Option<&Entry> {
        self.rules.get(number as usize)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_sql::{Pattern, StatementKind};

    use super::*;
    use crate::text::TextPattern;

    fn rule(change: impl FnOnce(&mut Conditions)) -> Conditions {
        let mut conditions = Conditions::default();
        change(&mut conditions);
        conditions
    }

    fn print(text: &str) -> Fingerprint {
        Fingerprint::exact(text).unwrap()
    }

    /// Rules that a text meets, if all fit the client.
    fn met(book: &Book, text: &str) -> Vec<u32> {
        let mut fits = Fits::default();
        book.ids().for_each(|rule| fits.insert(rule));
        let plan = book.plan(Facts::of(text).as_ref());
        let mut met = Vec::new();
        book.met(&plan, &fits, text.as_bytes(), &mut |RuleId(number)| {
            met.push(number);
            true
        });
        met
    }

    #[test]
    fn the_first_rule_that_is_met_decides_unless_it_goes_on() {
        let mut book = Book::default();
        book.push(
            rule(|it| it.tables.push(Pattern::read("orders").unwrap())),
            true,
        );
        book.push(
            rule(|it| {
                it.fingerprints
                    .push(print("SELECT a FROM orders WHERE b = 1"))
            }),
            false,
        );
        book.push(rule(|it| it.kinds.push(StatementKind::Select)), false);
        book.push(Conditions::default(), false);
        for (text, expected) in [
            ("SELECT a FROM orders WHERE b = 2", vec![0, 1]),
            ("SELECT a FROM orders", vec![0, 2]),
            ("SELECT 1", vec![2]),
            ("UPDATE orders SET a = 1", vec![0, 3]),
            ("UPDATE t SET a = 1", vec![3]),
            ("no SQL", vec![3]),
        ] {
            assert_eq!(met(&book, text), expected, "{text}");
        }
    }

    #[test]
    fn all_conditions_of_a_rule_must_hold() {
        let mut book = Book::default();
        let conditions = rule(|it| {
            it.kinds.push(StatementKind::Select);
            it.functions.push(Pattern::read("app.*").unwrap());
            it.text = Some(TextPattern::new("LIMIT").unwrap());
        });
        book.push(conditions, false);
        for (text, is_met) in [
            ("SELECT app.f(a) FROM t LIMIT 1", true),
            ("SELECT app.f(a) FROM t", false),
            ("SELECT f(a) FROM t LIMIT 1", false),
            ("DELETE FROM t WHERE app.f(a) IN (SELECT 1 LIMIT 1)", false),
        ] {
            assert_eq!(met(&book, text).len(), usize::from(is_met), "{text}");
        }
    }

    #[test]
    fn a_rule_that_is_not_in_force_or_does_not_fit_is_passed_over() {
        let mut book = Book::default();
        for _ in 0..70 {
            book.push(Conditions::default(), false);
        }
        let plan = book.plan(None);
        let mut fits = Fits::default();
        assert!(fits.is_empty());
        fits.insert(RuleId(3));
        fits.insert(RuleId(66));
        assert!(fits.contains(RuleId(66)) && !fits.contains(RuleId(65)));
        let mut seen = Vec::new();
        book.met(&plan, &fits, b"", &mut |RuleId(number)| {
            seen.push(number);
            number == 66
        });
        assert_eq!(seen, [3, 66]);
    }

    proptest! {
        /// The index finds what looking at every rule finds.
        #[test]
        fn the_index_leaves_no_rule_out(
            rules in prop::collection::vec((0..4_usize, 0..3_usize, any::<bool>()), 0..12),
            text in 0..4_usize,
        ) {
            let texts = ["SELECT a FROM t", "SELECT b FROM t", "UPDATE t SET a = 1", "no SQL"];
            let prints: Vec<Option<Fingerprint>> = texts.iter().map(|text| Fingerprint::exact(text)).collect();
            let mut book = Book::default();
            let mut all = Vec::new();
            for (print, kind, goes_on) in rules {
                let conditions = rule(|it| {
                    it.fingerprints.extend(prints[print]);
                    it.kinds.extend([StatementKind::Select, StatementKind::Update].get(kind));
                });
                all.push((conditions.clone(), goes_on));
                book.push(conditions, goes_on);
            }
            let facts = Facts::of(texts[text]);
            let mut expected = Vec::new();
            for (number, (conditions, goes_on)) in (0..).zip(&all) {
                if conditions.hold_for(facts.as_ref()) {
                    expected.push(number);
                    if !goes_on {
                        break;
                    }
                }
            }
            prop_assert_eq!(met(&book, texts[text]), expected);
        }
    }
}
