//! Record of a client: the fate of each of its rows, its errors, and the times of its successes. A record must never be
//! kinder than the client's view: a row is acknowledged only when `ReadyForQuery` has come without an error.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;

use crate::Raw;

/// Fate of a row, as its client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Committed.
    Acknowledged,
    /// Not committed.
    Refused,
    /// The connection or the server went after the COMMIT, or the autocommitted write, had been sent.
    Unknown,
}

/// Request that failed. The first four are outside of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Login,
    Read,
    Write,
    Begin,
    /// A statement between BEGIN and COMMIT.
    Inside,
    Commit,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Login => "login",
            Self::Read => "read",
            Self::Write => "write",
            Self::Begin => "BEGIN",
            Self::Inside => "statement",
            Self::Commit => "COMMIT",
        })
    }
}

/// Errors of one place and code.
#[derive(Clone, Debug)]
pub(super) struct Errors {
    pub(super) count: u64,
    /// Time and text of the first one.
    pub(super) first: Instant,
    pub(super) text: String,
}

/// Connection that ended without a word.
pub(super) const CLOSED: &str = "closed";
/// Request that was not answered in time.
pub(super) const SILENT: &str = "silent";

/// Login of a client that looks for the primary, at a standby.
pub(super) const STANDBY: &str = "standby";

/// Record of one client, or of all of them after [`Record::merge`].
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) rows: HashMap<i64, Fate>,
    pub(super) errors: BTreeMap<(Place, String), Errors>,
    /// Reads that did not show the client's last acknowledged row exactly once, with the first of them.
    pub(super) stale: Vec<String>,
    /// Transactions that were committed, and autocommitted writes.
    pub(super) writes: Vec<Instant>,
    pub(super) reads: Vec<Instant>,
    /// Longest time from a request to its answer.
    pub(super) longest: Duration,
    /// Longest time of a login that succeeded, or ended with an error.
    pub(super) longest_login: Duration,
}

impl Record {
    pub(super) fn error(&mut self, now: Instant, place: Place, code: &str, text: &str) {
        let entry = self.errors.entry((place, code.to_owned()));
        let errors = entry.or_insert_with(|| Errors {
            count: 0,
            first: now,
            text: text.to_owned(),
        });
        errors.count += 1;
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.rows.extend(other.rows);
        for (key, errors) in other.errors {
            match self.errors.get_mut(&key) {
                None => drop(self.errors.insert(key, errors)),
                Some(known) => {
                    known.count += errors.count;
                    if errors.first < known.first {
                        (known.first, known.text) = (errors.first, errors.text);
                    }
                }
            }
        }
        self.stale.extend(other.stale);
        self.writes.extend(other.writes);
        self.reads.extend(other.reads);
        self.longest = self.longest.max(other.longest);
        self.longest_login = self.longest_login.max(other.longest_login);
    }

    /// Number of rows with a fate.
    pub(super) fn count(&self, fate: Fate) -> usize {
        self.rows.values().filter(|known| **known == fate).count()
    }
}

/// Fate of a row whose COMMIT or autocommitted write was answered with this code. PostgreSQL sends FATAL with 57P01 or 57P02
/// in place of an answer only if it has rolled back: behind a commit it sends CommandComplete first, or nothing at all.
pub(super) fn fate_by(code: &str) -> Fate {
    let is_unknown = matches!(
        code,
        CLOSED | SILENT | "08000" | "08003" | "08006" | "08007" | "40003"
    );
    if is_unknown {
        Fate::Unknown
    } else {
        Fate::Refused
    }
}

/// Rows on the final primary compared with the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Audit {
    /// Acknowledged rows that are not there.
    pub(super) lost: usize,
    /// Rows that are there more than once.
    pub(super) doubled: usize,
    /// Refused rows that are there.
    pub(super) ghosts: usize,
    /// Rows of no client.
    pub(super) foreign: usize,
    /// Rows of unknown fate that are there.
    pub(super) unknown_there: usize,
}

/// Table of all rows; without a key, so that a doubled row is seen instead of refused.
pub(super) const TABLE: &str = "CREATE TABLE ledger (id bigint NOT NULL, client int NOT NULL); \
     CREATE INDEX ON ledger (id)";

/// Compares the records with the rows on a server.
pub(super) fn audit(record: &Record, primary: &mut Raw) -> Result<Audit> {
    let rows = primary.query("SELECT id, count(*) FROM ledger GROUP BY id")?;
    let mut there: HashMap<i64, u64> = HashMap::new();
    for row in rows {
        let [Some(id), Some(count)] = &*row else {
            anyhow::bail!("a row of the ledger is {row:?}");
        };
        there.insert(
            id.parse().context("an id")?,
            count.parse().context("a count")?,
        );
    }
    Ok(compare(record, &there))
}

fn compare(record: &Record, there: &HashMap<i64, u64>) -> Audit {
    let mut audit = Audit::default();
    for (id, count) in there {
        audit.doubled += usize::from(*count > 1);
        match record.rows.get(id) {
            None => audit.foreign += 1,
            Some(Fate::Refused) => audit.ghosts += 1,
            Some(Fate::Unknown) => audit.unknown_there += 1,
            Some(Fate::Acknowledged) => {}
        }
    }
    let acknowledged = |(id, fate): (&i64, &Fate)| (*fate == Fate::Acknowledged).then_some(*id);
    let mut acknowledged = record.rows.iter().filter_map(acknowledged);
    audit.lost = acknowledged
        .by_ref()
        .filter(|id| !there.contains_key(id))
        .count();
    audit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_difference_is_counted() {
        let mut record = Record::default();
        let fates = [
            (1, Fate::Acknowledged),
            (2, Fate::Acknowledged),
            (3, Fate::Refused),
            (4, Fate::Unknown),
            (5, Fate::Unknown),
            (6, Fate::Acknowledged),
            (7, Fate::Refused),
        ];
        record.rows.extend(fates);
        let there = HashMap::from([(1, 1), (3, 1), (4, 1), (6, 2), (8, 1)]);
        let audit = Audit {
            lost: 1,
            doubled: 1,
            ghosts: 1,
            foreign: 1,
            unknown_there: 1,
        };
        assert_eq!(compare(&record, &there), audit);
    }

    #[test]
    fn only_a_lost_answer_leaves_the_fate_open() {
        for code in ["08006", "08007", "40003", CLOSED, SILENT] {
            assert_eq!(fate_by(code), Fate::Unknown);
        }
        for code in [
            "25006", "40001", "53300", "57P01", "57P02", "57P03", "08001",
        ] {
            assert_eq!(fate_by(code), Fate::Refused);
        }
    }
}
