//! Digests: figures of the statements that differ in literals only, of the most expensive ones.
//!
//! Each worker has a [`Digests`] table of a fixed size. It is a Space-Saving summary by time on the server (Metwally, Agrawal,
//! El Abbadi: "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005): a new statement takes the place
//! of the one with the least weight, and inherits this weight as its error. Whatever has used more than the least weight is
//! in the table, and the time of a row is too low by its error at most. What left the table is counted in one row.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use foldhash::fast::RandomState;

use crate::histogram::{AtomicHistogram, Histogram};

/// Number of statements that are looked at to find one that nobody is running.
const TRIES_MAX: usize = 64;

/// Whose statement it is, and the key of its shape.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct DigestKey {
    /// Number of the database and user; the worker's own.
    pub group: u64,
    /// Key of the shape.
    pub shape: u64,
}

/// Words of a digest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DigestName {
    /// Name of the entry in `[databases]`.
    pub database: Arc<str>,
    /// Role that the client logged in as.
    pub user: Arc<str>,
    /// Text of the first statement, with samples for its literals.
    pub text: Box<str>,
}

/// Figures of one statement. Only its worker adds to them; they are atomic because servers, whose replies refer to them, go
/// from thread to thread.
#[derive(Debug, Default)]
pub struct Digest {
    key: DigestKey,
    name: DigestName,
    /// Microseconds that the statement may have used before it came into the table.
    error_us: u64,
    calls: Counter,
    errors: Counter,
    rows: Counter,
    bytes: Counter,
    wait_us: Counter,
    times: AtomicHistogram,
    first_seen: u64,
    last_seen: Counter,
    /// SQLSTATE of the last error, as five bytes of a number; 0 without one.
    last_error: Counter,
}

/// Number that one thread adds to and any thread reads.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Counter {
    #[inline]
    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Not a read-modify-write: the table's worker is the only writer.
    #[inline]
    fn add(&self, by: u64) {
        self.0.store(self.get().wrapping_add(by), Relaxed);
    }

    #[inline]
    fn set(&self, to: u64) {
        self.0.store(to, Relaxed);
    }
}

/// End of a statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ended {
    /// Rows that were returned or changed.
    pub rows: u64,
    /// Bytes of the reply.
    pub bytes: u64,
    /// Microseconds on the server.
    pub server_us: u64,
    /// Unix time in seconds.
    pub unix: u64,
    /// True if a portal goes on that was counted before.
    pub continues: bool,
}

impl Digest {
    /// Records that the statement has succeeded.
    #[inline]
    pub fn end(&self, ended: &Ended) {
        if !ended.continues {
            self.calls.add(1);
        }
        self.rows.add(ended.rows);
        self.spend(ended);
    }

    /// Records that the statement has failed with this SQLSTATE.
    pub fn fail(&self, ended: &Ended, code: Option<[u8; 5]>) {
        self.errors.add(1);
        let [a, b, c, d, e] = code.unwrap_or(*b"?????");
        self.last_error
            .set(u64::from_be_bytes([0, 0, 0, a, b, c, d, e]));
        self.spend(ended);
    }

    #[inline]
    fn spend(&self, ended: &Ended) {
        self.bytes.add(ended.bytes);
        self.times.record(ended.server_us);
        self.last_seen.set(ended.unix);
    }

    /// Records a wait of the statement's client for a server, in microseconds.
    #[inline]
    pub fn wait(&self, us: u64) {
        self.wait_us.add(us);
    }

    /// Weight that decides which statement leaves the table: each call counts for a microsecond more, so that statements
    /// without measurable time are in order too.
    fn weight(&self) -> u64 {
        let own = self.times.sum_us() + self.calls.get() + self.errors.get();
        self.error_us.saturating_add(own)
    }

    fn figures(&self) -> DigestFigures {
        let code = match self.last_error.get().to_be_bytes() {
            [.., 0] => None,
            [_, _, _, code @ ..] => Some(code),
        };
        DigestFigures {
            calls: self.calls.get(),
            errors: self.errors.get(),
            rows: self.rows.get(),
            bytes: self.bytes.get(),
            wait_us: self.wait_us.get(),
            times: self.times.read(),
            error_us: self.error_us,
            first_seen: self.first_seen,
            last_seen: self.last_seen.get(),
            last_error: code,
        }
    }
}

