//! Both steps, and a memory of verdicts by text.

use std::collections::HashMap;
use std::sync::Arc;

use crate::effects::Effects;
use crate::functions::Functions;
use crate::judge::{by_words, judge};
use crate::scan::{is_harmless, is_harmless_while_pinned};

/// Of each of the two generations: texts, and bytes of them.
const TEXTS_MAX: usize = 512;
const BYTES_MAX: usize = 512 * 1024;
/// Longer texts are judged again each time.
const TEXT_MAX: usize = 32 * 1024;

/// Judges texts, and remembers the verdicts that took a parse: at most 1024 of them, for 1 MiB of
/// text.
#[derive(Debug)]
pub struct Judge {
    functions: Functions,
    /// What was used lately. When it is full it becomes the old one, and the old one is forgotten:
    /// what is in use comes back from there in time.
    young: HashMap<Box<[u8]>, Arc<Effects>>,
    old: HashMap<Box<[u8]>, Arc<Effects>>,
    /// Bytes of text in `young`.
    young_bytes: usize,
}

impl Judge {
    /// With nothing remembered yet.
    pub fn new(functions: Functions) -> Self {
        Self {
            functions,
            young: HashMap::new(),
            old: HashMap::new(),
            young_bytes: 0,
        }
    }

    /// What the text may do to its session; nothing if it is harmless. `pinned`: whether what may
    /// end a pin counts too.
    pub fn effects(&mut self, text: &[u8], pinned: bool) -> Option<Arc<Effects>> {
        let harmless = if pinned {
            is_harmless_while_pinned(text, &self.functions)
        } else {
            is_harmless(text, &self.functions)
        };
        if harmless {
            return None;
        }
        let effects = self.verdict(text);
        let harmless = if pinned {
            effects.is_harmless_while_pinned()
        } else {
            effects.is_harmless()
        };
        (!harmless).then_some(effects)
    }

    fn verdict(&mut self, text: &[u8]) -> Arc<Effects> {
        if let Some(effects) = self.young.get(text) {
            return Arc::clone(effects);
        }
        if let Some((text, effects)) = self.old.remove_entry(text) {
            self.remember(text, &effects);
            return effects;
        }
        // As cheap as finding it in here, and such texts are often new each time.
        if let Some(effects) = by_words(text, &self.functions) {
            return Arc::new(effects);
        }
        let effects = Arc::new(judge(text, &self.functions));
        if text.len() <= TEXT_MAX {
            self.remember(text.into(), &effects);
        }
        effects
    }

    fn remember(&mut self, text: Box<[u8]>, effects: &Arc<Effects>) {
        if self.young.len() >= TEXTS_MAX || self.young_bytes + text.len() > BYTES_MAX {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += text.len();
        self.young.insert(text, Arc::clone(effects));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_found_again_and_the_memory_stays_bounded() {
        let mut judge = Judge::new(Functions::default());
        let kept = judge.effects(b"SET ROLE kept", false).unwrap();
        for number in 0..5000 {
            let text = format!("SET ROLE n{number}");
            assert!(judge.effects(text.as_bytes(), false).is_some());
            let again = judge.effects(b"SET ROLE kept", false).unwrap();
            assert!(Arc::ptr_eq(&kept, &again), "after {number}");
        }
        assert!(judge.young.len() + judge.old.len() <= 2 * TEXTS_MAX);
    }

    #[test]
    fn bytes_are_bounded_too() {
        let mut judge = Judge::new(Functions::default());
        for number in 0..200 {
            let text = format!("SET NAMES '{number}{}'", "x".repeat(TEXT_MAX / 2));
            assert!(judge.effects(text.as_bytes(), false).is_some());
        }
        let bytes =
            |texts: &HashMap<Box<[u8]>, _>| texts.keys().map(|text| text.len()).sum::<usize>();
        assert!(bytes(&judge.young) <= BYTES_MAX && bytes(&judge.old) <= BYTES_MAX);
        assert_eq!(bytes(&judge.young), judge.young_bytes);
        judge.effects(
            &[b"SET NAMES ".as_slice(), &[b'1'; TEXT_MAX]].concat(),
            false,
        );
        assert!(judge.young.keys().all(|text| text.len() <= TEXT_MAX));
    }

    #[test]
    fn what_ends_a_pin_counts_only_while_pinned() {
        let mut judge = Judge::new(Functions::default());
        for text in ["DROP TABLE t", "CLOSE c", "SELECT pg_advisory_unlock(1)"] {
            assert!(
                judge.effects(text.as_bytes(), true).unwrap().frees,
                "{text}"
            );
            assert_eq!(judge.effects(text.as_bytes(), false), None, "{text}");
        }
    }
}
