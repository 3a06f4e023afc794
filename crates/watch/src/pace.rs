//! Weight of a host: slow start after it came back, and half the weight while its probes are slow.

use std::time::Duration;

use weir_pool::Moment;

/// Weight with which a host comes back, in thousandths of its own.
const START_PERMILLE: u64 = 100;

/// Multiple of the peers' median from which a probe is slow.
const SLOW_FACTOR: u32 = 5;

/// Shortest time of a probe that can be slow. Below, differences are noise.
const SLOW_FLOOR: Duration = Duration::from_millis(5);

/// Time for which all probes must be slow.
const SLOW_FOR: Duration = Duration::from_secs(10);

/// Facts that decide the weight of a host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    /// Time at which the host came back; none if it never was away.
    returned: Option<Moment>,
    /// Time of the first of the slow probes in a row.
    slow_since: Option<Moment>,
    /// Duration of the last probe.
    probe_time: Option<Duration>,
}

impl Pace {
    /// Notes that the host came back.
    pub(crate) const fn came_back(&mut self, now: Moment) {
        self.returned = Some(now);
    }

    /// Notes the duration of a probe.
    pub(crate) const fn probed(&mut self, time: Duration) {
        self.probe_time = Some(time);
    }

    /// Compares the last probe with the median of the peers; none if there are no peers.
    pub(crate) fn compare(&mut self, now: Moment, median: Option<Duration>) {
        let is_slow = self.probe_time.zip(median).is_some_and(|(time, median)| {
            time >= SLOW_FLOOR && time > median.saturating_mul(SLOW_FACTOR)
        });
        if is_slow {
            self.slow_since.get_or_insert(now);
        } else {
            self.slow_since = None;
        }
    }

    /// Returns the time since which the host has been an outlier, once that is long enough.
    pub(crate) fn outlier_since(&self, now: Moment) -> Option<Moment> {
        self.slow_since
            .filter(|&since| now.since(since) >= SLOW_FOR)
    }

    pub(crate) const fn probe_time(&self) -> Option<Duration> {
        self.probe_time
    }

    /// Returns the weight: `full` after slow start, at least 1 unless `full` is 0.
    pub(crate) fn weight(&self, now: Moment, full: u32, slow_start: Duration) -> u32 {
        let elapsed = self.returned.map(|returned| now.since(returned));
        let permille = match elapsed {
            Some(elapsed) if elapsed < slow_start => {
                let (elapsed, all) = (elapsed.as_micros(), slow_start.as_micros().max(1));
                let share = u128::from(1000 - START_PERMILLE) * elapsed / all;
                START_PERMILLE + u64::try_from(share).unwrap_or_default()
            }
            _ => 1000,
        };
        let weight = u64::from(full) * permille / 1000;
        u32::try_from(weight).unwrap_or(full).max(full.min(1))
    }
}

/// Returns the median of some probes; the lower one of an even number; none of none.
pub(crate) fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort_unstable();
    times.get(times.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW_START: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Moment {
        Moment(seconds * 1_000_000)
    }

    #[test]
    fn a_host_that_came_back_gets_its_weight_slowly() {
        let mut pace = Pace::default();
        assert_eq!(pace.weight(at(0), 100, SLOW_START), 100);
        pace.came_back(at(100));
        let weight = |seconds| pace.weight(at(seconds), 100, SLOW_START);
        assert_eq!(weight(100), 10);
        assert_eq!(weight(115), 55);
        assert_eq!(weight(129), 97);
        assert_eq!(weight(130), 100);
        assert_eq!(pace.weight(at(100), 1, SLOW_START), 1);
        assert_eq!(pace.weight(at(100), 0, SLOW_START), 0);
        assert_eq!(pace.weight(at(100), u32::MAX, SLOW_START), u32::MAX / 10);
        assert_eq!(pace.weight(at(100), 100, Duration::ZERO), 100);
    }

    #[test]
    fn probes_must_be_slow_for_a_while() {
        let mut pace = Pace::default();
        let median = Some(Duration::from_millis(2));
        pace.probed(Duration::from_millis(11));
        pace.compare(at(1), median);
        pace.compare(at(10), median);
        assert_eq!(pace.outlier_since(at(10)), None);
        assert_eq!(pace.outlier_since(at(11)), Some(at(1)));
        pace.probed(Duration::from_millis(10));
        pace.compare(at(12), median);
        assert_eq!(pace.outlier_since(at(30)), None);
        pace.probed(Duration::from_secs(1));
        pace.compare(at(13), None);
        assert_eq!(pace.outlier_since(at(30)), None);
    }

    #[test]
    fn differences_of_microseconds_are_noise() {
        let mut pace = Pace::default();
        pace.probed(Duration::from_micros(4999));
        pace.compare(at(1), Some(Duration::from_micros(50)));
        assert_eq!(pace.outlier_since(at(30)), None);
    }

    #[test]
    fn the_median_is_one_of_the_times() {
        let millis = |list: &[u64]| list.iter().map(|&it| Duration::from_millis(it)).collect();
        assert_eq!(median(millis(&[])), None);
        assert_eq!(median(millis(&[3])), Some(Duration::from_millis(3)));
        assert_eq!(median(millis(&[9, 1])), Some(Duration::from_millis(1)));
        assert_eq!(median(millis(&[9, 1, 2])), Some(Duration::from_millis(2)));
    }
}
