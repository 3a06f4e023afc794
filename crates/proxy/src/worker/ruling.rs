//! Query rules on this worker: which of them concern a client, and what they have done.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use weir_config::{QueryRule, RuleClients, parse_seconds};
use weir_rules::{Action, Bulkhead, Fits, Now, RouteTo, Rule, RuleId, Rules};
use weir_session::relay::{self, Batch};
use weir_session::ruled::Ruling;
use weir_session::settings::Reported;
use weir_sql::Shaper;
use weir_stats::{RuleCounts, RuleRow, Snapshot};

use super::Worker;
use super::mirroring::Collected;
use super::routing::wrong_hint;
use super::slots::{Client, Group};
use super::tables::Tables;
use crate::driver::Driver;
use crate::global::{Global, GlobalGroup, GroupKey, lock};

/// Query rules of a group.
#[derive(Debug)]
pub(super) struct GroupRules {
    rules: Rules,
    /// Conditions about the client, in the order of the rules.
    clients: Vec<RuleClients>,
    /// Number that differs from that of all other rules.
    version: u64,
    /// True if hints in comments count.
    hints: bool,
    /// True if a rule wants something before a transaction gets a server.
    pub(super) come_before_lease: bool,
    /// True if a rule sends transactions to another database.
    pub(super) leave: bool,
}

/// Rules that fit a client.
#[derive(Debug)]
pub(super) struct ClientRules {
    /// Number of the client.
    number: u64,
    /// True if the client brings the decision of its own database's rules.
    is_away: bool,
    version: u64,
    /// Reported values that decided, of which `application_name` is one.
    reported: Arc<Reported>,
    fits: Fits,
    /// True if one of them changes texts.
    pub(super) rewrite: bool,
    /// True if a hint without a meaning was logged for this client.
    told_hint: bool,
    /// Mirrored requests of the transaction in front.
    pub(super) mirrored: Collected,
}

impl<D: Driver> Worker<D> {
    /// Puts the query rules in force for all groups.
    pub(super) fn settle_rules(&mut self) {
        lock(&self.global.halting.statements).settle(&self.global.settled().settings);
        (self.has_rules, self.has_rewrites) = (false, false);
        for (_, group) in self.tables.groups.iter_mut() {
            let before = group.query_rules.as_deref();
            let hints = group.settings.comment_hints;
            group.query_rules = query_rules(&self.global, &group.global, before, hints);
            self.has_rules |= group.query_rules.is_some();
            self.has_rewrites |= may_rewrite(group.query_rules.as_deref());
        }
        self.settle_bulkheads();
        self.settle_mirrors();
    }

    /// Returns the Unix time in seconds and a random number for decisions of query rules; anything if there are no rules.
    #[inline]
    pub(super) fn luck(&mut self) -> (u64, u64) {
        if !self.has_rules {
            return (0, 0);
        }
        self.dice = self.dice.wrapping_add(1 << 20);
        (self.global.clock.unix_seconds(self.now), self.dice)
    }
}

/// Returns the query rules of a group, with the counts of those before; none if no rule concerns it.
pub(super) fn query_rules(
    global: &Global,
    group: &GlobalGroup,
    before: Option<&GroupRules>,
    hints: bool,
) -> Option<Box<GroupRules>> {
    let rules = global.query_rules();
    if !group.key.purpose.serves_clients() {
        return None;
    }
    let settled = global.settled();
    let allow = lock(&global.halting.statements).allow_list(&settled.settings, &group.key.user);
    let is_guarded = hints || allow.is_some();
    if rules.is_empty() && !is_guarded {
        return None;
    }
    let mut bulkheads = lock(&global.halting.bulkheads);
    let mut bulkhead = |rule: &Rule| bulkheads.of(rule);
    let mut found = GroupRules::new(&rules, &group.key, global.next_id(), before, &mut bulkhead);
    found.hints = hints;
    if let Some(allow) = allow {
        found.rules.set_allow_list(allow);
    }
    (is_guarded || !found.rules.is_empty()).then(|| Box::new(found))
}

/// True if one of the rules changes texts.
pub(super) fn may_rewrite(rules: Option<&GroupRules>) -> bool {
    rules.is_some_and(|group| group.rules.iter().any(|(rule, _)| rule.rewrites()))
}

