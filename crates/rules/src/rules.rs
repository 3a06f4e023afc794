//! Rules with what each has done so far.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::FixedState;
use weir_sql::{Blank, Facts, SHAPE_MAX, ShapeKey, Shaper, sample, statements, without_literals};

use crate::allow::AllowList;
use crate::book::{Book, Fits, Plan, RuleId};
use crate::bulkhead::Bulkhead;
use crate::rule::{ALWAYS, Action, RouteTo, Rule};
use crate::verdict::{Limit, Stage, Verdict, Wish};

/// Number of shapes whose plans are kept in each of two generations.
const PLANS_MAX: usize = 5_000;

/// Longest text in a log line, in bytes.
const LOGGED_MAX: usize = 1024;

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
    /// Rules that change texts, which come first.
    rewrites: Book,
    /// All other rules.
    book: Book,
    states: Vec<State>,
    plans: Plans,
    /// List of the statements that the group's user may run, which is asked behind the rules.
    allow: Option<Box<AllowList>>,
}

#[derive(Debug)]
struct State {
    rule: Rule,
    hits: Hits,
    bulkhead: Option<Arc<Bulkhead>>,
}

/// Rules that the statements of a shape may meet.
#[derive(Debug, Clone, Default)]
struct Planned {
    rewrites: Plan,
    others: Plan,
}

/// Plans of the shapes that were seen last.
#[derive(Debug, Default)]
struct Plans {
    current: PlanTable,
    before: PlanTable,
}

/// Plans by shape, whose key has a secret seed already.
type PlanTable = HashMap<ShapeKey, Planned, FixedState>;

impl Plans {
    /// Returns the plan of a shape, which `make` makes if it is not known.
    #[inline]
    fn of(&mut self, shape: ShapeKey, make: impl FnOnce() -> Planned) -> &Planned {
        if self.current.len() >= PLANS_MAX {
            self.before = std::mem::take(&mut self.current);
        }
        let before = &mut self.before;
        let entry = self.current.entry(shape);
        entry.or_insert_with(|| before.remove(&shape).unwrap_or_else(make))
    }
}

/// Circumstances of a decision.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Unix time in seconds.
    pub unix: i64,
    /// Random number, another one for each decision.
    pub dice: u64,
    /// Number of the client. Rules that mirror choose whole sessions by it.
    pub client: u64,
}

impl Now {
    /// True for this share of the decisions about a rule, in parts of a million.
    fn is_sampled(dice: u64, rule: u32, share: u32) -> bool {
        // The finalizer of SplitMix64: rules with the same share do not choose the same statements.
        let mut mixed = dice ^ u64::from(rule).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % u64::from(ALWAYS) < u64::from(share)
    }
}

/// A statement in a text.
#[derive(Debug, Clone, Copy)]
pub struct Statement<'a> {
    /// Shape of the statement.
    pub shape: ShapeKey,
    /// The statement alone.
    pub alone: &'a [u8],
    /// The text around it, with its comments: conditions about a text see this.
    pub whole: &'a [u8],
}

impl Rules {
    /// Creates the rules in this order. `bulkhead` returns what stands in front of a rule with a limit.
    #[must_use]
    pub fn new(
        rules: impl IntoIterator<Item = Rule>,
        bulkhead: &mut dyn FnMut(&Rule) -> Option<Arc<Bulkhead>>,
    ) -> Self {
        let mut all = Self::default();
        for (number, rule) in (0..).map(RuleId).zip(rules) {
            let book = match rule.rewrites() {
                true => &mut all.rewrites,
                false => &mut all.book,
            };
            book.insert(number, rule.conditions.clone(), rule.goes_on);
            all.states.push(State {
                bulkhead: rule.concurrency.and_then(|_| bulkhead(&rule)),
                rule,
                hits: Hits::default(),
            });
        }
        all
    }

    /// True if there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// True if one of these rules changes texts.
    #[must_use]
    pub fn have_rewrites(&self, fits: &Fits) -> bool {
        self.rewrites.ids().any(|rule| fits.contains(rule))
    }

    /// True if a rule limits how many statements run at once.
    #[must_use]
    pub fn have_limits(&self) -> bool {
        self.states.iter().any(|state| state.bulkhead.is_some())
    }

