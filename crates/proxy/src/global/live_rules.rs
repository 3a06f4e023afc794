//! Query rules in force: those of the configuration, and what the console has changed since the process began.

use std::collections::{BTreeMap, BTreeSet};

use weir_config::QueryRule;

use crate::orders::{Refusal, RuleOrder};

/// Maximum number of rules that the console adds.
const ADDED_MAX: usize = 1_000;

/// Changes of query rules by the console. They survive a reload, by the names of the rules.
#[derive(Debug, Default)]
pub(crate) struct LiveRules {
    /// Added rules, which come before those of the configuration, the last one first.
    added: Vec<QueryRule>,
    dropped: BTreeSet<String>,
    /// Rules that only count, or are in force, whatever the configuration says.
    dry: BTreeMap<String, bool>,
}

impl LiveRules {
    /// Returns the rules in force, in the order in which they are asked.
    pub(crate) fn effective(&self, configured: &[QueryRule]) -> Vec<QueryRule> {
        let is_added = |name: &str| self.added.iter().any(|rule| *rule.rule.name == *name);
        let own = self.added.iter().rev();
        let kept = configured.iter().filter(|rule| {
            let name = &*rule.rule.name;
            !self.dropped.contains(name) && !is_added(name)
        });
        let rules = own.chain(kept).map(|rule| {
            let mut rule = rule.clone();
            if let Some(is_dry) = self.dry.get(&*rule.rule.name) {
                rule.rule.is_dry = *is_dry;
            }
            rule
        });
        rules.collect()
    }

    /// Returns the orders that make the same changes in another process.
    pub(crate) fn standing(&self, configured: &[QueryRule]) -> Vec<RuleOrder> {
        let is_replaced = |name: &str| configured.iter().any(|rule| *rule.rule.name == *name);
        let replaced = self.added.iter().map(|rule| rule.rule.name.to_string());
        let replaced = replaced.filter(|name| is_replaced(name));
        let dropped = self.dropped.iter().cloned().chain(replaced);
        let mut orders: Vec<_> = dropped.map(RuleOrder::Drop).collect();
        orders.extend(self.added.iter().map(|rule| RuleOrder::Add {
            rule: Box::new(rule.clone()),
            seconds: None,
        }));
        let dry = self.dry.iter();
        orders.extend(dry.map(|(name, is_dry)| RuleOrder::Dry(name.clone(), *is_dry)));
        orders
    }