impl GroupRules {
    /// Returns no rules, for clients that bring the decision of another group.
    pub(super) fn empty(version: u64) -> Self {
        Self {
            rules: Rules::default(),
            clients: Vec::new(),
            version,
            hints: false,
            come_before_lease: false,
            leave: false,
        }
    }

    /// True if a rule sends the transaction of this text to another database.
    pub(super) fn sends_away(
        &mut self,
        client: &ClientRules,
        shaper: &Shaper,
        text: &[u8],
        unix: i64,
    ) -> bool {
        let now = Now {
            unix,
            dice: 0,
            client: client.number,
        };
        let met = self.rules.met(shaper, &client.fits, text, now);
        met.iter().any(|rule| !rule.is_dry && rule.leaves())
    }

    /// Returns the rules of a group, with the counts of those before.
    fn new(
        all: &[QueryRule],
        key: &GroupKey,
        version: u64,
        before: Option<&Self>,
        bulkhead: &mut dyn FnMut(&Rule) -> Option<Arc<Bulkhead>>,
    ) -> Self {
        let of_group = |rule: &&QueryRule| rule.clients.has_group(&key.database, &key.user);
        let found: Vec<&QueryRule> = all.iter().filter(of_group).collect();
        let mut all_of_group = found.iter().map(|rule| &rule.rule);
        let come_before_lease = all_of_group.clone().any(Rule::comes_before_lease);
        let leave = all_of_group.any(Rule::leaves);
        let mut rules = Rules::new(found.iter().map(|rule| rule.rule.clone()), bulkhead);
        if let Some(before) = before {
            rules.inherit(&before.rules);
        }
        Self {
            rules,
            clients: found.iter().map(|rule| rule.clients.clone()).collect(),
            version,
            hints: false,
            come_before_lease,
            leave,
        }
    }
}

/// Answer of a group's query rules about a text, for people.
#[derive(Debug, Default)]
pub(super) struct Explained {
    /// Host that a rule asks for.
    pub(super) route: Option<RouteTo>,
    /// A line for each rule that the text meets.
    pub(super) notes: Vec<String>,
}

impl GroupRules {
    /// Returns what the rules say about a text of a client. Rules for some clients only are named, and do not decide.
    pub(super) fn explain(&mut self, shaper: &Shaper, text: &[u8], unix: i64) -> Explained {
        let mut fits = Fits::default();
        let mut is_for_some = HashSet::new();
        for (number, (clients, (rule, _))) in (0..)
            .map(RuleId)
            .zip(self.clients.iter().zip(self.rules.iter()))
        {
            fits.insert(number);
            if !clients.is_for_all() {
                is_for_some.insert(Arc::clone(&rule.name));
            }
        }
        let now = Now {
            unix,
            dice: 0,
            client: 0,
        };
        let mut found = Explained::default();
        for rule in self.rules.met(shaper, &fits, text, now) {
            let for_some = is_for_some.contains(&rule.name);
            let extent = match (rule.is_dry, for_some) {
                (true, _) => ", which only counts (dry run)",
                (false, true) => {
                    ", if application_name, address and port of the client meet it too"
                }
                (false, false) => "",
            };
            let action = match &rule.action {
                Action::Route(RouteTo::Database(name)) => format!("route to database {name}"),
                action => weir_config::action_name(action).to_owned(),
            };
            found
                .notes
                .push(format!("meets rule {} ({action}){extent}", rule.name));
            if let (Action::Route(to), false, false, None) =
                (&rule.action, rule.is_dry, for_some, &found.route)
            {
                found.route = Some(to.clone());
            }
        }
        found
    }
}

