//! Journal of the last decisions, each with its reason in words.

use std::collections::VecDeque;
use std::time::Duration;

/// Cause of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// Hard errors of the host.
    Errors,
    /// A comparison of two sizes.
    Experiment,
    /// The controller freezes, or goes on.
    Freeze,
    /// A setting changed its bounds.
    Settings,
    /// The load has changed.
    Shift,
    /// No transaction could end, because every server waited for a client in the queue.
    Stall,
    /// Fewer clients than the limit allows.
    Unused,
}

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Time of the decision, on the clock of the observations.
    pub at: Duration,
    /// The size before.
    pub from: u32,
    /// The size after; equal to `from` if the decision was to stay.
    pub to: u32,
    /// Cause of the decision.
    pub cause: Cause,
    /// Reason for operators: one sentence without a full stop.
    pub reason: String,
}

impl std::fmt::Display for Entry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.from == self.to {
            write!(formatter, "stays {}: {}", self.to, self.reason)
        } else {
            write!(formatter, "{} -> {}: {}", self.from, self.to, self.reason)
        }
    }
}

/// The last decisions, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Journal(VecDeque<Entry>);

impl Journal {
    /// Maximum number of entries.
    pub const ENTRIES_MAX: usize = 200;

    pub(crate) fn push(&mut self, entry: Entry) {
        if self.0.len() >= Self::ENTRIES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(entry);
    }

    /// Iterates over all entries, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.0.iter()
    }

    /// The latest decision.
    pub fn last(&self) -> Option<&Entry> {
        self.0.back()
    }

    /// Number of entries, at most [`ENTRIES_MAX`](Self::ENTRIES_MAX).
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if nothing was decided yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_decisions_are_kept() {
        let mut journal = Journal::default();
        for to in 0..250 {
            journal.push(Entry {
                at: Duration::from_secs(u64::from(to)),
                from: 1,
                to,
                cause: Cause::Experiment,
                reason: "because".to_owned(),
            });
        }
        assert_eq!(journal.len(), Journal::ENTRIES_MAX);
        assert_eq!(journal.iter().next().map(|entry| entry.to), Some(50));
        assert_eq!(
            journal.last().map(Entry::to_string),
            Some("1 -> 249: because".to_owned())
        );
    }
}
