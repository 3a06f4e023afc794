//! Identity of the watched cluster: which system identifier the hosts must have.

/// Identity of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Hosts have different identifiers, and neither their number nor a primary decides.
    Disputed,
    /// This identifier, for good.
    Fixed(u64),
    /// This identifier, until more hosts have answered.
    Likely(u64),
    /// No host has told an identifier.
    #[default]
    Unknown,
}

/// Opinion of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) system: u64,
    /// True if the host says that it is the primary.
    pub(crate) is_primary: bool,
}

impl Identity {
    /// Returns the identifier, if one is known.
    pub(crate) const fn system(self) -> Option<u64> {
        match self {
            Self::Fixed(system) | Self::Likely(system) => Some(system),
            Self::Disputed | Self::Unknown => None,
        }
    }

    /// Finds the identity from the hosts that told theirs; `total` is the number of configured hosts.
    ///
    /// More than half of all hosts fix it. Else the most frequent identifier is likely, then the one of the only primary.
    pub(crate) fn find(self, members: &[Member], total: usize) -> Self {
        if matches!(self, Self::Fixed(_)) {
            return self;
        }
        let count = |system| members.iter().filter(|it| it.system == system).count();
        let Some(most) = members.iter().map(|it| count(it.system)).max() else {
            return Self::Unknown;
        };
        let mut leaders = members.iter().filter(|it| count(it.system) == most);
        let leader = leaders.next().map_or(0, |it| it.system);
        if most * 2 > total {
            return Self::Fixed(leader);
        }
        if leaders.all(|it| it.system == leader) {
            return Self::Likely(leader);
        }
        let mut primaries = members.iter().filter(|it| it.is_primary);
        match primaries.next() {
            Some(first) if primaries.all(|it| it.system == first.system) => {
                Self::Likely(first.system)
            }
            _ => Self::Disputed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(systems: &[(u64, bool)], total: usize) -> Identity {
        let members: Vec<_> = systems
            .iter()
            .map(|&(system, is_primary)| Member { system, is_primary })
            .collect();
        Identity::Unknown.find(&members, total)
    }

    #[test]
    fn the_majority_fixes_the_identity() {
        assert_eq!(find(&[], 3), Identity::Unknown);
        assert_eq!(find(&[(1, true)], 3), Identity::Likely(1));
        assert_eq!(find(&[(1, false), (1, false)], 3), Identity::Fixed(1));
        assert_eq!(
            find(&[(2, true), (1, false), (1, false)], 3),
            Identity::Fixed(1)
        );
        assert_eq!(find(&[(1, true)], 1), Identity::Fixed(1));
    }

    #[test]
    fn the_only_primary_decides_a_tie() {
        assert_eq!(find(&[(1, false), (2, true)], 2), Identity::Likely(2));
        assert_eq!(find(&[(1, true), (2, true)], 2), Identity::Disputed);
        assert_eq!(find(&[(1, false), (2, false)], 2), Identity::Disputed);
    }

    #[test]
    fn a_fixed_identity_stays() {
        let others = [Member {
            system: 2,
            is_primary: true,
        }; 3];
        assert_eq!(Identity::Fixed(1).find(&others, 3), Identity::Fixed(1));
    }
}
