//! Turns of the pools of one host: only one may try sizes at a time, or each would measure the others.

use std::time::Duration;

/// Identifier of a pool: any number that is unique among the pools of the host.
pub type PoolId = u64;

/// Upper limit of a turn, longer than any experiment of a live pool.
const TURN_MAX: Duration = Duration::from_secs(180);
/// Time for which a request stays valid.
const ASK_MAX: Duration = Duration::from_secs(2);

/// Token of one host. The owner asks for each pool at each tick, with the value of
/// [`Decision::wants_turn`](crate::controller::Decision::wants_turn) of the previous tick.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    holder: Option<(PoolId, Duration)>,
    asked: Vec<(PoolId, f64, Duration)>,
}

impl Turns {
    /// Requests a turn for `pool`, or gives it up (`worth` is `None`). True if the pool may try other sizes.
    ///
    /// `worth` is the last elasticity that the pool saw. Of several pools that ask, the one that may gain most goes
    /// first. A holder loses its turn if it stops asking, or after three minutes if others wait.
    pub fn ask(&mut self, pool: PoolId, worth: Option<f64>, now: Duration) -> bool {
        self.asked
            .retain(|(asker, _, at)| *asker != pool && now.saturating_sub(*at) <= ASK_MAX);
        let Some(worth) = worth else {
            if self.holder.is_some_and(|(holder, _)| holder == pool) {
                self.holder = None;
            }
            return false;
        };
        self.asked.push((pool, worth, now));
        if self
            .holder
            .is_some_and(|(holder, since)| self.is_over(holder, since, now))
        {
            self.holder = None;
        }
        let is_best = !self
            .asked
            .iter()
            .any(|(asker, other, _)| *asker != pool && *other > worth);
        if self.holder.is_none() && is_best {
            self.holder = Some((pool, now));
        }
        self.holder.is_some_and(|(holder, _)| holder == pool)
    }

    fn is_over(&self, holder: PoolId, since: Duration, now: Duration) -> bool {
        let is_silent = !self.asked.iter().any(|(asker, ..)| *asker == holder);
        let others_wait = self.asked.iter().any(|(asker, ..)| *asker != holder);
        is_silent || (others_wait && now.saturating_sub(since) > TURN_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn only_one_pool_of_a_host_has_the_turn() {
        let mut turns = Turns::default();
        assert!(turns.ask(1, Some(0.1), at(0)));
        assert!(!turns.ask(2, Some(0.9), at(0)));
        assert!(turns.ask(1, Some(0.1), at(50)));
        assert!(!turns.ask(1, None, at(100)));
        assert!(turns.ask(2, Some(0.9), at(100)));
    }

    #[test]
    fn the_pool_that_may_gain_most_goes_first() {
        let mut turns = Turns::default();
        assert!(turns.ask(1, Some(0.5), at(0)));
        assert!(!turns.ask(2, Some(0.1), at(10)));
        assert!(!turns.ask(3, Some(0.9), at(20)));
        assert!(!turns.ask(1, None, at(50)));
        assert!(!turns.ask(2, Some(0.1), at(60)));
        assert!(turns.ask(3, Some(0.9), at(70)));
    }

    #[test]
    fn a_pool_that_is_gone_loses_its_turn() {
        let mut turns = Turns::default();
        assert!(turns.ask(1, Some(0.5), at(0)));
        assert!(!turns.ask(2, Some(0.1), at(10)));
        assert!(turns.ask(2, Some(0.1), at(3000)));
    }

    #[test]
    fn a_pool_that_never_ends_gives_way() {
        let mut turns = Turns::default();
        let mut second = None;
        for tick in 0..4000 {
            turns.ask(1, Some(0.5), at(tick * 50));
            if turns.ask(2, Some(0.5), at(tick * 50 + 1)) {
                second = Some(tick * 50);
                break;
            }
        }
        assert!(second.is_some_and(|ms| ms >= 180_000), "{second:?}");
    }
}
