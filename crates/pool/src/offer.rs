//! Servers that a lane can give to others, as it publishes them.

use crate::moment::Moment;

/// Servers that a lane can give to others, in one word: since when the longest-idle or longest-kept one is free, to 2 µs,
/// and in the lowest bit whether a client keeps one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer(u64);

impl Offer {
    /// Nothing to give.
    pub(crate) const NONE: Self = Self(u64::MAX);

    const KEEPS: u64 = 1;

    /// Since when the longest-idle and the longest-kept server are free.
    pub(crate) fn new(idle: Option<Moment>, kept: Option<Moment>) -> Self {
        let since = idle.into_iter().chain(kept).min();
        since.map_or(Self::NONE, |since| {
            // One less than NONE, for NONE means something else.
            let since = since.0.min(Self::NONE.0 - 2) & !Self::KEEPS;
            Self(since | u64::from(kept.is_some()))
        })
    }

    /// Since when the server is free that has been so longest; None if there is none.
    pub(crate) fn since(self) -> Option<Moment> {
        (self != Self::NONE).then_some(Moment(self.0 & !Self::KEEPS))
    }

    /// True if a client keeps one.
    pub(crate) fn keeps(self) -> bool {
        self != Self::NONE && self.0 & Self::KEEPS != 0
    }

    /// The offer in the word that lanes share.
    pub(crate) const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The word that lanes share.
    pub(crate) const fn word(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_says_since_when_and_whether_a_client_keeps_a_server() {
        let (idle, kept) = (Some(Moment(9)), Some(Moment(12)));
        for (idle, kept, since, keeps) in [
            (None, None, None, false),
            (idle, None, Some(Moment(8)), false),
            (None, kept, Some(Moment(12)), true),
            (idle, kept, Some(Moment(8)), true),
            (kept, idle, Some(Moment(8)), true),
        ] {
            let offer = Offer::from_word(Offer::new(idle, kept).word());
            assert_eq!((offer.since(), offer.keeps()), (since, keeps));
        }
        let late = Offer::new(Some(Moment::NEVER), None);
        assert!(late != Offer::NONE && late.since().is_some() && !late.keeps());
    }
}
