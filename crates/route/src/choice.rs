//! Choice among hosts that qualify: the better of two that are drawn by weight. Integers only.

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use weir_pool::HostId;
use weir_watch::HostView;

use crate::ask::Load;

/// Difference between the random numbers of the two draws.
const SECOND_DRAW: u64 = 0x9E37_79B9_7F4A_7C15;

/// Chooses among candidates; none if there is none.
///
/// Each of two different hosts is drawn with a probability proportional to its weight. The first is chosen unless the
/// second would remain, with this request, at most as loaded as the first is without it. So hosts of equal load get
/// shares proportional to their weights.
pub(crate) fn choose(
    hosts: &[HostView],
    candidates: Places,
    load: &dyn Fn(HostId) -> Load,
    dice: u64,
) -> Option<HostId> {
    let (place, first) = draw(hosts, candidates, mix(dice))?;
    let others = candidates.without(place);
    let Some((_, second)) = draw(hosts, others, mix(dice.wrapping_add(SECOND_DRAW))) else {
        return Some(first.host);
    };
    let is_better = u128::from(load(second.host).clients() + 1) * u128::from(first.weight)
        <= u128::from(load(first.host).clients()) * u128::from(second.weight);
    Some(if is_better { second.host } else { first.host })
}

/// Places of hosts in the order of the configuration, which has 64 at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places(u64);

impl Places {
    /// Returns the places of the hosts that qualify. Asks about each host once.
    pub(crate) fn of(hosts: &[HostView], qualifies: &dyn Fn(&HostView) -> bool) -> Self {
        let bits = (0..).map_while(|place| 1u64.checked_shl(place));
        let found = hosts.iter().zip(bits).filter(|(host, _)| qualifies(host));
        Self(found.fold(0, |all, (_, bit)| all | bit))
    }

    /// Returns true if there is none.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns those that are among others too.
    pub(crate) fn and(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    fn without(self, place: u32) -> Self {
        Self(self.0 & !(1 << place))
    }

    fn iter(self) -> impl Iterator<Item = u32> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let place = rest.trailing_zeros();
            rest &= rest.wrapping_sub(1);
            (place < u64::BITS).then_some(place)
        })
    }
}

/// Draws a host with a probability proportional to its weight. Returns its place too.
fn draw(hosts: &[HostView], candidates: Places, random: u64) -> Option<(u32, &HostView)> {
    let at = |place| Some((place, hosts.get(usize::try_from(place).ok()?)?));
    if candidates.0.is_power_of_two() {
        return at(candidates.0.trailing_zeros());
    }
    let all = || candidates.iter().filter_map(at);
    let total: u64 = all().map(|(_, host)| u64::from(host.weight)).sum();
    let mut point = below(random, total);
    all().find(|(_, host)| {
        let weight = u64::from(host.weight);
        let is_here = point < weight;
        point = point.saturating_sub(weight);
        is_here
    })
}

/// Scales a random number to the numbers below `limit`.
fn below(random: u64, limit: u64) -> u64 {
    let product = u128::from(random) * u128::from(limit);
    u64::try_from(product >> u64::BITS).unwrap_or_default()
}

/// Spreads the bits of a number (the finish of SplitMix64), so that even a counter serves as random number.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(SECOND_DRAW);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
