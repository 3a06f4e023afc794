//! Positions in the WAL of a timeline, and the position that a reader needs to see a commit.

use std::fmt;
use std::sync::Arc;

use weir_pool::Moment;

use crate::answer::Lsn;
use crate::samples::Samples;

/// Position in the WAL of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelinePosition {
    /// Number of the timeline.
    pub timeline: u32,
    /// Position.
    pub lsn: Lsn,
}

impl TimelinePosition {
    /// Parses the form of [`Display`](fmt::Display): timeline, `/`, and PostgreSQL's form of a position, `3/16/B374D848`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (timeline, lsn) = text.split_once('/')?;
        let is_number = !timeline.is_empty() && timeline.bytes().all(|byte| byte.is_ascii_digit());
        let timeline = timeline.parse().ok().filter(|_| is_number)?;
        let lsn = Lsn::parse(lsn)?;
        Some(Self { timeline, lsn })
    }
}

impl fmt::Display for TimelinePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.timeline, self.lsn)
    }
}

/// Positions of the primary in its present term, by the times at which they were asked for.
#[derive(Clone, Debug, Default)]
pub struct Positions {
    /// Timeline of the primary; 0 if none was elected yet.
    pub(crate) timeline: u32,
    pub(crate) flushed: Arc<Samples>,
    pub(crate) inserted: Arc<Samples>,
}

impl Positions {
    /// Creates the positions of a term in which the primary was not asked yet.
    #[must_use]
    pub fn on_timeline(timeline: u32) -> Self {
        Self {
            timeline,
            ..Self::default()
        }
    }

    /// Returns the timeline of the primary that was elected last; none if there was none.
    #[must_use]
    pub fn timeline(&self) -> Option<u32> {
        Some(self.timeline).filter(|&timeline| timeline > 0)
    }

    /// Returns a position above every commit that was acknowledged until `flushed`, and above every one with
    /// `synchronous_commit = off` until `inserted`. None if the primary was not asked for its position since then.
    #[must_use]
    pub fn above(&self, flushed: Moment, inserted: Moment) -> Option<TimelinePosition> {
        let timeline = self.timeline()?;
        let lsn = match inserted {
            Moment(0) => self.flushed.after(flushed)?.lsn,
            _ => {
                let (flushed, inserted) =
                    (self.flushed.after(flushed)?, self.inserted.after(inserted)?);
                flushed.lsn.max(inserted.lsn)
            }
        };
        Some(TimelinePosition { timeline, lsn })
    }
}

impl PartialEq for Positions {
    /// Compares the newest samples: there is one sequence of samples for a term.
    fn eq(&self, other: &Self) -> bool {
        self.timeline == other.timeline
            && self.flushed.newest() == other.flushed.newest()
            && self.inserted.newest() == other.inserted.newest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Sample;

    fn samples(list: &[(u64, u64)]) -> Arc<Samples> {
        let mut samples = Samples::default();
        for &(sent, lsn) in list {
            samples.push(Sample {
                sent: Moment(sent),
                lsn: Lsn(lsn),
            });
        }
        Arc::new(samples)
    }

    #[test]
    fn a_position_is_written_as_it_is_read() {
        for text in ["1/0/0", "3/16/B374D848", "4294967295/FFFFFFFF/FFFFFFFF"] {
            let read = TimelinePosition::parse(text).map(|position| position.to_string());
            assert_eq!(read.as_deref(), Some(text));
        }
        for text in [
            "",
            "/",
            "1",
            "0/1A",
            "1/0",
            "+1/0/0",
            " 1/0/0",
            "1/0/0 ",
            "1//0",
            "1/0/",
            "1/0/0/0",
            "a/0/0",
            "1/g/0",
            "1/0/123456789",
            "4294967296/0/0",
            "/0/0",
            "1/+1/0",
        ] {
            assert_eq!(TimelinePosition::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_position_is_above_a_commit_if_it_was_asked_for_later() {
        let positions = Positions {
            timeline: 3,
            flushed: samples(&[(10, 100), (20, 200)]),
            inserted: samples(&[(10, 150), (20, 250)]),
        };
        let above = |flushed, inserted| {
            let found = positions.above(Moment(flushed), Moment(inserted));
            found.map(|position| (position.timeline, position.lsn.0))
        };
        assert_eq!(above(5, 0), Some((3, 100)));
        assert_eq!(above(10, 0), Some((3, 200)));
        assert_eq!(above(20, 0), None);
        assert_eq!(above(15, 5), Some((3, 200)));
        assert_eq!(above(15, 15), Some((3, 250)));
        assert_eq!(above(5, 20), None);
        let unknown = Positions {
            timeline: 0,
            ..positions.clone()
        };
        assert_eq!(unknown.above(Moment(5), Moment(0)), None);
    }
}
