//! Search for the patterns of many rules in one pass over a text.

use std::sync::Arc;

use regex::bytes::{RegexSet, RegexSetBuilder, SetMatches};

use super::{COMPILED_MAX, TextPattern};

/// Number of patterns below which each is searched for by itself.
const PATTERNS_MIN: usize = 4;

/// Maximum number of patterns of a set.
const PATTERNS_MAX: usize = 128;

/// Maximum size of a compiled set, and of the states that a thread keeps for it, in bytes.
const SET_MAX: usize = 16 * COMPILED_MAX;

/// Place of a pattern in a set.
#[derive(Debug, Clone)]
pub(super) struct Member {
    set: Arc<RegexSet>,
    place: usize,
}

impl TextPattern {
    /// Joins the patterns of all rules, in the order in which they are asked, so that a text is searched for many of them at
    /// once. The answers stay the same.
    pub fn join<'a>(patterns: impl Iterator<Item = &'a mut Self>) {
        let mut patterns: Vec<_> = patterns.collect();
        for patterns in patterns.chunks_mut(PATTERNS_MAX) {
            join(patterns);
        }
    }
}

/// Makes a set of the patterns, or several if one would be too large.
fn join(patterns: &mut [&mut TextPattern]) {
    if patterns.len() < PATTERNS_MIN {
        return;
    }
    let mut builder = RegexSetBuilder::new(patterns.iter().map(|pattern| pattern.as_str()));
    builder.dot_matches_new_line(true);
    builder.size_limit(SET_MAX).dfa_size_limit(SET_MAX);
    let Ok(set) = builder.build() else {
        let (front, back) = patterns.split_at_mut(patterns.len() / 2);
        join(front);
        return join(back);
    };
    let set = Arc::new(set);
    for (place, pattern) in patterns.iter_mut().enumerate() {
        let set = Arc::clone(&set);
        pattern.member = Some(Member { set, place });
    }
}

/// A text in which the patterns of rules are looked for.
#[derive(Debug)]
pub(crate) struct Look<'t, 'r> {
    text: &'t [u8],
    /// Set that was looked for last, with its patterns in the text; `None` if there are none.
    known: Option<(&'r RegexSet, Option<SetMatches>)>,
}

impl<'t, 'r> Look<'t, 'r> {
    pub(crate) fn at(text: &'t [u8]) -> Self {
        Self { text, known: None }
    }

    pub(crate) fn text(&self) -> &'t [u8] {
        self.text
    }

    /// True if the text has the pattern.
    pub(crate) fn finds(&mut self, pattern: &'r TextPattern) -> bool {
        let Some(Member { set, place }) = &pattern.member else {
            return pattern.is_match(self.text);
        };
        let is_known = |(known, _): &(&RegexSet, _)| std::ptr::eq(*known, &raw const **set);
        if !self.known.as_ref().is_some_and(is_known) {
            // Most texts have none of them, which is found sooner than which ones they have.
            let found = set.is_match(self.text).then(|| set.matches(self.text));
            self.known = Some((set, found));
        }
        let found = self.known.as_ref().and_then(|(_, found)| found.as_ref());
        found.is_some_and(|found| found.matched(*place))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const PATTERNS: [&str; 8] = [
        "(?i)from\\s+report_1\\b.*order\\s+by",
        "^SELECT",
        "x$",
        "a{3,9}b",
        "(?i)straße",
        "\\bid\\b",
        "(?-u)\\xff",
        "[^a]b.c",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_set_finds_what_each_pattern_finds(
            chosen in prop::collection::vec(0..PATTERNS.len(), 0..300),
            text in "(SELECT|from|FROM|report_1| |\n|order by|a|aaa|b|c|x|id|STRASSE|Straße|ſ|\\.){0,12}",
            end in prop::option::of(Just(0xff_u8)),
        ) {
            let mut text = text.into_bytes();
            text.extend(end);
            let compiled: Vec<_> = PATTERNS.iter().map(|it| TextPattern::new(it).unwrap()).collect();
            let mut patterns: Vec<_> = chosen.iter().map(|it| compiled[*it].clone()).collect();
            TextPattern::join(patterns.iter_mut());
            let alone = patterns.iter().filter(|pattern| pattern.member.is_none()).count();
            prop_assert!(alone < PATTERNS_MIN);
            let mut look = Look::at(&text);
            for pattern in &patterns {
                prop_assert_eq!(look.finds(pattern), pattern.is_match(&text), "{}", pattern.as_str());
            }
        }
    }

    #[test]
    fn a_set_that_would_be_too_large_becomes_several() {
        let numbered = |number| TextPattern::new(&format!("\\w{{5}}x{number}$")).unwrap();
        let mut patterns: Vec<_> = (0..64).map(numbered).collect();
        TextPattern::join(patterns.iter_mut());
        let sets = patterns
            .iter()
            .filter_map(|pattern| pattern.member.as_ref());
        let sets: HashSet<_> = sets.map(|member| Arc::as_ptr(&member.set)).collect();
        assert!(sets.len() > 1, "{}", sets.len());
        let mut look = Look::at(b"aaaaaaaaaax7");
        let found = patterns.iter().filter(|pattern| look.finds(pattern));
        assert_eq!(found.count(), 1);
    }
}
