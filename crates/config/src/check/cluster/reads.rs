//! Rules about reads on replicas: the split, its times and its functions.

use std::collections::BTreeSet;

use super::{Conflict, Entry};
use crate::cluster::ClusterHost;
use crate::error::ErrorKind;
use crate::options::{Database, UserSettings};
use crate::raw::{Raw, error_at};
use crate::routing::{ReadConsistency, ReadWriteSplit};
use crate::settings::{Settings, pick_time};
use crate::types::PoolMode;

/// Number of probe intervals that a caught-up replica's data may seem old: one of the primary's and one of its own.
const STALE_PROBES: u32 = 2;

impl Entry<'_> {
    pub(super) fn has_no_reader(&self) -> Option<Conflict> {
        if self.hosts.iter().any(ClusterHost::takes_reads) {
            return None;
        }
        let none =
            "and no host that takes reads: each has reads = false, weight = 0 or role = primary";
        let target = self.entry.target;
        if target.needs_replica() {
            let message = format!("has target {target} {none}");
            return Some(("target", message));
        }
        let split = self.split().filter(|split| *split != ReadWriteSplit::Off)?;
        Some((
            "read_write_split",
            format!("has read_write_split {split} {none}"),
        ))
    }

    /// Looks at users without an entry, and at the forced one.
    pub(super) fn splits_sessions(&self) -> Option<Conflict> {
        let forced = self.entry.user.as_ref();
        let user = forced.and_then(|user| self.settings.users.get(user));
        let (mode, split) = modes_of(self.settings, self.entry, user);
        (mode == PoolMode::Session && split != ReadWriteSplit::Off).then(|| {
            let message = format!(
                "has read_write_split {split} in session pooling, where a client keeps one server: \
                 set pool_mode = transaction, or read_write_split = off"
            );
            ("read_write_split", message)
        })
    }

    pub(super) fn waits_too_long(&self) -> Option<Conflict> {
        let global = &self.settings.global;
        let wait = self.entry.read_wait.unwrap_or(global.read_wait);
        let limit = pick_time(self.entry.query_wait_timeout, global.query_wait_timeout)?;
        (wait > limit).then(|| {
            let message = format!(
                "has read_wait {wait:?} above its query_wait_timeout {limit:?}: lower read_wait"
            );
            ("read_wait", message)
        })
    }

    pub(super) fn wants_fresher_data_than_known(&self) -> Option<Conflict> {
        let global = &self.settings.global;
        let limit = pick_time(self.entry.max_staleness, global.max_staleness)?;
        let interval = global.probe_interval;
        (self.uses_replicas() && limit < interval * STALE_PROBES).then(|| {
            let message = format!(
                "has max_staleness {limit:?}, but its hosts are asked every {interval:?} \
                 (probe_interval), so no replica is ever known to be so fresh: \
                 allow at least {:?}, or lower probe_interval",
                interval * STALE_PROBES
            );
            ("max_staleness", message)
        })
    }

    pub(super) fn names_a_function_twice(&self) -> Option<Conflict> {
        let primary: BTreeSet<_> = self.entry.primary_functions.iter().collect();
        let mut readers = self.entry.read_functions.iter();
        let both = readers.find(|pattern| primary.contains(pattern))?;
        let message = format!("has {both} in primary_functions and in read_functions: remove one");
        Some(("read_functions", message))
    }

    /// Refuses users whose own settings bring the split into session pooling.
    pub(super) fn check_users(&self, raw: &mut Raw) {
        if self.entry.user.is_some() || self.splits_sessions().is_some() {
            return;
        }
        for (name, user) in &self.settings.users {
            let (mode, split) = modes_of(self.settings, self.entry, Some(user));
            if mode != PoolMode::Session || split == ReadWriteSplit::Off {
                continue;
            }
            let key = match user.read_write_split {
                Some(_) => "read_write_split",
                None => "pool_mode",
            };
            let message = format!(
                "user \"{name}\" has read_write_split {split} in session pooling of database \"{}\", \
                 where a client keeps one server: set pool_mode = transaction, or read_write_split = off",
                self.name
            );
            let entry = raw.users.get(name);
            let at = entry.map(|(values, at)| values.get(key).map_or(at, |(_, at)| at));
            let Some(at) = at.cloned() else {
                continue;
            };
            let mut error = error_at(&at, ErrorKind::Conflict, message);
            error.key = Some(key.to_owned());
            raw.fail(error);
        }
    }

    pub(super) fn note_any_age(&self, raw: &mut Raw) {
        let global = &self.settings.global;
        let consistency = self
            .entry
            .read_consistency
            .unwrap_or(global.read_consistency);
        let max_lag = self.entry.max_lag.unwrap_or(global.max_lag);
        let max_staleness = pick_time(self.entry.max_staleness, global.max_staleness);
        let is_bounded = max_lag > 0 || max_staleness.is_some();
        if consistency == ReadConsistency::Eventual && !is_bounded && self.uses_replicas() {
            raw.note(format!(
                "database \"{}\": its replicas may be of any age: read_consistency is eventual, \
                 max_staleness and max_lag are 0",
                self.name
            ));
        }
    }

    /// Returns the user settings that pools of this database may use; `None` = of users without an entry.
    fn users(&self) -> Vec<Option<&UserSettings>> {
        let users = &self.settings.users;
        match &self.entry.user {
            Some(forced) => vec![users.get(forced)],
            None => users.values().map(Some).chain([None]).collect(),
        }
    }

    /// Returns the widest split that a pool of this database has.
    fn split(&self) -> Option<ReadWriteSplit> {
        let modes = self.users().into_iter().map(|user| {
            let (_, split) = modes_of(self.settings, self.entry, user);
            split
        });
        modes.max_by_key(|split| match split {
            ReadWriteSplit::Off => 0,
            ReadWriteSplit::Hint => 1,
            ReadWriteSplit::Auto => 2,
        })
    }

    fn is_split(&self) -> bool {
        self.split()
            .is_some_and(|split| split != ReadWriteSplit::Off)
    }

    /// True if sessions or reads may run on replicas.
    fn uses_replicas(&self) -> bool {
        self.is_split() || !self.entry.target.needs_primary()
    }
}

/// Returns pool mode and split of the pools of a user.
fn modes_of(
    settings: &Settings,
    entry: &Database,
    user: Option<&UserSettings>,
) -> (PoolMode, ReadWriteSplit) {
    let global = &settings.global;
    let mode = user.and_then(|own| own.pool_mode).or(entry.pool_mode);
    let split = user.and_then(|own| own.read_write_split);
    (
        mode.unwrap_or(global.pool_mode),
        split
            .or(entry.read_write_split)
            .unwrap_or(global.read_write_split),
    )
}
