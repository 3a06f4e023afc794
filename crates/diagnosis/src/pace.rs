//! Steps from one sample to the next: regular ones, gaps, and clocks that were set.
//!
//! The only time is that of the snapshots, in Unix seconds. A process may be suspended, workers may not answer, and
//! an administrator may set the clock.

/// Steps up to this length are regular: the timer of a second is late by less than one.
const REGULAR_SECONDS: i64 = 2;
/// Samples missing for longer than this break what has to hold without a break.
const LATE_SECONDS: i64 = 10;
/// Longest step that counts towards the duration of a condition: a longer one is a clock that was set.
const LONGEST_SECONDS: i64 = 86_400;

/// Step from the sample before to the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// First sample.
    First,
    /// Regular step of 0 to 2 seconds.
    Regular(u32),
    /// Step of 3 to 10 seconds: samples are missing, but the changes in between are known.
    Late(u32),
    /// Longer step: nothing is known about the seconds in between.
    Gap(u32),
    /// Clock that was set back.
    Back,
}

impl Step {
    /// Returns the step between two times.
    pub(crate) fn between(before: Option<i64>, now: i64) -> Self {
        let Some(before) = before else {
            return Self::First;
        };
        let seconds = now.saturating_sub(before);
        let length = u32::try_from(seconds).unwrap_or(u32::MAX);
        match seconds {
            ..0 => Self::Back,
            0..=REGULAR_SECONDS => Self::Regular(length),
            3..=LATE_SECONDS => Self::Late(length),
            _ => Self::Gap(length),
        }
    }

    /// True if the changes since the sample before belong to a known time.
    pub(crate) fn is_continuous(self) -> bool {
        matches!(self, Self::Regular(_) | Self::Late(_))
    }

    /// Seconds that pass for the duration of a condition.
    pub(crate) fn seconds(self) -> u64 {
        match self {
            Self::First => 0,
            Self::Regular(seconds) | Self::Late(seconds) => seconds.into(),
            Self::Gap(seconds) if i64::from(seconds) <= LONGEST_SECONDS => seconds.into(),
            Self::Gap(_) | Self::Back => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_apart_by_their_length() {
        let step = |now| Step::between(Some(100), now);
        assert_eq!(Step::between(None, 100), Step::First);
        assert_eq!(step(100), Step::Regular(0));
        assert_eq!(step(102), Step::Regular(2));
        assert_eq!(step(103), Step::Late(3));
        assert_eq!(step(110), Step::Late(10));
        assert_eq!(step(111), Step::Gap(11));
        assert_eq!(step(99), Step::Back);
        assert_eq!(Step::between(Some(i64::MIN), i64::MAX), Step::Gap(u32::MAX));
    }

    #[test]
    fn a_clock_that_was_set_adds_a_second_only() {
        assert_eq!(Step::Back.seconds(), 1);
        assert_eq!(Step::between(Some(0), 90_000).seconds(), 1);
        assert_eq!(Step::between(Some(0), 600).seconds(), 600);
    }
}
