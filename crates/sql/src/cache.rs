//! Judge of texts: runs both steps and caches verdicts by text.

use std::collections::HashMap;
use std::sync::Arc;

use crate::catalogue::Catalogue;
use crate::effects::Effects;
use crate::functions::Functions;
use crate::judge::{by_words, judge};
use crate::pieces::Pieces;
use crate::scan::{is_harmless, is_harmless_while_pinned};

/// Maximum number of texts, and of their bytes, in each of the two generations.
const TEXTS_MAX: usize = 512;
const BYTES_MAX: usize = 512 * 1024;
/// Maximum length of a cached text; longer ones are judged again each time.
const TEXT_MAX: usize = 32 * 1024;

/// Maximum length of a cached harmless text. Most are shorter, and comparing a longer one costs as much as scanning it.
const HARMLESS_MAX: usize = 240;
/// Number of cached harmless texts; a power of two.
const HARMLESS_COUNT: usize = 32;

/// Judges texts and caches the verdicts that took a parse: at most 1024, for 1 MiB of text. Caches short harmless texts
/// separately, the last one for each of a few dozen hashes. Programs repeat few texts, and a lookup costs a tenth of
/// scanning the words.
#[derive(Debug)]
pub struct Judge {
    functions: Functions,
    generation: u64,
    /// Recently used verdicts. When the map is full, it becomes `old`, and the previous `old` is dropped. A hit in
    /// `old` moves the verdict back.
    young: HashMap<Box<[u8]>, Arc<Effects>>,
    old: HashMap<Box<[u8]>, Arc<Effects>>,
    /// Bytes of text in `young`.
    young_bytes: usize,
    /// Harmless texts; empty until the first one.
    harmless: Vec<Harmless>,
}

/// A text that was found harmless.
#[derive(Clone, Debug, Default)]
struct Harmless {
    text: Vec<u8>,
    /// True if the text was also proved unable to end a pin.
    while_pinned: bool,
}

/// Returns the slot of a text. Length, end and middle differ most between statements.
fn slot(text: &[u8]) -> usize {
    let word = |at: usize| text.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    let word = |at| word(at).map_or(0, u64::from_le_bytes);
    let end = text.len().saturating_sub(8);
    let mixed = word(end) ^ word(end / 2).rotate_left(17) ^ text.len() as u64;
    let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    usize::try_from(mixed).unwrap_or(0) % HARMLESS_COUNT
}

impl Judge {
    /// Creates a judge with an empty cache.
    pub fn new(functions: Functions) -> Self {
        Self {
            functions,
            generation: 0,
            young: HashMap::new(),
            old: HashMap::new(),
            young_bytes: 0,
            harmless: Vec::new(),
        }
    }

    /// Uses another catalogue from now on, and forgets verdicts of the last one. A later catalogue has a greater
    /// generation.
    pub fn set_catalogue(&mut self, catalogue: &Arc<Catalogue>, generation: u64) {
        *self = Self::new(self.functions.with_catalogue(catalogue));
        self.generation = generation;
    }

    /// Generation of the catalogue; 0 if there is none.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the effects of calling a database function by OID, if the catalogue knows any.
    pub fn function(&self, number: u32) -> Option<Arc<Effects>> {
        let effects = self.functions.catalogue().function(number);
        effects.cloned().map(Arc::new)
    }

    /// Returns the effects that the text may have on its session; `None` if it is harmless. With `pinned`, effects that
    /// may end a pin count too.
    pub fn effects(&mut self, text: &[u8], pinned: bool) -> Option<Arc<Effects>> {
        let place = slot(text);
        let known = self.harmless.get(place).filter(|known| known.text == text);
        if known.is_some_and(|known| known.while_pinned || !pinned) {
            return None;
        }
        let harmless = if pinned {
            is_harmless_while_pinned(text, &self.functions)
        } else {
            is_harmless(text, &self.functions)
        };
        if harmless {
            self.remember_harmless(place, text, pinned);
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

    /// Returns the effects of code named in the next piece of a statement about data (SELECT, INSERT, ..), for a text
    /// too long to be kept until it is complete. `None` if there are no effects.
    pub fn piece(&self, pieces: &mut Pieces, piece: &[u8]) -> Option<Effects> {
        pieces.read(piece, &self.functions)
    }

    fn verdict(&mut self, text: &[u8]) -> Arc<Effects> {
        if let Some(effects) = self.young.get(text) {
            return Arc::clone(effects);
        }
        if let Some((text, effects)) = self.old.remove_entry(text) {
            self.remember(text, &effects);
            return effects;
        }
        // As cheap as a cache lookup, and such texts are often new each time.
        if let Some(effects) = by_words(text, &self.functions) {
            return Arc::new(effects);
        }
        let effects = Arc::new(judge(text, &self.functions));
        if text.len() <= TEXT_MAX {
            self.remember(text.into(), &effects);
        }
        effects
    }

    fn remember_harmless(&mut self, place: usize, text: &[u8], while_pinned: bool) {
        if text.len() > HARMLESS_MAX {
            return;
        }
        if self.harmless.is_empty() {
            self.harmless.resize_with(HARMLESS_COUNT, Harmless::default);
        }
        if let Some(known) = self.harmless.get_mut(place) {
            known.text.clear();
            known.text.extend_from_slice(text);
            known.while_pinned = while_pinned;
        }
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
    fn a_harmless_text_is_found_again_and_never_taken_for_another() {
        let mut judge = Judge::new(Functions::default());
        for round in 0..3 {
            for number in 0..300 {
                let harmless = format!("SELECT {number}");
                assert_eq!(judge.effects(harmless.as_bytes(), true), None, "{round}");
                let other = format!("LISTEN n{number}");
                assert!(judge.effects(other.as_bytes(), false).is_some(), "{round}");
            }
        }
        assert_eq!(judge.harmless.len(), HARMLESS_COUNT);
        for length in [
            0,
            1,
            7,
            8,
            9,
            HARMLESS_MAX - 1,
            HARMLESS_MAX,
            HARMLESS_MAX + 1,
            300,
        ] {
            let text = format!("select {}", "1".repeat(length));
            for _ in 0..2 {
                assert_eq!(judge.effects(text.as_bytes(), true), None);
                assert!(
                    judge
                        .effects(text.replace("select", "listen").as_bytes(), true)
                        .is_some()
                );
            }
        }
    }

    #[test]
    fn what_was_harmless_without_a_pin_is_looked_at_again_with_one() {
        let mut judge = Judge::new(Functions::default());
        for text in ["DROP TABLE t", "CLOSE c", "DROP TABLE t"] {
            assert_eq!(judge.effects(text.as_bytes(), false), None, "{text}");
            assert!(judge.effects(text.as_bytes(), true).is_some(), "{text}");
        }
        // Conversely, a scan with a pin suffices for one without.
        assert_eq!(judge.effects(b"SELECT 1", true), None);
        assert_eq!(judge.effects(b"SELECT 1", false), None);
        assert!(judge.harmless[slot(b"SELECT 1")].while_pinned);
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