    /// Carries out an order at this Unix time in seconds.
    pub(crate) fn apply(
        &mut self,
        order: RuleOrder,
        configured: &[QueryRule],
        unix: i64,
    ) -> Result<(), Refusal> {
        let rules = self.effective(configured);
        let exists = |name: &str| rules.iter().any(|rule| *rule.rule.name == *name);
        match order {
            RuleOrder::Add { mut rule, seconds } => {
                self.added
                    .retain(|rule| rule.rule.expires.is_none_or(|end| end > unix));
                let name = rule.rule.name.to_string();
                if exists(&name) {
                    return Err(Refusal::RuleExists(name));
                }
                if self.added.len() >= ADDED_MAX {
                    return Err(Refusal::TooManyRules(ADDED_MAX));
                }
                if let Some(seconds) = seconds {
                    rule.rule.expires = Some(unix.saturating_add(seconds));
                }
                if rule.rule.expires.is_some_and(|end| end <= unix) {
                    return Err(Refusal::RuleExpired(name));
                }
                self.dropped.remove(&name);
                self.added.push(*rule);
            }
            RuleOrder::Drop(name) => {
                if !exists(&name) {
                    return Err(Refusal::NoRule(name));
                }
                self.added.retain(|rule| *rule.rule.name != *name);
                self.dry.remove(&name);
                if configured.iter().any(|rule| *rule.rule.name == *name) {
                    self.dropped.insert(name);
                }
            }
            RuleOrder::Dry(name, is_dry) => {
                if !exists(&name) {
                    return Err(Refusal::NoRule(name));
                }
                self.dry.insert(name, is_dry);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(names: &[&str]) -> Vec<QueryRule> {
        let text: String = names
            .iter()
            .map(|name| {
                format!("[[rules]]\nname = \"{name}\"\nmatch.kind = \"ddl\"\naction = \"reject\"\n")
            })
            .collect();
        weir_config::query_rules("console", &text).unwrap()
    }

    fn add(name: &str, seconds: Option<i64>) -> RuleOrder {
        RuleOrder::Add {
            rule: Box::new(rules(&[name]).remove(0)),
            seconds,
        }
    }

    #[test]
    fn another_process_makes_the_same_changes() {
        let configured = rules(&["a", "b", "c"]);
        let mut live = LiveRules::default();
        let orders = [
            add("x", None),
            RuleOrder::Drop("a".to_owned()),
            add("a", Some(60)),
            RuleOrder::Drop("b".to_owned()),
            RuleOrder::Dry("c".to_owned(), true),
            add("y", None),
            RuleOrder::Dry("x".to_owned(), true),
        ];
        for order in orders {
            live.apply(order, &configured, 1_000).unwrap();
        }
        let mut next = LiveRules::default();
        for order in live.standing(&configured) {
            let packet = postcard::to_extend(&order, Vec::new()).unwrap();
            let order = postcard::from_bytes(&packet).unwrap();
            next.apply(order, &configured, 1_001).unwrap();
        }
        let expected = ["y", "a", "x (dry)", "c (dry)"];
        assert_eq!(names(&live, &configured), expected);
        assert_eq!(names(&next, &configured), expected);
        let ends = |live: &LiveRules| live.effective(&configured)[1].rule.expires;
        assert_eq!((ends(&live), ends(&next)), (Some(1_060), Some(1_060)));
    }

    fn names(live: &LiveRules, configured: &[QueryRule]) -> Vec<String> {
        let rules = live.effective(configured);
        let shown = rules.iter().map(|rule| match rule.rule.is_dry {
            true => format!("{} (dry)", rule.rule.name),
            false => rule.rule.name.to_string(),
        });
        shown.collect()
    }

    #[test]
    fn what_the_console_changes_survives_a_reload_by_name() {
        let mut live = LiveRules::default();
        let file = rules(&["a", "b"]);
        live.apply(add("c", None), &file, 0).unwrap();
        live.apply(add("d", Some(60)), &file, 0).unwrap();
        live.apply(RuleOrder::Drop("a".into()), &file, 0).unwrap();
        live.apply(RuleOrder::Dry("b".into(), true), &file, 0)
            .unwrap();
        assert_eq!(names(&live, &file), ["d", "c", "b (dry)"]);
        assert_eq!(live.effective(&file)[0].rule.expires, Some(60));
        let reloaded = rules(&["b", "a", "e", "c"]);
        assert_eq!(names(&live, &reloaded), ["d", "c", "b (dry)", "e"]);
        live.apply(RuleOrder::Dry("b".into(), false), &reloaded, 0)
            .unwrap();
        live.apply(add("a", None), &reloaded, 0).unwrap();
        assert_eq!(names(&live, &reloaded), ["a", "d", "c", "b", "e"]);
        // A dropped rule of the console is gone, and the file's own stays away.
        live.apply(RuleOrder::Drop("a".into()), &reloaded, 0)
            .unwrap();
        assert_eq!(names(&live, &reloaded), ["d", "c", "b", "e"]);
    }

    #[test]
    fn orders_that_make_no_sense_are_refused() {
        let mut live = LiveRules::default();
        let file = rules(&["a"]);
        let name = || "x".to_owned();
        assert_eq!(
            live.apply(RuleOrder::Drop(name()), &file, 0),
            Err(Refusal::NoRule(name()))
        );
        assert_eq!(
            live.apply(RuleOrder::Dry(name(), true), &file, 0),
            Err(Refusal::NoRule(name()))
        );
        assert_eq!(
            live.apply(add("a", None), &file, 0),
            Err(Refusal::RuleExists("a".into()))
        );
        assert_eq!(
            live.apply(add("x", Some(0)), &file, 9),
            Err(Refusal::RuleExpired(name()))
        );
    }

    #[test]
    fn a_name_is_free_again_when_its_rule_has_expired() {
        let mut live = LiveRules::default();
        live.apply(add("x", Some(60)), &[], 0).unwrap();
        assert!(live.apply(add("x", None), &[], 59).is_err());
        live.apply(add("y", None), &[], 60).unwrap();
        live.apply(add("x", None), &[], 60).unwrap();
    }
}
