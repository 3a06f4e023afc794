//! Counts of the statements that rules meet, decided as a running Weir decides.

use std::collections::HashMap;

use weir_config::{NameMask, QueryRule};
use weir_rules::{ALWAYS, Book, Fits, Plan, RuleId};
use weir_sql::{Blank, Facts, ShapeKey, Shaper, sample, without_literals};

use crate::args::InputKind;

/// Maximum length of an example in bytes.
const EXAMPLE_MAX: usize = 160;

/// Maximum number of shapes, and of kinds of clients, of which decisions are kept.
const KEPT_MAX: usize = 10_000;

/// Text of the input, with what is known of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen<'t> {
    /// Text of one or more statements.
    pub(super) text: &'t [u8],
    /// False if the text has been cut.
    pub(super) is_whole: bool,
    /// Facts of a text without literals; `None` for a text as it was sent.
    pub(super) digest: Option<&'t Digest>,
    pub(super) client: Client<'t>,
    /// Number of times that it ran.
    pub(super) calls: u64,
    /// Microseconds on the server of all calls.
    pub(super) server_us: Option<u64>,
}

/// Facts of a digest's statement.
#[derive(Debug)]
pub(super) enum Digest {
    /// Known; without facts, PostgreSQL's grammar rejects the statement.
    Facts(Option<Box<Facts>>),
    /// The text is not whole, or stands for several statements.
    Unknown,
}

/// Names of a client, as far as they are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Client<'t> {
    pub(super) database: Option<&'t str>,
    pub(super) user: Option<&'t str>,
    pub(super) application: Option<&'t str>,
}

/// Statements that were counted together.
#[derive(Debug, Clone, Default)]
pub(super) struct Count {
    pub(super) statements: u64,
    pub(super) calls: u64,
    pub(super) server_us: u64,
    /// Statements without literals, of different shapes.
    pub(super) examples: Vec<String>,
    shapes: Vec<ShapeKey>,
    /// Number of the last text whose time is counted.
    last_text: u64,
}

/// A statement that is being counted.
struct Single<'t> {
    shape: ShapeKey,
    statement: &'t [u8],
    seen: Seen<'t>,
    /// Number of its text, from 1.
    text: u64,
}

/// Counts by rule.
pub(super) struct Tally<'r> {
    pub(super) rules: &'r [QueryRule],
    /// Count of each rule, in their order.
    pub(super) counts: Vec<Count>,
    /// Statements that meet no rule.
    pub(super) unmet: Count,
    /// Statements about which the input tells too little.
    pub(super) undecided: Count,
    pub(super) kind: InputKind,
    /// True if the input has times.
    pub(super) has_times: bool,
    /// Present time, in Unix seconds.
    pub(super) now: i64,
    examples_max: usize,
    texts: u64,
    /// Rules that rewrite, which are asked first.
    rewrites: Book,
    /// All other rules.
    book: Book,
    shaper: Shaper,
    /// Plans of the rules that rewrite, and of the others.
    plans: HashMap<ShapeKey, [Plan; 2]>,
    fits: HashMap<[Option<String>; 3], Fits>,
}

impl<'r> Tally<'r> {
    /// Creates a tally for an input of this kind. Rules that end by `now` meet nothing.
    pub(super) fn new(
        rules: &'r [QueryRule],
        kind: InputKind,
        examples_max: usize,
        now: i64,
    ) -> Self {
        let (mut rewrites, mut book) = (Book::default(), Book::default());
        for (number, rule) in (0..).map(RuleId).zip(rules) {
            let book = match rule.rule.rewrites() {
                true => &mut rewrites,
                false => &mut book,
            };
            book.insert(number, rule.rule.conditions.clone(), rule.rule.goes_on);
        }
        Self {
            rules,
            counts: vec![Count::default(); rules.len()],
            unmet: Count::default(),
            undecided: Count::default(),
            kind,
            has_times: false,
            now,
            examples_max,
            texts: 0,
            rewrites,
            book,
            shaper: Shaper::new(0),
            plans: HashMap::new(),
            fits: HashMap::new(),
        }
    }

    /// True if no statement was added.
    pub(super) fn is_empty(&self) -> bool {
        self.texts == 0
    }

    /// Counts the statements of a text.
    pub(super) fn add(&mut self, seen: Seen<'_>) {
        self.texts += 1;
        self.has_times |= seen.server_us.is_some();
        let text = self.texts;
        let fits = self.fits(seen.client);
        self.shaper
            .clone()
            .shapes(seen.text, seen.is_whole, &mut |shape, place| {
                let single = Single {
                    shape,
                    statement: seen.text.get(place).unwrap_or_default(),
                    seen,
                    text,
                };
                self.add_one(&single, &fits);
            });
    }

