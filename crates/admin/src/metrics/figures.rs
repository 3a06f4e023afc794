//! Data of one page, with a bounded number of names.

use std::collections::{BTreeMap, BTreeSet};

use weir_stats::{DigestFigures, PoolRow, SizingRow, Snapshot};

use crate::digests::{Digest, Known};

/// Maximum of pools with rows of their own. Clients choose these names, and a monitoring system keeps every name it
/// has ever seen; further pools share one row.
pub(super) const POOLS_MAX: usize = 500;
/// Maximum of databases and users whose limits are shown.
pub(super) const LIMITS_MAX: usize = 500;
/// Replaces names that have no row of their own.
pub(super) const OTHER: &str = "(other)";

/// Database and user.
type Name = (String, String);

/// Pools that have rows of their own. A pool keeps its row as long as it exists, so that no counter jumps when
/// another pool appears.
pub(super) type Named = BTreeSet<Name>;

/// Snapshot with a bounded number of names.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) version: String,
    pub(super) pools: BTreeMap<Name, PoolRow>,
    /// Pins by database and reason.
    pub(super) pins: BTreeMap<(String, &'static str), u64>,
    /// Statements with rows of their own (`digest_metrics`).
    pub(super) digests: Vec<Digest>,
    /// Figures of all other statements; none without such rows.
    pub(super) other_digests: Option<DigestFigures>,
    /// Rest of the snapshot, without its pools and databases.
    pub(super) rest: Snapshot,
}

impl Figures {
    pub(super) fn new(
        mut snapshot: Snapshot,
        version: &str,
        named: &mut Named,
        known: &Known,
    ) -> Self {
        let digests = snapshot.digests.take().map(|digests| {
            let max = usize::try_from(digests.on_page).unwrap_or(usize::MAX);
            known.top(&digests, max)
        });
        let (digests, other_digests) = digests.unzip();
        let all = std::mem::take(&mut snapshot.pools);
        named.retain(|name| all.contains_key(name));
        for name in all.keys() {
            if named.len() < POOLS_MAX {
                named.insert(name.clone());
            }
        }
        let mut pools = BTreeMap::<Name, PoolRow>::new();
        for (name, row) in all {
            if named.contains(&name) {
                pools.insert(name, row);
            } else {
                let mut row = row;
                let other = pools
                    .entry((OTHER.to_owned(), OTHER.to_owned()))
                    .or_default();
                // Sums of all pools that share the row.
                let (size, servers) = (other.size + row.size, other.servers + row.servers);
                row.pool_mode = "";
                other.merge(row);
                (other.size, other.servers) = (size, servers);
            }
        }
        let mut pins = BTreeMap::new();
        for (database, totals) in std::mem::take(&mut snapshot.databases) {
            let is_named = pools.keys().any(|(name, _)| *name == database);
            let database = if is_named { database } else { OTHER.to_owned() };
            for (reason, count) in totals.pins {
                *pins.entry((database.clone(), reason)).or_default() += count;
            }
        }
        snapshot.limits.truncate(LIMITS_MAX);
        let is_named = |row: &SizingRow| named.contains(&(row.database.clone(), row.user.clone()));
        snapshot.sizings.retain(is_named);
        Self {
            version: version.to_owned(),
            digests: digests.unwrap_or_default(),
            other_digests,
            pools,
            pins,
            rest: snapshot,
        }
    }
}
