//! Evaluation of the runs: pure functions of records.

use std::collections::BTreeMap;

use weir_lab::statistics::{Adjusted, Ratio, mean, unexplained};

use super::Record;
use super::mix::Mix;
use super::pair::{Pair, columns, even, p99, pairs};
use super::plan::Plan;
use super::run::{Seen, Size};

/// Lower limit for the interval of adaptive over best fixed throughput.
pub(super) const RATIO_MIN: f64 = 0.95;
/// Upper limit for the interval of adaptive over best fixed p99.
pub(super) const P99_MAX: f64 = 1.15;
/// Maximum time under load until an adaptive pool is good enough, in seconds; [`TRANSACTIONS_MAX`] is the
/// alternative.
pub(super) const SECONDS_MAX: usize = 30;
/// Maximum of transactions until an adaptive pool is good enough.
pub(super) const TRANSACTIONS_MAX: f64 = 4000.0;

/// Noise above which the machine is too busy with other work for any conclusion.
pub(super) const NOISE_MAX: f64 = 0.05;

/// Seconds whose mean must be at least [`RATIO_MIN`] of the best fixed size's throughput for the pool to be good
/// enough.
const WINDOW: usize = 5;

/// Time at which an adaptive pool was good enough for the first time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reached {
    /// Seconds of load, from the first transaction on.
    pub(super) seconds: usize,
    /// Transactions until then.
    pub(super) transactions: f64,
}

impl Reached {
    pub(super) fn is_soon(&self) -> bool {
        self.seconds <= SECONDS_MAX || self.transactions <= TRANSACTIONS_MAX
    }
}

/// Evaluation of all runs of a mix, from one start or from all.
#[derive(Debug)]
pub(super) struct Judgement {
    /// Throughput of each adaptive run over that of the fixed run beside it.
    pub(super) ratio: Option<Ratio>,
    pub(super) p99: Option<Ratio>,
    /// Throughput and p99 adjusted for the machine's speed, if there are enough pairs to estimate its effect.
    pub(super) even: Option<[Adjusted; 2]>,
    /// Result of each adaptive run.
    pub(super) reached: Vec<Option<Reached>>,
    /// Throughput over that of the commonly used fixed sizes, in the same block.
    pub(super) usual: [Option<Ratio>; 2],
    /// Transactions per second of the adaptive runs.
    pub(super) rates: Vec<f64>,
    /// Sizes at the end of these runs.
    pub(super) held: Vec<u32>,
    /// Fixed sizes of the runs beside them.
    pub(super) fixed: Vec<u32>,
}

impl Judgement {
    /// Ratios to judge: adjusted for the machine's speed if possible, otherwise as measured.
    fn judged(&self) -> [Option<Ratio>; 2] {
        match &self.even {
            Some(even) => even.each_ref().map(|adjusted| Some(adjusted.ratio)),
            None => [self.ratio, self.p99],
        }
    }

    pub(super) fn is_fast(&self) -> bool {
        let [rate, _] = self.judged();
        let lower = rate.map(|ratio| ratio.interval.map_or(ratio.mean, |i| i.low));
        lower.is_some_and(|lower| lower >= RATIO_MIN)
    }

    pub(super) fn is_even(&self) -> bool {
        let [_, p99] = self.judged();
        let upper = p99.map(|ratio| ratio.interval.map_or(ratio.mean, |i| i.high));
        upper.is_some_and(|upper| upper <= P99_MAX)
    }

    pub(super) fn is_soon(&self) -> bool {
        let is_soon = |reached: &Option<Reached>| reached.is_some_and(|reached| reached.is_soon());
        self.reached.iter().all(is_soon)
    }

    /// True if all three criteria are met.
    pub(super) fn is_met(&self) -> bool {
        self.is_fast() && self.is_even() && self.is_soon()
    }
}

/// Judges all starts of a mix.
pub(super) fn judge(plan: &Plan, records: &[Record], mix: Mix) -> Judgement {
    judge_starts(plan, records, mix, &plan.starts)
}

