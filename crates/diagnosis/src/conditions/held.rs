//! Holders of servers with something in common, such as an activity: the oldest, and the application with the most.

use weir_stats::HolderRow;

use crate::facts::PoolFacts;
use crate::text;

/// Holders with something in common.
pub(super) struct Held<'a> {
    pub(super) count: u64,
    pub(super) oldest: &'a HolderRow,
    /// Application with the most of them, and their number.
    pub(super) application: &'a str,
    pub(super) of_application: u64,
}

impl<'a> Held<'a> {
    /// Returns such holders if they make up more than half of the assigned servers of the pool.
    pub(super) fn of(
        pool: &PoolFacts<'a>,
        is_meant: impl Fn(&HolderRow) -> bool,
        age: impl Fn(&HolderRow) -> u64,
    ) -> Option<Self> {
        let held = Self::all(&pool.holders, is_meant, age)?;
        (held.count > pool.row.leased / 2).then_some(held)
    }

    /// Returns all such holders of a pool; none if there are none.
    pub(super) fn all(
        holders: &[&'a HolderRow],
        is_meant: impl Fn(&HolderRow) -> bool,
        age: impl Fn(&HolderRow) -> u64,
    ) -> Option<Self> {
        let meant = holders.iter().copied().filter(|row| is_meant(row));
        let meant: Vec<_> = meant.collect();
        let oldest = meant.iter().copied().max_by_key(|row| age(row))?;
        let names = meant.iter().map(|row| row.application.as_str());
        let (application, of_application) = text::most(names)?;
        Some(Self {
            count: meant.len() as u64,
            oldest,
            application,
            of_application,
        })
    }
}
