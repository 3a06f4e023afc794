//! Texts that replicas have refused although they seemed to read. They run on the primary for a while.

use std::collections::HashMap;
use std::time::Duration;

use weir_pool::Moment;

/// Maximum number of texts; beyond it, the oldest half is forgotten.
const TEXTS_MAX: usize = 1024;
/// Maximum length in bytes of a text that is learnt.
const TEXT_MAX: usize = 4 * 1024;
/// Time for which a text runs on the primary. Then a replica is tried again: the cause may be gone.
const LEARNT_FOR: Duration = Duration::from_secs(600);

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    texts: HashMap<Box<[u8]>, Moment>,
}

impl Learnt {
    /// Adds a text that a replica has refused.
    pub(super) fn add(&mut self, text: &[u8], now: Moment) {
        if text.len() > TEXT_MAX {
            return;
        }
        if self.texts.len() >= TEXTS_MAX {
            let mut times: Vec<_> = self.texts.values().copied().collect();
            times.sort_unstable();
            let middle = times.get(TEXTS_MAX / 2).copied().unwrap_or(now);
            self.texts.retain(|_, at| *at > middle);
        }
        self.texts.insert(text.into(), now);
    }

    /// True if a replica has refused this text lately. The text is asked for only if there are any.
    #[inline]
    pub(super) fn has<'t>(&mut self, text: impl FnOnce() -> &'t [u8], now: Moment) -> bool {
        if self.texts.is_empty() {
            return false;
        }
        let text = text();
        let at = self.texts.get(text).copied();
        let is_old = at.is_some_and(|at| now.since(at) >= LEARNT_FOR);
        if is_old {
            self.texts.remove(text);
        }
        at.is_some() && !is_old
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_learnt_for_a_while() {
        let mut learnt = Learnt::default();
        assert!(!learnt.has(|| b"select f()", Moment(1)));
        learnt.add(b"select f()", Moment(1));
        assert!(learnt.has(|| b"select f()", Moment(2)));
        assert!(!learnt.has(|| b"select g()", Moment(2)));
        assert!(!learnt.has(|| b"select f()", Moment(1).plus(LEARNT_FOR)));
        assert!(!learnt.has(|| b"select f()", Moment(3)), "forgotten");
    }

    #[test]
    fn the_newest_texts_stay_within_the_limit() {
        let mut learnt = Learnt::default();
        for number in 0..5000_u64 {
            learnt.add(format!("select {number}").as_bytes(), Moment(number));
            assert!(learnt.texts.len() <= TEXTS_MAX);
            let text = format!("select {number}");
            assert!(learnt.has(|| text.as_bytes(), Moment(number)));
        }
        learnt.add(&[b'x'; TEXT_MAX + 1], Moment(5000));
        assert!(!learnt.has(|| &[b'x'; TEXT_MAX + 1], Moment(5000)));
    }

    #[test]
    fn texts_of_the_same_moment_are_bounded_too() {
        let mut learnt = Learnt::default();
        for number in 0..5000 {
            learnt.add(format!("select {number}").as_bytes(), Moment(7));
            assert!(learnt.texts.len() <= TEXTS_MAX);
        }
    }
}
