//! `SHOW DIGESTS [FOR database[/user]] [ORDER BY column] [LIMIT n]`: its grammar, and the rows of its answer.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use lru::LruCache;
use weir_sql::{Blank, Fingerprint, normalized, without_literals};
use weir_stats::{DigestFigures, DigestRows, Percentiles};

use crate::explain::{name, word};
use crate::show::{Heading, Row, filled, int8, long, numeric, some, text, timestamp};
use crate::statement::Refused;

/// Number of rows without LIMIT.
const LIMIT: usize = 100;

/// Maximum number of texts, and of their bytes, that are parsed for one answer. The most expensive statements come first;
/// the next answer finds the others.
const PARSES_MAX: usize = 100;
const BYTES_MAX: usize = 32 * 1024;

/// Number of texts whose fingerprints are kept.
const KNOWN_MAX: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Maximum length in bytes of a text that is shown.
const SHOWN_MAX: usize = 1024;

/// Stands in place of the statement in the row of all others.
const OTHERS: &str = "(others)";

const USAGE: &str = "SHOW DIGESTS [FOR database[/user]] [ORDER BY column] [LIMIT rows; 0 = all]";

/// Columns of the answer.
pub(crate) static HEADINGS: &[Heading] = &[
    text("database").ours(),
    text("user").ours(),
    text("fingerprint").ours(),
    int8("calls").ours(),
    int8("errors").ours(),
    int8("rows").ours(),
    int8("bytes").ours(),
    numeric("server_us").ours(),
    numeric("server_us_error").ours(),
    int8("avg_us").ours(),
    int8("p50_us").ours(),
    int8("p95_us").ours(),
    int8("p99_us").ours(),
    numeric("wait_us").ours(),
    text("first_seen").ours(),
    text("last_seen").ours(),
    text("last_error").ours(),
    text("statement").ours(),
];

/// Question for digests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    database: Option<String>,
    user: Option<String>,
    order: Order,
    /// Number of rows; 0 = all.
    limit: usize,
}

impl Default for Question {
    fn default() -> Self {
        Self {
            database: None,
            user: None,
            order: Order::Server,
            limit: LIMIT,
        }
    }
}

/// Column by which rows are sorted, the largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Average,
    Bytes,
    Calls,
    Errors,
    LastSeen,
    P99,
    Rows,
    Server,
    Wait,
}

const ORDERS: &[(&str, Order)] = &[
    ("server_us", Order::Server),
    ("calls", Order::Calls),
    ("errors", Order::Errors),
    ("rows", Order::Rows),
    ("bytes", Order::Bytes),
    ("avg_us", Order::Average),
    ("p99_us", Order::P99),
    ("wait_us", Order::Wait),
    ("last_seen", Order::LastSeen),
];

/// Returns the part of a query behind SHOW DIGESTS, or none if it is another command.
pub(crate) fn behind_words(sql: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(sql).ok()?;
    let shows = word(text, "SHOW").or_else(|| word(text, "SELECT"));
    word(shows?, "DIGESTS")
}

/// Reads the arguments.
pub(crate) fn read(arguments: &str) -> Result<Question, Refused> {
    let mut question = Question::default();
    let usage = || Refused::new(format!("wrong arguments, use {USAGE}"));
    let mut rest = arguments;
    if let Some(named) = word(rest, "FOR") {
        let (database, behind) = name(named).ok_or_else(usage)?;
        question.database = Some(database);
        rest = behind;
        if let Some(behind) = rest.strip_prefix('/') {
            let (user, behind) = name(behind).ok_or_else(usage)?;
            question.user = Some(user);
            rest = behind;
        }
    }
    if let Some(by) = word(rest, "ORDER").and_then(|rest| word(rest, "BY")) {
        let (column, behind) = name(by).ok_or_else(usage)?;
        let found = ORDERS
            .iter()
            .find(|(name, _)| column.eq_ignore_ascii_case(name));
        let known: Vec<_> = ORDERS.iter().map(|(name, _)| *name).collect();
        let known = known.join(", ");
        let refused = || Refused::new(format!("cannot order by {column}; there are {known}"));
        question.order = found.ok_or_else(refused)?.1;
        rest = behind;
    }
    if let Some(limited) = word(rest, "LIMIT") {
        let (number, behind) = name(limited).ok_or_else(usage)?;
        question.limit = number.parse().map_err(|_| usage())?;
        rest = behind;
    }
    match rest.trim().trim_start_matches(';').is_empty() {
        true => Ok(question),
        false => Err(usage()),
    }
}