/// Figures of a digest at one moment, on one worker or on all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DigestFigures {
    /// Statements that succeeded.
    pub calls: u64,
    /// Statements that failed.
    pub errors: u64,
    /// Rows that were returned or changed.
    pub rows: u64,
    /// Bytes of replies.
    pub bytes: u64,
    /// Microseconds that clients waited for a server to run the statement first.
    pub wait_us: u64,
    /// Times on the server, of statements that succeeded or failed.
    pub times: Histogram,
    /// Microseconds on the server that may be missing, because the statement was not in the table from the start.
    pub error_us: u64,
    /// Unix time in seconds since which the statement is counted.
    pub first_seen: u64,
    /// Unix time in seconds of the last end.
    pub last_seen: u64,
    /// SQLSTATE of the last error.
    pub last_error: Option<[u8; 5]>,
}

impl DigestFigures {
    /// Adds the figures of the same statement elsewhere.
    pub fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.wait_us += other.wait_us;
        self.times += &other.times;
        self.error_us = self.error_us.saturating_add(other.error_us);
        if other.last_error.is_some() && other.last_seen >= self.last_seen
            || self.last_error.is_none()
        {
            self.last_error = other.last_error;
        }
        self.first_seen = match (self.first_seen, other.first_seen) {
            (0, first) | (first, 0) => first,
            (one, other) => one.min(other),
        };
        self.last_seen = self.last_seen.max(other.last_seen);
    }
}

/// Digests of all workers at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DigestRows {
    /// Figures by database, user and shape.
    pub rows: BTreeMap<(String, String, u64), DigestRow>,
    /// Figures of what left the tables, or found no place. Its `error_us` is 0.
    pub other: DigestFigures,
    /// Number of statements that left the tables.
    pub evicted: u64,
    /// Number of statements that the metrics page shows (`digest_metrics`).
    pub on_page: u32,
    /// Sum over the workers of the time that a statement outside of a table may have used.
    floors_us: u64,
}

impl DigestRows {
    /// Returns the microseconds on the server that may be missing in a row, because the statement was not in the tables all
    /// the time.
    #[must_use]
    pub fn error_us(&self, row: &DigestRow) -> u64 {
        let elsewhere = self.floors_us.saturating_sub(row.floors_us);
        row.figures.error_us.saturating_add(elsewhere)
    }

    /// Adds the digests of other workers.
    pub fn merge(&mut self, other: Self) {
        self.other.merge(&other.other);
        self.evicted += other.evicted;
        self.on_page = self.on_page.max(other.on_page);
        self.floors_us = self.floors_us.saturating_add(other.floors_us);
        for (key, theirs) in other.rows {
            let row = self.rows.entry(key).or_default();
            if row.text.is_empty() {
                row.text = theirs.text;
            }
            row.floors_us = row.floors_us.saturating_add(theirs.floors_us);
            row.figures.merge(&theirs.figures);
        }
    }
}

/// Row of [`DigestRows`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DigestRow {
    /// Text of one of the statements, with samples for its literals.
    pub text: String,
    /// Figures of the workers that have the statement.
    pub figures: DigestFigures,
    /// Floors of those workers.
    floors_us: u64,
}

/// Digests of one worker.
#[derive(Debug)]
pub struct Digests {
    max: usize,
    index: HashMap<DigestKey, Arc<Digest>, RandomState>,
    /// Each statement once, with a weight that it had.
    order: BinaryHeap<Reverse<(u64, u64, usize)>>,
    slots: Vec<Arc<Digest>>,
    /// Counts what found no place in the table.
    other: Arc<Digest>,
    /// Figures of what left the table.
    gone: DigestFigures,
    evicted: u64,
    /// Number of statements that came into the table.
    entered: u64,
}

