//! Rings of rows of figures: an hour at a second, and a day at 30 seconds.

/// Rows of the hour.
pub(super) const HOUR: usize = 3600;
/// Rows of the day.
pub(super) const DAY: usize = 2880;
/// Seconds of a row of the day.
pub(super) const DAY_STEP: usize = 30;
/// Places that a ring takes at once while it grows.
const GROWTH: usize = 120;

/// Reduction of several values of a line to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reduction {
    /// Mean of the known values.
    Mean,
    /// Highest of the known values.
    Highest,
}

impl Reduction {
    /// Reduces values to one. The result is unknown (NaN) if all values are.
    pub(super) fn of(self, values: impl Iterator<Item = f32>) -> f32 {
        let known = values.filter(|value| !value.is_nan());
        match self {
            Self::Highest => known.fold(f32::NAN, f32::max),
            Self::Mean => {
                let (mut sum, mut count) = (0.0, 0.0);
                for value in known {
                    sum += f64::from(value);
                    count += 1.0;
                }
                // Without a known value this is 0 / 0, which is NaN.
                narrow(sum / count)
            }
        }
    }
}

/// Returns a figure in the precision of a ring.
#[expect(clippy::cast_possible_truncation, reason = "a chart needs no more")]
pub(super) fn narrow(value: f64) -> f32 {
    value as f32
}

/// Last rows of `N` figures each. Memory grows with the number of rows, up to the capacity.
#[derive(Debug)]
pub(super) struct Ring<const N: usize> {
    rows: Vec<[f32; N]>,
    /// Place of the oldest row once the ring is full.
    oldest: usize,
    capacity: usize,
}

impl<const N: usize> Ring<N> {
    pub(super) const fn new(capacity: usize) -> Self {
        Self {
            rows: Vec::new(),
            oldest: 0,
            capacity,
        }
    }

    pub(super) fn push(&mut self, row: [f32; N]) {
        if self.rows.len() < self.capacity {
            if self.rows.len() == self.rows.capacity() {
                let room = self.capacity - self.rows.len();
                self.rows.reserve_exact(GROWTH.min(room));
            }
            self.rows.push(row);
            return;
        }
        if let Some(slot) = self.rows.get_mut(self.oldest) {
            *slot = row;
        }
        self.oldest = (self.oldest + 1) % self.capacity;
    }

    /// Replaces the newest row.
    pub(super) fn replace(&mut self, row: [f32; N]) {
        let newest = (self.oldest + self.rows.len()).checked_sub(1);
        let newest = newest.map(|at| at % self.rows.len().max(1));
        if let Some(slot) = newest.and_then(|at| self.rows.get_mut(at)) {
            *slot = row;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes that the rows take.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<[f32; N]>()
    }

    /// The last `count` rows, oldest first.
    pub(super) fn last(&self, count: usize) -> impl Iterator<Item = &[f32; N]> {
        let (newer, older) = self.rows.split_at(self.oldest.min(self.rows.len()));
        let skip = self.rows.len().saturating_sub(count);
        older.iter().chain(newer).skip(skip)
    }
}

/// The hour and the day of `N` figures.
#[derive(Debug)]
pub(super) struct Lines<const N: usize> {
    pub(super) hour: Ring<N>,
    pub(super) day: Ring<N>,
}

impl<const N: usize> Default for Lines<N> {
    fn default() -> Self {
        Self {
            hour: Ring::new(HOUR),
            day: Ring::new(DAY),
        }
    }
}

impl<const N: usize> Lines<N> {
    /// Adds a row to the day, made of the last rows of the hour.
    pub(super) fn end_day_step(&mut self, reductions: &[Reduction; N]) {
        let mut row = [f32::NAN; N];
        for (figure, (value, reduction)) in row.iter_mut().zip(reductions).enumerate() {
            let rows = self.hour.last(DAY_STEP);
            let values = rows.map(|row| row.get(figure).copied().unwrap_or(f32::NAN));
            *value = reduction.of(values);
        }
        self.day.push(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_loses_its_oldest_row() {
        let mut ring = Ring::<1>::new(3);
        let rows = |ring: &Ring<1>, n| ring.last(n).map(|row| row[0]).collect::<Vec<_>>();
        ring.replace([7.0]);
        assert_eq!(rows(&ring, 9), []);
        for value in [1.0, 2.0, 3.0, 4.0] {
            ring.push([value]);
        }
        assert_eq!(rows(&ring, 9), [2.0, 3.0, 4.0]);
        assert_eq!(rows(&ring, 2), [3.0, 4.0]);
        ring.replace([5.0]);
        assert_eq!(rows(&ring, 2), [3.0, 5.0]);
    }

    #[test]
    fn a_ring_takes_no_more_than_its_places() {
        let mut ring = Ring::<2>::new(HOUR);
        assert_eq!(ring.bytes(), 0);
        ring.push([0.0; 2]);
        assert!(ring.bytes() <= GROWTH * 8);
        (0..2 * HOUR).for_each(|_| ring.push([0.0; 2]));
        assert_eq!(ring.bytes(), HOUR * 8);
    }

    #[test]
    fn unknown_values_are_left_out() {
        let values = [1.0, f32::NAN, 4.0];
        assert_eq!(Reduction::Mean.of(values.into_iter()), 2.5);
        assert_eq!(Reduction::Highest.of(values.into_iter()), 4.0);
        assert!(Reduction::Mean.of([f32::NAN].into_iter()).is_nan());
        assert!(Reduction::Highest.of([].into_iter()).is_nan());
    }
}
