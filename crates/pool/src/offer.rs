//! Servers that a lane can give to other lanes, in the form in which it publishes them.

use crate::moment::Moment;

/// Servers that a lane can give to others, packed into one word. The word holds the moment since which the longest-idle
/// or longest-kept server is free, to 2 µs. Its lowest bit says if a client keeps one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer(u64);

impl Offer {
    /// Nothing to give.
    pub(crate) const NONE: Self = Self(u64::MAX);

    const KEEPS: u64 = 1;

    /// Packs the moments since which the longest-idle and the longest-kept server are free.
    pub(crate) fn new(idle: Option<Moment>, kept: Option<Moment>) -> Self {
        let since = idle.into_iter().chain(kept).min();
        since.map_or(Self::NONE, |since| {
            // Stays below NONE, which means that there is no server.
            let since = since.0.min(Self::NONE.0 - 2) & !Self::KEEPS;
            Self(since | u64::from(kept.is_some()))
        })
    }

    /// Moment since which the longest-free server is free; None if there is none.
    pub(crate) fn since(self) -> Option<Moment> {
        (self != Self::NONE).then_some(Moment(self.0 & !Self::KEEPS))
    }

    /// True if a client keeps a server that it can give back.
    pub(crate) fn keeps(self) -> bool {
        self != Self::NONE && self.0 & Self::KEEPS != 0
    }

    /// Unpacks the offer from the word that lanes share.
    pub(crate) const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// Packs the offer into the word that lanes share.
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