/// Judges these starts of a mix.
pub(super) fn judge_starts(plan: &Plan, records: &[Record], mix: Mix, starts: &[u32]) -> Judgement {
    let all = pairs(records, mix);
    // The effect of the machine's speed is the same for all starts; a single start has too few pairs to estimate it.
    let effects = even(&all).map_or_else(|| vec![0.0; all.len()], |[rate, _]| rate.effects);
    let of_starts = all.iter().copied().zip(effects);
    let (pairs, effects): (Vec<Pair<'_>>, Vec<f64>) = of_starts
        .filter(|(pair, _)| starts.contains(&pair.start))
        .unzip();
    let ratio = |of: fn(&Seen) -> f64| {
        let values: Vec<_> = pairs
            .iter()
            .map(|pair| (of(pair.adaptive), of(pair.fixed)))
            .collect();
        Ratio::of(&values)
    };
    let usual = plan.usual.map(|size| {
        let values = pairs.iter().filter_map(|pair| {
            let fixed = swept(records, mix)
                .find(|(block, seen_size, _)| (*block, *seen_size) == (pair.block, size));
            Some((pair.adaptive.per_second, fixed?.2.per_second))
        });
        Ratio::of(&values.collect::<Vec<_>>())
    });
    let even = even(&pairs);
    Judgement {
        even,
        ratio: ratio(|seen| seen.per_second),
        p99: ratio(p99),
        reached: pairs
            .iter()
            .zip(effects)
            .map(|(pair, effect)| {
                // Estimated throughput of the fixed size on the machine as the adaptive run met it.
                reached(&pair.adaptive.series, pair.fixed.per_second * effect.exp())
            })
            .collect(),
        usual,
        rates: pairs.iter().map(|pair| pair.adaptive.per_second).collect(),
        held: pairs
            .iter()
            .filter_map(|pair| Some(pair.adaptive.pool.as_ref()?.size))
            .collect(),
        fixed: pairs.iter().map(|pair| pair.size).collect(),
    }
}

/// Block, size and result of each run of the sweep.
pub(super) fn swept(records: &[Record], mix: Mix) -> impl Iterator<Item = (u32, u32, &Seen)> {
    records
        .iter()
        .filter(move |record| record.mix == mix && record.pair.is_none())
        .filter_map(|record| match record.size {
            Size::Fixed(size) => Some((record.block, size, record.outcome.as_ref().ok()?)),
            Size::From(_) => None,
        })
}

/// Transactions per second of a fixed size in the sweeps. Each block has the same weight, regardless of its number of
/// runs of this size.
pub(super) fn rate(records: &[Record], mix: Mix, size: u32) -> Option<f64> {
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (block, _, seen) in swept(records, mix).filter(|(_, other, _)| *other == size) {
        blocks.entry(block).or_default().push(seen.per_second);
    }
    let rates: Vec<f64> = blocks
        .values()
        .filter_map(|rates| geometric_mean(rates))
        .collect();
    geometric_mean(&rates)
}

/// Geometric mean, the right mean for rates that are compared by ratios; none for an empty slice.
pub(super) fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    mean(&logs).map(f64::exp)
}

/// Number of sizes of a sweep that run again.
pub(super) const FINALISTS: usize = 3;

/// Fixed sizes with the highest throughput so far, best first. A single short run cannot tell neighbours apart: a
/// machine that is slow for a minute would decide.
pub(super) fn finalists(records: &[Record], mix: Mix) -> Vec<u32> {
    let mut rated = rated(records, mix);
    rated.truncate(FINALISTS);
    rated.into_iter().map(|(_, size)| size).collect()
}

/// Fixed size with the highest throughput so far. A single run may be lucky: if any size ran twice in a block, only
/// such sizes are candidates.
pub(super) fn best(records: &[Record], mix: Mix) -> Option<u32> {
    let ran_again = |size: u32| {
        let blocks = || swept(records, mix).filter(move |run| run.1 == size);
        blocks().any(|run| blocks().filter(|other| other.0 == run.0).count() > 1)
    };
    let rated = rated(records, mix);
    let best = rated.iter().find(|(_, size)| ran_again(*size));
    best.or_else(|| rated.first()).map(|(_, size)| *size)
}