    /// Iterates over the rules with their counts, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&Rule, Hits)> {
        self.states.iter().map(|state| (&state.rule, state.hits))
    }

    /// Takes over the counts of rules that had the same names.
    pub fn inherit(&mut self, before: &Self) {
        let counts: HashMap<&str, Hits> = before
            .iter()
            .map(|(rule, hits)| (&*rule.name, hits))
            .collect();
        for state in &mut self.states {
            if let Some(counted) = counts.get(&*state.rule.name) {
                state.hits = *counted;
            }
        }
    }

    /// Decides on a text of one or more statements; each statement may add to the decision. A text that is not whole is judged
    /// by its beginning, and has no facts.
    pub fn decide(
        &mut self,
        shaper: &Shaper,
        fits: &Fits,
        (text, is_whole): (&[u8], bool),
        stage: Stage,
        now: Now,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        let is_short = is_whole && text.len() <= SHAPE_MAX;
        shaper.shapes_and_keep(text, is_whole, &mut |shape, place| {
            if verdict.rejection.is_none() {
                let statement = Statement {
                    shape,
                    alone: text.get(place).unwrap_or_default(),
                    whole: text,
                };
                self.ask_rules(statement, fits, stage, now, &mut verdict);
                if is_short {
                    self.ask_list(Some(shape), statement.alone, stage, &mut verdict);
                }
            }
        });
        if !is_short {
            self.ask_list_for_long(text, is_whole, stage, &mut verdict);
        }
        verdict
    }

    /// Decides on one whole statement, and adds to a decision.
    pub fn decide_one(
        &mut self,
        statement: Statement<'_>,
        fits: &Fits,
        stage: Stage,
        now: Now,
        verdict: &mut Verdict,
    ) {
        self.ask_rules(statement, fits, stage, now, verdict);
        let shape = Some(statement.shape).filter(|_| statement.alone.len() <= SHAPE_MAX);
        match shape {
            Some(shape) => self.ask_list(Some(shape), statement.alone, stage, verdict),
            None => self.ask_list_for_long(statement.alone, true, stage, verdict),
        }
    }

    /// Puts a list of allowed statements behind the rules.
    pub fn set_allow_list(&mut self, allow: AllowList) {
        self.allow = Some(Box::new(allow));
    }

    /// Returns the list of allowed statements, if there is one.
    #[must_use]
    pub fn allow_list(&self) -> Option<&AllowList> {
        self.allow.as_deref()
    }

    /// True if statements that are not in a list are refused.
    #[must_use]
    pub fn enforce_list(&self) -> bool {
        self.allow.as_ref().is_some_and(|allow| allow.enforces())
    }

    fn ask_list(
        &mut self,
        shape: Option<ShapeKey>,
        statement: &[u8],
        stage: Stage,
        verdict: &mut Verdict,
    ) {
        if let Some(allow) = &mut self.allow
            && verdict.rejection.is_none()
        {
            verdict.rejection = allow.judge(shape, statement, stage);
        }
    }

    /// Asks about each statement of a text that is longer than shapes are.
    fn ask_list_for_long(
        &mut self,
        text: &[u8],
        is_whole: bool,
        stage: Stage,
        verdict: &mut Verdict,
    ) {
        let Some(allow) = self.allow.as_ref().filter(|_| verdict.rejection.is_none()) else {
            return;
        };
        if !is_whole {
            verdict.rejection = allow.judge_unread();
            return;
        }
        statements(text, &mut |place| {
            let statement = text.get(place).unwrap_or_default();
            self.ask_list(None, statement, stage, verdict);
        });
    }

    /// Decides on one statement by the rules, and adds to a decision.
    fn ask_rules(
        &mut self,
        statement: Statement<'_>,
        fits: &Fits,
        stage: Stage,
        now: Now,
        verdict: &mut Verdict,
    ) {
        let (rewrites, book) = (&self.rewrites, &self.book);
        let make = || Planned::new(rewrites, book, statement.alone);
        let plan = &self.plans.of(statement.shape, make).others;
        if plan.is_empty() {
            return;
        }
        let states = &mut self.states;
        self.book
            .met(plan, fits, statement.whole, &mut |RuleId(number)| {
                let Some(state) = states.get_mut(number as usize) else {
                    return false;
                };
                match stage {
                    Stage::Prepare => state.prepares(now, verdict),
                    Stage::Run => state.runs(number, statement, now, verdict),
                }
            });
    }

    /// Returns the rules that a text meets now, in their order, without counting; those that rewrite it come first.
    pub fn met(&mut self, shaper: &Shaper, fits: &Fits, text: &[u8], now: Now) -> Vec<&Rule> {
        let mut met = Vec::new();
        shaper.shapes_and_keep(text, true, &mut |shape, place| {
            let alone = text.get(place).unwrap_or_default();
            let (rewrites, book) = (&self.rewrites, &self.book);
            let make = || Planned::new(rewrites, book, alone);
            let plan = self.plans.of(shape, make);
            for (book, plan) in [(rewrites, &plan.rewrites), (book, &plan.others)] {
                book.met(plan, fits, text, &mut |RuleId(number)| {
                    let rule = self.states.get(number as usize).map(|state| &state.rule);
                    let Some(rule) = rule.filter(|rule| rule.is_in_force(now)) else {
                        return false;
                    };
                    if !met.contains(&number) {
                        met.push(number);
                    }
                    !rule.is_dry
                });
            }
        });
        let rules = met
            .iter()
            .filter_map(|number| self.states.get(*number as usize));
        rules.map(|state| &state.rule).collect()
    }

    /// Returns another text for a text of one statement, if a rule has one.
    pub fn rewrite(
        &mut self,
        shaper: &Shaper,
        fits: &Fits,
        text: &[u8],
        now: Now,
    ) -> Option<Vec<u8>> {
        let mut shape = None;
        shaper.shapes_and_keep(text, true, &mut |key, _| shape = shape.or(Some(key)));
        let (rewrites, book) = (&self.rewrites, &self.book);
        let make = || Planned::new(rewrites, book, text);
        let plan = &self.plans.of(shape?, make).rewrites;
        if plan.is_empty() {
            return None;
        }
        let mut new = None;
        let states = &mut self.states;
        self.rewrites.met(plan, fits, text, &mut |RuleId(number)| {
            let Some(state) = states.get_mut(number as usize) else {
                return false;
            };
            let Action::Rewrite(rewritings) = &state.rule.action else {
                return false;
            };
            if !state.rule.is_in_force(now) || !state.rule.is_sampled(number, now) {
                return false;
            }
            let Some(found) = rewritings
                .iter()
                .find_map(|rewriting| rewriting.apply(text))
            else {
                return false;
            };
            if !state.hits.count(state.rule.is_dry, now) {
                return false;
            }
            new = Some(found);
            true
        });
        new
    }
}

