//! Orders that hold from one process of an upgrade to the next.

use std::collections::BTreeSet;

use weir_stats::Halts;

use super::{Order, Refusal};
use crate::global::{Global, lock};
use crate::worker::words;

/// Query rules as the text of a table of weir.toml.
pub(super) mod rule_as_text {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use weir_config::QueryRule;

    /// Name of the file in which rules of the console stand.
    const PLACE: &str = "console";

    pub(in crate::orders) fn serialize<S: Serializer>(
        rule: &QueryRule,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        rule.to_toml().serialize(serializer)
    }

    pub(in crate::orders) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Box<QueryRule>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let rules = weir_config::query_rules(PLACE, &text).unwrap_or_default();
        let mut rules = rules.into_iter();
        match (rules.next(), rules.next()) {
            (Some(rule), None) => Ok(Box::new(rule)),
            _ => Err(D::Error::custom("not a query rule")),
        }
    }
}

impl Global {
    /// Returns the orders that hold: pauses, disabled databases, changes of the query rules. Carried out in this order, they
    /// bring another process into the same state.
    pub(crate) fn standing(&self) -> Vec<Order> {
        let Halts {
            all,
            paused,
            disabled,
            // Nobody begins an upgrade while these hold.
            writes: _,
            suspended: _,
        } = self.halts();
        let paused = paused.into_iter().map(|name| Order::Pause(Some(name)));
        let mut orders: Vec<_> = paused.collect();
        orders.extend(all.then_some(Order::Pause(None)));
        orders.extend(disabled.into_iter().map(Order::Disable));
        let configured = &self.settled().settings.rules;
        let rules = lock(&self.halting.rules).standing(configured);
        orders.extend(rules.into_iter().map(Order::Rule));
        orders
    }

    /// Carries out the orders of the process before this one, before the first client comes.
    pub(crate) fn adopt(&self, orders: Vec<Order>) {
        for order in orders {
            let words = words(&order);
            match self.adopt_one(order) {
                Ok(()) => tracing::info!("upgrade: {words} still holds"),
                Err(refusal) => {
                    tracing::warn!("upgrade: {words} does not hold any more: {refusal}")
                }
            }
        }
    }

    fn adopt_one(&self, order: Order) -> Result<(), Refusal> {
        match order {
            Order::Disable(name) => self.set_disabled(&name, true),
            Order::Pause(name) => self.pause(name.as_deref(), "pause"),
            Order::Rule(order) => self.order_rule(order, self.unix()),
            // The other process sends no others.
            _ => Ok(()),
        }
    }

    /// Returns a text about orders that the next process of an upgrade could not take over, and the way out.
    pub(crate) fn unportable(&self) -> Option<(String, &'static str)> {
        let halts = self.halts();
        let list = |names: Vec<&String>| {
            let names: BTreeSet<&str> = names.into_iter().map(String::as_str).collect();
            names.into_iter().collect::<Vec<_>>().join(", ")
        };
        if halts.suspended {
            return Some(("everything is suspended".to_owned(), "RESUME"));
        }
        if !halts.writes.is_empty() {
            let names = list(halts.writes.keys().collect());
            return Some((format!("writes are paused: {names}"), "RESUME them"));
        }
        if halts.all && !self.is_quiet(None) {
            let text = "PAUSE is not complete".to_owned();
            return Some((text, "wait for its end, or RESUME,"));
        }
        let waits = halts
            .paused
            .iter()
            .filter(|name| !self.is_quiet(Some(name)));
        let waits = list(waits.collect());
        (!waits.is_empty()).then(|| {
            let text = format!("PAUSE is not complete: {waits}");
            (text, "wait for its end, or RESUME,")
        })
    }
}
