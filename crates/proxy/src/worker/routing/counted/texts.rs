//! Requests by statement and route, in bounded memory.
//!
//! Space-Saving (Metwally, Agrawal, El Abbadi 2005): with all places taken, a new statement takes the place of the rarest
//! one together with its count, which becomes its error. A count is never too low, and too high by `error` at most; the
//! error is at most the number of requests divided by the number of places. Every statement that is more frequent than
//! that has a place.

use std::collections::HashMap;

use weir_stats::{RouteCounts, RouteKey, Snapshot};

use super::mask;

/// Maximum number of statements of one group on one worker; about 100 KiB.
const PLACES_MAX: usize = 256;

/// Number of prepared statements whose hash and place are remembered; a power of two.
const MEMO: usize = 256;

/// Route of a request, without its words.
#[derive(Clone, Copy)]
pub(super) struct Route {
    /// `primary`, `replica` or `refused`.
    pub(super) verdict: &'static str,
    /// Number that differs between reasons.
    pub(super) reason: u64,
}

/// See the module's page. Allocates nothing for a statement that has a place.
#[derive(Default)]
pub(super) struct Texts {
    index: HashMap<u64, usize>,
    places: Vec<Place>,
    /// Prepared statements, each at the place of its id's last bits. Empty until one is used.
    memo: Vec<Known>,
}

/// Counting of one prepared statement.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Id; 0 is no statement's.
    id: u64,
    /// Hash of the text.
    hash: u64,
    /// Where its last request was counted. Another statement may have that place by now.
    place: usize,
}

struct Place {
    key: u64,
    /// Hash of the statement.
    text: u64,
    statement: Box<str>,
    verdict: &'static str,
    reason: Box<str>,
    counts: RouteCounts,
}

impl Texts {
    /// Counts a request whose first statement has this text, and this id if it was prepared before. `reason` is called for
    /// a new row only, `text` for what is not known by its id.
    pub(super) fn count<'t>(
        &mut self,
        statement: Option<u64>,
        text: impl Fn() -> Option<&'t [u8]>,
        route: Route,
        reason: impl FnOnce() -> String,
    ) {
        let known = match statement {
            Some(id) => self.known(id, &text),
            None => text().map(|text| Known {
                hash: mask::hash(text),
                place: usize::MAX,
                id: 0,
            }),
        };
        let Some(Known { hash, place, .. }) = known else {
            return;
        };
        let key = key(hash, route);
        let is_it = |place: &&mut Place| place.key == key;
        if let Some(place) = self.places.get_mut(place).filter(is_it) {
            place.counts.count += 1;
            return;
        }
        if let Some(at) = self.index.get(&key).copied()
            && let Some(place) = self.places.get_mut(at)
        {
            place.counts.count += 1;
            if let Some(known) = statement.and_then(|id| self.memo.get_mut(in_memo(id))) {
                known.place = at;
            }
            return;
        }
        let Some(text) = text() else { return };
        self.add(Place {
            key,
            text: hash,
            statement: mask::shown(text).into(),
            verdict: route.verdict,
            reason: reason().into(),
            counts: RouteCounts {
                count: 1,
                ..RouteCounts::default()
            },
        });
    }

    /// Returns what is known of a prepared statement; none if its text is not known.
    fn known<'t>(&mut self, id: u64, text: impl Fn() -> Option<&'t [u8]>) -> Option<Known> {
        if self.memo.is_empty() {
            self.memo = vec![Known::default(); MEMO];
        }
        let known = self.memo.get_mut(in_memo(id))?;
        if known.id != id {
            let (hash, place) = (mask::hash(text()?), usize::MAX);
            *known = Known { id, hash, place };
        }
        Some(*known)
    }

    #[cold]
    fn add(&mut self, mut new: Place) {
        if self.places.len() < PLACES_MAX {
            self.index.insert(new.key, self.places.len());
            return self.places.push(new);
        }
        let places = self.places.iter_mut().enumerate();
        if let Some((at, rarest)) = places.min_by_key(|(_, place)| place.counts.count) {
            let error = rarest.counts.count;
            new.counts.count += error;
            new.counts.error = error;
            self.index.remove(&rarest.key);
            self.index.insert(new.key, at);
            *rarest = new;
        }
    }

    /// Counts a request that did not succeed on a replica.
    pub(super) fn retried(&mut self, text: &[u8]) {
        let hash = mask::hash(text);
        let mut places = self.places.iter_mut();
        let place = places.find(|place| place.text == hash && place.verdict == "replica");
        if let Some(place) = place {
            place.counts.retries += 1;
        }
    }

    /// Adds the counts to a snapshot.
    pub(super) fn show(&self, database: &str, snapshot: &mut Snapshot) {
        for place in &self.places {
            let route = RouteKey {
                database: database.to_owned(),
                statement: place.statement.to_string(),
                verdict: place.verdict,
                reason: place.reason.to_string(),
            };
            *snapshot.routes.entry(route).or_default() += place.counts;
        }
    }
}

