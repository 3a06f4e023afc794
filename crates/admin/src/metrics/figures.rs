//! What one page shows, with as many names in it as may be.

use std::collections::{BTreeMap, BTreeSet};

use weir_stats::{PoolRow, SizingRow, Snapshot};

/// Pools with rows of their own. Their names come from whoever logs in; a monitoring system keeps every name that it has
/// ever seen, so beyond this number pools are told together.
pub(super) const POOLS_MAX: usize = 500;
/// Databases and users whose limits are shown.
pub(super) const LIMITS_MAX: usize = 500;
/// Stands for the names that are not told.
pub(super) const OTHER: &str = "(other)";

/// Database and user.
type Name = (String, String);

/// Pools that have rows of their own: whoever came first keeps its row as long as it is there, so that no counter jumps
/// because another pool comes.
pub(super) type Named = BTreeSet<Name>;

/// A snapshot whose names are bounded.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) version: String,
    pub(super) pools: BTreeMap<Name, PoolRow>,
    /// Pins by database and reason.
    pub(super) pins: BTreeMap<(String, &'static str), u64>,
    /// The rest; its pools and databases have moved to the fields above.
    pub(super) rest: Snapshot,
}

impl Figures {
    pub(super) fn new(mut snapshot: Snapshot, version: &str, named: &mut Named) -> Self {
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
                // What several pools have together.
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
            pools,
            pins,
            rest: snapshot,
        }
    }
}
