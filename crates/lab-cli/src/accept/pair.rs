//! An adaptive run, paired with a run of the best fixed size.

use weir_lab::statistics::{Adjusted, Ratio};

use super::Record;
use super::mix::Mix;
use super::run::{Seen, Size};

#[expect(clippy::cast_precision_loss, reason = "latencies stay far below 2^52")]
pub(super) fn p99(seen: &Seen) -> f64 {
    seen.p99_us as f64
}

/// An adaptive run and the fixed run beside it.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) block: u32,
    pub(super) start: u32,
    pub(super) adaptive: &'a Seen,
    pub(super) fixed: &'a Seen,
    pub(super) size: u32,
}

impl Pair<'_> {
    /// Difference in slowness between the two runs: of the server's processors, and of the others. Empty if unknown.
    pub(super) fn slower(&self) -> Vec<f64> {
        let both = self.adaptive.slowness.iter().zip(&self.fixed.slowness);
        both.map(|(adaptive, fixed)| adaptive - fixed).collect()
    }
}

/// Minimum of pairs for estimating the effect of the machine's speed.
pub(super) const EVEN_MIN: usize = 8;

/// Throughput and p99 relative to the fixed size's, adjusted as if both runs had met the same machine.
pub(super) fn even(pairs: &[Pair<'_>]) -> Option<[Adjusted; 2]> {
    if pairs.len() < EVEN_MIN {
        return None;
    }
    let slower: Vec<Vec<f64>> = pairs.iter().map(Pair::slower).collect();
    let slower = columns(&slower)?;
    let adjusted = |of: fn(&Seen) -> f64| {
        let logs = pairs
            .iter()
            .map(|pair| (of(pair.adaptive) / of(pair.fixed)).ln());
        Ratio::adjusted(&logs.collect::<Vec<_>>(), &slower)
    };
    Some([adjusted(|seen| seen.per_second)?, adjusted(p99)?])
}

/// Transposes rows into columns; none if a row is empty or lengths differ.
pub(super) fn columns(rows: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let width = rows.first()?.len();
    let is_known = width > 0 && rows.iter().all(|row| row.len() == width);
    let column = |at: usize| rows.iter().filter_map(|row| row.get(at)).copied().collect();
    is_known.then(|| (0..width).map(column).collect())
}

/// All pairs of a mix.
pub(super) fn pairs(records: &[Record], mix: Mix) -> Vec<Pair<'_>> {
    let of_mix = || {
        let records = records.iter().filter(move |record| record.mix == mix);
        records.filter_map(|record| Some((record, record.outcome.as_ref().ok()?)))
    };
    of_mix()
        .filter_map(|(record, adaptive)| {
            let Size::From(start) = record.size else {
                return None;
            };
            let (size, fixed) = of_mix().find_map(|(other, fixed)| match other.size {
                Size::Fixed(size) if (other.block, other.pair) == (record.block, Some(start)) => {
                    Some((size, fixed))
                }
                _ => None,
            })?;
            Some(Pair {
                block: record.block,
                start,
                adaptive,
                fixed,
                size,
            })
        })
        .collect()
}