/// Fingerprints and texts of statements that were shown before, by shape.
pub(crate) struct Known(Mutex<LruCache<u64, Read>>);

/// Reading of a text.
#[derive(Debug, Clone)]
struct Read {
    fingerprint: Option<Fingerprint>,
    shown: String,
}

impl Default for Known {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(KNOWN_MAX)))
    }
}

/// Statements that are one in the answer.
#[derive(Debug, Default)]
pub(crate) struct Digest {
    pub(crate) database: String,
    pub(crate) user: String,
    pub(crate) figures: DigestFigures,
    /// Microseconds on the server that may be missing.
    error_us: u64,
    /// None if PostgreSQL's grammar rejects the text, or the text was not parsed yet.
    pub(crate) fingerprint: Option<Fingerprint>,
    shown: String,
}

impl Known {
    /// Returns the rows of an answer.
    pub(crate) fn rows(&self, question: &Question, digests: &DigestRows) -> Vec<Row> {
        let is_wanted = |database: &str, user: &str| {
            (question.database.as_ref()).is_none_or(|name| name == database)
                && question.user.as_ref().is_none_or(|name| name == user)
        };
        let mut merged = self.merge(digests, is_wanted);
        merged.sort_by_key(|digest| Reverse(question.order.of(digest)));
        let limit = match question.limit {
            0 => usize::MAX,
            limit => limit,
        };
        let shown = merged.iter().take(limit);
        let mut rows: Vec<Row> = shown
            .map(|digest| row(Some(&digest.database), Some(&digest.user), digest))
            .collect();
        let has_others = digests.other.calls + digests.other.errors > 0;
        if has_others && question.database.is_none() {
            let others = Digest {
                figures: digests.other.clone(),
                shown: OTHERS.to_owned(),
                ..Digest::default()
            };
            rows.push(row(None, None, &others));
        }
        rows
    }

    /// Returns the `max` statements with fingerprints that have taken the most time, and the figures of all others.
    pub(crate) fn top(&self, digests: &DigestRows, max: usize) -> (Vec<Digest>, DigestFigures) {
        let mut others = digests.other.clone();
        let mut top = self.merge(digests, |_, _| true);
        top.sort_by_key(|digest| Reverse(digest.figures.times.sum_us()));
        let mut kept = 0;
        top.retain(|digest| {
            let is_kept = digest.fingerprint.is_some() && kept < max;
            match is_kept {
                true => kept += 1,
                false => others.merge(&digest.figures),
            }
            is_kept
        });
        (top, others)
    }