/// Throughput of each fixed size, best first.
fn rated(records: &[Record], mix: Mix) -> Vec<(f64, u32)> {
    let mut sizes: Vec<u32> = swept(records, mix).map(|(_, size, _)| size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let rated = sizes.into_iter();
    let mut rated: Vec<_> = rated
        .filter_map(|size| Some((rate(records, mix, size)?, size)))
        .collect();
    rated.sort_by(|a, b| b.0.total_cmp(&a.0));
    rated
}

/// Differences between runs of the same fixed size in the same block, as standard deviations of logarithms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    /// Deviation as measured, which includes the machine's.
    pub(super) plain: f64,
    /// Deviation after adjustment for the machine's speed, if the speed is known for all runs.
    pub(super) even: Option<f64>,
}

impl Noise {
    /// True if the noise hides the effect that is measured.
    pub(super) fn is_too_much(&self) -> bool {
        self.even.unwrap_or(self.plain) > NOISE_MAX
    }
}

/// Estimates the noise; none if no size ran twice in a block.
pub(super) fn noise(records: &[Record], mix: Mix) -> Option<Noise> {
    let mut groups: BTreeMap<(u32, Size), Vec<&Seen>> = BTreeMap::new();
    let fixed = |record: &&Record| record.mix == mix && matches!(record.size, Size::Fixed(_));
    for record in records.iter().filter(fixed) {
        let runs = groups.entry((record.block, record.size)).or_default();
        runs.extend(&record.outcome);
    }
    // Deviations from the means of the groups: rates, and slowness of the machine.
    let (mut rates, mut slow) = (Vec::new(), Some(Vec::new()));
    let mut freedom = 0;
    for runs in groups.values().filter(|runs| runs.len() > 1) {
        let own: Vec<f64> = runs.iter().map(|seen| seen.per_second.ln()).collect();
        rates.extend(around_mean(&own)?);
        let own: Vec<Vec<f64>> = runs.iter().map(|seen| seen.slowness.clone()).collect();
        let own = columns(&own).map(|own| own.iter().map(|own| around_mean(own)).collect());
        let own: Option<Vec<Vec<f64>>> = own.flatten();
        slow = slow.zip(own).map(|(mut all, own)| {
            all.resize(own.len().max(all.len()), Vec::new());
            all.iter_mut()
                .zip(own)
                .for_each(|(all, own)| all.extend(own));
            all
        });
        freedom += runs.len() - 1;
    }
    let deviation = |values: &[f64], freedom: usize| {
        let squares: f64 = values.iter().map(|value| value * value).sum();
        let freedom = u32::try_from(freedom).ok().filter(|freedom| *freedom > 0)?;
        Some((squares / f64::from(freedom)).sqrt())
    };
    let even = slow.and_then(|slow| {
        let left = unexplained(&rates, &slow)?;
        deviation(&left, freedom.checked_sub(slow.len())?)
    });
    Some(Noise {
        plain: deviation(&rates, freedom)?,
        even,
    })
}

fn around_mean(values: &[f64]) -> Option<Vec<f64>> {
    let middle = mean(values)?;
    Some(values.iter().map(|value| value - middle).collect())
}

