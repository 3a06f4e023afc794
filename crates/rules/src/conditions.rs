//! Conditions of one rule about a statement.

use weir_sql::{Facts, Fingerprint, Named, Pattern, StatementKind};

use crate::text::{CommentPattern, Look, TextPattern};

/// Conditions of a rule about a statement. All of those that are given must hold; of a list, one of its elements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Kinds of statements.
    pub kinds: Vec<StatementKind>,
    /// Names of tables and views.
    pub tables: Vec<Pattern>,
    /// Names of functions.
    pub functions: Vec<Pattern>,
    /// Fingerprints ([`Fingerprint::exact`]).
    pub fingerprints: Vec<Fingerprint>,
    /// Regular expression over the text.
    pub text: Option<TextPattern>,
    /// Keys and values in comments, all of which must be there.
    pub comments: Vec<CommentPattern>,
}

impl Conditions {
    /// True if no condition is given, so that every statement meets the rule.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        !self.asks_for_facts() && !self.asks_for_text()
    }

    /// True if the shape of a statement decides about a part of the conditions.
    pub(crate) fn asks_for_facts(&self) -> bool {
        !(self.kinds.is_empty()
            && self.tables.is_empty()
            && self.functions.is_empty()
            && self.fingerprints.is_empty())
    }

    /// True if each text has to be looked at.
    #[must_use]
    pub fn asks_for_text(&self) -> bool {
        self.text.is_some() || !self.comments.is_empty()
    }

    /// True if a statement with these facts, or one that PostgreSQL's grammar rejects, meets the conditions that its shape
    /// decides. Nothing is known of the latter, so it meets none.
    pub(crate) fn hold_for(&self, facts: Option<&Facts>) -> bool {
        let Some(facts) = facts else {
            return !self.asks_for_facts();
        };
        let names = |patterns: &[Pattern], names: &[Named]| {
            patterns.is_empty()
                || names.iter().any(|named| {
                    let mut patterns = patterns.iter();
                    patterns.any(|pattern| pattern.covers(named.schema.as_deref(), &named.name))
                })
        };
        let is_printed = |fingerprint: Fingerprint| self.fingerprints.contains(&fingerprint);
        (self.kinds.is_empty() || self.kinds.contains(&facts.kind))
            && (self.fingerprints.is_empty() || facts.fingerprint.is_some_and(is_printed))
            && names(&self.tables, &facts.tables)
            && names(&self.functions, &facts.functions)
    }

    /// True if a text meets the conditions that only a text decides.
    pub(crate) fn hold_for_text<'r>(&'r self, look: &mut Look<'_, 'r>) -> bool {
        self.text.as_ref().is_none_or(|pattern| look.finds(pattern))
            && self
                .comments
                .iter()
                .all(|pattern| pattern.is_match(look.text()))
    }
}