    fn add_one(&mut self, single: &Single<'_>, fits: &Fits) {
        let max = self.examples_max;
        let plans = match single.seen.digest {
            None => self.plans(single),
            Some(Digest::Facts(facts)) => self.planned(facts.as_deref()),
            Some(Digest::Unknown) => return self.undecided.add(single, max),
        };
        // Later rules meet what a sample leaves out, and all that a dry run meets.
        let (rules, counts) = (self.rules, &mut self.counts);
        let mut is_met = false;
        for (book, plan) in [&self.rewrites, &self.book].into_iter().zip(&plans) {
            book.met(
                plan,
                fits,
                single.seen.text,
                &mut |RuleId(number)| -> bool {
                    let number = number as usize;
                    let (Some(rule), Some(count)) = (rules.get(number), counts.get_mut(number))
                    else {
                        return false;
                    };
                    is_met = true;
                    count.add(single, max);
                    !rule.rule.is_dry && rule.rule.sample >= ALWAYS
                },
            );
        }
        if !is_met {
            self.unmet.add(single, max);
        }
    }

    /// Plans of the statement's shape.
    fn plans(&mut self, single: &Single<'_>) -> [Plan; 2] {
        if let Some(plans) = self.plans.get(&single.shape) {
            return plans.clone();
        }
        let plans = self.planned(Facts::of(&sample(single.statement)).as_ref());
        if self.plans.len() >= KEPT_MAX {
            self.plans.clear();
        }
        self.plans.insert(single.shape, plans.clone());
        plans
    }

    fn planned(&self, facts: Option<&Facts>) -> [Plan; 2] {
        [&self.rewrites, &self.book].map(|book| book.plan(facts))
    }

    /// Rules that are in force, can be decided, and fit the client as far as it is known.
    fn fits(&mut self, client: Client<'_>) -> Fits {
        let key = [client.database, client.user, client.application];
        let key = key.map(|name| name.map(str::to_owned));
        if let Some(fits) = self.fits.get(&key) {
            return fits.clone();
        }
        let mut fits = Fits::default();
        for (number, rule) in (0..).zip(self.rules) {
            let clients = &rule.clients;
            let is_fit = covers(&clients.databases, client.database)
                && covers(&clients.users, client.user)
                && covers(&clients.applications, client.application);
            if is_fit && !self.has_ended(rule) && self.undecidable(rule).is_empty() {
                fits.insert(RuleId(number));
            }
        }
        if self.fits.len() >= KEPT_MAX {
            self.fits.clear();
        }
        self.fits.insert(key, fits.clone());
        fits
    }

    /// True if later rules are not asked about statements that meet the rule.
    pub(super) fn decides(&self, rule: &QueryRule) -> bool {
        let is_live = !rule.rule.is_dry && !self.has_ended(rule);
        is_live && !rule.rule.goes_on && rule.rule.sample >= ALWAYS
    }

    /// True if a rule is no longer in force.
    pub(super) fn has_ended(&self, rule: &QueryRule) -> bool {
        rule.rule.expires.is_some_and(|end| end <= self.now)
    }

    /// Conditions of a rule that an input of this kind does not decide.
    pub(super) fn undecidable(&self, rule: &QueryRule) -> Vec<&'static str> {
        if self.kind != InputKind::Digests {
            return Vec::new();
        }
        let conditions = &rule.rule.conditions;
        given([
            ("match.text", conditions.text.is_some()),
            ("match.comment", !conditions.comments.is_empty()),
        ])
    }

    /// Conditions of a rule that are taken as met, since an input of this kind does not tell.
    pub(super) fn assumed(&self, rule: &QueryRule) -> Vec<&'static str> {
        let (has_group, has_application) = match self.kind {
            InputKind::Digests => (true, false),
            InputKind::Csvlog => (true, true),
            InputKind::Log | InputKind::Statements => (false, false),
        };
        let clients = &rule.clients;
        given([
            (
                "match.database",
                !has_group && !clients.databases.is_empty(),
            ),
            ("match.user", !has_group && !clients.users.is_empty()),
            (
                "match.application_name",
                !has_application && !clients.applications.is_empty(),
            ),
            ("match.client_addr", !clients.networks.is_empty()),
            ("match.port", !clients.ports.is_empty()),
        ])
    }
}

impl Count {
    fn add(&mut self, single: &Single<'_>, examples_max: usize) {
        self.statements += 1;
        self.calls = self.calls.saturating_add(single.seen.calls);
        // The time is that of the whole text, and a text of several statements may meet a rule several times.
        if self.last_text != single.text {
            self.last_text = single.text;
            let time = single.seen.server_us.unwrap_or_default();
            self.server_us = self.server_us.saturating_add(time);
        }
        if self.examples.len() >= examples_max || self.shapes.contains(&single.shape) {
            return;
        }
        let example = without_literals(single.statement, Blank::Mark, EXAMPLE_MAX);
        if !self.examples.contains(&example) {
            self.shapes.push(single.shape);
            self.examples.push(example);
        }
    }
}

/// True if a list of masks is met by a name, or if the name is not known.
fn covers(masks: &[NameMask], name: Option<&str>) -> bool {
    let is_covered = |name: &str| masks.iter().any(|mask| mask.covers(name));
    masks.is_empty() || name.is_none_or(is_covered)
}

fn given<const COUNT: usize>(conditions: [(&'static str, bool); COUNT]) -> Vec<&'static str> {
    let given = conditions.into_iter().filter(|(_, is_given)| *is_given);
    given.map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests;