impl Digests {
    /// Creates a table of at most `max` statements.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            max: max.max(1),
            index: HashMap::default(),
            order: BinaryHeap::new(),
            slots: Vec::new(),
            other: Arc::default(),
            gone: DigestFigures::default(),
            evicted: 0,
            entered: 0,
        }
    }

    /// Returns the digest of a statement that is about to run. A new statement gets its name from `name`. If the table is full
    /// of statements that are running, or the name is not known, the digest is [`Digests::other`].
    #[inline]
    pub fn enter(
        &mut self,
        key: DigestKey,
        unix: u64,
        name: impl FnOnce() -> Option<DigestName>,
    ) -> Arc<Digest> {
        if let Some(known) = self.index.get(&key) {
            return Arc::clone(known);
        }
        let new = name().and_then(|name| self.enter_new(key, unix, name));
        new.unwrap_or_else(|| self.other())
    }

    /// Returns the digest that counts statements without a place of their own.
    #[must_use]
    pub fn other(&self) -> Arc<Digest> {
        Arc::clone(&self.other)
    }

    fn enter_new(&mut self, key: DigestKey, unix: u64, name: DigestName) -> Option<Arc<Digest>> {
        let (place, error_us) = if self.slots.len() < self.max {
            (self.slots.len(), 0)
        } else {
            self.evict()?
        };
        let digest = Arc::new(Digest {
            key,
            name,
            error_us,
            first_seen: unix,
            ..Digest::default()
        });
        self.index.insert(key, Arc::clone(&digest));
        match self.slots.get_mut(place) {
            Some(slot) => *slot = Arc::clone(&digest),
            None => self.slots.push(Arc::clone(&digest)),
        }
        self.entered += 1;
        // Of two with one weight, the one that came first leaves first.
        self.order.push(Reverse((error_us, self.entered, place)));
        Some(digest)
    }

    /// Removes the statement with the least weight that nobody is running. Returns its place and weight.
    fn evict(&mut self) -> Option<(usize, u64)> {
        let mut busy = Vec::new();
        let mut found = None;
        while busy.len() < TRIES_MAX
            && let Some(Reverse((weight, entered, place))) = self.order.pop()
        {
            let Some(digest) = self.slots.get(place) else {
                continue;
            };
            let present = digest.weight();
            if present > weight {
                // It has run since. Its next look comes when the others weigh as much.
                self.order.push(Reverse((present, entered, place)));
                continue;
            }
            // The table has it twice: in `slots` and in `index`.
            if Arc::strong_count(digest) > 2 {
                busy.push(Reverse((weight, entered, place)));
                continue;
            }
            self.index.remove(&digest.key);
            let figures = DigestFigures {
                error_us: 0,
                ..digest.figures()
            };
            self.gone.merge(&figures);
            self.evicted += 1;
            found = Some((place, present));
            break;
        }
        self.order.extend(busy);
        found
    }

    /// Forgets all figures. Statements that are running are counted anew when they run the next time.
    pub fn reset(&mut self) {
        *self = Self::new(self.max);
    }

    /// Changes the number of statements. A smaller table begins anew.
    pub fn resize(&mut self, max: usize) {
        if max.max(1) < self.slots.len() {
            *self = Self::new(max);
        } else {
            self.max = max.max(1);
        }
    }

    fn others(&self) -> DigestFigures {
        let mut others = self.other.figures();
        others.merge(&self.gone);
        others
    }

    /// Least weight in the full table: time that a statement outside of it may have used. 0 while there is room.
    fn floor_us(&self) -> u64 {
        let weights = self.slots.iter().map(|digest| digest.weight());
        match self.slots.len() < self.max {
            true => 0,
            false => weights.min().unwrap_or_default(),
        }
    }

    /// Returns the digests as they are now.
    #[must_use]
    pub fn show(&self) -> DigestRows {
        let floors_us = self.floor_us();
        let row = |digest: &Arc<Digest>| {
            let name = &digest.name;
            let (database, user) = (name.database.to_string(), name.user.to_string());
            let row = DigestRow {
                text: name.text.to_string(),
                figures: digest.figures(),
                floors_us,
            };
            ((database, user, digest.key.shape), row)
        };
        DigestRows {
            rows: self.slots.iter().map(row).collect(),
            other: self.others(),
            evicted: self.evicted,
            on_page: 0,
            floors_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(shape: u64) -> DigestName {
        DigestName {
            database: "shop".into(),
            user: "app".into(),
            text: format!("select {shape}").into(),
        }
    }

    fn run(digests: &mut Digests, shape: u64, us: u64) {
        let key = DigestKey { group: 1, shape };
        let name = || Some(named(shape));
        let ended = Ended {
            rows: 1,
            bytes: 10,
            server_us: us,
            unix: 1000,
            continues: false,
        };
        digests.enter(key, 1000, name).end(&ended);
    }

    fn row(digests: &DigestRows, shape: u64) -> Option<&DigestRow> {
        digests
            .rows
            .get(&("shop".to_owned(), "app".to_owned(), shape))
    }

    #[test]
    fn figures_add_up() {
        let mut digests = Digests::new(10);
        run(&mut digests, 1, 100);
        run(&mut digests, 1, 300);
        let key = DigestKey { group: 1, shape: 1 };
        let digest = digests.enter(key, 1000, || unreachable!());
        let failed = Ended {
            server_us: 5,
            unix: 1001,
            ..Ended::default()
        };
        digest.fail(&failed, Some(*b"22012"));
        digest.wait(7);
        let rows = digests.show();
        let found = &row(&rows, 1).unwrap().figures;
        assert_eq!(
            (found.calls, found.errors, found.rows, found.bytes),
            (2, 1, 2, 20)
        );
        assert_eq!(
            (found.wait_us, found.times.sum_us(), found.times.count()),
            (7, 405, 3)
        );
        assert_eq!((found.first_seen, found.last_seen), (1000, 1001));
        assert_eq!(found.last_error, Some(*b"22012"));
    }

    #[test]
    fn a_portal_that_goes_on_is_one_call() {
        let mut digests = Digests::new(10);
        run(&mut digests, 1, 100);
        let key = DigestKey { group: 1, shape: 1 };
        let digest = digests.enter(key, 1000, || unreachable!());
        digest.end(&Ended {
            rows: 2,
            continues: true,
            ..Ended::default()
        });
        let rows = digests.show();
        let found = &row(&rows, 1).unwrap().figures;
        assert_eq!((found.calls, found.rows), (1, 3));
    }

    /// Rounds of 20 statements that come again and 50 that come once.
    const ROUNDS: u64 = 4_000;

    #[test]
    fn rt_48_the_most_expensive_stay_and_nothing_is_lost_in_the_sum() {
        let mut digests = Digests::new(100);
        let (mut calls, mut time) = (0, 0);
        for round in 0..ROUNDS {
            for top in 0..20 {
                run(&mut digests, top, 1_000 + top * 100);
                time += 1_000 + top * 100;
            }
            for one in 0..50 {
                run(&mut digests, 1_000 + round * 50 + one, 10);
                time += 10;
            }
            calls += 70;
        }
        let rows = digests.show();
        assert_eq!(rows.rows.len(), 100);
        let mut by_time: Vec<_> = rows
            .rows
            .iter()
            .map(|(key, row)| (row.figures.times.sum_us(), key.2))
            .collect();
        by_time.sort_unstable_by(|one, other| other.cmp(one));
        let top: Vec<u64> = by_time.iter().take(20).map(|(_, shape)| *shape).collect();
        assert_eq!(top, (0..20).rev().collect::<Vec<_>>());
        for shape in 0..20 {
            let row = row(&rows, shape).unwrap();
            let truth = ROUNDS * (1_000 + shape * 100);
            let seen = row.figures.times.sum_us();
            assert!(seen <= truth && truth <= seen + rows.error_us(row));
        }
        let of_rows = |of: fn(&DigestFigures) -> u64| -> u64 {
            rows.rows.values().map(|row| of(&row.figures)).sum()
        };
        assert_eq!(of_rows(|figures| figures.calls) + rows.other.calls, calls);
        assert_eq!(
            of_rows(|figures| figures.times.sum_us()) + rows.other.times.sum_us(),
            time
        );
        assert_eq!(rows.evicted + 100, 20 + ROUNDS * 50);
    }

    #[test]
    fn a_statement_that_is_running_keeps_its_place() {
        let mut digests = Digests::new(2);
        let key = DigestKey { group: 1, shape: 1 };
        let slow = digests.enter(key, 1, || Some(named(1)));
        for shape in 10..1_000 {
            run(&mut digests, shape, 10);
        }
        slow.end(&Ended {
            server_us: 1_000_000,
            ..Ended::default()
        });
        drop(slow);
        for shape in 1_000..2_000 {
            run(&mut digests, shape, 10);
        }
        assert_eq!(row(&digests.show(), 1).unwrap().figures.calls, 1);
    }

    #[test]
    fn a_table_full_of_running_statements_counts_the_others_together() {
        let mut digests = Digests::new(1);
        let key = DigestKey { group: 1, shape: 1 };
        let _slow = digests.enter(key, 1, || Some(named(1)));
        run(&mut digests, 2, 10);
        let rows = digests.show();
        assert_eq!((rows.rows.len(), rows.other.calls), (1, 1));
    }

    #[test]
    fn a_row_that_a_worker_does_not_have_may_have_run_there() {
        let (mut one, mut other) = (Digests::new(2), Digests::new(2));
        for shape in [1, 2] {
            run(&mut one, shape, 1_000);
            run(&mut other, shape + 2, 500);
        }
        let mut rows = one.show();
        rows.merge(other.show());
        assert_eq!(rows.error_us(row(&rows, 1).unwrap()), 501);
        assert_eq!(rows.error_us(row(&rows, 3).unwrap()), 1_001);
    }

    #[test]
    fn an_empty_or_smaller_table_begins_anew() {
        let mut digests = Digests::new(10);
        for shape in 0..10 {
            run(&mut digests, shape, 10);
        }
        digests.resize(20);
        assert_eq!(digests.show().rows.len(), 10);
        digests.resize(5);
        assert_eq!(digests.show().rows.len(), 0);
        run(&mut digests, 1, 10);
        digests.reset();
        assert_eq!(digests.show(), DigestRows::default());
    }
}