impl Client {
    /// Finds the rules that fit the client, if they or its `application_name` have changed. True if there are any.
    pub(super) fn fit_rules(&mut self, group: &GroupRules) -> bool {
        let reported = self.session.reported();
        let is_known = self.rules.as_ref().is_some_and(|known| {
            known.version == group.version && Arc::ptr_eq(&known.reported, reported)
        });
        if !is_known {
            let application = reported.get("application_name").unwrap_or_default();
            let address: Option<IpAddr> = self.identity.remote.address.parse().ok();
            let mut fits = Fits::default();
            for (number, clients) in (0..).zip(&group.clients) {
                // The statements of a mirror have met the rules before.
                if !self.is_mirror
                    && clients.has_client(application, address, self.identity.local.port)
                {
                    fits.insert(RuleId(number));
                }
            }
            let before = self.rules.take();
            self.rules = Some(Box::new(ClientRules {
                number: self.id,
                told_hint: before.as_ref().is_some_and(|known| known.told_hint),
                is_away: self.away.is_some(),
                version: group.version,
                reported: Arc::clone(reported),
                rewrite: group.rules.have_rewrites(&fits),
                fits,
                mirrored: before.map_or_else(Collected::default, |before| before.mirrored),
            }));
        }
        self.rules
            .as_ref()
            .is_some_and(|rules| !rules.fits.is_empty())
    }
}

impl Client {
    /// Returns what to log about a hint without a meaning in the first text of a batch: once for each client, and only for a
    /// database with one host, since the router reads the hints of others.
    pub(super) fn wrong_hint(&mut self, group: &Group, batch: &Batch<'_>) -> Option<String> {
        let reads = group.query_rules.as_ref().is_some_and(|rules| rules.hints);
        let rules = self.rules.as_mut().filter(|rules| !rules.told_hint);
        let rules = rules.filter(|_| reads && group.routing.is_none())?;
        let told = wrong_hint(relay::first_text(batch, &self.session)?)?;
        rules.told_hint = true;
        Some(told)
    }
}

/// Returns the rules for requests of a client, which [`Client::fit_rules`] has found.
pub(super) fn ruling<'a>(
    group: &'a mut Option<Box<GroupRules>>,
    client: &'a Option<Box<ClientRules>>,
    shaper: &'a Shaper,
    (unix, dice): (u64, u64),
) -> Option<Ruling<'a>> {
    let (group, client) = (group.as_mut()?, client.as_ref()?);
    let is_listed = group.rules.allow_list().is_some();
    if client.fits.is_empty() && !group.hints && !client.is_away && !is_listed {
        return None;
    }
    Some(Ruling {
        hints: group.hints.then_some(parse_seconds),
        rules: &mut group.rules,
        fits: &client.fits,
        shaper,
        now: Now {
            unix: i64::try_from(unix).unwrap_or(i64::MAX),
            dice,
            client: client.number,
        },
    })
}

impl Tables {
    /// Adds the counts of the query rules.
    pub(super) fn show_rules(&self, snapshot: &mut Snapshot) {
        for (_, group) in &self.groups {
            let Some(rules) = &group.query_rules else {
                continue;
            };
            for (rule, hits) in rules.rules.iter() {
                let counts = snapshot.rule_counts.entry(rule.name.to_string());
                *counts.or_default() += RuleCounts {
                    hits: hits.hits,
                    dry_hits: hits.dry_hits,
                    last_hit: hits.last_hit,
                };
            }
        }
    }
}

/// Returns the rows of the rules in force, with the counts of all workers.
pub(crate) fn rule_rows(global: &Global, snapshot: &Snapshot) -> Vec<RuleRow> {
    let rules = global.query_rules();
    let bulkheads = lock(&global.halting.bulkheads);
    let rows = rules.iter().map(|found| {
        let rule = &found.rule;
        let counts = snapshot.rule_counts.get(&*rule.name);
        let bulkhead = rule.concurrency.and_then(|_| bulkheads.named(&rule.name));
        let occupancy = bulkhead.map(|bulkhead| bulkhead.occupancy());
        let has_ended = rule.expires.is_some_and(|end| end <= snapshot.unix);
        RuleRow {
            name: rule.name.to_string(),
            action: found.action(),
            state: match (has_ended, rule.is_dry) {
                (true, _) => "expired",
                (false, true) => "dry run",
                (false, false) => "in force",
            },
            expires: rule.expires,
            sample: rule.sample,
            goes_on: rule.goes_on,
            cost: match rule.conditions.asks_for_text() {
                true => "text",
                false => "shape",
            },
            place: found.at.to_string(),
            counts: counts.copied().unwrap_or_default(),
            running: occupancy.map(|it| it.running),
            waiting: occupancy.map(|it| it.waiting),
            refused: occupancy.map(|it| it.refused),
        }
    });
    rows.collect()
}
