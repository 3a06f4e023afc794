//! Bulkheads of the query rules, shared by all workers.

use std::sync::Arc;

use weir_rules::{Bulkhead, Rule};

/// Bulkheads of the rules by name, which outlive reloads.
#[derive(Debug, Default)]
pub(crate) struct Bulkheads(Vec<(Arc<str>, Arc<Bulkhead>)>);

impl Bulkheads {
    /// Returns the bulkhead of a rule with these limits.
    pub(crate) fn of(&mut self, rule: &Rule) -> Option<Arc<Bulkhead>> {
        let limit = rule.concurrency?;
        if let Some((_, known)) = self.0.iter().find(|(name, _)| *name == rule.name) {
            known.resize(limit.max, limit.queue_max);
            return Some(Arc::clone(known));
        }
        let bulkhead = Bulkhead::new(limit.max, limit.queue_max);
        self.0.push((Arc::clone(&rule.name), Arc::clone(&bulkhead)));
        Some(bulkhead)
    }

    /// Returns all bulkheads.
    pub(crate) fn all(&self) -> Vec<Arc<Bulkhead>> {
        let all = self.0.iter().map(|(_, bulkhead)| Arc::clone(bulkhead));
        all.collect()
    }

    /// Returns the bulkhead of the rule with this name.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Bulkhead>> {
        let found = self.0.iter().find(|(known, _)| **known == *name);
        found.map(|(_, bulkhead)| bulkhead)
    }
}