    /// Returns the digests of these databases and users; statements with one fingerprint are one.
    fn merge(&self, digests: &DigestRows, is_wanted: impl Fn(&str, &str) -> bool) -> Vec<Digest> {
        let wanted = digests.rows.iter();
        let wanted = wanted.filter(|((database, user, _), _)| is_wanted(database, user));
        let mut wanted: Vec<_> = wanted.collect();
        wanted.sort_by_key(|(_, row)| Reverse(row.figures.times.sum_us()));
        let mut merged: BTreeMap<(&str, &str, u64), Digest> = BTreeMap::new();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut texts, mut bytes) = (0, 0);
        for ((database, user, shape), row) in wanted {
            let read = known.get(shape).cloned().or_else(|| {
                texts += 1;
                bytes += row.text.len();
                let may = texts <= PARSES_MAX && bytes <= BYTES_MAX;
                may.then(|| {
                    let read = Read::new(&row.text);
                    known.put(*shape, read.clone());
                    read
                })
            });
            let read = read.unwrap_or_else(|| Read::unparsed(&row.text));
            let key = read.fingerprint.map_or(*shape, |found| found.0);
            let new = || Digest {
                database: database.clone(),
                user: user.clone(),
                fingerprint: read.fingerprint,
                shown: read.shown,
                ..Digest::default()
            };
            let digest = merged.entry((database, user, key)).or_insert_with(new);
            digest.figures.merge(&row.figures);
            digest.error_us = digest.error_us.saturating_add(digests.error_us(row));
        }
        merged.into_values().collect()
    }
}

impl Read {
    fn new(text: &str) -> Self {
        let shown = normalized(text)
            .unwrap_or_else(|| without_literals(text.as_bytes(), Blank::Mark, SHOWN_MAX));
        Self {
            fingerprint: Fingerprint::of(text),
            shown: cut(shown),
        }
    }

    fn unparsed(text: &str) -> Self {
        Self {
            fingerprint: None,
            shown: without_literals(text.as_bytes(), Blank::Mark, SHOWN_MAX),
        }
    }
}

/// Cuts a text at the length that is shown.
fn cut(mut text: String) -> String {
    if text.len() > SHOWN_MAX {
        let mut ends = (0..=SHOWN_MAX).rev();
        let end = ends.find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or_default());
        text.push_str("...");
    }
    text
}

impl Order {
    fn of(self, digest: &Digest) -> u64 {
        let figures = &digest.figures;
        match self {
            Self::Average => average(figures),
            Self::Bytes => figures.bytes,
            Self::Calls => figures.calls,
            Self::Errors => figures.errors,
            Self::LastSeen => figures.last_seen,
            Self::P99 => Percentiles::from(&figures.times).p99_us,
            Self::Rows => figures.rows,
            Self::Server => figures.times.sum_us(),
            Self::Wait => figures.wait_us,
        }
    }
}

fn average(figures: &DigestFigures) -> u64 {
    let times = &figures.times;
    times
        .sum_us()
        .checked_div(times.count())
        .unwrap_or_default()
}