impl Planned {
    #[cold]
    fn new(rewrites: &Book, others: &Book, alone: &[u8]) -> Self {
        let facts = Facts::of(&sample(alone));
        Self {
            rewrites: rewrites.plan(facts.as_ref()),
            others: others.plan(facts.as_ref()),
        }
    }
}

impl Rule {
    fn is_in_force(&self, now: Now) -> bool {
        self.expires.is_none_or(|end| end > now.unix)
    }

    fn is_sampled(&self, number: u32, now: Now) -> bool {
        let dice = match self.action {
            Action::Mirror(_) => now.client,
            _ => now.dice,
        };
        self.sample >= ALWAYS || Now::is_sampled(dice, number, self.sample)
    }
}

impl Hits {
    /// Counts a statement. False if the rule has no effect on it.
    fn count(&mut self, is_dry: bool, now: Now) -> bool {
        self.last_hit = now.unix;
        match is_dry {
            true => self.dry_hits += 1,
            false => self.hits += 1,
        }
        !is_dry
    }
}

impl State {
    /// Decides on a statement that is prepared. True if later rules are not asked.
    fn prepares(&mut self, now: Now, verdict: &mut Verdict) -> bool {
        if !self.rule.is_in_force(now) || self.rule.is_dry {
            return false;
        }
        // A sample is drawn when the statement runs.
        if let (Action::Reject(rejection), ALWAYS) = (&self.rule.action, self.rule.sample)
            && verdict.rejection.is_none()
        {
            self.hits.count(false, now);
            verdict.rejection = Some(Arc::clone(rejection));
        }
        // What the statement names may exist there only.
        if let (Action::Route(to @ RouteTo::Database(_)), ALWAYS, None) =
            (&self.rule.action, self.rule.sample, &verdict.route)
        {
            verdict.route = Some(Wish {
                rule: Arc::clone(&self.rule.name),
                value: to.clone(),
            });
        }
        true
    }

    /// Decides on a statement that is about to run. True if the rule is in force.
    fn runs(
        &mut self,
        number: u32,
        statement: Statement<'_>,
        now: Now,
        verdict: &mut Verdict,
    ) -> bool {
        let rule = &self.rule;
        if !rule.is_in_force(now) || !rule.is_sampled(number, now) {
            return false;
        }
        if !self.hits.count(rule.is_dry, now) {
            return false;
        }
        let wish = |value: Duration| Wish {
            rule: Arc::clone(&rule.name),
            value,
        };
        match &rule.action {
            Action::Delay(time) if verdict.delay.is_none() => verdict.delay = Some(wish(*time)),
            Action::Mirror(to) if verdict.watch.mirror.is_none() => {
                verdict.watch.mirror = Some(Wish {
                    rule: Arc::clone(&rule.name),
                    value: Arc::clone(to),
                });
            }
            Action::Reject(rejection) if verdict.rejection.is_none() => {
                verdict.rejection = Some(Arc::clone(rejection));
            }
            Action::Route(to) if verdict.route.is_none() => {
                verdict.route = Some(Wish {
                    rule: Arc::clone(&rule.name),
                    value: to.clone(),
                });
            }
            _ => {}
        }
        if let Some(timeout) = rule.timeout {
            let is_shorter = |before: &Wish<Duration>| timeout < before.value;
            if verdict.watch.timeout.as_ref().is_none_or(is_shorter) {
                verdict.watch.timeout = Some(wish(timeout));
            }
        }
        if let Some(at_least) = rule.log
            && verdict.watch.log.is_none()
        {
            let text = without_literals(statement.alone, Blank::Mark, LOGGED_MAX);
            verdict.watch.log = Some(wish(at_least));
            verdict.watch.text = Some(text.into());
        }
        if let (Some(bulkhead), Some(concurrency), None) =
            (&self.bulkhead, rule.concurrency, &verdict.limit)
        {
            verdict.limit = Some(Limit {
                rule: Arc::clone(&rule.name),
                max: concurrency.max,
                bulkhead: Arc::clone(bulkhead),
            });
        }
        true
    }
}

#[cfg(test)]
mod tests;
