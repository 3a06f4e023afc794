//! Turns a ratio into a verdict: better, worse, within the noise, or not to be judged.

use crate::statistics::{Noise, Ratio};

/// Verdict on a ratio to the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// Better, beyond the noise.
    Better,
    /// Within the noise: the interval contains 1, or the noise floor covers the ratio.
    Noise,
    /// Not to be judged: one of the two did other work than was asked for, so that the ratio compares nothing.
    OtherWork,
    /// Not to be judged: one block and no noise floor.
    Unjudged,
    /// Worse, beyond the noise.
    Worse,
}

/// Noise floor and its origin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Floor {
    /// Width of the noise.
    pub(crate) noise: Noise,
    /// True if it comes from the same experiment. A floor from another load can dismiss a difference, but not
    /// support one.
    pub(crate) own: bool,
}

impl Floor {
    /// True if the mean of `blocks` ratios is beyond the floor; `None` if that cannot be decided.
    pub(crate) fn is_passed(&self, ratio: f64, blocks: usize) -> Option<bool> {
        match (self.noise.covers(ratio, blocks), self.own) {
            (true, _) => Some(false),
            (false, true) => Some(true),
            (false, false) if blocks > 1 => Some(true),
            (false, false) => None,
        }
    }
}

/// A ratio with its verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Judged {
    /// Ratio of the target to the base.
    pub(crate) ratio: Ratio,
    /// Verdict on the ratio.
    pub(crate) verdict: Verdict,
    /// True if more is better.
    pub(crate) more_is_better: bool,
}

impl Judged {
    /// Judges `ratio`. A difference must pass both tests that exist: its own interval and the noise floor.
    pub(crate) fn new(ratio: Ratio, floor: Option<&Floor>, more_is_better: bool) -> Self {
        let beyond = floor.and_then(|floor| floor.is_passed(ratio.mean, ratio.pairs));
        let differs = match (ratio.differs(), beyond) {
            (Some(own), Some(beyond)) => Some(own && beyond),
            // If only one of the two tests exists, it decides.
            (own, beyond) => own.or(beyond),
        };
        let verdict = match differs {
            None => Verdict::Unjudged,
            Some(false) => Verdict::Noise,
            Some(true) if (ratio.mean > 1.0) == more_is_better => Verdict::Better,
            Some(true) => Verdict::Worse,
        };
        Self {
            ratio,
            verdict,
            more_is_better,
        }
    }

    /// Returns the ratio as one of two different kinds of work, whatever its size.
    pub(crate) fn of_other_work(self) -> Self {
        Self {
            verdict: Verdict::OtherWork,
            ..self
        }
    }

    /// Returns the logarithm of the ratio, positive if the target is better.
    pub(crate) fn gain(&self) -> f64 {
        let log = self.ratio.mean.ln();
        if self.more_is_better { log } else { -log }
    }

    /// Returns the size of the gain in steps 1 to 5: below 5 %, 15 %, 35 %, 75 %, and above.
    pub(crate) fn step(&self) -> u8 {
        let size = self.gain().abs().exp() - 1.0;
        let steps = [0.05, 0.15, 0.35, 0.75];
        let passed = steps.iter().filter(|step| size >= **step).count();
        u8::try_from(passed + 1).unwrap_or(5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(logs: &[f64]) -> Ratio {
        Ratio::of_logs(logs).unwrap()
    }

    fn verdict(logs: &[f64], noise: Option<&Noise>, more_is_better: bool) -> Verdict {
        let floor = noise.map(|noise| Floor {
            noise: *noise,
            own: true,
        });
        Judged::new(ratio(logs), floor.as_ref(), more_is_better).verdict
    }

    #[test]
    fn the_good_side_depends_on_the_measure() {
        let faster = [0.2, 0.21, 0.19];
        assert_eq!(verdict(&faster, None, true), Verdict::Better);
        assert_eq!(verdict(&faster, None, false), Verdict::Worse);
    }

    #[test]
    fn an_interval_around_one_is_noise() {
        assert_eq!(verdict(&[0.2, -0.1, 0.1], None, true), Verdict::Noise);
    }

    #[test]
    fn the_noise_floor_outweighs_a_narrow_interval() {
        let wide = Noise::of(&[(1.3, 1.0), (1.0, 1.3), (1.2, 1.0)]).unwrap();
        assert_eq!(
            verdict(&[0.10, 0.11, 0.09], Some(&wide), true),
            Verdict::Noise
        );
    }

    #[test]
    fn one_block_is_judged_by_the_noise_floor_alone() {
        let narrow = Noise::of(&[(1.01, 1.0), (1.0, 1.01)]).unwrap();
        assert_eq!(verdict(&[0.2], None, true), Verdict::Unjudged);
        assert_eq!(verdict(&[0.2], Some(&narrow), true), Verdict::Better);
        assert_eq!(verdict(&[0.01], Some(&narrow), true), Verdict::Noise);
    }

    #[test]
    fn a_floor_of_another_load_dismisses_and_does_not_support() {
        let noise = Noise::of(&[(1.01, 1.0), (1.0, 1.01)]).unwrap();
        let floor = Floor { noise, own: false };
        let verdict = |logs: &[f64]| Judged::new(ratio(logs), Some(&floor), true).verdict;
        assert_eq!(verdict(&[0.2]), Verdict::Unjudged);
        assert_eq!(verdict(&[0.01]), Verdict::Noise);
        assert_eq!(verdict(&[0.2, 0.21, 0.19]), Verdict::Better);
        assert_eq!(verdict(&[0.005, 0.006, 0.005]), Verdict::Noise);
    }

    #[test]
    fn steps_are_the_same_for_half_and_double() {
        let step = |ratio: f64| Judged::new(self::ratio(&[ratio.ln()]), None, true).step();
        assert_eq!([1.04, 1.1, 1.3, 1.5, 2.0].map(step), [1, 2, 3, 4, 5]);
        assert_eq!([1.0 / 1.04, 0.5].map(step), [1, 5]);
    }
}
