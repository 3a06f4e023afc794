//! Rare circumstances of a client or server, which the path of every message tests as one: the set is empty for a client
//! that never used them, and for its servers.

use std::marker::PhantomData;

/// Kind of circumstances, at most 16.
pub(crate) trait Rarity: Copy {
    /// Returns the circumstance's number, below 16.
    fn number(self) -> u8;
}

/// Rare circumstance of a client.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ClientRarity {
    /// The client may have advanced a sequence; cleared by DISCARD ALL. Only such a client is ever on trial
    /// ([`crate::sequences`]).
    AdvancedSequence,
    /// `search_path` names the temporary schema, so any object that the client creates may be temporary.
    MakesTemporary,
    /// The client reads session statistics and expects its own activity in them.
    ReadsStatistics,
    /// The client has used a sequence by name and may call `currval`; cleared by DISCARD ALL.
    UsesSequences,
}

/// Rare circumstance of a server. Those that name the lease end with the next one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServerRarity {
    /// A statement of the present transaction has changed roles or defaults for sessions.
    AltersRoles,
    /// A fence was interrupted, and its transaction must be ended.
    BrokenFence,
    /// The client has run a DISCARD ALL on this lease ([`crate::server::Discard`]), or may run one.
    Discards,
    /// A question that no statement gave a reason for found a change.
    Found,
    /// A LOAD was sent on this lease whose success matters.
    Loads,
    /// A ReadyForQuery for the client is held back until our request on its behalf is answered.
    OwesReady,
    /// The client has run a text on this lease that was not read and that may have reset its start values.
    RanUnread,
    /// The server has left a question unanswered, which is asked again after the next transaction.
    Unanswered,
    /// The client's last query on this lease begins like a statement about data and was not read to the end.
    UnreadEnd,
}

impl Rarity for ClientRarity {
    fn number(self) -> u8 {
        self as u8
    }
}

impl Rarity for ServerRarity {
    fn number(self) -> u8 {
        self as u8
    }
}

/// Set of rare circumstances.
#[derive(Debug)]
pub(crate) struct Rarities<K> {
    bits: u16,
    kind: PhantomData<K>,
}

impl<K> Default for Rarities<K> {
    fn default() -> Self {
        Self {
            bits: 0,
            kind: PhantomData,
        }
    }
}

impl<K: Rarity> Rarities<K> {
    fn bit(one: K) -> u16 {
        1 << one.number()
    }

    /// True if there are none, which is the common case.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bits == 0
    }

    #[inline]
    pub(crate) fn has(&self, one: K) -> bool {
        self.bits & Self::bit(one) != 0
    }

    #[inline]
    pub(crate) fn insert(&mut self, one: K) {
        self.bits |= Self::bit(one);
    }

    #[inline]
    pub(crate) fn remove(&mut self, one: K) {
        self.bits &= !Self::bit(one);
    }

    /// Adds or removes a circumstance.
    pub(crate) fn set(&mut self, one: K, is_there: bool) {
        if is_there {
            self.insert(one);
        } else {
            self.remove(one);
        }
    }

    /// Removes a circumstance. Returns true if it was there.
    pub(crate) fn take(&mut self, one: K) -> bool {
        let was_there = self.has(one);
        self.remove(one);
        was_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_circumstance_is_its_own() {
        let all = [
            ServerRarity::AltersRoles,
            ServerRarity::BrokenFence,
            ServerRarity::Discards,
            ServerRarity::Found,
            ServerRarity::Loads,
            ServerRarity::OwesReady,
            ServerRarity::RanUnread,
            ServerRarity::Unanswered,
            ServerRarity::UnreadEnd,
        ];
        let mut rarities = Rarities::default();
        for one in all {
            assert!(!rarities.has(one));
            rarities.insert(one);
            assert!(rarities.has(one) && !rarities.is_empty());
        }
        for one in all {
            assert!(rarities.take(one) && !rarities.take(one));
        }
        assert!(rarities.is_empty());
    }
}