fn in_memo(id: u64) -> usize {
    usize::try_from(id % MEMO as u64).unwrap_or_default()
}

fn key(hash: u64, route: Route) -> u64 {
    let verdict = route.verdict.as_bytes().iter();
    let verdict = verdict.fold(route.reason, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
    });
    hash ^ verdict.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Route = Route {
        verdict: "replica",
        reason: 1,
    };

    fn count(texts: &mut Texts, text: &str) {
        let reason = || "the text reads".to_owned();
        texts.count(None, || Some(text.as_bytes()), READ, reason);
    }

    fn rows(texts: &Texts) -> Vec<(RouteKey, RouteCounts)> {
        let mut snapshot = Snapshot::default();
        texts.show("shop", &mut snapshot);
        snapshot.routes.into_iter().collect()
    }

    #[test]
    fn statements_that_differ_in_literals_share_a_row() {
        let mut texts = Texts::default();
        (0..5).for_each(|number| count(&mut texts, &format!("select {number}")));
        let primary = Route {
            verdict: "primary",
            reason: 2,
        };
        let locked = || "rows are locked".to_owned();
        texts.count(None, || Some(b"select 9"), primary, locked);
        texts.retried(b"select 3");
        let rows = rows(&texts);
        assert_eq!(rows.len(), 2);
        let [(first, primary), (second, replica)] = &rows[..] else {
            panic!("{rows:?}")
        };
        assert_eq!(
            (first.verdict, primary.count, primary.retries),
            ("primary", 1, 0)
        );
        assert_eq!(
            (second.verdict, replica.count, replica.retries),
            ("replica", 5, 1)
        );
        assert_eq!(second.statement, "select ?");
    }

    #[test]
    fn the_text_of_a_prepared_statement_is_read_once() {
        let mut texts = Texts::default();
        let asked = std::cell::Cell::new(0);
        // The two ids share a place in the memo.
        for (id, text) in [(1, "select a"), (1, ""), (257, "select b"), (1, "select a")] {
            let text = || {
                asked.set(asked.get() + 1);
                Some(text.as_bytes())
            };
            texts.count(Some(id), text, READ, String::new);
        }
        let rows = rows(&texts);
        let counts: Vec<_> = rows
            .iter()
            .map(|(key, counts)| (&*key.statement, counts.count))
            .collect();
        assert_eq!(counts, [("select a", 3), ("select b", 1)]);
        assert_eq!(asked.get(), 5, "twice for a new row");
    }

    #[test]
    fn a_prepared_statement_is_counted_in_its_own_row_after_that_has_gone() {
        let mut texts = Texts::default();
        let count = |texts: &mut Texts, id: u64| {
            let text = format!("select a{id}");
            texts.count(Some(id), || Some(text.as_bytes()), READ, String::new);
        };
        for id in 1..=2 * PLACES_MAX as u64 {
            (0..3).for_each(|_| count(&mut texts, id));
        }
        assert!(
            !rows(&texts)
                .iter()
                .any(|(row, _)| row.statement == "select a1")
        );
        count(&mut texts, 1);
        let rows = rows(&texts);
        assert!(rows.iter().any(|(row, _)| row.statement == "select a1"));
        let total: u64 = rows.iter().map(|(_, counts)| counts.count).sum();
        assert_eq!(total, 6 * PLACES_MAX as u64 + 1);
    }

    /// The bounds of the algorithm, with many more statements than places.
    #[test]
    fn frequent_statements_keep_their_rows_within_the_error() {
        let mut texts = Texts::default();
        let mut requests = 0;
        for number in 0..20_000 {
            count(&mut texts, &format!("select a{number}"));
            requests += 1;
            if number % 20 == 0 {
                count(&mut texts, "select frequent");
                requests += 1;
            }
        }
        let rows = rows(&texts);
        assert_eq!(rows.len(), PLACES_MAX);
        assert_eq!(texts.index.len(), PLACES_MAX);
        let total: u64 = rows.iter().map(|(_, counts)| counts.count).sum();
        assert_eq!(total, requests, "each request is in one row");
        let found = rows
            .iter()
            .find(|(key, _)| key.statement == "select frequent");
        let (_, counts) = found.unwrap();
        assert!(
            counts.count >= 1000 && counts.count - counts.error <= 1000,
            "{counts:?}"
        );
        let error_max = requests / PLACES_MAX as u64;
        assert!(rows.iter().all(|(_, counts)| counts.error <= error_max));
    }
}
