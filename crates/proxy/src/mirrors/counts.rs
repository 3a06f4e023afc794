//! Counts of a mirror.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_stats::{MirrorCounts, MirrorRow, MirrorStatementRow};

use crate::global::lock;

/// Maximum number of statements that are counted one by one.
const STATEMENTS_MAX: usize = 500;

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Compared {
    Same,
    /// As many rows, but others.
    Rows,
    /// Another number of rows: the client's, and the mirror's.
    Counts(u64, u64),
    /// Another SQLSTATE: the client's, and the mirror's with its text.
    Errors(Option<[u8; 5]>, Option<String>),
}

/// Counts of a mirror.
#[derive(Debug, Default)]
pub(super) struct Counts(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    all: MirrorCounts,
    skipped: u64,
    failed: u64,
    dropped: u64,
    last_failure: String,
    last_difference: String,
    statements: HashMap<Arc<str>, MirrorCounts>,
}

impl Counts {
    /// Counts a transaction that found no room.
    pub(super) fn drop_one(&self) {
        lock(&self.0).dropped += 1;
    }

    /// Counts statements that are not mirrored.
    pub(super) fn skip(&self, statements: usize) {
        lock(&self.0).skipped += statements as u64;
    }

    /// Counts statements that got no answer, or none that means anything.
    pub(super) fn fail(&self, statements: usize, reason: &str) {
        let mut inner = lock(&self.0);
        inner.failed += statements as u64;
        if inner.last_failure != reason {
            reason.clone_into(&mut inner.last_failure);
        }
    }

    /// Counts a statement that both sides have answered, in these times: the client's, and the mirror's.
    pub(super) fn compare(
        &self,
        text: &Arc<str>,
        compared: &Compared,
        (client, mirror): (Duration, Duration),
    ) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let mut counts = MirrorCounts {
            sent: 1,
            client_us: micros(client),
            mirror_us: micros(mirror),
            ..MirrorCounts::default()
        };
        let difference = match compared {
            Compared::Same => {
                counts.same = 1;
                None
            }
            Compared::Rows => {
                counts.other_rows = 1;
                Some("other rows".to_owned())
            }
            Compared::Counts(client, mirror) => {
                counts.other_counts = 1;
                Some(format!("{mirror} rows instead of {client}"))
            }
            Compared::Errors(client, mirror) => {
                counts.other_errors = 1;
                let client = client.as_ref().map(|code| String::from_utf8_lossy(code));
                let mirror = mirror.as_deref().unwrap_or("no error");
                Some(format!(
                    "{mirror} instead of {}",
                    client.as_deref().unwrap_or("no error")
                ))
            }
        };
        let mut inner = lock(&self.0);
        inner.all += counts;
        if let Some(difference) = difference {
            inner.last_difference = format!("{difference}: {text}");
        }
        let has_room = inner.statements.len() < STATEMENTS_MAX;
        if has_room || inner.statements.contains_key(text) {
            *inner.statements.entry(Arc::clone(text)).or_default() += counts;
        }
    }

    /// Returns the row of the mirror with nothing but the counts; statements that differ most come first.
    pub(super) fn row(&self) -> MirrorRow {
        let inner = lock(&self.0);
        let mut statements: Vec<_> = inner.statements.iter().collect();
        statements.sort_by_key(|(text, counts)| {
            let others = counts.sent - counts.same;
            (
                std::cmp::Reverse((others, counts.mirror_us)),
                Arc::clone(text),
            )
        });
        let statements = statements
            .into_iter()
            .map(|(text, counts)| MirrorStatementRow {
                text: text.to_string(),
                counts: *counts,
            });
        MirrorRow {
            counts: inner.all,
            skipped: inner.skipped,
            failed: inner.failed,
            dropped: inner.dropped,
            last_failure: inner.last_failure.clone(),
            last_difference: inner.last_difference.clone(),
            statements: statements.collect(),
            ..MirrorRow::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_counted_by_kind_and_shown_first() {
        let counts = Counts::default();
        let times = (Duration::from_millis(2), Duration::from_millis(3));
        let [one, other]: [Arc<str>; 2] = ["SELECT ?".into(), "SELECT a".into()];
        counts.compare(&one, &Compared::Same, times);
        counts.compare(&other, &Compared::Counts(3, 2), times);
        counts.compare(
            &other,
            &Compared::Errors(None, Some("42P01: no t".to_owned())),
            times,
        );
        counts.fail(2, "refused");
        counts.skip(1);
        counts.drop_one();
        let row = counts.row();
        assert_eq!(
            (row.counts.sent, row.counts.same, row.counts.other_counts),
            (3, 1, 1)
        );
        assert_eq!((row.counts.client_us, row.counts.mirror_us), (6000, 9000));
        assert_eq!((row.failed, row.skipped, row.dropped), (2, 1, 1));
        assert_eq!(
            row.last_difference,
            "42P01: no t instead of no error: SELECT a"
        );
        assert_eq!(row.last_failure, "refused");
        let texts: Vec<_> = row.statements.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(texts, ["SELECT a", "SELECT ?"]);
    }

    #[test]
    fn statements_have_a_bound() {
        let counts = Counts::default();
        for number in 0..STATEMENTS_MAX + 10 {
            let text = number.to_string().into();
            counts.compare(&text, &Compared::Same, (Duration::ZERO, Duration::ZERO));
        }
        let row = counts.row();
        assert_eq!(row.statements.len(), STATEMENTS_MAX);
        assert_eq!(row.counts.sent, (STATEMENTS_MAX + 10) as u64);
    }
}