fn row(database: Option<&str>, user: Option<&str>, digest: &Digest) -> Row {
    let figures = &digest.figures;
    let Percentiles {
        p50_us,
        p95_us,
        p99_us,
    } = Percentiles::from(&figures.times);
    let time = |unix: u64| match unix {
        0 => None,
        unix => i64::try_from(unix).ok().map(timestamp),
    };
    let code = figures.last_error;
    let code = code.map(|code| String::from_utf8_lossy(&code).into_owned());
    vec![
        database.map(str::to_owned),
        user.map(str::to_owned),
        digest.fingerprint.map(|found| found.to_string()),
        long(figures.calls),
        long(figures.errors),
        long(figures.rows),
        long(figures.bytes),
        some(figures.times.sum_us()),
        some(digest.error_us),
        long(average(figures)),
        long(p50_us),
        long(p95_us),
        long(p99_us),
        some(figures.wait_us),
        time(figures.first_seen),
        time(figures.last_seen),
        code,
        filled(&digest.shown),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_stats::{DigestKey, DigestName, Digests, Ended};

    use super::*;

    fn question(sql: &str) -> Result<Question, Refused> {
        read(behind_words(sql.as_bytes()).unwrap())
    }

    fn digests(statements: &[(&str, &str, u64)]) -> DigestRows {
        let mut digests = Digests::new(200);
        for (number, (database, text, us)) in statements.iter().enumerate() {
            let key = DigestKey {
                group: 1,
                shape: number as u64,
            };
            let name = DigestName {
                database: Arc::from(*database),
                user: "app".into(),
                text: (*text).into(),
            };
            let digest = digests.enter(key, 1_000, || Some(name));
            digest.end(&Ended {
                rows: 2,
                bytes: 10,
                server_us: *us,
                unix: 1_700_000_000,
                continues: false,
            });
        }
        digests.show()
    }

    /// Database, fingerprint, calls and statement of the answer.
    fn answer(sql: &str, digests: &DigestRows) -> Vec<String> {
        let rows = Known::default().rows(&question(sql).unwrap(), digests);
        let shown = rows.into_iter().map(|row| {
            assert_eq!(row.len(), HEADINGS.len());
            let of = |name: &str| {
                let place = HEADINGS.iter().position(|heading| heading.name == name);
                row[place.unwrap()].clone().unwrap_or_default()
            };
            [
                of("database"),
                of("calls"),
                of("server_us"),
                of("statement"),
            ]
            .join("|")
        });
        shown.collect()
    }

    #[test]
    fn statements_with_one_fingerprint_are_one_row_and_the_slowest_comes_first() {
        let digests = digests(&[
            ("shop", "SELECT a FROM t WHERE b = 1", 100),
            ("shop", "SELECT a AS x FROM t WHERE b = 1", 50),
            ("shop", "SELECT 1 +", 500),
            ("other", "SELECT a FROM t WHERE b = 1", 20),
        ]);
        let all = answer("SHOW DIGESTS", &digests);
        assert_eq!(
            all,
            [
                "shop|1|500|SELECT ? +",
                "shop|2|150|SELECT a FROM t WHERE b = $1",
                "other|1|20|SELECT a FROM t WHERE b = $1",
            ]
        );
        assert_eq!(
            answer("show digests for shop order by calls limit 1;", &digests),
            all[1..2]
        );
        assert_eq!(
            answer("SHOW DIGESTS FOR other/app LIMIT 0", &digests),
            all[2..]
        );
        assert!(answer("SHOW DIGESTS FOR other/ann", &digests).is_empty());
    }

    #[test]
    fn a_text_that_was_not_parsed_yet_is_parsed_for_a_later_answer() {
        let texts: Vec<String> = (0..150).map(|n| format!("SELECT c{n} FROM t")).collect();
        let statements: Vec<_> = texts.iter().map(|text| ("shop", &**text, 10)).collect();
        let digests = digests(&statements);
        let known = Known::default();
        let parsed = || {
            let rows = known.rows(&question("SHOW DIGESTS LIMIT 0").unwrap(), &digests);
            rows.iter().filter(|row| row[2].is_some()).count()
        };
        assert_eq!((parsed(), parsed()), (PARSES_MAX, 150));
    }

    #[test]
    fn the_top_leaves_nothing_out_of_the_sum() {
        let digests = digests(&[
            ("shop", "SELECT a FROM t", 100),
            ("shop", "SELECT 1 +", 500),
            ("shop", "SELECT b FROM t", 50),
            ("shop", "SELECT c FROM t", 70),
        ]);
        let (top, others) = Known::default().top(&digests, 2);
        let times: Vec<_> = top
            .iter()
            .map(|digest| digest.figures.times.sum_us())
            .collect();
        assert_eq!((times, others.times.sum_us()), (vec![100, 70], 550));
    }

    #[test]
    fn wrong_arguments_are_refused_with_what_is_right() {
        for sql in [
            "SHOW DIGESTS x",
            "SHOW DIGESTS FOR",
            "SHOW DIGESTS LIMIT x",
            "SHOW DIGESTS LIMIT 1 ORDER BY calls",
        ] {
            assert!(question(sql).unwrap_err().message.contains(USAGE), "{sql}");
        }
        let refused = question("SHOW DIGESTS ORDER BY text").unwrap_err();
        assert!(
            refused
                .message
                .starts_with("cannot order by text; there are server_us, calls")
        );
        assert!(behind_words(b"SHOW DIGEST").is_none());
        assert!(behind_words(b"SHOW POOLS").is_none());
    }
}
