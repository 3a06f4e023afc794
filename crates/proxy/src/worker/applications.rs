//! Counters of clients, and of all clients of an `application_name`.
//!
//! A client knows the row of its application, so counting is an addition to two places. The name is looked up when the
//! client comes, and again when its reported values have changed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use weir_session::settings::Reported;
use weir_stats::{ApplicationKey, ApplicationRow, ClientCounters};

use super::slots::Client;

/// Maximum number of names with rows of their own.
const NAMES_MAX: usize = 200;
/// Name of the row for all others of a pool.
const OTHERS: &str = "(other)";

/// Number of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Place(u32);

/// Counters of a client, and the row in which it counts.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Counters since the client has logged in.
    pub(super) counters: ClientCounters,
    place: Option<Place>,
    /// Reported values with the name of that row.
    named_by: Option<Arc<Reported>>,
}

#[derive(Debug)]
struct Entry {
    key: ApplicationKey,
    row: ApplicationRow,
}

/// Rows of the applications that this worker has seen.
#[derive(Debug, Default)]
pub(super) struct Applications {
    /// A row that was given up is free for another name.
    entries: Vec<Option<Entry>>,
    places: HashMap<ApplicationKey, Place>,
    /// Rows with a name of their own; the others are those of [`OTHERS`].
    named: usize,
}

impl Applications {
    /// Counts work of a client.
    #[inline]
    pub(super) fn count(&mut self, client: &mut Client, work: ClientCounters) {
        let is_named = client
            .work
            .named_by
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, client.session.reported()));
        if !is_named {
            self.name(client);
        }
        client.work.counters += work;
        if let Some(entry) = self.entry(client.work.place) {
            entry.row.counters += work;
        }
    }

    /// Puts a client into the row of its application, if it is not there.
    #[cold]
    pub(super) fn name(&mut self, client: &mut Client) {
        let reported = client.session.reported();
        let name = reported.get("application_name").unwrap_or_default();
        let identity = &client.identity;
        let key = (
            identity.database.to_string(),
            identity.user.to_string(),
            name.to_owned(),
        );
        let named_by = Some(Arc::clone(reported));
        if self
            .entry(client.work.place)
            .is_none_or(|entry| entry.key != key)
        {
            self.leave(client);
            let place = self.place(key);
            if let Some(entry) = self.entry(Some(place)) {
                entry.row.clients += 1;
                entry.row.logins += 1;
            }
            client.work.place = Some(place);
        }
        client.work.named_by = named_by;
    }

    /// Takes a client out of its row; its counters stay there.
    pub(super) fn leave(&mut self, client: &mut Client) {
        client.work.named_by = None;
        if let Some(entry) = self.entry(client.work.place.take()) {
            entry.row.clients -= 1;
        }
    }

    /// Adds the rows to those of a snapshot.
    pub(super) fn show(&self, rows: &mut BTreeMap<ApplicationKey, ApplicationRow>) {
        for entry in self.entries.iter().flatten() {
            *rows.entry(entry.key.clone()).or_default() += entry.row;
        }
    }

    fn entry(&mut self, place: Option<Place>) -> Option<&mut Entry> {
        let place = usize::try_from(place?.0).ok()?;
        self.entries.get_mut(place)?.as_mut()
    }

    /// Returns the row for a name. If too many names have rows, one without clients becomes a part of [`OTHERS`].
    fn place(&mut self, key: ApplicationKey) -> Place {
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        if key.2 == OTHERS || self.named < NAMES_MAX || self.give_up_one() {
            return self.add(key);
        }
        self.place((key.0, key.1, OTHERS.to_owned()))
    }

    fn add(&mut self, key: ApplicationKey) -> Place {
        self.named += usize::from(key.2 != OTHERS);
        let free = self.entries.iter().position(Option::is_none);
        let index = free.unwrap_or(self.entries.len());
        let row = ApplicationRow::default();
        let entry = Some(Entry {
            key: key.clone(),
            row,
        });
        match self.entries.get_mut(index) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        let place = Place(u32::try_from(index).unwrap_or(u32::MAX));
        self.places.insert(key, place);
        place
    }

    /// Adds the row without clients that has counted least to the row of the others, so that no total falls.
    fn give_up_one(&mut self) -> bool {
        let unused = self.entries.iter().flatten();
        let unused = unused.filter(|entry| entry.row.clients == 0 && entry.key.2 != OTHERS);
        let Some(key) = unused
            .min_by_key(|entry| entry.row.counters.queries)
            .map(|entry| entry.key.clone())
        else {
            return false;
        };
        let Some(Place(index)) = self.places.remove(&key) else {
            return false;
        };
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let entry = self.entries.get_mut(index).and_then(Option::take);
        self.named -= 1;
        let others = self.place((key.0, key.1, OTHERS.to_owned()));
        if let (Some(others), Some(entry)) = (self.entry(Some(others)), entry) {
            others.row += entry.row;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ApplicationKey {
        ("shop".to_owned(), "ann".to_owned(), name.to_owned())
    }

    fn used(applications: &mut Applications, name: &str, queries: u64) {
        let place = applications.place(key(name));
        let entry = applications.entry(Some(place)).unwrap();
        entry.row.counters.queries += queries;
        entry.row.clients = 0;
    }

    fn shown(applications: &Applications) -> BTreeMap<ApplicationKey, ApplicationRow> {
        let mut rows = BTreeMap::new();
        applications.show(&mut rows);
        rows
    }

    #[test]
    fn names_without_clients_make_room_for_others_and_no_total_falls() {
        let mut applications = Applications::default();
        for number in 0..1_000_u64 {
            used(&mut applications, &format!("app-{number}"), number + 1);
        }
        let rows = shown(&applications);
        assert_eq!(rows.len(), NAMES_MAX + 1);
        let total: u64 = rows.values().map(|row| row.counters.queries).sum();
        assert_eq!(total, (1..=1_000).sum::<u64>());
        assert!(rows.contains_key(&key("app-999")), "the last is there");
    }

    #[test]
    fn names_with_clients_keep_their_rows() {
        let mut applications = Applications::default();
        for number in 0..NAMES_MAX {
            let place = applications.place(key(&format!("app-{number}")));
            applications.entry(Some(place)).unwrap().row.clients = 1;
        }
        used(&mut applications, "late", 7);
        used(&mut applications, "later", 8);
        let rows = shown(&applications);
        assert_eq!(rows.len(), NAMES_MAX + 1);
        assert_eq!(rows[&key(OTHERS)].counters.queries, 15);
    }
}