/// Finds the first five consecutive seconds of `series` that are good enough.
pub(super) fn reached(series: &[f64], best: f64) -> Option<Reached> {
    let wanted = best * RATIO_MIN * f64::from(u32::try_from(WINDOW).ok()?);
    let seconds = series
        .windows(WINDOW)
        .position(|window| window.iter().sum::<f64>() >= wanted)?;
    Some(Reached {
        seconds,
        transactions: series.iter().take(seconds).sum(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::pair::EVEN_MIN;
    use super::*;
    use weir_lab::weir::Pool;

    pub(in super::super) fn plan() -> Plan {
        Plan {
            mixes: vec![Mix::Chatty],
            starts: vec![1, 20],
            sizes: vec![2, 8, 10],
            usual: [10, 2],
            blocks: 2,
            seconds: 10,
            measured: 5,
            fixed_seconds: 5,
        }
    }

    fn record(block: u32, size: Size, pair: Option<u32>, rate: f64, p99_us: u64) -> Record {
        let mut series = vec![rate / 2.0; 3];
        series.extend([rate; 7]);
        Record {
            block,
            mix: Mix::Chatty,
            size,
            pair,
            outcome: Ok(Seen {
                per_second: rate,
                p99_us,
                series,
                pool: matches!(size, Size::From(_)).then(|| Pool {
                    size: 7,
                    ..Pool::default()
                }),
                decisions: vec!["03:00:00.000 4 -> 7: more servers still pay".to_owned()],
                ..Seen::default()
            }),
        }
    }

    /// Records of two blocks; the machine is twice as fast in the second.
    pub(in super::super) fn records(part: f64) -> Vec<Record> {
        let mut records = Vec::new();
        for (block, speed) in [(1, 1.0), (2, 2.0)] {
            for (size, rate) in [(2, 400.0), (8, 1000.0), (10, 800.0)] {
                let rate = rate * speed;
                records.push(record(block, Size::Fixed(size), None, rate, 1000));
            }
            for start in [1, 20] {
                let rate = 1000.0 * speed;
                records.push(record(block, Size::Fixed(8), Some(start), rate, 1000));
                let adaptive = Size::From(start);
                records.push(record(block, adaptive, Some(start), rate * part, 1100));
            }
        }
        records
    }

    #[test]
    fn each_run_is_compared_with_the_one_beside_it() {
        let found = judge(&plan(), &records(0.99), Mix::Chatty);
        let ratio = found.ratio.unwrap();
        assert_eq!(ratio.pairs, 4);
        assert!((ratio.mean - 0.99).abs() < 1e-9);
        assert!((found.p99.unwrap().mean - 1.1).abs() < 1e-9);
        let usual = found.usual.map(|ratio| ratio.unwrap().mean);
        assert!((usual[0] - 0.99 / 0.8).abs() < 1e-9 && (usual[1] - 0.99 / 0.4).abs() < 1e-9);
        assert_eq!((found.held.len(), found.fixed), (4, vec![8; 4]));
        assert!(judge(&plan(), &records(0.99), Mix::Chatty).is_met());
        assert!(!judge(&plan(), &records(0.94), Mix::Chatty).is_met());
    }

    #[test]
    fn a_machine_that_was_slower_for_one_of_the_two_is_allowed_for() {
        let mut plan = plan();
        plan.starts = (1..=EVEN_MIN)
            .filter_map(|n| u32::try_from(n).ok())
            .collect();
        let mut all = Vec::new();
        for &start in &plan.starts {
            // For every second adaptive run the machine is slower by a tenth, and throughput lower by a fifth.
            let slower: f64 = if start % 2 == 0 { 0.1 } else { 0.0 };
            let rate = 980.0 * (-2.0 * slower).exp();
            all.push(record(1, Size::Fixed(8), Some(start), 1000.0, 1000));
            all.push(record(1, Size::From(start), Some(start), rate, 1000));
            let slowness = [vec![5.0], vec![5.0 + slower]];
            for (record, slowness) in all.iter_mut().rev().take(2).rev().zip(slowness) {
                record.outcome.as_mut().unwrap().slowness = slowness;
            }
        }
        let found = judge(&plan, &all, Mix::Chatty);
        let [rate, _] = found.even.as_ref().unwrap();
        assert!((rate.ratio.mean - 0.98).abs() < 1e-9 && (rate.effects[1] + 0.2).abs() < 1e-9);
        assert!(found.ratio.unwrap().interval.unwrap().low < RATIO_MIN);
        assert!(found.is_met(), "{found:?}");
        // If one run has no speed, all results are judged as measured.
        all[0].outcome.as_mut().unwrap().slowness.clear();
        assert!(!judge(&plan, &all, Mix::Chatty).is_met());
    }

    #[test]
    fn nothing_measured_meets_nothing() {
        let found = judge(&plan(), &[], Mix::Chatty);
        assert!(!found.is_met() && !found.is_fast() && !found.is_even());
    }

    #[test]
    fn the_best_size_is_that_of_the_sweep() {
        let mut all = records(2.0);
        assert_eq!(best(&all, Mix::Chatty), Some(8));
        assert_eq!(best(&all, Mix::ReadOnly), None);
        // A single lucky run does not win.
        all.push(record(3, Size::Fixed(2), None, 5000.0, 1));
        assert_eq!(best(&all, Mix::Chatty), Some(8));
        all.iter_mut()
            .for_each(|record| record.outcome = Err("no".to_owned()));
        assert_eq!(best(&all, Mix::Chatty), None);
    }

    #[test]
    fn a_size_that_was_lucky_once_has_to_show_it_again() {
        let sweep = [
            (2, 400.0),
            (4, 1100.0),
            (8, 1000.0),
            (10, 900.0),
            (16, 950.0),
        ];
        let mut all: Vec<_> = sweep
            .map(|(size, rate)| record(1, Size::Fixed(size), None, rate, 1))
            .into();
        assert_eq!(best(&all, Mix::Chatty), Some(4));
        assert_eq!(finalists(&all, Mix::Chatty), [4, 8, 16]);
        for (size, rate) in [(4, 600.0), (8, 700.0), (16, 650.0)] {
            all.push(record(1, Size::Fixed(size), None, rate, 1));
        }
        // Now 8 has 837, 4 has 812; 10 with its one run of 900 is no candidate.
        assert_eq!(best(&all, Mix::Chatty), Some(8));
    }

    #[test]
    fn how_often_a_size_ran_in_a_block_does_not_weigh() {
        // The second block's machine is twice as fast; 8 ran there three times.
        let mut all = records(1.0);
        for _ in 0..2 {
            all.push(record(2, Size::Fixed(8), None, 2000.0, 1));
        }
        let found = rate(&all, Mix::Chatty, 8).unwrap();
        assert!((found - 2e6_f64.sqrt()).abs() < 1e-6, "{found}");
    }

    #[test]
    fn noise_is_what_the_same_size_differs_by() {
        let mut all = records(0.5);
        assert!(noise(&all, Mix::Chatty).unwrap().plain < 1e-9);
        assert!(noise(&all, Mix::ReadOnly).is_none());
        // Block 1 has size 8 three times, once now 1.3 times as fast; so has block 2, always the same: four degrees.
        all.push(record(3, Size::Fixed(8), None, 100.0, 1));
        let third = all
            .iter_mut()
            .find(|record| record.pair == Some(20))
            .unwrap();
        third.outcome.as_mut().unwrap().per_second *= 1.3;
        let expected = 1.3_f64.ln() * (2.0_f64 / 3.0 / 4.0).sqrt();
        let found = noise(&all, Mix::Chatty).unwrap();
        assert!((found.plain - expected).abs() < 1e-9 && found.even.is_none());
        assert!(found.is_too_much());
        // According to the probe that third run met a faster machine; the others did not.
        for record in &mut all {
            let slowness = if record.pair == Some(20) && record.block == 1 {
                4.9
            } else {
                5.0
            };
            record.outcome.as_mut().unwrap().slowness = vec![slowness];
        }
        let found = noise(&all, Mix::Chatty).unwrap();
        assert!(
            found.even.unwrap() < 1e-6 && !found.is_too_much(),
            "{found:?}"
        );
    }

    #[test]
    fn five_good_seconds_in_a_row_count_as_reached() {
        let series = [10.0, 99.0, 10.0, 96.0, 96.0, 96.0, 96.0, 96.0];
        let found = reached(&series, 100.0).unwrap();
        assert_eq!(found.seconds, 3);
        assert!((found.transactions - 119.0).abs() < 1e-9);
        assert_eq!(reached(&series, 200.0), None);
        assert_eq!(reached(&[], 1.0), None);
        let late = Reached {
            seconds: 31,
            transactions: 3999.0,
        };
        assert!(late.is_soon());
        assert!(
            !Reached {
                transactions: 4001.0,
                ..late
            }
            .is_soon()
        );
    }
}
